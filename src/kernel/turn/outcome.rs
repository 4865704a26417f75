//! How a turn ended ([`Outcome`]), and why a question to a person was closed without that person's answer ([`AskClosedWhy`]).
//!
//! An outcome is not an error: it is what the tape and hosts learn. Nothing here decides. The names are a stored format and
//! appear in events: do not rename or drop a variant or a field.

use serde::{Deserialize, Serialize};

use crate::kernel::Breach;

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The model finished its answer.
    Done,
    /// There was no answer to go on with: the model could not be reached, refused, or sent what cannot be used, or no request could
    /// be made.
    Failed {
        /// What happened.
        error: String,
    },
    /// It was ended from outside: by a host or an operator, by the parent or the task's deadline, or with the session.
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
    /// It was cut off by one crash too many, although it got on in between.
    RecoveryLimit {
        /// How many.
        recoveries: u32,
    },
    /// A budget did not allow the next piece of work.
    Budget {
        /// Which limit.
        breach: Breach,
        /// Why the model to switch to was not asked instead; `None` where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_switch: Option<String>,
    },
    /// The model repeated itself, was told so, and repeated itself again.
    DoomLoop {
        /// The tool that it called again and again.
        tool: String,
    },
    /// The answer reached the limit of output tokens.
    CutShort,
    /// The provider withheld the answer.
    Refused,
    /// The answer did not fit its schema ([`Params::answer_schema`](crate::model::Params::answer_schema)), and neither did the one
    /// that was asked for once more. On the last step of a turn none is asked for.
    BadAnswer {
        /// Why it does not fit, and where.
        error: String,
    },
}

impl Outcome {
    /// The outcome as other programs are shown it: money in millionths of a US dollar.
    #[must_use]
    pub fn shown(&self) -> Outcome {
        match self {
            Outcome::Budget { breach, no_switch } => {
                Outcome::Budget { breach: breach.shown(), no_switch: no_switch.clone() }
            }
            other => other.clone(),
        }
    }
}

/// Why an ask was closed without an answer of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AskClosedWhy {
    /// Nobody answered in time.
    Expired,
    /// Nobody was left whom the host could ask.
    Unheard,
    /// A steering message came before an answer; or after a crash the call must not run again, or wants something else than was shown.
    Withdrawn,
    /// The turn was ended.
    Aborted,
    /// Another call of the turn was rejected.
    Rejected,
    /// A standing grant, given with another ask, covers this call too.
    Granted,
    /// A child's question is over at the child: answered there, expired or withdrawn.
    OverBelow,
}
