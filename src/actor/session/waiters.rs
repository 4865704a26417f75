//! Answers the questions that callers put to a session's actor ([`Question`]), from the state: at once, or when the state has the
//! answer. Answering writes no entry and changes no state.
//!
//! A question that has no answer yet is kept in the slot, or refused where the slot is full (`QUESTIONS_MAX`). A kept question
//! outlives a crash of the actor, and is looked at again after each round of work and at the end of each turn.

use crate::{
    actor::{session::Live, slot::Question},
    error::SendError,
    kernel::{Open, Refusal},
    words::ids::MessageId,
};

impl Live {
    /// Answers a question, or keeps it in the slot until the state has an answer.
    pub(super) fn answer(&mut self, question: Question) {
        // Dropping the result of `send`: a caller may have dropped its receiver.
        match question {
            question if !question.is_waited_for() => {}
            Question::State(reply) => drop(reply.send(Ok(self.state.clone()))),
            Question::Up(reply) => drop(reply.send(Ok(()))),
            // A drill (`operate().crash`): panics as a bug in the actor would.
            Question::Crash(words) => std::panic::resume_unwind(Box::new(words)),
            Question::Room(delivery, reply) => match self.state.full_for(delivery) {
                None => drop(reply.send(Ok(()))),
                // A queue on hold stays as full as it is.
                Some(depth) if self.state.on_hold => {
                    drop(reply.send(Err(SendError::Refused(Refusal::InboxFull { depth }))));
                }
                Some(_) => self.slot.wait(Question::Room(delivery, reply)),
            },
            Question::Idle(reply) if self.is_idle() => drop(reply.send(Ok(()))),
            Question::Down(parent, ticket, reply) => {
                let origin = self.state.origin.as_ref();
                match origin.filter(|origin| origin.parent == parent && origin.ticket == ticket) {
                    Some(origin) if origin.end.is_none() => self.slot.wait(Question::Down(parent, ticket, reply)),
                    origin => drop(reply.send(Ok(origin.and_then(|origin| origin.end.clone())))),
                }
            }
            Question::Asks(Some(known), reply) if self.state.unanswered().eq(known.iter().copied()) => {
                self.slot.wait(Question::Asks(Some(known), reply));
            }
            Question::Asks(_, reply) => drop(reply.send(Ok(self.state.questions()))),
            Question::Task(ticket, reply) if !matches!(self.state.open.get(&ticket), Some(Open::Task(_))) => {
                let end = self.state.tasks_ended.iter().find(|end| end.ticket == ticket);
                drop(reply.send(Ok(end.and_then(|end| end.down.clone()))));
            }
            Question::Answer(call, ask, reply) => match self.state.question_answer(call, ask) {
                Some(answer) => drop(reply.send(Ok(answer))),
                None => self.slot.wait(Question::Answer(call, ask, reply)),
            },
            Question::Begun(ticket, reply) if !self.state.is_queued(ticket) => drop(reply.send(Ok(()))),
            Question::Outcome(id, reply) if self.is_on_hold(&id) => {
                drop(reply.send(Err(SendError::Refused(Refusal::OnHold { id }))));
            }
            Question::Outcome(id, reply) if !self.is_to_be_answered(&id) => {
                let ended = self.state.ended.iter().rev().find(|end| end.messages.contains(&id)).cloned();
                drop(reply.send(ended.ok_or(SendError::Refused(Refusal::NotWaiting { id }))));
            }
            question => self.slot.wait(question),
        }
    }

    /// Looks at all kept questions again, and answers those that the state can answer now.
    pub(super) fn answer_waiting(&mut self) {
        self.slot.take_waiting().into_iter().for_each(|question| self.answer(question));
    }

    /// Whether a message waits in a queue that is on hold, so that no turn comes for it by itself.
    fn is_on_hold(&self, id: &MessageId) -> bool {
        self.state.on_hold && self.state.queue.iter().any(|waiting| waiting.message.id == *id)
    }

    /// Whether the turn of a message is open, or is still to come.
    fn is_to_be_answered(&self, id: &MessageId) -> bool {
        let state = &self.state;
        let runs = state.turn.as_ref().is_some_and(|turn| turn.messages.contains(id));
        let ended = || state.ended.iter().any(|end| end.messages.contains(id));
        runs || !ended() && state.queue.iter().chain(&state.steering).any(|waiting| waiting.message.id == *id)
    }
}
