//! The shell: the real mailbox says what is done next, and this does it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tamtam::{
    kernel::{Act, CommandEnd, Decision, Due, Entry, Env, Input, Open, Record, ReplyTo, Report, Stop, decide},
    session::ErrorReason,
    tape::TapeError,
    tool::{Effect, ToolResult},
};

use super::{
    Broken,
    again::Made,
    budgets, checks,
    disk::{Disk, too_large},
    hold, tasks,
    world::{Flight, Job, Worker, World, through_bytes},
};
use crate::kernel::tests::core::{play::Known, tools};

/// More acts than any happening may take.
const ACTS_MAX: usize = 2_000;

impl World {
    /// Puts in what happened, and lets the shell work, most of the time.
    pub(super) fn signal(&mut self, input: &Input) -> Result<(), Broken> {
        self.put(input)?;
        if self.rng.percent(self.keeps_up) { self.drive() } else { Ok(()) }
    }

    /// Puts it in where everything before it is done and the disk is well, so that it is decided alone and at once.
    pub(super) fn at_once(&mut self, input: &Input) -> Result<(), Broken> {
        self.catch_up()?;
        let rough = std::mem::replace(&mut self.is_rough, false);
        self.put(input)?;
        self.drive()?;
        self.is_rough = rough;
        Ok(())
    }

    fn put(&mut self, input: &Input) -> Result<(), Broken> {
        if self.is_rough && self.rng.percent(1) && self.poison.is_none() && self.poisoned_ticket.is_none() {
            (self.poison, self.poisoned_ticket) = (input.reply(), input.reported());
        }
        self.tell(|_| format!("\nputs in {input:?}"));
        // A worker asks the tools when it reports.
        match tools::told(&self.toolbox, &self.state, input) {
            Input::Command { reply, command, id } => {
                if input.is_stop() && reply != ReplyTo::NOBODY {
                    self.stops.insert(reply, matches!(command, tamtam::kernel::Command::Abort(_)));
                }
                if self.mailbox.command(reply, command, id).is_err() {
                    self.stops.remove(&reply);
                    self.poison = self.poison.filter(|poison| *poison != reply);
                    self.host.not_taken(reply)?;
                }
            }
            Input::Report { ticket, report } => {
                self.mailbox.report(self.incarnation, ticket, report);
            }
            // The mailbox sees to these by itself.
            _ => {}
        }
        Ok(())
    }

    /// The shell works until there is nothing that it may do.
    pub(super) fn drive(&mut self) -> Result<(), Broken> {
        for _ in 0..ACTS_MAX {
            match self.mailbox.next(&self.state, self.now) {
                Act::Rest => return self.rests(),
                Act::Stop(input) => {
                    self.tell(|_| format!("\nstops at once: {input:?}"));
                    self.counts.stops_in_flight += u64::from(self.flight.is_some());
                    let decision = self.decision(std::slice::from_ref(&input));
                    self.stop_all(&decision.stops);
                }
                Act::Decide(inputs) => self.record(&inputs)?,
            }
        }
        Err("the mailbox goes round for ever".to_owned())
    }

    /// Decides about these, and has it written.
    fn record(&mut self, inputs: &[Input]) -> Result<(), Broken> {
        hold!(self.flight.is_none(), "two decisions are in flight");
        self.tell(|_| format!("\n{inputs:?}"));
        if self.poison.is_some_and(|poison| inputs.iter().any(|input| input.reply() == Some(poison))) {
            self.counts.poisoned += 1;
            return self.die(false);
        }
        if self.poisoned_ticket.is_some_and(|ticket| inputs.iter().any(|input| input.reported() == Some(ticket))) {
            self.counts.poisoned += 1;
            self.report_deaths += 1;
            if self.report_deaths >= 2 {
                (self.poisoned_ticket, self.report_deaths) = (None, 0);
                self.counts.poison += 1;
            }
            return self.die(false);
        }
        let decision = self.decision(inputs);
        self.judge(inputs, &decision)?;
        let may_stop = |input: &Input| input.is_stop() || !matches!(input, Input::Command { .. });
        let runs = |stop: &&Stop| match stop {
            Stop::Request(ticket) | Stop::Call(ticket) | Stop::Task(ticket) => self.state.open.contains_key(ticket),
        };
        let stops = decision.stops.iter().find(runs);
        hold!(
            stops.is_none() || inputs.iter().any(may_stop),
            "{inputs:?} may be refused, and {stops:?} is done at once"
        );
        self.stop_all(&decision.stops);
        let Decision { entries, replies, after, .. } = decision;
        let lines: Vec<_> = entries.iter().map(through_bytes).collect();
        if self.dies(1) {
            // In hand.
            return self.die(false);
        }
        self.mailbox.handed_over(Arc::new(lines.clone()), replies);
        self.flight = Some(Flight { lines, after });
        if entries.is_empty() {
            return self.settle();
        }
        if let Some(error) = too_large(&mut self.rng, inputs).filter(|_| self.is_rough) {
            self.counts.too_large += 1;
            return self.refuse(&error);
        }
        // The worst moment: an append is on its way.
        if self.ghost.is_none() && self.dies(2) {
            return self.lose_lease();
        }
        match self.disk {
            Disk::Calm => self.settle(),
            Disk::Refusing { .. } => {
                let error = self.disk.refusal().ok_or("it refuses")?;
                self.refuse(&error)
            }
            Disk::Slow | Disk::Hung => Ok(()),
        }
    }

    /// Whether it dies just now.
    fn dies(&mut self, percent: usize) -> bool {
        self.is_rough && self.rng.percent(percent)
    }

    pub(super) fn decision(&mut self, inputs: &[Input]) -> Decision {
        let jitter = self.rng.below(1_000) as f64 / 1_000.0;
        let known = Known { window: self.window, prices: &self.prices };
        let env = Env {
            globs: &self.globs,
            host_rules: self.host_rules.as_ref(),
            tools_tokens: 0,
            permissions: self.toolbox.permissions(),
            windows: &known,
            toolbox_hash: "tools",
            asks_are_heard: self.heard,
            jitter,
        };
        decide(&self.state, inputs, &env, self.now)
    }

    /// What holds for each decision, recorded or not.
    pub(super) fn judge(&mut self, inputs: &[Input], decision: &Decision) -> Result<(), Broken> {
        let Decision { entries, stops, replies, after } = decision;
        self.counts.signals += 1;
        for entry in entries {
            self.tell(|_| format!("    {} {:?} {:?}", entry.seq, entry.ticket, entry.record));
        }
        self.tell(|_| format!("    => {stops:?} {replies:?}"));
        // Each input by itself: what comes behind it in the batch may change the rules, a limit, and what waits.
        let mut before = self.state.clone();
        for entries in entries.chunk_by(|_, next| next.input.is_none()) {
            let mut after = before.clone();
            entries.iter().for_each(|entry| after.apply(entry));
            checks::decision(&before, entries, &after)?;
            checks::permitted(&before, entries, &after, &self.toolbox)?;
            budgets::reserved(&before, entries, &after)?;
            tasks::within_the_width(&before, entries, &after)?;
            before = after;
        }
        // After a hold the recovery is still to come, and a stop may come before it.
        let is_held = inputs == [Input::Stop] && checks::state(&self.state).is_err();
        if inputs.last() == Some(&Input::Hold) || is_held {
            return Ok(());
        }
        let (answered, replies): (BTreeSet<_>, _) = (replies.iter().map(|(to, _)| *to).collect(), replies.len());
        let asked: BTreeSet<_> =
            inputs.iter().filter_map(Input::reply).filter(|reply| *reply != ReplyTo::NOBODY).collect();
        hold!(replies == asked.len() && answered == asked, "{inputs:?} were answered {replies} times");
        tasks::one_end(&self.state, after)?;
        let closed: Vec<_> = inputs.iter().filter_map(Input::reported).collect();
        if inputs.len() == closed.len() && closed.iter().all(|ticket| !self.state.open.contains_key(ticket)) {
            hold!(*after == self.state, "reports of closed tickets {closed:?} changed something");
        }
        checks::state(after)
    }

    /// Stops never wait.
    fn stop_all(&mut self, stops: &[Stop]) {
        for stop in stops {
            match stop {
                Stop::Request(ticket) | Stop::Call(ticket) => {
                    self.counts.stops += 1;
                    if let Some(worker) = self.workers.get_mut(ticket) {
                        worker.stopped = true;
                    }
                }
                Stop::Task(ticket) => self.stop_task(*ticket),
            }
        }
    }

    /// What holds when the shell rests: something will wake it, and what an abort stops was told so, whatever the disk does.
    fn rests(&self) -> Result<(), Broken> {
        let due = self.mailbox.due(&self.state).filter(|due| *due <= self.now && self.flight.is_none());
        hold!(due.is_none(), "{due:?} has passed, and nobody will see to it");
        let aborts = self.stops.values().any(|is_abort| *is_abort);
        if !aborts || self.state.turn.is_none() || self.state.waits || self.state.closed.is_some() {
            return Ok(());
        }
        let goes_on = self.workers.iter().find(|(_, worker)| worker.work != Job::Summary && !worker.stopped);
        hold!(goes_on.is_none(), "an abort waits for the disk, and {goes_on:?} was not told to stop");
        Ok(())
    }

    /// The tape has answered: the decision is what is.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        let Some(flight) = self.flight.take() else { return Ok(()) };
        let Flight { lines, after } = flight;
        let written = !lines.is_empty();
        self.put_on_the_tape(lines.clone());
        if written && self.dies(2) {
            self.counts.crashes_before_pop += 1;
            return self.die(false);
        }
        self.counts.entries += lines.len() as u64;
        self.counts.count(&lines);
        let count = |is: fn(&Record) -> bool| lines.iter().filter(|line| is(&line.record)).count() as u64;
        let waits = |line: &&Entry| matches!(line.record, Record::TaskStarted { .. }) && after.is_queued(line.seq);
        self.counts.queued += lines.iter().filter(waits).count() as u64;
        self.counts.downs += count(|record| matches!(record, Record::TaskFinished { .. }));
        self.counts.compactions += count(|record| matches!(record, Record::Compacted(_)));
        self.counts.undone += count(|record| matches!(record, Record::CompactionUndone(_)));
        lines.iter().for_each(|line| self.folded.apply(line));
        let goes_back = lines.iter().any(|line| matches!(line.record, Record::RolledBack(_)));
        let earlier = if goes_back { self.entries() } else { Vec::new() };
        lines.iter().for_each(|line| self.apply_uncompacted(line, &earlier));
        hold!(self.folded == after, "the fold of the tape is not the live state");
        let before = std::mem::replace(&mut self.state, after);
        if let (Some((was, _)), Some((is, _))) = (before.request(), self.state.request())
            && was == is
        {
            // It is not sent before hooks have seen it.
            let seen = lines.iter().any(|line| matches!(line.record, Record::Prepared(_)));
            let stays = before.history_hash == self.state.history_hash;
            hold!(seen || stays, "the history changed under the open request {is}");
        }
        for (to, reply) in self.mailbox.recorded() {
            self.stops.remove(&to);
            self.host.hear(to, &reply)?;
        }
        self.begin_what_is_due()?;
        self.host.check(&self.whole)?;
        checks::is_end_of(&self.state, &self.whole)?;
        checks::pins_stay(&self.state)?;
        self.stays_quiet()
    }

    pub(super) fn put_on_the_tape(&mut self, lines: Vec<Entry>) {
        self.appends.push((lines.len(), Made::Whole));
        self.written.extend(lines);
    }

    /// The tape does not take it: the state is what it was.
    fn refuse(&mut self, error: &TapeError) -> Result<(), Broken> {
        self.tell(|_| format!("    REFUSED: {error}"));
        self.counts.refused += 1;
        self.flight = None;
        let ends = self.mailbox.refused(error, self.now);
        self.hear_ends(ends)?;
        self.begin_what_is_due()
    }

    pub(super) fn hear_ends(&mut self, ends: Vec<(ReplyTo, CommandEnd)>) -> Result<(), Broken> {
        for (to, end) in ends {
            self.tell(|_| format!("    {to:?} hears {end:?}"));
            self.stops.remove(&to);
            if self.poison == Some(to) {
                self.poison = None;
            }
            match end {
                CommandEnd::Decided(reply) => self.host.hear(to, &reply)?,
                CommandEnd::NotRecorded(_) => self.host.not_taken(to)?,
                CommandEnd::Crashed => {
                    self.counts.poison += 1;
                    self.host.not_taken(to)?;
                }
            }
        }
        Ok(())
    }

    /// The shell and the tape catch up: the disk is well again.
    pub(super) fn catch_up(&mut self) -> Result<(), Broken> {
        let rough = std::mem::replace(&mut self.is_rough, false);
        self.disk = Disk::Calm;
        for _ in 0..8 {
            self.settle()?;
            self.drive()?;
            let has_passed = self.state.due().is_some_and(|due| due <= self.now);
            let waits = !self.mailbox.is_empty() || !self.mailbox.may_begin() || has_passed;
            let Some(again) = self.mailbox.due(&self.state).filter(|_| waits) else { break };
            self.now = self.now.max(again);
        }
        hold!(self.mailbox.is_empty(), "the disk is well, and something still waits");
        self.is_rough = rough;
        Ok(())
    }

    /// Begins what is open, due, and has nobody at work on it, as the shell does.
    fn begin_what_is_due(&mut self) -> Result<(), Broken> {
        let open = &self.state.open;
        self.workers.retain(|ticket, _| open.contains_key(ticket));
        self.tell_watchers();
        if !self.mailbox.may_begin() {
            return Ok(());
        }
        let due = self.state.due_work(|ticket| {
            self.workers.contains_key(&ticket) || self.family.watches(ticket) || self.mailbox.has_report(ticket)
        });
        hold!(due.is_empty() || self.stops.is_empty(), "{due:?} begin while {:?} wait", self.stops);
        for due in due {
            self.tell(|_| format!("  begins {due:?}"));
            match due {
                Due::Request(ticket) => {
                    hold!(!self.others_work(), "request {ticket} starts while {:?} work", self.workers.keys());
                    checks::paired(&self.state.history)?;
                    self.workers.insert(ticket, Worker { work: Job::Request, stopped: false });
                }
                Due::Call(ticket) => self.start_call(ticket)?,
                Due::Summary(ticket) => {
                    self.workers.insert(ticket, Worker { work: Job::Summary, stopped: false });
                }
                Due::Task(ticket) => self.see_to_task(ticket)?,
                Due::Gone(ticket) => {
                    let report = match self.state.open.get(&ticket) {
                        Some(Open::Call(_)) => {
                            Report::Returned { result: ToolResult::failed(ErrorReason::Aborted, "it never ran") }
                        }
                        _ => Report::CutOff { partial: Vec::new(), thrown_away: 0 },
                    };
                    hold!(self.mailbox.report(self.incarnation, ticket, report), "nobody takes that {ticket} is gone");
                }
            }
        }
        self.everybody_works()?;
        self.everyone_is_watched()
    }

    /// Each open request and running call has its worker, or a report of it waits; nobody works on anything else.
    fn everybody_works(&self) -> Result<(), Broken> {
        let mut due = checks::worked_on(&self.state);
        if self.state.waits {
            due.retain(|ticket| matches!(self.state.open.get(ticket), Some(Open::Compaction(_))));
        }
        let idle = due.iter().find(|ticket| !self.workers.contains_key(ticket) && !self.mailbox.has_report(**ticket));
        hold!(idle.is_none(), "nobody works on {idle:?}");
        let odd = self.workers.keys().find(|ticket| !due.contains(ticket));
        hold!(odd.is_none(), "somebody works on {odd:?}, and should on {due:?}");
        Ok(())
    }

    /// Where nothing happens, nothing follows: a decision leaves nothing undone. Tried now and then.
    fn stays_quiet(&mut self) -> Result<(), Broken> {
        if !self.mailbox.may_begin() || !self.rng.percent(5) || self.state.due().is_some_and(|due| due <= self.now) {
            return Ok(());
        }
        // What its recovery will do is not done yet.
        if self.written.is_empty() || !self.mailbox.is_empty() {
            return Ok(());
        }
        let Decision { entries, stops, .. } = self.decision(&[Input::Timer]);
        hold!(entries.is_empty() && stops.is_empty(), "something was left undone: {entries:?} {stops:?}");
        Ok(())
    }

    /// Whether a worker of the turn is alive; summaries are written beside it.
    fn others_work(&self) -> bool {
        self.workers.values().any(|worker| worker.work != Job::Summary)
    }

    fn start_call(&mut self, ticket: tamtam::Seq) -> Result<(), Broken> {
        let Some(Open::Call(call)) = self.state.open.get(&ticket) else {
            return Err(format!("call {ticket} starts and is not open"));
        };
        let alone = !self.others_work();
        hold!(alone || call.facts.parallel, "call {ticket} is no parallel call and starts while others run");
        let times: &mut BTreeMap<_, u32> = &mut self.ran;
        let times = times.entry(ticket).or_default();
        *times += 1;
        hold!(*times == 1 || call.facts.effect != Effect::Once, "call {ticket} of effect once really ran twice");
        self.counts.calls += 1;
        self.workers.insert(ticket, Worker { work: Job::Call, stopped: false });
        Ok(())
    }
}
