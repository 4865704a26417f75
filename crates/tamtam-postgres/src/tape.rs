//! [`Tape`]: one session that this node has, and [`PgWriter`], the runtime's handle to it.
//!
//! ```text
//! append: encode → queue ── keeper: one statement ──► settle: move the place, tell the runtime
//! ```
//!
//! The place of a tape moves only when its append is on the tape, so a refused append leaves it as it was. At most one append of a
//! tape is under way. A tape that was lost to another node refuses everything from then on, and says who has it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tamtam::{
    Seq, SessionId,
    tape::{APPEND_BYTES_MAX, Appended, Damage, GivenBack, Notify, TapeEntry, TapeError, TapeLines, TapeWriter},
};

use crate::node::{Job, Node};

/// A session that this node has.
pub(crate) struct Tape {
    pub(crate) session: SessionId,
    pub(crate) notify: Notify,
    state: Mutex<State>,
}

/// The place of a tape, and by what right it is written.
pub(crate) struct State {
    /// The number of the claim, which each statement carries.
    pub(crate) epoch: i64,
    pub(crate) lines: TapeLines,
    /// The part that the first entry begins: `NNN_name`.
    pub(crate) first_anchor: String,
    /// The names of the parts, without their numbers.
    pub(crate) parts: BTreeSet<String>,
    /// The size of all lines so far.
    pub(crate) bytes: i64,
    pub(crate) damage: Option<Damage>,
    is_on_its_way: bool,
    /// Why nothing can be written any more.
    lost: Option<TapeError>,
}

/// The rows of one append, and where the tape is behind them.
pub(crate) struct Rows {
    pub(crate) anchor: String,
    pub(crate) begins: bool,
    pub(crate) rows: Vec<Row>,
    pub(crate) size: usize,
    after: TapeLines,
    /// The number and the checksum of the line that they continue.
    pub(crate) last: (i64, String),
    /// Whether a statement with it was sent, and its answer was lost.
    pub(crate) was_sent: bool,
}

pub(crate) struct Row {
    pub(crate) seq: i64,
    pub(crate) time: i64,
    pub(crate) more: i64,
    pub(crate) bytes: i64,
    pub(crate) sum: String,
    pub(crate) line: String,
}

impl State {
    pub(crate) fn new(epoch: i64, lines: TapeLines, first_anchor: String) -> State {
        let (parts, bytes, damage, is_on_its_way, lost) = (BTreeSet::new(), 0, None, false, None);
        State { epoch, lines, first_anchor, parts, bytes, damage, is_on_its_way, lost }
    }

    /// The part of the next entry, and whether it begins there.
    fn next_anchor(&self, begin: Option<&str>) -> Result<(String, bool), TapeError> {
        let name = begin.map(TapeLines::part_name);
        let first = name_of(&self.first_anchor);
        if let Some(name) = name.as_ref().filter(|name| *name == first || self.parts.contains(*name)) {
            return Err(TapeError::AnchorExists { name: name.clone() });
        }
        Ok(match name {
            _ if self.lines.anchor().is_empty() => (self.first_anchor.clone(), true),
            Some(name) => (format!("{:03}_{name}", number_of(self.lines.anchor()) + 1), true),
            None => (self.lines.anchor().to_owned(), false),
        })
    }

    fn rows(&self, begin: Option<&str>, entries: &[TapeEntry]) -> Result<Rows, TapeError> {
        let (anchor, begins) = self.next_anchor(begin)?;
        let rows = self.rows_in(anchor, begins, entries)?;
        if rows.size > APPEND_BYTES_MAX {
            return Err(TapeError::TooLarge { bytes: rows.size, max: APPEND_BYTES_MAX });
        }
        Ok(rows)
    }

    /// The rows of an append, in this part.
    pub(crate) fn rows_in(&self, anchor: String, begins: bool, entries: &[TapeEntry]) -> Result<Rows, TapeError> {
        let mut after = self.lines.clone();
        let lines = after.encode(&anchor, entries)?;
        let size = lines.iter().map(|(line, _)| line.len() + 1).sum();
        let (mut bytes, mut more) = (self.bytes, entries.len() as i64);
        let rows = entries.iter().zip(lines).map(|(entry, (line, sum))| {
            bytes += line.len() as i64 + 1;
            more -= 1;
            Row { seq: entry.seq.0 as i64, time: entry.time.0 as i64, more, bytes, sum, line }
        });
        let rows = rows.collect();
        let last = (self.lines.seq().0 as i64, self.lines.sum().to_owned());
        Ok(Rows { anchor, begins, rows, size, after, last, was_sent: false })
    }

    pub(crate) fn move_behind(&mut self, append: &Rows) {
        self.lines = append.after.clone();
        self.bytes = append.rows.last().map_or(self.bytes, |row| row.bytes);
        if append.begins {
            self.parts.insert(name_of(&append.anchor).to_owned());
        }
    }
}

/// The number in `NNN_name`.
pub(crate) fn number_of(anchor: &str) -> u64 {
    anchor.split_once('_').and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The name in `NNN_name`.
pub(crate) fn name_of(anchor: &str) -> &str {
    anchor.split_once('_').map_or(anchor, |(_, name)| name)
}

impl Tape {
    pub(crate) fn new(session: SessionId, notify: Notify, state: State) -> Tape {
        Tape { session, notify, state: Mutex::new(state) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on nothing is written; the first reason stays. The runtime is told now, or with the append that is under way.
    pub(crate) fn lose(&self, why: TapeError) {
        let mut state = self.state();
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(why.clone());
        if !state.is_on_its_way {
            // Under the lock, so that it comes before the answer to any later append.
            (self.notify)(Err(why));
        }
    }

    pub(crate) fn lost(&self) -> Option<TapeError> {
        self.state().lost.clone()
    }

    /// Ends an append that is under way, and tells the runtime.
    pub(crate) fn settle(&self, append: &Rows, result: Result<(), TapeError>) {
        let mut state = self.state();
        state.is_on_its_way = false;
        let result = result.map(|()| {
            state.move_behind(append);
            state.lines.seq()
        });
        // The append was before the loss, which was not told while it was under way.
        let lost = state.lost.clone().filter(|_| result.is_ok());
        drop(state);
        (self.notify)(result);
        if let Some(lost) = lost {
            (self.notify)(Err(lost));
        }
    }
}

impl fmt::Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The handle of a tape. Dropping it gives the session back, behind its last append.
#[derive(Debug)]
pub(crate) struct PgWriter {
    node: Arc<Node>,
    tape: Arc<Tape>,
    then: Option<Then>,
}

struct Then(GivenBack);

impl fmt::Debug for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Then")
    }
}

impl PgWriter {
    pub(crate) fn new(node: Arc<Node>, tape: Arc<Tape>) -> PgWriter {
        PgWriter { node, tape, then: None }
    }

    fn write(&self, begin: Option<&str>, entries: &[TapeEntry]) -> Result<Appended, TapeError> {
        let mut state = self.tape.state();
        if let Some(damage) = &state.damage {
            return Err(TapeError::Damaged(damage.clone()));
        }
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        if state.is_on_its_way {
            return Err(TapeError::Busy { waiting: 1 });
        }
        if entries.is_empty() {
            return Ok(Appended::Now(Ok(state.lines.seq())));
        }
        let rows = state.rows(begin, entries)?;
        self.node.push(Job::Append(Arc::clone(&self.tape), rows))?;
        state.is_on_its_way = true;
        Ok(Appended::Later)
    }
}

impl TapeWriter for PgWriter {
    fn last(&self) -> Seq {
        self.tape.state().lines.seq()
    }

    fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        self.write(None, entries).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.write(Some(name), std::slice::from_ref(first)).unwrap_or_else(|error| Appended::Now(Err(error)))
    }

    fn give_back(mut self: Box<Self>, then: GivenBack) {
        self.then = Some(Then(then));
    }
}

impl Drop for PgWriter {
    fn drop(&mut self) {
        let then = self.then.take().map(|Then(then)| then);
        self.node.leave(&self.tape, then);
    }
}
