//! The account of a budget: how much is used, reserved and left. Arithmetic on values; `spending.rs` decides what follows from
//! it.
//!
//! ```text
//! limit = used + reserved + left      (left is 0 if a request used more than was reserved for it)
//!         │      └─ reserved for open tickets: requests, results that are on their way, grants to children
//!         └─ by the session and by its ended tasks; what was reserved at a crash; grants of which nobody gave account
//! ```
//!
//! No counter has the reserved amounts: they are computed from the open tickets, so an amount cannot get lost and cannot be given
//! back twice. A child's grant is a ticket on the parent's tape and a limit on the child's own tape. So parent and child together
//! cannot be granted more than the parent had. Time is the exception throughout: each child may use all that is left, or the less
//! that it asks for, and time is never divided or reserved.
//!
//! A change must not add a counter of reserved amounts, and must keep the stored form of [`Account`], which is part of every
//! anchor. Sums saturate and never wrap.

use crate::{
    kernel::{Account, Breach, Extent, Limits, Open, Resource, Spent, State},
    words::ids::Millis,
};

/// The most children at work among which what is left is divided. Places in the queue of tasks count on top.
const SHARES_MAX: usize = 32;

/// How many requests of the size of its first one a child should be able to make with its share.
const REQUESTS: u64 = 8;

impl Spent {
    /// The amount of one resource.
    #[must_use]
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Tokens => self.usage.total(),
            Resource::Usd => self.cost.known.0,
            Resource::TimeMs => self.time_ms,
            Resource::Calls => self.calls,
            Resource::Tasks => self.tasks,
            Resource::Bytes => self.bytes,
        }
    }
}

/// A limit, and how much of it is used and reserved.
struct Room {
    extent: Extent,
    max: u64,
    used: u64,
    reserved: u64,
}

impl Room {
    fn left(&self) -> u64 {
        self.max.saturating_sub(self.used).saturating_sub(self.reserved)
    }

    fn breach(&self, resource: Resource, needs: u64) -> Breach {
        let Room { extent, max, used, reserved } = *self;
        Breach { resource, extent, max, used, reserved, needs }
    }
}

impl State {
    /// What was used of one resource since the session began: by the session, by its ended tasks, and grants of which nobody gave
    /// account. Of time only the session's own counts, because children work beside it.
    fn used(&self, resource: Resource) -> u64 {
        let own = self.spent.of(resource);
        match resource {
            Resource::TimeMs => own,
            _ => own
                .saturating_add(self.spent_by_tasks.of(resource))
                .saturating_add(self.account.written_off.of(resource).unwrap_or(0)),
        }
    }

    /// What was used of the parent's grant.
    fn used_of_grant(&self, resource: Resource) -> u64 {
        self.used(resource).saturating_sub(self.account.base_used.of(resource).unwrap_or(0))
    }

    /// What is reserved for open tickets: of the turn alone, or of the session with its children.
    fn reserved(&self, resource: Resource, extent: Extent) -> u64 {
        let reserved = self.open.values().map(|open| match open {
            Open::Compaction(_) | Open::Branch(_) | Open::Task(_) if extent == Extent::Turn => 0,
            Open::Call(call) if resource == Resource::Bytes => call.bytes.unwrap_or(0),
            // Time is passed on to children, and not divided among them.
            Open::Task(task) if resource != Resource::TimeMs => task.grant.of(resource).unwrap_or(0),
            open => open.lost().map_or(0, |lost| Spent::from(lost).of(resource)),
        });
        reserved.fold(0, u64::saturating_add)
    }

    /// The limits of one resource that hold now, with what is used and reserved of each. `clock` is how long the turn's clock has
    /// run since it was started, in milliseconds.
    fn rooms(&self, resource: Resource, clock: u64) -> Vec<Room> {
        let clock = if resource == Resource::TimeMs { clock } else { 0 };
        let room = |extent, max: Option<u64>, used: u64| {
            max.map(|max| Room {
                extent,
                max,
                used: used.saturating_add(clock),
                reserved: self.reserved(resource, extent),
            })
        };
        let granted = self.account.grant.and_then(|grant| grant.of(resource));
        let of_grant = room(Extent::Grant, granted, self.used_of_grant(resource));
        let of_session = room(Extent::Session, self.settings.budget.session.of(resource), self.used(resource));
        let of_turn = self.turn.as_ref().map(|turn| (turn.limits.of(resource), turn.spent.of(resource)));
        let of_turn = of_turn.and_then(|(max, used)| room(Extent::Turn, max, used));
        [of_grant, of_session, of_turn].into_iter().flatten().collect()
    }

    /// What is left of each limited resource, by the session's own limits and by the parent's grant.
    #[must_use]
    pub fn left(&self) -> Limits {
        Limits::each(|resource| {
            let rooms = self.rooms(resource, 0);
            rooms.iter().filter(|room| room.extent != Extent::Turn).map(Room::left).min()
        })
    }

    /// What is left of one resource for the next work of the turn, the turn's limit included; `None` where nothing limits it.
    pub(in crate::kernel) fn room(&self, resource: Resource) -> Option<u64> {
        self.rooms(resource, 0).iter().map(Room::left).min()
    }

    /// The first limit that does not allow `needs` more of the resource.
    pub(in crate::kernel) fn breach(&self, resource: Resource, needs: u64) -> Option<Breach> {
        self.breach_by(resource, needs, |_| true)
    }

    /// The same without the turn's limit, for a summary or a child: they belong to no turn.
    pub(in crate::kernel) fn breach_of_session(&self, resource: Resource, needs: u64) -> Option<Breach> {
        self.breach_by(resource, needs, |extent| extent != Extent::Turn)
    }

    fn breach_by(&self, resource: Resource, needs: u64, whose: impl Fn(Extent) -> bool) -> Option<Breach> {
        let rooms = self.rooms(resource, 0);
        let room = rooms.iter().find(|room| whose(room.extent) && room.left() < needs)?;
        Some(room.breach(resource, needs))
    }

    /// Whether more tokens or money are used and reserved than one of the limits of the given extents allows.
    pub(in crate::kernel) fn is_overdrawn(&self, whose: impl Fn(Extent) -> bool) -> bool {
        let rooms = [Resource::Tokens, Resource::Usd].into_iter().flat_map(|resource| self.rooms(resource, 0));
        rooms.filter(|room| whose(room.extent)).any(|room| room.used.saturating_add(room.reserved) > room.max)
    }

    /// The limit of time that is over at `now`; `None` if none is.
    pub(in crate::kernel) fn time_is_over(&self, now: Millis) -> Option<Breach> {
        let clock = self.account.since.map_or(0, |since| now.0.saturating_sub(since.0));
        let rooms = self.rooms(Resource::TimeMs, clock);
        let room = rooms.iter().find(|room| room.used >= room.max)?;
        Some(room.breach(Resource::TimeMs, 0))
    }

    /// The moment at which the first limit of time will be over; `None` while the clock stands still or no time is limited.
    pub(crate) fn time_is_over_at(&self) -> Option<Millis> {
        let since = self.account.since?;
        let left = self.rooms(Resource::TimeMs, 0).iter().map(Room::left).min()?;
        Some(since.plus(std::time::Duration::from_millis(left)))
    }

    /// The grant for a child, or the limit that does not allow it. A child that names an amount gets that amount, also where this
    /// session has no limit; otherwise it gets a share of what is left ([`share`]). Of time it gets all that is left, or less if it
    /// names less. `request` is what the child's first request needs of tokens and money; nothing where that is not known.
    pub(in crate::kernel) fn grant_for(
        &self,
        asked: &Limits,
        request: &Limits,
        may_have_children: bool,
    ) -> Result<Limits, Breach> {
        // Without this bound, a session that may have very many children would grant shares of nothing.
        let free = self.settings.task_width_max.saturating_sub(self.tasks_begun()).min(SHARES_MAX);
        let free = free.saturating_add(self.task_queue().saturating_sub(self.tasks_queued())) as u64;
        let mut grant = Limits::default();
        for resource in Resource::ALL {
            let rooms = self.rooms(resource, 0);
            let tightest = rooms.iter().filter(|room| room.extent != Extent::Turn).min_by_key(|room| room.left());
            let Some(room) = tightest else {
                grant.set(resource, asked.of(resource));
                continue;
            };
            // This child is one of them.
            let left = room.left().saturating_sub(u64::from(resource == Resource::Tasks));
            let given = match (asked.of(resource), resource) {
                (Some(asked), Resource::TimeMs) => asked.min(left),
                (None, Resource::TimeMs) => left,
                (Some(asked), _) => asked,
                (None, Resource::Tasks) if !may_have_children => 0,
                (None, _) => share(left, free + 1, request.of(resource).unwrap_or(0)),
            };
            let needed = matches!(resource, Resource::Tokens | Resource::Usd) && given == 0;
            if given > left || needed {
                return Err(room.breach(resource, given.max(1)));
            }
            grant.set(resource, Some(given));
        }
        Ok(grant)
    }

    /// The account that the end of a task gives to the parent: what was used since the grant, and what is still lent to children of
    /// this session or written off.
    pub(in crate::kernel) fn account_for_task(&self) -> (Spent, Limits) {
        let spent = self.spent_of_task();
        let out = Limits::each(|resource| {
            let written_off = self.used_of_grant(resource).saturating_sub(spent.of(resource));
            Some(self.reserved(resource, Extent::Grant).saturating_add(written_off)).filter(|out| *out > 0)
        });
        (spent, out)
    }

    /// What the session and its ended tasks used since its present task was given to it.
    pub(crate) fn spent_of_task(&self) -> Spent {
        self.spent_in_all().since(&self.account.base)
    }

    /// Counts grants as used that nobody gives account of.
    pub(in crate::kernel) fn write_off(&mut self, grant: &Limits) {
        self.account.written_off = with_more(&self.account.written_off, |resource| grant.of(resource).unwrap_or(0));
    }

    /// What is left of the limits of one extent.
    fn left_of(&self, extent: Extent) -> Limits {
        Limits::each(|resource| {
            let rooms = self.rooms(resource, 0);
            rooms.iter().find(|room| room.extent == extent).map(Room::left)
        })
    }

    /// Turns the account into that of a fork: its limits are what is left of the session's limits, and it counts from 0. A fork of
    /// a child gets nothing of the parent's grant except time; the host that forks the child says what the fork may use (decision
    /// 0011).
    pub(in crate::kernel) fn leave_what_is_left(&mut self) {
        let (session, grant) = (self.left_of(Extent::Session), self.left_of(Extent::Grant));
        let left = Limits::each(|resource| match (session.of(resource), grant.of(resource)) {
            (own, None) => own,
            // Time is passed on, and not divided.
            (own, Some(left)) if resource == Resource::TimeMs => Some(own.map_or(left, |own| own.min(left))),
            (_, Some(_)) => Some(0),
        });
        if self.settings.budget.session != left {
            std::sync::Arc::make_mut(&mut self.settings).budget.session = left;
        }
        self.account = Account::default();
    }

    /// Counts what a merged fork used. The fork did not use the parent's grant, so its usage is not counted against the grant, and
    /// not in the account that the parent is given.
    pub(in crate::kernel) fn count_fork(&mut self, spent: Spent) {
        self.spent_by_tasks += spent;
        if self.account.grant.is_some() {
            self.account.base += spent;
            self.account.base_used = with_more(&self.account.base_used, |resource| spent.of(resource));
        }
    }

    /// A new child's whole budget is its grant: what its options ask for is in the grant, and a second limit beside it would be
    /// one that a person could be asked to raise.
    pub(crate) fn begin_with_grant(&mut self, grant: &Limits) {
        std::sync::Arc::make_mut(&mut self.settings).budget.session = Limits::default();
        self.take_grant(grant);
    }

    /// Takes a grant that counts from now on. If there is an older grant, the new one is no more than what is left of the older.
    pub(in crate::kernel) fn take_grant(&mut self, grant: &Limits) {
        let left = self.account.grant.map(|_| self.left_of(Extent::Grant));
        let grant = left.map_or(*grant, |left| left.or_less(grant));
        self.account.grant = (!grant.is_none()).then_some(grant);
        self.account.base = self.spent_in_all();
        self.account.base_used = Limits::each(|resource| Some(self.used(resource)).filter(|used| *used > 0));
    }

    /// The task is over and accounted for: nothing is left of its grant.
    pub(in crate::kernel) fn close_grant(&mut self) {
        if let Some(grant) = self.account.grant {
            let used = |resource| self.used_of_grant(resource).saturating_add(self.reserved(resource, Extent::Grant));
            let closed = Limits::each(|resource| grant.of(resource).map(|max| max.min(used(resource))));
            self.account.grant = Some(closed);
        }
    }

    /// Raises a limit by an amount, or lifts it with `None`.
    pub(in crate::kernel) fn raise(&mut self, extent: Extent, resource: Resource, by: Option<u64>) {
        let limits = match (extent, &mut self.turn) {
            (Extent::Turn, Some(turn)) => &mut std::sync::Arc::make_mut(turn).limits,
            (Extent::Session, _) => &mut std::sync::Arc::make_mut(&mut self.settings).budget.session,
            // Nobody but the parent can give more than it granted.
            _ => return,
        };
        let raised = limits.of(resource).zip(by).map(|(max, by)| max.saturating_add(by));
        limits.set(resource, raised);
    }
}

/// The share of a child that names no amount: an equal one of so many `shares` (one for each child that there may be beside those
/// there are, and one for this session), or more where that is too little to work with. A child can work with [`REQUESTS`] times
/// what its first request needs; where that is more than half of what is left it gets the half, but never less than one request
/// needs. The result may be more than is left: then there is no room for the child.
fn share(left: u64, shares: u64, request: u64) -> u64 {
    let equal = (left / shares.max(1)).max(1).min(left);
    let to_work_with = request.saturating_mul(REQUESTS).min(left / 2);
    equal.max(to_work_with).max(request)
}

/// Adds to the amounts of each resource except time: time is passed on whole, so none of it is ever written off.
fn with_more(amounts: &Limits, more: impl Fn(Resource) -> u64) -> Limits {
    Limits::each(|resource| {
        let more = if resource == Resource::TimeMs { 0 } else { more(resource) };
        Some(amounts.of(resource).unwrap_or(0).saturating_add(more)).filter(|amount| *amount > 0)
    })
}

#[cfg(test)]
mod tests;
