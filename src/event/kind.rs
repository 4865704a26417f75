//! The kinds of events: one variant for each thing that can happen in a session, as a host reads it.
//!
//! A variant whose doc says "Provisional" is never made from an entry. Every other variant is made in `of_entry.rs`, from an
//! entry and the state before it alone.
//!
//! The variants and their fields are the JSON form that hosts and other programs read (`docs/FORMATS.md`). Do not rename, retype
//! or drop one. A new optional field must be left out of the JSON where it says nothing.

use std::{borrow::Cow, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    event::{BranchEvent, BudgetThen, shown},
    kernel::{
        Ahead, AskClosedWhy, AskFrom, Breach, CacheMiss, CompactionReason, Delivery, Down, FellBack, Grant, Limits,
        Link, Outcome, Repeats, ShownTasks, Tie,
    },
    model::{ErrorKind, RetryClass},
    permission::{Offer, Rule},
    tool::{Access, Question},
    words::ids::{CallId, MessageId, Millis, Seq, SessionId},
    words::is_default,
    words::message::{ErrorReason, FilePart, Finish, Message, Part},
    words::usage::{ShownCost, Usage},
};

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A message was accepted and waits for its own turn.
    Queued {
        /// The message.
        message: Arc<Message>,
        /// The delivery that its sender chose.
        delivery: Delivery,
    },
    /// A waiting message was changed.
    QueueEdited {
        /// The message with its new content.
        message: Arc<Message>,
    },
    /// A waiting message was taken back.
    Withdrawn {
        /// The message.
        message: MessageId,
    },
    /// A message was accepted and joins the running turn.
    Steered {
        /// The message.
        message: Arc<Message>,
        /// The delivery that its sender chose.
        delivery: Delivery,
    },
    /// A waiting message that steers was sent into the answer that is being made, or the provider said what became of it. It is
    /// delivered once, whatever becomes of it there.
    SteeringMoved {
        /// The message.
        message: MessageId,
        /// Where it is now.
        to: Ahead,
        /// Why it came back, in the provider's words where it gave any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// Messages were put into the model's context.
    Delivered {
        /// Which.
        messages: Vec<MessageId>,
    },
    /// A turn began.
    TurnStarted {
        /// The messages that it answers.
        messages: Vec<MessageId>,
    },
    /// A model request is made.
    StepStarted {
        /// Which model, as `provider/model`.
        model: String,
        /// 1 for the first try.
        attempt: u32,
        /// Tokens that the request takes: the provider's last figure and an estimate of what came since.
        used: u64,
        /// Tokens that a request to this model may take; above 80 % a [`ContextWarning`](EventKind::ContextWarning) follows.
        usable: u64,
        /// Hash of all that determines the request.
        hash: String,
        /// The model that failed in this turn, so that this one is asked; left out otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<FellBack>,
    },
    /// Hooks changed the request before it was sent.
    RequestPrepared {
        /// Whether they added to the system prompt of the turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        system: bool,
        /// How many texts they said into the conversation at the start of the turn.
        messages: usize,
        /// How many items they put into the conversation as this request shows it.
        items: usize,
        /// How many reminders they put behind it.
        reminders: usize,
    },
    /// More text of the answer. Provisional.
    TextDelta {
        /// The text.
        text: String,
    },
    /// The model begins to think. Provisional.
    ReasoningStarted {},
    /// More of the thought. Provisional.
    ReasoningDelta {
        /// The text.
        text: String,
    },
    /// The thought is complete. Provisional.
    ReasoningEnded {},
    /// The model begins to write a call. Provisional.
    CallPending {
        /// Position among the calls of the answer, from 0.
        index: u32,
        /// The id that the model gave to it.
        call: CallId,
        /// Which tool.
        name: String,
    },
    /// More of the arguments of a call that the model is writing. Provisional, and for display only: see
    /// [`PartialJson`](crate::tool::PartialJson) for what can be shown of them.
    CallInput {
        /// Position among the calls of the answer, from 0.
        index: u32,
        /// More of the JSON text.
        text: String,
    },
    /// A part of the answer is complete: text, reasoning or a call.
    PartUpdated {
        /// The part.
        part: Part,
    },
    /// A call is about to run.
    CallStarted {
        /// The call's ticket.
        ticket: Seq,
        /// The id that the model gave to it.
        call: CallId,
        /// Which tool.
        name: String,
        /// Its arguments as received.
        input: Arc<str>,
        /// 1 for the first try.
        attempt: u32,
    },
    /// A hook held a call up that was about to run: it is judged again.
    CallGated {
        /// The call's ticket.
        ticket: Seq,
        /// The id that the model gave to it.
        call: CallId,
        /// Which tool.
        name: String,
        /// The hook.
        hook: String,
        /// The arguments in place of the call's own; left out where they stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Arc<str>>,
        /// Why a person is to be asked; left out where the rules alone say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<String>,
    },
    /// A running call reports its progress. Provisional.
    CallProgress {
        /// The call's ticket.
        ticket: Seq,
        /// What the call does now, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The progress, in a form that the tool chooses.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        metadata: Value,
    },
    /// A call is over.
    CallFinished {
        /// The call's ticket.
        ticket: Seq,
        /// The id that the model gave to it.
        call: CallId,
        /// Which tool.
        name: String,
        /// Why the call has no good result; left out for a good one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorReason>,
        /// The result as the model sees it.
        content: String,
        /// What the call did, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Details for hosts besides the content.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        details: Value,
        /// Files that belong to the result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<FilePart>,
    },
    /// Another agent is in force from here on.
    AgentSwitched {
        /// Its name.
        agent: String,
        /// The name of the agent before it.
        from: String,
    },
    /// A person is asked about a call.
    Ask {
        /// The ask's ticket: answer with it.
        ask: Seq,
        /// The id that the model gave to the call.
        call: CallId,
        /// Which tool.
        name: String,
        /// Its arguments as received.
        input: Arc<str>,
        /// What is asked about: all that the call wants, and of a shell command the parts that need an answer.
        access: Vec<Access>,
        /// When the ask expires and the call is denied.
        expires: Millis,
        /// Whether the ask stays open until `expires`, even without listeners.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        waits: bool,
        /// For a question of a child: the sessions that passed it on; the one that makes the call comes last. Otherwise empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        from: Vec<AskFrom>,
        /// What may be allowed for more than this call, from narrow to wide. An answer names one by its number
        /// ([`Grant::Offered`]); the first one is [`Grant::Always`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        offers: Vec<Offer>,
        /// The question that the running call asks; `None` if the ask is about the call itself, which has not started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<Question>>,
        /// The digest of tool, arguments, accesses and question. An answer that names it
        /// ([`Session::answer_shown`](crate::Session::answer_shown)) is for what was shown, or it is refused.
        digest: String,
        /// What the call repeats, where that is asked about (`doom_loop`); `None` else, and for a question of a child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        repeats: Option<Repeats>,
    },
    /// An ask is closed.
    AskClosed {
        /// The ask's ticket.
        ask: Seq,
        /// The person's answer, if there was one.
        #[cfg_attr(feature = "schema", schemars(with = "Option<shown::ShownGrant>"))]
        #[serde(default, skip_serializing_if = "Option::is_none", with = "shown::grant")]
        grant: Option<Grant>,
        /// Why the ask was closed without an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<AskClosedWhy>,
        /// Who answered, as the host says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The rules that apply from here on, within the scope of the answer. With the scope `project`, the host stores them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// A standing grant was revoked: what it allowed is asked about again.
    GrantRevoked {
        /// The grant: the seq of the entry that gave it, and of its `ask_closed`.
        grant: Seq,
    },
    /// A model request failed.
    RequestFailed {
        /// What happened.
        error: String,
        /// What kind of failure.
        kind: ErrorKind,
        /// Whether another try may help.
        class: RetryClass,
        /// The model, as `provider/model`, that goes on with the turn from here; left out where the same one is asked again, or none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<String>,
    },
    /// A failed request will be made again.
    Retry {
        /// 1 for the first retry.
        attempt: u32,
        /// The earliest moment of the retry.
        until: Millis,
        /// Whether the server asked for the wait.
        server: bool,
    },
    /// A hook crashed, took too long, or gave an answer that it may not give. Provisional.
    HookError {
        /// The hook's name.
        hook: String,
        /// The callback that failed.
        callback: Cow<'static, str>,
        /// What went wrong.
        error: String,
    },
    /// A request and its calls are done.
    StepFinished {
        /// The tools that the step called, in call order; a tool that was called twice is listed twice.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<String>,
        /// How the answer ended.
        finish: Finish,
        /// Tokens of the step.
        usage: Usage,
        /// Whether the tokens are our estimate, because the provider gave no figures.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        /// Cost of the step.
        #[serde(flatten)]
        cost: ShownCost,
        /// What is left of the session's budget, for each limited resource.
        #[cfg_attr(feature = "schema", schemars(with = "crate::kernel::ShownLimits"))]
        #[serde(default, skip_serializing_if = "Limits::is_none", with = "shown::limits")]
        left: Limits,
        /// Whether the answer was cut off by us.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// What the provider could have read from its cache and did not, and why; left out where it read what it could.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_miss: Option<CacheMiss>,
    },
    /// A turn is over.
    TurnFinished {
        /// How it ended.
        #[cfg_attr(feature = "schema", schemars(with = "Outcome"))]
        #[serde(flatten, with = "shown::outcome")]
        outcome: Outcome,
        /// The newest text of the model in it.
        text: Arc<str>,
        /// The messages that it answered.
        messages: Vec<MessageId>,
        /// Tokens of the turn, and of the tasks that were over while it ran.
        usage: Usage,
        /// The number of requests of the turn whose tokens are our estimate.
        #[serde(default, skip_serializing_if = "is_default")]
        estimated: u64,
        /// Cost of these tokens.
        #[serde(flatten)]
        cost: ShownCost,
        /// The part that the tasks used; left out if there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tasks: Option<ShownTasks>,
    },
    /// More than 80 % of the tokens that a request may take are used. Shown once, until the context is made smaller.
    ContextWarning {
        /// Tokens that the request takes.
        used: u64,
        /// Tokens that the request may take.
        usable: u64,
    },
    /// A limit did not allow the next piece of work. If a person is asked for more, the answer closes the ask as any other ask.
    Budget {
        /// The limit, and what would be needed.
        #[cfg_attr(feature = "schema", schemars(with = "Breach"))]
        #[serde(flatten, with = "shown::breach")]
        breach: Breach,
        /// What happens now.
        then: BudgetThen,
        /// The ask's ticket, with which to answer; left out if no one is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ask: Option<Seq>,
        /// When the ask expires and the turn ends; left out if no one is asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<Millis>,
        /// The model that is asked instead, as `provider/model`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The breach in words.
        text: String,
    },
    /// A summary of the older part of the conversation is being written; the session continues where it can.
    CompactionStarted {
        /// Why.
        reason: CompactionReason,
        /// The model that writes it, as `provider/model`.
        model: String,
        /// Tokens that the next request would take.
        used: u64,
        /// Tokens that the next request may take.
        usable: u64,
    },
    /// A compaction is over: a summary replaces the older part, the older part is cut off without one, or the compaction failed.
    CompactionFinished {
        /// The number of history items that are replaced; 0 after a failure.
        items: usize,
        /// The summary; left out if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<Arc<str>>,
        /// Why the compaction failed: the history stays as it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// The items that a compaction replaced are in the context again.
    CompactionUndone {
        /// The entry that recorded the compaction.
        compaction: Seq,
        /// The number of items that came back.
        items: usize,
    },
    /// A message was pinned: its words stay in the context through every summary.
    Pinned {
        /// The message.
        message: MessageId,
    },
    /// A message was unpinned: its words are summarized like all others.
    Unpinned {
        /// The message.
        message: MessageId,
    },
    /// The session was rebuilt from its tape while a turn was running, or a summary was being written.
    SessionRecovered {
        /// How many times in a row a crash cut the turn off, with no new answer or result in between; 0 if no turn was running or
        /// the session was stopped in order.
        n: u32,
        /// Whether the turn continues automatically.
        resumed: bool,
    },
    /// A task was given to a child.
    TaskStarted {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
        /// How the child is tied to this session.
        link: Link,
        /// How deep the child is below the topmost session.
        depth: u32,
        /// What the child may use of this session's budget.
        #[cfg_attr(feature = "schema", schemars(with = "crate::kernel::ShownLimits"))]
        #[serde(default, skip_serializing_if = "Limits::is_none", with = "shown::limits")]
        grant: Limits,
        /// Whether the child existed before and is adopted.
        adopted: bool,
        /// Whether the task waits for room: its child is made later, and [`EventKind::TaskBegun`] says when.
        #[serde(default, skip_serializing_if = "is_default")]
        queued: bool,
    },
    /// A task that waited for room begins: its child is being made.
    TaskBegun {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
    },
    /// A child is down.
    TaskFinished {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
        /// How the task ended.
        #[cfg_attr(feature = "schema", schemars(with = "shown::ShownDown"))]
        #[serde(flatten, with = "shown::down")]
        down: Arc<Down>,
        /// The message that informs the model; left out if the model is not informed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
    },
    /// The session has ended, and a child of it lives on as an orphan.
    TaskLeft {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
    },
    /// The parent of this session has ended permanently.
    Orphaned {
        /// The parent.
        parent: SessionId,
        /// Why.
        why: String,
    },
    /// This orphan has a parent again.
    Adopted {
        /// The new parent, and how the session is tied to it.
        #[cfg_attr(feature = "schema", schemars(with = "shown::ShownTie"))]
        #[serde(flatten, with = "shown::tie")]
        tie: Tie,
    },
    /// The session has ended permanently.
    Ended {
        /// Why.
        why: String,
    },
    /// Nothing new starts from here on.
    Paused {},
    /// The pause is over.
    Resumed {},
    /// The tape cannot be written. Stops and reports wait and are tried again. Provisional.
    StorageFailed {
        /// What happened.
        error: String,
    },
    /// Something happened to the branches of the conversation: see [`BranchEvent`].
    #[serde(untagged)]
    Branch(BranchEvent),
}
