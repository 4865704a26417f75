//! What a session's actor answers from its state, without a decision.

use crate::{
    actors::{
        session::Live,
        slot::{QUESTIONS_MAX, Question},
    },
    error::{PassivateError, SendError},
    session::Refusal,
};

impl Live {
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Idle(reply) => {
                self.idle_waiters.retain(|waiter| !waiter.is_closed());
                let depth = self.idle_waiters.len();
                match depth < QUESTIONS_MAX {
                    true => self.idle_waiters.push(reply),
                    false => drop(reply.send(Err(SendError::InboxFull { depth }))),
                }
            }
            // A host that stopped waiting does not want to know.
            Question::State(reply) => drop(reply.send(Ok(self.state.clone()))),
            Question::Down(parent, ticket, reply) => self.children.wait_for_own(parent, ticket, reply),
            Question::Task(ticket, reply) => self.children.wait_for(ticket, reply),
            Question::Up(reply) => drop(reply.send(Ok(()))),
            // As a bug in it would end it.
            Question::Crash(words) => std::panic::resume_unwind(Box::new(words)),
            // It is taken up where the actor can still end.
            Question::Sleep(slept) => slept.tell(Err(PassivateError::Busy { why: PassivateError::PASSING })),
            Question::Outcome(id, reply) => {
                // What the disk has not answered for may never have been.
                let state = self.pending.front().map_or(&self.state, |pending| &pending.before);
                let ended = state.ended.iter().rev().find(|end| end.messages.contains(&id)).cloned();
                let waits = state.queue.iter().chain(&state.steering).any(|waiting| waiting.message.id == id);
                let runs = state.turn.as_ref().is_some_and(|turn| turn.messages.contains(&id));
                match ended {
                    Some(end) if !runs => drop(reply.send(Ok(end))),
                    _ if waits || runs => self.slot.wait_for(id, reply),
                    _ => drop(reply.send(Err(SendError::Refused(Refusal::NotWaiting { id })))),
                }
            }
        }
    }
}
