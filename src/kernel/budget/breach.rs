//! The types of a budget: what a session may use, what happens at a breach, and the breach itself (a limit that does not allow the
//! next piece of work).
//!
//! Nothing here decides: `account.rs` computes what is used, reserved and left, and which limit is breached; `spending.rs` decides
//! what follows. A change must keep the stored forms, because these types are part of settings, entries and states: do not rename or
//! retype a field or a variant, and give each new field a serde default. People and models read the text of a [`Breach`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Limits, Resource},
    words::{ids::Millis, message::ModelRef, usage::PICO_IN_MICRO},
};

/// The limits of a session and of each of its turns, and what happens at a breach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Budget {
    /// What the session may use over its whole life, with its children, theirs, and merged forks. Of time, only the session's own
    /// turns count.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub session: Limits,
    /// What each turn may use, children not included. Read when the turn begins.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub turn: Limits,
    /// What happens when a limit does not allow the next piece of work.
    pub on_breach: OnBreach,
}

impl Budget {
    crate::words::setters::setters! {
        /// Limits [the whole session](#structfield.session).
        session: Limits;
        /// Limits [each turn](#structfield.turn).
        turn: Limits;
        /// Sets [what happens at a breach](#structfield.on_breach).
        on_breach: OnBreach;
    }
}

/// What happens when a limit does not allow the next piece of work. When a limit of time ends while work runs, the work is stopped,
/// except where a person is asked: then it may go on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnBreach {
    /// A person is asked for more. The turn ends instead where nobody listens, or where the limit is the parent's grant.
    #[default]
    Ask,
    /// Requests that exceed a limit of tokens or money go to this model, as long as they fit the limit there; after that, and at
    /// any other breach, the turn ends.
    Model(ModelRef),
    /// The turn ends with the outcome `budget`.
    Stop,
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Extent {
    /// The session's own.
    Session,
    /// The running turn's.
    Turn,
    /// The grant that the session got from its parent.
    Grant,
}

/// A limit that does not allow the next piece of work. The core looks for breaches before work begins; a limit of time may also be
/// breached while work runs. The unit of the amounts is that of the resource, such as tokens or picodollars ([`Resource`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Breach {
    /// The resource that is limited.
    pub resource: Resource,
    /// Whose limit it is.
    pub extent: Extent,
    /// The limit.
    pub max: u64,
    /// The amount that is used.
    pub used: u64,
    /// The amount that is reserved for open tickets.
    #[serde(rename = "held")]
    pub reserved: u64,
    /// The amount that the next piece of work needs.
    pub needs: u64,
}

impl Breach {
    /// The same breach with money in millionths of a US dollar, as other programs are shown it: the limit rounded down, all else
    /// up.
    #[must_use]
    pub fn shown(&self) -> Breach {
        let Breach { max, used, reserved, needs, .. } = *self;
        let up = |amount: u64| amount.div_ceil(PICO_IN_MICRO);
        match self.resource {
            Resource::Usd => {
                Breach { max: max / PICO_IN_MICRO, used: up(used), reserved: up(reserved), needs: up(needs), ..*self }
            }
            _ => *self,
        }
    }

    /// What [`Breach::shown`] made this from, to the millionth.
    #[must_use]
    pub(crate) fn of_shown(shown: Breach) -> Breach {
        let Breach { max, used, reserved, needs, .. } = shown;
        let pico = |amount: u64| amount.saturating_mul(PICO_IN_MICRO);
        match shown.resource {
            Resource::Usd => {
                Breach { max: pico(max), used: pico(used), reserved: pico(reserved), needs: pico(needs), ..shown }
            }
            _ => shown,
        }
    }

    /// By how much the limit would have to be higher; at least 1.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.used.saturating_add(self.reserved).saturating_add(self.needs).saturating_sub(self.max).max(1)
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Breach { resource, extent, max, used, reserved, needs } = *self;
        let whose = match extent {
            Extent::Session => "the session's budget",
            Extent::Turn => "the turn's budget",
            Extent::Grant => "the budget that the parent granted",
        };
        let how = if used.saturating_add(reserved) < max { "has too little left" } else { "is used up" };
        write!(f, "{whose} of {} {how}: {} spent", resource.amount(max), resource.amount(used))?;
        if reserved > 0 {
            write!(f, ", {} reserved", resource.amount(reserved))?;
        }
        if needs > 0 {
            write!(f, ", {} needed next", resource.amount(needs))?;
        }
        Ok(())
    }
}

/// An open question to a person: for more of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OpenBudgetAsk {
    /// The limit, and what would be needed.
    pub breach: Breach,
    /// When the ask expires and the turn ends.
    pub expires: Millis,
}
