//! Server-sent events, as both wire formats stream their answers: bytes in, events out.
//!
//! The decoder follows the HTML standard's rules for event streams: lines end with CR, LF or CRLF, a byte order mark at the
//! start is dropped, `data` lines of one event are joined with LF, comments and unknown fields are ignored. It works on
//! whole lines of bytes, so a character that is split over two chunks is never broken. What is kept of an unfinished event
//! is bounded. A model's stream is never resumed; the fields `id` and `retry` are for the streams of other servers
//! (`http/exchange.rs`).
//!
//! A change must keep the decoder free of I/O and panics, and the events independent of how the bytes are split into chunks.

use std::time::Duration;

use memchr::memchr2;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event` field; empty if there was none.
    pub name: String,
    /// The `data` lines, joined with LF.
    pub data: String,
    /// The newest `id` of the stream; `None` where there was none, or the newest is empty.
    pub id: Option<String>,
}

/// The longest id that is kept, in bytes.
const ID_BYTES_MAX: usize = 1_024;

/// An event was larger than the decoder may keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sent an event of more than {bytes_max} bytes")]
pub(crate) struct EventTooLarge {
    /// The bound.
    pub bytes_max: usize,
}

/// Turns the bytes of one stream into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes_max: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    /// The event that is not complete yet.
    event: Event,
    /// Whether the event has a `data` line, which makes it an event, even an empty one.
    has_data: bool,
    /// Whether the last byte was a CR. An LF that follows belongs to the same line end, even in the next chunk.
    after_cr: bool,
    /// How many lines have ended, comments and empty lines among them: each shows that the server is at work.
    pub(crate) lines: u64,
    /// The newest `id`.
    id: Option<String>,
    /// The newest `retry`.
    pub(crate) retry: Option<Duration>,
    /// Whether the first line is complete. Only the first line may begin with a byte order mark.
    has_begun: bool,
}

impl Decoder {
    /// A decoder that keeps at most `bytes_max` bytes of one event.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> Decoder {
        Decoder { bytes_max, ..Decoder::default() }
    }

    /// Takes the next bytes and returns the events that they complete.
    ///
    /// After an error the stream is of no further use.
    pub(crate) fn push(&mut self, mut chunk: &[u8]) -> Result<Vec<Event>, EventTooLarge> {
        let mut events = Vec::new();
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let Some(end) = memchr2(b'\r', b'\n', chunk) else {
                self.keep(chunk)?;
                break;
            };
            self.keep(&chunk[..end])?;
            self.after_cr = chunk[end] == b'\r';
            chunk = &chunk[end + 1..];
            events.extend(self.end_line());
        }
        Ok(events)
    }

    /// Ends the stream. Returns the event that no empty line has completed, if there is one.
    ///
    /// The standard drops such an event. Some servers end their last event without the empty line, so the caller gets it and
    /// decides: it may also be half an event of a stream that was cut off.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.dispatch()
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        let kept = self.line.len() + self.event.data.len() + self.event.name.len();
        if kept + bytes.len() > self.bytes_max {
            return Err(EventTooLarge { bytes_max: self.bytes_max });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        self.lines = self.lines.saturating_add(1);
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.has_begun, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.line.clear();
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(&String::from_utf8_lossy(value));
                self.has_data = true;
            }
            b"event" => self.event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if value.len() <= ID_BYTES_MAX && !value.contains(&0) => {
                let id = String::from_utf8_lossy(value).into_owned();
                self.id = Some(id).filter(|id| !id.is_empty());
            }
            b"retry" => {
                let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
                self.retry = digits.and_then(|text| text.parse().ok()).map(Duration::from_millis).or(self.retry);
            }
            _ => {}
        }
        self.line.clear();
        None
    }

    fn dispatch(&mut self) -> Option<Event> {
        let event = Event { id: self.id.clone(), ..std::mem::take(&mut self.event) };
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests;
