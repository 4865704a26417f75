//! One entry of a tape.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ids::{MessageId, Millis, Seq};

/// What an entry was written for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A message of the host.
    Message(MessageId),
    /// An entry of the same tape.
    Entry(Seq),
}

/// One entry: made by the session's core, numbered by it, and written as one line.
///
/// The line adds what the core need not know: format version, session, a UUIDv7, the anchor and the checksum chain.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its position: the one before plus 1.
    pub seq: Seq,
    /// When it was decided.
    pub time: Millis,
    /// What it was written for.
    pub cause: Option<Cause>,
    /// The turn it belongs to, by the seq of the entry that began it.
    pub turn: Option<Seq>,
    /// The step of the turn, from 1.
    pub step: Option<u32>,
    /// The ticket it is about: a model request, a call, an ask, a wait.
    pub ticket: Option<Seq>,
    /// What kind of entry: names the shape of `data`.
    pub kind: String,
    /// What it says, as JSON.
    pub data: Box<RawValue>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.seq, self.time, &self.cause, self.turn, self.step, self.ticket, &self.kind, self.data.get())
            == (
                other.seq,
                other.time,
                &other.cause,
                other.turn,
                other.step,
                other.ticket,
                &other.kind,
                other.data.get(),
            )
    }
}
