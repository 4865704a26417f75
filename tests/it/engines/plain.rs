//! The plainest engine that a host could write: maps behind one lock, and what a `TapeStore` owes; nothing of the crate's own
//! engines. Forks, anchors, deletion and sweeps over it are the crate's.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tamtam::{
    Seq, SessionId,
    tape::{
        Anchor, Appended, Forked, Holder, LINE_BYTES_MAX, LoadedTape, Mark, Notify, Position, SessionSummary,
        TapeEntry, TapeError, TapeStore, TapeWriter,
    },
};

/// A clone is the same engine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    tapes: BTreeMap<SessionId, One>,
    /// What is noted of whom, for which fork; and what is said.
    marks: BTreeMap<(Mark, SessionId, String), String>,
    /// Counts tapes and writers.
    made: u64,
}

#[derive(Debug)]
struct One {
    /// Which of all that were ever made.
    made: u64,
    /// The part that the first entry begins.
    first_part: (u64, &'static str),
    /// The entry before its first.
    before: Seq,
    parts: Vec<Anchor>,
    /// Each with how many of its append follow.
    rows: Vec<(TapeEntry, u64)>,
    holder: Option<u64>,
}

impl One {
    fn last(&self) -> Seq {
        self.rows.last().map_or(self.before, |(entry, _)| entry.seq)
    }

    fn append(&mut self, session: &SessionId, part: Option<&str>, entries: &[TapeEntry]) -> Result<Seq, TapeError> {
        let mut last = self.last();
        for entry in entries {
            if entry.seq != Seq(last.0 + 1) {
                let (expected, got) = (Seq(last.0 + 1), entry.seq);
                return Err(TapeError::Gap { session: session.clone(), expected, got });
            }
            let bytes = entry.data.get().len();
            if bytes > LINE_BYTES_MAX {
                return Err(TapeError::TooLarge { bytes, max: LINE_BYTES_MAX });
            }
            last = entry.seq;
        }
        let Some(first) = entries.first() else { return Ok(last) };
        let name = part.map(|name| name.replace(|c: char| !c.is_alphanumeric() && c != '-', "-"));
        if let Some(name) = name.as_ref().filter(|name| self.parts.iter().any(|part| part.name == **name)) {
            return Err(TapeError::AnchorExists { name: name.clone() });
        }
        let number = self.parts.last().map_or(self.first_part.0, |part| part.number + 1);
        let begun = if self.parts.is_empty() { Some(self.first_part.1.to_owned()) } else { name };
        self.parts.extend(begun.map(|name| Anchor::new(number, name, first.seq, first.time)));
        let more = (0..entries.len() as u64).rev();
        self.rows.extend(entries.iter().cloned().zip(more));
        Ok(last)
    }
}

impl Inner {
    fn one(&mut self, session: &SessionId) -> Result<&mut One, TapeError> {
        self.tapes.get_mut(session).ok_or_else(|| TapeError::Missing { session: session.clone() })
    }

    fn free(&mut self, session: &SessionId) -> Result<&mut One, TapeError> {
        let one = self.one(session)?;
        match one.holder {
            None => Ok(one),
            Some(_) => {
                let by = Holder::new("plain", std::process::id(), "");
                Err(TapeError::Claimed { session: session.clone(), by })
            }
        }
    }

    fn marked(&self, mark: Mark, of: Option<&SessionId>) -> Vec<(SessionId, String)> {
        let is_wanted = |session: &&SessionId| of.is_none_or(|of| of == *session);
        if mark == Mark::Claimed {
            let held = self.tapes.iter().filter(|(_, one)| one.holder.is_some()).map(|(session, _)| session);
            return held.filter(is_wanted).map(|session| (session.clone(), String::new())).collect();
        }
        let marks = self.marks.iter().filter(|((kind, session, _), _)| *kind == mark && is_wanted(&session));
        marks.map(|((_, session, _), about)| (session.clone(), about.clone())).collect()
    }
}

fn key(session: &SessionId, mark: Mark, about: &str) -> (Mark, SessionId, String) {
    (mark, session.clone(), if mark == Mark::Fork { about.to_owned() } else { String::new() })
}

impl Plain {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn writer(&self, inner: &mut Inner, session: &SessionId) -> Result<Box<dyn TapeWriter>, TapeError> {
        inner.made += 1;
        let handle = inner.made;
        inner.free(session)?.holder = Some(handle);
        Ok(Box::new(Writer { engine: self.clone(), session: session.clone(), handle }))
    }
}

impl TapeStore for Plain {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        _: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        let mut inner = self.inner();
        if inner.tapes.get(session).is_some_and(|one| !one.rows.is_empty() || one.holder.is_some()) {
            return Err(TapeError::Exists { session: session.clone() });
        }
        inner.made += 1;
        let first_part = after.map_or((1, "session-start"), |position| (position.part.number + 1, "forked"));
        let before = after.map_or(Seq::ZERO, |position| position.seq);
        let (made, parts, rows) = (inner.made, Vec::new(), Vec::new());
        inner.tapes.insert(session.clone(), One { made, first_part, before, parts, rows, holder: None });
        self.writer(&mut inner, session)
    }

    fn claim(&self, session: &SessionId, _: Notify) -> Result<LoadedTape, TapeError> {
        let mut inner = self.inner();
        let tape = self.writer(&mut inner, session)?;
        let one = inner.one(session)?;
        let from = one.parts.last().map_or(Seq::ZERO, |part| part.first);
        let entries = one.rows.iter().map(|(entry, _)| entry).filter(|entry| entry.seq >= from).cloned().collect();
        Ok(LoadedTape::new(tape, entries))
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        let mut inner = self.inner();
        let entries = inner.one(session)?.rows.iter().map(|(entry, _)| entry);
        Ok(entries.filter(|entry| (from..=through).contains(&entry.seq)).cloned().collect())
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        let mut inner = self.inner();
        let one = inner.one(session)?;
        let part = one.parts.iter().rfind(|part| part.first <= seq).cloned();
        let row = one.rows.iter().find(|(entry, _)| entry.seq == seq);
        let sum = format!("{:08x}{:08x}", one.made, seq.0);
        Ok(row.zip(part).map(|((entry, more), part)| Position::new(seq, entry.time, *more, sum, part)))
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        Ok(self.inner().one(session)?.parts.clone())
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        Ok(self.inner().tapes.keys().cloned().collect())
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        let mut inner = self.inner();
        let one = inner.one(session)?;
        let (first, last) = (one.rows.first(), one.rows.last());
        let mut summary = SessionSummary::new(session.clone());
        summary.from = first.and_then(|(entry, _)| Forked::of(entry));
        summary.created = first.map(|(entry, _)| entry.time);
        summary.last = last.map(|(entry, _)| entry.time);
        summary.seq = last.map_or(Seq::ZERO, |(entry, _)| entry.seq);
        summary.bytes = one.rows.iter().map(|(entry, _)| 200 + entry.data.get().len() as u64).sum();
        Ok(summary)
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        let mut inner = self.inner();
        let now = inner.free(session)?.rows.last().map_or(Seq::ZERO, |(entry, _)| entry.seq);
        if let Some(mark) = unless.iter().find(|mark| !inner.marked(**mark, Some(session)).is_empty()) {
            return Ok(Some(*mark));
        }
        if let Some(expected) = last.filter(|last| *last != now) {
            return Err(TapeError::GoneOn { session: session.clone(), expected, last: now });
        }
        inner.tapes.remove(session);
        inner.marks.retain(|(_, of, _), _| of != session);
        Ok(None)
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        let mut inner = self.inner();
        match mark {
            Mark::Open | Mark::Parked => {}
            Mark::Hidden => drop(inner.free(session)?),
            Mark::Protected | Mark::Fork => drop(inner.one(session)?),
            other => return Err(TapeError::engine(format!("nobody sets {other:?}"))),
        }
        inner.marks.insert(key(session, mark, about), about.to_owned());
        Ok(())
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.inner().marks.remove(&key(session, mark, about));
        Ok(())
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        Ok(self.inner().marked(mark, of))
    }

    fn settle(&self, _: Duration) -> bool {
        true
    }
}

#[derive(Debug)]
struct Writer {
    engine: Plain,
    session: SessionId,
    handle: u64,
}

impl Writer {
    fn write(&self, part: Option<&str>, entries: &[TapeEntry]) -> Appended {
        let mut inner = self.engine.inner();
        let one = inner.one(&self.session);
        Appended::Now(one.and_then(|one| one.append(&self.session, part, entries)))
    }
}

impl TapeWriter for Writer {
    fn last(&self) -> Seq {
        self.engine.inner().one(&self.session).map_or(Seq::ZERO, |one| one.last())
    }

    fn append(&mut self, entries: &[TapeEntry]) -> Appended {
        self.write(None, entries)
    }

    fn begin_anchor(&mut self, name: &str, first: &TapeEntry) -> Appended {
        self.write(Some(name), std::slice::from_ref(first))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut inner = self.engine.inner();
        if let Some(one) = inner.tapes.get_mut(&self.session).filter(|one| one.holder == Some(self.handle)) {
            one.holder = None;
        }
    }
}
