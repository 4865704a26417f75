//! The events of the demo in plain words. Pure: an event and the lines before it give the next lines.

use tamtam::{EventKind, Outcome, Part, session::ErrorReason, supervisor::CrashReport};

use crate::cli::escape;

/// Characters of a line.
const LINE_MAX: usize = 160;

/// Tells what happens.
#[derive(Default)]
pub(super) struct Narrator {
    turns: u32,
    running: Vec<String>,
    /// The texts of messages that wait for a turn.
    queued: std::collections::VecDeque<String>,
    crashes_told: usize,
}

impl Narrator {
    /// The lines that an event is worth. A recovery is told with the crash before it, where there was one.
    pub(super) fn tell(&mut self, kind: &EventKind, crashes: &[CrashReport]) -> Vec<String> {
        let line = match kind {
            EventKind::Queued { message, .. } => {
                self.queued.push_back(message.text());
                if self.running.is_empty() {
                    return vec![];
                }
                format!("A message is queued behind this turn: {}", message.text())
            }
            EventKind::TurnStarted { .. } => {
                self.turns += 1;
                let text = self.queued.pop_front().unwrap_or_default();
                return vec![String::new(), escape::short(&format!("Turn {}: {text}", self.turns), LINE_MAX)];
            }
            EventKind::PartUpdated { part: Part::Text(part) } => format!("The model says: {}", part.text),
            EventKind::CallStarted { name, input, .. } => {
                self.running.push(name.clone());
                format!("{name} runs: {input}")
            }
            EventKind::CallFinished { name, error, content, title, .. } => {
                if let (Some(at), true) = (self.running.iter().position(|running| running == name), ran(*error)) {
                    self.running.remove(at);
                }
                match error {
                    // Of a command its output says more than its name, of the others their name.
                    None if name == "bash" => format!("{name} is done: {content}"),
                    None => format!("{name} is done: {}", title.as_deref().unwrap_or(content)),
                    Some(ErrorReason::Skipped) => format!("{name} is skipped: {content}"),
                    Some(_) => format!("{name} failed: {content}"),
                }
            }
            EventKind::Steered { message, .. } => {
                format!("While {} runs, a message steers: {}", self.running.join(", "), message.text())
            }
            EventKind::Delivered { messages } => format!("The model is given {} new message(s).", messages.len()),
            EventKind::SessionRecovered { resumed, .. } => {
                let how = match crashes.get(self.crashes_told) {
                    Some(crash) => format!("crashed ({})", crash.reason),
                    None => "was torn down".to_owned(),
                };
                self.crashes_told = crashes.len();
                // What ran went down with it.
                self.running.clear();
                let then = if *resumed { "goes on" } else { "waits" };
                format!("The session's actor {how} in the middle of the turn. It was rebuilt from its tape and {then}.")
            }
            EventKind::TurnFinished { outcome: Outcome::Done, .. } => format!("Turn {} is done.", self.turns),
            EventKind::TurnFinished { outcome, .. } => format!("Turn {} ended: {outcome:?}", self.turns),
            EventKind::RequestFailed { error, .. } => format!("The request failed: {error}"),
            _ => return vec![],
        };
        vec![format!("  {}", escape::short(&line, LINE_MAX))]
    }
}

/// Whether a call with that result had been running.
fn ran(error: Option<ErrorReason>) -> bool {
    !matches!(error, Some(ErrorReason::Skipped | ErrorReason::Denied | ErrorReason::Blocked))
}
