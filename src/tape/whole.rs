//! Reading tapes over any engine: a session's own entries and, of a fork, those of the tapes that it continues from. The
//! operations of `TapeStoreExt` (`derived.rs`) that read entries end here.
//!
//! ```text
//! p   1 session-start  2 phase-1 ──────────────┐ entry 40
//! f                                  3 forked {parent p, seq 40}  4 phase-2
//! ```
//!
//! The first part of a fork is not an anchor: it begins with a `forked` entry, which says nothing of what came before. So to read
//! `f` before its `phase-2`, `phase-1` of `p` is read up to entry 40, and then `forked`. A fork of a fork is read likewise.
//!
//! [`load`], [`read_to`] and [`range`] take entries from a parent only if its tape has the very entry, by its checksum, that the
//! fork continues from ([`founded`]). [`anchors`] and [`has_entry_of`] do not check that; they return no entries.
//!
//! A change must keep that check: a new session under the parent's name must not be read as the parent. Every walk from fork to
//! parent needs a bound, because tapes may say that they continue from each other in a circle. Only `load` claims and repairs;
//! nothing else here may change a tape. Everything here may block.

use super::{
    Anchor, Damage, FORK_DEPTH_MAX, Forked, LoadedTape, Mark, Notify, ReadTo, TapeEntry, TapeError, TapeStore,
    lineage::FORKS_OF_FORKS_MAX,
};
use crate::words::ids::{Seq, SessionId};

/// A number after every entry: "to the end".
pub(super) const END: Seq = Seq(u64::MAX);

/// [`TapeError::Missing`] for a session that was deleted and is kept for its forks.
pub(super) fn must_be_shown<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<(), TapeError> {
    match store.marks(Mark::Hidden, Some(session))?.is_empty() {
        true => Ok(()),
        false => Err(TapeError::Missing { session: session.clone() }),
    }
}

pub(super) fn load<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    notify: Notify,
) -> Result<LoadedTape, TapeError> {
    let mut loaded = store.claim(session, notify)?;
    // Look only with the claim: an open session cannot be hidden.
    must_be_shown(store, session)?;
    let Some(forked) = loaded.entries.first().and_then(Forked::of) else { return Ok(loaded) };
    match before_fork(store, &forked) {
        Ok(before) => {
            let own = std::mem::replace(&mut loaded.entries, before.entries);
            loaded.entries.extend(own);
        }
        // Without the entries before, those of the fork mean nothing.
        Err(TapeError::Damaged(damage)) => {
            loaded.entries.clear();
            loaded.read_only = Some(damage);
        }
        Err(other) => return Err(other),
    }
    Ok(loaded)
}

/// The entries that a fork continues from. [`TapeError::Damaged`] if any are missing, also for want of a tape further up.
pub(super) fn before_fork<S: TapeStore + ?Sized>(store: &S, forked: &Forked) -> Result<ReadTo, TapeError> {
    founded(store, forked)?;
    match read_to(store, &forked.parent, forked.seq) {
        Err(TapeError::Missing { session }) => {
            Err(unfounded(store, forked, format!("session {session} is missing, which its parent needs")))
        }
        read => read,
    }
}

fn unfounded<S: TapeStore + ?Sized>(store: &S, forked: &Forked, what: String) -> TapeError {
    let file = store.folder(Some(&forked.session)).unwrap_or_else(|| forked.session.as_str().into());
    TapeError::Damaged(Damage { file, line: 1, what, last_good: Seq::ZERO })
}

/// [`TapeError::Damaged`] if the other tape does not have the very entry, by its checksum, that a fork continues from.
pub(super) fn founded<S: TapeStore + ?Sized>(store: &S, forked: &Forked) -> Result<(), TapeError> {
    let Forked { parent, seq, sum, .. } = forked;
    let what = match store.position(parent, *seq) {
        Ok(Some(position)) if position.sum == *sum => return Ok(()),
        Ok(_) => format!("session {parent} does not have entry {seq}, where this fork begins"),
        Err(TapeError::Missing { .. }) => format!("session {parent}, the parent of this fork, is missing"),
        Err(other) => return Err(other),
    };
    Err(unfounded(store, forked, what))
}

/// The entries `from` to `through`, both included, that a tape has, also on the tapes that it continues from.
pub(super) fn range<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    from: Seq,
    through: Seq,
) -> Result<Vec<TapeEntry>, TapeError> {
    let (mut session, mut through) = (session.clone(), through);
    let mut entries: Vec<TapeEntry> = Vec::new();
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let mut own = store.range(&session, from, through)?;
        let is_all = own.first().is_some_and(|first| first.seq == from);
        own.append(&mut entries);
        entries = own;
        if is_all {
            return Ok(entries);
        }
        match store.summary(&session)?.from.filter(|forked| from <= forked.seq) {
            None => return Ok(entries),
            Some(forked) => {
                founded(store, &forked)?;
                (session, through) = (forked.parent, through.min(forked.seq));
            }
        }
    }
    Err(TapeError::TooDeep { session, max: FORKS_OF_FORKS_MAX })
}

pub(super) fn read_to<S: TapeStore + ?Sized>(store: &S, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
    let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq, last };
    let Some((anchor, ends_append)) = anchor_at(store, session, seq)? else {
        // If the entry is lost to damage, report the damage and not a missing entry.
        let last = if seq == Seq::ZERO { seq } else { store.summary(session)?.seq };
        let part = store.parts(session)?.into_iter().rfind(|part| part.first <= seq);
        if let Some(part) = part.filter(|_| seq <= last) {
            store.range(session, part.first, seq)?;
        }
        return Err(no_entry(last));
    };
    let entries = range(store, session, anchor.first, seq)?;
    match entries.last().map_or(Seq::ZERO, |entry| entry.seq) {
        last if last == seq => Ok(ReadTo { anchor, entries, ends_append }),
        last => Err(no_entry(last)),
    }
}

/// The newest anchor at or before an entry, and whether the entry ends an append. `None` if there is none.
pub(super) fn anchor_at<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    seq: Seq,
) -> Result<Option<(Anchor, bool)>, TapeError> {
    let (mut tape, mut through) = (session.clone(), seq);
    let mut ends_append = None;
    for _ in 0..=FORK_DEPTH_MAX {
        let position = store.position(&tape, through)?;
        if let Some(position) = &position {
            let ends_append = *ends_append.get_or_insert(position.more == 0);
            if position.part.number == 1 {
                return Ok(Some((position.part.clone(), ends_append)));
            }
        }
        let from = store.summary(&tape)?.from;
        match (position, from) {
            (Some(position), from) if from.as_ref().is_none_or(|from| position.part.first != from.seq.next()) => {
                return Ok(Some((position.part, ends_append.unwrap_or(true))));
            }
            // The entry is on the tape that the fork continues from, or in the fork's first part, which is not an anchor.
            (position, Some(from)) if position.is_some() || through <= from.seq => {
                (tape, through) = (from.parent, through.min(from.seq));
            }
            _ => return Ok(None),
        }
    }
    Err(TapeError::TooDeep { session: session.clone(), max: FORK_DEPTH_MAX })
}

pub(super) fn anchors<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
    let (mut session, mut through) = (session.clone(), END);
    let mut anchors: Vec<Anchor> = Vec::new();
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let from = store.summary(&session)?.from;
        let own = store.parts(&session)?.into_iter().skip(usize::from(from.is_some()));
        let mut own: Vec<Anchor> = own.take_while(|part| part.first <= through).collect();
        own.append(&mut anchors);
        anchors = own;
        let Some(from) = from else { return Ok(anchors) };
        (session, through) = (from.parent, through.min(from.seq));
    }
    Err(TapeError::TooDeep { session, max: FORKS_OF_FORKS_MAX })
}

pub(super) fn between_anchors<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    from: &str,
    to: &str,
) -> Result<Vec<TapeEntry>, TapeError> {
    let anchors = anchors(store, session)?;
    let position = |name: &str| {
        let is_named = |anchor: &Anchor| anchor.name == name || format!("{:03}_{}", anchor.number, anchor.name) == name;
        anchors.iter().rposition(is_named).ok_or_else(|| {
            // The anchor may be missing because its first line is bad: report that damage.
            let damage = range(store, session, Seq(1), END).err();
            damage.unwrap_or_else(|| TapeError::NoAnchor { name: name.to_owned() })
        })
    };
    let (from, to) = (position(from)?, position(to)?);
    if to < from {
        return Ok(Vec::new());
    }
    let through = anchors.get(to + 1).map_or(END, |next| Seq(next.first.0 - 1));
    range(store, session, anchors[from].first, through)
}

pub(super) fn has_entry_of<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    other: &SessionId,
    seq: Seq,
) -> Result<bool, TapeError> {
    let (mut tape, mut through) = (session.clone(), END);
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let from = match store.summary(&tape) {
            Err(TapeError::Missing { .. }) if tape != *session => return Ok(false),
            summary => summary?.from,
        };
        if tape == *other {
            return Ok(seq <= through);
        }
        let Some(from) = from else { return Ok(false) };
        (tape, through) = (from.parent, through.min(from.seq));
    }
    Ok(false)
}
