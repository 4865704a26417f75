//! How many restarts are too many: a sliding window over the times of restarts.
//!
//! A plain value without a clock: the caller passes times, which must never go back. The caller adds a restart and gets how many
//! are in the window now; more than `max` are too many, and the caller decides what follows. A change must keep a window small:
//! it holds at most `max + 1` restarts, or one for each child where different children are counted.

use std::{collections::VecDeque, time::Duration};

/// At most `max` restarts within any `period`; one more is exhaustion.
///
/// A restart that happened exactly `period` ago still counts, as in OTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intensity {
    /// How many restarts are allowed. 0 means that the first crash is too many.
    pub max: u32,
    /// The length of the window.
    pub period: Duration,
}

impl Intensity {
    /// At most `max` restarts within any `period`.
    #[must_use]
    pub const fn new(max: u32, period: Duration) -> Intensity {
        Intensity { max, period }
    }
}

impl Default for Intensity {
    /// 3 in 5 s, as in Elixir.
    fn default() -> Intensity {
        Intensity::new(3, Duration::from_secs(5))
    }
}

/// The restarts that still count. Their times are measured from one common beginning and never go back.
///
/// Each restart carries the key of its child, so that a window can also count different children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    restarts: VecDeque<(Duration, u64)>,
}

impl Window {
    /// Forgets the restarts that are older than the period.
    pub(crate) fn slide(&mut self, intensity: Intensity, now: Duration) {
        let since = now.saturating_sub(intensity.period);
        while self.restarts.front().is_some_and(|(at, _)| *at < since) {
            self.restarts.pop_front();
        }
    }

    /// Adds one restart, and returns how many are in the window now.
    pub(crate) fn add(&mut self, intensity: Intensity, now: Duration) -> u32 {
        self.slide(intensity, now);
        // More than `max + 1` never changes the answer, so the window does not grow if the caller continues after exhaustion.
        if self.restarts.len() > intensity.max as usize {
            self.restarts.pop_front();
        }
        self.restarts.push_back((now, 0));
        self.len()
    }

    /// Adds one restart of child `who`, and returns how many different children are in the window now.
    pub(crate) fn add_distinct(&mut self, intensity: Intensity, now: Duration, who: u64) -> u32 {
        self.slide(intensity, now);
        self.restarts.retain(|(_, other)| *other != who);
        self.restarts.push_back((now, who));
        self.len()
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.restarts.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn clear(&mut self) {
        self.restarts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_IN_TEN: Intensity = Intensity::new(2, Duration::from_secs(10));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_restart_exactly_one_period_old_still_counts_and_an_older_one_does_not() {
        let mut window = Window::default();
        assert_eq!(window.add(TWO_IN_TEN, at(0)), 1);
        assert_eq!(window.add(TWO_IN_TEN, at(1)), 2);
        assert_eq!(window.add(TWO_IN_TEN, at(10)), 3);

        let mut window = Window::default();
        window.add(TWO_IN_TEN, at(0));
        window.add(TWO_IN_TEN, at(1));
        assert_eq!(window.add(TWO_IN_TEN, at(10) + Duration::from_nanos(1)), 2);
    }

    #[test]
    fn a_window_of_distinct_children_counts_each_once() {
        let mut window = Window::default();
        for _ in 0..5 {
            assert_eq!(window.add_distinct(TWO_IN_TEN, at(1), 7), 1);
        }
        assert_eq!(window.add_distinct(TWO_IN_TEN, at(2), 8), 2);
    }
}
