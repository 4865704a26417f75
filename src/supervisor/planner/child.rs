//! One child, as the planner (the part of a supervisor that decides) knows it: what it should be, what it is, its counts, and the
//! calls that wait for it.
//!
//! A plain value: it starts and stops nothing. A change must leave it to `Planner::edit` to change `want`, `recycle` and `status`,
//! because `edit` keeps the planner's sets in step with them; the planner finds the children to start and to stop in these sets.

use std::time::Duration;

use crate::supervisor::{
    admin::AdminError,
    intensity::Window,
    planner::{Call, Generation},
    spec::{ChildId, Policy},
    status::Status,
};

/// What a call waits for: that the child is up, or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Up,
    Down,
}

/// Marks a start by hand (`start_child` or `restart_child`) until the child is up or is stopped by hand. If this start fails, the
/// caller gets the error; the failure is reported but counts against no restart budget, and the start is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByHand {
    Add,
    Restart,
}

/// Why a child is parked. After crashes the planner may unpark it; parked by hand, it waits for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Park {
    Exhausted,
    ByHand,
}

/// See the module.
pub(super) struct Child {
    pub(super) id: ChildId,
    pub(super) policy: Policy,
    /// Whether it should run. A parked child should not.
    pub(super) want: bool,
    /// Whether the running incarnation should be stopped and a new one started.
    pub(super) recycle: bool,
    /// Why it is parked, or will be as soon as it has stopped; `None` if it is not to be parked.
    pub(super) park: Option<Park>,
    /// Whether the child is forgotten as soon as it is stopped and should not run.
    pub(super) forget: bool,
    pub(super) status: Status,
    /// Whether a timer runs that ends its backoff or its parking.
    pub(super) timed: bool,
    /// The generation of its newest start or timer.
    pub(super) generation: Generation,
    /// The number of its newest incarnation; 0 before the first.
    pub(super) incarnation: u64,
    /// Set while a start by hand is under way.
    pub(super) by_hand: Option<ByHand>,
    /// The calls that wait for it.
    pub(super) waiting: Vec<(Call, Wait)>,
    /// Its crashes that still counted at the newest one.
    pub(super) window: Window,
    /// Restarts after ends and failed starts that count as crashes, in all.
    pub(super) restarts: u64,
    /// Restarts since the last run that was long enough to reset the backoff, or since it was started by hand or unparked.
    pub(super) attempt: u32,
    /// When it last came up, on the planner's time.
    pub(super) started_at: Duration,
}

/// A copy of the facts about a child that the driver shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChildView {
    pub(crate) status: Status,
    pub(crate) restarting: bool,
    pub(crate) incarnation: u64,
    pub(crate) restarts: u64,
    pub(crate) in_window: u32,
}

impl Child {
    pub(super) fn new(id: ChildId, policy: Policy, by_hand: Option<ByHand>) -> Child {
        Child {
            id,
            policy,
            want: true,
            recycle: false,
            park: None,
            forget: false,
            status: Status::Stopped,
            timed: false,
            generation: Generation(0),
            incarnation: 0,
            by_hand,
            waiting: Vec::new(),
            window: Window::default(),
            restarts: 0,
            attempt: 0,
            started_at: Duration::ZERO,
        }
    }

    /// Whether its end was asked for, by a call or by the planner. Such an end does not count against a restart budget.
    pub(super) fn is_let_go(&self) -> bool {
        !self.want || self.recycle
    }

    pub(super) fn is_alive(&self) -> bool {
        self.want || self.status.is_alive()
    }

    pub(super) fn is_restarting(&self) -> bool {
        let again = self.attempt > 0 && self.status != Status::Running;
        self.want && (self.status == Status::Backoff || again)
    }

    pub(super) fn busy(&self) -> AdminError {
        if self.is_restarting() { AdminError::Restarting } else { AdminError::Running }
    }

    pub(super) fn view(&self) -> ChildView {
        ChildView {
            status: self.status,
            restarting: self.is_restarting(),
            incarnation: self.incarnation,
            restarts: self.restarts,
            in_window: self.window.len(),
        }
    }
}
