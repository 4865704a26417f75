//! What a runtime tells of itself.

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    actors::slot::Phase,
    handle::Session,
    ids::SessionId,
    session::Open,
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

/// Waits until a session is idle or waits for people only.
pub(super) async fn is_drained(session: &Session, until: Instant) -> bool {
    loop {
        // Nothing is open in one that has fallen asleep, and it need not be woken to be asked.
        if session.slot.phase() == Phase::Passive {
            return true;
        }
        let Ok(state) = session.state().await else { return true };
        let only_asks = !state.open.is_empty()
            && state.open.values().all(|open| match open {
                Open::Ask(_) => true,
                Open::Call(call) => {
                    !matches!(call.state, crate::session::CallState::Running | crate::session::CallState::Closing)
                }
                Open::Request(_) | Open::Wait(_) => false,
            });
        if state.turn.is_none() || only_asks || state.waits || state.paused {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        tokio::select! {
            _ = session.wait() => {}
            () = tokio::time::sleep(DRAIN_LOOK) => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
