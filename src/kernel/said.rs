//! The messages between two points of a tape, whole, also those that were summarized or left out of the context.
//!
//! A fold like that of the state, in which nothing is ever made smaller. Where the conversation went back to a point, what was
//! said behind that point is not said any more.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    kernel::{Entry, Record, State, trail::jumps},
    model::{History, Item},
    words::ids::Seq,
};

/// What was said by two points of a tape.
pub(super) struct Said {
    /// By the first.
    pub(super) then: History,
    /// By the end.
    pub(super) now: History,
}

impl Said {
    /// What was said by that entry, and by the last of these, from `state` on. A point before all of them is where they begin.
    pub(super) fn of(mut state: State, entries: &[Entry], at: Seq) -> Said {
        let began = state.history.clone();
        let mut stood: BTreeMap<Seq, History> = jumps(entries).into_values().map(|to| (to, began.clone())).collect();
        stood.insert(at, began);
        // What was ready to take the place of something is not to do so.
        Arc::make_mut(&mut state.context).ready = None;
        for entry in entries {
            match &entry.record {
                Record::State(_) | Record::Pruned { .. } | Record::CompactionUndone(_) => {}
                Record::Compaction(_) | Record::Compacted(_) | Record::CompactionFailed { .. } => {}
                Record::RolledBack(back) => state.history = stood.get(&back.to).cloned().unwrap_or_default(),
                _ => state.apply(entry),
            }
            if let Some(history) = stood.get_mut(&entry.seq) {
                history.clone_from(&state.history);
            }
        }
        let then = match entries.last().is_some_and(|last| last.seq < at) {
            // A point that was not reached: nothing was said behind it.
            true => state.history.clone(),
            false => stood.remove(&at).unwrap_or_default(),
        };
        Said { then, now: state.history }
    }

    /// What is said now and was not then.
    pub(super) fn since(&self) -> Vec<Arc<Item>> {
        self.now.iter().skip(self.now.common(&self.then)).cloned().collect()
    }
}
