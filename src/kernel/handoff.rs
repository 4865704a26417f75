//! A handoff begins an *anchor*: a named point of the tape that carries the whole state, so that the session opens from there. Each
//! anchor names the anchor before it. (A fork that was exported is one tape without its own first anchor: there the number of the
//! next one counts it all the same.)
//!
//! The runtime asks for an anchor after each compaction. A host begins one with [`Session::handoff`](crate::Session::handoff),
//! under a name of its own, and with a summary if one is to take the place of the conversation so far. An anchor is one entry, the
//! whole state, alone in its append. So a crash leaves the anchor whole or not begun.
//!
//! A change must keep that the entry stands alone ([`Command::stands_alone`](crate::kernel::Command)), and that the names that the
//! runtime gives to anchors differ within a tape: the tape refuses a name that its own files have already. [`AnchorMark`] is a
//! stored format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{CarriedOut, Record, Refusal, State, compact, decide::Draft, input::Decide},
    tape::anchor_name_of,
    words::ids::Seq,
};

/// The runtime begins an anchor after a compaction: the whole state goes on the tape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeginAnchor;

impl Decide for BeginAnchor {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let mut whole = draft.state.clone();
        // Named after the compaction that it follows, and its own entry, because no two anchors may have the same name.
        whole.anchor = Some(whole.next_mark(format!("compaction-{}-{}", whole.context.compactions, whole.seq.next())));
        Ok(CarriedOut::Done(draft.write(None, Record::State(Arc::new(whole)))))
    }
}

/// A host begins an anchor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandOff {
    /// The name of the anchor.
    pub name: String,
    /// The summary that takes the place of the conversation so far; `None` to keep the conversation.
    pub summary: Option<Arc<str>>,
}

impl Decide for HandOff {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        if let Some(turn) = &draft.state.turn {
            return Err(Refusal::Busy { turn: turn.id });
        }
        if let Some((ticket, _)) = draft.state.compaction() {
            return Err(Refusal::Compacting { ticket });
        }
        let mut whole = draft.state.clone();
        if let Some(summary) = self.summary() {
            let whole_history = compact::in_place_of_all(draft, summary);
            whole.take_compacted(Seq::ZERO, &Arc::new(whole_history));
            // The entry of this handoff: no compaction before it can be undone, because the items that it kept are gone.
            Arc::make_mut(&mut whole.context).newest = draft.state.seq.next();
        }
        whole.anchor = Some(whole.next_mark(anchor_name_of(&self.name)));
        Ok(CarriedOut::Done(draft.write(None, Record::State(Arc::new(whole)))))
    }
}

impl HandOff {
    /// The summary that takes the place of the conversation; `None` if there is none or it is blank.
    pub(super) fn summary(&self) -> Option<&Arc<str>> {
        self.summary.as_ref().filter(|summary| !summary.trim().is_empty())
    }
}

/// The name of the first file of a tape.
const FIRST: &str = "session-start";

/// The anchor that a session goes on from, linked to the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AnchorMark {
    /// The number of the tape's file that the anchor begins, from 1.
    pub number: u64,
    /// The name of the anchor.
    pub name: String,
    /// The number of the file before it.
    pub(crate) before: u64,
    /// The name of the anchor before it.
    pub(crate) before_name: String,
    /// The last entry of the file before it.
    pub(crate) before_last: Seq,
}

impl State {
    /// The mark of an anchor that begins behind the newest entry.
    fn next_mark(&self, name: String) -> Arc<AnchorMark> {
        let (before, before_name) = match &self.anchor {
            Some(mark) => (mark.number, mark.name.clone()),
            None => (1, FIRST.to_owned()),
        };
        let (number, before_last) = (before.saturating_add(1), self.seq);
        Arc::new(AnchorMark { number, name, before, before_name, before_last })
    }

    /// Marks the file of a fork: it follows the parent's file in which the fork was made.
    pub(super) fn mark_fork(&mut self) {
        let mut mark = self.next_mark("forked".to_owned());
        // The fork's entry is in the state already.
        Arc::make_mut(&mut mark).before_last = Seq(self.seq.0.saturating_sub(1));
        self.anchor = Some(mark);
    }
}
