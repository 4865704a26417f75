//! The contract between a runtime and the engine that keeps its tapes: [`TapeStore`] and [`TapeWriter`]. An engine may be files, a
//! database, or the memory of a test.
//!
//! The interface is as narrow as it can be: tapes are made, claimed, appended to, read in ranges, listed, marked and erased. The
//! operations that are the same over every engine are in [`TapeStoreExt`](super::TapeStoreExt): forks and reading across them,
//! anchors, deletion that waits for forks, lists.
//!
//! The interface is plain and synchronous: an append is answered at once, or later by a callback, and must not wait for a slow
//! disk. The table "Which threads" at [`TapeStore`] says which methods may block. An append is one dynamic call, and boxes nothing.
//! A change must not break the engines of hosts: a new method needs a default or belongs into `TapeStoreExt`, and no promise may
//! become stronger.
//!
//! [`Store`](super::Store) is the engine over files; [`MemoryStore`](super::MemoryStore) keeps all tapes in memory.
//! `tests/it/engines.rs` holds both, and a third that is made of these methods alone, to the same claims.

use std::{fmt, fs::File, io::Write, path::PathBuf, time::Duration};

use super::{
    Anchor, Appended, Damage, EntryWords, FoundEntry, GivenBack, Mark, Notify, Repair, SessionSummary, SoundEnd,
    TapeEntry, TapeError, UnreadTape, WantedWords,
};
use crate::words::{
    ids::{Millis, Seq, SessionId},
    labels::Labels,
};

/// An engine that keeps tapes, and what it owes to the runtime over it.
///
/// # What a tape is
///
/// - **Whole or not at all.** The entries of one append are all on the tape or none is, at every moment, also for readers alongside
///   the writer and after a crash of the process.
/// - **In order, without gaps.** The maker of entries numbers them: the first is 1, or one more than the [`Position`] that the
///   tape continues from; each is one more than the entry before. An append that does not follow fails as [`TapeError::Gap`], and
///   nothing of it is taken. An entry is read back as it was appended, its `data` byte for byte; only line breaks between the
///   tokens of its JSON may become spaces.
/// - **Of parts.** A tape begins as one part, and gets one more with each anchor that is begun in it. Parts are numbered: the first
///   is 1 and called `session-start`. The first part of a tape that continues from a position has the number after that of the
///   position's part, and is called `forked`. An engine knows nothing else of forks: it reads the entries that it has, and no
///   others.
/// - **Acknowledged entries stay**, as far as the engine's durability goes. The engine documents its durability; the runtime does
///   not ask for it.
///
/// # `Now` and `Later`
///
/// An append that is done or has failed is answered [`Appended::Now`]. Any other is answered [`Appended::Later`], and the engine
/// calls the tape's `notify` once: with the error, or with the last entry that is on the tape by then (the watermark), which must
/// be readable by then. Until then the runtime does not act on the append and appends nothing more: at most one append of a tape is
/// under way, and the engine may refuse another as [`TapeError::Busy`]. `notify` is short and never calls back into the engine; it
/// may be called on any thread, also after the writer was dropped.
///
/// # One writer
///
/// [`begin`](TapeStore::begin) and [`claim`](TapeStore::claim) claim a session until their writer is dropped. Meanwhile every other
/// claim fails as [`TapeError::Claimed`], through this value, a clone of it, or from another process where processes share the
/// engine. A dropped writer releases the session after its last append, and a `claim` through the same value waits for that
/// instead of failing. The runtime does not rely on the drop: it calls [`TapeWriter::give_back`], and a session sleeps only when
/// that has returned. Reading claims nothing.
///
/// # A lost claim
///
/// An engine whose claims can end without their writer, as a lease does, says so: the next append fails as
/// [`TapeError::Claimed`], with the new owner, as [`TapeError::Missing`], if the session was erased, or as [`TapeError::Lost`].
/// Where it learns of the loss while no append is under way, it calls the tape's `notify` with that error, unasked and once. An
/// append that was under way is answered first: where it was written before the loss, as written, and the loss is told at once
/// behind it. The runtime then ends the session's workers at once, appends and publishes nothing more, and gives the writer back;
/// who waits is told [`SendError::Storage`](crate::SendError::Storage) with the error. Until then nothing of the old owner may be
/// written: the engine must refuse it by itself. The engines of this library never lose a claim.
///
/// # Which threads
///
/// | called | on | may wait |
/// |---|---|---|
/// | [`TapeWriter::append`], [`begin_anchor`](TapeWriter::begin_anchor), `last`, `give_back`, and the writer's drop | an async thread, one at a time for each writer | no |
/// | [`mark`](TapeStore::mark) and [`unmark`](TapeStore::unmark) of [`Mark::Open`] | an async thread | no: slow work is done in the background, in order; a mark too many does no harm |
/// | [`folder`](TapeStore::folder), [`output_copies`](TapeStore::output_copies) | any thread | no: it only makes a name |
/// | all else | a thread for what blocks | yes |
///
/// All methods may be called at once from many threads.
///
/// # Errors
///
/// Each method names the errors that the runtime tells apart; every other error is a [`TapeError::engine`], or a
/// [`TapeError::unreachable`] where asking again may help: a client is told so then. An append that fails is an answer and no crash:
/// senders get [`SendError::Storage`](crate::SendError::Storage), and open work is held and tried again twice a second. A panic in a
/// method of the store is an answer too, a [`TapeError::engine`] that names the method. An engine that panics in an append crashes
/// that session. The session starts again from its tape, and decides again about the reports of its workers.
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
/// The operations for hosts (forks, whole tapes, lists) are in [`TapeStoreExt`](super::TapeStoreExt).
///
/// Every method that reads a session fails as [`TapeError::Missing`] if no session has that name.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
pub trait TapeStore: Send + Sync + fmt::Debug {
    /// Makes a session with an empty tape, and claims it. Its first entry is 1, or the next one `after` a position of another
    /// tape. [`TapeError::Exists`] if the name is taken. A session whose maker died before its first entry does not take the name.
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError>;

    /// Claims a session, repairs an append that its last writer left half-written, and reads its newest part.
    /// [`TapeError::Claimed`].
    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError>;

    /// The entries `from` to `through`, both included, that the tape has. May run alongside a writer; its last append is read whole
    /// or not at all. [`TapeError::Damaged`] if an entry cannot be trusted.
    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError>;

    /// The position of an entry; `None` if the tape has no such entry. As cheap for a long tape as for a short one.
    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError>;

    /// The parts of a tape, oldest first; without one whose first entry is not on the tape yet.
    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError>;

    /// The names of all sessions, sorted, with those that are marked as hidden.
    fn names(&self) -> Result<Vec<SessionId>, TapeError>;

    /// A session, summarized from its first and its last entry.
    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError>;

    /// All sessions, sorted, each as [`summary`](TapeStore::summary) gives it, with those that are marked as hidden; one that cannot be
    /// read as [`SessionSummary::unread`]. The default asks for each by itself. An engine for which a question is a round trip answers
    /// for all of them at once.
    fn summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        one_by_one(self)
    }

    /// The last entry that a fork can continue from. The default is right for an engine whose entries cannot be damaged.
    fn sound_end(&self, session: &SessionId) -> Result<SoundEnd, TapeError> {
        let seq = self.summary(session)?.seq;
        Ok(SoundEnd::new(session.clone(), seq))
    }

    /// Removes a session that is not open, with its marks and everything next to it, in one step: after a crash it is whole, or
    /// gone. If the session has one of the marks in `unless`, it stays, and that mark is returned. From the check of the marks
    /// until the session is gone, none of them can be set. [`TapeError::GoneOn`] if `last` is not its last entry;
    /// [`TapeError::Claimed`].
    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError>;

    /// Sets a mark of a session, and keeps the text `about` with it unchanged. Replaces the same mark, if there is one; of
    /// [`Mark::Fork`] there is one for each `about`.
    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError>;

    /// Removes a mark; of [`Mark::Fork`] the one with this `about`. Does nothing if the mark does not exist.
    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError>;

    /// The sessions that have a mark, sorted, each with the text of the mark. With `of`, looks at that session alone.
    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError>;

    /// The entries up to `through` that end an append, in order; an append that only begins there may be named too. The default asks
    /// for a position of each append.
    fn ends(&self, session: &SessionId, through: Seq) -> Result<Vec<Seq>, TapeError> {
        let mut next = self.parts(session)?.first().map(|part| part.first);
        let mut ends = Vec::new();
        while let Some(first) = next.filter(|first| *first <= through) {
            let Some(position) = self.position(session, first)? else { break };
            let end = Seq(first.0 + position.more);
            ends.push(end);
            next = Some(end.next());
        }
        Ok(ends)
    }

    /// Makes a session of a whole tape that comes from elsewhere, with what stands next to it: what `pieces` gives, in its order. All
    /// or nothing, at every moment, also for readers and after a crash; an error of `pieces` is returned, and nothing was made then.
    /// [`TapeError::Exists`] before the first piece is taken. The lines are checked, and names are plain; the session is not open
    /// afterwards. The default refuses: an engine that does not have this method takes no imports.
    fn take_in(
        &self,
        _session: &SessionId,
        _pieces: &mut dyn Iterator<Item = Result<TapePiece, TapeError>>,
    ) -> Result<(), TapeError> {
        Err(TapeError::engine("this store takes no sessions from files: import into another one"))
    }

    /// The tapes with entries whose words were not [put in](TapeStore::put_words), by name: at most `most`, behind `after`; none that is
    /// marked as hidden. The default refuses as [`TapeError::NoIndex`]: an engine that does not have this method and the next two keeps
    /// no index of words, and `Runtime::search` says so.
    fn unread_words(&self, _after: Option<&SessionId>, _most: usize) -> Result<Vec<UnreadTape>, TapeError> {
        Err(TapeError::NoIndex)
    }

    /// Puts the words of a tape's next entries in, in order and without a gap, and the labels that its session has from then on; `None`
    /// if these entries change nothing of them. What is unread of a tape may come in several puts, of at most 50,000 words each. Does nothing if the tape of that name is another one by now, or if another caller was faster. Erasing a
    /// session removes its words in the same step.
    fn put_words(&self, _tape: &UnreadTape, _words: &[EntryWords], _labels: Option<&Labels>) -> Result<(), TapeError> {
        Err(TapeError::NoIndex)
    }

    /// The entries that are wanted, those with the largest place first, and of one place in any order that stays. None if there are
    /// none; fewer than asked for also where they are too large together. Nothing of a session that is marked as hidden.
    fn find_words(&self, _wanted: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        Err(TapeError::NoIndex)
    }

    /// Waits until every append that was answered [`Appended::Later`] is reported, and every dropped writer has released its
    /// session. `false` if that took longer than `limit`.
    fn settle(&self, limit: Duration) -> bool;

    /// The folder of this node for the copies of large outputs that calls work with, in an engine that keeps the outputs themselves
    /// and has the next three methods. The runtime makes the folder, not one above it, and removes its copies with their calls.
    /// Several runtimes may share it. `None` (the default): the engine keeps no outputs; [`folder`](TapeStore::folder) may.
    fn output_copies(&self) -> Option<PathBuf> {
        None
    }

    /// Keeps a large output of a session, whole or not at all: the file from its start, under a plain name. Nothing changes if the
    /// session has one of that name. The engine bounds what it keeps of a session, and says by what; what is erased with the
    /// session is erased in the same step.
    fn put_output(&self, _session: &SessionId, _name: &str, _file: &File) -> Result<(), TapeError> {
        Err(TapeError::engine("this store keeps no large outputs"))
    }

    /// Writes a large output of a session to `to`; `false`, without a byte, if there is none of that name, or no such session. After
    /// an error a part may be written.
    fn get_output(&self, _session: &SessionId, _name: &str, _to: &mut dyn Write) -> Result<bool, TapeError> {
        Ok(false)
    }

    /// The names of a session's large outputs, sorted, each with its bytes; none if there is no such session.
    fn outputs(&self, _session: &SessionId) -> Result<Vec<(String, u64)>, TapeError> {
        Ok(Vec::new())
    }

    /// A folder for files next to the tapes: with `of`, that of one session, which exists as long as the session; without, that of
    /// all. `None` (the default) means: the cut-off part of a large output is lost unless the engine
    /// [keeps it itself](TapeStore::output_copies), changed files cannot be restored, and only the watcher ends the processes of a
    /// killed host. Results and plans say so.
    fn folder(&self, _of: Option<&SessionId>) -> Option<PathBuf> {
        None
    }
}

/// [`TapeStore::summaries`], asked for one by one.
pub(super) fn one_by_one<S: TapeStore + ?Sized>(store: &S) -> Result<Vec<SessionSummary>, TapeError> {
    let mut all = Vec::new();
    for session in store.names()? {
        match store.summary(&session) {
            Ok(summary) => all.push(summary),
            // The session was deleted in between.
            Err(TapeError::Missing { .. }) => {}
            Err(_) => all.push(SessionSummary::unread(session)),
        }
    }
    Ok(all)
}

/// What [`TapeStore::take_in`] is given: first the appends of the tape, in order, then marks, then large outputs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TapePiece {
    /// The next append.
    Append {
        /// The part that it is in, `NNN_name`. Parts follow each other, and their numbers ascend, possibly with gaps; the first is 1.
        part: String,
        /// Its entries.
        entries: Vec<TapeEntry>,
    },
    /// A mark of the session.
    Mark {
        /// Which.
        mark: Mark,
        /// Its text.
        about: String,
    },
    /// The next bytes of a large output; given only to an engine that has a [`folder`](TapeStore::folder) for the session, or
    /// [keeps outputs itself](TapeStore::output_copies).
    Spill {
        /// The name of its file in the folder `spill`.
        name: String,
        /// None, or more of its bytes.
        bytes: Vec<u8>,
    },
}

/// The position of an entry on the tape that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Position {
    /// The number of the entry.
    pub seq: Seq,
    /// The time of the entry.
    pub time: Millis,
    /// How many entries of its append follow it.
    pub more: u64,
    /// A text, such as a checksum, that distinguishes the entry from another one of the same number, such as that of a later
    /// session under the same name.
    pub sum: String,
    /// The part that the entry is in.
    pub part: Anchor,
}

impl Position {
    /// The place of an entry: its number and time, how many entries of its append follow, its checksum, and its part.
    #[must_use]
    pub fn new(seq: Seq, time: Millis, more: u64, sum: impl Into<String>, part: Anchor) -> Position {
        Position { seq, time, more, sum: sum.into(), part }
    }
}

/// A session's tape, open for writing. A value: it outlives the actor that uses it. Dropping it releases the session, once every
/// append is written.
///
/// # After an error
///
/// - A failed append leaves nothing on the tape. The same entries, or others in their place, may be appended again.
/// - One case is uncertain, over files in [`Durability::Power`](crate::tape::Durability): an append that was answered with an error
///   may be on the tape after all if the machine loses its power right then, or if the process is killed while the disk refuses
///   to take the append back.
pub trait TapeWriter: Send + fmt::Debug {
    /// The last entry that is on the tape.
    fn last(&self) -> Seq;

    /// Appends entries, all or none; also a crash in the middle leaves all or none of them.
    ///
    /// Their numbers must follow the last entry that is on the tape. An append without entries succeeds. If the answer is `Now`
    /// with an error, nothing was taken: [`Gap`](TapeError::Gap), [`Busy`](TapeError::Busy), [`TooLarge`](TapeError::TooLarge),
    /// [`Damaged`](TapeError::Damaged), [`Changed`](TapeError::Changed), [`MemoryFull`](TapeError::MemoryFull),
    /// [`Closed`](TapeError::Closed), or an error of the system or of the engine.
    fn append(&mut self, entries: &[TapeEntry]) -> Appended;

    /// Appends one entry as the first of a new part. Opening the session will read this part alone, so the entry must say all that
    /// is needed from before. Characters that do not belong in a file's name become `-`; [`TapeError::AnchorExists`] if the tape
    /// has a part of that name.
    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended;

    /// Releases the session, without waiting, and calls `then` when that is done: the session has no [`Mark::Claimed`] then, and
    /// any process can claim it. The default is right for a writer whose drop releases the session before it returns. A writer
    /// that leaves this to a thread must have the thread call `then`.
    fn give_back(self: Box<Self>, then: GivenBack) {
        drop(self);
        then();
    }
}

/// A tape that was loaded.
#[derive(Debug)]
#[non_exhaustive]
pub struct LoadedTape {
    /// The writer of the tape.
    pub tape: Box<dyn TapeWriter>,
    /// The entries: from [`TapeStore::claim`], those of the newest part; from [`TapeStoreExt::load`](super::TapeStoreExt::load),
    /// those from the newest anchor on.
    pub entries: Vec<TapeEntry>,
    /// The torn tail that was cut off, if there was one.
    pub repair: Option<Repair>,
    /// The damage, if there is any: `entries` end before it, and nothing can be appended.
    pub read_only: Option<Damage>,
    /// Acknowledged entries may be lost: the machine was restarted since the last writer, which did not sync.
    pub rebooted: bool,
}

impl LoadedTape {
    /// A tape without damage. An engine sets the other fields.
    #[must_use]
    pub fn new(tape: Box<dyn TapeWriter>, entries: Vec<TapeEntry>) -> LoadedTape {
        LoadedTape { tape, entries, repair: None, read_only: None, rebooted: false }
    }
}
