//! Cuts a tool's output to the size that a model gets. [`head`] keeps the beginning of a text (`find`), [`tail`] the end (`bash`),
//! [`line()`] the beginning of one line (`grep`), [`head_tail`] both ends (the runtime, `truncate/bound.rs`). Each is a pure
//! function and returns a [`Truncation`] that says how much there was and how much is left.
//!
//! Guaranteed: the result is valid UTF-8 and within its limits, except that the marker of [`line()`] comes on top, and so do the
//! lines that the markers of [`head_tail`] add. `truncated` is true exactly where something is missing, and the totals are those of
//! the whole text. Head returns a prefix and tail a suffix; no text is made up inside of either. A line ends at LF and nowhere
//! else; a final LF does not start a line. Limits are inclusive. A change must keep all of these: tools tell the model from these
//! numbers where to read on.
//!
//! A caller that keeps the whole of an output that was cut puts it into a private file: see [`Spill`]. The runtime does so where a
//! tool's result is over the limits of the tool.

mod bound;
mod spill;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub(crate) use bound::bounded;
pub(crate) use spill::NO_FOLDER;
pub(crate) use spill::{RETENTION, Retention, SpillEntry, list_spills, private_folder, tidy_spills};
pub use spill::{SPILL_BYTES_MAX, Spill, SpillFile};

/// How many lines of one output a model is given by default.
pub const LINES_MAX: usize = 2_000;
/// How many bytes of one output a model is given by default.
pub const BYTES_MAX: usize = 51_200;
/// How many characters of a line grep keeps.
pub const LINE_CHARS_MAX: usize = 500;
/// The marker at the end of a line that was cut.
pub const LINE_MARKER: &str = "... [truncated]";

/// How much of an output is kept. The limit that is reached first cuts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CutLimits {
    /// The most lines that are kept.
    pub max_lines: usize,
    /// The most bytes that are kept, the line feeds between the lines included.
    pub max_bytes: usize,
    /// The most characters (Unicode scalar values) that are kept, the line feeds included.
    pub max_chars: usize,
}

impl Default for CutLimits {
    fn default() -> CutLimits {
        CutLimits::new(LINES_MAX, BYTES_MAX)
    }
}

impl CutLimits {
    /// Limits by lines and bytes.
    #[must_use]
    pub const fn new(max_lines: usize, max_bytes: usize) -> CutLimits {
        CutLimits { max_lines, max_bytes, max_chars: usize::MAX }
    }

    /// A limit by bytes alone.
    #[must_use]
    pub const fn bytes(max_bytes: usize) -> CutLimits {
        CutLimits::new(usize::MAX, max_bytes)
    }

    /// A limit by characters alone, however many lines and bytes these are.
    #[must_use]
    pub const fn chars(max_chars: usize) -> CutLimits {
        CutLimits { max_lines: usize::MAX, max_bytes: usize::MAX, max_chars }
    }
}

/// Which limit cut the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TruncatedBy {
    /// The number of lines.
    Lines,
    /// The number of bytes.
    Bytes,
    /// The number of characters.
    Chars,
    /// Lines first, then bytes; only [`head_tail`] returns this value.
    Both,
}

/// A text after cutting, with the record of the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Truncation {
    /// The text that is left.
    pub content: String,
    /// Whether anything is missing.
    pub truncated: bool,
    /// Which limit cut it; `None` if nothing is missing.
    pub truncated_by: Option<TruncatedBy>,
    /// How many lines there were.
    pub total_lines: usize,
    /// How many bytes there were.
    pub total_bytes: usize,
    /// How many lines are left; a line that is left in part counts.
    pub output_lines: usize,
    /// How many bytes are left, the marker included.
    pub output_bytes: usize,
    /// Whether one of the lines is left only in part: for [`tail`] the first one, at the boundary. Always true where [`head_tail`]
    /// cut by bytes.
    pub last_line_partial: bool,
    /// Whether nothing is left because the first line alone is over the limit; true only for [`head`].
    pub first_line_exceeds_limit: bool,
    /// The limit of lines that was applied.
    pub max_lines: usize,
    /// The limit of bytes that was applied.
    pub max_bytes: usize,
}

impl Truncation {
    /// Corrects the totals of a text whose beginning was lost before the cut, such as the tail of a rolling buffer.
    ///
    /// If less is left than there was and no limit has cut the text, it counts as cut by its bytes.
    #[cfg(any(test, all(unix, feature = "tools")))]
    #[must_use]
    pub(crate) fn with_totals(mut self, total_lines: usize, total_bytes: usize) -> Truncation {
        (self.total_lines, self.total_bytes) = (total_lines, total_bytes);
        if self.output_bytes < total_bytes && !self.truncated {
            self.truncated = true;
            self.truncated_by = Some(TruncatedBy::Bytes);
        }
        self
    }

    fn of(text: &str, content: String, by: Option<TruncatedBy>, limits: CutLimits) -> Truncation {
        Truncation {
            truncated: by.is_some(),
            truncated_by: by,
            total_lines: count_lines(text),
            total_bytes: text.len(),
            output_lines: count_lines(&content),
            output_bytes: content.len(),
            content,
            last_line_partial: false,
            first_line_exceeds_limit: false,
            max_lines: limits.max_lines,
            max_bytes: limits.max_bytes,
        }
    }

    fn whole(text: &str, limits: CutLimits) -> Truncation {
        Truncation::of(text, text.to_owned(), None, limits)
    }
}

/// How many lines a text has. Only LF ends one; a final LF does not start another.
#[must_use]
pub(crate) fn count_lines(text: &str) -> usize {
    let ended = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    ended + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// A size for people: `512B`, `50.0KB`, `4.5MB`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "one decimal place is shown")]
pub fn format_bytes(bytes: usize) -> String {
    const KIB: usize = 1024;
    const MIB: usize = 1024 * 1024;
    match bytes {
        0..KIB => format!("{bytes}B"),
        KIB..MIB => format!("{:.1}KB", bytes as f64 / KIB as f64),
        _ => format!("{:.1}MB", bytes as f64 / MIB as f64),
    }
}

/// Keeps whole lines from the beginning, never a part of one.
///
/// If the first line alone is over the limit, nothing is left and `first_line_exceeds_limit` is true.
#[must_use]
pub fn head(text: &str, limits: CutLimits) -> Truncation {
    // The latest place where the text may end, by each limit. The line feed after the last kept line is not kept.
    let by_lines = end_of_line(text, limits.max_lines);
    let by_bytes = text.len().min(limits.max_bytes);
    let by_chars = text.char_indices().nth(limits.max_chars).map_or(text.len(), |(at, _)| at);
    if by_lines.min(by_bytes).min(by_chars) == text.len() {
        return Truncation::whole(text, limits);
    }
    let (by, latest) = [(TruncatedBy::Lines, by_lines), (TruncatedBy::Bytes, by_bytes), (TruncatedBy::Chars, by_chars)]
        .into_iter()
        .min_by_key(|(_, end)| *end)
        .unwrap_or((TruncatedBy::Bytes, 0));
    // Whole lines only: `latest` holds if a line ends there, else the end of the line before.
    let ends_here = text.as_bytes().get(latest).is_none_or(|byte| *byte == b'\n') && text.is_char_boundary(latest);
    let end = if by == TruncatedBy::Lines || ends_here {
        latest
    } else {
        memchr::memrchr(b'\n', &text.as_bytes()[..latest]).unwrap_or(0)
    };
    let first_line = end_of_line(text, 1);
    let mut truncation = Truncation::of(text, text[..end].to_owned(), Some(by), limits);
    // A kept empty line leaves no byte behind, so the count is that of the kept line feeds, not of the kept text.
    truncation.first_line_exceeds_limit = end < first_line && by != TruncatedBy::Lines;
    truncation.output_lines = match (truncation.first_line_exceeds_limit, limits.max_lines) {
        (true, _) | (_, 0) => 0,
        _ => memchr::memchr_iter(b'\n', &text.as_bytes()[..end]).count() + 1,
    };
    truncation
}

/// Keeps the end. The line at the boundary is kept in part, from a whole character on.
#[must_use]
pub fn tail(text: &str, limits: CutLimits) -> Truncation {
    // The earliest place where the text may start, by each limit.
    let by_lines = start_of_last_lines(text, limits.max_lines);
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(limits.max_bytes));
    let by_chars = match limits.max_chars {
        usize::MAX => 0,
        0 => text.len(),
        chars => text.char_indices().rev().nth(chars - 1).map_or(0, |(at, _)| at),
    };
    let mut start = by_lines.max(by_bytes).max(by_chars);
    if start == 0 {
        return Truncation::whole(text, limits);
    }
    let by = match () {
        () if start == by_lines => TruncatedBy::Lines,
        () if start == by_bytes => TruncatedBy::Bytes,
        () => TruncatedBy::Chars,
    };
    // A line is not kept where only its line feed would be left.
    if by != TruncatedBy::Lines && text.as_bytes().get(start) == Some(&b'\n') && !starts_line(text, start) {
        start += 1;
    }
    let mut truncation = Truncation::of(text, text[start..].to_owned(), Some(by), limits);
    truncation.last_line_partial = start < text.len() && !starts_line(text, start);
    truncation
}

/// Keeps the first `max_chars` characters of one line, and marks a line that was longer.
///
/// The marker comes on top of the limit.
#[must_use]
pub fn line(text: &str, max_chars: usize) -> Truncation {
    let limits = CutLimits { max_lines: usize::MAX, max_bytes: usize::MAX, max_chars };
    match text.char_indices().nth(max_chars) {
        None => Truncation::whole(text, limits),
        Some((at, _)) => {
            let content = format!("{}{LINE_MARKER}", &text[..at]);
            let mut truncation = Truncation::of(text, content, Some(TruncatedBy::Chars), limits);
            truncation.last_line_partial = true;
            truncation
        }
    }
}

/// How much of both ends is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BothEnds {
    /// Lines from the beginning.
    pub head_lines: usize,
    /// Lines from the end.
    pub tail_lines: usize,
    /// The most bytes of the whole result, the marker included.
    pub max_bytes: usize,
}

impl BothEnds {
    crate::words::setters::setters! {
        /// Sets the [lines from the beginning](#structfield.head_lines).
        head_lines: usize;
        /// Sets the [lines from the end](#structfield.tail_lines).
        tail_lines: usize;
        /// Limits the [bytes](#structfield.max_bytes) of the result.
        max_bytes: usize;
    }
}

impl Default for BothEnds {
    fn default() -> BothEnds {
        BothEnds { head_lines: 50, tail_lines: 50, max_bytes: 30_000 }
    }
}

/// Keeps the beginning and the end around a marker line that says how much is missing.
///
/// Lines are cut first. A text that is still over the bytes keeps two halves of equal size around a separate marker. If not even
/// that marker has room, as much of the beginning is kept as fits.
#[must_use]
pub fn head_tail(text: &str, ends: BothEnds) -> Truncation {
    let max_lines = ends.head_lines.saturating_add(ends.tail_lines);
    let limits = CutLimits::new(max_lines, ends.max_bytes);
    let by_lines = count_lines(text) > max_lines;
    let mut content = text.to_owned();
    if by_lines {
        let head_end = if ends.head_lines == 0 { 0 } else { (end_of_line(text, ends.head_lines) + 1).min(text.len()) };
        let tail_start = start_of_last_lines(text, ends.tail_lines);
        let omitted = &text[head_end..tail_start];
        let marker = format!("[... {} lines, {} bytes omitted ...]\n", count_lines(omitted), omitted.len());
        content = format!("{}{marker}{}", &text[..head_end], &text[tail_start..]);
    }
    let by_bytes = content.len() > ends.max_bytes;
    if by_bytes {
        content = halves(&content, text.len(), ends.max_bytes);
    }
    let by = match (by_lines, by_bytes) {
        (false, false) => None,
        (true, false) => Some(TruncatedBy::Lines),
        (false, true) => Some(TruncatedBy::Bytes),
        (true, true) => Some(TruncatedBy::Both),
    };
    let mut truncation = Truncation::of(text, content, by, limits);
    truncation.last_line_partial = by_bytes;
    truncation
}

/// Two halves of a text around a marker, together at most `max_bytes`.
fn halves(text: &str, total_bytes: usize, max_bytes: usize) -> String {
    let marker = format!("\n[... cut to {max_bytes} of {total_bytes} bytes ...]\n");
    let Some(room) = max_bytes.checked_sub(marker.len()) else {
        return text[..text.floor_char_boundary(max_bytes)].to_owned();
    };
    let head = &text[..text.floor_char_boundary(room / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - room / 2)..];
    format!("{head}{marker}{tail}")
}

/// Where line number `lines` (from 1) ends: at its LF, or at the end of the text. A final LF is part of the last line.
fn end_of_line(text: &str, lines: usize) -> usize {
    if lines == 0 {
        return 0;
    }
    match memchr::memchr_iter(b'\n', text.as_bytes()).nth(lines - 1) {
        Some(at) if at + 1 < text.len() => at,
        _ => text.len(),
    }
}

/// Where the last `lines` lines start.
fn start_of_last_lines(text: &str, lines: usize) -> usize {
    if lines == 0 {
        return text.len();
    }
    let body = text.strip_suffix('\n').unwrap_or(text);
    memchr::memrchr_iter(b'\n', body.as_bytes()).nth(lines - 1).map_or(0, |at| at + 1)
}

fn starts_line(text: &str, at: usize) -> bool {
    at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n')
}
