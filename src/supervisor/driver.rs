//! The part of a supervisor that acts: it feeds events to the planner and carries out the actions that the planner decides.
//!
//! Starts and stops run in tasks (`monitor.rs`) and come back as messages, so the driver answers questions at any moment, also in
//! the middle of a long shutdown.
//!
//! A change must not let the handler wait or decide anything itself. For its parent a supervisor ends only when its actor is
//! joined and all its tasks have ended: an earlier report would allow second copies of its children. Holders of a handle may
//! learn of the end earlier: when the tasks have ended, at the latest [`TASKS_WAIT`] after the end of the actor.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{sync::oneshot, task::JoinHandle, time::Instant};
use tokio_util::task::TaskTracker;

use crate::supervisor::{
    admin::Answer,
    driver::place::Place,
    exit::{ChildDown, ExitReason},
    handle::{Shared, SupervisorHandle},
    node_state::NodeState,
    planner::{Admin, Call, ChildEvent, Event, Generation, Planner},
    registry::Registry,
    shell::{self, Behaviour, Context, ExitError, Init, Live, NotStarted, SpawnArgs},
    shown::Shown,
    spec::{ChildId, ChildSpec, SupervisorSpec},
    status::Status,
    watch::Happening,
};

mod actions;
mod answers;
mod place;

/// How long the tasks of an ended supervisor may take before its children are reported as left over.
const TASKS_WAIT: Duration = Duration::from_secs(5);

/// The messages of a driver.
pub(crate) enum Msg {
    Boot,
    Child(ChildId, Generation, ChildEvent),
    Start(Box<ChildSpec>, oneshot::Sender<Answer>),
    Admin(ChildId, Admin, oneshot::Sender<Answer>),
    /// Answered after all earlier messages have been handled.
    Question(Box<dyn FnOnce(&Driver) + Send>),
    Shutdown(String),
}

/// One incarnation of a supervisor.
pub(crate) struct Driver {
    spec: Arc<SupervisorSpec>,
    shared: Arc<Shared>,
    registry: Registry,
    node: Arc<NodeState>,
    planner: Planner,
    /// The beginning of the planner's time.
    born: Instant,
    /// The places of all children that the planner knows.
    places: HashMap<ChildId, Place>,
    /// The senders of calls that have no reply yet.
    calls: HashMap<Call, oneshot::Sender<Answer>>,
    last_call: Call,
    /// The monitors, stops and timers of the children.
    tasks: TaskTracker,
    /// Answered once: when the first starts of all children are over, or when the supervisor ends before that.
    ready: Option<oneshot::Sender<Result<(), ExitReason>>>,
    /// How this incarnation ends. Published when the actor is gone, at the latest [`TASKS_WAIT`] later.
    verdict: Arc<OnceLock<ChildDown>>,
}

/// Starts one incarnation of a supervisor, as a root or as a child.
pub(crate) async fn launch(
    spec: Arc<SupervisorSpec>,
    shared: Arc<Shared>,
    spawn: SpawnArgs,
    keep: Option<Shown>,
) -> Result<Live, NotStarted> {
    let (ready, is_ready) = oneshot::channel();
    let (say_leftover, leftover) = oneshot::channel();
    let tasks = TaskTracker::new();
    let node = spawn.node.clone();
    node.set_admin(SupervisorHandle { shared: shared.clone() });
    let registry = spawn.registry.clone();
    let verdict = Arc::new(OnceLock::new());
    let driver = Driver {
        planner: Planner::new(spec.rules, crate::words::ids::new_uuid().as_u128() as u64),
        spec,
        shared: shared.clone(),
        registry: registry.clone(),
        node: node.clone(),
        born: Instant::now(),
        places: HashMap::new(),
        calls: HashMap::new(),
        last_call: 0,
        tasks: tasks.clone(),
        ready: Some(ready),
        verdict: verdict.clone(),
    };
    let live = shell::start(driver, spawn).await?;
    let mut lost = Lost(Some(shared.clone()));
    let join: JoinHandle<()> = tokio::spawn(async move {
        let _ = live.join.await;
        tasks.close();
        // Children that the planner left behind have had their time.
        let known = verdict.get().is_some_and(|down| !down.leftover.is_empty());
        let wait = if known { Duration::ZERO } else { TASKS_WAIT };
        let left = tokio::time::timeout(wait, tasks.wait()).await.is_err();
        shared.set_mailbox(None);
        node.set_status(Status::Stopped);
        let killed = || ChildDown { reason: ExitReason::Killed, leftover: Vec::new() };
        let down = verdict.get().cloned().unwrap_or_else(killed);
        registry.tell(node.path(), Happening::Down { reason: down.reason.clone() });
        drop(keep);
        drop(lost.0.take());
        shared.down.send_replace(Some(down.clone()));
        if left {
            tracing::warn!(
                supervisor = node.path(),
                tasks = tasks.len(),
                "children of an ended supervisor are still there"
            );
            // The receiver is gone for a root, which has no parent.
            let _ = say_leftover.send(down.leftover);
            // For its parent the supervisor ends when these tasks have ended: they are the rest of its children, and a next
            // incarnation would start second copies of them.
            tasks.wait().await;
        }
    });
    Ok(Live { join, ready: Some(is_ready), leftover: Some(leftover), ..live })
}

/// Notifies waiters for the end of a supervisor that its tokio runtime ended before it did: then it is dropped with that runtime.
/// Empty once they were notified.
struct Lost(Option<Arc<Shared>>);

impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.set_mailbox(None);
            shared.down.send_replace(Some(ChildDown { reason: ExitReason::Cancelled, leftover: Vec::new() }));
        }
    }
}

impl Behaviour for Driver {
    type Msg = Msg;

    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Msg>) -> Result<Init, ExitError> {
        self.shared.set_mailbox(Some(cx.mailbox()));
        self.shared.down.send_replace(None);
        cx.mailbox().send(Msg::Boot)?;
        Ok(Init::Run)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        fault!(self.registry.faults, "supervisor.message", cx.node().path());
        match msg {
            Msg::Boot => self.boot(cx),
            Msg::Child(id, generation, what) => self.child_event(id, generation, what, cx),
            Msg::Start(spec, reply) => self.start_child(*spec, reply, cx),
            Msg::Admin(id, what, reply) => {
                let call = self.call(reply);
                self.on(Event::Admin(call, id, what), cx);
            }
            Msg::Question(question) => question(self),
            Msg::Shutdown(reason) => self.on(Event::Shutdown { reason }, cx),
        }
        fault!(self.registry.faults, "supervisor.handled", cx.node().path());
        self.leave(cx)
    }

    fn describe(msg: &Msg) -> &'static str {
        match msg {
            Msg::Boot => "boot",
            Msg::Child(..) => "child_event",
            Msg::Start(..) | Msg::Admin(..) => "admin",
            Msg::Question(_) => "question",
            Msg::Shutdown(_) => "shutdown",
        }
    }

    fn stop_message(reason: &str) -> Option<Msg> {
        Some(Msg::Shutdown(reason.to_owned()))
    }
}

impl Driver {
    fn boot(&mut self, cx: &mut Context<Msg>) {
        let spec = self.spec.clone();
        for child in &spec.children {
            let place = Place::new(child.clone(), &self.registry, cx.node());
            self.places.insert(child.id.clone(), place);
        }
        let children = spec.children.iter().map(|child| (child.id.clone(), child.policy)).collect();
        self.on(Event::Boot { children }, cx);
    }

    /// Ends the actor if the planner has decided so.
    fn leave(&mut self, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        let Some(down) = self.verdict.get() else { return Ok(()) };
        if let Some(ready) = self.ready.take() {
            // A root's start may have been dropped.
            let _ = ready.send(Err(down.reason.clone()));
        }
        match &down.reason {
            ExitReason::Normal => cx.exit(),
            ExitReason::Shutdown(word) => cx.exit_with(word),
            other => return Err(ExitError(other.clone())),
        }
        Ok(())
    }
}
