//! The last lines of a server's standard error, for the tree and for crash reports. A value of a bounded size.

use std::collections::VecDeque;

use crate::text::clean_line;

/// How many lines are kept.
const LINES_MAX: usize = 8;
/// How long a kept line may be, in bytes.
const LINE_BYTES_MAX: usize = 256;
/// How much of a line that has not ended is read; the rest of the line is passed over.
const OPEN_BYTES_MAX: usize = 4 * 1024;

/// The newest lines, cleaned.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    open: Vec<u8>,
}

impl Tail {
    /// Takes the next bytes. Returns whether a line ended.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let mut has_new = false;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = OPEN_BYTES_MAX.saturating_sub(self.open.len());
            self.open.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.open);
                self.add(&String::from_utf8_lossy(&line));
                has_new = true;
            }
        }
        has_new
    }

    /// Adds one line.
    pub(crate) fn add(&mut self, line: &str) {
        let line = clean_line(line, LINE_BYTES_MAX);
        if !line.is_empty() {
            if self.lines.len() == LINES_MAX {
                self.lines.pop_front();
            }
            self.lines.push_back(line);
        }
    }

    /// The lines, oldest first, and what has come of one that has not ended.
    pub(crate) fn lines(&self) -> Vec<String> {
        let open = clean_line(&String::from_utf8_lossy(&self.open), LINE_BYTES_MAX);
        self.lines.iter().cloned().chain(Some(open).filter(|open| !open.is_empty())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_each_is_bounded() {
        let mut tail = Tail::default();
        for n in 0..20 {
            assert!(tail.push(format!("line {n}\n").as_bytes()));
        }
        assert!(!tail.push(&[b'x'; 100_000]));
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (9, "line 12"));
        assert!(lines[8].len() <= LINE_BYTES_MAX && lines[8].starts_with("xxx"), "{}", lines[8].len());
        assert!(tail.open.len() <= OPEN_BYTES_MAX);
    }
}
