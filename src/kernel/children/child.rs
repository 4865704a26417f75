//! A child's side of its task: the commands that its parent gives it, and the deadline of the task. The child's DOWN (the report of
//! how the task ended) follows from the child's own entries (`apply/tasks.rs`).
//!
//! A command counts only if it names the parent and the ticket that the child has now, so a late command of a former parent changes
//! nothing. The exceptions are two of [`BeAdopted`]: an orphan takes it from any parent, and a child whose task is over takes a
//! further task from the same parent, under a new ticket. A command may come twice, and must then change nothing.
//!
//! A change must only ever add to the bounds of a child (the rules of its ancestors), and never take one away. Nothing here reaches
//! the parent: the parent's watcher reads what the child's tape says.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Delivery, NextTask, Origin, Record, Refusal, State, Terms, Tie,
        draft::{Decide, Draft},
        turn::{end, inbox::waiting},
    },
    permission::Chain,
    words::{
        ids::{MessageId, Millis, Seq, SessionId},
        message::{Message, MessageTime, Role},
    },
};

/// To a child: its parent wants its task stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StopTask {
    /// The parent.
    pub parent: SessionId,
    /// The task's ticket on the parent's tape.
    pub ticket: Seq,
    /// Why.
    pub why: String,
}

impl Decide for StopTask {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if origin(draft, &self.parent, self.ticket).is_some() {
            stop(draft, &self.why);
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("parent {} stopped the task", self.parent)
    }

    fn stops(&self) -> bool {
        true
    }
}

/// Stops the session's task, where it is not over: its turn is aborted, or its prompt taken back.
fn stop(draft: &mut Draft<'_>, why: &str) {
    let Some(prompt) = draft.state.task_prompt().cloned() else { return };
    if draft.state.turn.as_ref().is_some_and(|turn| turn.messages.contains(&prompt)) {
        end::abort(draft, why);
    } else if waiting(draft, &prompt).is_some() {
        draft.write(None, Record::Withdrawn { id: prompt });
    }
}

/// Stops the session's task if its deadline has passed.
pub(in crate::kernel) fn expire(draft: &mut Draft<'_>) {
    if draft.state.task_deadline().is_some_and(|deadline| deadline <= draft.now) {
        stop(draft, "its deadline has passed");
    }
}

impl State {
    /// The message that is the session's task, while the task is not over.
    fn task_prompt(&self) -> Option<&MessageId> {
        self.origin.as_ref().filter(|origin| origin.end.is_none()).map(|origin| &origin.prompt)
    }

    /// When the session's task ends at the latest; `None` where there is no such moment, or no task that is not over.
    pub(crate) fn task_deadline(&self) -> Option<Millis> {
        self.origin.as_ref().filter(|origin| origin.end.is_none())?.terms.deadline
    }
}

/// To a child: its parent is gone for good.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Orphan {
    /// The parent.
    pub parent: SessionId,
    /// The task's ticket on the parent's tape.
    pub ticket: Seq,
    /// Why.
    pub why: String,
}

impl Decide for Orphan {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if origin(draft, &self.parent, self.ticket).is_some_and(|origin| origin.orphaned.is_none()) {
            draft.write(None, Record::Orphaned { why: self.why.clone() });
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("parent {} has ended", self.parent)
    }
}

/// To a child: who its parent is, and which rules its ancestors have. An orphan gets this parent; a child that has it already only
/// takes over rules that are new. A child whose task is over may get a further one from the same parent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeAdopted {
    /// The parent, and how the child is tied to it.
    pub tie: Tie,
    /// The rules of the ancestors.
    pub above: Vec<Chain>,
    /// A further task: its message, and what else holds for it.
    pub next: Option<Box<(Message, Terms)>>,
}

impl Decide for BeAdopted {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let BeAdopted { tie, above, next } = self;
        let already = origin(draft, &tie.parent, tie.ticket).is_some_and(|origin| origin.orphaned.is_none());
        let orphan = draft.state.origin.as_ref().is_some_and(|origin| origin.orphaned.is_some());
        if already {
            let known = &draft.state.settings.above;
            let more: Vec<_> = above.iter().filter(|chain| !known.contains(chain)).cloned().collect();
            if !more.is_empty() {
                draft.write(None, Record::Narrowed { above: more });
            }
            return Ok(CarriedOut::Done(draft.state.seq));
        }
        if let Some(next) = next
            && draft.state.origin.as_ref().is_some_and(|origin| origin.parent == tie.parent && origin.end.is_some())
        {
            return take_next(draft, tie, above, next);
        }
        if !orphan {
            return Err(Refusal::NotAnOrphan { session: draft.state.session.clone() });
        }
        let seq = draft.write(None, Record::Adopted { tie: tie.clone(), above: above.clone(), next: None });
        Ok(CarriedOut::Done(seq))
    }

    fn in_words(&self) -> String {
        format!("parent {} said what it may not do", self.tie.parent)
    }
}

/// Takes a further task of the same parent: the new tie, and the message behind what waits.
fn take_next(
    draft: &mut Draft<'_>,
    tie: &Tie,
    above: &[Chain],
    (message, terms): &(Message, Terms),
) -> Result<CarriedOut, Refusal> {
    if draft.state.closed.is_some() {
        return Err(Refusal::Ended);
    }
    let mut message = message.clone();
    message.role = Role::User;
    message.time = MessageTime { created: draft.now, completed: Some(draft.now) };
    let next = Some(NextTask { prompt: message.id.clone(), terms: terms.clone() });
    let seq = draft.write(None, Record::Adopted { tie: tie.clone(), above: above.to_vec(), next });
    draft
        .write(None, Record::Accepted { message: Arc::new(message), delivery: Delivery::Queue, agent: None, added: 0 });
    Ok(CarriedOut::Done(seq))
}

/// The origin of the session, if its task belongs to this ticket of this parent; otherwise `None`.
fn origin<'d>(draft: &'d Draft<'_>, parent: &SessionId, ticket: Seq) -> Option<&'d Origin> {
    let origin = draft.state.origin.as_deref()?;
    (origin.parent == *parent && origin.ticket == ticket).then_some(origin)
}
