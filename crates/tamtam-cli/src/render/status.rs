//! What the session does now, in one line: the sign of life while nothing else comes. A pure function of the events and of the time
//! that has passed.

use std::time::Duration;

use tamtam::{EventKind, Seq};

use crate::escape;

/// After so long a silence the line is shown.
const SILENCE: Duration = Duration::from_secs(2);

/// Most characters of the line, without the time.
const LINE_MAX: usize = 100;

/// What the session does, and since when. Times count from any fixed moment.
#[derive(Debug, Default)]
pub(crate) struct Status {
    model: String,
    /// What the model does, while a request runs.
    request: Option<(String, Duration)>,
    /// The calls that run, oldest first.
    calls: Vec<(Seq, String, Duration)>,
}

impl Status {
    /// Takes an event.
    pub(crate) fn hear(&mut self, kind: &EventKind, now: Duration) {
        match kind {
            EventKind::StepStarted { model, .. } => {
                self.model.clone_from(model);
                self.waits(now);
            }
            EventKind::TextDelta { .. } | EventKind::PartUpdated { .. } => self.waits(now),
            EventKind::ReasoningStarted {} => self.request = Some((format!("{} thinks", self.model), now)),
            EventKind::CallPending { name, .. } => {
                self.request = Some((format!("{} writes a call of {name}", self.model), now));
            }
            EventKind::StepFinished { .. } | EventKind::RequestFailed { .. } => self.request = None,
            EventKind::TurnFinished { .. } | EventKind::SessionRecovered { .. } => {
                (self.request, self.calls) = (None, Vec::new());
            }
            EventKind::CallStarted { ticket, name, .. } => {
                // The answer is complete: the calls of it run.
                self.request = None;
                self.calls.push((*ticket, format!("{name} runs"), now));
            }
            EventKind::CallProgress { ticket, title: Some(title), .. } => {
                self.calls.iter_mut().filter(|call| call.0 == *ticket).for_each(|call| call.1.clone_from(title));
            }
            EventKind::CallFinished { ticket, .. } => self.calls.retain(|call| call.0 != *ticket),
            _ => {}
        }
    }

    fn waits(&mut self, now: Duration) {
        self.request = Some((format!("waiting for {}", self.model), now));
    }

    /// The line; empty while there is nothing to say.
    pub(crate) fn line(&self, now: Duration) -> String {
        let call = self.calls.first().map(|(_, what, since)| (what, since));
        let Some((what, since)) = call.or(self.request.as_ref().map(|(what, since)| (what, since))) else {
            return String::new();
        };
        match now.saturating_sub(*since) {
            passed if passed < SILENCE => String::new(),
            passed => format!("… {} ({} s)", escape::short(what, LINE_MAX), passed.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tamtam::Part;

    use super::*;

    #[test]
    fn a_silence_of_two_seconds_shows_what_is_waited_for() {
        let mut status = Status::default();
        let second = Duration::from_secs;
        let (model, hash) = ("a/b".to_owned(), String::new());
        let step = EventKind::StepStarted { model, attempt: 1, used: 0, usable: 0, hash, fallback: None };
        let pending = EventKind::CallPending { index: 0, call: "c".into(), name: "write".to_owned() };
        let started = |ticket, name: &str| EventKind::CallStarted {
            ticket: Seq(ticket),
            call: "c".into(),
            name: name.to_owned(),
            input: "{}".into(),
            attempt: 1,
        };
        let titled = EventKind::CallProgress {
            ticket: Seq(6),
            title: Some("general: look".to_owned()),
            metadata: Default::default(),
        };
        // Each row: what happens, when, the line then, and the line three seconds later.
        let rows = [
            (step, 0, "", "… waiting for a/b (3 s)"),
            (EventKind::TextDelta { text: "x".to_owned() }, 10, "", "… waiting for a/b (3 s)"),
            (EventKind::ReasoningStarted {}, 20, "", "… a/b thinks (3 s)"),
            (EventKind::ReasoningDelta { text: "x".to_owned() }, 22, "… a/b thinks (2 s)", "… a/b thinks (5 s)"),
            (EventKind::PartUpdated { part: Part::text("x") }, 30, "", "… waiting for a/b (3 s)"),
            (pending, 31, "", "… a/b writes a call of write (3 s)"),
            (started(5, "bash"), 40, "", "… bash runs (3 s)"),
            (started(6, "task"), 41, "", "… bash runs (4 s)"),
            (titled, 42, "… bash runs (2 s)", "… bash runs (5 s)"),
        ];
        for (event, at, now, later) in rows {
            status.hear(&event, second(at));
            assert_eq!(
                (status.line(second(at)).as_str(), status.line(second(at + 3)).as_str()),
                (now, later),
                "{event:?}"
            );
        }
        status.calls.remove(0);
        assert_eq!(status.line(second(50)), "… general: look (9 s)");
    }
}
