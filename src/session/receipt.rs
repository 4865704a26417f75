//! What a send returns: the [`Receipt`] of an accepted message, and the [`Answer`] that it leads to.
//!
//! A receipt keeps no open question: it has a handle of the session and the id of its message, and asks on each wait. So a wait
//! that is dropped, or made twice, changes nothing. A wait after the session's actor crashed or slept works too, as long as the
//! session remembers the turn. A change must keep that: a host may keep a receipt for longer than an actor lives.

use std::sync::Arc;

use crate::{
    error::SendError,
    kernel::{Disposition, Outcome, Refusal, Spent, State, TurnEnd, Waiting},
    session::Session,
    words::{
        ids::{MessageId, Seq},
        usage::Usage,
    },
};

/// Proof that a message was accepted: it is on the tape. Dropping the receipt changes nothing.
#[derive(Clone, Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Receipt {
    /// The id of the message.
    pub message: MessageId,
    /// The entry that recorded the message.
    pub seq: Seq,
    /// What becomes of it.
    pub disposition: Disposition,
    /// Whether the message was known before: an earlier send under this id brought it, and this one changed nothing.
    pub known_before: bool,
    #[serde(skip)]
    pub(super) session: Session,
}

impl Receipt {
    /// Waits for the end of the turn that the message was delivered to.
    ///
    /// # Errors
    /// [`SendError::Refused`] if the message was withdrawn, if the session no longer remembers the turn, or if the message is on
    /// hold after a turn that was aborted or failed ([`Refusal::OnHold`](crate::session::Refusal::OnHold)): after a
    /// [go-on](Session::go_on) it can be waited for again. Others, such as [`SendError::Closed`] and [`SendError::Parked`], if the
    /// session cannot be asked.
    pub async fn wait(&self) -> Result<Answer, SendError> {
        let id = self.message.clone();
        let end = self.session.slot.until(move |now| outcome(&now.state, &id)).await?;
        let TurnEnd { turn, outcome, text, steps, usage, spent, spent_by_tasks, .. } = Arc::unwrap_or_clone(end);
        Ok(Answer { turn, outcome, text: text.to_string(), steps, usage, spent, spent_by_tasks })
    }
}

/// How the turn of a message ended; `None` while it is open or still to come. An error if no turn will come for the message
/// without help.
fn outcome(state: &State, id: &MessageId) -> Option<Result<Arc<TurnEnd>, SendError>> {
    let is_it = |waiting: &Waiting| waiting.message.id == *id;
    if state.on_hold && state.queue.iter().any(is_it) {
        return Some(Err(SendError::Refused(Refusal::OnHold { id: id.clone() })));
    }
    if state.turn.as_ref().is_some_and(|turn| turn.messages.contains(id)) {
        return None;
    }
    if let Some(end) = state.ended.iter().rev().find(|end| end.messages.contains(id)) {
        return Some(Ok(end.clone()));
    }
    let waits = state.queue.iter().chain(&state.steering).any(is_it);
    (!waits).then(|| Err(SendError::Refused(Refusal::NotWaiting { id: id.clone() })))
}

/// How a turn ended, and what the model said last in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Answer {
    /// The id of the turn.
    pub turn: Seq,
    /// How it ended.
    #[cfg_attr(feature = "schema", schemars(with = "Outcome"))]
    #[serde(flatten, with = "crate::event::shown::outcome")]
    pub outcome: Outcome,
    /// The newest text of the model in this turn; empty if the model wrote none.
    pub text: String,
    /// How many steps it took.
    pub steps: u32,
    /// Tokens: the provider's own figures.
    pub usage: Usage,
    /// What the turn itself used, estimates included, and what that cost.
    #[cfg_attr(feature = "schema", schemars(with = "crate::kernel::ShownSpent"))]
    #[serde(with = "crate::event::shown::spent")]
    pub spent: Spent,
    /// What the session's tasks used that were over while the turn ran, with their own tasks: not in `spent`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::kernel::ShownSpent"))]
    #[serde(with = "crate::event::shown::spent")]
    pub spent_by_tasks: Spent,
}

impl Answer {
    /// The text as JSON; `None` if it is none, or JSON with words around it. A turn with an
    /// [answer schema](crate::model::Params::answer_schema) that is [`Done`](Outcome::Done) has JSON of that schema.
    #[must_use]
    pub fn json(&self) -> Option<serde_json::Value> {
        crate::model::json_of(&self.text)
    }
}
