//! Money as integers: adding up costs loses nothing, and an unknown price is said and never taken for zero.
//!
//! Sums are kept in picodollars ([`PicoUsd`]), because one token often costs less than a millionth of a dollar. Other programs
//! are given millionths of a dollar ([`MicroUsd`]), and people are shown four or six decimals; both are rounded up. A sum that
//! does not fit stays at the largest number (18 million dollars).
//!
//! A change must use no float and must not round down: a cost below that bound is never shown as less than it is. [`PicoUsd`],
//! [`MicroUsd`] and [`Cost`] are stored formats, and [`ShownCost`] is read by other programs.

use std::{fmt, ops::AddAssign, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::words::is_default;

/// Picodollars in a millionth of a dollar.
pub(crate) const PICO_IN_MICRO: u64 = 1_000_000;

/// Picodollars in a dollar.
const PER_USD: u64 = 1_000_000_000_000;

/// The number of decimals of a picodollar in dollars.
const DECIMALS: usize = 12;

/// Millionths of a US dollar. The field that holds it is `None`, and never zero, if a price is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

/// Picodollars: millionths of a millionth of a US dollar. A token of a model that costs one dollar for a million tokens costs a
/// million picodollars. Sums stop at 18 million dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct PicoUsd(pub u64);

impl PicoUsd {
    /// The amount in millionths, rounded up: a cost is never shown as nothing.
    #[must_use]
    pub fn to_micro(self) -> MicroUsd {
        MicroUsd(self.0.div_ceil(PICO_IN_MICRO))
    }
}

impl MicroUsd {
    /// The same amount in picodollars.
    #[must_use]
    pub fn to_pico(self) -> PicoUsd {
        PicoUsd(self.0.saturating_mul(PICO_IN_MICRO))
    }
}

impl fmt::Display for PicoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_micro().fmt(f)
    }
}

impl fmt::Display for MicroUsd {
    /// In dollars, with four decimals, and six below a cent; nothing is `$0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, rest) = (self.0 / PICO_IN_MICRO, self.0 % PICO_IN_MICRO);
        match self.0 {
            0 => f.write_str("$0"),
            1..10_000 => write!(f, "${dollars}.{rest:06}"),
            // Rounded up here too: a cost is never shown as less than it is.
            _ => {
                let tenths_of_milli = self.0.div_ceil(100);
                write!(f, "${}.{:04}", tenths_of_milli / 10_000, tenths_of_milli % 10_000)
            }
        }
    }
}

/// A text that is not an amount of dollars.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an amount of US dollars: write it as 2 or 0.25")]
pub struct BadUsd(pub String);

impl FromStr for PicoUsd {
    type Err = BadUsd;

    /// Reads dollars such as `2`, `0.25` or `$0.000001`: exactly, with up to 12 decimals.
    fn from_str(text: &str) -> Result<PicoUsd, BadUsd> {
        let bad = || BadUsd(text.to_owned());
        let digits = text.trim().trim_start_matches('$');
        let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && decimals.is_empty()) || !plain(whole) || !plain(decimals) || decimals.len() > DECIMALS {
            return Err(bad());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| bad())? };
        let padded: u64 = format!("{decimals:0<DECIMALS$}").parse().map_err(|_| bad())?;
        let pico = whole.checked_mul(PER_USD).and_then(|pico| pico.checked_add(padded));
        pico.map(PicoUsd).ok_or_else(bad)
    }
}

/// A cost: the known part, and the number of requests whose price is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Cost {
    /// The sum of the known costs.
    pub known: PicoUsd,
    /// The number of requests without a price, which are not in that sum.
    #[serde(skip_serializing_if = "is_default")]
    pub unpriced: u64,
}

impl Cost {
    /// The cost of one request; pass `None` if it has no price.
    #[must_use]
    pub fn of(known: Option<PicoUsd>) -> Cost {
        Cost { known: known.unwrap_or_default(), unpriced: u64::from(known.is_none()) }
    }

    /// The whole cost; `None` if a part of it is not known.
    #[must_use]
    pub fn exact(&self) -> Option<PicoUsd> {
        (self.unpriced == 0).then_some(self.known)
    }

    /// Combines two values, figure by figure.
    pub(crate) fn with(&self, other: &Cost, f: fn(u64, u64) -> u64) -> Cost {
        Cost { known: PicoUsd(f(self.known.0, other.known.0)), unpriced: f(self.unpriced, other.unpriced) }
    }

    /// The cost in the form for other programs.
    #[must_use]
    pub fn shown(&self) -> ShownCost {
        let micro = self.known.to_micro();
        ShownCost {
            cost: self.exact().map(PicoUsd::to_micro),
            cost_at_least: (self.unpriced > 0 && micro.0 > 0).then_some(micro),
            unpriced: self.unpriced,
        }
    }
}

impl From<ShownCost> for Cost {
    fn from(shown: ShownCost) -> Cost {
        let known = shown.cost.or(shown.cost_at_least).unwrap_or_default().to_pico();
        Cost { known, unpriced: shown.unpriced }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = self.with(&other, u64::saturating_add);
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known.0, self.unpriced) {
            (_, 0) => self.known.fmt(f),
            (0, _) => f.write_str("unknown"),
            (_, 1) => write!(f, "at least {} (1 request has no price)", self.known),
            (_, more) => write!(f, "at least {} ({more} requests have no price)", self.known),
        }
    }
}

/// A cost in the JSON that other programs read. A program that reads `cost` alone never takes a part for the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ShownCost {
    /// The whole cost, in millionths of a US dollar; left out if a part is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// The known part, in millionths of a US dollar; left out if all is known or nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_at_least: Option<MicroUsd>,
    /// The number of requests without a price; left out if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unpriced: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn usd(text: &str) -> PicoUsd {
        text.parse().unwrap()
    }

    #[test]
    fn dollars_are_read_exactly_and_anything_else_is_refused() {
        assert_eq!(usd("2"), PicoUsd(2 * PER_USD));
        assert_eq!(usd("$0.25"), PicoUsd(PER_USD / 4));
        assert_eq!(usd(".000000000001"), PicoUsd(1));
        for bad in ["", ".", "-1", "1e3", "1.0000000000001", "0,5", "99999999", "one"] {
            assert_eq!(bad.parse::<PicoUsd>(), Err(BadUsd(bad.to_owned())));
        }
    }

    #[test]
    fn what_costs_something_is_never_shown_as_nothing() {
        let shown = ["0", "0.000000000001", "0.0012", "0.01", "0.123401", "12"].map(|text| usd(text).to_string());
        assert_eq!(shown, ["$0", "$0.000001", "$0.001200", "$0.0100", "$0.1235", "$12.0000"]);
    }

    /// A million sums of less than a millionth lose nothing.
    #[test]
    fn sums_keep_what_is_less_than_a_millionth() {
        let cost = |pico| Cost::of(Some(PicoUsd(pico)));
        let mut sum = Cost::default();
        (0..1_000_000).for_each(|_| sum += cost(140_001));
        assert_eq!(sum, cost(140_001_000_000));
        sum += cost(u64::MAX);
        assert_eq!(sum, cost(u64::MAX), "it stops at what fits");
    }

    /// a sum with an unknown part says so, and is never the whole.
    #[test]
    fn a_sum_with_an_unknown_part_says_so() {
        let mut cost = Cost::of(Some(usd("0.5")));
        assert_eq!((cost.to_string(), cost.exact()), ("$0.5000".to_owned(), Some(usd("0.5"))));
        cost += Cost::of(None);
        assert_eq!((cost.to_string(), cost.exact()), ("at least $0.5000 (1 request has no price)".to_owned(), None));
        assert_eq!(
            serde_json::to_value(cost.shown()).unwrap(),
            serde_json::json!({"cost_at_least": 500_000, "unpriced": 1})
        );
        assert_eq!(serde_json::to_value(Cost::of(None).shown()).unwrap(), serde_json::json!({"unpriced": 1}));
        assert_eq!(Cost::of(None).to_string(), "unknown");
        assert_eq!(
            serde_json::to_value(Cost::of(Some(usd("0"))).shown()).unwrap(),
            serde_json::json!({"cost": 0}),
            "free is not unknown"
        );
    }
}
