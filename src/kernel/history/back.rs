//! Rollback, undo and redo: the conversation as it was at an earlier entry replaces the present conversation.
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
//! | how full the context is, the windows that refusals taught | the queue (which is put on hold), counts of compactions |
//!
//! Nothing goes back under a running turn, and nothing leaves the tape. No tape is read here: the caller works the entry out from
//! the tape (`trail.rs`), and the core refuses the entry if the session has moved on since.
//!
//! A change must keep both refusals: an entry that was worked out for another history would mix two conversations. A plain
//! rollback to the same point, recorded just before, is answered and not done again. [`RolledBack`] is a stored format.

use std::sync::Arc;

use crate::{
    kernel::{
        BranchSummary, CarriedOut, Open, Record, Refusal, RestoredFiles, RolledBack, State, WentBack,
        draft::{Decide, Draft},
        history::branch,
    },
    words::ids::Seq,
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
        let brings_nothing = files.is_none() && summary.is_none();
        let is_done = |done: &WentBack| brings_nothing && done.entry == back.from.next() && done.to == back.to;
        if let Some(done) = draft.state.went_back.filter(is_done) {
            // The same rollback was recorded just before. One that brings files or a summary is refused as moved on instead.
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

    fn in_words(&self) -> String {
        format!("back to entry {}", self.back.to)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.back.to)
    }
}

impl State {
    /// Takes the conversation back, as the entry says. See the module.
    pub(in crate::kernel) fn roll_back(&mut self, back: &RolledBack) {
        self.went_back = Some(WentBack { entry: self.seq, to: back.to });
        self.history = self.history.first(back.keep);
        back.items.iter().for_each(|item| self.history.push_shared(item.clone()));
        self.history_hash.clone_from(&back.hash);
        // A summary of items that are still there may go on. A summary that reaches beyond them is of no use.
        self.open.retain(|open| !matches!(open, Open::Compaction(open) if back.gives_up(open.first_kept)));
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
