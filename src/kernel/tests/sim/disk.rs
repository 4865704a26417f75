//! The disk under a session, which is not always well, and the deaths of whoever writes to it.

use std::{io, sync::Arc, time::Duration};

use tamtam::{
    Seq,
    kernel::{Decision, Input, Mailbox, Record, Report},
    tape::TapeError,
};

use super::{
    Broken,
    again::Made,
    chance, hold,
    rng::Rng,
    world::{Flight, Worker, World, has, through_bytes},
};
use crate::kernel::tests::core::tools;

/// How the disk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// It answers at once.
    Calm,
    /// It answers later.
    Slow,
    /// It refuses, because it is full or for another reason.
    Refusing { full: bool },
    /// It does not answer.
    Hung,
}

/// Bytes of a report that the disk of some schedules does not take.
const LARGE_BYTES: usize = 10_000;

impl Disk {
    /// Another mood.
    pub(super) fn by_chance(rng: &mut Rng) -> Disk {
        rng.weighted(&[
            (6, Disk::Calm),
            (3, Disk::Slow),
            (1, Disk::Refusing { full: true }),
            (1, Disk::Refusing { full: false }),
            (1, Disk::Hung),
        ])
    }

    pub(super) fn refusal(self) -> Option<TapeError> {
        let Disk::Refusing { full } = self else { return None };
        let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::PermissionDenied };
        Some(TapeError::Io { op: "write", path: "/tape".into(), source: Arc::new(kind.into()) })
    }
}

/// Why the disk does not take so much at once, where it does not.
pub(super) fn too_large(rng: &mut Rng, inputs: &[Input]) -> Option<TapeError> {
    let is_large = match inputs {
        [Input::Report { report: Report::Summarised { result: Ok((summary, _)), .. }, .. }] => {
            summary.len() > LARGE_BYTES && rng.percent(50)
        }
        [_] => rng.percent(2),
        _ => rng.percent(6),
    };
    is_large.then_some(TapeError::TooLarge { bytes: 2 * LARGE_BYTES, max: LARGE_BYTES })
}

impl World {
    /// The session dies, at any point: the whole process, or its actor alone, whose mailbox stays. Where it is stopped in order it
    /// notes that first, and does not wait for the disk.
    pub(super) fn crash(&mut self) -> Result<(), Broken> {
        if self.flight.is_none() && self.rng.percent(30) {
            let decision = self.decision(&[Input::Stop]);
            self.judge(&[Input::Stop], &decision)?;
            let Decision { entries, stops, after, .. } = decision;
            hold!(stops.is_empty() && entries.len() <= 1, "a stop in order does more than note itself");
            self.counts.stops_in_order += entries.len() as u64;
            let lines = entries.iter().map(through_bytes).collect();
            self.flight = Some(Flight { lines, after });
        }
        let whole_process = self.rng.percent(40);
        self.die(whole_process)?;
        self.drive()
    }

    /// It dies, and its next incarnation begins. What was on its way to the disk is there whole, or not at all.
    pub(super) fn die(&mut self, whole_process: bool) -> Result<(), Broken> {
        self.counts.crashes += 1;
        self.tell(|_| format!("\nCRASH of the {}", if whole_process { "process" } else { "actor" }));
        if let Some(flight) = self.flight.take() {
            self.counts.crashes_in_flight += 1;
            // An actor's append is there whole or not at all. Where the whole process dies, more is tried than a tape allows: any
            // beginning of it may be there.
            let all = flight.lines.len();
            let kept = if whole_process { self.rng.below(all + 1) } else { all * self.rng.below(2) };
            self.counts.torn += u64::from(kept < all);
            self.tell(|_| format!("    {kept} of {all} entries in flight are kept"));
            let made = if kept < all { Made::Torn } else { Made::Whole };
            self.appends.push((kept, made));
            self.written.extend(flight.lines.into_iter().take(kept));
        }
        // The next incarnation opens the tape anew.
        if self.disk == Disk::Hung {
            self.disk = Disk::Calm;
        }
        let dead: Vec<_> = self.workers.iter().map(|(ticket, worker)| (*ticket, *worker)).collect();
        if whole_process {
            self.mailbox = Mailbox::default();
            self.stops.clear();
            (self.poison, self.poisoned_ticket, self.report_deaths) = (None, None, 0);
            self.host.hang_up();
            self.ghost = None;
        } else {
            self.last_words(&dead);
        }
        self.workers.clear();
        self.family.forget_watchers();
        self.rebuild()?;
        self.incarnation += 1;
        let ends = self.mailbox.begin(self.incarnation, self.recovery(), |entries| has(&self.written, entries));
        self.hear_ends(ends)?;
        if !whole_process {
            self.too_late(&dead)?;
        }
        self.host.check(&self.whole)
    }

    /// What the tools say of what is open, when an incarnation begins.
    pub(super) fn recovery(&self) -> Input {
        tools::told(&self.toolbox, &self.state, &Input::recover())
    }

    pub(super) fn rebuild(&mut self) -> Result<(), Broken> {
        self.state = self.fold(self.written.iter());
        let anchor = self.written.iter().rposition(|line| matches!(line.record, Record::State(_))).unwrap_or(0);
        hold!(
            self.fold(self.written[anchor..].iter()) == self.state,
            "from its newest anchor the tape folds to another state"
        );
        self.host.look_over(&self.written);
        self.folded = self.state.clone();
        self.whole = self.fold_uncompacted();
        self.heard = self.rng.percent(80);
        if self.rng.percent(15) {
            self.host_rules = chance::host_rules(&mut self.rng);
        }
        self.now = self.now.plus(Duration::from_millis(self.rng.below(5_000) as u64));
        self.counts.recoveries += u64::from(self.state.turn.is_some());
        Ok(())
    }

    /// A report may have come that the actor did not get to: it is recorded before recovery.
    fn last_words(&mut self, dead: &[(Seq, Worker)]) {
        for (ticket, worker) in dead {
            if self.rng.percent(30) && self.state.open.contains_key(ticket) {
                let report = self.report_of(*ticket, *worker);
                if let Input::Report { ticket, report } = tools::told(&self.toolbox, &self.state, &report) {
                    self.mailbox.report(self.incarnation, ticket, report);
                }
            }
        }
    }

    /// A worker of the incarnation that died reports to the next one. Nobody hears it.
    fn too_late(&mut self, dead: &[(Seq, Worker)]) -> Result<(), Broken> {
        for (ticket, worker) in dead {
            if self.rng.percent(30)
                && let Input::Report { ticket, report } = self.report_of(*ticket, *worker)
            {
                let taken = self.mailbox.report(self.incarnation - 1, ticket, report);
                hold!(!taken, "a report of an earlier incarnation about {ticket} was taken");
                self.counts.late_reports += 1;
            }
        }
        Ok(())
    }
}
