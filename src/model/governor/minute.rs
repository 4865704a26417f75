//! What left within the last minute, by the second, for the limits that the host set.
//!
//! A second counts until 61 s behind its start, so that no 60 s have more than the limit, whatever clock the provider counts by.
//! Memory is that of 61 seconds, whatever the limits are.

use std::{collections::VecDeque, time::Duration};

use super::RateLimits;

/// For how many seconds a second counts, itself included.
const SECONDS: u64 = 61;

/// One second in which something left.
#[derive(Debug)]
struct Second {
    number: u64,
    requests: u64,
    tokens: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Minute(VecDeque<Second>);

impl Minute {
    /// When a request of so many tokens may leave; a moment that has passed for at once.
    pub(super) fn free_at(&self, now: Duration, limits: &RateLimits, tokens: u64) -> Duration {
        let at_start = |number: u64| Duration::from_secs(number);
        let counts = |second: &&Second| second.number + SECONDS > now.as_secs();
        let mut free_at = Duration::ZERO;
        if let Some(max) = limits.requests_per_minute {
            let max = u64::from(max.max(1));
            let within_second = max.div_ceil(20);
            let newest = self.0.back().filter(|second| second.number == now.as_secs());
            if newest.is_some_and(|second| second.requests >= within_second) {
                free_at = at_start(now.as_secs() + 1);
            }
            free_at = free_at.max(freed(self.0.iter().filter(counts), |second| second.requests, max - 1));
        }
        if let Some(max) = limits.tokens_per_minute {
            let room = max.saturating_sub(tokens);
            free_at = free_at.max(freed(self.0.iter().filter(counts), |second| second.tokens, room));
        }
        free_at
    }

    pub(super) fn take(&mut self, now: Duration, tokens: u64) {
        let now = now.as_secs();
        while self.0.front().is_some_and(|second| second.number + SECONDS <= now) {
            self.0.pop_front();
        }
        match self.0.back_mut().filter(|second| second.number == now) {
            Some(second) => (second.requests, second.tokens) = (second.requests + 1, second.tokens + tokens),
            None => self.0.push_back(Second { number: now, requests: 1, tokens }),
        }
    }

    /// Puts what a request used in place of its estimate, in the second in which it left. What is older counts no more.
    pub(super) fn correct(&mut self, left_at: Duration, estimated: u64, used: u64) {
        if let Some(second) = self.0.iter_mut().find(|second| second.number == left_at.as_secs()) {
            second.tokens = second.tokens.saturating_sub(estimated).saturating_add(used);
        }
    }
}

/// When the oldest seconds have gone, so that what is left is at most `room`.
fn freed<'a>(seconds: impl Iterator<Item = &'a Second> + Clone, of: fn(&Second) -> u64, room: u64) -> Duration {
    let mut sum: u64 = seconds.clone().map(of).fold(0, u64::saturating_add);
    let mut free_at = Duration::ZERO;
    for second in seconds {
        if sum <= room {
            break;
        }
        sum = sum.saturating_sub(of(second));
        free_at = Duration::from_secs(second.number + SECONDS);
    }
    free_at
}
