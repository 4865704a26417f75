//! What was read of long tapes, kept so that the next look reads only what came since: bills, and where tasks ended.
//!
//! Derived and bounded: what is forgotten, or does not fit the tape any more, is read again. A reading holds for a tape that still
//! has, with the same checksum, the entry up to which it was read; each checksum covers all entries before it.
//!
//! A change must keep that check, because entries that were read may have been cut back since; and that no tape is read under the
//! lock, because a slow disk would hold up the readers of all tapes.

use std::collections::BTreeMap;

use crate::{
    error::OpenError,
    kernel::{Bill, Entry},
    lock::Lock,
    ops::taped,
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// The most lines of bills and entries of tasks that are kept, of all sessions together.
const KEPT_MAX: usize = 65_536;

/// The kind of the entry that opens a task.
const OPENS_TASK: &str = "task_started";

/// The readings of the sessions that were asked about last.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    bills: Lock<Kept<Bill>>,
    tasks: Lock<Kept<Tasks>>,
}

/// Readings, the one that was used last at the end.
#[derive(Debug)]
struct Kept<T>(Vec<(SessionId, Reading<T>)>);

/// What was read of one tape.
#[derive(Debug, Default)]
struct Reading<T> {
    /// The last entry that was read, and its checksum; 0 for a tape of which nothing was read.
    upto: Seq,
    sum: String,
    value: T,
}

/// The entries about each task, by the entry that opened it.
type Tasks = BTreeMap<Seq, Vec<Seq>>;

/// A value that grows with the tape.
trait Weighed {
    fn size(&self) -> usize;
}

impl Weighed for Bill {
    fn size(&self) -> usize {
        self.lines.len()
    }
}

impl Weighed for Tasks {
    fn size(&self) -> usize {
        self.values().map(Vec::len).sum()
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept(Vec::new())
    }
}

impl<T: Weighed> Kept<T> {
    fn take(&mut self, session: &SessionId) -> Option<Reading<T>> {
        let at = self.0.iter().position(|(kept, _)| kept == session)?;
        Some(self.0.remove(at).1)
    }

    fn put(&mut self, session: &SessionId, reading: Reading<T>) {
        self.0.retain(|(kept, _)| kept != session);
        self.0.push((session.clone(), reading));
        let mut room = KEPT_MAX;
        let fits = self.0.iter().rev().take_while(|(_, reading)| {
            let size = reading.value.size().max(1);
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        });
        let too_many = self.0.len() - fits.count();
        self.0.drain(..too_many);
    }
}

impl Remembered {
    /// The bill of a session. Costs what the tape got since the last call, and the lines of the bill. Blocks on the disk.
    ///
    /// # Errors
    /// Where the tape cannot be read.
    pub(crate) fn bill(&self, store: &dyn TapeStore, session: &SessionId) -> Result<Bill, OpenError> {
        let known = self.bills.lock().take(session);
        let mut reading = still_holds(store, session, known)?;
        let lines = store.read(session, reading.upto)?;
        taped::entries(session, &lines)?.iter().for_each(|entry| reading.value.apply(entry));
        reading.go_on(store, session, lines.last().map(|line| line.seq))?;
        let bill = reading.value.clone();
        self.bills.lock().put(session, reading);
        Ok(bill)
    }

    /// The entries of a tape about a task, its start first. Costs what the tape got since the last call for any of its tasks, and
    /// these entries. Blocks on the disk.
    ///
    /// # Errors
    /// Where the tape cannot be read.
    pub(crate) fn task(
        &self,
        store: &dyn TapeStore,
        session: &SessionId,
        ticket: Seq,
    ) -> Result<Vec<Entry>, OpenError> {
        let known = self.tasks.lock().take(session);
        let mut reading = still_holds(store, session, known)?;
        let lines = store.read(session, reading.upto)?;
        for line in &lines {
            if line.kind == OPENS_TASK {
                reading.value.insert(line.seq, vec![line.seq]);
            } else if let Some(about) = line.ticket.and_then(|ticket| reading.value.get_mut(&ticket)) {
                about.push(line.seq);
            }
        }
        reading.go_on(store, session, lines.last().map(|line| line.seq))?;
        let about = reading.value.get(&ticket).cloned().unwrap_or_default();
        self.tasks.lock().put(session, reading);
        let mut found = Vec::new();
        for seq in about {
            found.extend(store.read_through(session, seq, seq)?);
        }
        taped::entries(session, &found)
    }
}

impl<T> Reading<T> {
    /// Notes that the tape was read up to its entry `last`.
    fn go_on(&mut self, store: &dyn TapeStore, session: &SessionId, last: Option<Seq>) -> Result<(), TapeError> {
        let Some(last) = last else { return Ok(()) };
        let position = store.position(session, last)?;
        // The entry may be one of the tape that a fork goes on from, or was cut back: then nothing is known the next time.
        (self.upto, self.sum) = (last, position.map(|position| position.sum).unwrap_or_default());
        Ok(())
    }
}

/// The reading, if the tape still is what was read; else one of nothing.
fn still_holds<T: Default>(
    store: &dyn TapeStore,
    session: &SessionId,
    known: Option<Reading<T>>,
) -> Result<Reading<T>, TapeError> {
    let Some(known) = known else { return Ok(Reading::default()) };
    let position = store.position(session, known.upto)?;
    Ok(match position.is_some_and(|position| position.sum == known.sum) {
        true => known,
        false => Reading::default(),
    })
}
