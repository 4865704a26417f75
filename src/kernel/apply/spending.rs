//! How entries change the sums of usage and cost.

use crate::{
    kernel::{Breach, Charge, Grant, Open, Resource, Spent, State, spent::in_vain},
    words::ids::Seq,
    words::usage::Usage,
};

impl State {
    /// A request of the running turn used that.
    pub(super) fn charge(&mut self, charge: Option<Charge>) {
        charge.into_iter().for_each(|charge| self.count(charge.into()));
    }

    /// A request of the session used that: one that belongs to no turn.
    pub(in crate::kernel) fn spend(&mut self, charges: impl IntoIterator<Item = Charge>) {
        charges.into_iter().for_each(|charge| self.spent += charge);
    }

    /// A summary was written, or came to nothing: what was used for it, and by the tries before.
    pub(super) fn settle_summary(&mut self, ticket: Seq, lost: u32, usage: &Usage, estimated: Option<&Usage>) {
        self.usage += *usage;
        let (reserved, price) = match self.open.remove(&ticket) {
            Some(Open::Compaction(open)) => (open.reserved, open.price),
            Some(Open::Branch(open)) => (open.reserved, open.price),
            _ => return,
        };
        self.spend(in_vain(lost, reserved, price).chain(Charge::of(price.as_ref(), usage, estimated)));
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
        self.count(of_turn);
        self.spent += of_session;
    }
}
