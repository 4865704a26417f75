//! The end of a session for good: its turn is aborted, waiting messages are withdrawn, its linked children end with it, and its
//! other children become orphans. The tape stays, to be read.
//!
//! The one entry `ended` decides it; everything else follows from the state, so a crash in between loses nothing. A change must
//! keep [`wind_up`] safe to run again: it runs again with later inputs of the ended session and after a crash, and must write only
//! what is not done yet.

use crate::kernel::{CarriedOut, Record, Refusal, children::tasks, decide::Draft, input::Decide, turn::advance};

/// A host ends the session for good.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    /// Why, for the record.
    pub reason: String,
}

impl Decide for End {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if draft.state.closed.is_none() {
            draft.write(None, Record::Ended { why: self.reason.clone() });
        }
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "the session was ended".to_owned()
    }

    fn ends_the_turn(&self) -> bool {
        true
    }
}

/// Writes what follows from the end, as far as it is not written yet.
pub(in crate::kernel) fn wind_up(draft: &mut Draft<'_>) {
    let Some(why) = draft.state.closed.clone() else { return };
    let waiting = draft.state.queue.iter().chain(&draft.state.steering);
    let ids: Vec<_> = waiting.map(|waiting| waiting.message.id.clone()).collect();
    for id in ids {
        draft.write(None, Record::Withdrawn { id });
    }
    advance::abort_turn(draft, &why);
    tasks::part(draft);
}
