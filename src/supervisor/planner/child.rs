//! One child, as the planner knows it.

use std::time::Duration;

use crate::supervisor::{
    admin::AdminError,
    intensity::Window,
    planner::{Call, Generation},
    spec::{ChildId, Policy},
    status::Status,
};

/// Who waits for what of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Up,
    Down,
}

/// The first start of a child by hand is not a crash when it fails: the caller is told, and that is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByHand {
    Add,
    Restart,
}

/// Who had a child parked: after crashes it may unpark by itself, by hand it may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Park {
    Exhausted,
    ByHand,
}

pub(super) struct Child {
    pub(super) id: ChildId,
    pub(super) policy: Policy,
    /// It should run; then nobody has it parked.
    pub(super) want: bool,
    pub(super) recycle: bool,
    pub(super) park: Option<Park>,
    /// Forget it as soon as it is stopped.
    pub(super) forget: bool,
    pub(super) status: Status,
    /// A timer runs that ends its back-off, or its time in the park.
    pub(super) timed: bool,
    pub(super) generation: Generation,
    pub(super) incarnation: u64,
    pub(super) by_hand: Option<ByHand>,
    pub(super) waiting: Vec<(Call, Wait)>,
    pub(super) window: Window,
    pub(super) restarts: u64,
    pub(super) attempt: u32,
    pub(super) started_at: Duration,
}

/// A child as others may see it.
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

    /// Its end was asked for, so it is no crash.
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
