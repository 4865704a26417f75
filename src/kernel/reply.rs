//! What the core returns beside entries: which workers to stop, and the replies to the senders of commands.
//!
//! A stop is carried out at once, before the tape has its record; a reply is given only after that. So a stop must do no harm if
//! its record never comes, and a reply must not promise what a crash could take back: all that it says is in the entries, or
//! follows from the state. [`Disposition`] is a stored format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::Refusal,
    tool::QuestionAnswer,
    words::{
        ids::{MessageId, Seq},
        message::Message,
    },
};

/// A worker or a child to stop, by ticket. A stop is carried out at once and never waits for the tape. Work to begin is no output:
/// it follows from the state, by [`State::due_work`]. Work that nobody wants any more ends because its ticket is closed.
///
/// [`State::due_work`]: crate::kernel::State::due_work
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Close the stream of this request and report what had arrived.
    Request(Seq),
    /// Stop this call with all its processes and report when it is down.
    Call(Seq),
    /// Have the child of this task stopped; its DOWN is reported all the same.
    Task(Seq),
}

/// The answer to the sender of a command.
pub(crate) type Reply = Result<CarriedOut, Refusal>;

/// What a command has done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CarriedOut {
    /// The message is on the tape.
    Receipt(Receipt),
    /// The command is done; this is the entry that says so, or the newest entry if nothing had to be written.
    Done(Seq),
    /// These messages were taken back: steering first, each kind in the order in which it would have been read.
    TakenBack(Vec<Arc<Message>>),
    /// The answer to the question of a call, which nobody had to be asked for.
    Answer(QuestionAnswer),
}

/// The receipt for a message: it is on the tape, and this is what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    /// The message.
    pub message: MessageId,
    /// The entry that accepted it.
    pub seq: Seq,
    /// What becomes of it.
    pub disposition: Disposition,
    /// Whether it was on the tape before it was sent this time.
    pub known_before: bool,
}

/// What becomes of an accepted message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Disposition {
    /// It began a turn.
    Started,
    /// It waits for a turn of its own, behind other messages.
    Queued {
        /// The number of messages before it.
        before: usize,
    },
    /// It joins the running turn before its next step.
    Steering,
}

/// The sender that a decision answers. The shell gives the number, and the core hands it back unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReplyTo(pub u64);

impl ReplyTo {
    /// Nobody waits for the answer: the session gives itself a command, or a replay decides again.
    pub(crate) const NOBODY: ReplyTo = ReplyTo(0);
}
