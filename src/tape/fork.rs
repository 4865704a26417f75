//! Making a fork, over any engine: a new session that goes on from an entry of another one, by reference. Nothing is copied.
//!
//! ```text
//! begin f behind the place      nobody else can make it
//! mark p as forked by f         from here on p is not erased
//! append `forked`               from here on f is there
//! ```
//!
//! A mark says that a fork *may* be there; whether it is, its own tape says. So marks are made early, removed late, and never
//! believed blindly.

use std::{
    sync::{Arc, mpsc::channel},
    time::Duration,
};

use super::{
    Entry, FORK_DEPTH_MAX, Forked, Mark, Place, TapeError, TapeStore, TapeStoreExt as _, TapeWriter,
    handle::FirstAppend, import::narrowed, lineage::FORKS_OF_FORKS_MAX,
};
use crate::words::ids::{Millis, Seq, SessionId};

/// How long an engine may take to take a fork back.
const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn fork<S: TapeStore + ?Sized>(
    store: &S,
    parent: &SessionId,
    at: Option<Seq>,
    fork: &SessionId,
    time: Millis,
) -> Result<Forked, TapeError> {
    let (owner, place) = point(store, parent, at)?;
    // Of the part that begins with its own fork, it needs what that goes on from.
    let deeper = match place.part.number {
        1 => None,
        _ => store.summary(&owner)?.from.filter(|from| place.part.first == from.seq.next()),
    };
    let depth = deeper.map_or(0, |from| from.depth).saturating_add(1);
    if depth > FORK_DEPTH_MAX {
        return Err(TapeError::TooDeep { session: parent.clone(), max: FORK_DEPTH_MAX });
    }
    let forked = Forked {
        session: fork.clone(),
        parent: owner,
        seq: place.seq,
        sum: place.sum.clone(),
        depth,
        spill: store.spill_path(fork).map(|folder| folder.display().to_string()),
    };
    let append = FirstAppend::new();
    let mut tape = store.begin(fork, Some(&place), append.notify(Arc::new(|_| {})))?;
    match fill(store, &forked, time.max(place.time), &mut *tape, append) {
        Ok(()) => {
            let (given, back) = channel();
            tape.give_back(Box::new(move || {
                let _ = given.send(());
            }));
            // Who opens it waits for that, too.
            let _ = back.recv_timeout(LIMIT);
            Ok(forked)
        }
        Err(error) => {
            drop(tape);
            // The mark without its session means nothing, and is in nobody's way.
            if store.erase(fork, None, &[]).is_ok() {
                drop(store.unmark(&forked.parent, Mark::Fork, fork.as_str()));
            }
            Err(error)
        }
    }
}

/// First the mark, then the line: a fork that is there keeps its parent.
fn fill<S: TapeStore + ?Sized>(
    store: &S,
    forked: &Forked,
    time: Millis,
    tape: &mut dyn TapeWriter,
    append: FirstAppend,
) -> Result<(), TapeError> {
    store.mark(&forked.parent, Mark::Fork, forked.session.as_str())?;
    let first = forked.entry(time);
    let said = store.marks(Mark::Imported, Some(&forked.parent))?.pop();
    let narrowed = said.map(|(_, said)| narrowed::of_fork(&said, forked, &first)).transpose()?;
    let entries: Vec<Entry> = [first].into_iter().chain(narrowed.flatten()).collect();
    append.settle(tape.append(&entries))
}

/// The session that has the entry itself, and where it stands there.
fn point<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    at: Option<Seq>,
) -> Result<(SessionId, Place), TapeError> {
    let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq: at.unwrap_or_default(), last };
    let (mut owner, seq) = match at {
        Some(seq) => (session.clone(), seq),
        None => {
            let end = store.sound_end(session)?;
            if end.seq == Seq::ZERO {
                return Err(end.damage.map_or_else(|| no_entry(Seq::ZERO), TapeError::Damaged));
            }
            (end.session, end.seq)
        }
    };
    for _ in 0..=FORKS_OF_FORKS_MAX {
        if let Some(place) = store.place(&owner, seq)? {
            return match place.more {
                0 => Ok((owner, place)),
                more => {
                    let (before, end) = (append_before(store, &owner, seq)?, Seq(seq.0.saturating_add(more)));
                    Err(TapeError::InsideAppend { session: session.clone(), seq, before, end })
                }
            };
        }
        let summary = store.summary(&owner)?;
        // From before the session was forked itself.
        match summary.from.filter(|from| seq <= from.seq && seq > Seq::ZERO) {
            Some(from) => owner = from.parent,
            None => return Err(no_entry(if seq == Seq::ZERO { seq } else { store.summary(session)?.seq })),
        }
    }
    Err(TapeError::TooDeep { session: session.clone(), max: FORKS_OF_FORKS_MAX })
}

/// The last entry of the append before the one that this entry is in the middle of.
fn append_before<S: TapeStore + ?Sized>(store: &S, owner: &SessionId, inside: Seq) -> Result<Seq, TapeError> {
    let mut seq = inside;
    while seq > Seq(1) {
        seq = Seq(seq.0 - 1);
        // An append begins with its tape at the latest.
        if store.place(owner, seq)?.is_none_or(|place| place.more == 0) {
            return Ok(seq);
        }
    }
    Ok(Seq::ZERO)
}

pub(super) fn forks_of<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
    let mut forks = Vec::new();
    for fork in marked(store, session)? {
        if goes_on_from(store, &fork, session)? {
            forks.push(fork);
        }
    }
    forks.sort();
    Ok(forks)
}

/// The sessions that may go on from this one.
pub(super) fn marked<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
    let marks = store.marks(Mark::Fork, Some(session))?;
    Ok(marks.into_iter().filter_map(|(_, fork)| fork.parse().ok()).collect())
}

/// Whether a session that is marked so goes on from the other, or is about to.
pub(super) fn goes_on_from<S: TapeStore + ?Sized>(
    store: &S,
    fork: &SessionId,
    session: &SessionId,
) -> Result<bool, TapeError> {
    match store.summary(fork) {
        // Whoever makes it has it: of one who was killed before its first entry, nothing is to come.
        Ok(summary) if summary.seq == Seq::ZERO => Ok(!store.marks(Mark::Held, Some(fork))?.is_empty()),
        // A fork goes on from an entry of this session's own: of what is from before, it would be a fork of another one. So
        // sessions never go on from each other in a circle, whatever tapes say, and each can be removed.
        Ok(summary) => match summary.from.filter(|from| from.parent == *session) {
            Some(from) => Ok(store.summary(session)?.from.is_none_or(|older| older.seq < from.seq)),
            None => Ok(false),
        },
        Err(TapeError::Missing { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}
