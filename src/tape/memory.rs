//! Tapes in memory: for tests, and for hosts that want nothing kept. Gone with the last clone.
//!
//! Holds what [`TapeStore`] promises but for one thing: nothing survives the process. An append is always answered at once.
//!
//! It takes no more than its [`MemoryLimits`], and removes nothing by itself: what is beyond is refused as
//! [`TapeError::MemoryFull`], like a write to a full disk, until the host has removed sessions that are over
//! ([`Runtime::sweep`](crate::Runtime::sweep), by number, age or size) or allows more. A turn that is open goes on and ends for
//! all that: for what it appends a little more is taken, as the reserve of a store of files is for.

mod tapes;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use super::{
    Anchor, Appended, Deleted, Entry, FORK_DEPTH_MAX, Finding, Forked, LoadedTape, Mark, Notify, ReadTo,
    SessionSummary, TapeError, TapeStore, TapeWriter, disk::lock, line::Chain,
};
use crate::ids::{Millis, Seq, SessionId};
use tapes::{Memory, MemoryTape, copied};

/// How much a [`MemoryStore`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// The most bytes of all entries together, each counted as the line of a file that it would be. 512 MiB by default. The
    /// memory that they take is more, by some hundred bytes an entry. What turns append that are open by then may be 1 MiB more,
    /// all together; half of that is for appends of at most 4 KiB, as the ends of turns are.
    pub bytes_max: u64,
    /// The most sessions, with those that were deleted and that forks go on from. 100,000 by default.
    pub sessions_max: usize,
}

impl Default for MemoryLimits {
    fn default() -> MemoryLimits {
        MemoryLimits { bytes_max: 512 * 1024 * 1024, sessions_max: 100_000 }
    }
}

/// A store of tapes in memory. Cheap to clone; all clones are one, and each session of it has one writer at a time, also
/// where several runtimes are over it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Memory>>,
}

impl MemoryStore {
    /// An empty one, with the usual limits.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// An empty one that takes so much.
    #[must_use]
    pub fn with_limits(limits: MemoryLimits) -> MemoryStore {
        let store = MemoryStore::default();
        store.set_limits(limits);
        store
    }

    /// Sets other limits, for all clones. Nothing is removed where there is more already.
    ///
    /// What was refused before is not told: a session with something to record tries again twice a second.
    pub fn set_limits(&self, limits: MemoryLimits) {
        self.memory().limits = limits;
    }

    /// The bytes of all entries together, as [`MemoryLimits::bytes_max`] counts them.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.memory().bytes
    }

    /// Closes it for all clones: from now on nothing can be written, and every session is given back.
    pub fn close(&self) {
        let mut memory = self.memory();
        memory.closed = true;
        memory.tapes.values_mut().for_each(|tape| tape.holder = None);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.inner)
    }

    fn handle(&self, session: &SessionId, handle: u64) -> Box<dyn TapeWriter> {
        Box::new(MemoryWriter { store: self.clone(), session: session.clone(), handle })
    }
}

impl TapeStore for MemoryStore {
    fn create(&self, session: &SessionId, _: Notify) -> Result<Box<dyn TapeWriter>, TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        let exists = TapeError::Exists { session: session.clone() };
        match memory.tapes.get(session) {
            // Nobody was told that it exists.
            Some(tape) if tape.last() == Seq::ZERO && tape.holder.is_none() => {}
            Some(_) => return Err(exists),
            None => {
                memory.must_have_room_for_one_more()?;
                let chain = Chain::start(session, "001_session-start");
                memory.tapes.insert(session.clone(), MemoryTape::empty(None, chain, 1));
            }
        }
        let handle = memory.claim(session)?;
        Ok(self.handle(session, handle))
    }

    fn load(&self, session: &SessionId, _: Notify) -> Result<LoadedTape, TapeError> {
        let mut memory = self.memory();
        let handle = memory.claim(session)?;
        let last = memory.shown(session)?.last();
        let first = memory.newest_anchor(session, last).map_or(Seq::ZERO, |anchor| anchor.first);
        let lines = memory.lines(session, first, last);
        drop(memory);
        let (tape, entries) = (self.handle(session, handle), copied(lines));
        Ok(LoadedTape { tape, entries, repair: None, read_only: None, rebooted: false })
    }

    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        let memory = self.memory();
        let last = memory.shown(session)?.last();
        let lines = memory.lines(session, after.next(), last);
        drop(memory);
        Ok(copied(lines))
    }

    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        let memory = self.memory();
        let last = memory.shown(session)?.last();
        let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq, last };
        let anchor = memory.newest_anchor(session, seq).ok_or_else(|| no_entry(Seq::ZERO))?;
        if last < seq {
            return Err(no_entry(last));
        }
        let lines = memory.lines(session, anchor.first, seq);
        drop(memory);
        let ends_append = lines.last().is_some_and(|line| line.end.is_some());
        Ok(ReadTo { anchor, entries: copied(lines), ends_append })
    }

    fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        let memory = self.memory();
        memory.shown(session)?;
        Ok(memory.anchors(session))
    }

    fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        let memory = self.memory();
        let last = memory.shown(session)?.last();
        let anchors = memory.anchors(session);
        let position = |name: &str| {
            let is_named =
                |anchor: &Anchor| anchor.name == name || format!("{:03}_{}", anchor.number, anchor.name) == name;
            anchors.iter().rposition(is_named).ok_or_else(|| TapeError::NoAnchor { name: name.to_owned() })
        };
        let (from, to) = (position(from)?, position(to)?);
        let through = anchors.get(to + 1).map_or(last, |next| Seq(next.first.0 - 1));
        let lines = memory.lines(session, anchors[from].first, through);
        drop(memory);
        Ok(copied(lines))
    }

    fn exists(&self, session: &SessionId) -> bool {
        self.memory().shown(session).is_ok()
    }

    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let memory = self.memory();
        Ok(memory.tapes.iter().filter(|(_, tape)| !tape.hidden).map(|(id, _)| id.clone()).collect())
    }

    fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        let memory = self.memory();
        let shown = memory.tapes.iter().filter(|(_, tape)| !tape.hidden);
        let summary = |(id, tape): (&SessionId, &MemoryTape)| SessionSummary {
            id: id.clone(),
            created: tape.ends().map(|(first, _)| first.time),
            last: tape.ends().map(|(_, last)| last.time),
            seq: tape.last(),
            bytes: tape.bytes,
            open: tape.open.is_some(),
        };
        Ok(shown.map(summary).collect())
    }

    fn fork(
        &self,
        parent: &SessionId,
        at: Option<Seq>,
        session: &SessionId,
        time: Millis,
    ) -> Result<Forked, TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        let last = memory.shown(parent)?.last();
        let seq = at.unwrap_or(last);
        let no_entry = |last| TapeError::NoEntry { session: parent.clone(), seq, last };
        if seq == Seq::ZERO || seq > last {
            return Err(no_entry(if seq == Seq::ZERO { Seq::ZERO } else { last }));
        }
        let here = memory.lines(parent, seq, seq).pop();
        let Some((newest, sum)) = here.and_then(|line| line.end.map(|sum| (line.entry, sum))) else {
            // An append has few entries, and both ends of it are near.
            let ends = |from, to| memory.lines(parent, from, to).into_iter().filter(|line| line.end.is_some());
            let end = ends(seq.next(), last).next().map_or(last, |line| line.entry.seq);
            let before = ends(Seq(1), Seq(seq.0 - 1)).next_back().map_or(Seq::ZERO, |line| line.entry.seq);
            return Err(TapeError::InsideAppend { session: parent.clone(), seq, before, end });
        };
        let line = memory.line_of(parent);
        let owner = line.iter().find(|(_, tape, _)| tape.before() < seq).ok_or_else(|| no_entry(Seq::ZERO))?;
        let (owner, tape) = (owner.0.clone(), owner.1);
        let begun = tape.anchors.iter().rfind(|anchor| anchor.first <= seq).map(|anchor| anchor.number);
        let own_number = tape.from.as_ref().map_or(1, |_| tape.number - tape.anchors.len() as u64);
        let depth = 1 + if begun.is_some() { 0 } else { tape.from.as_ref().map_or(0, |from| from.depth) };
        if depth > FORK_DEPTH_MAX {
            return Err(TapeError::TooDeep { session: parent.clone(), max: FORK_DEPTH_MAX });
        }
        match memory.tapes.get(session) {
            Some(tape) if tape.last() > Seq::ZERO || tape.holder.is_some() => {
                return Err(TapeError::Exists { session: session.clone() });
            }
            Some(_) => {}
            None => memory.must_have_room_for_one_more()?,
        }
        let (spill, sum_text) = (None, sum.as_str().to_owned());
        let forked = Forked { session: session.clone(), parent: owner.clone(), seq, sum: sum_text, depth, spill };
        let first = forked.entry(time.max(newest.time));
        let number = begun.unwrap_or(own_number) + 1;
        let mut made = MemoryTape::empty(Some(forked.clone()), Chain::forked(session, "memory", seq, sum), number);
        made.append(None, &[first], memory.room())?;
        memory.bytes += made.bytes;
        memory.tapes.insert(session.clone(), made);
        if let Some(parent) = memory.tapes.get_mut(&owner) {
            parent.forks.insert(session.clone());
        }
        Ok(forked)
    }

    fn forked_from(&self, session: &SessionId) -> Result<Option<Forked>, TapeError> {
        Ok(self.memory().shown(session)?.from.clone())
    }

    fn forks_of(&self, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
        Ok(self.memory().tapes.get(session).map_or_else(Vec::new, |tape| tape.forks.iter().cloned().collect()))
    }

    fn has_entry_of(&self, session: &SessionId, other: &SessionId, seq: Seq) -> Result<bool, TapeError> {
        let memory = self.memory();
        memory.shown(session)?;
        let line = memory.line_of(session);
        Ok(line.into_iter().any(|(id, _, through)| id == other && (id == session || seq <= through)))
    }

    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        let deleted = self.delete_where(session, |_, _| Ok(true))?;
        Ok(deleted.unwrap_or(Deleted::Hidden))
    }

    fn delete_unless_gone_on(&self, session: &SessionId, last: Seq) -> Result<Deleted, TapeError> {
        let deleted = self.delete_where(session, |_, tape| match tape.last() {
            now if now == last => Ok(true),
            now => Err(TapeError::GoneOn { session: session.clone(), expected: last, last: now }),
        })?;
        Ok(deleted.unwrap_or(Deleted::Hidden))
    }

    fn delete_unused(&self, session: &SessionId, last: Seq) -> Result<bool, TapeError> {
        let deleted = self.delete_where(session, |memory, tape| {
            let marked = memory.parked.contains_key(session) || memory.pinned.contains(session);
            Ok(!marked && tape.last() == last && tape.forks.is_empty())
        })?;
        Ok(deleted == Some(Deleted::Gone))
    }

    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        // Memory that changes by itself is beyond this.
        self.memory().shown(session).map(|_| Vec::new())
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        match mark {
            Mark::Open => {
                memory.tapes.entry(session.clone()).and_modify(|tape| tape.open = tape.open.or(Some(tape.last())));
            }
            Mark::Parked => {
                if !memory.parked.contains_key(session) && memory.parked.len() >= memory.limits.sessions_max {
                    return Err(memory.too_many());
                }
                memory.parked.insert(session.clone(), about.to_owned());
            }
            Mark::Pinned => {
                memory.shown(session)?;
                memory.pinned.insert(session.clone());
            }
        }
        Ok(())
    }

    fn unmark(&self, session: &SessionId, mark: Mark) -> Result<(), TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        match mark {
            Mark::Open => {
                memory.tapes.entry(session.clone()).and_modify(|tape| tape.open = None);
            }
            Mark::Parked => drop(memory.parked.remove(session)),
            Mark::Pinned => {
                memory.pinned.remove(session);
            }
        }
        Ok(())
    }

    fn marks(&self, mark: Mark) -> Result<Vec<(SessionId, String)>, TapeError> {
        let memory = self.memory();
        let unsaid = |id: &SessionId| (id.clone(), String::new());
        Ok(match mark {
            Mark::Open => {
                memory.tapes.iter().filter(|(_, tape)| tape.open.is_some()).map(|(id, _)| unsaid(id)).collect()
            }
            Mark::Parked => memory.parked.iter().map(|(id, about)| (id.clone(), about.clone())).collect(),
            Mark::Pinned => memory.pinned.iter().map(unsaid).collect(),
        })
    }

    fn held_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let memory = self.memory();
        Ok(memory.tapes.iter().filter(|(_, tape)| tape.holder.is_some()).map(|(id, _)| id.clone()).collect())
    }

    fn settle(&self, _: Duration) -> bool {
        // Nothing is ever answered later.
        true
    }
}

impl MemoryStore {
    /// Deletes a session that nobody has open, where that holds; `None` where it does not.
    fn delete_where(
        &self,
        session: &SessionId,
        holds: impl FnOnce(&Memory, &MemoryTape) -> Result<bool, TapeError>,
    ) -> Result<Option<Deleted>, TapeError> {
        let mut memory = self.memory();
        memory.must_be_claimable(session)?;
        let tape = memory.shown(session)?;
        if tape.open.is_some() {
            return Err(TapeError::Unfinished { session: session.clone() });
        }
        let has_forks = !tape.forks.is_empty();
        if !holds(&memory, tape)? {
            return Ok(None);
        }
        memory.parked.remove(session);
        memory.pinned.remove(session);
        if !has_forks {
            memory.remove(session);
            return Ok(Some(Deleted::Gone));
        }
        memory.tapes.entry(session.clone()).and_modify(|tape| tape.hidden = true);
        Ok(Some(Deleted::Hidden))
    }
}

/// A claim on one of the tapes.
#[derive(Debug)]
struct MemoryWriter {
    store: MemoryStore,
    session: SessionId,
    handle: u64,
}

impl MemoryWriter {
    fn write(&self, anchor: Option<&str>, entries: &[Entry]) -> Appended {
        Appended::Now(self.store.memory().append(&self.session, self.handle, anchor, entries))
    }
}

impl TapeWriter for MemoryWriter {
    fn last(&self) -> Seq {
        self.store.memory().tapes.get(&self.session).map_or(Seq::ZERO, MemoryTape::last)
    }

    fn outstanding(&self) -> usize {
        0
    }

    fn append(&mut self, entries: &[Entry]) -> Appended {
        self.write(None, entries)
    }

    fn begin_anchor(&mut self, name: &str, first: &Entry) -> Appended {
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
