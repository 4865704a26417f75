//! The handle of one tape: append to it.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Damage, Entry, TapeError, TapeWriter,
    layout::{anchor_name, anchor_number, plain_anchor_name},
    line::{Chain, encode_lines},
    log::{GivenBack, Log, State},
    queue::{Job, What},
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
    /// It waits for the disk. The tape's [`Notify`](crate::tape::Notify) will be told, once, in the order of the appends.
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
        let Some(first) = entries.first() else { return Ok(Appended::Now(Ok(state.good.seq))) };
        if state.failed {
            if first.seq == state.good.seq.next() {
                if let Some(error) = state.mark_failed.take() {
                    return Err(error);
                }
                state.start_anew();
            } else if state.outstanding > 0 {
                let doomed =
                    What::Append { bytes: Vec::new(), begin: None, after: state.good.clone(), run: state.run - 1 };
                return self.queue(&mut state, doomed);
            } else {
                return Err(state.last_failure.clone().unwrap_or(TapeError::Closed));
            }
        }
        let begin = anchor.map(|name| next_anchor(&state.anchors, name)).transpose()?;
        let mut after = begin.as_deref().map_or_else(|| state.head.clone(), |anchor| state.head.in_file(anchor));
        let bytes = encode_lines(&mut after, entries)?;
        if bytes.len() > APPEND_BYTES_MAX {
            return Err(TapeError::TooLarge { bytes: bytes.len(), max: APPEND_BYTES_MAX });
        }
        let is_its_turn =
            state.outstanding == 0 && state.marks == 0 && !self.inner.queue.stopped.load(Ordering::SeqCst);
        if is_its_turn
            && writer.needs_no_sync()
            && let Some(_began) = writer.in_place()
        {
            writer.write(&self.log, begin.as_deref(), &bytes, after.seq, false)?;
            state.good = after.clone();
            take(&mut state, after, begin);
            return Ok(Appended::Now(Ok(state.good.seq)));
        }
        let run = state.run;
        let job = What::Append { bytes, begin: begin.clone(), after: after.clone(), run };
        let later = self.queue(&mut state, job)?;
        take(&mut state, after, begin);
        Ok(later)
    }

    fn queue(&self, state: &mut State, what: What) -> Result<Appended, TapeError> {
        self.inner.queue.push(&self.inner.writer, Job::new(&self.log, what))?;
        state.outstanding += 1;
        // It stands behind that mark, and in front of the next one.
        state.mark = None;
        Ok(Appended::Later)
    }
}

impl TapeWriter for Tape {
    fn last(&self) -> Seq {
        self.log.state.lock().good.seq
    }

    fn outstanding(&self) -> usize {
        self.log.state.lock().outstanding
    }

    /// In [`Durability::Process`](crate::tape::Durability) it writes in place while the disk is calm, nothing of this tape is
    /// outstanding and nothing of another tape is written in place just now, and otherwise leaves it to the store's I/O thread. So of
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

fn take(state: &mut State, after: Chain, begin: Option<String>) {
    state.head = after;
    state.anchors.extend(begin);
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
