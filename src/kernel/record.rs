//! The kinds of entry: everything that the fold needs, and nothing else. The formats are a promise (`docs/FORMATS.md`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        AskClosedWhy, BranchSummary, Breach, CallVerdict, Compacted, Delivery, Down, Grant, Limits, Link, Merged,
        OpenBranch, OpenCompaction, Outcome, Recorded, Reserve, RestoredFiles, RolledBack, Settings, State, TaskOrder,
        Tie, Undone,
    },
    model::{Answer, ModelError, Params, Price},
    permission::{Chain, Ruleset},
    tape::{Cause, Forked, ImportedFrom},
    tool::{Access, CallFacts, ToolResult},
    words::ids::{CallId, MessageId, Millis, Seq, SessionId},
    words::is_default,
    words::message::{Message, ModelRef},
    words::usage::Usage,
};

/// One entry, typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its position.
    pub seq: Seq,
    /// When it was decided.
    pub time: Millis,
    /// What it was written for.
    pub cause: Option<Cause>,
    /// The turn it belongs to.
    pub turn: Option<Seq>,
    /// The step of the turn.
    pub step: Option<u32>,
    /// The ticket it is about, where it did not open it itself.
    pub ticket: Option<Seq>,
    /// What input it followed from: on the first entry that one wrote. Those behind it without one belong to the same.
    pub input: Option<Recorded>,
    /// What it says.
    pub record: Record,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// The whole state. The first entry of every anchor, so that opening reads from the newest one.
    State(Arc<State>),
    /// The settings hold from here on.
    Settings(Box<Settings>),
    /// A message was taken. The sender has, or will have, a receipt.
    Accepted {
        /// What it says.
        message: Arc<Message>,
        /// What becomes of it when the session is busy.
        delivery: Delivery,
    },
    /// A waiting message was changed.
    Edited {
        /// The new content, under the old id.
        message: Arc<Message>,
    },
    /// A waiting message was taken back.
    Withdrawn {
        /// Which.
        id: MessageId,
    },
    /// Messages were put into the model's context. Begins a turn where none is running.
    Delivered {
        /// Which, in order.
        ids: Vec<MessageId>,
    },
    /// A model request is made. Opens a ticket.
    Request(RequestOpened),
    /// A model request was answered. Closes its ticket.
    Answer {
        /// What it said.
        answer: Arc<Answer>,
        /// Whether it was cut off by us; then only its text is kept.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// Our estimate of its tokens, where the provider gave none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
    },
    /// A model request failed. Closes its ticket.
    RequestFailed {
        /// How.
        error: ModelError,
        /// Our estimate of the tokens that it took all the same.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// Where it was too large: what the model's window is taken for from then on, in tokens.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The request will be made again. Opens a ticket.
    RetryWait {
        /// 1 for the first retry.
        attempt: u32,
        /// Not before.
        until: Millis,
        /// Whether the server asked for the wait: then no message cuts it short.
        server: bool,
    },
    /// A call was asked for. Opens a ticket.
    Call(CallOpened),
    /// Something else holds of an open call than was told before: the runtime was started with other tools.
    CallFacts {
        /// Its position among the calls of its answer, from 0.
        index: u32,
        /// What holds from here on.
        #[serde(flatten)]
        facts: CallFacts,
    },
    /// A person is asked about a call. Opens a ticket.
    Ask {
        /// Which call.
        call: Seq,
        /// What it wants to do.
        access: Vec<Access>,
        /// When the ask is denied by itself.
        expires: Millis,
    },
    /// A person answered. Closes the ask's ticket.
    Granted {
        /// What they said.
        grant: Grant,
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
        /// When it stops by itself.
        expires: Millis,
    },
    /// A call is about to run: written before it does.
    CallStarted {
        /// 1 for the first try, more after a crash.
        attempt: u32,
        /// The same for every try.
        key: String,
        /// Bytes that its result may have, where a budget limits them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
    },
    /// A request or call is told to stop; its ticket stays open until it is down.
    Closing {},
    /// A call is over. Closes its ticket.
    Result {
        /// What came of it.
        result: Arc<ToolResult>,
        /// Why it is that.
        judged: CallVerdict,
    },
    /// The turn is being ended: by a host, or by a rejection.
    Ending {
        /// How it will have ended.
        outcome: Outcome,
    },
    /// The session was rebuilt from its tape while a turn was running.
    Recovered {
        /// How many times in a row, with no new answer or result in between.
        n: u32,
        /// Whether the turn goes on by itself.
        resumed: bool,
    },
    /// The turn is over.
    TurnFinished {
        /// How it ended.
        #[serde(flatten)]
        outcome: Outcome,
    },
    /// Old outputs of tools were left out of the context, to make room.
    Pruned {
        /// Positions in the history.
        results: Vec<usize>,
    },
    /// A compaction was opened: the summary of the older part of the conversation is being written. Opens a ticket.
    Compaction(OpenCompaction),
    /// A summary takes the place of what it sums up. Closes the compaction's ticket, where there is one.
    Compacted(Arc<Compacted>),
    /// A compaction failed; the history stays as it is. Closes its ticket.
    CompactionFailed {
        /// Why.
        error: String,
        /// What the summary took that could not be used.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Our estimate of that, where the provider did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// Tries that were read and came to nothing.
        #[serde(default, skip_serializing_if = "is_default")]
        lost: u32,
    },
    /// What a compaction replaced stands in the context again.
    CompactionUndone(Arc<Undone>),
    /// The words of that message stay in the context, whatever is summed up.
    Pinned {
        /// Which.
        message: MessageId,
    },
    /// They are summed up as all others are.
    Unpinned {
        /// Which.
        message: MessageId,
    },
    /// A branch is about to be summed up. Opens a ticket.
    BranchOpened(OpenBranch),
    /// There is no summary of the branch. Closes its ticket.
    BranchFailed {
        /// Why.
        error: String,
        /// What the request took that could not be used.
        #[serde(default, skip_serializing_if = "is_default")]
        usage: Usage,
        /// Our estimate of that, where the provider did not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        estimated: Option<Usage>,
        /// Tries that were read and came to nothing.
        #[serde(default, skip_serializing_if = "is_default")]
        lost: u32,
    },
    /// What came of a branch that was left stands in the context, in front of the next turn. Closes its ticket, where there is
    /// one.
    BranchSummary(Arc<BranchSummary>),
    /// The first entry of a fork, which goes on from another session's tape: what came before is there. Written by the tape,
    /// not by a decision.
    Forked(Box<Forked>),
    /// It was brought in from a file that is not believed: its words stay, and what gives power does not. Written by the tape,
    /// not by a decision.
    Imported(Box<ImportedFrom>),
    /// Held messages, or an interrupted turn, may go on.
    Released {},
    /// A task is given to a child: written before the child is made. Opens a ticket.
    TaskStarted {
        /// The child.
        child: SessionId,
        /// How it is tied.
        link: Link,
        /// How deep it is below the session at the top.
        depth: u32,
        /// What it may use of the session's budget: held back from here on, and given back with its end.
        #[serde(default, skip_serializing_if = "Limits::is_none")]
        grant: Limits,
        /// What it is made from; left out where it was there before, and is adopted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        order: Option<Arc<TaskOrder>>,
    },
    /// A child is down. Closes the task's ticket, once.
    TaskFinished {
        /// How.
        #[serde(flatten)]
        down: Arc<Down>,
        /// What the model is told of it, where it is: a message that waits from here on.
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
    /// Another session took this orphan over.
    Adopted {
        /// How it is tied now.
        #[serde(flatten)]
        tie: Tie,
        /// The rules of its new ancestors, that it may not go beyond either.
        above: Vec<Chain>,
    },
    /// The ancestors of this session may do less than before, and so may it.
    Narrowed {
        /// The rules that it may not go beyond either, from here on.
        above: Vec<Chain>,
    },
    /// The rules of the host that has the session now, where they are others than before: above all that follows.
    HostRules {
        /// None where it has none.
        rules: Option<Ruleset>,
    },
    /// What was said in a fork since it was made, or merged last, is said here.
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
    /// Files were put back to what they were. The conversation does not notice.
    Restored(Arc<RestoredFiles>),
}

/// A model request, by what determines its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestOpened {
    /// The model that answers.
    pub model: ModelRef,
    /// 1 for the first try.
    pub attempt: u32,
    /// Whether it is the last one that the turn may make: no tools are offered, and a reminder is added.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    /// How many items of the history it carries.
    pub items: usize,
    /// Hash of the system prompt.
    pub system: String,
    /// Hash of the tools that are offered.
    pub tools: String,
    /// How full the context is: the provider's last figure and an estimate of what came since.
    pub used: u64,
    /// What a request to this model may take.
    pub usable: u64,
    /// Our own estimate of the request, whole.
    pub estimated: u64,
    /// Tokens of the answer, at most, where the window or a budget leaves less than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// What its tokens cost; left out where that is not known. What is used is counted at this price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What is held back for it.
    pub reserved: Reserve,
    /// The limit that sent it to this model instead of the one that was to be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Breach>,
    /// Hash of all that determines the request: the same after a crash.
    pub hash: String,
}

impl RequestOpened {
    /// Sampling and limits, as they are for this request.
    pub(super) fn params(&self, settings: &Params) -> Params {
        Params { max_output: self.max_output.or(settings.max_output), ..settings.clone() }
    }
}

/// A call, by what the core must know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOpened {
    /// The answer that asked for it.
    pub answer: Seq,
    /// Position among the calls of that answer, from 0.
    pub index: u32,
    /// The id that the model gave to it.
    pub id: CallId,
    /// What was told of it.
    #[serde(flatten)]
    pub facts: CallFacts,
}

/// An entry that cannot be understood.
#[derive(Debug, thiserror::Error)]
#[error("entry {seq} of kind {kind:?} cannot be read: {source}")]
pub struct BadRecord {
    /// Which entry.
    pub seq: Seq,
    /// Its kind.
    pub kind: String,
    /// What is wrong with it.
    #[source]
    pub source: serde_json::Error,
}
