//! What a request begins with, and why one was not read from the provider's cache, as the state has them. What follows from it is in
//! `cached.rs`.
//!
//! All types here are stored formats: do not rename or retype a field or a variant, and give each new field a serde default.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::words::{ids::Millis, message::ModelRef};

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
    pub(super) model: ModelRef,
    /// Hash of the system prompt, with what hooks added to it.
    pub(in crate::kernel) system: String,
    /// Hash of all that decides which tools it offers.
    pub(super) tools: String,
    /// Hash of the parameters that a cache depends on.
    pub(super) options: String,
    /// Hash of how hooks show the conversation; empty where they show it as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(in crate::kernel) shown: String,
    /// When it was made.
    pub(super) at: Millis,
}

/// The newest request that was answered. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sent {
    pub(super) prefix: Arc<Prefix>,
    /// The tokens that it had, by the provider's figures.
    pub(super) tokens: u64,
    /// Whether its provider has reported a figure of its cache since the session last came to it.
    pub(super) caches: bool,
    /// Whether the conversation before it was replaced since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::kernel) replaced: bool,
}
