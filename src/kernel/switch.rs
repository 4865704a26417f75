//! Another agent for a running session: chosen at any moment, in force from the next border of a step, recorded, and reversible. A
//! border of a step is a moment at which no request, no call and no wait before a retry is open.
//!
//! ```text
//! SwitchAgent ──► agent_chosen ──► (calls and requests of the step end) ──► agent_switched
//! ```
//!
//! A message may bring an agent for its turn: that one is chosen at the border behind the delivery, and the one before is chosen
//! again when the turn is over. An agent that a host or a call chooses meanwhile ([`SwitchAgent`]) stays.
//!
//! A switch changes no rules within a step: calls that stand behind the one that chose another agent do not get the rights of that
//! agent. What the session had before is kept beside what took its place, so [`AgentChoice::Own`] brings it back.
//!
//! Rules stand in layers: those of the agent, those of the session, and [`AgentParts::last_rules`]. A later layer may allow what an
//! earlier one asks about, and no layer undoes an earlier deny.
//!
//! A change must keep that the rules of the session stay among the layers, so that no switch allows what they deny; that
//! [`Settings::own`] gives back what the switch replaced; and the stored formats.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
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
    fn has_prompt(&self) -> bool {
        self.system.is_some() || self.addition.is_some()
    }
}

/// The agent in force, where it is not the session's own, and what its parts took the place of. Stored format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Switched {
    /// The agent in force.
    pub to: AgentParts,
    /// What the session has under its own agent. Its rules are not among it, because they stay in force.
    #[serde(flatten)]
    pub own: AgentParts,
    /// The sections of the session's own system prompt, by their sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sections: Vec<PromptSection>,
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
            _ if draft.state.agent_after.is_some() => false,
            Some(next) => *next == self.choice,
            None => settings.has_chosen(&self.choice),
        };
        if stands {
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        Ok(CarriedOut::Done(draft.write(None, Record::AgentChosen { choice: self.choice.clone(), for_turn: false })))
    }
}

/// Puts the chosen agent in force, at the border of a step; before that, the turn that had an agent of its own gives it back. Says
/// whether something was done.
pub(super) fn at_border(draft: &mut Draft<'_>) -> bool {
    let (brought, for_turn) = match &draft.state.turn {
        Some(turn) => (turn.agent.clone(), true),
        None => (draft.state.agent_after.clone(), false),
    };
    if let Some(choice) = brought {
        draft.write(None, Record::AgentChosen { choice, for_turn });
    }
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
        if let Some(switched) = own.switched.take() {
            own.set(&switched.to, &switched.own);
            if let (true, Some(system)) = (switched.to.has_prompt(), &switched.own.system) {
                own.system.clone_from(system);
                own.sections.clone_from(&switched.sections);
            }
        }
        own
    }

    /// The settings under this agent.
    pub(crate) fn with_agent(&self, choice: &AgentChoice) -> Settings {
        let mut settings = self.own();
        let AgentChoice::Other(to) = choice else { return settings };
        let (own, sections) = (settings.parts(), settings.sections.clone());
        let tools = to.tools.as_ref().map(|tools| toolset::both(own.tools.as_ref(), tools));
        settings.set(to, &AgentParts { tools, ..(**to).clone() });
        if let Some(system) = &to.system {
            settings.set_persona(&to.agent, system);
        }
        if let Some(addition) = &to.addition {
            settings.add_to_prompt(&to.agent, addition);
        }
        settings.switched = Some(Arc::new(Switched { to: (**to).clone(), own, sections }));
        settings
    }

    /// What an agent can set, as it is.
    fn parts(&self) -> AgentParts {
        AgentParts {
            agent: self.agent.clone(),
            system: Some(self.system.clone()),
            model: Some(self.model.clone()),
            tools: self.tools.clone(),
            output_max: self.params.max_output,
            steps_max: self.steps_max,
            temperature: self.params.temperature,
            top_p: self.params.top_p,
            options: self.params.options.clone(),
            ..AgentParts::default()
        }
    }

    /// Gives each setting but the prompt that the agent `to` sets the value that it has in `from`.
    fn set(&mut self, to: &AgentParts, from: &AgentParts) {
        self.agent.clone_from(&from.agent);
        if let (Some(_), Some(model)) = (&to.model, &from.model) {
            self.model.clone_from(model);
        }
        if to.tools.is_some() {
            self.tools.clone_from(&from.tools);
        }
        if to.output_max.is_some() {
            self.params.max_output = from.output_max;
        }
        if to.steps_max.is_some() {
            self.steps_max = from.steps_max;
        }
        if to.temperature.is_some() {
            self.params.temperature = from.temperature;
        }
        if to.top_p.is_some() {
            self.params.top_p = from.top_p;
        }
        if !to.options.is_null() {
            self.params.options.clone_from(&from.options);
        }
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
    pub(crate) fn plan_file(&self) -> Option<&str> {
        self.switched.as_deref()?.to.plan_file.as_deref()
    }
}

impl State {
    /// An agent was chosen, and waits for the border of a step.
    pub(super) fn choose_agent(&mut self, choice: &AgentChoice, for_turn: bool) {
        let in_force = match self.settings.switched.as_deref() {
            Some(switched) => AgentChoice::Other(Arc::new(switched.to.clone())),
            None => AgentChoice::Own,
        };
        let before = self.next_agent.replace(choice.clone()).unwrap_or(in_force);
        self.agent_after = for_turn.then(|| self.agent_after.take().unwrap_or(before));
        if for_turn {
            self.in_turn(|turn| turn.agent = None);
        }
    }

    /// The agent that was chosen is in force from here on.
    pub(super) fn switch_agent(&mut self) {
        if let Some(choice) = self.next_agent.take() {
            self.settings = Arc::new(self.settings.with_agent(&choice));
        }
    }
}
