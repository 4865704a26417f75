//! How a session describes itself on its node in the tree: its phase word and a short text, its figures, and the text of a full
//! trace. Functions of values.
//!
//! A change must keep this: only [`in_full`] returns content of the conversation, and it is called only while an operator traces
//! the session in full. Everything else here may be shown to anybody and must stay free of content: it names models, tools and
//! child sessions, and counts. The docs of [`Node::phase`](crate::supervisor::Node::phase) list the phase words: keep them in
//! step.

use std::fmt::{self, Write as _};

use crate::{
    actor::{
        figures::{At, SessionFigures},
        slot::Work,
    },
    kernel::{CallState, FellBack, Input, Open, OpenRequest, Report, State},
    supervisor::node_state::Presented,
};

/// The phase and the text that a session shows after a piece of work.
pub(super) fn presented(state: &State, storage_fails: bool) -> Presented {
    let (phase, doing) = phase(state, storage_fails);
    Presented {
        phase,
        doing,
        number: state.turn.as_ref().map(|turn| turn.id.0),
        waiting: state.queue.len() + state.steering.len(),
    }
}

/// The figures that a session shows after a piece of work.
pub(super) fn figures(state: &State) -> SessionFigures {
    let in_all = state.spent_in_all();
    SessionFigures {
        at: state.turn.as_ref().map(|turn| At { turn: turn.id, step: turn.step }),
        usage: in_all.usage,
        cost: in_all.cost,
        left: state.left(),
        tasks_queued: state.tasks_queued(),
        todos_open: state.todos().iter().filter(|todo| todo.is_open()).count(),
        todos: state.todos().len(),
        tape_seq: state.seq,
        labels: state.settings.labels.clone(),
    }
}

/// What a session does now, as a phase word and as a short text.
fn phase(state: &State, storage_fails: bool) -> (&'static str, Option<String>) {
    if storage_fails {
        return ("storage", Some("waits for its tape to be writable".to_owned()));
    }
    let Some(turn) = state.turn.as_ref() else {
        let tasks = state.tasks().count();
        let waiting = !state.queue.is_empty() || !state.steering.is_empty();
        let compacts = state.compaction().is_some();
        let fullness = state.context.fullness;
        return match (state.paused, state.on_hold && waiting) {
            (false, false) if compacts => ("compaction", Some("sums up what was said before".to_owned())),
            (true, _) => ("paused", Some("paused".to_owned())),
            (false, true) => ("held", Some("holds its queue until the next send or go-on".to_owned())),
            (false, false) if state.closed.is_some() => ("ended", Some("has ended".to_owned())),
            (false, false) if tasks > 0 => ("children", Some(format!("waits for {}", children(state)))),
            (false, false) if fullness.warns() => ("idle", Some(format!("context {} % full", fullness.percent()))),
            (false, false) => ("idle", None),
        };
    };
    let mut doing = String::with_capacity(64);
    also(&mut doing, format_args!("turn {} step {}: ", turn.id, turn.step));
    if state.waits {
        also(&mut doing, format_args!("interrupted, waits for `go_on`"));
        return ("interrupted", Some(doing));
    }
    if state.paused {
        // A paused session finishes its running work and starts nothing new.
        also(&mut doing, format_args!("paused"));
    }
    let mut phase = "turn";
    for open in state.open.values() {
        let mut in_phase = |phase: &'static str, what: fmt::Arguments<'_>| {
            also(&mut doing, what);
            phase
        };
        let its_phase = match open {
            Open::Request(OpenRequest { model, fallback: Some(FellBack { from, on, .. }), .. }) => {
                in_phase("model", format_args!("asks {model} in the place of {from} ({})", on.name()))
            }
            Open::Request(request) => in_phase("model", format_args!("asks {}", request.model)),
            Open::Wait(wait) => in_phase("retry", format_args!("waits before retry {}", wait.attempt)),
            Open::Compaction(_) => in_phase("compaction", format_args!("sums up what was said before")),
            Open::Branch(_) => in_phase("turn", format_args!("sums up a branch")),
            Open::Ask(_) => in_phase("asking", format_args!("waits for a person")),
            Open::BudgetAsk(_) => in_phase("asking", format_args!("waits for a larger budget")),
            Open::Call(call) if matches!(call.state, CallState::Running | CallState::Closing) => {
                in_phase("tools", format_args!("runs {}", call.facts.tool))
            }
            Open::Task(task) if !task.queued => in_phase("turn", format_args!("waits for {}", task.child)),
            Open::Task(_) | Open::TaskAsk(_) | Open::Call(_) => continue,
        };
        // The most urgent phase of all open tickets.
        let urgency = |phase| URGENT.iter().position(|urgent| *urgent == phase).unwrap_or(URGENT.len());
        if urgency(its_phase) < urgency(phase) {
            phase = its_phase;
        }
    }
    let fullness = state.context.fullness;
    if fullness.warns() {
        also(&mut doing, format_args!("context {} % full", fullness.percent()));
    }
    (if state.paused { "paused" } else { phase }, Some(doing))
}

/// Phases of open tickets, the most urgent one first.
const URGENT: [&str; 5] = ["model", "tools", "asking", "retry", "compaction"];

/// Adds a part to a text of several.
fn also(text: &mut String, part: fmt::Arguments<'_>) {
    if !text.is_empty() && !text.ends_with(": ") {
        text.push_str(", ");
    }
    // Writing into a text does not fail.
    let _ = text.write_fmt(part);
}

/// How many children a session waits for, and how many of their tasks wait for room.
fn children(state: &State) -> String {
    let (tasks, queued) = (state.tasks().count(), state.tasks_queued());
    let queued = if queued > 0 { format!(", {queued} of them not begun") } else { String::new() };
    format!("{tasks} of its children{queued}")
}

/// The content of the first input of a piece of work, for a trace in full; `None` if that input has none.
pub(super) fn in_full(work: &Work) -> Option<String> {
    let input = match work {
        Work::Decide(inputs) => inputs.first()?,
        Work::Stop(input) => input,
        Work::Settled(..) | Work::Sleep => return None,
    };
    match input {
        Input::Command { command, .. } => command.said(),
        Input::Report { report: Report::Returned { result }, .. } => Some(result.content.clone()),
        Input::Report { report: Report::Failed { error }, .. } => Some(error.to_string()),
        Input::Report { report: Report::Answered { answer, .. }, .. } => Some(answer.text()),
        Input::Report { .. } | Input::Timer | Input::Recover { .. } | Input::Stop | Input::Look | Input::Hold => None,
    }
}
