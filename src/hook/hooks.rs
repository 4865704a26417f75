//! [`Hooks`]: the hooks of a runtime, in order, and the one place where a callback of theirs is called. Each call has a limit and its
//! panic is caught; what a failure means is decided here for each point (the table in `hook.rs`). A change must keep that no callback
//! is called elsewhere.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;

use super::{HOOK_LIMIT, Hook, HookCall, HookContext, Input, Operation, Verdict};
use crate::{
    model::{AnswerPart, BoxFuture, ModelAnswer, bound_parts},
    tool::{Filters, ToolResult},
    words::message::{Finish, Message},
    words::panic_text,
};

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookFailure {
    pub(crate) hook: String,
    pub(crate) callback: &'static str,
    pub(crate) error: String,
}

/// The hooks of a runtime, in order.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<[Placed]>);

/// A hook with what it said of itself when it was added. It is not asked again, so that nothing of a host runs outside of what
/// contains its panics.
struct Placed {
    hook: Arc<dyn Hook>,
    name: Arc<str>,
    guards: bool,
    sees_answers: bool,
}

impl Hooks {
    /// Asks each hook for its kind.
    pub(crate) fn new(hooks: impl IntoIterator<Item = Arc<dyn Hook>>) -> Hooks {
        let placed = |hook: Arc<dyn Hook>| {
            let (name, guards, sees_answers) = (hook.name().into(), hook.guards(), hook.sees_answers());
            Placed { hook, name, guards, sees_answers }
        };
        Hooks(hooks.into_iter().map(placed).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The hooks, with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<dyn Hook>, &Arc<str>)> {
        self.0.iter().map(|placed| (&placed.hook, &placed.name))
    }

    /// Runs the input pipes. `None` if one has handled the message, an error if one that guards has failed.
    pub(crate) async fn on_input(
        &self,
        context: &HookContext,
        message: Message,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Result<Option<Message>, HookFailure> {
        let mut message = message;
        for Placed { hook, name, guards, .. } in self.0.iter() {
            match isolated(name, "on_input", || hook.on_input(context, message.clone())).await {
                Ok(Input::Pass(next)) => message = Message { id: message.id, ..*next },
                Ok(Input::Handled) => return Ok(None),
                Err(failure) => {
                    failed(failure.clone());
                    if *guards {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(Some(message))
    }

    /// A maker of the filters of output, one of each hook that has one.
    pub(crate) fn filters(&self) -> Filters {
        let hooks = self.clone();
        let make = move || hooks.0.iter().filter_map(|placed| placed.hook.output_filter()).collect::<Vec<_>>();
        Filters((!make().is_empty()).then(|| Arc::new(make) as _))
    }

    /// Whether some hook sees answers.
    pub(crate) fn see_answers(&self) -> bool {
        self.0.iter().any(|placed| placed.sees_answers)
    }

    /// Runs the answer pipes. An answer that a guarding hook failed at is withheld.
    pub(crate) async fn on_answer(
        &self,
        context: &HookContext,
        mut answer: ModelAnswer,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> ModelAnswer {
        answer.fragment = Default::default();
        for Placed { hook, name, guards, .. } in self.0.iter().filter(|placed| placed.sees_answers) {
            match isolated(name, "on_answer", || hook.on_answer(context, answer.parts.clone())).await {
                Ok(mut parts) => {
                    if let Err(error) = bound_parts(&mut parts) {
                        let error = format!("it gave data that is {error}, which was left out");
                        failed(HookFailure { hook: name.to_string(), callback: "on_answer", error });
                    }
                    answer.parts = parts;
                }
                Err(failure) => {
                    let text = format!("[The answer was withheld: the hook {} failed.]", failure.hook);
                    failed(failure);
                    if *guards {
                        answer.parts = vec![AnswerPart::Text { text, extra: None }];
                        answer.finish = Finish::ContentFilter;
                        return answer;
                    }
                }
            }
        }
        if answer.finish == Finish::ToolCalls && answer.calls().next().is_none() {
            answer.finish = Finish::Stop;
        }
        answer
    }

    /// Asks the gates. If a gate refuses or fails, returns the text for the model.
    pub(crate) async fn before_call(&self, call: &HookCall, failed: &(dyn Fn(HookFailure) + Sync)) -> Option<String> {
        for Placed { hook, name, .. } in self.0.iter() {
            match isolated(name, "before_call", || hook.before_call(call)).await {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Block(reason)) => return Some(format!("Blocked by hook: {reason}")),
                Err(failure) => {
                    let text = format!("Blocked by hook: {} failed ({})", failure.hook, failure.error);
                    failed(failure);
                    return Some(text);
                }
            }
        }
        None
    }

    /// Asks the gates about an operation. If a gate refuses or fails, returns the reason.
    pub(crate) async fn before_operation(
        &self,
        context: &HookContext,
        operation: Operation,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Result<(), String> {
        for Placed { hook, name, .. } in self.0.iter() {
            match isolated(name, "before_operation", || hook.before_operation(context, operation)).await {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Block(reason)) => return Err(reason),
                Err(failure) => {
                    let reason = format!("{} failed ({})", failure.hook, failure.error);
                    failed(failure);
                    return Err(reason);
                }
            }
        }
        Ok(())
    }

    /// Runs the result pipes. A result that a guarding hook failed at is withheld.
    pub(crate) async fn on_result(
        &self,
        call: &HookCall,
        result: ToolResult,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> ToolResult {
        let mut result = result;
        for Placed { hook, name, guards, .. } in self.0.iter() {
            match isolated(name, "on_result", || hook.on_result(call, result.clone())).await {
                Ok(next) => result = next.bounded(),
                Err(failure) => {
                    let text = format!("[The call ran. Its result was withheld: the hook {} failed.]", failure.hook);
                    failed(failure);
                    if *guards {
                        return ToolResult::error(text);
                    }
                }
            }
        }
        result
    }
}

async fn isolated<'a, T>(
    hook: &str,
    callback: &'static str,
    run: impl FnOnce() -> BoxFuture<'a, T>,
) -> Result<T, HookFailure> {
    let failure = |error: String| HookFailure { hook: hook.to_owned(), callback, error };
    // The call that makes the future may panic as well as the future itself.
    let guarded = AssertUnwindSafe(async move { run().await }).catch_unwind();
    match tokio::time::timeout(HOOK_LIMIT, guarded).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => Err(failure(format!("panicked: {}", panic_text(&*panic)))),
        Err(_) => Err(failure(format!("took longer than {} s", HOOK_LIMIT.as_secs()))),
    }
}
