//! The writing end of one tape: its handle, and what the handle shares with the store's I/O thread.
//!
//! A tape's file is touched by one of them at a time: by the I/O thread while something is on its way, by the handle while nothing
//! is.

use std::{
    fmt,
    path::PathBuf,
    sync::atomic::Ordering,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use super::{
    Damage, Entry, TapeError, TapeWriter,
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
    /// It is on the tape, up to this entry; or it is not, and nothing of it is.
    Now(Result<Seq, TapeError>),
    /// It waits for the disk. The tape's [`Notify`](crate::tape::Notify) will be told, once; until then no other append is taken.
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

    fn try_append(&mut self, anchor: Option<&str>, entries: &[Entry]) -> Result<Appended, TapeError> {
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
        let may_be_now = state.is_idle() && !self.inner.queue.stopped.load(Ordering::SeqCst) && writer.needs_no_sync();
        if may_be_now && let Some(_began) = writer.in_place() {
            writer.write(&self.log, &append, false)?;
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

    /// In [`Durability::Process`](crate::tape::Durability) it writes in place while the disk is calm, no mark of this tape waits
    /// and nothing of another tape is written in place just now, and otherwise leaves it to the store's I/O thread. So of
    /// all the callers of a store one at most waits when the disk begins to stand still.
    fn append(&mut self, entries: &[Entry]) -> Appended {
        self.try_append(None, entries).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended {
        self.try_append(Some(name), std::slice::from_ref(first)).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn give_back(self: Box<Self>, then: GivenBack) {
        // Told when it is done: by the drop of this, or behind what waits for the disk.
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

/// How long an engine may take for the first append of a tape.
const FIRST_APPEND_LIMIT: Duration = Duration::from_secs(30);

type Told = Result<Seq, TapeError>;

/// The first append of a new tape: whoever makes a session is told only when it is on the disk, whatever the durability.
///
/// Blocks a thread that may wait for a disk. Later appends are the actor's, which never waits.
pub(crate) struct FirstAppend {
    teller: SyncSender<Told>,
    told: Receiver<Told>,
}

impl FirstAppend {
    pub(crate) fn new() -> FirstAppend {
        let (teller, told) = sync_channel(1);
        FirstAppend { teller, told }
    }

    /// Who is told of the tape's appends: of the first one this, for as long as it waits, and of all others that one.
    pub(crate) fn notify(&self, others: Notify) -> Notify {
        let teller = self.teller.clone();
        Arc::new(move |result| match teller.try_send(result) {
            Ok(()) => {}
            Err(TrySendError::Full(result) | TrySendError::Disconnected(result)) => others(result),
        })
    }

    /// Waits until it is settled.
    pub(crate) fn settle(self, appended: Appended) -> Result<(), TapeError> {
        let told = match appended {
            Appended::Now(told) => told,
            Appended::Later => {
                self.told.recv_timeout(FIRST_APPEND_LIMIT).map_err(|_| TapeError::Busy { waiting: 1 })?
            }
        };
        told.map(drop)
    }
}

/// Told of every append that was answered [`Later`](crate::tape::Appended::Later).
///
/// Called by the store's I/O thread: it must be short, must not block and must not wait for the store.
pub type Notify = Arc<dyn Fn(Result<Seq, TapeError>) + Send + Sync>;

/// Told once a session was given back: from then on whoever wants it can claim it. Dropped without a call it says the same.
///
/// Called on any thread; it must be short, must not block and must not wait for the store.
pub type GivenBack = Box<dyn FnOnce() + Send>;

/// The writing end of one tape.
pub(super) struct Log {
    pub(super) session: SessionId,
    pub(super) notify: Notify,
    /// Locked over the disk by what is done in place.
    pub(super) state: Lock<State>,
    /// The handle is gone, or the store was closed.
    pub(super) given_back: AtomicBool,
    pub(super) file: Lock<LogFile>,
    /// When it was last written, counted in writes of the store.
    pub(super) used: AtomicU64,
    /// Taken out when the tape is given back.
    pub(super) claim: Lock<Option<Claim>>,
    /// Told behind that.
    pub(super) then: Lock<Option<GivenBack>>,
}

/// What is known of a tape.
pub(super) struct State {
    /// Behind the last entry that is on the tape.
    pub(super) end: Chain,
    /// The folders of the tape's anchors, oldest first.
    pub(super) anchors: Vec<String>,
    /// An append was answered `Later` and is not told yet. No other is taken meanwhile.
    pub(super) is_on_its_way: bool,
    /// The mark that the store's thread is to put, until it is put. The last word counts.
    pub(super) mark: Option<Mark>,
    /// Why the mark of an open turn could not be put, until an append was told: it would begin a turn that nobody finds again.
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

/// Makes the first anchor of a session where there is none.
pub(super) fn make_first_anchor(layout: &Layout, session: &SessionId, anchor: &str) -> Result<PathBuf, TapeError> {
    make_folder(&layout.anchors(session).join(anchor))?;
    let path = layout.entries(session, anchor);
    open_or_make(&path).map_err(TapeError::io("make", &path))?;
    Ok(path)
}
