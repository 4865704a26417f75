//! Sweeping: a runtime removes the sessions that a policy does not keep, on request or at intervals.
//!
//! A runtime sweeps at intervals only if its host asked for that; the next interval begins when a sweep is over. [`SweepReport`]
//! says how the newest of these sweeps went. A sweep that fails is reported and tried again after the next interval; it ends
//! nothing else. A sweep on request may run beside one of these.
//!
//! A sweep blocks on the disk, so it runs on a thread and no actor may wait for it. A change must delete through `delete_unused`,
//! which looks at each session once more under its claim: a session that is open, or that was used, parked, protected or forked
//! since the plan, stays.

use std::{sync::Arc, time::Duration};

use crate::{
    actor::{shared::Shared, tape_store::Chore},
    lock::Lock,
    ops::sweep::{Sweep, SweepPolicy, sweep_plan, sweep_through},
    supervisor::backoff::Chance,
    tape::{TapeError, TapeStoreExt as _},
    words::ids::{Millis, new_uuid},
};

/// The shortest interval; a shorter one that a host sets counts as this. A wait is up to a quarter shorter or longer.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// The most sessions that a report names of those that a limit selects and that stay.
const KEPT_NAMED_MAX: usize = 100;

/// The result of a sweep that the runtime made by itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Its number, from 1, since the runtime was started.
    pub number: u64,
    /// When it began.
    pub at: Millis,
    /// The removed sessions, and the first 100 of the sessions that a limit selects and that stay.
    pub sweep: Sweep,
    /// How many sessions a limit selects and that stay, in all.
    pub kept: usize,
    /// Why the sweep was given up: the store could not be read. `None` if it was not given up.
    pub error: Option<String>,
}

/// When a runtime sweeps by itself and by which policy, if its host asked for that, and the report of the newest sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    pub(crate) own: Option<(Duration, SweepPolicy)>,
    pub(crate) newest: Lock<Option<Arc<SweepReport>>>,
}

impl Sweeper {
    /// The wait before the next sweep; `None` if the host asked for no sweeps.
    pub(super) fn wait(&self) -> Option<Duration> {
        let mut chance = Chance::new(new_uuid().as_u128() as u64);
        self.own.map(|(every, _)| wait(every, chance.next()))
    }

    /// Sweeps once, and keeps the report. Blocks on the disk.
    pub(super) fn sweep(&self, shared: &Shared, stop: &dyn Fn() -> bool) {
        let Some((_, policy)) = self.own else { return };
        let at = shared.clock.now();
        let swept = sweep(shared, policy, stop);
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
        *newest = Some(Arc::new(SweepReport { number, at, sweep: swept, kept, error }));
    }
}

/// Removes the sessions that a policy does not keep, until the runtime ends or `stop` returns `true`; then asks for the chore that
/// takes them out of the index. Blocks on the disk.
pub(crate) fn sweep(shared: &Shared, policy: SweepPolicy, stop: &dyn Fn() -> bool) -> Result<Sweep, TapeError> {
    let stop = || stop() || shared.orders.is_closed();
    let planned = sweep_plan(&*shared.store, policy, shared.clock.now(), stop)?;
    let done = sweep_through(
        planned,
        stop,
        |session| shared.store.exists(session),
        |session, seq| shared.store.delete_unused(session, seq),
    );
    shared.orders.chore(Chore::Scrub);
    done
}

/// The next wait. `drawn` is a random number from 0 up to 1.
fn wait(every: Duration, drawn: f64) -> Duration {
    // A wait too long for a `Duration` becomes the longest one: it never ends.
    Duration::try_from_secs_f64(every.max(EVERY_MIN).as_secs_f64() * (0.75 + drawn / 2.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_lie_around_what_was_asked_for() {
        let minute = Duration::from_secs(60);
        assert_eq!([0.0, 0.5, 1.0].map(|drawn| wait(minute, drawn).as_secs()), [45, 60, 75]);
        assert_eq!(wait(Duration::ZERO, 0.0), Duration::from_millis(750));
        assert!(wait(Duration::MAX, 0.0) > Duration::from_secs(1 << 62));
        assert_eq!([0.5, 1.0].map(|drawn| wait(Duration::MAX, drawn)), [Duration::MAX; 2]);
    }
}
