//! What happens next in a schedule.

use std::time::Duration;

use tamtam::{
    MessageId, Part, Seq,
    kernel::{
        Abort, AnswerAsk, BeginAnchor, BranchRequest, BranchSummary, Compact, Configure, Delivery, EditMessage, End,
        Fallback, Gated, GiveUpBranch, GoOn, Grant, HandOff, Input, LeaveBranch, Mode, NoteSent, Open, OpenBranch,
        Pause, PinMessage, Prepared, ReplyTo, Report, Reserve, ResetLoops, Resume, Scope, SendMessage, Settings, Shown,
        Steering, SumUpBranch, TurnAdded, UndoCompaction, UnpinMessage, WithdrawMessage,
    },
    model::{AnswerPart, ErrorKind, Item, ModelAnswer, ModelError, Steered, Usage, UserItem},
    permission::{Action, Ruleset},
    session::{ErrorReason, Finish},
    tool::ToolResult,
};

use super::{
    Broken,
    disk::Disk,
    host::Wish,
    rng::Rng,
    world::{Job, Worker, World},
};
use crate::kernel::tests::core::play::{call, rules, text};

/// Settings of a session, by chance.
pub(super) fn settings(rng: &mut Rng) -> Settings {
    let mut settings = Settings::new("/w", "fake/model".parse().unwrap());
    let modes = [Mode::One, Mode::All];
    settings.steps_max = rng.pick(&[Some(1), Some(2), Some(4), Some(50), None]);
    settings.steering_mode = rng.pick(&modes);
    settings.queue_mode = rng.pick(&modes);
    settings.parallel_max = rng.pick(&[1, 2, 8]);
    settings.retries_max = rng.pick(&[0, 1, 3]);
    settings.auto_resume = rng.percent(80);
    settings.compaction.auto = rng.percent(90);
    settings.compaction.reserve = rng.pick(&[None, Some(40)]);
    settings.compaction.keep = rng.pick(&[None, Some(0), Some(25)]);
    settings.task_width_max = rng.pick(&[1, 3]);
    settings.task_queue_max = rng.pick(&[0, 2, 5]);
    settings.budget = super::budgets::budget(rng);
    let action = |rng: &mut Rng| rng.weighted(&[(7, Action::Allow), (4, Action::Ask), (1, Action::Deny)]);
    let lines = ["*", "read", "bash", "note"].map(|tool| (tool, "*", action(rng)));
    settings.rules = vec![rules("host", &lines)];
    if rng.percent(30) {
        let chain = [("fake/second", vec![]), ("fake/third", vec![ErrorKind::Auth, ErrorKind::Overloaded])];
        let link = |(model, on): (&str, Vec<ErrorKind>)| Fallback::new(model.parse().unwrap()).on(on);
        settings.fallback = chain.into_iter().map(link).collect();
    }
    settings
}

/// The rules of a host, by chance; none for some.
pub(super) fn host_rules(rng: &mut Rng) -> Option<Ruleset> {
    let action = |rng: &mut Rng| rng.weighted(&[(7, Action::Allow), (3, Action::Ask), (1, Action::Deny)]);
    let lines = ["*", "read", "bash"].map(|tool| (tool, "*", action(rng)));
    rng.percent(80).then(|| rules("runtime", &lines))
}

#[derive(Clone, Copy)]
enum Happening {
    Send,
    SendAgain,
    Edit,
    Withdraw,
    Answer,
    Abort,
    GoOn,
    Pause,
    Resume,
    ResetLoops,
    Configure,
    Question,
    Switch,
    Report,
    Stale,
    Time,
    Write,
    CarryOut,
    CatchUp,
    Compact,
    Undo,
    Branch,
    Pin,
    GoBack,
    Merge,
    Fork,
    Handoff,
    Anchor,
    Crash,
    Takeover,
    Spawn,
    ChildEnds,
    Parent,
    End,
}

const HAPPENINGS: [(usize, Happening); 34] = [
    (12, Happening::Send),
    (3, Happening::SendAgain),
    (2, Happening::Edit),
    (2, Happening::Withdraw),
    (12, Happening::Answer),
    (1, Happening::Abort),
    (2, Happening::GoOn),
    (1, Happening::Pause),
    (3, Happening::Resume),
    (1, Happening::ResetLoops),
    (1, Happening::Configure),
    (4, Happening::Question),
    (1, Happening::Switch),
    (40, Happening::Report),
    (2, Happening::Stale),
    (6, Happening::Time),
    (4, Happening::Write),
    (4, Happening::CarryOut),
    (6, Happening::CatchUp),
    (3, Happening::Compact),
    (5, Happening::Undo),
    (2, Happening::Branch),
    (2, Happening::Pin),
    (4, Happening::GoBack),
    (3, Happening::Merge),
    (1, Happening::Fork),
    (1, Happening::Handoff),
    (1, Happening::Anchor),
    (3, Happening::Crash),
    (1, Happening::Takeover),
    (4, Happening::Spawn),
    (4, Happening::ChildEnds),
    (1, Happening::Parent),
    (1, Happening::End),
];

impl World {
    /// One thing happens; most of the time the tape and the shell keep up, and now and then the process dies over it.
    pub(super) fn happen(&mut self) -> Result<(), Broken> {
        let happening = self.rng.weighted(&HAPPENINGS);
        if self.rng.percent(10) {
            self.disk = Disk::by_chance(&mut self.rng);
            self.tell(|world| format!("\nthe disk is {:?}", world.disk));
        }
        self.begin(happening)?;
        if self.rng.percent(3) {
            return self.crash();
        }
        if self.disk != Disk::Hung && self.rng.percent(self.keeps_up) {
            self.settle()?;
            self.drive()?;
        }
        Ok(())
    }

    fn begin(&mut self, happening: Happening) -> Result<(), Broken> {
        match happening {
            // In half of the schedules the host is quiet, so that calls get to run.
            Happening::Send if self.quiet && self.state.turn.is_some() && self.rng.percent(80) => self.report(),
            Happening::Send => self.send(),
            Happening::SendAgain => self.send_again(),
            Happening::Edit => self.edit(),
            Happening::Withdraw => self.withdraw(),
            Happening::Answer => self.answer_ask(),
            Happening::Abort => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&Abort { reason: "enough".to_owned(), turn: None }.to(reply))
            }
            Happening::GoOn => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&GoOn.to(reply))
            }
            Happening::Pause => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&Pause.to(reply))
            }
            Happening::Resume => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&Resume.to(reply))
            }
            Happening::ResetLoops => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&ResetLoops.to(reply))
            }
            Happening::Configure => self.configure(),
            Happening::Question => self.put_question(),
            Happening::Switch => self.switch_agent(),
            Happening::Report => self.report(),
            Happening::Stale => self.stale(),
            Happening::Time => self.time(),
            Happening::Write if self.disk == Disk::Hung => Ok(()),
            Happening::Write => self.settle(),
            Happening::CarryOut => self.drive(),
            Happening::CatchUp => self.catch_up(),
            Happening::Compact => {
                let reply = self.host.wish(Wish::Other);
                self.signal(&Compact.to(reply))
            }
            Happening::Undo => {
                let Some(undone) = self.undone() else { return Ok(()) };
                let reply = self.host.wish(Wish::Other);
                self.signal(&UndoCompaction { undone: undone.into() }.to(reply))
            }
            Happening::Branch => self.leave_a_branch(),
            Happening::Pin => {
                let said = self.state.history.iter().filter_map(|item| match &**item {
                    tamtam::model::Item::User(user) => Some(user.id.clone()),
                    _ => None,
                });
                let said: Vec<_> = said.collect();
                if said.is_empty() {
                    return Ok(());
                }
                let (message, reply) = (self.rng.pick(&said), self.host.wish(Wish::Other));
                let is_pinned = self.state.context.pins.iter().any(|pin| pin.message == message);
                self.signal(&match is_pinned {
                    true => UnpinMessage { message }.to(reply),
                    false => PinMessage { message }.to(reply),
                })
            }
            Happening::GoBack => self.go_back(),
            Happening::Merge => self.merge(),
            Happening::Fork => self.fork(),
            Happening::Handoff => {
                let reply = self.host.wish(Wish::Other);
                let summary = self.rng.percent(50).then(|| "all of it, in short".into());
                self.signal(&HandOff { name: format!("by-hand-{}", reply.0), summary }.to(reply))
            }
            Happening::Anchor => self.signal(&BeginAnchor.to(ReplyTo::NOBODY)),
            Happening::Crash => self.crash(),
            Happening::Takeover => self.lose_lease(),
            Happening::Spawn => self.spawn(),
            Happening::ChildEnds => {
                self.child_ends();
                Ok(())
            }
            Happening::Parent => self.parent_speaks(),
            // A session that has ended does little more.
            Happening::End if self.rng.percent(80) => Ok(()),
            Happening::End => {
                let reply = self.host.end();
                self.signal(&End { reason: "over".to_owned() }.to(reply))
            }
        }
    }

    pub(super) fn delivery(&mut self) -> Delivery {
        self.rng.weighted(&[
            (6, Delivery::Queue),
            (1, Delivery::Reject),
            (3, Delivery::Steer(Steering::FinishBatch)),
            (3, Delivery::Steer(Steering::SkipRemaining)),
            (3, Delivery::Steer(Steering::AbortRunning)),
        ])
    }

    /// A host has a branch summed up: the ticket, and later the summary, or word that there is none.
    fn leave_a_branch(&mut self) -> Result<(), Broken> {
        let open = self.state.open.iter().find_map(|(ticket, open)| match open {
            Open::Branch(open) => Some((*ticket, open.clone())),
            _ => None,
        });
        let reply = self.host.wish(Wish::Other);
        let (from, to, summary) = (Seq(1), self.state.seq, "[It failed.]".into());
        let (usage, files) = Default::default();
        let Some((ticket, open)) = open else {
            if self.rng.percent(30) {
                // The budget allowed no request.
                let branch = BranchSummary { from, to, summary, usage, files, request: None };
                return self.signal(&LeaveBranch { branch: branch.into() }.to(reply));
            }
            let (model, wanted) = ("fake/model".parse().unwrap(), Reserve { input: 50, output: 40 });
            let request = OpenBranch { model, price: super::budgets::price(), wanted, reserved: Reserve::default() };
            return self.signal(&SumUpBranch { request: Box::new(request) }.to(reply));
        };
        if self.rng.percent(30) {
            let lost = self.rng.below(2) as u32;
            return self.signal(&GiveUpBranch { ticket, why: Box::new("it broke off".into()), lost }.to(reply));
        }
        let OpenBranch { model, price, reserved, .. } = open;
        let estimated = Some(Usage { input: reserved.input, output: 4, ..Usage::default() });
        let request = Some(BranchRequest { ticket, model, price, reserved, estimated, lost: 0 });
        let branch = BranchSummary { from, to, summary, usage, files, request };
        self.signal(&LeaveBranch { branch: branch.into() }.to(reply))
    }

    fn send(&mut self) -> Result<(), Broken> {
        let mut message = self.host.write();
        message.pinned = self.rng.percent(5);
        let delivery = self.delivery();
        let running = self.state.turn.as_ref().map(|turn| turn.id);
        let expect_turn = running.filter(|_| self.rng.percent(10));
        let reply = self.host.wish(Wish::Send(message.id.clone()));
        self.signal(&SendMessage { message, delivery, expect_turn, agent: None, added: 0 }.to(reply))
    }

    /// A sender that is not sure tries again, perhaps in other words of delivery.
    fn send_again(&mut self) -> Result<(), Broken> {
        let ids = self.host.ids();
        if ids.is_empty() {
            return Ok(());
        }
        let id = self.rng.pick(&ids);
        let (message, delivery) = (self.host.again(&id), self.delivery());
        let reply = self.host.wish(Wish::Send(id));
        self.signal(&SendMessage { message, delivery, expect_turn: None, agent: None, added: 0 }.to(reply))
    }

    fn some_message(&mut self) -> Option<tamtam::MessageId> {
        // What the session says to itself about its children is no message of the host's.
        let own = |waiting: &&tamtam::kernel::Waiting| !waiting.message.id.as_str().starts_with("task-");
        let waiting: Vec<_> = self.state.queue.iter().chain(&self.state.steering).filter(own).collect();
        let waiting: Vec<_> = waiting.into_iter().map(|waiting| waiting.message.id.clone()).collect();
        let from = if waiting.is_empty() || self.rng.percent(20) { self.host.ids() } else { waiting };
        (!from.is_empty()).then(|| self.rng.pick(&from))
    }

    fn edit(&mut self) -> Result<(), Broken> {
        let Some(id) = self.some_message() else { return Ok(()) };
        let text = format!("edit {} of {id}", self.rng.below(1_000_000));
        let message = tamtam::Message::user(text.clone()).with_id(id.clone());
        let reply = self.host.wish(Wish::Edit(id, text));
        self.signal(&EditMessage { message }.to(reply))
    }

    fn withdraw(&mut self) -> Result<(), Broken> {
        let Some(id) = self.some_message() else { return Ok(()) };
        let reply = self.host.wish(Wish::Withdraw(id.clone()));
        self.signal(&WithdrawMessage { id }.to(reply))
    }

    fn answer_ask(&mut self) -> Result<(), Broken> {
        let asks = self.state.open.iter().filter(|(_, open)| matches!(open, Open::Ask(_) | Open::BudgetAsk(_)));
        let asks: Vec<_> = asks.map(|(ask, open)| (*ask, matches!(open, Open::BudgetAsk(_)))).collect();
        if asks.is_empty() {
            return Ok(());
        }
        let (ask, is_for_more) = self.rng.pick(&asks);
        if is_for_more && self.rng.percent(50) {
            let grant = Grant::Raise(super::budgets::raise(&mut self.rng));
            let reply = self.host.wish(Wish::Other);
            return self.signal(&AnswerAsk { ask, grant, who: None, rules: None, digest: None }.to(reply));
        }
        let grant = self.rng.pick(&[
            Grant::Once,
            Grant::Once,
            Grant::Always(Scope::Turn),
            Grant::Always(Scope::Session),
            Grant::Reject(Some("another way, please".to_owned())),
            Grant::Reject(None),
        ]);
        let reply = self.host.wish(Wish::Other);
        self.signal(&AnswerAsk { ask, grant, who: None, rules: None, digest: None }.to(reply))
    }

    fn configure(&mut self) -> Result<(), Broken> {
        let mut settings = super::chance::settings(&mut self.rng);
        // What runs was started under the limit of its time.
        settings.parallel_max = self.state.settings.parallel_max;
        let reply = self.host.wish(Wish::Other);
        self.signal(&Configure { before: None, settings: Box::new(settings) }.to(reply))
    }

    fn report(&mut self) -> Result<(), Broken> {
        if self.rng.percent(20) {
            return self.watcher_reports();
        }
        let alive: Vec<_> = self.workers.iter().map(|(ticket, worker)| (*ticket, *worker)).collect();
        if alive.is_empty() {
            return Ok(());
        }
        let (ticket, worker) = self.rng.pick(&alive);
        // The provider takes what steers into the answer that it makes, and says so in mid-answer.
        let takes: Vec<_> = self.state.to_send_ahead().map(|waiting| waiting.message.id.clone()).collect();
        if worker.work == Job::Request && !takes.is_empty() && self.rng.percent(60) {
            let message = self.rng.pick(&takes);
            return self.signal(&NoteSent { request: ticket, id: message, said: None }.to(ReplyTo::NOBODY));
        }
        self.workers.remove(&ticket);
        let signal = self.report_of(ticket, worker);
        self.signal(&signal)
    }

    pub(super) fn report_of(&mut self, ticket: Seq, worker: Worker) -> Input {
        // A worker that was told to stop may have been done before it heard so.
        let stopped = worker.stopped && self.rng.percent(70);
        match (worker.work, stopped) {
            (Job::Summary, _) => self.summarised(ticket),
            (Job::Request, true) => Report::CutOff { partial: self.partial(), thrown_away: 0 }.of(ticket),
            (Job::Request, false) if self.rng.percent(12) && self.is_unprepared(ticket) => {
                Report::Prepared { prepared: Box::new(self.prepared()) }.of(ticket)
            }
            (Job::Request, false) if self.rng.percent(12) => Report::Failed { error: self.error() }.of(ticket),
            (Job::Request, false) => Report::Answered { answer: self.answer(ticket), calls: Vec::new() }.of(ticket),
            (Job::Call, true) => {
                Report::Returned { result: ToolResult::failed(ErrorReason::Aborted, "stopped") }.of(ticket)
            }
            // Hooks are asked before the tool is, so one that has put a question is past them.
            (Job::Call, false) if self.rng.percent(5) && !self.asked.contains(&ticket) => {
                Report::Gated { gated: Box::new(self.gated(ticket)) }.of(ticket)
            }
            (Job::Call, false) if self.rng.percent(20) => {
                let reason = self.rng.pick(&[ErrorReason::Failed, ErrorReason::Timeout, ErrorReason::Blocked]);
                Report::Returned { result: ToolResult::failed(reason, "it went wrong") }.of(ticket)
            }
            (Job::Call, false) => Report::Returned { result: ToolResult::ok(format!("result of {ticket}")) }.of(ticket),
        }
    }

    fn is_unprepared(&self, ticket: Seq) -> bool {
        matches!(self.state.open.get(&ticket), Some(Open::Request(open)) if open.prepared.is_none())
    }

    /// What hooks made of a request, by chance.
    fn prepared(&mut self) -> Prepared {
        let items = self.state.history.len();
        let is_start = self.state.turn.as_ref().is_some_and(|turn| !turn.opened);
        let turn = is_start.then(|| TurnAdded {
            system: self.rng.pick(&["", "Be short."]).to_owned(),
            messages: self.rng.pick(&[vec![], vec!["note".to_owned()]]),
        });
        let note = Item::User(UserItem::new("x".into(), vec![Part::text("note of a hook")]));
        let shown = self.rng.pick(&[None, Some(vec![Shown::Kept(0, items), Shown::New(Box::new(note))])]);
        let reminders = self.rng.pick(&[vec![], vec!["remember".to_owned()]]);
        Prepared { turn, shown, reminders, ..Prepared::default() }
    }

    /// What a hook made of a call, by chance.
    fn gated(&mut self, ticket: Seq) -> Gated {
        // Its worker has asked the hooks, and not the tool.
        self.ran.entry(ticket).and_modify(|ran| *ran = ran.saturating_sub(1));
        let facts = self.state.call(ticket).map(|call| call.facts.clone());
        let passed = self.state.call(ticket).and_then(|call| call.gate.clone());
        let mut passed = passed.map(|gate| gate.passed.clone()).unwrap_or_default();
        passed.push("hook".to_owned());
        let gated = Gated { hook: "hook".into(), passed, ..Gated::default() };
        match self.rng.percent(50) {
            true => Gated { ask: Some("why".into()), ..gated },
            // With one argument more, which says nothing of what the call wants: so the facts stay true.
            false => {
                let input = self.state.call(ticket).and_then(|call| serde_json::from_str(&call.input).ok());
                let mut input: serde_json::Map<_, _> = input.unwrap_or_default();
                input.insert("other".to_owned(), 1.into());
                Gated { input: serde_json::to_string(&input).ok().map(Into::into), facts, ..gated }
            }
        }
    }

    /// A provider keeps to what it was told: under a budget no more is read and written than was held back.
    fn summarised(&mut self, ticket: Seq) -> Input {
        let reserved = match self.state.open.get(&ticket) {
            Some(Open::Compaction(open)) => open.reserved,
            _ => Reserve::default(),
        };
        let is_limited = reserved.output > 0;
        let result = match self.rng.below(5) {
            0 => Err("the summariser is down".into()),
            1 => Ok(("".into(), Usage::default())),
            2 if is_limited => Ok(("x".repeat(4 * reserved.output as usize).into(), Usage::default())),
            2 => Ok(("far too long ".repeat(1_000).into(), Usage::default())),
            _ => Ok(("sum".into(), Usage::default())),
        };
        // There, a try that was read is the last.
        let again = result.is_err() || !is_limited;
        Report::Summarised { result, lost: u32::from(again && ticket.0.is_multiple_of(5)) }.of(ticket)
    }

    fn partial(&mut self) -> Vec<AnswerPart> {
        match self.rng.below(3) {
            0 => Vec::new(),
            1 => vec![text("half an ans")],
            _ => vec![text("half"), call("c0", "bash", "{\"a")],
        }
    }

    fn error(&mut self) -> ModelError {
        let kind = self.rng.weighted(&[
            (3, ErrorKind::Network),
            (3, ErrorKind::RateLimited),
            (2, ErrorKind::Server),
            (1, ErrorKind::Auth),
            (1, ErrorKind::ContextOverflow),
            (1, ErrorKind::RequestTooLarge),
            (1, ErrorKind::FileRefused),
        ]);
        let after = self.rng.percent(30).then(|| Duration::from_secs(self.rng.below(70) as u64));
        let key_renewed = kind == ErrorKind::Auth && after.is_some();
        ModelError { key_renewed, ..ModelError::new(kind, "it failed").with_retry_after(after) }
    }

    fn answer(&mut self, ticket: Seq) -> ModelAnswer {
        let tools = ["read", "grep", "look", "put", "note", "bash", "write", "free", "nosuch"];
        let inputs = [(20, "{}"), (10, "{\"at\":\"x\"}"), (3, ""), (1, "[1]"), (1, "{\"cut")];
        let calls = self.rng.weighted(&[(2, 0), (3, 1), (3, 2), (3, 3), (1, 12)]);
        let mut parts = Vec::new();
        if self.rng.percent(50) {
            parts.push(text("some words"));
        }
        for index in 0..calls {
            // Ids repeat from answer to answer, and now and then within one.
            let id = format!("c{}", if self.rng.percent(5) { 0 } else { index });
            parts.push(call(&id, self.rng.pick(&tools), self.rng.weighted(&inputs)));
        }
        let finish = self.rng.weighted(&[
            (16, if calls > 0 { Finish::ToolCalls } else { Finish::Stop }),
            (1, Finish::Stop),
            (1, Finish::Length),
            (1, Finish::ContentFilter),
            (1, Finish::Unknown),
            (2, Finish::Steered),
        ]);
        let mut answer = ModelAnswer::new(parts, finish);
        // What became of what was sent into it; now and then of something that was not, or that is gone.
        let sent: Vec<_> = self.state.to_send_ahead().map(|waiting| waiting.message.id.clone()).collect();
        for message in sent.into_iter().chain([MessageId::from("gone")]) {
            match self.rng.below(3) {
                0 => answer.steered.push(Steered::committed(message)),
                1 => answer.steered.push(Steered::returned(message, "late")),
                _ => {}
            }
        }
        answer.usage.input = self.rng.pick(&[0, 7, 90, 300]);
        if let Some(Open::Request(open)) = self.state.open.get(&ticket)
            && open.reserved.output > 0
        {
            // A provider keeps to what it was told.
            answer.usage.input = answer.usage.input.clamp(1, open.reserved.input.max(1));
            answer.usage.output = self.rng.pick(&[0, 5, 40]).min(open.reserved.output);
        }
        answer
    }

    /// A report that nobody waits for: for a ticket that is closed, or never was one.
    fn stale(&mut self) -> Result<(), Broken> {
        let ticket = Seq(1 + self.rng.below(self.state.seq.0 as usize) as u64);
        if self.state.open.contains_key(&ticket) {
            return Ok(());
        }
        let work = self.rng.pick(&[Job::Request, Job::Call, Job::Summary]);
        let stopped = self.rng.percent(50);
        let signal = self.report_of(ticket, Worker { work, stopped });
        self.signal(&signal)
    }

    /// Time passes: a little, or until something is due.
    fn time(&mut self) -> Result<(), Broken> {
        let little = self.now.plus(Duration::from_millis(self.rng.below(2_000) as u64));
        let due = self.state.due().filter(|_| self.rng.percent(60));
        self.now = due.map_or(little, |due| due.max(self.now));
        self.heard = self.rng.percent(90);
        self.signal(&Input::Timer)
    }
}
