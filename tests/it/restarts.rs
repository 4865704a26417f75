//! The restart matrix: the fate of a message that was acknowledged before a death, by the phase in which it met the
//! session and by the kind of death. Each cell is played with a real runtime over real files.
//!
//! `docs/RESTARTS.md` is the table that this test makes. It fails if the page differs from the run; `TAMTAM_ACCEPT=1
//! cargo test --test it restarts` writes the page again.
//!
//! A first life comes to the phase, takes the message and rests; its model and its tools hang from there on. The death follows.
//! In the second life the model answers and the tools return, so what the second life does is what recovery does. A
//! repeated request gets the answer that it would have had.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, EventStream, Message, Part, Runtime, Session, SessionOptions, Steering,
    model::{BoxFuture, Item, Reply, Scripted, transcript},
    permission::{Action, Rule, Ruleset},
    session::{ErrorReason, Grant, Open, Record, State},
    tape::{Store, StoreOptions, TapeAccess, TapeStoreExt as _},
    tool::{Effect, Tool, ToolContext, ToolResult, Toolbox},
};

use crate::support::{copied, taped};

/// The longest that one step of a cell may take. Nothing takes so long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(30);

const PAGE: &str = "docs/RESTARTS.md";

/// Where the message meets the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Streaming,
    RunningRead,
    RunningOnce,
    Asking,
}

const PHASES: [(Phase, &str); 4] = [
    (Phase::Streaming, "the model is streaming"),
    (Phase::RunningRead, "a `Read` call runs, another is pending"),
    (Phase::RunningOnce, "a `Once` call runs, another is pending"),
    (Phase::Asking, "a call asks, another is pending"),
];

/// What is acknowledged in that phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Nothing,
    Sent(Delivery),
    Abort,
}

const WORDS: [(Word, &str); 6] = [
    (Word::Nothing, "nothing"),
    (Word::Sent(Delivery::Queue), "`Queue`"),
    (Word::Sent(Delivery::Steer(Steering::SkipRemaining)), "`SkipRemaining`"),
    (Word::Sent(Delivery::Steer(Steering::FinishBatch)), "`FinishBatch`"),
    (Word::Sent(Delivery::Steer(Steering::AbortRunning)), "`AbortRunning`"),
    (Word::Abort, "abort"),
];

/// How the first life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    Actor,
    Process,
    Stop,
}

const DEATHS: [(Death, &str); 3] = [
    (Death::Actor, "crash of the actor"),
    (Death::Process, "`kill -9` of the process"),
    (Death::Stop, "stop in order"),
];

/// What is outside of the runtime: whether model and tools hang, and how often each tool ran.
#[derive(Clone, Default)]
struct World {
    answers: Arc<AtomicBool>,
    ran: Arc<Mutex<BTreeMap<&'static str, u32>>>,
}

impl World {
    fn ran(&self, tool: &str) -> u32 {
        self.ran.lock().unwrap().get(tool).copied().unwrap_or_default()
    }

    fn model(&self, phase: Phase) -> Scripted {
        let world = self.clone();
        Scripted::from_fn(move |request| {
            if world.answers.load(Ordering::SeqCst) {
                return Reply::text("done");
            }
            let first = !transcript(request).contains("call ");
            match phase {
                Phase::RunningRead if first => Reply::call("look", json!({})).with_call("note", json!({})),
                Phase::RunningOnce if first => Reply::call("token", json!({})).with_call("note", json!({})),
                Phase::Asking if first => Reply::call("careful", json!({})).with_call("note", json!({})),
                _ => Reply::text("Let me see").at_barrier("second life"),
            }
        })
    }

    fn tools(&self) -> Toolbox {
        let stub = |name, effect| Stub { name, effect, world: self.clone() };
        let once = ["token", "careful", "note"].map(|name| stub(name, Effect::Once));
        once.into_iter().fold(Toolbox::default().with(stub("look", Effect::Read)), |tools, tool| tools.with(tool))
    }

    fn runtime(&self, store: &Path, model: &Scripted) -> tamtam::runtime::Builder {
        Runtime::builder().store(store).model(Arc::new(model.clone())).tools(self.tools())
    }
}

/// A tool that hangs in the first life and returns in the second.
struct Stub {
    name: &'static str,
    effect: Effect,
    world: World,
}

impl Tool for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "A tool of the matrix."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            *self.world.ran.lock().unwrap().entry(self.name).or_default() += 1;
            if !self.world.answers.load(Ordering::SeqCst) {
                context.cancelled().await;
                return ToolResult::failed(ErrorReason::Aborted, "stopped");
            }
            ToolResult::ok("did it")
        })
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

/// Waits until the session and what is outside of it are so.
async fn rests(what: &str, session: &Session, is_so: impl Fn(&State) -> bool) {
    let waited = async {
        while !is_so(&session.state().await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, waited).await.is_err() {
        panic!("{what}: waited in vain; the session is {:#?}", session.state().await);
    }
}

/// One cell: what the person, the model and the tape saw.
#[derive(Clone, PartialEq, Eq)]
struct Cell {
    user: String,
    model: String,
    tape: String,
}

async fn play(phase: Phase, word: Word, death: Death) -> Cell {
    let place = format!("{phase:?}, {word:?}, {death:?}");
    let folder = taped::folder();
    let (store, second_store) = (folder.path().join("store"), folder.path().join("after"));
    let world = World::default();
    let model = world.model(phase);
    let runtime = world.runtime(&store, &model).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path()).id("s".parse().unwrap()).system("Work.");
    let rules = [("*", Action::Allow), ("careful", Action::Ask)];
    let rules = rules.map(|(permission, action)| Rule::new(permission, "*", action));
    (options.rules, options.asks_wait) = (Some(Ruleset::new("matrix", rules)), true);
    let session = runtime.create(options).await.unwrap();
    let go = Message::user("go");
    soon("the receipt", session.prompt(go.clone())).await.unwrap();
    let asks = |state: &State| state.open.values().any(|open| matches!(open, Open::Ask(_)));
    rests(&place, &session, |state| match phase {
        Phase::Streaming => model.streaming() == 1,
        Phase::RunningRead => world.ran("look") == 1,
        Phase::RunningOnce => world.ran("token") == 1,
        Phase::Asking => asks(state),
    })
    .await;
    let message = Message::user("and this");
    match word {
        Word::Nothing => {}
        Word::Sent(delivery) => drop(soon(&place, session.send(message.clone(), delivery)).await.unwrap()),
        Word::Abort => drop(soon(&place, session.abort("enough")).await.unwrap()),
    }
    // What acts at once has acted before the death.
    let acts = match word {
        Word::Sent(Delivery::Steer(Steering::AbortRunning)) => true,
        Word::Sent(Delivery::Steer(Steering::SkipRemaining)) => phase == Phase::Asking,
        _ => false,
    };
    let reads = || model.requests().last().is_some_and(|request| transcript(request).contains("and this"));
    rests(&place, &session, |_| !acts || (reads() && model.streaming() == 1)).await;
    if word == Word::Abort {
        soon(&place, session.wait()).await.unwrap();
    }
    let died_at = session.state().await.unwrap().seq;

    // The death, and the second life.
    let second = match death {
        Death::Actor => {
            world.answers.store(true, Ordering::SeqCst);
            runtime.operate().crash("s", "drill").unwrap();
            soon(&place, async {
                while runtime.crashes().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            (runtime.clone(), session.clone(), session.events(), store)
        }
        Death::Process => {
            copied::copy(&store, &second_store);
            assert!(runtime.shutdown().await.is_empty(), "{place}");
            start(&world, &model, second_store).await
        }
        Death::Stop => {
            assert!(runtime.shutdown().await.is_empty(), "{place}");
            start(&world, &model, store).await
        }
    };
    let (runtime, session, events, store) = second;
    model.barrier("second life").release();
    let cell = look(&place, phase, word, &session, &message, &go).await;
    drop(events);
    assert!(runtime.shutdown().await.is_empty(), "{place}");
    assert!(
        ["token", "careful", "note"].iter().all(|tool| world.ran(tool) <= 1),
        "{place}: a call of `Once` ran twice"
    );
    Cell { tape: tape(&store, died_at), ..cell }
}

async fn start(world: &World, model: &Scripted, store: PathBuf) -> (Runtime, Session, EventStream, PathBuf) {
    world.answers.store(true, Ordering::SeqCst);
    let runtime = world.runtime(&store, model).start().await.unwrap();
    let (session, events) = soon("the session", runtime.open_heard(&"s".parse().unwrap())).await.unwrap();
    (runtime, session, events, store)
}

/// The second life, to its end.
async fn look(place: &str, phase: Phase, word: Word, session: &Session, message: &Message, go: &Message) -> Cell {
    if phase == Phase::Asking {
        let ask = |state: &State| state.open.iter().find(|(_, open)| matches!(open, Open::Ask(_))).map(|(ask, _)| *ask);
        rests(place, session, |state| state.recoveries > 0 || state.turn.is_none() || ask(state).is_some()).await;
        if let Some(ask) = ask(&session.state().await.unwrap()) {
            soon(place, session.answer(ask, Grant::Once)).await.unwrap();
        }
    }
    rests(place, session, |state| state.is_idle() && state.turn.is_none() && state.turns > 0).await;
    let state = session.state().await.unwrap();
    assert!(!state.waits && state.open.is_empty(), "{place}: something is open");
    // The same message again is the same receipt, and waits for the same turn: so a host learns what became of it.
    let mut user = String::new();
    let words = [Some(("go", go)), matches!(word, Word::Sent(_)).then_some(("and this", message))];
    for (name, sent) in words.into_iter().flatten() {
        let receipt = soon("the receipt again", session.send(sent.clone(), Delivery::Queue)).await.unwrap();
        let answer = soon("the answer", receipt.wait()).await.unwrap();
        let outcome = serde_json::to_value(&answer.outcome).unwrap()["outcome"].as_str().unwrap().to_owned();
        let text = if answer.text.is_empty() { String::new() } else { format!(", \"{}\"", answer.text) };
        write!(user, "{}{name}: {outcome}{text}", if user.is_empty() { "" } else { "; " }).unwrap();
    }
    let read: Vec<_> = state.history.iter().flat_map(|item| items(item)).collect();
    let times = |said: &str| read.iter().filter(|line| line.as_str() == said).count();
    assert_eq!(times("user: go"), 1, "{place}");
    assert_eq!(times("user: and this"), usize::from(matches!(word, Word::Sent(_))), "{place}");
    Cell { user, model: read.join(" · "), tape: String::new() }
}

/// What an item of the conversation says, short.
fn items(item: &Item) -> Vec<String> {
    match item {
        Item::User(user) => user
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(format!("user: {}", text.text)),
                _ => None,
            })
            .collect(),
        Item::Assistant(answer) => {
            let text = answer.text();
            let calls = answer.calls().map(|(name, _)| format!("call {name}"));
            (!text.is_empty()).then(|| format!("\"{text}\"")).into_iter().chain(calls).collect()
        }
        Item::Result(result) => {
            let content: String = result.content.chars().take(44).collect();
            let dots = if content.len() < result.content.len() { "…" } else { "" };
            vec![format!("{}: {content}{dots}", result.name)]
        }
        _ => Vec::new(),
    }
}

/// The kinds of the entries behind this one.
fn tape(store: &Path, died_at: tamtam::Seq) -> String {
    let store = Store::open(store, StoreOptions::default().access(TapeAccess::Read)).unwrap();
    let entries = store.read(&"s".parse().unwrap(), died_at).unwrap();
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for line in entries {
        let kind = match tamtam::session::Entry::from_tape(&line).unwrap().record {
            Record::Recovered { n, resumed } => format!("recovered {n}{}", if resumed { "" } else { ", waits" }),
            _ => line.kind.clone(),
        };
        match kinds.last_mut() {
            Some((last, times)) if *last == kind => *times += 1,
            _ => kinds.push((kind, 1)),
        }
    }
    let kinds = kinds.into_iter().map(|(kind, times)| if times > 1 { format!("{kind} ×{times}") } else { kind });
    kinds.collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_in_each_phase_survives_each_kind_of_death_as_the_page_says() {
    let mut page = String::from(HEAD);
    for (phase, phase_name) in PHASES {
        write!(page, "\n## While {phase_name}\n\n{COLUMNS}").unwrap();
        for (word, word_name) in WORDS {
            let mut rows: Vec<(Vec<&str>, Cell)> = Vec::new();
            for (death, death_name) in DEATHS {
                let cell = play(phase, word, death).await;
                match rows.iter_mut().find(|(_, known)| *known == cell) {
                    Some((deaths, _)) => deaths.push(death_name),
                    None => rows.push((vec![death_name], cell)),
                }
            }
            for (deaths, Cell { user, model, tape }) in rows {
                writeln!(page, "| {word_name} | {} | {user} | {model} | {tape} |", deaths.join(", ")).unwrap();
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("TAMTAM_ACCEPT").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), page, "{PAGE} differs from the run");
}

const COLUMNS: &str = "| acknowledged | then | what its sender learns | what the model has read at the end | what the tape has from the death on |\n|---|---|---|---|---|\n";

const HEAD: &str = "# Restarts

What becomes of a message that was acknowledged before a death.
`tests/it/restarts.rs` plays each row with a real runtime and makes this page; the test fails where the page differs.

In each row a first message, `go`, brings the session into the phase.
There the second message, `and this`, is acknowledged in the way that the first column names; then the session dies.
In the second life the model answers `done`, the tools return, and a person allows what is asked.
A sender who asks again with the same message id gets the same receipt, and from it the outcome of the turn that read the message.

What holds in every row, and is asserted:

- The model reads each acknowledged message exactly once.
- Every call has exactly one result, and nothing stays open.
- A call of a tool with the effect `Once` never runs twice.
- A stop in order (a shutdown, a drain, an operator's restart) writes `stopped`; the recovery behind it is none from a crash.

`recovered N`: the turn was recovered from N crashes in a row without progress.
After the second it waits for a message or a go-on; after ten crashes in one turn, with whatever progress in between, the turn ends as `recovery_limit`.
";
