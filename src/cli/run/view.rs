//! Shows a running session: as lines of JSON, or as text for people.
//!
//! No durable event is shown twice, and all are shown in order. A person is asked one question at a time; a program (`--json`) gets
//! each question as it comes. Where there is neither, every question that is shown is rejected, so a turn does not wait for an
//! answer that cannot come.
//!
//! A change must keep this: only [`View::event`] and [`View::room_for_answers`] wait for the reader. The lines that answer or
//! note something do not: the code that stops a session writes them, and must not wait for a reader that takes nothing.

use std::{
    collections::VecDeque,
    io::IsTerminal as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tamtam::{
    Event, EventKind, Seq, Session,
    session::{EventId, Grant},
};

use crate::cli::{
    escape,
    output::Output,
    render::{Renderer, Show},
    typed::Question,
};

/// The version of the lines of `--json` (`docs/FORMATS.md`).
const FORMAT_VERSION: u32 = 1;

/// What the model is told when its question is rejected because no person can be asked.
const NOBODY: &str = "No person can be asked. Use only what is allowed, and say what else you need.";

/// Whether a person can see a question and type the answer.
pub(in crate::cli) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Where a session is shown, and how. Clones share one output and one memory of what was shown.
#[derive(Clone)]
pub(super) struct View {
    json: bool,
    interactive: bool,
    session: Session,
    output: Output,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Default)]
struct Shown {
    renderer: Renderer,
    /// The newest durable event that was shown.
    last: Option<EventId>,
    /// The open questions, oldest first, each with the lines that ask it. Only the first was shown.
    asked: VecDeque<(Question, Vec<Show>)>,
}

impl View {
    pub(super) fn new(json: bool, session: Session, output: Output) -> View {
        let renderer = Renderer::new(std::io::stdout().is_terminal());
        let shown = Arc::new(Mutex::new(Shown { renderer, ..Shown::default() }));
        View { json, interactive: !json && is_interactive(), session, output, shown }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether lines of stdin are commands or answers for the session.
    pub(super) fn takes_lines(&self) -> bool {
        self.json || self.interactive
    }

    /// Shows the id of the session, as the first line.
    pub(super) fn begin(&self) {
        let id = self.session.id();
        if self.json {
            self.line(&json!({"session": id, "format": FORMAT_VERSION}));
        } else {
            self.note(format!("session {id}"));
        }
    }

    /// Shows an event, and waits for room. A durable event that was shown before is skipped.
    pub(super) async fn event(&self, event: &Event) {
        {
            let mut shown = self.shown();
            if event.id.is_durable() {
                if shown.last.is_some_and(|last| event.id <= last) {
                    return;
                }
                shown.last = Some(event.id);
            }
        }
        if self.json {
            match serde_json::to_string(event) {
                Ok(line) => self.output.show(Show::Out(line + "\n")).await,
                Err(error) => tracing::error!(%error, "an event cannot be written as JSON"),
            }
            return;
        }
        let show = self.pieces(event);
        for piece in show {
            self.output.show(piece).await;
        }
        if let (EventKind::Budget { ask: Some(ask), .. }, false) = (&event.kind, self.interactive) {
            // No person can raise the limit. An ask that was closed meanwhile needs no answer.
            drop(self.session.answer(*ask, Grant::Reject(None)).await);
        }
        if let (EventKind::Ask { ask, .. }, false) = (&event.kind, self.interactive) {
            // An ask that was closed meanwhile needs no answer.
            drop(self.session.answer(*ask, Grant::Reject(Some(NOBODY.to_owned()))).await);
        }
    }

    /// The pieces for an event. One question is asked at a time: the next one when the one before it is closed.
    fn pieces(&self, event: &Event) -> Vec<Show> {
        let mut shown = self.shown();
        let mut show = shown.renderer.show(&event.kind, event.time);
        match &event.kind {
            EventKind::Ask { ask, .. } | EventKind::Budget { ask: Some(ask), .. } if self.interactive => {
                let lines = std::mem::take(&mut show);
                if shown.asked.is_empty() {
                    show.clone_from(&lines);
                }
                let (more, offers) = match &event.kind {
                    EventKind::Budget { breach, .. } => (Some(breach.resource), 0),
                    EventKind::Ask { offers, .. } => (None, offers.len()),
                    _ => (None, 0),
                };
                shown.asked.push_back((Question { ask: *ask, more, offers }, lines));
            }
            EventKind::AskClosed { ask, .. } => {
                let was_first = shown.asked.front().is_some_and(|(first, _)| first.ask == *ask);
                shown.asked.retain(|(asked, _)| asked.ask != *ask);
                if let (true, Some((_, lines))) = (was_first, shown.asked.front()) {
                    show.extend(lines.clone());
                }
            }
            _ => {}
        }
        show
    }

    /// The question that was shown, which the next typed line answers.
    pub(super) fn asked(&self) -> Option<Question> {
        self.shown().asked.front().map(|(question, _)| *question)
    }

    /// The entry to read events after, so that none is left out.
    pub(super) fn last_seen(&self) -> Seq {
        // The entry of the last event may have more events. The entry is read again, and `event` skips those that were shown.
        Seq(self.shown().last.map_or(0, |last| last.seq.0.saturating_sub(1)))
    }

    /// Shows a line of JSON that is no event. Never waits.
    pub(super) fn line(&self, line: &Value) {
        self.output.put(Show::Out(format!("{line}\n")));
    }

    /// Warns of something that is not done as asked. Never waits.
    pub(super) fn warn(&self, kind: &str, message: &str) {
        self.note(format!("warning: {message}"));
        if self.json {
            self.line(&json!({"warning": {"kind": kind, "message": message}}));
        }
    }

    /// Shows what a command says. Never waits.
    pub(super) fn said(&self, words: &str) {
        if self.is_json() {
            return self.line(&json!({"said": words}));
        }
        words.lines().for_each(|line| self.note(escape::line(line)));
    }

    /// Shows a line for people. Never waits.
    pub(super) fn note(&self, line: String) {
        self.output.put(Show::Note(line));
    }

    /// Shows the result, as the last line of JSON.
    pub(super) fn result(&self, result: &Value) {
        if self.json {
            self.line(&json!({"result": result}));
        }
    }

    /// Sets or clears the request to stop: see [`Output::set_stopping`].
    pub(super) fn set_stopping(&self, is_stopping: bool) {
        self.output.set_stopping(is_stopping);
    }

    /// Waits until another line may be carried out.
    pub(super) async fn room_for_answers(&self) {
        self.output.room_for_answers().await;
    }

    /// Whether the lines are JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }
}
