//! What a runtime needs of an engine that keeps its tapes. An engine may be files, a database, or the memory of a test.
//!
//! The interface is as narrow as it can be: tapes are made, claimed, appended to, read in ranges, listed, marked and erased. What
//! is made of these is the same over every engine, and stands in [`TapeStoreExt`](super::TapeStoreExt): forks, and reading across
//! them; anchors; deletion that waits for forks; lists.
//!
//! The interface is plain and synchronous: an append is answered at once or later by a callback, and never waits for a slow
//! disk. Every other method may block, and is called on threads that may wait. An append is one dynamic call, and boxes nothing.
//!
//! [`Store`](super::Store) is the engine over files; [`MemoryStore`](super::MemoryStore) keeps all tapes in memory.
//! `tests/it/engines.rs` holds both, and a third that is made of these methods alone, to the same claims.

use std::{fmt, path::PathBuf, time::Duration};

use super::{Anchor, Appended, Damage, Entry, GivenBack, Mark, Notify, Repair, SessionSummary, SoundEnd, TapeError};
use crate::words::ids::{Millis, Seq, SessionId};

/// Keeps tapes: what an engine owes to the runtime over it.
///
/// # What a tape is
///
/// - **Whole or not at all.** The entries of one append are all on the tape or none is, whatever happens, also to whoever reads
///   beside it and after a crash of the process.
/// - **In order, without gaps.** Entries are numbered by their makers: the first is 1, or one more than the [`Place`] that the
///   tape goes on from; each is one more than that before. What does not follow is [`TapeError::Gap`], and nothing of it is
///   taken. An entry comes back as it was given, its `data` byte for byte.
/// - **Of parts.** A tape is one part, and one more with each anchor that is begun in it. Parts are numbered: the first is 1 and
///   called `session-start`; of a tape that goes on from a place it is one more than the part of that place, and is called
///   `forked`. An engine knows nothing else of forks: it reads the entries that were given to it, and no others.
/// - **What was acknowledged stays**, as far as the engine's durability goes. It says so itself; the runtime asks no questions.
///
/// # `Now` and `Later`
///
/// An append is answered [`Appended::Now`] where it is done, or failed, by then. Else it is answered [`Appended::Later`], and
/// the `notify` of the tape is told, once, with the last entry that is on the tape by then (the watermark), which must be readable
/// by then. The runtime acts on nothing before that, and appends nothing more: of each tape one append is on its way at most, and
/// another may be refused as [`TapeError::Busy`]. `notify` is short and never calls back into the engine; it may be called on any
/// thread, also after the writer was dropped.
///
/// # One writer
///
/// [`begin`](TapeStore::begin) and [`claim`](TapeStore::claim) claim a session, for as long as their writer is not dropped;
/// meanwhile others are refused as [`TapeError::Claimed`], through this value, a clone of it, or from another process where the
/// engine is shared by several. A dropped writer gives the session back behind its last append, and a `claim` through the same
/// value waits for that, instead of being refused. The runtime drops none: it calls [`TapeWriter::give_back`], and a session
/// sleeps only when that was answered. Reading claims nothing.
///
/// # Which threads
///
/// | called | on | may wait |
/// |---|---|---|
/// | [`TapeWriter::append`], [`begin_anchor`](TapeWriter::begin_anchor), `last`, `give_back`, and the writer's drop | an async thread, one at a time for each writer | no |
/// | [`mark`](TapeStore::mark) and [`unmark`](TapeStore::unmark) of [`Mark::Open`] | an async thread | no: what is slow is done behind, in order; a mark too many does no harm |
/// | [`folder`](TapeStore::folder) | any thread | no: a name is made, nothing is looked at |
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
/// assert_eq!(second.open(session.id()).await?.messages().await?.len(), 2);
/// second.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// What a host calls, for forks, whole tapes and lists, is in [`TapeStoreExt`](super::TapeStoreExt).
///
/// [`TapeError::Missing`] where there is no session of that name, of every method that reads one.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStore: Send + Sync + fmt::Debug {
    /// Makes a session with an empty tape, and claims it. Its first entry is 1, or the next one `after` a place of another tape.
    /// [`TapeError::Exists`] where the name is taken; not where whoever made it died before its first entry.
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Place>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError>;

    /// Claims a session, mends what its last writer left half-written, and reads its newest part. [`TapeError::Claimed`].
    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError>;

    /// The entries from one to another, both included, of those that there are. Beside a writer, whose last append is there whole
    /// or not at all. [`TapeError::Damaged`] where one of them cannot be trusted.
    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<Entry>, TapeError>;

    /// Where an entry stands; `None` where the tape has no such entry. As cheap for a long tape as for a short one.
    fn place(&self, session: &SessionId, seq: Seq) -> Result<Option<Place>, TapeError>;

    /// The parts of a tape, oldest first; without one whose first entry is not on the tape yet.
    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError>;

    /// The names of all sessions, sorted, also of those that are marked as hidden.
    fn names(&self) -> Result<Vec<SessionId>, TapeError>;

    /// What can be said of a session by its first and its last entry.
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError>;

    /// The last entry that can be gone on from. As it is by default, it is right for an engine whose entries are not damaged by
    /// themselves.
    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        let seq = self.summary(session)?.seq;
        Ok(SoundEnd { session: session.clone(), seq, damage: None })
    }

    /// Removes a session that nobody has, with its marks and all that is beside it, at once: after a crash it is there, or gone.
    /// Not where it has one of these marks, and then says which. From the look at them on until it is gone nobody sets one of them.
    /// [`TapeError::GoneOn`] where that is not its `last` entry; [`TapeError::Claimed`].
    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError>;

    /// Notes something of a session, and keeps `about` with it, as it is. What is noted already is noted anew; of
    /// [`Mark::Fork`] there is one for each `about`.
    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError>;

    /// Takes a mark away; of [`Mark::Fork`] the one with this `about`. A session that does not have it stays as it is.
    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError>;

    /// The sessions that have a mark, sorted, and what was said with it; only that session, where one is named.
    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError>;

    /// Waits until every append that was answered [`Appended::Later`] is told, and what was dropped is given back. Says whether
    /// it came to that within `limit`.
    fn settle(&self, limit: Duration) -> bool;

    /// A folder for what is kept beside the tapes: of one session, there as long as it is and gone with it; of all, where none is
    /// named. `None`, as it is by default: what is cut off of an output is lost, files cannot be put back, what a killed host
    /// left running is ended by its watcher alone; results and plans say so.
    fn folder(&self, _of: Option<&SessionId>) -> Option<PathBuf> {
        None
    }
}

/// Where an entry stands on the tape that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which entry.
    pub seq: Seq,
    /// Its time.
    pub time: Millis,
    /// How many entries of its append follow it.
    pub more: u64,
    /// What tells it from another entry of the same number, which a session that was made anew may have: a checksum, say.
    pub sum: String,
    /// The part that it is in.
    pub part: Anchor,
}

/// A session's tape, open for writing. A value: it outlives the actor that uses it. Dropping it gives the session back, once
/// everything that was appended is written.
///
/// # After an error
///
/// - A failed append leaves nothing on the tape. The same entries, or others in their place, may be appended again.
/// - One thing only is not certain, over files: in [`Durability::Power`](crate::tape::Durability), an append that was answered
///   with an error may be on the tape after all if the machine loses its power right then, or if the process is killed while
///   the disk refuses to take it back.
pub trait TapeWriter: Send + fmt::Debug {
    /// The last entry that is on the tape.
    fn last(&self) -> Seq;

    /// Appends entries, all or none: also a crash in the middle leaves all or none of them.
    ///
    /// They must be numbered on from the last entry that is on the tape. No entries are a success. Answered `Now` with an error it
    /// took nothing: [`Gap`](TapeError::Gap), [`Busy`](TapeError::Busy), [`TooLarge`](TapeError::TooLarge),
    /// [`Damaged`](TapeError::Damaged), [`Closed`](TapeError::Closed), and what the system said.
    fn append(&mut self, entries: &[Entry]) -> Appended;

    /// Appends one entry as the first of a new part, which opening the session will read alone. So the entry must say all that is
    /// needed from before. Characters that do not belong into a file's name become `-`; [`TapeError::AnchorExists`] where the
    /// tape has a part of that name.
    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended;

    /// Gives the session back, and tells `then` when that is done: when it has no [`Mark::Held`], and
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
    /// What it says: of [`TapeStore::claim`] its newest part, of [`TapeStoreExt::load`](super::TapeStoreExt::load) from its newest
    /// anchor on.
    pub entries: Vec<Entry>,
    /// A torn tail was cut off.
    pub repair: Option<Repair>,
    /// It is damaged: `entries` end before that, and nothing can be appended.
    pub read_only: Option<Damage>,
    /// Acknowledged entries may be lost, because the machine was started anew.
    pub rebooted: bool,
}
