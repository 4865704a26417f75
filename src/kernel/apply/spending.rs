//! How entries change the sums of usage and cost.

use crate::kernel::{Breach, Charge, Grant, Open, Resource, Spent, State};

impl State {
    /// A request of the running turn used that.
    pub(super) fn charge(&mut self, charge: Option<Charge>) {
        if let Some(charge) = charge {
            self.in_turn(|turn| turn.spent += charge);
        }
        self.spend(charge);
    }

    /// A request of the session used that: one that belongs to no turn.
    pub(in crate::kernel) fn spend(&mut self, charge: Option<Charge>) {
        if let Some(charge) = charge {
            self.spent += charge;
        }
    }

    /// Requests of the session used that.
    pub(in crate::kernel) fn spend_all(&mut self, charges: impl Iterator<Item = Charge>) {
        charges.for_each(|charge| self.spend(Some(charge)));
    }

    /// Something was used by the running turn.
    pub(super) fn count(&mut self, spent: Spent) {
        self.in_turn(|turn| turn.spent += spent);
        self.spent += spent;
    }

    /// A person was asked for more, and said so.
    pub(super) fn grant_more(&mut self, breach: &Breach, grant: &Grant) {
        let (extent, resource) = (breach.extent, breach.resource);
        match grant {
            Grant::Once => self.raise(extent, resource, Some(breach.max.max(breach.missing()))),
            Grant::Always(_) => self.raise(extent, resource, None),
            Grant::Raise(more) => {
                for resource in Resource::ALL {
                    if let Some(by) = more.of(resource) {
                        self.raise(extent, resource, Some(by));
                    }
                }
            }
            Grant::Reject(_) => {}
        }
    }

    /// The process ended while requests were under way: nobody will ever say what they used, so all that was held back for
    /// them counts. Where the turn waits to be told to go on, its request was not; summaries are written all the same.
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
        // Whoever had it written is gone too; what they may still bring finds its ticket closed.
        self.open.retain(|_, open| !matches!(open, Open::Branch(_)));
        self.in_turn(|turn| turn.spent += of_turn);
        self.spent += of_turn;
        self.spent += of_session;
    }
}
