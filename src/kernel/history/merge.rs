//! Merging: the messages of a fork since it was made become part of the conversation that it was forked from.
//!
//! One entry on the tape of that conversation (the target) does it. It carries messages, answers, calls with their results, and the
//! summaries of branches that the fork left. The merged items follow everything that the target said since. Messages that
//! were merged before are not merged again, unless that merge was rolled back, and messages that the fork undid are not merged at
//! all. A new fork under the id of a deleted one counts as another fork ([`ForkMade`]). A conversation that becomes too long is
//! made smaller before its next step.
//!
//! A change must keep that the usage of the fork counts here once: each entry carries what the fork used since the merge before,
//! even if that merge was rolled back, because usage is never taken back.
//!
//! Nothing is merged under a running turn or into a session that has ended, and a merge is refused if the target has moved on since
//! it was planned. [`Merged`] is a stored format. No tape is read here: the caller has read both, and the fork is not changed.

use std::sync::Arc;

use crate::{
    kernel::{
        CarriedOut, Entry, ForkMade, Merged, MergedLast, Record, Refusal, Spent, State, Trail,
        draft::{Decide, Draft},
        history::{said::Said, trail::jumps},
    },
    model::{History, Item, ToolResultItem},
    words::ids::Seq,
};

/// A host merges a fork. The entry was worked out from both tapes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    /// The entry to record.
    pub merged: Arc<Merged>,
}

impl Decide for Merge {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let Merge { merged } = self;
        let state = &draft.state;
        state.is_at_rest()?;
        if let Some(last) = &state.merged
            && (last.entry, &last.fork, last.made, last.to)
                == (merged.onto.next(), &merged.fork, merged.made, merged.to)
        {
            // The same merge was recorded before, and its answer was lost in a crash.
            return Ok(CarriedOut::Done(last.entry));
        }
        if merged.onto != state.seq {
            return Err(Refusal::Moved { expected: merged.onto, actual: state.seq });
        }
        Ok(CarriedOut::Done(draft.write(None, Record::Merged(merged.clone()))))
    }

    fn in_words(&self) -> String {
        format!("fork {} was merged through entry {}", self.merged.fork, self.merged.to)
    }
}

impl Merged {
    /// Whether the entry merges the fork that began with this state, and not an earlier fork with the same id.
    pub(crate) fn is_of(&self, then: &State) -> bool {
        self.fork == then.session && self.made == made_with(then)
    }
}

/// Which fork this is, by the state that it began with: the state behind its first own entry.
fn made_with(then: &State) -> ForkMade {
    ForkMade { entry: then.seq, time: then.time }
}

/// Plans the entry that merges a fork, without the files. `here` are this tape's entries after the point of the fork, up to `onto`;
/// `then` is the state that the fork began with, and `there` are the fork's entries after that state.
#[must_use]
pub(crate) fn plan_merge(onto: Seq, here: &[Entry], then: &State, there: &[Entry]) -> Merged {
    let trail = Trail::new(&jumps(here), onto);
    let merges = || {
        here.iter().filter_map(|entry| match &entry.record {
            Record::Merged(merged) if merged.is_of(then) => Some((entry.seq, merged)),
            _ => None,
        })
    };
    let before = merges().rfind(|(seq, _)| trail.has(*seq));
    let from = before.map_or(then.seq, |(_, merged)| merged.to);
    let mut began = then.clone();
    // Only the messages from here on are the fork's own.
    began.history = History::default();
    let mut items = History::default();
    for item in Said::of(began, there, from).since() {
        match &*item {
            Item::Result(result) => items.push(Item::Result(ToolResultItem { seq: onto.next(), ..result.clone() })),
            _ => items.push_shared(item),
        }
    }
    let now = then.clone().after(there);
    let mut counted = Spent::default();
    merges().for_each(|(_, merged)| counted += merged.spent);
    Merged {
        fork: then.session.clone(),
        made: made_with(then),
        onto,
        from,
        to: now.seq,
        items,
        spent: now.spent_in_all().since(&counted),
        files: Vec::new(),
        unlisted: Vec::new(),
        spill: None,
    }
}

impl State {
    /// Adds the items and the usage of a merged fork. See the module.
    pub(in crate::kernel) fn merge(&mut self, merged: &Merged) {
        let (entry, fork, made, to) = (self.seq, merged.fork.clone(), merged.made, merged.to);
        self.merged = Some(Arc::new(MergedLast { entry, fork, made, to }));
        merged.items.iter().for_each(|item| self.push_shared(item.clone()));
        self.count_fork(merged.spent);
        if let Some(spill) = merged.spill.as_ref().filter(|spill| !self.settings.read_roots.contains(spill)) {
            Arc::make_mut(&mut self.settings).read_roots.push(spill.clone());
        }
    }
}
