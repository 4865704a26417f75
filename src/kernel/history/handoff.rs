//! A handoff begins an *anchor*: a named point of the tape that carries the whole state, so that the session opens from there. Each
//! anchor names the anchor before it. (A fork that was exported is one tape without its own first anchor: there the number of the
//! next one counts it too.)
//!
//! The runtime asks for an anchor after each compaction, and where the newest one lies far back ([`State::wants_anchor`]): opening a
//! session, a fork of it and a look at its end read from the newest anchor on. A host begins one with [`Session::handoff`](crate::Session::handoff),
//! under a name of its own, and with a summary if one is to take the place of the conversation so far. An anchor is one entry, the
//! whole state, alone in its append. So a crash leaves the anchor whole or not begun.
//!
//! A change must keep that the entry is alone in its append ([`Command::stands_alone`](crate::kernel::Command)), and that the
//! names that the runtime gives to anchors differ within a tape: the tape refuses a name that its own files have already.
//! [`AnchorMark`] is a stored format.

use std::sync::Arc;

use crate::{
    kernel::{
        AnchorMark, CarriedOut, Record, Refusal, State,
        context::compact,
        draft::{Decide, Draft},
    },
    tape::anchor_name_of,
    words::ids::Seq,
};

/// The fewest entries between an anchor that only bounds the distance and the anchor before it.
const ANCHOR_ENTRIES_MIN: u64 = 1_024;

/// How many bytes of the conversation an anchor may repeat for each entry since the anchor before it; otherwise it waits. A line of a
/// tape has some 500 bytes, so anchors add about an eighth to a tape at most.
const ANCHOR_BYTES_AN_ENTRY: u64 = 64;

/// The most bytes of a conversation that an anchor repeats where nothing but the distance asks for one: a state must fit a line.
const ANCHOR_BYTES_MAX: u64 = 8 << 20;

/// The runtime begins an anchor after a compaction, or far behind the newest one: the whole state goes on the tape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeginAnchor;

impl Decide for BeginAnchor {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let mut whole = draft.state.clone();
        // With its own entry in the name, because no two anchors may have the same. A handoff's own entry counts as the newest
        // compaction, and is the first of its anchor.
        let first = whole.seq.next().0.saturating_sub(whole.since_anchor());
        let is_compacted = whole.context.newest.0 > first;
        let name = match is_compacted {
            true => format!("compaction-{}-{}", whole.context.compactions, whole.seq.next()),
            false => format!("distance-{}", whole.seq.next()),
        };
        whole.anchor = Some(whole.next_mark(name));
        Ok(CarriedOut::Done(draft.write(None, Record::State(Arc::new(whole)))))
    }

    fn in_words(&self) -> String {
        "an anchor".to_owned()
    }

    fn stands_alone(&self) -> bool {
        true
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

    fn in_words(&self) -> String {
        format!("a handoff to {}", self.name)
    }

    fn stands_alone(&self) -> bool {
        true
    }
}

impl HandOff {
    /// The summary that takes the place of the conversation; `None` if there is none or it is blank.
    pub(in crate::kernel) fn summary(&self) -> Option<&Arc<str>> {
        self.summary.as_ref().filter(|summary| !summary.trim().is_empty())
    }
}

/// The name of the first file of a tape.
const FIRST: &str = "session-start";

impl State {
    /// How many entries the newest anchor and what follows it have; in a fork, those since the fork began.
    fn since_anchor(&self) -> u64 {
        self.seq.0.saturating_sub(self.anchor.as_ref().map_or(0, |mark| mark.before_last.0))
    }

    /// Whether the newest anchor lies so far back that another one is worth its room. Looked at once every so many entries, as an
    /// anchor that was refused is asked for again; `before` is the state before the newest append.
    pub(crate) fn wants_anchor(&self, before: &State) -> bool {
        let (since, bytes) = (self.since_anchor(), self.context.bytes);
        let looks = self.seq.0 / (ANCHOR_ENTRIES_MIN / 4) > before.seq.0 / (ANCHOR_ENTRIES_MIN / 4);
        looks
            && since >= ANCHOR_ENTRIES_MIN
            && bytes <= since.saturating_mul(ANCHOR_BYTES_AN_ENTRY)
            && bytes <= ANCHOR_BYTES_MAX
    }

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
    pub(in crate::kernel) fn mark_fork(&mut self) {
        let mut mark = self.next_mark("forked".to_owned());
        // The fork's entry is in the state already.
        Arc::make_mut(&mut mark).before_last = Seq(self.seq.0.saturating_sub(1));
        self.anchor = Some(mark);
    }
}
