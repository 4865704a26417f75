//! The queue of a governor: tenants take turns, then the sessions of a tenant; a session's own requests keep their order.
//!
//! Who has been served goes to the end of its ring, and whoever comes anew starts there too, so that nobody gains by leaving and
//! coming back. Rejected: turns by tokens instead of requests, which needs a memory of those who left, or lets a tenant gain by
//! leaving; the limit on tokens holds all of them anyway.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{Asking, Rank, Ticket};

/// How many requests of persons go before one of the background while both wait.
const PERSONS_IN_A_ROW: u32 = 4;

/// See the module. Nothing is kept of a request that has left.
#[derive(Debug, Default)]
pub(super) struct Queue {
    persons: Lane,
    background: Lane,
    /// Persons that were served while background work waited.
    in_a_row: u32,
}

#[derive(Debug, Default)]
struct Lane {
    /// The order of turns. Each tenant that waits is here once.
    turns: VecDeque<Arc<str>>,
    tenants: BTreeMap<Arc<str>, Tenant>,
    waiting: usize,
}

#[derive(Debug, Default)]
struct Tenant {
    turns: VecDeque<Arc<str>>,
    sessions: BTreeMap<Arc<str>, VecDeque<Ticket>>,
}

impl Queue {
    /// How many of this rank, and of those above, wait.
    pub(super) fn waiting(&self, rank: Rank) -> usize {
        match rank {
            Rank::Person => self.persons.waiting,
            Rank::Background => self.persons.waiting + self.background.waiting,
        }
    }

    pub(super) fn push(&mut self, ticket: Ticket, asking: &Asking) {
        let lane = self.lane(asking.rank);
        let tenant = lane.tenants.entry(asking.tenant.clone()).or_insert_with(|| {
            lane.turns.push_back(asking.tenant.clone());
            Tenant::default()
        });
        let session = tenant.sessions.entry(asking.session.clone()).or_insert_with(|| {
            tenant.turns.push_back(asking.session.clone());
            VecDeque::new()
        });
        session.push_back(ticket);
        lane.waiting += 1;
    }

    /// Who is next.
    pub(super) fn head(&self, background_may: bool) -> Option<(Ticket, Rank)> {
        let (person, background) = (self.persons.head(), self.background.head().filter(|_| background_may));
        let is_backgrounds_turn = person.is_none() || self.in_a_row >= PERSONS_IN_A_ROW;
        match background {
            Some(ticket) if is_backgrounds_turn => Some((ticket, Rank::Background)),
            _ => person.map(|ticket| (ticket, Rank::Person)),
        }
    }

    /// Takes out the next of this rank.
    pub(super) fn take(&mut self, rank: Rank) {
        self.in_a_row = match rank {
            Rank::Person if self.background.waiting > 0 => self.in_a_row.saturating_add(1),
            _ => 0,
        };
        self.lane(rank).take();
    }

    pub(super) fn remove(&mut self, ticket: Ticket, asking: &Asking) {
        self.lane(asking.rank).remove(ticket, asking);
    }

    fn lane(&mut self, rank: Rank) -> &mut Lane {
        match rank {
            Rank::Person => &mut self.persons,
            Rank::Background => &mut self.background,
        }
    }

    /// Whether nothing at all is kept.
    #[cfg(test)]
    pub(super) fn is_bare(&self) -> bool {
        [&self.persons, &self.background]
            .iter()
            .all(|lane| lane.turns.is_empty() && lane.tenants.is_empty() && lane.waiting == 0)
    }
}

impl Lane {
    fn head(&self) -> Option<Ticket> {
        let tenant = self.tenants.get(self.turns.front()?)?;
        tenant.sessions.get(tenant.turns.front()?)?.front().copied()
    }

    fn take(&mut self) {
        let Some(name) = self.turns.pop_front() else { return };
        let Some(tenant) = self.tenants.get_mut(&name) else { return };
        if let Some(session) = tenant.turns.pop_front()
            && let Some(tickets) = tenant.sessions.get_mut(&session)
        {
            tickets.pop_front();
            self.waiting -= 1;
            if tickets.is_empty() {
                tenant.sessions.remove(&session);
            } else {
                tenant.turns.push_back(session);
            }
        }
        if tenant.sessions.is_empty() {
            self.tenants.remove(&name);
        } else {
            self.turns.push_back(name);
        }
    }

    fn remove(&mut self, ticket: Ticket, asking: &Asking) {
        let Some(tenant) = self.tenants.get_mut(&asking.tenant) else { return };
        let Some(tickets) = tenant.sessions.get_mut(&asking.session) else { return };
        let Some(at) = tickets.iter().position(|known| *known == ticket) else { return };
        tickets.remove(at);
        self.waiting -= 1;
        if tickets.is_empty() {
            tenant.sessions.remove(&asking.session);
            tenant.turns.retain(|session| *session != asking.session);
        }
        if tenant.sessions.is_empty() {
            self.tenants.remove(&asking.tenant);
            self.turns.retain(|tenant| *tenant != asking.tenant);
        }
    }
}
