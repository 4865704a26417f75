//! The kinds of events, one variant for each thing that can happen in a session. The fields are the JSON form.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::{
    kernel::{AskClosedWhy, Breach, CompactionReason, Delivery, Down, Grant, Limits, Link, Outcome, Tie, Way},
    model::{ErrorKind, RetryClass},
    tool::Access,
    words::ids::{CallId, MessageId, Millis, Seq, SessionId},
    words::is_default,
    words::message::{ErrorReason, FilePart, Finish, Message, Part},
    words::usage::{ShownCost, Usage},
};

/// What happens where a budget does not allow what is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetThen {
    /// A person is asked for more.
    Ask,
    /// Another model is asked.
    Model,
    /// The turn ends.
    Stop,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// A message was accepted and waits for a turn of its own.
    Queued {
        /// Which message, and what it says.
        message: Arc<Message>,
        /// What its sender chose.
        delivery: Delivery,
    },
    /// A waiting message was changed.
    QueueEdited {
        /// Which message, and what it says now.
        message: Arc<Message>,
    },
    /// A waiting message was taken back.
    Withdrawn {
        /// Which.
        message: MessageId,
    },
    /// A message was accepted and joins the running turn.
    Steered {
        /// Which message, and what it says.
        message: Arc<Message>,
        /// What its sender chose.
        delivery: Delivery,
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
        /// Tokens that a request to this model may take; from 80 % on it is time to think of a summary.
        usable: u64,
        /// Hash of all that determines the request.
        hash: String,
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
    /// A running call says how far it is. Provisional.
    CallProgress {
        /// The call's ticket.
        ticket: Seq,
        /// What it does now.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// How far it is.
        #[serde(skip_serializing_if = "Value::is_null")]
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
        /// Why there is no good result; left out for a good one.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<ErrorReason>,
        /// What the model is told.
        content: String,
        /// What it did, for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What hosts are told beside it.
        #[serde(skip_serializing_if = "Value::is_null")]
        details: Value,
        /// Files that belong to the result.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<FilePart>,
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
        /// What it wants to do.
        access: Vec<Access>,
        /// When it is denied by itself.
        expires: Millis,
    },
    /// An ask is closed.
    AskClosed {
        /// The ask's ticket.
        ask: Seq,
        /// What the person said, where one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        grant: Option<Grant>,
        /// Why it was closed, where nobody answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        why: Option<AskClosedWhy>,
    },
    /// A model request failed.
    RequestFailed {
        /// What happened.
        error: String,
        /// What kind of failure.
        kind: ErrorKind,
        /// Whether another try may help.
        class: RetryClass,
    },
    /// A failed request will be made again.
    Retry {
        /// 1 for the first retry.
        attempt: u32,
        /// Not before.
        until: Millis,
        /// Whether the server asked for the wait.
        server: bool,
    },
    /// A hook crashed, took too long, or gave something it may not. Provisional.
    HookError {
        /// Which hook.
        hook: String,
        /// What it was asked.
        callback: &'static str,
        /// What went wrong.
        error: String,
    },
    /// A request and its calls are done.
    StepFinished {
        /// The tools that it called, in call order; one that it called twice stands there twice.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        calls: Vec<String>,
        /// How the answer ended.
        finish: Finish,
        /// Tokens of the step.
        usage: Usage,
        /// Whether those are our estimate, because the provider did not say.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
        /// Cost of the step.
        #[serde(flatten)]
        cost: ShownCost,
        /// What is left of the session's budget, of each thing that is limited.
        #[serde(skip_serializing_if = "Limits::is_none")]
        left: Limits,
        /// Whether the answer was cut off by us.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A turn is over.
    TurnFinished {
        /// How it ended.
        #[serde(flatten)]
        outcome: Outcome,
        /// The newest text of the model in it.
        text: Arc<str>,
        /// The messages that it answered.
        messages: Vec<MessageId>,
        /// Tokens of the turn.
        usage: Usage,
        /// Requests of it whose tokens are our estimate.
        #[serde(skip_serializing_if = "is_default")]
        estimated: u64,
        /// Cost of the turn.
        #[serde(flatten)]
        cost: ShownCost,
    },
    /// More than 80 % of what a request may take is used; said once, until the context is made smaller.
    ContextWarning {
        /// Tokens that the request takes.
        used: u64,
        /// Tokens that it may take.
        usable: u64,
    },
    /// A limit did not allow what was next. Where a person is asked for more, the answer closes it as any other ask.
    Budget {
        /// The limit, and what would be needed.
        #[serde(flatten)]
        breach: Breach,
        /// What happens.
        then: BudgetThen,
        /// The ask's ticket: answer with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        ask: Option<Seq>,
        /// When it stops by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires: Option<Millis>,
        /// The model that is asked instead, as `provider/model`.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// All of it in words.
        text: String,
    },
    /// A summary of the older part of the conversation is being written; the session goes on where it can.
    CompactionStarted {
        /// Why.
        reason: CompactionReason,
        /// The model that writes it, as `provider/model`.
        model: String,
        /// Tokens that the next request would take.
        used: u64,
        /// Tokens that it may take.
        usable: u64,
    },
    /// A summary takes the place of what it sums up, or could not be written.
    CompactionFinished {
        /// Items of the history that it replaced.
        items: usize,
        /// The summary; left out where there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<Arc<str>>,
        /// Why there is none: the history stays as it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// What a compaction replaced stands in the context again.
    CompactionUndone {
        /// The entry that recorded the compaction.
        compaction: Seq,
        /// Items that came back.
        items: usize,
    },
    /// What came of a branch that was left stands in the context.
    BranchSummary {
        /// The entry after which the branch began.
        from: Seq,
        /// Its last entry.
        to: Seq,
        /// What came of it.
        summary: Arc<str>,
    },
    /// The words of a message stay in the context, whatever is summed up.
    Pinned {
        /// Which.
        message: MessageId,
    },
    /// They are summed up as all others are.
    Unpinned {
        /// Which.
        message: MessageId,
    },
    /// The session was rebuilt from its tape while a turn was running, or a summary was being written.
    SessionRecovered {
        /// How many times in a row a turn was cut off, with no new answer or result in between; 0 where no turn was.
        n: u32,
        /// Whether the turn goes on by itself.
        resumed: bool,
    },
    /// A task was given to a child.
    TaskStarted {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
        /// How it is tied.
        link: Link,
        /// How deep it is below the session at the top.
        depth: u32,
        /// What it may use of the session's budget.
        #[serde(skip_serializing_if = "Limits::is_none")]
        grant: Limits,
        /// Whether it was there before, and is adopted.
        adopted: bool,
    },
    /// A child is down.
    TaskFinished {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
        /// How.
        #[serde(flatten)]
        down: Arc<Down>,
        /// The message that the model is told of it by, where it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
    },
    /// The session has ended, and a child of it lives on as an orphan.
    TaskLeft {
        /// The task's ticket.
        ticket: Seq,
        /// The child.
        child: SessionId,
    },
    /// The parent of this session is gone for good.
    Orphaned {
        /// Who it was.
        parent: SessionId,
        /// Why.
        why: String,
    },
    /// This orphan has a parent again.
    Adopted {
        /// Who it is, and how the session is tied to it.
        #[serde(flatten)]
        tie: Tie,
    },
    /// What was said in a fork of the session became part of its conversation.
    Merged {
        /// Which fork.
        fork: SessionId,
        /// Behind which entry of its tape what is merged begins.
        from: Seq,
        /// Through which entry of its tape.
        to: Seq,
        /// How many items the conversation has more.
        items: usize,
        /// The messages of hosts among them, oldest first.
        messages: Vec<MessageId>,
    },
    /// The conversation went back to a point of the tape.
    RolledBack {
        /// It is what it was when this entry was the newest.
        to: Seq,
        /// What was asked for.
        way: Way,
        /// Messages that are no part of it any more, oldest first.
        gone: Vec<MessageId>,
        /// Messages that are part of it again, oldest first.
        again: Vec<MessageId>,
    },
    /// The session has ended for good.
    Ended {
        /// Why.
        why: String,
    },
    /// Nothing new starts from here on.
    Paused {},
    /// The pause is over.
    Resumed {},
    /// Files were put back to what they were.
    FilesRestored {
        /// Changes after this entry were taken back.
        since: Seq,
        /// The files that were put back or deleted.
        files: Vec<String>,
        /// The files that were left as they are, and why.
        refused: Vec<crate::kernel::RefusedFile>,
    },
    /// The tape cannot be written; what happened meanwhile is held and tried again. Provisional.
    StorageFailed {
        /// What happened.
        error: String,
    },
}
