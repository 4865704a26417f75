//! A child's side of its task: the messages from its parent. The child's DOWN follows from its own entries (`apply/tasks.rs`).
//!
//! A message counts only if it names the parent and the ticket that the child has now, so a late message of a former parent
//! changes nothing. The one exception is [`BeAdopted`] to an orphan, which names the new parent. A message may come twice, and
//! must then change nothing.
//!
//! A change must only ever narrow the rules of a child. Nothing here reaches the parent: the parent's watcher reads what the
//! child's tape says.

use crate::{
    kernel::{CarriedOut, Origin, Record, Refusal, Tie, advance, decide::Draft, inbox::waiting, input::Decide},
    permission::Chain,
    words::ids::{Seq, SessionId},
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
        let origin = origin(draft, &self.parent, self.ticket).filter(|origin| origin.end.is_none());
        if let Some(prompt) = origin.map(|origin| origin.prompt.clone()) {
            if draft.state.turn.as_ref().is_some_and(|turn| turn.messages.contains(&prompt)) {
                advance::abort(draft, &self.why);
            } else if waiting(draft, &prompt).is_some() {
                draft.write(None, Record::Withdrawn { id: prompt });
            }
        }
        Ok(CarriedOut::Done(draft.state.seq))
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
}

/// To a child: who its parent is, and which rules its ancestors have. An orphan gets this parent; a child that has it already only
/// takes over rules that are new.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeAdopted {
    /// The parent, and how the child is tied to it.
    pub tie: Tie,
    /// The rules of the ancestors.
    pub above: Vec<Chain>,
}

impl Decide for BeAdopted {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let BeAdopted { tie, above } = self;
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
        if !orphan {
            return Err(Refusal::NotAnOrphan { session: draft.state.session.clone() });
        }
        let seq = draft.write(None, Record::Adopted { tie: tie.clone(), above: above.clone() });
        Ok(CarriedOut::Done(seq))
    }
}

/// The origin of the session, if its task belongs to this ticket of this parent; otherwise `None`.
fn origin<'d>(draft: &'d Draft<'_>, parent: &SessionId, ticket: Seq) -> Option<&'d Origin> {
    let origin = draft.state.origin.as_deref()?;
    (origin.parent == *parent && origin.ticket == ticket).then_some(origin)
}
