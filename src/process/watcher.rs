//! The watcher: a small process next to the host that ends what the host's calls left running when the host is killed.
//!
//! It holds the reading end of a pipe whose other end only the host has. On any end of the host, `kill -9` included, the pipe
//! closes; the watcher then kills every process that carries the owner's tag (a script finds only those with the tag in their
//! environment), and ends. It is executed, not forked from the host's memory, is in its own process group so that a Ctrl-C or a
//! kill of the host's group does not reach it, and shares nothing with the host: no output, no file, no environment. It exists on
//! Linux only.
//!
//! A change must not let the writing end of the pipe reach another process, or the watcher would not see the host end.
//!
//! Rejected: a parent-death signal (it fires when the thread that started the child ends, and reaches no grandchild), and
//! making the host a sub-reaper (it would have to wait for orphans that are none of its business).

use std::{ffi::OsString, io::Read as _, path::PathBuf, process::Stdio};

use tokio::process::{Child, ChildStdin, Command};

use crate::process::{
    Owner, Swept,
    sweep::{Whose, sweep},
};

/// How often the watcher sweeps before it gives up on processes that cannot be killed.
const SWEEPS_MAX: usize = 10;

/// The script of `/bin/sh` as a watcher; `$1` is the owner. It waits for the end of its input with built-in commands alone, and
/// only then runs other programs. It cannot see a process whose environment was emptied.
const SCRIPT: &str = r#"
while read -r _; do :; done
round=0 clean=0
while [ "$round" -lt 200 ] && [ "$clean" -lt 2 ]; do
  round=$((round + 1)) clean=$((clean + 1))
  for file in $(grep -lszE "^TAMTAM_CALL=(.*:)?$1\." /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/} pid=${pid%/environ}
    kill -9 "$pid" 2>/dev/null && clean=0
  done
done
"#;

/// Who ends the processes of calls when the host is killed and cannot end them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchBy {
    /// A program of the host's. It is started with these arguments and the owner's id after them, and must do nothing but hand
    /// that id to [`watch`]. It finds every process that carries a tag.
    Program {
        /// The program, by an absolute path.
        program: PathBuf,
        /// What makes it a watcher, such as a hidden command.
        arguments: Vec<OsString>,
    },
    /// A script that `/bin/sh` runs with `grep`. It finds a process by the tag in its environment, so it misses a process whose
    /// environment was emptied; the next start of a host finds it.
    #[default]
    Shell,
    /// No watcher: the processes of a killed host run until the next start on the same store, or for ever.
    Nobody,
}

/// Does the work of a watcher in this process: waits until its standard input ends, then kills everything of that owner.
///
/// Blocks for as long as the host lives. Call it in the first lines of a program that was started as [`WatchBy::Program`], before
/// it makes threads or opens anything. `None` if the text is not an owner's id.
pub fn watch(owner: &str) -> Option<Swept> {
    let owner = Owner::parse(owner)?;
    // An input that cannot be read any more counts as ended.
    let mut buffer = [0; 64];
    while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
    let mut all = Swept::default();
    for _ in 0..SWEEPS_MAX {
        let swept = sweep(&Whose::Owner(owner));
        all.killed += swept.killed;
        all.left = swept.left;
        if all.left.is_empty() {
            break;
        }
    }
    Some(all)
}

/// A watcher that runs.
///
/// A drop closes the pipe: the watcher does its work and ends.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    /// Held open, and never written to.
    pipe: Option<ChildStdin>,
}

impl Watcher {
    /// Starts the watcher; `None` for [`WatchBy::Nobody`], and on a system without a process table to look through.
    pub(super) fn start(watch: &WatchBy, owner: Owner) -> std::io::Result<Option<Watcher>> {
        let mut command = match watch {
            WatchBy::Nobody => return Ok(None),
            _ if !cfg!(target_os = "linux") => return Ok(None),
            WatchBy::Program { program, arguments } => {
                let mut command = Command::new(program);
                command.env_clear().args(arguments);
                command
            }
            WatchBy::Shell => {
                let mut command = Command::new("/bin/sh");
                command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
                command.args(["-c", SCRIPT, "tamtam-watcher"]);
                command
            }
        };
        command.arg(owner.to_string()).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let pipe = child.stdin.take();
        Ok(Some(Watcher { child, pipe }))
    }

    /// Whether the watcher still runs. One that has ended is waited for here, so that no zombie stays.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The process id of the watcher, while it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Lets the watcher do its work and end, and waits for that; kills the watcher where it takes longer than `at_most`.
    pub(super) async fn stop(mut self, at_most: std::time::Duration) {
        drop(self.pipe.take());
        if tokio::time::timeout(at_most, self.child.wait()).await.is_err() {
            // Nothing more can be done about a watcher that cannot even be killed.
            drop(self.child.kill().await);
        }
    }
}
