//! Whether a provider read a request from its cache as far as it could, and if not, why: a pure function of what the request before
//! was, of what this one is, and of the provider's figures.
//!
//! A request repeats the one before it and adds what was said since, so a provider that caches can read all of that one from its cache.
//! Where it reads much less, the step costs more than it need, and its event says why ([`CacheMiss`]).
//!
//! A change must keep that a provider which has never reported a figure of its cache is blamed for nothing, and that a miss changes no
//! decision.

use std::sync::Arc;

use crate::{
    kernel::{
        CacheMiss, CacheMissed, OpenRequest, Prefix, Prepared, RequestOpened, Sent, Shown, State, state::short_hash,
    },
    words::{ids::Millis, usage::Usage},
};

/// The smallest part of a request that is missed, in tokens: providers cache in blocks, and mark no shorter prefix.
const MISSED_MIN: u64 = 1_024;

/// How long a provider keeps a prefix that nobody asks for: with most of them 5 minutes.
const LIFE_MS: u64 = 5 * 60 * 1_000;

/// The tokens that a request had.
fn read(usage: &Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write)
}

/// Hash of how hooks show the conversation to a request. One that goes on from the request before differs only in the length of its
/// last piece, which is left out.
pub(in crate::kernel) fn shown(prepared: &Prepared) -> String {
    let Some(pieces) = &prepared.shown else { return String::new() };
    let begin = match pieces.split_last() {
        Some((Shown::Kept(from, _), before)) => serde_json::to_vec(&(before, from)),
        _ => serde_json::to_vec(pieces),
    };
    short_hash(&begin.unwrap_or_default())
}

impl State {
    /// What the request begins with that is opened now.
    pub(in crate::kernel) fn prefix_of(
        &self,
        request: &RequestOpened,
        prepared: Option<&Prepared>,
        at: Millis,
    ) -> Prefix {
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
            shown: prepared.map(shown).unwrap_or_default(),
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
        let Prefix { model, system, tools, options, shown, at } = &*before.prefix;
        let causes = [
            (CacheMissed::Model, *model != now.model),
            (CacheMissed::System, *system != now.system),
            (CacheMissed::Tools, *tools != now.tools),
            (CacheMissed::Options, *options != now.options),
            (CacheMissed::Compacted, before.replaced || *shown != now.shown),
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
        // Another provider's figures say nothing of this one.
        let is_known = |sent: &Sent| sent.caches && sent.prefix.model.provider == prefix.model.provider;
        let caches = reports || context.sent.as_deref().is_some_and(is_known);
        context.sent = Some(Sent { prefix, tokens, caches, replaced: false }.into());
    }
}
