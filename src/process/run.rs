//! Runs one program of a call: starts it with the call's tag, passes on its output, and ends its whole process tree.
//!
//! A [`Process`] is ended by [`Process::end`], or by its drop, which kills the tree on the spot and blocks meanwhile. Either way
//! the tree is remembered before the kill, because afterwards no parent is left that shows which process belongs to which.
//! A change must keep this order, and must never signal a process group by its number once its first process was waited for (on
//! Linux): the number may belong to another process by then. No code runs between `fork` and `exec`.

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
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use crate::process::{
    CALL_VARIABLE, Confinement, Stream, Swept, Tag, sandbox,
    sweep::{Sweep, Target, Whose, look},
    sweeper::Sweeper,
    table::{self, Entry},
};

/// How much is read at once.
const READ_BYTES: usize = 32 * 1024;

/// The program that starts another one in a new session, so that it has no terminal to ask on. From util-linux; without it, a
/// process group must do. (The standard library could start a session only by code that runs between `fork` and `exec`, which is
/// unsafe and would copy the host's memory map at every call.)
const SETSID: &str = "/usr/bin/setsid";

/// What to start.
#[non_exhaustive]
pub struct Spec {
    /// The program, by an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; the tag is added to it.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder it starts in.
    pub folder: Folder,
    /// The tag of its call.
    pub tag: Tag,
    /// How its output is taken in.
    pub streams: Streams,
    /// What it reads on its standard input.
    pub input: ProcessInput,
    /// What it may reach; `None`: all that the user may. The program is not started if this cannot be enforced.
    pub confinement: Option<Confinement>,
}

impl Spec {
    /// A program without arguments and environment, in that folder, for the call of that tag. It is not confined.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, folder: Folder, tag: Tag) -> Spec {
        let (arguments, environment) = (Vec::new(), Vec::new());
        let (streams, input) = (Streams::default(), ProcessInput::default());
        Spec { program: program.into(), arguments, environment, folder, tag, streams, input, confinement: None }
    }

    crate::words::setters::setters! {
        /// Sets the [arguments](#structfield.arguments).
        arguments: impl IntoIterator<Item = impl Into<OsString>> = arguments.into_iter().map(Into::into).collect();
        /// Sets the [environment](#structfield.environment).
        environment: Vec<(OsString, OsString)>;
        /// Sets how the [output](#structfield.streams) is taken in.
        streams: Streams;
        /// Sets what it [reads](#structfield.input).
        input: ProcessInput;
        /// Sets what it [may reach](#structfield.confinement).
        confinement: Confinement = Some(confinement);
    }
}

/// How the two streams of a program are taken in.
///
/// The system keeps the order of writes to one pipe only. The order of writes to two pipes is unknown, so a caller chooses
/// between the exact order and separate streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streams {
    /// Through one pipe: in exactly the order of the writes, as a terminal shows them. The streams cannot be separated
    /// afterwards.
    #[default]
    Together,
    /// Through a pipe each: separate, and in about the order of the writes.
    Apart,
}

/// What a program reads on its standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessInput {
    /// Nothing: its input has ended.
    #[default]
    Empty,
    /// What is written to [`Process::take_input`].
    Pipe,
}

/// The folder that a program starts in.
#[derive(Debug)]
#[non_exhaustive]
pub struct Folder {
    /// Its open handle: used on systems with `/proc`, so that no link can be swapped in.
    pub handle: OwnedFd,
    /// Its path: used on systems without `/proc`.
    pub path: PathBuf,
}

impl Folder {
    /// The folder of that open handle and that path.
    #[must_use]
    pub fn new(handle: OwnedFd, path: impl Into<PathBuf>) -> Folder {
        Folder { handle, path: path.into() }
    }

    fn to_start_in(&self) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        let by_handle = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        if cfg!(target_os = "linux") && by_handle.exists() { by_handle } else { self.path.clone() }
    }
}

/// What a process did.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProcessEvent {
    /// The process, or a descendant, wrote these bytes.
    Output(Stream, Vec<u8>),
    /// The process ended; others that it started may still run and write.
    Ended(ExitStatus),
    /// The process has ended, and no other process holds its pipes open.
    Closed,
}

/// One program of a call.
///
/// Made by [`Processes::start`](super::Processes::start). A drop before [`Process::end`] kills the process tree on the spot, which
/// may block for as long as a sweep takes.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The stream that `stdout` carries: [`Stream::Both`] if the streams share one pipe.
    first: Stream,
    /// The first pipe; `None` once it has ended.
    stdout: Option<ChildStdout>,
    /// The second pipe; `None` once it has ended, and where the streams share one.
    stderr: Option<ChildStderr>,
    /// The id of the first process, which is also that of its group.
    leader: Option<Pid>,
    /// How the first process ended; `None` until it has been waited for.
    status: Option<ExitStatus>,
    tag: Tag,
    /// When the first process was started, in ticks since the machine was: an older process cannot belong to it.
    since: u64,
    /// The family of the first process as it was last seen.
    known: Vec<Entry>,
    sweeper: Sweeper,
    /// Whether the tree was killed, so that a drop has nothing to do.
    swept: bool,
}

impl Process {
    /// Dropping the future may leave a confined program running: see `Processes::start`.
    pub(super) async fn start(spec: Spec, sweeper: Sweeper) -> io::Result<Process> {
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
            .env(CALL_VARIABLE, spec.tag.variable(outer))
            .current_dir(spec.folder.to_start_in())
            .stdin(match spec.input {
                ProcessInput::Empty => Stdio::null(),
                ProcessInput::Pipe => Stdio::piped(),
            });
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
        // The command holds the writing end of the pipe, and the pipe does not end before that is dropped.
        let mut child = match spec.confinement {
            Some(confinement) => sandbox::spawn(command, spec.folder, confinement).await?,
            None => {
                let child = command.spawn()?;
                drop((command, spec.folder));
                child
            }
        };
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        // The process may have ended by now, but it has not been waited for, so the id is still its own.
        let entry = leader.and_then(|leader| table::entry(leader.as_raw_nonzero().get()));
        Ok(Process {
            first: if both.is_some() { Stream::Both } else { Stream::Stdout },
            stdout: child.stdout.take().or(both),
            stderr: child.stderr.take(),
            child,
            leader,
            status: None,
            tag: spec.tag,
            since: entry.map_or(0, |entry| entry.started),
            known: Vec::new(),
            sweeper,
            swept: false,
        })
    }

    /// Waits for the next event. Dropping the future loses nothing.
    ///
    /// With [`Streams::Apart`], bytes that both streams write at about the same time may come in either order.
    pub async fn next(&mut self) -> ProcessEvent {
        loop {
            let (stream, read) = tokio::select! {
                read = read_some(&mut self.stdout), if self.stdout.is_some() => (self.first, read),
                read = read_some(&mut self.stderr), if self.stderr.is_some() => (Stream::Stderr, read),
                status = self.child.wait(), if self.status.is_none() => {
                    // Waiting can fail only where other code of the host took the status; the status is lost then.
                    let status = status.unwrap_or_else(|_| ExitStatus::from_raw(0x7f00));
                    self.status = Some(status);
                    return ProcessEvent::Ended(status);
                }
                else => return ProcessEvent::Closed,
            };
            match (read, stream) {
                (Some(bytes), stream) => return ProcessEvent::Output(stream, bytes),
                (None, Stream::Stdout | Stream::Both) => self.stdout = None,
                (None, Stream::Stderr) => self.stderr = None,
            }
        }
    }

    /// The writing end of its standard input, once; `None` the second time, and for [`ProcessInput::Empty`]. A drop ends its input.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The id of its first process, for people: once [`Process::status`] is known, another process may have the number.
    #[must_use]
    pub fn id(&self) -> Option<i32> {
        self.leader.map(|leader| leader.as_raw_nonzero().get())
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Asks the whole group to end (SIGTERM), and continues it in case it was stopped (SIGCONT). Waits for one look at the process
    /// table before, and not for the group to end.
    pub async fn ask_to_end(&mut self) {
        self.remember().await;
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Kills the whole tree and waits until nothing of it is left, for at most the time of a sweep. Output that was written until
    /// then can still be read by [`Process::next`].
    pub async fn end(&mut self) -> Swept {
        // First of all: once the parents are dead, nothing shows which process belongs to which.
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
        Target { whose: Whose::Call(self.tag), leader, known: self.known.clone(), since: self.since }
    }

    fn signal(&self, signal: Signal) {
        let Some(group) = self.group() else { return };
        if kill_process_group(group, signal).is_err() {
            // The first process has not made its session yet, or the group has no process any more.
            let _ = kill_process(group, signal);
        }
    }

    /// The group, while it can be named by its number.
    ///
    /// Once the first process was waited for, another process may get the number. On Linux the rest of the group is found in the
    /// process table then; on other systems the number is all there is.
    fn group(&self) -> Option<Pid> {
        if cfg!(target_os = "linux") && self.status.is_some() { None } else { self.leader }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.swept {
            if self.group().is_some() {
                // First of all: once the parents are dead, nothing shows which process belongs to which.
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

/// Reads some bytes of a stream; `None` at its end. A stream that cannot be read counts as ended.
async fn read_some<R: AsyncRead + Unpin>(pipe: &mut Option<R>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    match pipe.as_mut()?.read_buf(&mut bytes).await {
        Ok(1..) => Some(bytes),
        Ok(0) | Err(_) => None,
    }
}
