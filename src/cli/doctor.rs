//! `tamtam doctor`: what this system has of what the binary needs, one line each.
//!
//! A change must keep this: no file or folder is made, no request is sent, and of a key only the name of its variable is shown. A
//! line that begins with `no` or `none` says why, or what to do about it. Of the lines, only a store that cannot be written
//! makes the command fail; all else is somebody's choice.

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use rustix::fs::{Access, access};
use tamtam::{model::PROVIDERS, tools::process::SandboxLevel};

use super::{
    abort,
    arguments::StoreArguments,
    environment::Environment,
    failure::{Exit, Failure},
    models::key_of,
    print,
};

/// Carries out the command.
pub(super) fn doctor(given: &StoreArguments, environment: &Environment) -> Result<Exit, Failure> {
    let store = environment.store(given.store.as_deref())?;
    let turns = abort::cut_off(&store);
    let (writable, store) = writable(&store);
    let lines = [
        ("store", store),
        ("turns", turns),
        ("keys", keys(environment)),
        ("terminal", terminal(std::io::stdin().is_terminal(), std::io::stderr().is_terminal())),
        ("sandbox", sandbox(&SandboxLevel::probe())),
    ];
    let text: String = lines.iter().map(|(what, said)| format!("{what:9} {said}\n")).collect();
    print(&text)?;
    Ok(if writable { Exit::Done } else { Exit::Failed })
}

/// Whether the store can be written, or made, and what is said of it.
fn writable(store: &Path) -> (bool, String) {
    let shown = store.display();
    let nearest: Option<PathBuf> = store.ancestors().find(|folder| folder.exists()).map(Path::to_path_buf);
    let Some(nearest) = nearest else { return (false, format!("no: {shown} cannot be made: choose one with --store")) };
    match access(&nearest, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !nearest.is_dir() => {
            (false, format!("no: {} is not a folder: choose one with --store", nearest.display()))
        }
        Err(error) => (false, format!("no: {} cannot be written: {error}: choose one with --store", nearest.display())),
        Ok(()) if nearest == store => (true, format!("{shown} can be written")),
        Ok(()) => (true, format!("{shown} is made with the first session")),
    }
}

fn keys(environment: &Environment) -> String {
    let found = PROVIDERS.iter().filter_map(|provider| key_of(provider.key_variables, environment));
    let mut names: Vec<_> = found.map(|(name, _)| name).collect();
    names.dedup();
    if names.is_empty() {
        return "none: set one such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or run a local server".to_owned();
    }
    names.join(", ")
}

fn terminal(stdin: bool, stderr: bool) -> String {
    match (stdin, stderr) {
        (true, true) => "yes: calls that need an answer are asked about".to_owned(),
        _ => "no: nobody can be asked, so `tamtam run` goes by the profile headless unless --permission names another"
            .to_owned(),
    }
}

fn sandbox(level: &SandboxLevel) -> String {
    match level.holds() {
        true => format!("{level}; off unless --sandbox says otherwise"),
        false => level.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_store_is_there_or_can_be_made_or_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let said = |path: PathBuf| writable(&path);
        assert!(said(folder.path().to_path_buf()).1.ends_with("can be written"));
        let new = said(folder.path().join("a/b"));
        assert!(new.0 && new.1.ends_with("made with the first session"), "{}", new.1);
        assert!(!folder.path().join("a").exists());
        std::fs::write(folder.path().join("file"), "").unwrap();
        let refused = said(folder.path().join("file/store"));
        assert!(!refused.0 && refused.1.contains("--store"), "{}", refused.1);
    }

    #[test]
    fn keys_are_shown_by_name_only() {
        let environment = Environment::of(&[("OPENAI_API_KEY", "sk-value"), ("GROQ_API_KEY", "gsk-value")]);
        let said = keys(&environment);
        assert!(said.contains("OPENAI_API_KEY") && said.contains("GROQ_API_KEY") && !said.contains("value"), "{said}");
        assert!(keys(&Environment::of(&[])).starts_with("none: set"));
    }

    #[test]
    fn what_is_held_of_a_sandbox_is_said_and_why_nothing_is() {
        assert_eq!(sandbox(&SandboxLevel::none("the kernel has no Landlock")), "none: the kernel has no Landlock");
        let level = SandboxLevel::probe();
        assert_eq!(sandbox(&level).starts_with("files"), level.holds());
    }
}
