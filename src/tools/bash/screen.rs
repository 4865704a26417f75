//! What a terminal would show of an output, as text for a model: a [`Screen`] takes the bytes as they come, and keeps the end of it.
//!
//! A carriage return restarts its line, so of a progress bar the last state is left; a backspace takes back one character; escape
//! sequences (colours, titles, movements of the cursor) are left out. A line of text that nothing wrote over is never changed.
//!
//! Memory is bounded by what is kept, and the time by the number of bytes, for any output and any cuts between its pieces. A
//! change must keep both. It must also keep that a sequence which does not end hides only some of the output
//! ([`SEQUENCE_BYTES_MAX`]): a command could hide all of it from the model otherwise.

use crate::process::Rolling;

/// A longer escape sequence is none: what follows is shown.
const SEQUENCE_BYTES_MAX: usize = 4 * 1024;

/// The end of an output as a terminal would show it.
pub(super) struct Screen {
    kept: Rolling,
    /// How many bytes the line has that is being written.
    line: usize,
    /// A carriage return came, and nothing on its line since.
    returned: bool,
    sequence: Sequence,
    /// How many bytes of the escape sequence came.
    length: usize,
    /// How many bytes were left out.
    left_out: usize,
}

/// The position of the output in an escape sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sequence {
    None,
    /// Behind ESC, and behind the bytes that say which character set it is about.
    Escape,
    /// Behind `ESC [`: parameters, then one last byte.
    Control,
    /// Behind `ESC ]` and the like: a text, which BEL or `ESC \` ends.
    Text,
    /// Behind an ESC in such a text.
    TextEscape,
}

impl Screen {
    /// Keeps the last `keep` bytes.
    pub(super) fn new(keep: usize) -> Screen {
        Screen { kept: Rolling::new(keep), line: 0, returned: false, sequence: Sequence::None, length: 0, left_out: 0 }
    }

    /// Takes some output.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            // Most output has no such characters, and is taken in pieces.
            let plain = match self.sequence {
                Sequence::None => bytes.iter().position(|byte| matches!(byte, 0x08 | b'\n' | b'\r' | 0x1b)),
                _ => Some(0),
            };
            let plain = plain.unwrap_or(bytes.len());
            if plain > 0 {
                self.show(&bytes[..plain]);
            }
            if let Some(special) = bytes.get(plain) {
                self.special(*special);
            }
            bytes = &bytes[(plain + 1).min(bytes.len())..];
        }
    }

    /// What is kept.
    pub(super) fn kept(&self) -> &Rolling {
        &self.kept
    }

    /// How many bytes of the output are not shown, because others were written over them or they are part of escape sequences.
    pub(super) fn left_out(&self) -> usize {
        self.left_out
    }

    fn show(&mut self, bytes: &[u8]) {
        if std::mem::take(&mut self.returned) {
            self.take_back(self.line);
        }
        self.kept.push(bytes);
        self.line += bytes.len();
    }

    fn take_back(&mut self, bytes: usize) {
        self.kept.take_back(bytes);
        self.line -= bytes;
        self.left_out += bytes;
    }

    fn special(&mut self, byte: u8) {
        if self.sequence != Sequence::None {
            return self.in_sequence(byte);
        }
        match byte {
            b'\n' => {
                self.left_out += usize::from(std::mem::take(&mut self.returned));
                self.kept.push(b"\n");
                self.line = 0;
            }
            b'\r' => {
                self.left_out += usize::from(self.returned);
                self.returned = true;
            }
            0x08 => {
                self.left_out += 1;
                let bytes = self.kept.bytes();
                let line = &bytes[bytes.len() - self.line.min(bytes.len())..];
                // The last character with its continuation bytes.
                let last = line.iter().rposition(|byte| !matches!(byte, 0x80..=0xbf)).map_or(0, |at| line.len() - at);
                self.take_back(last);
            }
            _ => (self.sequence, self.length) = (Sequence::Escape, 1),
        }
    }

    fn in_sequence(&mut self, byte: u8) {
        use Sequence::{Control, Escape, None, Text, TextEscape};
        self.length += 1;
        let next = match (self.sequence, byte) {
            // CAN and SUB abort a sequence; a line feed does not belong in any.
            (_, 0x18 | 0x1a) => None,
            (_, b'\n') => {
                self.left_out += self.length - 1;
                self.sequence = None;
                return self.special(byte);
            }
            (Escape, b'[') => Control,
            (Escape, b']' | b'P' | b'X' | b'^' | b'_') => Text,
            (Escape, 0x20..=0x2f) => Escape,
            (Text, 0x07) => None,
            (Text | TextEscape, 0x1b) => TextEscape,
            (TextEscape, b'\\') => None,
            (Text | TextEscape, _) => Text,
            // A new sequence begins where another one has not ended.
            (Escape | Control, 0x1b) => Escape,
            (Control, 0x40..=0x7e) | (Escape, 0x30..=0x7e) => None,
            (Control, 0x20..=0x3f) => Control,
            // Controls within a sequence, and text that belongs to none.
            (Escape | Control, 0..0x20) => self.sequence,
            (Escape | Control | None, _) => {
                self.left_out += self.length - 1;
                self.sequence = None;
                return self.show(&[byte]);
            }
        };
        let over = next == None || self.length >= SEQUENCE_BYTES_MAX;
        self.left_out += if over { self.length } else { 0 };
        self.sequence = if over { None } else { next };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn shown(pieces: &[&[u8]]) -> (String, usize) {
        let mut screen = Screen::new(100_000);
        pieces.iter().for_each(|piece| screen.push(piece));
        (screen.kept().text(), screen.left_out())
    }

    fn text(output: &str) -> String {
        shown(&[output.as_bytes()]).0
    }

    #[test]
    fn a_line_shows_what_stands_behind_its_last_return() {
        for (output, expected) in [
            ("a\r\nb\r\n", "a\nb\n"),
            ("a\r\r\nb", "a\nb"),
            ("0%\r50%\r100%\ndone\n", "100%\ndone\n"),
            // Nothing was written over it.
            ("0%\r50%\r", "50%"),
            ("before\n0%\r\x1b[K50%\x1b[0m\r\nafter", "before\n50%\nafter"),
            ("|\u{8}/\u{8}-\u{8}é\u{8}ok", "ok"),
            ("\u{8}\u{8}a", "a"),
            ("x\n\u{8}y", "x\ny"),
        ] {
            assert_eq!(text(output), expected, "{output:?}");
        }
    }

    #[test]
    fn escape_sequences_are_left_out() {
        for (output, expected) in [
            ("\x1b[1;31merror\x1b[0m: \x1b[38;2;1;2;3mx\x1b[m", "error: x"),
            ("\x1b]0;a title\x07x\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "xlink"),
            ("\x1b(Bx\x1b7y\x1b8\x1b=\x1bM", "xy"),
            ("\x1bPq#0\x1b\\x\x1b_app\x1b\\y\x1b^pm\x1b\\z", "xyz"),
            ("\x1b[2\x1b[3mx", "x"),
            ("\x1b[31\x18x", "x"),
            ("\x1b[é", "é"),
            ("größe 你好 😀\t.", "größe 你好 😀\t."),
        ] {
            assert_eq!(text(output), expected, "{output:?}");
        }
        assert_eq!(shown(&[b"\x1b[31mab\r\ncd"]), ("ab\ncd".to_owned(), 6));
    }

    /// A sequence without an end hides no line after it, and little of its own.
    #[test]
    fn a_sequence_that_does_not_end_hides_little() {
        assert_eq!(text("\x1b]0;never\nshown\n"), "\nshown\n");
        assert_eq!(text("\x1b[31\nshown"), "\nshown");
        let long = format!("\x1b]{}", "x".repeat(10 * SEQUENCE_BYTES_MAX));
        assert_eq!(text(&long).len(), 9 * SEQUENCE_BYTES_MAX + 2);
    }

    /// Bounded memory, and time in proportion to the bytes: a line may be longer than what is kept.
    #[test]
    fn a_line_of_any_length_is_begun_anew() {
        let mut screen = Screen::new(1_000);
        screen.push(b"first\n");
        for _ in 0..10 {
            screen.push(&b"x".repeat(1024 * 1024));
        }
        screen.push(b"\r");
        screen.push(&b"\r".repeat(1024 * 1024));
        assert!(screen.kept().text().len() <= 1_000);
        screen.push(b"last");
        assert_eq!((screen.kept().text().as_str(), screen.kept().total_bytes()), ("last", 10));
        assert_eq!(screen.left_out(), 10 * 1024 * 1024 + 1024 * 1024);
    }

    proptest! {
        /// Where the output is cut into pieces makes no difference.
        #[test]
        fn pieces_make_no_difference(
            output in prop::collection::vec(prop::sample::select(b"a\r\n\x1b[]0;m\\\x07\x08\xc3\xa9".to_vec()), 0..60),
            at in 0..60_usize,
        ) {
            let at = at.min(output.len());
            prop_assert_eq!(shown(&[&output[..at], &output[at..]]), shown(&[&output]));
        }
    }
}
