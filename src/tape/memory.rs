//! Tapes in memory: for tests, and for hosts that want nothing kept. Gone with the last clone.
//!
//! Holds what [`TapeStore`] promises but for one thing: nothing survives the process. An append is always answered at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::value::RawValue;

use super::{
    Anchor, Appended, Deleted, Entry, FORK_DEPTH_MAX, Finding, Forked, Holder, LoadedTape, Notify, ReadTo, TapeError,
    TapeStore, TapeWriter,
    layout::plain_anchor_name,
    line::{Chain, encode_lines},
    lineage::FORKED,
    log::lock,
};
use crate::ids::{Millis, Seq, SessionId};

/// A store of tapes in memory. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    inner: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    tapes: BTreeMap<SessionId, MemoryTape>,
    closed: bool,
    /// Counts the handles, so that one that was outlived by a close gives nothing back.
    handles: u64,
}

#[derive(Debug)]
struct MemoryTape {
    from: Option<Forked>,
    /// Its own entries, and whether each ends an append.
    entries: Vec<(Entry, bool)>,
    /// Its own, without the place that it was forked at.
    anchors: Vec<Anchor>,
    /// How many files it would have.
    number: u64,
    /// What the next line would go on from.
    chain: Chain,
    holder: Option<u64>,
    open: bool,
    hidden: bool,
    forks: BTreeSet<SessionId>,
}

impl MemoryTape {
    fn last(&self) -> Seq {
        self.chain.seq
    }

    /// The last entry that is not its own.
    fn before(&self) -> Seq {
        self.from.as_ref().map_or(Seq::ZERO, |from| from.seq)
    }

    fn append(&mut self, anchor: Option<&str>, entries: &[Entry]) -> Result<Seq, TapeError> {
        let Some(first) = entries.first() else { return Ok(self.last()) };
        let mut chain = self.chain.clone();
        // Refuses what does not follow or is too large.
        encode_lines(&mut chain, entries)?;
        let first_ever = self.from.is_none() && self.entries.is_empty();
        if let Some(name) = anchor {
            let name = plain_anchor_name(name);
            let reserved = if self.from.is_some() { FORKED } else { "session-start" };
            if name == reserved || self.anchors.iter().any(|anchor| anchor.name == name) {
                return Err(TapeError::AnchorExists { name });
            }
            self.number += 1;
            let (first, time) = (first.seq, first.time);
            self.anchors.push(Anchor { number: self.number, name, first, time });
        } else if first_ever {
            let (name, first, time) = ("session-start".to_owned(), first.seq, first.time);
            self.anchors.push(Anchor { number: 1, name, first, time });
        }
        self.chain = chain;
        let last = entries.len() - 1;
        self.entries.extend(entries.iter().enumerate().map(|(n, entry)| (entry.clone(), n == last)));
        Ok(self.last())
    }
}

impl Memory {
    fn shown(&self, session: &SessionId) -> Result<&MemoryTape, TapeError> {
        let tape = self.tapes.get(session).filter(|tape| !tape.hidden);
        tape.ok_or_else(|| TapeError::Missing { session: session.clone() })
    }

    fn must_be_open(&self) -> Result<(), TapeError> {
        if self.closed { Err(TapeError::Closed) } else { Ok(()) }
    }

    /// A tape and those that it goes on from, newest first, each with the last entry that counts.
    fn line_of(&self, session: &SessionId) -> Vec<(&SessionId, &MemoryTape, Seq)> {
        let mut line = Vec::new();
        let mut next = self.tapes.get_key_value(session).map(|(id, tape)| (id, tape, tape.last()));
        while let Some((id, tape, through)) = next {
            line.push((id, tape, through));
            next = tape.from.as_ref().and_then(|from| {
                let (id, parent) = self.tapes.get_key_value(&from.parent)?;
                Some((id, parent, through.min(from.seq)))
            });
        }
        line
    }

    fn entries(&self, session: &SessionId, from: Seq, through: Seq) -> Vec<(Entry, bool)> {
        let line = self.line_of(session);
        let entries = line
            .into_iter()
            .rev()
            .flat_map(|(_, tape, last)| tape.entries.iter().filter(move |(entry, _)| entry.seq <= last));
        entries.filter(|(entry, _)| entry.seq >= from && entry.seq <= through).cloned().collect()
    }

    fn anchors(&self, session: &SessionId) -> Vec<Anchor> {
        let line = self.line_of(session);
        let anchors = line.into_iter().rev();
        anchors
            .flat_map(|(_, tape, last)| tape.anchors.iter().filter(move |anchor| anchor.first <= last))
            .cloned()
            .collect()
    }

    fn newest_anchor(&self, session: &SessionId, seq: Seq) -> Option<Anchor> {
        self.anchors(session).into_iter().rfind(|anchor| anchor.first <= seq)
    }

    fn claim(&mut self, session: &SessionId) -> Result<u64, TapeError> {
        self.must_be_open()?;
        self.shown(session)?;
        self.handles += 1;
        let handle = self.handles;
        let Some(tape) = self.tapes.get_mut(session) else {
            return Err(TapeError::Missing { session: session.clone() });
        };
        if tape.holder.is_some() {
            let by = Holder { owner: "memory".into(), pid: std::process::id(), host: String::new() };
            return Err(TapeError::Claimed { session: session.clone(), by });
        }
        tape.holder = Some(handle);
        Ok(handle)
    }

    /// Removes a tape that no fork goes on from, and what was only waiting for it.
    fn remove(&mut self, session: &SessionId) {
        let mut next = Some(session.clone());
        while let Some(session) = next {
            let from = self.tapes.remove(&session).and_then(|tape| tape.from);
            next = from.map(|from| from.parent).filter(|parent| {
                let Some(tape) = self.tapes.get_mut(parent) else { return false };
                tape.forks.remove(&session);
                tape.hidden && tape.forks.is_empty()
            });
        }
    }
}

impl MemoryStore {
    /// An empty one.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
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
                let chain = Chain::start(session, "001_session-start");
                memory.tapes.insert(session.clone(), empty(None, chain, 1));
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
        let entries = memory.entries(session, first, last).into_iter().map(|(entry, _)| entry).collect();
        let tape = self.handle(session, handle);
        Ok(LoadedTape { tape, entries, repair: None, read_only: None, rebooted: false })
    }

    fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        let memory = self.memory();
        let last = memory.shown(session)?.last();
        Ok(memory.entries(session, after.next(), last).into_iter().map(|(entry, _)| entry).collect())
    }

    fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        let memory = self.memory();
        let last = memory.shown(session)?.last();
        let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq, last };
        let anchor = memory.newest_anchor(session, seq).ok_or_else(|| no_entry(Seq::ZERO))?;
        if last < seq {
            return Err(no_entry(last));
        }
        let entries = memory.entries(session, anchor.first, seq);
        let ends_append = entries.last().is_some_and(|(_, ends)| *ends);
        Ok(ReadTo { anchor, entries: entries.into_iter().map(|(entry, _)| entry).collect(), ends_append })
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
        let entries = memory.entries(session, anchors[from].first, through);
        Ok(entries.into_iter().map(|(entry, _)| entry).collect())
    }

    fn exists(&self, session: &SessionId) -> bool {
        self.memory().shown(session).is_ok()
    }

    fn sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let memory = self.memory();
        Ok(memory.tapes.iter().filter(|(_, tape)| !tape.hidden).map(|(id, _)| id.clone()).collect())
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
        let all = memory.entries(parent, Seq(1), last);
        let ends = |from: &Seq, to: &Seq| {
            all.iter().filter(|(entry, _)| entry.seq >= *from && entry.seq <= *to).cloned().collect::<Vec<_>>()
        };
        let Some((newest, true)) = ends(&seq, &seq).pop() else {
            let end = all.iter().find(|(entry, ends)| entry.seq > seq && *ends).map_or(last, |(entry, _)| entry.seq);
            let before = all.iter().rfind(|(entry, ends)| entry.seq < seq && *ends);
            let before = before.map_or(Seq::ZERO, |(entry, _)| entry.seq);
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
        if memory.tapes.get(session).is_some_and(|tape| tape.last() > Seq::ZERO || tape.holder.is_some()) {
            return Err(TapeError::Exists { session: session.clone() });
        }
        // The same chain again, up to there: what its files would say.
        let mut chain = Chain::start(&owner, "memory");
        let until: Vec<Entry> = ends(&Seq(1), &seq).into_iter().map(|(entry, _)| entry).collect();
        encode_lines(&mut chain, &until)?;
        let sum = chain.sum;
        let (spill, sum_text) = (None, sum.as_str().to_owned());
        let forked = Forked { session: session.clone(), parent: owner.clone(), seq, sum: sum_text, depth, spill };
        let data = serde_json::to_string(&forked).and_then(RawValue::from_string);
        let first = Entry {
            seq: seq.next(),
            time: time.max(newest.time),
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            kind: FORKED.to_owned(),
            data: data.map_err(|error| TapeError::io("write", session.as_str())(error.into()))?,
        };
        let number = begun.unwrap_or(own_number) + 1;
        let mut made = empty(Some(forked.clone()), Chain::forked(session, "memory", seq, sum), number);
        made.append(None, &[first])?;
        memory.tapes.insert(session.clone(), made);
        if let Some(parent) = memory.tapes.get_mut(&owner) {
            parent.forks.insert(session.clone());
        }
        Ok(forked)
    }

    fn delete(&self, session: &SessionId) -> Result<Deleted, TapeError> {
        let mut memory = self.memory();
        memory.claim(session)?;
        let Some(tape) = memory.tapes.get_mut(session) else {
            return Err(TapeError::Missing { session: session.clone() });
        };
        tape.holder = None;
        if tape.open {
            return Err(TapeError::Unfinished { session: session.clone() });
        }
        if !tape.forks.is_empty() {
            tape.hidden = true;
            return Ok(Deleted::Hidden);
        }
        memory.remove(session);
        Ok(Deleted::Gone)
    }

    fn verify(&self, session: &SessionId) -> Result<Vec<Finding>, TapeError> {
        // Memory that changes by itself is beyond this.
        self.memory().shown(session).map(|_| Vec::new())
    }

    fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        memory.tapes.entry(session.clone()).and_modify(|tape| tape.open = true);
        Ok(())
    }

    fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        let mut memory = self.memory();
        memory.must_be_open()?;
        memory.tapes.entry(session.clone()).and_modify(|tape| tape.open = false);
        Ok(())
    }

    fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        let memory = self.memory();
        Ok(memory.tapes.iter().filter(|(_, tape)| tape.open).map(|(id, _)| id.clone()).collect())
    }

    fn close(&self, _: Duration) -> Result<(), TapeError> {
        let mut memory = self.memory();
        memory.closed = true;
        memory.tapes.values_mut().for_each(|tape| tape.holder = None);
        Ok(())
    }
}

fn empty(from: Option<Forked>, chain: Chain, number: u64) -> MemoryTape {
    MemoryTape {
        from,
        entries: Vec::new(),
        anchors: Vec::new(),
        number,
        chain,
        holder: None,
        open: false,
        hidden: false,
        forks: BTreeSet::new(),
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
        let mut memory = self.store.memory();
        let held = memory.tapes.get_mut(&self.session).filter(|tape| tape.holder == Some(self.handle));
        Appended::Now(held.ok_or(TapeError::Closed).and_then(|tape| tape.append(anchor, entries)))
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
