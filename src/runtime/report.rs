//! What a runtime reports of itself: its tree, its status, and how a drain or a shutdown went.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::{
    actor::{
        host::Host,
        slot::{Admission, Phase},
    },
    kernel::{CallState, Open, State},
    session::Session,
    supervisor::{Node, render},
    words::ids::SessionId,
};

/// The supervision tree at one moment. As text through `Display`, as JSON through `Serialize`.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Tree {
    /// The roots; one, while the runtime is up.
    pub roots: Vec<Node>,
}

impl Tree {
    /// The first node of that id.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Which.
    pub session: SessionId,
    /// Why it could not be brought back, where it could not.
    pub error: Option<String>,
}

/// A session that is kept stopped: it crashed too often, or an operator said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Parked {
    /// Which.
    pub session: SessionId,
    /// What ended it the last time.
    pub why: String,
}

/// What could not be stopped. Empty is the rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Leftover {
    /// Actors that did not end although they were killed.
    pub actors: Vec<String>,
    /// Tasks that did not end: of which session, and how many.
    pub tasks: Vec<(SessionId, usize)>,
    /// OS processes of calls that could not be killed: another user's, or stuck in the kernel.
    pub processes: Vec<i32>,
    /// Hooks whose [`Hook::on_event`](crate::hook::Hook::on_event) did not return: its thread ends when that does.
    pub hooks: Vec<String>,
}

impl Leftover {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actors.is_empty() && self.tasks.is_empty() && self.processes.is_empty() && self.hooks.is_empty()
    }
}

/// A drain that is given longer is given this long: for ever.
const DRAIN_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// How long a drain waits for a session to say how it stands, at least.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How soon a draining session is looked at again for being held up by nothing but open asks; twice as long each time.
const DRAIN_LOOK_MIN: Duration = Duration::from_millis(20);
/// No such wait is longer.
const DRAIN_LOOK_MAX: Duration = Duration::from_millis(320);

/// Takes no new messages, and waits until all sessions are at rest. Gives those that were not by the deadline.
pub(super) async fn drain(host: &Arc<Host>, deadline: Duration) -> Vec<SessionId> {
    host.slots.set_admission(Admission::Draining);
    let now = Instant::now();
    let (until, answers_by) = (now + deadline.min(DRAIN_MAX), now + ANSWER_WAIT);
    loop {
        // Side by side, so that one that does not answer takes no time from the others.
        let looks = host.slots.all_awake().into_iter().map(async |slot| {
            let session = Session { host: host.clone(), slot };
            (drained(&session, until, answers_by).await, session.id().clone())
        });
        let looked = futures_util::future::join_all(looks).await;
        let waited = looked.iter().any(|(drained, _)| *drained == Drained::Later);
        // A child that is down may wake its parent, which was looked at before: until all are found at rest.
        if !waited || Instant::now() >= until {
            let left = looked.into_iter().filter(|(drained, _)| *drained == Drained::No);
            return left.map(|(_, session)| session).collect();
        }
    }
}

/// Whether a session has come to rest in a drain.
#[derive(PartialEq, Eq)]
enum Drained {
    /// It was at rest when it was looked at.
    AtOnce,
    /// It came to rest meanwhile.
    Later,
    /// Not before the deadline.
    No,
}

/// Whether nothing of a session moves by itself: it is idle, or waits for people only. Its children are not looked at.
fn is_at_rest(state: &State) -> bool {
    let mut own = state
        .open
        .values()
        .filter(|open| !matches!(open, Open::Task(_) | Open::Compaction(_) | Open::Branch(_)))
        .peekable();
    let only_asks = own.peek().is_some()
        && own.all(|open| match open {
            Open::Ask(_) | Open::BudgetAsk(_) | Open::Task(_) | Open::Compaction(_) | Open::Branch(_) => true,
            Open::Call(call) => !matches!(call.state, CallState::Running | CallState::Closing),
            Open::Request(_) | Open::Wait(_) => false,
        });
    state.turn.is_none() || only_asks || state.waits || state.paused
}

/// Whether all children of a session are held up too, so that no DOWN of theirs is on its way.
async fn children_rest(session: &Session, state: &State) -> bool {
    for (_, task) in state.tasks() {
        let Some(slot) = session.host.slots.awake_one(&task.child) else { return false };
        let child = Session { host: session.host.clone(), slot };
        let Ok(child) = child.state().await else { return false };
        let is_over = child.origin.as_ref().is_some_and(|origin| origin.end.is_some());
        if is_over || child.turn.is_none() || !is_at_rest(&child) {
            return false;
        }
    }
    true
}

/// What a look at a draining session shows.
enum Looked {
    AtRest,
    /// It moves: in a turn of its own, or in a child's.
    Moves {
        in_turn: bool,
    },
}

async fn look(session: &Session) -> Looked {
    // One that is gone moves no more.
    let Ok(state) = session.state().await else { return Looked::AtRest };
    match is_at_rest(&state) && children_rest(session, &state).await {
        true => Looked::AtRest,
        false => Looked::Moves { in_turn: state.turn.is_some() },
    }
}

/// Waits until a session is idle or waits for people only, and its children likewise. One whose actor is stuck says nothing: it
/// is waited for until then, and at least until `answers_by`.
async fn drained(session: &Session, until: Instant, answers_by: Instant) -> Drained {
    let (mut drained, mut wait, look_until) = (Drained::AtOnce, DRAIN_LOOK_MIN, until.max(answers_by));
    loop {
        // Nothing is open in one that has fallen asleep, and it need not be woken to be asked.
        if session.slot.phase() == Phase::Passive {
            return drained;
        }
        let in_turn = match timeout_at(look_until, look(session)).await {
            Ok(Looked::AtRest) => return drained,
            Ok(Looked::Moves { in_turn }) if Instant::now() < until => in_turn,
            Ok(Looked::Moves { .. }) | Err(_) => return Drained::No,
        };
        drained = Drained::Later;
        tokio::select! {
            _ = session.wait(), if in_turn => {}
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(DRAIN_LOOK_MAX),
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
