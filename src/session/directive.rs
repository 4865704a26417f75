//! What comes out of the core beside entries: what the shell is to do, and what hosts are told.

use serde::{Deserialize, Serialize};

use crate::{
    ids::{MessageId, Seq},
    session::{Refusal, ReplyTo},
};

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
        // The end of a summary is no stop in that sense: its worker does not report, so it may end only once its ticket is closed.
        matches!(self, Directive::CutRequest(_) | Directive::StopCall(_) | Directive::StopTask(_))
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
