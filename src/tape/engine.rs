//! What a runtime needs of whatever keeps its tapes, so that something else than files can: a database, a test's memory.
//!
//! The narrowest door that is enough: tapes are made, claimed, appended to, read at any place, forked, listed, marked and
//! deleted. Plain and synchronous, as the files are: an append is answered at once or told later, and never waits for a slow
//! disk; everything else may, and is called on threads that may wait. One dynamic call an append, and nothing is boxed for it.
//!
//! [`Store`] is the one over files; [`MemoryStore`](super::MemoryStore) keeps all in memory. `tests/engines.rs` holds both to
//! the same claims; an engine of a host's own must meet them too.

use std::{fmt, path::PathBuf, time::Duration};

use super::{
    Anchor, Appended, Damage, Deleted, Entry, Finding, Forked, GivenBack, Mark, Notify, ReadTo, Repair, SessionSummary,
    Store, TapeError,
};
use crate::ids::{Millis, Seq, SessionId};

/// Keeps tapes: what an engine owes to the runtime over it.
///
/// # What a tape is
///
/// - **Whole or not at all.** The entries of one append are all on the tape or none is, whatever happens, also to whoever reads
///   beside it and after a crash of the process.
/// - **In order, without gaps.** Entries are numbered by their makers: the first is 1, each is one more than that before. What
///   does not follow is [`TapeError::Gap`], and nothing of it is taken. An entry comes back as it was given, its `data` byte for
///   byte.
/// - **What was acknowledged stays**, as far as the engine's durability goes. It says so itself; the runtime asks no questions.
///
/// # `Now` and `Later`
///
/// An append is answered [`Appended::Now`] where it is done, or failed, by then. Else it is answered [`Appended::Later`], and
/// the `notify` of the tape is told: once for each, in the order of the appends, with the last entry that is on the tape by then
/// (the watermark), which must be readable by then. The runtime acts on nothing before that; an append that is answered `Now` and
/// is done says the same of all before it, told or not. What was queued behind an append
/// that failed fails too, with the same error, and is told in its turn; after that, the next append follows the last entry that
/// is good. `notify` is short and never calls back into the engine; it may be called on any thread, also after the writer was
/// dropped.
///
/// # One writer
///
/// [`create`](TapeStore::create) and [`load`](TapeStore::load) claim a session, for as long as their writer is not dropped;
/// meanwhile others are refused as [`TapeError::Claimed`], through this value, a clone of it, or from another process where the
/// engine is shared by several. A dropped writer gives the session back behind its last append, and a `load` through the same
/// value waits for that, instead of being refused. The runtime drops none: it calls [`TapeWriter::give_back`], and a session
/// sleeps only when that was answered. Reading claims nothing.
///
/// # Which threads
///
/// | called | on | may wait |
/// |---|---|---|
/// | [`TapeWriter::append`], [`begin_anchor`](TapeWriter::begin_anchor), `last`, `outstanding`, `give_back`, and the writer's drop | an async thread, one at a time for each writer | no |
/// | [`mark`](TapeStore::mark) and [`unmark`](TapeStore::unmark) of [`Mark::Open`] | an async thread | no: what is slow is done behind, in order; a mark too many does no harm |
/// | `spill_path`, `files_path`, `processes_path` | any thread | no: a name is made, nothing is looked at |
/// | all else | a thread for what blocks | yes |
///
/// All of it may be called at once from many threads.
///
/// # Errors
///
/// Those that the runtime tells apart are said at each method; what is none of them is [`TapeError::engine`]. An append that
/// fails is data and no crash: hosts are told [`SendError::Storage`](crate::SendError::Storage), and what is open is held and
/// tried again twice a second. An engine that panics in an append crashes that session, which starts again from its tape;
/// what a worker had reported is decided about again then.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, tape::MemoryStore};
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// // Any engine, in place of this one.
/// let engine = Arc::new(MemoryStore::new());
/// let start = || {
///     let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
///     Runtime::builder().tapes(engine.clone()).model(model).start()
/// };
/// let first = start().await?;
/// let session = first.create(SessionOptions::new(folder.path())).await?;
/// session.prompt("Say hello.").await?.wait().await?;
/// first.shutdown().await;
/// // The next runtime finds what the first one left.
/// let second = start().await?;
/// assert_eq!(second.resume(session.id()).await?.messages().await?.len(), 2);
/// second.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// Where a method says no more, it promises, and fails, as the one of the same name of [`Store`] does.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStore: Send + Sync + fmt::Debug {
    /// Makes a session with an empty tape, and claims it. [`TapeError::Exists`] where the name is taken, also by one that is
    /// hidden; not where whoever made it died before its first entry.
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError>;

    /// Claims a session and reads its tape from the newest anchor on. [`TapeError::Missing`]; [`TapeError::Claimed`].
    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError>;

    /// The entries after `after`, of all anchors. Beside a writer, whose last append is there whole or not at all.
    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError>;

    /// The tape as it was at the entry `seq`.
    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError>;

    /// The anchors of a tape, oldest first.
    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError>;

    /// The entries from the first of one anchor to the last of another.
    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError>;

    /// Whether there is a session of this name.
    fn exists(&self, session: &SessionId) -> bool;

    /// The names of all sessions, sorted.
    fn sessions(&self) -> Result<Vec<SessionId>, TapeError>;

    /// All sessions by their names, with the age and the size of their tapes.
    fn list(&self) -> Result<Vec<SessionSummary>, TapeError>;

    /// Makes a session that goes on from an entry of another one, the last by default, and does not open it. Its tape begins with
    /// [`Forked::entry`]; what is before that is read from the other one, which stays for it. [`TapeError::InsideAppend`] where
    /// that entry does not end an append; [`TapeError::NoEntry`]; [`TapeError::Exists`].
    fn fork(&self, parent: &SessionId, at: Option<Seq>, session: &SessionId, time: Millis)
    -> Result<Forked, TapeError>;

    /// Where a session goes on from; `None` where it is no fork.
    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError>;

    /// The sessions that go on from this one.
    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError>;

    /// Whether the tape of `session` has that very entry of `other`, itself or from what it goes on from.
    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError>;

    /// Deletes a session; hides it while forks go on from it. [`TapeError::Unfinished`] while a turn of it is open;
    /// [`TapeError::Claimed`]. Its marks go too.
    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError>;

    /// Deletes a session, only if that is still its last entry.
    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError>;

    /// Deletes a session whose last entry is still that one, that is neither parked nor pinned, and that no fork goes on from.
    /// Says whether it did.
    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError>;

    /// Many sessions were deleted by [`TapeStore::delete_unused`]: whatever is cheaper to do once for all of them is done now,
    /// and put off where `stop`, asked now and then, says so.
    fn forget_swept(&self, _stop: &dyn Fn() -> bool) {}

    /// What is wrong with a session's tape.
    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError>;

    /// Notes something of a session, and keeps `about` with it, as it is. What is noted already is noted anew.
    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError>;

    /// Takes a mark away. A session that does not have it stays as it is.
    fn unmark(&self, session: &SessionId, mark: Mark) -> Result<(), TapeError>;

    /// The sessions that have a mark, sorted, and what was said with it.
    fn marks(&self, mark: Mark) -> Result<Vec<(SessionId, String)>, TapeError>;

    /// The sessions that somebody has open, sorted: through this value, or from elsewhere.
    fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError>;

    /// Waits until every append that was answered [`Appended::Later`] is told, and what was dropped is given back. Says whether
    /// it came to that within `limit`.
    fn settle(&self, limit: Duration) -> bool;

    /// A folder for a session's large outputs, which may not exist yet; the one above it does, for as long as the session. `None`, as it is by default: what is cut off of an
    /// output is lost, and the result says so.
    fn spill_path(&self, _session: &SessionId) -> Option<PathBuf> {
        None
    }

    /// A folder for what files held before calls of a session changed them, which may not exist yet as above. `None`, as it is by default: they cannot be put
    /// back, and a plan says so.
    fn files_path(&self, _session: &SessionId) -> Option<PathBuf> {
        None
    }

    /// A folder that tells the next runtime whose OS processes may have been left running. `None`, as it is by default: what a
    /// killed host left is ended by its watcher alone.
    fn processes_path(&self) -> Option<PathBuf> {
        None
    }
}

/// Appends to one tape. Dropping it gives the session back. Each method is as the one of [`Tape`].
pub trait TapeWriter: Send + fmt::Debug {
    /// The last entry that is on the tape.
    fn last(&self) -> Seq;

    /// How many appends were answered [`Appended::Later`] and not yet told.
    fn outstanding(&self) -> usize;

    /// Appends entries, all or none.
    fn append(&mut self, entries: &[Entry]) -> Appended;

    /// Appends one entry as the first of a new anchor.
    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended;

    /// Gives the session back, and tells `then` when that is done: when [`TapeStore::held_sessions`] does not name it, and
    /// whoever wants it can claim it. As it is by default, it is right for a writer whose drop does not return before that; one
    /// whose drop leaves it to somebody else has that one tell `then`.
    fn give_back(self: Box<Self>, then: GivenBack) {
        drop(self);
        then();
    }
}

/// A tape that was loaded.
#[derive(Debug)]
pub struct LoadedTape {
    /// To append to it.
    pub tape: Box<dyn TapeWriter>,
    /// What it says, from its newest anchor on.
    pub entries: Vec<Entry>,
    /// A torn tail was cut off.
    pub repair: Option<Repair>,
    /// It is damaged: `entries` end before that, and nothing can be appended.
    pub read_only: Option<Damage>,
    /// Acknowledged entries may be lost, because the machine was started anew.
    pub rebooted: bool,
}

impl TapeStore for Store {
    fn create(&self, session: &SessionId, notify: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        Ok(Box::new(Store::create(self, session, notify)?))
    }

    fn load(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        let loaded = Store::load(self, session, notify)?;
        Ok(LoadedTape {
            tape: Box::new(loaded.tape),
            entries: loaded.entries,
            repair: loaded.repair,
            read_only: loaded.read_only,
            rebooted: loaded.rebooted,
        })
    }

    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        Store::read(self, session, after)
    }

    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        Store::read_to(self, session, seq)
    }

    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        Store::anchors(self, session)
    }

    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        Store::between_anchors(self, session, from, to)
    }

    fn exists(&self, session: &SessionId) -> bool {
        Store::exists(self, session)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        self.layout().session_ids()
    }

    fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        Store::list(self)
    }

    fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        Store::fork(self, parent, at, session, time)
    }

    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        Store::forked_from(self, session)
    }

    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        Store::forks_of(self, session)
    }

    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        Store::has_entry_of(self, session, other, seq)
    }

    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        Store::delete(self, session)
    }

    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        Store::delete_unless_gone_on(self, session, last)
    }

    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        Store::delete_unused(self, session, last)
    }

    fn forget_swept(&self, stop: &dyn Fn() -> bool) {
        Store::forget_swept(self, stop);
    }

    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        Store::verify(self, session)
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        match mark {
            Mark::Open => Store::mark_open(self, session),
            Mark::Parked => self.put_parked(session, about),
            Mark::Pinned => Store::pin(self, session),
        }
    }

    fn unmark(&self, session: &SessionId, mark: Mark) -> Result<(), TapeError> {
        match mark {
            Mark::Open => Store::mark_closed(self, session),
            Mark::Parked => Store::unpark(self, session),
            Mark::Pinned => Store::unpin(self, session),
        }
    }

    fn marks(&self, mark: Mark) -> Result<Vec<(SessionId, String)>, TapeError> {
        let unsaid = |sessions: Vec<SessionId>| sessions.into_iter().map(|id| (id, String::new())).collect();
        match mark {
            Mark::Open => Store::open_sessions(self).map(unsaid),
            Mark::Parked => self.parked_texts(),
            Mark::Pinned => Store::pinned_sessions(self).map(unsaid),
        }
    }

    fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        Store::held_sessions(self)
    }

    fn settle(&self, limit: Duration) -> bool {
        Store::settle(self, limit)
    }

    fn spill_path(&self, session: &SessionId) -> Option<PathBuf> {
        Some(Store::spill_path(self, session))
    }

    fn files_path(&self, session: &SessionId) -> Option<PathBuf> {
        Some(Store::files_path(self, session))
    }

    fn processes_path(&self) -> Option<PathBuf> {
        Some(Store::processes_path(self))
    }
}
