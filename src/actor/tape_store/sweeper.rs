//! When a runtime sweeps at intervals, by which policy, and how its newest sweep went. A plain value of the runtime; `sweeps.rs`
//! does the work.
//!
//! A runtime sweeps at intervals only if its host asked for that. The next interval begins when a sweep is over.

use std::{sync::Arc, time::Duration};

use crate::{
    lock::Lock,
    ops::sweep::{Sweep, SweepPolicy},
    supervisor::backoff::Chance,
    words::ids::{Millis, new_uuid},
};

/// The shortest interval; a shorter one that a host sets counts as this. A wait is up to a quarter shorter or longer.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// The result of a sweep at an interval.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
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

/// When a runtime sweeps at intervals and by which policy, if its host asked for that, and the report of the newest sweep.
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
