//! The verdict on a call: whether its tool was let run, and if not, why the call was blocked, skipped or refused.
//!
//! The verdict is on the tape beside the result, so that no reader has to guess from the words of a result. `batch.rs`
//! decides the verdicts; nothing here decides. The names are a stored format: do not rename or drop one.

use serde::{Deserialize, Serialize};

/// The verdict on a call. It stands on the tape beside the call's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallVerdict {
    /// It was allowed and started: the result comes from its tool, a gate, a limit or a crash.
    Allowed,
    /// It was running when the runtime went down, and was not run again: its outcome is unknown.
    Lost,
    /// There is no such tool.
    NoTool,
    /// The tool exists, but the agent does not have it, or it is switched off in this turn.
    NotOffered,
    /// Its arguments are no JSON object, or its tool can make nothing of them.
    BadArguments,
    /// Its tool crashed over the arguments when it was asked what the call wants.
    Crashed,
    /// No tool may be used on the last step of a turn.
    LastStep,
    /// The answer with the call was cut at its limit of length.
    CutShort,
    /// The provider withheld the answer with the call.
    Withheld,
    /// A rule denies it.
    Denied,
    /// A person would have to be asked, and nobody listens who could answer.
    Unheard,
    /// It repeats the calls before it, and a rule forbids that, or nobody listens who could allow it.
    Repeats,
    /// A person rejected it, or rejected another call of its turn, which ended the turn.
    Rejected,
    /// A person was asked, and did not answer in time.
    Expired,
    /// A message that steers came first.
    Skipped,
    /// The turn was ended first.
    Aborted,
    /// The turn was ended first, because a budget does not allow more.
    OverBudget,
}
