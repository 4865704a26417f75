//! The tapes of a memory store as values: one for each session, and the marks beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::MemoryLimits;
use crate::{
    ids::{Seq, SessionId},
    tape::{
        Anchor, Entry, Forked, Holder, TapeError,
        layout::plain_anchor_name,
        line::{Chain, Sum, encode_lines},
        lineage::FORKED,
    },
};

/// So much more is taken of turns that are open, so that they end.
const RESERVE_BYTES: u64 = 1024 * 1024;
/// Half of it is for appends that are not longer than this: what ends a turn is not, but what a model or a tool brings may be.
const ENDING_BYTES: u64 = 4 * 1024;

/// All tapes, and what is noted of sessions.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) tapes: BTreeMap<SessionId, MemoryTape>,
    pub(super) parked: BTreeMap<SessionId, String>,
    pub(super) pinned: BTreeSet<SessionId>,
    pub(super) closed: bool,
    pub(super) limits: MemoryLimits,
    /// How long all lines would be, in bytes.
    pub(super) bytes: u64,
    /// Counts the handles, so that one that was outlived by a close gives nothing back.
    handles: u64,
}

/// One tape.
#[derive(Debug)]
pub(super) struct MemoryTape {
    pub(super) from: Option<Forked>,
    /// Its own entries, by their seqs without a gap.
    lines: Vec<Line>,
    /// Its own, without the place that it was forked at.
    pub(super) anchors: Vec<Anchor>,
    /// How many files it would have.
    pub(super) number: u64,
    /// How long its own lines would be, in bytes.
    pub(super) bytes: u64,
    /// What the next line would go on from.
    chain: Chain,
    pub(super) holder: Option<u64>,
    /// The last entry when the turn that is open was marked. What comes behind the next one is of this turn.
    pub(super) open: Option<Seq>,
    pub(super) hidden: bool,
    pub(super) forks: BTreeSet<SessionId>,
}

/// An entry. Shared, so that whoever reads copies it when the lock is given back.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) entry: Arc<Entry>,
    /// The checksum that a line of a file would have; only where the entry ends an append.
    pub(super) end: Option<Sum>,
}

/// The entries themselves, copied. Not under the lock: a long tape would hold up all appends.
pub(super) fn copied(lines: Vec<Line>) -> Vec<Entry> {
    lines.into_iter().map(|line| Arc::unwrap_or_clone(line.entry)).collect()
}

impl MemoryTape {
    pub(super) fn empty(from: Option<Forked>, chain: Chain, number: u64) -> MemoryTape {
        MemoryTape {
            from,
            lines: Vec::new(),
            anchors: Vec::new(),
            number,
            bytes: 0,
            chain,
            holder: None,
            open: None,
            hidden: false,
            forks: BTreeSet::new(),
        }
    }

    pub(super) fn last(&self) -> Seq {
        self.chain.seq
    }

    /// The last entry that is not its own.
    pub(super) fn before(&self) -> Seq {
        self.from.as_ref().map_or(Seq::ZERO, |from| from.seq)
    }

    /// Its own entries from one to another.
    fn own(&self, from: Seq, through: Seq) -> &[Line] {
        let behind = |seq: Seq| usize::try_from(seq.0.saturating_sub(self.before().0)).unwrap_or(usize::MAX);
        let first = behind(Seq(from.0.saturating_sub(1))).min(self.lines.len());
        &self.lines[first..behind(through).clamp(first, self.lines.len())]
    }

    /// The first and the last entry that it shows of itself.
    pub(super) fn ends(&self) -> Option<(&Entry, &Entry)> {
        Some((&self.lines.first()?.entry, &self.lines.last()?.entry))
    }

    /// Takes entries that are no more than so many bytes.
    pub(super) fn append(&mut self, anchor: Option<&str>, entries: &[Entry], room: Room) -> Result<Seq, TapeError> {
        let Some(first) = entries.first() else { return Ok(self.last()) };
        let mut chain = self.chain.clone();
        // Refuses what does not follow or is too large.
        let bytes = encode_lines(&mut chain, entries)?.len() as u64;
        let is_in_turn = self.open.is_some_and(|marked| self.last() > marked);
        if bytes > room.left(is_in_turn, bytes <= ENDING_BYTES) {
            return Err(TapeError::MemoryFull { of: "bytes", max: room.max });
        }
        let first_ever = self.from.is_none() && self.lines.is_empty();
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
        let (last, sum) = (entries.len() - 1, chain.sum);
        let line =
            |(n, entry): (usize, &Entry)| Line { entry: Arc::new(entry.clone()), end: (n == last).then_some(sum) };
        self.lines.extend(entries.iter().enumerate().map(line));
        self.bytes += bytes;
        self.chain = chain;
        Ok(self.last())
    }
}

/// How many bytes are taken, and of how many.
#[derive(Clone, Copy)]
pub(super) struct Room {
    taken: u64,
    max: u64,
}

impl Room {
    fn left(self, is_in_turn: bool, is_short: bool) -> u64 {
        let reserve = match (is_in_turn, is_short) {
            (false, _) => 0,
            (true, false) => RESERVE_BYTES / 2,
            (true, true) => RESERVE_BYTES,
        };
        self.max.saturating_add(reserve).saturating_sub(self.taken)
    }
}

impl Memory {
    pub(super) fn room(&self) -> Room {
        Room { taken: self.bytes, max: self.limits.bytes_max }
    }

    pub(super) fn must_have_room_for_one_more(&self) -> Result<(), TapeError> {
        if self.tapes.len() < self.limits.sessions_max { Ok(()) } else { Err(self.too_many()) }
    }

    pub(super) fn too_many(&self) -> TapeError {
        TapeError::MemoryFull { of: "sessions", max: self.limits.sessions_max as u64 }
    }

    /// Appends for the handle that has the tape.
    pub(super) fn append(
        &mut self,
        session: &SessionId,
        handle: u64,
        anchor: Option<&str>,
        entries: &[Entry],
    ) -> Result<Seq, TapeError> {
        let room = self.room();
        let held = self.tapes.get_mut(session).filter(|tape| tape.holder == Some(handle));
        let tape = held.ok_or(TapeError::Closed)?;
        let before = tape.bytes;
        let last = tape.append(anchor, entries, room)?;
        self.bytes += tape.bytes - before;
        Ok(last)
    }

    pub(super) fn shown(&self, session: &SessionId) -> Result<&MemoryTape, TapeError> {
        let tape = self.tapes.get(session).filter(|tape| !tape.hidden);
        tape.ok_or_else(|| TapeError::Missing { session: session.clone() })
    }

    pub(super) fn must_be_open(&self) -> Result<(), TapeError> {
        if self.closed { Err(TapeError::Closed) } else { Ok(()) }
    }

    /// A tape and those that it goes on from, newest first, each with the last entry that counts.
    pub(super) fn line_of(&self, session: &SessionId) -> Vec<(&SessionId, &MemoryTape, Seq)> {
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

    pub(super) fn lines(&self, session: &SessionId, from: Seq, through: Seq) -> Vec<Line> {
        let line = self.line_of(session);
        line.into_iter().rev().flat_map(|(_, tape, last)| tape.own(from, through.min(last))).cloned().collect()
    }

    pub(super) fn anchors(&self, session: &SessionId) -> Vec<Anchor> {
        let line = self.line_of(session);
        let anchors = line.into_iter().rev();
        anchors
            .flat_map(|(_, tape, last)| tape.anchors.iter().filter(move |anchor| anchor.first <= last))
            .cloned()
            .collect()
    }

    pub(super) fn newest_anchor(&self, session: &SessionId, seq: Seq) -> Option<Anchor> {
        self.anchors(session).into_iter().rfind(|anchor| anchor.first <= seq)
    }

    /// Refuses where there is no such session, or somebody has it.
    pub(super) fn must_be_claimable(&self, session: &SessionId) -> Result<(), TapeError> {
        self.must_be_open()?;
        if self.shown(session)?.holder.is_none() {
            return Ok(());
        }
        let by = Holder { owner: "memory".into(), pid: std::process::id(), host: String::new() };
        Err(TapeError::Claimed { session: session.clone(), by })
    }

    pub(super) fn claim(&mut self, session: &SessionId) -> Result<u64, TapeError> {
        self.must_be_claimable(session)?;
        self.handles += 1;
        let handle = self.handles;
        self.tapes.entry(session.clone()).and_modify(|tape| tape.holder = Some(handle));
        Ok(handle)
    }

    /// Removes a tape that no fork goes on from, and what was only waiting for it.
    pub(super) fn remove(&mut self, session: &SessionId) {
        let mut next = Some(session.clone());
        while let Some(session) = next {
            let removed = self.tapes.remove(&session);
            self.bytes -= removed.as_ref().map_or(0, |tape| tape.bytes);
            let from = removed.and_then(|tape| tape.from);
            next = from.map(|from| from.parent).filter(|parent| {
                let Some(tape) = self.tapes.get_mut(parent) else { return false };
                tape.forks.remove(&session);
                tape.hidden && tape.forks.is_empty()
            });
        }
    }
}
