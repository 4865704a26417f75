//! The status of a node as its supervisor sees it, and how fresh a reading of it is.

use std::fmt;

use serde::Serialize;

/// What a node is doing with its life.
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

    /// Whether an incarnation is there, or is being begun.
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

/// How far what is read of a node can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reading {
    /// It keeps up: what is read is how it is.
    Fresh,
    /// One message has been in its hand for 100 ms or more: what is read is from before that message.
    Busy,
    /// It has no incarnation: what is read is what its last one left.
    PostMortem,
}
