//! The address of a model's provider, the peculiarities of its server, and the limits of connections.
//! All of it comes from the host: nothing here is read from the environment or from a file. The wire formats reach every
//! provider of [`PROVIDERS`](super::PROVIDERS); where an "OpenAI-compatible" server differs from OpenAI, a [`Quirks`] record says
//! so.
//!
//! A change must keep this: a difference between servers is a field of [`Quirks`] and never a test for a provider's name, and no
//! key or password shows in `Debug` or in an error.

use std::{fmt, time::Duration};

use super::{Addresses, Exchanges, ModelLimits, RateLimits, Secret};

/// The wire format of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// OpenAI's Chat Completions: `POST {base_url}/chat/completions`. With the feature `openai`.
    #[cfg(feature = "openai")]
    OpenAiChat,
    /// OpenAI's Responses: `POST {base_url}/responses`, with nothing kept on the server. With the feature `openai`.
    #[cfg(feature = "openai")]
    OpenAiResponses,
    /// Anthropic's Messages: `POST {base_url}/v1/messages`. With the feature `anthropic`.
    #[cfg(feature = "anthropic")]
    AnthropicMessages,
    /// Gemini's own API: `POST {base_url}/models/{model}:streamGenerateContent`; an `/openai` at the end of the base URL is left out.
    /// With the feature `gemini`.
    #[cfg(feature = "gemini")]
    GeminiGenerateContent,
}

impl Api {
    /// Its name in [`Extra::api`](crate::words::message::Extra::api).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(feature = "openai")]
            Api::OpenAiChat => "openai-chat",
            #[cfg(feature = "openai")]
            Api::OpenAiResponses => "openai-responses",
            #[cfg(feature = "anthropic")]
            Api::AnthropicMessages => "anthropic-messages",
            #[cfg(feature = "gemini")]
            Api::GeminiGenerateContent => "gemini-generate-content",
        }
    }
}

/// How a provider's server differs from the original of its wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quirks {
    /// The name of the field for the limit of output tokens (Chat Completions).
    pub max_tokens: MaxTokensField,
    /// Whether usage must be asked for with `stream_options` (Chat Completions). A few servers refuse that field.
    pub stream_options: bool,
    /// Whether, and how, earlier reasoning is sent back. A thought that came encrypted (Responses) or with a signature (Messages,
    /// Gemini) always is. On the Messages API [`ReasoningBack::WithCalls`] is for a server that signs nothing and still wants its
    /// thoughts back.
    pub reasoning: ReasoningBack,
    /// How the server is told how much to think (Chat Completions).
    pub thinking: ThinkingField,
    /// How the server is told the shape of an answer (Chat Completions, Messages).
    pub answer: AnswerField,
    /// The dialect of JSON schema for the arguments of tools. Gemini's own API gets its subset, whatever is set here.
    pub schema: SchemaDialect,
    /// Whether to mark the prefix that the provider should cache for the next request (Messages).
    pub auto_cache: bool,
    /// Whether its models take images; `None` if their names decide. A host's own limits win
    /// ([`Router::with_limits`](super::Router::with_limits)).
    pub images: Option<bool>,
    /// The most bytes of one image as base64. A line replaces a larger one.
    pub image_bytes_max: usize,
    /// For a server that reads its prompts slowly, such as one on this machine: the limit instead of
    /// [`HttpOptions::first_timeout`]. At its end the request fails as [`ErrorKind::Silent`](super::ErrorKind::Silent), which a
    /// session does not retry, because the server would start over.
    pub first_timeout: Option<Duration>,
    /// Whether requests go over a WebSocket, where the provider takes steering messages in mid-answer (Responses, with the feature
    /// `websocket`). A server that has none is asked over HTTP.
    pub websocket: bool,
}

impl Quirks {
    /// No peculiarities.
    pub(crate) const NONE: Quirks = Quirks {
        max_tokens: MaxTokensField::MaxTokens,
        stream_options: true,
        reasoning: ReasoningBack::Never,
        thinking: ThinkingField::Effort,
        answer: AnswerField::SchemaAlone,
        schema: SchemaDialect::Plain,
        auto_cache: false,
        images: None,
        image_bytes_max: 20 << 20,
        first_timeout: None,
        websocket: false,
    };
}

impl Default for Quirks {
    fn default() -> Quirks {
        Quirks::NONE
    }
}

/// The name of the output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaxTokensField {
    /// `max_tokens`, which nearly every server takes.
    MaxTokens,
    /// `max_completion_tokens`, which OpenAI's reasoning models insist on.
    MaxCompletionTokens,
}

/// How a server is told the shape of an answer ([`Params::answer_schema`](super::Params::answer_schema)). Where it is not given the
/// schema, a reminder behind the conversation says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerField {
    /// It is given the schema.
    Schema,
    /// It is given the schema where the request has no tools (Chat Completions): a server that binds its model to the schema binds the
    /// calls too, so that none can be made.
    SchemaAlone,
    /// It is asked for JSON where the request has no tools, and always told the schema in words (Chat Completions). What such a server
    /// makes of words beside calls is not JSON: DeepSeek's sends blanks in their place.
    Json,
    /// It is only told in words.
    Words,
}

impl AnswerField {
    /// Whether a request without tools is given the schema.
    pub(crate) fn is_schema(self) -> bool {
        matches!(self, AnswerField::Schema | AnswerField::SchemaAlone)
    }
}

/// How a server is told how much to think ([`Params::thinking`](super::Params::thinking)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThinkingField {
    /// By a word: `reasoning_effort`.
    Effort,
    /// By a word in a record: `reasoning: {effort}` (OpenRouter).
    Record,
    /// By a switch, `thinking: {type}`, and beside it by a word where the model has more than one level.
    Switch,
    /// By a switch, `enable_thinking`, and beside it by a number of tokens, `thinking_budget` (Qwen).
    Budget,
}

/// Whether, and how, reasoning is sent back. It goes only to the provider that it came from.
///
/// The rendering of an answer never depends on what came after it. Rejected: a rule such as "only in the current turn", which
/// would change the prefix of later requests and lose the provider's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningBack {
    /// Reasoning is not sent back.
    Never,
    /// Every answer with calls carries `reasoning_content`, empty without reasoning. DeepSeek refuses a conversation in which an
    /// answer with calls lacks the field. On the Messages API it carries its thoughts, also unsigned ones.
    WithCalls,
    /// An answer carries the `reasoning_details` that came with it, unchanged (OpenRouter).
    Details,
}

/// The dialect of JSON schema that a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaDialect {
    /// JSON schema as the tools define it, with `type` and `properties` always present.
    Plain,
    /// The subset that Gemini takes: no references, no `additionalProperties`, no `const`, one type each.
    Gemini,
}

/// One model at one address.
#[derive(Clone)]
#[non_exhaustive]
pub struct Endpoint {
    /// The provider's name: the first half of the model's [`ModelRef`](crate::words::message::ModelRef).
    pub provider: String,
    /// `http(s)://host[:port][/path]`, to which the path of the API is added.
    pub base_url: String,
    /// The wire format.
    pub api: Api,
    /// The key; `None` if the server wants none.
    pub key: Option<Secret>,
    /// The model, by the provider's name for it.
    pub model: String,
    /// The bounds of the model's requests and answers.
    pub limits: ModelLimits,
    /// The peculiarities of the server.
    pub quirks: Quirks,
    /// What its governor lets go to this address with this key.
    pub rate_limits: RateLimits,
}

impl Endpoint {
    /// An endpoint without a key and without quirks.
    #[must_use]
    pub fn new(
        api: Api,
        provider: impl Into<String>,
        base_url: impl Into<String>,
        model: impl Into<String>,
    ) -> Endpoint {
        let (provider, base_url, model) = (provider.into(), base_url.into(), model.into());
        let (limits, rate_limits) = (ModelLimits::default(), RateLimits::default());
        Endpoint { provider, base_url, api, key: None, model, limits, quirks: Quirks::NONE, rate_limits }
    }

    /// The same endpoint with a key.
    #[must_use]
    pub fn with_key(mut self, key: Secret) -> Endpoint {
        self.key = Some(key);
        self
    }

    /// The address that requests are posted to.
    #[must_use]
    pub(crate) fn url(&self) -> String {
        let base = self.base_url.trim().trim_end_matches('/');
        match self.api {
            #[cfg(feature = "openai")]
            Api::OpenAiChat => format!("{base}/chat/completions"),
            #[cfg(feature = "openai")]
            Api::OpenAiResponses => format!("{base}/responses"),
            // Both forms of the base URL are in use: with and without the version.
            #[cfg(feature = "anthropic")]
            Api::AnthropicMessages if base.ends_with("/v1") => format!("{base}/messages"),
            #[cfg(feature = "anthropic")]
            Api::AnthropicMessages => format!("{base}/v1/messages"),
            // Chat Completions are at the same address with `/openai` behind it, so one address does for both.
            #[cfg(feature = "gemini")]
            Api::GeminiGenerateContent => {
                let base = base.strip_suffix("/openai").unwrap_or(base);
                let model = self.model.strip_prefix("models/").unwrap_or(&self.model);
                format!("{base}/models/{model}:streamGenerateContent?alt=sse")
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({}/{} at {})", self.provider, self.model, without_secrets(&self.base_url))
    }
}

/// A URL without user, password and query: each of them may hold a key.
pub(crate) fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    // An address without a scheme cannot be reached, so the error shows it.
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let scheme = &url[..url.len() - rest.len()];
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}{}{path}", host.rsplit('@').next().unwrap_or_default())
}

/// Limits and settings of the connections. Every limit ends the request with a typed error, except
/// [`end_timeout`](HttpOptions::end_timeout), which ends it with the answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The longest time to make a connection; 10 s by default.
    pub connect_timeout: Duration,
    /// The longest silence before the first piece of the answer: a text, a thought or a call; 5 min by default. Anything the
    /// server sends ends the silence, even a comment or a ping. A server may have its own limit ([`Quirks::first_timeout`]).
    pub first_timeout: Duration,
    /// The longest time between two events of the answer; 120 s by default. Comments and pings do not count as events.
    pub idle_timeout: Duration,
    /// The longest time of the whole request; 30 min by default. A runtime allows no request more than an hour.
    pub total_timeout: Duration,
    /// The longest wait for the end mark and the usage, after the model has said why it stopped; 10 s by default. Then the answer
    /// counts as complete.
    pub end_timeout: Duration,
    /// The most bytes of one event; 8 MiB by default.
    pub event_bytes_max: usize,
    /// The most bytes of one answer; 64 MiB by default.
    pub answer_bytes_max: usize,
    /// The proxies of requests; none by default. No proxy is taken from the environment.
    pub proxies: Proxies,
    /// Certificates to trust besides the system's own, as PEM.
    pub extra_roots_pem: Vec<String>,
    /// Which addresses requests may reach; any by default.
    pub addresses: Addresses,
    /// A file that the exchanges of models are recorded into, or played from: for tests. None by default.
    pub exchanges: Option<Exchanges>,
}

/// HTTP proxies, such as `http://user:password@host:3128`, by the scheme of the address that is asked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Proxies {
    /// The proxy for plain requests (`http`).
    pub http: Option<Secret>,
    /// The proxy for secure requests (`https`).
    pub https: Option<Secret>,
    /// Hosts that are reached without a proxy, as the variable `NO_PROXY` lists them: names, which include the names below them,
    /// addresses and ranges of addresses, parted by commas.
    pub except: String,
}

impl Proxies {
    /// One proxy for all requests.
    #[must_use]
    pub fn all(proxy: Secret) -> Proxies {
        Proxies { http: Some(proxy.clone()), https: Some(proxy), except: String::new() }
    }
}

impl Default for HttpOptions {
    fn default() -> HttpOptions {
        HttpOptions {
            connect_timeout: Duration::from_secs(10),
            first_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(120),
            total_timeout: Duration::from_secs(30 * 60),
            end_timeout: Duration::from_secs(10),
            event_bytes_max: 8 << 20,
            answer_bytes_max: 64 << 20,
            proxies: Proxies::default(),
            extra_roots_pem: Vec::new(),
            addresses: Addresses::Any,
            exchanges: None,
        }
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    /// K01
    #[test]
    fn debug_of_an_endpoint_shows_no_key_wherever_it_was_put() {
        let base = "https://user:sk-CANARY-1@host/v1?key=sk-CANARY-2";
        let endpoint = Endpoint::new(Api::OpenAiChat, "custom", base, "m").with_key(Secret::new("sk-CANARY-3"));
        let shown = format!("{endpoint:?}");
        assert!(!shown.contains("CANARY"), "{shown}");
        assert!(shown.contains("https://host/v1"), "{shown}");
        assert_eq!(without_secrets("user:sk-CANARY@host/v1"), "host/v1", "without a scheme too");
        let provider = crate::model::Provider::known("openai").map(|known| known.with_base_url(base));
        let shown = format!("{provider:?}");
        assert!(!shown.contains("CANARY") && shown.contains("https://host/v1"), "{shown}");
    }

    #[test]
    fn the_path_of_the_api_is_added_once() {
        let url = |api, base: &str| Endpoint::new(api, "p", base, "m").url();
        assert_eq!(url(Api::OpenAiChat, "http://h/v1/"), "http://h/v1/chat/completions");
        assert_eq!(url(Api::AnthropicMessages, "http://h"), "http://h/v1/messages");
        assert_eq!(url(Api::AnthropicMessages, "http://h/v1"), "http://h/v1/messages");
        assert_eq!(url(Api::OpenAiResponses, "http://h/v1"), "http://h/v1/responses");
        let gemini = "http://h/v1beta/models/m:streamGenerateContent?alt=sse";
        assert_eq!(url(Api::GeminiGenerateContent, "http://h/v1beta/"), gemini);
        assert_eq!(url(Api::GeminiGenerateContent, "http://h/v1beta/openai"), gemini);
    }
}
