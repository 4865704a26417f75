//! A fresh runtime for each cell: a store in a folder, a session with one turn behind it, a scripted model, two tools.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Message, Part, Runtime, SendError, Seq, Session, SessionId, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    runtime::Builder,
    session::{Next, Refusal, State},
    tape::{Store, StoreOptions, TapeAccess, TapeEntry, TapeStoreExt as _},
    tool::{Effect, Tool, ToolContext, ToolResult},
    tools,
};

use super::matrix::After;
use crate::support::taped;

/// Where a request hangs whose newest message is `hold`.
const GATE: &str = "gate";

/// The digest of an open ask.
pub(super) struct Digest(pub(super) String);

pub(super) struct World {
    pub(super) runtime: Runtime,
    pub(super) session: Session,
    pub(super) model: Arc<Scripted>,
    kept: HashMap<TypeId, Box<dyn Any>>,
    real_time: bool,
    // Last: its tapes are replayed when all else is gone.
    pub(super) folder: taped::Folder,
}

/// The id of the world's session.
pub(super) fn id() -> SessionId {
    "main".parse().unwrap()
}

/// A message of the host under the id that effects are counted by.
pub(super) fn mine(text: &str) -> Message {
    Message::user(text).with_id("mine".into())
}

/// Answers `fine`. A newest message `hold` is answered once the gate is open, `call` and `write` by a call.
fn reply(request: &Request) -> Reply {
    let said = match request.history.last().map(AsRef::as_ref) {
        Some(Item::User(user)) => user.parts.iter().rev().find_map(|part| match part {
            Part::Text(text) => Some(text.text.to_string()),
            _ => None,
        }),
        _ => None,
    };
    match said.as_deref() {
        Some("hold") => Reply::text("held").at_barrier(GATE),
        Some("call") => Reply::call("quick", json!({})),
        Some("stay") => Reply::call("stay", json!({})),
        Some("write") => Reply::call("write", json!({ "path": "file", "content": "new\n" })),
        _ => Reply::text("fine"),
    }
}

/// Everything at rest that moves by itself.
pub(super) async fn rest(real_time: bool) {
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(if real_time { 40 } else { 300 })).await;
        threads().await;
    }
}

/// A virtual clock passes over what a thread does.
pub(super) async fn threads() {
    tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1))).await.unwrap();
}

impl World {
    pub(super) async fn new(real_time: bool) -> World {
        let folder = taped::folder();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let model = Arc::new(Scripted::from_fn(reply));
        let runtime = builder(&folder, &model).start().await.unwrap();
        let session = runtime.create(options(&folder).id(id())).await.unwrap();
        let mut world = World { runtime, session, model, kept: HashMap::new(), real_time, folder };
        world.say("first").await;
        world
    }

    pub(super) fn builder(&self) -> Builder {
        builder(&self.folder, &self.model)
    }

    pub(super) fn options(&self) -> SessionOptions {
        options(&self.folder)
    }

    /// Starts the runtime anew, with something more.
    pub(super) async fn restart(&mut self, with: fn(Builder) -> Builder) {
        assert!(self.runtime.shutdown().await.is_empty());
        self.runtime = with(self.builder()).start().await.unwrap();
        self.session = self.runtime.open(&id()).await.unwrap();
    }

    /// One more session.
    pub(super) async fn another(&self, id: &str) -> Session {
        self.runtime.create(self.options().id(id.parse().unwrap())).await.unwrap()
    }

    /// Keeps a value for the call: one of each type.
    pub(super) fn keep<T: Any>(&mut self, value: T) {
        self.kept.insert(TypeId::of::<T>(), Box::new(value));
    }

    pub(super) fn kept<T: Any>(&mut self) -> &mut T {
        self.kept.get_mut(&TypeId::of::<T>()).unwrap().downcast_mut().unwrap()
    }

    pub(super) fn take<T: Any>(&mut self) -> Option<T> {
        self.kept.remove(&TypeId::of::<T>()).map(|kept| *kept.downcast().unwrap())
    }

    /// One whole turn.
    pub(super) async fn say(&mut self, text: &str) {
        self.session.prompt(text).await.unwrap().wait().await.unwrap();
        self.session.wait().await.unwrap();
    }

    /// A turn whose model request hangs until the session is closed, or the gate is opened.
    pub(super) async fn hold(&mut self) {
        let receipt = self.session.prompt("hold").await.unwrap();
        self.model.barrier(GATE).reached().await;
        self.keep(receipt);
    }

    pub(super) fn let_go(&self) {
        self.model.barrier(GATE).release();
    }

    /// A turn whose call is asked about: keeps the events, and the ask.
    pub(super) async fn ask(&mut self) {
        self.session.configure(|settings| settings.rules = vec![Profile::Strict.ruleset()]).await.unwrap();
        let mut events = self.session.events();
        self.session.prompt("call").await.unwrap();
        while let Some(next) = events.next().await {
            if let Next::Event(event) = next
                && let EventKind::Ask { ask, digest, .. } = &event.kind
            {
                let (ask, digest) = (*ask, Digest(digest.clone()));
                self.keep(ask);
                self.keep(digest);
                break;
            }
        }
        self.keep(events);
    }

    pub(super) async fn rest(&self) {
        loop {
            rest(self.real_time).await;
            // What was decided may still be on its way to the disk.
            let decided = self.state().await.map_or(Seq::ZERO, |state| state.seq);
            if self.tape(&id()).last().is_some_and(|entry| entry.seq >= decided) {
                return;
            }
        }
    }

    /// The state of the session, if it has one; not of one that sleeps.
    pub(super) async fn state(&self) -> Option<State> {
        match self.runtime.awake().contains(&id()) {
            true => self.session.state().await.ok(),
            false => None,
        }
    }

    pub(super) fn store(&self) -> Store {
        let options = StoreOptions::default().access(TapeAccess::Read);
        Store::open(self.folder.path().join("store"), options).unwrap()
    }

    pub(super) fn tape(&self, id: &SessionId) -> Vec<TapeEntry> {
        self.store().read(id, Seq::ZERO).unwrap_or_default()
    }

    /// How many entries of a kind the session's tape has.
    pub(super) fn count(&self, kind: &str) -> usize {
        self.tape(&id()).iter().filter(|entry| entry.kind == kind).count()
    }

    /// How many entries of a kind name the message of [`mine`].
    pub(super) fn count_mine(&self, kind: &str) -> usize {
        self.count_with(kind, "\"mine\"")
    }

    /// How many entries of a kind say this.
    pub(super) fn count_with(&self, kind: &str, what: &str) -> usize {
        let tape = self.tape(&id());
        tape.iter().filter(|entry| entry.kind == kind && entry.data.get().contains(what)).count()
    }

    /// Whether a session of that name is in the store.
    pub(super) fn has(&self, id: &str) -> usize {
        usize::from(self.store().exists(&id.parse().unwrap()))
    }

    /// The session answers, nothing of it is open, the runtime ends with nothing left, and the next one finds all as it was.
    pub(super) async fn close(self, after: After) {
        self.let_go();
        if after == After::Answers {
            self.answers().await;
        }
        let World { runtime, session, model, kept, real_time, folder } = self;
        drop(kept);
        let leftover = within(runtime.shutdown()).await;
        assert!(leftover.is_empty(), "{leftover:?}");
        drop((session, runtime));
        no_tasks().await;

        let runtime = within(builder(&folder, &model).start()).await.unwrap();
        let session = within(runtime.open(&id())).await.unwrap();
        let world = World { runtime, session, model, kept: HashMap::new(), real_time, folder };
        match after {
            After::Answers | After::AnswersTheNextRuntime => world.answers().await,
            After::HasEnded => {
                let refused = within(world.session.prompt("after")).await.unwrap_err();
                assert!(matches!(refused, SendError::Refused(Refusal::Ended)), "{refused}");
            }
        }
        assert!(within(world.runtime.shutdown()).await.is_empty());
        drop((world.session, world.runtime));
        no_tasks().await;
    }

    async fn answers(&self) {
        let answer = within(async { self.session.prompt("after").await.unwrap().wait().await.unwrap() }).await;
        assert_eq!(answer.text, "fine", "{answer:?}");
        within(self.session.wait()).await.unwrap();
        self.rest().await;
        let state = within(self.session.state()).await.unwrap();
        assert!(state.turn.is_none() && state.open.is_empty(), "nothing is open: {:?}", state.open);
        assert!(state.queue.is_empty() && state.steering.is_empty(), "nothing waits");
        let folded = State::fold(self.session.entries().await.unwrap()).unwrap();
        assert_eq!(folded, state, "the tape folds to the state");
        assert!(self.store().verify_all().unwrap().is_empty(), "the store is whole");
    }
}

/// No task of a runtime that has ended is left.
async fn no_tasks() {
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..1_000 {
        if metrics.num_alive_tasks() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{} tasks are left", metrics.num_alive_tasks());
}

/// Something that must not hang.
pub(super) async fn within<T>(work: impl Future<Output = T>) -> T {
    let (mut work, until) = (std::pin::pin!(work), std::time::Instant::now() + Duration::from_secs(20));
    loop {
        match tokio::time::timeout(Duration::from_secs(60), &mut work).await {
            Ok(done) => return done,
            Err(_) if std::time::Instant::now() < until => threads().await,
            Err(_) => panic!("it hangs"),
        }
    }
}

fn builder(folder: &taped::Folder, model: &Arc<Scripted>) -> Builder {
    let builder = Runtime::builder().store(folder.path().join("store")).model(model.clone());
    builder.tools(tools::minimal().with(Quick)).task_limits(2, 4)
}

fn options(folder: &taped::Folder) -> SessionOptions {
    SessionOptions::new(folder.path().join("work")).profile(Profile::Auto)
}

/// A tool that does nothing.
struct Quick;

impl Tool for Quick {
    fn name(&self) -> &str {
        "quick"
    }

    fn description(&self) -> &str {
        "Does nothing."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("done") })
    }
}
