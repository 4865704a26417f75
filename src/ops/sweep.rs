//! Sweeping: which sessions a store need not keep, and their removal, with their large outputs and the kept contents of files.
//!
//! Three steps: a look at the store, a plan that is a function of values (`plan`), and the removal, one session after the
//! other. The sweep asks the tapes and the marks beside them, never the index.
//!
//! A session is never removed while one of these holds: a process has it open; it has an open turn or task; it is parked or
//! protected; a remaining session is a fork of it; it does a task of a session that is at work; none of its entries can be read; a
//! later version wrote some of them. A session without an entry belongs to nobody, and any limit takes it. Each session is looked
//! at once more when it has been claimed for removal: a session that was used since the plan was made stays. A sweep that is killed
//! half-way leaves each session whole or gone; the next sweep continues.

mod plan;

use std::{collections::BTreeSet, fmt, ops::ControlFlow, time::Duration};

use serde::Serialize;

use crate::{
    kernel::{Entry, State},
    ops::listing::beside,
    tape::{Mark, SessionStatus, SessionStatuses, SessionSummary, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Millis, Seq, SessionId},
};

use plan::{Candidate, plan};

/// What is not kept. Whatever one of these takes goes, unless it is protected; what is left out takes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepPolicy {
    /// Sessions that were not used for so long go.
    pub older_than: Option<Duration>,
    /// So many sessions stay, those that were used last; the others go.
    pub keep_newest: Option<usize>,
    /// All sessions together take at most so many bytes, with what is kept beside them: those that were used longest ago go
    /// until they do.
    pub bytes_max: Option<u64>,
}

/// What a sweep removes, or has removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Sweep {
    /// The sessions that go, in the order in which they do: a fork before what it goes on from.
    pub gone: Vec<SweptSession>,
    /// The sessions that a limit takes, and that stay all the same.
    pub kept: Vec<KeptSession>,
}

impl Sweep {
    /// How many bytes it gives back.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.gone.iter().fold(0, |sum, gone| sum.saturating_add(gone.bytes))
    }
}

/// A session that goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SweptSession {
    /// Which.
    pub session: SessionId,
    /// When it was used last; now where its clock was ahead, or nothing says it.
    pub last: Millis,
    /// Its last entry.
    pub seq: Seq,
    /// The size of its entries and of what is beside them.
    pub bytes: u64,
    /// Why it goes.
    pub why: SweepReason,
}

/// Why a session goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SweepReason {
    /// It was not used for so many milliseconds.
    Unused {
        /// How long.
        ms: u64,
    },
    /// So many others were used later.
    NotAmongNewest {
        /// How many stay.
        keep: usize,
    },
    /// All together take more than is allowed.
    TooManyBytes {
        /// How many are.
        max: u64,
    },
    /// It has no entry: whoever made it could not go on. Any limit takes it.
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

/// A session that stays though a limit takes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KeptSession {
    /// Which.
    pub session: SessionId,
    /// Why it stays.
    pub why: KeptReason,
}

/// Why a session stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeptReason {
    /// Somebody has it open.
    Live,
    /// A turn or a task of it is open.
    AtWork,
    /// It is parked: somebody should look at it.
    Parked,
    /// It is protected.
    Protected,
    /// That session goes on from it, and stays.
    ForkStays(SessionId),
    /// It does a task of that session, which is at work.
    ParentAtWork(SessionId),
    /// It was used since it was looked at.
    Used,
    /// It could not be removed.
    Failed(String),
}

impl fmt::Display for KeptReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptReason::Live => f.write_str("it is open"),
            KeptReason::AtWork => f.write_str("a turn or a task of it is not over"),
            KeptReason::Parked => f.write_str("it is parked"),
            KeptReason::Protected => f.write_str("it is protected"),
            KeptReason::ForkStays(fork) => write!(f, "session {fork} goes on from it"),
            KeptReason::ParentAtWork(parent) => write!(f, "it does a task of session {parent}, which is at work"),
            KeptReason::Used => f.write_str("it was used meanwhile"),
            KeptReason::Failed(error) => f.write_str(error),
        }
    }
}

/// What [`sweep`] would remove, and why. Changes nothing. Blocks on the disk; reads the ends of all tapes, and of those that would
/// go what opening them would read.
///
/// # Errors
/// [`TapeError::Io`], where the store itself cannot be read. One session that cannot be is named in [`Sweep::kept`], or is passed
/// over where nothing of it can be read.
pub fn sweep_plan(store: &dyn TapeStore, policy: SweepPolicy, now: Millis) -> Result<Sweep, TapeError> {
    plan_some(store, policy, now, usize::MAX, &|| false)
}

/// The plan of so many removals at most. Stopped in the middle it names what was found by then.
pub(crate) fn plan_some(
    store: &dyn TapeStore,
    policy: SweepPolicy,
    now: Millis,
    removed_max: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Sweep, TapeError> {
    let candidates = look(store, policy, now, stop)?;
    let is_at_work = |one: &&Candidate| matches!(one.protected, Some(KeptReason::Live | KeptReason::AtWork));
    let working: BTreeSet<&SessionId> = candidates.iter().filter(is_at_work).map(|one| &one.session).collect();
    let mut room = removed_max;
    let swept = plan(policy, &candidates, now, &mut |one| {
        if room == 0 || stop() {
            return ControlFlow::Break(());
        }
        let why = match task_of(store, &one.session, one.seq) {
            Ok(parent) => parent.filter(|parent| working.contains(parent)).map(KeptReason::ParentAtWork),
            // It concerns nobody else. What a later version wrote is that version's to remove.
            Err(error) => Some(KeptReason::Failed(error.to_string())),
        };
        room -= usize::from(why.is_none());
        ControlFlow::Continue(why)
    });
    Ok(swept)
}

/// Removes what a policy does not keep, one session after the other. Blocks on the disk. `stop` is asked before each: what was
/// not removed then goes with the next sweep, and is not in the answer.
///
/// # Errors
/// [`TapeError::ReadingOnly`] where something is to go; [`TapeError::Io`] of the look. What cannot be removed is named in
/// [`Sweep::kept`].
pub fn sweep(
    store: &dyn TapeStore,
    policy: SweepPolicy,
    now: Millis,
    stop: impl Fn() -> bool,
) -> Result<Sweep, TapeError> {
    sweep_planned(store, sweep_plan(store, policy, now)?, stop)
}

/// Removes what a plan names and nothing else, however long ago it was made: a session that was used, parked, protected or forked
/// since then stays. For whoever shows a plan and asks first. Blocks on the disk, and stops as [`sweep`] does.
/// Over files, what was removed is still in the index until somebody calls `Store::scrub`.
///
/// # Errors
/// [`TapeError::ReadingOnly`] where something is to go. What cannot be removed is named in [`Sweep::kept`].
pub fn sweep_planned(store: &dyn TapeStore, planned: Sweep, stop: impl Fn() -> bool) -> Result<Sweep, TapeError> {
    sweep_through(planned, &stop, |session, seq| store.delete_unused(session, seq))
}

/// The same, where somebody else does the removing.
pub(crate) fn sweep_through(
    planned: Sweep,
    stop: impl Fn() -> bool,
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
            // Another one has removed it.
            Err(TapeError::Missing { .. }) => continue,
            Err(error @ TapeError::ReadingOnly) => return Err(error),
            Err(error) => KeptReason::Failed(error.to_string()),
        };
        done.kept.push(KeptSession { session: going.session, why });
    }
    Ok(done)
}

/// What is known of each session, those that were used last first.
fn look(
    store: &dyn TapeStore,
    policy: SweepPolicy,
    now: Millis,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Candidate>, TapeError> {
    let statuses = SessionStatuses::of_all(store)?;
    let mut candidates = Vec::new();
    for SessionSummary { id: session, last, bytes, seq, .. } in store.list()? {
        // Stopped, none of them goes.
        if stop() {
            break;
        }
        // Of one with an entry that cannot be read, nobody knows what it was.
        if last.is_none() && bytes > 0 {
            continue;
        }
        let (forks, failed) = match store.forks_of(&session) {
            Ok(forks) => (forks, None),
            Err(error) => (Vec::new(), Some(KeptReason::Failed(error.to_string()))),
        };
        // Somebody who may remove it has looked at its claim by then.
        let protected = match statuses.of(&session) {
            // First what also keeps those that do its tasks.
            _ if statuses.has(Mark::Open, &session) => Some(KeptReason::AtWork),
            SessionStatus::Live => Some(KeptReason::Live),
            _ if statuses.has(Mark::Protected, &session) => Some(KeptReason::Protected),
            SessionStatus::Parked => Some(KeptReason::Parked),
            SessionStatus::Passive | SessionStatus::Hidden => failed,
        };
        // One whose first entry is just being written is somebody's, and nobody asked for it.
        if last.is_none() && protected.is_some() {
            continue;
        }
        // The files beside it are looked at where that matters, or where it may go.
        let counts = policy.bytes_max.is_some() || protected.is_none();
        let bytes = bytes.saturating_add(if counts { beside(store, &session) } else { 0 });
        let last = last.unwrap_or(now).min(now);
        candidates.push(Candidate { session, last, seq, bytes, forks, protected });
    }
    candidates.sort_by(|one, other| (other.last, &other.session).cmp(&(one.last, &one.session)));
    Ok(candidates)
}

/// The session whose task it does and has not finished, as its newest anchor says.
fn task_of(store: &dyn TapeStore, session: &SessionId, seq: Seq) -> Result<Option<SessionId>, TapeError> {
    let lines = match store.read_to(session, seq) {
        // What is damaged does nothing.
        Err(TapeError::Damaged(_) | TapeError::NoEntry { .. } | TapeError::Missing { .. }) => return Ok(None),
        read => read?.entries,
    };
    // A later version wrote what this one cannot read, so only that version can tell.
    let Some(state) = State::fold(lines.iter().filter_map(|line| Entry::from_tape(line).ok())) else { return Ok(None) };
    let origin = state.origin.as_ref().filter(|origin| origin.end.is_none() && origin.orphaned.is_none());
    Ok(origin.filter(|_| state.closed.is_none()).map(|origin| origin.parent.clone()))
}
