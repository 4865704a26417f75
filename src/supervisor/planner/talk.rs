//! The protocol between planner, driver and monitor: the events that a planner takes, and the actions that it asks for. Values
//! only.
//!
//! Events about a child, and the actions that start, stop or time it, carry the generation of the start or timer that they belong
//! to, so that a late one is recognised. A new event or action about an incarnation must carry it, too.

use std::{sync::Arc, time::Duration};

use crate::supervisor::{
    admin::Answer,
    exit::ExitReason,
    planner::{Call, Generation},
    report::{Context, Decision},
    spec::{ChildId, Policy, Rules, Shutdown},
};

/// An event for a planner.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Boot {
        children: Vec<(ChildId, Policy)>,
    },
    /// Something happened to that incarnation of a child, or to its timer.
    Child(ChildId, Generation, ChildEvent),
    /// Add a child and start it.
    Start {
        call: Call,
        id: ChildId,
        policy: Policy,
    },
    /// An administrative call about a child.
    Admin(Call, ChildId, Admin),
    /// New rules and policies: they apply to all later events, or are refused as a whole.
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
    /// It is up; with the word that its start had, if any.
    Started(Option<Arc<str>>),
    Ignored,
    StartFailed(ExitReason),
    /// The actor and its state are gone, and so are its workers, except those that did not end in their time.
    Exited(ExitReason),
    /// It did not end although it was killed; or it ended, and a child that it left behind did not.
    Unkillable,
    /// Its timer has fired.
    Due,
}

/// The administrative calls about a known child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admin {
    Terminate,
    Restart,
    Recycle,
    Delete,
    Park,
    Unpark,
}

/// An action for the driver.
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
    /// The child is gone for good: forget its spec.
    Forget {
        id: ChildId,
    },
    Reply {
        call: Call,
        answer: Answer,
    },
    /// A child ended; with the decision about it.
    Report {
        id: ChildId,
        reason: ExitReason,
        /// The phase in which it crashed; `None` if the end was a normal one.
        crash: Option<Context>,
        decision: Decision,
        in_window: u32,
    },
    Parked {
        id: ChildId,
    },
    Booted,
    /// All children are down, except `leftover`, which did not end although they were killed.
    Exit {
        reason: ExitReason,
        leftover: Vec<ChildId>,
    },
}
