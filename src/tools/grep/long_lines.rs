//! Cuts overlong lines of a text off, so that the memory of a search is bounded: the search holds a whole line, and the lines
//! around it that were asked for.
//!
//! The part of a line past [`LINE_BYTES_MAX`] is dropped and therefore not searched. A change must keep every line feed, because
//! the search counts lines by them, and must not return 0 bytes before the end, because a reader takes that for the end.

use std::io::{self, Read};

/// How much of a line is searched, in bytes.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Passes a text on without the part of each line past [`LINE_BYTES_MAX`]. The number of lines stays the same.
pub(super) struct LongLines<R> {
    from: R,
    /// How long the current line is so far.
    length: usize,
}

impl<R: Read> LongLines<R> {
    pub(super) fn new(from: R) -> LongLines<R> {
        LongLines { from, length: 0 }
    }
}

impl<R: Read> Read for LongLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.from.read(out)?;
            if read == 0 {
                return Ok(0);
            }
            let kept = self.keep(&mut out[..read]);
            // 0 bytes would say that the text ends here.
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

impl<R> LongLines<R> {
    /// Moves the bytes that are kept to the front, and returns how many they are.
    fn keep(&mut self, bytes: &mut [u8]) -> usize {
        let (mut kept, mut at) = (0, 0);
        while at < bytes.len() {
            let line_feed = memchr::memchr(b'\n', &bytes[at..]).map(|offset| at + offset);
            let end = line_feed.unwrap_or(bytes.len());
            let room = LINE_BYTES_MAX.saturating_sub(self.length);
            let wanted = (end - at).min(room);
            bytes.copy_within(at..at + wanted, kept);
            kept += wanted;
            self.length += end - at;
            at = end;
            if line_feed.is_some() {
                bytes[kept] = b'\n';
                kept += 1;
                at += 1;
                self.length = 0;
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_line_keeps_its_beginning_and_its_number() {
        let long = "x".repeat(3 * LINE_BYTES_MAX);
        let text = format!("a\n{long}\n\nb\n{long}");
        let mut kept = String::new();
        LongLines::new(text.as_bytes()).read_to_string(&mut kept).unwrap();
        let short = &long[..LINE_BYTES_MAX];
        assert!(kept == format!("a\n{short}\n\nb\n{short}"));
    }
}
