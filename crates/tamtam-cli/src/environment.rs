//! Reads the process environment once, and makes from it what the commands share: the folders of store, workspace and
//! configuration, the tools, the hook that takes out keys, and the process watcher.
//!
//! A wrong folder is a usage error that names the argument to correct it. Nothing here creates a folder.
//!
//! A change must keep this: the other code of this crate takes variables and folders from [`Environment`] only. The exceptions are
//! `TAMTAM_LOG`, which `main.rs` reads, and the system's folder for temporary files.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use tamtam::{
    hook::Redact,
    tool::Toolbox,
    tools::{
        Sandbox, Setup,
        process::{WatchBy, watch},
    },
};

use super::{
    config,
    failure::{Exit, Failure},
    note,
};

/// The variable with the database of `serve`, whose connection may have a password.
pub(super) const POSTGRES: &str = "TAMTAM_SERVE_POSTGRES";

/// The endings of the names of variables whose values are taken out of the output of tools.
const SECRET_ENDINGS: [&str; 8] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS", "_PAT"];

/// The variables and the current folder of the process, read once at its start.
// No `Debug`: it would print keys.
#[derive(Clone, Default)]
pub(super) struct Environment {
    variables: BTreeMap<String, String>,
    current_dir: Option<PathBuf>,
}

impl Environment {
    /// Reads those of this process. A variable that is not UTF-8 is left out.
    pub(super) fn of_process() -> Environment {
        let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = std::env::vars_os().filter_map(readable).collect();
        Environment { variables, current_dir: std::env::current_dir().ok() }
    }

    /// The trimmed value of a variable; a blank value counts as not set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// All variables, for a program that says which it needs.
    pub(super) fn all(&self) -> Vec<(String, String)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    #[cfg(test)]
    pub(super) fn of(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { variables, current_dir: None }
    }

    /// The folder of the tapes: the named folder, else that of the user's configuration, else `tamtam` in the user's data folder. A
    /// mistake in the configuration is a warning.
    pub(super) fn store(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        if let Some(given) = given {
            // Absolute, because tools get paths in this folder.
            return Ok(self.absolute(given));
        }
        let (store, mistake) = config::user_store(self);
        if let Some(mistake) = mistake {
            note(&format!("warning: {}; of that file only `store` is used here", mistake.message));
        }
        store
            .or_else(|| self.data())
            .ok_or_else(|| Failure::usage("no folder for the tapes is known: name one with --store or set HOME"))
    }

    /// The folder of what `tamtam` keeps for the user; `None` where the environment names no place.
    pub(super) fn data(&self) -> Option<PathBuf> {
        self.user_folder("XDG_DATA_HOME", ".local/share")
    }

    /// The folder of the user's configuration, whether it is there or not; `None` where the environment names no place.
    pub(super) fn config_folder(&self) -> Option<PathBuf> {
        self.user_folder("XDG_CONFIG_HOME", ".config")
    }

    fn user_folder(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let named = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = named.or_else(|| self.get("HOME").map(|home| Path::new(home).join(in_home)));
        folder.map(|folder| folder.join("tamtam"))
    }

    /// The path from the current folder.
    pub(super) fn absolute(&self, path: &Path) -> PathBuf {
        self.current_dir.as_deref().unwrap_or(Path::new("")).join(path)
    }

    /// All built-in tools, without a sandbox.
    pub(super) fn tools(&self) -> Toolbox {
        self.tools_in(Sandbox::off())
    }

    /// All built-in tools. Their commands get the user's variables; the tools leave out those whose name looks secret. Those whose
    /// value is a key are left out here.
    pub(super) fn tools_in(&self, sandbox: Sandbox) -> Toolbox {
        let redact = self.redact();
        let is_plain = |(name, value): &(&String, &String)| *name != POSTGRES && redact.text(value) == **value;
        let variables = self.variables.iter().filter(is_plain).map(|(name, value)| (name.into(), value.into()));
        let setup = Setup::new().environment(variables).sandbox(sandbox);
        match self.get("HOME") {
            Some(home) => setup.home(home.into()).full(),
            None => setup.full(),
        }
    }

    /// The hook that takes keys out of the output of tools: those with a known shape, and the values of secret variables.
    pub(super) fn redact(&self) -> Redact {
        let is_named_so =
            |name: &str| name == POSTGRES || SECRET_ENDINGS.iter().any(|ending| name.to_uppercase().ends_with(ending));
        let secrets = self.variables.iter().filter(|(name, value)| is_named_so(name) && is_secret(value.trim()));
        Redact::new().values(secrets.map(|(_, value)| value))
    }

    /// The watcher, which ends the processes of calls if this process is killed: this program again, by `/proc/self/exe`, so that a
    /// replaced file changes nothing; a shell script if that path does not exist.
    pub(super) fn watch() -> WatchBy {
        let itself = Path::new("/proc/self/exe");
        let program = if itself.exists() { itself.to_owned() } else { return WatchBy::Shell };
        WatchBy::Program { program, arguments: vec!["__watch".into()] }
    }

    /// How long appends are held back, for the test of the tape-first rule.
    #[cfg(feature = "fault-injection")]
    pub(super) fn held_back(&self) -> Option<std::time::Duration> {
        let ms = self.get("TAMTAM_FAULT_HOLD_APPENDS_MS")?.parse().ok()?;
        Some(std::time::Duration::from_millis(ms))
    }

    /// A kill of this process at a crash point, as by `kill -9`, once a file is there: for tests of what outlives the program.
    #[cfg(feature = "fault-injection")]
    pub(super) fn faults(&self) -> tamtam::runtime::Faults {
        let (Some(at), Some(when)) = (self.get("TAMTAM_FAULT_KILL_AT"), self.get("TAMTAM_FAULT_KILL_WHEN")) else {
            return tamtam::runtime::Faults::default();
        };
        let (at, when) = (at.to_owned(), PathBuf::from(when));
        tamtam::runtime::Faults::new(move |point, _| {
            if point == at && when.exists() {
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            }
        })
    }

    /// The folder to work in: the named folder, else the current one. The result is absolute, and is an existing folder.
    pub(super) fn workspace(&self, given: Option<&Path>) -> Result<PathBuf, Failure> {
        let path = match (given, &self.current_dir) {
            (Some(given), _) => given,
            (None, Some(current)) => current,
            (None, None) => return Err(Failure::usage("the current folder is gone: choose one with --workspace")),
        };
        let refused = |why: String| {
            Failure::usage(format!("cannot work in {}: {why}: choose a folder with --workspace", path.display()))
        };
        let found = std::fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
        if found.is_dir() { Ok(found) } else { Err(refused("it is not a folder".to_owned())) }
    }
}

/// Whether a value is a secret, and no word, path or switch: it is long, or has letters and digits.
fn is_secret(value: &str) -> bool {
    let any = |is: fn(char) -> bool| value.chars().any(is);
    let is_mixed = any(char::is_alphabetic) && any(|c| c.is_ascii_digit());
    !value.starts_with(['/', '~', '.'])
        && !any(char::is_whitespace)
        && (value.len() >= 20 || value.len() >= 8 && is_mixed)
}

/// Runs as the watcher of another `tamtam` process: see [`Environment::watch`].
pub(super) fn keep_watch(owner: &str) -> Result<Exit, Failure> {
    match watch(owner) {
        Some(swept) if swept.left.is_empty() => Ok(Exit::Done),
        Some(_) => Ok(Exit::Failed),
        None => Err(Failure::usage("no process owner has that id")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn the_store_is_the_named_folder_or_lies_in_the_data_folder() {
        let both = Environment::of(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/u")]);
        assert_eq!(both.store(Some(Path::new("here"))).unwrap(), Path::new("here"));
        assert_eq!(both.store(None).unwrap(), Path::new("/data/tamtam"));
        let home = Environment::of(&[("XDG_DATA_HOME", "relative"), ("HOME", "/home/u")]);
        assert_eq!(home.store(None).unwrap(), Path::new("/home/u/.local/share/tamtam"));
        assert_eq!(Environment::default().store(None).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn the_values_of_secret_variables_are_redacted() {
        let environment = Environment::of(&[
            ("MY_SERVICE_KEY", " hunter2hunter2\n"),
            ("DB_PASSWORD", "production"),
            ("SSH_KEY", "/home/u/.ssh/id_ed25519"),
            ("EDITOR", "vim4vim4vim4"),
        ]);
        let text = "hunter2hunter2 in production, /home/u/.ssh/id_ed25519, vim4vim4vim4";
        assert_eq!(environment.redact().text(text), text.replace("hunter2hunter2", "[redacted: secret]"));
    }

    /// A switch in a variable that is named like a key garbled each text with that word in it.
    #[test]
    fn short_values_and_switches_are_no_secrets() {
        for value in ["1", "on", "true", "abc", "abc123", "disabled", "production"] {
            let environment = Environment::of(&[("MY_TOKEN", value)]);
            let text = format!("{value} x{value}y MY_TOKEN={value}");
            assert_eq!(environment.redact().text(&text), text);
        }
    }

    #[test]
    fn a_workspace_must_be_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let environment = Environment::default();
        assert!(environment.workspace(Some(folder.path())).is_ok());
        for bad in [file, folder.path().join("none")] {
            let failure = environment.workspace(Some(&bad)).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains("--workspace"), "{}", failure.message);
        }
    }
}
