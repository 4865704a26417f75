//! What a runtime reports of itself: its tree, its recovered and parked sessions, what a shutdown left over, and how a drain
//! went.
//!
//! A drain refuses new messages, reads states and waits; it ends, aborts and wakes nothing. It always returns: when all sessions
//! are at rest, at the deadline, or, if the deadline is shorter than the second that each session has to answer, after that
//! second.
//!
//! A change must keep that, and must look at a parent together with its children: a child's DOWN may start the parent's next step
//! after the parent was found at rest.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    actor::{
        shared::Shared,
        slot::{Admission, Now, Phase, Slot},
    },
    kernel::{CallState, Open, State},
    session::Session,
    supervisor::{Node, render},
    words::ids::SessionId,
};

/// The supervision tree at one moment. As text through `Display`, as JSON through `Serialize`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
#[non_exhaustive]
pub struct Tree {
    /// The roots; one, while the runtime is up.
    pub roots: Vec<Node>,
}

impl Tree {
    /// The first node that has this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Node> {
        self.roots.iter().find_map(|root| root.find(id))
    }
}

impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&render(&self.roots))
    }
}

/// A session that was in a turn when its process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recovered {
    /// The id of the session.
    pub session: SessionId,
    /// Why the session could not be resumed; `None` if it was.
    pub error: Option<String>,
}

/// A session that is kept stopped: it crashed too often, or an operator said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Parked {
    /// The id of the session.
    pub session: SessionId,
    /// What ended it the last time, or that an operator parked it.
    pub why: String,
}

/// What a shutdown could not stop. Empty is the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Leftover {
    /// Actors that did not end although they were killed.
    pub actors: Vec<String>,
    /// Tasks that did not end: of which session, and how many.
    pub tasks: Vec<(SessionId, usize)>,
    /// OS processes of calls that could not be killed: another user's, or stuck in the kernel.
    pub processes: Vec<i32>,
    /// Hooks whose [`Hook::on_event`](crate::hook::Hook::on_event) did not return. The hook's thread ends when the callback
    /// returns.
    pub hooks: Vec<String>,
    /// Sessions that lost what was reported to them, and how many reports, because a full or failing disk had not taken them: an
    /// answer is asked for again, and a call that ran becomes "outcome unknown".
    pub unrecorded: Vec<(SessionId, usize)>,
}

impl Leftover {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actors.is_empty()
            && self.tasks.is_empty()
            && self.processes.is_empty()
            && self.hooks.is_empty()
            && self.unrecorded.is_empty()
    }
}

/// The longest deadline of a drain, a hundred years: so that adding it to the present moment cannot overflow.
const DRAIN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// How long a drain waits for a session's answer, at least.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// The first wait before a draining session is checked again, because by then only open asks may delay it. It doubles each time.
const DRAIN_LOOK_MIN: Duration = Duration::from_millis(20);
/// The longest such wait.
const DRAIN_LOOK_MAX: Duration = Duration::from_millis(320);

/// Takes no new messages, and waits until all sessions are at rest. Returns those that are not at the deadline.
pub(super) async fn drain(shared: &Arc<Shared>, deadline: Duration) -> Vec<SessionId> {
    shared.slots.set_admission(Admission::Draining);
    come_to_rest(shared, deadline, || shared.slots.all_awake()).await
}

/// Waits until these sessions are at rest. Returns those that are not at the deadline.
pub(super) async fn come_to_rest(
    shared: &Arc<Shared>,
    deadline: Duration,
    awake: impl Fn() -> Vec<Arc<Slot>>,
) -> Vec<SessionId> {
    let now = Instant::now();
    let (until, answers_by) = (now + deadline.min(DRAIN_MAX), now + ANSWER_WAIT);
    loop {
        let (mut left, mut waited) = (Vec::new(), false);
        // One after the other: all have the same moment to be at rest by, so one that does not answer takes no time from the others.
        for slot in awake() {
            let session = Session { shared: shared.clone(), slot };
            match drained(&session, until, answers_by).await {
                Drained::AtOnce => {}
                Drained::Later => waited = true,
                Drained::No => left.push(session.id().clone()),
            }
        }
        // A child's DOWN may wake a parent that was found at rest. So look again, until one look finds all at rest.
        if !waited || Instant::now() >= until {
            return left;
        }
    }
}

/// Whether a session has come to rest in a drain.
enum Drained {
    /// It was at rest when checked.
    AtOnce,
    /// It came to rest meanwhile.
    Later,
    /// Not before the deadline.
    No,
}

/// Whether a session does not move: it is idle, paused or waiting, or waits only for people. Ignores its children.
fn is_at_rest(state: &State) -> bool {
    let mut own = state
        .open
        .values()
        .filter(|open| !matches!(open, Open::Task(_) | Open::TaskAsk(_) | Open::Compaction(_) | Open::Branch(_)))
        .peekable();
    let only_asks = own.peek().is_some()
        && own.all(|open| match open {
            Open::Ask(_)
            | Open::TaskAsk(_)
            | Open::BudgetAsk(_)
            | Open::Task(_)
            | Open::Compaction(_)
            | Open::Branch(_) => true,
            Open::Call(call) => !matches!(call.state, CallState::Running | CallState::Closing),
            Open::Request(_) | Open::Wait(_) => false,
        });
    state.turn.is_none() || only_asks || state.waits || state.paused
}

/// Whether all open children of a session are in a turn that people hold up, so that no DOWN is on its way.
async fn children_rest(session: &Session, state: &State) -> bool {
    for (_, task) in state.tasks() {
        let Some(slot) = session.shared.slots.awake_one(&task.child) else { return false };
        let child = Session { shared: session.shared.clone(), slot };
        let Ok(child) = child.state().await else { return false };
        let is_over = child.origin.as_ref().is_some_and(|origin| origin.end.is_some());
        if is_over || child.turn.is_none() || !is_at_rest(&child) {
            return false;
        }
    }
    true
}

/// What a draining session does.
enum Activity {
    AtRest,
    /// It moves: in its own turn, or in a child's.
    Moves {
        in_turn: bool,
    },
}

async fn look(session: &Session) -> Activity {
    // A session that cannot answer any more does not move.
    let Ok(Now { state, is_quiet, .. }) = session.slot.until(|now| Some(Ok(now.clone()))).await else {
        return Activity::AtRest;
    };
    match is_quiet && is_at_rest(&state) && children_rest(session, &state).await {
        true => Activity::AtRest,
        false => Activity::Moves { in_turn: state.turn.is_some() },
    }
}

/// Waits until a session and its children are at rest. A stuck actor does not answer: the wait for it ends at `until`, but not
/// before `answers_by`.
async fn drained(session: &Session, until: Instant, answers_by: Instant) -> Drained {
    let (mut drained, mut wait, look_until) = (Drained::AtOnce, DRAIN_LOOK_MIN, until.max(answers_by));
    loop {
        // A sleeping session has nothing open, so there is no reason to wake it.
        if session.slot.phase() == Phase::Passive {
            return drained;
        }
        let in_turn = match timeout_at(look_until, look(session)).await {
            Ok(Activity::AtRest) => return drained,
            Ok(Activity::Moves { in_turn }) if Instant::now() < until => in_turn,
            Ok(Activity::Moves { .. }) | Err(_) => return Drained::No,
        };
        drained = Drained::Later;
        tokio::select! {
            _ = session.wait(), if in_turn => {}
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(DRAIN_LOOK_MAX),
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
