//! [`TapeEntry`]: one entry of a tape, as a value.
//!
//! The core makes entries and numbers them, except the tape's own kinds `forked` and `imported`; the tape stores entries and
//! returns them unchanged. Their JSON comes back byte for byte, except that line breaks between its tokens become spaces.
//!
//! No entry's `data` may decide what the tape does, except that of its own kinds (lists and searches read labels and words from
//! others). The fields are written to disk by `line`, so a new field is a new version of the line. No I/O.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::words::ids::{MessageId, Millis, Seq};

/// The reason why an entry was written. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// A message of the host.
    Message(MessageId),
    /// An entry of the same tape.
    Entry(Seq),
}

/// One entry: made and numbered by the session's core (a few by the tape itself), and written as one line.
///
/// The line adds what the core need not know: format version, session, a UUIDv7, the anchor and the checksum chain.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TapeEntry {
    /// Its number: that of the entry before plus 1; the first is 1.
    pub seq: Seq,
    /// When it was decided, in milliseconds since 1970, UTC.
    pub time: Millis,
    /// The reason why it was written.
    pub cause: Option<Cause>,
    /// The turn it belongs to, by the seq of the entry that began it.
    pub turn: Option<Seq>,
    /// The step of the turn, from 1.
    pub step: Option<u32>,
    /// The ticket (piece of open work) it is about, such as a model request, a call or an ask.
    pub ticket: Option<Seq>,
    /// The input that it followed from, as JSON: on the first entry that an input wrote. The later entries of the same append
    /// without their own input belong to the same input.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub input: Option<Box<RawValue>>,
    /// The kind of the entry: names the shape of `data`.
    pub kind: String,
    /// The content, as JSON.
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub data: Box<RawValue>,
}

impl PartialEq for TapeEntry {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (self.input.as_deref(), other.input.as_deref());
        self.is_like(other) && a.map(RawValue::get) == b.map(RawValue::get)
    }
}

impl TapeEntry {
    /// An entry of that kind with that data. The fields that say where it belongs are empty; set those that hold.
    #[must_use]
    pub fn new(seq: Seq, time: Millis, kind: impl Into<String>, data: Box<RawValue>) -> TapeEntry {
        TapeEntry { seq, time, cause: None, turn: None, step: None, ticket: None, input: None, kind: kind.into(), data }
    }

    /// An entry with this data that belongs to no turn, step, ticket or input.
    pub(super) fn plain(seq: Seq, time: Millis, kind: &str, data: &impl Serialize) -> TapeEntry {
        let data = serde_json::value::to_raw_value(data).expect("ids, numbers and texts can be written as JSON");
        TapeEntry::new(seq, time, kind, data)
    }

    /// Whether both are equal apart from `input`.
    pub(crate) fn is_like(&self, other: &TapeEntry) -> bool {
        let heads = |entry: &TapeEntry| (entry.seq, entry.time, entry.turn, entry.step, entry.ticket);
        heads(self) == heads(other)
            && self.cause == other.cause
            && self.kind == other.kind
            && self.data.get() == other.data.get()
    }
}
