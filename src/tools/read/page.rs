//! Reads a page of numbered lines out of a stream of text, however long the stream is.
//!
//! Memory is bounded for any stream, and a change must keep it so: only the lines of the page are kept, and of each line about 8
//! KB at most, of which 2,000 characters are shown; the rest of the line is counted. Lines before the page are read and skipped,
//! with no limit to how many, so the caller's stream must end with an error once the call must stop. Lines after the page are
//! counted for the totals, up to a limit in bytes; beyond that limit the total is a lower bound.

use std::io::{self, Read};

use crate::tool::truncate::{BYTES_MAX, LINES_MAX};

/// Longest line that is shown whole, in characters.
pub(in crate::tools) const LINE_CHARS_MAX: usize = 2_000;

/// How many bytes of a line are kept: enough for the characters that are shown, however many bytes each takes.
const LINE_BYTES_KEPT: usize = LINE_CHARS_MAX * 4 + 3;

const CHUNK_BYTES: usize = 65_536;

/// Why a page ends before the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutBy {
    /// The page has as many lines as were asked for, or as it may have.
    Lines,
    /// The page has as many bytes as it may have.
    Bytes,
    /// A line is so long that the lines after it are out of reach.
    LongLine,
}

/// How many lines a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// Exactly this many.
    Exactly(usize),
    /// At least this many; the file was not read to its end.
    AtLeast(usize),
}

/// Some lines of a file, with their numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// The lines: number in 6 columns, tab, text; joined by LF.
    pub(super) text: String,
    /// The number of the first line, from 1.
    pub(super) first: usize,
    /// How many lines are shown.
    pub(super) shown: usize,
    pub(super) total: Total,
    /// `None` if the page ends with the file.
    pub(super) cut_by: Option<CutBy>,
    /// How many places were not valid UTF-8.
    pub(super) invalid: usize,
    /// How many NUL characters were shown as U+2400.
    pub(super) nuls: usize,
    /// How many of the lines that are shown end in LF, and how many of these in CRLF.
    pub(super) ends: (usize, usize),
    /// How many lines were cut because they are too long.
    pub(super) long_lines: usize,
    /// The first line that was cut: its number, and how many of its bytes are shown.
    pub(super) first_long: Option<(usize, usize)>,
}

/// Reads the page that begins at line `first` (from 1) and has at most `limit` lines, and never more than [`LINES_MAX`]. Then it
/// reads about `scan_ahead` more bytes to count lines.
pub(super) fn page(mut from: impl Read, first: usize, limit: usize, scan_ahead: usize) -> io::Result<Page> {
    let mut maker = Maker::new(first, limit.min(LINES_MAX));
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok(maker.finish(true)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if maker.page.cut_by.is_some() || maker.page.shown == maker.limit {
            maker.ahead += read;
        }
        maker.take(&chunk[..read]);
        if maker.ahead > scan_ahead {
            return Ok(maker.finish(false));
        }
    }
}

/// The page as it grows.
struct Maker {
    page: Page,
    limit: usize,
    /// How many lines have ended.
    ended: usize,
    line: Line,
    /// About how many bytes were read from the beginning of the page on and not kept.
    ahead: usize,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    kept: Vec<u8>,
    bytes: usize,
    chars: usize,
    last: u8,
}

impl Maker {
    fn new(first: usize, limit: usize) -> Maker {
        let page = Page {
            text: String::new(),
            first,
            shown: 0,
            total: Total::Exactly(0),
            cut_by: None,
            invalid: 0,
            nuls: 0,
            ends: (0, 0),
            long_lines: 0,
            first_long: None,
        };
        Maker { page, limit, ended: 0, line: Line::default(), ahead: 0 }
    }

    fn take(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            self.part_of_line(&rest[..at]);
            self.end_line();
            rest = &rest[at + 1..];
        }
        self.part_of_line(rest);
    }

    fn part_of_line(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        let wanted = self.ended + 1 >= self.page.first && self.page.cut_by.is_none() && self.page.shown < self.limit;
        let room = if wanted { LINE_BYTES_KEPT - self.line.kept.len() } else { 0 };
        let kept = &part[..part.len().min(room)];
        self.line.kept.extend_from_slice(kept);
        if wanted {
            self.ahead += part.len() - kept.len();
            // The continuation bytes of a character are not counted.
            self.line.chars += part.iter().filter(|byte| !matches!(byte, 0x80..=0xbf)).count();
        }
        self.line.bytes += part.len();
        self.line.last = *last;
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.ended += 1;
        self.show(&line, true);
    }

    fn show(&mut self, line: &Line, has_ended: bool) {
        if self.ended < self.page.first || self.page.cut_by.is_some() {
            return;
        }
        if self.page.shown == self.limit {
            self.page.cut_by = Some(CutBy::Lines);
            return;
        }
        let shown = shown_text(line, has_ended);
        let separator = usize::from(self.page.shown > 0);
        let numbered = format!("{:>6}\t{}", self.ended, shown.text);
        if self.page.text.len() + separator + numbered.len() > BYTES_MAX {
            self.page.cut_by = Some(CutBy::Bytes);
            return;
        }
        if separator > 0 {
            self.page.text.push('\n');
        }
        self.page.text.push_str(&numbered);
        self.page.shown += 1;
        self.page.ends.0 += usize::from(has_ended);
        self.page.ends.1 += usize::from(has_ended && line.last == b'\r');
        self.page.invalid += shown.invalid;
        self.page.nuls += shown.nuls;
        if let Some(bytes) = shown.cut_after {
            self.page.long_lines += 1;
            self.page.first_long.get_or_insert((self.ended, bytes));
        }
    }

    fn finish(mut self, at_end: bool) -> Page {
        if self.line.bytes > 0 {
            let was_open = self.page.cut_by.is_none() && self.page.shown < self.limit;
            let line = std::mem::take(&mut self.line);
            self.ended += 1;
            self.show(&line, false);
            if !at_end && was_open && self.page.cut_by.is_none() {
                self.page.cut_by = Some(CutBy::LongLine);
            }
        }
        self.page.total = if at_end { Total::Exactly(self.ended) } else { Total::AtLeast(self.ended) };
        self.page
    }
}

/// A line as it is shown.
struct Shown {
    text: String,
    /// How many places of it are not UTF-8.
    invalid: usize,
    nuls: usize,
    /// How many of its bytes are shown; `None` if all are.
    cut_after: Option<usize>,
}

fn shown_text(line: &Line, has_ended: bool) -> Shown {
    let carriage_return = usize::from(has_ended && line.last == b'\r');
    let whole = line.kept.len() == line.bytes;
    let kept = if whole { &line.kept[..line.bytes - carriage_return] } else { &line.kept[..] };
    let mut text = String::with_capacity(kept.len());
    let (mut invalid, mut nuls, mut chars, mut bytes) = (0, 0, 0, 0);
    'line: for chunk in kept.utf8_chunks() {
        for c in chunk.valid().chars() {
            if chars == LINE_CHARS_MAX {
                break 'line;
            }
            chars += 1;
            bytes += c.len_utf8();
            nuls += usize::from(c == '\0');
            text.push(if c == '\0' { '\u{2400}' } else { c });
        }
        if !chunk.invalid().is_empty() && chars < LINE_CHARS_MAX {
            chars += 1;
            bytes += chunk.invalid().len();
            invalid += 1;
            text.push('\u{fffd}');
        }
    }
    let all = if whole { String::from_utf8_lossy(kept).chars().count() } else { line.chars - carriage_return };
    let is_cut = all > chars || !whole;
    if is_cut {
        text.push_str(&format!("... [{} chars truncated]", all.saturating_sub(chars).max(1)));
    }
    Shown { text, invalid, nuls, cut_after: is_cut.then_some(bytes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const AHEAD: usize = 1024 * 1024;

    fn page(from: impl Read, first: usize, limit: usize) -> io::Result<Page> {
        super::page(from, first, limit, AHEAD)
    }

    fn numbered(count: usize, length: usize) -> String {
        (1..=count).map(|n| format!("{:x<length$}\n", format!("line {n}"))).collect()
    }

    #[test]
    fn bytes_cut_at_the_line_that_would_go_over() {
        let page = page(numbered(500, 200).as_bytes(), 1, 2_000).unwrap();
        // 207 bytes a line and the line feeds between: 246 lines are 51,167 bytes.
        assert_eq!((page.shown, page.cut_by, page.total), (246, Some(CutBy::Bytes), Total::Exactly(500)));
        assert_eq!(page.text.len(), 246 * 208 - 1);
    }

    #[test]
    fn a_line_at_the_limit_is_whole_and_one_more_is_cut() {
        let whole = "你".repeat(LINE_CHARS_MAX);
        assert_eq!(page(whole.as_bytes(), 1, 5).unwrap().text, format!("     1\t{whole}"));
        let longer = format!("{whole}好\r\n");
        assert_eq!(page(longer.as_bytes(), 1, 5).unwrap().text, format!("     1\t{whole}... [1 chars truncated]"));
        let long = format!("{}\r\nnext", "é".repeat(50_000));
        let page = page(long.as_bytes(), 1, 5).unwrap();
        assert_eq!(page.text, format!("     1\t{}... [48000 chars truncated]\n     2\tnext", "é".repeat(2_000)));
        assert_eq!((page.long_lines, page.first_long), (1, Some((1, 4_000))));
    }

    /// Nasty case 5: what is past reach is said to be, and not read.
    #[test]
    fn a_line_without_end_ends_the_page() {
        let page = page(io::repeat(b'x'), 1, 5).unwrap();
        assert_eq!((page.shown, page.cut_by, page.total), (1, Some(CutBy::LongLine), Total::AtLeast(1)));
        assert!(page.text.len() < 2_100 && page.text.ends_with(" chars truncated]"));
        let lines = io::Cursor::new(b"a\nb\n").chain(io::repeat(b'\n'));
        let page = super::page(lines, 1, 2, AHEAD).unwrap();
        assert_eq!((page.shown, page.cut_by), (2, Some(CutBy::Lines)));
        assert!(matches!(page.total, Total::AtLeast(lines) if lines > AHEAD));
    }

    #[test]
    fn what_is_no_text_is_marked() {
        let page = page(&b"a\xff\xfeb\0\rc\nd\r\n"[..], 1, 9).unwrap();
        assert_eq!(page.text, "     1\ta\u{fffd}\u{fffd}b\u{2400}\rc\n     2\td");
        assert_eq!((page.invalid, page.nuls), (2, 1));
    }

    proptest! {
        /// Against a plain model: pages one after the other show every line once.
        #[test]
        fn pages_follow_each_other_without_gaps(lines in proptest::collection::vec("[a-zé]{0,6}", 0..30), open: bool, limit in 1usize..9) {
            let mut file = lines.join("\n");
            // A last line of nothing is only there if it ends.
            let ends = !open || lines.last().is_some_and(String::is_empty);
            if ends && !lines.is_empty() {
                file.push('\n');
            }
            let (mut first, mut seen) = (1, Vec::new());
            loop {
                let page = page(file.as_bytes(), first, limit).unwrap();
                prop_assert_eq!(page.total, Total::Exactly(lines.len()));
                seen.extend(page.text.lines().map(|line| line.split_once('\t').unwrap().1.to_owned()));
                first += page.shown;
                if page.cut_by.is_none() {
                    break;
                }
            }
            prop_assert_eq!(seen, lines);
        }
    }
}
