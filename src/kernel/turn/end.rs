//! The end of a turn by an abort, and the end of a session for good: its turn is aborted, waiting messages are withdrawn, its
//! linked children end with it, and its other children become orphans. The tape stays, to be read.
//!
//! The one entry `ended` decides it; everything else follows from the state, so a crash in between loses nothing. A change must
//! keep [`wind_up`] safe to run again: it runs again with later inputs of the ended session and after a crash, and must write only
//! what is not done yet.

use crate::kernel::{
    CarriedOut, Outcome, Record, Refusal,
    children::tasks,
    draft::{Decide, Draft},
};

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
    abort_turn(draft, &why);
    tasks::part(draft);
}

/// Begins to end the running turn: `advance` then closes what is open in it, so that every call gets a result. Queued messages
/// stay. Linked children are stopped, also those that work while no turn runs.
pub(in crate::kernel) fn abort(draft: &mut Draft<'_>, reason: &str) {
    abort_turn(draft, reason);
    tasks::stop_linked(draft);
}

/// As [`abort`], without the children.
pub(in crate::kernel) fn abort_turn(draft: &mut Draft<'_>, reason: &str) {
    if draft.state.turn.as_ref().is_some_and(|turn| turn.ending.is_none()) {
        draft.write(None, Record::Ending { outcome: Outcome::Aborted { reason: reason.to_owned() } });
    }
}
