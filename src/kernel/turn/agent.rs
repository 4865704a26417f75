//! The agents of a session as data: what an agent sets, which one is in force, and which one was chosen.
//!
//! All types here are stored formats: do not rename or retype a field or a variant, and give each new field a serde default.
//! `switch.rs` decides when a chosen agent comes into force.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{kernel::Fallback, model::Thinking, permission::Ruleset, words::message::ModelRef};

/// What an agent sets in the settings of a session; what is `None` stays as the session has it. Stored format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentParts {
    /// The agent's name.
    pub agent: String,
    /// The agent's own prompt, in place of that of the session's agent. What the session was told of its environment and its rules
    /// stays; a prompt that was given whole is replaced whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Arc<str>>,
    /// Words behind the session's own system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addition: Option<Arc<str>>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The chain behind the model; an agent that names a model and no chain has an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Vec<Fallback>>,
    /// The tools, by names and patterns. The session keeps those of its own tools that are among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// Tokens of one answer, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u64>,
    /// Model requests a turn may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u32>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// How much the model thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Further options of a request, in place of the session's; `null` for none.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub options: Value,
    /// The agent's rules, in a layer before the session's. The session's rules may loosen what these ask about, and never what
    /// these deny.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Ruleset>,
    /// The agent's rules in a layer behind the session's. They may loosen what the session's rules ask about, and never what those
    /// deny. Only agents of the runtime's own have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rules: Option<Ruleset>,
    /// The one file that the agent may write, from the workspace on; only of the agent `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
}

impl AgentParts {
    pub(super) fn has_prompt(&self) -> bool {
        self.system.is_some() || self.addition.is_some()
    }
}

/// The agent that a session is to have. Stored format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentChoice {
    /// Its own one: the one that it was made with.
    Own,
    /// Another one.
    Other(Arc<AgentParts>),
}
