//! Turns the events of the demo into lines of text.
//!
//! Does no I/O: the lines depend on the event, the crash reports, and what [`Narrator`] kept of earlier events. Every line must
//! pass through [`escape::short`], because it may quote the model or a file.

use tamtam::{EventKind, Outcome, Part, session::ErrorReason, supervisor::CrashReport};

use crate::{escape, sessions::count};

/// The longest line, in characters.
const LINE_MAX: usize = 160;

/// What the lines depend on beside the event.
#[derive(Default)]
pub(super) struct Narrator {
    /// How many turns have begun.
    turns: u32,
    /// The names of the running tools.
    running: Vec<String>,
    /// The texts of messages that wait for a turn.
    queued: std::collections::VecDeque<String>,
    /// How many crash reports earlier lines have covered.
    crashes_told: usize,
}

impl Narrator {
    /// The lines for one event; none for an event that the demo does not show. A recovery names the crash that caused it, if there
    /// was one.
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
                    // For bash show the output; for other tools show the title.
                    None if name == "bash" => format!("{name} is done: {content}"),
                    None => format!("{name} is done: {}", title.as_deref().unwrap_or(content)),
                    Some(ErrorReason::Skipped) => format!("{name} is skipped: {content}"),
                    Some(_) => format!("{name} failed: {content}"),
                }
            }
            EventKind::Steered { message, .. } => {
                format!("While {} runs, a message steers: {}", self.running.join(", "), message.text())
            }
            EventKind::Delivered { messages } => {
                format!("The model is given {}.", count(messages.len() as u64, "new message"))
            }
            EventKind::SessionRecovered { resumed, .. } => {
                let how = match crashes.get(self.crashes_told) {
                    Some(crash) => format!("crashed ({})", crash.reason),
                    None => "was killed".to_owned(),
                };
                self.crashes_told = crashes.len();
                // The running calls ended with the actor.
                self.running.clear();
                let then = if *resumed { "continues" } else { "waits" };
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

/// Whether a call with this result had been running.
fn ran(error: Option<ErrorReason>) -> bool {
    !matches!(error, Some(ErrorReason::Skipped | ErrorReason::Denied | ErrorReason::Blocked))
}
