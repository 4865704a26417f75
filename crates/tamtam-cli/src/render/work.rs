//! What a call does and what came of it, as lines for people: its arguments in short, the end of a failed command's output, the diff
//! of an edit. Pure functions; every text is escaped and bounded.

use std::collections::VecDeque;

use serde_json::{Map, Value};
use tamtam::session::ErrorReason;

use super::Screen;
use crate::escape;

/// Most characters of a call's arguments in the note about its start.
const ARGUMENTS_MAX: usize = 120;

/// Most characters of a note about a result.
const RESULT_MAX: usize = 250;

/// Lines of a failed command's output that are shown: its end.
const TAIL_LINES_MAX: usize = 10;

/// Lines of a diff that are shown: its beginning.
const DIFF_LINES_MAX: usize = 40;

/// The line about the start of a call. It is not a question, so it may be short.
pub(super) fn started(name: &str, input: &str) -> String {
    let fields = serde_json::from_str::<Map<String, Value>>(input).unwrap_or_default();
    let text = |names: &[&str]| names.iter().find_map(|name| fields.get(*name)?.as_str());
    let path = text(&["path", "file_path", "filePath", "file"]);
    let lines = |text: &str| text.lines().count();
    let what = match (name, path) {
        ("bash", _) => text(&["command"]).map(str::to_owned),
        ("task", _) => {
            text(&["subagent_type"]).zip(text(&["description"])).map(|(agent, what)| format!("{agent}: {what}"))
        }
        ("write" | "write_file", Some(path)) => text(&["content"])
            .map(|content| format!("{path} ({}, {})", size(content.len()), count(lines(content), "line"))),
        ("edit" | "edit_file", Some(path)) => {
            let old = text(&["old_string", "oldText", "old_text", "oldString"]);
            let new = text(&["new_string", "newText", "new_text", "newString"]);
            let change = |(old, new)| format!("{path} (-{} +{})", lines(old), count(lines(new), "line"));
            old.zip(new).map(change).or_else(|| Some(path.to_owned()))
        }
        _ => None,
    };
    format!("→ {} {}", escape::line(name), escape::short(what.as_deref().unwrap_or(input), ARGUMENTS_MAX))
}

/// A size in words.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => count(bytes, "byte"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// A count in words.
pub(super) fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The lines about the result of a call.
pub(super) fn finished(
    screen: Screen,
    name: &str,
    error: Option<ErrorReason>,
    (title, content): (Option<&str>, &str),
    details: &Value,
) -> String {
    let said = title.filter(|_| error.is_none()).unwrap_or(content);
    let badly = ended_badly(details).filter(|_| error.is_none());
    let line = match (error, &badly) {
        (None, None) => format!("✓ {}: {said}", escape::line(name)),
        (None, Some(how)) => format!("✗ {} {how}: {said}", escape::line(name)),
        (Some(reason), _) => format!("✗ {} {}: {said}", escape::line(name), reason_word(reason)),
    };
    let mut lines = escape::short(&line, RESULT_MAX);
    if badly.is_some() {
        tail(screen, content, &mut lines);
    }
    if let (None, Some(diff)) = (error, details["diff"]["content"].as_str()) {
        shown_diff(screen, diff, &mut lines);
    }
    lines
}

/// How a command ended that ran and did not succeed, in words. Such a call has a result and no error.
fn ended_badly(details: &Value) -> Option<String> {
    if details["timed_out"] == true {
        return Some("timed out".to_owned());
    }
    match (details["exit_code"].as_i64(), details["signal"].as_str()) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(format!("ended by {}", escape::line(signal))),
    }
}

/// Adds the last lines of a command's output, as a terminal would show them: of a line that was written over, its last state.
fn tail(screen: Screen, content: &str, to: &mut String) {
    // The last paragraph says how the command ended, which the line before says too.
    let output = content.trim_end();
    let output = match output.rsplit_once('\n') {
        Some((output, last)) if last.starts_with("Command ") => output.trim_end(),
        None if output.starts_with("Command ") => "",
        _ => output,
    };
    let mut newest = VecDeque::new();
    let mut above = 0;
    for line in output.lines() {
        newest.push_back(line);
        if newest.len() > TAIL_LINES_MAX {
            newest.pop_front();
            above += 1;
        }
    }
    if above > 0 {
        to.push_str(&format!("\n  | … {} above", count(above, "line")));
    }
    for line in newest {
        let line = line.trim_end_matches('\r');
        let line = line.rsplit_once('\r').map_or(line, |(_, last)| last);
        to.push_str(&format!("\n  | {}", cut(screen, line, 4)));
    }
}

/// Adds a unified diff.
fn shown_diff(screen: Screen, diff: &str, to: &mut String) {
    for line in diff.lines().take(DIFF_LINES_MAX) {
        let colour = match line.as_bytes().first() {
            Some(b'+') => "\x1b[32m",
            Some(b'-') => "\x1b[31m",
            Some(b'@') => "\x1b[36m",
            _ => "",
        };
        let line = cut(screen, line, 2);
        match colour {
            "" => to.push_str(&format!("\n  {line}")),
            _ if !screen.is_coloured => to.push_str(&format!("\n  {line}")),
            colour => to.push_str(&format!("\n  {colour}{line}\x1b[0m")),
        }
    }
    let left_out = diff.lines().count().saturating_sub(DIFF_LINES_MAX);
    if left_out > 0 {
        to.push_str(&format!("\n  … {} more", count(left_out, "line")));
    }
}

/// A line of a file or a program, escaped, with blanks for tabs, and no wider than the screen behind an indent.
fn cut(screen: Screen, line: &str, indent: usize) -> String {
    let line: String = line.chars().take(screen.columns).collect();
    let shown = escape::prose_line(&line.replace('\t', "    "));
    let room = screen.columns.saturating_sub(indent).max(8);
    if shown.chars().count() <= room {
        return shown;
    }
    shown.chars().take(room - 1).chain(['…']).collect()
}

fn reason_word(reason: ErrorReason) -> &'static str {
    match reason {
        ErrorReason::Failed => "failed",
        ErrorReason::Blocked => "blocked",
        ErrorReason::Denied => "denied",
        ErrorReason::Skipped => "skipped",
        ErrorReason::Aborted => "stopped",
        ErrorReason::Timeout => "took too long",
        ErrorReason::Unknown => "unknown",
        _ => "failed",
    }
}
