//! The [`Keeper`]: when idle sessions are to be put to sleep, and the alarm through which sessions tell the timekeeper when to look.
//! A plain value of the runtime; `timekeeper.rs` does the work.
//!
//! A change must keep that no method of [`Keeper`] waits: sessions call it from their actors.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::lock::Lock;

/// The two times that decide when an idle session may be put to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Uses {
    /// The moment of its last use.
    pub(crate) last: Instant,
    /// The moment when it woke up.
    pub(crate) born: Option<Instant>,
}

/// When sessions are put to sleep. The next message wakes a session that is asleep; that takes as long as its tape takes to be
/// read.
///
/// A busy session is never put to sleep: one with an open turn, messages that wait, or other open work, such as a child.
/// An event stream does not keep a session awake; it goes on when the session wakes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Passivation {
    /// How long a session may be idle before it is put to sleep; 15 minutes by default, `None` for ever.
    pub idle_after: Option<Duration>,
    /// How many sessions may be awake before the least recently used ones are put to sleep, down to nine tenths of this number;
    /// 5,000 by default. Busy sessions may exceed it.
    pub awake_max: usize,
    /// How many sessions may be awake at all, busy or not. Beyond that, waking another is refused. 50,000 by default.
    pub awake_limit: usize,
    /// How long a session may be awake before it is put to sleep at the first moment when it is not busy; off by default.
    pub age_max: Option<Duration>,
    /// The host's function that says whether memory is short; none by default.
    pub pressure: Option<Pressure>,
}

impl Default for Passivation {
    fn default() -> Passivation {
        Passivation {
            idle_after: Some(Duration::from_secs(15 * 60)),
            awake_max: 5_000,
            awake_limit: 50_000,
            age_max: None,
            pressure: None,
        }
    }
}

/// A function of the host that is asked at intervals what share of the idle sessions should go to sleep because memory is short.
///
/// It answers from 0.0 (none) to 1.0 (all), must be quick and must not block. A panic in it counts as 0.0.
#[derive(Clone)]
pub struct Pressure {
    every: Duration,
    ask: Arc<dyn Fn() -> f64 + Send + Sync>,
}

impl std::fmt::Debug for Pressure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pressure").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Pressure {
    /// A function that is asked at this interval, at most ten times a second.
    pub fn new(every: Duration, ask: impl Fn() -> f64 + Send + Sync + 'static) -> Pressure {
        Pressure { every: every.max(Duration::from_millis(100)), ask: Arc::new(ask) }
    }

    /// The moment of the next question; `None` if the interval is longer than the clock can count.
    pub(super) fn next(&self) -> Option<Instant> {
        Instant::now().checked_add(self.every)
    }

    pub(super) fn share(&self) -> f64 {
        catch_unwind(AssertUnwindSafe(|| (self.ask)())).unwrap_or_else(|_| {
            tracing::warn!("the host's function for memory pressure panicked");
            0.0
        })
    }
}

/// The alarm through which sessions tell the timekeeper when to look. No call waits.
pub(crate) struct Keeper {
    pub(super) passivation: Passivation,
    pub(super) alarm: Lock<Alarm>,
    /// The alarm was set to an earlier moment.
    pub(super) news: Notify,
}

#[derive(Default)]
pub(super) struct Alarm {
    /// When the timekeeper looks next.
    pub(super) next: Option<Instant>,
    /// A session that wakes sets the alarm for an eviction no earlier than this.
    pub(super) no_eviction_before: Option<Instant>,
}

impl Keeper {
    pub(crate) fn new(passivation: Passivation) -> Keeper {
        Keeper { passivation, alarm: Lock::default(), news: Notify::new() }
    }

    /// How many sessions may be awake at all, busy or not.
    pub(crate) fn awake_limit(&self) -> usize {
        self.passivation.awake_limit
    }

    /// Notes that a session became idle.
    pub(crate) fn rests(&self, resting: Uses) {
        if let Some(at) = self.due(resting) {
            self.look_at(at);
        }
    }

    /// Notes that one more session wakes up; `awake` are awake by now.
    pub(crate) fn one_more(&self, awake: usize) {
        if awake > self.passivation.awake_max {
            let before = self.alarm.lock().no_eviction_before;
            let now = Instant::now();
            self.look_at(before.map_or(now, |before| before.max(now)));
        }
    }

    /// When an idle session should go to sleep; `None` if no limit applies.
    pub(super) fn due(&self, resting: Uses) -> Option<Instant> {
        // A limit that the clock cannot reach counts as none.
        let idle = self.passivation.idle_after.and_then(|limit| resting.last.checked_add(limit));
        let old = self.passivation.age_max.and_then(|limit| resting.born?.checked_add(limit));
        idle.into_iter().chain(old).min()
    }

    pub(super) fn look_at(&self, at: Instant) {
        let mut alarm = self.alarm.lock();
        if alarm.next.is_none_or(|next| at < next) {
            alarm.next = Some(at);
            drop(alarm);
            self.news.notify_one();
        }
    }
}
