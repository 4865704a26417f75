//! Entries as bytes and back: every entry of every core test takes this way, so that what is not on the tape is seen to be lost.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tamtam::{
    Millis, Seq,
    kernel::Entry,
    tape::{self, Cause},
};

#[derive(Serialize, Deserialize)]
struct Line {
    seq: Seq,
    time: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<Cause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticket: Option<Seq>,
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    input: Option<Box<RawValue>>,
    kind: String,
    data: Box<RawValue>,
}

/// The entry as one line of JSON, through the core's own encoder.
pub(crate) fn encode(entry: &Entry) -> Vec<u8> {
    let tape::TapeEntry { seq, time, cause, turn, step, ticket, input, kind, data } = entry.to_tape().unwrap();
    let mut bytes = serde_json::to_vec(&Line { seq, time, cause, turn, step, ticket, input, kind, data }).unwrap();
    bytes.push(b'\n');
    bytes
}

/// The entry that a line holds, through the core's own decoder.
pub(crate) fn decode(bytes: &[u8]) -> Entry {
    let Line { seq, time, cause, turn, step, ticket, input, kind, data } = serde_json::from_slice(bytes).unwrap();
    Entry::from_tape(&tape::TapeEntry { seq, time, cause, turn, step, ticket, input, kind, data }).unwrap()
}
