//! Child sessions as data: what a parent's tape and a child's tape say of each other.
//!
//! A task is work given to a session of its own, the child. The parent's tape has an open ticket for it, from before the child
//! is made until its DOWN; the child's tape names its parent. So either side can be rebuilt without the other, and a crash at
//! any point between the two leaves nothing that does not follow from what is written.
//!
//! ```text
//! parent  task_started ────────────────────────────────────► task_finished { down }     exactly one, whatever happened
//!              │                                                  ▲
//! child        └─► state { origin }, accepted … turn_finished ────┘
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Limits, Outcome, Settings, Spent},
    words::ids::{MessageId, Seq, SessionId},
    words::message::Message,
    words::usage::Usage,
};

/// How a child is tied to its parent: two flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Whether it is stopped when its parent's turn is aborted, and ended when its parent ends. A crash of the parent is
    /// neither.
    pub ends_with_parent: bool,
    /// Whether its DOWN is put before the parent's model: into the running turn, or as a turn of its own.
    pub wakes_parent: bool,
}

impl Link {
    /// Ends with its parent, and wakes it. The default.
    pub const LINKED: Link = Link { ends_with_parent: true, wakes_parent: true };
    /// Outlives its parent, and wakes it.
    pub const MONITORED: Link = Link { ends_with_parent: false, wakes_parent: true };
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
pub struct Down {
    /// Why it is over.
    #[serde(flatten)]
    pub reason: DownReason,
    /// The newest text of the child's model; empty where it said nothing.
    pub text: Arc<str>,
    /// How many steps the child took.
    pub steps: u32,
    /// The child's tokens.
    pub usage: Usage,
    /// What the child used, with its own children that are over; nothing where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// What is still out of its grant with children of its own: it counts as used.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub lent: Limits,
}

/// Why a task is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DownReason {
    /// The child said all that it wanted to.
    Done,
    /// The child's turn failed, was cut short, or waits after a second crash without progress.
    Failed {
        /// What happened.
        error: String,
    },
    /// The child's turn was aborted, or its prompt taken back.
    Aborted {
        /// Why.
        why: String,
    },
    /// The child crashed again and again and is kept stopped.
    Parked,
    /// The child was ended for good.
    Ended {
        /// Why.
        why: String,
    },
    /// The child cannot be brought up, or is not to be had.
    Lost {
        /// Why not.
        error: String,
    },
}

impl Down {
    /// The end of a task of which nothing was heard.
    #[must_use]
    pub fn without_a_word(reason: DownReason) -> Down {
        Down { reason, text: "".into(), steps: 0, usage: Usage::default(), spent: None, lent: Limits::default() }
    }
}

impl DownReason {
    /// What an ended turn means for the task that it was.
    pub(super) fn of(outcome: &Outcome) -> DownReason {
        let failed = |error: &str| DownReason::Failed { error: error.to_owned() };
        match outcome {
            Outcome::Done => DownReason::Done,
            Outcome::Failed { error } => failed(error),
            Outcome::Aborted { reason } => DownReason::Aborted { why: reason.clone() },
            Outcome::Rejected { tool } => failed(&format!("the user rejected the call of {tool}")),
            Outcome::StepLimit { steps } => failed(&format!("stopped after {steps} steps")),
            Outcome::Budget { breach } => failed(&breach.to_string()),
            Outcome::CutShort => failed("the answer reached the limit of output tokens"),
            Outcome::Refused => failed("the provider withheld the answer"),
        }
    }
}

impl std::fmt::Display for DownReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DownReason::Done => f.write_str("done"),
            DownReason::Failed { error } => write!(f, "failed: {error}"),
            DownReason::Aborted { why } => write!(f, "aborted: {why}"),
            DownReason::Parked => f.write_str("parked"),
            DownReason::Ended { why } => write!(f, "ended: {why}"),
            DownReason::Lost { error } => write!(f, "lost: {error}"),
        }
    }
}

/// What a child is made from. Kept on its parent's tape, so that it can be made after a crash as if there had been none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskOrder {
    /// What the child is set to; never wider than its parent.
    pub settings: Settings,
    /// What it is to do.
    pub prompt: Message,
}

/// An open task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenTask {
    /// The child.
    pub child: SessionId,
    /// How it is tied.
    pub link: Link,
    /// How deep the child is below the session at the top: 1 for a child of that one.
    pub depth: u32,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub grant: Limits,
    /// What it is made from; nothing where it was there before, and was adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Arc<TaskOrder>>,
    /// What the child was told.
    pub told: StopLevel,
}

/// What a child was told by its parent. It only ever becomes more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopLevel {
    /// To do its work.
    #[default]
    Run,
    /// To stop it: its parent's turn was aborted.
    Stop,
    /// To end: its parent has ended.
    End,
    /// That it is an orphan: its parent has ended, and it has not.
    Leave,
}

/// A task that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// Its ticket.
    pub ticket: Seq,
    /// The child.
    pub child: SessionId,
    /// How it ended; nothing where the child was left behind as an orphan.
    pub down: Option<Arc<Down>>,
}

/// Where a child comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Whose task it does; whose it did, while it is an orphan.
    pub parent: SessionId,
    /// The ticket on that one's tape.
    pub ticket: Seq,
    /// How it is tied.
    pub link: Link,
    /// How deep it is below the session at the top.
    pub depth: u32,
    /// The message that is its task.
    pub prompt: MessageId,
    /// Why it has no parent any more, where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphaned: Option<String>,
    /// The parents that it had before this one, oldest first; at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<SessionId>,
    /// How its task ended, once it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Arc<Down>>,
}

/// A new tie between a parent's ticket and a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// The parent.
    pub parent: SessionId,
    /// The ticket on its tape.
    pub ticket: Seq,
    /// How the child is tied.
    pub link: Link,
    /// How deep it is.
    pub depth: u32,
    /// What it may use from here on.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub grant: Limits,
}
