//! The events of a session, as hosts see them.
//!
//! **Durable events** follow from the entries of the tape by a pure function, so that they can be played again from any seq
//! with none missing and none twice. **Provisional events** (deltas, progress, hook errors) are shown once, as they come; when a
//! piece of work is complete, a durable event repeats what they showed. [`EventId::is_durable`] tells them apart.
//!
//! The JSON form is a promise, versioned apart from the crate: see `docs/FORMATS.md`. An event must not be decided by anything that
//! is not on the tape, unless it is provisional.

mod kind;
mod of_entry;
mod ring;
mod size;

use serde::Serialize;

pub use kind::{BudgetThen, EventKind};
pub(crate) use of_entry::events_of;
pub(crate) use ring::Ring;
pub use ring::{EventStream, Next};

use crate::{
    tape::Cause,
    words::ids::{Millis, Seq, SessionId},
};

/// The version of the JSON form of events.
pub const EVENT_VERSION: u32 = 1;

/// Names an event within its session. Durable events come in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The entry that the event follows from; for a provisional event, the ticket that it is about.
    pub seq: Seq,
    /// 0 for a durable event; for a provisional event, the number of the actor's incarnation that it comes from, from 1.
    pub incarnation: u32,
    /// The number of the event among those of its entry, from 0; for a provisional event, a number that counts up.
    pub sub: u32,
}

impl EventId {
    /// Whether the event follows from the tape and can be played again.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.incarnation == 0
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.seq, self.incarnation, self.sub)
    }
}

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// The version of the JSON form: [`EVENT_VERSION`].
    pub v: u32,
    /// The id of the event within its session.
    pub id: EventId,
    /// The session.
    pub session: SessionId,
    /// When it happened, in milliseconds since 1970.
    pub time: Millis,
    /// The message or the entry that caused the event, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The turn that the event belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The step of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}
