//! Making a fork over any engine: a new session that continues from an entry of another one, by reference. Nothing is copied.
//!
//! ```text
//! begin f after the position    no other caller can make it
//! mark p as forked by f         from here on p is not erased
//! append `forked`               from here on f is there (if p was imported later than the entry: with p's `imported` entry)
//! ```
//!
//! A mark says that a fork *may* be there; the fork's own tape says whether it is. A change must keep this order: marks are made
//! early, removed late, and never believed without the tape. So after a crash at any point, an existing fork has its parent; a
//! mark without a fork is harmless, and a deletion clears it away.
//!
//! The parent is not claimed and may be written meanwhile. If an entry is named, the cost must not depend on the parent's length: a
//! look-up on each tape back to the one that has the entry, and one append. Only an entry that ends an append can be forked. Blocks
//! until the first append is acknowledged and the engine has released the new fork, for 30 s each at most.

use std::{
    sync::{Arc, mpsc::channel},
    time::Duration,
};

use super::{
    FORK_DEPTH_MAX, Forked, Mark, Position, TapeEntry, TapeError, TapeStore, TapeStoreExt as _, TapeWriter,
    first_append::FirstAppend, import::narrowed, lineage::FORKS_OF_FORKS_MAX,
};
use crate::words::ids::{Millis, Seq, SessionId};

/// How long to wait until the engine has given the new fork back.
const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn fork<S: TapeStore + ?Sized>(
    store: &S,
    parent: &SessionId,
    at: Option<Seq>,
    fork: &SessionId,
    time: Millis,
) -> Result<Forked, TapeError> {
    let (owner, position) = point(store, parent, at)?;
    // If the position is in the owner's own first part after a fork, opening the new fork reads one more tape.
    let deeper = match position.part.number {
        1 => None,
        _ => store.summary(&owner)?.from.filter(|from| position.part.first == from.seq.next()),
    };
    let depth = deeper.map_or(0, |from| from.depth).saturating_add(1);
    if depth > FORK_DEPTH_MAX {
        return Err(TapeError::TooDeep { session: parent.clone(), max: FORK_DEPTH_MAX });
    }
    let forked = Forked {
        session: fork.clone(),
        parent: owner,
        seq: position.seq,
        sum: position.sum.clone(),
        depth,
        spill: store.spill_path(fork).map(|folder| folder.display().to_string()),
    };
    let append = FirstAppend::new();
    let mut tape = store.begin(fork, Some(&position), append.notify(Arc::new(|_| {})))?;
    match fill(store, &forked, time.max(position.time), &mut *tape, append) {
        Ok(()) => {
            let (given, back) = channel();
            tape.give_back(Box::new(move || {
                let _ = given.send(());
            }));
            // After the limit, opening the fork waits as well.
            let _ = back.recv_timeout(LIMIT);
            Ok(forked)
        }
        Err(error) => {
            drop(tape);
            // If this fails, a mark without its session is left, which does no harm.
            if store.erase(fork, None, &[]).is_ok() {
                drop(store.unmark(&forked.parent, Mark::Fork, fork.as_str()));
            }
            Err(error)
        }
    }
}

/// Marks the parent, and then writes the first append: an existing fork keeps its parent.
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
    let entries: Vec<TapeEntry> = [first].into_iter().chain(narrowed.flatten()).collect();
    append.settle(tape.append(&entries))
}

/// The session that has the entry on its own tape, and the position of the entry there.
fn point<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    at: Option<Seq>,
) -> Result<(SessionId, Position), TapeError> {
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
        if let Some(position) = store.position(&owner, seq)? {
            return match position.more {
                0 => Ok((owner, position)),
                more => {
                    let (before, end) = (append_before(store, &owner, seq)?, Seq(seq.0.saturating_add(more)));
                    Err(TapeError::InsideAppend { session: session.clone(), seq, before, end })
                }
            };
        }
        let summary = store.summary(&owner)?;
        // The entry is older than the session's own fork: look on the tape that it continues from.
        match summary.from.filter(|from| seq <= from.seq && seq > Seq::ZERO) {
            Some(from) => owner = from.parent,
            None => return Err(no_entry(if seq == Seq::ZERO { seq } else { store.summary(session)?.seq })),
        }
    }
    Err(TapeError::TooDeep { session: session.clone(), max: FORKS_OF_FORKS_MAX })
}

/// The last entry of the append before that of `inside`; 0 if there is none.
fn append_before<S: TapeStore + ?Sized>(store: &S, owner: &SessionId, inside: Seq) -> Result<Seq, TapeError> {
    let mut seq = inside;
    while seq > Seq(1) {
        seq = Seq(seq.0 - 1);
        // The first append of a tape has no position before it.
        if store.position(owner, seq)?.is_none_or(|position| position.more == 0) {
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

/// The sessions that are marked as forks of this one; some of them may not be there.
pub(super) fn marked<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<Vec<SessionId>, TapeError> {
    let marks = store.marks(Mark::Fork, Some(session))?;
    Ok(marks.into_iter().filter_map(|(_, fork)| fork.parse().ok()).collect())
}

/// Whether `fork`, which is marked as a fork of `session`, continues from it, or is being made.
pub(super) fn goes_on_from<S: TapeStore + ?Sized>(
    store: &S,
    fork: &SessionId,
    session: &SessionId,
) -> Result<bool, TapeError> {
    match store.summary(fork) {
        // A fork without an entry counts while its maker has it open. If the maker was killed, no entry will come.
        Ok(summary) if summary.seq == Seq::ZERO => Ok(!store.marks(Mark::Claimed, Some(fork))?.is_empty()),
        // A fork counts only if it continues from an entry of this session's own; an older entry belongs to another session. So
        // sessions never keep each other in a circle, even if their tapes say so, and each can be removed.
        Ok(summary) => match summary.from.filter(|from| from.parent == *session) {
            Some(from) => Ok(store.summary(session)?.from.is_none_or(|older| older.seq < from.seq)),
            None => Ok(false),
        },
        Err(TapeError::Missing { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}
