//! What a send gives back: the [`Receipt`] of an accepted message, and the [`Answer`] that it leads to.
//!
//! A receipt keeps no open question: it has a handle of the session and the id of its message, and asks when somebody waits. So a
//! wait that is dropped, or made twice, changes nothing. A wait after the session's actor crashed or slept works too, as long as
//! the session remembers the turn. A change must keep that: a host may keep a receipt for longer than an actor lives.

use std::sync::Arc;

use crate::{
    actor::slot::Question,
    error::SendError,
    kernel::{Disposition, Outcome, Spent, TurnEnd},
    session::Session,
    words::{
        ids::{MessageId, Seq},
        usage::Usage,
    },
};

/// Proof that a message was accepted: it is on the tape. Dropping the receipt changes nothing.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// The id of the message.
    pub message: MessageId,
    /// The entry that recorded the message.
    pub seq: Seq,
    /// What becomes of it.
    pub disposition: Disposition,
    pub(super) session: Session,
}

impl Receipt {
    /// Waits for the end of the turn that the message was delivered to.
    ///
    /// # Errors
    /// [`SendError::Refused`] where the message was withdrawn, where the session no longer remembers the turn, or where the message
    /// is on hold behind a turn that was aborted or failed ([`Refusal::OnHold`](crate::session::Refusal::OnHold)): after a
    /// [go-on](Session::go_on) it can be waited for again. Others, such as [`SendError::Closed`] and [`SendError::Parked`], where
    /// the session cannot be asked.
    pub async fn wait(&self) -> Result<Answer, SendError> {
        let end = self.session.slot.ask_state(|reply| Question::Outcome(self.message.clone(), reply)).await?;
        let TurnEnd { turn, outcome, text, steps, usage, spent, spent_by_tasks, .. } = Arc::unwrap_or_clone(end);
        Ok(Answer { turn, outcome, text: text.to_string(), steps, usage, spent, spent_by_tasks })
    }
}

/// How a turn ended, and what the model said last in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The id of the turn.
    pub turn: Seq,
    /// How it ended.
    pub outcome: Outcome,
    /// The newest text of the model in this turn; empty where the model wrote none.
    pub text: String,
    /// How many steps it took.
    pub steps: u32,
    /// Tokens: the provider's own figures.
    pub usage: Usage,
    /// What the turn itself used, estimates included, and what that cost.
    pub spent: Spent,
    /// What the session's tasks used that were over while the turn ran, with their own tasks: not in `spent`.
    pub spent_by_tasks: Spent,
}
