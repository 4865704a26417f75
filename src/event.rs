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
mod past;
mod ring;
pub(crate) mod shown;
mod size;
mod turns;

use std::{borrow::Cow, str::FromStr};

use serde::{Deserialize, Serialize};

pub use branch::BranchEvent;
pub use kind::EventKind;
pub(crate) use of_entry::events_of;
pub(crate) use past::{Past, PastPage};
pub(crate) use ring::Ring;
pub use ring::{EventStream, Next};
pub use turns::{TurnEvent, TurnId, Turns};

use crate::{
    tape::Cause,
    words::ids::{Millis, Seq, SessionId},
};

/// What happens when a budget does not allow the next piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

crate::words::schema::schema!(EventId, "EventId", {
    "description": "The id of an event within its session: `SEQ.INCARNATION.SUB`. With incarnation 0 the event is durable.",
    "type": "string",
    "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$",
});

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text that is not the id of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the id of an event: it has three numbers, as in 17.0.2")]
#[non_exhaustive]
pub struct BadEventId(pub String);

impl FromStr for EventId {
    type Err = BadEventId;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        // `parse` of a number takes a sign, which no id has.
        let number =
            |text: Option<&str>| text.filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?.parse::<u64>().ok();
        let mut parts = given.split('.');
        let mut next = || number(parts.next());
        let (seq, incarnation, sub) = (next(), next(), next());
        let id = match (seq, incarnation.map(u32::try_from), sub.map(u32::try_from), parts.next()) {
            (Some(seq), Some(Ok(incarnation)), Some(Ok(sub)), None) => EventId { seq: Seq(seq), incarnation, sub },
            _ => return Err(BadEventId(given.chars().take(80).collect())),
        };
        Ok(id)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EventId, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// One event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The turn that the event belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// The step of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl EventKind {
    /// Whether it tells of an error.
    pub(crate) fn is_error(&self) -> bool {
        use EventKind::{CallFinished, HookError, RequestFailed, StorageFailed, TurnFinished};
        match self {
            RequestFailed { .. } | HookError { .. } | StorageFailed { .. } => true,
            CallFinished { error, .. } => error.is_some(),
            TurnFinished { outcome, .. } => matches!(outcome, crate::kernel::Outcome::Failed { .. }),
            _ => false,
        }
    }
}

#[cfg(test)]
pub(crate) mod lab;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// The events that follow from entries are read back at the end of every test of the core.
    #[test]
    fn what_is_shown_as_it_comes_can_be_read_back() {
        let kinds = [
            EventKind::TextDelta { text: "a\u{2028}".into() },
            EventKind::ReasoningStarted {},
            EventKind::CallPending { index: 1, call: "c".into(), name: "read".into() },
            EventKind::CallInput { index: 1, text: "{".into() },
            EventKind::CallProgress { ticket: Seq(3), title: None, metadata: serde_json::Value::Null },
            EventKind::CallProgress { ticket: Seq(3), title: Some("t".into()), metadata: json!({ "piece": 0.1 }) },
            EventKind::HookError { hook: "h".into(), callback: "on_event".into(), error: "e".into() },
            EventKind::StorageFailed { error: "full".into() },
            EventKind::ReasoningDelta { text: "hm".into() },
            EventKind::ReasoningEnded {},
            // No test of the core restores files.
            EventKind::Branch(BranchEvent::FilesRestored {
                since: Seq(2),
                files: vec!["a".into()],
                refused: Vec::new(),
            }),
        ];
        for kind in kinds {
            let id = EventId { seq: Seq(7), incarnation: 2, sub: 9 };
            let session = "s".parse().unwrap();
            let event =
                Event { v: EVENT_VERSION, id, session, time: Millis(5), cause: None, turn: None, step: None, kind };
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
            lab::keep(&format!("{text}\n"));
        }
    }

    #[test]
    fn an_id_is_three_numbers_and_nothing_else() {
        assert_eq!("17.0.2".parse(), Ok(EventId { seq: Seq(17), incarnation: 0, sub: 2 }));
        let huge = format!("{}.0.0", u128::MAX);
        for bad in ["", "17", "17.0", "17.0.2.1", "+17.0.2", "17.0.-2", "17.4294967296.0", " 17.0.2", "17..2", &huge] {
            assert_eq!(bad.parse::<EventId>(), Err(BadEventId(bad.to_owned())));
        }
    }
}
