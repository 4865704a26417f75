//! The arguments that confine the commands of `bash`: `--sandbox` and its details, for `run`, `resume`, `tool` and `prompt show`.
//!
//! The default is no sandbox: with no network and no write to the caches in the home folder, a first build of most projects fails.
//! With one, sockets are off unless an argument allows them. A change of either default changes what the commands of users may do.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tamtam::tools::{Sandbox, SandboxMode, process::Network};

use super::environment::Environment;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Do not confine commands
    Off,
    /// Confine commands if the system supports it; otherwise run them unconfined and say so in each result
    Preferred,
    /// Confine commands, or do not run them
    Required,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sockets {
    /// No network
    Off,
    /// IPv4 and IPv6
    Ip,
    /// Everything your user may do
    All,
}

impl SandboxArguments {
    /// The sandbox that the arguments name. Paths are seen from the current folder.
    pub(super) fn sandbox(&self, environment: &Environment) -> Sandbox {
        let mut sandbox = Sandbox::new(match self.sandbox {
            None | Some(Mode::Off) => SandboxMode::Off,
            Some(Mode::Preferred) => SandboxMode::Preferred,
            Some(Mode::Required) => SandboxMode::Required,
        });
        sandbox.network = match self.sandbox_network {
            None | Some(Sockets::Off) => Network::Off,
            Some(Sockets::Ip) => Network::Ip,
            Some(Sockets::All) => Network::All,
        };
        sandbox.read.extend(self.sandbox_read.iter().map(|path| environment.absolute(path)));
        sandbox.write.extend(self.sandbox_write.iter().map(|path| environment.absolute(path)));
        sandbox
    }
}
