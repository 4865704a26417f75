//! The table of prices that were public when they were written down, and the look-up in it.
//!
//! **Where they are from.** Each price holds for the month next to it, and names the page where it was last checked on 2026-11-22
//! ([`KnownPrice::source`]): a page of the provider, or a page of others that repeats the provider's price. A price without a
//! page would be unverified; there is none now.
//!
//! **What they are worth.** Providers change prices without notice: a host that bills by them sets its own
//! ([`Builder::prices`](crate::runtime::Builder::prices)). Standard service in US dollars; no batch, priority or regional prices.
//!
//! **What is left out** has no price, on purpose: models whose price depends on the hour (DeepSeek bills twice as much at its peak
//! hours since 2026-08-16, and its older names are gone since 2026-07-24: <https://api-docs.deepseek.com/quick_start/pricing>),
//! models priced in other currencies (Zhipu, Qwen and Moonshot under their addresses here), brokers that add a fee (OpenRouter),
//! and servers of one's own. The table knows no addresses: `price_at` in `model/catalogue.rs` uses it only at the provider's own.
//!
//! A change must add no price without its month and its page, and no guess: a wrong price is worse than none, because budgets and
//! bills count with it.

use super::Price;
use crate::words::usage::MicroUsd;

/// A price that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct KnownPrice {
    /// The provider.
    pub provider: &'static str,
    /// The model, by the provider's name for it and without a date at its end.
    pub model: &'static str,
    /// The price of its tokens.
    pub price: Price,
    /// The month for which the price was read, as `YYYY-MM`.
    pub seen: &'static str,
    /// The page where the price was looked up; `None` if no page was found, so the price is unchecked.
    pub source: Option<&'static str>,
}

/// Anthropic's own list.
const ANTHROPIC: Option<&str> = Some("https://platform.claude.com/docs/en/about-claude/pricing");

/// Anthropic's own page of that model.
const OPUS_5_5: Option<&str> = Some("https://platform.claude.com/docs/zh-CN/models/opus-5-5/overview");

/// A copy of Anthropic's list, for Sonnet 5.
const ANTHROPIC_COPY: Option<&str> = Some("https://docs.rs/synaps/0.10.2/synaps_cli/pricing/index.html");

/// Changes of Anthropic's list up to 2026-10-24, for Sonnet 5.5 and Haiku 5.5: reading from the cache of Sonnet 5.5 has cost half
/// as much since 2026-10-07.
const ANTHROPIC_CHANGES: Option<&str> = Some("https://github.com/kurofune/claudit/releases/tag/v1.9.2");

/// A copy of OpenAI's list of March 2026. The cache is not in it: a tenth of input for GPT-5, a quarter for GPT-4.1, as listed in <https://docs.rs/crate/adk-model/0.6.0/source/src/openai/pricing.rs>.
const OPENAI: Option<&str> = Some("https://deploybase.ai/articles/openai-pricing");

/// A copy of OpenAI's prices of GPT-4o, the cache among them.
const GPT_4O: Option<&str> = Some("https://docs.rs/crate/openai-models/0.1.1/source/src/lib.rs");

/// The same of o3-mini.
const O3_MINI: Option<&str> = Some("https://github.com/appatalks/chatgpt-html/issues/82");

/// The same of o4-mini.
const O4_MINI: Option<&str> = Some("https://github.com/RooCodeInc/Roo-Code/pull/2691");

/// A copy of OpenAI's page of o3, of March 2026, the cache among it.
const O3: Option<&str> = Some("https://modelpedia.dev/openai/o3-2025-04-16");

/// A copy of Groq's list.
const GROQ: Option<&str> = Some("https://smithery.ai/skills/jeremylongshore/groq-cost-tuning");

/// A copy of Google's list.
const FLASH: Option<&str> = Some("https://computeprices.com/models/gemini-2-5-flash");

/// The same of Gemini 2.5 Flash-Lite.
const FLASH_LITE: Option<&str> = Some("https://awesomeagents.ai/models/gemini-2-5-flash-lite");

/// Thousandths of a dollar for a million tokens.
const fn milli(milli: u64) -> MicroUsd {
    MicroUsd(milli * 1_000)
}

/// A price with one for reading from the cache. Writing to the cache costs as much as input.
const fn cached(
    provider: &'static str,
    model: &'static str,
    [input, cache_read, output]: [u64; 3],
    seen: &'static str,
    source: Option<&'static str>,
) -> KnownPrice {
    let price = Price { cache_read: Some(milli(cache_read)), ..Price::new(milli(input), milli(output)) };
    KnownPrice { provider, model, price, seen, source }
}

/// Anthropic's: five minutes in the cache cost a quarter more than input to write.
const fn claude(model: &'static str, prices: [u64; 3], seen: &'static str, source: Option<&'static str>) -> KnownPrice {
    let known = cached("anthropic", model, prices, seen, source);
    KnownPrice { price: Price { cache_write: Some(MicroUsd(prices[0] * 1_250)), ..known.price }, ..known }
}

/// The prices that are known, in thousandths of a dollar for a million tokens: input, read from the cache, output.
pub const PRICES: &[KnownPrice] = &[
    claude("claude-opus-5-5", [4_000, 200, 20_000], "2026-10", OPUS_5_5),
    claude("claude-opus-5", [5_000, 500, 25_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4-8", [5_000, 500, 25_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4-7", [5_000, 500, 25_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4-6", [5_000, 500, 25_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4-5", [5_000, 500, 25_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4-1", [15_000, 1_500, 75_000], "2026-10", ANTHROPIC),
    claude("claude-opus-4", [15_000, 1_500, 75_000], "2026-10", ANTHROPIC),
    claude("claude-sonnet-5-5", [2_000, 100, 10_000], "2026-10", ANTHROPIC_CHANGES),
    claude("claude-sonnet-5", [2_000, 200, 10_000], "2026-10", ANTHROPIC_COPY),
    claude("claude-sonnet-4-6", [3_000, 300, 15_000], "2026-02", ANTHROPIC),
    claude("claude-sonnet-4-5", [3_000, 300, 15_000], "2026-02", ANTHROPIC),
    claude("claude-sonnet-4", [3_000, 300, 15_000], "2026-02", ANTHROPIC),
    claude("claude-haiku-4-5", [1_000, 100, 5_000], "2026-02", ANTHROPIC),
    claude("claude-3-5-haiku", [800, 80, 4_000], "2026-02", ANTHROPIC),
    KnownPrice {
        // Longer prompts cost five times as much.
        price: Price { input_max: Some(100_000), ..claude("", [100, 10, 500], "", None).price },
        ..claude("claude-haiku-5-5", [0; 3], "2026-10", ANTHROPIC_CHANGES)
    },
    cached("openai", "gpt-5.1", [1_250, 125, 10_000], "2026-03", OPENAI),
    cached("openai", "gpt-5", [1_250, 125, 10_000], "2026-03", OPENAI),
    cached("openai", "gpt-5-mini", [250, 25, 2_000], "2026-03", OPENAI),
    cached("openai", "gpt-5-nano", [50, 5, 400], "2026-03", OPENAI),
    cached("openai", "gpt-4.1", [2_000, 500, 8_000], "2026-03", OPENAI),
    cached("openai", "gpt-4.1-mini", [400, 100, 1_600], "2026-03", OPENAI),
    cached("openai", "gpt-4.1-nano", [100, 25, 400], "2026-03", OPENAI),
    cached("openai", "gpt-4o", [2_500, 1_250, 10_000], "2026-03", GPT_4O),
    cached("openai", "gpt-4o-mini", [150, 75, 600], "2026-03", GPT_4O),
    cached("openai", "o3", [2_000, 500, 8_000], "2026-03", O3),
    cached("openai", "o3-mini", [1_100, 550, 4_400], "2026-03", O3_MINI),
    cached("openai", "o4-mini", [1_100, 275, 4_400], "2026-03", O4_MINI),
    // Groq and Gemini 2.5 Flash have a price for the cache, or none, by model and month: without it they cost no more than this.
    cached("groq", "llama-3.3-70b-versatile", [590, 590, 790], "2025-12", GROQ),
    cached("gemini", "gemini-2.5-flash", [300, 300, 2_500], "2025-12", FLASH),
    cached("gemini", "gemini-2.5-flash-lite", [100, 100, 400], "2025-12", FLASH_LITE),
];

/// What that model costs at that provider; `None` if it is not known.
///
/// A name is that of the table, or the same with `-latest` or a date after it: a hyphen, and 4, 6 or 8 digits that hyphens may
/// part. Nothing else is taken for it: `gpt-5-pro` is not `gpt-5`.
#[must_use]
pub fn known_price(provider: &str, model: &str) -> Option<Price> {
    let fits = |known: &&KnownPrice| {
        known.provider == provider && model.strip_prefix(known.model).is_some_and(|rest| rest.is_empty() || dates(rest))
    };
    PRICES.iter().find(fits).map(|known| known.price)
}

/// Whether that is a hyphen and a date, as in `-20250514`, `-2024-08-06` and `-latest`.
fn dates(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else { return false };
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    // A month and a day (0613) are four digits; anything shorter is a version.
    rest == "latest" || (matches!(digits, 4 | 6 | 8) && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    ///
    #[test]
    fn a_name_with_a_date_is_the_same_model_and_any_other_is_unknown() {
        let input = |provider, model| known_price(provider, model).map(|price| price.input.0);
        assert_eq!(input("openai", "gpt-4o"), Some(2_500_000));
        assert_eq!(input("openai", "gpt-4o-2024-08-06"), Some(2_500_000));
        assert_eq!(input("openai", "gpt-4o-mini"), Some(150_000));
        assert_eq!(input("anthropic", "claude-sonnet-4-20250514"), Some(3_000_000));
        assert_eq!(input("anthropic", "claude-sonnet-4-5"), Some(3_000_000));
        assert_eq!(input("anthropic", "claude-opus-4-1"), Some(15_000_000));
        for (provider, model) in [
            ("openai", "gpt-5-pro"),
            ("openai", "gpt-4o-audio-preview"),
            ("openai", "gpt-4"),
            ("openrouter", "openai/gpt-4o"),
            ("local", "gpt-4o"),
            ("anthropic", "claude-opus-4-9"),
            ("qwen", "qwen-max"),
        ] {
            assert_eq!(known_price(provider, model), None, "{provider}/{model}");
        }
    }

    /// the cache of Anthropic costs a quarter more to write and a tenth or less to read.
    #[test]
    fn anthropics_cache_has_prices_of_its_own() {
        let price = known_price("anthropic", "claude-haiku-4-5").unwrap();
        assert_eq!((price.cache_read, price.cache_write), (Some(MicroUsd(100_000)), Some(MicroUsd(1_250_000))));
    }

    /// nothing is from memory in silence: each has a page; a price without one would have to be listed here.
    #[test]
    fn a_price_without_a_page_is_known_to_be_unverified() {
        let unverified: Vec<_> =
            PRICES.iter().filter(|known| known.source.is_none()).map(|known| known.model).collect();
        assert_eq!(unverified, <[&str; 0]>::default());
    }

    /// two prices, one for the day and one for the night, are not a price: the cost of such a model is unknown, never a
    /// guess.
    #[test]
    fn a_price_that_depends_on_the_hour_is_unknown() {
        for model in ["deepseek-flash", "deepseek-v4-pro", "deepseek-chat", "deepseek-reasoner"] {
            assert_eq!(known_price("deepseek", model), None, "{model}");
        }
    }

    #[test]
    fn each_price_stands_once_has_a_month_and_costs_something() {
        for (at, known) in PRICES.iter().enumerate() {
            let before = &PRICES[..at];
            assert!(!before.iter().any(|other| (other.provider, other.model) == (known.provider, known.model)));
            let month: Vec<_> = known.seen.split('-').map(str::len).collect();
            assert_eq!(month, [4, 2], "{}", known.model);
            assert!(known.source.is_none_or(|page| page.starts_with("https://")), "{}", known.model);
            assert!(known.price.input.0 > 0 && known.price.output >= known.price.input, "{}", known.model);
            assert!(known.price.cache_read <= Some(known.price.input), "{}", known.model);
        }
    }
}
