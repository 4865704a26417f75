//! Merging: the messages of a fork since it was made become part of the conversation that it was forked from.
//!
//! One entry on the tape of that conversation (the target) does it. It carries messages, answers, calls with their results, and the
//! summaries of branches that the fork left. The merged items stand behind everything that the target said since. Messages that
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

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        CarriedOut, Entry, Record, Refusal, Spent, State, Trail, decide::Draft, input::Decide, said::Said, trail::jumps,
    },
    model::{History, Item, ToolResultItem},
    tool::FileChange,
    words::ids::{MessageId, Millis, Seq, SessionId},
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
}

/// The entry that merges a fork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Merged {
    /// The id of the fork.
    pub fork: SessionId,
    /// Which of the forks that had this id.
    pub made: ForkMade,
    /// The newest entry of this tape before this one: the merge was planned for the conversation as it was there.
    pub onto: Seq,
    /// The entry of the fork's tape after which the merged part begins: the fork's first own entry, or the last one merged before.
    pub from: Seq,
    /// The newest entry of the fork's tape that is merged.
    pub to: Seq,
    /// The merged items. Results in them name this entry as their own.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub items: History,
    /// What the fork has used, with its ended tasks, since it was made or last counted here.
    pub spent: Spent,
    /// The files that were changed in the fork, in the order of the changes. Their former contents are kept beside the fork's tape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// The calls that ran in the fork without saying which files they changed, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// The folder of the fork's large outputs, because the merged items name files in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

/// Tells apart the forks that had the same id: after one was deleted, another may be made under its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForkMade {
    /// The first entry of the fork's own tape.
    pub entry: Seq,
    /// The time of that entry.
    pub time: Millis,
}

/// The newest entry that merged a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MergedLast {
    /// The entry.
    pub(crate) entry: Seq,
    /// The id of the fork.
    pub(crate) fork: SessionId,
    /// Which of the forks that had this id.
    pub(crate) made: ForkMade,
    /// The newest entry of the fork's tape that is merged.
    pub(crate) to: Seq,
}

impl Merged {
    /// Whether the entry merges the fork that began with this state, and not an earlier fork with the same id.
    pub(crate) fn is_of(&self, then: &State) -> bool {
        self.fork == then.session && self.made == made_with(then)
    }

    /// The hosts' messages among the merged items, oldest first.
    #[must_use]
    pub fn messages(&self) -> Vec<MessageId> {
        let said = self.items.iter().filter_map(|item| match &**item {
            Item::User(user) if !user.id.is_reserved() => Some(user.id.clone()),
            _ => None,
        });
        said.collect()
    }

    /// Whether there is nothing to merge: nothing was said, and nothing was used.
    #[must_use]
    pub(crate) fn is_nothing(&self) -> bool {
        self.items.is_empty() && self.files.is_empty() && self.unlisted.is_empty() && self.spent == Spent::default()
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
    pub(super) fn merge(&mut self, merged: &Merged) {
        let (entry, fork, made, to) = (self.seq, merged.fork.clone(), merged.made, merged.to);
        self.merged = Some(Arc::new(MergedLast { entry, fork, made, to }));
        merged.items.iter().for_each(|item| self.push_shared(item.clone()));
        self.count_fork(merged.spent);
        if let Some(spill) = merged.spill.as_ref().filter(|spill| !self.settings.read_roots.contains(spill)) {
            Arc::make_mut(&mut self.settings).read_roots.push(spill.clone());
        }
    }
}
