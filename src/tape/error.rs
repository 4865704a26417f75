//! [`TapeError`]: the reasons why an operation on a tape or its store fails.
//!
//! A variant is a case that a caller may treat differently. If its doc says that nothing was taken, changed or made, callers
//! rely on that. Messages are for people. The runtime asks two questions of errors: [`TapeError::is_full`] (make room) and
//! [`TapeError::is_for_good`] (stop trying). A new variant must be judged in both. An error is an answer, never a crash.

use std::{fmt, io, path::PathBuf, sync::Arc};

use tokio::task::JoinError;

use crate::words::{
    ids::{Seq, SessionId},
    panic_text,
};

/// Why something could not be done with a tape or its store.
///
/// Clonable, because one failed write to the commit log is the answer to every append that shared it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The operating system refused. [`TapeError::is_full`] tells a full disk from the rest.
    #[error("failed to {op} {}: {source}", path.display())]
    Io {
        /// What was tried: a verb.
        op: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// There is already a session of this name.
    #[error("session {session} already exists")]
    Exists {
        /// Which.
        session: SessionId,
    },
    /// No session has this name.
    #[error("there is no session {session}")]
    Missing {
        /// Which.
        session: SessionId,
    },
    /// The tape does not reach this entry.
    #[error("session {session} has no entry {seq}: its last is {last}")]
    NoEntry {
        /// Which session.
        session: SessionId,
        /// Which entry.
        seq: Seq,
        /// Its last one; 0 if it has none.
        last: Seq,
    },
    /// An append is on the tape whole or not at all, so nothing can continue from an entry that does not end one.
    #[error("entry {seq} of session {session} is in the middle of an append: take {end}, or {before} before it")]
    InsideAppend {
        /// Which session.
        session: SessionId,
        /// Which entry.
        seq: Seq,
        /// The last entry of the append before it; 0 if there is none.
        before: Seq,
        /// The last entry of its append.
        end: Seq,
    },
    /// Too many tapes would have to be read to open a fork of this session. An anchor in it ends the row. Also if so many tapes
    /// continue from each other that they are taken for a circle.
    #[error("session {session} is a fork of forks, {max} deep: compact it or begin an anchor in it, then fork")]
    TooDeep {
        /// Which session.
        session: SessionId,
        /// The bound that was reached, in tapes.
        max: u32,
    },
    /// A turn of the session is open, so it cannot be deleted.
    #[error("session {session} is in a turn: let it finish, or abort it")]
    Unfinished {
        /// Which.
        session: SessionId,
    },
    /// An entry was appended since the session was checked. Nothing was done.
    #[error("session {session} has moved on from entry {expected} to {last}: read it again")]
    GoneOn {
        /// Which session.
        session: SessionId,
        /// The last entry that was read.
        expected: Seq,
        /// The last entry that it has.
        last: Seq,
    },
    /// The session has no anchor of this name.
    #[error("anchor not found: {name}")]
    NoAnchor {
        /// The name that was given.
        name: String,
    },
    /// Another owner that is alive writes this session: another process, another store, or another tape of this store.
    #[error("session {session} is in use by {by}")]
    Claimed {
        /// Which.
        session: SessionId,
        /// The owner that has it.
        by: Holder,
    },
    /// The tape is not its writer's any more, although no other owner has it. Nothing was taken.
    #[error("session {session} is lost to its writer: {why}")]
    Lost {
        /// Which.
        session: SessionId,
        /// What the engine says.
        why: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The entries do not continue the tape. Nothing was taken.
    #[error("entry {got} of session {session} does not follow: {expected} is next")]
    Gap {
        /// Which session.
        session: SessionId,
        /// The next position.
        expected: Seq,
        /// The position that was given.
        got: Seq,
    },
    /// The disk or another writer is behind; the same may be tried again. Of an append: the queue to the disk is full, or an append
    /// of the tape is under way. Nothing was taken then. One case is uncertain: the first append of a new session or fork that was
    /// not acknowledged within 30 s may still be written. Of a close: not everything was written in time. Of a fork: its point, or
    /// the fork itself, is just being written.
    #[error("the tape store is busy: {waiting} appends wait for the disk")]
    Busy {
        /// How many appends or other jobs wait; 1 if that is not known.
        waiting: usize,
    },
    /// The tapes in memory have reached their [`MemoryLimits`](crate::tape::MemoryLimits). Nothing was taken; the same may be tried
    /// again when there is room. A sweep does not remove sessions that are awake ([`Runtime::shed`](crate::Runtime::shed) puts them
    /// to sleep). A host that made the store itself ([`Builder::tapes`](crate::runtime::Builder::tapes)) can change the limits.
    #[error(
        "the tapes in memory are full: {max} {of} are the most; remove sessions that are over (Runtime::sweep), or allow more \
         (MemoryStore::set_limits)"
    )]
    MemoryFull {
        /// The limit that was reached: `bytes` or `sessions`.
        of: &'static str,
        /// The bound that would be broken.
        max: u64,
    },
    /// One line would be larger than [`LINE_BYTES_MAX`](crate::tape::LINE_BYTES_MAX), or one append than
    /// [`APPEND_BYTES_MAX`](crate::tape::APPEND_BYTES_MAX). Nothing was taken.
    #[error("an append of {bytes} bytes is too large: the limit is {max}")]
    TooLarge {
        /// The size that was given, in bytes.
        bytes: usize,
        /// The bound that it exceeds, in bytes.
        max: usize,
    },
    /// The tape has a bad line that is not a torn tail, or its files do not fit together. It can be read up to there, and cannot
    /// be written.
    #[error("the tape is damaged: {0}")]
    Damaged(Damage),
    /// A later version of this library wrote it. Nothing was changed.
    #[error("{} is of format version {found}, this library knows up to {known}", file.display())]
    Newer {
        /// Which file.
        file: PathBuf,
        /// Its version.
        found: u64,
        /// The newest that is understood here.
        known: u64,
    },
    /// The session has an anchor of this name.
    #[error("anchor {name:?} already exists: choose another name")]
    AnchorExists {
        /// The name, as it would be used for the folder.
        name: String,
    },
    /// Another program changed the length of the file while this tape had it, and nothing was written to it. Or a large output
    /// changed while it was exported.
    #[error("{} was changed by another program: {found} bytes where {expected} were written", path.display())]
    Changed {
        /// Which file.
        path: PathBuf,
        /// The length that the file must have, in bytes.
        expected: u64,
        /// The length that the file has, in bytes.
        found: u64,
    },
    /// The store was opened for reading only.
    #[error("the store was opened for reading only")]
    ReadingOnly,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The file to import is not a session export, or is damaged. No session was made.
    #[error("cannot import line {line}: {what}")]
    Import {
        /// Which line of the file, from 1.
        line: u64,
        /// Why.
        what: String,
    },
    /// The query of a search is empty or too large.
    #[error("cannot search for that: {what}")]
    Query {
        /// Why.
        what: String,
    },
    /// The engine of these tapes keeps no index of their words.
    #[error("these tapes have no index to search in: a store of files and PostgreSQL have one")]
    NoIndex,
    /// An engine of a host's own failed.
    #[error("the tape store failed: {0}")]
    Engine(Arc<dyn std::error::Error + Send + Sync>),
    /// What an engine keeps its tapes in cannot be reached, or gave no answer. An append that is refused with it was not written, and
    /// will not be. Of anything else it is unknown whether it was done.
    #[error("the tape store is out of reach, ask again in a moment: {0}")]
    Unreachable(Arc<dyn std::error::Error + Send + Sync>),
    /// The index could not be used. It can be deleted: it decides nothing.
    #[error("failed to {op} the index: {message}")]
    Index {
        /// What was tried: a verb.
        op: &'static str,
        /// What the database said.
        message: String,
        /// Whether its file is damaged. Then waiting does not help, and rebuilding the index does.
        is_damaged: bool,
    },
}

impl TapeError {
    /// Whether there is no room: on the disk, in the quota, in the largest allowed file, or in the limits of tapes in memory.
    ///
    /// On a disk, [`Store::release_reserve`](crate::tape::Store::release_reserve) then makes a little room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            TapeError::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge),
            TapeError::MemoryFull { .. } => true,
            // As the database says it.
            TapeError::Index { message, .. } => message.contains("disk is full"),
            _ => false,
        }
    }

    /// An error of a host's own engine that no other variant describes.
    #[must_use]
    pub fn engine(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TapeError {
        TapeError::Engine(error.into().into())
    }

    /// An error of an engine whose tapes are out of reach for the moment.
    #[must_use]
    pub fn unreachable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TapeError {
        TapeError::Unreachable(error.into().into())
    }

    /// Work on tapes gave no answer: it panicked, or its tokio runtime ended.
    pub(crate) fn lost(lost: JoinError) -> TapeError {
        match lost.try_into_panic() {
            Ok(panic) => TapeError::engine(format!("work on the tapes panicked: {}", panic_text(&*panic))),
            Err(_) => TapeError::Closed,
        }
    }

    /// Whether a tape that cannot be opened or made for this reason never can be, so that trying again is of no use. After any
    /// other error, the caller may look again.
    pub(crate) fn is_for_good(&self) -> bool {
        use TapeError::{Damaged, Newer, TooDeep, TooLarge};
        matches!(self, Damaged(_) | Newer { .. } | TooDeep { .. } | TooLarge { .. })
    }

    /// Whether the tape is not its writer's any more: another owner has it, it was erased, or its engine says so.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, TapeError::Claimed { .. } | TapeError::Missing { .. } | TapeError::Lost { .. })
    }

    pub(super) fn io(op: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> TapeError {
        move |source| TapeError::Io { op, path: path.into(), source: Arc::new(source) }
    }
}

/// The owner that has a session open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The name of its lock file in `owners/`, without the ending.
    pub owner: String,
    /// Its process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
}

impl Holder {
    /// The owner of that name, process and machine.
    #[must_use]
    pub fn new(owner: impl Into<String>, pid: u32, host: impl Into<String>) -> Holder {
        Holder { owner: owner.into(), pid, host: host.into() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {} (owner {})", self.pid, self.host, self.owner)
    }
}

/// The place where a tape cannot be trusted any more: a bad line that is not a torn tail, or a file that does not continue its
/// predecessor. Nothing after it is read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Damage {
    /// The file with the bad line.
    #[serde(serialize_with = "crate::words::path_text")]
    pub file: PathBuf,
    /// The number of the line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub what: String,
    /// The last entry before it that is sound; 0 if there is none.
    pub last_good: Seq,
}

impl Damage {
    /// The damage at that line, counted from 1, and the last sound entry before it.
    #[must_use]
    pub fn new(file: impl Into<PathBuf>, line: usize, what: impl Into<String>, last_good: Seq) -> Damage {
        Damage { file: file.into(), line, what: what.into(), last_good }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {} (sound up to entry {})", self.file.display(), self.line, self.what, self.last_good)
    }
}
