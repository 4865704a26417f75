//! The output of the core beside entries: which workers to stop, and the replies to hosts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::Refusal,
    words::ids::{MessageId, Seq},
    words::message::Message,
};

/// Who is to be stopped, by ticket. It is done at once and never waits for the tape. What is to begin follows from the state, by
/// [`State::due_work`], and what nobody wants any more ends because its ticket is closed.
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

/// What a host is told.
pub(crate) type Reply = Result<Held, Refusal>;

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Held {
    /// The message is on the tape.
    Receipt(Receipt),
    /// It is done; this is the entry that says so, or the newest one where nothing had to be written.
    Done(Seq),
    /// These were taken back: steering first, each kind in the order in which it would have been read.
    TakenBack(Vec<Arc<Message>>),
}

/// The message is on the tape, and this is what will become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
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
