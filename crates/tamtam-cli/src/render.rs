//! Turns events into text for people. Does no I/O: the pieces depend on the event and on what [`Renderer`] kept of earlier
//! events.
//!
//! The model's text goes to stdout and everything else to stderr, so that `tamtam run … > answer.txt` holds the answer. What a note
//! quotes of a model, a tool or a person is escaped. The model's text is escaped if stdout is a terminal, and otherwise unchanged.

mod question;
mod status;
mod tasks;
mod work;

use std::collections::BTreeMap;

use tamtam::{
    EventKind, Millis, Part, Seq,
    permission::Offer,
    session::{Ahead, BranchEvent, CacheMiss},
};

use super::{escape, typed::more_answers};
pub(super) use status::Status;
use tasks::Tasks;

/// Most characters of a note about a message or an error.
const NOTE_MAX: usize = 250;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// Text for stdout, written unchanged.
    Out(String),
    /// The end of a line on stdout that is open.
    EndLine,
    /// Lines for stderr, without the last line break.
    Note(String),
    /// All that is before is on the screen now: what a person types from here on answers this question, or none.
    Asked(Option<Seq>),
}

/// What the screen can show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Screen {
    /// Whether stdout is a terminal. A terminal obeys control characters and shows notes between the lines of stdout.
    pub(super) is_terminal: bool,
    /// Whether notes may have colours.
    pub(super) is_coloured: bool,
    /// Most characters of a line that quotes a file or a program.
    pub(super) columns: usize,
}

/// What the pieces depend on beside the event.
#[derive(Debug, Default)]
pub(super) struct Renderer {
    screen: Screen,
    /// The model that was named last.
    model: String,
    /// The offers of the open questions.
    offers: BTreeMap<Seq, Vec<Offer>>,
    /// The calls that the running turn has started.
    started: Vec<(String, String)>,
    tasks: Tasks,
    /// The streamed beginning of the text part that is not complete yet.
    streamed: String,
    /// Whether the last line on stdout has no line break yet.
    is_open: bool,
    /// Whether a turn is running.
    in_turn: bool,
    /// Whether stdout gets the answer alone, and not from here.
    keeps_text: bool,
}

impl Renderer {
    /// A renderer for a session of which nothing was shown.
    pub(super) fn new(screen: Screen) -> Renderer {
        Renderer { screen, ..Renderer::default() }
    }

    /// The pieces for one event; none for an event that is not shown.
    pub(super) fn show(&mut self, kind: &EventKind, time: Millis) -> Vec<Show> {
        let mut show = Vec::new();
        if ends_stream(kind) {
            self.streamed.clear();
            self.end_line(&mut show);
        }
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
            EventKind::RequestFailed { error, fallback, .. } => {
                let then = fallback.as_ref().map(|model| format!(": continues with {}", escape::line(model)));
                let failed = escape::short(error, NOTE_MAX);
                self.note(format!("! request failed: {failed}{}", then.unwrap_or_default()), &mut show);
            }
            EventKind::TurnStarted { .. } => (self.in_turn, self.started) = (true, Vec::new()),
            EventKind::StepStarted { model, .. } if *model != self.model => {
                self.model.clone_from(model);
                self.note(format!("model {}", escape::line(model)), &mut show);
            }
            // The message that begins a turn was typed a moment ago.
            EventKind::Queued { .. } if !self.in_turn => {}
            EventKind::TurnFinished { .. } => self.in_turn = false,
            kind => {
                if let Some(line) = note(kind, time) {
                    self.note(line, &mut show);
                }
                for line in self.of_calls(kind) {
                    self.note(line, &mut show);
                }
            }
        }
        show
    }

    /// The notes on calls, questions and tasks.
    fn of_calls(&mut self, kind: &EventKind) -> Vec<String> {
        match kind {
            EventKind::CallStarted { name, input, .. } => {
                self.started.push((name.clone(), input.to_string()));
                vec![work::started(name, input)]
            }
            EventKind::CallFinished { ticket, name, error, content, title, details, .. } => {
                let mut lines = self.tasks.call_finished(*ticket, title.as_deref(), details);
                lines.push(work::finished(self.screen, name, *error, (title.as_deref(), content), details));
                lines
            }
            EventKind::CallProgress { ticket, title, metadata } => {
                if let Some(title) = title {
                    self.tasks.titled(*ticket, title);
                }
                self.tasks.progress(*ticket, metadata)
            }
            EventKind::TaskStarted { child, .. } => {
                self.tasks.begun(child);
                Vec::new()
            }
            EventKind::TaskFinished { child, down, .. } => vec![self.tasks.finished(child, down)],
            EventKind::Ask { ask, name, input, access, from, question, offers, repeats, .. } => {
                self.offers.insert(*ask, offers.clone());
                vec![match question {
                    Some(asked) => question::by_call(from, asked, access, offers),
                    None => {
                        let ran = self.started.iter().filter(|(ran, with)| ran == name && **with == **input).count();
                        question::about_call(from, name, input, access, offers, (*repeats, ran))
                    }
                }]
            }
            EventKind::AskClosed { ask, grant, why, who, .. } => {
                let by = who.as_ref().map_or_else(String::new, |who| format!(" (by {})", escape::line(who)));
                let offers = self.offers.remove(ask).unwrap_or_default();
                vec![question::closed(grant.as_ref(), *why, &offers) + &by]
            }
            _ => Vec::new(),
        }
    }

    /// Shows no text of the model from now on.
    pub(super) fn keep_text(&mut self) {
        self.keeps_text = true;
    }

    fn out(&mut self, text: &str, show: &mut Vec<Show>) {
        if self.keeps_text {
            return;
        }
        if let Some(last) = text.chars().last() {
            self.is_open = last != '\n';
            show.push(Show::Out(if self.screen.is_terminal { escape::prose(text) } else { text.to_owned() }));
        }
    }

    /// Ends the open line on stdout, if there is one.
    fn end_line(&mut self, show: &mut Vec<Show>) {
        if std::mem::take(&mut self.is_open) {
            show.push(Show::EndLine);
        }
    }

    fn note(&mut self, line: String, show: &mut Vec<Show>) {
        if self.screen.is_terminal {
            self.end_line(show);
        }
        show.push(Show::Note(line));
    }
}

/// Whether no text can follow that continues what was streamed: the answer is over, or its request broke off, and another one
/// begins from the start.
fn ends_stream(kind: &EventKind) -> bool {
    use EventKind::{RequestFailed, SessionRecovered, StepFinished, TurnFinished};
    matches!(kind, RequestFailed { .. } | SessionRecovered { .. } | StepFinished { .. } | TurnFinished { .. })
}

/// The note for an event; `None` for an event that is not shown.
fn note(kind: &EventKind, time: Millis) -> Option<String> {
    let line = match kind {
        EventKind::Steered { message, .. } => format!("» steering: {}", escape::short(&message.text(), NOTE_MAX)),
        EventKind::Queued { message, .. } => format!("» queued: {}", escape::short(&message.text(), NOTE_MAX)),
        EventKind::Withdrawn { message } => format!("» withdrawn: {}", escape::line(message.as_str())),
        EventKind::SteeringMoved { message, to, why } => {
            let id = escape::line(message.as_str());
            match (to, why) {
                (Ahead::Sent, _) => format!("» the model has {id}, and stops to read it"),
                (Ahead::Committed, _) => format!("» the model goes on with {id}"),
                (_, Some(why)) => format!("» {id} waits for the next step: {}", escape::short(why, NOTE_MAX)),
                (_, None) => format!("» {id} waits for the next step"),
            }
        }
        EventKind::Budget { ask: Some(_), breach, text, .. } => {
            format!("? {text}\n  {}", more_answers(breach.resource))
        }
        EventKind::Budget { model: Some(model), text, .. } => {
            format!("! {text}: continues with {}", escape::line(model))
        }
        EventKind::GrantRevoked { grant } => format!("! grant {grant} is revoked"),
        EventKind::Retry { attempt, until, server } => {
            let by = if *server { ", as the server asks" } else { "" };
            format!("! retry {attempt} in {:.1} s{by}", until.since(time).as_secs_f32())
        }
        EventKind::HookError { hook, callback, error } => {
            format!("! hook {} failed in {callback}: {}", escape::line(hook), escape::short(error, NOTE_MAX))
        }
        EventKind::ContextWarning { used, usable } => {
            format!(
                "! the context is {} % full: {used} of {usable} tokens",
                used.saturating_mul(100) / (*usable).max(1)
            )
        }
        EventKind::CompactionStarted { .. } => "… summarizing the earlier messages".to_owned(),
        EventKind::CompactionFinished { error: Some(error), .. } => {
            escape::short(&format!("! the summary failed: {error}"), NOTE_MAX)
        }
        EventKind::CompactionFinished { items, summary: Some(_), .. } => {
            format!("… {items} older items are summarized")
        }
        EventKind::CompactionFinished { items, .. } => format!("… {items} older items are left out, without a summary"),
        EventKind::StepFinished { cache_miss: Some(CacheMiss { tokens, why, .. }), .. } => {
            format!("… {tokens} tokens came from no cache: {why}")
        }
        EventKind::SessionRecovered { n: 0, resumed: true } => return None,
        EventKind::SessionRecovered { resumed: true, .. } => {
            "! the session was rebuilt from its tape and continues".to_owned()
        }
        EventKind::SessionRecovered { resumed: false, .. } => {
            "! the session was rebuilt from its tape and waits".to_owned()
        }
        EventKind::StorageFailed { error } => format!("! {}", escape::short(error, NOTE_MAX)),
        EventKind::Branch(event) => return branch_line(event),
        EventKind::AgentSwitched { agent, .. } => format!("… agent {}", escape::line(agent)),
        EventKind::TaskStarted { queued: true, .. } => "… a task waits until another one is over".to_owned(),
        EventKind::TaskLeft { child, .. } => format!("! task {child} goes on without this session"),
        EventKind::Paused {} => "! paused".to_owned(),
        EventKind::Resumed {} => "! resumed".to_owned(),
        _ => return None,
    };
    Some(line)
}

fn branch_line(event: &BranchEvent) -> Option<String> {
    Some(match event {
        BranchEvent::Merged { fork, messages: said, .. } => {
            format!("! fork {fork} is merged: {}", work::count(said.len(), "message"))
        }
        BranchEvent::RolledBack { to, gone, .. } if gone.is_empty() => {
            format!("! the conversation is back at entry {to}")
        }
        BranchEvent::RolledBack { to, gone, .. } => {
            format!("! back to entry {to}: {} undone", work::count(gone.len(), "message"))
        }
        BranchEvent::FilesRestored { files, refused, .. } => {
            format!("! {} restored, {} not changed", work::count(files.len(), "file"), refused.len())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
