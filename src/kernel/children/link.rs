//! Child sessions as data: what a parent's tape and a child's tape say of each other.
//!
//! A task is work given to a session of its own, the child. The parent's tape has an open ticket for the task, from before the
//! child is made until its DOWN (the report of how the task ended); the child's tape names its parent. So either side can be
//! rebuilt without the other, and after a crash at any point between the two everything follows from what is written.
//!
//! ```text
//! parent  task_started ────────────────────────────────────► task_finished { down }     exactly one, or task_left: see below
//!              │                                                  ▲
//! child        └─► state { origin }, accepted … turn_finished ────┘
//! ```
//!
//! Instead of a DOWN, a `task_left` closes the ticket of a child that outlives the end of its parent. All types here are stored
//! formats: do not rename or retype a field or a variant, and give each new field a serde default. Nothing here decides; `tasks.rs`
//! decides for a parent, `child.rs` for a child, and `task_ask.rs` about the questions of children.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{AskAnswer, Breach, Limits, Outcome, Settings, Spent},
    tool::{Access, Question},
    words::{
        ids::{CallId, MessageId, Millis, Seq, SessionId},
        is_default,
        message::Message,
        usage::Usage,
    },
};

/// How a child is tied to its parent: two flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Link {
    /// Whether the child is stopped when its parent's turn is aborted, and ended when its parent ends. A crash of the parent does
    /// neither.
    pub ends_with_parent: bool,
    /// Whether the parent's model is told of the child's DOWN: in the running turn, or in a turn of its own.
    pub wakes_parent: bool,
}

impl Link {
    /// Ends with its parent, and wakes it. The default.
    pub const LINKED: Link = Link { ends_with_parent: true, wakes_parent: true };
    /// Outlives its parent, and wakes it.
    pub const MONITORED: Link = Link { ends_with_parent: false, wakes_parent: true };
    /// Ends with its parent, and does not wake it: for a child whose host waits for the DOWN itself. Its DOWN is recorded all the
    /// same.
    pub const ATTACHED: Link = Link { ends_with_parent: true, wakes_parent: false };
    /// Outlives its parent, and does not wake it. Its DOWN is recorded all the same.
    pub const DETACHED: Link = Link { ends_with_parent: false, wakes_parent: false };
}

impl Default for Link {
    fn default() -> Link {
        Link::LINKED
    }
}

/// How a task ended, as its parent is told: exactly once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Down {
    /// Why it is over.
    #[serde(flatten)]
    pub reason: DownReason,
    /// The newest text of the child's model; empty where it said nothing.
    pub text: Arc<str>,
    /// How many steps the child took.
    pub steps: u32,
    /// The child's tokens in this task, estimates included.
    pub usage: Usage,
    /// What the child used, with its own ended children; `None` if nobody gives account of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// The part of its grant that is still lent to children of its own, or written off: it counts as used.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub lent: Limits,
}

/// Why a task is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DownReason {
    /// The child's model finished its answer.
    Done,
    /// The child's turn came to no good end: it failed, was cut short, was refused by the provider or a person, used up its steps,
    /// went round in a loop of calls, or waits after a second crash without progress.
    Failed {
        /// What happened.
        error: String,
    },
    /// What the child was granted does not allow its next piece of work. The same task needs more.
    Budget {
        /// Which limit.
        breach: Breach,
    },
    /// The child's turn was aborted, or its prompt taken back.
    Aborted {
        /// Why.
        why: String,
    },
    /// The child crashed more often than its restart policy allows, or an operator parked it, and it is kept stopped.
    Parked,
    /// The child was ended for good.
    Ended {
        /// Why.
        why: String,
    },
    /// The deadline of the task passed. The text of the DOWN is what the child had by then.
    TimedOut {
        /// The deadline.
        deadline: Millis,
    },
    /// The child cannot be made, woken or found.
    Lost {
        /// Why not.
        error: String,
    },
}

impl Down {
    /// The end of a task without any words or usage of the child.
    #[must_use]
    pub fn without_a_word(reason: DownReason) -> Down {
        Down { reason, text: "".into(), steps: 0, usage: Usage::default(), spent: None, lent: Limits::default() }
    }
}

impl DownReason {
    /// The end of a task, by the outcome of the turn that was the task.
    pub(in crate::kernel) fn of(outcome: &Outcome) -> DownReason {
        let failed = |error: &str| DownReason::Failed { error: error.to_owned() };
        match outcome {
            Outcome::Done => DownReason::Done,
            Outcome::Failed { error } => failed(error),
            Outcome::Aborted { reason } => DownReason::Aborted { why: reason.clone() },
            Outcome::Rejected { tool } => failed(&format!("the user rejected the call of {tool}")),
            Outcome::RecoveryLimit { recoveries } => failed(&format!("cut off by {recoveries} crashes")),
            Outcome::StepLimit { steps } => failed(&format!("stopped after {steps} steps")),
            Outcome::DoomLoop { tool } => failed(&format!("called {tool} again and again")),
            Outcome::Budget { breach, .. } => DownReason::Budget { breach: *breach },
            Outcome::CutShort => failed("the answer reached the limit of output tokens"),
            Outcome::Refused => failed("the provider withheld the answer"),
            Outcome::BadAnswer { error } => failed(&format!("the answer does not fit its schema: {error}")),
        }
    }
}

impl std::fmt::Display for DownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DownReason::Done => f.write_str("done"),
            DownReason::Failed { error } => write!(f, "failed: {error}"),
            DownReason::Budget { breach } => write!(f, "failed: {breach}"),
            DownReason::Aborted { why } => write!(f, "aborted: {why}"),
            DownReason::Parked => f.write_str("parked"),
            DownReason::Ended { why } => write!(f, "ended: {why}"),
            DownReason::TimedOut { .. } => f.write_str("timed out: its deadline passed"),
            DownReason::Lost { error } => write!(f, "lost: {error}"),
        }
    }
}

/// What a child is made from. Kept on its parent's tape, so that the same child can be made after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskOrder {
    /// The settings of the child; never wider than its parent's.
    pub settings: Settings,
    /// The message that is the task.
    pub prompt: Message,
    /// What else holds for the task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terms: Terms,
    /// Whether the child exists, and its task before this one is over: it goes on with what it knows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) again: bool,
}

impl TaskOrder {
    /// An order for a new child, without a deadline.
    #[must_use]
    pub fn new(settings: Settings, prompt: Message) -> TaskOrder {
        TaskOrder { settings, prompt, terms: Terms::default(), again: false }
    }
}

/// What holds for a task beside its order, and stands on both tapes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Terms {
    /// When the task ends at the latest; never later than the deadline of the parent's own task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// What all tasks of one request of a user have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
}

/// A further task for a child whose task before it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NextTask {
    /// The message that is the task.
    pub prompt: MessageId,
    /// What else holds for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terms: Terms,
}

/// An open task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenTask {
    /// The child.
    pub child: SessionId,
    /// How the child is tied to this session.
    pub link: Link,
    /// How deep the child is below the topmost session: 1 for a child of the topmost.
    pub depth: u32,
    /// What the child may use of this session's budget.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub grant: Limits,
    /// What the child is made from; `None` for an existing session that was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Arc<TaskOrder>>,
    /// The strongest order that this session has given the child.
    #[serde(rename = "told")]
    pub(crate) stop_level: StopLevel,
    /// Why the task alone was told to stop; `None` where it stops with its parent, or works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Arc<str>>,
    /// Whether the task waits for room behind [`Settings::task_width_max`]: its child is not made yet, or, for a further task of
    /// the same child, does not have it yet. Such a task is never told to stop; its DOWN takes the place of that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub queued: bool,
}

/// What a child was told by its parent. The level only ever rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopLevel {
    /// To do its work.
    #[default]
    Run,
    /// To stop its work: its parent's turn was aborted, or the task alone was stopped.
    Stop,
    /// To end: its parent has ended.
    End,
    /// That it is an orphan: its parent has ended, and the child goes on.
    Leave,
}

/// An ended task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskEnd {
    /// The ticket of the task.
    pub ticket: Seq,
    /// The child.
    pub child: SessionId,
    /// How the task ended; `None` if the child was left behind as an orphan.
    pub down: Option<Arc<Down>>,
}

/// The origin of a child: its parent and its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Origin {
    /// The parent; for an orphan, the last parent.
    pub parent: SessionId,
    /// The ticket of the task on the parent's tape.
    pub ticket: Seq,
    /// How the child is tied to its parent.
    pub link: Link,
    /// How deep the child is below the topmost session.
    pub depth: u32,
    /// The message that is its task.
    pub prompt: MessageId,
    /// What else holds for its task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub terms: Terms,
    /// Why the child has no parent any more; `None` while it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned: Option<String>,
    /// How the task ended; `None` while it has not. Set once for each task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Arc<Down>>,
}

/// A new tie between a parent's ticket and a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tie {
    /// The parent.
    pub parent: SessionId,
    /// The ticket on the parent's tape.
    pub ticket: Seq,
    /// How the child is tied.
    pub link: Link,
    /// How deep the child is below the topmost session.
    pub depth: u32,
    /// What the child may use from here on.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub grant: Limits,
}

/// One session on the way of a question. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AskFrom {
    /// The session.
    pub session: SessionId,
    /// The name of its agent.
    pub agent: String,
}

/// A question of a child, as its parent is told of it. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskAsk {
    /// The question's ticket on the child's tape.
    pub ask: Seq,
    /// The way that the question came: first the child, last the session that makes the call.
    pub from: Vec<AskFrom>,
    /// The id that the model gave to the call.
    pub call: CallId,
    /// Which tool.
    pub name: String,
    /// Its arguments, as received.
    pub input: Arc<str>,
    /// What is asked about.
    pub access: Vec<Access>,
    /// When the question expires and the call is denied.
    pub expires: Millis,
    /// Whether the question stays open until then, also while nobody listens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// The question that the running call asks; `None` where the question is about the call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<Question>>,
}

/// An open question of a child. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenTaskAsk {
    /// The ticket of the task.
    pub task: Seq,
    /// The question.
    pub asked: Arc<TaskAsk>,
    /// The answer that a person gave, until the child has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AskAnswer>,
}
