//! Applies a unified diff to the content of a file (mode `diff` of the edit tool).
//!
//! A diff from a model often has wrong line numbers and counts, so these numbers are only a hint. Every context line and every
//! removed line is compared with the file, and a hunk goes where all of them are together, after the hunk before it. Only a hunk
//! without such a line goes where its header says. If the lines are missing, or at several places none of which the header names,
//! the whole diff is refused.
//!
//! A change must never apply a part of a diff, and must never guess between two places, because the model would not learn that the
//! file is not as it meant. Line endings and a BOM stay as they are in the file, and so does a missing newline at its end unless
//! the diff says otherwise. The code is pure.

use std::ops::Range;

use super::matching::ending_at;

/// Why a diff cannot be applied. Nothing has been changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatchError {
    #[error("The diff has no hunk. Each hunk begins with a line like `@@ -10,4 +10,5 @@`.")]
    NoHunk,
    #[error("The diff changes more than one file. Make one call for each file.")]
    SeveralFiles,
    #[error("Line {line} of the diff is not part of a hunk: {text:?}. Lines of a hunk begin with a space, `-` or `+`.")]
    BadLine { line: usize, text: String },
    #[error(
        "Hunk {hunk} does not match the file{place}. Its context and removed lines must be exactly as in the file. Read the file again."
    )]
    NoMatch { hunk: usize, place: String },
    #[error(
        "Hunk {hunk} matches the file at lines {at}, and its header names none of them. Correct the line number or give more context."
    )]
    Ambiguous { hunk: usize, at: String },
}

/// One hunk of the diff.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hunk {
    /// The line of the old file that the header names; `None` if it names none.
    start: Option<usize>,
    lines: Vec<Line>,
}

#[derive(Debug, PartialEq, Eq)]
struct Line {
    kind: Kind,
    text: String,
    /// Whether the file ends right after this line, without a newline, as the diff says.
    last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

/// Whether the text is a diff of one file.
pub(super) fn check(diff: &str) -> Result<(), PatchError> {
    parse(diff).map(drop)
}

/// Applies a diff to the content of a file. Returns the new content, and how many lines were added and removed together.
pub(super) fn apply(file: &[u8], diff: &str) -> Result<(Vec<u8>, usize), PatchError> {
    let hunks = parse(diff)?;
    let old = lines(file);
    let mut out = Out::default();
    let (mut from, mut changes) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let place = find(hunk, index + 1, &old, from)?;
        out.keep(&old[from..place.start]);
        out.hunk(hunk, &old[place.clone()], ending_after(&old, &place));
        changes += hunk.lines.iter().filter(|line| line.kind != Kind::Context).count();
        from = place.end;
    }
    out.keep(&old[from..]);
    Ok((out.finish(), changes))
}

fn parse(diff: &str) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut given = diff.lines().enumerate().peekable();
    // How many old and new lines are still to come, by the header of the current hunk.
    let mut due = (0, 0);
    let mut file_headers = 0;
    while let Some((index, line)) = given.next() {
        let in_hunk = due != (0, 0);
        let next_is_new_name = given.peek().is_some_and(|(_, next)| next.starts_with("+++ "));
        if !in_hunk && line.starts_with("--- ") && next_is_new_name {
            given.next();
            file_headers += 1;
            if file_headers > 1 || !hunks.is_empty() {
                return Err(PatchError::SeveralFiles);
            }
            continue;
        }
        if let Some((start, counts)) = header(line) {
            hunks.push(Hunk { start, lines: Vec::new() });
            due = counts;
            continue;
        }
        // The lines before the first hunk are names, modes and hashes.
        let Some(hunk) = hunks.last_mut() else { continue };
        if !in_hunk && line.starts_with("diff --git ") {
            return Err(PatchError::SeveralFiles);
        }
        if line.starts_with('\\') {
            if let Some(last) = hunk.lines.last_mut() {
                last.last = true;
            }
            continue;
        }
        // An empty context line often loses its space.
        let (kind, text) = match line.split_at_checked(1) {
            None => (Kind::Context, ""),
            Some((" ", text)) => (Kind::Context, text),
            Some(("-", text)) => (Kind::Removed, text),
            Some(("+", text)) => (Kind::Added, text),
            Some(_) => return Err(PatchError::BadLine { line: index + 1, text: line.to_owned() }),
        };
        if line.is_empty() && !in_hunk && given.peek().is_none() {
            break;
        }
        due.0 -= usize::from(kind != Kind::Added && due.0 > 0);
        due.1 -= usize::from(kind != Kind::Removed && due.1 > 0);
        hunk.lines.push(Line { kind, text: text.to_owned(), last: false });
    }
    if hunks.is_empty() { Err(PatchError::NoHunk) } else { Ok(hunks) }
}

/// Reads `@@ -10,4 +10,5 @@`: the old start, and both counts. A header without numbers is a header too.
fn header(line: &str) -> Option<(Option<usize>, (usize, usize))> {
    let rest = line.strip_prefix("@@")?;
    let mut ranges = rest.split("@@").next().unwrap_or("").split_whitespace();
    let old = ranges.next().and_then(|range| numbers(range.strip_prefix('-')?));
    let new = ranges.next().and_then(|range| numbers(range.strip_prefix('+')?));
    let counts = (old.map_or(0, |(_, count)| count), new.map_or(0, |(_, count)| count));
    Some((old.map(|(start, _)| start), counts))
}

fn numbers(range: &str) -> Option<(usize, usize)> {
    match range.split_once(',') {
        None => Some((range.parse().ok()?, 1)),
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
    }
}

/// The lines of the file that a hunk replaces. A hunk cannot begin before `from`, the end of the hunk before it.
fn find(hunk: &Hunk, number: usize, old: &[&[u8]], from: usize) -> Result<Range<usize>, PatchError> {
    let wanted: Vec<&Line> = hunk.lines.iter().filter(|line| line.kind != Kind::Added).collect();
    if wanted.is_empty() {
        // The header of a pure insertion names the line before it, and 0 for the top of the file.
        let at = hunk.start.filter(|&at| at >= from && at <= old.len());
        let at = at.ok_or_else(|| PatchError::NoMatch { hunk: number, place: place_of(hunk) })?;
        return Ok(at..at);
    }
    let fits =
        |at: usize| old.len() - at >= wanted.len() && wanted.iter().zip(&old[at..]).all(|(line, old)| same(line, old));
    let named = hunk.start.map(|start| start.saturating_sub(1)).filter(|&at| at >= from && at < old.len());
    if let Some(at) = named.filter(|&at| fits(at)) {
        return Ok(at..at + wanted.len());
    }
    let places: Vec<usize> = (from..old.len()).filter(|&at| fits(at)).take(10).collect();
    match places[..] {
        [] => Err(PatchError::NoMatch { hunk: number, place: first_difference(hunk, &wanted, old, named) }),
        [at] => Ok(at..at + wanted.len()),
        _ => {
            let at: Vec<String> = places.iter().map(|at| (at + 1).to_string()).collect();
            Err(PatchError::Ambiguous { hunk: number, at: at.join(", ") })
        }
    }
}

/// The lines of some bytes, each with its ending.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').collect()
}

fn same(line: &Line, old: &[u8]) -> bool {
    let text = line.text.strip_suffix('\r').unwrap_or(&line.text);
    without_ending(old) == text.as_bytes()
}

fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
    // A BOM belongs to the file, not to its first line.
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

fn place_of(hunk: &Hunk) -> String {
    hunk.start.map_or(String::new(), |start| format!(" at line {start}"))
}

fn first_difference(hunk: &Hunk, wanted: &[&Line], old: &[&[u8]], named: Option<usize>) -> String {
    let Some(named) = named else { return place_of(hunk) };
    let differs =
        wanted.iter().enumerate().find(|(index, line)| old.get(named + index).is_none_or(|old| !same(line, old)));
    let Some((index, line)) = differs else { return place_of(hunk) };
    let found = match old.get(named + index) {
        Some(old) => format!("{:?}", shortened(&String::from_utf8_lossy(without_ending(old)))),
        None => "the end of the file".to_owned(),
    };
    format!(" at line {}: expected {:?}, found {found}", named + index + 1, shortened(&line.text))
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// The line ending of the first line at or after a place that has one; LF where none has.
fn ending_after(old: &[&[u8]], place: &Range<usize>) -> &'static [u8] {
    let after = old[place.start..].iter().find(|line| line.ends_with(b"\n"));
    after.map_or(b"\n", |line| ending_at(line, line.len() - 1))
}

/// The new content as it grows, line by line.
#[derive(Default)]
struct Out {
    content: Vec<u8>,
    /// The ending of the line before. New lines that replace no line take it.
    ending: Option<&'static [u8]>,
    /// Whether the new last line must have no newline; `None` if the diff does not say, and it stays as it was.
    ends_open: Option<bool>,
    /// Whether the old line that was taken last had no newline.
    was_open: bool,
}

impl Out {
    fn keep(&mut self, lines: &[&[u8]]) {
        for line in lines {
            self.push(line, b"\n");
            if line.ends_with(b"\n") {
                self.ending = Some(ending_at(line, line.len() - 1));
            }
            self.ends_open = None;
            self.was_open = !line.ends_with(b"\n");
        }
    }

    fn hunk(&mut self, hunk: &Hunk, old: &[&[u8]], default: &'static [u8]) {
        let mut old = old.iter();
        // The endings of removed lines, for the new lines that come in their place.
        let mut removed: std::collections::VecDeque<&'static [u8]> = std::collections::VecDeque::new();
        let mut bom: &[u8] = b"";
        for line in &hunk.lines {
            if line.kind == Kind::Added {
                let ending = removed.pop_front().or(self.ending).unwrap_or(default);
                self.ending = Some(ending);
                let text = line.text.strip_suffix('\r').unwrap_or(&line.text);
                self.push(&[std::mem::take(&mut bom), text.as_bytes(), ending].concat(), ending);
                // A marker after `-last` also holds for the new lines that replace that line.
                self.ends_open = if line.last { Some(true) } else { self.ends_open.filter(|open| !open) };
                continue;
            }
            let Some(old) = old.next() else { continue };
            if line.kind == Kind::Context {
                removed.clear();
                self.keep(&[old]);
                self.ends_open = line.last.then_some(true);
                continue;
            }
            if old.starts_with(b"\xef\xbb\xbf") {
                bom = b"\xef\xbb\xbf";
            }
            self.was_open = !old.ends_with(b"\n");
            if old.ends_with(b"\n") {
                removed.push_back(ending_at(old, old.len() - 1));
            }
            // `-last` with the marker and a plain `+last` gives the file its final newline.
            self.ends_open = line.last.then_some(false);
        }
        let rest = std::mem::take(&mut bom);
        self.content.extend_from_slice(rest);
    }

    /// Appends a line. The line before it gets an ending if it had none.
    fn push(&mut self, line: &[u8], ending: &[u8]) {
        if !self.content.is_empty() && !self.content.ends_with(b"\n") && self.content != b"\xef\xbb\xbf" {
            self.content.extend_from_slice(ending);
        }
        self.content.extend_from_slice(line);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.ends_open.unwrap_or(self.was_open) && self.content.ends_with(b"\n") {
            let ending = ending_at(&self.content, self.content.len() - 1).len();
            self.content.truncate(self.content.len() - ending);
        }
        self.content
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;

    fn patched(file: &str, diff: &str) -> String {
        String::from_utf8(apply(file.as_bytes(), diff).unwrap().0).unwrap()
    }

    #[test]
    fn lines_stand_where_the_file_has_them() {
        let file = "header\n---\nalpha\nbeta\ngamma\n";
        assert_eq!(patched(file, "@@ -3,3 +3,3 @@\n alpha\n-beta\n+BETA\n gamma"), "header\n---\nalpha\nBETA\ngamma\n");
        assert_eq!(
            patched(file, "@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"),
            "header\n---\nalpha\nBETA\ngamma\n"
        );
        assert_eq!(patched(file, "@@ -2,1 +2,1 @@\n----\n++++\n"), "header\n+++\nalpha\nbeta\ngamma\n");
        assert_eq!(patched(file, "--- a/x\n+++ b/x\n@@ @@\n-beta\n+BETA\n"), "header\n---\nalpha\nBETA\ngamma\n");
    }

    #[test]
    fn each_hunk_lands_in_its_own_place() {
        let file: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let diff = "@@ -2,2 +2,3 @@\n 2\n+two and a half\n 3\n@@ -18,2 +19,1 @@\n-18\n 19\n";
        assert_eq!(patched(&file, diff), file.replacen("2\n", "2\ntwo and a half\n", 1).replace("18\n", ""));
        assert_eq!(apply(file.as_bytes(), diff).unwrap().1, 2);
        assert_eq!(patched("a\nb\n", "@@ -1,0 +2,1 @@\n+x\n"), "a\nx\nb\n");
        assert_eq!(patched("a\nb\n", "@@ -0,0 +1,1 @@\n+x\n"), "x\na\nb\n");
    }

    /// Section 1.3: a diff that does not fit the file changes nothing.
    #[test]
    fn a_wrong_context_is_refused() {
        let error = apply(b"a\nb\nc\n", "@@ -1,2 +1,2 @@\n a\n-X\n+y\n").unwrap_err();
        assert!(error.to_string().contains("at line 2: expected \"X\", found \"b\""), "{error}");
        let twice = apply(b"a\nx\na\nx\n", "@@ -9,1 +9,1 @@\n-a\n+b\n").unwrap_err();
        assert_eq!(twice, PatchError::Ambiguous { hunk: 1, at: "1, 3".to_owned() });
        assert_eq!(apply(b"a\n", "nothing"), Err(PatchError::NoHunk));
        let two = "--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\n--- b\n+++ b\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(apply(b"a\n", two), Err(PatchError::SeveralFiles));
        assert!(matches!(apply(b"a\n", "@@ -1 +1 @@\n*** what\n"), Err(PatchError::BadLine { line: 2, .. })));
        assert!(matches!(apply(b"", "@@ -1 +1 @@\n-a\n+b\n"), Err(PatchError::NoMatch { .. })));
    }

    /// FT-16: other lines keep their endings; new lines take those of the lines that they replace.
    #[test]
    fn line_endings_and_the_bom_are_kept() {
        assert_eq!(patched("\u{feff}a\r\nb\nc", "@@ -1,3 +1,4 @@\n-a\n+A\n b\n-c\n+C\n+D\n"), "\u{feff}A\r\nb\nC\nD");
        assert_eq!(patched("a\r\nb\r\n", "@@ -1,2 +1,3 @@\n a\n+x\n b\n"), "a\r\nx\r\nb\r\n");
        assert_eq!(patched("a", "@@ -1 +1,2 @@\n a\n+b\n"), "a\nb");
        assert_eq!(patched("a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"), "b\n");
        assert_eq!(patched("a\n", "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n"), "b");
        assert_eq!(patched("a\nb", "@@ -1 +1 @@\n-a\n+A\n"), "A\nb");
    }
}
