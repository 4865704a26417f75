//! Branch summaries: when a conversation leaves a branch, a summary of the branch can join the conversation.
//!
//! The caller reads the messages of the branch from its tape ([`Branch::of`]), and a model summarizes them; if no model can, the
//! first words of the messages take the summary's place. One entry then puts the summary in front of the next turn, as a message
//! that the model reads as a user's. A compaction carries its text on beside the new summary, within a bound (`carried.rs`). No
//! summary is added under a running turn.
//!
//! The host's side makes the request for the summary, not a worker of the session. So the request has a ticket with a reserve of
//! the budget, opened before the request is made. The summary closes the ticket, or the report that there is none, or the end of
//! the process; in the last case the whole reserve counts as used. While such a ticket is open, a second one is refused.
//!
//! A change must keep that the usage counts once on each of these ways. No tape is read and no model is called here.

use std::sync::Arc;

use crate::{
    kernel::{
        BranchSummary, CarriedOut, Entry, NoSummary, Open, OpenBranch, Record, Refusal, Reserve, State,
        draft::{Decide, Draft},
        history::said::Said,
    },
    model::{Item, UserItem},
    words::ids::{MessageId, Seq},
};

/// Reserves budget for a branch summary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SumUpBranch {
    /// The request. Its `reserved` field is ignored: the core decides it.
    pub request: Box<OpenBranch>,
}

impl Decide for SumUpBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let SumUpBranch { request: wanted } = self;
        let state = &draft.state;
        state.is_at_rest()?;
        if let Some(ticket) = state.leaving() {
            return Err(Refusal::Leaving { ticket });
        }
        let Reserve { input, output } = wanted.wanted;
        let reserved = state.reserve_for_summary(wanted.price.as_ref(), input, output);
        let reserved = reserved.ok_or(Refusal::SummaryOverBudget)?;
        Ok(CarriedOut::Done(draft.write(None, Record::BranchOpened(OpenBranch { reserved, ..(**wanted).clone() }))))
    }

    fn in_words(&self) -> String {
        "a branch was to be summed up".to_owned()
    }
}

/// The summary of a branch is given up: it could not be written, or nobody waits for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GiveUpBranch {
    /// The ticket of the summary.
    pub ticket: Seq,
    /// Why there is no summary, and what was used all the same.
    pub why: Box<NoSummary>,
    /// The number of tries that the provider read and that came to nothing.
    pub lost: u32,
}

impl Decide for GiveUpBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        failed(draft, self.ticket, &self.why, self.lost);
        Ok(CarriedOut::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        format!("the summary of branch {} failed", self.ticket)
    }

    fn about(&self) -> Option<Seq> {
        Some(self.ticket)
    }

    fn stops(&self) -> bool {
        true
    }
}

/// A host leaves a branch and brings its summary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeaveBranch {
    /// The summary.
    pub branch: Arc<BranchSummary>,
}

impl Decide for LeaveBranch {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        let LeaveBranch { branch } = self;
        let allowed = match draft.state.is_at_rest() {
            Ok(()) if branch.summary.trim().is_empty() => Err(Refusal::Empty),
            rest => rest,
        };
        allowed.map_err(|why| refused(draft, branch, why))?;
        Ok(CarriedOut::Done(draft.write(None, Record::BranchSummary(branch.clone()))))
    }

    fn in_words(&self) -> String {
        format!("the branch of entries {} to {} was left", self.branch.from, self.branch.to)
    }
}

/// A branch that is left, with the messages on it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Branch {
    /// The entry after which the branch begins.
    pub from: Seq,
    /// The last entry of the branch.
    pub to: Seq,
    /// The messages between them, whole, also those that were summed up meanwhile.
    pub items: Vec<Arc<Item>>,
}

impl Branch {
    /// The branch after an entry: the messages that followed it and were not taken back. The entries must begin with a state. If
    /// they are the whole tape, all messages are found, however often the conversation was compacted.
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

/// Closes the ticket of a summary that failed or that nobody waits for any more. Its usage counts.
pub(in crate::kernel) fn failed(draft: &mut Draft<'_>, ticket: Seq, why: &NoSummary, lost: u32) {
    if matches!(draft.state.open.get(&ticket), Some(Open::Branch(_))) {
        let NoSummary { error, usage, estimated } = why.clone();
        draft.write(Some(ticket), Record::BranchFailed { error, usage, estimated, lost });
    }
}

/// Refuses a summary that was written, and closes its ticket. Its usage counts all the same.
pub(in crate::kernel) fn refused(draft: &mut Draft<'_>, branch: &BranchSummary, why: Refusal) -> Refusal {
    if let Some(request) = &branch.request {
        let why = NoSummary { error: why.to_string(), usage: branch.usage, estimated: request.estimated };
        failed(draft, request.ticket, &why, request.lost);
    }
    why
}

impl State {
    /// The ticket of a summary of a branch that is being written.
    pub(in crate::kernel) fn leaving(&self) -> Option<Seq> {
        self.open.iter().find_map(|(ticket, open)| matches!(open, Open::Branch(_)).then_some(*ticket))
    }

    /// Puts a summary into the context, and closes its ticket.
    pub(in crate::kernel) fn take_branch(&mut self, seq: Seq, branch: &BranchSummary) {
        self.usage += branch.usage;
        if let Some(request) = &branch.request {
            self.open.remove(&request.ticket);
        }
        let text = crate::kernel::context::render_branch(&branch.summary, &branch.files, branch.from, branch.to);
        let parts = vec![crate::words::message::Part::text(text)];
        let id = MessageId::of_branch(seq);
        self.push_shared(Arc::new(Item::User(UserItem { id, parts, fragment: Default::default() })));
    }
}
