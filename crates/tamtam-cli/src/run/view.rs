//! Shows a running session: as lines of JSON, or as text for people.
//!
//! No durable event is shown twice, and all are shown in order. A person is asked one question at a time; a program (`--json`) gets
//! each question as it comes. Where there is neither, or the program has closed stdin, the stream of events only looks on
//! ([`EventStream::look_on`]), so the session denies what must be asked for. A question that is open by then is closed as unheard, so no
//! turn waits for an answer that cannot come.
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
    Event, EventKind, EventStream, Seq, Session,
    session::{ErrorReason, EventId, Grant},
};
use tokio::time::Instant;

use crate::{
    escape,
    output::{self, Output},
    render::{Renderer, Screen, Show, Status},
    sessions::count,
    typed::Question,
};

/// The version of the lines of `--json` (`docs/FORMATS.md`).
const FORMAT_VERSION: u32 = 1;

/// Width of the lines that quote a file or a program, where no terminal says it.
const COLUMNS: usize = 200;

/// Whether notes may have colours: on a terminal that knows them, unless the user wants none.
fn has_colours() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    std::io::stderr().is_terminal() && set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb")
}

/// Whether a person can see a question and type the answer.
pub(crate) fn is_interactive() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Where a session is shown, and how. Clones share one output and one memory of what was shown.
#[derive(Clone)]
pub(super) struct View {
    json: bool,
    interactive: bool,
    session: Session,
    output: Output,
    began: Instant,
    shown: Arc<Mutex<Shown>>,
}

#[derive(Default)]
struct Shown {
    renderer: Renderer,
    status: Status,
    /// Whether somebody could answer a question.
    has_answerer: bool,
    /// The newest durable event that was shown.
    last: Option<EventId>,
    /// The open questions, oldest first, each with the lines that ask it. Only the first was shown to a person.
    asked: VecDeque<(Question, Vec<Show>)>,
    /// How many calls were denied.
    denied: u64,
}

impl Shown {
    /// Notes a question that is open or closed by an event; whether it is one that has opened. `lines` ask it.
    fn note_question(&mut self, kind: &EventKind, lines: Vec<Show>) -> bool {
        let question = match kind {
            EventKind::Budget { ask: Some(ask), breach, .. } => {
                Question { ask: *ask, more: Some(breach.resource), offers: 0, yes: "once" }
            }
            EventKind::Ask { ask, offers, question, .. } => {
                let yes = if question.is_some() { "yes" } else { "once" };
                Question { ask: *ask, more: None, offers: offers.len(), yes }
            }
            EventKind::AskClosed { ask, .. } => {
                self.asked.retain(|(asked, _)| asked.ask != *ask);
                return false;
            }
            _ => return false,
        };
        self.asked.push_back((question, lines));
        true
    }
}

impl View {
    pub(super) fn new(json: bool, session: Session, output: Output) -> View {
        let interactive = !json && is_interactive();
        let screen = Screen {
            is_terminal: std::io::stdout().is_terminal(),
            is_coloured: has_colours(),
            columns: if interactive { output::columns() } else { COLUMNS },
        };
        let (renderer, has_answerer) = (Renderer::new(screen), json || interactive);
        let shown = Arc::new(Mutex::new(Shown { renderer, has_answerer, ..Shown::default() }));
        View { json, interactive, session, output, began: Instant::now(), shown }
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
        let show = match self.json {
            true => self.as_json(event),
            false => self.pieces(event),
        };
        for piece in show {
            self.output.show(piece).await;
        }
        self.tick();
        self.reject_unheard().await;
    }

    fn as_json(&self, event: &Event) -> Vec<Show> {
        self.shown().note_question(&event.kind, Vec::new());
        match serde_json::to_string(event) {
            Ok(line) => vec![Show::Out(line + "\n")],
            Err(error) => {
                tracing::error!(%error, "an event cannot be written as JSON");
                Vec::new()
            }
        }
    }

    /// The pieces for an event. A person is asked one question at a time: the next one when the one before it is closed.
    fn pieces(&self, event: &Event) -> Vec<Show> {
        let mut shown = self.shown();
        shown.status.hear(&event.kind, self.began.elapsed());
        if let EventKind::CallFinished { error: Some(ErrorReason::Denied), .. } = &event.kind {
            shown.denied += 1;
        }
        let mut show = shown.renderer.show(&event.kind, event.time);
        let first = shown.asked.front().map(|(question, _)| question.ask);
        if shown.note_question(&event.kind, show.clone()) && first.is_some() {
            // It waits until the one before it is closed.
            show.clear();
        }
        let next = shown.asked.front().map(|(question, lines)| (question.ask, lines));
        if self.interactive && next.as_ref().map(|(ask, _)| *ask) != first {
            if let (Some((_, lines)), Some(_)) = (&next, first) {
                show.extend(lines.iter().cloned());
            }
            show.push(Show::Asked(next.map(|(ask, _)| ask)));
        }
        show
    }

    /// Whether somebody could answer a question. If not, streams of events only look on.
    pub(super) fn listen_to(&self, events: &mut EventStream) {
        if !self.shown().has_answerer {
            events.look_on();
        }
    }

    /// Nobody can answer a question from now on: those that are open are closed as unheard.
    pub(super) async fn nobody_answers(&self) {
        self.shown().has_answerer = false;
        self.reject_unheard().await;
    }

    /// Closes the open questions if nobody can answer them: a question may have come before the session knew that.
    async fn reject_unheard(&self) {
        let open: Vec<_> = {
            let mut shown = self.shown();
            if shown.has_answerer {
                return;
            }
            shown.asked.drain(..).map(|(question, _)| question).collect()
        };
        for Question { ask, .. } in open {
            // An ask that was closed meanwhile needs no answer.
            drop(self.session.answer(ask, Grant::Unheard).await);
        }
    }

    /// Shows what the session does now, if a person looks on.
    pub(super) fn tick(&self) {
        if self.interactive {
            let line = self.shown().status.line(self.began.elapsed());
            self.output.set_status(line);
        }
    }

    /// Takes the last line of the screen away: nothing is typed any more.
    pub(super) fn end_foot(&self) {
        self.output.end_foot();
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

    /// Tells a person who cannot be asked that calls were denied, and what allows more.
    pub(super) fn note_denied(&self) {
        let denied = self.shown().denied;
        if denied > 0 && !self.takes_lines() {
            let calls = count(denied, "call");
            self.note(format!(
                "{calls} denied: without a terminal nobody can approve them; --permission edits or auto allows more"
            ));
        }
    }

    /// Shows no text of the model on stdout: it gets the answer alone.
    pub(super) fn keep_text(&self) {
        self.shown().renderer.keep_text();
    }

    /// Shows an answer that is JSON, where the lines are for people.
    pub(super) fn answer(&self, answer: &Value) {
        if !self.json {
            self.line(answer);
        }
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
