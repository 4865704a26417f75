//! What a session's requests used and cost, one by one: a fold of the tape, apart from the state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    ids::Seq,
    message::ModelRef,
    model::Price,
    session::{Charge, Entry, Open, Record, Reserve, Spent, spent::in_vain},
};

/// Every model request of a session that used something, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Bill {
    /// The requests.
    pub lines: Vec<BillLine>,
    #[serde(skip)]
    open: BTreeMap<Seq, Opened>,
    #[serde(skip)]
    waits: bool,
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
    /// What it used and cost.
    #[serde(flatten)]
    pub charge: Charge,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BillKind {
    /// It was answered.
    Answer,
    /// It was cut off by us.
    Interrupted,
    /// It broke off.
    Failed,
    /// It was under way when the process ended.
    Lost,
    /// It summed up an older part of the conversation.
    Summary,
}

/// What a bill must know to go on with the entries that follow.
#[cfg(feature = "sqlite")]
#[derive(Serialize, Deserialize)]
pub(super) struct Unsettled {
    open: BTreeMap<Seq, Opened>,
    waits: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Opened {
    model: ModelRef,
    price: Option<Price>,
    reserved: Reserve,
}

impl Bill {
    /// The bill of a whole tape.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Bill {
        let mut bill = Bill::default();
        entries.into_iter().for_each(|entry| bill.apply(entry));
        bill
    }

    /// Takes the next entry.
    pub fn apply(&mut self, entry: &Entry) {
        let ticket = entry.ticket.unwrap_or(entry.seq);
        match &entry.record {
            Record::State(state) => {
                self.waits = state.waits;
                let open = state.open.iter().filter_map(|(ticket, open)| match open {
                    Open::Request(open) => Some((*ticket, open.model.clone(), open.price, open.reserved)),
                    Open::Compaction(open) => Some((*ticket, open.model.clone(), open.price, open.reserved)),
                    _ => None,
                });
                self.open =
                    open.map(|(ticket, model, price, reserved)| (ticket, Opened { model, price, reserved })).collect();
            }
            Record::Request(open) => {
                let opened = Opened { model: open.model.clone(), price: open.price, reserved: open.reserved };
                self.open.insert(entry.seq, opened);
            }
            Record::Compaction(open) => {
                let opened = Opened { model: open.model.clone(), price: open.price, reserved: open.reserved };
                self.open.insert(entry.seq, opened);
            }
            Record::Answer { answer, interrupted, estimated } => {
                let kind = if *interrupted { BillKind::Interrupted } else { BillKind::Answer };
                self.close(ticket, kind, |open| Charge::of(open.price.as_ref(), &answer.usage, estimated.as_ref()));
            }
            Record::RequestFailed { estimated, .. } => self.close(ticket, BillKind::Failed, |open| {
                Charge::of(open.price.as_ref(), &Default::default(), estimated.as_ref())
            }),
            Record::Compacted(compacted) => {
                self.in_vain(ticket, compacted.lost);
                self.close(ticket, BillKind::Summary, |open| {
                    compacted.summary.as_ref().and_then(|_| compacted.charge(open.price.as_ref()))
                });
            }
            Record::CompactionFailed { usage, estimated, lost, .. } => {
                self.in_vain(ticket, *lost);
                self.close(ticket, BillKind::Summary, |open| {
                    Charge::of(open.price.as_ref(), usage, estimated.as_ref())
                });
            }
            Record::BranchSummary(branch) => {
                if let Some(request) = &branch.request {
                    let (model, kind) = (&request.model, BillKind::Summary);
                    let line = |charge| BillLine { ticket: entry.seq, model: model.clone(), kind, charge };
                    self.lines.extend(branch.charges().map(line));
                }
            }
            Record::Recovered { resumed, .. } => {
                if !self.waits {
                    let lost = self.open.iter().map(|(ticket, open)| BillLine {
                        ticket: *ticket,
                        model: open.model.clone(),
                        kind: BillKind::Lost,
                        charge: open.reserved.lost(open.price.as_ref()),
                    });
                    self.lines.extend(lost);
                }
                self.waits = !resumed;
            }
            Record::Released {} | Record::Accepted { .. } => self.waits = false,
            _ => {}
        }
    }

    /// Tries of a summary that were read and came to nothing.
    fn in_vain(&mut self, ticket: Seq, tries: u32) {
        let Some(open) = self.open.get(&ticket) else { return };
        let line = |charge| BillLine { ticket, model: open.model.clone(), kind: BillKind::Failed, charge };
        self.lines.extend(in_vain(tries, open.reserved, open.price).map(line));
    }

    fn close(&mut self, ticket: Seq, kind: BillKind, charge: impl FnOnce(&Opened) -> Option<Charge>) {
        let Some(open) = self.open.remove(&ticket) else { return };
        if let Some(charge) = charge(&open) {
            self.lines.push(BillLine { ticket, model: open.model, kind, charge });
        }
    }

    /// What is open on it, to go on with later.
    #[cfg(feature = "sqlite")]
    pub(super) fn unsettled(&self) -> Unsettled {
        Unsettled { open: self.open.clone(), waits: self.waits }
    }

    /// A bill without a line that goes on from there.
    #[cfg(feature = "sqlite")]
    pub(super) fn going_on(Unsettled { open, waits }: Unsettled) -> Bill {
        Bill { lines: Vec::new(), open, waits }
    }

    /// The newest request.
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
