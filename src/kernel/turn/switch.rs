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
//! A switch changes no rules within a step: calls behind the one that chose another agent do not get the rights of that
//! agent. What the session had before is kept beside what took its place, so [`AgentChoice::Own`] brings it back.
//!
//! Rules are in layers: those of the agent, those of the session, and [`AgentParts::last_rules`]. A later layer may allow what an
//! earlier one asks about, and no layer undoes an earlier deny.
//!
//! A change must keep that the rules of the session stay among the layers, so that no switch allows what they deny; that
//! [`Settings::own`] returns what the switch replaced; and the stored formats.

use std::sync::Arc;

use crate::{
    kernel::{
        AgentChoice, AgentParts, CarriedOut, Open, Record, Refusal, Settings, State, Switched,
        draft::{Decide, Draft},
        turn::toolset,
    },
    permission::Ruleset,
};

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

    fn in_words(&self) -> String {
        "another agent was chosen".to_owned()
    }
}

/// Puts the chosen agent in force, at the border of a step; before that, the turn that had an agent of its own gives it back. Says
/// whether something was done.
pub(in crate::kernel) fn at_border(draft: &mut Draft<'_>) -> bool {
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
            fallback: Some(self.fallback.clone()),
            tools: self.tools.clone(),
            output_max: self.params.max_output,
            steps_max: self.steps_max,
            temperature: self.params.temperature,
            top_p: self.params.top_p,
            thinking: self.params.thinking,
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
        if let (Some(_), Some(fallback)) = (&to.fallback, &from.fallback) {
            self.fallback.clone_from(fallback);
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
        if to.thinking.is_some() {
            self.params.thinking = from.thinking;
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
    #[cfg(any(test, all(unix, feature = "tools")))]
    #[must_use]
    pub(crate) fn plan_file(&self) -> Option<&str> {
        self.switched.as_deref()?.to.plan_file.as_deref()
    }
}

impl State {
    /// An agent was chosen, and waits for the border of a step.
    pub(in crate::kernel) fn choose_agent(&mut self, choice: &AgentChoice, for_turn: bool) {
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
    pub(in crate::kernel) fn switch_agent(&mut self) {
        if let Some(choice) = self.next_agent.take() {
            let settings = Arc::new(self.settings.with_agent(&choice));
            let before = std::mem::replace(&mut self.settings, settings);
            self.end_fallback_of(&before);
        }
    }
}

/// A host changes the settings. They hold at once, except for a request that is open: it stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configure {
    /// The settings that the change started from: other settings now refuse it. `None` to overwrite whatever is set.
    pub before: Option<Arc<Settings>>,
    /// The new settings, whole.
    pub settings: Box<Settings>,
}

impl Decide for Configure {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let (mut settings, now) = (self.settings.clone(), &draft.state.settings);
        // A change of settings cannot touch the rules of the host and of the ancestors, nor the agent that was switched to.
        settings.above.clone_from(&now.above);
        settings.host.clone_from(&now.host);
        settings.switched.clone_from(&now.switched);
        if **now == *settings {
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        if self.before.as_ref().is_some_and(|before| before != now) {
            return Err(Refusal::Reconfigured);
        }
        Ok(CarriedOut::Done(draft.write(None, Record::Settings(settings))))
    }

    fn in_words(&self) -> String {
        "the settings were changed".to_owned()
    }
}
