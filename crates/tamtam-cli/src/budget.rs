//! The arguments for the budget of a session: its limits, what happens at a limit, and the price of the model.
//!
//! An argument that is not given leaves the session's value as it is. Files of configuration write the same values, and are read by
//! the same functions ([`price`], [`on_breach`]).
//!
//! A limit in dollars for a model without a known price is a usage error. A change must keep that check
//! ([`BudgetArguments::check`]) before a session is opened: the session would be made, and its first request refused.
//!
//! The doc comments on the arguments are the texts of `--help`: a change to one changes what users read.

use clap::Args;
use tamtam::{
    ModelRef,
    model::{MicroUsd, Models, PicoUsd, Price, known_price},
    session::{Budget, OnBreach},
};

use super::failure::Failure;

/// The budget arguments of a session. A limit covers its whole life, including what it has used before.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct BudgetArguments {
    /// Maximum cost of the session in US dollars, such as 0.50
    #[arg(long = "budget-usd", value_name = "X")]
    pub(super) usd: Option<PicoUsd>,
    /// Maximum number of tokens of the session, read and written
    #[arg(long = "budget-tokens", value_name = "N")]
    pub(super) tokens: Option<u64>,
    /// At a limit: ask, stop, or switch to PROVIDER/MODEL [default: ask]
    #[arg(long = "on-budget", value_name = "WHAT", value_parser = on_breach)]
    pub(super) on_breach: Option<OnBreach>,
    /// Price of the model in US dollars per million tokens, as INPUT/OUTPUT or INPUT/OUTPUT/CACHE_READ/CACHE_WRITE
    #[arg(long, value_name = "IN/OUT", value_parser = price)]
    pub(super) price: Option<Price>,
}

impl BudgetArguments {
    /// Sets the limits that were given, and leaves the others.
    pub(super) fn apply(&self, budget: &mut Budget) {
        budget.session.usd = self.usd.or(budget.session.usd);
        budget.session.tokens = self.tokens.or(budget.session.tokens);
        if let Some(on_breach) = &self.on_breach {
            budget.on_breach = on_breach.clone();
        }
    }

    /// Refuses a limit in dollars at once if the model has no price, or the one to switch to has none. Otherwise its first request
    /// would be refused, or the switch would be given up in silence.
    pub(super) fn check(&self, model: &ModelRef, models: &dyn Models, budget: &Budget) -> Result<(), Failure> {
        if budget.session.usd.or(budget.turn.usd).is_none() {
            return Ok(());
        }
        if self.price.is_none() && models.price_of(model).is_none() {
            return Err(Failure::usage(format!(
                "the price of {model} {}, and a budget in US dollars cannot be held without it: give it with --price IN/OUT \
                 (dollars for a million tokens), or use --budget-tokens",
                lacking(model)
            )));
        }
        match &budget.on_breach {
            OnBreach::Model(second) if models.price_of(second).is_none() => Err(Failure::usage(format!(
                "the price of {second} {}, so a budget in US dollars could never switch to it: choose another model for \
                 --on-budget, or use --budget-tokens",
                lacking(second)
            ))),
            _ => Ok(()),
        }
    }
}

/// How the price of a model is lacking.
fn lacking(model: &ModelRef) -> &'static str {
    match known_price(&model.provider, &model.model) {
        Some(_) => "is known at its provider's own address only, and another one is used",
        None => "is not known",
    }
}

/// Reads what happens at a limit.
pub(super) fn on_breach(text: &str) -> Result<OnBreach, String> {
    match text {
        "ask" => Ok(OnBreach::Ask),
        "stop" => Ok(OnBreach::Stop),
        model => model.parse().map(OnBreach::Model).map_err(|_| "choose ask, stop or PROVIDER/MODEL".to_owned()),
    }
}

/// Reads a price: two or four sums in US dollars for a million tokens.
pub(super) fn price(text: &str) -> Result<Price, String> {
    let kinds: Result<Vec<MicroUsd>, _> =
        text.split('/').map(|usd| usd.parse::<PicoUsd>().map(PicoUsd::to_micro)).collect();
    match kinds.map_err(|error| error.to_string())?.as_slice() {
        [input, output] => Ok(Price::new(*input, *output)),
        [input, output, read, write] => Ok(Price::new(*input, *output).cache_read(*read).cache_write(*write)),
        _ => Err("write it as INPUT/OUTPUT or INPUT/OUTPUT/CACHE_READ/CACHE_WRITE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_price_is_two_or_four_sums() {
        assert_eq!(price("0.25/2"), Ok(Price::new(MicroUsd(250_000), MicroUsd(2_000_000))));
        assert_eq!(price("3/15/0.3/3.75").unwrap().cache_write, Some(MicroUsd(3_750_000)));
        for bad in ["", "1", "1/2/3", "1/x"] {
            assert!(price(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_happens_at_a_limit_is_one_of_three() {
        assert_eq!(on_breach("ask"), Ok(OnBreach::Ask));
        assert_eq!(on_breach("stop"), Ok(OnBreach::Stop));
        assert_eq!(on_breach("a/b"), Ok(OnBreach::Model("a/b".parse().unwrap())));
        assert!(on_breach("maybe").is_err());
    }
}
