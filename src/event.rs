//! What happens in a session, as hosts see it.
//!
//! **Durable events** follow from the entries of the tape by a pure function, so that they can be played again from any seq
//! with none missing and none twice. **Provisional events** (deltas, progress, hook errors) are shown once, as they come; what
//! they showed is repeated by durable events when it is complete. [`EventId::is_durable`] tells them apart.
//!
//! The JSON form is versioned apart from the crate: see `docs/FORMATS.md`.

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
    /// The entry it follows from; for a provisional event, the ticket it is about.
    pub seq: Seq,
    /// 0 for a durable event; else which incarnation of the session's actor it comes from, from 1.
    pub incarnation: u32,
    /// Tells events of one entry apart; for a provisional event, counts up.
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

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// The version of this form.
    pub v: u32,
    /// Its name within the session.
    pub id: EventId,
    /// Which session.
    pub session: SessionId,
    /// When.
    pub time: Millis,
    /// What it happened for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The turn it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The step of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}
