//! The events of a session: what listeners and observers of a host are shown while the session works.
//!
//! **Durable events** follow from the entries of the tape by a pure function, so they can be played again from any seq, with none
//! missing and none twice. **Provisional events** (deltas of an answer, progress of a call, failures of hooks or of the disk) are
//! shown as they come, never again, and are not on the tape. What the deltas showed is repeated by a durable event once the answer
//! is complete. [`EventId::is_durable`] tells the two kinds apart.
//!
//! A change must keep the JSON form, which other programs read and which is versioned apart from the crate (`docs/FORMATS.md`). It
//! must make every event that is not provisional from the tape alone, or the event would be missing when it is played again.

mod branch;
mod kind;
mod of_entry;
mod ring;
mod shown;
mod size;

use serde::Serialize;

pub use branch::BranchEvent;
pub use kind::EventKind;
pub(crate) use of_entry::events_of;
pub(crate) use ring::Ring;
pub use ring::{EventStream, Next};

use crate::{
    tape::Cause,
    words::ids::{Millis, Seq, SessionId},
};

/// What happens when a budget does not allow the next piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BudgetThen {
    /// A person is asked for more.
    Ask,
    /// Another model is asked.
    Model,
    /// The turn ends.
    Stop,
}

/// The version of the JSON form of events.
pub const EVENT_VERSION: u32 = 1;

/// Names an event within its session. Durable events come in the order of their ids, and no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct EventId {
    /// The entry that the event follows from; for a provisional event, the ticket or entry that it is about.
    pub seq: Seq,
    /// 0 for a durable event. For a provisional event, the number of the actor's incarnation that shows it, from 1.
    pub incarnation: u32,
    /// The number of the event among those of its entry, from 0. For a provisional event, a number that counts up while one
    /// request or call streams; several events may have the same number.
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
