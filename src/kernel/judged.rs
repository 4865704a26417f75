//! The verdict on a call before its tool runs: why a call was blocked, skipped, refused or allowed.

use serde::{Deserialize, Serialize};

/// What was made of a call. It stands on the tape beside its result, so that nobody has to know by the words of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CallVerdict {
    /// It was allowed and started: the result is what came of it, from its tool, a gate, a limit or a crash.
    Allowed,
    /// It was running when the runtime went down, and was not run again: nobody knows what came of it.
    Lost,
    /// There is no such tool.
    NoTool,
    /// There is, and it is not among those of the agent, or is switched off in this turn.
    NotOffered,
    /// Its arguments are no JSON object.
    BadArguments,
    /// Its tool crashed over the arguments when it was asked what the call wants.
    Crashed,
    /// No tool may be used on the last step of a turn.
    LastStep,
    /// The answer that it stands in was cut at its limit of length.
    CutShort,
    /// The provider withheld the answer that it stands in.
    Withheld,
    /// A rule denies it.
    Denied,
    /// It has to be asked for, and nobody listens who could answer.
    Unheard,
    /// A person rejected it, or another call of its turn, which ended the turn.
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
