//! Rollback, undo and redo: the conversation as it was at an earlier entry takes the place of the present conversation.
//!
//! One entry does it, and carries what the fold needs: how many items of the present history stay, the items after them, and the
//! context as it was. A rollback across a compaction carries the items that the compaction had left out. So recovery reads nothing
//! but the newest anchor and what follows it (decision 0010). Files that were put back with the rollback, and a summary of the
//! branch that is left, are entries of their own behind it, in the same append.
//!
//! | goes back | never does |
//! |---|---|
//! | the history, its summary, the data carried beside it | usage and cost, ended turns and their outcomes, message ids |
//! | pins, the to-do list | settings, grants, tasks |
//! | how full the context is, the windows that refusals taught | the queue (which is put on hold) |
//!
//! Nothing goes back under a running turn, and nothing leaves the tape. No tape is read here: the caller works the entry out from
//! the tape (`trail.rs`), and the core refuses the entry if the session has moved on since.
//!
//! A change must keep both refusals: an entry that was worked out for another history would mix two conversations. A rollback that
//! is sent again after a crash must be answered and not done again. [`RolledBack`] is a stored format.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        BranchSummary, CarriedOut, ContextState, Record, Refusal, RestoredFiles, State, branch, decide::Draft,
        input::Decide,
    },
    model::History,
    words::ids::{MessageId, Seq},
};

/// A host takes the conversation back to a point. The entry was worked out from the tape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RollBack {
    /// The entry to record.
    pub back: Arc<RolledBack>,
    /// The files that were put back for the rollback: recorded together with it or not at all.
    pub files: Option<Arc<RestoredFiles>>,
    /// The summary of the branch that is left, if one is to go along.
    pub summary: Option<Arc<BranchSummary>>,
}

impl Decide for RollBack {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let RollBack { back, files, summary } = self;
        if let Some(done) = draft.state.went_back.filter(|done| done.entry == back.from.next() && done.to == back.to) {
            // The same rollback was recorded before, and its answer was lost in a crash.
            return Ok(CarriedOut::Done(done.entry));
        }
        let allowed = match draft.state.is_at_rest() {
            Ok(()) if back.from != draft.state.seq || back.keep > draft.state.history.len() => {
                Err(Refusal::Moved { expected: back.from, actual: draft.state.seq })
            }
            rest => rest,
        };
        allowed.map_err(|why| match summary {
            Some(summary) => branch::refused(draft, summary, why),
            None => why,
        })?;
        let entry = draft.write(None, Record::RolledBack(back.clone()));
        // These entries stand behind the rollback, so that a redo goes to a point before them.
        if let Some(files) = files {
            draft.write(None, Record::Restored(files.clone()));
        }
        if let Some(summary) = summary.as_ref().filter(|summary| !summary.summary.trim().is_empty()) {
            draft.write(None, Record::BranchSummary(summary.clone()));
        }
        Ok(CarriedOut::Done(entry))
    }
}

/// What a host asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Way {
    /// Back to a point.
    Rollback,
    /// Back to before the newest message.
    Undo,
    /// Back to where the newest undo came from.
    Redo,
}

/// The conversation goes back to a point of the tape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RolledBack {
    /// The newest entry before this one: the rollback was worked out for the conversation as it was there.
    pub from: Seq,
    /// The conversation is what it was when this entry was the newest.
    pub to: Seq,
    /// What the host asked for.
    pub way: Way,
    /// Messages of the host that are no part of the conversation any more, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<MessageId>,
    /// Messages of the host that are part of it again, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<MessageId>,
    /// The number of history items that stay, from the front.
    pub(crate) keep: usize,
    /// The items that follow them.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub(crate) items: History,
    /// Hash of the history as it was at `to`.
    pub(crate) hash: String,
    /// The context as it was at `to`.
    pub(crate) context: Arc<ContextState>,
}

/// The newest entry that went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WentBack {
    /// The entry.
    pub(crate) entry: Seq,
    /// The point that the conversation went back to.
    pub(crate) to: Seq,
}

impl RolledBack {
    /// Whether an open compaction that cuts at `first_kept` is given up: items that it sums up are gone, or none would stay behind
    /// the cut.
    pub(super) fn gives_up(&self, first_kept: usize) -> bool {
        first_kept > self.keep || first_kept >= self.keep.saturating_add(self.items.len())
    }
}

impl State {
    /// Takes the conversation back, as the entry says. See the module.
    pub(super) fn roll_back(&mut self, back: &RolledBack) {
        self.went_back = Some(WentBack { entry: self.seq, to: back.to });
        self.history = self.history.first(back.keep);
        back.items.iter().for_each(|item| self.history.push_shared(item.clone()));
        self.history_hash.clone_from(&back.hash);
        // A summary of items that are still there may go on. A summary that reaches beyond them is of no use. Nobody will say what
        // it used by now, so all that was reserved for it counts.
        let given_up = self.compaction().filter(|(_, open)| back.gives_up(open.first_kept));
        if let Some(open) = given_up.map(|(ticket, _)| ticket).and_then(|ticket| self.open.remove(&ticket)) {
            self.spend(open.lost());
        }
        let mut context = (*back.context).clone();
        context.ready = None;
        // The learned factor, the failures of the summariser and the number of compactions do not go back.
        context.failures = self.context.failures;
        context.compactions = self.context.compactions;
        if self.context.meter.factor > 0 {
            context.meter.factor = self.context.meter.factor;
        }
        self.context = Arc::new(context);
        self.on_hold = !self.queue.is_empty();
    }
}
