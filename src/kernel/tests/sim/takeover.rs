//! A second node: the lease of a session ends, another node has it, and the owner of before does not know yet.
//!
//! The owner of before has its state, its mailbox and its workers, and goes on until the tape refuses it; the tape takes nothing of it
//! any more. Its append in flight was either before the claim, and is acknowledged to it at any time after, or it is refused.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tamtam::{
    Seq,
    kernel::{Act, Decision, Due, Input, Mailbox, Open, SendMessage, State},
    tape::{Holder, TapeError},
    tool::Effect,
};

use super::{
    Broken,
    again::Made,
    disk::Disk,
    hold,
    host::Wish,
    world::{Flight, Job, Worker, World, has, through_bytes},
};

/// More acts than the owner of before may take.
const ACTS_MAX: usize = 200;

/// The owner of before.
pub(super) struct Ghost {
    state: State,
    mailbox: Mailbox,
    incarnation: u32,
    workers: BTreeMap<Seq, Worker>,
    /// What was in flight, where the tape took it before the claim.
    written: Option<Flight>,
    /// Whether what was in flight is refused.
    is_refused: bool,
}

impl World {
    /// The lease ends, at any point, and another node takes the session over. The owner of before lives on.
    pub(super) fn lose_lease(&mut self) -> Result<(), Broken> {
        if self.ghost.is_some() {
            return self.ghost_ends();
        }
        self.counts.takeovers += 1;
        let flight = self.flight.take();
        let (mut written, is_flying) = (flight.filter(|_| self.rng.percent(70)), self.mailbox.in_flight().is_some());
        if written.as_ref().is_some_and(|flight| flight.lines.is_empty()) {
            written = None;
        }
        self.tell(|_| format!("\nTAKEN OVER; in flight {is_flying}, on the tape {}", written.is_some()));
        if let Some(Flight { lines, .. }) = &written {
            let lines = lines.clone();
            self.appends.push((lines.len(), Made::Whole));
            self.written.extend(lines);
        }
        self.ghost = Some(Ghost {
            is_refused: is_flying && written.is_none(),
            state: self.state.clone(),
            mailbox: std::mem::take(&mut self.mailbox),
            incarnation: self.incarnation,
            workers: std::mem::take(&mut self.workers),
            written,
        });
        if self.disk == Disk::Hung {
            self.disk = Disk::Calm;
        }
        self.stops.clear();
        (self.poison, self.poisoned_ticket, self.report_deaths) = (None, None, 0);
        self.family.forget_watchers();
        self.rebuild()?;
        self.incarnation += 1;
        let ends = self.mailbox.begin(self.incarnation, self.recovery(), |entries| has(&self.written, entries));
        hold!(ends.is_empty(), "a node that takes over answers senders that are not its own: {ends:?}");
        self.host.check(&self.whole)?;
        self.drive()
    }

    /// The owner of before goes on, until it is refused: then all who wait there are told so, and its workers end with it.
    pub(super) fn ghost_ends(&mut self) -> Result<(), Broken> {
        let Some(mut ghost) = self.ghost.take() else { return Ok(()) };
        self.tell(|_| "\nTHE OWNER OF BEFORE goes on".to_owned());
        // Behind what the owner now wrote: in one moment two owners may write the same bytes of the same message, and both are right.
        self.now = self.now.plus(Duration::from_millis(1));
        if let Some(Flight { after, .. }) = ghost.written.take() {
            self.counts.late_acknowledged += 1;
            ghost.state = after;
            for (to, reply) in ghost.mailbox.recorded() {
                self.host.hear(to, &reply)?;
            }
            self.ghost_begins(&mut ghost)?;
        }
        self.ghost_is_asked(&mut ghost)?;
        if ghost.is_refused {
            return self.ghost_ends_refused(ghost);
        }
        for _ in 0..ACTS_MAX {
            match ghost.mailbox.next(&ghost.state, self.now) {
                Act::Rest => break,
                Act::Stop(_) => {}
                Act::Decide(inputs) => {
                    let Decision { entries, replies, .. } = self.of_ghost(&mut ghost, &inputs);
                    let is_written = !entries.is_empty();
                    ghost.mailbox.handed_over(Arc::new(entries.iter().map(through_bytes).collect()), replies);
                    if is_written {
                        break;
                    }
                    for (to, reply) in ghost.mailbox.recorded() {
                        self.host.hear(to, &reply)?;
                    }
                    self.ghost_begins(&mut ghost)?;
                }
            }
        }
        self.ghost_ends_refused(ghost)
    }

    /// It hears that it is refused; or its actor dies before that.
    fn ghost_ends_refused(&mut self, ghost: Ghost) -> Result<(), Broken> {
        if self.rng.percent(40) { self.ghost_comes_back(ghost) } else { self.ghost_is_refused(ghost) }
    }

    /// Its actor died at the moment in which it lost the session, and its node gets the session back from the other one: what waits
    /// in its mailbox, and what was in flight there, meets a tape on which another owner wrote meanwhile.
    fn ghost_comes_back(&mut self, ghost: Ghost) -> Result<(), Broken> {
        self.catch_up()?;
        self.tell(|_| "\nTHE OWNER OF BEFORE died, and its node gets the session back".to_owned());
        self.counts.came_back += 1;
        let upto = ghost.mailbox.in_flight().and_then(|entries| entries.last()).map(|entry| entry.seq);
        self.counts.overwritten += u64::from(upto.is_some_and(|upto| upto <= self.state.seq));
        (self.mailbox, self.workers) = (ghost.mailbox, BTreeMap::new());
        self.family.forget_watchers();
        self.rebuild()?;
        self.incarnation += 1;
        let ends = self.mailbox.begin(self.incarnation, self.recovery(), |entries| has(&self.written, entries));
        self.hear_ends(ends)?;
        self.host.check(&self.whole)?;
        self.drive()
    }

    /// What it would record. It is not judged as a decision of an owner is: its timers are behind.
    fn of_ghost(&mut self, ghost: &mut Ghost, inputs: &[Input]) -> Decision {
        std::mem::swap(&mut self.state, &mut ghost.state);
        let decision = self.decision(inputs);
        std::mem::swap(&mut self.state, &mut ghost.state);
        decision
    }

    /// Its workers report, and hosts that do not know send to it.
    fn ghost_is_asked(&mut self, ghost: &mut Ghost) -> Result<(), Broken> {
        let workers: Vec<_> = ghost.workers.iter().map(|(ticket, worker)| (*ticket, *worker)).collect();
        for (ticket, worker) in workers {
            if self.rng.percent(50) {
                continue;
            }
            std::mem::swap(&mut self.state, &mut ghost.state);
            let report = self.report_of(ticket, worker);
            std::mem::swap(&mut self.state, &mut ghost.state);
            if let Input::Report { ticket, report } = report {
                ghost.mailbox.report(ghost.incarnation, ticket, report);
            }
        }
        for _ in 0..self.rng.below(3) {
            // A new message, or one that the tape may have.
            let ids = self.host.ids();
            let message = match ids.is_empty() || self.rng.percent(60) {
                true => self.host.write(),
                false => self.host.again(&self.rng.pick(&ids)),
            };
            let to = self.host.wish(Wish::Send(message.id.clone()));
            let delivery = self.delivery();
            let send = SendMessage { message, delivery, expect_turn: None, agent: None, added: 0 };
            let Input::Command { reply, command, id } = send.to(to) else { continue };
            if ghost.mailbox.command(reply, command, id).is_err() {
                self.host.not_taken(reply)?;
            }
        }
        Ok(())
    }

    /// It begins what its tape says, as every shell does: nothing that is due by an append that was refused.
    fn ghost_begins(&mut self, ghost: &mut Ghost) -> Result<(), Broken> {
        if !ghost.mailbox.may_begin() {
            return Ok(());
        }
        ghost.workers.retain(|ticket, _| ghost.state.open.contains_key(ticket));
        let due = ghost.state.due_work(|ticket| {
            ghost.workers.contains_key(&ticket) || ghost.mailbox.has_report(ticket) || self.family.watches(ticket)
        });
        for due in due {
            let Due::Call(ticket) = due else { continue };
            let Some(Open::Call(call)) = ghost.state.open.get(&ticket) else { continue };
            ghost.workers.insert(ticket, Worker { work: Job::Call, stopped: false });
            let times = self.ran.entry(ticket).or_default();
            *times += 1;
            hold!(*times == 1 || call.facts.effect != Effect::Once, "call {ticket} of effect once ran with two owners");
            self.counts.begun_late += 1;
        }
        Ok(())
    }

    fn ghost_is_refused(&mut self, mut ghost: Ghost) -> Result<(), Broken> {
        let by = Holder::new("two", 2, "other");
        let error = TapeError::Claimed { session: self.state.session.clone(), by };
        let is_refused = ghost.mailbox.in_flight().is_some();
        self.counts.refused_owners += u64::from(is_refused);
        let ends = ghost.mailbox.refused(&error, self.now);
        self.hear_ends(ends)?;
        for to in ghost.mailbox.take_waiting(true) {
            self.host.not_taken(to)?;
        }
        self.host.check(&self.whole)
    }
}
