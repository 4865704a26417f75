//! The shell, the tape and the workers around the core: everything that can be late, fail and die.
//!
//! The tape may be behind: entries wait to be written, and the directives of their decision with them. Directives that stop
//! something do not wait. A crash loses any suffix of what was not written, line by line, and every worker.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tamtam::{
    Millis, Seq,
    context::Window,
    message::ErrorReason,
    model::{Answer, AnswerPart, History, Prices},
    permission::{Globs, Ruleset},
    session::{
        AnswerAsk, Bill, Directive, Entry, Env, GiveUpBranch, GoOn, Grant, Input, Open, Record, Report, Resume, Scope,
        Settings, State, Undone, decide,
    },
    tool::{Effect, ToolResult, Toolbox},
};

use super::{
    Broken,
    again::{self, Made},
    back, budgets, chance, checks,
    counts::Counts,
    forks::Fork,
    hold,
    host::{Host, Wish},
    rng::Rng,
    tasks::{self, Family},
    tickets::{given_up, summary_of, ticket_of},
};
use crate::core::{line, play::Known, tools};

/// Of so many of a hundred schedules the tape is replayed.
const REPLAYED: usize = 10;

/// What a worker works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Request,
    Call,
    Summary,
}

/// A worker that is alive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worker {
    pub(super) work: Job,
    pub(super) stopped: bool,
}

/// The entry as it comes back from the tape: written as bytes by the core's encoder, and read from them.
fn through_bytes(entry: &Entry) -> Entry {
    line::decode(&line::encode(entry))
}

/// A decision whose entries the tape does not have yet.
struct Late {
    lines: Vec<Entry>,
    directives: Vec<Directive>,
}

/// One session with all that is around it.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) host: Host,
    pub(super) state: State,
    pub(super) workers: BTreeMap<Seq, Worker>,
    pub(super) now: Millis,
    pub(super) heard: bool,
    /// Whether the host mostly waits for the end of a turn.
    pub(super) quiet: bool,
    /// In how many of a hundred happenings the tape keeps up.
    pub(super) keeps_up: usize,
    pub(super) counts: Counts,
    /// What happened, where it is to be told.
    pub(super) told: Vec<String>,
    tells: bool,
    toolbox: Toolbox,
    /// The rules of the host that has it now: another one after some crashes.
    host_rules: Option<Ruleset>,
    globs: Globs,
    window: Window,
    prices: Prices,
    initial: Settings,
    /// How many entries came before its own: those of the session that it was forked from.
    inherited: usize,
    /// How many forks lie between it and a session that was made.
    pub(super) generation: u32,
    /// The forks that were made of it, and have come to rest.
    pub(super) forks: Vec<Fork>,
    /// The fold of all lines, from bytes, kept up with the live state.
    folded: State,
    /// The fold that knows no compaction: the whole conversation, against which the compacted one is judged.
    whole: State,
    written: Vec<Entry>,
    /// How many entries of each append were written, and whether all.
    appends: Vec<(usize, Made)>,
    late: VecDeque<Late>,
    ready: VecDeque<Directive>,
    /// Told to stop before they were started.
    stopped_early: BTreeSet<Seq>,
    /// How often each call was really started, over all lives of the session.
    ran: BTreeMap<Seq, u32>,
    pub(super) family: Family,
}

impl World {
    pub(super) fn new(seed: u64, tells: bool) -> World {
        let mut rng = Rng::new(seed);
        let settings = super::chance::settings(&mut rng);
        let now = Millis(1_000_000);
        let mut state = State::new("sim".parse().unwrap(), settings.clone(), now);
        state.origin = rng.percent(40).then(|| tasks::origin().into());
        state.account.grant = state.origin.as_ref().and_then(|_| budgets::grant(&mut rng));
        let first = Entry {
            seq: Seq(1),
            time: now,
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            record: Record::State(state.clone().into()),
        };
        state.apply(&first);
        // In small windows there is hardly a step without a compaction.
        let window = rng.pick(&[Window::new(200_000, 8_192), Window::new(300, 60), Window::new(120, 60)]);
        let (quiet, keeps_up) = (rng.percent(50), rng.pick(&[40, 80, 100]));
        let mut world = World {
            quiet,
            keeps_up,
            rng,
            host: Host::default(),
            folded: state.clone(),
            whole: state.clone(),
            state,
            workers: BTreeMap::new(),
            now,
            heard: true,
            counts: Counts::default(),
            told: Vec::new(),
            tells,
            toolbox: tools::toolbox(),
            globs: Globs::default(),
            host_rules: None,
            window,
            prices: budgets::prices(),
            initial: settings,
            inherited: 0,
            generation: 0,
            forks: Vec::new(),
            written: vec![through_bytes(&first)],
            appends: vec![(1, Made::Whole)],
            late: VecDeque::new(),
            ready: VecDeque::new(),
            stopped_early: BTreeSet::new(),
            ran: BTreeMap::new(),
            family: Family::default(),
        };
        world.tell(|world| format!("settings {:?}", world.state.settings));
        world
    }

    /// Plays a schedule: so many happenings, then calm weather until the session has come to rest.
    pub(super) fn play(&mut self, happenings: u32) -> Result<(), Broken> {
        for _ in 0..happenings {
            self.happen()?;
        }
        self.come_to_rest()
    }

    pub(super) fn tell(&mut self, what: impl FnOnce(&World) -> String) {
        if self.tells {
            let what = what(self);
            self.told.push(what);
        }
    }

    /// Tells the core what happened, checks what follows, and hands it to the shell.
    pub(super) fn signal(&mut self, input: &Input) -> Result<(), Broken> {
        self.inputs(std::slice::from_ref(input))
    }

    /// Tells it what happened, in that order, in one decision.
    pub(super) fn inputs(&mut self, inputs: &[Input]) -> Result<(), Broken> {
        let jitter = self.rng.unit();
        let known = Known { window: self.window, prices: &self.prices };
        let env = Env {
            globs: &self.globs,
            host_rules: self.host_rules.as_ref(),
            tools_tokens: 0,
            windows: &known,
            toolbox_hash: "tools",
            asks_are_heard: self.heard,
            jitter,
        };
        let told: Vec<_> = inputs.iter().map(|input| tools::told(&self.toolbox, &self.state, input)).collect();
        let decision = decide(&self.state, &told, &env, self.now);
        self.counts.signals += 1;
        self.counts.entries += decision.entries.len() as u64;
        self.tell(|_| format!("\n{inputs:?}"));
        for entry in &decision.entries {
            self.tell(|_| format!("    {} {:?} {:?}", entry.seq, entry.ticket, entry.record));
        }
        self.tell(|_| format!("    => {:?}", decision.directives));

        let lines: Vec<_> = decision.entries.iter().map(through_bytes).collect();
        lines.iter().for_each(|line| self.folded.apply(line));
        let goes_back = lines.iter().any(|line| matches!(line.record, Record::RolledBack(_)));
        let earlier = if goes_back { self.entries() } else { Vec::new() };
        lines.iter().for_each(|line| self.apply_uncompacted(line, &earlier));
        hold!(self.folded == decision.after, "the fold of the tape is not the live state");
        checks::decision(&self.state, &decision.entries, &decision.after)?;
        checks::permitted(&self.state, &decision.entries, &decision.after, &self.toolbox)?;
        budgets::held(&self.state, &decision.entries, &decision.after)?;
        self.counts.count(&decision.entries);
        let replies = decision.directives.iter().filter(|directive| matches!(directive, Directive::Reply(..))).count();
        let asked = inputs.iter().filter(|input| input.reply().is_some()).count();
        hold!(replies == asked, "{inputs:?} were answered {replies} times");
        tasks::one_end(&self.state, &decision.after)?;
        let of_tasks: Vec<_> = decision.directives.iter().filter(|one| tasks::is_of_a_task(one)).cloned().collect();
        for stop in of_tasks.iter().filter(|one| one.is_stop()) {
            self.stop_task(stop);
        }
        let finished = |entry: &&Entry| matches!(entry.record, Record::TaskFinished { .. });
        self.counts.downs += decision.entries.iter().filter(finished).count() as u64;
        let before = std::mem::replace(&mut self.state, decision.after);
        if let (Some((was, _)), Some((is, _))) = (before.request(), self.state.request())
            && was == is
        {
            hold!(before.history_hash == self.state.history_hash, "the history changed under the open request {is}");
        }
        checks::state(&self.state)?;

        let (stops, waits): (Vec<_>, Vec<_>) = decision.directives.into_iter().partition(Directive::is_stop);
        let started: BTreeSet<_> = waits.iter().filter_map(ticket_of).collect();
        self.counts.compactions +=
            lines.iter().filter(|line| matches!(line.record, Record::Compacted(_))).count() as u64;
        self.counts.undone +=
            lines.iter().filter(|line| matches!(line.record, Record::CompactionUndone(_))).count() as u64;
        for stop in stops.iter().filter_map(ticket_of) {
            hold!(!started.contains(&stop), "one decision starts and stops {stop}");
            self.stop(stop)?;
        }
        self.late.push_back(Late { lines, directives: waits });
        self.everybody_works()?;
        self.everyone_is_watched()?;
        self.host.check(&self.whole)?;
        checks::is_end_of(&self.state, &self.whole)?;
        checks::pins_stay(&self.state)?;
        self.stays_quiet()
    }

    /// Each open request and running call has its worker, or will have; nobody works on anything else.
    fn everybody_works(&self) -> Result<(), Broken> {
        let coming = self.late.iter().flat_map(|late| &late.directives).chain(&self.ready);
        // A summary that is not wanted any more is not begun.
        let wanted =
            |directive: &&Directive| summary_of(directive).is_none_or(|ticket| self.state.open.contains_key(&ticket));
        // Nobody reports the end of a summary that is not wanted any more: it ends when the tape says so.
        let given_up: BTreeSet<_> = coming.clone().filter_map(given_up).collect();
        let coming = coming.filter(wanted).filter_map(ticket_of);
        let at_work = self.workers.keys().copied().filter(|ticket| !given_up.contains(ticket));
        let works: BTreeSet<_> = at_work.chain(coming).collect();
        let mut due = checks::worked_on(&self.state);
        if self.state.waits {
            due.retain(|ticket| matches!(self.state.open.get(ticket), Some(Open::Compaction(_))));
        }
        hold!(works == due, "workers work on {works:?}, and should on {due:?}");
        Ok(())
    }

    /// Where nothing happens, nothing follows: a decision leaves nothing undone. Tried now and then.
    fn stays_quiet(&mut self) -> Result<(), Broken> {
        if !self.rng.percent(5) || self.state.due().is_some_and(|due| due <= self.now) {
            return Ok(());
        }
        let known = Known { window: self.window, prices: &self.prices };
        let env = Env {
            globs: &self.globs,
            host_rules: self.host_rules.as_ref(),
            tools_tokens: 0,
            windows: &known,
            toolbox_hash: "tools",
            asks_are_heard: self.heard,
            jitter: 0.0,
        };
        let decision = decide(&self.state, &[Input::Timer], &env, self.now);
        let quiet = decision.entries.is_empty() && decision.directives.is_empty();
        hold!(quiet, "something was left undone: {:?} {:?}", decision.entries, decision.directives);
        Ok(())
    }

    fn stop(&mut self, ticket: Seq) -> Result<(), Broken> {
        self.counts.stops += 1;
        if let Some(worker) = self.workers.get_mut(&ticket) {
            hold!(!worker.stopped, "{ticket} was stopped twice");
            worker.stopped = true;
            return Ok(());
        }
        let mut coming = self.late.iter().flat_map(|late| &late.directives).chain(&self.ready).filter_map(ticket_of);
        hold!(coming.any(|coming| coming == ticket), "{ticket} was stopped and nobody works on it");
        self.stopped_early.insert(ticket);
        Ok(())
    }

    /// Whether the shell or the tape has something left to do.
    pub(super) fn is_behind(&self) -> bool {
        !self.late.is_empty() || !self.ready.is_empty()
    }

    /// The tape writes one decision more.
    pub(super) fn write(&mut self) {
        if let Some(late) = self.late.pop_front() {
            self.appends.push((late.lines.len(), Made::Whole));
            self.written.extend(late.lines);
            self.ready.extend(late.directives);
        }
    }

    /// The shell carries out one directive more.
    pub(super) fn carry_out(&mut self) -> Result<(), Broken> {
        let Some(directive) = self.ready.pop_front() else { return Ok(()) };
        self.tell(|_| format!("  does {directive:?}"));
        match directive {
            Directive::Reply(to, reply) => self.host.hear(to, &reply),
            Directive::StartRequest(ticket) => self.start_request(ticket),
            Directive::StartCall(ticket) => self.start_call(ticket),
            Directive::StartCompaction(ticket) => {
                if matches!(self.state.open.get(&ticket), Some(Open::Compaction(_))) {
                    let doubled = self.workers.insert(ticket, Worker { work: Job::Summary, stopped: false });
                    hold!(doubled.is_none(), "summary {ticket} is written twice");
                }
                Ok(())
            }
            Directive::StopCompaction(ticket) => {
                self.workers.remove(&ticket);
                Ok(())
            }
            Directive::CutRequest(_) | Directive::StopCall(_) | Directive::StopTask(_) => Ok(()),
            Directive::StartTask(ticket) | Directive::PartTask(ticket) => self.see_to_task(ticket),
        }
    }

    /// The tape and the shell catch up.
    pub(super) fn catch_up(&mut self) -> Result<(), Broken> {
        while self.is_behind() {
            if self.ready.is_empty() {
                self.write();
            } else {
                self.carry_out()?;
            }
        }
        Ok(())
    }

    fn start_request(&mut self, ticket: Seq) -> Result<(), Broken> {
        hold!(!self.others_work(), "request {ticket} starts while {:?} work", self.workers.keys());
        let opened = self.state.request().map(|(open, _)| open);
        hold!(opened == Some(ticket), "request {ticket} starts while {opened:?} is open");
        checks::paired(&self.state.history)?;
        let stopped = self.stopped_early.remove(&ticket);
        self.workers.insert(ticket, Worker { work: Job::Request, stopped });
        Ok(())
    }

    /// Whether a worker of the turn is alive; summaries are written beside it.
    fn others_work(&self) -> bool {
        self.workers.values().any(|worker| worker.work != Job::Summary)
    }

    fn start_call(&mut self, ticket: Seq) -> Result<(), Broken> {
        let Some(Open::Call(call)) = self.state.open.get(&ticket) else {
            return Err(format!("call {ticket} starts and is not open"));
        };
        hold!(!self.workers.contains_key(&ticket), "call {ticket} starts and runs");
        let alone = !self.others_work();
        hold!(alone || call.facts.parallel, "call {ticket} is no parallel call and starts while others run");
        let stopped = self.stopped_early.remove(&ticket);
        if !stopped {
            let times = self.ran.entry(ticket).or_default();
            *times += 1;
            hold!(*times == 1 || call.facts.effect != Effect::Once, "call {ticket} of effect once really ran twice");
        }
        self.counts.calls += 1;
        self.workers.insert(ticket, Worker { work: Job::Call, stopped });
        Ok(())
    }

    /// A session that goes on from the end of an append of this one's tape: a world of its own, in which nothing has happened.
    pub(super) fn forked(&mut self, appends: usize, forked: &Entry, state: &State) -> World {
        let upto = self.appends[..appends].iter().map(|(length, _)| length).sum();
        let mut written = self.written[..upto].to_vec();
        written.push(through_bytes(forked));
        let mut appends = self.appends[..appends].to_vec();
        appends.push((1, Made::Whole));
        let generation = self.generation + 1;
        let mut fork = World {
            rng: Rng::new(self.rng.below(usize::MAX) as u64),
            host: Host::default(),
            state: state.clone(),
            folded: state.clone(),
            whole: state.clone(),
            workers: BTreeMap::new(),
            now: self.now,
            heard: true,
            quiet: self.quiet,
            keeps_up: self.keeps_up,
            counts: Counts::default(),
            told: Vec::new(),
            tells: self.tells,
            toolbox: tools::toolbox(),
            globs: Globs::default(),
            // A fork is woken by the host that has its point; others have it after a crash.
            host_rules: state.settings.host.clone(),
            window: self.window,
            prices: self.prices.clone(),
            initial: self.initial.clone(),
            inherited: upto,
            generation,
            forks: Vec::new(),
            written,
            appends,
            late: VecDeque::new(),
            ready: VecDeque::new(),
            stopped_early: BTreeSet::new(),
            ran: BTreeMap::new(),
            family: Family::default(),
        };
        fork.whole = fork.fold_uncompacted();
        fork.host = Host::of_fork(&fork.whole, generation);
        fork.host.gone = back::gone(&fork.written);
        fork
    }

    /// How many appends the tape has.
    pub(super) fn appended(&self) -> usize {
        self.appends.len()
    }

    /// Whether the last of so many appends that left anything on the tape is all that its decision wrote.
    pub(super) fn ends_whole(&self, appends: usize) -> bool {
        let newest = self.appends[..appends].iter().rev().find(|(length, _)| *length > 0);
        newest.is_some_and(|(_, made)| *made == Made::Whole)
    }

    /// The entries of the tape through so many appends.
    pub(super) fn through(&self, appends: usize) -> &[Entry] {
        let upto: usize = self.appends[..appends].iter().map(|(length, _)| length).sum();
        &self.written[..upto]
    }

    /// What it wrote itself, and what it wrote behind.
    pub(super) fn own_entries(&self) -> &[Entry] {
        &self.written[self.inherited..]
    }

    /// The process dies, with any prefix of what was not written yet on its disk, and the session is rebuilt.
    pub(super) fn crash(&mut self) -> Result<(), Broken> {
        self.counts.crashes += 1;
        let lengths: Vec<_> = self.late.iter().map(|late| late.lines.len()).collect();
        let unwritten: Vec<_> = self.late.drain(..).flat_map(|late| late.lines).collect();
        let kept = self.rng.below(unwritten.len() + 1);
        self.counts.torn += u64::from(kept < unwritten.len());
        self.tell(|_| format!("\nCRASH: {kept} of {} unwritten entries are kept", unwritten.len()));
        self.written.extend(unwritten.into_iter().take(kept));
        let mut left = kept;
        for length in lengths {
            let made = if left >= length { Made::Whole } else { Made::Torn };
            self.appends.push((length.min(left), made));
            left -= length.min(left);
        }
        self.ready.clear();
        self.stopped_early.clear();
        let dead: Vec<_> = self.workers.iter().map(|(ticket, worker)| (*ticket, *worker)).collect();
        self.workers.clear();
        self.family.forget_watchers();
        self.host.hang_up();
        self.state = self.fold(self.written.iter());
        let anchor = self.written.iter().rposition(|line| matches!(line.record, Record::State(_))).unwrap_or(0);
        hold!(
            self.fold(self.written[anchor..].iter()) == self.state,
            "from its newest anchor the tape folds to another state"
        );
        self.host.gone = back::gone(&self.written);
        self.folded = self.state.clone();
        self.whole = self.fold_uncompacted();
        self.heard = self.rng.percent(80);
        if self.rng.percent(15) {
            self.host_rules = chance::host_rules(&mut self.rng);
        }
        self.now = self.now.plus(Duration::from_millis(self.rng.below(5_000) as u64));
        self.counts.recoveries += u64::from(self.state.turn.is_some());
        self.recover(&dead)
    }

    /// Where only the actor died, a report may have come that it did not get to: it is recorded before recovery.
    fn recover(&mut self, dead: &[(Seq, Worker)]) -> Result<(), Broken> {
        let mut late = Vec::new();
        for (ticket, worker) in dead {
            if self.rng.percent(30) && self.state.open.contains_key(ticket) {
                late.push(self.report_of(*ticket, *worker));
            }
        }
        late.push(Input::recover());
        self.inputs(&late)
    }

    /// What the newest compaction replaced, where the tape has it.
    pub(super) fn undone(&self) -> Option<Undone> {
        let at = self.written.iter().position(|line| line.seq == self.state.context.newest)?;
        Undone::of(&self.written[..=at])
    }

    /// What the shell has yet to do.
    pub(super) fn coming(&self) -> impl Iterator<Item = &Directive> {
        self.late.iter().flat_map(|late| &late.directives).chain(&self.ready)
    }

    /// All entries that were decided, written or not.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.written.iter().chain(self.late.iter().flat_map(|late| &late.lines)).cloned().collect()
    }

    /// Whether the tape has the entry.
    pub(super) fn is_written(&self, seq: Seq) -> bool {
        self.written.last().is_some_and(|last| last.seq >= seq)
    }

    pub(super) fn fold<'e>(&self, entries: impl Iterator<Item = &'e Entry>) -> State {
        let mut state = State::new("other".parse().unwrap(), self.initial.clone(), Millis(0));
        entries.for_each(|entry| state.apply(entry));
        state
    }

    fn fold_uncompacted(&self) -> State {
        self.uncompacted_of(&self.written)
    }

    fn uncompacted_of(&self, entries: &[Entry]) -> State {
        let mut state = State::new("other".parse().unwrap(), self.initial.clone(), Millis(0));
        for (at, line) in entries.iter().enumerate() {
            apply_uncompacted(&mut state, line, || self.uncompacted_at(line, &entries[..at]));
        }
        state
    }

    /// The whole conversation that an entry goes back to.
    fn uncompacted_at(&self, line: &Entry, earlier: &[Entry]) -> History {
        let Record::RolledBack(back) = &line.record else { return History::default() };
        self.uncompacted_of(&earlier[..back.to.0 as usize]).history
    }

    fn apply_uncompacted(&mut self, line: &Entry, earlier: &[Entry]) {
        let mut whole = self.whole.clone();
        apply_uncompacted(&mut whole, line, || self.uncompacted_at(line, earlier));
        self.whole = whole;
    }

    /// The environment stops being nasty: everything is answered, every report arrives, and the session must come to rest.
    fn come_to_rest(&mut self) -> Result<(), Broken> {
        self.tell(|_| "\nCALM".to_owned());
        for _ in 0..2_000 {
            self.catch_up()?;
            let asks = |open: &Open| matches!(open, Open::Ask(_) | Open::BudgetAsk(_));
            let ask = self.state.open.iter().find(|(_, open)| asks(open)).map(|(ask, open)| (*ask, open.clone()));
            let leaving = self.state.open.iter().find(|(_, open)| matches!(open, Open::Branch(_)));
            let leaving = leaving.map(|(ticket, _)| *ticket);
            let worker = self.workers.iter().next().map(|(ticket, worker)| (*ticket, *worker));
            if self.state.paused {
                let reply = self.host.wish(Wish::Other);
                self.signal(&Resume.to(reply))?;
            } else if self.state.held || self.state.waits {
                let reply = self.host.wish(Wish::Other);
                self.signal(&GoOn.to(reply))?;
            } else if let Some((ticket, worker)) = worker {
                let signal = calm_report(ticket, worker);
                self.workers.remove(&ticket);
                self.signal(&signal)?;
            } else if self.family.is_watching() {
                self.family.all_end();
                self.watcher_reports()?;
            } else if let Some((ask, open)) = ask {
                let reply = self.host.wish(Wish::Other);
                // A limit that is raised a little is reached again soon.
                let grant = match open {
                    Open::BudgetAsk(_) => Grant::Always(Scope::Session),
                    _ => Grant::Once,
                };
                self.signal(&AnswerAsk { ask, grant }.to(reply))?;
            } else if let Some(ticket) = leaving {
                let reply = self.host.wish(Wish::Other);
                self.signal(&GiveUpBranch { ticket, why: Box::new("calm".into()), lost: 1 }.to(reply))?;
            } else if let Some(due) = self.state.due() {
                self.now = self.now.max(due);
                self.signal(&Input::Timer)?;
            } else {
                return self.is_at_rest();
            }
        }
        Err(format!("the session does not come to rest; open: {:?}", self.state.open))
    }

    fn is_at_rest(&mut self) -> Result<(), Broken> {
        let state = &self.state;
        hold!(state.turn.is_none() && state.open.is_empty(), "at rest with a turn: {:?}", state.open);
        hold!(state.queue.is_empty() && state.steering.is_empty(), "at rest with messages that wait");
        hold!(state.is_idle(), "at rest and not idle");
        hold!(!self.host.waits(), "a host still waits for an answer");
        self.host.check(&self.whole)?;
        checks::paired(&self.state.history)?;
        checks::paired(&self.whole.history)?;
        let entries: Vec<_> = self.written.clone();
        hold!(self.fold(entries.iter()) == self.state, "the fold of the whole tape is not the live state");
        checks::tape(&entries)?;
        tasks::over(&self.whole, &entries, self.inherited)?;
        let bill = Bill::of(&entries[self.inherited..]).total();
        let spent = self.state.spent;
        let (billed, counted) = ((bill.requests, bill.usage, bill.cost), (spent.requests, spent.usage, spent.cost));
        hold!(billed == counted, "the bill says {billed:?}, and the session {counted:?}");
        self.counts.turns += self.state.turns;
        if self.rng.percent(REPLAYED) {
            again::replays(&entries, &self.appends)?;
        }
        if self.rng.percent(25) { self.opens_from_an_anchor(entries) } else { Ok(()) }
    }

    /// The same state follows from a new anchor's first entry as from all entries before it.
    fn opens_from_an_anchor(&self, mut entries: Vec<Entry>) -> Result<(), Broken> {
        let Some(last) = entries.pop() else { return Ok(()) };
        let record = Record::State(self.state.clone().into());
        let anchor = Entry { seq: last.seq.next(), time: self.state.time, record, ticket: None, cause: None, ..last };
        let mut live = self.state.clone();
        live.apply(&anchor);
        let mut opened = State::new("other".parse().unwrap(), self.initial.clone(), Millis(0));
        opened.apply(&through_bytes(&anchor));
        hold!(opened == live, "an anchor opens to another state");
        Ok(())
    }
}

/// Applies an entry as if nothing were ever made smaller. An anchor says nothing new.
fn apply_uncompacted(state: &mut State, line: &Entry, then: impl Fn() -> History) {
    match &line.record {
        Record::Compacted(_) | Record::Pruned { .. } | Record::CompactionUndone(_) => {}
        Record::RolledBack(_) => {
            state.apply(line);
            state.history = then();
        }
        Record::State(_) if line.seq > Seq(1) => {}
        _ => state.apply(line),
    }
}

fn calm_report(ticket: Seq, worker: Worker) -> Input {
    match (worker.work, worker.stopped) {
        (Job::Summary, _) => Report::Summarised { result: Ok(("sum".into(), Default::default())), lost: 0 }.of(ticket),
        (Job::Request, false) => {
            let text = AnswerPart::Text { text: "done".to_owned(), extra: None };
            Report::Answered { answer: Answer::new(vec![text], tamtam::message::Finish::Stop), calls: Vec::new() }
                .of(ticket)
        }
        (Job::Request, true) => Report::CutOff { partial: Vec::new(), thrown_away: 0 }.of(ticket),
        (Job::Call, false) => Report::Returned { result: ToolResult::ok("ok") }.of(ticket),
        (Job::Call, true) => {
            Report::Returned { result: ToolResult::failed(ErrorReason::Aborted, "stopped") }.of(ticket)
        }
    }
}
