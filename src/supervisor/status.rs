//! The status of a node (an actor, supervisor or worker in the tree) in its life cycle, and how fresh a reading of a node is.
//!
//! The planner of a supervisor (the part that decides) keeps a status for each child, and the supervisor writes it on the child's
//! node. Besides that, a supervisor (nested or a root) sets on its own node that it runs and that it has ended; a root's node is
//! made as starting, a worker's as running. The words are JSON and text that hosts read: a change must not rename one. JSON says
//! `backoff` and text says `back-off`; both must stay.

use std::fmt;

use serde::Serialize;

/// The status of a node in its life cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// Known, but not running.
    #[default]
    Stopped,
    /// On its way up.
    Starting,
    /// Up.
    Running,
    /// Being stopped: asked to, or killed.
    Stopping,
    /// Waiting for its restart.
    Backoff,
    /// Kept stopped after too many crashes, or by hand.
    Parked,
    /// Killed, or its start cancelled, and still there, because it is in code that does not await; or ended, with children that are
    /// still there.
    Unkillable,
}

impl Status {
    /// The status as text.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Stopped => "stopped",
            Status::Starting => "starting",
            Status::Running => "running",
            Status::Stopping => "stopping",
            Status::Backoff => "back-off",
            Status::Parked => "parked",
            Status::Unkillable => "unkillable",
        }
    }

    /// Whether an incarnation exists or is starting.
    #[must_use]
    pub fn is_alive(self) -> bool {
        matches!(self, Status::Starting | Status::Running | Status::Stopping | Status::Unkillable)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How fresh a reading of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reading {
    /// The node keeps up: the reading is its present state.
    Fresh,
    /// One message has been handled for 100 ms or more: what the node says of itself is from before that message.
    Busy,
    /// The node has no incarnation: the reading is what its last one left, if it had one.
    PostMortem,
}
