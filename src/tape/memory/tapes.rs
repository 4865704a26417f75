//! The tapes of a [`MemoryStore`](super::MemoryStore) as plain values: one for each session, and the marks next to them. No lock
//! and no I/O here.
//!
//! Entries are checked and counted as the lines that they would be in a file ([`encode_lines`]), so gaps and lines that are too
//! large are refused as in a store of files. A failed append leaves everything as it was.
//!
//! A change must keep: all of it runs under the one mutex of the store, so nothing here blocks, or copies more entries than one
//! append has; `Memory::bytes` stays the sum over all tapes; only the handle that is a tape's `holder` writes it.

use std::{collections::BTreeMap, sync::Arc};

use super::MemoryLimits;
use crate::{
    tape::{
        Anchor, Forked, Holder, Mark, Position, SessionSummary, TapeEntry, TapeError,
        layout::plain_anchor_name,
        line::{Chain, Sum, encode_lines},
    },
    words::ids::{Seq, SessionId},
};

/// How many bytes beyond the limit open turns may append, all together, so that they can end.
const RESERVE_BYTES: u64 = 1024 * 1024;

/// All tapes, and the marks of sessions.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) tapes: BTreeMap<SessionId, MemoryTape>,
    /// The texts of marks, by mark, session, and (of [`Mark::Fork`]) the fork's name. `Open` and `Claimed` are kept in the tapes.
    marks: BTreeMap<(Mark, SessionId, String), String>,
    pub(super) closed: bool,
    pub(super) limits: MemoryLimits,
    /// The size of all lines together, as they would be in files, in bytes.
    pub(super) bytes: u64,
    /// The number of the newest handle. Each handle has its own, so a handle from before a close releases nothing.
    handles: u64,
}

/// One tape.
#[derive(Debug)]
pub(super) struct MemoryTape {
    /// Its entries in the order of their seqs, without a gap.
    lines: Vec<Line>,
    /// Its parts; the first is added with the first entry.
    pub(super) parts: Vec<Anchor>,
    /// The name and the number of the first part.
    first_part: (&'static str, u64),
    /// The size of its lines, as they would be in files, in bytes.
    pub(super) bytes: u64,
    /// The position that the next line would continue from.
    chain: Chain,
    /// The handle that has the tape open.
    pub(super) holder: Option<u64>,
    /// The last entry when the open turn was marked. An append belongs to the turn, and may use the reserve, once there is an entry
    /// after this one.
    open: Option<Seq>,
}

/// An entry. Shared, so that a reader copies it after the lock is given back.
#[derive(Clone, Debug)]
pub(super) struct Line {
    entry: Arc<TapeEntry>,
    /// The checksum that a line of a file would have; only where the entry ends an append.
    end: Option<Sum>,
}

/// Copies the entries. Call it without the lock: the copy of a long tape would hold up all appends.
pub(super) fn copied(lines: Vec<Line>) -> Vec<TapeEntry> {
    lines.into_iter().map(|line| Arc::unwrap_or_clone(line.entry)).collect()
}

impl MemoryTape {
    pub(super) fn empty(session: &SessionId, after: Option<&Position>) -> MemoryTape {
        let (first_part, chain) = match after {
            None => (("session-start", 1), Chain::start(session, "memory")),
            Some(position) => {
                let sum = Sum::parse(&position.sum).unwrap_or_else(Sum::zero);
                (("forked", position.part.number + 1), Chain::forked(session, "memory", position.seq, sum))
            }
        };
        MemoryTape { lines: Vec::new(), parts: Vec::new(), first_part, bytes: 0, chain, holder: None, open: None }
    }

    /// Its last entry; `None` if it has none.
    pub(super) fn last_own(&self) -> Option<Seq> {
        self.lines.last().map(|line| line.entry.seq)
    }

    /// The entries `from` to `through`, both included, that the tape has. Shares them, and copies none.
    pub(super) fn lines(&self, from: Seq, through: Seq) -> Vec<Line> {
        let from = self.lines.partition_point(|line| line.entry.seq < from);
        let end = self.lines.partition_point(|line| line.entry.seq <= through);
        self.lines.get(from..end).unwrap_or_default().to_vec()
    }

    pub(super) fn newest_part(&self, seq: Seq) -> Option<&Anchor> {
        self.parts.iter().rfind(|part| part.first <= seq)
    }

    pub(super) fn position(&self, seq: Seq) -> Option<Position> {
        let part = self.newest_part(seq)?.clone();
        let at = self.lines.binary_search_by_key(&seq, |line| line.entry.seq).ok()?;
        // An append has few entries.
        let more = self.lines[at..].iter().take_while(|line| line.end.is_none()).count() as u64;
        let sum = self.lines[at].end.map_or(String::new(), |sum| sum.as_str().to_owned());
        Some(Position { seq, time: self.lines[at].entry.time, more, sum, part })
    }

    pub(super) fn summary(&self, session: &SessionId) -> SessionSummary {
        let (first, last) = (self.lines.first(), self.lines.last());
        SessionSummary {
            id: session.clone(),
            from: first.and_then(|line| Forked::of(&line.entry)),
            created: first.map(|line| line.entry.time),
            last: last.map(|line| line.entry.time),
            seq: last.map_or(Seq::ZERO, |line| line.entry.seq),
            bytes: self.bytes,
        }
    }

    /// Appends entries. `taken`: the bytes of all tapes by now; `max`: their limit.
    fn append(&mut self, anchor: Option<&str>, entries: &[TapeEntry], taken: u64, max: u64) -> Result<Seq, TapeError> {
        let Some(first) = entries.first() else { return Ok(self.chain.seq) };
        let mut chain = self.chain.clone();
        // Refuses what does not follow or is too large.
        let bytes = encode_lines(&mut chain, entries)?.len() as u64;
        let is_in_turn = self.open.is_some_and(|marked| self.chain.seq > marked);
        let reserve = if is_in_turn { RESERVE_BYTES } else { 0 };
        if taken + bytes > max.saturating_add(reserve) {
            return Err(TapeError::MemoryFull { of: "bytes", max });
        }
        let name = anchor.map(plain_anchor_name);
        if let Some(name) = name.as_ref().filter(|name| *name == self.first_part.0 || self.has_part(name)) {
            return Err(TapeError::AnchorExists { name: name.clone() });
        }
        let number = self.parts.last().map_or(self.first_part.1, |newest| newest.number + 1);
        let begun = if self.parts.is_empty() { Some(self.first_part.0.to_owned()) } else { name };
        self.parts.extend(begun.map(|name| Anchor { number, name, first: first.seq, time: first.time }));
        let (last, sum) = (entries.len() - 1, chain.sum);
        let line =
            |(n, entry): (usize, &TapeEntry)| Line { entry: Arc::new(entry.clone()), end: (n == last).then_some(sum) };
        self.lines.extend(entries.iter().enumerate().map(line));
        self.bytes += bytes;
        self.chain = chain;
        Ok(self.chain.seq)
    }

    fn has_part(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.name == name)
    }
}

impl Memory {
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
        entries: &[TapeEntry],
    ) -> Result<Seq, TapeError> {
        let held = self.tapes.get_mut(session).filter(|tape| tape.holder == Some(handle));
        let tape = held.ok_or(TapeError::Closed)?;
        let before = tape.bytes;
        let last = tape.append(anchor, entries, self.bytes, self.limits.bytes_max)?;
        self.bytes += tape.bytes - before;
        Ok(last)
    }

    pub(super) fn tape(&self, session: &SessionId) -> Result<&MemoryTape, TapeError> {
        self.tapes.get(session).ok_or_else(|| TapeError::Missing { session: session.clone() })
    }

    pub(super) fn must_be_open(&self) -> Result<(), TapeError> {
        if self.closed { Err(TapeError::Closed) } else { Ok(()) }
    }

    /// Fails if the session does not exist, is open, or the store is closed.
    pub(super) fn must_be_claimable(&self, session: &SessionId) -> Result<(), TapeError> {
        self.must_be_open()?;
        if self.tape(session)?.holder.is_none() {
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

    /// Removes a tape and its marks.
    pub(super) fn erase(&mut self, session: &SessionId) {
        self.bytes -= self.tapes.remove(session).map_or(0, |tape| tape.bytes);
        self.marks.retain(|(_, of, _), _| of != session);
    }

    pub(super) fn mark(&mut self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.must_be_open()?;
        match mark {
            Mark::Open => {
                let open = |tape: &mut MemoryTape| tape.open = tape.open.or(Some(tape.chain.seq));
                self.tapes.entry(session.clone()).and_modify(open);
                return Ok(());
            }
            // May be set for sessions that do not exist, so their number needs a bound.
            Mark::Parked => {
                let parked = self.marked(Mark::Parked, None);
                if parked.len() >= self.limits.sessions_max && !parked.iter().any(|(of, _)| of == session) {
                    return Err(self.too_many());
                }
            }
            Mark::Hidden => self.must_be_claimable(session)?,
            Mark::Claimed => return Err(TapeError::engine("this mark cannot be set")),
            _ => drop(self.tape(session)?),
        }
        self.marks.insert(key(session, mark, about), about.to_owned());
        Ok(())
    }

    pub(super) fn unmark(&mut self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.must_be_open()?;
        self.marks.remove(&key(session, mark, about));
        if let Some(tape) = self.tapes.get_mut(session).filter(|_| mark == Mark::Open) {
            tape.open = None;
        }
        Ok(())
    }

    pub(super) fn marked(&self, mark: Mark, of: Option<&SessionId>) -> Vec<(SessionId, String)> {
        let is_wanted = |session: &SessionId| of.is_none_or(|of| of == session);
        let with = |is_so: fn(&MemoryTape) -> bool| {
            let tapes = self.tapes.iter().filter(|(session, tape)| is_wanted(session) && is_so(tape));
            tapes.map(|(session, _)| (session.clone(), String::new())).collect()
        };
        match mark {
            Mark::Open => with(|tape| tape.open.is_some()),
            Mark::Claimed => with(|tape| tape.holder.is_some()),
            _ => {
                let noted = self.marks.iter().filter(|((of, session, _), _)| *of == mark && is_wanted(session));
                noted.map(|((_, session, _), about)| (session.clone(), about.clone())).collect()
            }
        }
    }
}

fn key(session: &SessionId, mark: Mark, about: &str) -> (Mark, SessionId, String) {
    let fork = if mark == Mark::Fork { about } else { "" };
    (mark, session.clone(), fork.to_owned())
}
