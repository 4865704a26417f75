//! How far a task is: read from the states of parent and child, and followed through the child's events.
//!
//! It is for people and models to look at: nothing is recorded or decided by it, and an error or a missed event only makes it late.
//! How a task ended is not known here; `result.rs` has that. A change must keep it bounded, because it is shown again and again.

use std::{collections::VecDeque, time::Duration};

use crate::{
    error::SendError,
    event::{EventKind, EventStream, Next},
    kernel::{CallState, Open, State},
    runtime::Child,
    task::{TASK_VERSION, TaskEvent, TaskMetrics, TaskProgress, TaskStatus},
    words::ids::Millis,
};

/// A child whose tape got no entry for so long is shown as stalled; it may be in one long request or call.
const STALLED_AFTER: Duration = Duration::from_secs(60);
/// How often the progress is shown where nothing happens.
const SHOWN_EVERY: Duration = Duration::from_secs(5);
/// The most finished calls of a child that are shown.
const EVENTS_MAX: usize = 16;

/// How far a task is now.
pub(super) async fn of(child: &Child) -> Result<TaskProgress, SendError> {
    let parent = child.parent.state().await?;
    let (trace, task, queued) = match parent.open.get(&child.ticket()) {
        Some(Open::Task(task)) => {
            let order = task.order.as_ref();
            let trace = order.and_then(|order| order.terms.trace.as_deref().map(str::to_owned));
            (trace.unwrap_or_default(), order.map(|order| order.prompt.id.to_string()).unwrap_or_default(), task.queued)
        }
        _ => Default::default(),
    };
    let mut progress = TaskProgress {
        v: TASK_VERSION,
        trace_id: trace,
        task_id: task,
        session_id: child.session().id().clone(),
        status: if queued { TaskStatus::Pending } else { TaskStatus::Running },
        events: Vec::new(),
        metrics: TaskMetrics::default(),
        partial_output: String::new(),
        current_tool: None,
        idle_ms: 0,
        stalled: false,
    };
    if !queued {
        let session = child.session();
        look(&mut progress, &session.state().await?, session.shared.clock.now());
        // The state has whole answers only.
        if let Some(text) = session.slot.arrived_text() {
            progress.partial_output = text;
        }
    }
    Ok(progress)
}

/// What the state of a child says of its task.
fn look(progress: &mut TaskProgress, state: &State, now: Millis) {
    let idle = now.since(state.time);
    (progress.idle_ms, progress.stalled) = (millis(idle), idle >= STALLED_AFTER);
    let runs = state.calls().find(|(_, call)| call.state == CallState::Running);
    progress.current_tool = runs.map(|(_, call)| call.facts.tool.clone());
    if let Some(turn) = &state.turn {
        progress.partial_output = turn.text.to_string();
        progress.metrics.steps = turn.step;
    }
    let spent = state.spent_of_task();
    (progress.metrics.tokens, progress.metrics.cost_micro_usd) = (spent.usage, spent.cost.shown().cost);
    progress.metrics.latency_ms = state.turn.as_ref().map_or(0, |turn| millis(now.since(turn.started)));
}

pub(super) fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Shows how far the task is, at each call and step of the child and from time to time. Never returns: drop it with the end of
/// the task.
pub(super) async fn follow(child: &Child, mut events: EventStream, show: impl Fn(&TaskProgress)) {
    let mut newest = VecDeque::new();
    loop {
        if let Ok(mut progress) = of(child).await {
            progress.events = newest.iter().cloned().collect();
            show(&progress);
        }
        tokio::select! {
            happened = until_news(&mut events, &mut newest) => if !happened {
                return std::future::pending().await;
            },
            () = tokio::time::sleep(SHOWN_EVERY) => {}
        }
    }
}

/// Waits for an event that a person would want to see, and notes calls that are over. False at the end of the stream.
async fn until_news(events: &mut EventStream, newest: &mut VecDeque<TaskEvent>) -> bool {
    while let Some(next) = events.next().await {
        let Next::Event(event) = next else { return true };
        match &event.kind {
            EventKind::CallFinished { name, title, error, .. } => {
                newest.push_back(TaskEvent::new(name, title.clone(), error.is_some()));
                if newest.len() > EVENTS_MAX {
                    newest.pop_front();
                }
                return true;
            }
            EventKind::TurnStarted { .. }
            | EventKind::StepStarted { .. }
            | EventKind::CallStarted { .. }
            | EventKind::StepFinished { .. } => {
                return true;
            }
            _ => {}
        }
    }
    false
}
