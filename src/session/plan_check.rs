//! [`PlanCheck`]: a hook that reminds a model of the open items of its to-do list. If a turn would end with open items, the hook
//! sends the model on, once in a turn ([`Hook::on_stop`]). To a message that comes while no turn runs, the hook adds a hint.
//!
//! Rejected: to send the message after the turn. The answer that claims to be done would be the outcome by then.

use crate::{
    hook::{Hook, HookContext, Input, Stopping, TurnStop},
    kernel::State,
    model::BoxFuture,
    words::message::{Message, Part},
};

/// A hook for models that keep a to-do list. If a turn would end with open items, it sends the model on, once in a turn; and it
/// adds a hint about open items to a message that comes while no turn runs. Off by default.
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

impl Hook for PlanCheck {
    fn name(&self) -> &str {
        "plan check"
    }

    fn guards(&self) -> bool {
        false
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

    fn on_stop<'a>(&'a self, _: &'a HookContext, turn: &'a TurnStop) -> BoxFuture<'a, Stopping> {
        Box::pin(async { turn.or_go_on() })
    }
}
