//! The choices that a host makes with a command: how a message is delivered, and how a person answers an ask. Values only.
//!
//! A change must keep the names, because they are on tapes. The variants of [`Steering`] are ordered from the weakest to the
//! strongest, and the core goes by the greatest of all waiting messages, so it must not reorder them.

use serde::{Deserialize, Serialize};

use crate::{
    kernel::Limits,
    permission::{Rule, allows},
    words::ids::{Millis, Seq},
};

/// What becomes of a message when the session is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Delivery {
    /// A turn of its own, after this one. Also called follow-up.
    #[default]
    Queue,
    /// Into the running turn, before its next step. If the session is idle, it starts a turn, before all that is queued.
    Steer(Steering),
    /// Only if no turn runs; else [`Refusal::Busy`](crate::kernel::Refusal::Busy).
    Reject,
}

/// What becomes of the calls of the running step when a message steers. If several steering messages wait,
/// the strongest choice wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Steering {
    /// All calls run; then the message is read.
    FinishBatch,
    /// Running calls finish, the others are answered "skipped".
    #[default]
    SkipRemaining,
    /// The model's stream is closed and running calls are stopped, with all their processes.
    AbortRunning,
}

/// A person's answer to an ask. For a budget ask, `Once` raises the limit by its own size, or by what is missing if that is more;
/// `Always` and `Offered` lift the limit, whatever the scope; `Raise` says by how much; `Reject` ends the turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Grant {
    /// This call may run.
    Once,
    /// This call may run, and so may all that ask for the same again within the scope: the first of the ask's offers. Counts as
    /// `Once` where the ask has no offers ([`offers`](crate::permission::offers)).
    Always(Scope),
    /// This call may run, and so may all that one of the ask's offers allows, within the scope.
    Offered {
        /// How far it reaches.
        scope: Scope,
        /// The number of the offer, from 1.
        offer: u32,
    },
    /// Only for a budget ask: the limits are raised by these amounts. For a call it is refused.
    // Events show it with money in millionths of a dollar (`event/shown.rs`), and only so it is on a wire.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Raise(Limits),
    /// This call may not run. With a message the model is told and goes on; without one the turn ends.
    Reject(Option<String>),
    /// Nobody is left whom the host could ask. The call is answered as where nobody listens, and the turn goes on; a budget ask is
    /// answered as by a no.
    Unheard,
}

impl Grant {
    /// The scope and the number of the offer of an answer that stands for more than one call.
    #[must_use]
    pub fn standing(&self) -> Option<(Scope, u32)> {
        match self {
            Grant::Always(scope) => Some((*scope, 1)),
            Grant::Offered { scope, offer } => Some((*scope, *offer)),
            Grant::Once | Grant::Raise(_) | Grant::Reject(_) | Grant::Unheard => None,
        }
    }
}

/// How far a standing grant reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// The running turn.
    Turn,
    /// The session.
    #[default]
    Session,
    /// The project: the session itself, and every later one of the project. The session treats it as its own scope and stores
    /// nothing beyond its tape; the event [`AskClosed`](crate::EventKind::AskClosed) has the rules, for the host to store.
    Project,
}

/// A person's answer. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskAnswer {
    /// The answer.
    pub grant: Grant,
    /// Who gave it, as the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The rules of the offer that the person chose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// A standing grant. Part of the stored form of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Granted {
    /// The entry that gave it: [`Session::revoke`](crate::Session::revoke) takes it back.
    pub id: Seq,
    /// How far it reaches.
    pub scope: Scope,
    /// The turn that it is limited to; `None` for the whole session.
    pub turn: Option<Seq>,
    /// What it allows.
    pub rules: Vec<Rule>,
    /// Who gave it, as the host says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// When it was given.
    pub time: Millis,
}

impl Granted {
    /// What it allows, in one sentence for a person.
    #[must_use]
    pub fn allows(&self) -> String {
        allows(&self.rules)
    }
}
