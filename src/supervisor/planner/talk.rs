//! The protocol of the planner: the events it takes, and the actions it asks for.

use std::{sync::Arc, time::Duration};

use crate::supervisor::{
    admin::Answer,
    exit::ExitReason,
    planner::{Call, Generation},
    report::{Context, Decision},
    spec::{ChildId, Policy, Rules, Shutdown},
};

/// What a planner is told.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Boot {
        children: Vec<(ChildId, Policy)>,
    },
    Started {
        id: ChildId,
        generation: Generation,
        /// What the start had to say.
        info: Option<Arc<str>>,
    },
    Ignored {
        id: ChildId,
        generation: Generation,
    },
    StartFailed {
        id: ChildId,
        generation: Generation,
        reason: ExitReason,
    },
    Exited {
        id: ChildId,
        generation: Generation,
        reason: ExitReason,
    },
    Unkillable {
        id: ChildId,
        generation: Generation,
    },
    Due {
        id: ChildId,
        generation: Generation,
    },
    Start {
        call: Call,
        id: ChildId,
        policy: Policy,
    },
    Terminate {
        call: Call,
        id: ChildId,
    },
    Restart {
        call: Call,
        id: ChildId,
    },
    Recycle {
        call: Call,
        id: ChildId,
    },
    Delete {
        call: Call,
        id: ChildId,
    },
    Park {
        call: Call,
        id: ChildId,
    },
    Unpark {
        call: Call,
        id: ChildId,
    },
    /// New rules and policies, applied to what happens from now on, or refused whole.
    #[allow(dead_code, reason = "the planner knows live changes; no host has asked for them yet")]
    Change {
        call: Call,
        rules: Rules,
        children: Vec<(ChildId, Policy)>,
    },
    Shutdown {
        reason: String,
    },
}

impl Event {
    /// The child that it is about.
    pub(crate) fn about(&self) -> Option<&ChildId> {
        match self {
            Event::Boot { .. } | Event::Change { .. } | Event::Shutdown { .. } => None,
            Event::Started { id, .. }
            | Event::Ignored { id, .. }
            | Event::StartFailed { id, .. }
            | Event::Exited { id, .. }
            | Event::Unkillable { id, .. }
            | Event::Due { id, .. }
            | Event::Start { id, .. }
            | Event::Terminate { id, .. }
            | Event::Restart { id, .. }
            | Event::Recycle { id, .. }
            | Event::Delete { id, .. }
            | Event::Park { id, .. }
            | Event::Unpark { id, .. } => Some(id),
        }
    }
}

/// What a planner wants done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Spawn {
        id: ChildId,
        generation: Generation,
        incarnation: u64,
    },
    Stop {
        id: ChildId,
        generation: Generation,
        shutdown: Shutdown,
    },
    Arm {
        id: ChildId,
        generation: Generation,
        after: Duration,
    },
    Cancel {
        id: ChildId,
    },
    /// The child is gone for good: its spec can be forgotten.
    Forget {
        id: ChildId,
    },
    Reply {
        call: Call,
        answer: Answer,
    },
    /// A child ended, and this is what follows.
    Report {
        id: ChildId,
        reason: ExitReason,
        /// During what it crashed; `None` where it ended as it may.
        crash: Option<Context>,
        decision: Decision,
        in_window: u32,
    },
    Parked {
        id: ChildId,
    },
    Booted,
    /// All children are down, but for those left over that did not end although they were killed.
    Exit {
        reason: ExitReason,
        leftover: Vec<ChildId>,
    },
}
