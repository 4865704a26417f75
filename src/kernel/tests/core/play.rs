//! One session's core, played by hand: a test tells it what happens, and looks at what follows.
//!
//! Each entry goes through bytes, and after every signal the fold of those bytes must be the live state. At the end of a test
//! the tape is replayed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tamtam::{
    Message, Millis, ModelRef, Seq,
    event::{Event, events_of, lab::keep},
    kernel::{
        Abort, AgentChoice, AnswerAsk, CallState, CarriedOut, ClearQueue, Configure, Delivery, Digest, Due,
        EditMessage, Entry, Env, GoOn, Grant, Input, ModelSeen, Open, Outcome, Pause, PutQuestion, Receipt, Record,
        Refusal, Reply, ReplyTo, Report, Resume, SendMessage, Settings, Spent, State, Steering, Stop, SwitchAgent,
        Windows, WithdrawMessage, context::Window, decide,
    },
    model::{AnswerPart, ErrorKind, Item, ModelAnswer, ModelError, Prices, Usage},
    permission::{Action, Globs, Rule, Ruleset},
    session::Finish,
    tool::{Question, ToolResult, Toolbox},
};

use super::{line, tools};
use crate::kernel::tests::sim::again::{Made, replays};

/// The text part of an answer.
pub(crate) fn text(text: &str) -> AnswerPart {
    AnswerPart::Text { text: text.to_owned(), extra: None }
}

/// A call with arguments as JSON text.
pub(crate) fn call(id: &str, name: &str, input: &str) -> AnswerPart {
    AnswerPart::Call { id: id.into(), name: name.to_owned(), input: input.to_owned(), extra: None }
}

/// Settings under which every tool may run.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new("/w", "fake/model".parse().unwrap());
    settings.rules = vec![rules("host", &[("*", "*", Action::Allow)])];
    settings
}

/// A ruleset of those lines.
pub(crate) fn rules(name: &str, rules: &[(&str, &str, Action)]) -> Ruleset {
    let rules = rules.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action));
    Ruleset::new(name, rules)
}

/// All models take the same, and cost what was said.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) window: Window,
    pub(crate) prices: &'a Prices,
}

impl Windows for Known<'_> {
    fn seen(&self, model: &ModelRef) -> ModelSeen {
        ModelSeen { window: self.window, price: self.prices.get(model) }
    }
}

/// One session's core, played by hand.
pub(crate) struct Play {
    /// The live state.
    pub(crate) state: State,
    /// What the last decision wrote.
    pub(crate) entries: Vec<Entry>,
    /// What the last decision told the shell to stop.
    pub(crate) stops: Vec<Stop>,
    /// What the shell begins after the last decision: what is due by then and had nobody at work on it.
    pub(crate) begun: Vec<Due>,
    /// The tickets that have somebody at work.
    at_work: BTreeSet<Seq>,
    /// What the last decision answered.
    pub(crate) reply: Option<Reply>,
    /// Whether anybody listens who could answer an ask.
    pub(crate) heard: bool,
    pub(crate) toolbox: Toolbox,
    globs: Globs,
    /// The rules of the host.
    pub(crate) host_rules: Option<Ruleset>,
    pub(crate) window: Window,
    /// What the tools take in a request.
    pub(crate) tools_tokens: u64,
    /// Whether the core knows which permissions the tools need, so that the rules mask tools.
    pub(crate) masks: bool,
    /// What models cost; nothing is known by default.
    pub(crate) prices: Prices,
    now: Millis,
    tape: Vec<Vec<u8>>,
    /// What the first so many entries of the tape fold to.
    folded: (State, usize),
    /// How many entries each append had, and how it came to be.
    appends: Vec<(usize, Made)>,
    replies: u64,
    /// How much of the tape there was before the last decision.
    before: usize,
}

/// The state before the first entry, which names all that there is of it.
fn unfolded() -> (State, usize) {
    (State::new("other".parse().unwrap(), settings(), Millis(0)), 0)
}

impl Play {
    /// A session under which every tool may run.
    pub(crate) fn new() -> Play {
        Play::with(|_| {})
    }

    /// A session with changed settings.
    pub(crate) fn with(change: impl FnOnce(&mut Settings)) -> Play {
        let mut settings = settings();
        change(&mut settings);
        let now = Millis(1_000_000);
        let state = State::new("play".parse().unwrap(), settings, now);
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
        let tape = vec![line::encode(&first)];
        let mut play = Play {
            state,
            entries: Vec::new(),
            stops: Vec::new(),
            begun: Vec::new(),
            at_work: BTreeSet::new(),
            reply: None,
            heard: true,
            toolbox: tools::toolbox(),
            globs: Globs::default(),
            host_rules: None,
            window: Window::new(200_000, 8_192),
            tools_tokens: 0,
            masks: false,
            prices: Prices::default(),
            now,
            tape,
            folded: unfolded(),
            appends: vec![(1, Made::Whole)],
            replies: 0,
            before: 1,
        };
        play.state.apply(&first);
        play
    }

    /// Begins anew from a changed state: as an anchor does, whose first entry is the whole of it.
    pub(crate) fn begin_as(&mut self, change: impl FnOnce(&mut State)) {
        change(&mut self.state);
        let first = Entry {
            seq: self.state.seq.next(),
            time: self.now,
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: Some(tamtam::kernel::Recorded::new("anchor")),
            record: Record::State(self.state.clone().into()),
        };
        self.state.apply(&first);
        self.tape.push(line::encode(&first));
        self.appends.push((1, Made::ByHand));
    }

    /// A session that was sent "go" and whose model answered with calls of those tools, named c0, c1, …
    pub(crate) fn with_calls(names: &[&str]) -> (Play, Vec<Seq>) {
        let mut play = Play::new();
        play.send("go");
        let calls = play.answer_calls(names);
        (play, calls)
    }

    /// Tells the core what happened.
    pub(crate) fn signal(&mut self, input: Input) -> &mut Play {
        self.inputs(&[input])
    }

    /// Tells the core what happened, in that order, in one decision.
    pub(crate) fn inputs(&mut self, inputs: &[Input]) -> &mut Play {
        let known = Known { window: self.window, prices: &self.prices };
        let none = Default::default();
        let env = Env {
            globs: &self.globs,
            host_rules: self.host_rules.as_ref(),
            tools_tokens: self.tools_tokens,
            permissions: if self.masks { self.toolbox.permissions() } else { &none },
            windows: &known,
            toolbox_hash: "tools",
            asks_are_heard: self.heard,
            jitter: 0.5,
        };
        let told: Vec<_> = inputs.iter().map(|input| tools::told(&self.toolbox, &self.state, input)).collect();
        let decision = decide(&self.state, &told, &env, self.now);
        self.before = self.tape.len();
        self.tape.extend(decision.entries.iter().map(line::encode));
        self.appends.push((decision.entries.len(), Made::Whole));
        self.state = decision.after;
        let (folded, through) = &mut self.folded;
        self.tape[*through..].iter().for_each(|bytes| folded.apply(&line::decode(bytes)));
        *through = self.tape.len();
        assert_eq!(*folded, self.state, "the fold of the tape is not the live state after {inputs:?}");
        self.entries = decision.entries;
        let mut replies = decision.replies;
        self.stops = decision.stops;
        self.begin_what_is_due(inputs);
        assert!(replies.len() <= inputs.len(), "{inputs:?} were answered {} times", replies.len());
        self.reply = replies.pop().map(|(_, reply)| reply);
        self
    }

    /// What the shell does once the entries are on the tape.
    fn begin_what_is_due(&mut self, inputs: &[Input]) {
        if inputs.iter().any(|input| matches!(input, Input::Recover { .. })) {
            // No worker outlives its process.
            self.at_work.clear();
        }
        // Whoever stops a child watches over it from then on.
        let watched = self.stops.iter().filter_map(|stop| match stop {
            Stop::Task(ticket) => Some(*ticket),
            _ => None,
        });
        self.at_work.extend(watched);
        self.at_work.retain(|ticket| self.state.open.contains_key(ticket));
        self.begun = self.state.due_work(|ticket| self.at_work.contains(&ticket));
        self.at_work.extend(self.begun.iter().map(|due| match due {
            Due::Request(ticket) | Due::Call(ticket) | Due::Summary(ticket) | Due::Task(ticket) | Due::Gone(ticket) => {
                *ticket
            }
        }));
    }

    /// What the last decision leads to: what is begun, and what is stopped.
    pub(crate) fn follows(&self) -> (Vec<Due>, Vec<Stop>) {
        (self.begun.clone(), self.stops.clone())
    }

    /// Whether the last decision begins nothing and stops nothing.
    pub(crate) fn is_quiet(&self) -> bool {
        self.begun.is_empty() && self.stops.is_empty()
    }

    /// The entries so far, as a reader of the tape finds them.
    pub(crate) fn entries_of_the_tape(&self) -> Vec<Entry> {
        self.tape.iter().map(|bytes| line::decode(bytes)).collect()
    }

    fn fold(&self) -> State {
        self.fold_with(|_, _| ())
    }

    /// The state that the tape folds to; `watch` sees each entry and the state before it.
    pub(super) fn fold_with(&self, mut watch: impl FnMut(&State, &Entry)) -> State {
        let (mut state, _) = unfolded();
        self.tape.iter().for_each(|bytes| {
            let entry = line::decode(bytes);
            watch(&state, &entry);
            state.apply(&entry);
        });
        state
    }

    pub(crate) fn reply_to(&mut self) -> ReplyTo {
        self.replies += 1;
        ReplyTo(self.replies)
    }

    /// Sends a message under its text as id.
    pub(crate) fn send_as(&mut self, text: &str, delivery: Delivery) -> Result<Receipt, Refusal> {
        self.send_message(Message::user(text).with_id(text.into()), delivery, None)
    }

    pub(crate) fn send_message(
        &mut self,
        message: Message,
        delivery: Delivery,
        expect_turn: Option<Seq>,
    ) -> Result<Receipt, Refusal> {
        let reply = self.reply_to();
        self.signal(SendMessage { message, delivery, expect_turn, agent: None, added: 0 }.to(reply));
        match self.reply.clone().unwrap() {
            Ok(CarriedOut::Receipt(receipt)) => Ok(receipt),
            Ok(other) => panic!("a send was answered with {other:?}"),
            Err(refusal) => Err(refusal),
        }
    }

    /// Sends a message that must be taken.
    pub(crate) fn send(&mut self, text: &str) -> Receipt {
        self.send_as(text, Delivery::Queue).unwrap()
    }

    /// Sends a steering message that must be taken.
    pub(crate) fn steer(&mut self, text: &str, steering: Steering) -> Receipt {
        self.send_as(text, Delivery::Steer(steering)).unwrap()
    }

    pub(crate) fn abort(&mut self, reason: &str) -> &mut Play {
        let reply = self.reply_to();
        self.signal(Abort { reason: reason.to_owned(), turn: None }.to(reply))
    }

    pub(crate) fn go_on(&mut self) -> &mut Play {
        let reply = self.reply_to();
        self.signal(GoOn.to(reply))
    }

    pub(crate) fn pause(&mut self) -> &mut Play {
        let reply = self.reply_to();
        self.signal(Pause.to(reply))
    }

    pub(crate) fn resume(&mut self) -> &mut Play {
        let reply = self.reply_to();
        self.signal(Resume.to(reply))
    }

    pub(crate) fn edit(&mut self, id: &str, text: &str) -> Result<CarriedOut, Refusal> {
        let reply = self.reply_to();
        self.signal(EditMessage { message: Message::user(text).with_id(id.into()) }.to(reply));
        self.reply.clone().unwrap()
    }

    pub(crate) fn withdraw(&mut self, id: &str) -> Result<CarriedOut, Refusal> {
        let reply = self.reply_to();
        self.signal(WithdrawMessage { id: id.into() }.to(reply));
        self.reply.clone().unwrap()
    }

    pub(crate) fn clear_queue(&mut self) -> Vec<String> {
        let reply = self.reply_to();
        self.signal(ClearQueue.to(reply));
        match self.reply.clone().unwrap() {
            Ok(CarriedOut::TakenBack(messages)) => messages.iter().map(|message| message.text()).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Settings)) -> &mut Play {
        let mut settings = (*self.state.settings).clone();
        change(&mut settings);
        let reply = self.reply_to();
        self.signal(Configure { before: None, settings: Box::new(settings) }.to(reply))
    }

    /// Answers an ask.
    pub(crate) fn grant(&mut self, ask: Seq, grant: Grant) -> Result<CarriedOut, Refusal> {
        let reply = self.reply_to();
        self.signal(AnswerAsk { ask, grant, who: None, rules: None, digest: None }.to(reply));
        self.reply.clone().unwrap()
    }

    /// Another agent is chosen.
    pub(crate) fn switch(&mut self, choice: AgentChoice) -> &mut Play {
        let reply = self.reply_to();
        self.signal(SwitchAgent { choice }.to(reply))
    }

    /// A running call asks; gives the reply.
    pub(crate) fn put_question(&mut self, call: Seq, attempt: u32, question: Question) -> Result<CarriedOut, Refusal> {
        let reply = self.reply_to();
        let access = question.access.clone();
        let question = Arc::new(Question { access: Vec::new(), ..question });
        self.signal(PutQuestion { call, attempt: Some(attempt), access, question }.to(reply));
        self.reply.clone().unwrap()
    }

    /// The ticket of the open request.
    pub(crate) fn request(&self) -> Seq {
        self.state.request().expect("a request is open").0
    }

    /// The model answers so, and its provider says what that used.
    pub(crate) fn answer_using(&mut self, parts: Vec<AnswerPart>, finish: Finish, usage: Usage) -> &mut Play {
        let ticket = self.request();
        let mut answer = ModelAnswer::new(parts, finish);
        answer.usage = usage;
        self.signal(Report::Answered { answer, calls: Vec::new() }.of(ticket))
    }

    pub(crate) fn answer(&mut self, parts: Vec<AnswerPart>, finish: Finish) -> &mut Play {
        let ticket = self.request();
        self.signal(Report::Answered { answer: ModelAnswer::new(parts, finish), calls: Vec::new() }.of(ticket))
    }

    /// The model answers with a text and has said all it wanted to.
    pub(crate) fn answer_text(&mut self, said: &str) -> &mut Play {
        self.answer(vec![text(said)], Finish::Stop)
    }

    /// The model asks for calls of those tools, named c0, c1, …; gives the tickets that were opened.
    pub(crate) fn answer_calls(&mut self, names: &[&str]) -> Vec<Seq> {
        let calls = names.iter().enumerate().map(|(index, name)| call(&format!("c{index}"), name, "{}"));
        self.answer(calls.collect(), Finish::ToolCalls);
        let opened = self.entries.iter().filter(|entry| matches!(entry.record, Record::Call(_)));
        opened.map(|entry| entry.seq).collect()
    }

    pub(crate) fn returned(&mut self, ticket: Seq, content: &str) -> &mut Play {
        self.signal(Report::Returned { result: ToolResult::ok(content) }.of(ticket))
    }

    pub(crate) fn failed(&mut self, kind: ErrorKind) -> &mut Play {
        self.failed_with(ModelError::new(kind, "it failed"))
    }

    pub(crate) fn failed_with(&mut self, error: ModelError) -> &mut Play {
        let ticket = self.request();
        self.signal(Report::Failed { error }.of(ticket))
    }

    /// The request's stream was closed with that much of the answer there.
    pub(crate) fn cut_off(&mut self, partial: &str) -> &mut Play {
        let ticket = self.request();
        self.signal(Report::CutOff { partial: vec![text(partial)], thrown_away: 0 }.of(ticket))
    }

    /// That much later the clock is looked at.
    pub(crate) fn later(&mut self, ms: u64) -> &mut Play {
        self.now = self.now.plus(Duration::from_millis(ms));
        self.signal(Input::Timer)
    }

    /// That much later, and nobody looks at the clock.
    pub(crate) fn asleep(&mut self, ms: u64) {
        self.now = self.now.plus(Duration::from_millis(ms));
    }

    /// The process dies with all of the tape written, and the session is rebuilt from it.
    pub(crate) fn crash(&mut self) -> &mut Play {
        self.state = self.fold();
        self.signal(Input::recover())
    }

    /// The session is stopped in order and rebuilt: a shutdown, an operator's restart.
    pub(crate) fn stop_in_order(&mut self) -> &mut Play {
        self.signal(Input::Stop);
        self.crash()
    }

    /// The process dies when only so many entries of the last decision were written.
    pub(crate) fn crash_after(&mut self, entries: usize) -> &mut Play {
        self.cut(self.before + entries);
        self.crash()
    }

    /// Only so many entries were written.
    fn cut(&mut self, entries: usize) {
        self.tape.truncate(entries);
        self.folded = unfolded();
        let mut left = entries;
        for (length, made) in &mut self.appends {
            if *length > left {
                (*length, *made) = (left, Made::Torn);
            }
            left -= *length;
        }
    }

    /// All entries of the tape.
    pub(crate) fn tape(&self) -> Vec<Entry> {
        self.tape.iter().map(|bytes| line::decode(bytes)).collect()
    }

    /// How many entries there are.
    pub(crate) fn written(&self) -> usize {
        self.tape.len()
    }

    /// Another session goes on from the first so many entries: what its actor finds when it opens the fork.
    pub(crate) fn fork_at(mut self, entries: usize) -> Play {
        self.cut(entries);
        let forked = tamtam::tape::Forked {
            session: "fork".parse().unwrap(),
            parent: self.state.session.clone(),
            seq: Seq(entries as u64),
            sum: "0".repeat(16),
            depth: 1,
            spill: Some("/store/fork/spill".into()),
        };
        self.opened_behind(Record::Forked(Box::new(forked)))
    }

    /// The first so many entries are brought in from a file: what its actor finds when it opens the session.
    pub(crate) fn imported_at(mut self, entries: usize) -> Play {
        self.cut(entries);
        let imported = tamtam::tape::ImportedFrom {
            session: "here".parse().unwrap(),
            from: self.state.session.clone(),
            last: Seq(entries as u64),
            workspace: "/here".into(),
            spill: Some("/store/play/spill".into()),
        };
        self.opened_behind(Record::Imported(Box::new(imported)))
    }

    /// The tape wrote that by itself, and then it is opened.
    fn opened_behind(mut self, record: Record) -> Play {
        let entry = Entry {
            seq: Seq(self.tape.len() as u64 + 1),
            time: self.now,
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            record,
        };
        self.tape.push(line::encode(&entry));
        self.appends.push((1, Made::Whole));
        self.before = self.tape.len();
        self.crash();
        self
    }

    /// The requests and calls that are begun after the last decision.
    pub(crate) fn started(&self) -> Vec<Seq> {
        let started = self.begun.iter().filter_map(|due| match due {
            Due::Request(ticket) | Due::Call(ticket) => Some(*ticket),
            _ => None,
        });
        started.collect()
    }

    /// The tickets whose workers the last decision stopped.
    pub(crate) fn stopped(&self) -> Vec<Seq> {
        let stopped = self.stops.iter().filter_map(|stop| match stop {
            Stop::Request(ticket) | Stop::Call(ticket) => Some(*ticket),
            Stop::Task(_) => None,
        });
        stopped.collect()
    }

    /// The asks that are open.
    pub(crate) fn asks(&self) -> Vec<Seq> {
        let asks = self.state.open.iter().filter(|(_, open)| matches!(open, Open::Ask(_)));
        asks.map(|(ticket, _)| *ticket).collect()
    }

    pub(crate) fn call_state(&self, ticket: Seq) -> Option<CallState> {
        match self.state.open.get(&ticket) {
            Some(Open::Call(call)) => Some(call.state),
            _ => None,
        }
    }

    /// The conversation as the model sees it, one line an item.
    pub(crate) fn history(&self) -> Vec<String> {
        let shown = self.state.history.iter().map(|item| match item.as_ref() {
            Item::User(user) => {
                let said = Message { parts: user.parts.clone(), ..Message::user("") }.text();
                format!("user: {said}")
            }
            Item::Assistant(answer) => {
                let calls = answer.parts.iter().filter_map(|part| match part {
                    AnswerPart::Call { name, .. } => Some(name.as_str()),
                    _ => None,
                });
                let calls: Vec<_> = calls.collect();
                match calls.is_empty() {
                    true => format!("model: {}", answer.text()),
                    false => format!("model calls {}", calls.join(" ")),
                }
            }
            Item::Result(result) => {
                let mark = if result.is_error { "!" } else { "" };
                format!("{}{mark} {}", result.call, result.content)
            }
        });
        shown.collect()
    }

    /// The newest lines of the conversation, each cut after so many characters.
    pub(crate) fn newest(&self, lines: usize, width: usize) -> Vec<String> {
        let history = self.history();
        let from = history.len().saturating_sub(lines);
        history[from..].iter().map(|line| line.chars().take(width).collect()).collect()
    }

    /// How the newest turn ended.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.ended.back().map(|end| end.outcome.clone())
    }

    /// The texts of the messages that wait: steering, then queued.
    pub(crate) fn waiting(&self) -> (Vec<String>, Vec<String>) {
        let texts = |waiting: &std::collections::VecDeque<tamtam::kernel::Waiting>| {
            waiting.iter().map(|waiting| waiting.message.text()).collect()
        };
        (texts(&self.state.steering), texts(&self.state.queue))
    }
}

/// Whatever a test did to a session, its tape is enough to do it again, and a list shows the agent and the model that it has.
impl Drop for Play {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            replays(&self.tape(), &self.appends).unwrap();
            let lines = self.tape().iter().map(|entry| entry.to_tape().unwrap()).collect::<Vec<_>>();
            // Whoever reads the JSON of an event has the event: the same text comes out again.
            let mut events = String::new();
            let state = self.fold_with(|before, entry| {
                for event in events_of(before, entry) {
                    let text = serde_json::to_string(&event).unwrap();
                    let back: Event = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
                    assert_eq!(serde_json::to_string(&back).unwrap(), text);
                    events.push_str(&text);
                    events.push('\n');
                }
            });
            keep(&events);
            let digest = Digest::of(&lines);
            // What a list shows as used is what the state says.
            let used = |spent: &Spent| (spent.requests, spent.estimated, spent.usage, spent.cost);
            assert_eq!(used(&digest.spent), used(&state.spent));
            let Digest { agent: Some(agent), model: Some(model), .. } = digest else { return };
            let Settings { agent: in_force, model: its_model, .. } = &*state.settings;
            assert_eq!((&agent, &model), (in_force, its_model));
        }
    }
}
