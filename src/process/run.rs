//! One program of a call while it runs.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, ChildStderr, ChildStdout, Command},
};

use crate::process::{
    CALL_VARIABLE, Mark, Stream, Swept,
    sweep::{Sweep, Target, Whose, look},
    sweeper::Sweeper,
    table::{self, Entry},
};

/// How much is read at once.
const READ_BYTES: usize = 32 * 1024;

/// Starts a program in a session of its own, so that it has no terminal to ask on. From util-linux; where it is missing, a
/// process group has to do. (The standard library could do so only by code that runs between `fork` and `exec`, which is
/// unsafe and would make it copy the host's memory map at every call.)
const SETSID: &str = "/usr/bin/setsid";

/// What to start.
#[derive(Debug)]
pub struct Spec {
    /// The program, by an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All of its environment; the mark is added to it.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder it starts in.
    pub folder: Folder,
    /// The mark of its call.
    pub mark: Mark,
    /// How what it writes is taken in.
    pub streams: Streams,
}

/// How the two streams of a program are taken in.
///
/// The system tells the order of what is written to one pipe, and of nothing else: of two pipes nobody knows which was written
/// to first. So it is one or the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// Through one pipe: in exactly the order in which they were written, as a terminal shows them. Nobody can tell afterwards
    /// which was which.
    #[default]
    Together,
    /// Through a pipe each: apart, and in about the order in which they were written.
    Apart,
}

/// The folder that a program starts in.
#[derive(Debug)]
pub struct Folder {
    /// Its open handle; used where `/proc` is, so that no link can be swapped in.
    pub handle: OwnedFd,
    /// Its path; used elsewhere.
    pub path: PathBuf,
}

impl Folder {
    fn to_start_in(&self) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        let by_handle = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        if cfg!(target_os = "linux") && by_handle.exists() { by_handle } else { self.path.clone() }
    }
}

/// What a process did.
#[derive(Debug)]
pub enum Event {
    /// It, or one that it started, wrote something.
    Output(Stream, Vec<u8>),
    /// It ended; others that it started may still run and write.
    Ended(ExitStatus),
    /// It has ended and nobody can write any more.
    Closed,
}

/// One program of a call.
///
/// Made by [`Processes::start`](super::Processes::start). Dropped before [`Process::end`], it kills its tree on the spot, which
/// may block for as long as a sweep takes.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// What is read from the first pipe.
    first: Stream,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    leader: Option<Pid>,
    status: Option<ExitStatus>,
    mark: Mark,
    /// When it was started, in ticks: nothing that is older can belong to it.
    since: u64,
    /// The family as it was last seen.
    known: Vec<Entry>,
    sweeper: Sweeper,
    swept: bool,
}

impl Process {
    pub(super) fn start(spec: Spec, sweeper: Sweeper) -> io::Result<Process> {
        let has_setsid = cfg!(target_os = "linux") && Path::new(SETSID).exists();
        let mut command = Command::new(if has_setsid { Path::new(SETSID) } else { &spec.program });
        if has_setsid {
            command.arg(&spec.program);
        } else {
            command.process_group(0);
        }
        let outer = spec.environment.iter().find(|(name, _)| name == CALL_VARIABLE);
        let outer = outer.and_then(|(_, value)| value.to_str());
        command
            .args(&spec.arguments)
            .env_clear()
            .envs(spec.environment.iter().map(|(name, value)| (name, value)))
            .env(CALL_VARIABLE, spec.mark.variable(outer))
            .current_dir(spec.folder.to_start_in())
            .stdin(Stdio::null());
        let both = match spec.streams {
            Streams::Apart => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                None
            }
            Streams::Together => {
                let (read, write) = io::pipe()?;
                command.stdout(write.try_clone()?).stderr(write);
                Some(ChildStdout::from_std(OwnedFd::from(read).into())?)
            }
        };
        let mut child = command.spawn()?;
        // It holds the writing end; while it does, the pipe never ends.
        drop(command);
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        // It may have ended by now, but nobody has waited for it.
        let entry = leader.and_then(|leader| table::entry(leader.as_raw_nonzero().get()));
        Ok(Process {
            first: if both.is_some() { Stream::Both } else { Stream::Stdout },
            stdout: child.stdout.take().or(both),
            stderr: child.stderr.take(),
            child,
            leader,
            status: None,
            mark: spec.mark,
            since: entry.map_or(0, |entry| entry.started),
            known: Vec::new(),
            sweeper,
            swept: false,
        })
    }

    /// Waits for what happens next. Dropping the future loses nothing.
    ///
    /// Where the streams are apart, what both write at about the same time comes in either order.
    pub async fn next(&mut self) -> Event {
        loop {
            let (stream, read) = tokio::select! {
                read = read_some(&mut self.stdout), if self.stdout.is_some() => (self.first, read),
                read = read_some(&mut self.stderr), if self.stderr.is_some() => (Stream::Stderr, read),
                status = self.child.wait(), if self.status.is_none() => {
                    // Waiting can fail only if somebody else took the status; then nobody knows it.
                    let status = status.unwrap_or_else(|_| ExitStatus::from_raw(0x7f00));
                    self.status = Some(status);
                    return Event::Ended(status);
                }
                else => return Event::Closed,
            };
            match (read, stream) {
                (Some(bytes), stream) => return Event::Output(stream, bytes),
                (None, Stream::Stdout | Stream::Both) => self.stdout = None,
                (None, Stream::Stderr) => self.stderr = None,
            }
        }
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Asks the whole group to end (SIGTERM), and wakes it in case it was stopped. Does not wait.
    pub async fn ask_to_end(&mut self) {
        self.remember().await;
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Kills the whole tree and waits until nothing of it is left, for at most the time of a sweep. What was written until
    /// then can still be read by [`Process::next`].
    pub async fn end(&mut self) -> Swept {
        // Before the parents are gone that show who belongs to whom.
        self.remember().await;
        self.signal(Signal::KILL);
        let swept = self.sweeper.sweep(self.target()).await;
        self.swept = true;
        swept
    }

    async fn remember(&mut self) {
        if self.group().is_some() {
            self.known = self.sweeper.see(self.target()).await;
        }
    }

    fn target(&self) -> Target {
        let leader = self.group().map(|leader| leader.as_raw_nonzero().get());
        Target { whose: Whose::Call(self.mark), leader, known: self.known.clone(), since: self.since }
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.group() else { return };
        if kill_process_group(group, signal).is_err() {
            // It has not made its session yet, or has no process any more.
            let _ = kill_process(group, signal);
        }
    }

    /// The group that can be named by its number.
    ///
    /// Once its first process was waited for, the number may be another's. Where there is a process table, what is left of
    /// the group is found there; elsewhere the number is all there is.
    fn group(&self) -> Option<Pid> {
        if cfg!(target_os = "linux") && self.status.is_some() { None } else { self.leader }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.swept {
            if self.group().is_some() {
                // Before the parents are gone that show who belongs to whom.
                self.known.extend(look(&[&self.target()]).concat());
            }
            self.signal(Signal::KILL);
            let swept = Sweep::new(self.target()).run();
            if !swept.left.is_empty() {
                tracing::warn!(left = ?swept.left, "processes of a dropped call could not be killed");
            }
        }
    }
}

/// Reads some of a stream; `None` at its end, and where it cannot be read, which is as good as its end.
async fn read_some<R: AsyncRead + Unpin>(pipe: &mut Option<R>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    match pipe.as_mut()?.read_buf(&mut bytes).await {
        Ok(1..) => Some(bytes),
        Ok(0) | Err(_) => None,
    }
}
