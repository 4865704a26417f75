//! How the planner handles administrative calls.

use std::time::Duration;

use crate::supervisor::{
    admin::{AdminError, Answer, Done},
    planner::{
        Action, Call, Key, Planner,
        child::{ByHand, Park, State, Wait},
    },
    spec::{ChildId, Kind, Policy, Restart},
};

/// One administrative call: answered at once, or (`None`) when the child is where it was asked to be.
type ByHandFn = fn(&mut Planner, Call, Key, Duration, &mut Vec<Action>) -> Option<Answer>;

impl Planner {
    pub(super) fn add_by_hand(&mut self, call: Call, id: ChildId, policy: Policy) -> Result<(), AdminError> {
        if self.is_going_down() {
            return Err(AdminError::ShuttingDown);
        }
        self.rules.check_child(&id, &policy)?;
        if let Some(key) = self.keys.get(&id) {
            return Err(match self.children[key].state {
                State::Idle if !self.children[key].want => AdminError::AlreadyPresent,
                State::Parked { .. } => AdminError::Parked,
                _ => AdminError::AlreadyStarted,
            });
        }
        if let Kind::Dynamic { max_children: Some(max) } = self.rules.kind
            && self.children.len() >= max
        {
            return Err(AdminError::MaxChildren { max });
        }
        let key = self.add(id, policy, Some(ByHand::Add));
        self.edit(key, |child| child.waiting.push((call, Wait::Up)));
        Ok(())
    }

    pub(super) fn by_hand(&mut self, call: Call, id: &ChildId, act: ByHandFn, now: Duration, out: &mut Vec<Action>) {
        let answer = match self.keys.get(id).copied() {
            Some(key) => act(self, call, key, now, out),
            None => Some(Err(AdminError::NotFound)),
        };
        if let Some(answer) = answer {
            out.push(Action::Reply { call, answer });
        }
    }

    pub(super) fn terminate(&mut self, call: Call, key: Key, now: Duration, out: &mut Vec<Action>) -> Option<Answer> {
        self.stop_by_hand(call, key, None, now, out)
    }

    pub(super) fn park(&mut self, call: Call, key: Key, now: Duration, out: &mut Vec<Action>) -> Option<Answer> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if self.children[&key].policy.restart == Restart::Temporary {
            return Some(Err(AdminError::Temporary));
        }
        if matches!(self.children[&key].state, State::Parked { until: None }) {
            return Some(Ok(Done::Ok));
        }
        self.stop_by_hand(call, key, Some(Park::ByHand), now, out)
    }

    fn stop_by_hand(
        &mut self,
        call: Call,
        key: Key,
        park: Option<Park>,
        now: Duration,
        out: &mut Vec<Action>,
    ) -> Option<Answer> {
        self.unbooted.remove(&key);
        let forget = park.is_none() && (self.is_dynamic() || self.children[&key].policy.restart == Restart::Temporary);
        let state = self.edit(key, |child| {
            child.want = false;
            child.recycle = false;
            child.by_hand = None;
            child.park = park;
            child.forget |= forget;
            child.state
        });
        match state {
            State::Running | State::Starting | State::Stopping => {
                self.edit(key, |child| child.waiting.push((call, Wait::Down)));
                None
            }
            State::Stuck => Some(Err(AdminError::Unkillable)),
            State::Idle | State::Backoff { .. } | State::Parked { .. } => {
                self.cancel_timer(key, out);
                self.rest(key, now, out);
                Some(Ok(Done::Ok))
            }
        }
    }

    pub(super) fn restart(&mut self, call: Call, key: Key, _: Duration, _: &mut Vec<Action>) -> Option<Answer> {
        let child = &self.children[&key];
        let refused = match child.state {
            _ if self.is_going_down() => AdminError::ShuttingDown,
            State::Idle if !child.want => {
                self.start_by_hand(call, key, Some(ByHand::Restart));
                return None;
            }
            State::Parked { .. } => AdminError::Parked,
            State::Running | State::Stopping => AdminError::Running,
            State::Stuck => AdminError::Unkillable,
            State::Idle | State::Starting | State::Backoff { .. } => child.busy(),
        };
        Some(Err(refused))
    }

    /// Stops the child if it runs, and starts it afresh; this is no crash and counts for nothing.
    pub(super) fn recycle(&mut self, call: Call, key: Key, _: Duration, out: &mut Vec<Action>) -> Option<Answer> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if self.children[&key].policy.restart == Restart::Temporary {
            return Some(Err(AdminError::Temporary));
        }
        match self.children[&key].state {
            State::Stuck => return Some(Err(AdminError::Unkillable)),
            State::Running | State::Starting => self.edit(key, |child| {
                child.recycle = true;
                child.waiting.push((call, Wait::Up));
            }),
            State::Stopping => self.edit(key, |child| {
                child.want = true;
                child.recycle = true;
                child.park = None;
                child.forget = false;
                child.waiting.push((call, Wait::Up));
            }),
            State::Idle | State::Backoff { .. } | State::Parked { .. } => {
                self.cancel_timer(key, out);
                self.start_by_hand(call, key, None);
            }
        }
        None
    }

    pub(super) fn delete(&mut self, _: Call, key: Key, now: Duration, out: &mut Vec<Action>) -> Option<Answer> {
        let child = &self.children[&key];
        let refused = match child.state {
            State::Parked { .. } => None,
            State::Idle if !child.want => None,
            State::Running | State::Stopping => Some(AdminError::Running),
            State::Stuck => Some(AdminError::Unkillable),
            State::Idle | State::Starting | State::Backoff { .. } => Some(child.busy()),
        };
        if let Some(refused) = refused {
            return Some(Err(refused));
        }
        self.cancel_timer(key, out);
        self.edit(key, |child| child.forget = true);
        self.rest(key, now, out);
        Some(Ok(Done::Ok))
    }

    pub(super) fn unpark(&mut self, call: Call, key: Key, _: Duration, out: &mut Vec<Action>) -> Option<Answer> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if !matches!(self.children[&key].state, State::Parked { .. }) {
            return Some(Err(AdminError::NotParked));
        }
        self.cancel_timer(key, out);
        self.start_by_hand(call, key, None);
        None
    }

    fn start_by_hand(&mut self, call: Call, key: Key, by_hand: Option<ByHand>) {
        self.start_anew(key);
        self.edit(key, |child| {
            child.by_hand = by_hand;
            child.waiting.push((call, Wait::Up));
        });
    }

    /// Lets a child that does not run start, with its crashes forgotten.
    pub(super) fn start_anew(&mut self, key: Key) {
        self.edit(key, |child| {
            child.state = State::Idle;
            child.want = true;
            child.park = None;
            child.attempt = 0;
            child.window.clear();
        });
    }
}
