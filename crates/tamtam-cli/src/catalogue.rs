//! `tamtam models`: prints the built-in catalogue of models and prices ([`PRICES`]), and for each whether there is a key.
//!
//! A change must keep this: the command sends no request, and prints no key. Of the environment it shows only whether a key is
//! there.

use std::fmt::Write as _;

use serde_json::json;
use tamtam::model::{MicroUsd, PRICES, PROVIDERS, known_limits};

use super::{
    arguments::ModelsArguments,
    environment::Environment,
    failure::{Exit, Failure},
    models::key_of,
    print,
};

/// The footnote of the text output.
const NOTE: &str = "\nUS dollars per million tokens, as seen in that month on the provider's page or\na copy of it; read and write are the prices of the cache, = is the price of in.\n--json names the page of each. \
    A month with a ? was not verified. Any other model\ncan be named as PROVIDER/MODEL; its price is unknown: give it with --price.\n";

/// Carries out the command: lists the models whose price is known.
pub(super) fn models(given: &ModelsArguments, environment: &Environment) -> Result<Exit, Failure> {
    let part = given.part.as_deref().unwrap_or_default();
    let mut text = String::new();
    if !given.json {
        let head = ["model", "key", "context", "in", "out", "read", "write", "seen"];
        row(&mut text, head.map(str::to_owned));
    }
    for known in PRICES {
        let name = format!("{}/{}", known.provider, known.model);
        if !name.contains(part) {
            continue;
        }
        let provider = PROVIDERS.iter().find(|provider| provider.name == known.provider);
        let has_key = provider.is_some_and(|provider| key_of(provider.key_variables, environment).is_some());
        let (price, limits) = (known.price, known_limits(known.model));
        if given.json {
            let line = json!({
                "model": name, "key": has_key, "context": limits.context, "output": limits.output,
                "price": price, "seen": known.seen, "source": known.source,
            });
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{line}");
            continue;
        }
        let context = format!("{}k", limits.context / 1_000);
        let usd = |micro: Option<MicroUsd>| micro.map_or_else(|| "=".to_owned(), dollars);
        let prices = [dollars(price.input), dollars(price.output), usd(price.cache_read), usd(price.cache_write)];
        let [input, output, read, write] = prices;
        let key = if has_key { "yes" } else { "-" };
        let seen = if known.source.is_some() { known.seen.to_owned() } else { format!("{} ?", known.seen) };
        row(&mut text, [name, key.to_owned(), context, input, output, read, write, seen]);
    }
    if !given.json {
        text.push_str(NOTE);
    }
    print(&text)
}

fn row(text: &mut String, [model, key, context, input, output, read, write, seen]: [String; 8]) {
    let _ = writeln!(text, "{model:29} {key:3} {context:>7} {input:>6} {output:>6} {read:>6} {write:>6}  {seen}");
}

/// A price with as many decimals as it needs, and at least two.
fn dollars(price: MicroUsd) -> String {
    let text = format!("{}.{:06}", price.0 / 1_000_000, price.0 % 1_000_000);
    let cut = text.trim_end_matches('0').len();
    let point = text.find('.').unwrap_or(cut);
    text[..cut.max(point + 3)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_has_two_decimals_or_as_many_as_it_needs() {
        let shown = [15_000_000, 250_000, 28_000, 125].map(|micro| dollars(MicroUsd(micro)));
        assert_eq!(shown, ["15.00", "0.25", "0.028", "0.000125"]);
    }
}
