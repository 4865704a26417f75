//! Merging: the messages of a fork since it was made become part of the conversation that it was forked from.
//!
//! One entry on the target's tape does it, and carries messages, answers, calls with their results, and the fork's own summaries.
//! It stands behind everything that the target said since. The fork is read and not changed. Messages that were merged
//! before are not merged again, and messages that the fork undid are not merged at all. A fork that was made under the id of one
//! that is deleted is another fork ([`ForkMade`]). A conversation that becomes too long is made smaller before its next step, as
//! ever.
//!
//! What the fork used counts here once: each entry carries what it used since the one before, also where that one was taken
//! back, for what is used stays used.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        Entry, Held, Record, Refusal, Spent, State, Trail, command::Decide, decide::Draft, said::Said, trail::jumps,
    },
    model::{History, Item, ToolResultItem},
    tool::FileChange,
    words::ids::{MessageId, Millis, Seq, SessionId},
};

/// A host wants what was said in a fork to be said here, as it was worked out from both tapes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    /// What is to be recorded.
    pub merged: Arc<Merged>,
}

impl Decide for Merge {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        let Merge { merged } = self;
        let state = &draft.state;
        state.is_at_rest()?;
        if let Some(last) = &state.merged
            && (last.entry, &last.fork, last.made, last.to)
                == (merged.onto.next(), &merged.fork, merged.made, merged.to)
        {
            // It was recorded, and the answer was lost in a crash.
            return Ok(Held::Done(last.entry));
        }
        if merged.onto != state.seq {
            return Err(Refusal::Moved { expected: merged.onto, actual: state.seq });
        }
        Ok(Held::Done(draft.write(None, Record::Merged(merged.clone()))))
    }
}

/// What was said in a fork is said here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// The fork.
    pub fork: SessionId,
    /// Which one of this id; absent on tapes of before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<ForkMade>,
    /// The newest entry of this tape before this one: it was decided for the conversation as it was there.
    pub onto: Seq,
    /// What the fork said after this entry of its tape: the one that it was forked at, or that was merged last.
    pub from: Seq,
    /// The newest entry of the fork's tape that is merged.
    pub to: Seq,
    /// What was said. Results name this entry as theirs.
    #[serde(default, skip_serializing_if = "History::is_empty")]
    pub items: History,
    /// What the fork has used, with its tasks that are over, since it was made or last counted here.
    pub spent: Spent,
    /// The files that were changed there, in the order in which they were. What they held is kept beside the fork's tape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// What ran there without saying which files it changed, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<String>,
    /// Where the fork's large outputs are: what was said there names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

/// Which fork it is of all that had its id: when one was deleted, another may be made under its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkMade {
    /// The first entry that is its own.
    pub entry: Seq,
    /// When that was written.
    pub time: Millis,
}

/// The newest entry that merged a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedLast {
    /// The entry.
    pub entry: Seq,
    /// Which fork.
    pub fork: SessionId,
    /// Which one of this id; absent on tapes of before this was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<ForkMade>,
    /// Through which entry of its tape.
    pub to: Seq,
}

impl Merged {
    /// Whether it is of the fork that began with this state, and not of another one that had its id before.
    pub(crate) fn is_of(&self, then: &State) -> bool {
        // An older tape does not say: at least it cannot have been merged from before it was made.
        self.fork == then.session && self.made.map_or(self.from >= then.seq, |made| made == made_with(then))
    }

    /// The messages of hosts among what was said, oldest first.
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
    pub fn is_nothing(&self) -> bool {
        self.items.is_empty() && self.files.is_empty() && self.unlisted.is_empty() && self.spent == Spent::default()
    }
}

/// The state that a fork begins with is that behind its first entry.
fn made_with(then: &State) -> ForkMade {
    ForkMade { entry: then.seq, time: then.time }
}

/// What a merge of a fork records, files left out. `here` are the entries behind the point at which it was forked, through
/// `onto`; `then` is the state that the fork began with, and `there` are its entries behind that one.
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
    // Only what is said from here on is the fork's own.
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
        made: Some(made_with(then)),
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
    /// See the module.
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
