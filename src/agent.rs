//! An agent: a persona with a prompt, a model, tools, permission and limits, from which a session's settings can be made. Data,
//! not a process.
//!
//! A host makes a session from an agent with [`SessionOptions::from_agent`](crate::SessionOptions::from_agent). The runtime
//! itself brings some along (`agent/built_in.rs`), among them the hidden agent that writes summaries of conversations. Both [`Agent::from_json`] and `from_agent`
//! check the agent: an unknown field or a bad value is an error, and is never ignored.
//!
//! A change must keep this: an agent's rules can only be a layer under the host's, so an agent never gets rights that the host
//! denies. The rules of an agent that was read from a text stand before those of the session, which may loosen what they ask about. Hosts store the JSON form in files, so a field may be added with a default, and none renamed or removed.

mod built_in;
mod registry;

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{AgentChoice, AgentParts},
    permission::{Rule, Ruleset},
    words::ids::SessionId,
    words::message::ModelRef,
};

pub use registry::Agents;

/// Characters of a name, at most.
const NAME_MAX: usize = 64;
/// Characters of a description, at most.
const DESCRIPTION_MAX: usize = 1_024;
/// Characters of a prompt, at most.
const PROMPT_MAX: usize = 200_000;

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Agent {
    /// Its name: small letters, digits, `-` and `_`.
    pub name: String,
    /// What the agent is for, in words for the person or model that chooses an agent. A hidden agent needs none.
    #[serde(default)]
    pub description: String,
    /// What the agent may be chosen for; for all where this is left out.
    #[serde(default)]
    pub mode: AgentMode,
    /// The whole system prompt; the default prompt where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The model that answers; the runtime's default where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The tools that are offered to the model, by names and patterns such as `mcp_files_*`. All tools where this is left out, none
    /// where it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// The agent's permission rules; the last rule that matches counts. Where there are none, the rules of the session's options
    /// hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permission: Vec<Rule>,
    /// The limits of its turns and answers.
    #[serde(default)]
    pub limits: AgentLimits,
    /// Whether lists leave the agent out, and neither a person nor a model can choose it.
    #[serde(default)]
    pub hidden: bool,
    /// Whether the agent is one of the runtime's own. Then its rules stand behind those of the session, and its prompt behind the
    /// session's own. Never read from a text.
    #[serde(skip)]
    pub native: bool,
}

/// What an agent may be chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentMode {
    /// A session may work as it; no task is given to it.
    Primary,
    /// Tasks are given to it; no session of its own works as it.
    Subagent,
    /// Both.
    #[default]
    All,
}

/// The limits of an agent. A limit that is left out is that of a session without an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// There is no agent of that name.
    #[error("there is no agent {given:?}: choose {known}")]
    Unknown {
        /// The name that was asked for.
        given: String,
        /// The names that there are.
        known: String,
    },
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
            tools: None,
            permission: Vec::new(),
            limits: AgentLimits::default(),
            hidden: false,
            native: false,
        }
    }

    /// Reads an agent and checks it.
    ///
    /// # Errors
    /// See [`BadAgent`].
    pub fn from_json(text: &str) -> Result<Agent, BadAgent> {
        let agent: Agent = serde_json::from_str(text)?;
        agent.check()?;
        Ok(agent)
    }

    /// Checks whether the agent can be used.
    ///
    /// # Errors
    /// [`BadAgent::Field`] names the first field that is wrong.
    pub fn check(&self) -> Result<(), BadAgent> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let is_empty = |rule: &Rule| rule.permission.trim().is_empty() || rule.pattern.is_empty();
        let prompt = self.prompt.as_deref();
        let (field, problem) = if self.name.is_empty() || self.name.len() > NAME_MAX || !self.name.chars().all(is_plain)
        {
            ("name", format!("must be 1 to {NAME_MAX} small letters, digits, - and _"))
        } else if self.description.trim().is_empty() && !self.hidden {
            ("description", "is missing: nobody could tell what the agent is for".to_owned())
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
        } else if self.limits.output_max == Some(0) {
            ("limits.output_max", "is 0: an answer takes at least 1 token".to_owned())
        } else {
            return Ok(());
        };
        Err(BadAgent::Field { name: self.name.clone(), field, problem })
    }

    /// The agent as a choice for that session ([`Session::switch_agent`](crate::Session::switch_agent)).
    ///
    /// # Errors
    /// [`BadAgent`] where the agent cannot be used.
    pub fn for_session(&self, session: &SessionId) -> Result<AgentChoice, BadAgent> {
        self.check()?;
        let plan_file = self.is_plan().then(|| built_in::plan_file(session));
        let filled =
            |text: &str| plan_file.as_deref().map_or_else(|| text.to_owned(), |file| built_in::filled(text, file));
        let prompt = self.prompt.as_deref().map(|prompt| Arc::from(filled(prompt)));
        let (system, addition) = if self.native { (None, prompt) } else { (prompt, None) };
        let rules = self.ruleset().map(|mut set| {
            set.rules.iter_mut().for_each(|rule| rule.pattern = filled(&rule.pattern));
            set
        });
        let (rules, last_rules) = if self.native { (None, rules) } else { (rules, None) };
        Ok(AgentChoice::Other(Arc::new(AgentParts {
            agent: self.name.clone(),
            system,
            addition,
            model: self.model.clone(),
            tools: self.tools.clone(),
            output_max: self.limits.output_max,
            steps_max: self.limits.steps_max,
            rules,
            last_rules,
            plan_file,
        })))
    }

    fn is_plan(&self) -> bool {
        self.native && self.name == "plan"
    }

    /// The agent's rules as a layer under the host's; `None` where the agent has none.
    #[must_use]
    pub fn ruleset(&self) -> Option<Ruleset> {
        let rules = Ruleset::new(format!("agent {}", self.name), self.permission.clone());
        (!self.permission.is_empty()).then_some(rules)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::{
        permission::{Action, Globs, judge_all},
        tool::Access,
    };

    /// J-13, H-22: the one who sums up is hidden, has its own prompt and no tools, and may do nothing.
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
        for agent in [Agent::compaction(), Agent::new("plain", "Does all.")] {
            assert_eq!(Agent::from_json(&serde_json::to_string(&agent).unwrap()).unwrap(), agent);
        }
    }

    /// What is wrong is named, with the field that is to be mended.
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
            ("[]", "not an agent"),
        ] {
            let refused = Agent::from_json(text).unwrap_err().to_string();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
