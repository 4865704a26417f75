//! The bill of a session: what each of its model requests used and cost, one by one. A fold of the tape, apart from the state;
//! hosts and lists read it, and no decision does.
//!
//! Each try of a request that used something is on the bill once: with its own usage when it is closed, or with all that was
//! reserved for it when it was lost in a crash, an import or a rollback. An unsuccessful try of a summary counts with the input
//! that was reserved for it. A request that failed before the provider read it is not on the bill. The bill of a fork begins at its
//! `forked` entry: the requests before it are on the parent's bill.
//!
//! [`charged`] alone says what an entry charges. The fold of the state ([`State::spent`]) adds it up with the requests that are open
//! in the state; a bill and a digest, which have no state, with those in [`Unsettled`].
//!
//! A change must keep that [`Unsettled`] opens and closes the requests that the state does. It is stored with a session's digest
//! (`digest.rs`): a change of its form needs a higher `FORM` of `Digest` (`ops/listing/rows.rs`).
//!
//! Rejected: to write the charge into the entry that closes a request, so that a bill is a filter of entries. `imported` closes
//! requests too, and the tape's code that writes it knows of no requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{BranchRequest, Charge, Entry, Open, Record, Reserve, RolledBack, Spent, State, budget::spent::in_vain},
    model::{Dropped, Price},
    words::{
        ids::Seq,
        message::ModelRef,
        usage::{Cost, Usage},
    },
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
    /// Whether the request was one of the running turn.
    #[serde(skip)]
    pub(in crate::kernel) of_turn: bool,
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
    /// It broke off; also a try of a summary that came to nothing, and an answer that the provider began ahead and that was dropped
    /// (with the ticket of the answer that is charged with it).
    Failed,
    /// It was under way when the process ended or the session was imported, or its compaction was given up by a rollback.
    Lost,
    /// It was made to sum up an older part of the conversation, or a branch; also where its summary could not be used.
    Summary,
}

/// The model requests that are open before an entry.
pub(crate) trait OpenRequests {
    /// The request of a ticket.
    fn request(&self, ticket: Seq) -> Option<Requested>;

    /// All of them, by ticket.
    fn requests(&self) -> impl Iterator<Item = (Seq, Requested)>;

    /// Whether the turn waits for a go-on: its request is not under way then.
    fn waits(&self) -> bool;
}

impl OpenRequests for State {
    fn request(&self, ticket: Seq) -> Option<Requested> {
        self.open.get(&ticket).and_then(Requested::of)
    }

    fn requests(&self) -> impl Iterator<Item = (Seq, Requested)> {
        self.open.iter().filter_map(|(ticket, open)| Some((*ticket, Requested::of(open)?)))
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

/// What an entry charges: a line for each try of a request that it closes, or gives up, and that used something.
pub(crate) fn charged(entry: &Entry, open: &impl OpenRequests) -> Vec<BillLine> {
    let ticket = entry.ticket.unwrap_or(entry.seq);
    let close = |kind, lost, usage: &Usage, estimated: Option<&Usage>| {
        open.request(ticket).map_or_else(Vec::new, |of| of.closed(ticket, kind, lost, usage, estimated))
    };
    let lost = |is_lost: &dyn Fn(&Requested) -> bool| -> Vec<BillLine> {
        let lost = open.requests().filter(|(_, of)| is_lost(of));
        lost.map(|(ticket, of)| of.line(ticket, BillKind::Lost, of.reserved.lost(of.price.as_ref()))).collect()
    };
    match &entry.record {
        Record::Answer { answer, interrupted, estimated, price } => {
            let Some(mut of) = open.request(ticket) else { return Vec::new() };
            if let Some(by) = &answer.by {
                (of.model, of.price) = (by.clone(), *price);
            }
            let kind = if *interrupted { BillKind::Interrupted } else { BillKind::Answer };
            // The charge of the answer itself is the last one.
            let dropped = answer.dropped.iter().map(|dropped| of.dropped(ticket, *dropped));
            let closed = of.closed(ticket, kind, 0, &answer.usage, estimated.as_ref());
            dropped.chain(closed).collect()
        }
        Record::RequestFailed { estimated, .. } => close(BillKind::Failed, 0, &Usage::default(), estimated.as_ref()),
        Record::Compacted(compacted) => {
            close(BillKind::Summary, compacted.lost, &compacted.usage, compacted.estimated.as_ref())
        }
        Record::CompactionFailed { usage, estimated, lost, .. }
        | Record::BranchFailed { usage, estimated, lost, .. } => {
            close(BillKind::Summary, *lost, usage, estimated.as_ref())
        }
        // If the ticket is already closed, the request was lost, and charged as lost.
        Record::BranchSummary(branch) => match &branch.request {
            Some(request) if open.request(request.ticket).is_some() => {
                let BranchRequest { ticket, model, price, reserved, estimated, lost } = request;
                let of = Requested { what: What::Branch, model: model.clone(), price: *price, reserved: *reserved };
                of.closed(*ticket, BillKind::Summary, *lost, &branch.usage, estimated.as_ref())
            }
            _ => Vec::new(),
        },
        Record::Imported(_) | Record::Recovered { .. } => lost(&|of| !open.waits() || of.what != What::Answer),
        Record::RolledBack(back) => lost(&|of| of.is_given_up(back)),
        _ => Vec::new(),
    }
}

/// An open request, as far as its charge needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Requested {
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

impl Requested {
    fn of(open: &Open) -> Option<Requested> {
        let (what, model, price, reserved) = match open {
            Open::Request(open) => (What::Answer, &open.model, open.price, open.reserved),
            Open::Compaction(open) => (What::Compaction(open.first_kept), &open.model, open.price, open.reserved),
            Open::Branch(open) => (What::Branch, &open.model, open.price, open.reserved),
            _ => return None,
        };
        Some(Requested { what, model: model.clone(), price, reserved })
    }

    fn is_given_up(&self, back: &RolledBack) -> bool {
        matches!(self.what, What::Compaction(first_kept) if back.gives_up(first_kept))
    }

    fn line(&self, ticket: Seq, kind: BillKind, charge: Charge) -> BillLine {
        BillLine { ticket, model: self.model.clone(), kind, charge, of_turn: self.what == What::Answer }
    }

    /// The line of what the provider began ahead of the request in vain.
    fn dropped(&self, ticket: Seq, Dropped { usage, estimated }: Dropped) -> BillLine {
        let cost = Cost::of(self.price.and_then(|price| price.cost(&usage)));
        self.line(ticket, BillKind::Failed, Charge { usage, estimated, cost })
    }

    /// The lines of a request that is closed: one for each try that came to nothing, and one where the last try used something.
    fn closed(
        &self,
        ticket: Seq,
        kind: BillKind,
        lost: u32,
        usage: &Usage,
        estimated: Option<&Usage>,
    ) -> Vec<BillLine> {
        let in_vain =
            in_vain(lost, self.reserved, self.price).map(|charge| self.line(ticket, BillKind::Failed, charge));
        let last = Charge::of(self.price.as_ref(), usage, estimated).map(|charge| self.line(ticket, kind, charge));
        in_vain.chain(last).collect()
    }
}

/// The open requests that a bill must know to go on with the entries that follow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::kernel) struct Unsettled {
    open: BTreeMap<Seq, Requested>,
    waits: bool,
}

impl OpenRequests for Unsettled {
    fn request(&self, ticket: Seq) -> Option<Requested> {
        self.open.get(&ticket).cloned()
    }

    fn requests(&self) -> impl Iterator<Item = (Seq, Requested)> {
        self.open.iter().map(|(ticket, open)| (*ticket, open.clone()))
    }

    fn waits(&self) -> bool {
        self.waits
    }
}

impl Unsettled {
    /// The lines that the next entry adds.
    pub(in crate::kernel) fn apply(&mut self, entry: &Entry) -> Vec<BillLine> {
        let lines = charged(entry, self);
        match &entry.record {
            Record::State(state) => {
                self.waits = state.waits;
                self.open = state.requests().collect();
            }
            Record::Request(open) => self.open(entry.seq, What::Answer, &open.model, open.price, open.reserved),
            Record::Compaction(open) => {
                self.open(entry.seq, What::Compaction(open.first_kept), &open.model, open.price, open.reserved);
            }
            Record::BranchOpened(open) => self.open(entry.seq, What::Branch, &open.model, open.price, open.reserved),
            Record::Answer { .. }
            | Record::RequestFailed { .. }
            | Record::Compacted(_)
            | Record::CompactionFailed { .. }
            | Record::BranchFailed { .. } => drop(self.open.remove(&entry.ticket.unwrap_or(entry.seq))),
            Record::BranchSummary(branch) => {
                branch.request.iter().for_each(|request| drop(self.open.remove(&request.ticket)));
            }
            // The open requests of a fork's parent are the parent's.
            Record::Imported(_) | Record::Forked(_) => *self = Unsettled::default(),
            Record::Recovered { resumed, .. } => {
                self.open.retain(|_, open| open.what != What::Branch);
                self.waits = !resumed;
            }
            Record::RolledBack(back) => self.open.retain(|_, open| !open.is_given_up(back)),
            Record::Released {} | Record::Accepted { .. } | Record::TurnFinished { .. } => self.waits = false,
            _ => {}
        }
        lines
    }

    fn open(&mut self, ticket: Seq, what: What, model: &ModelRef, price: Option<Price>, reserved: Reserve) {
        self.open.insert(ticket, Requested { what, model: model.clone(), price, reserved });
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
