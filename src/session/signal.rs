//! What goes into the core, and what comes out of it beside entries.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    ids::{MessageId, Seq, SessionId},
    message::Message,
    model::{Answer, AnswerPart, ModelError},
    permission::Ruleset,
    session::{
        BranchSummary, Breach, Down, Limits, Link, Resource, RestoredFiles, RolledBack, Settings, TaskOrder, Tie,
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
    /// Only if the session is idle; else [`Refusal::Busy`].
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
    /// A host changes the settings; they hold from the next step on.
    Configure {
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
        above: Vec<Vec<Ruleset>>,
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

/// What the shell is to do once the entries of the decision are on the tape.
#[derive(Clone, Debug, PartialEq)]
pub enum Directive {
    /// Make the model request of this ticket.
    StartRequest(Seq),
    /// Carry out the call of this ticket.
    StartCall(Seq),
    /// Close the stream of this request and report what had arrived. Never waits for the tape.
    CutRequest(Seq),
    /// Stop this call with all its processes and report when it is down. Never waits for the tape.
    StopCall(Seq),
    /// Have the summary of this compaction written.
    StartCompaction(Seq),
    /// Nobody needs the summary of this compaction any more. Never waits for the tape.
    StopCompaction(Seq),
    /// Make the child of this task, or bring it up again, and report its DOWN.
    StartTask(Seq),
    /// Have the child of this task stopped; its DOWN is reported all the same. Never waits for the tape.
    StopTask(Seq),
    /// Tell the child of this task that its parent has ended: it ends too, or it is an orphan.
    PartTask(Seq),
    /// Answer a host.
    Reply(ReplyTo, Reply),
}

impl Directive {
    /// Whether it stops something: such directives do not wait for the tape.
    #[must_use]
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            Directive::CutRequest(_) | Directive::StopCall(_) | Directive::StopCompaction(_) | Directive::StopTask(_)
        )
    }
}

/// What a host is told.
pub type Reply = Result<Held, Refusal>;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// The message is on the tape.
    Receipt(Receipt),
    /// It is done; this is the entry that says so, or the newest one where nothing had to be written.
    Done(Seq),
}

/// The message is on the tape, and this is what will become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Which message.
    pub message: MessageId,
    /// Where on the tape.
    pub seq: Seq,
    /// What becomes of it.
    pub disposition: Disposition,
}

/// What becomes of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Disposition {
    /// It began a turn.
    Started,
    /// It waits for a turn of its own, behind so many others.
    Queued {
        /// How many are before it.
        before: usize,
    },
    /// It joins the running turn before its next step.
    Steering,
}

/// Why a host's wish was refused. Nothing was recorded, nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The message was only for an idle session.
    #[error("the session is busy with turn {turn}")]
    Busy {
        /// The running turn.
        turn: Seq,
    },
    /// The message was for another turn.
    #[error("turn {expected} is not running{}", actual.map(|turn| format!(", turn {turn} is")).unwrap_or_default())]
    TurnMismatch {
        /// The turn it was for.
        expected: Seq,
        /// The turn that runs.
        actual: Option<Seq>,
    },
    /// Too many messages wait.
    #[error("the inbox is full: {depth} messages wait")]
    InboxFull {
        /// How many wait.
        depth: usize,
    },
    /// The message has nothing in it.
    #[error("the message is empty")]
    Empty,
    /// No such message waits: it was delivered, withdrawn, or never accepted.
    #[error("message {id} does not wait any more")]
    NotWaiting {
        /// Which.
        id: MessageId,
    },
    /// A compaction is under way already.
    #[error("compaction {ticket} is in progress")]
    Compacting {
        /// Which.
        ticket: Seq,
    },
    /// There is nothing that a summary could replace.
    #[error("there is nothing to sum up: the newest part of a conversation always stays as it is")]
    NothingToCompact,
    /// No summary stands in the context, or another one than was looked at.
    #[error("there is no compaction that could be undone")]
    NothingToUndo,
    /// What comes back would be summed up again at once.
    #[error(
        "with what the compaction replaced the context would take {used} tokens, and may take {usable}: choose a model with a larger window first"
    )]
    WouldNotFit {
        /// What it would take.
        used: u64,
        /// What it may take.
        usable: u64,
    },
    /// Only what stands in the context can be pinned.
    #[error("message {message} is not in the context: pin it when it is sent, or send its words again")]
    NotInContext {
        /// Which.
        message: MessageId,
    },
    /// The message is not pinned.
    #[error("message {message} is not pinned")]
    NotPinned {
        /// Which.
        message: MessageId,
    },
    /// What is pinned stays in the context, so there is a bound.
    #[error(
        "the message takes {needs} tokens, and {used} of the {max} that may be pinned are taken: unpin another one, or say it in fewer words"
    )]
    PinsFull {
        /// Tokens of what is pinned, or waits to be.
        used: u64,
        /// Tokens of this message.
        needs: u64,
        /// Tokens that may be pinned.
        max: u64,
    },
    /// The ask is closed: answered, expired, withdrawn, or never open.
    #[error("ask {ask} is closed")]
    AskClosed {
        /// Which.
        ask: Seq,
    },
    /// Only a question for more of a budget is answered by raising one.
    #[error("ask {ask} is about a call: answer once, always or reject")]
    NotABudget {
        /// Which ask.
        ask: Seq,
    },
    /// A raise that does not raise the limit that is asked about leaves the question open.
    #[error("ask {ask} is about {resource}: say by how much that is raised")]
    RaisesNothing {
        /// Which ask.
        ask: Seq,
        /// What it is about.
        resource: Resource,
    },
    /// The budget does not allow the task.
    #[error("{breach}: ask for less, or raise it")]
    OverBudget {
        /// Which limit.
        breach: Breach,
    },
    /// Something was decided meanwhile: look again, and ask again.
    #[error("the session has gone on meanwhile, from entry {expected} to {actual}: look again")]
    Moved {
        /// The entry that it was worked out for.
        expected: Seq,
        /// The newest.
        actual: Seq,
    },
    /// The session has ended for good.
    #[error("the session has ended")]
    Ended,
    /// The child would stand deeper than children may.
    #[error("a child would be {depth} deep, and may be {max} at most: raise task_depth_max")]
    TooDeep {
        /// How deep it would be.
        depth: u32,
        /// How deep it may be.
        max: u32,
    },
    /// As many children are open as may be.
    #[error("{open} tasks are open, and {max} may be: wait for one, or raise task_width_max")]
    TooManyTasks {
        /// How many are open.
        open: usize,
        /// How many may be.
        max: usize,
    },
    /// Only an orphan can be adopted: a session that was a child, and whose parent has ended.
    #[error("session {session} is no orphan: end its parent first")]
    NotAnOrphan {
        /// Which.
        session: SessionId,
    },
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The model said all it wanted to.
    Done,
    /// The model could not be reached, refused, or sent what cannot be used.
    Failed {
        /// What happened.
        error: String,
    },
    /// A host ended it.
    Aborted {
        /// Why.
        reason: String,
    },
    /// A person rejected a call without a word to the model.
    Rejected {
        /// The tool that was not to run.
        tool: String,
    },
    /// It used all its steps.
    StepLimit {
        /// How many.
        steps: u32,
    },
    /// A budget did not allow what was next.
    Budget {
        /// Which limit.
        breach: Breach,
    },
    /// The answer reached the limit of output tokens.
    CutShort,
    /// The provider withheld the answer.
    Refused,
}

/// Why an ask was closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskClosedWhy {
    /// Nobody answered in time.
    Expired,
    /// A steering message came before an answer.
    Withdrawn,
    /// The turn was ended.
    Aborted,
    /// Another call of the turn was rejected.
    Rejected,
    /// What it is about was granted with another ask, for all calls that want the same.
    Granted,
}
