//! Questions that a session's actor answers from its state without a decision, and callers who wait until the state has an answer.

use std::sync::Arc;

use crate::{
    actor::{
        session::Live,
        slot::{QUESTIONS_MAX, Question, Reply},
    },
    error::{PassivateError, SendError},
    kernel::{Down, Open, Refusal},
    words::ids::{Seq, SessionId},
};

/// Those who wait. Nothing of it outlives the incarnation of the actor; whoever waits asks the next one.
#[derive(Default)]
pub(super) struct Waiters(Vec<Waiter>);

/// Somebody who waits, and for what.
enum Waiter {
    /// That nothing runs and nothing waits.
    Idle(Reply<()>),
    /// The end of the session's own task, for that parent and ticket; nothing where it is not this session's.
    Own(SessionId, Seq, Reply<Option<Arc<Down>>>),
    /// The end of a task of the session; nothing where no DOWN comes for it.
    Task(Seq, Reply<Option<Arc<Down>>>),
}

impl Waiter {
    fn is_closed(&self) -> bool {
        match self {
            Waiter::Idle(reply) => reply.is_closed(),
            Waiter::Own(.., reply) | Waiter::Task(_, reply) => reply.is_closed(),
        }
    }

    fn refuse(self, error: SendError) {
        match self {
            Waiter::Idle(reply) => drop(reply.send(Err(error))),
            Waiter::Own(.., reply) | Waiter::Task(_, reply) => drop(reply.send(Err(error))),
        }
    }
}

impl Waiters {
    /// Whether nobody waits. Whoever does would only wake the session again.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, waiter: Waiter) {
        if self.0.len() >= QUESTIONS_MAX {
            // Whoever stopped waiting makes room.
            self.0.retain(|waiter| !waiter.is_closed());
        }
        let depth = self.0.len();
        match depth < QUESTIONS_MAX {
            true => self.0.push(waiter),
            false => waiter.refuse(SendError::Refused(Refusal::InboxFull { depth })),
        }
    }
}

impl Live {
    /// Answers a question, now or when the state says so.
    pub(super) fn answer(&mut self, question: Question) {
        match question {
            Question::Idle(reply) => self.waiters.add(Waiter::Idle(reply)),
            Question::Down(parent, ticket, reply) => self.waiters.add(Waiter::Own(parent, ticket, reply)),
            Question::Task(ticket, reply) => self.waiters.add(Waiter::Task(ticket, reply)),
            // A host that stopped waiting does not want to know.
            Question::State(reply) => drop(reply.send(Ok(self.state.clone()))),
            Question::Up(reply) => drop(reply.send(Ok(()))),
            // As a bug in it would end it.
            Question::Crash(words) => std::panic::resume_unwind(Box::new(words)),
            // It is taken up where the actor can still end.
            Question::Sleep(slept) => slept.tell(Err(PassivateError::Busy { why: PassivateError::PASSING })),
            Question::Outcome(id, reply) => {
                let state = &self.state;
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

    /// Answers those who wait for what the state says by now.
    pub(super) fn tell_waiters(&mut self) {
        let is_idle = self.is_idle();
        for waiter in std::mem::take(&mut self.waiters.0) {
            // Whoever stopped waiting does not want to know.
            match waiter {
                waiter if waiter.is_closed() => {}
                Waiter::Idle(reply) if is_idle => drop(reply.send(Ok(()))),
                Waiter::Own(parent, ticket, reply) => {
                    let origin = self.state.origin.as_ref();
                    match origin.filter(|origin| origin.parent == parent && origin.ticket == ticket) {
                        None => drop(reply.send(Ok(None))),
                        Some(origin) => match &origin.end {
                            Some(end) => drop(reply.send(Ok(Some(end.clone())))),
                            None => self.waiters.0.push(Waiter::Own(parent, ticket, reply)),
                        },
                    }
                }
                Waiter::Task(ticket, reply) if !matches!(self.state.open.get(&ticket), Some(Open::Task(_))) => {
                    let end = self.state.tasks_ended.iter().find(|end| end.ticket == ticket);
                    drop(reply.send(Ok(end.and_then(|end| end.down.clone()))));
                }
                waiter => self.waiters.0.push(waiter),
            }
        }
    }
}
