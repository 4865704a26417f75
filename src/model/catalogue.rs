//! The catalogue: the providers that are known by name, the limits of known models, and the look-ups in both. The table of prices
//! is `price/table.rs`.
//!
//! An unknown model gets cautious limits ([`known_limits`]). A price is known only at the provider's own address, because a proxy
//! sets its own prices. A host that knows better passes its own [`Provider`](super::Provider) or its own limits.
//!
//! The names of environment variables are here for the binary and for the error about a missing key; only the binary reads these
//! variables. A change must not make the library read them, because a key in the environment need not be meant for this host's
//! use.

#[cfg(feature = "openai")]
use std::time::Duration;

#[cfg(any(feature = "openai", feature = "anthropic"))]
use super::{AnswerField, ReasoningBack};
use super::{Api, ModelLimits, Price, Quirks, known_price};
#[cfg(feature = "openai")]
use super::{MaxTokensField, ThinkingField};

/// A provider that is known by name.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct KnownProvider {
    /// Its name: the first half of `provider/model`.
    pub name: &'static str,
    /// The wire format.
    pub api: Api,
    /// Its default address.
    pub base_url: &'static str,
    /// The environment variables that usually hold the key. Errors name the first one.
    pub key_variables: &'static [&'static str],
    /// The environment variable that usually holds another base URL.
    pub base_url_variable: &'static str,
    /// Whether the provider refuses requests without a key.
    pub needs_key: bool,
    /// The peculiarities of its server.
    pub quirks: Quirks,
    /// Those of a server at another address that speaks its format.
    pub quirks_elsewhere: Quirks,
}

const fn known(
    name: &'static str,
    api: Api,
    base_url: &'static str,
    key_variables: &'static [&'static str],
    base_url_variable: &'static str,
) -> KnownProvider {
    let (quirks, quirks_elsewhere) = (Quirks::NONE, Quirks::NONE);
    KnownProvider { name, api, base_url, key_variables, base_url_variable, needs_key: true, quirks, quirks_elsewhere }
}

#[cfg(feature = "openai")]
const fn openai_compatible(
    name: &'static str,
    base_url: &'static str,
    key_variables: &'static [&'static str],
    base_url_variable: &'static str,
) -> KnownProvider {
    known(name, Api::OpenAiChat, base_url, key_variables, base_url_variable)
}

impl KnownProvider {
    /// Whether a request without tools to this model is given the schema of its answer
    /// ([`Params::answer_schema`](super::Params::answer_schema)); else the model is told it in words. The answer is checked either way.
    #[must_use]
    pub fn gives_schema(&self, model: &str) -> bool {
        #[cfg(feature = "anthropic")]
        let refuses = self.api == Api::AnthropicMessages && !takes_schema(model);
        #[cfg(not(feature = "anthropic"))]
        let (refuses, _) = (false, model);
        self.quirks.answer.is_schema() && !refuses
    }

    #[cfg(any(feature = "openai", feature = "anthropic"))]
    const fn with(self, quirks: Quirks) -> KnownProvider {
        KnownProvider { quirks, quirks_elsewhere: quirks, ..self }
    }

    #[cfg(feature = "anthropic")]
    const fn elsewhere(self, quirks_elsewhere: Quirks) -> KnownProvider {
        KnownProvider { quirks_elsewhere, ..self }
    }
}

/// The quirks of a provider that wants its model's reasoning back, and is told so how much to think.
#[cfg(feature = "openai")]
const fn reasoning(reasoning: ReasoningBack, thinking: ThinkingField) -> Quirks {
    // OpenRouter gives the schema to the server that has the model; the others only know JSON.
    let answer = match thinking {
        ThinkingField::Record => AnswerField::Schema,
        _ => AnswerField::Json,
    };
    Quirks { reasoning, thinking, answer, ..Quirks::NONE }
}

/// The quirks of Anthropic's own server.
#[cfg(feature = "anthropic")]
const ANTHROPIC: Quirks = Quirks { auto_cache: true, image_bytes_max: 5 << 20, ..Quirks::NONE };

/// The providers that are known by name, and `local` for a server on this machine: those whose wire is in the build.
pub const PROVIDERS: &[KnownProvider] = &[
    #[cfg(feature = "openai")]
    openai_compatible("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"], "OPENAI_BASE_URL").with(Quirks {
        max_tokens: MaxTokensField::MaxCompletionTokens,
        answer: AnswerField::Schema,
        ..Quirks::NONE
    }),
    #[cfg(feature = "anthropic")]
    known(
        "anthropic",
        Api::AnthropicMessages,
        "https://api.anthropic.com",
        &["ANTHROPIC_API_KEY"],
        "ANTHROPIC_BASE_URL",
    )
    .with(ANTHROPIC)
    .elsewhere(Quirks { reasoning: ReasoningBack::WithCalls, answer: AnswerField::Words, ..ANTHROPIC }),
    #[cfg(feature = "openai")]
    openai_compatible("deepseek", "https://api.deepseek.com", &["DEEPSEEK_API_KEY"], "DEEPSEEK_BASE_URL")
        .with(reasoning(ReasoningBack::WithCalls, ThinkingField::Switch)),
    #[cfg(feature = "openai")]
    openai_compatible("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"], "GROQ_BASE_URL")
        // Few of its models take a schema, and none beside tools or in a stream.
        .with(Quirks { answer: AnswerField::Words, ..Quirks::NONE }),
    #[cfg(feature = "openai")]
    openai_compatible(
        "zhipu",
        "https://open.bigmodel.cn/api/paas/v4",
        &["ZHIPU_API_KEY", "ZHIPUAI_API_KEY", "ZAI_API_KEY"],
        "ZHIPU_BASE_URL",
    )
    .with(reasoning(ReasoningBack::WithCalls, ThinkingField::Switch)),
    #[cfg(feature = "openai")]
    openai_compatible(
        "qwen",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        &["DASHSCOPE_API_KEY", "QWEN_API_KEY"],
        "DASHSCOPE_BASE_URL",
    )
    // A model of Qwen's that thinks may refuse to be asked for JSON.
    .with(Quirks { thinking: ThinkingField::Budget, answer: AnswerField::Words, ..Quirks::NONE }),
    #[cfg(feature = "openai")]
    openai_compatible("moonshot", "https://api.moonshot.cn/v1", &["MOONSHOT_API_KEY"], "MOONSHOT_BASE_URL")
        .with(reasoning(ReasoningBack::WithCalls, ThinkingField::Switch)),
    #[cfg(feature = "openai")]
    openai_compatible("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "OPENROUTER_BASE_URL")
        .with(reasoning(ReasoningBack::Details, ThinkingField::Record)),
    #[cfg(feature = "gemini")]
    known(
        "gemini",
        Api::GeminiGenerateContent,
        "https://generativelanguage.googleapis.com/v1beta",
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        "GEMINI_BASE_URL",
    ),
    #[cfg(feature = "openai")]
    KnownProvider {
        needs_key: false,
        ..openai_compatible("local", "http://127.0.0.1:11434/v1", &["LOCAL_API_KEY"], "LOCAL_BASE_URL")
    }
    // Most models that run on such a server see nothing, and their names do not say so.
    .with(Quirks { first_timeout: Some(SLOW_FIRST_TIMEOUT), images: Some(false), ..Quirks::NONE }),
];

/// How long a server on this machine may read a prompt: 40,000 tokens at 300 a second take more than two minutes.
#[cfg(feature = "openai")]
const SLOW_FIRST_TIMEOUT: Duration = Duration::from_secs(600);

/// Limits by the beginning of a model's name: context, output, images. The longest beginning that fits wins. If a row does not say
/// it, the figures have neither date nor source.
const LIMITS: &[(&str, u64, u64, bool)] = &[
    ("gpt-4o", 128_000, 16_384, true),
    ("gpt-4.1", 1_047_576, 32_768, true),
    ("gpt-4", 8_192, 4_096, false),
    ("gpt-4-turbo", 128_000, 4_096, true),
    ("gpt-5", 400_000, 128_000, true),
    ("o1", 200_000, 100_000, true),
    ("o3", 200_000, 100_000, true),
    ("o3-mini", 200_000, 100_000, false),
    ("o4-mini", 200_000, 100_000, true),
    // A model without its own row writes no less than the ones before it.
    ("claude", 200_000, 32_000, true),
    ("claude-3-5", 200_000, 8_192, true),
    ("claude-3-opus", 200_000, 4_096, true),
    ("claude-3-haiku", 200_000, 4_096, true),
    ("claude-3-7-sonnet", 200_000, 64_000, true),
    ("claude-sonnet-4", 200_000, 64_000, true),
    ("claude-haiku-4", 200_000, 64_000, true),
    ("claude-opus-4", 200_000, 32_000, true),
    ("claude-opus-4-5", 200_000, 64_000, true),
    ("claude-opus-4-6", 200_000, 64_000, true),
    ("claude-opus-4-7", 200_000, 64_000, true),
    ("claude-opus-4-8", 200_000, 64_000, true),
    // Read in November 2026 at https://platform.claude.com/docs/about-claude/models/whats-new-opus-5. The window of Haiku is as large,
    // but a prompt of more than 100,000 tokens costs five times as much there.
    ("claude-opus-5", 1_000_000, 128_000, true),
    ("claude-sonnet-5", 200_000, 64_000, true),
    ("claude-sonnet-5-5", 1_000_000, 128_000, true),
    ("claude-haiku-5", 200_000, 64_000, true),
    ("deepseek", 128_000, 8_192, false),
    ("deepseek-reasoner", 128_000, 64_000, false),
    ("llama-3.3", 128_000, 32_768, false),
    ("glm-4-plus", 128_000, 4_095, false),
    ("glm-4.", 128_000, 98_304, false),
    ("qwen-max", 32_768, 8_192, false),
    ("qwen-coder-plus", 131_072, 8_192, false),
    ("qwen3", 131_072, 32_768, false),
    ("moonshot-v1-8k", 8_192, 4_096, false),
    ("moonshot-v1-32k", 32_768, 4_096, false),
    ("moonshot-v1-128k", 131_072, 4_096, false),
    ("kimi-k2", 262_144, 32_768, false),
    ("gemini-2.5", 1_048_576, 65_536, true),
    ("gemini-3", 1_048_576, 65_536, true),
];

/// The limits of that model. If it is not known: a context of 116,384 tokens, and otherwise the default limits. A leading
/// `vendor/` (OpenRouter) is ignored.
#[must_use]
pub fn known_limits(model: &str) -> ModelLimits {
    let name = model.rsplit('/').next().unwrap_or(model);
    let fits = LIMITS.iter().filter(|(beginning, ..)| name.starts_with(beginning));
    match fits.max_by_key(|(beginning, ..)| beginning.len()) {
        Some(&(_, context, output, images)) => ModelLimits { context, output, images },
        None => ModelLimits { context: UNKNOWN_CONTEXT, ..ModelLimits::default() },
    }
}

/// The beginnings of the names of Anthropic's models that take a schema for their answer.
#[cfg(feature = "anthropic")]
const SHAPED: &[&str] = &[
    "claude-haiku-4-5",
    "claude-sonnet-4-5",
    "claude-sonnet-4-6",
    "claude-opus-4-5",
    "claude-opus-4-6",
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-haiku-5",
    "claude-sonnet-5",
    "claude-opus-5",
];

/// Whether a model of Anthropic's takes a schema for its answer. A leading `vendor/` is ignored.
#[cfg(feature = "anthropic")]
pub(super) fn takes_schema(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    SHAPED.iter().any(|beginning| name.starts_with(beginning))
}

/// The context of an unknown model, in tokens. With the smallest reserve kept free, 100,000 tokens may be used before compaction
/// begins; this bound is for unknown models only.
const UNKNOWN_CONTEXT: u64 = 116_384;

/// The price of that model from the table, if the address is the one that the catalogue has for the provider. The price at any
/// other address (a proxy, a private server) is unknown.
pub(super) fn price_at(provider: &str, base_url: &str, model: &str) -> Option<Price> {
    let same = |known: &&KnownProvider| {
        known.name == provider && known.base_url.trim_end_matches('/') == base_url.trim().trim_end_matches('/')
    };
    PROVIDERS.iter().find(same).and_then(|known| known_price(known.name, model))
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    /// W-01: the seven providers of the design.
    #[test]
    fn the_seven_providers_are_known() {
        for name in ["deepseek", "openai", "anthropic", "groq", "zhipu", "qwen", "moonshot"] {
            let provider = PROVIDERS.iter().find(|provider| provider.name == name);
            assert!(provider.is_some_and(|provider| provider.base_url.starts_with("https://")), "{name}");
        }
    }

    /// a proxy under a provider's name sets its own prices.
    #[test]
    fn a_price_is_that_of_the_providers_own_address() {
        assert!(price_at("openai", "https://api.openai.com/v1/", "gpt-4o").is_some());
        assert_eq!(price_at("openai", "http://127.0.0.1:8/v1", "gpt-4o"), None);
        assert_eq!(price_at("mine", "https://api.openai.com/v1", "gpt-4o"), None);
    }

    /// W-06
    #[test]
    fn the_longest_fitting_beginning_gives_the_limits() {
        assert_eq!(known_limits("gpt-4o-mini").context, 128_000);
        assert_eq!(known_limits("gpt-4").context, 8_192);
        assert_eq!(known_limits("anthropic/claude-sonnet-4-20250514").output, 64_000);
    }

    /// A model whose price is known is a model that is used: its answers are not cut at the limit of a smaller one.
    #[test]
    fn every_model_of_the_price_table_has_limits_of_its_own() {
        for known in super::super::PRICES {
            let limits = known_limits(known.model);
            assert_ne!(limits.context, UNKNOWN_CONTEXT, "{}", known.model);
            let is_new_claude = known.provider == "anthropic" && !known.model.starts_with("claude-3");
            assert!(!is_new_claude || limits.output >= 32_000, "{}: {}", known.model, limits.output);
        }
        assert_eq!(known_limits("claude-never-heard-of").output, 32_000);
        assert_eq!(known_limits("claude-3-5-haiku-20241022").output, 8_192, "it refuses more");
    }

    /// The tables are written by hand, so what a script would have made sure of is made sure of here.
    #[test]
    fn the_tables_hold_together() {
        for (at, (name, context, output, _)) in LIMITS.iter().enumerate() {
            assert!((1..=*context).contains(output), "{name} writes {output} tokens into a window of {context}");
            assert!(!LIMITS[..at].iter().any(|(before, ..)| before == name), "{name} stands twice");
        }
        for (at, known) in PROVIDERS.iter().enumerate() {
            let (name, before) = (known.name, &PROVIDERS[..at]);
            let is_local = known.base_url.starts_with("http://127.0.0.1:");
            assert!(known.base_url.starts_with("https://") || is_local, "{name}: {}", known.base_url);
            assert!(!known.base_url.ends_with('/') && (known.needs_key || is_local), "{name}");
            assert!(!known.key_variables.is_empty() && known.base_url_variable.ends_with("_BASE_URL"), "{name}");
            assert!(!before.iter().any(|other| other.name == name || other.base_url == known.base_url), "{name}");
            let is_taken = |variable: &&&str| before.iter().any(|other| other.key_variables.contains(variable));
            assert_eq!(known.key_variables.iter().find(is_taken), None, "{name}: two providers read one variable");
        }
        for known in super::super::PRICES {
            let name = format!("{}/{}", known.provider, known.model);
            assert!(PROVIDERS.iter().any(|provider| provider.name == known.provider), "{name} has no such provider");
            let limits = known_limits(known.model);
            assert!(known.price.input_max.is_none_or(|most| most < limits.context), "{name} has no longer prompts");
            let (year, month) = known.seen.split_once('-').unwrap_or_default();
            let is_month = matches!(month.parse(), Ok(1_u8..=12)) && matches!(year.parse(), Ok(2024_u16..=2099));
            assert!(is_month, "{name} was seen in {}", known.seen);
        }
    }

    /// MODEL-010: whether a model sees images is known by its name.
    #[test]
    fn a_model_is_known_to_see_images() {
        let sees = ["gpt-4o-vision", "gpt-4o", "claude-sonnet-4", "o3-mini"].map(|model| known_limits(model).images);
        assert_eq!(sees, [true, true, true, false]);
    }

    /// J-04, C-11, CONFIG-ERR-001 (as C-11 has it): only for an unknown model does compaction begin at 100,000 tokens.
    #[test]
    fn a_model_of_which_nothing_is_known_has_room_for_100_000_tokens() {
        let usable = |model| {
            let limits = known_limits(model);
            crate::kernel::context::Window::new(limits.context, limits.output).usable()
        };
        assert_eq!(usable("never-heard-of"), 100_000);
        assert_eq!(usable("gpt-4o"), 128_000 - 16_384);
    }
}
