//! [`Hooks`]: the hooks of a runtime, in order, and the one place where a callback of theirs is called. Each call has a limit and its
//! panic is caught; what a failure means is decided here for each point (the table in `hook.rs`). A change must keep that no callback
//! is called elsewhere.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use serde_json::Value;

use super::{HOOK_LIMIT_MAX, Hook, HookCall, HookContext, Input, Operation, Preparing, Stopping, TurnStop, Verdict};
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

/// What the gates say of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ruling {
    /// It runs.
    Run,
    /// It does not; the text is for the model.
    Refuse(String),
    /// It is to be judged again: with other arguments, or by a person for that reason.
    Again {
        /// The hook that says so.
        hook: String,
        /// The arguments in place of its own.
        arguments: Option<Value>,
        /// Why a person must be asked.
        ask: Option<String>,
        /// The hooks that have seen the call, this one included.
        passed: Vec<String>,
    },
}

/// A hook with what it said of itself when it was added. It is not asked again, so that nothing of a host runs outside of what
/// contains its panics.
struct Placed {
    hook: Arc<dyn Hook>,
    name: Arc<str>,
    limit: Duration,
    guards: bool,
    sees_answers: bool,
    sees_turns: bool,
    sees_requests: bool,
}

impl Hooks {
    /// Asks each hook for its kind.
    pub(crate) fn new(hooks: impl IntoIterator<Item = Arc<dyn Hook>>) -> Hooks {
        let placed = |hook: Arc<dyn Hook>| {
            let (name, guards, sees_answers) = (hook.name().into(), hook.guards(), hook.sees_answers());
            let (sees_turns, sees_requests) = (hook.sees_turns(), hook.sees_requests());
            let limit = hook.limit().min(HOOK_LIMIT_MAX);
            Placed { hook, name, limit, guards, sees_answers, sees_turns, sees_requests }
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
        for Placed { hook, name, guards, limit, .. } in self.0.iter() {
            match isolated((name, *limit), "on_input", || hook.on_input(context, message.clone())).await {
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
        for Placed { hook, name, guards, limit, .. } in self.0.iter().filter(|placed| placed.sees_answers) {
            match isolated((name, *limit), "on_answer", || hook.on_answer(context, answer.parts.clone())).await {
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

    /// Whether some hook sees the start of a turn, or a request.
    pub(crate) fn see_requests(&self, is_start: bool) -> bool {
        self.0.iter().any(|placed| placed.sees_requests || (is_start && placed.sees_turns))
    }

    /// Runs the pipes of a turn, where it begins, and those of its request. Fails if a guarding hook does.
    pub(crate) async fn prepare(
        &self,
        context: &HookContext,
        mut preparing: Preparing,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Result<Preparing, HookFailure> {
        let wrong = |name: &Arc<str>, callback, error| HookFailure { hook: name.to_string(), callback, error };
        for Placed { hook, name, guards, limit, .. } in self.0.iter().filter(|placed| placed.sees_turns) {
            let Some(turn) = preparing.turn().cloned() else { break };
            let made = isolated((name, *limit), "on_turn", || hook.on_turn(context, turn)).await;
            let taken = made.and_then(|turn| preparing.take_turn(turn).map_err(|error| wrong(name, "on_turn", error)));
            taken.or_else(|failure| passed_over(failure, *guards, failed))?;
        }
        preparing.said();
        for Placed { hook, name, guards, limit, .. } in self.0.iter().filter(|placed| placed.sees_requests) {
            let request = preparing.outgoing().clone();
            let made = isolated((name, *limit), "on_context", || hook.on_context(context, request)).await;
            let taken =
                made.and_then(|made| preparing.take_outgoing(made).map_err(|error| wrong(name, "on_context", error)));
            taken.or_else(|failure| passed_over(failure, *guards, failed))?;
        }
        Ok(preparing)
    }

    /// Asks the gates about a call, but not those that have seen it (`passed`, in the order of the hooks). Where the hooks are
    /// others by now, all are asked.
    pub(crate) async fn before_call(
        &self,
        call: &HookCall,
        passed: &[String],
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Ruling {
        let names = self.0.iter().map(|placed| &*placed.name);
        let is_known = passed.len() <= self.0.len() && names.zip(passed).all(|(name, passed)| name == passed);
        let from = if is_known { passed.len() } else { 0 };
        for (at, Placed { hook, name, limit, .. }) in self.0.iter().enumerate().skip(from) {
            let (arguments, ask) = match isolated((name, *limit), "before_call", || hook.before_call(call)).await {
                Ok(Verdict::Pass) => continue,
                Ok(Verdict::Block(reason)) => return Ruling::Refuse(format!("Blocked by hook: {reason}")),
                Ok(Verdict::Rewrite(arguments)) if arguments == call.arguments => continue,
                Ok(Verdict::Rewrite(arguments)) => (Some(arguments), None),
                Ok(Verdict::Ask(reason)) => (None, Some(reason)),
                Err(failure) => {
                    let text = format!("Blocked by hook: {} failed ({})", failure.hook, failure.error);
                    failed(failure);
                    return Ruling::Refuse(text);
                }
            };
            let passed = self.0[..=at].iter().map(|placed| placed.name.to_string()).collect();
            return Ruling::Again { hook: name.to_string(), arguments, ask, passed };
        }
        Ruling::Run
    }

    /// Asks whether a turn may end. Gives the words with which the model goes on.
    pub(crate) async fn on_stop(
        &self,
        context: &HookContext,
        turn: &TurnStop,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Option<String> {
        for Placed { hook, name, limit, .. } in self.0.iter() {
            match isolated((name, *limit), "on_stop", || hook.on_stop(context, turn)).await {
                Ok(Stopping::End) => {}
                Ok(Stopping::GoOn(words)) => return Some(words),
                Err(failure) => failed(failure),
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
        for Placed { hook, name, limit, .. } in self.0.iter() {
            match isolated((name, *limit), "before_operation", || hook.before_operation(context, operation)).await {
                Ok(Verdict::Pass) => {}
                Ok(Verdict::Block(reason)) => return Err(reason),
                Ok(Verdict::Ask(_) | Verdict::Rewrite(_)) => {
                    return Err(format!("{name} gave a verdict that is for calls only: pass or block an operation"));
                }
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
        for Placed { hook, name, guards, limit, .. } in self.0.iter() {
            match isolated((name, *limit), "on_result", || hook.on_result(call, result.clone())).await {
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

/// Reports a failure, and goes on without the hook unless it guards.
fn passed_over(failure: HookFailure, guards: bool, failed: &(dyn Fn(HookFailure) + Sync)) -> Result<(), HookFailure> {
    failed(failure.clone());
    if guards { Err(failure) } else { Ok(()) }
}

async fn isolated<'a, T>(
    (hook, limit): (&str, Duration),
    callback: &'static str,
    run: impl FnOnce() -> BoxFuture<'a, T>,
) -> Result<T, HookFailure> {
    let failure = |error: String| HookFailure { hook: hook.to_owned(), callback, error };
    // The call that makes the future may panic as well as the future itself.
    let guarded = AssertUnwindSafe(async move { run().await }).catch_unwind();
    match tokio::time::timeout(limit, guarded).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(panic)) => Err(failure(format!("panicked: {}", panic_text(&*panic)))),
        Err(_) => Err(failure(format!("took longer than {} s", limit.as_secs_f32()))),
    }
}
