//! The standing of a session: whether its slot takes inputs, in which phase the session is, and in which of its lives. A plain value; the
//! slot locks it. See the diagram in `slot.rs`.

use crate::error::SendError;

/// Whether a slot takes inputs. It only ever moves down this list: a closed slot never opens again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Admission {
    #[default]
    Open,
    Draining,
    Closed,
}

/// See the module `slot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No actor, no tape, no state in memory.
    Passive,
    /// An activation is under way.
    Activating,
    /// The session has a place under the supervisor, also between two incarnations.
    Active,
    /// The actor has marked the session asleep, and is ending.
    Passivating,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) admission: Admission,
    /// Crashes or an operator keep the session stopped until it is unparked.
    pub(super) parked: bool,
    /// An operator stops the session: no input is taken until the actor is down.
    pub(super) stopped: bool,
    pub(super) phase: Phase,
    /// The number of incarnations of the actor so far, counted over all places under the supervisor: each sleep ends a place.
    pub(super) incarnation: u32,
    /// The number of places under the supervisor so far. The end of an older place says nothing about the newest one.
    pub(super) place: u32,
    /// The supervisor dropped the place before the activation was over.
    pub(super) vacated: bool,
}

impl Standing {
    pub(super) fn passive(admission: Admission, parked: bool) -> Standing {
        let phase = Phase::Passive;
        Standing { admission, parked, stopped: false, phase, incarnation: 0, place: 0, vacated: false }
    }

    /// Why the slot refuses every input; `None` if it takes inputs.
    pub(super) fn refusal(&self) -> Option<SendError> {
        match self.admission {
            Admission::Closed => Some(SendError::Closed),
            Admission::Open | Admission::Draining if self.parked => Some(SendError::Parked),
            // An input taken before the actor is down would wake the session again.
            Admission::Open | Admission::Draining if self.stopped => Some(SendError::Stopped),
            Admission::Open | Admission::Draining => None,
        }
    }
}
