//! An agent: a persona with a prompt, a model, tools, permission and limits, from which a session's settings can be made. Data,
//! not a process.
//!
//! A host makes a session from an agent with [`SessionOptions::from_agent`](crate::SessionOptions::from_agent). The runtime
//! brings some agents along (`agent/built_in.rs`); what people write about agents is an [`AgentSpec`], and [`Agents::build`] makes
//! agents of both. What a host or a text says of an agent is checked ([`Agent::check`]) before the agent becomes one of the
//! [`Agents`] or the choice of a session; a bad value is an error, and is not ignored.
//!
//! A change must keep this: an agent's rules are a layer under the host's, and a later layer cannot undo a deny, so no agent gets
//! rights that the host denies. Rules read from a text come before those of the session, which may still deny what they allow.
//! Only the runtime's own agents (and copies that a host changes) have rules after those of the session, which may allow what the
//! session asks about.

mod built_in;
mod command;
#[cfg(feature = "agent-files")]
mod files;
mod registry;
mod skill;
mod spec;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    kernel::{AgentChoice, AgentParts, Fallback, fallback_fault},
    model::{Params, Thinking, fault},
    permission::{Rule, Ruleset},
    words::ids::SessionId,
    words::message::ModelRef,
    words::setters::setters,
};

pub use command::{BadCommand, Called, Command, CommandAct, Commands, Does};
#[cfg(feature = "agent-files")]
pub use files::{AgentFiles, AgentFolder, BadFile, Dialect};
pub use registry::{Agents, AgentsConfig};
pub use skill::{BadSkill, Skill, Skills};
pub use spec::{AgentSpec, ToolChoice};

/// Characters of a name, at most.
const NAME_MAX: usize = 64;
/// Characters of a description, at most.
const DESCRIPTION_MAX: usize = 8_192;
/// Characters of a prompt, at most.
const PROMPT_MAX: usize = 200_000;

/// An agent. Its JSON form can be read as an [`AgentSpec`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Agent {
    /// Its name: small letters, digits, `-`, `_`, and `/` between two parts of it.
    pub name: String,
    /// What the agent is for, in words for the person or model that chooses an agent. A hidden agent needs none.
    pub description: String,
    /// What the agent may be chosen for; for everything if this is left out.
    pub mode: AgentMode,
    /// The whole system prompt; the default prompt if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model that answers; the runtime's default if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The models that go on with a turn where the agent's fails, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    /// The tools that are offered to the model, by names and patterns such as `mcp_files_*`; `!NAME` takes one out, so `*` and
    /// `!write` are all but `write`. All tools where this is left out, none where it is empty. A name that no tool has offers
    /// nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// The agent's permission rules, a layer before the session's own; inside of it the last rule that matches counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission: Vec<Rule>,
    /// The limits of its turns and answers.
    pub limits: AgentLimits,
    /// Sampling temperature: low for steady work, high for ideas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// How much the model thinks before it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Further options, put into the body of each request as they are; `null` for none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
    /// A color for programs that show the agent, in their own words; the runtime reads none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Whether lists leave the agent out, and neither a person nor a model can choose it.
    pub hidden: bool,
    /// Whether the agent is one of the runtime's own, perhaps with changes of others.
    #[serde(skip)]
    pub native: bool,
    /// The file that the agent, or the newest change of it, was read from.
    #[serde(skip)]
    pub source: Option<PathBuf>,
    /// Words after the system prompt of the session. They are never read from a text.
    #[serde(skip)]
    addition: Option<&'static str>,
    /// Rules that come after those of the session, and may allow what it asks about. They are never read from a text.
    #[serde(skip)]
    last_rules: Vec<Rule>,
}

/// What an agent may be chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "agent-files", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentMode {
    /// A session may work as it; no task is given to it.
    Primary,
    /// Only tasks use it; no top-level session works as it.
    Subagent,
    /// Both.
    #[default]
    All,
}

/// The limits of an agent. A limit that is left out is that of a session without an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "agent-files", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AgentLimits {
    /// Model requests a turn may make; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u32>,
    /// Tokens of one answer, at most; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u64>,
}

/// Why an agent cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAgent {
    /// No agent has that name.
    #[error("there is no agent {given:?}{}{known}", if known.is_empty() { "" } else { ": choose " })]
    Unknown {
        /// The name that was asked for.
        given: String,
        /// The names that there are.
        known: String,
    },
    /// No agent is left that a session may work as.
    #[error(
        "no agent is left that a session may work as: do not disable build, or give another agent \"mode\": \"primary\""
    )]
    NoPrimary,
    /// The text is not the JSON form of an agent.
    #[error("not an agent: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// A field has a value that is not allowed.
    #[error("agent {name:?}: {field} {problem}")]
    Field {
        /// Which agent.
        name: String,
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl BadAgent {
    /// The field that is wrong, if one is.
    #[must_use]
    pub fn field(&self) -> Option<&'static str> {
        match self {
            BadAgent::Field { field, .. } => Some(field),
            _ => None,
        }
    }
}

impl Agent {
    /// An agent of that name, with everything else left to defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Agent {
        Agent {
            name: name.into(),
            description: description.into(),
            mode: AgentMode::All,
            prompt: None,
            model: None,
            fallback: Vec::new(),
            tools: None,
            permission: Vec::new(),
            limits: AgentLimits::default(),
            temperature: None,
            top_p: None,
            thinking: None,
            options: Value::Null,
            color: None,
            hidden: false,
            native: false,
            source: None,
            addition: None,
            last_rules: Vec::new(),
        }
    }

    setters! {
        /// Sets where it may work.
        mode: AgentMode;
        /// Sets its [prompt](#structfield.prompt).
        prompt: impl Into<String> = Some(prompt.into());
        /// Sets its [model](#structfield.model).
        model: ModelRef = Some(model);
        /// Sets the [models behind it](#structfield.fallback).
        fallback: Vec<Fallback>;
        /// Limits it to [these tools](#structfield.tools).
        tools: impl IntoIterator<Item = impl Into<String>> = Some(tools.into_iter().map(Into::into).collect());
        /// Sets its [rules](#structfield.permission).
        permission: Vec<Rule>;
        /// Sets its [limits](#structfield.limits).
        limits: AgentLimits;
        /// Sets its [temperature](#structfield.temperature).
        temperature: f32 = Some(temperature);
        /// Sets its [`top_p`](#structfield.top_p).
        top_p: f32 = Some(top_p);
        /// Sets [how much the model thinks](#structfield.thinking).
        thinking: Thinking = Some(thinking);
        /// Sets the [provider's further options](#structfield.options).
        options: Value;
        /// Sets its [color](#structfield.color).
        color: impl Into<String> = Some(color.into());
        /// Sets whether [lists leave it out](#structfield.hidden).
        hidden: bool;
    }

    /// Reads an agent from the JSON form of an [`AgentSpec`] with a name, and checks it.
    ///
    /// # Errors
    /// See [`BadAgent`].
    pub fn from_json(text: &str) -> Result<Agent, BadAgent> {
        let spec: AgentSpec = serde_json::from_str(text)?;
        let mut agent = Agent::new(spec.name.clone().unwrap_or_default(), "");
        agent.change(&spec);
        agent.check()?;
        Ok(agent)
    }

    /// Checks whether the agent can be used.
    ///
    /// # Errors
    /// [`BadAgent::Field`] names the first field that is wrong.
    pub fn check(&self) -> Result<(), BadAgent> {
        let is_empty = |rule: &Rule| rule.permission.trim().is_empty() || rule.pattern.is_empty();
        let prompt = self.prompt.as_deref();
        let (field, problem) = if !is_name(&self.name) {
            ("name", format!("must be 1 to {NAME_MAX} small letters, digits, - and _, with / between two parts"))
        } else if self.description.trim().is_empty() && !self.hidden {
            ("description", "is missing: say what the agent is for".to_owned())
        } else if self.description.chars().count() > DESCRIPTION_MAX {
            ("description", format!("is longer than {DESCRIPTION_MAX} characters"))
        } else if prompt.is_some_and(|prompt| prompt.trim().is_empty()) {
            ("prompt", "is empty: leave it out for the default one".to_owned())
        } else if prompt.is_some_and(|prompt| prompt.chars().count() > PROMPT_MAX) {
            ("prompt", format!("is longer than {PROMPT_MAX} characters"))
        } else if self.tools.iter().flatten().any(|tool| tool.trim().is_empty()) {
            ("tools", "names a tool without a name".to_owned())
        } else if self.permission.iter().any(is_empty) {
            ("permission", "has a rule without a permission or a pattern: write * for all".to_owned())
        } else if self.limits.steps_max == Some(0) {
            ("limits.steps_max", "is 0: a turn takes at least 1 step".to_owned())
        } else if let Some(problem) = fallback_fault(&self.fallback) {
            ("fallback", problem)
        } else if let Some((field, problem)) =
            fault(self.temperature, self.top_p, self.limits.output_max, &self.options)
        {
            (if field == "max_output" { "limits.output_max" } else { field }, problem)
        } else {
            return Ok(());
        };
        Err(BadAgent::Field { name: self.name.clone(), field, problem })
    }

    /// The agent as a choice for that session ([`Session::switch_agent`](crate::Session::switch_agent)).
    ///
    /// # Errors
    /// [`BadAgent`] if the agent cannot be used.
    pub fn for_session(&self, session: &SessionId) -> Result<AgentChoice, BadAgent> {
        self.check()?;
        let plan_file = self.is_plan().then(|| built_in::plan_file(session));
        let filled =
            |text: &str| plan_file.as_deref().map_or_else(|| text.to_owned(), |file| built_in::filled(text, file));
        let mut last_rules = self.last_rules.clone();
        last_rules.iter_mut().for_each(|rule| rule.pattern = filled(&rule.pattern));
        Ok(AgentChoice::Other(Arc::new(AgentParts {
            agent: self.name.clone(),
            system: self.prompt.as_deref().map(Arc::from),
            addition: self.addition.map(|words| filled(words).into()),
            model: self.model.clone(),
            // A chain stands behind its model.
            fallback: (self.model.is_some() || !self.fallback.is_empty()).then(|| self.fallback.clone()),
            tools: self.tools.clone(),
            output_max: self.limits.output_max,
            steps_max: self.limits.steps_max,
            temperature: self.temperature,
            top_p: self.top_p,
            thinking: self.thinking,
            options: self.options.clone(),
            rules: self.ruleset(),
            last_rules: self.ruleset_of(last_rules),
            plan_file,
        })))
    }

    /// What it says of its requests.
    pub(crate) fn params(&self) -> Params {
        Params {
            temperature: self.temperature,
            top_p: self.top_p,
            max_output: self.limits.output_max,
            thinking: self.thinking,
            options: self.options.clone(),
            answer_schema: None,
        }
    }

    fn is_plan(&self) -> bool {
        self.native && self.name == "plan"
    }

    /// Whether the agent has something that no text can give it: words after the session's prompt, or rules after the session's
    /// rules. A session that begins as such an agent has the default one as its own, and can go back to it.
    pub(crate) fn is_mode(&self) -> bool {
        self.addition.is_some() || !self.last_rules.is_empty()
    }

    /// The agent's rules as a layer under the host's; `None` if the agent has none.
    #[must_use]
    pub fn ruleset(&self) -> Option<Ruleset> {
        self.ruleset_of(self.permission.clone())
    }

    fn ruleset_of(&self, rules: Vec<Rule>) -> Option<Ruleset> {
        (!rules.is_empty()).then(|| Ruleset::of_agent(&self.name, rules))
    }
}

/// Whether an agent or a command may have this name.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    name.len() <= NAME_MAX && name.split('/').all(|part| !part.is_empty() && part.chars().all(is_plain))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{
        permission::{Action, Globs, judge_all},
        tool::Access,
    };

    /// J-13, H-22: the summarizing agent is hidden, has its own prompt and no tools, and may do nothing.
    #[test]
    fn the_compaction_agent_may_do_nothing() {
        let agent = Agent::compaction();
        agent.check().unwrap();
        assert!(agent.hidden && agent.tools == Some(BTreeSet::new()) && agent.prompt.is_some());
        let rules = agent.ruleset().unwrap();
        for access in ["read", "edit", "bash", "external_directory", "anything"].map(|tool| Access::new(tool, "x")) {
            assert_eq!(judge_all(&[&rules], &[access], &Globs::default()).action, Action::Deny);
        }
    }

    #[test]
    fn an_agent_is_read_as_it_was_written() {
        let text = r#"{"name":"review","description":"Reads code.","prompt":"You review.","model":{"provider":"openai","model":"gpt-x"},
            "tools":["read","grep"],"permission":[{"permission":"read","pattern":"*","action":"allow"}],
            "limits":{"steps_max":9,"output_max":500}}"#;
        let agent = Agent::from_json(text).unwrap();
        assert_eq!(agent.limits.steps_max, Some(9));
        assert_eq!(Agent::from_json(&serde_json::to_string(&agent).unwrap()).unwrap(), agent);
        // An agent's text does not say whether it is the runtime's own.
        for agent in [Agent { native: false, ..Agent::compaction() }, Agent::new("plain", "Does all.")] {
            assert_eq!(Agent::from_json(&serde_json::to_string(&agent).unwrap()).unwrap(), agent);
        }
    }

    /// What is wrong is named, with the field to fix.
    #[test]
    fn a_wrong_agent_is_refused_by_the_name_of_its_field() {
        for (text, expected) in [
            (r#"{"name":"A b","description":"x"}"#, "name must be"),
            (r#"{"name":"","description":"x"}"#, "name must be"),
            (r#"{"name":"a"}"#, "description is missing"),
            (r#"{"name":"a","description":"x","prompt":" "}"#, "prompt is empty"),
            (r#"{"name":"a","description":"x","tools":[" "]}"#, "tools names a tool"),
            (r#"{"name":"a","description":"x","limits":{"steps_max":0}}"#, "limits.steps_max is 0"),
            (r#"{"name":"a","description":"x","limits":{"output_max":0}}"#, "limits.output_max is 0"),
            (r#"{"name":"a","description":"x","limits":{"time":1}}"#, "unknown field `time`"),
            (
                r#"{"name":"a","description":"x","permission":[{"permission":"","pattern":"*","action":"deny"}]}"#,
                "permission has",
            ),
            (r#"{"name":"a","descripton":"x"}"#, "unknown field `descripton`"),
            (r#"{"name":"a//b","description":"x"}"#, "name must be"),
            (r#"{"name":"a","description":"x","temperature":2.5}"#, "temperature is not"),
            (r#"{"name":"a","description":"x","topP":-1}"#, "top_p is not"),
            (r#"{"name":"a","description":"x","options":3}"#, "options is not a table"),
            (r#"{"name":"a","description":"x","steps":3,"maxSteps":4}"#, "duplicate field"),
            (r#"{"name":"a","description":"x","model":"gpt"}"#, "write PROVIDER/MODEL"),
            (r#"{"name":"a","description":"x","tools":{"read":"yes"}}"#, "invalid type"),
            (r#"{"name":"a","description":"x","mode":"secondary"}"#, "unknown variant `secondary`"),
            ("3", "not an agent"),
        ] {
            let refused = Agent::from_json(text).unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
