//! Deleting a session over any engine: at once, or, while forks depend on it, hidden until the last of them is gone.
//!
//! In one step, the engine erases a session or says which mark forbids it. So a session with a fork's mark is not erased, and
//! [`delete_unused`] (a sweep) does not erase a session that is protected at that moment; a deletion that a host asks for ignores
//! the protection. After a crash, a session is unchanged, gone, or hidden; [`finish`] erases hidden sessions without a fork at
//! the next start.
//!
//! A change must keep: a session with an open turn is deleted only if it will not be continued (`delete_given_up`); a session
//! with forks is hidden before its last entry is read, so it cannot be continued meanwhile; a fork's mark is cleared only if the
//! fork was erased or does not exist, because the mark is what keeps its parent. Blocks, and may wait 10 s for another owner.

use std::time::{Duration, Instant};

use super::{
    Forked, Mark, TapeError, TapeStore,
    fork::{forks_of, goes_on_from, marked},
    whole::must_be_shown,
};
use crate::words::ids::{Seq, SessionId};

/// The outcome of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Deleted {
    /// The session is gone, with its large outputs.
    Gone,
    /// Forks continue from the session: only they can read it, and it goes with the last of them.
    Hidden,
}

/// How often the marks of forks that are gone are cleared and the erasure is tried again. After that the session counts as forked.
const TRIES_MAX: u32 = 5;

/// How long to wait for another owner that has a hidden session open, and how often to look. After that it is an error, and the
/// session is left to the next start.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Deletes a session, or hides it while forks depend on it. [`TapeError::GoneOn`] if `last` is not its last entry;
/// [`TapeError::Unfinished`] if `unless` has [`Mark::Open`] and that mark is set. `unless` has no other marks.
pub(super) fn delete<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Option<Seq>,
    unless: &[Mark],
) -> Result<Deleted, TapeError> {
    must_be_shown(store, session)?;
    let unfinished = TapeError::Unfinished { session: session.clone() };
    match erase(store, session, last, unless)? {
        None => return Ok(Deleted::Gone),
        Some(Mark::Open) => return Err(unfinished),
        Some(_) => {}
    }
    // This mark can be set only while the session is not open; from here on it cannot be opened.
    store.mark(session, Mark::Hidden, "")?;
    let shown_again = |error| store.unmark(session, Mark::Hidden, "").and(Err(error));
    let now = store.summary(session)?.seq;
    if let Some(expected) = last.filter(|last| *last != now) {
        return shown_again(TapeError::GoneOn { session: session.clone(), expected, last: now });
    }
    if unless.contains(&Mark::Open) && !store.marks(Mark::Open, Some(session))?.is_empty() {
        return shown_again(unfinished);
    }
    for mark in [Mark::Open, Mark::Parked, Mark::Protected] {
        store.unmark(session, mark, "")?;
    }
    // The last fork may have gone meanwhile, and its deletion may have erased this session already.
    match store.summary(session).and_then(|hidden| Ok((erase_hidden(store, session)?, hidden.from))) {
        Ok((false, _)) => Ok(Deleted::Hidden),
        Ok((true, from)) => release(store, from, session.clone()).map(|()| Deleted::Gone),
        Err(TapeError::Missing { .. }) => Ok(Deleted::Gone),
        Err(error) => Err(error),
    }
}

/// Erases a session if `last` is still its last entry, it is neither parked nor protected, and it has no fork. Says whether it did.
pub(super) fn delete_unused<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Seq,
) -> Result<bool, TapeError> {
    must_be_shown(store, session)?;
    match erase(store, session, Some(last), &[Mark::Open, Mark::Parked, Mark::Protected]) {
        Ok(Some(Mark::Open)) => Err(TapeError::Unfinished { session: session.clone() }),
        Err(TapeError::GoneOn { .. }) => Ok(false),
        erased => Ok(erased?.is_none()),
    }
}

/// Erases hidden sessions without a fork: the deletion of their last fork was cut off. Returns what failed; the others are still
/// erased.
pub(crate) fn finish<S: TapeStore + ?Sized>(store: &S) -> Vec<TapeError> {
    let hidden = match store.marks(Mark::Hidden, None) {
        Ok(hidden) => hidden,
        Err(error) => return vec![error],
    };
    let erased = hidden.iter().map(|(session, _)| match erase(store, session, None, &[]) {
        // Another owner has erased it, or is erasing it.
        Err(TapeError::Missing { .. } | TapeError::Claimed { .. }) => Ok(()),
        erased => erased.map(drop),
    });
    erased.filter_map(Result::err).collect()
}

/// Erases a session, unless it has a fork or one of these marks; then also the hidden session that it continues from, if this was
/// its last fork. Returns the mark that forbids the erasure.
fn erase<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Option<Seq>,
    unless: &[Mark],
) -> Result<Option<Mark>, TapeError> {
    let unless = [unless, &[Mark::Fork]].concat();
    let from = store.summary(session)?.from;
    let refused = erase_one(store, session, last, &unless)?;
    if refused.is_none() {
        release(store, from, session.clone())?;
    }
    Ok(refused)
}

/// Erases the hidden session that an erased fork continued from, if this was its last fork; and so on, parent by parent.
fn release<S: TapeStore + ?Sized>(store: &S, from: Option<Forked>, fork: SessionId) -> Result<(), TapeError> {
    let (mut from, mut fork) = (from, fork);
    while let Some(Forked { parent, .. }) = from {
        let release = || {
            store.unmark(&parent, Mark::Fork, fork.as_str())?;
            let from = store.summary(&parent)?.from;
            let is_hidden = !store.marks(Mark::Hidden, Some(&parent))?.is_empty();
            Ok(if is_hidden && erase_hidden(store, &parent)? { from } else { None })
        };
        from = match release() {
            // The deletion of another fork has erased the parent.
            Err(TapeError::Missing { .. }) => None,
            released => released?,
        };
        fork = parent;
    }
    Ok(())
}

/// Erases a hidden session, unless a fork continues from it; returns whether it did. Waits for another owner that has the session
/// open: that owner is removing another fork of it, or is about to see that it is hidden.
fn erase_hidden<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<bool, TapeError> {
    let started = Instant::now();
    loop {
        match erase_one(store, session, None, &[Mark::Fork]) {
            Err(TapeError::Claimed { .. }) if started.elapsed() < WAIT => std::thread::sleep(LOOK),
            erased => return Ok(erased?.is_none()),
        }
    }
}

/// Erases this session alone, unless a mark forbids it. Marks of forks that are gone are cleared and forbid nothing.
fn erase_one<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Option<Seq>,
    unless: &[Mark],
) -> Result<Option<Mark>, TapeError> {
    for _ in 0..TRIES_MAX {
        match store.erase(session, last, unless)? {
            Some(Mark::Fork) if forks_of(store, session)?.is_empty() => forget_forks(store, session)?,
            erased => return Ok(erased),
        }
    }
    Ok(Some(Mark::Fork))
}

/// Clears the marks of forks that are not there. Looks again after each, and marks a fork that came in between once more.
fn forget_forks<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<(), TapeError> {
    for fork in marked(store, session)? {
        store.unmark(session, Mark::Fork, fork.as_str())?;
        if goes_on_from(store, &fork, session)? {
            store.mark(session, Mark::Fork, fork.as_str())?;
        }
    }
    Ok(())
}
