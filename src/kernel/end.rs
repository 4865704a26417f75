//! The end of a session for good: its turn is aborted, waiting messages are withdrawn, its linked children end with it, and
//! its other children become orphans. The tape stays, to be read.

use crate::kernel::{
    Entry, Held, Record, Recorded, Refusal, advance,
    command::{Decide, first},
    decide::Draft,
    tasks,
};

/// A host ends the session for good.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    /// Why, for the record.
    pub reason: String,
}

impl Decide for End {
    fn is() -> &'static str {
        "end"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<End> {
        // Said again to a session that has ended, it says nothing.
        let why = match first(wrote) {
            Some(Record::Ended { why }) => why.clone(),
            _ => String::new(),
        };
        Some(End { reason: why })
    }

    fn name(&self) -> &'static str {
        "end"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        end(draft, &self.reason);
        Ok(Held::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "the session was ended".to_owned()
    }

    fn stops(&self) -> bool {
        true
    }
}

/// Ends the session. Once; again is nothing new.
pub(super) fn end(draft: &mut Draft<'_>, why: &str) {
    if draft.state.closed.is_none() {
        draft.write(None, Record::Ended { why: why.to_owned() });
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
