//! The values of the host and the shell that a decision may read beside the state, such as windows and prices of models.
//!
//! Replay must hand each decision what it read, so each value that had an influence is on the tape. The state holds the newest
//! values that the tape has ([`EnvSeen`]). Where a decision reads a different value, the first entry that the reading input wrote
//! says so; an unchanged value is not written again. Three values are treated otherwise: rules of the host get an entry of their
//! own, the jitter is noted each time it is read, and the compiled globs have no influence.
//!
//! A new value in [`Env`] needs a field with a serde default in [`EnvSeen`], a reader in `decide.rs` that notes it, a line in
//! `EnvSeen::learn` (`recorded.rs`), and its place in `ops/replay/decision.rs`, which hands it in again; otherwise replay goes
//! wrong. Implementations of [`Windows`] must be pure and must not wait.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::{Window, of_text},
    model::Price,
    permission::{Globs, Ruleset},
    tool::Toolbox,
    words::message::ModelRef,
};

/// The values beside the state that a decision may read. The shell hands them in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// The compiled globs of permission rules: a cache that does not influence a decision.
    pub globs: &'a Globs,
    /// The rules of the host; `None` where it has none. If the tape has others, the decision first writes these, and goes by these.
    pub host_rules: Option<&'a Ruleset>,
    /// Hash of the tools as models are told of them.
    pub toolbox_hash: &'a str,
    /// The size of the tools in a request, in estimated tokens.
    pub tools_tokens: u64,
    /// The permissions that the tools need, by which the rules mask tools.
    pub permissions: &'a BTreeMap<String, Vec<String>>,
    /// The windows and prices of models.
    pub windows: &'a dyn Windows,
    /// Whether anybody listens who could answer an ask.
    pub asks_are_heard: bool,
    /// A random number from 0 up to 1 that the shell draws anew for each decision, for the jitter of retries.
    pub jitter: f64,
}

/// The size of the tools in a request, in estimated tokens.
#[must_use]
pub(crate) fn tools_tokens(toolbox: &Toolbox) -> u64 {
    of_text(&String::from_utf8_lossy(&toolbox.told()))
}

/// The windows and prices of models. Pure: within one runtime the same name always gives the same answer.
pub(crate) trait Windows: std::fmt::Debug {
    /// The window of a model, and the price of its tokens.
    fn seen(&self, model: &ModelRef) -> ModelSeen;
}

/// One window for every model, without prices.
impl Windows for Window {
    fn seen(&self, _: &ModelRef) -> ModelSeen {
        ModelSeen { window: *self, price: None }
    }
}

/// Values of `Env` that were read: those read for one input, or the newest of a tape. A stored format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EnvSeen {
    /// Models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) models: BTreeMap<String, ModelSeen>,
    /// The tools; `None` where they were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<ToolsSeen>,
    /// The permissions of each tool that the rules masked (denied in full, so that it was not offered); an empty list for a tool
    /// that is gone since. Tools that were never masked are left out, so that a session without such rules pays nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) permissions: BTreeMap<String, Vec<String>>,
    /// Whether anybody listened who could answer an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heard: Option<bool>,
    /// The jitter that was read, in millionths. No later decision uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) jitter: Option<u32>,
}

/// A model as a decision saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelSeen {
    /// Its window, as the host knows it.
    pub(crate) window: Window,
    /// The price of the model's tokens; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price: Option<Price>,
}

/// The tools as a decision saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ToolsSeen {
    /// Hash of what models are told of them.
    pub(crate) hash: String,
    /// What they take in a request, in estimated tokens.
    pub(crate) tokens: u64,
}

/// The jitter is written in millionths of 1.
pub(super) const MILLION: f64 = 1_000_000.0;

/// A recorded jitter as [`Env`] takes it, for replay: written again, it gives the same number of millionths.
pub(crate) fn jitter_of(millionths: u32) -> f64 {
    (f64::from(millionths) + 0.5) / MILLION
}
