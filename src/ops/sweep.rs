//! Sweeps a store: finds the sessions that a policy does not keep, and removes them with their large outputs and kept file
//! contents.
//!
//! Three steps: a look at the store, a plan that is a function of values (`plan`), and the removal, one session after the other.
//! The sweep asks the tapes and the marks next to them, never the index. A sweep that is killed half-way leaves each session whole
//! or gone; the next sweep continues.
//!
//! What a change must not break: a session is never removed while one of these holds: a process has it open; it has an open turn or
//! task; it is parked or protected; a remaining session is a fork of it. The plan also leaves out three kinds of sessions: those
//! that do a task for a session at work; those of which no entry can be read; and those with entries of a later version. Each
//! session is checked again when it has been claimed for removal: a session that was used, parked, protected or forked since the
//! plan was made stays. A session without an entry has no content; any limit takes it, unless a mark or a claim prevents it.

mod plan;

use std::{fmt, ops::ControlFlow, time::Duration};

use serde::Serialize;

use crate::{
    kernel::{Entry, State},
    ops::listing::beside,
    tape::{Mark, SessionStatus, SessionStatuses, SessionSummary, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Millis, Seq, SessionId},
};

use plan::{Candidate, plan};

/// Which sessions a store need not keep. A session that any of these limits takes goes, unless something protects it. A limit that
/// is left out takes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepPolicy {
    /// Takes sessions that were not used for longer than this.
    pub older_than: Option<Duration>,
    /// Takes all sessions but this many, the most recently used.
    pub keep_newest: Option<usize>,
    /// The most bytes of all sessions together, with the files next to their tapes. Takes the least recently used sessions until
    /// the rest is within the limit.
    pub bytes_max: Option<u64>,
}

/// The sessions that a sweep removes, or has removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sweep {
    /// The sessions that go, in the order of their removal: a fork before its parent.
    pub gone: Vec<SweptSession>,
    /// The sessions that stay although a limit takes them.
    pub kept: Vec<KeptSession>,
}

impl Sweep {
    /// How many bytes the removals free.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.gone.iter().fold(0, |sum, gone| sum.saturating_add(gone.bytes))
    }
}

/// A session that goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SweptSession {
    /// The id of the session.
    pub session: SessionId,
    /// When it was used last. The present if its clock was ahead, or if that is unknown.
    pub last: Millis,
    /// Its last entry.
    pub seq: Seq,
    /// The size of its entries and of the files next to its tape, in bytes.
    pub bytes: u64,
    /// Why it goes.
    pub why: SweepReason,
}

/// Why a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SweepReason {
    /// It was not used for longer than the limit.
    Unused {
        /// How long.
        ms: u64,
    },
    /// It is not among the most recently used sessions.
    NotAmongNewest {
        /// How many stay.
        keep: usize,
    },
    /// All sessions together take more bytes than the limit.
    TooManyBytes {
        /// The limit, in bytes.
        max: u64,
    },
    /// It has no entry: the process that made it did not get further. Any limit takes it.
    Empty,
}

impl fmt::Display for SweepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepReason::Unused { ms } if *ms >= DAY_MS => write!(f, "not used for {} days", ms / DAY_MS),
            SweepReason::Unused { ms } => write!(f, "not used for {} s", ms / 1000),
            SweepReason::NotAmongNewest { keep } => write!(f, "not among the newest {keep}"),
            SweepReason::TooManyBytes { max } => write!(f, "all together take more than {max} bytes"),
            SweepReason::Empty => f.write_str("it has no entry"),
        }
    }
}

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A session that stays although a limit takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeptSession {
    /// The id of the session.
    pub session: SessionId,
    /// Why it stays.
    pub why: KeptReason,
}

/// Why a session stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeptReason {
    /// A process has it open.
    Live,
    /// A turn or a task of it is open.
    AtWork,
    /// It is parked, for an operator to check.
    Parked,
    /// It is protected.
    Protected,
    /// This fork of it stays.
    ForkStays(SessionId),
    /// It does a task of this session, which is at work.
    ParentAtWork(SessionId),
    /// It was used, parked, protected or forked after the plan was made.
    Used,
    /// It could not be checked or removed, for this reason.
    Failed(String),
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptReason::Live => f.write_str("it is open"),
            KeptReason::AtWork => f.write_str("it has unfinished work"),
            KeptReason::Parked => f.write_str("it is parked"),
            KeptReason::Protected => f.write_str("it is protected"),
            KeptReason::ForkStays(fork) => write!(f, "session {fork} is a fork of it"),
            KeptReason::ParentAtWork(parent) => {
                write!(f, "it does a task for session {parent}, which is still running")
            }
            KeptReason::Used => f.write_str("it was used meanwhile"),
            KeptReason::Failed(error) => f.write_str(error),
        }
    }
}

/// What a policy would remove now, and why. Changes nothing. Blocks on the disk: reads the ends of all tapes, and for each session
/// that would go, as much as opening it would read. `stop` is asked before each session; a plan that it ends has what was found by
/// then.
///
/// # Errors
/// [`TapeError::Io`] if the store itself cannot be read. [`Sweep::kept`] names each unreadable session; a session without a
/// readable entry is left out.
pub fn sweep_plan(
    store: &dyn TapeStore,
    policy: SweepPolicy,
    now: Millis,
    stop: impl Fn() -> bool,
) -> Result<Sweep, TapeError> {
    let statuses = SessionStatuses::of_all(store)?;
    let candidates = look(store, policy, now, &stop, &statuses)?;
    let is_at_work = |id: &SessionId| statuses.has(Mark::Open, id) || matches!(statuses.of(id), SessionStatus::Live);
    Ok(plan(policy, candidates, now, &mut |one| {
        if stop() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(match task_of(store, &one.session, one.seq) {
            Ok(parent) => parent.filter(is_at_work).map(KeptReason::ParentAtWork),
            // Only this session stays. Entries of a later version are that version's to remove.
            Err(error) => Some(KeptReason::Failed(error.to_string())),
        })
    }))
}

/// Removes the sessions that a plan of [`sweep_plan`] names and nothing else, one after the other. Even for an old plan, a
/// session that was used, parked, protected or forked since then stays. Blocks on the disk. `stop` is asked before each removal;
/// sessions that were not reached go with the next sweep, and are not in the answer. Over files, the index still has a removed
/// session until the next `Store::scrub`.
///
/// # Errors
/// [`TapeError::ReadingOnly`] if a session must be removed and the store is open for reading. [`Sweep::kept`] names each session
/// that cannot be removed.
pub fn sweep_planned(store: &dyn TapeStore, planned: Sweep, stop: impl Fn() -> bool) -> Result<Sweep, TapeError> {
    sweep_through(planned, &stop, |session| store.exists(session), |session, seq| store.delete_unused(session, seq))
}

/// [`sweep_planned`] with the caller's functions: whether a session exists, and its removal if it was not used since.
pub(crate) fn sweep_through(
    planned: Sweep,
    stop: impl Fn() -> bool,
    exists: impl Fn(&SessionId) -> bool,
    delete_unused: impl Fn(&SessionId, Seq) -> Result<bool, TapeError>,
) -> Result<Sweep, TapeError> {
    let mut done = Sweep { gone: Vec::new(), kept: planned.kept };
    for going in planned.gone {
        if stop() {
            break;
        }
        let why = match delete_unused(&going.session, going.seq) {
            Ok(true) => {
                done.gone.push(going);
                continue;
            }
            Ok(false) => KeptReason::Used,
            Err(TapeError::Claimed { .. }) => KeptReason::Live,
            Err(TapeError::Unfinished { .. }) => KeptReason::AtWork,
            // It was removed elsewhere.
            Err(TapeError::Missing { .. }) => continue,
            Err(error @ TapeError::ReadingOnly) => return Err(error),
            // It failed after the session had gone; the next opening of the store finishes it.
            Err(_) if !exists(&going.session) => {
                done.gone.push(going);
                continue;
            }
            Err(error) => KeptReason::Failed(error.to_string()),
        };
        done.kept.push(KeptSession { session: going.session, why });
    }
    Ok(done)
}

/// The candidates of a sweep, most recently used first. Ends early where `stop` says so.
fn look(
    store: &dyn TapeStore,
    policy: SweepPolicy,
    now: Millis,
    stop: &dyn Fn() -> bool,
    statuses: &SessionStatuses,
) -> Result<Vec<Candidate>, TapeError> {
    let mut candidates = Vec::new();
    for SessionSummary { id: session, last, bytes, seq, .. } in store.list()? {
        // The plan asks `stop` again before each session, so a partial list removes nothing.
        if stop() {
            break;
        }
        // The session has bytes but no readable entry. Its content is unknown, so it is never swept.
        if last.is_none() && bytes > 0 {
            continue;
        }
        let forks = store.forks_of(&session);
        let failed = forks.as_ref().err().map(|error| KeptReason::Failed(error.to_string()));
        // What the marks and claims say now. The removal itself takes the claim first, and that decides.
        let protected = match statuses.of(&session) {
            // This comes first, because it also protects the children that do its tasks.
            _ if statuses.has(Mark::Open, &session) => Some(KeptReason::AtWork),
            SessionStatus::Live => Some(KeptReason::Live),
            _ if statuses.has(Mark::Protected, &session) => Some(KeptReason::Protected),
            SessionStatus::Parked => Some(KeptReason::Parked),
            SessionStatus::Passive | SessionStatus::Hidden => failed,
        };
        // A session without an entry that is protected is just being made. It is not part of the plan at all.
        if last.is_none() && protected.is_some() {
            continue;
        }
        // The files next to the tape are counted only where the limit of bytes needs it, or where the session may go.
        let counts = policy.bytes_max.is_some() || protected.is_none();
        let bytes = bytes.saturating_add(if counts { beside(store, &session) } else { 0 });
        let last = last.unwrap_or(now).min(now);
        candidates.push(Candidate {
            session,
            last,
            seq,
            bytes,
            forks: forks.unwrap_or_default().into_iter().collect(),
            protected,
        });
    }
    candidates.sort_by(|one, other| (other.last, &other.session).cmp(&(one.last, &one.session)));
    Ok(candidates)
}

/// The parent whose task the session does and has not finished, as its newest anchor says.
fn task_of(store: &dyn TapeStore, session: &SessionId, seq: Seq) -> Result<Option<SessionId>, TapeError> {
    let lines = match store.read_to(session, seq) {
        // A damaged or missing session does no task.
        Err(TapeError::Damaged(_) | TapeError::NoEntry { .. } | TapeError::Missing { .. }) => return Ok(None),
        read => read?.entries,
    };
    // A later version wrote what this one cannot read, so only that version can tell.
    let Some(state) = State::fold(lines.iter().filter_map(|line| Entry::from_tape(line).ok())) else { return Ok(None) };
    let origin = state.origin.as_ref().filter(|origin| origin.end.is_none() && origin.orphaned.is_none());
    Ok(origin.filter(|_| state.closed.is_none()).map(|origin| origin.parent.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// What failed after a removal is finished by the next opening of the store: the session is gone, and is not named as kept.
    #[test]
    fn a_session_that_is_gone_is_not_named_as_kept() {
        let swept = |name: &str| SweptSession {
            session: name.parse().unwrap(),
            why: SweepReason::NotAmongNewest { keep: 0 },
            last: Millis(1),
            seq: Seq(1),
            bytes: 7,
        };
        let planned = Sweep { gone: vec![swept("gone"), swept("stays")], kept: vec![] };
        let failed = || Err(TapeError::engine("the disk fails"));
        let done = sweep_through(planned, || false, |session| session.as_str() == "stays", |_, _| failed()).unwrap();
        assert_eq!(done.gone, [swept("gone")]);
        assert_eq!(done.kept.iter().map(|kept| kept.session.as_str()).collect::<Vec<_>>(), ["stays"]);
    }
}
