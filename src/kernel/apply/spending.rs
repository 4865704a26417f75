//! How entries change the sums of usage and cost in the state, and the limits that a person raises.
//!
//! The session's sums ([`State::spent`], [`State::usage`]) only grow; only a fork begins again at 0 (`fork.rs`). Each try of a
//! request that used something is counted once: when its report closes it, or when nobody will report any more (a crash, an import,
//! a rollback), and then with all that was reserved for it. The time of a turn is counted in `apply.rs`.
//!
//! Which entry charges what, `bill.rs` says, for the state and for the bill.

use crate::{
    kernel::{BillLine, Breach, Grant, Resource, Spent, State},
    words::{ids::Seq, usage::Usage},
};

impl State {
    /// Counts what an entry charges: for the session, and for the running turn where the request was one of the turn.
    pub(super) fn charge(&mut self, lines: &[BillLine]) {
        for line in lines {
            if line.of_turn {
                self.count(line.charge.into());
            } else {
                self.spent += line.charge;
            }
        }
    }

    /// Closes the ticket of a summary that was written or failed.
    pub(super) fn close_summary(&mut self, ticket: Seq, usage: &Usage) {
        self.usage += *usage;
        self.open.remove(&ticket);
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
}
