//! How a compaction is undone: the history that it replaced is read back from the tape, and one entry puts it in place.
//!
//! The caller reads the tape and hands over the replaced items ([`Undone::of`]). The entry carries these items, because a session
//! opens from its newest anchor (an entry with the whole state) and reads nothing older. The newest compaction can be undone, and
//! then the one before it. Messages since the compaction are kept: they follow the items that come back.
//!
//! A change must keep the refusals: nothing is undone in a session that has ended, under a running turn, while another compaction
//! is being written, if the compaction is no longer the newest one, or if the items that come back would not fit the window,
//! because they would be summed up again at once. [`Undone`] is stored on tapes: its fields keep their names.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Entry, Record, Refusal, State, Undone,
        context::{fullness, of_item},
        draft::{Decide, Draft},
    },
    words::ids::Seq,
};

/// A host undoes the newest compaction, and brings the items that it replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UndoCompaction {
    /// The replaced items, with the context of before.
    pub undone: Arc<Undone>,
}

impl Decide for UndoCompaction {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let UndoCompaction { undone } = self;
        let state = &draft.state;
        state.is_at_rest()?;
        if let Some((ticket, _)) = state.compaction() {
            return Err(Refusal::Compacting { ticket });
        }
        if state.context.newest == Seq::ZERO || state.context.newest != undone.compaction {
            return Err(Refusal::NothingToUndo);
        }
        let front: u64 = state.history.iter().take(state.context.front).map(|item| of_item(item)).sum();
        let back: u64 = undone.history.iter().map(|item| of_item(item)).sum();
        let (window, _) = fullness::fullness(draft);
        let estimated = fullness::estimated(draft).saturating_sub(front).saturating_add(back);
        let used = draft.state.context.meter.corrected(estimated);
        if used >= window.usable() {
            return Err(Refusal::WouldNotFit { used, usable: window.usable() });
        }
        Ok(CarriedOut::Done(draft.write(None, Record::CompactionUndone(undone.clone()))))
    }

    fn in_words(&self) -> String {
        format!("compaction {} was undone", self.undone.compaction)
    }
}

impl Undone {
    /// What the compaction replaced that the last of these entries records. The entries must begin with a state, as every anchor
    /// does. `None` if they do not, or if the last entry records no compaction.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Option<Undone> {
        let (last, before) = entries.split_last()?;
        let Record::Compacted(compacted) = &last.record else { return None };
        let state = State::fold(before)?;
        Some(Undone {
            compaction: last.seq,
            history: state.history.iter().take(compacted.first_kept).map(|item| (**item).clone()).collect(),
            front: state.context.front,
            summary: state.context.summary.clone(),
            carried: state.context.carried.clone(),
            newest: state.context.newest,
        })
    }
}

impl State {
    /// Puts the items back that a compaction replaced.
    pub(in crate::kernel) fn put_back(&mut self, undone: &Undone) {
        let now = std::mem::take(&mut self.history);
        let since: Vec<_> = now.iter().skip(self.context.front).cloned().collect();
        let context = Arc::make_mut(&mut self.context);
        context.front = undone.front;
        context.summary.clone_from(&undone.summary);
        context.carried = undone.carried.clone();
        context.newest = undone.newest;
        context.failures = 0;
        self.replace_history(undone.history.iter().cloned().chain(since));
    }
}
