//! The arguments that confine the commands of `bash`: `--sandbox` and its details, for `run`, `resume`, `tool` and `prompt show`.
//!
//! A session keeps the sandbox that it began with ([`SandboxArguments::resumed`]).
//!
//! The default is no sandbox: with no network and no write to the caches in the home folder, a first build of most projects fails.
//! With one, sockets are off unless an argument allows them. A change of either default changes what the commands of users may do.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tamtam::{
    SessionId,
    tool::{Network, SandboxTerms},
    tools::{Sandbox, SandboxMode, process::SandboxLevel},
};

use super::{environment::Environment, failure::Failure};

/// What commands may reach.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SandboxArguments {
    /// Confine the commands of bash to the workspace; `tamtam doctor` shows what this system supports [default: off]
    #[arg(long, value_name = "MODE", value_enum)]
    sandbox: Option<Mode>,
    /// Network access of confined commands [default: off]
    #[arg(long, value_name = "WHICH", value_enum, requires = "sandbox")]
    sandbox_network: Option<Sockets>,
    /// Additional file or folder that confined commands may read; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    sandbox_read: Vec<PathBuf>,
    /// Additional file or folder that confined commands may write; may be repeated
    #[arg(long, value_name = "PATH", requires = "sandbox")]
    sandbox_write: Vec<PathBuf>,
    /// Let an existing session have a weaker sandbox than it began with; without it such arguments are refused
    #[arg(long, requires = "sandbox")]
    pub(super) sandbox_loosen: bool,
    /// Where this system cannot confine commands, run those that nobody was asked about as they are, in place of asking: nothing but
    /// the names in the rules holds them then
    #[arg(long)]
    run_unheld: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Mode {
    /// Do not confine commands
    Off,
    /// Confine commands if the system supports it; otherwise run them unconfined and say so in each result
    Preferred,
    /// Confine commands, or do not run them
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Sockets {
    /// No network
    Off,
    /// IPv4 and IPv6
    Ip,
    /// Everything your user may do
    All,
}

impl Sockets {
    fn network(self) -> Network {
        match self {
            Sockets::Off => Network::Off,
            Sockets::Ip => Network::Ip,
            Sockets::All => Network::All,
        }
    }
}

impl SandboxArguments {
    /// The sandbox that the arguments name. Paths are seen from the current folder.
    pub(super) fn sandbox(&self, environment: &Environment) -> Sandbox {
        let mut sandbox = Sandbox::new(match self.sandbox {
            None | Some(Mode::Off) => SandboxMode::Off,
            Some(Mode::Preferred) => SandboxMode::Preferred,
            Some(Mode::Required) => SandboxMode::Required,
        });
        sandbox.network = self.sandbox_network.map_or(Network::Off, Sockets::network);
        sandbox.runs_unheld = self.run_unheld;
        // The library replaces a leading `~` with the home folder.
        let seen = |path: &PathBuf| if path.starts_with("~") { path.clone() } else { environment.absolute(path) };
        sandbox.read.extend(self.sandbox_read.iter().map(seen));
        sandbox.write.extend(self.sandbox_write.iter().map(seen));
        sandbox
    }

    /// The sandbox for the session `id`, which has these terms on its tape. `self` is what arguments and files say together, `given`
    /// what the arguments say alone.
    ///
    /// Where the arguments name no mode, the session keeps its sandbox with its paths; a mode or a network that the files name can
    /// only make it stricter. Arguments that name a weaker one are refused, unless `--sandbox-loosen` is with them.
    pub(super) fn resumed(
        &self,
        given: &SandboxArguments,
        (id, kept): (&SessionId, Option<&SandboxTerms>),
        environment: &Environment,
    ) -> Result<Sandbox, Failure> {
        let sandbox = self.sandbox(environment);
        let Some(kept) = kept else { return Ok(sandbox) };
        if given.sandbox.is_none() {
            let mut stricter = kept.clone();
            stricter.required |= self.sandbox == Some(Mode::Required);
            if let Some(sockets) = self.sandbox_network {
                stricter.network = stricter.network.min(sockets.network());
            }
            let mut sandbox = Sandbox::of_terms(Some(&stricter));
            sandbox.runs_unheld = self.run_unheld;
            return Ok(sandbox);
        }
        let terms = sandbox.terms();
        if given.sandbox_loosen || kept.are_kept_by(terms.as_ref()) {
            return Ok(sandbox);
        }
        let wanted = terms.map_or_else(|| "off".to_owned(), |terms| terms.in_words());
        Err(Failure::usage(format!(
            "session {id} began with a sandbox ({}), and this one is weaker ({wanted}): leave --sandbox out to keep it, or add \
             --sandbox-loosen to change it",
            kept.in_words()
        )))
    }

    /// Sets one argument that was not given, from the text of a file: `sandbox.mode`, `sandbox.network`, `sandbox.read` or
    /// `sandbox.write`; of paths one a line. Returns whether it did; an error says what is wrong with the text.
    pub(super) fn set(&mut self, name: &str, text: &str) -> Result<bool, String> {
        fn named<T: ValueEnum>(text: &str) -> Result<T, String> {
            T::from_str(text, false).map_err(|_| format!("{text:?} is none of them"))
        }
        fn fill<T>(slot: &mut Option<T>, value: T) -> Result<bool, String> {
            Ok(slot.is_none() && slot.replace(value).is_none())
        }
        let paths = || text.lines().filter(|line| !line.trim().is_empty()).map(PathBuf::from).collect::<Vec<_>>();
        let fill_paths = |slot: &mut Vec<PathBuf>| {
            let is_free = slot.is_empty();
            if is_free {
                *slot = paths();
            }
            Ok(is_free)
        };
        match name {
            "sandbox.mode" => fill(&mut self.sandbox, named(text)?),
            "sandbox.network" => fill(&mut self.sandbox_network, named(text)?),
            "sandbox.read" => fill_paths(&mut self.sandbox_read),
            "sandbox.write" => fill_paths(&mut self.sandbox_write),
            _ => Err("unknown setting".to_owned()),
        }
    }

    /// As [`SandboxArguments::set`], in the place of what is set, where that is less strict; it never loosens.
    pub(super) fn set_stricter(&mut self, name: &str, text: &str) -> Result<bool, String> {
        let mut other = SandboxArguments::default();
        other.set(name, text)?;
        let is_stricter = match name {
            "sandbox.mode" => other.sandbox > Some(self.sandbox.unwrap_or(Mode::Off)),
            "sandbox.network" => other.sandbox_network.is_some_and(|network| Some(network) < self.sandbox_network),
            _ => false,
        };
        if is_stricter {
            self.sandbox = other.sandbox.or(self.sandbox);
            self.sandbox_network = other.sandbox_network.or(self.sandbox_network);
        }
        Ok(is_stricter)
    }

    /// One of its settings as [`SandboxArguments::set`] takes it; `None` where the arguments are silent.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        fn word(value: &impl ValueEnum) -> Option<String> {
            value.to_possible_value().map(|value| value.get_name().to_owned())
        }
        let paths = |paths: &[PathBuf]| {
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            (!paths.is_empty()).then(|| paths.join("\n"))
        };
        match name {
            "sandbox.mode" => self.sandbox.as_ref().and_then(word),
            "sandbox.network" => self.sandbox_network.as_ref().and_then(word),
            "sandbox.read" => paths(&self.sandbox_read),
            "sandbox.write" => paths(&self.sandbox_write),
            _ => None,
        }
    }
}

/// What a person is told at the start where commands run free although a sandbox is preferred.
pub(super) fn warning(mode: SandboxMode, level: impl FnOnce() -> SandboxLevel) -> Option<String> {
    let level = Some(mode).filter(|mode| *mode == SandboxMode::Preferred).map(|_| level())?;
    let why = level.missing.as_deref().unwrap_or("not known");
    (!level.holds()).then(|| format!("warning: commands run without a sandbox: {why}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn arguments(says: &[(&str, &str)]) -> SandboxArguments {
        let mut arguments = SandboxArguments::default();
        says.iter().for_each(|(name, text)| assert!(arguments.set(&format!("sandbox.{name}"), text).unwrap()));
        arguments
    }

    /// F19: a session that began with a sandbox was resumed without it and said nothing.
    #[test]
    fn a_session_keeps_its_sandbox() {
        let (environment, id) = (Environment::of(&[]), SessionId::new());
        let began = arguments(&[("mode", "required"), ("network", "ip"), ("read", "/srv")]);
        let kept = began.sandbox(&environment).terms();
        let resumed = |files: &[(&str, &str)], given: &[(&str, &str)], loosen: bool| {
            let mut given = arguments(given);
            given.sandbox_loosen = loosen;
            let mut both = given.clone();
            files.iter().for_each(|(name, text)| _ = both.set(&format!("sandbox.{name}"), text).unwrap());
            let sandbox = both.resumed(&given, (&id, kept.as_ref()), &environment);
            sandbox.map(|sandbox| sandbox.terms().map(|terms| terms.in_words())).map_err(|failure| failure.message)
        };
        let own = Some("required, network ip, read /srv".to_owned());
        assert_eq!(resumed(&[], &[], false), Ok(own.clone()));
        assert_eq!(resumed(&[("mode", "preferred"), ("network", "all"), ("write", "/")], &[], false), Ok(own.clone()));
        let off = resumed(&[("mode", "required"), ("network", "off")], &[], false);
        assert_eq!(off, Ok(Some("required, network off, read /srv".to_owned())), "stricter files hold");
        // A file that names only a mode took away the session's network and paths for good.
        assert_eq!(resumed(&[("mode", "required")], &[], false), Ok(own));
        for weaker in [&[("mode", "off")][..], &[("mode", "preferred")], &[("mode", "required"), ("network", "all")]] {
            let refused = resumed(&[], weaker, false).unwrap_err();
            assert!(refused.contains("is weaker") && refused.contains("--sandbox-loosen"), "{refused}");
            assert!(resumed(&[], weaker, true).is_ok());
        }
        assert_eq!(resumed(&[], &[("mode", "off")], true), Ok(None));
    }

    /// `~` was taken for the name of a folder in the current one.
    #[test]
    fn the_home_folder_is_not_looked_for_in_the_current_folder() {
        let (here, arguments) = (Environment::of_process(), arguments(&[("read", "~/x"), ("write", "~/y\nz")]));
        let Sandbox { read, write, .. } = arguments.sandbox(&here);
        assert!(read.contains(&"~/x".into()) && write.contains(&"~/y".into()), "{read:?} {write:?}");
        assert!(write.contains(&here.absolute("z".as_ref())) && !write.contains(&"z".into()), "{write:?}");
    }

    /// F20: in text mode nothing was said where a preferred sandbox could not be held.
    #[test]
    fn a_person_is_told_that_commands_run_free() {
        let none = || SandboxLevel::none("no Landlock");
        let said = Some("warning: commands run without a sandbox: no Landlock".to_owned());
        assert_eq!(warning(SandboxMode::Preferred, none), said);
        assert_eq!((warning(SandboxMode::Off, none), warning(SandboxMode::Required, none)), (None, None));
        assert_eq!(warning(SandboxMode::Preferred, SandboxLevel::probe).is_none(), SandboxLevel::probe().holds());
    }

    /// A project's file may only make the sandbox stricter.
    #[test]
    fn a_stricter_setting_replaces_and_a_weaker_one_does_not() {
        for (own, other, expected) in [
            (&[][..], ("mode", "required"), Some("required")),
            (&[("mode", "preferred")], ("mode", "required"), Some("required")),
            (&[("mode", "required")], ("mode", "off"), Some("required")),
            (&[("network", "ip")], ("network", "off"), Some("off")),
            (&[("network", "ip")], ("network", "all"), Some("ip")),
            (&[], ("network", "all"), None),
        ] {
            let (mut own, name) = (arguments(own), format!("sandbox.{}", other.0));
            own.set_stricter(&name, other.1).unwrap();
            assert_eq!(own.get(&name).as_deref(), expected, "{other:?}");
        }
    }
}
