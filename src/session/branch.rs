//! Branch summaries: whoever leaves a branch of a conversation can take along what came of it.
//!
//! What was said on the branch is read from its tape by whoever asks ([`Branch::of`]) and summed up by a model, or told by its
//! beginnings where none can write. One entry puts the summary in front of the next turn. It reads as a user's message that
//! the runtime wrote, and no compaction ever sums it up again (BDD-COMPACT-027). Nothing is put under a running turn.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    context::FileOperations,
    ids::Seq,
    message::ModelRef,
    model::{Item, Price, UserItem},
    session::{
        Charge, Entry, Held, Record, Refusal, Reserve, State, decide::Draft, record::is_none, said::Said,
        spent::in_vain,
    },
    usage::Usage,
};

/// A branch that is left: what was said on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// The entry after which it begins.
    pub from: Seq,
    /// Its last entry.
    pub to: Seq,
    /// What was said between them, whatever was summed up meanwhile.
    pub items: Vec<Arc<Item>>,
}

impl Branch {
    /// What was said after that entry and not taken back. The entries begin with a state; of a tape read whole all is there,
    /// however often it was compacted.
    #[must_use]
    pub fn of(entries: &[Entry], after: Seq) -> Branch {
        let begun = entries.iter().enumerate().find_map(|(at, entry)| match &entry.record {
            Record::State(first) => Some(((**first).clone(), &entries[at + 1..])),
            _ => None,
        });
        let items = begun.map(|(state, rest)| Said::of(state, rest, after).since());
        let to = entries.last().map_or(after, |entry| entry.seq);
        Branch { from: after, to, items: items.unwrap_or_default() }
    }
}

/// What came of a branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BranchSummary {
    /// The entry after which the branch began.
    pub from: Seq,
    /// Its last entry.
    pub to: Seq,
    /// What came of it.
    pub summary: Arc<str>,
    /// What writing that took.
    #[serde(default)]
    pub usage: Usage,
    /// The files that were touched on it.
    #[serde(default)]
    pub files: FileOperations,
    /// The request that wrote it, or was to; tapes of before the field was there do not say, and it is not charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<BranchRequest>,
}

/// The request that wrote the summary of a branch. It is made beside the session and recorded with the summary, so where the
/// process dies in between nothing of it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BranchRequest {
    /// Which model.
    pub model: ModelRef,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What it was to take, at most.
    pub reserved: Reserve,
    /// Our estimate of what it took, where the provider did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Usage>,
    /// Tries that were read and came to nothing.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lost: u32,
}

impl BranchSummary {
    /// What all its tries used, one by one.
    pub(super) fn charges(&self) -> impl Iterator<Item = Charge> {
        self.request.iter().flat_map(|request| {
            let answered = Charge::of(request.price.as_ref(), &self.usage, request.estimated.as_ref());
            in_vain(request.lost, request.reserved, request.price).chain(answered)
        })
    }
}

/// A host brings the summary of a branch.
pub(super) fn take(draft: &mut Draft<'_>, branch: &Arc<BranchSummary>) -> Result<Held, Refusal> {
    if draft.state.closed.is_some() {
        return Err(Refusal::Ended);
    }
    if let Some(turn) = &draft.state.turn {
        return Err(Refusal::Busy { turn: turn.id });
    }
    if branch.summary.trim().is_empty() {
        return Err(Refusal::Empty);
    }
    Ok(Held::Done(draft.write(None, Record::BranchSummary(branch.clone()))))
}

impl State {
    /// The summary stands in the context from here on.
    pub(super) fn take_branch(&mut self, seq: Seq, branch: &BranchSummary) {
        self.usage += branch.usage;
        self.spend_all(branch.charges());
        let text = crate::context::render_branch(&branch.summary, &branch.files, branch.from, branch.to);
        let parts = vec![crate::message::Part::text(text)];
        let id = format!("branch-{seq}").into();
        self.push_shared(Arc::new(Item::User(UserItem { id, parts, fragment: Default::default() })));
    }
}
