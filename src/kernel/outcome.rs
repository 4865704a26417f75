//! How things end: a turn, and a question that nobody answered.

use serde::{Deserialize, Serialize};

use crate::kernel::Breach;

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
