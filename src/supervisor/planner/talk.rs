//! The protocol of a planner (the part of a supervisor that decides): the events that it takes, and the actions that it asks its
//! driver (the part that acts) for. The tasks that wait for a child report in the same words ([`ChildEvent`]). Values only.
//!
//! [`Event::Child`] and the actions [`Action::Spawn`], [`Action::Stop`] and [`Action::Arm`] carry the [`Generation`] of their start
//! or timer, so that a late event is recognized. The others carry none. A change must give the generation to every new event that
//! such a task sends, else a late one would hit the next incarnation.

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
    /// Something happened to the start or timer of a child that has this generation.
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
    /// It is up; with the text that its start gave for its starter, if any.
    Started(Option<Arc<str>>),
    /// It had nothing to do, and did not start.
    Ignored,
    StartFailed(ExitReason),
    /// The actor and its state are gone, and so are its workers, except those that did not end in their time.
    Exited(ExitReason),
    /// It did not end although it was killed, or although its start was cancelled; or it ended, and a child that it left behind did
    /// not.
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
    /// The child is gone permanently: forget its spec.
    Forget {
        id: ChildId,
    },
    Reply {
        call: Call,
        answer: Answer,
    },
    /// A child ended, or could not start; with the decision about it.
    Report {
        id: ChildId,
        reason: ExitReason,
        /// The phase in which it ended, if a crash report is due; `None` for an end that was asked for or expected.
        crash: Option<Context>,
        decision: Decision,
        /// How many crashes are in the restart window, with this one; 0 if it does not count as one.
        in_window: u32,
    },
    Parked {
        id: ChildId,
    },
    /// The first starts of the children of the spec are over.
    Booted,
    /// All children are down, except `leftover`, which did not end although they were killed.
    Exit {
        reason: ExitReason,
        leftover: Vec<ChildId>,
    },
}
