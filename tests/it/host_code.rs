//! What a host hands in (code that hangs or panics, durations without an end, ids of its own making) affects no one
//! else.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam::{
    Delivery, Event, EventKind, Message, ModelRef, Outcome, Runtime, SendError, Session, SessionOptions,
    hook::Hook,
    model::{BoxFuture, Deltas, Model, ModelAnswer, ModelError, ModelLimits, Models, Price, Reply, Request, Scripted},
    permission::Profile,
    runtime::{Passivation, Pressure},
    session::{Link, Refusal, SpawnError},
    tape::MemoryStore,
};

use crate::support::taped;

/// For what must not take for ever; far more than it takes.
const SOON: Duration = Duration::from_secs(60);

/// A door that those who come to it wait at.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    moved: Condvar,
    held_up: AtomicUsize,
}

impl Gate {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.moved.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap();
        self.held_up.fetch_add(usize::from(*closed), Ordering::SeqCst);
        drop(self.moved.wait_while(closed, |closed| *closed).unwrap());
    }
}

/// Opens a door at the end of a test, also of one that fails: what it holds up must not hold up that.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Models whose host has bugs.
struct Host {
    model: Arc<Scripted>,
    /// Where the limits of a model called "slow" are waited for.
    gate: Arc<Gate>,
    panics: bool,
}

impl Models for Host {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.model.clone())
    }

    fn limits_of(&self, model: &ModelRef) -> ModelLimits {
        if model.to_string().ends_with("slow") {
            self.gate.pass();
        }
        ModelLimits::default()
    }

    fn price_of(&self, _: &ModelRef) -> Option<Price> {
        assert!(!self.panics, "the table of prices is broken");
        None
    }
}

fn says_fine() -> Arc<Scripted> {
    Arc::new(Scripted::from_fn(|_| Reply::text("fine")))
}

async fn start(folder: &taped::Folder, gate: &Arc<Gate>, panics: bool) -> Runtime {
    let models = Host { model: says_fine(), gate: gate.clone(), panics };
    let builder = Runtime::builder().store(folder.path().join("store"));
    builder.models(Arc::new(models), "host/quick".parse().unwrap()).start().await.unwrap()
}

async fn create(runtime: &Runtime, folder: &taped::Folder) -> Session {
    runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap()
}

async fn ask(session: &Session, text: &str) -> Outcome {
    session.prompt(text).await.unwrap().wait().await.unwrap().outcome
}

/// Promise 3: a table of prices that panics is a price that nobody knows, and no crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_price_that_panics_is_unknown() {
    let folder = taped::folder();
    let runtime = start(&folder, &Arc::default(), true).await;
    let session = create(&runtime, &folder).await;
    assert_eq!(ask(&session, "hello").await, Outcome::Done);
    assert_eq!(runtime.crashes().len(), 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session whose actor the host's code holds up keeps a drain no longer than its deadline, and is named; the others, and those
/// that were looked at after it, are found at rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_drain_keeps_its_deadline_beside_an_actor_that_is_stuck() {
    let (folder, gate) = (taped::folder(), Arc::<Gate>::default());
    let runtime = start(&folder, &gate, false).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(create(&runtime, &folder).await);
    }
    let stuck = others.remove(1);
    stuck.configure(|settings| settings.model = "host/slow".parse().unwrap()).await.unwrap();
    for other in &others {
        assert_eq!(ask(other, "hello").await, Outcome::Done);
    }
    let _opens = Opens(gate.clone());
    gate.set(true);
    let sender = stuck.clone();
    let sends = tokio::spawn(async move { sender.prompt("hello").await });
    while gate.held_up.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let shown = tokio::time::timeout(SOON, stuck.state()).await;
    let drained = tokio::time::timeout(SOON, runtime.drain(Duration::from_millis(100))).await;
    gate.set(false);
    assert!(shown.expect("a read asks nobody").unwrap().turn.is_none());
    assert_eq!(drained.expect("it returns"), [stuck.id().clone()]);
    assert!(sends.await.unwrap().is_ok());
    assert!(tokio::time::timeout(SOON, runtime.drain(Duration::MAX)).await.expect("all is at rest").is_empty());
    assert!(runtime.shutdown().await.is_empty());
}

/// What an actor has that the host's code holds up is given back at the runtime's end: another one over the same tapes has it at
/// once, and what comes of the stuck one is not written any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_session_of_an_actor_that_is_stuck_is_given_back_at_the_end() {
    let (folder, gate, tapes) = (taped::folder(), Arc::<Gate>::default(), MemoryStore::new());
    let start = async |gate: &Arc<Gate>| {
        let models = Host { model: says_fine(), gate: gate.clone(), panics: false };
        let builder = Runtime::builder().tapes(Arc::new(tapes.clone()));
        builder.models(Arc::new(models), "host/quick".parse().unwrap()).start().await.unwrap()
    };
    let first = start(&gate).await;
    let stuck = create(&first, &folder).await;
    stuck.configure(|settings| settings.model = "host/slow".parse().unwrap()).await.unwrap();
    let _opens = Opens(gate.clone());
    gate.set(true);
    let sends = tokio::spawn({
        let stuck = stuck.clone();
        async move { stuck.prompt("lost").await }
    });
    while gate.held_up.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let left = tokio::time::timeout(SOON, first.shutdown()).await.expect("it ends");
    assert!(!left.is_empty(), "who is stuck is named");
    let second = start(&Arc::default()).await;
    let session = second.open(stuck.id()).await.unwrap();
    gate.set(false);
    assert!(sends.await.unwrap().is_err(), "it is not on the tape");
    assert_eq!(ask(&session, "hello").await, Outcome::Done);
    assert_eq!(session.messages().await.unwrap().iter().map(Message::text).collect::<Vec<_>>(), ["hello", "fine"]);
    assert!(second.shutdown().await.is_empty());
}

/// A hook that watches, and waits at the gate at each event.
struct Watches {
    name: &'static str,
    gate: Arc<Gate>,
    turns: Arc<AtomicUsize>,
}

impl Hook for Watches {
    fn name(&self) -> &str {
        self.name
    }

    fn on_event(&self, event: &Event) {
        self.gate.pass();
        self.turns.fetch_add(usize::from(matches!(event.kind, EventKind::TurnFinished { .. })), Ordering::SeqCst);
    }
}

/// Promise 3: an observer that hangs holds up no session, no worker and no other observer: messages are answered, a turn is
/// aborted, and the hook beside it sees all of it. When it goes on it sees it too, and the end waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_hangs_holds_up_nobody() {
    let (folder, gate) = (taped::folder(), Arc::<Gate>::default());
    let (late, seen) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let model = Scripted::new([Reply::text("fine"), Reply::text("fine"), Reply::hang().at_barrier("begun")]);
    let begun = model.barrier("begun");
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let hangs = Watches { name: "hangs", gate: gate.clone(), turns: late.clone() };
    let watches = Watches { name: "watches", gate: Arc::default(), turns: seen.clone() };
    let runtime = builder.hook(hangs).hook(watches).start().await.unwrap();
    let _opens = Opens(gate.clone());
    gate.set(true);
    let made = tokio::time::timeout(SOON, create(&runtime, &folder)).await;
    let session = made.expect("nobody waits for an observer");
    for text in ["one", "two"] {
        let said = tokio::time::timeout(SOON, ask(&session, text)).await;
        assert_eq!(said.expect("nobody waits for an observer"), Outcome::Done);
    }
    let third = session.prompt("three").await.unwrap();
    begun.reached().await;
    session.abort("enough").await.unwrap();
    assert!(matches!(third.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
    let sees = async {
        while seen.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, sees).await.expect("the one beside it sees all");
    assert_eq!(late.load(Ordering::SeqCst), 0);
    gate.set(false);
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(late.load(Ordering::SeqCst), 3);
}

/// Limits that no clock reaches are no limits, and no panic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_without_an_end_never_come() {
    let folder = taped::folder();
    let mut passivation = Passivation::default();
    (passivation.idle_after, passivation.age_max) = (Some(Duration::MAX), Some(Duration::MAX));
    passivation.pressure = Some(Pressure::new(Duration::MAX, || 1.0));
    let builder = Runtime::builder().store(folder.path().join("store")).model(says_fine());
    let runtime = builder.passivation(passivation).start().await.unwrap();
    let session = create(&runtime, &folder).await;
    assert_eq!(ask(&session, "hello").await, Outcome::Done);
    assert_eq!(tokio::time::timeout(SOON, runtime.drain(Duration::MAX)).await.expect("it is at rest"), []);
    assert_eq!((runtime.crashes().len(), runtime.awake()), (0, vec![session.id().clone()]));
    assert!(runtime.shutdown().await.is_empty());
}

/// The ids that the runtime gives to what it says itself are refused at the door, so that no word of a host's is taken for its
/// own; ids that only look like them are a host's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_cannot_speak_under_the_ids_of_the_runtime() {
    let folder = taped::folder();
    let runtime = start(&folder, &Arc::default(), false).await;
    let session = create(&runtime, &folder).await;
    let before = session.entries().await.unwrap().len();
    for id in ["task-7", "branch-3", "task-99999999999999999999999"] {
        let message = Message::user("hello").with_id(id.into());
        let refused = SendError::from(Refusal::ReservedId { id: id.into() }).to_string();
        assert!(refused.contains(id) && refused.contains("another id"), "{refused}");
        let sent = session.send(message.clone(), Delivery::Queue).await.unwrap_err();
        assert_eq!(sent.to_string(), refused);
        let child = session.spawn_child(SessionOptions::new(folder.path()), message, Link::default()).await;
        let Err(SpawnError::Parent(spawned)) = child else { panic!("a child was made for {id}") };
        assert_eq!(spawned.to_string(), refused);
    }
    assert_eq!(session.entries().await.unwrap().len(), before);
    for id in ["task-", "task-7a", "task-+7", "my-task-7", "branch", "branch--1"] {
        let receipt = session.prompt(Message::user("hello").with_id(id.into())).await.unwrap();
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done, "{id}");
    }
    let undone = session.undo().await.unwrap();
    assert_eq!(undone.gone, ["branch--1".into()]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A client whose request panics when it is dropped.
struct PanicsWhenDropped(ModelRef, Arc<Gate>);

/// Panics when it is dropped.
struct Trapped;

impl Drop for Trapped {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

impl Model for PanicsWhenDropped {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async {
            let _trapped = Trapped;
            self.1.held_up.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        })
    }
}

/// A request that is cut, and panics when it is dropped, is reported all the same: its turn ends, and the session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_panics_when_it_is_dropped_does_not_hold_its_turn_open() {
    let (folder, gate) = (taped::folder(), Arc::<Gate>::default());
    let model = Arc::new(PanicsWhenDropped("host/trapped".parse().unwrap(), gate.clone()));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).start().await.unwrap();
    let session = create(&runtime, &folder).await;
    let turn = session.prompt("go").await.unwrap();
    while gate.held_up.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    session.abort("enough").await.unwrap();
    let ended = tokio::time::timeout(SOON, turn.wait()).await.expect("the turn ends");
    assert!(matches!(ended.unwrap().outcome, Outcome::Aborted { .. }));
    assert!(runtime.shutdown().await.is_empty());
}
