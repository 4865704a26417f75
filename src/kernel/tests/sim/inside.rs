//! What running calls do to their session by chance: they ask people, and have it work as another agent.

use std::sync::Arc;

use tamtam::{
    Seq,
    kernel::{AgentChoice, CallState, PutQuestion, ReplyTo, SwitchAgent},
    tool::{Access, Question},
};

use super::{Broken, world::World};
use crate::agent::Agent;

impl World {
    /// A running call asks: a few questions, so that some come again.
    pub(super) fn put_question(&mut self) -> Result<(), Broken> {
        let running = self.state.calls().filter(|(_, call)| call.state == CallState::Running);
        // One that has reported asks nothing more.
        let running = running.filter(|(ticket, _)| !self.mailbox.has_report(*ticket));
        let running: Vec<_> = running.map(|(ticket, call)| (ticket, call.attempts)).collect();
        if running.is_empty() {
            return Ok(());
        }
        let (call, attempt): (Seq, u32) = self.rng.pick(&running);
        // Now and then the run of before asks, which is gone.
        let attempt = if self.rng.percent(10) { attempt.saturating_sub(1) } else { attempt };
        let access = match self.rng.percent(70) {
            true => vec![Access::new("bash", self.rng.pick(&["*", "x"]))],
            false => Vec::new(),
        };
        self.asked.insert(call);
        let question = Arc::new(Question::new(self.rng.pick(&["Go on?", "Really?"])));
        self.signal(&PutQuestion { call, attempt: Some(attempt), access, question }.to(ReplyTo::NOBODY))
    }

    pub(super) fn switch_agent(&mut self) -> Result<(), Broken> {
        let plan = Agent::plan().for_session(&self.state.session);
        let choice = if self.rng.percent(50) { AgentChoice::Own } else { plan.unwrap_or(AgentChoice::Own) };
        self.signal(&SwitchAgent { choice }.to(ReplyTo::NOBODY))
    }
}
