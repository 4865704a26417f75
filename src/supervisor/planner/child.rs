//! One child, as the planner knows it.

use std::time::Duration;

use crate::supervisor::{
    admin::{AdminError, Answer},
    intensity::Window,
    planner::{Action, Call, Generation},
    spec::{ChildId, Policy},
};

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Starting,
    Running,
    Stopping,
    Stuck,
    Backoff {
        until: Duration,
    },
    /// Kept stopped; until then, where it unparks by itself.
    Parked {
        until: Option<Duration>,
    },
}

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
    pub(super) want: bool,
    pub(super) recycle: bool,
    pub(super) park: Option<Park>,
    /// Forget it as soon as it is idle.
    pub(super) forget: bool,
    pub(super) state: State,
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
    pub(crate) state: State,
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
            state: State::Idle,
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
        self.want || !matches!(self.state, State::Idle | State::Parked { .. })
    }

    pub(super) fn is_restarting(&self) -> bool {
        let again = self.attempt > 0 && self.state != State::Running;
        self.want && (matches!(self.state, State::Backoff { .. }) || again)
    }

    pub(super) fn busy(&self) -> AdminError {
        if self.is_restarting() { AdminError::Restarting } else { AdminError::Running }
    }

    pub(super) fn view(&self) -> ChildView {
        ChildView {
            state: self.state,
            restarting: self.is_restarting(),
            incarnation: self.incarnation,
            restarts: self.restarts,
            in_window: self.window.len(),
        }
    }

    /// Answers those who wait for this.
    pub(super) fn answer(&mut self, what: Wait, answer: Answer, out: &mut Vec<Action>) {
        self.waiting.retain(|(call, wait)| {
            if *wait == what {
                out.push(Action::Reply { call: *call, answer: answer.clone() });
            }
            *wait != what
        });
    }
}
