//! Hooks: code of the host at fixed points. A gate may refuse, a pipe may rewrite, an observer may only watch.
//!
//! | point | kind | when it crashes, or takes longer than its limit ([`Hook::limit`]: five seconds) |
//! |---|---|---|
//! | [`Hook::on_input`] | pipe | the message is refused; without a [guard](Hook::guards), it passes unchanged |
//! | [`Hook::on_answer`] | pipe | the answer is withheld; without a guard, it passes unchanged |
//! | [`Hook::on_turn`] | pipe | the turn ends with an error; without a guard, nothing is added |
//! | [`Hook::on_context`] | pipe | the turn ends with an error; without a guard, the request is made without what it added |
//! | [`Hook::before_call`] | gate | the call is blocked: a gate fails closed |
//! | [`Hook::before_operation`] | gate | the operation is refused: a gate fails closed |
//! | [`Hook::on_result`] | pipe | the result is withheld; without a guard, it passes unchanged |
//! | [`Hook::on_stop`] | gate | the turn ends: a gate that crashes must not keep a model at work |
//! | [`Hook::output_filter`] | pipe | a crash fails the call; there is no time limit, so a filter must not wait |
//! | [`Hook::on_event`], [`Hook::on_error`] | observer | a panic is reported; without a time limit: a slow observer falls behind, and learns how many events it missed |
//!
//! Hooks run in the order they were added. A pipe's output is the next pipe's input. The first gate that refuses decides; later
//! gates are not called. A hook cannot change the id of a message. A callback that is cut off at its limit is dropped at its
//! next `await`; one that blocks its thread without awaiting cannot be cut off. Three hooks are ours: [`Redact`], [`ReadLoop`],
//! [`Planning`].
//!
//! What a hook answers is on the tape before anything follows from it, so a replay and a recovery need no hook.
//!
//! A change must keep this: no hook runs in a session's actor, and no callback runs where its panic is not caught. Input hooks and
//! gates of operations run in the caller's task; the pipes of a turn, a request and an answer, and the gate at the end of a turn, in the
//! worker of their request; gates, result pipes and filters with their call; and each observer on its own thread. So a hook that hangs delays the message, request or call that it sees, or itself, and not the actor.

mod counts;
mod hooks;
mod outgoing;
mod planning;
mod read_loop;
mod redact;

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::Value;

use crate::{
    event::Event,
    model::{AnswerPart, BoxFuture},
    tool::{Access, Effect, OutputFilter, SessionRef, Todo, ToolResult},
    words::ids::{CallId, SessionId},
    words::message::Message,
    words::pointers::pointers,
};

pub(crate) use hooks::{HookFailure, Hooks, Ruling};
pub(crate) use outgoing::Preparing;

pub use outgoing::{Outgoing, TurnStart};
#[cfg(unix)]
pub use planning::NoteFinding;
pub use planning::Planning;
pub use read_loop::ReadLoop;
pub use redact::Redact;

/// How long one callback of a gate or a pipe may take unless the hook says otherwise ([`Hook::limit`]), but for
/// [`Hook::output_filter`], which must not wait; and how long all observers together may take at the end of the runtime.
pub const HOOK_LIMIT: Duration = Duration::from_secs(5);

/// The longest [`Hook::limit`].
const HOOK_LIMIT_MAX: Duration = Duration::from_secs(600);

/// The verdict of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Continue.
    Pass,
    /// The call must not run; the model gets the reason.
    Block(String),
    /// A person must allow the call first, for this reason, whatever the rules say; where nobody listens who could, the call is
    /// denied. The ask names the permission `hook`, and the hook with its reason. Only for calls: a gate of operations that
    /// answers this refuses.
    Ask(String),
    /// The call is to run with these arguments in place of its own. The tool is asked anew what it wants, and the rules judge it
    /// anew: what they deny is denied, and what a person allowed before was another call. The answer on the tape, and so the
    /// conversation, keeps the arguments that the model wrote. Only for calls.
    Rewrite(Value),
}

/// Whether a turn may end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopping {
    /// The turn may end.
    End,
    /// The model goes on with these words, once in a turn.
    GoOn(String),
}

/// The end of a turn, as [`Hook::on_stop`] sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TurnStop {
    /// The text of the answer that ends the turn.
    pub text: String,
    /// The to-do list of the session.
    pub todos: Arc<[Todo]>,
    /// Whether the turn was sent on before: then it ends, whatever the hook says.
    pub was_sent_on: bool,
}

/// The result of an input pipe.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// The message passes, changed or as it was.
    Pass(Box<Message>),
    /// The hook has dealt with the message: it is not sent, and the sender gets [`SendError::Handled`](crate::SendError::Handled).
    Handled,
}

impl TurnStop {
    /// Sends the turn on while items of the to-do list are open.
    pub(crate) fn or_go_on(&self) -> Stopping {
        match self.todos.iter().filter(|todo| todo.is_open()).count() {
            0 => Stopping::End,
            open => Stopping::GoOn(format!(
                "[Hint of the runtime: your to-do list has {open} open items. Go on with them; mark what is done as completed, and \
                 what is not to be done as cancelled. If you need the user, say for what.]"
            )),
        }
    }
}

/// What somebody asks to be done to a session, beside talking to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operation {
    /// A fork of the session ([`Session::fork`](crate::Session::fork)).
    Fork,
    /// A rollback, an undo or a redo ([`Session::rollback_with`](crate::Session::rollback_with)).
    Rollback,
    /// The merge of a fork into the session ([`Session::merge`](crate::Session::merge)).
    Merge,
    /// A summary of what was said so far ([`Session::compact`](crate::Session::compact)). One that the runtime makes because the
    /// window is full asks no hook: without it the turn could not go on.
    Compaction,
    /// A named anchor ([`Session::handoff`](crate::Session::handoff)).
    Handoff,
    /// The deletion of the session. A sweep is the operator's, and asks no hook.
    Deletion,
}

impl Operation {
    /// The word for it in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Fork => "fork",
            Operation::Rollback => "rollback",
            Operation::Merge => "merge",
            Operation::Compaction => "compaction",
            Operation::Handoff => "handoff",
            Operation::Deletion => "deletion",
        }
    }
}

/// Where a hook is called: the session whose message or answer it sees.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookContext {
    /// The id of the session.
    pub id: SessionId,
    /// The way back to the session, for its handle.
    pub(crate) session_ref: SessionRef,
}

impl HookContext {
    /// A context outside of any runtime, for a test of a hook.
    #[must_use]
    pub fn detached(id: SessionId) -> HookContext {
        HookContext { id, session_ref: SessionRef::default() }
    }
}

/// A call, as hooks see it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookCall {
    /// The session that makes the call.
    pub session: SessionId,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// The name of the tool.
    pub tool: String,
    /// The arguments of the call.
    pub arguments: Value,
    /// What may be done about the call after a crash, as its tool says: a call with [`Effect::Read`] changes nothing.
    pub effect: Effect,
    /// What the call was judged by: all that it wants to do.
    pub access: Vec<Access>,
    /// The way back to the session, for its handle.
    pub(crate) session_ref: SessionRef,
}

/// Code of the host at fixed points. Every callback is optional. The runtime asks for the name, and whether the hook guards and
/// what it sees (answers, turns, requests, events), once, when it starts.
pub trait Hook: Send + Sync + 'static {
    /// The name of the hook, for errors and refusals.
    fn name(&self) -> &str;

    /// How long one of its callbacks may take: [`HOOK_LIMIT`], or up to ten minutes for a hook that starts programs. An abort does
    /// not wait for it.
    fn limit(&self) -> Duration {
        HOOK_LIMIT
    }

    /// Whether a message is refused if [`Hook::on_input`] of this hook crashes or takes too long, and an answer or a result
    /// withheld where [`Hook::on_answer`] or [`Hook::on_result`] does: a hook that takes secrets out must not be passed over. A
    /// hook whose changes are not needed says `false`, and the message, answer or result passes as it was.
    fn guards(&self) -> bool {
        true
    }

    /// Whether the hook sees the model's answers: [`Hook::on_answer`] is called only where this is `true`. Then answers are not
    /// shown piece by piece: the texts are shown whole, once all hooks have passed them.
    fn sees_answers(&self) -> bool {
        false
    }

    /// Sees a message before it is accepted, also a message that replaces a waiting one ([`Session::edit`](crate::Session::edit)).
    /// The context names the session; its handle may be asked for the state, but must not be waited on.
    ///
    /// Everything that people, hosts and models put into a conversation in a user's place comes here: messages that are sent, edited
    /// or made of a command, the message that gives a child its task ([`Session::spawn_child`](crate::Session::spawn_child),
    /// [`Session::delegate`](crate::Session::delegate), the tools `task` and `task_send`; the context names the child, which does
    /// not exist yet), the words of a rejection, and the summary of a handoff. What the runtime itself says to a session does not:
    /// news of a child, the summaries of compactions and branches.
    ///
    /// ```
    /// use tamtam::{
    ///     Message,
    ///     hook::{Hook, HookContext, Input},
    ///     model::BoxFuture,
    /// };
    ///
    /// /// Notes which messages come while a turn runs.
    /// struct Notes;
    ///
    /// impl Hook for Notes {
    ///     fn name(&self) -> &str {
    ///         "notes"
    ///     }
    ///
    ///     fn on_input<'a>(&'a self, context: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
    ///         Box::pin(async move {
    ///             let state = match context.session() {
    ///                 Some(session) => session.state().await.ok(),
    ///                 None => None,
    ///             };
    ///             let is_busy = state.is_some_and(|state| state.turn.is_some());
    ///             println!("{}: {}", context.id, if is_busy { "said into a turn" } else { "begins a turn" });
    ///             Input::Pass(Box::new(message))
    ///         })
    ///     }
    /// }
    /// # let _ = Notes;
    /// ```
    /// A message that its sender sends again under its id comes again, and is compared with the first as the hooks leave both. So a
    /// hook should make the same of the same words. Parts that it adds at the end are not compared.
    fn on_input<'a>(&'a self, _context: &'a HookContext, message: Message) -> BoxFuture<'a, Input> {
        Box::pin(async move { Input::Pass(Box::new(message)) })
    }

    /// Sees the model's answer before anyone else: before a listener is shown a piece of it, before it is recorded, and before its
    /// calls run. The hook may change texts and the arguments of calls, and may take parts out. A truncated answer comes too, as
    /// far as it goes. The summaries of compactions do not.
    ///
    /// If the hook crashes or takes over its limit, the answer is withheld: it is recorded as a line that says so, its calls
    /// do not run, the turn ends as [`Refused`](crate::Outcome::Refused), and its tokens are charged. See [`Hook::guards`].
    ///
    /// ```
    /// use tamtam::{
    ///     hook::{Hook, HookContext},
    ///     model::{AnswerPart, BoxFuture},
    /// };
    ///
    /// struct NoKeys;
    ///
    /// impl Hook for NoKeys {
    ///     fn name(&self) -> &str {
    ///         "no keys"
    ///     }
    ///
    ///     fn sees_answers(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn on_answer<'a>(&'a self, _: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
    ///         for part in &mut parts {
    ///             if let AnswerPart::Text { text, .. } = part {
    ///                 *text = text.replace("sk-live-123", "[key]");
    ///             }
    ///         }
    ///         Box::pin(async { parts })
    ///     }
    /// }
    /// # let _ = NoKeys;
    /// ```
    fn on_answer<'a>(&'a self, _context: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        Box::pin(async move { parts })
    }

    /// Whether the hook sees the beginnings of turns: [`Hook::on_turn`] is called only where this is `true`.
    fn sees_turns(&self) -> bool {
        false
    }

    /// Whether the hook sees requests: [`Hook::on_context`] is called only where this is `true`. Then each request takes one append
    /// more on the tape.
    fn sees_requests(&self) -> bool {
        false
    }

    /// Sees the start of a turn, before its first request: it may add to the system prompt of the turn, and say something into the
    /// conversation behind the messages that began it. Called once in a turn, whatever delivered its message; after a crash again
    /// only where the tape does not have the answer. See [`TurnStart`] for how long what it adds stays.
    fn on_turn<'a>(&'a self, _context: &'a HookContext, turn: TurnStart) -> BoxFuture<'a, TurnStart> {
        Box::pin(async move { turn })
    }

    /// Sees what a request tells the model, before it is made: the conversation, and the reminders behind it. The hook may add,
    /// change and leave out items, for this request only. A try again of the same request is made with the same answer.
    ///
    /// A hook answers wrongly that parts a call from its result, or that adds more than 256 KiB: it counts as failed.
    ///
    /// ```
    /// use tamtam::{
    ///     hook::{Hook, HookContext, Outgoing},
    ///     model::BoxFuture,
    /// };
    ///
    /// struct House;
    ///
    /// impl Hook for House {
    ///     fn name(&self) -> &str {
    ///         "house"
    ///     }
    ///
    ///     fn sees_requests(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn on_context<'a>(&'a self, _: &'a HookContext, mut request: Outgoing) -> BoxFuture<'a, Outgoing> {
    ///         request.reminders.push("Answer in English.".to_owned());
    ///         Box::pin(async { request })
    ///     }
    /// }
    /// # let _ = House;
    /// ```
    fn on_context<'a>(&'a self, _context: &'a HookContext, request: Outgoing) -> BoxFuture<'a, Outgoing> {
        Box::pin(async move { request })
    }

    /// Sees a call before it runs, after the permission rules allowed it. A call that is rewritten or asked about is judged again,
    /// and then comes to the hooks behind the one that said so: no hook sees a call twice.
    fn before_call<'a>(&'a self, _call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Pass })
    }

    /// Sees what somebody asks to be done to a session, before anything is done. A refusal, and a crash of the hook, is the caller's
    /// error ([`Refusal::Blocked`](crate::session::Refusal::Blocked)); the session stays as it is.
    fn before_operation<'a>(&'a self, _context: &'a HookContext, _operation: Operation) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Pass })
    }

    /// Sees the result of a call that ran, good or bad, before it is recorded: also the error of a crashed tool. The runtime's
    /// answer for a call that did not run (denied, blocked, skipped) does not come here.
    ///
    /// If the hook crashes or takes over its limit, the result is withheld: the model learns that the call ran and that its
    /// result is not shown, and only the changes to files are recorded of the result. See [`Hook::guards`].
    fn on_result<'a>(&'a self, _call: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { result })
    }

    /// Sees the answer that would end a turn, one without calls, before it counts as the end. The first hook that answers
    /// [`Stopping::GoOn`] has its words sent as a message that steers: it is on the tape like any message, and the model makes
    /// another step. That happens once in a turn, and not in a turn that only such messages began. A turn that fails, is aborted or
    /// has no step left ends without being asked about.
    fn on_stop<'a>(&'a self, _context: &'a HookContext, _turn: &'a TurnStop) -> BoxFuture<'a, Stopping> {
        Box::pin(async { Stopping::End })
    }

    /// Makes a filter for one stream of a call's output. [`Hook::on_result`] sees a result when the call is over; what a call
    /// writes to a disk or shows while it runs passes a filter first: the output of `bash`, the pieces of
    /// [`typed_streaming`](crate::tool::typed_streaming), the titles and texts of progress. So do the beginnings of files that a
    /// task names for its child. A hook that must see all output has both. A filter must not wait.
    fn output_filter(&self) -> Option<Box<dyn OutputFilter>> {
        None
    }

    /// Sees every event of every session, one at a time, in the order in which they were made, some time after. The callback may
    /// block: that delays no session, and up to 4,096 events or 32 MiB wait meanwhile. Events beyond that are lost to this hook;
    /// those that are on a tape can be read again ([`Session::events_after`](crate::Session::events_after)). At the end of the
    /// runtime the hook is shown the waiting events, for at most five seconds.
    fn on_event(&self, _event: &Event) {}

    /// Sees each event that tells of an error, after [`Hook::on_event`] has seen it: a request that failed, a call that failed, a
    /// turn that ended with an error, another hook that failed. For a hook that wants nothing else.
    fn on_error(&self, _event: &Event) {}

    /// Whether the hook sees events: [`Hook::on_event`] and [`Hook::on_error`] are called only where this is `true`. A hook that
    /// says `false` has no thread and no queue.
    fn sees_events(&self) -> bool {
        true
    }

    /// Called when the hook was too slow: `missed` events are missing before the next event that it is shown.
    fn on_missed(&self, _missed: u64) {}
}

pointers!(Hook {
    fn name(&self) -> &str;
    fn limit(&self) -> Duration;
    fn guards(&self) -> bool;
    fn sees_answers(&self) -> bool;
    fn on_input<'a>(&'a self, context: &'a HookContext, message: Message) -> BoxFuture<'a, Input>;
    fn on_answer<'a>(&'a self, context: &'a HookContext, parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>>;
    fn sees_turns(&self) -> bool;
    fn sees_requests(&self) -> bool;
    fn on_turn<'a>(&'a self, context: &'a HookContext, turn: TurnStart) -> BoxFuture<'a, TurnStart>;
    fn on_context<'a>(&'a self, context: &'a HookContext, request: Outgoing) -> BoxFuture<'a, Outgoing>;
    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict>;
    fn before_operation<'a>(&'a self, context: &'a HookContext, operation: Operation) -> BoxFuture<'a, Verdict>;
    fn on_result<'a>(&'a self, call: &'a HookCall, result: ToolResult) -> BoxFuture<'a, ToolResult>;
    fn on_stop<'a>(&'a self, context: &'a HookContext, turn: &'a TurnStop) -> BoxFuture<'a, Stopping>;
    fn output_filter(&self) -> Option<Box<dyn OutputFilter>>;
    fn on_event(&self, event: &Event);
    fn on_error(&self, event: &Event);
    fn sees_events(&self) -> bool;
    fn on_missed(&self, missed: u64);
});
