//! [`ServerConfig`]: what a host says about one server: its name, how it is reached, its limits, and what is believed of it.
//!
//! Plain values: nothing here starts a program, opens a socket or reads an environment. Two configurations with the same values are two servers if
//! their names differ.

use std::{ffi::OsString, fmt, path::PathBuf, sync::Arc, time::Duration};

use tamtam::model::{BoxFuture, HttpRequest, Secret};

/// The longest name of a server, in bytes: with `mcp_` and a separator it leaves 31 for the tool.
pub(crate) const NAME_MAX: usize = 28;

/// One server: its name, its program or address, and its limits.
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
    /// How it is reached.
    pub transport: Transport,
    /// How long its process, or its session at an address, is kept although no call uses it: 5 minutes by default.
    pub idle: Duration,
    /// How long a start may take, from the program or the first request to the list of its tools: 30 s by default.
    pub start_limit: Duration,
    /// How long a call may take: 5 minutes by default. The time that it waits for a person does not count.
    pub call_limit: Duration,
    /// What the server says about its tools, and whether it is believed.
    pub hints: Hints,
    /// The only tools that are offered, by the server's names; `None`, the default, for all.
    pub only: Option<Vec<String>>,
    /// Tools that are not offered, by the server's names.
    pub except: Vec<String>,
    /// The longest line that the server may write, in bytes: 8 MiB by default. A longer one ends a program. At an address it is the
    /// longest event, and the longest answer; a longer one costs its call.
    pub line_bytes_max: usize,
    /// How many tools of the server are offered: 128 by default.
    pub tools_max: usize,
    /// How many messages that answer nothing the server may send in a second: 5,000 by default; progress counts too. One more ends
    /// the server.
    pub unasked_max: u32,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Transport {
    /// It is a program of this machine.
    Stdio(Program),
    /// It listens at an address (*streamable HTTP*).
    Http(Address),
}

/// An address at which a server speaks MCP.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Address {
    /// The address: `http://HOST…` or `https://HOST…`. What it answers with a redirect is refused; none is followed.
    pub url: String,
    /// Headers of each request, such as `authorization`. Their values are shown nowhere.
    pub headers: Vec<(String, Secret)>,
    /// Where the host makes headers anew for each request.
    pub(crate) fresh: Option<FreshHeaders>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A user, a password or a query may be a key.
        let request = HttpRequest::get(&self.url);
        f.debug_struct("Address").field("url", &request).field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Headers, or why there are none.
type Headers = Result<Vec<(String, Secret)>, String>;

/// A function of the host that makes headers.
#[derive(Clone)]
pub(crate) struct FreshHeaders(Arc<dyn Fn() -> BoxFuture<'static, Headers> + Send + Sync>);

impl FreshHeaders {
    pub(crate) fn ask(&self) -> BoxFuture<'static, Headers> {
        (self.0)()
    }
}

impl fmt::Debug for FreshHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FreshHeaders")
    }
}

impl PartialEq for FreshHeaders {
    fn eq(&self, other: &FreshHeaders) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
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
    /// The address is none.
    #[error("the address of the server {name:?} is not http://HOST or https://HOST")]
    NoAddress {
        /// The server's name.
        name: String,
    },
}

impl ServerConfig {
    fn new(name: String, transport: Transport) -> ServerConfig {
        ServerConfig {
            name,
            transport,
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

    /// A server that is a program of this machine.
    #[must_use]
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> ServerConfig {
        ServerConfig::new(name.into(), Transport::Stdio(Program { command: command.into(), ..Program::default() }))
    }

    /// A server that listens at an address.
    ///
    /// ```
    /// use tamtam::model::Secret;
    /// use tamtam_mcp::ServerConfig;
    ///
    /// let config = ServerConfig::http("docs", "https://docs.example.com/mcp").bearer("sk-canary");
    /// assert!(!format!("{config:?}").contains("canary"));
    /// ```
    #[must_use]
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> ServerConfig {
        let address = Address { url: url.into(), headers: Vec::new(), fresh: None };
        ServerConfig::new(name.into(), Transport::Http(address))
    }

    fn program(mut self, change: impl FnOnce(&mut Program)) -> ServerConfig {
        if let Transport::Stdio(program) = &mut self.transport {
            change(program);
        }
        self
    }

    fn address(mut self, change: impl FnOnce(&mut Address)) -> ServerConfig {
        if let Transport::Http(address) = &mut self.transport {
            change(address);
        }
        self
    }

    /// Sets the arguments of the program. Nothing for a server at an address.
    #[must_use]
    pub fn arguments(self, arguments: impl IntoIterator<Item = impl Into<String>>) -> ServerConfig {
        self.program(|program| program.arguments = arguments.into_iter().map(Into::into).collect())
    }

    /// Adds variables to the environment of the program. A later value of a name replaces an earlier one. Nothing for a server at an
    /// address.
    #[must_use]
    pub fn environment(
        self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> ServerConfig {
        self.program(|program| {
            for (name, value) in variables {
                let name = name.into();
                program.environment.retain(|(known, _)| *known != name);
                program.environment.push((name, value.into()));
            }
        })
    }

    /// Sets the folder that the program starts in. Nothing for a server at an address.
    #[must_use]
    pub fn folder(self, folder: impl Into<PathBuf>) -> ServerConfig {
        self.program(|program| program.folder = Some(folder.into()))
    }

    /// Adds a header to each request to the address. A later value of a name replaces an earlier one. Nothing for a program.
    #[must_use]
    pub fn header(self, name: impl Into<String>, value: impl Into<Secret>) -> ServerConfig {
        self.address(|address| {
            let name = name.into();
            address.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
            address.headers.push((name, value.into()));
        })
    }

    /// Sends a token with each request to the address, as `authorization: Bearer TOKEN`. Nothing for a program.
    #[must_use]
    pub fn bearer(self, token: impl Into<Secret>) -> ServerConfig {
        let value = format!("Bearer {}", token.into().reveal());
        self.header("authorization", value)
    }

    /// Asks the host for headers before each request to the address, after those that stand here: for tokens that expire. An answer
    /// that takes over 10 s, and an error, which says why in words without secrets, fail that request. Nothing for a program.
    #[must_use]
    pub fn fresh_headers(
        self,
        make: impl Fn() -> BoxFuture<'static, Result<Vec<(String, Secret)>, String>> + Send + Sync + 'static,
    ) -> ServerConfig {
        self.address(|address| address.fresh = Some(FreshHeaders(Arc::new(make))))
    }

    /// Sets how long its process or session is [kept](#structfield.idle) without a call.
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
        let name = || self.name.clone();
        match &self.transport {
            Transport::Stdio(program) if program.command.is_empty() => Err(BadConfig::NoCommand { name: name() }),
            Transport::Http(address) if !is_address(&address.url) => Err(BadConfig::NoAddress { name: name() }),
            _ => Ok(()),
        }
    }
}

/// Whether the scheme is one of HTTP's and a host follows it. The client judges the rest.
fn is_address(url: &str) -> bool {
    let url = url.trim().to_ascii_lowercase();
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']))
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
        for url in ["", "host/mcp", "ftp://host", "https://", "http:///mcp"] {
            let bad = ServerConfig::http("a", url).check();
            assert_eq!(bad, Err(BadConfig::NoAddress { name: "a".to_owned() }), "{url}");
        }
        assert_eq!(ServerConfig::http("a", "HTTPS://host").check(), Ok(()));
    }

    /// K05: a server sees the variables that it was given, and no key of the host's.
    #[test]
    fn no_secret_is_well_known() {
        let host = [("PATH", "/bin"), ("OPENAI_API_KEY", "k"), ("XDG_CONFIG_HOME", "/c"), ("LD_PRELOAD", "x")];
        let kept = well_known(host.map(|(name, value)| (name.into(), value.into())));
        let config = ServerConfig::stdio("a", "b").environment(kept).environment([("PATH", "/usr/bin")]);
        let expected = [("XDG_CONFIG_HOME", "/c"), ("PATH", "/usr/bin")];
        let Transport::Stdio(program) = config.transport else { unreachable!() };
        assert_eq!(program.environment, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
