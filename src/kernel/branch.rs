//! Branch summaries: when a conversation leaves a branch, a summary of the branch can go along.
//!
//! The caller reads the messages of the branch from its tape ([`Branch::of`]), and a model summarizes them; if no model can, the
//! first words of the messages take its place. One entry puts the summary in front of the next turn. It reads as a user's message
//! that the runtime wrote, and no compaction ever sums it up again (BDD-COMPACT-027). Nothing is put under a running turn.
//!
//! The host's side makes the request, and no worker of the session does, so the request has a ticket: opened, with its reserve of
//! the budget, before the request is made, and closed by the summary, by the report that there is none, or by the end of the
//! process, which counts the whole reserve. There is one at a time. A change must keep that the usage counts once on each of these
//! ways.
//!
//! [`BranchSummary`], [`BranchRequest`] and [`OpenBranch`] are stored formats. No tape is read and no model is called here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::context::FileOperations,
    kernel::{
        Charge, Entry, Held, NoSummary, Open, Record, Refusal, Reserve, State, command::Decide, decide::Draft,
        said::Said, spent::in_vain,
    },
    model::{Item, Price, UserItem},
    words::ids::{MessageId, Seq},
    words::is_default,
    words::message::ModelRef,
    words::usage::Usage,
};

/// A host is about to have a branch summed up, and asks for what that may take.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SumUpBranch {
    /// The request; what is held back for it is decided.
    pub request: Box<OpenBranch>,
}

impl Decide for SumUpBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        let SumUpBranch { request: wanted } = self;
        let state = &draft.state;
        state.is_at_rest()?;
        if let Some(ticket) = state.leaving() {
            return Err(Refusal::Leaving { ticket });
        }
        let Reserve { input, output } = wanted.wanted;
        let reserved = state.reserve_for_summary(wanted.price.as_ref(), input, output);
        let reserved = reserved.ok_or(Refusal::SummaryOverBudget)?;
        Ok(Held::Done(draft.write(None, Record::BranchOpened(OpenBranch { reserved, ..(**wanted).clone() }))))
    }
}

/// There is no summary of a branch: it could not be written, or nobody waits for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GiveUpBranch {
    /// Its ticket.
    pub ticket: Seq,
    /// Why, and what was used all the same.
    pub why: Box<NoSummary>,
    /// Tries that the provider had read when they came to nothing.
    pub lost: u32,
}

impl Decide for GiveUpBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        failed(draft, self.ticket, &self.why, self.lost);
        Ok(Held::Done(draft.state.seq))
    }
}

/// A host leaves a branch and brings what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaveBranch {
    /// What came of it.
    pub branch: Arc<BranchSummary>,
}

impl Decide for LeaveBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        let LeaveBranch { branch } = self;
        let allowed = match draft.state.is_at_rest() {
            Ok(()) if branch.summary.trim().is_empty() => Err(Refusal::Empty),
            rest => rest,
        };
        allowed.map_err(|why| refused(draft, branch, why))?;
        Ok(Held::Done(draft.write(None, Record::BranchSummary(branch.clone()))))
    }
}

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
    pub usage: Usage,
    /// The files that were touched on it.
    pub files: FileOperations,
    /// The request that wrote it, or was to; tapes of before the field was there do not say, and it is not charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<BranchRequest>,
}

/// A request for the summary of a branch that is about to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenBranch {
    /// Which model.
    pub model: ModelRef,
    /// What its tokens cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Tokens that it reads, and may write, as far as can be told before.
    pub wanted: Reserve,
    /// What is held back for it.
    pub reserved: Reserve,
}

/// The request that wrote the summary of a branch, or was to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BranchRequest {
    /// The ticket that was opened for it; 0 on tapes of before there was one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ticket: Seq,
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: u32,
}

impl BranchSummary {
    /// The ticket that it closes; 0 for none.
    pub(super) fn ticket(&self) -> Seq {
        self.request.as_ref().map_or(Seq::ZERO, |request| request.ticket)
    }

    /// What all its tries used, one by one.
    pub(super) fn charges(&self) -> impl Iterator<Item = Charge> {
        self.request.iter().flat_map(|request| {
            let answered = Charge::of(request.price.as_ref(), &self.usage, request.estimated.as_ref());
            in_vain(request.lost, request.reserved, request.price).chain(answered)
        })
    }
}

/// There is no summary: the request failed, or nobody waits for it any more. What it took counts.
pub(super) fn failed(draft: &mut Draft<'_>, ticket: Seq, why: &NoSummary, lost: u32) {
    if matches!(draft.state.open.get(&ticket), Some(Open::Branch(_))) {
        let NoSummary { error, usage, estimated } = why.clone();
        draft.write(Some(ticket), Record::BranchFailed { error, usage, estimated, lost });
    }
}

/// A summary that was written is not taken. What it took counts all the same.
pub(super) fn refused(draft: &mut Draft<'_>, branch: &BranchSummary, why: Refusal) -> Refusal {
    if let Some(request) = &branch.request {
        let why = NoSummary { error: why.to_string(), usage: branch.usage, estimated: request.estimated };
        failed(draft, request.ticket, &why, request.lost);
    }
    why
}

impl State {
    /// The ticket of a summary of a branch that is being written.
    pub(super) fn leaving(&self) -> Option<Seq> {
        self.open.iter().find_map(|(ticket, open)| matches!(open, Open::Branch(_)).then_some(*ticket))
    }

    /// The summary stands in the context from here on.
    pub(super) fn take_branch(&mut self, seq: Seq, branch: &BranchSummary) {
        self.usage += branch.usage;
        let ticket = branch.ticket();
        // Where the ticket is closed all that was held for it was counted when it was lost.
        if ticket == Seq::ZERO || matches!(self.open.remove(&ticket), Some(Open::Branch(_))) {
            self.spend(branch.charges());
        }
        let text = crate::kernel::context::render_branch(&branch.summary, &branch.files, branch.from, branch.to);
        let parts = vec![crate::words::message::Part::text(text)];
        let id = MessageId::of_branch(seq);
        self.push_shared(Arc::new(Item::User(UserItem { id, parts, fragment: Default::default() })));
    }
}
