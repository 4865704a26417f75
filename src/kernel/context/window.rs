//! How full a model's context window is, and when a conversation must be compacted. Arithmetic on numbers of tokens.
//!
//! The figures are estimates, so a provider may still refuse a request as too large. [`learned`] then returns a smaller size for the
//! window: less than the refused request took by our count (0 if that was 0), so that the next request is smaller.
//!
//! A change must not touch a constant or the arithmetic: existing tapes would no longer replay, because decisions depend on them.
//! [`Window`] and [`Fullness`] are stored formats.

use serde::{Deserialize, Serialize};

/// The fewest tokens that are kept free for the answer, except in a small window.
pub(crate) const RESERVE_MIN: u64 = 16_384;

/// The most tokens at the end of a conversation that a compaction leaves as they are, unless the settings say otherwise.
pub(crate) const KEEP_RECENT: u64 = 20_000;

/// The most tokens of a summary.
pub(crate) const SUMMARY_MAX: u64 = 4_000;

/// The most tokens of the host's own words that are carried on beside a summary (`carried.rs`). The summaries of branches have
/// the same bound; the list of touched files and the list of calls have half of it each.
pub(crate) const CARRY_MAX: u64 = 2_000;

/// The fewest tokens that an answer may have, however full the window is; fewer in a tiny window.
const ANSWER_MIN: u64 = 1_024;

/// The smallest window, in tokens: a smaller number in a refusal does not count as one.
const WINDOW_MIN: u64 = 256;

/// The window of a model, as compaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// Tokens of a request and its answer together.
    pub(crate) context: u64,
    /// Tokens that are kept free.
    pub(crate) reserve: u64,
    /// The most tokens of an answer; 0 where that is not known.
    pub(crate) output: u64,
}

/// How full the context was at a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fullness {
    /// Tokens that the request takes: the provider's last figure and an estimate of what came since.
    pub used: u64,
    /// Tokens that the request may take.
    pub usable: u64,
}

impl Fullness {
    /// Whether more than 80 % of the usable tokens are used.
    #[must_use]
    pub fn warns(&self) -> bool {
        self.used.saturating_mul(10) > self.usable.saturating_mul(8)
    }

    /// The used tokens in percent of the usable ones.
    #[must_use]
    pub fn percent(&self) -> u64 {
        self.used.saturating_mul(100) / self.usable.max(1)
    }
}

/// The most tokens of a summary, if a request may take `usable` tokens.
#[must_use]
pub(crate) fn summary_max(usable: u64) -> u64 {
    SUMMARY_MAX.min(usable / 4).max(64)
}

/// The most tokens of the host's words that are carried on, if a request may take `usable` tokens.
#[must_use]
pub(crate) fn carry_max(usable: u64) -> u64 {
    CARRY_MAX.min(usable / 8)
}

/// How full a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// There is room.
    Fine,
    /// More than 80 % of the usable tokens are used.
    Warn,
    /// All usable tokens are used: it is time to compact.
    Compact,
    /// Half of the reserve is used too: no request is made before there is room.
    Full,
}

impl Window {
    /// The window of a model that takes `context` tokens in all and answers with up to `output`.
    ///
    /// The reserve is the larger of 16,384 and `output`, but never more than half of a small window.
    #[must_use]
    pub(crate) fn new(context: u64, output: u64) -> Window {
        Window { context, reserve: RESERVE_MIN.max(output).min(context / 2), output }
    }

    /// The same window with another reserve.
    #[must_use]
    pub(crate) fn with_reserve(self, reserve: u64) -> Window {
        Window { reserve: reserve.min(self.context), ..self }
    }

    /// Tokens that a request may take.
    #[must_use]
    pub(crate) fn usable(&self) -> u64 {
        self.context.saturating_sub(self.reserve)
    }

    /// How full the window is with `used` tokens.
    #[must_use]
    pub(crate) fn level(&self, used: u64) -> Level {
        if used >= self.usable().saturating_add(self.reserve / 2) {
            Level::Full
        } else if used >= self.usable() {
            Level::Compact
        } else if (Fullness { used, usable: self.usable() }).warns() {
            Level::Warn
        } else {
            Level::Fine
        }
    }

    /// How many tokens the answer to a request of `used` tokens may have. `None` if `wanted` fits. Otherwise what still fits, but
    /// at least `ANSWER_MIN` (less in a tiny window) and at most `wanted`. Strict providers refuse a request whose prompt and
    /// largest answer do not fit the window together. A fiftieth is left for errors of the estimate.
    #[must_use]
    pub(crate) fn answer_max(&self, used: u64, wanted: u64) -> Option<u64> {
        let room = self.context.saturating_sub(used).saturating_sub(used / 50);
        (room < wanted).then(|| room.max(ANSWER_MIN.min(self.context / 16)).min(wanted))
    }

    /// Tokens at the end of the conversation that a compaction keeps: 20,000, or half of a small window's room.
    #[must_use]
    pub(crate) fn keep(&self) -> u64 {
        KEEP_RECENT.min(self.usable() / 2)
    }
}

/// The size that a window counts as after a request of `used` tokens, by our count, was refused as too large. It is less than the
/// request, so that the next one is smaller, unless `used` is 0. The numbers come from the text of the refusal, which often names
/// the limit and the size of the request. With two numbers, the result is `used * limit / asked`. With one number below `used`,
/// it is that number. Otherwise it is half of `used`. The result is at least `used / 64` and at most nine tenths of `used`.
#[must_use]
pub(crate) fn learned(used: u64, refusal: &str) -> u64 {
    let numbers = numbers(refusal);
    let asked = numbers.iter().copied().max();
    let limit = numbers.iter().copied().filter(|number| Some(*number) != asked).max();
    let window = match (limit, asked) {
        (Some(limit), Some(asked)) => u128::from(used) * u128::from(limit) / u128::from(asked.max(1)),
        (None, Some(limit)) if limit < used => u128::from(limit),
        _ => u128::from(used / 2),
    };
    u64::try_from(window).unwrap_or(u64::MAX).clamp(used / 64, used.saturating_mul(9) / 10)
}

/// The numbers in a text that can be windows: words of their own, with commas or without.
fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| c.is_whitespace() || "()[]:;=<>".contains(c));
    let plain = words.map(|word| word.trim_end_matches(['.', ',']).replace([',', '_'], ""));
    plain.filter_map(|word| word.parse().ok()).filter(|number| *number >= WINDOW_MIN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-11, J-01, J-02, J-03: warn above 80 %, compact at window − reserve; the reserve is max(16,384, output).
    #[test]
    fn a_window_is_too_full_at_its_reserve_and_warned_of_at_four_fifths() {
        let window = Window::new(200_000, 8_192);
        assert_eq!((window.reserve, window.usable()), (16_384, 183_616));
        for (used, level) in [
            (0, Level::Fine),
            (146_892, Level::Fine),
            (146_893, Level::Warn),
            (183_615, Level::Warn),
            (183_616, Level::Compact),
            (191_807, Level::Compact),
            (191_808, Level::Full),
            (u64::MAX, Level::Full),
        ] {
            assert_eq!(window.level(used), level, "{used}");
        }
        assert_eq!(Window::new(400_000, 128_000).usable(), 272_000);
    }

    /// In the space between full enough to compact and full, the largest answer is what still fits.
    #[test]
    fn an_answer_is_kept_as_small_as_the_window_demands() {
        let window = Window::new(200_000, 64_000);
        assert_eq!((window.usable(), window.answer_max(100_000, 64_000)), (136_000, None));
        assert_eq!(window.answer_max(150_000, 64_000), Some(47_000));
        assert_eq!(window.answer_max(199_000, 64_000), Some(ANSWER_MIN));
        assert_eq!(window.answer_max(199_000, 500), Some(500));
        assert_eq!(Window::new(160, 0).answer_max(500, 0), None);
        assert_eq!(Window::new(160, 80).answer_max(500, 80), Some(10));
    }

    /// What providers say, and what is made of it for a request that we took for 9,000 tokens.
    #[test]
    fn a_window_is_learned_from_what_a_refusal_says() {
        let openai =
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 10,240 tokens.";
        for (refusal, window) in [
            (openai, 7_200),
            ("prompt is too long: 210000 tokens > 200000 maximum", 8_100),
            ("prompt is too long: 20000 tokens > 2000 maximum", 900),
            ("the request exceeds the available context size (4096 tokens)", 4_096),
            ("the request exceeds the available context size (32768 tokens)", 4_500),
            ("too many tokens for claude-3-20240229", 4_500),
            ("", 4_500),
            ("99999999999999999999 tokens > 5000", 5_000),
            ("4000000000 tokens > 300 maximum", 140),
        ] {
            assert_eq!(learned(9_000, refusal), window, "{refusal}");
        }
        assert_eq!((learned(0, openai), learned(1, "")), (0, 0));
        assert!(learned(u64::MAX, openai) < u64::MAX);
    }

    #[test]
    fn a_small_window_keeps_at_least_half_of_itself_usable() {
        let window = Window::new(8_192, 4_096);
        assert_eq!((window.usable(), window.keep()), (4_096, 2_048));
        assert_eq!(Window::new(32_768, 4_096).keep(), 8_192);
        assert_eq!(Window::new(200_000, 8_192).keep(), KEEP_RECENT);
        assert_eq!(Window::new(0, 0).level(0), Level::Full);
        assert_eq!(Window::new(200, 0).with_reserve(50).usable(), 150);
    }
}
