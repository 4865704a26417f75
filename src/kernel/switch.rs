//! Another agent for a running session: chosen at any moment, in force from the next border of a step, recorded, and reversible.
//!
//! ```text
//! SwitchAgent ──► agent_chosen ──► (calls and requests of the step end) ──► agent_switched
//! ```
//!
//! A step is judged by the rules that it began with: calls that stand behind the one that chose another agent do not get the rights
//! of that agent. What the session had before is kept beside what took its place, so [`AgentChoice::Own`] brings it back.
//!
//! A change must keep that a switch narrows: the rules of the session hold beside those of the agent. Only
//! [`AgentParts::last_rules`], which stand behind them, may allow what they ask about; never what they deny.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        CarriedOut, Open, PromptSection, Record, Refusal, Settings, State, decide::Draft, input::Decide, toolset,
    },
    permission::Ruleset,
    words::message::ModelRef,
};

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
    /// The tools, by names and patterns. The session keeps those of its own tools that are among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// Tokens of one answer, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u64>,
    /// Model requests a turn may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u32>,
    /// Rules that stand before the session's: these may loosen what they ask about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Ruleset>,
    /// Rules that stand behind the session's. Only agents of the runtime's own have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rules: Option<Ruleset>,
    /// The one file that the agent may write, from the workspace on; only of the agent `plan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_file: Option<String>,
}

/// The agent in force, where it is not the session's own, and what its parts took the place of. Stored format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Switched {
    /// The agent in force.
    pub to: AgentParts,
    /// The name of the session's own agent.
    pub agent: String,
    /// The session's own system prompt.
    pub system: Arc<str>,
    /// The sections of that prompt, by their sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<PromptSection>,
    /// The session's own model.
    pub model: ModelRef,
    /// The session's own tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// The session's own limit of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_max: Option<u64>,
    /// The session's own limit of steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u32>,
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

/// A host, or a call, chooses another agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SwitchAgent {
    /// Which.
    pub choice: AgentChoice,
}

impl Decide for SwitchAgent {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if draft.state.closed.is_some() {
            return Err(Refusal::Ended);
        }
        let settings = &draft.state.settings;
        let stands = match &draft.state.next_agent {
            Some(next) => *next == self.choice,
            None => settings.has_chosen(&self.choice),
        };
        if stands {
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        Ok(CarriedOut::Done(draft.write(None, Record::AgentChosen { choice: self.choice.clone() })))
    }
}

/// Puts the chosen agent in force, at the border of a step. Says whether it did.
pub(super) fn at_border(draft: &mut Draft<'_>) -> bool {
    let Some(choice) = draft.state.next_agent.as_ref() else { return false };
    let in_step = |open: &Open| matches!(open, Open::Request(_) | Open::Call(_) | Open::Wait(_));
    if draft.state.open.values().any(in_step) {
        return false;
    }
    let agent = draft.state.settings.with_agent(choice).agent;
    draft.write(None, Record::AgentSwitched { agent });
    true
}

impl Settings {
    /// Whether this agent is in force.
    fn has_chosen(&self, choice: &AgentChoice) -> bool {
        match (choice, self.switched.as_deref()) {
            (AgentChoice::Own, None) => true,
            (AgentChoice::Other(parts), Some(switched)) => switched.to == **parts,
            _ => false,
        }
    }

    /// The settings under the session's own agent. What a host changed meanwhile stays, unless the other agent had set it.
    pub(crate) fn own(&self) -> Settings {
        let mut own = self.clone();
        let Some(switched) = own.switched.take() else { return own };
        let to = &switched.to;
        own.agent.clone_from(&switched.agent);
        if to.system.is_some() || to.addition.is_some() {
            own.system.clone_from(&switched.system);
            own.sections.clone_from(&switched.sections);
        }
        if to.model.is_some() {
            own.model.clone_from(&switched.model);
        }
        if to.tools.is_some() {
            own.tools.clone_from(&switched.tools);
        }
        if to.output_max.is_some() {
            own.params.max_output = switched.output_max;
        }
        if to.steps_max.is_some() {
            own.steps_max = switched.steps_max;
        }
        own
    }

    /// The settings under this agent.
    pub(crate) fn with_agent(&self, choice: &AgentChoice) -> Settings {
        let mut settings = self.own();
        let AgentChoice::Other(parts) = choice else { return settings };
        let AgentParts { agent, system, addition, model, tools, output_max, steps_max, .. } = &**parts;
        let switched = Switched {
            to: (**parts).clone(),
            agent: std::mem::replace(&mut settings.agent, agent.clone()),
            system: settings.system.clone(),
            sections: settings.sections.clone(),
            model: settings.model.clone(),
            tools: settings.tools.clone(),
            output_max: settings.params.max_output,
            steps_max: settings.steps_max,
        };
        if let Some(system) = system {
            settings.set_persona(agent, system);
        }
        if let Some(addition) = addition {
            settings.add_to_prompt(agent, addition);
        }
        if let Some(model) = model {
            settings.model.clone_from(model);
        }
        if let Some(tools) = tools {
            settings.tools = Some(toolset::both(settings.tools.as_ref(), tools));
        }
        settings.params.max_output = output_max.or(settings.params.max_output);
        settings.steps_max = steps_max.or(settings.steps_max);
        settings.switched = Some(Arc::new(switched));
        settings
    }

    /// The rules below the host's, from the most to the least powerful: the session's own, between those of the agent in force.
    pub fn layers(&self) -> impl Iterator<Item = &Ruleset> {
        let to = self.switched.as_deref().map(|switched| &switched.to);
        let before = to.and_then(|to| to.rules.as_ref());
        let behind = to.and_then(|to| to.last_rules.as_ref());
        before.into_iter().chain(&self.rules).chain(behind)
    }

    /// The file of the plan, from the workspace on, while the agent `plan` is in force.
    #[must_use]
    pub fn plan_file(&self) -> Option<&str> {
        self.switched.as_deref()?.to.plan_file.as_deref()
    }
}

impl State {
    /// The agent that was chosen is in force from here on.
    pub(super) fn switch_agent(&mut self) {
        if let Some(choice) = self.next_agent.take() {
            self.settings = Arc::new(self.settings.with_agent(&choice));
        }
    }
}
