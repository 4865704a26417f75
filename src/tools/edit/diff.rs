//! Shows the difference between two contents of a file as a unified diff with four lines of context.
//!
//! People read the diff: that of an edit is in the details of its result, which are kept on the tape, and a restore shows what it
//! would do. The diff is bounded in size and in the time that the search takes, and bytes that are not text are replaced before
//! lines are compared. So it may be cut or coarse, and a change must not apply it or restore a file from it. The code touches no
//! disk.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use serde::Serialize;
use similar::{DiffTag, TextDiff};

/// Lines shown around each change.
const CONTEXT: usize = 4;

/// Longest diff in bytes, without the line that says that it was cut. A longer one would fill the tape and help no one.
const DIFF_BYTES_MAX: usize = 51_200;

/// How long to search for the smallest diff before a coarser one is taken.
const SEARCH_TIME_MAX: Duration = Duration::from_millis(200);

/// The change of one file, for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(in crate::tools) struct Diff {
    /// The hunks, without a file header. Bytes that are not text are shown as U+FFFD.
    pub(in crate::tools) content: String,
    /// The number of the first changed line, in the new file; 1 where nothing was changed.
    pub(in crate::tools) first_changed_line: usize,
}

/// The difference between two contents of a file. Only LF ends a line.
pub(in crate::tools) fn unified(old: &[u8], new: &[u8]) -> Diff {
    // Texts, and not bytes: `similar` has its code compiled for texts. Compiled here for bytes, it was 5 % of this crate's code.
    let texts = [old, new].map(String::from_utf8_lossy);
    let [old, new] = texts.each_ref().map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let mut config = TextDiff::configure();
    let diff = config.timeout(SEARCH_TIME_MAX).newline_terminated(true).diff_slices(&old, &new);
    let first = diff.ops().iter().find(|op| op.tag() != DiffTag::Equal);
    let mut text = Bounded(String::new());
    if write!(text, "{}", diff.unified_diff().context_radius(CONTEXT)).is_err() {
        text.0.push_str("\n... [truncated]\n");
    }
    Diff { content: text.0, first_changed_line: first.map_or(1, |op| op.new_range().start + 1) }
}

/// A text that takes [`DIFF_BYTES_MAX`] bytes and no more.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let taken = piece.floor_char_boundary(DIFF_BYTES_MAX - self.0.len());
        self.0.push_str(&piece[..taken]);
        if taken == piece.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lines_of_context_stand_around_a_change() {
        let old: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let new = old.replace("line 10\n", "ten\nten and a half\n");
        let diff = unified(old.as_bytes(), new.as_bytes());
        assert_eq!(diff.first_changed_line, 10);
        assert_eq!(
            diff.content,
            "@@ -6,9 +6,10 @@\n line 6\n line 7\n line 8\n line 9\n-line 10\n+ten\n+ten and a half\n line 11\n line 12\n line 13\n line 14\n"
        );
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (1..=30).map(|n| format!("{n}\n")).collect();
        let new = old.replacen("2\n", "two\n", 1).replace("29\n", "");
        let diff = unified(old.as_bytes(), new.as_bytes());
        assert_eq!(diff.content.matches("@@ -").count(), 2);
        assert!(diff.content.contains("@@ -25,6 +25,5 @@\n 25\n 26\n 27\n 28\n-29\n 30\n"), "{}", diff.content);
        assert_eq!(diff.first_changed_line, 2);
    }

    #[test]
    fn empty_files_and_missing_newlines_are_shown() {
        assert_eq!(unified(b"", b"a\n").content, "@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified(b"a", b"").content, "@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n");
        assert_eq!(unified(b"a\xff\n", b"a\n").content, "@@ -1 +1 @@\n-a\u{fffd}\n+a\n");
    }

    #[test]
    fn a_flood_is_cut() {
        let old = "a\n".repeat(100_000);
        let diff = unified(old.as_bytes(), old.replace('a', "b").as_bytes());
        assert!(diff.content.len() < DIFF_BYTES_MAX + 40 && diff.content.ends_with("... [truncated]\n"));
    }
}
