//! The messages between two points of a tape, whole, also those that were summarized or left out of the context, as far as the
//! given entries reach. For branch summaries and merges.
//!
//! It is a fold like that of the state, in which nothing is ever made smaller. If the conversation went back to a point, the
//! messages behind that point are no longer part of it. A change must never let the result become the state of a session, because
//! it skips compactions and holds more than the model sees. No tape is read here.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    kernel::{Entry, Record, State, history::trail::jumps},
    model::{History, Item},
    words::ids::Seq,
};

/// The messages up to two points of a tape.
pub(in crate::kernel) struct Said {
    /// The messages up to the first point.
    pub(in crate::kernel) then: History,
    /// The messages up to the end.
    pub(in crate::kernel) now: History,
}

impl Said {
    /// The messages up to the entry `at`, and up to the last of `entries`, which follow on `state`. An `at` before all entries
    /// means the point at which they begin.
    pub(in crate::kernel) fn of(mut state: State, entries: &[Entry], at: Seq) -> Said {
        let began = state.history.clone();
        let mut stood: BTreeMap<Seq, History> = jumps(entries).into_values().map(|to| (to, began.clone())).collect();
        stood.insert(at, began);
        // A finished compaction that waits must not be put in place.
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
            // The entries end before the point, so nothing was said behind it.
            true => state.history.clone(),
            false => stood.remove(&at).unwrap_or_default(),
        };
        Said { then, now: state.history }
    }

    /// The messages up to the end that were not there at the first point.
    pub(in crate::kernel) fn since(&self) -> Vec<Arc<Item>> {
        self.now.iter().skip(self.now.common(&self.then)).cloned().collect()
    }
}
