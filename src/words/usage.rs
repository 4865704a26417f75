//! What model requests used: tokens by kind ([`Usage`]), and money where a price is known (`usage/money.rs`).
//!
//! Sums saturate and never wrap. The types are stored formats: do not rename or retype a field. A [`Usage`] does not say whether
//! its figures are the provider's or an estimate. The field that holds it must say so, and an estimate must never be shown as a
//! provider's figure.

mod money;

use std::ops::AddAssign;

pub(crate) use money::PICO_IN_MICRO;
pub use money::{BadUsd, Cost, MicroUsd, PicoUsd, ShownCost};

use serde::{Deserialize, Serialize};

/// Tokens of one request, or a sum of several. The field that holds them says whether they are the provider's own figures or an
/// estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens read that came from no cache.
    pub input: u64,
    /// Tokens written as text or tool calls.
    pub output: u64,
    /// Tokens written as reasoning, if the provider counts them apart; else they are in `output`.
    pub reasoning: u64,
    /// Tokens read from the provider's cache.
    pub cache_read: u64,
    /// Tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Usage {
    /// All kinds together: this is what counts against the context window.
    #[must_use]
    pub fn total(&self) -> u64 {
        [self.input, self.output, self.reasoning, self.cache_read, self.cache_write]
            .iter()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The same figures, or none where they cannot be figures: nothing is written by a model that has read nothing. Some servers
    /// count only what was written.
    pub(crate) fn if_read(self) -> Usage {
        let read = self.input.saturating_add(self.cache_read).saturating_add(self.cache_write);
        if read == 0 { Usage::default() } else { self }
    }

    /// Combines two values, figure by figure.
    pub(crate) fn with(&self, other: &Usage, f: fn(u64, u64) -> u64) -> Usage {
        Usage {
            input: f(self.input, other.input),
            output: f(self.output, other.output),
            reasoning: f(self.reasoning, other.reasoning),
            cache_read: f(self.cache_read, other.cache_read),
            cache_write: f(self.cache_write, other.cache_write),
        }
    }

    /// Tokens read that came from no cache, and tokens written.
    #[must_use]
    pub const fn new(input: u64, output: u64) -> Usage {
        Usage { input, output, reasoning: 0, cache_read: 0, cache_write: 0 }
    }

    crate::words::setters::setters! {
        /// Sets the tokens [written as reasoning](#structfield.reasoning).
        reasoning: u64;
        /// Sets the tokens [read from the provider's cache](#structfield.cache_read).
        cache_read: u64;
        /// Sets the tokens [written to the provider's cache](#structfield.cache_write).
        cache_write: u64;
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = self.with(&other, u64::saturating_add);
    }
}
