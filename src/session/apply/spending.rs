//! What the entries do to the sums of what was used.

use crate::session::{Charge, Open, Spent, State};

impl State {
    /// A request of the running turn used that.
    pub(super) fn charge(&mut self, charge: Option<Charge>) {
        if let Some(charge) = charge {
            self.in_turn(|turn| turn.spent += charge);
        }
        self.spend(charge);
    }

    /// A request of the session used that: one that belongs to no turn.
    pub(super) fn spend(&mut self, charge: Option<Charge>) {
        if let Some(charge) = charge {
            self.spent += charge;
        }
    }

    /// The process ended while requests were under way: nobody will ever say what they used, so all that was held back for
    /// them counts. Where the session waits, nothing was under way.
    pub(super) fn lose_what_was_under_way(&mut self) {
        if self.waits {
            return;
        }
        let (mut of_turn, mut of_session) = (Spent::default(), Spent::default());
        for open in self.open.values() {
            match open {
                Open::Request(request) => of_turn += request.reserved.lost(request.price.as_ref()),
                Open::Compaction(open) => of_session += open.reserved.lost(open.price.as_ref()),
                _ => {}
            }
        }
        self.in_turn(|turn| turn.spent += of_turn);
        self.spent += of_turn;
        self.spent += of_session;
    }
}
