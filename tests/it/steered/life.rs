//! One session that is brought into a phase and spoken to there; and a second life of it, from the disk of that moment.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, EventStream, Part, Receipt, Runtime, Seq, Session, SessionOptions,
    model::{
        AnswerPart, BoxFuture, ErrorKind, Item, ModelError, ModelLimits, Reply, Request, Scripted, Usage, transcript,
    },
    permission::{Action, Rule, Ruleset},
    session::{ErrorReason, Grant, Next, Open},
    tool::{Effect, Tool, ToolContext, ToolResult},
};
use tokio::sync::watch;

use crate::support::{copied::copy, taped};

/// What a session is doing when the message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Its model has said something, and goes on to call two tools.
    Stream,
    /// The first call runs, the second waits behind it.
    Call,
    /// A person is asked about the first call, the second waits behind it.
    Ask,
    /// Its model could not be reached, and is to be asked again.
    Wait,
    /// The context is full: nothing goes on before a summary is written.
    Summary,
}

/// The message that meets it there.
pub(super) const MESSAGE: &str = "instead";

/// What only the request for a summary holds.
const SUMMARY: &str = "system: You write summaries";

/// Where the model of a first life waits: in the phase itself, and with what it says to the message, so that the moment of the kill
/// is one of this phase.
const BARRIERS: [&str; 4] = ["stream", "again", "summary", MESSAGE];

/// Nothing takes so long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

/// A runtime over a store, with the model and the tools of a phase.
pub(super) struct Life {
    phase: Phase,
    folder: taped::Folder,
    model: Arc<Scripted>,
    /// Lets the first call end.
    gate: watch::Sender<bool>,
    /// How often each tool began.
    looks: watch::Sender<usize>,
    writes: Arc<AtomicUsize>,
    runtime: Runtime,
}

impl Life {
    async fn over(folder: taped::Folder, phase: Phase, first: bool, backs_off: bool) -> Life {
        let gate = watch::Sender::new(!first || phase != Phase::Call);
        let (looks, writes) = (watch::Sender::new(0), Arc::<AtomicUsize>::default());
        let mut limits = ModelLimits::default();
        if phase == Phase::Summary {
            (limits.context, limits.output) = (200, 50);
        }
        let failures = AtomicUsize::new(if first && phase == Phase::Wait { 3 } else { 0 });
        let script = move |request: &Request| reply(phase, &failures, backs_off, request);
        let model = Arc::new(Scripted::from_fn(script).with_limits(limits));
        if !first {
            BARRIERS.iter().for_each(|barrier| model.barrier(barrier).release());
        }
        let builder = Runtime::builder().store(folder.path().join("store")).without_auto_resume();
        let look = Look { long: phase == Phase::Summary, gate: gate.subscribe(), began: looks.clone() };
        let builder = builder.models(model.clone(), "scripted/script".parse().unwrap());
        let runtime = builder.tool(look).tool(Write(writes.clone())).start().await.unwrap();
        Life { phase, folder, model, gate, looks, writes, runtime }
    }

    /// A first life, in that phase, with the receipt of the prompt that brought it there. `backs_off`: the wait before a retry is
    /// our own, of three seconds or more; else the server asks for a short one.
    pub(super) async fn begin(phase: Phase, backs_off: bool) -> (Life, Session, Receipt) {
        let life = Life::over(taped::folder(), phase, true, backs_off).await;
        let mut options = SessionOptions::new(life.folder.path()).id("steered".parse().unwrap());
        let ask = Rule::new("look", "*", if phase == Phase::Ask { Action::Ask } else { Action::Allow });
        let rules = vec![Rule::new("*", "*", Action::Allow), ask];
        options.rules = Some(Ruleset::new("host", rules));
        let session = life.runtime.create(options).await.unwrap();
        if phase == Phase::Summary {
            session.configure(|settings| settings.compaction.reserve = Some(50)).await.unwrap();
            session.prompt("tell me something long").await.unwrap().wait().await.unwrap();
        }
        let mut events = session.events();
        let prompt = session.prompt("go").await.unwrap();
        match phase {
            Phase::Stream => soon("the stream", life.model.barrier("stream").reached()).await,
            Phase::Summary => soon("the summary", life.model.barrier("summary").reached()).await,
            Phase::Call => drop(soon("the call", life.looks.subscribe().wait_for(|looks| *looks == 1)).await.unwrap()),
            Phase::Ask => until(&mut events, |kind| matches!(kind, EventKind::Ask { .. })).await,
            Phase::Wait => until(&mut events, |kind| matches!(kind, EventKind::Retry { attempt: 3, .. })).await,
        }
        (life, session, prompt)
    }

    /// What a host that was killed now would leave, with a second runtime over it. It is not started again by itself: asks are
    /// denied where nobody listens.
    pub(super) async fn killed(&self) -> Life {
        let folder = taped::folder();
        copy(&self.folder.path().join("store"), &folder.path().join("store"));
        Life::over(folder, self.phase, false, false).await
    }

    /// Brings the session back and lets it come to its end, answering what is asked.
    pub(super) async fn resume(&self) -> Session {
        let (session, events) = self.runtime.open_heard(&"steered".parse().unwrap()).await.unwrap();
        answer_all(&session, events).await;
        session
    }

    /// Lets whatever was held go on, and answers what is asked.
    pub(super) async fn go_on(&self, session: &Session) {
        self.gate.send_replace(true);
        BARRIERS.iter().for_each(|barrier| self.model.barrier(barrier).release());
        answer_all(session, session.events()).await;
    }

    /// The first request that tells the model of the message, line by line; and the text of the first request of this life.
    pub(super) fn told(&self) -> Told {
        let requests: Vec<_> = self.model.requests();
        let all: Vec<_> = requests.iter().filter(|request| !transcript(request).contains(SUMMARY)).collect();
        let lines = all.iter().map(|request| lines(request));
        let message = format!("user: {MESSAGE}");
        let with = lines.into_iter().find(|lines| lines.contains(&message)).expect("the model is told of it");
        assert_eq!(with.iter().filter(|line| **line == message).count(), 1, "it is there once: {with:?}");
        let (looks, writes) = (*self.looks.borrow(), self.writes.load(Ordering::SeqCst));
        Told { lines: with, looks, writes, requests: all.iter().map(|request| transcript(request)).collect() }
    }

    pub(super) async fn end(self) {
        assert_eq!(self.runtime.crashes(), vec![]);
        assert!(soon("the end of the runtime", self.runtime.shutdown()).await.is_empty());
    }
}

/// What a life came to.
#[derive(Debug)]
pub(super) struct Told {
    /// Of the first request that tells the model of the message.
    pub(super) lines: Vec<String>,
    /// How often each tool began.
    pub(super) looks: usize,
    pub(super) writes: usize,
    /// Every request of the session itself, as one text each.
    pub(super) requests: Vec<String>,
}

async fn until(events: &mut EventStream, wanted: impl Fn(&EventKind) -> bool) {
    let found = async {
        loop {
            match events.next().await.expect("the session lives") {
                Next::Event(event) if wanted(&event.kind) => return,
                _ => {}
            }
        }
    };
    soon("the phase", found).await;
}

/// Waits for the end of a session, and answers what it asks and has asked before.
async fn answer_all(session: &Session, mut events: EventStream) {
    let is_ask = |(ask, open): (&Seq, &Open)| matches!(open, Open::Ask(_)).then_some(*ask);
    for ask in session.state().await.unwrap().open.iter().filter_map(is_ask) {
        session.answer(ask, Grant::Once).await.unwrap();
    }
    let answering = async {
        while let Some(next) = events.next().await {
            if let Next::Event(event) = next
                && let EventKind::Ask { ask, .. } = event.kind
            {
                // Answered already, where it was asked before.
                let _ = session.answer(ask, Grant::Once).await;
            }
        }
    };
    tokio::select! {
        ended = soon("the end", session.wait()) => ended.unwrap(),
        () = answering => panic!("the session is over"),
    }
}

/// What the model says: it knows what was said to it, and nothing else, so a request that is made again is answered as before.
fn reply(phase: Phase, failures: &AtomicUsize, backs_off: bool, request: &Request) -> Reply {
    if transcript(request).contains(SUMMARY) {
        return Reply::text("## Goal\nTalk.").at_barrier("summary");
    }
    let used = |reply: Reply, input, output| reply.with_usage(Usage::new(input, output));
    if failures.load(Ordering::SeqCst) > 0 {
        let left = failures.fetch_sub(1, Ordering::SeqCst) - 1;
        // The first two are tried again at once, so that a wait of our own is a long one.
        let short = Duration::from_millis(if left == 0 { 300 } else { 1 });
        let wait = (left > 0 || !backs_off).then_some(short);
        return Reply::error(ModelError::new(ErrorKind::RateLimited, "429").with_retry_after(wait));
    }
    match (lines(request).last().map_or("", String::as_str), phase) {
        ("user: tell me something long", _) => used(Reply::text("word ".repeat(120)), 20, 75),
        ("user: go", Phase::Stream) => {
            let reply = Reply::empty().with_text("I look").at_barrier("stream");
            reply.with_call("look", json!({})).with_call("write", json!({}))
        }
        ("user: go", Phase::Wait) => Reply::text("done").at_barrier("again"),
        ("user: go", Phase::Summary) => used(Reply::call("look", json!({})), 100, 10),
        ("user: go", _) => Reply::call("look", json!({})).with_call("write", json!({})),
        (last, _) if last == format!("user: {MESSAGE}") => used(Reply::text("so be it").at_barrier(MESSAGE), 90, 5),
        _ => used(Reply::text("done"), 120, 5),
    }
}

/// What a request says, a line each: of results only what became of them, for the words are those of the tool or of the core.
fn lines(request: &Request) -> Vec<String> {
    let mut lines = Vec::new();
    for item in request.history.iter() {
        match item.as_ref() {
            Item::User(user) => {
                let texts = user.parts.iter().map(|part| match part {
                    Part::Text(text) => text.text.as_str(),
                    other => panic!("nobody says such a thing: {other:?}"),
                });
                lines.push(match texts.collect::<String>() {
                    text if text.contains("No summary could be written") => "cut".to_owned(),
                    text if text.contains("## Goal\nTalk.") => "summary".to_owned(),
                    text => format!("user: {text}"),
                });
            }
            Item::Assistant(answer) => lines.extend(answer.parts.iter().map(|part| match part {
                AnswerPart::Text { text, .. } => format!("model: {text}"),
                AnswerPart::Call { name, .. } => format!("calls {name}"),
                other => panic!("the script says no such thing: {other:?}"),
            })),
            Item::Result(result) => {
                let skipped = format!("Skipped due to queued user message: {}", result.name);
                lines.push(match result.content.starts_with(&skipped) {
                    true => format!("{} skipped", result.name),
                    false if result.is_error => format!("{} stopped", result.name),
                    false => format!("{} ran", result.name),
                });
            }
            other => panic!("the script says no such thing: {other:?}"),
        }
    }
    lines
}

/// Looks, and can be held at it. Looking again does no harm.
struct Look {
    long: bool,
    gate: watch::Receiver<bool>,
    began: watch::Sender<usize>,
}

impl Tool for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.began.send_modify(|looks| *looks += 1);
        let mut gate = self.gate.clone();
        Box::pin(async move {
            let mut is_stopped = false;
            tokio::select! {
                biased;
                _ = gate.wait_for(|is_open| *is_open) => {}
                () = context.cancelled() => is_stopped = true,
            }
            if is_stopped {
                // It takes a moment to stop, so that the kill meets it while it does.
                let _ = gate.wait_for(|is_open| *is_open).await;
                return ToolResult::failed(ErrorReason::Aborted, "stopped");
            }
            ToolResult::ok(if self.long { "字".repeat(160) } else { "looked".to_owned() })
        })
    }
}

/// Counts how often it ran.
struct Write(Arc<AtomicUsize>);

impl Tool for Write {
    fn name(&self) -> &str {
        "write"
    }

    fn description(&self) -> &str {
        "Writes."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { ToolResult::ok("wrote") })
    }
}
