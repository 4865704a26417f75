//! What goes into the core: everything that can happen to a session, and who is answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{MessageId, Seq, SessionId},
    message::Message,
    model::{Answer, AnswerPart, ModelError},
    permission::Chain,
    session::{
        BranchSummary, Down, Limits, Link, Merged, OpenBranch, RestoredFiles, RolledBack, Settings, TaskOrder, Tie,
        Undone,
    },
    tool::ToolResult,
    usage::Usage,
};

/// What becomes of a message when the session is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// A turn of its own, after this one. Also called follow-up.
    #[default]
    Queue,
    /// Into the running turn, before its next step.
    Steer(Steering),
    /// Only if the session is idle; else [`Refusal::Busy`](crate::session::Refusal::Busy).
    Reject,
}

/// What becomes of the calls of the running step when a message steers. The strongest waiting one wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steering {
    /// All calls run; then the message is read.
    FinishBatch,
    /// Running calls finish, the others are answered "skipped".
    #[default]
    SkipRemaining,
    /// The model's stream is closed and running calls are stopped, with all their processes.
    AbortRunning,
}

/// A person's answer to an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// This call may run.
    Once,
    /// This call may run, and so may all that ask for the same again within the scope.
    Always(Scope),
    /// Only of a question for more of a budget: its limits are raised by so much. There, `Once` raises the limit by as much as
    /// it was, `Always` lifts it, and `Reject` ends the turn.
    Raise(Limits),
    /// This call may not run. With a message the model is told and goes on; without one the turn ends (C-06).
    Reject(Option<String>),
}

/// How far a standing grant reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The running turn.
    Turn,
    /// The session.
    #[default]
    Session,
}

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSummary {
    /// What happened.
    pub error: String,
    /// What was used all the same.
    pub usage: Usage,
    /// An estimate of that, where the provider did not say.
    pub estimated: Option<Usage>,
}

impl From<&str> for NoSummary {
    fn from(error: &str) -> NoSummary {
        NoSummary { error: error.to_owned(), usage: Usage::default(), estimated: None }
    }
}

/// Something that happened, as the core is told of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A host sends a message.
    Send {
        /// What it says.
        message: Message,
        /// What becomes of it when the session is busy.
        delivery: Delivery,
        /// Only if this turn is running.
        expect_turn: Option<Seq>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host changes a message that still waits in the queue.
    Edit {
        /// The new content, under the id of the old.
        message: Message,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host takes back a message that still waits.
    Withdraw {
        /// Which.
        id: MessageId,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host answers an ask.
    Answer {
        /// Which ask.
        ask: Seq,
        /// What the person said.
        grant: Grant,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host ends the running turn.
    Abort {
        /// Why, for the record.
        reason: String,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host lets held messages go, and an interrupted turn go on.
    GoOn {
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host or operator wants nothing new to start.
    Pause {
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host or operator lifts the pause.
    Resume {
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// Somebody wants to hear when all that was decided so far is on the tape. Nothing follows from it.
    Written {
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host changes the settings; they hold from the next step on.
    Configure {
        /// What they were changed from; nothing where it does not matter.
        before: Option<Arc<Settings>>,
        /// The new settings, whole.
        settings: Box<Settings>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host wants the conversation summed up now.
    Compact {
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host had files put back. It is done; this is to be recorded.
    Restored {
        /// What was done.
        files: Arc<RestoredFiles>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host wants the newest compaction undone, and brings what it replaced.
    UndoCompaction {
        /// What it replaced.
        undone: Arc<Undone>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host is about to have a branch summed up, and asks for what that may take.
    SumUpBranch {
        /// The request; what is held back for it is decided.
        request: Box<OpenBranch>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// There is no summary of a branch: it could not be written, or nobody waits for it.
    BranchFailed {
        /// Its ticket.
        ticket: Seq,
        /// Why, and what was used all the same.
        why: Box<NoSummary>,
        /// Tries that the provider had read when they came to nothing.
        lost: u32,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host leaves a branch and brings what came of it.
    LeaveBranch {
        /// What came of it.
        branch: Arc<BranchSummary>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host pins a message that stands in the context.
    Pin {
        /// Which.
        message: MessageId,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host takes a pin back.
    Unpin {
        /// Which.
        message: MessageId,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host wants the conversation to go back to a point, as it was worked out from the tape.
    RollBack {
        /// What is to be recorded.
        back: Arc<RolledBack>,
        /// The files that were put back for it, where they were: recorded with it or not at all.
        files: Option<Arc<RestoredFiles>>,
        /// What came of that which is left, where that is to go along.
        summary: Option<Arc<BranchSummary>>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host wants what was said in a fork to be said here, as it was worked out from both tapes.
    Merge {
        /// What is to be recorded.
        merged: Arc<Merged>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A new anchor begins: the whole state goes on the tape.
    Anchor,
    /// A host begins an anchor.
    Handoff {
        /// Its name.
        name: String,
        /// What takes the place of the conversation so far, where something is to.
        summary: Option<Arc<str>>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A summary was written, or could not be.
    Summarised {
        /// The compaction.
        ticket: Seq,
        /// The summary and what it took, or why there is none.
        result: Result<(Arc<str>, Usage), NoSummary>,
        /// Tries that the provider had read when they came to nothing.
        lost: u32,
    },
    /// A host, or a tool, gives a task to a new child.
    Spawn {
        /// The child's id: the same again is the same task.
        child: SessionId,
        /// What it is made from; narrowed to what this session may do.
        order: Box<TaskOrder>,
        /// How it is tied.
        link: Link,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host lets the session take over an orphan.
    Adopt {
        /// Which.
        child: SessionId,
        /// How it is tied from then on.
        link: Link,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// A host ends the session for good.
    End {
        /// Why, for the record.
        reason: String,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// To a child: its parent wants its task stopped.
    StopTask {
        /// The parent.
        parent: SessionId,
        /// The task's ticket on its tape.
        ticket: Seq,
        /// Why.
        why: String,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// To a child: its parent is gone for good.
    Orphan {
        /// The parent.
        parent: SessionId,
        /// The task's ticket on its tape.
        ticket: Seq,
        /// Why.
        why: String,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// To a child: who its parent is, and what that one may not do. An orphan is taken over by it.
    Adopted {
        /// How it is tied now.
        tie: Tie,
        /// The rules of its new ancestors.
        above: Vec<Chain>,
        /// Whom to answer.
        reply: ReplyTo,
    },
    /// The session was rebuilt from its tape, with these tickets open and no worker alive.
    Recover,
    /// The model answered.
    Answered {
        /// The request.
        ticket: Seq,
        /// Its answer, complete.
        answer: Answer,
    },
    /// A model request failed.
    Failed {
        /// The request.
        ticket: Seq,
        /// How.
        error: ModelError,
    },
    /// A model request was cut off because the core said so.
    CutOff {
        /// The request.
        ticket: Seq,
        /// What had arrived.
        partial: Vec<AnswerPart>,
    },
    /// A call is over, and nothing of it is left.
    Returned {
        /// The call.
        ticket: Seq,
        /// What came of it.
        result: ToolResult,
    },
    /// A child is down.
    TaskDown {
        /// Its task.
        ticket: Seq,
        /// How.
        down: Down,
    },
    /// A child knows that it is an orphan.
    TaskLeft {
        /// Its task.
        ticket: Seq,
    },
    /// The clock passed a moment that an open ticket named.
    Tick,
    /// A worker's report that an earlier life of the session did not get to. It is recorded, and nothing is started that
    /// follows from it: [`Signal::Recover`] comes next, and decides about all that is open.
    Left(Box<Signal>),
}

/// Whom a decision answers. Given by the shell, handed back unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyTo(pub u64);
