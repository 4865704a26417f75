//! What a runtime tells of itself.

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    actors::slot::Phase,
    handle::Session,
    ids::SessionId,
    session::{CallState, Open, State},
    supervisor::{Node, render},
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
}

impl Leftover {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.actors.is_empty() && self.tasks.is_empty() && self.processes.is_empty()
    }
}

/// How often a draining session is looked at for being held up by nothing but open asks.
const DRAIN_LOOK: std::time::Duration = std::time::Duration::from_millis(20);

/// Whether a session has come to rest in a drain.
pub(super) enum Drained {
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

/// Waits until a session is idle or waits for people only, and its children likewise.
pub(super) async fn drained(session: &Session, until: Instant) -> Drained {
    let mut drained = Drained::AtOnce;
    loop {
        // Nothing is open in one that has fallen asleep, and it need not be woken to be asked.
        if session.slot.phase() == Phase::Passive {
            return drained;
        }
        let Ok(state) = session.state().await else { return drained };
        if is_at_rest(&state) && children_rest(session, &state).await {
            return drained;
        }
        drained = Drained::Later;
        if Instant::now() >= until {
            return Drained::No;
        }
        tokio::select! {
            _ = session.wait(), if state.turn.is_some() => {}
            () = tokio::time::sleep(DRAIN_LOOK) => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
