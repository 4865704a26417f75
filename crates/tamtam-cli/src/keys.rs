//! The line that a person types at a terminal: turns keys into lines, and says what of it is on the screen. A pure state machine;
//! `terminal.rs` reads the keys, `output.rs` draws.
//!
//! The terminal's own editing of lines is off, because it cuts a line at 4,095 bytes, makes a paste many lines, and cannot tell
//! what was typed before a question from what was typed after it. Here a paste is one text of any number of lines, which only the
//! Enter key ends. Keys that edit: Backspace, Ctrl-U (the line), Ctrl-W (the last word). All other control sequences are dropped.
//!
//! Each line belongs to the question that was on the screen while it was typed ([`Entered::about`]). A half-typed line does not
//! survive a change of the question: words are kept and come back once no question is open, an answer is dropped. Nothing that was
//! typed goes away unsaid.
//!
//! Rejected: a crate for line editing. Those that we know read one line at a time and own the screen meanwhile, while here text
//! streams in above the line.

use tamtam::Seq;

use super::{
    escape,
    stdin::{Entered, LINE_BYTES_MAX, Line},
    typed,
};

/// What a terminal sends before and after a paste, behind the escape character.
const PASTE: &[u8] = b"200";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Most bytes of a control sequence; a longer one is none.
const SEQUENCE_BYTES_MAX: usize = 16;

/// Bytes of the line that may be drawn: its end.
const SHOWN_BYTES_MAX: usize = 4 << 10;

/// The line that is being typed.
#[derive(Default)]
pub(super) struct Keys {
    line: Vec<u8>,
    is_too_long: bool,
    reading: Reading,
    /// The question that is on the screen.
    about: Option<Seq>,
    /// The words that were half typed when the question was shown.
    kept: Option<String>,
}

/// What the next byte belongs to.
#[derive(Default)]
enum Reading {
    #[default]
    Text,
    /// The escape character came.
    Escape,
    /// A control sequence, behind `ESC [`.
    Sequence(Vec<u8>),
    /// One more character, behind `ESC O`.
    Key,
    /// A paste, of whose end mark this many bytes have come.
    Paste(usize),
}

impl Keys {
    /// Takes keys, and gives the lines that they end.
    pub(super) fn take(&mut self, keys: &[u8]) -> Vec<Line> {
        keys.iter().filter_map(|key| self.key(*key)).collect()
    }

    fn key(&mut self, key: u8) -> Option<Line> {
        match std::mem::take(&mut self.reading) {
            Reading::Text => return self.text(key),
            Reading::Escape => match key {
                b'[' => self.reading = Reading::Sequence(Vec::new()),
                b'O' => self.reading = Reading::Key,
                // A lone Escape key, and then another one.
                key => return self.text(key),
            },
            Reading::Key => {}
            Reading::Sequence(_) if key == 0x1b => self.reading = Reading::Escape,
            Reading::Sequence(sequence) if (0x40..=0x7e).contains(&key) => {
                if key == b'~' && sequence == PASTE {
                    self.reading = Reading::Paste(0);
                }
            }
            Reading::Sequence(mut sequence) => {
                if sequence.len() < SEQUENCE_BYTES_MAX {
                    sequence.push(key);
                    self.reading = Reading::Sequence(sequence);
                }
            }
            Reading::Paste(came) => self.paste(came, key),
        }
        None
    }

    fn text(&mut self, key: u8) -> Option<Line> {
        match key {
            0x1b => self.reading = Reading::Escape,
            b'\n' | b'\r' => return Some(self.enter()),
            0x08 | 0x7f => self.erase(),
            // Ctrl-U, Ctrl-W, Ctrl-D.
            0x15 => (self.line, self.is_too_long) = (Vec::new(), false),
            0x17 => self.erase_word(),
            0x04 if self.line.is_empty() => {
                return Some(Err("press Ctrl-C to stop the agent; Ctrl-D does nothing here"));
            }
            b'\t' | 0x20.. => self.push(key),
            _ => {}
        }
        None
    }

    fn paste(&mut self, came: usize, key: u8) {
        if PASTE_END.get(came) == Some(&key) {
            if came + 1 < PASTE_END.len() {
                self.reading = Reading::Paste(came + 1);
            }
            return;
        }
        // What looked like the end mark was text.
        PASTE_END[..came].iter().for_each(|byte| self.push(*byte));
        if key == PASTE_END[0] {
            self.reading = Reading::Paste(1);
            return;
        }
        self.reading = Reading::Paste(0);
        self.push(if key == b'\r' { b'\n' } else { key });
    }

    fn push(&mut self, byte: u8) {
        if (self.line.len() as u64) < LINE_BYTES_MAX {
            self.line.push(byte);
        } else {
            self.is_too_long = true;
        }
    }

    /// Takes the last character away.
    fn erase(&mut self) {
        let begins = self.line.iter().rposition(|byte| byte & 0xc0 != 0x80);
        self.line.truncate(begins.unwrap_or_default());
    }

    fn erase_word(&mut self) {
        for is_blank in [true, false] {
            while self.line.last().is_some_and(|byte| byte.is_ascii_whitespace() == is_blank) {
                self.erase();
            }
        }
    }

    fn enter(&mut self) -> Line {
        let (line, is_too_long) = (std::mem::take(&mut self.line), std::mem::take(&mut self.is_too_long));
        self.bring_back();
        match String::from_utf8(line) {
            _ if is_too_long => Err("the line is too long: the limit is 8 MiB"),
            Ok(text) => Ok(Entered { text, about: self.about }),
            Err(_) => Err("the line is not UTF-8"),
        }
    }

    /// Puts the kept words back into an empty line, if no question is on the screen.
    fn bring_back(&mut self) {
        if self.about.is_none()
            && self.line.is_empty()
            && let Some(kept) = self.kept.take()
        {
            self.line = kept.into_bytes();
        }
    }

    fn half_typed(&mut self) -> Option<String> {
        let typed = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        self.is_too_long = false;
        (!typed.trim().is_empty()).then_some(typed)
    }

    /// Another question is on the screen from now on, or none. Gives a line for the person where that takes a half-typed line away.
    pub(super) fn asked(&mut self, about: Option<Seq>) -> Option<String> {
        if about == self.about {
            return None;
        }
        let before = std::mem::replace(&mut self.about, about);
        let typed = self.half_typed();
        self.bring_back();
        let typed = typed?;
        let shown = escape::short(&typed, 200);
        if before.is_some() {
            return Some(format!("! not used: {shown} (the question changed)"));
        }
        if typed::is_answer(&typed) {
            return Some(format!("! not used: {shown} (typed before the question was shown)"));
        }
        let line = format!("! not sent: {shown} (you can send it after the answer)");
        self.kept = Some(typed);
        Some(line)
    }

    /// The words before the line on the screen, and the end of the line; both empty where nothing is shown.
    pub(super) fn shown(&self) -> (&'static str, String) {
        let end = &self.line[self.line.len().saturating_sub(SHOWN_BYTES_MAX)..];
        let prompt = match self.about {
            Some(_) => "answer> ",
            None if self.line.is_empty() => "",
            None => "> ",
        };
        (prompt, escape::prose_line(&String::from_utf8_lossy(end)))
    }

    /// What was typed and not entered.
    pub(super) fn rest(&mut self) -> impl Iterator<Item = String> {
        self.half_typed().into_iter().chain(self.kept.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(text: &str, about: Option<Seq>) -> Line {
        Ok(Entered { text: text.to_owned(), about })
    }

    /// Each row: keys, the lines that they enter, and what of the line is on the screen then.
    #[test]
    fn keys_make_lines_and_a_paste_is_one_text() {
        let long = "x".repeat(6_003);
        let cases = [
            ("use tabs\n".to_owned(), vec!["use tabs"], ""),
            ("use tabs\r".to_owned(), vec!["use tabs"], ""),
            ("one\ntwo\nth".to_owned(), vec!["one", "two"], "th"),
            ("uss\u{7f}e täbs\u{7f}\u{7f}\u{7f}abs\n".to_owned(), vec!["use tabs"], ""),
            ("no\u{15}use the  word\u{17}tabs\n".to_owned(), vec!["use the  tabs"], ""),
            ("\u{7f}\u{17}a".to_owned(), vec![], "a"),
            // Cursor keys, function keys, a lone Escape and a mouse are nothing that is sent.
            ("a\u{1b}[D\u{1b}OP\u{1b}[1;5C\u{1b}b\u{1}c\n".to_owned(), vec!["abc"], ""),
            ("\u{1b}[200~one\r  two\n\tthree\u{1b}[201~".to_owned(), vec![], "one\\n  two\\n\\tthree"),
            ("say: \u{1b}[200~one\ry\r\u{1b}[201~!\n".to_owned(), vec!["say: one\ny\n!"], ""),
            ("\u{1b}[200~red \u{1b}[31m\u{1b}\u{1b}[201~\n".to_owned(), vec!["red \u{1b}[31m\u{1b}"], ""),
            (format!("{long}\n"), vec![&long], ""),
        ];
        for (keys, lines, shown) in cases {
            let lines: Vec<_> = lines.iter().map(|line| entered(line, None)).collect();
            let mut whole = Keys::default();
            assert_eq!((whole.take(keys.as_bytes()), whole.shown().1.as_str()), (lines.clone(), shown), "{keys:?}");
            // However the keys arrive.
            let mut single = Keys::default();
            let came: Vec<_> = keys.bytes().flat_map(|key| single.take(&[key])).collect();
            assert_eq!((came, single.shown().1.as_str()), (lines, shown), "{keys:?}, one by one");
        }
    }

    #[test]
    fn a_line_that_cannot_be_sent_says_why() {
        assert!(Keys::default().take(&[0xff, b'\n'])[0].as_ref().is_err_and(|why| why.contains("UTF-8")));
        assert!(Keys::default().take(&[4])[0].as_ref().is_err_and(|why| why.contains("Ctrl-C")));
        let mut keys = Keys { line: vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap_or(0)], ..Keys::default() };
        assert!(keys.take(b"y\n")[0].as_ref().is_err_and(|why| why.contains("too long")));
        assert_eq!(keys.take(b"z\n"), [entered("z", None)], "the next line is a line again");
    }

    #[test]
    fn a_line_belongs_to_the_question_that_is_on_the_screen() {
        let mut keys = Keys::default();
        let (first, second) = (Some(Seq(7)), Some(Seq(9)));
        assert_eq!(keys.asked(first), None);
        assert_eq!(keys.take(b"y\nn"), [entered("y", first)]);
        assert_eq!(keys.shown(), ("answer> ", "n".to_owned()));
        // The key was for the first question: it is gone, and said.
        assert_eq!(keys.asked(second).as_deref(), Some("! not used: n (the question changed)"));
        assert_eq!(keys.take(b"\n"), [entered("", second)]);
        assert_eq!(keys.asked(None), None);
        assert_eq!(keys.take(b"go on\n"), [entered("go on", None)]);
    }

    #[test]
    fn words_that_were_half_typed_when_a_question_came_come_back_after_it() {
        let (mut keys, ask, next) = (Keys::default(), Some(Seq(7)), Some(Seq(9)));
        keys.take(b"no, use src");
        let said = keys.asked(ask);
        assert_eq!(said.as_deref(), Some("! not sent: no, use src (you can send it after the answer)"));
        assert_eq!(keys.take(b"y\n"), [entered("y", ask)]);
        assert_eq!(keys.asked(next), None);
        assert_eq!(keys.shown(), ("answer> ", String::new()));
        assert_eq!(keys.asked(None), None);
        assert_eq!(keys.shown(), ("> ", "no, use src".to_owned()));
        assert_eq!(keys.take(b" instead\n"), [entered("no, use src instead", None)]);
        // An answer that came too early does not come back.
        keys.take(b"y");
        assert_eq!(keys.asked(ask).as_deref(), Some("! not used: y (typed before the question was shown)"));
        assert_eq!(keys.asked(None), None);
        assert_eq!(keys.shown(), ("", String::new()));
        keys.take(b"one");
        keys.asked(ask);
        keys.take(b"two");
        assert_eq!(keys.rest().collect::<Vec<_>>(), ["two", "one"], "nothing is lost at the end");
    }
}
