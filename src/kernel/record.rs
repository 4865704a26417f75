//! The kinds of entry that a tape holds: everything that the fold of a state, the events and replay need.
//!
//! The formats are a promise (`docs/FORMATS.md`): the name of a variant is the kind of the entry, and its fields are the data of
//! the line. Do not rename, retype or drop one, and give each new field a serde default: tapes of older versions must still be
//! read. A new kind also needs its effect in `apply.rs`, its events in `event/of_entry.rs` and its lines in `docs/FORMATS.md`. An
//! older version cannot read a tape that has a new kind. The entries are written and read by `recorded.rs`; nothing here decides.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        AgentChoice, AskClosedWhy, BranchSummary, Breach, CallVerdict, Compacted, Delivery, Down, FellBack, Gated,
        Grant, Learned, Limits, Link, Merged, NextTask, OpenBranch, OpenCompaction, Outcome, Prepared, Recorded,
        Reserve, RestoredFiles, RolledBack, Settings, State, TaskAsk, TaskOrder, Tie, Undone,
    },
    model::{ModelAnswer, ModelError, Params, Price},
    permission::{Chain, Rule, Ruleset},
    tape::{Cause, Forked, ImportedFrom},
    tool::{Access, CallFacts, Question, ToolResult},
    words::{
        ids::{CallId, MessageId, Millis, Seq, SessionId},
        is_default,
        message::{Message, ModelRef},
        usage::Usage,
    },
};

/// One entry of a tape, typed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The position of the entry on the tape, from 1.
    pub seq: Seq,
    /// When the entry was decided, in milliseconds since 1970. Never less than the time of the entry before.
    pub time: Millis,
    /// The message or the entry that caused this entry, where one did.
    pub cause: Option<Cause>,
    /// The turn that the entry belongs to, named by the entry that began it; `None` between turns.
    pub turn: Option<Seq>,
    /// The step of the turn, from 1; `None` before the first.
    pub step: Option<u32>,
    /// The ticket that the entry is about; `None` if the entry opens a ticket itself or is about none.
    pub ticket: Option<Seq>,
    /// The input that the entry followed from. It stands on the first entry of the input only; the entries behind it followed from
    /// the same input.
    pub(crate) input: Option<Recorded>,
    /// The kind of the entry, with its data.
    pub record: Record,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// The whole state. The first entry of every anchor, so that opening reads from the newest one, and of every tape that is no
    /// fork.
    State(Arc<State>),
    /// The settings hold from here on.
    Settings(Box<Settings>),
    /// A message was accepted. The sender has, or will have, a receipt.
    Accepted {
        /// The message.
        message: Arc<Message>,
        /// What becomes of the message when the session is busy.
        delivery: Delivery,
        /// The agent of the turn that reads the message; `None` for the one that is in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentChoice>,
        /// How many parts at the end of the message are not its sender's: input hooks added them. What is left tells the message
        /// from another one under the same id.
        #[serde(default, skip_serializing_if = "is_default")]
        added: usize,
    },
    /// A waiting message was changed.
    Edited {
        /// The new content, under the old id.
        message: Arc<Message>,
    },
    /// A waiting message was taken back.
    Withdrawn {
        /// The message.
        id: MessageId,
    },
    /// A waiting message was taken by the provider for the answer that is being made: the ticket is that of the request. It waits all
    /// the same.
    Sent {
        /// The message.
        id: MessageId,
    },
    /// Messages were put into the model's context. Begins a turn where none is running.
    Delivered {
        /// The messages, in order.
        ids: Vec<MessageId>,
    },
    /// A model request is made. Opens a ticket.
    Request(RequestOpened),
    /// Hooks have seen a model request before it was sent. Its ticket stays open.
    Prepared(Arc<Prepared>),
    /// A model request was answered. Closes its ticket.
    Answer {
        /// The answer.
        answer: Arc<ModelAnswer>,
        /// Whether the core cut the answer off. If so, only its text is kept.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// Our estimate of its tokens, where the provider gave none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// The price of the model that answered, where it is not the one that was asked ([`ModelAnswer::by`]) and its price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        price: Option<Price>,
    },
    /// A model request failed. Closes its ticket.
    RequestFailed {
        /// What went wrong.
        error: ModelError,
        /// Our estimate of the tokens that the request used all the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// What the refusal taught; left out where it taught nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        learned: Option<Learned>,
        /// The model of the chain that has the step from here on; left out where the same one is asked again, or none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fallback: Option<ModelRef>,
    },
    /// The request will be made again. Opens a ticket.
    RetryWait {
        /// 1 for the first retry.
        attempt: u32,
        /// The earliest moment of the retry.
        until: Millis,
        /// Whether the server asked for the wait. If so, no message cuts it short.
        server: bool,
    },
    /// A call was asked for. Opens a ticket.
    Call(CallOpened),
    /// The facts of an open call changed, because the runtime was started with other tools.
    CallFacts {
        /// The position of the call among the calls of its answer, from 0.
        index: u32,
        /// The facts that hold from here on.
        #[serde(flatten)]
        facts: CallFacts,
    },
    /// A person is asked about a call. Opens a ticket.
    Ask {
        /// The ticket of the call.
        call: Seq,
        /// What is asked about: all that the call wants, and of a shell command the parts that need an answer.
        access: Vec<Access>,
        /// When the ask expires and the call is denied.
        expires: Millis,
        /// The question that the running call asks; left out where the ask is about the call itself, which has not started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<Question>>,
    },
    /// A child asks a person about a call. Opens a ticket.
    TaskAsk(Arc<TaskAsk>),
    /// A person answered. Closes the ask's ticket; that of a child's question stays open until the child has the answer.
    Granted {
        /// The answer.
        grant: Grant,
        /// Who gave it, as the host says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// The rules that stand from here on: those of the offer that the person chose. Empty in an answer about one call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// A standing grant was taken back.
    Revoked {
        /// The grant: the entry that gave it.
        grant: Seq,
    },
    /// An ask was closed without an answer. Closes its ticket.
    AskClosed {
        /// Why.
        why: AskClosedWhy,
    },
    /// A person is asked for more of a budget. Opens a ticket.
    BudgetAsk {
        /// The limit, and what would be needed.
        breach: Breach,
        /// When the ask expires and the turn ends.
        expires: Millis,
    },
    /// A call is about to run. Written before the tool runs.
    CallStarted {
        /// 1 for the first try, more after a crash.
        attempt: u32,
        /// The idempotency key of the call: the same for every try.
        key: String,
        /// The most bytes that the result may have, where a budget limits them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Whether it runs confined by the kernel to what the rules allow, because nobody was asked about it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        confined: bool,
    },
    /// A hook held a call up before it ran: it rewrote its arguments, or wants a person to be asked. The call waits to be judged
    /// again.
    CallGated(Arc<Gated>),
    /// A request, a call or a child is told to stop; its ticket stays open until it is down.
    Closing {
        /// Why a child alone is told to stop; left out for everything else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    /// A call is over. Closes its ticket.
    Result {
        /// The result.
        result: Arc<ToolResult>,
        /// The verdict on the call: whether it ran, and if not, why.
        judged: CallVerdict,
    },
    /// The turn is being ended: by an abort, by the end of the session, by a rejection, by a budget, or by a loop of calls.
    Ending {
        /// The outcome that the turn will have.
        outcome: Outcome,
    },
    /// The session was rebuilt from its tape while a turn was running, or while a summary was being written.
    Recovered {
        /// How many times in a row the turn was recovered from a crash, with no new answer or result in between; 0 where no turn
        /// was running.
        n: u32,
        /// Whether the turn goes on by itself.
        resumed: bool,
    },
    /// The session's actor was stopped in order while a turn was running: by a shutdown, an operator or a drain. The recovery that
    /// follows is none from a crash, and does not count as one.
    Stopped {},
    /// The turn is over.
    TurnFinished {
        /// How it ended.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// Another agent was chosen. It is in force from the next border of a step on.
    AgentChosen {
        /// Which.
        choice: AgentChoice,
        /// Whether it is for the running turn only: then the one before is chosen again.
        #[serde(default, skip_serializing_if = "is_default")]
        for_turn: bool,
    },
    /// The chosen agent is in force from here on.
    AgentSwitched {
        /// Its name.
        agent: String,
    },
    /// Old outputs of tools were left out of the context, to make room; or files, also because a provider refused one.
    Pruned {
        /// The positions of the results in the history, from 0.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        results: Vec<usize>,
        /// The positions of the items whose files go.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<usize>,
    },
    /// A compaction was opened: the summary of the older part of the conversation is being written. Opens a ticket.
    Compaction(OpenCompaction),
    /// A summary, or a cut without a summary, takes the place of the older items. Closes the compaction's ticket, where there is
    /// one.
    Compacted(Arc<Compacted>),
    /// A compaction failed; the history stays as it is. Closes its ticket.
    CompactionFailed {
        /// Why.
        error: String,
        /// The tokens of the unusable summary: the provider's figures.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Our estimate of those tokens, where the provider gave no figures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// The number of further tries that the provider read and that came to nothing.
        #[serde(default, skip_serializing_if = "is_default")]
        lost: u32,
    },
    /// The items that a compaction replaced stand in the context again.
    CompactionUndone(Arc<Undone>),
    /// A message was pinned: its words stay in the context, whatever is summed up.
    Pinned {
        /// The message.
        message: MessageId,
    },
    /// A message was unpinned: its words are summed up as all others are.
    Unpinned {
        /// The message.
        message: MessageId,
    },
    /// A branch is about to be summed up. Opens a ticket.
    BranchOpened(OpenBranch),
    /// There is no summary of the branch. Closes its ticket.
    BranchFailed {
        /// Why.
        error: String,
        /// The tokens of the request without a usable summary: the provider's figures.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Our estimate of those tokens, where the provider gave no figures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// The number of further tries that the provider read and that came to nothing.
        #[serde(default, skip_serializing_if = "is_default")]
        lost: u32,
    },
    /// The summary of a branch that was left stands in the context, in front of the next turn. Closes its ticket, where there is
    /// one.
    BranchSummary(Arc<BranchSummary>),
    /// The first entry of a fork's own tape; the entries before it are on the parent's tape. Written by the tape, not by a
    /// decision.
    Forked(Box<Forked>),
    /// The session was imported from a file that is not believed: its words stay, and everything that gives power goes. Written by
    /// the tape, not by a decision.
    Imported(Box<ImportedFrom>),
    /// Messages on hold, or an interrupted turn, may go on.
    Released {},
    /// A task is given to a child: written before the child is made. Opens a ticket.
    TaskStarted {
        /// The child.
        child: SessionId,
        /// How the child is tied to the session.
        link: Link,
        /// How deep the child is below the topmost session.
        depth: u32,
        /// What the child may use of the session's budget: reserved from here on, and given back with its end.
        #[serde(default, skip_serializing_if = "Limits::is_none")]
        grant: Limits,
        /// What the child is made from; left out for an existing session that is adopted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<Arc<TaskOrder>>,
    },
    /// A child is down. Closes the task's ticket, once.
    TaskFinished {
        /// How the task ended.
        #[serde(flatten)]
        down: Arc<Down>,
        /// The message that tells the model of it, and that waits from here on; left out where the model is not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<Arc<Message>>,
    },
    /// The session has ended, and a child that does not end with it knows so. Closes the task's ticket.
    TaskLeft {},
    /// The parent of this session is gone for good: its DOWN goes nowhere, until it is adopted.
    Orphaned {
        /// Why.
        why: String,
    },
    /// Another session took this orphan over; or the parent gave a further task.
    Adopted {
        /// The new parent, and how the session is tied to it.
        #[serde(flatten)]
        tie: Tie,
        /// The rules of the new ancestors: they hold beside those of the former ones.
        above: Vec<Chain>,
        /// The further task that the session is given, where its parent has not changed. The entry with its message follows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<NextTask>,
    },
    /// The ancestors of this session may do less than before, and so may the session.
    Narrowed {
        /// The further rules that the session may not go beyond, from here on.
        above: Vec<Chain>,
    },
    /// The host that has the session now has other rules than the tape said before. They hold from here on.
    HostRules {
        /// The rules; `None` where the host has none.
        rules: Option<Ruleset>,
    },
    /// The messages of a fork since it was made, or since it was merged last, become part of this conversation.
    Merged(Arc<Merged>),
    /// The conversation goes back to a point of the tape. Nothing leaves the tape.
    RolledBack(Arc<RolledBack>),
    /// The session has ended for good.
    Ended {
        /// Why.
        why: String,
    },
    /// Nothing new starts from here on.
    Paused {},
    /// The pause is over.
    Resumed {},
    /// The calls of the running turn up to here count for no loop.
    LoopsReset {},
    /// Files were put back to what they were. The state does not change.
    Restored(Arc<RestoredFiles>),
}

/// A model request, by what determines its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestOpened {
    /// The model that answers.
    pub model: ModelRef,
    /// 1 for the first try.
    pub attempt: u32,
    /// Whether the request is the last one that the turn may make: no tools are offered, and a reminder is added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// The number of history items that the request carries.
    pub items: usize,
    /// Hash of the system prompt.
    pub(crate) system: String,
    /// Hash of the tools of the host, of which those are offered that the agent has and that are not masked.
    pub(crate) tools: String,
    /// The tools that are not offered because the rules deny them in full.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub masked: BTreeSet<String>,
    /// The tokens that the request takes: the provider's last figure and an estimate of what came since.
    pub used: u64,
    /// The tokens that a request to this model may take.
    pub usable: u64,
    /// Our own estimate of the whole request, in tokens.
    pub estimated: u64,
    /// The most tokens that the answer may have, if the window or a budget leaves less than the settings ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// The price at which the tokens of the request are counted; left out where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// The tokens that are reserved for the request.
    pub(crate) reserved: Reserve,
    /// The limit that did not allow the model that was to be asked, so that this model is asked instead; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Breach>,
    /// The model that failed in this turn, so that this one has it; left out otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<FellBack>,
    /// Hash of all that determines the bytes of the request: the same after a crash.
    pub(crate) hash: String,
}

impl RequestOpened {
    /// Sampling and limits, as they are for this request.
    pub(super) fn params(&self, settings: &Params) -> Params {
        Params { max_output: self.max_output.or(settings.max_output), ..settings.clone() }
    }
}

/// A call, by what the core must know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallOpened {
    /// The answer that asked for it.
    pub answer: Seq,
    /// Position among the calls of that answer, from 0.
    pub index: u32,
    /// The id that the model gave to it.
    pub id: CallId,
    /// The facts that its tool told of the call.
    #[serde(flatten)]
    pub facts: CallFacts,
}

/// An entry that this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("entry {seq} of kind {kind:?} cannot be read: {source}")]
#[non_exhaustive]
pub struct BadRecord {
    /// The entry.
    pub seq: Seq,
    /// The kind of the entry, as its line says.
    pub kind: String,
    /// Why the entry cannot be read.
    #[source]
    pub source: serde_json::Error,
}
