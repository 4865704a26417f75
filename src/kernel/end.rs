//! The end of a session for good: its turn is aborted, waiting messages are withdrawn, its linked children end with it, and
//! its other children become orphans. The tape stays, to be read.

use crate::kernel::{Held, Record, Refusal, advance, command::Decide, decide::Draft, tasks};

/// A host ends the session for good.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    /// Why, for the record.
    pub reason: String,
}

impl Decide for End {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        if draft.state.closed.is_none() {
            draft.write(None, Record::Ended { why: self.reason.clone() });
        }
        Ok(Held::Done(draft.state.seq))
    }
}

/// Does what follows from the end, as far as it is not done: nothing of it is lost by a crash in between.
pub(super) fn wind_up(draft: &mut Draft<'_>) {
    let Some(why) = draft.state.closed.clone() else { return };
    let waiting = draft.state.queue.iter().chain(&draft.state.steering);
    let ids: Vec<_> = waiting.map(|waiting| waiting.message.id.clone()).collect();
    for id in ids {
        draft.write(None, Record::Withdrawn { id });
    }
    advance::abort_turn(draft, &why);
    tasks::part(draft);
}
