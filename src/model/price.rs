//! The price of tokens, and the prices that a host sets.
//!
//! A price is a fact about one model at one provider. An unknown price is `None`, and never zero, so that a sum can say what it
//! lacks; a change must keep that, and must count in integers, so that sums are exact. The prices that a host sets win over the
//! price that its models report; the models of this crate that are reached over HTTP report that of the table ([`known_price`]).

mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use table::{KnownPrice, PRICES, known_price};

use crate::{
    words::message::ModelRef,
    words::usage::{MicroUsd, PicoUsd, Usage},
};

/// The price of a model's tokens: millionths of a US dollar for a million of each kind, so $0.25 are 250,000.
///
/// The same number is the price of one token in picodollars. Sums are made in these, so they are exact; a sum beyond `u64` stops
/// at the largest number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Price {
    /// Price of input tokens that came from no cache.
    pub input: MicroUsd,
    /// Price of output tokens.
    pub output: MicroUsd,
    /// Price of reasoning tokens; that of output where it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<MicroUsd>,
    /// Price of tokens read from the provider's cache; that of input where it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<MicroUsd>,
    /// Price of tokens written to the provider's cache; that of input where it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<MicroUsd>,
    /// The most tokens that a request may read at this price. A request that reads more has another price, which is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_max: Option<u64>,
}

impl Price {
    /// A price of input and output alone.
    #[must_use]
    pub const fn new(input: MicroUsd, output: MicroUsd) -> Price {
        Price { input, output, reasoning: None, cache_read: None, cache_write: None, input_max: None }
    }

    /// The cost of that usage; `None` if it reads more tokens than this price holds for.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<PicoUsd> {
        let read = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        if self.input_max.is_some_and(|max| read > max) {
            return None;
        }
        let kinds = [
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.reasoning, self.reasoning.unwrap_or(self.output)),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write, self.cache_write.unwrap_or(self.input)),
        ];
        let sum = kinds.into_iter().map(|(tokens, price)| tokens.saturating_mul(price.0));
        Some(PicoUsd(sum.fold(0, u64::saturating_add)))
    }

    /// The most that a request with this many tokens can cost, for any kinds of tokens. `None` as in [`Price::cost`].
    #[must_use]
    pub fn most(&self, input: u64, output: u64) -> Option<PicoUsd> {
        if self.input_max.is_some_and(|max| input > max) {
            return None;
        }
        let (read, written) = (self.dearest_input(), self.dearest_output());
        Some(PicoUsd(input.saturating_mul(read.0).saturating_add(output.saturating_mul(written.0))))
    }

    /// The highest price of an input token of any kind.
    #[must_use]
    pub(crate) fn dearest_input(&self) -> MicroUsd {
        [self.cache_read, self.cache_write].into_iter().flatten().fold(self.input, MicroUsd::max)
    }

    /// The highest price of an output token of any kind.
    #[must_use]
    pub(crate) fn dearest_output(&self) -> MicroUsd {
        self.reasoning.map_or(self.output, |reasoning| reasoning.max(self.output))
    }

    crate::words::setters::setters! {
        /// Sets the price of [reasoning](#structfield.reasoning).
        reasoning: MicroUsd = Some(reasoning);
        /// Sets the price of tokens [read from the cache](#structfield.cache_read).
        cache_read: MicroUsd = Some(cache_read);
        /// Sets the price of tokens [written to the cache](#structfield.cache_write).
        cache_write: MicroUsd = Some(cache_write);
        /// Sets [how much a request may read](#structfield.input_max) at this price.
        input_max: u64 = Some(input_max);
    }
}

/// The prices that a host sets, by the exact name of the model. They win over all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(BTreeMap<ModelRef, Price>);

impl Prices {
    /// The host's price for that model.
    #[must_use]
    pub fn get(&self, model: &ModelRef) -> Option<Price> {
        self.0.get(model).copied()
    }

    /// Sets the price of one model.
    pub fn set(&mut self, model: ModelRef, price: Price) {
        self.0.insert(model, price);
    }
}

impl Extend<(ModelRef, Price)> for Prices {
    fn extend<I: IntoIterator<Item = (ModelRef, Price)>>(&mut self, prices: I) {
        self.0.extend(prices);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PRICE: Price = Price {
        cache_read: Some(MicroUsd(300_000)),
        cache_write: Some(MicroUsd(3_750_000)),
        ..Price::new(MicroUsd(3_000_000), MicroUsd(15_000_000))
    };

    /// each kind of token at its own price; reasoning as output unless it has one.
    #[test]
    fn each_kind_of_token_has_its_own_price() {
        let usage = Usage { input: 10, output: 100, reasoning: 1_000, cache_read: 10_000, cache_write: 100_000 };
        let by_hand = 10 * 3_000_000 + 100 * 15_000_000 + 1_000 * 15_000_000 + 10_000 * 300_000 + 100_000 * 3_750_000;
        assert_eq!(PRICE.cost(&usage), Some(PicoUsd(by_hand)));
        let reasoning = Price { reasoning: Some(MicroUsd(1)), ..PRICE };
        assert_eq!(reasoning.cost(&Usage { reasoning: 7, ..Usage::default() }), Some(PicoUsd(7)));
        assert_eq!(PRICE.most(2, 3), Some(PicoUsd(2 * 3_750_000 + 3 * 15_000_000)));
    }

    #[test]
    fn a_cache_without_a_price_costs_what_input_costs() {
        let plain = Price::new(MicroUsd(2), MicroUsd(8));
        let usage = Usage { cache_read: 5, cache_write: 7, ..Usage::default() };
        assert_eq!(plain.cost(&usage), Some(PicoUsd(24)));
    }

    #[test]
    fn beyond_what_a_price_is_for_nothing_is_known() {
        let tier = Price { input_max: Some(100), ..PRICE };
        assert!(tier.cost(&Usage { input: 60, cache_read: 40, ..Usage::default() }).is_some());
        assert_eq!(tier.cost(&Usage { input: 61, cache_read: 40, ..Usage::default() }), None);
        assert_eq!((tier.most(101, 1), tier.most(100, 1).is_some()), (None, true));
    }

    #[test]
    fn figures_that_no_request_has_end_at_the_most_that_fits() {
        let usage = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert_eq!(PRICE.cost(&usage), Some(PicoUsd(u64::MAX)));
    }
}
