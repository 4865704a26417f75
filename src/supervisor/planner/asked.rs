//! How the planner handles administrative calls about one child: start, terminate, restart, recycle, delete, park and unpark.
//!
//! A change must keep three rules.
//! - A call gets exactly one reply, because its caller waits for it: at once, or when the child has reached the requested state,
//!   has failed to start, or can no longer reach that state.
//! - A stop that a call asked for counts against no restart budget, and neither does a failed start of a child that is marked
//!   [`ByHand`]. A failed start after a recycle or an unpark is handled like any other, unless that mark is still set.
//! - A supervisor that goes down takes only terminate and delete, because no child may start then; after its exit it takes no call
//!   (`planner.rs`).

use crate::supervisor::{
    admin::{AdminError, Done},
    planner::{
        Admin, Call, Key, Planner,
        child::{ByHand, Park, Wait},
    },
    spec::{ChildId, Kind, Policy, Restart},
    status::Status,
};

/// The reply to a call; `None` if it comes later, when the child has reached the state that was asked for.
type Asked = Result<Option<Done>, AdminError>;

impl Planner {
    pub(super) fn add_by_hand(&mut self, call: Call, id: ChildId, policy: Policy) -> Asked {
        if self.is_going_down() {
            return Err(AdminError::ShuttingDown);
        }
        self.rules.check_child(&id, &policy)?;
        if let Some(key) = self.keys.get(&id) {
            return Err(match self.children[key].status {
                Status::Stopped if !self.children[key].want => AdminError::AlreadyPresent,
                Status::Parked => AdminError::Parked,
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
        Ok(None)
    }

    pub(super) fn asked(&mut self, call: Call, id: &ChildId, what: Admin) -> Asked {
        let key = *self.keys.get(id).ok_or(AdminError::NotFound)?;
        let child = &self.children[&key];
        let starts = !matches!(what, Admin::Terminate | Admin::Delete);
        if starts && self.is_going_down() {
            return Err(AdminError::ShuttingDown);
        }
        if matches!(what, Admin::Park | Admin::Recycle) && child.policy.restart == Restart::Temporary {
            return Err(AdminError::Temporary);
        }
        match (what, child.status) {
            (Admin::Park, Status::Parked) if !child.timed => return Ok(Some(Done::Ok)),
            (Admin::Park, _) => return self.stop_by_hand(call, key, Some(Park::ByHand)),
            (Admin::Terminate, _) => return self.stop_by_hand(call, key, None),
            (Admin::Unpark, Status::Parked) => self.start_by_hand(call, key, None),
            (Admin::Unpark, _) => return Err(AdminError::NotParked),
            (_, Status::Unkillable) => return Err(AdminError::Unkillable),
            // Recycling stops the child and starts it again. This is not a crash and does not count as one.
            (Admin::Recycle, Status::Running | Status::Starting) => self.edit(key, |child| {
                child.recycle = true;
                child.waiting.push((call, Wait::Up));
            }),
            (Admin::Recycle, Status::Stopping) => self.edit(key, |child| {
                child.want = true;
                child.recycle = true;
                child.park = None;
                child.forget = false;
                child.waiting.push((call, Wait::Up));
            }),
            (Admin::Recycle, Status::Stopped | Status::Backoff | Status::Parked) => self.start_by_hand(call, key, None),
            (Admin::Restart, Status::Parked) => return Err(AdminError::Parked),
            (Admin::Restart, Status::Stopped) if !child.want => self.start_by_hand(call, key, Some(ByHand::Restart)),
            (Admin::Delete, Status::Stopped | Status::Parked) if !child.want => {
                self.edit(key, |child| child.forget = true);
                self.rest(key);
                return Ok(Some(Done::Ok));
            }
            (Admin::Restart | Admin::Delete, Status::Running | Status::Stopping) => return Err(AdminError::Running),
            (Admin::Restart | Admin::Delete, _) => return Err(child.busy()),
        }
        Ok(None)
    }

    fn stop_by_hand(&mut self, call: Call, key: Key, park: Option<Park>) -> Asked {
        self.unbooted.remove(&key);
        let forget = park.is_none() && (self.is_dynamic() || self.children[&key].policy.restart == Restart::Temporary);
        let status = self.edit(key, |child| {
            child.want = false;
            child.recycle = false;
            child.by_hand = None;
            child.park = park;
            child.forget |= forget;
            child.status
        });
        match status {
            Status::Running | Status::Starting | Status::Stopping => {
                self.edit(key, |child| child.waiting.push((call, Wait::Down)));
                Ok(None)
            }
            Status::Unkillable => Err(AdminError::Unkillable),
            Status::Stopped | Status::Backoff | Status::Parked => {
                self.rest(key);
                Ok(Some(Done::Ok))
            }
        }
    }

    fn start_by_hand(&mut self, call: Call, key: Key, by_hand: Option<ByHand>) {
        self.start_anew(key);
        self.edit(key, |child| {
            child.by_hand = by_hand;
            child.waiting.push((call, Wait::Up));
        });
    }

    /// Lets a child that does not run start again. Its own restart window and its backoff are reset; the supervisor's window is
    /// not.
    pub(super) fn start_anew(&mut self, key: Key) {
        self.cancel_timer(key);
        self.edit(key, |child| {
            child.status = Status::Stopped;
            child.want = true;
            child.park = None;
            child.attempt = 0;
            child.window.clear();
        });
    }
}
