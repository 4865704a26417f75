//! Lines of a bounded length, from the pieces in which a pipe gives them; and how many messages come in a second.
//!
//! Pure values: they read nothing and no clock. A line that is too long is an error, and not cut: after a cut nobody knows where the next
//! message begins.

use std::time::Duration;

/// How many of something came within a second. Moments are times since one beginning.
#[derive(Debug)]
pub(crate) struct Rate {
    since: Duration,
    count: u32,
    most: u32,
}

impl Rate {
    pub(crate) fn new(most: u32) -> Rate {
        Rate { since: Duration::ZERO, count: 0, most }
    }

    /// Counts some more. Whether that is too many within the second that began with the first.
    pub(crate) fn is_exceeded(&mut self, more: u32, now: Duration) -> bool {
        if now.saturating_sub(self.since) >= Duration::from_secs(1) {
            (self.since, self.count) = (now, 0);
        }
        self.count = self.count.saturating_add(more);
        self.count > self.most
    }
}

/// A line was longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// The beginning of a line that has not ended yet.
#[derive(Debug)]
pub(crate) struct Lines {
    open: Vec<u8>,
    bytes_max: usize,
}

impl Lines {
    pub(crate) fn new(bytes_max: usize) -> Lines {
        Lines { open: Vec::new(), bytes_max }
    }

    /// Takes the next bytes, and passes each line that has ended, without its line feed, to `each`. Keeps `bytes_max` at most.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), TooLong> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.open.len() + piece.len() > self.bytes_max {
                self.open = Vec::new();
                return Err(TooLong);
            }
            match piece.strip_suffix(b"\n") {
                Some(end) if self.open.is_empty() => each(end),
                Some(end) => {
                    let mut line = std::mem::take(&mut self.open);
                    line.extend_from_slice(end);
                    each(&line);
                }
                None => self.open.extend_from_slice(piece),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_in_a_second_are_too_many_and_a_new_second_begins_anew() {
        let (mut rate, at) = (Rate::new(10), Duration::from_millis);
        assert_eq!((rate.is_exceeded(10, at(5)), rate.is_exceeded(1, at(999))), (false, true));
        assert_eq!((rate.is_exceeded(10, at(1_000)), rate.is_exceeded(0, at(1_999))), (false, false));
        assert_eq!((rate.is_exceeded(11, at(9_000)), rate.is_exceeded(u32::MAX, at(9_001))), (true, true));
    }

    #[test]
    fn lines_come_whole_from_any_pieces_and_a_long_one_is_an_error() {
        let text = b"one\n\ntwo two\nthree\n";
        for size in 1..text.len() {
            let (mut lines, mut found) = (Lines::new(10), Vec::new());
            for piece in text.chunks(size) {
                assert_eq!(lines.push(piece, |line| found.push(line.to_vec())), Ok(()));
            }
            assert_eq!(found, [b"one".to_vec(), b"".to_vec(), b"two two".to_vec(), b"three".to_vec()], "{size}");
        }
        let mut lines = Lines::new(10);
        assert_eq!(lines.push(b"0123456789", |_| ()), Ok(()));
        assert_eq!(lines.push(b"x", |_| ()), Err(TooLong));
        assert!(lines.open.capacity() == 0, "what is too long is not kept");
    }
}
