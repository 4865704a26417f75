//! The values of the host that a decision may read beside the state.
//!
//! A decision is handed all of [`Env`], and reads little of it. Each value that it read is on the tape: the state holds what the
//! tape says last ([`EnvSeen`]), and where a decision reads something else, its first entry says so. So a replay hands each decision
//! what it read, and the tape says nothing twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::{Window, of_text},
    model::Price,
    permission::{Globs, Ruleset},
    tool::Toolbox,
    words::message::ModelRef,
};

/// What a decision may look at beside the state: values that the shell hands in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env<'a> {
    /// The globs of rules, compiled once.
    pub globs: &'a Globs,
    /// The rules of the host. Where the tape has others, the decision says so first, and goes by these.
    pub host_rules: Option<&'a Ruleset>,
    /// Hash of the tools as models are told of them.
    pub toolbox_hash: &'a str,
    /// What the tools take in a request, in estimated tokens.
    pub tools_tokens: u64,
    /// The windows of models.
    pub windows: &'a dyn Windows,
    /// Whether anybody listens who could answer an ask.
    pub asks_are_heard: bool,
    /// A number from 0 up to 1, anew for each decision, for jitter.
    pub jitter: f64,
}

/// What tools take in a request, in estimated tokens.
#[must_use]
pub(crate) fn tools_tokens(toolbox: &Toolbox) -> u64 {
    of_text(&String::from_utf8_lossy(&toolbox.told()))
}

/// Knows how much models take, and what they cost. Pure: the same name always gives the same window, for one runtime.
pub(crate) trait Windows: std::fmt::Debug {
    /// The window of a model.
    fn window(&self, model: &ModelRef) -> Window;

    /// What the model's tokens cost; `None` where that is not known.
    fn price(&self, model: &ModelRef) -> Option<Price> {
        let _ = model;
        None
    }
}

/// Every model takes the same.
impl Windows for Window {
    fn window(&self, _: &ModelRef) -> Window {
        *self
    }
}

/// Values of `Env` that were read: those of one decision, or the newest of a tape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvSeen {
    /// Models, by `provider/name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelSeen>,
    /// The tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsSeen>,
    /// Whether anybody listened who could answer an ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<bool>,
    /// What was drawn for jitter, in millionths. No later decision goes by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<u32>,
}

/// A model as a decision saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSeen {
    /// Its window, as the host knows it.
    pub window: Window,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// The tools as a decision saw them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolsSeen {
    /// Hash of what models are told of them.
    pub hash: String,
    /// What they take in a request, in estimated tokens.
    pub tokens: u64,
}

/// The jitter is written in millionths.
pub(super) const MILLION: f64 = 1_000_000.0;

/// The jitter that was drawn, as [`Env`] takes it: what is written of it again is the same.
pub(crate) fn jitter_of(millionths: u32) -> f64 {
    (f64::from(millionths) + 0.5) / MILLION
}
