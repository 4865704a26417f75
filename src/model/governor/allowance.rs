//! What a provider says is left, by the headers of its answers: OpenAI's `x-ratelimit-*` and Anthropic's `anthropic-ratelimit-*`.
//!
//! Only what is left and the moment of the reset are relied on. The limit itself is a number without its period: with one provider
//! it is for a minute, with another one for a day. It is only used at the reset, when that much is there again.

use std::time::{Duration, SystemTime};

use super::{Held, SAT_OUT_MAX};

/// What is left of one kind, as far as the provider has told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    left: Option<u64>,
    limit: Option<u64>,
    /// When the limit is whole again, or, where that is far, when one request asks.
    until: Option<Duration>,
    /// Whether the limit is not whole by then.
    is_far: bool,
    /// The place in the order of leaving of the request whose answer told so.
    of: u64,
}

/// What one answer says of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) left: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) reset: Option<Duration>,
}

impl Allowance {
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    /// Takes over what an answer says. `later` is what left after its request, and may not be counted in it.
    pub(super) fn learn(&mut self, now: Duration, of: u64, said: Said, later: u64) {
        let Some(left) = said.left.filter(|_| of >= self.of) else { return };
        // A limit of a day refills all the while, and some servers name another moment than that of the reset.
        let is_far = said.reset.is_some_and(|reset| reset > SAT_OUT_MAX);
        let until = said.reset.map(|reset| now.saturating_add(reset.min(SAT_OUT_MAX)));
        *self = Allowance { left: Some(left.saturating_sub(later)), limit: said.limit, until, is_far, of };
    }

    /// The provider named a moment to ask again. Where that is before the reset, one request asks then: most limits refill all the while.
    pub(super) fn ask_at(&mut self, at: Duration) {
        if let Some(until) = self.until.as_mut().filter(|until| **until > at) {
            (*until, self.is_far) = (at, true);
        }
    }

    /// Notes that the moment of the reset has come.
    pub(super) fn refresh(&mut self, now: Duration) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            if !self.is_far {
                self.left = self.limit;
            }
        }
    }

    /// Whether there is room for so much. `alone`: nothing is under way whose answer could tell more, so one request must go and ask.
    pub(super) fn free(&self, need: u64, alone: bool) -> Held {
        let need = self.limit.map_or(need, |limit| need.min(limit));
        match (self.left, self.until) {
            (Some(left), until) if left < need => match until {
                Some(until) => Held::Until(until),
                None if alone => Held::No,
                None => Held::ByOthers,
            },
            _ => Held::No,
        }
    }

    pub(super) fn take(&mut self, need: u64) {
        self.left = self.left.map(|left| left.saturating_sub(need));
    }
}

/// What the headers say of requests and of tokens at the wall time `now`.
pub(crate) fn read_headers(header: &dyn Fn(&str) -> Option<String>, now: SystemTime) -> [Said; 2] {
    ["requests", "tokens"].map(|kind| {
        let said = |what: &str| {
            let openai = header(&format!("x-ratelimit-{what}-{kind}"));
            openai.or_else(|| header(&format!("anthropic-ratelimit-{kind}-{what}")))
        };
        let number = |what: &str| said(what)?.trim().parse().ok();
        let reset = || time_until(said("reset")?.trim(), now);
        let left = number("remaining");
        // Most servers say nothing, and then nothing more is looked up.
        left.map_or_else(Said::default, |_| Said { left, limit: number("limit"), reset: reset() })
    })
}

/// A time to come: in seconds, as `6m0s`, or as a date. A date that has passed is no time.
fn time_until(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    // Whoever speaks of HTTP has a wire in the build, and with it the reader of dates.
    #[cfg(feature = "_wire")]
    {
        if let Ok(length) = text.parse::<jiff::SignedDuration>() {
            return length.try_into().ok();
        }
        let at = SystemTime::from(text.parse::<jiff::Timestamp>().ok()?);
        Some(at.duration_since(now).unwrap_or_default())
    }
    #[cfg(not(feature = "_wire"))]
    {
        let _ = now;
        None
    }
}
