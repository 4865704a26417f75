//! The approximate memory size of an event. The bounds of the ring and of the observers' queues are counted in it.
//!
//! A change must keep sizes from being much too small, or a slow listener would fill the memory: everything in an event that can be
//! large is in its line of JSON. Deltas of text, of which there are very many, are not encoded: their text counts.

use std::io;

use crate::event::{Event, EventKind};

impl Event {
    /// About how many bytes the event takes: the size of the type, and the length of its line.
    pub(crate) fn bytes(&self) -> usize {
        let carried = match &self.kind {
            EventKind::TextDelta { text } | EventKind::ReasoningDelta { text } | EventKind::CallInput { text, .. } => {
                text.len()
            }
            _ => {
                let mut length = Length(0);
                // An event without a line is never shown.
                drop(serde_json::to_writer(&mut length, self));
                length.0
            }
        };
        size_of::<Event>() + carried
    }
}

/// Counts what is written to it.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{event::EVENT_VERSION, event::EventId, words::ids::Millis, words::ids::Seq};

    /// A model may write a whole file as the arguments of one call. Counted as nothing, such calls would fill the memory that the
    /// bound of the ring protects.
    #[test]
    fn the_arguments_of_a_call_count() {
        let part = serde_json::json!({
            "type": "tool", "callID": "c", "tool": "write", "state": {"status": "pending", "input": "x".repeat(1_000)},
        });
        let event = Event {
            v: EVENT_VERSION,
            id: EventId { seq: Seq(1), incarnation: 0, sub: 0 },
            session: "s".parse().unwrap(),
            time: Millis(0),
            cause: None,
            turn: None,
            step: None,
            kind: EventKind::PartUpdated { part: serde_json::from_value(part).unwrap() },
        };
        let line = serde_json::to_string(&event).unwrap();
        assert!(line.len() > 1_000);
        assert_eq!(event.bytes(), size_of::<Event>() + line.len());
    }
}
