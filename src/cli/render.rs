//! Turns events into text for people. Does no I/O: the pieces depend on the event and on what [`Renderer`] kept of earlier
//! events.
//!
//! The model's text goes to stdout and everything else to stderr, so that `tamtam run … > answer.txt` holds the answer. What a note
//! quotes of a model, a tool or a person is escaped. The model's text is escaped if stdout is a terminal, and otherwise unchanged.
//!
//! A change must keep this: a question of permission shows the whole call, uncut and escaped, because a person cannot judge what
//! is not shown.

use std::fmt::Write as _;

use tamtam::{
    EventKind, Millis, Part,
    permission::Offer,
    session::{AskClosedWhy, AskFrom, BranchEvent, ErrorReason, Grant},
    tool::{Access, Question},
};

use super::{
    escape,
    typed::{call_answers, more_answers},
};

/// Most characters of a call's arguments in the note about its start.
const ARGUMENTS_MAX: usize = 120;

/// Most characters of a note about a result.
const RESULT_MAX: usize = 250;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Text for stdout, written unchanged.
    Out(String),
    /// A line for stderr, without its line break.
    Note(String),
}

/// What the pieces depend on beside the event.
#[derive(Debug, Default)]
pub(super) struct Renderer {
    /// Whether stdout is a terminal. A terminal obeys control characters and shows notes between the lines of stdout.
    terminal: bool,
    /// The streamed beginning of the text part that is not complete yet.
    streamed: String,
    /// Whether the last line on stdout has no line break yet.
    is_open: bool,
    /// Whether a turn is running.
    in_turn: bool,
}

impl Renderer {
    /// A renderer for a session of which nothing was shown.
    pub(super) fn new(terminal: bool) -> Renderer {
        Renderer { terminal, ..Renderer::default() }
    }

    /// The pieces for one event; none for an event that is not shown.
    pub(super) fn show(&mut self, kind: &EventKind, time: Millis) -> Vec<Show> {
        let mut show = Vec::new();
        match kind {
            EventKind::TextDelta { text } => {
                self.streamed.push_str(text);
                self.out(text, &mut show);
            }
            EventKind::PartUpdated { part: Part::Text(part) } => {
                let streamed = std::mem::take(&mut self.streamed);
                match part.text.strip_prefix(&streamed) {
                    Some(rest) => self.out(rest, &mut show),
                    None => {
                        self.end_line(&mut show);
                        self.out(&part.text, &mut show);
                    }
                }
                self.end_line(&mut show);
            }
            EventKind::RequestFailed { error, .. } => {
                self.streamed.clear();
                self.end_line(&mut show);
                self.note(format!("! request failed: {}", escape::short(error, RESULT_MAX)), &mut show);
            }
            EventKind::TurnStarted { .. } => self.in_turn = true,
            // The message that begins a turn was typed a moment ago.
            EventKind::Queued { .. } if !self.in_turn => {}
            EventKind::TurnFinished { .. } => {
                self.in_turn = false;
                self.streamed.clear();
                self.end_line(&mut show);
            }
            kind => {
                if let Some(line) = note(kind, time) {
                    self.note(line, &mut show);
                }
            }
        }
        show
    }

    fn out(&mut self, text: &str, show: &mut Vec<Show>) {
        if let Some(last) = text.chars().last() {
            self.is_open = last != '\n';
            show.push(Show::Out(if self.terminal { escape::prose(text) } else { text.to_owned() }));
        }
    }

    /// Ends the open line on stdout, if there is one.
    fn end_line(&mut self, show: &mut Vec<Show>) {
        if std::mem::take(&mut self.is_open) {
            show.push(Show::Out("\n".to_owned()));
        }
    }

    fn note(&mut self, line: String, show: &mut Vec<Show>) {
        if self.terminal {
            self.end_line(show);
        }
        show.push(Show::Note(line));
    }
}

/// The note for an event; `None` for an event that is not shown.
fn note(kind: &EventKind, time: Millis) -> Option<String> {
    let line = match kind {
        EventKind::Steered { message, .. } => format!("» steering: {}", escape::short(&message.text(), RESULT_MAX)),
        EventKind::Queued { message, .. } => format!("» queued: {}", escape::short(&message.text(), RESULT_MAX)),
        EventKind::Withdrawn { message } => format!("» withdrawn: {}", escape::line(message.as_str())),
        EventKind::CallStarted { name, input, .. } => call(name, input),
        EventKind::CallFinished { name, error, content, title, details, .. } => {
            let said = title.as_deref().filter(|_| error.is_none()).unwrap_or(content);
            let line = match error {
                None => match ended_badly(details) {
                    None => format!("✓ {}: {said}", escape::line(name)),
                    Some(how) => format!("✗ {} {how}: {said}", escape::line(name)),
                },
                Some(reason) => format!("✗ {} {}: {said}", escape::line(name), reason_word(*reason)),
            };
            escape::short(&line, RESULT_MAX)
        }
        EventKind::Ask { name, access, from, question: Some(asked), offers, .. } => {
            asked_by_call(from, name, asked, access, offers)
        }
        EventKind::Ask { name, input, access, from, offers, .. } => question(from, name, input, access, offers),
        EventKind::Budget { ask: Some(_), breach, text, .. } => {
            format!("? {text}\n  {}", more_answers(breach.resource))
        }
        EventKind::Budget { model: Some(model), text, .. } => {
            format!("! {text}: continues with {}", escape::line(model))
        }
        EventKind::AskClosed { grant, why, who, .. } => {
            let by = who.as_ref().map_or_else(String::new, |who| format!(" by {}", escape::line(who)));
            closed(grant.as_ref(), *why).to_owned() + &by
        }
        EventKind::GrantRevoked { grant } => format!("! grant {grant} is revoked"),
        EventKind::Retry { attempt, until, server } => {
            let by = if *server { ", as the server asks" } else { "" };
            format!("! retry {attempt} in {:.1} s{by}", until.since(time).as_secs_f32())
        }
        EventKind::HookError { hook, callback, error } => {
            format!("! hook {} failed in {callback}: {}", escape::line(hook), escape::short(error, RESULT_MAX))
        }
        EventKind::ContextWarning { used, usable } => {
            format!(
                "! the context is {} % full: {used} of {usable} tokens",
                used.saturating_mul(100) / (*usable).max(1)
            )
        }
        EventKind::CompactionStarted { .. } => "… summarizing the earlier messages".to_owned(),
        EventKind::CompactionFinished { error: Some(error), .. } => {
            escape::short(&format!("! the summary failed: {error}"), RESULT_MAX)
        }
        EventKind::CompactionFinished { items, summary: Some(_), .. } => {
            format!("… {items} older items are summarized")
        }
        EventKind::CompactionFinished { items, .. } => format!("… {items} older items are left out, without a summary"),
        EventKind::SessionRecovered { n: 0, .. } => return None,
        EventKind::SessionRecovered { resumed: true, .. } => {
            "! the session was rebuilt from its tape and continues".to_owned()
        }
        EventKind::SessionRecovered { resumed: false, .. } => {
            "! the session was rebuilt from its tape and waits".to_owned()
        }
        EventKind::StorageFailed { error } => format!("! {}", escape::short(error, RESULT_MAX)),
        EventKind::Branch(event) => return branch_line(event),
        EventKind::AgentSwitched { agent, .. } => format!("… agent {}", escape::line(agent)),
        EventKind::TaskStarted { child, queued: true, .. } => format!("… task {child} waits for room"),
        EventKind::TaskStarted { child, .. } | EventKind::TaskBegun { child, .. } => format!("… task {child} works"),
        EventKind::TaskFinished { child, down, .. } => {
            format!("… task {child} is over: {}", escape::short(&down.reason.to_string(), RESULT_MAX))
        }
        EventKind::TaskLeft { child, .. } => format!("! task {child} works on without this session"),
        EventKind::Paused {} => "! paused".to_owned(),
        EventKind::Resumed {} => "! resumed".to_owned(),
        _ => return None,
    };
    Some(line)
}

fn branch_line(event: &BranchEvent) -> Option<String> {
    Some(match event {
        BranchEvent::Merged { fork, messages: said, .. } => {
            format!("! fork {fork} is merged: {}", messages(said.len()))
        }
        BranchEvent::RolledBack { to, gone, .. } if gone.is_empty() => {
            format!("! the conversation is back at entry {to}")
        }
        BranchEvent::RolledBack { to, gone, .. } => format!("! back to entry {to}: {} undone", messages(gone.len())),
        BranchEvent::FilesRestored { files, refused, .. } => {
            format!("! {} files restored, {} not changed", files.len(), refused.len())
        }
        _ => return None,
    })
}

/// How a command ended that ran and did not succeed, in words. Such a call has a result and no error.
fn ended_badly(details: &serde_json::Value) -> Option<String> {
    if details["timed_out"] == true {
        return Some("timed out".to_owned());
    }
    match (details["exit_code"].as_i64(), details["signal"].as_str()) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(format!("ended by {}", escape::line(signal))),
    }
}

/// The count of messages, in words.
fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

fn call(name: &str, input: &str) -> String {
    // Not a question: `question` asks, and shows the whole call.
    format!("→ {} {}", escape::line(name), escape::short(input, ARGUMENTS_MAX))
}

/// The question about a call; of a child's call, with the agents that it came through: `explore / plan / bash`. It shows the
/// whole call, because a person cannot judge what is not shown, of a shell command the parts that need the answer, and what each
/// answer for more than once would allow.
fn question(from: &[AskFrom], name: &str, input: &str, access: &[Access], offers: &[Offer]) -> String {
    let way: String = from.iter().map(|from| escape::line(&from.agent) + " / ").collect();
    let mut lines = format!("? run {way}{}?\n", escape::line(name));
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(input) {
        Ok(fields) => {
            for (field, value) in fields {
                let value = value.as_str().map_or_else(|| escape::line(&value.to_string()), escape::text);
                // Writing to a String cannot fail.
                let _ = writeln!(lines, "    {}: {}", escape::line(&field), value.replace('\n', "\n      "));
            }
        }
        Err(_) => {
            let _ = writeln!(lines, "    {}", escape::text(input));
        }
    }
    wants(&mut lines, access, offers);
    lines
}

/// The question of a call that runs.
fn asked_by_call(from: &[AskFrom], name: &str, asked: &Question, access: &[Access], offers: &[Offer]) -> String {
    let way: String = from.iter().map(|from| escape::line(&from.agent) + " / ").collect();
    let mut lines = format!("? {way}{} asks: {}\n", escape::line(name), escape::line(&asked.title));
    for line in escape::text(&asked.details).lines() {
        let _ = writeln!(lines, "  | {line}");
    }
    wants(&mut lines, access, offers);
    lines
}

/// What is asked about, what each answer for more than once would allow, and how to answer.
fn wants(lines: &mut String, access: &[Access], offers: &[Offer]) {
    for access in access {
        // Writing to a String cannot fail.
        let _ = writeln!(lines, "  wants: {}", escape::line(&access.to_string()));
    }
    for Offer { offer, allows, .. } in offers {
        let _ = writeln!(lines, "  a{offer}: {}", escape::line(allows));
    }
    let _ = write!(lines, "  {}", call_answers(offers.len()));
}

fn closed(grant: Option<&Grant>, why: Option<AskClosedWhy>) -> &'static str {
    match (grant, why) {
        (Some(Grant::Once), _) => "? allowed once",
        (Some(Grant::Always(_) | Grant::Offered { .. }), _) => "? always allowed",
        (Some(Grant::Raise(_)), _) => "? raised",
        (Some(Grant::Reject(_)), _) => "? rejected",
        (None, Some(AskClosedWhy::Expired)) => "? nobody answered in time: denied",
        (None, Some(AskClosedWhy::OverBelow)) => "? the question is over: answered elsewhere, denied or withdrawn",
        (None, _) => "? the question is withdrawn",
    }
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

#[cfg(test)]
mod tests;
