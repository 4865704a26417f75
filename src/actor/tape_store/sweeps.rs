//! Sweeping: a runtime removes the sessions that a policy does not keep, on request or at intervals.
//!
//! A runtime sweeps at intervals only if its host asked for that, one sweep at a time. [`SweepReport`] says how the newest of
//! these sweeps went. A sweep that fails is reported and tried again at the next interval; it ends nothing else.
//!
//! A sweep blocks on the disk, so it runs on a thread and no actor may wait for it. A change must delete through `delete_unused`,
//! which looks at each session once more under its claim: a session that is open, or went on since the plan, stays.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    actor::{shared::Shared, tape_store::Chore},
    lock::Lock,
    ops::sweep::{Sweep, SweepPolicy, plan_some, sweep_through},
    supervisor::backoff::Chance,
    tape::TapeError,
    words::ids::{Millis, new_uuid},
};

/// The least time between two sweeps.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// The most sessions that a report names of those that a limit selects and that stay.
const KEPT_NAMED_MAX: usize = 100;

/// How often a runtime sweeps by itself, and what it does not keep.
///
/// ```
/// use std::time::Duration;
/// use tamtam::{Runtime, runtime::Sweeps, ops::SweepPolicy};
///
/// let mut policy = SweepPolicy::default();
/// policy.older_than = Some(Duration::from_secs(30 * 24 * 60 * 60));
/// let builder = Runtime::builder().sweeps(Sweeps::new(Duration::from_secs(60 * 60), policy));
/// # drop(builder);
/// ```
#[derive(Clone, Debug)]
pub struct Sweeps {
    policy: SweepPolicy,
    every: Duration,
    removed_max: usize,
}

impl Sweeps {
    /// Sweeps by `policy` about every `every`, which is at least a second. Each wait, also the one before the first sweep, is drawn
    /// from three quarters to five quarters of `every`, so that runtimes that were started together do not sweep together.
    #[must_use]
    pub fn new(every: Duration, policy: SweepPolicy) -> Sweeps {
        Sweeps { policy, every: every.max(EVERY_MIN), removed_max: 1_000 }
    }

    /// Sets the most sessions that one sweep removes, 1,000 by default; the next sweeps remove the rest.
    #[must_use]
    pub fn removing_at_most(mut self, sessions: usize) -> Sweeps {
        self.removed_max = sessions;
        self
    }

    /// The next wait. `drawn` is a random number from 0 up to 1.
    fn wait(&self, drawn: f64) -> Duration {
        // A wait too long for a `Duration` becomes the longest one: it never ends.
        Duration::try_from_secs_f64(self.every.as_secs_f64() * (0.75 + drawn / 2.0)).unwrap_or(Duration::MAX)
    }
}

/// The result of a sweep that the runtime made by itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Its number, from 1, since the runtime was started.
    pub number: u64,
    /// When it began.
    pub at: Millis,
    /// How long it took.
    pub took: Duration,
    /// The removed sessions, and the first 100 of the sessions that a limit selects and that stay.
    pub sweep: Sweep,
    /// How many sessions a limit selects and that stay, in all.
    pub kept: usize,
    /// Why the sweep was given up: the store could not be read. `None` if it was not given up.
    pub error: Option<String>,
}

/// The settings of a runtime's own sweeps, and the report of the newest one.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pub(crate) sweeps: Option<Sweeps>,
    pub(crate) newest: Lock<Option<Arc<SweepReport>>>,
}

impl Sweeper {
    /// The wait before the next sweep; `None` if the host asked for no sweeps.
    pub(super) fn wait(&self) -> Option<Duration> {
        let mut chance = Chance::new(new_uuid().as_u128() as u64);
        self.sweeps.as_ref().map(|sweeps| sweeps.wait(chance.next()))
    }

    /// Sweeps once, and keeps the report. Blocks on the disk.
    pub(super) fn sweep(&self, shared: &Shared, stop: &dyn Fn() -> bool) {
        let Some(Sweeps { policy, removed_max, .. }) = self.sweeps else { return };
        let (began, at) = (Instant::now(), shared.clock.now());
        let swept = sweep(shared, policy, removed_max, stop);
        let error = swept.as_ref().err().map(ToString::to_string);
        let mut swept = swept.unwrap_or_default();
        let kept = swept.kept.len();
        swept.kept.truncate(KEPT_NAMED_MAX);
        match &error {
            Some(error) => tracing::warn!(error, "a sweep was given up"),
            None if swept.gone.is_empty() => {}
            None => tracing::info!(removed = swept.gone.len(), bytes = swept.bytes(), "old sessions were removed"),
        }
        let mut newest = self.newest.lock();
        let number = newest.as_ref().map_or(1, |newest| newest.number + 1);
        *newest = Some(Arc::new(SweepReport { number, at, took: began.elapsed(), sweep: swept, kept, error }));
    }
}

/// Removes the sessions that a policy does not keep, at most `max`, until the runtime ends or `stop` returns `true`. Blocks on the
/// disk.
pub(crate) fn sweep(
    shared: &Shared,
    policy: SweepPolicy,
    max: usize,
    stop: &dyn Fn() -> bool,
) -> Result<Sweep, TapeError> {
    let stop = || stop() || shared.orders.is_closed();
    let planned = plan_some(&*shared.store, policy, shared.clock.now(), max, &stop)?;
    let done = sweep_through(planned, stop, |session, seq| shared.store.delete_unused(session, seq));
    shared.orders.chore(Chore::Scrub);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_lie_around_what_was_asked_for() {
        let sweeps = |every| Sweeps::new(every, SweepPolicy::default());
        let minute = sweeps(Duration::from_secs(60));
        assert_eq!([0.0, 0.5, 1.0].map(|drawn| minute.wait(drawn).as_secs()), [45, 60, 75]);
        assert_eq!(sweeps(Duration::ZERO).wait(0.0), Duration::from_millis(750));
        let never = sweeps(Duration::MAX);
        assert!(never.wait(0.0) > Duration::from_secs(1 << 62));
        assert_eq!([never.wait(0.5), never.wait(1.0)], [Duration::MAX; 2]);
    }
}
