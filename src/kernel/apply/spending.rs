//! How entries change the sums of usage and cost in the state, and the limits that a person raises.
//!
//! The session's sums ([`State::spent`], [`State::usage`]) only grow; only a fork begins again at 0 (`fork.rs`). Each try of a
//! request that used something is counted once: when its report closes it, or when nobody will report any more (a crash, an import,
//! a rollback), and then with all that was reserved for it. The time of a turn is counted in `apply.rs`.
//!
//! A change must keep that. The bill (`bill.rs`) counts the same requests by itself, so a change here must be made there too: the
//! two must agree.

use crate::{
    kernel::{Breach, Charge, Grant, Open, Resource, Spent, State, spent::in_vain},
    words::ids::Seq,
    words::usage::Usage,
};

impl State {
    /// Counts the usage of a request of the running turn.
    pub(super) fn charge(&mut self, charge: Option<Charge>) {
        charge.into_iter().for_each(|charge| self.count(charge.into()));
    }

    /// Counts the usage of requests that belong to the session and to no turn.
    pub(in crate::kernel) fn spend(&mut self, charges: impl IntoIterator<Item = Charge>) {
        charges.into_iter().for_each(|charge| self.spent += charge);
    }

    /// Closes the ticket of a summary that was written or failed, and counts what it used, with the further tries that came
    /// to nothing.
    pub(super) fn settle_summary(&mut self, ticket: Seq, lost: u32, usage: &Usage, estimated: Option<&Usage>) {
        self.usage += *usage;
        let (reserved, price) = match self.open.remove(&ticket) {
            Some(Open::Compaction(open)) => (open.reserved, open.price),
            Some(Open::Branch(open)) => (open.reserved, open.price),
            _ => return,
        };
        self.spend(in_vain(lost, reserved, price).chain(Charge::of(price.as_ref(), usage, estimated)));
    }

    /// Counts usage of the running turn, for the turn and for the session.
    pub(super) fn count(&mut self, spent: Spent) {
        self.in_turn(|turn| turn.spent += spent);
        self.spent += spent;
    }

    /// Raises or lifts a limit, as a person answered a budget ask.
    pub(super) fn grant_more(&mut self, breach: &Breach, grant: &Grant) {
        let (extent, resource) = (breach.extent, breach.resource);
        match grant {
            Grant::Once => self.raise(extent, resource, Some(breach.max.max(breach.missing()))),
            Grant::Always(_) | Grant::Offered { .. } => self.raise(extent, resource, None),
            Grant::Raise(more) => {
                for resource in Resource::ALL {
                    if let Some(by) = more.of(resource) {
                        self.raise(extent, resource, Some(by));
                    }
                }
            }
            Grant::Reject(_) | Grant::Unheard => {}
        }
    }

    /// Counts the requests that were under way when the process ended or the session was imported. Nobody will ever say what they
    /// used, so all that was reserved for them counts. While a turn waits for a go-on, its request is not under way; a summary is.
    pub(super) fn lose_what_was_under_way(&mut self) {
        let (mut of_turn, mut of_session) = (Spent::default(), Spent::default());
        for open in self.open.values() {
            match open {
                Open::Request(request) if !self.waits => of_turn += request.reserved.lost(request.price.as_ref()),
                Open::Compaction(open) => of_session += open.reserved.lost(open.price.as_ref()),
                Open::Branch(open) => of_session += open.reserved.lost(open.price.as_ref()),
                _ => {}
            }
        }
        // The host that had the branch summary written is gone too. If it still brings one, it finds the ticket closed.
        self.open.retain(|_, open| !matches!(open, Open::Branch(_)));
        self.count(of_turn);
        self.spent += of_session;
    }
}
