//! The reports of workers: what became of a model request, a call, a summary or a child.
//!
//! A report changes nothing if its ticket is no longer open. A change must keep what [`Report::name`] returns: it is written on the
//! tape and read back by `recorded.rs`. Every value of a report that a decision depends on must be readable back from the entries
//! that it wrote, or replay fails.

use std::sync::Arc;

use crate::{
    kernel::{Down, Gated, Prepared},
    model::{AnswerPart, ModelAnswer, ModelError},
    tool::{CallFacts, ToolResult},
    words::{ids::Seq, usage::Usage},
};

/// The report of a worker about its ticket.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub(crate) enum Report {
    /// The model answered.
    Answered {
        /// Its answer, complete.
        answer: ModelAnswer,
        /// What the tools say of its calls, in their order.
        calls: Vec<CallFacts>,
    },
    /// Hooks have seen the request, and it is to be sent now.
    Prepared {
        /// What they made of it.
        prepared: Box<Prepared>,
    },
    /// A hook rewrote a call, or wants a person to be asked about it. The call did not run.
    Gated {
        /// What it said.
        gated: Box<Gated>,
    },
    /// A model request failed.
    Failed {
        /// What went wrong.
        error: ModelError,
    },
    /// A model request was cut off because the core said so.
    CutOff {
        /// What had arrived.
        partial: Vec<AnswerPart>,
        /// What had arrived and was thrown away, in estimated tokens.
        thrown_away: u64,
    },
    /// A call is over, and nothing of it is left.
    Returned {
        /// The result of the call.
        result: ToolResult,
    },
    /// A summary was written, or could not be.
    Summarised {
        /// The summary and the tokens that it took, or why there is none.
        result: Result<(Arc<str>, Usage), NoSummary>,
        /// The number of further tries that the provider read and that came to nothing.
        lost: u32,
    },
    /// A child is down.
    TaskDown {
        /// How the task ended.
        down: Down,
    },
    /// A child knows that it is an orphan.
    TaskLeft,
}

/// Why there is no summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoSummary {
    /// What went wrong.
    pub error: String,
    /// The tokens that the request used all the same: the provider's figures.
    pub usage: Usage,
    /// Our estimate of those tokens, where the provider gave no figures.
    pub estimated: Option<Usage>,
}

impl From<&str> for NoSummary {
    fn from(error: &str) -> NoSummary {
        NoSummary { error: error.to_owned(), usage: Usage::default(), estimated: None }
    }
}

impl Report {
    /// The name of the report on the tape and in the supervision tree. Part of the stored format.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Report::Answered { .. } => "answered",
            Report::Prepared { .. } => "prepared",
            Report::Gated { .. } => "gated",
            Report::Failed { .. } => "failed",
            Report::CutOff { .. } => "cut_off",
            Report::Returned { .. } => "returned",
            Report::Summarised { .. } => "summarised",
            Report::TaskDown { .. } => "task_down",
            Report::TaskLeft => "task_left",
        }
    }

    /// What happened, in a few words, for a person who reads a replay.
    pub(super) fn in_words(&self, ticket: Seq) -> String {
        match self {
            Report::Answered { .. } => format!("request {ticket} was answered"),
            Report::Prepared { .. } => format!("request {ticket} was prepared by hooks"),
            Report::Gated { .. } => format!("a hook held up call {ticket}"),
            Report::Failed { .. } => format!("request {ticket} failed"),
            Report::CutOff { .. } => format!("request {ticket} was cut off"),
            Report::Returned { .. } => format!("call {ticket} returned"),
            Report::Summarised { result: Ok(_), .. } => format!("the summary of compaction {ticket} came"),
            Report::Summarised { result: Err(_), .. } => format!("compaction {ticket} failed"),
            Report::TaskDown { .. } => format!("the child of task {ticket} is down"),
            Report::TaskLeft => format!("the child of task {ticket} knows that it is an orphan"),
        }
    }

    /// The size of what it brings, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Report::Answered { answer, .. } => answer.parts.iter().map(part_bytes).sum(),
            Report::CutOff { partial, .. } => partial.iter().map(part_bytes).sum(),
            Report::Returned { result } => {
                result.content.len() + result.attachments.iter().map(|file| file.url.len()).sum::<usize>()
            }
            Report::Summarised { result: Ok((text, _)), .. } => text.len(),
            Report::TaskDown { down } => down.text.len(),
            Report::Prepared { prepared } => prepared.bytes(),
            Report::Gated { gated } => gated.input.as_ref().map_or(0, |input| input.len()),
            Report::Failed { .. } | Report::Summarised { .. } | Report::TaskLeft => 0,
        }
    }
}

fn part_bytes(part: &AnswerPart) -> usize {
    match part {
        AnswerPart::Text { text, .. } | AnswerPart::Reasoning { text, .. } => text.len(),
        AnswerPart::Call { input, .. } => input.len(),
    }
}
