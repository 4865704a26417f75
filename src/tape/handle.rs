//! The handle of one tape: append to it.

use std::{
    fmt,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use super::{
    Damage, Entry, TapeError, TapeWriter,
    layout::{anchor_name, anchor_number, plain_anchor_name},
    line::encode_lines,
    log::{GivenBack, Log, Notify},
    queue::{Append, Job, What},
    store::Inner,
};
use crate::words::ids::Seq;

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
        let may_be_now = state.is_idle() && !self.inner.queue.is_closed() && writer.needs_no_sync();
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
