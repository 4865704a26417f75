//! Hooks: code of the host at fixed points. A gate may refuse, a pipe may rewrite, an observer may only watch.
//!
//! | point | kind | when it crashes or takes over five seconds |
//! |---|---|---|
//! | [`Hook::on_input`] | pipe | the message is refused; where the hook does not [guard](Hook::guards) it goes on as it was |
//! | [`Hook::before_call`] | gate | the call is blocked: a gate fails closed (C-27) |
//! | [`Hook::on_result`] | pipe | the result goes on as it was |
//! | [`Hook::on_event`] | observer | nothing; it falls behind, and is told how many events it missed |
//!
//! Hooks run in the order they were added. A pipe's output is the next one's input; the first gate that refuses stands, and
//! the later ones are not asked. None of them runs in a session's handler: input hooks run in the sender's task, gates and
//! result pipes in the worker of their call, and each observer on a thread of its own, so that a hook that hangs holds up its own
//! call, or itself, and nothing else.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use serde_json::Value;

use crate::{
    event::Event,
    model::BoxFuture,
    tool::ToolResult,
    words::ids::{CallId, SessionId},
    words::message::Message,
};

/// How long one callback may take.
pub const HOOK_LIMIT: Duration = Duration::from_secs(5);

/// What a gate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// The call must not run; the model is told why.
    Block(String),
}

/// What an input pipe makes of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// It goes on, changed or as it was.
    Pass(Box<Message>),
    /// The hook has dealt with it: it is not sent.
    Handled,
}

/// A call, as hooks see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookCall {
    /// Which session.
    pub session: SessionId,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// Which tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// Code of the host at fixed points. Every callback is optional.
pub trait Hook: Send + Sync + 'static {
    /// Its name, for errors and refusals.
    fn name(&self) -> &str;

    /// Whether a message is refused where [`Hook::on_input`] of this hook crashes or takes too long: a hook that takes secrets out of
    /// messages must not be passed over. A hook whose changes are not needed says `false`, and the message goes on as it was.
    fn guards(&self) -> bool {
        true
    }

    /// Sees a message before it is accepted.
    fn on_input(&self, message: Message) -> BoxFuture<'_, Input> {
        Box::pin(async move { Input::Pass(Box::new(message)) })
    }

    /// Sees a call before it runs, after the permission rules allowed it.
    fn before_call<'a>(&'a self, _call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Pass })
    }

    /// Sees a result before it is recorded, good or bad.
    fn on_result<'a>(&'a self, _call: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { result })
    }

    /// Sees every event of every session, one at a time, in the order in which they were made, some time after. It may wait: that
    /// holds up nobody, and up to 4,096 events or 32 MiB wait meanwhile. What comes beyond that it never sees; what of it is on a
    /// tape can be read again ([`Session::events_after`](crate::Session::events_after)). At the end of the runtime it is shown
    /// what waits still, for five seconds at most.
    fn on_event(&self, _event: &Event) {}

    /// It was too slow: so many events are missing here, before the next one that it is shown.
    fn on_missed(&self, _missed: u64) {}
}

/// A hook that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookFailure {
    pub(crate) hook: String,
    pub(crate) callback: &'static str,
    pub(crate) error: String,
}

/// The hooks of a runtime, in order.
#[derive(Clone, Default)]
pub(crate) struct Hooks(pub(crate) Arc<[Arc<dyn Hook>]>);

impl Hooks {
    /// Runs the input pipes. `None` where one has dealt with the message, an error where one that guards has failed.
    pub(crate) async fn on_input(
        &self,
        message: Message,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> Result<Option<Message>, HookFailure> {
        let mut message = message;
        for hook in self.0.iter() {
            match isolated(hook.name(), "on_input", || hook.on_input(message.clone())).await {
                Ok(Input::Pass(next)) => message = Message { id: message.id, ..*next },
                Ok(Input::Handled) => return Ok(None),
                Err(failure) => {
                    failed(failure.clone());
                    if hook.guards() {
                        return Err(failure);
                    }
                }
            }
        }
        Ok(Some(message))
    }

    /// Asks the gates: the text for the model where one refuses or fails.
    pub(crate) async fn before_call(&self, call: &HookCall, failed: &(dyn Fn(HookFailure) + Sync)) -> Option<String> {
        for hook in self.0.iter() {
            match isolated(hook.name(), "before_call", || hook.before_call(call)).await {
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

    /// Runs the result pipes.
    pub(crate) async fn on_result(
        &self,
        call: &HookCall,
        result: ToolResult,
        failed: &(dyn Fn(HookFailure) + Sync),
    ) -> ToolResult {
        let mut result = result;
        for hook in self.0.iter() {
            match isolated(hook.name(), "on_result", || hook.on_result(call, result.clone())).await {
                Ok(next) => result = next,
                Err(failure) => failed(failure),
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

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
