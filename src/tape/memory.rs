//! [`MemoryStore`]: tapes in memory, for tests and for hosts that want nothing kept. They are gone with the last clone of the store
//! and its last open tape.
//!
//! It keeps every promise of [`TapeStore`] except one: nothing survives the process. An append is always answered at once.
//!
//! It takes no more than its [`MemoryLimits`], and removes nothing on its own. Beyond them, it refuses with
//! [`TapeError::MemoryFull`], like a full disk, until the host removes sessions that are over
//! ([`Runtime::sweep`](crate::Runtime::sweep), by number, age or size) or allows more. A turn that is open can still end: its
//! appends may use a small reserve, as in a store of files.
//!
//! One mutex guards all tapes, and async threads take it for each append. So a change must not copy more entries under it than
//! those of one append: a reader shares the entries (`Arc`) and copies them after the lock is released. The store uses no disk
//! and starts no thread. The texts of marks have the same form as in other engines.

mod tapes;

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use super::{
    Anchor, Appended, LoadedTape, Mark, Notify, Position, SessionSummary, TapeEntry, TapeError, TapeStore, TapeWriter,
    whole::END,
};
use crate::{
    lock::Lock,
    words::ids::{Seq, SessionId},
};
use tapes::{Memory, MemoryTape, copied};

/// How much a [`MemoryStore`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// The most bytes of all entries together, each counted as its line in a file would be. 512 MiB by default. The memory that
    /// they use is larger by some hundred bytes an entry. Turns that are open may append 1 MiB beyond the limit, all together.
    pub bytes_max: u64,
    /// The most sessions, with those that were deleted and are kept for their forks. 100,000 by default.
    pub sessions_max: usize,
}

impl MemoryLimits {
    crate::words::setters::setters! {
        /// Limits the [bytes of all entries](#structfield.bytes_max).
        bytes_max: u64;
        /// Limits the [sessions](#structfield.sessions_max).
        sessions_max: usize;
    }
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits { bytes_max: 512 * 1024 * 1024, sessions_max: 100_000 }
    }
}

/// A store of tapes in memory. Cheap to clone; all clones are one store, and each session has one writer at a time, also where
/// several runtimes use the store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Lock<Memory>>,
}

impl MemoryStore {
    /// An empty store with the default limits.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// An empty store with these limits.
    #[must_use]
    pub fn with_limits(limits: MemoryLimits) -> MemoryStore {
        let store = MemoryStore::default();
        store.set_limits(limits);
        store
    }

    /// Sets other limits, for all clones. Removes nothing, even if the store holds more than the new limits.
    ///
    /// Room that becomes free is not announced: a session with something to record tries again twice a second.
    pub fn set_limits(&self, limits: MemoryLimits) {
        self.memory().limits = limits;
    }

    /// The bytes of all entries together, as [`MemoryLimits::bytes_max`] counts them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.memory().bytes
    }

    /// Closes the store for all clones: from now on nothing can be written, and every session is released. Reading still works.
    pub fn close(&self) {
        let mut memory = self.memory();
        memory.closed = true;
        memory.tapes.values_mut().for_each(|tape| tape.holder = None);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.inner.lock()
    }

    fn handle(&self, session: &SessionId, handle: u64) -> Box<dyn TapeWriter> {
        Box::new(MemoryWriter { store: self.clone(), session: session.clone(), handle })
    }
}

impl TapeStore for MemoryStore {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        _: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        match memory.tapes.get(session) {
            // A tape without an entry and without a writer: its existence was never reported.
            Some(tape) if tape.last_own().is_none() && tape.holder.is_none() => {}
            Some(_) => return Err(TapeError::Exists { session: session.clone() }),
            None => memory.must_have_room_for_one_more()?,
        }
        memory.tapes.insert(session.clone(), MemoryTape::empty(session, after));
        let handle = memory.claim(session)?;
        Ok(self.handle(session, handle))
    }

    fn claim(&self, session: &SessionId, _: Notify) -> Result<LoadedTape, TapeError> {
        let mut memory = self.memory();
        let handle = memory.claim(session)?;
        let tape = memory.tape(session)?;
        let lines = tape.lines(tape.newest_part(END).map_or(Seq::ZERO, |part| part.first), END);
        drop(memory);
        let (tape, entries) = (self.handle(session, handle), copied(lines));
        Ok(LoadedTape { tape, entries, repair: None, read_only: None, rebooted: false })
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        let lines = self.memory().tape(session)?.lines(from, through);
        Ok(copied(lines))
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        Ok(self.memory().tape(session)?.position(seq))
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        Ok(self.memory().tape(session)?.parts.clone())
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        Ok(self.memory().tapes.keys().cloned().collect())
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.memory().tape(session).map(|tape| tape.summary(session))
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        let mut memory = self.memory();
        memory.must_be_claimable(session)?;
        if let Some(mark) = unless.iter().find(|mark| !memory.marked(**mark, Some(session)).is_empty()) {
            return Ok(Some(*mark));
        }
        let now = memory.tape(session)?.summary(session).seq;
        if let Some(expected) = last.filter(|last| *last != now) {
            return Err(TapeError::GoneOn { session: session.clone(), expected, last: now });
        }
        memory.erase(session);
        Ok(None)
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.memory().mark(session, mark, about)
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.memory().unmark(session, mark, about)
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        Ok(self.memory().marked(mark, of))
    }

    fn settle(&self, _: Duration) -> bool {
        // Nothing is ever answered later.
        true
    }
}

/// The claim on one tape. Dropping it releases the session.
#[derive(Debug)]
struct MemoryWriter {
    store: MemoryStore,
    session: SessionId,
    handle: u64,
}

impl MemoryWriter {
    fn write(&self, anchor: Option<&str>, entries: &[TapeEntry]) -> Appended {
        Appended::Now(self.store.memory().append(&self.session, self.handle, anchor, entries))
    }
}

impl TapeWriter for MemoryWriter {
    fn last(&self) -> Seq {
        self.store.memory().tapes.get(&self.session).and_then(MemoryTape::last_own).unwrap_or(Seq::ZERO)
    }

    fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        self.write(None, entries)
    }

    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.write(Some(name), std::slice::from_ref(first))
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        let mut memory = self.store.memory();
        if let Some(tape) = memory.tapes.get_mut(&self.session).filter(|tape| tape.holder == Some(self.handle)) {
            tape.holder = None;
        }
    }
}

#[cfg(test)]
mod tests;
