//! The bill of a session: what each of its model requests used and cost, one by one. A fold of the tape, apart from the state;
//! hosts and lists read it, and no decision does.
//!
//! Each try of a request that used something is on the bill once: with its own usage when it is closed, or with all that was
//! reserved for it when it was lost in a crash, an import or a rollback. An unsuccessful try of a summary counts with the input
//! that was reserved for it. A request that failed before the provider read it is not on the bill. The bill of a fork begins at its
//! `forked` entry: the requests before it are on the parent's bill.
//!
//! The sum must agree with the requests, tokens and cost in [`State::spent`](crate::kernel::State), which `apply/spending.rs`
//! counts: a change of one needs the same change of the other. `Unsettled` is stored with a session's digest (`digest.rs`): a
//! change of its form needs a higher `FORM` of `Digest` (`ops/listing/rows.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Charge, Entry, Open, Record, Reserve, Spent, spent::in_vain},
    model::Price,
    words::ids::Seq,
    words::message::ModelRef,
    words::usage::Usage,
};

/// Every model request of a session that used something, in the order in which they were closed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Bill {
    /// The requests.
    pub lines: Vec<BillLine>,
    #[serde(skip)]
    unsettled: Unsettled,
}

/// A request on a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BillLine {
    /// The request's ticket.
    pub ticket: Seq,
    /// Which model.
    pub model: ModelRef,
    /// What became of it.
    pub kind: BillKind,
    /// The usage and the cost of the request.
    #[serde(flatten)]
    pub charge: Charge,
}

impl BillLine {
    /// The line of a lost request: all that was reserved for it counts.
    fn lost((ticket, open): (&Seq, &Opened)) -> BillLine {
        let (ticket, model, kind) = (*ticket, open.model.clone(), BillKind::Lost);
        BillLine { ticket, model, kind, charge: open.reserved.lost(open.price.as_ref()) }
    }
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BillKind {
    /// It was answered.
    Answer,
    /// The core cut it off.
    Interrupted,
    /// It broke off; also a try of a summary that came to nothing.
    Failed,
    /// It was under way when the process ended or the session was imported, or its compaction was given up by a rollback.
    Lost,
    /// It was made to sum up an older part of the conversation, or a branch; also where its summary could not be used.
    Summary,
}

/// The open requests that a bill must know to go on with the entries that follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Unsettled {
    open: BTreeMap<Seq, Opened>,
    waits: bool,
    /// The lines of the entry that is being applied.
    #[serde(skip)]
    lines: Vec<BillLine>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Opened {
    what: What,
    model: ModelRef,
    price: Option<Price>,
    reserved: Reserve,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    Answer,
    /// To sum up the items before this position of the history.
    Compaction(usize),
    Branch,
}

impl Opened {
    fn of(open: &Open) -> Option<Opened> {
        let (what, model, price, reserved) = match open {
            Open::Request(open) => (What::Answer, &open.model, open.price, open.reserved),
            Open::Compaction(open) => (What::Compaction(open.first_kept), &open.model, open.price, open.reserved),
            Open::Branch(open) => (What::Branch, &open.model, open.price, open.reserved),
            _ => return None,
        };
        Some(Opened { what, model: model.clone(), price, reserved })
    }
}

impl Unsettled {
    /// The lines that the next entry adds.
    pub(super) fn apply(&mut self, entry: &Entry) -> Vec<BillLine> {
        self.take(entry);
        std::mem::take(&mut self.lines)
    }

    fn take(&mut self, entry: &Entry) {
        let ticket = entry.ticket.unwrap_or(entry.seq);
        match &entry.record {
            Record::State(state) => {
                self.waits = state.waits;
                let open = state.open.iter().filter_map(|(ticket, open)| Some((*ticket, Opened::of(open)?)));
                self.open = open.collect();
            }
            Record::Request(open) => self.open(entry.seq, What::Answer, &open.model, open.price, open.reserved),
            Record::Compaction(open) => {
                self.open(entry.seq, What::Compaction(open.first_kept), &open.model, open.price, open.reserved);
            }
            Record::BranchOpened(open) => self.open(entry.seq, What::Branch, &open.model, open.price, open.reserved),
            Record::Answer { answer, interrupted, estimated, price } => {
                if let (Some(by), Some(open)) = (&answer.by, self.open.get_mut(&ticket)) {
                    (open.model, open.price) = (by.clone(), *price);
                }
                let kind = if *interrupted { BillKind::Interrupted } else { BillKind::Answer };
                self.close(ticket, kind, &answer.usage, estimated.as_ref());
            }
            Record::RequestFailed { estimated, .. } => {
                self.close(ticket, BillKind::Failed, &Usage::default(), estimated.as_ref());
            }
            Record::Compacted(compacted) => {
                self.close_summary(ticket, compacted.lost, &compacted.usage, compacted.estimated.as_ref());
            }
            Record::CompactionFailed { usage, estimated, lost, .. }
            | Record::BranchFailed { usage, estimated, lost, .. } => {
                self.close_summary(ticket, *lost, usage, estimated.as_ref());
            }
            Record::BranchSummary(branch) => {
                let Some(request) = &branch.request else { return };
                // If the ticket is already closed, the request was lost and is on the bill as lost.
                let ticket = request.ticket;
                if self.open.contains_key(&ticket) {
                    self.open(ticket, What::Branch, &request.model, request.price, request.reserved);
                    self.close_summary(ticket, request.lost, &branch.usage, request.estimated.as_ref());
                }
            }
            Record::Imported(_) => {
                self.lose_what_was_under_way();
                self.open.clear();
                self.waits = false;
            }
            Record::Recovered { resumed, .. } => {
                self.lose_what_was_under_way();
                self.open.retain(|_, open| open.what != What::Branch);
                self.waits = !resumed;
            }
            Record::RolledBack(back) => {
                let given_up =
                    |_: &Seq, open: &mut Opened| matches!(open.what, What::Compaction(cut) if back.gives_up(cut));
                let given_up: Vec<_> = self.open.extract_if(.., given_up).collect();
                self.lines.extend(given_up.iter().map(|(ticket, open)| BillLine::lost((ticket, open))));
            }
            // The open requests belong to the parent.
            Record::Forked(_) => {
                self.open.clear();
                self.waits = false;
            }
            Record::Released {} | Record::Accepted { .. } | Record::TurnFinished { .. } => self.waits = false,
            _ => {}
        }
    }

    fn open(&mut self, ticket: Seq, what: What, model: &ModelRef, price: Option<Price>, reserved: Reserve) {
        self.open.insert(ticket, Opened { what, model: model.clone(), price, reserved });
    }

    fn lose_what_was_under_way(&mut self) {
        // While a turn waits for a go-on, its request is not under way.
        let under_way = |open: &Opened| !self.waits || open.what != What::Answer;
        let lost = self.open.iter().filter(|(_, open)| under_way(open)).map(BillLine::lost);
        self.lines.extend(lost);
    }

    /// Closes the request for a summary, and adds a line for each try that came to nothing.
    fn close_summary(&mut self, ticket: Seq, lost: u32, usage: &Usage, estimated: Option<&Usage>) {
        let Some(open) = self.open.get(&ticket) else { return };
        let line = |charge| BillLine { ticket, model: open.model.clone(), kind: BillKind::Failed, charge };
        self.lines.extend(in_vain(lost, open.reserved, open.price).map(line));
        self.close(ticket, BillKind::Summary, usage, estimated);
    }

    fn close(&mut self, ticket: Seq, kind: BillKind, usage: &Usage, estimated: Option<&Usage>) {
        let Some(open) = self.open.remove(&ticket) else { return };
        if let Some(charge) = Charge::of(open.price.as_ref(), usage, estimated) {
            self.lines.push(BillLine { ticket, model: open.model, kind, charge });
        }
    }
}

impl Bill {
    /// The bill of a whole tape. Of a fork's tape, the entries that are the parent's are not on it.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Bill {
        let mut bill = Bill::default();
        entries.into_iter().for_each(|entry| bill.apply(entry));
        bill
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        if matches!(entry.record, Record::Forked(_)) {
            // The requests before a fork are on the parent's bill.
            self.lines.clear();
        }
        self.lines.extend(self.unsettled.apply(entry));
    }

    /// The request that was closed last.
    #[must_use]
    pub fn last(&self) -> Option<&BillLine> {
        self.lines.last()
    }

    /// The sum of all.
    #[must_use]
    pub fn total(&self) -> Spent {
        let mut total = Spent::default();
        self.lines.iter().for_each(|line| total += line.charge);
        total
    }

    /// The sums by model.
    #[must_use]
    pub fn by_model(&self) -> BTreeMap<ModelRef, Spent> {
        let mut sums: BTreeMap<ModelRef, Spent> = BTreeMap::new();
        for line in &self.lines {
            *sums.entry(line.model.clone()).or_default() += line.charge;
        }
        sums
    }
}
