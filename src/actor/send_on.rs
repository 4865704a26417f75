//! Asks the hooks whether an answer may end its turn, and sends the turn on with the words of one that says no.
//!
//! The words are a message like any other: the input hooks see it, and the tape has it. So a replay needs no hook, and a crash between
//! the message and the answer sends the turn on no second time.

use crate::{
    actor::worker_context::WorkerContext,
    error::SendError,
    hook::TurnStop,
    kernel::{Delivery, SendMessage, Steering},
    model::ModelAnswer,
    words::{
        ids::{MessageId, Seq},
        message::{Finish, Message},
    },
};

/// What the ids of the messages begin with that send a turn on.
const GO_ON: &str = "go-on-";

/// Asks the hooks whether an answer may end the turn. If not, the words of the hook are a message that steers: a session takes each
/// id once, so a turn is sent on at most once, also after a crash.
pub(super) async fn send_on(post: &WorkerContext, answer: &ModelAnswer) {
    let hooks = &post.shared.hooks;
    if hooks.is_empty() || answer.finish != Finish::Stop || answer.calls().next().is_some() {
        return;
    }
    let Some(state) = post.slot.shown() else { return };
    let Some(turn) = state.turn.as_ref().filter(|turn| !turn.messages.is_empty()) else { return };
    // The id of this turn's own: a sender knows no turn before it has begun.
    let id = MessageId::from(format!("{GO_ON}{}", turn.id).as_str());
    let was_sent_on = turn.messages.contains(&id);
    let stop = TurnStop { text: answer.text(), todos: state.todos().into(), was_sent_on };
    let words = hooks.on_stop(&post.hook_context(), &stop, &|failure| post.hook_failed(failure)).await;
    if let Some(words) = words.filter(|_| !was_sent_on) {
        let message = Message::user(words).with_id(id);
        // Refused, it is not needed: the turn is being ended, or makes no further step.
        if let Err(error) = say_into(post, message, turn.id).await {
            tracing::debug!(session = %post.slot.id, %error, "the turn was not sent on");
        }
    }
}

/// Sends a message of a hook into the running turn. The input hooks see it like any other.
async fn say_into(post: &WorkerContext, message: Message, turn: Seq) -> Result<(), SendError> {
    let said = message.parts.len();
    let message = post.passed(post.shared.limits.of_host(message)?).await?;
    let added = message.parts.len().saturating_sub(said);
    let (delivery, expect_turn) = (Delivery::Steer(Steering::FinishBatch), Some(turn));
    post.slot.ask(SendMessage { message, delivery, expect_turn, agent: None, added }).await.map(drop)
}
