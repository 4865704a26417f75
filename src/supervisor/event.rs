//! What a supervisor tells those who watch it.

use serde::Serialize;
use tokio::sync::broadcast;

use crate::supervisor::{exit::ExitReason, report::Decision, spec::ChildId};

/// How many events wait for a slow watcher before it loses the oldest.
pub(crate) const EVENTS_WAITING: usize = 256;

/// Something that happened to a child, or to the supervisor itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// A child runs.
    Started {
        /// Which.
        id: ChildId,
        /// Which life: 1 for the first.
        incarnation: u64,
    },
    /// A child ended or could not start.
    Exited {
        /// Which.
        id: ChildId,
        /// Which life ended.
        incarnation: u64,
        /// Why.
        reason: ExitReason,
        /// What follows.
        decision: Decision,
    },
    /// A child is kept stopped.
    Parked {
        /// Which.
        id: ChildId,
    },
    /// A child did not end although it was killed; its place stays taken until it does.
    Unkillable {
        /// Which.
        id: ChildId,
    },
    /// Workers of a child did not end in their time; the child goes on without them.
    WorkersLeft {
        /// Which child.
        id: ChildId,
        /// How many.
        count: usize,
    },
    /// A child is gone for good.
    Removed {
        /// Which.
        id: ChildId,
    },
    /// The supervisor ends.
    Down(Down),
}

/// How a supervisor ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Down {
    /// Why.
    pub reason: ExitReason,
    /// The children that were still there although they were killed, by their ids from here down: `sessions/4711`.
    pub leftover: Vec<String>,
}

/// A watcher's end of a supervisor's events.
///
/// The queue is bounded: a slow watcher loses the oldest events and is told how many. What counts is the state, which
/// [`which_children`](crate::supervisor::SupervisorHandle::which_children) gives at any time.
#[derive(Debug)]
pub struct Subscription {
    events: broadcast::Receiver<SupervisorEvent>,
    lost: u64,
}

impl Subscription {
    pub(crate) fn new(events: broadcast::Receiver<SupervisorEvent>) -> Subscription {
        Subscription { events, lost: 0 }
    }

    /// The next event; `None` when the supervisor and all its handles are gone. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<SupervisorEvent> {
        loop {
            match self.events.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(lost)) => self.lost += lost,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// How many events this watcher has lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
