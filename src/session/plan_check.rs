//! [`PlanCheck`]: a hook that reminds a model of the open items of its to-do list. If a turn would end with open items, the hook
//! sends the model on, once in a turn. To a message that comes while no turn runs, the hook adds a hint.
//!
//! The check at the end is made before the last answer of a turn is accepted: the hook sends a steering message to the session,
//! so another step follows. The id of this message is made from the id of the turn, and a session takes each id once. So a model
//! is sent on at most once in a turn, also after a crash, because the tape has the message.
//!
//! A change must keep two bounds. The message is for the turn that runs, and refused if that turn makes no further step. A turn all
//! of whose messages are such messages is not sent on: otherwise a message that was read too late would make turns for ever.
//!
//! Rejected: to send the message after the turn. The answer that claims to be done would be the outcome by then.

use crate::{
    hook::{Hook, HookContext, Input},
    kernel::{Delivery, State, Steering},
    model::{AnswerPart, BoxFuture},
    words::ids::MessageId,
    words::message::{Message, Part},
};

/// What the ids of its messages begin with.
const ID: &str = "plan-check-";

/// A hook for models that keep a to-do list. If a turn would end with open items, it sends the model on, once in a turn; and it
/// adds a hint about open items to a message that comes while no turn runs. Off by default.
///
/// With this hook, answers are not shown piece by piece ([`Hook::sees_answers`]).
///
/// ```
/// use tamtam::session::PlanCheck;
///
/// let tools = tamtam::tools::with_todos(&tamtam::tools::full());
/// let runtime = tamtam::Runtime::builder().tools(tools).hook(PlanCheck);
/// # drop(runtime);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanCheck;

fn open_items(state: &State) -> usize {
    state.todos().iter().filter(|todo| todo.is_open()).count()
}

/// The message that sends the model on; `None` if the turn may end.
fn sent_on(state: &State) -> Option<Message> {
    let turn = state.turn.as_ref().filter(|turn| turn.ending.is_none())?;
    let is_ours = |id: &MessageId| id.to_string().starts_with(ID);
    let open = open_items(state);
    if open == 0 || turn.messages.iter().all(is_ours) {
        return None;
    }
    let text = format!(
        "[Hint of the runtime: your to-do list has {open} open items. Go on with them; mark what is done as completed, and what is \
         not to be done as cancelled. If you need the user, say for what.]"
    );
    Some(Message::user(text).with_id(format!("{ID}{}", turn.id).as_str().into()))
}

impl Hook for PlanCheck {
    fn name(&self) -> &str {
        "plan check"
    }

    fn guards(&self) -> bool {
        false
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn sees_events(&self) -> bool {
        false
    }

    fn on_input<'a>(&'a self, context: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move {
            if let Some(session) = context.session()
                && let Ok(state) = session.state().await
                && state.turn.is_none()
                && open_items(&state) > 0
            {
                let open = open_items(&state);
                message.parts.push(Part::text(format!(
                    "[Hint of the runtime: your to-do list has {open} open items of before: go on with them, or clear them.]"
                )));
            }
            Input::Pass(Box::new(message))
        })
    }

    fn on_answer<'a>(&'a self, context: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        Box::pin(async move {
            let calls = parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
            if !calls
                && let Some(session) = context.session()
                && let Ok(state) = session.state().await
                && let (Some(message), Some(turn)) = (sent_on(&state), &state.turn)
            {
                // Refused, it is not needed: the turn is being ended, or makes no further step.
                let steer = Delivery::Steer(Steering::FinishBatch);
                drop(session.send_to_turn(message, steer, Some(turn.id)).await);
            }
            parts
        })
    }
}
