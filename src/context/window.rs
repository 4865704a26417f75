//! When a context is too full (C-11): a request is made smaller before a provider refuses it, and no earlier than it must be.

/// Tokens that are kept free for the answer, at least.
pub const RESERVE_MIN: u64 = 16_384;

/// Tokens at the end of a conversation that a compaction leaves as they are, at most (C-31).
pub const KEEP_RECENT: u64 = 20_000;

/// The window of a model, as compaction sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens of a request and its answer together.
    pub context: u64,
    /// Tokens that are kept free.
    pub reserve: u64,
}

/// How full a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is room.
    Fine,
    /// 80 % of what may be used is used.
    Warn,
    /// What may be used is used: it is time to compact.
    Compact,
    /// Half of what was kept free is used too: no request is made before there is room.
    Full,
}

impl Window {
    /// The window of a model that takes `context` tokens in all and answers with up to `output`.
    ///
    /// The reserve is the larger of 16,384 and `output`, but never more than half of a small window.
    #[must_use]
    pub fn new(context: u64, output: u64) -> Window {
        Window { context, reserve: RESERVE_MIN.max(output).min(context / 2) }
    }

    /// The same window with another reserve.
    #[must_use]
    pub fn with_reserve(self, reserve: u64) -> Window {
        Window { reserve: reserve.min(self.context), ..self }
    }

    /// Tokens that a request may take.
    #[must_use]
    pub fn usable(&self) -> u64 {
        self.context - self.reserve
    }

    /// How full it is with so many tokens.
    #[must_use]
    pub fn level(&self, used: u64) -> Level {
        if used >= self.usable() + self.reserve / 2 {
            Level::Full
        } else if used >= self.usable() {
            Level::Compact
        } else if used.saturating_mul(10) > self.usable().saturating_mul(8) {
            Level::Warn
        } else {
            Level::Fine
        }
    }

    /// Tokens at the end of the conversation that a compaction keeps: 20,000, or half of a small window's room.
    #[must_use]
    pub fn keep(&self) -> u64 {
        KEEP_RECENT.min(self.usable() / 2)
    }
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
