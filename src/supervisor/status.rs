//! The status of a node in its life cycle, and how fresh a reading of a node is.
//!
//! A supervisor sets the status of its children; a root and a worker, which have no supervisor, set their own, and a nested
//! supervisor sets that it runs. The words are JSON and text that hosts read: a change must not rename one. JSON says `backoff` and
//! text says `back-off`; both must stay.

use std::fmt;

use serde::Serialize;

/// The status of a node in its life cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Asked to stop.
    Stopping,
    /// Waiting for its restart.
    Backoff,
    /// Kept stopped after too many crashes, or by hand.
    Parked,
    /// Killed, and still there: it is in code that never awaits.
    Unkillable,
}

impl Status {
    /// The status as a word.
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
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reading {
    /// The node keeps up: the reading is its present state.
    Fresh,
    /// One message has been handled for 100 ms or more: the reading is from before that message.
    Busy,
    /// The node has no incarnation: the reading is what its last one left.
    PostMortem,
}
