//! A changed copy of a file's text, with the way back from each place in the copy to the file's bytes.
//!
//! The edit tool looks for a text in the copy, in which line endings are made equal, and for a fuzzy search quotes, dashes, spaces
//! and other forms too. It replaces bytes of the file itself. A [`View`] is the copy together with the origin of each piece of it.
//!
//! A change must keep one rule: a place inside a changed piece (half of a ligature) has no origin, so that no match begins or ends
//! there and an edit never cuts a character in two. Bytes that are not text stay as they are. The code is pure.

use std::ops::Range;

use unicode_normalization::{UnicodeNormalization as _, char::canonical_combining_class};

/// A changed copy of some bytes that knows where each piece came from.
#[derive(Default)]
pub(super) struct View {
    text: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A run of the copy: either the same bytes as in the original, or a replacement for a stretch of the original.
struct Piece {
    /// Where the piece begins in the copy, in bytes.
    at: usize,
    /// Where the piece, or the stretch that it replaces, begins in the original, in bytes.
    origin: usize,
    /// Where the stretch ends that this piece replaces; `None` for bytes that were copied.
    stands_for: Option<usize>,
}

impl View {
    /// The bytes with every CRLF as LF. Nothing else is changed.
    pub(super) fn with_line_feeds(bytes: &[u8]) -> View {
        let mut view = View { text: Vec::with_capacity(bytes.len()), pieces: Vec::new() };
        let mut from = 0;
        for carriage_return in memchr::memmem::find_iter(bytes, b"\r\n") {
            view.copy(bytes, from..carriage_return);
            view.replace(carriage_return..carriage_return + 2, b"\n");
            from = carriage_return + 2;
        }
        view.copy(bytes, from..bytes.len());
        view
    }

    /// The bytes folded for a fuzzy comparison: CRLF as LF, blanks at line ends dropped, compatibility forms (full-width
    /// letters, ligatures, combining marks) composed, and quotes, dashes and spaces each as their plain ASCII form.
    pub(super) fn folded(bytes: &[u8]) -> View {
        let mut view = View { text: Vec::with_capacity(bytes.len()), pieces: Vec::new() };
        let mut start = 0;
        while start < bytes.len() {
            let line_feed = memchr::memchr(b'\n', &bytes[start..]).map(|at| start + at);
            let end = line_feed.unwrap_or(bytes.len());
            let content = start..start + without_trailing_blanks(&bytes[start..end]);
            view.fold_line(bytes, content);
            let Some(line_feed) = line_feed else { break };
            let ending = if line_feed > start && bytes[line_feed - 1] == b'\r' { line_feed - 1 } else { line_feed };
            view.replace(ending..line_feed + 1, b"\n");
            start = line_feed + 1;
        }
        view
    }

    /// The copy.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The original bytes of a stretch of the copy; `None` for a stretch that cuts a replacement in two.
    pub(super) fn origin(&self, range: Range<usize>) -> Option<Range<usize>> {
        if range.is_empty() {
            return None;
        }
        let first = &self.pieces[self.piece_at(range.start)];
        let start = match first.stands_for {
            None => first.origin + (range.start - first.at),
            Some(_) if range.start == first.at => first.origin,
            Some(_) => return None,
        };
        let index = self.piece_at(range.end - 1);
        let last = &self.pieces[index];
        let piece_end = self.pieces.get(index + 1).map_or(self.text.len(), |next| next.at);
        let end = match last.stands_for {
            None => last.origin + (range.end - last.at),
            Some(end) if range.end == piece_end => end,
            Some(_) => return None,
        };
        Some(start..end)
    }

    fn piece_at(&self, at: usize) -> usize {
        self.pieces.partition_point(|piece| piece.at <= at).saturating_sub(1)
    }

    fn copy(&mut self, bytes: &[u8], range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let goes_on = self
            .pieces
            .last()
            .is_some_and(|last| last.stands_for.is_none() && last.origin + (self.text.len() - last.at) == range.start);
        if !goes_on {
            self.pieces.push(Piece { at: self.text.len(), origin: range.start, stands_for: None });
        }
        self.text.extend_from_slice(&bytes[range]);
    }

    fn replace(&mut self, range: Range<usize>, by: &[u8]) {
        if by.is_empty() {
            return;
        }
        self.pieces.push(Piece { at: self.text.len(), origin: range.start, stands_for: Some(range.end) });
        self.text.extend_from_slice(by);
    }

    fn fold_line(&mut self, bytes: &[u8], content: Range<usize>) {
        let mut at = content.start;
        for chunk in bytes[content].utf8_chunks() {
            let valid = chunk.valid();
            for segment in Segments(valid) {
                let range = at..at + segment.len();
                at = range.end;
                match fold(segment) {
                    None => self.copy(bytes, range),
                    Some(folded) => self.replace(range, folded.as_bytes()),
                }
            }
            // Bytes that are not text stay as they are; no text can match them.
            let range = at..at + chunk.invalid().len();
            at = range.end;
            self.copy(bytes, range);
        }
    }
}

/// The length of a line without the blanks at its end, in bytes.
fn without_trailing_blanks(line: &[u8]) -> usize {
    let Some(tail) = line.utf8_chunks().last() else { return 0 };
    if !tail.invalid().is_empty() {
        return line.len();
    }
    line.len() - (tail.valid().len() - tail.valid().trim_end().len())
}

/// Cuts a text into runs of plain ASCII, and single characters with all marks that combine with them.
struct Segments<'a>(&'a str);

impl<'a> Iterator for Segments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let first = self.0.chars().next()?;
        let mut end = self.0.find(|c: char| !c.is_ascii()).unwrap_or(self.0.len());
        if end > 1 && self.0[end..].starts_with(combines) {
            // The last letter of the run belongs to the mark that follows it.
            end -= 1;
        } else if end <= 1 && (end == 0 || self.0[end..].starts_with(combines)) {
            let rest = &self.0[first.len_utf8()..];
            end = first.len_utf8() + rest.find(|c| !combines(c)).unwrap_or(rest.len());
        }
        let (segment, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(segment)
    }
}

/// Whether a character joins the one before it under Unicode composition.
fn combines(c: char) -> bool {
    // The vowels and finals of Hangul compose although their combining class is zero.
    matches!(c, '\u{1160}'..='\u{11ff}') || (!c.is_ascii() && canonical_combining_class(c) != 0)
}

/// The plain form of a segment; `None` for a segment that is plain already and may be matched in part.
fn fold(segment: &str) -> Option<String> {
    if segment.is_ascii() {
        return None;
    }
    let folded: String = segment.nfkc().map(plain).collect();
    let single = segment.chars().nth(1).is_none();
    if single && folded == segment { None } else { Some(folded) }
}

fn plain(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}
