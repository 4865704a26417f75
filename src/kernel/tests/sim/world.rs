//! A session with its tape, its workers, its children and its host: everything that can be late, fail and die.

use std::collections::{BTreeMap, BTreeSet};

use tamtam::{
    Millis, Seq,
    kernel::{
        AnswerAsk, Bill, Entry, GiveUpBranch, GoOn, Grant, Input, Mailbox, Open, Record, ReplyTo, Report, Resume,
        Scope, Settings, State, Undone, context::Window,
    },
    model::{AnswerPart, History, ModelAnswer, Prices},
    permission::{Globs, Ruleset},
    session::ErrorReason,
    tool::{ToolResult, Toolbox},
};

use super::{
    Broken,
    again::{self, Made},
    budgets, checks,
    counts::Counts,
    disk::Disk,
    forks::Fork,
    hold,
    host::{Host, Wish},
    rng::Rng,
    takeover::Ghost,
    tasks::{self, Family},
};
use crate::kernel::tests::core::{line, tools};

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
pub(super) fn through_bytes(entry: &Entry) -> Entry {
    line::decode(&line::encode(entry))
}

/// Whether a tape has these entries, and not others of their numbers.
pub(super) fn has(written: &[Entry], entries: &[Entry]) -> bool {
    entries.iter().all(|entry| written.iter().rfind(|line| line.seq == entry.seq) == Some(entry))
}

/// The one decision that is being written.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) lines: Vec<Entry>,
    pub(super) after: State,
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
    pub(super) toolbox: Toolbox,
    /// The rules of the host that has it now: another one after some crashes.
    pub(super) host_rules: Option<Ruleset>,
    pub(super) globs: Globs,
    pub(super) window: Window,
    pub(super) prices: Prices,
    initial: Settings,
    /// How many entries came before its own: those of the session that it was forked from.
    inherited: usize,
    /// How many forks lie between it and a session that was made.
    pub(super) generation: u32,
    /// The forks that were made of it, and have come to rest.
    pub(super) forks: Vec<Fork>,
    /// The fold of all lines, from bytes, kept up with the live state.
    pub(super) folded: State,
    /// The fold that knows no compaction: the whole conversation, against which the compacted one is judged.
    pub(super) whole: State,
    pub(super) written: Vec<Entry>,
    /// How many entries of each append were written, and whether all.
    pub(super) appends: Vec<(usize, Made)>,
    pub(super) mailbox: Mailbox,
    pub(super) flight: Option<Flight>,
    pub(super) incarnation: u32,
    pub(super) disk: Disk,
    /// Whether the disk may be bad, and anybody may die of what they do.
    pub(super) is_rough: bool,
    /// Stops that have no answer yet, and whether they are aborts.
    pub(super) stops: BTreeMap<ReplyTo, bool>,
    /// A command over which every incarnation dies.
    pub(super) poison: Option<ReplyTo>,
    /// A ticket over whose report two incarnations die.
    pub(super) poisoned_ticket: Option<Seq>,
    pub(super) report_deaths: u32,
    /// How often each call was really started, over all incarnations of the session.
    pub(super) ran: BTreeMap<Seq, u32>,
    /// The calls that have put a question, over all incarnations of the session.
    pub(super) asked: BTreeSet<Seq>,
    pub(super) family: Family,
    /// The owner of before, where another node took the session over and it does not know.
    pub(super) ghost: Option<Ghost>,
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
        let written = vec![through_bytes(&first)];
        let mut world = World::of(rng, state, settings, written, vec![(1, Made::Whole)]);
        (world.quiet, world.keeps_up, world.tells) = (quiet, keeps_up, tells);
        (world.now, world.window) = (now, window);
        world.tell(|world| format!("settings {:?}", world.state.settings));
        world
    }

    /// A session over such a tape, with nothing at work and a disk that is well.
    fn of(rng: Rng, state: State, initial: Settings, written: Vec<Entry>, appends: Vec<(usize, Made)>) -> World {
        let mut mailbox = Mailbox::default();
        mailbox.begin(1, Input::recover(), |_| true);
        World {
            rng,
            host: Host::default(),
            folded: state.clone(),
            whole: state.clone(),
            now: state.time,
            state,
            workers: BTreeMap::new(),
            heard: true,
            quiet: false,
            keeps_up: 100,
            counts: Counts::default(),
            told: Vec::new(),
            tells: false,
            toolbox: tools::toolbox(),
            globs: Globs::default(),
            host_rules: None,
            window: Window::new(200_000, 8_192),
            prices: budgets::prices(),
            initial,
            inherited: 0,
            generation: 0,
            forks: Vec::new(),
            written,
            appends,
            mailbox,
            flight: None,
            incarnation: 1,
            disk: Disk::Calm,
            is_rough: false,
            stops: BTreeMap::new(),
            poison: None,
            poisoned_ticket: None,
            report_deaths: 0,
            ran: BTreeMap::new(),
            asked: BTreeSet::new(),
            family: Family::default(),
            ghost: None,
        }
    }

    /// Plays a schedule: so many happenings, then calm weather until the session has come to rest.
    pub(super) fn play(&mut self, happenings: u32) -> Result<(), Broken> {
        self.drive()?;
        self.is_rough = true;
        for _ in 0..happenings {
            self.happen()?;
        }
        self.is_rough = false;
        (self.poison, self.poisoned_ticket) = (None, None);
        self.come_to_rest()
    }

    pub(super) fn tell(&mut self, what: impl FnOnce(&World) -> String) {
        if self.tells {
            let what = what(self);
            self.told.push(what);
        }
    }

    /// A session that goes on from the end of an append of this one's tape: a world of its own, in which nothing has happened.
    pub(super) fn forked(&mut self, appends: usize, forked: &Entry, state: &State) -> World {
        let upto = self.appends[..appends].iter().map(|(length, _)| length).sum();
        let mut written = self.written[..upto].to_vec();
        written.push(through_bytes(forked));
        let mut appends = self.appends[..appends].to_vec();
        appends.push((1, Made::Whole));
        let rng = Rng::new(self.rng.below(usize::MAX) as u64);
        let mut fork = World::of(rng, state.clone(), self.initial.clone(), written, appends);
        (fork.quiet, fork.keeps_up, fork.tells) = (self.quiet, self.keeps_up, self.tells);
        (fork.now, fork.window, fork.prices) = (self.now, self.window, self.prices.clone());
        // A fork is woken by the host that has its point; others have it after a crash.
        fork.host_rules = state.settings.host.clone();
        (fork.inherited, fork.generation) = (upto, self.generation + 1);
        fork.whole = fork.fold_uncompacted();
        fork.host = Host::of_fork(&fork.whole, fork.generation);
        fork.host.look_over(&fork.written);
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

    /// What the newest compaction replaced, where the tape has it.
    pub(super) fn undone(&self) -> Option<Undone> {
        let at = self.written.iter().position(|line| line.seq == self.state.context.newest)?;
        Undone::of(&self.written[..=at])
    }

    /// All entries of the tape.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.written.clone()
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

    pub(super) fn fold_uncompacted(&self) -> State {
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

    pub(super) fn apply_uncompacted(&mut self, line: &Entry, earlier: &[Entry]) {
        self.host.look_at(line);
        let mut whole = self.whole.clone();
        apply_uncompacted(&mut whole, line, || self.uncompacted_at(line, earlier));
        self.whole = whole;
    }

    /// The environment stops being nasty: everything is answered, every report arrives, and the session must come to rest.
    fn come_to_rest(&mut self) -> Result<(), Broken> {
        self.tell(|_| "\nCALM".to_owned());
        self.ghost_ends()?;
        for _ in 0..2_000 {
            self.catch_up()?;
            let asks = |open: &Open| matches!(open, Open::Ask(_) | Open::BudgetAsk(_));
            let ask = self.state.open.iter().find(|(_, open)| asks(open)).map(|(ask, open)| (*ask, open.clone()));
            let leaving = self.state.open.iter().find(|(_, open)| matches!(open, Open::Branch(_)));
            let leaving = leaving.map(|(ticket, _)| *ticket);
            let worker = self.workers.iter().next().map(|(ticket, worker)| (*ticket, *worker));
            if self.state.paused {
                let reply = self.host.wish(Wish::Other);
                self.at_once(&Resume.to(reply))?;
            } else if self.state.on_hold || self.state.waits {
                let reply = self.host.wish(Wish::Other);
                self.at_once(&GoOn.to(reply))?;
            } else if let Some((ticket, worker)) = worker {
                let signal = calm_report(ticket, worker);
                self.workers.remove(&ticket);
                self.at_once(&signal)?;
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
                self.at_once(&AnswerAsk { ask, grant, who: None, rules: None, digest: None }.to(reply))?;
            } else if let Some(ticket) = leaving {
                let reply = self.host.wish(Wish::Other);
                self.at_once(&GiveUpBranch { ticket, why: Box::new("calm".into()), lost: 1 }.to(reply))?;
            } else if let Some(due) = self.state.due() {
                self.now = self.now.max(due);
                self.drive()?;
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
        let bill = Bill::of(&entries).total();
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
            let mut answer = ModelAnswer::new(vec![text], tamtam::session::Finish::Stop);
            // An estimate may be more than a small window leaves for the answer.
            answer.usage.output = 1;
            Report::Answered { answer, calls: Vec::new() }.of(ticket)
        }
        (Job::Request, true) => Report::CutOff { partial: Vec::new(), thrown_away: 0 }.of(ticket),
        (Job::Call, false) => Report::Returned { result: ToolResult::ok("ok") }.of(ticket),
        (Job::Call, true) => {
            Report::Returned { result: ToolResult::failed(ErrorReason::Aborted, "stopped") }.of(ticket)
        }
    }
}
