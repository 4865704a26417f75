//! Makes the result of a command that ran: the text for the model, and the details for the host.
//!
//! The text is the end of the output. It also says how the command ended (unless it succeeded), what of the output is missing and
//! where the whole is, and which processes could not be killed. Only an abort is an error; a non-zero exit, a signal and a timeout
//! are results. The fields of the details are read by hosts and stored on tapes, so a change may add fields, and must not rename,
//! remove or retype one. The code is pure.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use serde_json::{Value, json};

use crate::{
    process::{Rolling, Stream, Streams, Swept},
    tool::ToolResult,
    tools::bash::{SandboxMode, arguments::Arguments, capture::Captured},
    words::message::ErrorReason,
};

/// How many characters of a command its title shows.
const TITLE_CHARS_MAX: usize = 80;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Exited { code: i32 },
    Signalled { signal: i32 },
    TimedOut { seconds: u64 },
    Aborted,
}

impl Ending {
    pub(super) fn of(status: ExitStatus) -> Ending {
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Exited { code },
            (None, signal) => Ending::Signalled { signal: signal.unwrap_or(0) },
        }
    }

    /// The line after the output; nothing for success.
    fn line(self) -> Option<String> {
        match self {
            Ending::Exited { code: 0 } => None,
            Ending::Exited { code } => Some(match signal_name(code - 128) {
                Some(signal) => {
                    format!("Command exited with code {code} (usually: a program in it was ended by {signal})")
                }
                None => format!("Command exited with code {code}"),
            }),
            Ending::Signalled { signal } => Some(match signal_name(signal) {
                Some(name) => format!("Command was ended by signal {name} ({signal})"),
                None => format!("Command was ended by signal {signal}"),
            }),
            Ending::TimedOut { seconds } => Some(format!("Command timed out after {seconds} seconds")),
            Ending::Aborted => Some("Command aborted".to_owned()),
        }
    }
}

/// One command that ran.
pub(super) struct Run<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) ending: Ending,
    pub(super) swept: &'a Swept,
    pub(super) took: Duration,
    pub(super) streams: Streams,
    /// What the sandbox held of the command; null where the sandbox is off.
    pub(super) sandbox: Value,
}

pub(super) fn result(run: &Run<'_>, captured: &Captured) -> ToolResult {
    let content = text(run, captured);
    let result = match run.ending {
        Ending::Aborted => ToolResult::failed(ErrorReason::Aborted, content),
        _ => ToolResult::ok(content),
    };
    let title: String = run.arguments.command.chars().take(TITLE_CHARS_MAX).collect();
    result.with_details(details(run, captured)).with_title(title)
}

fn text(run: &Run<'_>, captured: &Captured) -> String {
    let mut paragraphs = Vec::new();
    let shown = captured.truncation.content.trim_end_matches('\n');
    let shown = match notice(captured) {
        Some(notice) => format!("{notice}\n{shown}"),
        None => shown.to_owned(),
    };
    if !shown.is_empty() {
        paragraphs.push(shown);
    }
    paragraphs.extend(run.ending.line());
    if !run.swept.left.is_empty() {
        paragraphs.push(format!("These processes could not be killed: {:?}", run.swept.left));
    }
    if paragraphs.is_empty() {
        paragraphs.push("(no output)".to_owned());
    }
    paragraphs.extend(free(&run.sandbox));
    paragraphs.join("\n\n")
}

/// The line of a command that should have run confined and did not.
fn free(sandbox: &Value) -> Option<String> {
    let is_free = sandbox["mode"] == SandboxMode::Preferred.name() && sandbox["held"] == false;
    let why = sandbox["why_not"].as_str().unwrap_or("not known");
    is_free.then(|| format!("[This command ran without a sandbox: {why}]"))
}

/// The notice about an output that is not shown whole: what is missing, how much there was, and where the whole is. It precedes
/// the output, where the gap is. Progress and escape sequences that are left out of a short output need no notice.
fn notice(captured: &Captured) -> Option<String> {
    let cut = &captured.truncation;
    let whole = match &captured.spill {
        Some(Ok(file)) => file.notice(),
        Some(Err(why)) => format!("The full output could not be kept: {why}"),
        None if !cut.truncated => return None,
        None => "The full output was not kept".to_owned(),
    };
    if !cut.truncated {
        let left_out = captured.left_out;
        return (left_out > 0)
            .then(|| format!("[{left_out} bytes of overwritten lines and escape sequences are left out. {whole}]"));
    }
    let omitted = cut.total_lines.saturating_sub(cut.output_lines);
    // Of a tail, the line that is left in part is the first one.
    let partial = if cut.last_line_partial { ", the first of them in part" } else { "" };
    Some(format!(
        "[... {omitted} lines omitted; the last {} of {} lines are shown{partial} (original {} bytes). {whole}]",
        cut.output_lines, cut.total_lines, cut.total_bytes
    ))
}

fn details(run: &Run<'_>, captured: &Captured) -> Value {
    let cut = &captured.truncation;
    let (exit_code, signal) = match run.ending {
        Ending::Exited { code } => (Some(code), None),
        Ending::Signalled { signal } => (None, Some(signal)),
        Ending::TimedOut { .. } | Ending::Aborted => (None, None),
    };
    let spill = captured.spill.as_ref();
    let file = spill.and_then(|spill| spill.as_ref().ok());
    // Streams that share a pipe cannot be separated.
    let stream = |stream| (run.streams == Streams::Apart).then(|| captured.output.stream(stream));
    let text = |of| stream(of).map(Rolling::text);
    let bytes = |of| stream(of).map(Rolling::total_bytes);
    let mut details = json!({
        "command": run.arguments.command,
        "exit_code": exit_code,
        "signal": signal.map(|number| signal_name(number).unwrap_or_else(|| number.to_string())),
        "timed_out": matches!(run.ending, Ending::TimedOut { .. }),
        "aborted": run.ending == Ending::Aborted,
        "duration_ms": u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX),
        "truncated": cut.truncated,
        "truncation": {
            "truncated_by": cut.truncated_by,
            "total_lines": cut.total_lines,
            "total_bytes": cut.total_bytes,
            "output_lines": cut.output_lines,
            "output_bytes": cut.output_bytes,
            "last_line_partial": cut.last_line_partial,
            "max_lines": cut.max_lines,
            "max_bytes": cut.max_bytes,
        },
        "temp_file": file.map(|file| file.path.display().to_string()),
        "temp_file_error": spill.and_then(|spill| spill.as_ref().err()),
        "temp_file_dropped_bytes": file.map(|file| file.dropped),
        "stdout": text(Stream::Stdout),
        "stdout_bytes": bytes(Stream::Stdout),
        "stderr": text(Stream::Stderr),
        "stderr_bytes": bytes(Stream::Stderr),
        "killed": run.swept.killed,
        "left": run.swept.left,
    });
    if !run.sandbox.is_null() {
        details["sandbox"] = run.sandbox.clone();
    }
    details
}

fn signal_name(number: i32) -> Option<String> {
    // The standard library shows such a status as `signal: 9 (SIGKILL)`.
    let shown = (1..=64).contains(&number).then(|| ExitStatus::from_raw(number).to_string())?;
    shown.split(['(', ')']).find(|word| word.starts_with("SIG")).map(str::to_owned)
}
