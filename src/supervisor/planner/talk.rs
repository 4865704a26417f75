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
    /// Something happened to that incarnation of a child, or to its timer.
    Child(ChildId, Generation, ChildEvent),
    /// A child is to be added and started.
    Start {
        call: Call,
        id: ChildId,
        policy: Policy,
    },
    /// Something is asked of a child.
    Admin(Call, ChildId, Admin),
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

/// What happened to a child.
#[derive(Clone, Debug)]
pub(crate) enum ChildEvent {
    /// It is up, and this is what its start had to say.
    Started(Option<Arc<str>>),
    Ignored,
    StartFailed(ExitReason),
    /// The actor, its state and its workers are gone, but for those left over.
    Exited(ExitReason),
    /// It did not end although it was killed, or ended and left something behind that did not.
    Unkillable,
    /// Its time to wait is over.
    Due,
}

/// What a planner may be asked to do with a child that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admin {
    Terminate,
    Restart,
    Recycle,
    Delete,
    Park,
    Unpark,
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
