//! Deleting a session, over any engine: at once, or, while forks go on from it, out of sight until the last of them is gone.
//!
//! The engine erases a session or says which mark forbids it, in one step. All else follows from that: a fork that is marked is
//! never left without what it goes on from, and whoever protects a session in the moment of its removal either keeps it or hears that
//! it is gone. What a crash leaves is a hidden session that no fork goes on from; [`finish`] erases it.

use std::time::{Duration, Instant};

use super::{
    Forked, Mark, TapeError, TapeStore,
    fork::{forks_of, goes_on_from, marked},
    whole::must_be_shown,
};
use crate::words::ids::{Seq, SessionId};

/// What became of a session that was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone, its large outputs included.
    Gone,
    /// Forks go on from it: it is not there for anybody but them, and goes with the last one.
    Hidden,
}

/// How often marks of forks that are gone are taken away, and the session tried again, before that is an error.
const TRIES_MAX: u32 = 5;

/// How long another may have a hidden session before it is left to the next start, and how often it is looked.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

pub(super) fn delete<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Option<Seq>,
) -> Result<Deleted, TapeError> {
    must_be_shown(store, session)?;
    let unfinished = || Err(TapeError::Unfinished { session: session.clone() });
    match erase(store, session, last, &[Mark::Open])? {
        None => return Ok(Deleted::Gone),
        Some(Mark::Open) => return unfinished(),
        Some(_) => {}
    }
    // Nobody has it, and from here on nobody gets it.
    store.mark(session, Mark::Hidden, "")?;
    let shown_again = |error| store.unmark(session, Mark::Hidden, "").and(Err(error));
    let now = store.summary(session)?.seq;
    if let Some(expected) = last.filter(|last| *last != now) {
        return shown_again(TapeError::GoneOn { session: session.clone(), expected, last: now });
    }
    if !store.marks(Mark::Open, Some(session))?.is_empty() {
        return shown_again(TapeError::Unfinished { session: session.clone() });
    }
    store.unmark(session, Mark::Parked, "")?;
    store.unmark(session, Mark::Protected, "")?;
    // The last of its forks may have gone meanwhile, and whoever deleted that may be faster.
    match store.summary(session).and_then(|hidden| Ok((erase_hidden(store, session)?, hidden.from))) {
        Ok((false, _)) => Ok(Deleted::Hidden),
        Ok((true, from)) => release(store, from, session.clone()).map(|()| Deleted::Gone),
        Err(TapeError::Missing { .. }) => Ok(Deleted::Gone),
        Err(error) => Err(error),
    }
}

pub(super) fn delete_unused<S: TapeStore + ?Sized>(
    store: &S,
    session: &SessionId,
    last: Seq,
) -> Result<bool, TapeError> {
    must_be_shown(store, session)?;
    match erase(store, session, Some(last), &[Mark::Open, Mark::Parked, Mark::Protected]) {
        Ok(None) => Ok(true),
        Ok(Some(Mark::Open)) => Err(TapeError::Unfinished { session: session.clone() }),
        Ok(Some(_)) | Err(TapeError::GoneOn { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Erases what was hidden and no fork goes on from: whoever deleted the last one was cut off. Says what failed; the next one is
/// done all the same.
pub(crate) fn finish<S: TapeStore + ?Sized>(store: &S) -> Vec<TapeError> {
    let hidden = match store.marks(Mark::Hidden, None) {
        Ok(hidden) => hidden,
        Err(error) => return vec![error],
    };
    let erased = hidden.iter().map(|(session, _)| match erase(store, session, None, &[]) {
        // Another one was faster, or is at it.
        Err(TapeError::Missing { .. } | TapeError::Claimed { .. }) => Ok(()),
        erased => erased.map(drop),
    });
    erased.filter_map(Result::err).collect()
}

/// Erases a session that no fork goes on from, and that has none of these marks; and then what it goes on from, where that only
/// waited for it. Says which mark forbids it.
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

/// Erases what an erased fork went on from, where that only waited for it; and so on.
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
            // Whoever deleted another fork of it was faster.
            Err(TapeError::Missing { .. }) => None,
            released => released?,
        };
        fork = parent;
    }
    Ok(())
}

/// Erases a hidden session, unless a fork goes on from it; says whether it did. Nobody has one but whoever removes another fork of it,
/// or is about to hear that it is hidden: that is waited for.
fn erase_hidden<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<bool, TapeError> {
    let started = Instant::now();
    loop {
        match erase_one(store, session, None, &[Mark::Fork]) {
            Err(TapeError::Claimed { .. }) if started.elapsed() < WAIT => std::thread::sleep(LOOK),
            erased => return Ok(erased?.is_none()),
        }
    }
}

/// Erases this session alone, if nothing forbids it. Marks of forks that are gone forbid nothing.
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

/// Takes away the marks of forks that are not there. One that comes in between is marked again.
fn forget_forks<S: TapeStore + ?Sized>(store: &S, session: &SessionId) -> Result<(), TapeError> {
    for fork in marked(store, session)? {
        store.unmark(session, Mark::Fork, fork.as_str())?;
        if goes_on_from(store, &fork, session)? {
            store.mark(session, Mark::Fork, fork.as_str())?;
        }
    }
    Ok(())
}
