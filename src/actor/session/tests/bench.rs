//! One incarnation of a session, over a disk that a test breaks, and what is said to it.

use std::time::Duration;

use tokio::sync::oneshot;

use super::super::*;
use crate::{
    actor::{session::live::Worker, tapes::Tapes, toolset::HostTools},
    error::SendError,
    hook::Hooks,
    kernel::{Abort, CarriedOut, Command, Configure, Delivery, Entry, Record, Report, SendMessage, Settings, State},
    model::{AnswerPart, BoxFuture, ErrorKind, ModelAnswer, ModelError, Models, Scripted},
    permission::Profile,
    supervisor::{Registry, node_state::Shown},
    tape::{
        Appended, Store, TapeStore as _,
        tests::support::{FakeDisk, own_folder, small, store_on},
    },
    tool::{Tool, ToolContext, ToolResult, Toolbox},
    words::{
        ids::{Seq, SessionId},
        message::{Finish, Message, ModelRef},
    },
};

/// Far more operations than a test makes.
pub(super) const ALL: usize = 10_000;

struct Script(Arc<Scripted>);

impl Models for Script {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn crate::model::Model>, ModelError> {
        Ok(self.0.clone())
    }
}

/// Waits until it is told to stop.
struct Waits;

impl Tool for Waits {
    fn name(&self) -> &str {
        "waits"
    }

    fn description(&self) -> &str {
        "Waits."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({"type": "object"})
    }

    fn parallel(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, _: serde_json::Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            context.cancel.cancelled().await;
            ToolResult::error("stopped")
        })
    }
}

/// One incarnation of a session on a disk that a test breaks.
pub(super) struct Bench {
    pub(super) live: Live,
    pub(super) disk: Arc<FakeDisk>,
    pub(super) store: Store,
    pub(super) _card: Shown,
    pub(super) _folder: tempfile::TempDir,
}

pub(super) fn bench() -> Bench {
    bench_ahead(std::time::Duration::ZERO)
}

/// One whose tape was written by a clock that was so far ahead.
pub(super) fn bench_ahead(ahead: std::time::Duration) -> Bench {
    bench_of(ahead, Hooks::default())
}

pub(super) fn bench_of(ahead: std::time::Duration, hooks: Hooks) -> Bench {
    let (folder, disk, registry) = (own_folder(), FakeDisk::new(), Registry::new());
    let store = store_on(folder.path(), small(), &disk);
    let models = Arc::new(Script(Arc::new(Scripted::new([]))));
    let passivation = crate::actor::timekeeper::Passivation::default();
    let (tapes, tools) =
        (Tapes::of_files(store.clone()), HostTools::new(Toolbox::default().with(Waits), Vec::new()).unwrap());
    let shared = Shared::new(tapes, tools, models, hooks, registry.clone(), passivation);
    let shared = Arc::new(shared);
    let id: SessionId = "s".parse().unwrap();
    let slot = shared.slot(&id);
    // As if it were awake.
    slot.begin_activation().unwrap().finish(Ok(()));
    let mut tape = shared.store.create(&id, slot.notify()).unwrap();
    let now = shared.clock.now().plus(ahead);
    let mut settings = Settings::new("/w", "fake/model".parse().unwrap());
    settings.rules = vec![Profile::Auto.ruleset()];
    let mut state = State::new(id, settings, now);
    let record = Record::State(Arc::new(state.clone()));
    let first =
        Entry { seq: Seq(1), time: now, cause: None, turn: None, step: None, ticket: None, input: None, record };
    assert!(matches!(tape.append(&[first.to_tape().unwrap()]), Appended::Now(Ok(_))));
    state.apply(&first);
    #[cfg(feature = "fault-injection")]
    let tape = Tape::new(tape, None);
    let node = registry.show(None, "s", "session");
    let live = Live::new(shared, slot, node.0.clone(), 0, tape, Arc::new(state));
    Bench { live, disk, store, _card: node, _folder: folder }
}

/// What somebody waits for.
pub(super) type Answered = oneshot::Receiver<Result<CarriedOut, SendError>>;

impl Bench {
    /// Hands in a command, and lets the actor work.
    pub(super) fn ask(&mut self, command: impl Into<Command>) -> Answered {
        let (_, answer) = self.live.slot.command(command).unwrap();
        self.work();
        answer
    }

    pub(super) fn work(&mut self) {
        self.live.work().unwrap();
    }

    pub(super) fn send(&mut self, id: &str) -> Answered {
        self.ask(message(id, Delivery::Queue))
    }

    /// A worker reports, and the actor works.
    pub(super) fn report(&mut self, ticket: Seq, report: Report) {
        self.live.slot.report(self.live.incarnation, ticket, report);
        self.work();
    }

    pub(super) fn returned(&mut self, ticket: Seq, content: &str) {
        self.report(ticket, Report::Returned { result: ToolResult::ok(content) });
    }

    pub(super) fn answered(&mut self, ticket: Seq, answer: ModelAnswer) {
        let tools = &self.live.shared.tools.now().toolbox;
        let calls = answer.calls().map(|(name, input)| tools.facts(name, input)).collect();
        self.report(ticket, Report::Answered { answer, calls });
    }

    pub(super) fn failed(&mut self, ticket: Seq) {
        self.report(ticket, Report::Failed { error: ModelError::new(ErrorKind::Network, "gone") });
    }

    pub(super) fn request(&self) -> Seq {
        self.live.state.request().unwrap().0
    }

    /// A turn whose model asked for so many calls, which run.
    pub(super) fn calls(&mut self, many: usize) -> Vec<Seq> {
        drop(self.send("m"));
        let call =
            |n| AnswerPart::Call { id: format!("{n}").into(), name: "waits".into(), input: "{}".into(), extra: None };
        let answer = ModelAnswer::new((0..many).map(call).collect(), Finish::ToolCalls);
        self.answered(self.request(), answer);
        self.running()
    }

    pub(super) fn running(&self) -> Vec<Seq> {
        let calls = self.live.workers.iter().filter(|(_, worker)| matches!(worker, Worker::Call(_)));
        calls.map(|(ticket, _)| *ticket).collect()
    }

    pub(super) fn is_stopping(&self, ticket: Seq) -> bool {
        matches!(self.live.workers.get(&ticket), Some(Worker::Call(worker)) if worker.is_stopping())
    }

    pub(super) fn requests(&self) -> usize {
        self.live.workers.values().filter(|worker| matches!(worker, Worker::Request(..))).count()
    }

    pub(super) fn history(&self) -> String {
        self.live.state.history.iter().map(|item| format!("{item:?}\n")).collect()
    }

    /// From here on the disk takes its time: what is appended is in flight until it is let go.
    pub(super) fn hold_up_the_disk(&mut self) {
        self.disk.be_slow();
        // The first slow write makes the store leave the next ones to its thread.
        let mut settings = (*self.live.state.settings).clone();
        settings.retries_max += 1;
        drop(self.ask(Configure { before: None, settings: Box::new(settings) }));
        self.disk.shut();
    }

    pub(super) fn let_the_disk_go(&mut self) {
        self.disk.open_up();
        assert!(self.store.settle(Duration::from_secs(60)));
        self.work();
    }

    pub(super) async fn later(&mut self, time: Duration) {
        tokio::time::advance(time).await;
        self.work();
    }

    /// The actor dies, and its next incarnation begins over what the tape has.
    pub(super) fn dies(self) -> Bench {
        self.dies_and(|_, _| {})
    }

    /// The same, and something happens to its tape meanwhile.
    pub(super) fn dies_and(self, meanwhile: impl FnOnce(&Tapes, &SessionId)) -> Bench {
        let Bench { live, disk, store, _card, _folder } = self;
        let Live { shared, slot, node, incarnation, tape, .. } = live;
        drop(tape);
        meanwhile(&shared.store, &slot.id);
        let loaded = shared.store.load(&slot.id, &slot.notify(), Duration::from_secs(60)).unwrap();
        let state = crate::ops::taped::state(&slot.id, &loaded.entries).unwrap();
        #[cfg(feature = "fault-injection")]
        let tape = Tape::new(loaded.tape, None);
        #[cfg(not(feature = "fault-injection"))]
        let tape = loaded.tape;
        slot.next_incarnation(incarnation + 1, slot.left_in_flight(&shared.store).unwrap());
        let live = Live::new(shared, slot, node, incarnation + 1, tape, Arc::new(state));
        let mut bench = Bench { live, disk, store, _card, _folder };
        bench.work();
        bench
    }
}

pub(super) fn message(id: &str, delivery: Delivery) -> SendMessage {
    SendMessage { message: Message::user("go").with_id(id.into()), delivery, expect_turn: None, agent: None, added: 0 }
}

pub(super) fn abort() -> Abort {
    Abort { reason: "enough".to_owned(), turn: None }
}
