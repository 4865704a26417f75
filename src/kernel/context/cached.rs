//! Whether a provider read a request from its cache as far as it could, and if not, why: a pure function of what the request before
//! was, of what this one is, and of the provider's figures.
//!
//! A request repeats the one before it and adds what was said since, so a provider that caches can read all of that one from its cache.
//! Where it reads much less, the step costs more than it need, and its event says why ([`CacheMiss`]).
//!
//! A change must keep that a provider which has never reported a figure of its cache is blamed for nothing, and that a miss changes no
//! decision.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{OpenRequest, RequestOpened, State, state::short_hash},
    words::{ids::Millis, message::ModelRef, usage::Usage},
};

/// The smallest part of a request that is missed, in tokens: providers cache in blocks, and mark no shorter prefix.
const MISSED_MIN: u64 = 1_024;

/// How long a provider keeps a prefix that nobody asks for: with most of them 5 minutes.
const LIFE_MS: u64 = 5 * 60 * 1_000;

/// A step of which the provider read less from its cache than the request before it promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CacheMiss {
    /// The tokens that both requests have in common, and that came from no cache.
    pub tokens: u64,
    /// The first of the causes that applies, in the order of [`CacheMissed`].
    pub why: CacheMissed,
}

/// Why a request was not read from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheMissed {
    /// Another model was asked.
    Model,
    /// The system prompt is another one.
    System,
    /// Other tools are offered.
    Tools,
    /// The level of thinking, the shape of the answer or further options are others.
    Options,
    /// The conversation before was summed up, pruned or put back.
    Compacted,
    /// More than five minutes lay between the two requests.
    Time,
    /// None of these: the request began with the same bytes.
    Unknown,
}

impl fmt::Display for CacheMissed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheMissed::Model => "another model was asked",
            CacheMissed::System => "the system prompt changed",
            CacheMissed::Tools => "the tools changed",
            CacheMissed::Options => "the options changed",
            CacheMissed::Compacted => "the conversation was shortened",
            CacheMissed::Time => "more than five minutes went by",
            CacheMissed::Unknown => "unknown: the prefix was the same",
        })
    }
}

/// What a request begins with. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Prefix {
    model: ModelRef,
    system: String,
    /// Hash of all that decides which tools it offers.
    tools: String,
    /// Hash of the parameters that a cache depends on.
    options: String,
    /// When it was made.
    at: Millis,
}

/// The newest request that was answered. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    prefix: Arc<Prefix>,
    /// The tokens that it had, by the provider's figures.
    tokens: u64,
    /// Whether a provider has reported a figure of its cache in this session.
    caches: bool,
    /// Whether the conversation before it was replaced since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::kernel) replaced: bool,
}

/// The tokens that a request had.
fn read(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write)
}

impl State {
    /// What the request begins with that is opened now.
    pub(in crate::kernel) fn prefix_of(&self, request: &RequestOpened, at: Millis) -> Prefix {
        let params = &self.settings.params;
        let options = (params.thinking, &params.answer_schema, &params.options);
        let switched = self.turn.as_ref().map(|turn| &turn.tools);
        let tools = (&request.tools, &request.masked, &self.context.found, switched, self.settings.allowed_tools());
        let hash = |json: Result<Vec<u8>, _>| short_hash(&json.unwrap_or_default());
        Prefix {
            model: request.model.clone(),
            system: request.system.clone(),
            tools: hash(serde_json::to_vec(&tools)),
            options: hash(serde_json::to_vec(&options)),
            at,
        }
    }

    /// What of this request, answered with these figures, could have come from the provider's cache and did not.
    pub(crate) fn cache_miss(&self, request: &OpenRequest, usage: &Usage) -> Option<CacheMiss> {
        let (before, now) = (self.context.sent.as_deref()?, request.prefix.as_ref()?);
        let tokens = before.tokens.min(read(usage)).saturating_sub(usage.cache_read);
        if !before.caches || tokens < MISSED_MIN.max(before.tokens / 4) {
            return None;
        }
        let Prefix { model, system, tools, options, at } = &*before.prefix;
        let causes = [
            (CacheMissed::Model, *model != now.model),
            (CacheMissed::System, *system != now.system),
            (CacheMissed::Tools, *tools != now.tools),
            (CacheMissed::Options, *options != now.options),
            (CacheMissed::Compacted, before.replaced),
            (CacheMissed::Time, now.at.since(*at).as_millis() > u128::from(LIFE_MS)),
        ];
        let why = causes.into_iter().find(|(_, is)| *is).map_or(CacheMissed::Unknown, |(why, _)| why);
        Some(CacheMiss { tokens, why })
    }

    /// Notes the request that was answered, where its provider gave figures.
    pub(in crate::kernel) fn note_sent(&mut self, prefix: Option<Arc<Prefix>>, usage: &Usage) {
        let (Some(prefix), tokens) = (prefix, read(usage)) else { return };
        if tokens == 0 {
            return;
        }
        let context = Arc::make_mut(&mut self.context);
        let reports = usage.cache_read > 0 || usage.cache_write > 0;
        let caches = reports || context.sent.as_ref().is_some_and(|sent| sent.caches);
        context.sent = Some(Sent { prefix, tokens, caches, replaced: false }.into());
    }
}
