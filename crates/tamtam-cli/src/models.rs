//! Chooses the model and its endpoint from the arguments, the session and the environment variables.
//!
//! Where neither the arguments nor the session name a model, the default model of the first provider with a key is used, in the
//! order of [`PROVIDERS`], and [`Choice::found`] says so. An unknown provider or a missing key fails before a session is opened.
//! The one request made here asks a local server for its first model, if no model is named and no other provider has a key.
//!
//! A change must keep this: variables are read through [`Environment`] only, and no message contains a key. So addresses are
//! printed through [`shown`] only.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    ModelRef,
    model::{AnswerSchema, Api, Models, PROVIDERS, Params, Provider, ReasoningBack, Router, Scripted, Secret},
    session::{Fallback, estimated_tokens},
};

use super::{
    arguments::ModelArguments, environment::Environment, failure::Failure, local_server, named_file, quirks, rates,
};

/// Largest script file.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;

/// Default model of each provider, used when no model is named: the newest of the catalogue that is priced for everyday work.
const DEFAULTS: &[(&str, &str)] = &[
    ("openai", "gpt-5.1"),
    ("anthropic", "claude-sonnet-5-5"),
    ("deepseek", "deepseek-flash"),
    ("groq", "llama-3.3-70b-versatile"),
    ("zhipu", "glm-4.6"),
    ("qwen", "qwen-max"),
    ("moonshot", "kimi-k2-turbo-preview"),
    ("openrouter", "openrouter/auto"),
    ("gemini", "gemini-2.5-flash"),
];

/// The chosen model, and the [`Models`] that resolves it.
pub(super) struct Choice {
    pub(super) models: Arc<dyn Models>,
    pub(super) model: ModelRef,
    /// Name of the variable from which the key is read, for hints, set or not; empty for a script.
    pub(super) key_from: String,
    /// Address of the model, for hints; empty for a script. It may hold a password: print it through [`shown`].
    pub(super) base_url: String,
    /// Whether the model can be sent images, and whether PDF files.
    pub(super) takes: Takes,
    /// The tokens that the model reads at most.
    window: u64,
    /// Why this model was chosen, where nobody named it: the variable with the key, or the local server.
    pub(super) found: Option<String>,
}

impl Choice {
    /// Refuses a prompt that the model cannot read even alone: its request would be refused, and paid for by some servers.
    pub(super) fn check_prompt(&self, text: &str) -> Result<(), Failure> {
        let tokens = estimated_tokens(text);
        if tokens <= self.window {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the prompt has about {tokens} tokens, and {} reads at most {}: put the text into a file that the agent can read",
            self.model, self.window
        )))
    }
}

/// The files that a model can be sent beside text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Takes {
    images: bool,
    pdf: bool,
}

impl Takes {
    /// Why a file of this media type is not sent; `None` where it is.
    pub(super) fn refusal(self, mime: &str, model: &ModelRef) -> Option<String> {
        match mime {
            "text/plain" => None,
            "application/pdf" if self.pdf => None,
            mime if mime.starts_with("image/") && self.images => None,
            mime if mime.starts_with("image/") => {
                Some(format!("{model} takes no images; if it does, say so with --images true"))
            }
            "application/pdf" => Some(format!("{model} takes no PDF files")),
            _ => Some("it is neither text nor an image nor a PDF file".to_owned()),
        }
    }
}

/// Chooses the named model, else the session's model, else a default: the default model of the first provider with a key, or the
/// first model of a local server.
pub(super) async fn choose(
    given: &ModelArguments,
    of_session: Option<&ModelRef>,
    environment: &Environment,
) -> Result<Choice, Failure> {
    let (named, base_url) = (given.model.as_deref(), given.base_url.as_deref());
    if let Some(file) = named.and_then(|named| named.strip_prefix("scripted:")) {
        return scripted(file);
    }
    let mut found = None;
    let model = match (named, of_session) {
        (Some(named), _) => {
            named.parse().map_err(|error: tamtam::session::BadModelRef| Failure::usage(error.to_string()))?
        }
        (None, Some(model)) if model.provider == "scripted" => {
            return Err(Failure::usage(format!(
                "the session plays {model}: name its script with --model scripted:FILE"
            )));
        }
        (None, Some(model)) => model.clone(),
        (None, None) => {
            let (model, why) = find(base_url, environment).await?;
            found = Some(why);
            model
        }
    };
    let router = router(&model.provider, given, environment)?;
    // Fails here, before a session is opened, if the provider is unknown or its key is missing.
    let endpoint = router.endpoint(&model).map_err(|error| Failure::usage(error.message))?;
    // So does an address that is none.
    router.find(&model).map_err(|error| Failure::usage(error.message))?;
    // And the models behind it: that one of them has no key would be heard only when it is needed.
    for behind in &given.fallback {
        let refused =
            |error: tamtam::model::ModelError| Failure::usage(format!("fallback {}: {}", behind.model, error.message));
        router.endpoint(&behind.model).map_err(refused)?;
    }
    let provider = router.providers().find(|provider| provider.name == model.provider);
    let key_from = provider.map(|provider| provider.key_from.clone()).unwrap_or_default();
    let (images, window) = (endpoint.limits.images, endpoint.limits.context);
    let takes = Takes { images, pdf: images && endpoint.api != Api::OpenAiChat };
    Ok(Choice { models: Arc::new(router), model, key_from, base_url: endpoint.base_url, takes, window, found })
}

fn scripted(file: &str) -> Result<Choice, Failure> {
    let refused = |why: &dyn std::fmt::Display| Failure::usage(format!("cannot play {file}: {why}"));
    let text = named_file::text(Path::new(file), SCRIPT_BYTES_MAX).map_err(|why| refused(&why))?;
    let script = Scripted::from_json(&text).map_err(|error| refused(&error))?;
    let model = tamtam::model::Model::id(&script).clone();
    let takes = Takes { images: true, pdf: true };
    Ok(Choice {
        models: Arc::new(script),
        model,
        key_from: String::new(),
        base_url: String::new(),
        takes,
        // A script has no server that could refuse it.
        window: u64::MAX,
        found: None,
    })
}

/// The words for which of a model's thoughts are sent back.
const REASONING_BACK: &[(&str, ReasoningBack)] =
    &[("never", ReasoningBack::Never), ("with_calls", ReasoningBack::WithCalls), ("details", ReasoningBack::Details)];

/// Which of a model's thoughts are sent back, from its word.
pub(super) fn reasoning_back(text: &str) -> Result<ReasoningBack, String> {
    let found = REASONING_BACK.iter().find(|(word, _)| *word == text);
    found.map(|(_, back)| *back).ok_or_else(|| format!("{text:?} is none of never, with_calls and details"))
}

/// The word for it.
pub(super) fn reasoning_back_in_words(back: ReasoningBack) -> &'static str {
    REASONING_BACK.iter().find(|(_, of)| *of == back).map_or("never", |(word, _)| word)
}

/// A sampling temperature from its text.
pub(super) fn temperature(text: &str) -> Result<f32, String> {
    number(text, 2.0)
}

/// The share of nucleus sampling from its text.
pub(super) fn top_p(text: &str) -> Result<f32, String> {
    number(text, 1.0)
}

fn number(text: &str, most: f32) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to {most}"))
}

/// Puts what was asked for over the parameters of a session: what the arguments say wins over its agent, and its agent over what a
/// file says of the model.
pub(super) fn sampling(by_arguments: &ModelArguments, with_files: &ModelArguments, params: &mut Params) {
    params.thinking = by_arguments.thinking.or(params.thinking).or(with_files.thinking);
    params.temperature = by_arguments.temperature.or(params.temperature).or(with_files.temperature);
    params.top_p = by_arguments.top_p.or(params.top_p).or(with_files.top_p);
}

/// The chain behind the model: that of the arguments, else of the agent, else of the files.
pub(super) fn fallback(
    by_arguments: &ModelArguments,
    with_files: &ModelArguments,
    of_agent: Vec<Fallback>,
) -> Vec<Fallback> {
    let chains = [by_arguments.fallback.clone(), of_agent, with_files.fallback.clone()];
    chains.into_iter().find(|chain| !chain.is_empty()).unwrap_or_default()
}

/// The largest file of a schema.
const SCHEMA_BYTES_MAX: u64 = 1 << 20;

/// The schema of the answer that a file holds.
pub(super) fn schema(file: Option<&Path>) -> Result<Option<AnswerSchema>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let bad = |why: &dyn std::fmt::Display| Failure::usage(format!("output schema {}: {why}", file.display()));
    let text = named_file::text(file, SCHEMA_BYTES_MAX).map_err(|why| bad(&why))?;
    let schema = serde_json::from_str(&text).map_err(|error| bad(&format!("it is not JSON: {error}")))?;
    AnswerSchema::new(schema).map(Some).map_err(|error| bad(&error))
}

/// The provider with what the arguments say of its server.
fn as_given(mut provider: Provider, given: &ModelArguments) -> Provider {
    provider.api = given.api.unwrap_or(provider.api);
    quirks::put(&given.quirk, &mut provider.quirks);
    rates::put(&given.rate_limit, &mut provider.rate_limits);
    let quirks = &mut provider.quirks;
    quirks.first_timeout = given.first_timeout.map(Duration::from_secs).or(quirks.first_timeout);
    quirks.images = given.images.or(quirks.images);
    quirks.reasoning = given.reasoning_back.unwrap_or(quirks.reasoning);
    provider
}

/// Builds a router with the keys and addresses of the environment. What `given` says is said of the chosen provider.
fn router(chosen: &str, given: &ModelArguments, environment: &Environment) -> Result<Router, Failure> {
    let base_url = given.base_url.as_deref();
    let mut router = Router::new(given.network.options(environment)?);
    for known in PROVIDERS {
        let Some(mut provider) = Provider::known(known.name) else { continue };
        if let Some((name, key)) = key_of(known.key_variables, environment) {
            provider = provider.with_key(Secret::new(key));
            name.clone_into(&mut provider.key_from);
        }
        let url = base_url.filter(|_| known.name == chosen).or_else(|| environment.get(known.base_url_variable));
        if let Some(url) = url {
            provider = provider.with_base_url(url);
        }
        router = router.with(if known.name == chosen { as_given(provider, given) } else { provider });
    }
    if let (None, Some(url)) = (Provider::known(chosen), base_url) {
        // An unknown provider with an address: the user's own server. Its key variable is made from its name.
        let variable = format!("{}_API_KEY", chosen.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        let mut provider = Provider::custom(chosen, Api::OpenAiChat, url);
        if let Some(key) = environment.get(&variable) {
            provider = provider.with_key(Secret::new(key));
        }
        provider.key_from = variable;
        router = router.with(as_given(provider, given));
    }
    Ok(router)
}

/// The first of the variables that is set, by name, and its key.
pub(super) fn key_of<'a>(variables: &[&'static str], environment: &'a Environment) -> Option<(&'static str, &'a str)> {
    variables.iter().find_map(|name| Some((*name, environment.get(name)?)))
}

/// The default model of the first provider that has a key and a default model, and the variable that has the key. `None` where
/// there is none: a key for `local` chooses no model.
pub(super) fn of_keys(environment: &Environment) -> Option<(ModelRef, &'static str)> {
    all_of_keys(environment).next()
}

/// The same of every such provider.
pub(super) fn all_of_keys(environment: &Environment) -> impl Iterator<Item = (ModelRef, &'static str)> {
    PROVIDERS.iter().filter_map(|known| {
        let (variable, _) = key_of(known.key_variables, environment)?;
        let (provider, model) = DEFAULTS.iter().find(|(name, _)| *name == known.name)?;
        Some((ModelRef::new(*provider, *model), variable))
    })
}

/// The variable with the address of the provider, and the address, if it is set.
pub(super) fn address_of<'a>(provider: &str, environment: &'a Environment) -> Option<(&'static str, &'a str)> {
    let known = PROVIDERS.iter().find(|known| known.name == provider)?;
    Some((known.base_url_variable, environment.get(known.base_url_variable)?))
}

/// Finds a model when none was named, and says why it is this one: the default model of the first provider with a key, else the
/// first model of the local server. Neither is a usage error.
async fn find(base_url: Option<&str>, environment: &Environment) -> Result<(ModelRef, String), Failure> {
    if let Some((model, variable)) = of_keys(environment) {
        return Ok((model, format!("{variable} is set; --model chooses another")));
    }
    let known = Provider::known("local").map(|local| local.base_url).unwrap_or_default();
    let url = base_url.or_else(|| environment.get("LOCAL_BASE_URL")).unwrap_or(&known).to_owned();
    let asked = url.clone();
    let first = tokio::task::spawn_blocking(move || local_server::first_model(&asked)).await;
    match first.ok().flatten() {
        Some(model) => {
            let why = format!("the first model of the server at {}; --model chooses another", shown(&url));
            Ok((ModelRef::new("local", model), why))
        }
        None => Err(no_model(&format!("no key is set, and no server answers at {}", shown(&url)))),
    }
}

fn no_model(why: &str) -> Failure {
    Failure::usage(format!(
        "no model was chosen, and {why}: set one key such as OPENAI_API_KEY or ANTHROPIC_API_KEY, or name a model with \
         --model PROVIDER/MODEL or --model scripted:FILE"
    ))
}

/// An address without its user, password, query and fragment, any of which may hold a key.
pub(super) fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let scheme = &url[..url.len() - rest.len()];
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    format!("{scheme}{}{path}", host.rsplit('@').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::failure::Exit;

    /// An address that nothing listens on, so that a local server on this machine changes no test.
    const NOBODY: (&str, &str) = ("LOCAL_BASE_URL", "http://127.0.0.1:9/v1");

    fn given(model: Option<&str>, base_url: Option<&str>) -> ModelArguments {
        let (model, base_url) = (model.map(str::to_owned), base_url.map(str::to_owned));
        ModelArguments { model, base_url, ..ModelArguments::default() }
    }

    async fn chosen(named: Option<&str>, variables: &[(&str, &str)]) -> Result<String, Failure> {
        let environment = Environment::of(&[&[NOBODY], variables].concat());
        choose(&given(named, None), None, &environment).await.map(|choice| choice.model.to_string())
    }

    /// AUTH-001, PROVIDER-005: of several keys the first provider of the catalogue wins, and the reason is said.
    #[tokio::test]
    async fn two_keys_are_no_error_and_the_order_of_the_catalogue_decides() {
        assert_eq!(chosen(None, &[("DEEPSEEK_API_KEY", "k")]).await.unwrap(), "deepseek/deepseek-flash");
        let several = [("GROQ_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("LOCAL_API_KEY", "k")];
        assert_eq!(chosen(None, &several).await.unwrap(), "anthropic/claude-sonnet-5-5");
        let environment = Environment::of(&[&several[..], &[("OPENAI_API_KEY", "k")]].concat());
        let choice = choose(&given(None, None), None, &environment).await.unwrap();
        assert_eq!(choice.model.to_string(), "openai/gpt-5.1");
        assert_eq!(choice.found.as_deref(), Some("OPENAI_API_KEY is set; --model chooses another"));
        let named = choose(&given(Some("openai/x"), None), None, &environment).await.unwrap();
        assert_eq!(named.found, None, "a model that somebody named needs no reason");
        // A key for a local server chooses no model.
        assert!(chosen(None, &[("LOCAL_API_KEY", "k")]).await.is_err());
    }

    /// A default that the catalogue prices is the newest of its family there.
    #[test]
    fn the_default_models_of_the_large_providers_are_in_the_catalogue() {
        for (provider, model) in DEFAULTS.iter().filter(|(name, _)| matches!(*name, "openai" | "anthropic" | "gemini"))
        {
            let known = tamtam::model::PRICES.iter().any(|known| known.provider == *provider && known.model == *model);
            assert!(known, "{provider}/{model}");
        }
    }

    /// PROVIDER-010: without a provider there is no model, and nobody guesses one.
    #[tokio::test]
    async fn without_key_and_server_it_is_said_what_to_set() {
        for variables in [&[][..], &[("OPENAI_API_KEY", "  ")]] {
            let none = chosen(None, variables).await.unwrap_err();
            assert_eq!(none.exit, Exit::Usage);
            assert!(none.message.contains("OPENAI_API_KEY") && none.message.contains("--model"), "{}", none.message);
        }
    }

    /// AUTH-008, AUTH-009, A-11: its variable has the key, or is named in the error.
    #[tokio::test]
    async fn a_named_model_needs_its_key() {
        let missing = chosen(Some("anthropic/claude-sonnet-4"), &[("OPENAI_API_KEY", "k")]).await.unwrap_err();
        assert_eq!((missing.exit, missing.message.contains("ANTHROPIC_API_KEY")), (Exit::Usage, true));
        assert_eq!(chosen(Some("openai:gpt-4"), &[("OPENAI_API_KEY", "k")]).await.unwrap(), "openai/gpt-4");
        assert!(chosen(Some("gpt-4"), &[("OPENAI_API_KEY", "k")]).await.is_err());
    }

    /// A model that only comes in where another fails is known to have no key before anything fails.
    #[tokio::test]
    async fn a_model_behind_another_needs_its_key_too() {
        let environment = Environment::of(&[NOBODY, ("OPENAI_API_KEY", "k")]);
        let with = |fallback: &str| ModelArguments {
            fallback: vec![fallback.parse().unwrap()],
            ..given(Some("openai/x"), None)
        };
        assert!(choose(&with("openai/y"), None, &environment).await.is_ok());
        let missing = choose(&with("anthropic/y"), None, &environment).await.err().unwrap();
        assert_eq!(
            (missing.exit, missing.message.as_str()),
            (Exit::Usage, "fallback anthropic/y: no key for provider anthropic: set ANTHROPIC_API_KEY")
        );
        let agents = || vec![Fallback::new("of/agent".parse().unwrap())];
        let named = |chain: Vec<Fallback>| chain[0].model.to_string();
        let none = given(None, None);
        assert_eq!(named(fallback(&with("a/flag"), &with("a/file"), agents())), "a/flag");
        assert_eq!(named(fallback(&none, &with("a/file"), agents())), "of/agent");
        assert_eq!(named(fallback(&none, &with("a/file"), Vec::new())), "a/file");
    }

    #[tokio::test]
    async fn a_base_url_goes_to_the_named_provider_which_may_be_the_users_own() {
        let environment = Environment::of(&[("OPENAI_BASE_URL", "http://127.0.0.1:8/v1")]);
        let openai = choose(&given(Some("openai/x"), None), None, &environment).await.unwrap();
        assert_eq!(openai.base_url, "http://127.0.0.1:8/v1");
        let mine = choose(&given(Some("mine/x"), Some("http://127.0.0.1:9/v1")), None, &environment).await.unwrap();
        assert_eq!((mine.base_url.as_str(), mine.key_from.as_str()), ("http://127.0.0.1:9/v1", "MINE_API_KEY"));
        assert!(choose(&given(Some("mine/x"), None), None, &environment).await.is_err());
    }

    /// PROVIDER-ERR-004: a server of one's own can be told of: how long it may read a prompt, whether its model sees, which thoughts it wants back.
    #[test]
    fn what_is_said_of_a_server_is_said_of_the_chosen_one_alone() {
        let given = ModelArguments {
            first_timeout: Some(900),
            images: Some(true),
            reasoning_back: reasoning_back("with_calls").ok(),
            api: quirks::api("responses").ok(),
            quirk: vec!["schema=gemini".parse().unwrap()],
            rate_limit: vec!["requests=2".parse().unwrap()],
            ..given(Some("local/x"), None)
        };
        let router = router("local", &given, &Environment::of(&[])).unwrap();
        let of = |name: &str| router.endpoint(&name.parse().unwrap()).unwrap();
        let local = of("local/x");
        assert_eq!((local.quirks.first_timeout, local.limits.images), (Some(Duration::from_secs(900)), true));
        assert_eq!(local.quirks.reasoning, ReasoningBack::WithCalls);
        assert_eq!((local.api, local.quirks.schema), (Api::OpenAiResponses, tamtam::model::SchemaDialect::Gemini));
        assert_eq!(local.rate_limits.requests, Some(2));
        let other = router.providers().find(|provider| provider.name == "openai").unwrap();
        assert_eq!(other.rate_limits.requests, None);
        assert!(quirks::api("soap").is_err());
        let other = Provider::known("openai").unwrap().quirks;
        assert_eq!((other.first_timeout, other.reasoning), (None, ReasoningBack::Never));
        assert!(reasoning_back("always").is_err());
    }

    #[test]
    fn every_provider_that_needs_a_key_has_a_default_model() {
        for known in PROVIDERS.iter().filter(|known| known.needs_key) {
            assert!(DEFAULTS.iter().any(|(provider, _)| *provider == known.name), "{}", known.name);
        }
    }

    /// K01
    #[test]
    fn an_address_is_shown_without_what_may_be_a_key() {
        assert_eq!(shown("http://user:CANARY@host/v1?key=CANARY"), "http://host/v1");
        assert_eq!(shown("user:CANARY@host/v1"), "host/v1");
    }
}
