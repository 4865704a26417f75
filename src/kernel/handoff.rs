//! Beginning an anchor: a named point of the tape that says all that is needed from before, and which one it follows.
//!
//! A compaction begins one by itself. A host begins one with [`Session::handoff`](crate::Session::handoff), under a name of its
//! own and with a summary where it wants one in the place of the conversation so far. Either is one entry, the whole state,
//! alone in its append: so the tape opens from there, and a crash leaves it whole or not begun.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Held, Record, Refusal, State, command::Decide, compact, decide::Draft},
    tape::anchor_name_of,
    words::ids::Seq,
};

/// A new anchor begins: the whole state goes on the tape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BeginAnchor;

impl Decide for BeginAnchor {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        let mut whole = draft.state.clone();
        // J-20: the name of what it follows, with a number of its own, because a name is there once.
        whole.anchor = Some(whole.next_mark(format!("compaction-{}-{}", whole.context.compactions, whole.seq.next())));
        Ok(Held::Done(draft.write(None, Record::State(Arc::new(whole)))))
    }
}

/// A host begins an anchor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandOff {
    /// Its name.
    pub name: String,
    /// What takes the place of the conversation so far, where something is to.
    pub summary: Option<Arc<str>>,
}

impl Decide for HandOff {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
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
            // The entry of this handoff: no compaction from before it can be undone, for what was kept then is not there any more.
            Arc::make_mut(&mut whole.context).newest = draft.state.seq.next();
        }
        whole.anchor = Some(whole.next_mark(anchor_name_of(&self.name)));
        Ok(Held::Done(draft.write(None, Record::State(Arc::new(whole)))))
    }
}

impl HandOff {
    /// What takes the place of the conversation, where that says anything.
    pub(super) fn summary(&self) -> Option<&Arc<str>> {
        self.summary.as_ref().filter(|summary| !summary.trim().is_empty())
    }
}

/// What the first file of a tape is called.
const FIRST: &str = "session-start";

/// The anchor that a session goes on from, linked to the one before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnchorMark {
    /// Which of the tape's files, from 1.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// The number of the file before it.
    pub before: u64,
    /// What that is called.
    pub before_name: String,
    /// The last entry of that one.
    pub before_last: Seq,
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

    /// A fork goes on in a file of its own, which follows the one that it was forked in.
    pub(super) fn mark_fork(&mut self) {
        let mut mark = self.next_mark("forked".to_owned());
        // The fork's entry is in the state already.
        Arc::make_mut(&mut mark).before_last = Seq(self.seq.0.saturating_sub(1));
        self.anchor = Some(mark);
    }
}
