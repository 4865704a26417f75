//! Confines a program: what it, and all that it starts, may reach of the files, the network and other processes.
//!
//! The kernel does it (Linux: Landlock for files and signals, seccomp for sockets and a list of system calls). Both bind a thread
//! and all that it starts, permanently. So a confined program is started by its own thread: the thread confines itself, starts
//! the program, and ends. No other thread of the host is bound, no code runs between `fork` and `exec`, and no `unsafe` of ours
//! is needed (docs/decisions/0031).
//!
//! [`SandboxLevel::probe`] says what this system can hold. A program whose files and network cannot be held as its [`Confinement`]
//! says is not started: a change must not let one run with less. Signals are held only where the kernel can (Linux 6.12). Without
//! the feature `sandbox`, and on any other system than Linux on x86-64, aarch64 or riscv64, nothing can be held.

#[cfg(all(
    feature = "sandbox",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
mod linux;

#[cfg(not(all(
    feature = "sandbox",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
mod linux {
    //! The stand-in for systems without a sandbox.

    use super::{Confinement, SandboxLevel};

    pub(super) fn restrict(_: &Confinement) -> Result<SandboxLevel, String> {
        Err(if cfg!(feature = "sandbox") {
            "there is a sandbox on Linux only (x86-64, aarch64, riscv64)".to_owned()
        } else {
            "this build is without the feature `sandbox`".to_owned()
        })
    }
}

use std::{fmt, io, path::PathBuf};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

use crate::process::Folder;
use crate::words::sandbox::Network;

/// From this version on Landlock keeps signals inside of the sandbox.
const SIGNALS_SINCE: u32 = 6;

/// What a confined program may reach. The kernel refuses everything else, to the program and to all that it starts.
///
/// Not confined: the names, sizes and times of files (`stat` works everywhere), and their mode, owner, times and attributes, which
/// the system lets their owner change (`chmod`, `chown`, `touch -d`, `setfattr`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confinement {
    /// Files, and folders with all beneath them, that may be read and executed. Missing ones are left out.
    pub read: Vec<PathBuf>,
    /// Files, and folders with all beneath them, that may also be written, made and removed; no devices can be made there.
    /// Missing ones are left out.
    pub write: Vec<PathBuf>,
    /// Files, and folders with all beneath them, that may be read and not executed. Missing ones are left out.
    pub look: Vec<PathBuf>,
    /// Folders whose names may be listed, with those of all folders beneath them.
    pub list: Vec<PathBuf>,
    /// Whether what lies in [`write`](Confinement::write) may not be executed.
    pub runs_nothing_written: bool,
    /// Which sockets may be made.
    pub network: Network,
}

/// What the kernel can hold of a sandbox, as a probe found it.
///
/// The text (`Display`) says it in one line.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SandboxLevel {
    /// The version of Landlock's interface; 0 if there is none.
    pub landlock: u32,
    /// Why there is no sandbox; `None` if files and network are confined.
    pub missing: Option<String>,
}

impl SandboxLevel {
    /// Confines a thread for a try, and says what came of it. Blocks, for less than a millisecond as a rule.
    #[must_use]
    pub fn probe() -> SandboxLevel {
        let thread = std::thread::Builder::new().name("tamtam probe".to_owned());
        let tried = thread.spawn(|| linux::restrict(&Confinement::default()));
        let tried = tried.map_err(|error| format!("no thread could be started: {error}"));
        let tried = tried.and_then(|thread| thread.join().unwrap_or_else(|_| Err("the probe panicked".to_owned())));
        tried.unwrap_or_else(SandboxLevel::none)
    }

    /// A system without a sandbox, and why.
    #[must_use]
    pub fn none(why: impl Into<String>) -> SandboxLevel {
        SandboxLevel { landlock: 0, missing: Some(why.into()) }
    }

    /// Whether files and network are held.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.missing.is_none()
    }

    /// Whether signals to processes outside of the sandbox are refused too (Linux 6.12).
    #[must_use]
    pub(crate) fn holds_signals(&self) -> bool {
        self.holds() && self.landlock >= SIGNALS_SINCE
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            Some(why) => write!(f, "none: {why}"),
            None if self.holds_signals() => {
                write!(f, "files, network and signals (Landlock {}, seccomp)", self.landlock)
            }
            None => write!(f, "files and network, not signals (Landlock {}, seccomp)", self.landlock),
        }
    }
}

/// Starts a command that is confined. `folder` is where the command starts, and stays open until then.
///
/// Dropping the future does not stop the start; the command is then killed as soon as it is started.
pub(super) async fn spawn(mut command: Command, folder: Folder, confinement: Confinement) -> io::Result<Child> {
    let runtime = Handle::current();
    let (answer, spawned) = oneshot::channel();
    // Never a thread of a pool: what binds it is never taken off again.
    std::thread::Builder::new().name("tamtam sandbox".to_owned()).spawn(move || {
        let _runtime = runtime.enter();
        let restricted = linux::restrict(&confinement);
        let restricted = restricted.map_err(|why| io::Error::other(format!("the sandbox cannot be put up: {why}")));
        let child = restricted.and_then(|_| command.spawn());
        // The command holds the writing end of the output's pipe.
        drop((command, folder));
        if let Err(Ok(mut unwanted)) = answer.send(child) {
            // Nothing more can be done about a program that cannot be killed.
            drop(unwanted.start_kill());
        }
    })?;
    spawned.await.unwrap_or_else(|_| Err(io::Error::other("the thread of the sandbox ended without an answer")))
}
