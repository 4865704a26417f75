//! [`ServerConfig`]: what a host says about one server: its name, how it is started, its limits, and what is believed of it.
//!
//! Plain values: nothing here starts a program or reads an environment. Two configurations with the same values are two servers if
//! their names differ.

use std::{ffi::OsString, path::PathBuf, time::Duration};

/// The longest name of a server, in bytes: with `mcp_` and a separator it leaves 31 for the tool.
pub(crate) const NAME_MAX: usize = 28;

/// One server: its name, its program and its limits.
///
/// ```
/// use std::time::Duration;
/// use tamtam_mcp::ServerConfig;
///
/// let config = ServerConfig::stdio("memory", "/usr/bin/node").arguments(["memory.js"]).idle(Duration::from_secs(60));
/// assert_eq!(config.name, "memory");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerConfig {
    /// Its name: 1 to 28 of `a-z A-Z 0-9 -`. No underscore, so that `mcp_a_*` is the server `a` and never a server `a_b`.
    pub name: String,
    /// The program that is the server.
    pub program: Program,
    /// How long the process is kept although no call uses it: 5 minutes by default.
    pub idle: Duration,
    /// How long a start may take, from the program to the list of its tools: 30 s by default.
    pub start_limit: Duration,
    /// How long a call may take: 5 minutes by default. The time that it waits for a person does not count.
    pub call_limit: Duration,
    /// What the server says about its tools, and whether it is believed.
    pub hints: Hints,
    /// The only tools that are offered, by the server's names; `None`, the default, for all.
    pub only: Option<Vec<String>>,
    /// Tools that are not offered, by the server's names.
    pub except: Vec<String>,
    /// The longest line that the server may write, in bytes: 8 MiB by default. A longer one ends the server.
    pub line_bytes_max: usize,
    /// How many tools of the server are offered: 128 by default.
    pub tools_max: usize,
    /// How many messages that answer nothing the server may send in a second: 5,000 by default; progress counts too. One more ends
    /// the server.
    pub unasked_max: u32,
}

/// A program that speaks MCP on its standard input and output.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Program {
    /// The program: an absolute path, or a name that is looked up in the `PATH` of its environment.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment. Nothing of the host's environment is added, `PATH` neither; see [`well_known`].
    pub environment: Vec<(String, String)>,
    /// The folder that it starts in; `None`: the root of the file system.
    pub folder: Option<PathBuf>,
}

/// Whether the annotations of a server's tools decide anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hints {
    /// They decide nothing: after a crash no call is made again, and calls run one by one.
    #[default]
    Ignored,
    /// The host vouches for the server: a call of a tool that says it only reads may run beside others, and is made again if a crash
    /// cut it off; a tool that says it is idempotent is called again too.
    Believed,
}

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadConfig {
    /// The name is not one.
    #[error("a server is called {name:?}: a name is 1 to {NAME_MAX} letters of a-z A-Z 0-9 and -")]
    Name {
        /// The name.
        name: String,
    },
    /// Two servers have one name, in upper or lower case.
    #[error("two servers are called {name:?}: give one of them another name")]
    Twice {
        /// The name.
        name: String,
    },
    /// There is no program.
    #[error("the server {name:?} has no command")]
    NoCommand {
        /// The server's name.
        name: String,
    },
}

impl ServerConfig {
    /// A server that is a program of this machine.
    #[must_use]
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> ServerConfig {
        ServerConfig {
            name: name.into(),
            program: Program { command: command.into(), ..Program::default() },
            idle: Duration::from_secs(300),
            start_limit: Duration::from_secs(30),
            call_limit: Duration::from_secs(300),
            hints: Hints::default(),
            only: None,
            except: Vec::new(),
            line_bytes_max: 8 * 1024 * 1024,
            tools_max: 128,
            unasked_max: 5_000,
        }
    }

    /// Sets the arguments of the program.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> ServerConfig {
        self.program.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Adds variables to the environment of the program. A later value of a name replaces an earlier one.
    #[must_use]
    pub fn environment(
        mut self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> ServerConfig {
        for (name, value) in variables {
            let name = name.into();
            self.program.environment.retain(|(known, _)| *known != name);
            self.program.environment.push((name, value.into()));
        }
        self
    }

    /// Sets the folder that the program starts in.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> ServerConfig {
        self.program.folder = Some(folder.into());
        self
    }

    /// Sets how long the process is [kept](#structfield.idle) without a call.
    #[must_use]
    pub fn idle(self, idle: Duration) -> ServerConfig {
        ServerConfig { idle, ..self }
    }

    /// Sets how long a [start](#structfield.start_limit) may take.
    #[must_use]
    pub fn start_limit(self, start_limit: Duration) -> ServerConfig {
        ServerConfig { start_limit, ..self }
    }

    /// Sets how long a [call](#structfield.call_limit) may take.
    #[must_use]
    pub fn call_limit(self, call_limit: Duration) -> ServerConfig {
        ServerConfig { call_limit, ..self }
    }

    /// Sets whether the server's [hints](#structfield.hints) are believed.
    #[must_use]
    pub fn hints(self, hints: Hints) -> ServerConfig {
        ServerConfig { hints, ..self }
    }

    /// Offers [these tools only](#structfield.only).
    #[must_use]
    pub fn only(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> ServerConfig {
        self.only = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Offers all tools [but these](#structfield.except).
    #[must_use]
    pub fn except(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> ServerConfig {
        self.except = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets how long a [line](#structfield.line_bytes_max) may be.
    #[must_use]
    pub fn line_bytes_max(self, line_bytes_max: usize) -> ServerConfig {
        ServerConfig { line_bytes_max, ..self }
    }

    /// Sets how many [tools](#structfield.tools_max) are offered.
    #[must_use]
    pub fn tools_max(self, tools_max: usize) -> ServerConfig {
        ServerConfig { tools_max, ..self }
    }

    /// Sets how many messages may come [unasked](#structfield.unasked_max) in a second.
    #[must_use]
    pub fn unasked_max(self, unasked_max: u32) -> ServerConfig {
        ServerConfig { unasked_max, ..self }
    }

    /// Whether a server can be made of it. Looks at no disk.
    pub(crate) fn check(&self) -> Result<(), BadConfig> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if !(1..=NAME_MAX).contains(&self.name.len()) || !self.name.chars().all(is_letter) {
            return Err(BadConfig::Name { name: self.name.clone() });
        }
        match self.program.command.is_empty() {
            true => Err(BadConfig::NoCommand { name: self.name.clone() }),
            false => Ok(()),
        }
    }
}

/// Those variables of an environment that a program needs to find its files and to speak the user's language: `PATH`, `HOME`,
/// `USER`, `LOGNAME`, `SHELL`, `TERM`, `LANG`, `LC_ALL`, `TZ`, `TMPDIR` and the `XDG_` folders. No key and no token is among them.
pub fn well_known(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    const NAMES: &[&str] =
        &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"];
    let texts =
        environment.into_iter().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let is_known = |name: &str| NAMES.contains(&name) || (name.starts_with("XDG_") && name.ends_with("_HOME"));
    texts.filter(|(name, _)| is_known(name)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// E-08: `mcp_a_*` must be one server, so no name has an underscore.
    #[test]
    fn a_name_has_no_underscore_and_fits() {
        for name in ["", "a_b", "a b", "a/b", "\u{202e}a", &"a".repeat(29)] {
            let bad = ServerConfig::stdio(name, "/bin/true").check().unwrap_err();
            assert_eq!(bad, BadConfig::Name { name: name.to_owned() });
        }
        assert_eq!(ServerConfig::stdio("A-1", "/bin/true").check(), Ok(()));
        let empty = ServerConfig::stdio("a", "").check();
        assert_eq!(empty, Err(BadConfig::NoCommand { name: "a".to_owned() }));
    }

    /// K05: a server sees the variables that it was given, and no key of the host's.
    #[test]
    fn no_secret_is_well_known() {
        let host = [("PATH", "/bin"), ("OPENAI_API_KEY", "k"), ("XDG_CONFIG_HOME", "/c"), ("LD_PRELOAD", "x")];
        let kept = well_known(host.map(|(name, value)| (name.into(), value.into())));
        let config = ServerConfig::stdio("a", "b").environment(kept).environment([("PATH", "/usr/bin")]);
        let expected = [("XDG_CONFIG_HOME", "/c"), ("PATH", "/usr/bin")];
        assert_eq!(config.program.environment, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
