//! Puts a fork at a point: makes it, finds it made, or repairs it.
//!
//! A tape can be forked only where an append (entries that it takes together) ends. For a point inside of one, the fork is made
//! at the end before the point, if nothing was said in between. Otherwise it is made at the end after the point. There it goes
//! back to the point, which is a separate entry, unless nothing was said in between or a call had no result at the point. A maker
//! that dies before this entry leaves a fork that has done nothing yet: the same call takes it back.
//!
//! A change must keep this: the same point leads to the same place each time, so that a repeated call finds its fork; and a fork
//! that existed before the call is never deleted.

use std::sync::Arc;

use crate::{
    error::OpenError,
    kernel::{Point, Record, RollbackTarget, State, find_point, is_whole},
    ops::taped::{self, Claimed},
    session::{
        BranchError, ForkedAt,
        back::{look, look_from_the_end},
    },
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Millis, Seq, SessionId},
};

/// Makes the session `fork`, which continues from a point of another session; the other session may be open in any process. A fork of
/// this name that is at this point already is left as it is. Blocks on the disk; see
/// [`Session::fork`](crate::Session::fork).
///
/// # Errors
/// See [`BranchError`]. No session was made then.
pub fn fork_at(
    store: &dyn TapeStore,
    session: &SessionId,
    at: &Point,
    fork: &SessionId,
    now: Millis,
) -> Result<ForkedAt, BranchError> {
    stand(store, session, at, fork, now).map(|(forked, _)| forked)
}

/// Whether a call has made a fork, or found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    Now,
    Before,
}

/// Puts a fork at a point: makes it, finds it, or repairs one that was not yet taken back to its point.
pub(super) fn stand(
    store: &dyn TapeStore,
    session: &SessionId,
    at: &Point,
    fork: &SessionId,
    now: Millis,
) -> Result<(ForkedAt, Made), BranchError> {
    let make = |entry| make_once(store, session, entry, fork, now);
    let stands = |entry, made| Ok((ForkedAt { entry, back_to: None }, made));
    let point = match at {
        Point::At(seq) => *seq,
        _ => find(store, session, at)?,
    };
    let (before, end) = match make(point) {
        Ok(made) => return stands(point, made),
        Err(TapeError::InsideAppend { before, end, .. }) => (before, end),
        Err(error) => return Err(error.into()),
    };
    let then = state_at(store, session, point)?;
    if is_whole(&then) && before > Seq::ZERO && says_the_same(&state_at(store, session, before)?, &then) {
        return stands(before, make(before)?);
    }
    let stands_there = !is_whole(&then) || says_the_same(&state_at(store, session, end)?, &then);
    let made = make(end)?;
    if stands_there {
        return stands(end, made);
    }
    let forked = ForkedAt { entry: end, back_to: Some(point) };
    let went = match made {
        Made::Now => go_back(store, fork, point, now),
        Made::Before => match went_back(store, fork, end)? {
            Some(to) if to == point => Ok(()),
            // Its maker died in between.
            None => go_back(store, fork, point, now),
            Some(_) => return Err(TapeError::Exists { session: fork.clone() }.into()),
        },
    };
    match went {
        Ok(()) => Ok((forked, made)),
        Err(error) => {
            if made == Made::Now {
                drop(store.delete(fork));
            }
            Err(error)
        }
    }
}

/// Has a fork stand at the newest entry: of the tape, or the one that is named. Makes it, or finds any fork of the session under this
/// id.
pub(super) fn stand_at_newest(
    store: &dyn TapeStore,
    session: &SessionId,
    newest: Option<Seq>,
    fork: &SessionId,
    now: Millis,
) -> Result<(Seq, Made), TapeError> {
    match store.fork(session, newest, fork, now) {
        Ok(forked) => Ok((forked.seq, Made::Now)),
        Err(TapeError::Exists { session: taken }) if is_fork_of(store, session, None, &taken)? => {
            Ok((Seq::ZERO, Made::Before))
        }
        Err(error) => Err(error),
    }
}

/// Makes a fork at an entry that ends an append, unless this very fork exists.
fn make_once(
    store: &dyn TapeStore,
    session: &SessionId,
    entry: Seq,
    fork: &SessionId,
    now: Millis,
) -> Result<Made, TapeError> {
    match store.fork(session, Some(entry), fork, now) {
        Ok(_) => Ok(Made::Now),
        Err(TapeError::Exists { .. }) if is_fork_of(store, session, Some(entry), fork)? => Ok(Made::Before),
        Err(error) => Err(error),
    }
}

/// Whether `fork`, whose name is taken, is a fork of `session` at this entry; without an entry, at one of the session's own.
fn is_fork_of(
    store: &dyn TapeStore,
    session: &SessionId,
    at: Option<Seq>,
    fork: &SessionId,
) -> Result<bool, TapeError> {
    if fork == session || !store.exists(fork) {
        return Ok(false);
    }
    let summary = store.summary(fork)?;
    if summary.seq == Seq::ZERO {
        // Another owner has it and has not written its first entry yet.
        return Err(TapeError::Busy { waiting: 1 });
    }
    let Some(forked) = summary.from else { return Ok(false) };
    match at {
        None => Ok(forked.parent == *session),
        Some(seq) => Ok(forked.seq == seq && store.has_entry_of(session, &forked.parent, seq)?),
    }
}

/// Where a fork that was made at `entry` went first; `None` if it has done nothing at all yet.
///
/// # Errors
/// [`TapeError::Exists`] if it has done something else.
fn went_back(store: &dyn TapeStore, fork: &SessionId, entry: Seq) -> Result<Option<Seq>, BranchError> {
    let own = taped::entries(fork, &store.read(fork, entry)?)?;
    let mut own = own.iter().skip_while(|entry| matches!(entry.record, Record::Forked(_) | Record::Imported(_)));
    match own.next().map(|entry| &entry.record) {
        None => Ok(None),
        Some(Record::RolledBack(back)) => Ok(Some(back.to)),
        Some(_) => Err(TapeError::Exists { session: fork.clone() }.into()),
    }
}

fn says_the_same(one: &State, other: &State) -> bool {
    one.history == other.history && one.context.summary == other.context.summary
}

/// Finds the entry of a point on a tape.
fn find(store: &dyn TapeStore, session: &SessionId, at: &Point) -> Result<Seq, BranchError> {
    look_from_the_end(store, session, |after, is_all| {
        let entries = taped::entries(session, &store.read(session, after)?)?;
        let newest = entries.last().map_or(Seq::ZERO, |entry| entry.seq);
        Ok(find_point(&entries, newest, at, is_all)?)
    })
}

pub(super) fn state_at(store: &dyn TapeStore, session: &SessionId, seq: Seq) -> Result<State, OpenError> {
    taped::state(session, &store.read_to(session, seq)?.entries)
}

/// Writes the fork's own first entry: the fork goes back to the point. The fork is not open anywhere yet.
fn go_back(store: &dyn TapeStore, fork: &SessionId, point: Seq, now: Millis) -> Result<(), BranchError> {
    let claimed = Claimed::of(store, fork)?;
    let back = look(store, fork, &claimed.state, &RollbackTarget::Point(Point::At(point)))?;
    claimed.record(now, "roll_back", Record::RolledBack(Arc::new(back)))?;
    Ok(())
}
