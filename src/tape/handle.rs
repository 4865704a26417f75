//! The writing end of one tape: its handle, the [`Log`] that the handle shares with the store's I/O thread, and the [`OpenTape`]
//! that lends the writing end of any engine to an actor.
//!
//! At most one append of a tape is under way. While one is queued (`State::is_on_its_way`), the I/O thread alone writes the
//! tape's file, and another append is answered [`Busy`](TapeError::Busy). While none is queued, the handle alone writes it.
//! [`Appended::Now`] with an error means that nothing of the append is on the tape.
//!
//! A change must keep: the end and the anchors in [`State`] move on only when an append is on the tape, so a refused append
//! leaves both as they were; the handle takes `state` before `file` (lock order: `write`), else it could deadlock with the I/O
//! thread; until the store is closed, no method of the handle waits for the I/O thread, because an async thread calls it.

use std::{
    fmt,
    path::PathBuf,
    sync::atomic::Ordering,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64},
    },
};

use super::{
    Damage, Durability, TapeEntry, TapeError, TapeWriter,
    disk::LogFile,
    layout::{Layout, anchor_name, anchor_number, make_folder, open_or_make, plain_anchor_name},
    line::{Chain, encode_lines},
    owner::Claim,
    queue::{Append, Job, Mark, What},
    store::Inner,
};
use crate::{
    lock::Lock,
    words::ids::{Seq, SessionId},
};

/// The most bytes of one append.
pub const APPEND_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How an append was answered.
#[derive(Debug)]
#[must_use]
pub enum Appended {
    /// `Ok`: the append is on the tape, which ends with this entry. `Err`: nothing of the append is on the tape.
    Now(Result<Seq, TapeError>),
    /// The append waits for the disk. The tape's [`Notify`](crate::tape::Notify) will be called once with the result; until then no
    /// other append is taken.
    Later,
}

/// A session's tape, open for writing.
pub(super) struct Tape {
    inner: Arc<Inner>,
    log: Arc<Log>,
    damage: Option<Damage>,
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape").field("session", &self.log.session).field("last", &self.last()).finish_non_exhaustive()
    }
}

impl Tape {
    pub(super) fn new(inner: Arc<Inner>, log: Arc<Log>, damage: Option<Damage>) -> Tape {
        Tape { inner, log, damage }
    }

    fn try_append(&mut self, anchor: Option<&str>, entries: &[TapeEntry]) -> Result<Appended, TapeError> {
        if let Some(damage) = &self.damage {
            return Err(TapeError::Damaged(damage.clone()));
        }
        let writer = &self.inner.writer;
        let mut state = self.log.state.lock();
        if state.is_on_its_way {
            return Err(TapeError::Busy { waiting: 1 });
        }
        if let Some(error) = state.mark_failed.take() {
            return Err(error);
        }
        if entries.is_empty() {
            return Ok(Appended::Now(Ok(state.end.seq)));
        }
        let begin = anchor.map(|name| next_anchor(&state.anchors, name)).transpose()?;
        let mut after = begin.as_deref().map_or_else(|| state.end.clone(), |anchor| state.end.in_file(anchor));
        let bytes = encode_lines(&mut after, entries)?;
        if bytes.len() > APPEND_BYTES_MAX {
            return Err(TapeError::TooLarge { bytes: bytes.len(), max: APPEND_BYTES_MAX });
        }
        let append = Append { bytes, begin, after };
        // In `Power` an append needs the commit log, which belongs to the thread.
        let needs_no_sync = writer.options.durability == Durability::Process;
        let may_be_now = needs_no_sync && state.is_idle() && !self.inner.queue.stopped.load(Ordering::SeqCst);
        if may_be_now && let Some(_began) = writer.files.in_place() {
            writer.files.write(&writer.layout, &self.log, &append, false)?;
            state.take(&append);
            return Ok(Appended::Now(Ok(state.end.seq)));
        }
        self.inner.queue.push(Job::new(&self.log, What::Append(append)))?;
        state.is_on_its_way = true;
        Ok(Appended::Later)
    }
}

impl TapeWriter for Tape {
    fn last(&self) -> Seq {
        self.log.state.lock().end.seq
    }

    /// In [`Durability::Process`](crate::tape::Durability) the caller writes in place while the disk is calm, no mark of this tape
    /// waits, and no other caller of the store writes in place at that moment. Otherwise the store's I/O thread writes. So at
    /// most one caller of a store waits when the disk stalls.
    fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        self.try_append(None, entries).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.try_append(Some(name), std::slice::from_ref(first)).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn give_back(self: Box<Self>, then: GivenBack) {
        // `then` is called when the session is given back: in this handle's drop, or by the I/O thread after what waits.
        *self.log.then.lock() = Some(then);
    }
}

/// The folder of the next anchor.
fn next_anchor(anchors: &[String], name: &str) -> Result<String, TapeError> {
    let name = plain_anchor_name(name);
    if anchors.iter().any(|anchor| anchor_name(anchor) == name) {
        return Err(TapeError::AnchorExists { name });
    }
    let number = anchors.iter().filter_map(|anchor| anchor_number(anchor)).max().unwrap_or(0) + 1;
    Ok(format!("{number:03}_{name}"))
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.inner.give_back(&self.log);
    }
}

/// Called for every append that was answered [`Later`](crate::tape::Appended::Later), and once where a claim was lost: see
/// [`TapeStore`](crate::tape::TapeStore#a-lost-claim).
///
/// Called on any thread (over files, on the store's I/O thread): it must be short, must not block and must not wait for the store.
pub type Notify = Arc<dyn Fn(Result<Seq, TapeError>) + Send + Sync>;

/// Called once when a session was released: from then on any process can claim it. A drop without a call means the same.
///
/// Called on any thread; it must be short, must not block and must not wait for the store.
pub type GivenBack = Box<dyn FnOnce() + Send>;

/// One tape that is open for writing, shared by its handle, its queued jobs and the I/O thread.
pub(super) struct Log {
    pub(super) session: SessionId,
    /// The host's function, called for each append that was answered `Later`.
    pub(super) notify: Notify,
    /// The position of the tape. A write or a mark in place holds this lock over the disk; the I/O thread never does.
    pub(super) state: Lock<State>,
    /// Set once, when the handle is dropped or the store is closed.
    pub(super) given_back: AtomicBool,
    /// The newest file. Locked over the disk by each write.
    pub(super) file: Lock<LogFile>,
    /// The time of the last write, counted in writes of the store.
    pub(super) used: AtomicU64,
    /// When an append was noted for the index the last time ([`Changed`](super::changed::Changed)).
    pub(super) noted: AtomicU64,
    /// The claim of the session; taken out when the tape is given back.
    pub(super) claim: Lock<Option<Claim>>,
    /// Called after the claim was given back.
    pub(super) then: Lock<Option<GivenBack>>,
}

/// The position of a tape.
pub(super) struct State {
    /// The last entry that is on the tape, and its checksum: the next append continues from there.
    pub(super) end: Chain,
    /// The folders of the tape's anchors, oldest first.
    pub(super) anchors: Vec<String>,
    /// An append was answered `Later` and is not settled yet; cleared just before its result is reported. No other append is
    /// taken meanwhile.
    pub(super) is_on_its_way: bool,
    /// The mark that the I/O thread must put, until that is done or has failed. A newer request replaces an older one.
    pub(super) mark: Option<Mark>,
    /// Why the mark of an open turn could not be put. The next append fails with this error: without the mark, a restart would not
    /// find the turn that the append begins.
    pub(super) mark_failed: Option<TapeError>,
}

impl State {
    /// Whether the thread has nothing to do for the tape.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_on_its_way && self.mark.is_none()
    }

    /// Notes that an append is on the tape.
    pub(super) fn take(&mut self, append: &Append) {
        self.end = append.after.clone();
        self.anchors.extend(append.begin.clone());
    }
}

/// Makes the first anchor of a session if there is none.
pub(super) fn make_first_anchor(layout: &Layout, session: &SessionId, anchor: &str) -> Result<PathBuf, TapeError> {
    make_folder(&layout.anchors(session).join(anchor))?;
    let path = layout.entries(session, anchor);
    open_or_make(&path).map_err(TapeError::io("make", &path))?;
    Ok(path)
}

/// A tape on loan: the writer of any engine, until the lender takes it back. If the lender has not, dropping it releases the
/// session.
pub(crate) struct OpenTape(Arc<Lock<Option<Lent>>>);

/// The lender's end of a loan: it can take the tape back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lender(Weak<Lock<Option<Lent>>>);

/// A writer that is lent, and what the engine calls after it has released the session.
struct Lent {
    writer: Box<dyn TapeWriter>,
    then: GivenBack,
}

impl OpenTape {
    /// Lends a writer. The engine calls `then` when it has released the session.
    pub(crate) fn lend(writer: Box<dyn TapeWriter>, then: GivenBack) -> (OpenTape, Lender) {
        let tape = Arc::new(Lock::new(Some(Lent { writer, then })));
        let lender = Lender(Arc::downgrade(&tape));
        (OpenTape(tape), lender)
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn TapeWriter) -> Appended) -> Appended {
        // The lock ignores poisoning: after a panic in an append, the engine itself reports what it has written.
        match self.0.lock().as_mut() {
            Some(lent) => write(&mut *lent.writer),
            None => Appended::Now(Err(TapeError::Closed)),
        }
    }

    /// As [`TapeWriter::append`]; closed once the lender has the tape back.
    pub(crate) fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        self.write(|writer| writer.append(entries))
    }

    /// As [`TapeWriter::begin_anchor`]; closed once the lender has the tape back.
    pub(crate) fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.write(|writer| writer.begin_anchor(name, first))
    }
}

impl Lender {
    /// Takes the tape back. A tape in the middle of an append is locked: its actor releases it on drop.
    pub(crate) fn take_back(&self) {
        let lent = self.0.upgrade().and_then(|tape| tape.try_lock().and_then(|mut tape| tape.take()));
        if let Some(Lent { writer, then }) = lent {
            writer.give_back(then);
        }
    }
}

impl fmt::Debug for OpenTape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTape").finish_non_exhaustive()
    }
}

impl Drop for OpenTape {
    fn drop(&mut self) {
        let lent = self.0.lock().take();
        if let Some(Lent { writer, then }) = lent {
            writer.give_back(then);
        }
    }
}
