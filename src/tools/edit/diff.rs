//! What an edit changed, as a unified diff with four lines of context (F-19).

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use serde::Serialize;
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Lines shown around each change.
const CONTEXT: usize = 4;

/// Longest diff in bytes. It is kept on the tape and shown to people; a larger one helps neither.
const DIFF_BYTES_MAX: usize = 51_200;

/// How long to look for the smallest diff before a coarser one will do.
const SEARCH_TIME_MAX: Duration = Duration::from_millis(200);

/// A change of one file, for people.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(in crate::tools) struct Diff {
    /// The hunks, without a file header. Bytes that are no text are shown as U+FFFD.
    pub(in crate::tools) content: String,
    /// The number of the first changed line, in the new file.
    pub(in crate::tools) first_changed_line: usize,
}

/// The difference between two contents of a file. Only LF ends a line.
pub(in crate::tools) fn unified(old: &[u8], new: &[u8]) -> Diff {
    let (old, new) = (lines(old), lines(new));
    let ops = line_ops(&old, &new);
    let first_changed_line = ops.iter().find(|op| op.tag() != DiffTag::Equal).map_or(1, |op| op.new_range().start + 1);
    let mut content = String::new();
    for hunk in group_diff_ops(ops, CONTEXT) {
        push_hunk(&mut content, &hunk, &old, &new);
        if content.len() > DIFF_BYTES_MAX {
            content.truncate(content.floor_char_boundary(DIFF_BYTES_MAX));
            content.push_str("\n... [truncated]\n");
            break;
        }
    }
    Diff { content, first_changed_line }
}

/// The lines of some bytes, each with its ending.
pub(super) fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|&byte| byte == b'\n').collect()
}

/// The operations between two files. What is equal at both ends, in most edits nearly all, costs one pass.
fn line_ops(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    let shorter = old.len().min(new.len());
    let head = (0..shorter).take_while(|&at| old[at] == new[at]).count();
    let tail = (1..=shorter - head).take_while(|&at| old[old.len() - at] == new[new.len() - at]).count();
    let changed = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let deadline = Instant::now().checked_add(SEARCH_TIME_MAX);
    let mut ops = capture_diff_slices_deadline(Algorithm::Myers, changed.0, changed.1, deadline);
    for op in &mut ops {
        *op = shifted(*op, head);
    }
    if head > 0 {
        ops.insert(0, DiffOp::Equal { old_index: 0, new_index: 0, len: head });
    }
    if tail > 0 {
        ops.push(DiffOp::Equal { old_index: old.len() - tail, new_index: new.len() - tail, len: tail });
    }
    ops
}

fn shifted(op: DiffOp, by: usize) -> DiffOp {
    match op {
        DiffOp::Equal { old_index, new_index, len } => {
            DiffOp::Equal { old_index: old_index + by, new_index: new_index + by, len }
        }
        DiffOp::Delete { old_index, old_len, new_index } => {
            DiffOp::Delete { old_index: old_index + by, old_len, new_index: new_index + by }
        }
        DiffOp::Insert { old_index, new_index, new_len } => {
            DiffOp::Insert { old_index: old_index + by, new_index: new_index + by, new_len }
        }
        DiffOp::Replace { old_index, old_len, new_index, new_len } => {
            DiffOp::Replace { old_index: old_index + by, old_len, new_index: new_index + by, new_len }
        }
    }
}

fn push_hunk(out: &mut String, ops: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) {
    let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return };
    let olds = first.old_range().start..last.old_range().end;
    let news = first.new_range().start..last.new_range().end;
    out.push_str(&format!("@@ -{} +{} @@\n", place(&olds), place(&news)));
    for op in ops {
        let (tag, olds, news) = op.as_tag_tuple();
        if tag == DiffTag::Equal {
            push_lines(out, ' ', &old[olds]);
        } else {
            push_lines(out, '-', &old[olds]);
            push_lines(out, '+', &new[news]);
        }
        if out.len() > DIFF_BYTES_MAX {
            return;
        }
    }
}

/// A range of lines as a hunk's header gives it: from 1, or the line before where there are none.
fn place(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn push_lines(out: &mut String, sign: char, lines: &[&[u8]]) {
    for line in lines {
        out.push(sign);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
        if out.len() > DIFF_BYTES_MAX {
            return;
        }
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
