//! How long to wait before a restart: an exponential backoff with jitter.
//!
//! Nothing here reads a clock: [`Backoff::delay`] is a function of its arguments, and the jitter (the part of a wait that is left
//! to chance) comes from a seeded stream ([`Chance`]). So the planner, which calls both, makes the same plan for the same seed.
//!
//! A change must keep that any setting, also `NaN` or a maximum below the minimum, leads to a wait and never a panic: hosts set
//! these numbers freely.

use std::time::Duration;

/// How long to wait before a restart: `factor` times as long each time, up to `max`, less a jitter. After a run of at least
/// `reset_after` the waits start over.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Backoff {
    /// The first wait.
    pub min: Duration,
    /// The longest wait; below `min` it counts as `min`.
    pub max: Duration,
    /// Each wait, before its jitter, is this many times the one before; below 1, or if not finite, it counts as 1.
    pub factor: f64,
    /// How much of a wait is left to chance, from 0 to 1 (`NaN` counts as 0): a wait lies between `(1 - jitter) * wait` and `wait`.
    pub jitter: f64,
    /// A child that ran at least this long starts again from `min`.
    pub reset_after: Duration,
}

impl Default for Backoff {
    /// 200 ms, doubling up to 30 s; up to a fifth of each wait is left to chance; reset after a minute.
    fn default() -> Backoff {
        Backoff {
            min: Duration::from_millis(200),
            max: Duration::from_secs(30),
            factor: 2.0,
            jitter: 0.2,
            reset_after: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    /// The wait before try number `attempt` (0 for the first), where `chance` is from 0 to 1.
    pub(crate) fn delay(&self, attempt: u32, chance: f64) -> Duration {
        let factor = if self.factor.is_finite() { self.factor.max(1.0) } else { 1.0 };
        let exponent = i32::try_from(attempt).unwrap_or(i32::MAX);
        let ceiling = self.max.max(self.min).as_secs_f64();
        // No wait stays none: many times nothing may come out as no number.
        let grown = if self.min.is_zero() { 0.0 } else { self.min.as_secs_f64() * factor.powi(exponent) };
        let jitter = if self.jitter.is_nan() { 0.0 } else { self.jitter.clamp(0.0, 1.0) };
        let wait = grown.min(ceiling) * (1.0 - jitter * chance.clamp(0.0, 1.0));
        Duration::try_from_secs_f64(wait).unwrap_or(self.max.max(self.min))
    }

    crate::words::setters::setters! {
        /// Sets the [first wait](#structfield.min).
        min: Duration;
        /// Sets the [longest wait](#structfield.max).
        max: Duration;
        /// Sets the [growth](#structfield.factor) of the waits.
        factor: f64;
        /// Sets how much of a wait is [left to chance](#structfield.jitter).
        jitter: f64;
        /// Sets after which time the waits [start again](#structfield.reset_after).
        reset_after: Duration;
    }
}

/// A stream of numbers from 0 to 1; the same seed produces the same stream (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        // 53 bits fit a double exactly.
        (z >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_grows_to_the_maximum_and_stays_within_its_jitter() {
        let backoff = Backoff { jitter: 0.5, ..Backoff::default() };
        let mut chance = Chance::new(7);
        let mut expected = 0.2;
        for attempt in 0..40 {
            let wait = backoff.delay(attempt, chance.next()).as_secs_f64();
            assert!(wait <= expected + 1e-9, "attempt {attempt}: {wait} is over {expected}");
            assert!(wait >= expected * 0.5 - 1e-9, "attempt {attempt}: {wait} is under half of {expected}");
            expected = (expected * 2.0_f64).min(30.0);
        }
    }

    #[test]
    fn odd_numbers_give_a_wait_all_the_same() {
        let odd = Backoff { factor: f64::NAN, jitter: 9.0, max: Duration::ZERO, ..Backoff::default() };
        assert_eq!(odd.delay(u32::MAX, 0.0), odd.min);
        assert_eq!(odd.delay(3, 1.0), Duration::ZERO);
        let unsure = Backoff { jitter: f64::NAN, max: Duration::ZERO, ..Backoff::default() };
        assert_eq!(unsure.delay(0, 1.0), unsure.min);
        let longest = Backoff { min: Duration::MAX, ..Backoff::default() };
        assert_eq!(longest.delay(9, 0.0), Duration::MAX);
        let none = Backoff { min: Duration::ZERO, ..Backoff::default() };
        assert_eq!([0, 1, 1_024, u32::MAX].map(|attempt| none.delay(attempt, 0.0)), [Duration::ZERO; 4]);
    }
}
