//! Finds a model by its name: `provider/model` becomes an [`HttpModel`] of that provider.
//!
//! A router is a value that the host fills with keys and addresses. All its models share one pool of connections. The limits and
//! prices that the host sets win over the known ones. A change must keep this: a router reads neither environment nor files,
//! because one process may serve several owners of keys; finding a model opens no connection; and no error shows a key.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Api, Endpoint, ErrorKind, HttpClient, HttpModel, HttpOptions, KnownProvider, Model, ModelError, ModelLimits,
    Models, PROVIDERS, Price, Prices, Quirks, RateLimits, Secret, catalogue::price_at, endpoint::without_secrets,
    known_limits,
};
use crate::words::message::ModelRef;

/// A provider as a [`Router`] knows it: a template for the endpoints of its models.
#[derive(Clone)]
#[non_exhaustive]
pub struct Provider {
    /// Its name: the first half of `provider/model`.
    pub name: String,
    /// The wire format.
    pub api: Api,
    /// Its address.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// Where the host takes the key from, such as `OPENAI_API_KEY`. The error about a missing key names it.
    pub key_from: String,
    /// Whether the provider refuses requests without a key.
    pub needs_key: bool,
    /// The limits of all its models; `None` for the known limits of each.
    pub limits: Option<ModelLimits>,
    /// The peculiarities of its server.
    pub quirks: Quirks,
    /// The most that goes to it with this key, for all sessions of a runtime together; unlimited by default.
    pub rate_limits: RateLimits,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Provider({} at {})", self.name, without_secrets(&self.base_url))
    }
}

impl Provider {
    /// A provider that is known by name, without its key.
    #[must_use]
    pub fn known(name: &str) -> Option<Provider> {
        let known = PROVIDERS.iter().find(|known| known.name == name)?;
        Some(Provider {
            key_from: known.key_variables.first().copied().unwrap_or_default().to_owned(),
            needs_key: known.needs_key,
            quirks: known.quirks,
            ..Provider::custom(known.name, known.api, known.base_url)
        })
    }

    /// A provider of the host's own: any server that speaks one of the wire formats. It needs no key.
    #[must_use]
    pub fn custom(name: impl Into<String>, api: Api, base_url: impl Into<String>) -> Provider {
        let (name, base_url, key_from) = (name.into(), base_url.into(), String::new());
        let (needs_key, limits, quirks, rate_limits) = (false, None, Quirks::NONE, RateLimits::default());
        Provider { name, api, base_url, key: None, key_from, needs_key, limits, quirks, rate_limits }
    }

    /// The same provider with a key.
    #[must_use]
    pub fn with_key(mut self, key: Secret) -> Provider {
        self.key = Some(key).filter(|key| !key.is_empty());
        self
    }

    /// The same provider at another address. A proxy or a local server may answer there, so no key is needed, and a known provider
    /// has the quirks of a server elsewhere.
    #[must_use]
    pub fn with_base_url(mut self, base_url: impl Into<String>) -> Provider {
        let base_url = base_url.into();
        let is_known = |known: &&KnownProvider| known.name == self.name && known.quirks == self.quirks;
        let known = PROVIDERS.iter().find(is_known);
        if let Some(known) = known.filter(|known| known.base_url != base_url.trim().trim_end_matches('/')) {
            self.quirks = known.quirks_elsewhere;
        }
        self.base_url = base_url;
        self.needs_key = false;
        self
    }

    /// The same provider with limits on what goes to it; see [`RateLimits`].
    #[must_use]
    pub fn with_rate_limits(mut self, limits: RateLimits) -> Provider {
        self.rate_limits = limits;
        self
    }

    /// One of its models, with connections of its own. Opens none yet, and asks nobody whether the model exists: the first request
    /// does. A host with several models shares connections by a [`Router`].
    ///
    /// # Errors
    /// [`ErrorKind::Auth`] if the provider needs a key and has none; [`ErrorKind::InvalidRequest`] for a base URL that is not one, or a
    /// key that cannot be sent in a header.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        Router::new(HttpOptions::default())
            .with(self.clone())
            .find(&ModelRef { provider: self.name.clone(), model: name.to_owned() })
    }

    fn endpoint(&self, model: &str, limits: ModelLimits) -> Result<Endpoint, ModelError> {
        if self.needs_key && self.key.is_none() {
            let message = match self.key_from.as_str() {
                "" => format!("no key for provider {}", self.name),
                from => format!("no key for provider {}: set {from}", self.name),
            };
            return Err(ModelError::new(ErrorKind::Auth, message));
        }
        Ok(Endpoint {
            key: self.key.clone(),
            limits,
            quirks: self.quirks,
            rate_limits: self.rate_limits,
            ..Endpoint::new(self.api, &self.name, &self.base_url, model)
        })
    }
}

/// OpenAI, with this key. Fails on no input: a key that cannot be sent is the error of [`Provider::model`].
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tamtam::{Runtime, model};
///
/// let key = std::env::var("OPENAI_API_KEY")?;
/// let runtime = Runtime::builder().model(model::openai(key).model("gpt-4o")?).start().await?;
/// # Ok(()) }
/// ```
#[cfg(feature = "openai")]
#[must_use]
pub fn openai(key: impl Into<Secret>) -> Provider {
    named("openai", Api::OpenAiChat).with_key(key.into())
}

/// Anthropic, with this key.
#[cfg(feature = "anthropic")]
#[must_use]
pub fn anthropic(key: impl Into<Secret>) -> Provider {
    named("anthropic", Api::AnthropicMessages).with_key(key.into())
}

/// Gemini by its own API, with this key.
#[cfg(feature = "gemini")]
#[must_use]
pub fn gemini(key: impl Into<Secret>) -> Provider {
    named("gemini", Api::GeminiGenerateContent).with_key(key.into())
}

/// Ollama on this machine, at its usual address (`http://127.0.0.1:11434/v1`), without a key.
#[cfg(feature = "openai")]
#[must_use]
pub fn ollama() -> Provider {
    Provider::custom("ollama", Api::OpenAiChat, "http://127.0.0.1:11434/v1")
}

/// Any server that speaks OpenAI's Chat Completions, by its base URL, such as `http://127.0.0.1:8080/v1`. Its models are called
/// `compatible/NAME`. It needs no key; [`Provider::with_key`] gives it one.
#[cfg(feature = "openai")]
#[must_use]
pub fn compatible(base_url: impl Into<String>) -> Provider {
    Provider::custom("compatible", Api::OpenAiChat, base_url)
}

/// A provider of the table; with its wire in the build it is there, so the plain one is never used.
fn named(name: &str, api: Api) -> Provider {
    Provider::known(name).unwrap_or_else(|| Provider::custom(name, api, ""))
}

/// All providers that a host uses.
///
/// ```
/// use tamtam::model::{HttpOptions, Models, Provider, Router, Secret};
///
/// let router = Router::new(HttpOptions::default())
///     .with(Provider::known("openai").unwrap().with_key(Secret::new("not-shown")));
/// assert!(router.find(&"openai/gpt-4o".parse().unwrap()).is_ok());
///
/// let missing = router.find(&"deepseek/deepseek-chat".parse().unwrap()).err().unwrap();
/// assert_eq!(missing.to_string(), "no key for provider deepseek: set DEEPSEEK_API_KEY");
/// ```
#[derive(Clone, Debug)]
pub struct Router {
    providers: BTreeMap<String, Provider>,
    limits: BTreeMap<ModelRef, ModelLimits>,
    prices: Prices,
    client: HttpClient,
}

impl Router {
    /// A router that knows [`PROVIDERS`] and has no keys.
    #[must_use]
    pub fn new(options: HttpOptions) -> Router {
        let known = PROVIDERS.iter().filter_map(|known| Provider::known(known.name));
        Router {
            providers: known.map(|provider| (provider.name.clone(), provider)).collect(),
            limits: BTreeMap::new(),
            prices: Prices::default(),
            client: HttpClient::new(options),
        }
    }

    /// The same router with that provider. It replaces a provider of the same name.
    #[must_use]
    pub fn with(mut self, provider: Provider) -> Router {
        self.providers.insert(provider.name.clone(), provider);
        self
    }

    /// The same router with limits for one model that the host knows better.
    #[must_use]
    pub fn with_limits(mut self, model: ModelRef, limits: ModelLimits) -> Router {
        self.limits.insert(model, limits);
        self
    }

    /// The same router with a price for one model that the host knows better.
    #[must_use]
    pub fn with_price(mut self, model: ModelRef, price: Price) -> Router {
        self.prices.set(model, price);
        self
    }

    /// The providers that it knows, by name.
    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.providers.values()
    }

    /// The endpoint of that name, or why there is none.
    pub fn endpoint(&self, name: &ModelRef) -> Result<Endpoint, ModelError> {
        let Some(provider) = self.providers.get(&name.provider) else {
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let message = format!("unknown provider {:?}: use one of {}", name.provider, known.join(", "));
            return Err(ModelError::new(ErrorKind::NotFound, message));
        };
        provider.endpoint(&name.model, self.limits_of(name))
    }
}

impl Models for Router {
    fn find(&self, name: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(HttpModel::with_client(self.endpoint(name)?, self.client.clone())?))
    }

    fn limits_of(&self, name: &ModelRef) -> ModelLimits {
        let provider = self.providers.get(&name.provider);
        let by_name = || {
            let known = known_limits(&name.model);
            let images = provider.and_then(|provider| provider.quirks.images);
            ModelLimits { images: images.unwrap_or(known.images), ..known }
        };
        let own = || provider.and_then(|provider| provider.limits);
        self.limits.get(name).copied().or_else(own).unwrap_or_else(by_name)
    }

    fn price_of(&self, name: &ModelRef) -> Option<Price> {
        let own = || {
            let provider = self.providers.get(&name.provider)?;
            price_at(&provider.name, &provider.base_url, &name.model)
        };
        self.prices.get(name).or_else(own)
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::model::{Proxies, ReasoningBack};

    fn name(text: &str) -> ModelRef {
        text.parse().unwrap()
    }

    /// PROVIDER-004, 012, MODEL-013
    #[test]
    fn an_unknown_provider_is_an_error_that_lists_the_known() {
        let error = Router::new(HttpOptions::default()).find(&name("nobody/x")).err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound);
        let expected = "unknown provider \"nobody\": use one of anthropic, deepseek, gemini, groq, local, moonshot, openai, openrouter, qwen, zhipu";
        assert_eq!(error.message, expected);
    }

    /// MODEL-011, MODEL-012: a model is a provider and a name, listed or not; if the provider has no key, the error names the
    /// variable that usually holds it.
    #[test]
    fn a_model_is_found_by_its_provider_and_name() {
        let with_key = |provider: &str| Provider::known(provider).unwrap().with_key(Secret::new("k"));
        let router = Router::new(HttpOptions::default()).with(with_key("deepseek"));
        let model = router.find(&name("deepseek:deepseek-chat")).unwrap();
        assert_eq!((model.id().provider.as_str(), model.id().model.as_str()), ("deepseek", "deepseek-chat"));
        let unlisted = name("anthropic:claude-3-opus");
        let error = router.find(&unlisted).err().unwrap();
        assert_eq!(error.message, "no key for provider anthropic: set ANTHROPIC_API_KEY");
        assert_eq!(router.with(with_key("anthropic")).find(&unlisted).unwrap().id(), &unlisted);
    }

    /// PROVIDER-001, 002, 011: a registered provider is listed, and replaces an earlier one of the same name.
    #[test]
    fn each_registered_provider_is_listed_once() {
        let mut router = Router::new(HttpOptions::default());
        let custom = |name: &str| Provider::custom(name, Api::OpenAiChat, "http://127.0.0.1:1/v1");
        for (registered, own) in [("one", "one"), ("two", "one two"), ("six", "one six two"), ("two", "one six two")] {
            router = router.with(custom(registered));
            let error = router.find(&name("nobody/x")).err().unwrap().message;
            let known = error.split("use one of ").nth(1).unwrap().split(", ");
            let added: Vec<_> = known.filter(|known| Provider::known(known).is_none()).collect();
            assert_eq!(added.join(" "), own);
        }
    }

    /// PROVIDER-008: a provider whose address is none is refused by name before anything is asked, and so is a key that cannot be sent.
    #[test]
    fn a_provider_that_cannot_be_reached_as_it_is_described_is_refused() {
        let found = |provider| Router::new(HttpOptions::default()).with(provider).find(&name("mine/m")).err().unwrap();
        let at = |url: &str| Provider::custom("mine", Api::OpenAiChat, url);
        for (url, why) in
            [("", "not a url"), ("host", "not a url"), ("ftp://host/v1", "use http://HOST or https://HOST")]
        {
            let error = found(at(url));
            let expected = format!("bad base url {url:?} of mine: {why}");
            assert_eq!((error.kind, error.message), (ErrorKind::InvalidRequest, expected));
        }
        let error = found(at("http://host/v1").with_key(Secret::new("two\nlines")));
        assert_eq!(error.kind, ErrorKind::Auth);
        assert!(error.message.starts_with("the key of mine has characters"), "{error}");
    }

    /// CROSS-ERR-008: a provider is what its name says, with the address as it is; an own server at a known provider's address is no
    /// such provider, and has none of its quirks.
    #[test]
    fn an_address_makes_no_provider() {
        let url = "https://api.deepseek.com/v1";
        let known = Provider::known("deepseek").unwrap().with_base_url(url);
        let own = Provider::custom("mine", Api::OpenAiChat, url);
        let router = Router::new(HttpOptions::default()).with(known).with(own);
        let at = |model: &str| router.endpoint(&name(model)).unwrap();
        let (known, own) = (at("deepseek/m"), at("mine/m"));
        assert_eq!((known.provider.as_str(), own.provider.as_str()), ("deepseek", "mine"));
        assert_eq!((known.url(), own.url()), (format!("{url}/chat/completions"), format!("{url}/chat/completions")));
        assert_eq!((known.quirks.reasoning, own.quirks), (ReasoningBack::WithCalls, Quirks::NONE));
    }

    /// BDD MODEL-004
    #[test]
    fn a_missing_key_names_where_the_host_takes_it_from() {
        let mut provider = Provider::known("anthropic").unwrap();
        provider.key_from = "the vault at team/claude".into();
        let router = Router::new(HttpOptions::default()).with(provider);
        let error = router.find(&name("anthropic/claude-sonnet-4")).err().unwrap();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ErrorKind::Auth, "no key for provider anthropic: set the vault at team/claude")
        );
    }

    #[test]
    fn a_server_of_the_hosts_own_needs_no_key_and_its_limits_win() {
        let limits = ModelLimits { context: 4096, ..ModelLimits::default() };
        let router = Router::new(HttpOptions::default())
            .with(Provider::custom("mine", Api::OpenAiChat, "http://127.0.0.1:1/v1"))
            .with_limits(name("mine/org/m:7b"), limits);
        let model = router.find(&name("mine/org/m:7b")).unwrap();
        assert_eq!((model.id().to_string().as_str(), model.limits()), ("mine/org/m:7b", limits));
        assert!(router.find(&name("local/llama")).is_ok());
    }

    /// A model on a private server sees no images unless the host says so, under any name.
    #[test]
    fn a_local_model_has_no_eyes_unless_it_is_said() {
        let sees = |router: &Router| router.limits_of(&name("local/gemma-vision")).images;
        let router = Router::new(HttpOptions::default());
        assert!(!sees(&router) && router.limits_of(&name("openai/gpt-4o")).images);
        let mut local = Provider::known("local").unwrap();
        local.quirks.images = Some(true);
        assert!(sees(&router.clone().with(local)));
        assert!(sees(&router.with_limits(name("local/gemma-vision"), ModelLimits::default())));
    }

    /// A server in Anthropic's place may think and sign nothing; Anthropic's own refuses what is not signed.
    #[test]
    fn unsigned_thoughts_go_back_to_a_server_elsewhere_alone() {
        let back = |url: Option<&str>| {
            let known = Provider::known("anthropic").unwrap();
            url.map_or(known.clone(), |url| known.with_base_url(url)).quirks.reasoning
        };
        assert_eq!(back(None), ReasoningBack::Never);
        assert_eq!(back(Some("https://api.anthropic.com/")), ReasoningBack::Never);
        assert_eq!(back(Some("https://api.moonshot.cn/anthropic")), ReasoningBack::WithCalls);
    }

    /// X-01: the host's price wins over the table, and a model that neither knows has none.
    #[test]
    fn the_hosts_price_wins_over_the_table() {
        let own = Price::new(crate::words::usage::MicroUsd(1), crate::words::usage::MicroUsd(2));
        let router = Router::new(HttpOptions::default()).with_price(name("openai/gpt-4o"), own);
        assert_eq!(router.price_of(&name("openai/gpt-4o")), Some(own));
        assert_eq!(router.price_of(&name("openai/gpt-4o-mini")), super::super::known_price("openai", "gpt-4o-mini"));
        assert_eq!(router.price_of(&name("local/llama")), None);
        let proxied = Provider::known("openai").unwrap().with_base_url("http://127.0.0.1:9/v1");
        assert_eq!(router.with(proxied).price_of(&name("openai/gpt-4o-mini")), None);
    }

    #[test]
    fn a_model_in_one_line() {
        let names = [
            openai("k").model("gpt-4o"),
            anthropic("k").model("claude-sonnet-4"),
            gemini("k").model("gemini-2.5-flash"),
            ollama().model("qwen3:8b"),
            compatible("http://127.0.0.1:8080/v1").model("m"),
        ];
        let names = names.map(|model| model.unwrap().id().to_string());
        assert_eq!(
            names,
            [
                "openai/gpt-4o",
                "anthropic/claude-sonnet-4",
                "gemini/gemini-2.5-flash",
                "ollama/qwen3:8b",
                "compatible/m"
            ]
        );
        let window = |model: Arc<dyn Model>| model.limits().context;
        assert_eq!(window(openai("k").model("gpt-4o").unwrap()), known_limits("gpt-4o").context);
        let kind = |model: Result<Arc<dyn Model>, ModelError>| model.err().unwrap().kind;
        assert_eq!(kind(openai("").model("gpt-4o")), ErrorKind::Auth);
        assert_eq!(kind(compatible("nonsense").model("m")), ErrorKind::InvalidRequest);
    }

    /// K01
    #[test]
    fn debug_of_a_router_shows_no_key() {
        let provider = Provider::known("openai").unwrap().with_key(Secret::new("sk-CANARY"));
        let options =
            HttpOptions { proxies: Proxies::all("http://user:CANARY@proxy".into()), ..HttpOptions::default() };
        assert!(!format!("{:?}", Router::new(options).with(provider)).contains("CANARY"));
    }

    #[test]
    fn a_base_url_that_is_none_is_said_at_once() {
        for base in ["nonsense", "ftp://h/v1", "http://"] {
            let router = Router::new(HttpOptions::default()).with(Provider::custom("mine", Api::OpenAiChat, base));
            assert_eq!(router.find(&name("mine/m")).err().unwrap().kind, ErrorKind::InvalidRequest, "{base}");
        }
    }
}
