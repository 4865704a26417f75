//! `tamtam models`: prints the built-in catalogue of models and prices ([`PRICES`]), and for each whether there is a key.
//!
//! A change must keep this: the command sends no request, and prints no key. Of the environment it shows only whether a key is
//! there.

use std::fmt::Write as _;

use serde_json::json;
use tamtam::model::{KnownProvider, MicroUsd, PRICES, PROVIDERS, known_limits, known_thinking};

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
    let mut told = Vec::new();
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
        told.push(format!("{name} {}", can(&name)));
        if given.json {
            let line = json!({
                "model": name, "key": has_key, "context": limits.context, "output": limits.output,
                "images": limits.images, "thinking": known_thinking(known.model),
                "schema": provider.is_some_and(|provider| provider.gives_schema(known.model)),
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
        // Few enough to be read.
        if told.len() <= TOLD_MAX {
            told.iter().for_each(|said| text.push_str(&format!("\n{said}\n")));
        }
        text.push_str(NOTE);
    }
    print(&text)
}

/// Of so many models it is told in words what they can do.
const TOLD_MAX: usize = 3;

/// What a model can do, in words that follow its name.
pub(super) fn can(name: &str) -> String {
    let (provider, model) = name.split_once('/').unwrap_or(("", name));
    let (limits, levels) = (known_limits(model), known_thinking(model));
    let thinks = match levels {
        [] => "does not think before it answers".to_owned(),
        [only] => format!("always thinks at level {only}"),
        levels => {
            let names: Vec<_> = levels.iter().map(|level| level.name()).collect();
            format!("thinks at --thinking {}", names.join(", "))
        }
    };
    let gives = |known: &KnownProvider| known.name == provider && known.gives_schema(model);
    format!(
        "reads up to {}k tokens and writes up to {}k, {} images, {thinks}, and {} a schema of its answer",
        limits.context / 1_000,
        limits.output / 1_000,
        if limits.images { "sees" } else { "sees no" },
        if PROVIDERS.iter().any(gives) { "is given" } else { "is told in words" },
    )
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
    fn what_a_model_can_do_is_said_in_words() {
        for (name, expected) in [
            (
                "openai/gpt-5.1",
                "reads up to 400k tokens and writes up to 128k, sees images, thinks at --thinking off, low, medium, high, and is \
                 given a schema of its answer",
            ),
            (
                "deepseek/deepseek-flash",
                "reads up to 128k tokens and writes up to 8k, sees no images, thinks at --thinking off, low, high, xhigh, and is \
                 told in words a schema of its answer",
            ),
            (
                "openai/gpt-4o",
                "reads up to 128k tokens and writes up to 16k, sees images, does not think before it answers, and is given a \
                 schema of its answer",
            ),
        ] {
            assert_eq!(can(name), expected);
        }
    }

    #[test]
    fn a_price_has_two_decimals_or_as_many_as_it_needs() {
        let shown = [15_000_000, 250_000, 28_000, 125].map(|micro| dollars(MicroUsd(micro)));
        assert_eq!(shown, ["15.00", "0.25", "0.028", "0.000125"]);
    }
}
