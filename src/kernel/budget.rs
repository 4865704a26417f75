//! Budgets: what a session may use, and what happens where that does not allow what is next. Where it stands in its budget is in
//! `account.rs`; what follows from a breach is decided in `spending.rs`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Limits, Resource},
    words::ids::Millis,
    words::message::ModelRef,
};

/// What a session and each of its turns may use, and what happens when that is not enough.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// What the session may use over its whole life, with its children and theirs.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub session: Limits,
    /// What each turn may use, children not included. Read when the turn begins.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub turn: Limits,
    /// What happens when a limit does not allow what is next.
    pub on_breach: OnBreach,
}

/// What happens when a limit does not allow what is next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnBreach {
    /// A person is asked for more; where nobody listens, it stops. A child never asks for more than its grant.
    #[default]
    Ask,
    /// Requests that are too dear go to this model, as long as they fit; then it stops.
    Model(ModelRef),
    /// The turn ends with the outcome `budget`.
    Stop,
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// The session's own.
    Session,
    /// The running turn's.
    Turn,
    /// What its parent granted to it.
    Grant,
}

/// A limit that does not allow what is next. Seen before it is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// Of what.
    pub resource: Resource,
    /// Whose limit.
    pub extent: Extent,
    /// The limit.
    pub max: u64,
    /// What is used of it.
    pub used: u64,
    /// What is held back for what is open.
    pub held: u64,
    /// What would be needed for what is next.
    pub needs: u64,
}

impl Breach {
    /// By how much the limit would have to be higher.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.used.saturating_add(self.held).saturating_add(self.needs).saturating_sub(self.max).max(1)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { resource, extent, max, used, held, needs } = *self;
        let whose = match extent {
            Extent::Session => "the session's budget",
            Extent::Turn => "the turn's budget",
            Extent::Grant => "the budget that the parent granted",
        };
        write!(f, "{whose} of {} is used up: {} spent", resource.amount(max), resource.amount(used))?;
        if held > 0 {
            write!(f, ", {} held back", resource.amount(held))?;
        }
        if needs > 0 {
            write!(f, ", {} needed next", resource.amount(needs))?;
        }
        Ok(())
    }
}

/// An open question to a person: for more of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBudgetAsk {
    /// The limit, and what would be needed.
    pub breach: Breach,
    /// When it stops by itself.
    pub expires: Millis,
}
