//! Sweeping by itself: a runtime removes now and then what a policy does not keep.
//!
//! It is off unless the host asks for it. One sweep runs at a time, on a thread of its own: no actor waits for it, and it stops
//! between two removals when the runtime ends. What came of the newest can be looked at ([`SweepReport`]). A sweep that fails is
//! reported and made again at the next time; it ends nothing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    actors::{host::Host, slot::Door},
    ids::Millis,
    supervisor::ChildContext,
    sweep::{Sweep, SweepPolicy, plan_some, sweep_through},
};

/// The least time between two sweeps.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// How many sessions a report names that a limit takes and that stay.
const KEPT_NAMED_MAX: usize = 100;

/// How often a runtime sweeps by itself, and what it does not keep.
///
/// ```
/// use std::time::Duration;
/// use tamtam::{Runtime, SweepPolicy, runtime::Sweeps};
///
/// let mut policy = SweepPolicy::default();
/// policy.older_than = Some(Duration::from_secs(30 * 24 * 60 * 60));
/// let builder = Runtime::builder().sweeps(Sweeps::new(Duration::from_secs(60 * 60), policy));
/// # drop(builder);
/// ```
#[derive(Clone)]
pub struct Sweeps {
    policy: SweepPolicy,
    every: Duration,
    removed_max: usize,
    draw: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl std::fmt::Debug for Sweeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sweeps { policy, every, removed_max, .. } = self;
        let mut shown = f.debug_struct("Sweeps");
        shown.field("policy", policy).field("every", every).field("removed_max", removed_max).finish_non_exhaustive()
    }
}

impl Sweeps {
    /// Sweeps by that policy about that often, a second at least. Each wait, also the one before the first sweep, is drawn anew
    /// from three to five quarters of it, so that many runtimes that were started together do not sweep together.
    #[must_use]
    pub fn new(every: Duration, policy: SweepPolicy) -> Sweeps {
        Sweeps { policy, every: every.max(EVERY_MIN), removed_max: 1_000, draw: Arc::new(random) }
    }

    /// Removes so many sessions in one sweep, 1,000 by default; what is left goes with the next ones.
    #[must_use]
    pub fn removing_at_most(mut self, sessions: usize) -> Sweeps {
        self.removed_max = sessions;
        self
    }

    /// What the waits are drawn with: a number from 0 up to 1, anew each time. Chance by default. It must be quick; a panic in it
    /// counts as a half.
    #[must_use]
    pub fn drawn_by(mut self, draw: impl Fn() -> f64 + Send + Sync + 'static) -> Sweeps {
        self.draw = Arc::new(draw);
        self
    }

    fn wait(&self) -> Duration {
        let drawn = catch_unwind(AssertUnwindSafe(|| (self.draw)())).unwrap_or(0.5);
        let drawn = if drawn.is_finite() { drawn.clamp(0.0, 1.0) } else { 0.5 };
        // One that is longer than can be said never comes.
        Duration::try_from_secs_f64(self.every.as_secs_f64() * (0.75 + drawn / 2.0)).unwrap_or(Duration::MAX)
    }
}

/// A number from 0 up to 1.
fn random() -> f64 {
    // The lower half of such an id is random, but for its two highest bits.
    let bits = uuid::Uuid::now_v7().as_u64_pair().1 & ((1 << 53) - 1);
    bits as f64 / (1_u64 << 53) as f64
}

/// What came of a sweep that the runtime made by itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Its number, from 1, since the runtime was started.
    pub number: u64,
    /// When it began.
    pub at: Millis,
    /// How long it took.
    pub took: Duration,
    /// What was removed; and of those that stay though a limit takes them the first 100.
    pub sweep: Sweep,
    /// How many those are altogether.
    pub kept: usize,
    /// Why it was given up, where it was: the store could not be read.
    pub error: Option<String>,
}

/// What a runtime's own sweeps are made by, and what came of the newest.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    sweeps: Option<Sweeps>,
    newest: Mutex<Option<Arc<SweepReport>>>,
}

impl Sweeper {
    pub(crate) fn new(sweeps: Option<Sweeps>) -> Sweeper {
        Sweeper { sweeps, newest: Mutex::default() }
    }

    /// What came of the newest sweep.
    pub(crate) fn newest(&self) -> Option<Arc<SweepReport>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn report(&self, report: SweepReport) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(report));
    }
}

/// Sweeps now and then until it is told to stop; nothing at all where nobody asked for it.
pub(crate) async fn sweep_now_and_then(host: Arc<Host>, cx: ChildContext) {
    let Some(sweeps) = host.sweeper.sweeps.clone() else { return cx.stopping().await };
    loop {
        tokio::select! {
            () = cx.stopping() => return,
            () = tokio::time::sleep(sweeps.wait()) => {}
        }
        cx.card().doing("sweeps");
        let (began, at) = (Instant::now(), host.clock.now());
        let (beside, stop, policy, max) = (host.clone(), cx.clone(), sweeps.policy, sweeps.removed_max);
        let swept = host.tokio.spawn_blocking(move || {
            let stop = || stop.is_stopping() || beside.slots.door() == Door::Closed;
            let store = &beside.store;
            let planned = plan_some(&**store, policy, at, max, &stop)?;
            let done = sweep_through(planned, stop, |session, seq| store.delete_unused(session, seq));
            store.forget_swept(&stop);
            done
        });
        // It looks whether it must stop at each session, and behind them at each piece of the index, so this is never waited for long.
        let (mut sweep, error) = match swept.await {
            Ok(Ok(sweep)) => (sweep, None),
            Ok(Err(error)) => (Sweep::default(), Some(error.to_string())),
            Err(lost) => (Sweep::default(), Some(lost.to_string())),
        };
        cx.card().idle();
        let kept = sweep.kept.len();
        sweep.kept.truncate(KEPT_NAMED_MAX);
        let number = host.sweeper.newest().map_or(1, |newest| newest.number + 1);
        match &error {
            Some(error) => tracing::warn!(error, "a sweep was given up"),
            None if sweep.gone.is_empty() => {}
            None => tracing::info!(removed = sweep.gone.len(), bytes = sweep.bytes(), "old sessions were removed"),
        }
        host.sweeper.report(SweepReport { number, at, took: began.elapsed(), sweep, kept, error });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn waits_lie_around_what_was_asked_for_whatever_is_drawn() {
        let sweeps = |draw: fn() -> f64| Sweeps::new(Duration::from_secs(60), SweepPolicy::default()).drawn_by(draw);
        let seconds = |draw| sweeps(draw).wait().as_secs();
        assert_eq!([seconds(|| 0.0), seconds(|| 0.5), seconds(|| 1.0)], [45, 60, 75]);
        assert_eq!([seconds(|| -7.0), seconds(|| 9.0), seconds(|| f64::NAN)], [45, 75, 60]);
        assert_eq!(seconds(|| std::panic::panic_any("the host's")), 60);
        for _ in 0..1_000 {
            assert!((0.0..1.0).contains(&random()));
        }
        let hasty = Sweeps::new(Duration::ZERO, SweepPolicy::default()).drawn_by(|| 0.0);
        assert_eq!(hasty.wait(), Duration::from_millis(750));
        let never = |draw: fn() -> f64| Sweeps::new(Duration::MAX, SweepPolicy::default()).drawn_by(draw).wait();
        assert!(never(|| 0.0) > Duration::from_secs(1 << 62));
        assert_eq!([never(|| 0.5), never(|| 1.0)], [Duration::MAX; 2]);
    }
}
