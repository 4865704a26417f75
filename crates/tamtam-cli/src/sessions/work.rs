//! What a session with an open turn does, by its open tickets: which question waits for a person, which tool runs, and since when.
//!
//! The tape is read from its newest anchor on. A tape that cannot be read gives nothing: the list shows the session all the same.

use serde::Serialize;
use tamtam::{
    Millis, Seq, SessionId,
    session::{self, Open, State},
    tape::{Store, TapeStoreExt as _},
};

use crate::escape;

/// Longest description, in characters.
const WHAT_MAX: usize = 60;

/// What a session does. The most urgent of several things, a person's first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Work {
    /// `asking`, `budget`, `tool`, `retry`, `model`, `summary` or `task`.
    pub(super) phase: &'static str,
    /// The call that is asked about, the tool, the limit, the model or the task.
    pub(super) what: String,
    /// When it began; `None` where that was before the newest anchor.
    pub(super) since: Option<Millis>,
}

/// The phases, the most urgent first.
const URGENT: [&str; 7] = ["asking", "budget", "tool", "retry", "model", "summary", "task"];

/// How many of the phases wait for a person.
const OF_A_PERSON: usize = 2;

impl Work {
    /// Whether a person has to answer.
    pub(super) fn waits_for_a_person(&self) -> bool {
        URGENT[..OF_A_PERSON].contains(&self.phase)
    }
}

/// What the session does now; `None` where nothing is open, and where its tape cannot be read.
pub(super) fn of(store: &Store, id: &SessionId) -> Option<Work> {
    let newest = store.anchors(id).ok()?.last()?.first;
    let lines = store.read(id, Seq(newest.0.saturating_sub(1))).ok()?;
    let entries: Vec<session::Entry> = lines.iter().map(session::Entry::from_tape).collect::<Result<_, _>>().ok()?;
    let began = |ticket: Seq| entries.iter().find(|entry| entry.seq == ticket).map(|entry| entry.time);
    at(&State::fold(&entries)?, began)
}

/// The most urgent of what is open in a state.
fn at(state: &State, began: impl Fn(Seq) -> Option<Millis>) -> Option<Work> {
    let open = state.open.iter().filter_map(|(ticket, open)| {
        let (phase, what) = phase(state, open)?;
        Some(Work { phase, what: escape::short(&what, WHAT_MAX), since: began(*ticket) })
    });
    open.min_by_key(|work| URGENT.iter().position(|phase| *phase == work.phase))
}

fn phase(state: &State, open: &Open) -> Option<(&'static str, String)> {
    let wanted = |access: &[tamtam::tool::Access]| access.first().map(ToString::to_string).unwrap_or_default();
    Some(match open {
        Open::Ask(ask) => (
            "asking",
            match (&ask.question, state.open.get(&ask.call)) {
                (Some(question), _) => question.title.clone(),
                (None, Some(Open::Call(call))) if ask.access.is_empty() => call.facts.tool.clone(),
                _ => wanted(&ask.access),
            },
        ),
        Open::TaskAsk(open) if open.answer.is_none() => match &open.asked.question {
            Some(question) => ("asking", question.title.clone()),
            None => ("asking", wanted(&open.asked.access)),
        },
        Open::BudgetAsk(ask) => ("budget", ask.breach.to_string()),
        Open::Call(call) if call.attempts > 0 => ("tool", call.facts.tool.clone()),
        Open::Wait(wait) => ("retry", format!("retry {}", wait.attempt)),
        Open::Request(request) => ("model", request.model.to_string()),
        Open::Compaction(_) | Open::Branch(_) => ("summary", "writes a summary".to_owned()),
        Open::Task(task) => ("task", task.child.to_string()),
        _ => return None,
    })
}
