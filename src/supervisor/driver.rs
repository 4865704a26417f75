//! The part of a supervisor that does: it feeds the planner and carries out what that decides.
//!
//! Its handler never waits. Starts and stops run in tasks of its own (`minder`) and come back as messages,
//! so it answers questions at any moment, also in the middle of a long shutdown. An end is acted on only when both the
//! supervision event and the join handle have arrived.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    sync::{oneshot, watch},
    task::{AbortHandle, JoinHandle},
    time::Instant,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    actors::shell::{
        self, Behaviour, Birth, Context, Ended, ExitError, Init, Live, Mailbox, NotStarted, Note, Pid, StartFn,
    },
    supervisor::{
        admin::Answer,
        card::{ActorCard, Shown, Status},
        event::{Down, SupervisorEvent},
        exit::ExitReason,
        handle::{ChildInfo, Counts, Shared, SupervisorHandle},
        minder::{self, Charge, News, Stage, Workers},
        planner::{Action, Call, ChildView, Event, Generation, Planner, State},
        registry::Registry,
        report::{CrashReport, Decision},
        spec::{ChildId, ChildKind, ChildSpec, Restart, Shutdown, SupervisorSpec},
    },
};

/// How long the tasks of a supervisor that has ended get to end.
const TASKS_WAIT: Duration = Duration::from_secs(5);

/// What a driver hears.
pub(crate) enum Msg {
    Boot,
    News(ChildId, Generation, News),
    Due(ChildId, Generation),
    Admin(Admin, oneshot::Sender<Answer>),
    Which(oneshot::Sender<Vec<ChildInfo>>),
    WhichOne(ChildId, oneshot::Sender<Option<ChildInfo>>),
    Count(oneshot::Sender<Counts>),
    Shutdown(String),
}

/// What a driver may be asked to do.
pub(crate) enum Admin {
    Start(Box<ChildSpec>),
    Terminate(ChildId),
    Restart(ChildId),
    Recycle(ChildId),
    Delete(ChildId),
    Park(ChildId),
    Unpark(ChildId),
}

/// A child's place.
struct Entry {
    kind: ChildKind,
    restart: Restart,
    /// Not kept for temporary children once they have started.
    start: Option<StartFn>,
    start_timeout: Option<Duration>,
    workers: Option<Workers>,
    shown: Shown,
    life: Option<Life>,
    timer: Option<Timer>,
}

/// One incarnation of a child.
struct Life {
    generation: Generation,
    stage: watch::Receiver<Stage>,
    cancel: CancellationToken,
    /// A start that is still on its way ends with the driver, whom it would otherwise outlive.
    _cancel_with_driver: DropGuard,
    pid: Option<Pid>,
    note: Note,
    ended: Option<Ended>,
    joined: bool,
}

/// A task that only waits, and ends when this is dropped.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One incarnation of a supervisor.
struct Driver {
    spec: Arc<SupervisorSpec>,
    shared: Arc<Shared>,
    registry: Registry,
    card: Arc<ActorCard>,
    planner: Planner,
    born: Instant,
    entries: HashMap<ChildId, Entry>,
    pids: HashMap<Pid, (ChildId, Generation)>,
    /// Ends of actors whose birth has not been told yet.
    early: HashMap<Pid, Ended>,
    calls: HashMap<Call, oneshot::Sender<Answer>>,
    last_call: Call,
    tasks: TaskTracker,
    ready: Option<oneshot::Sender<Result<(), ExitReason>>>,
    exit: Option<Down>,
    /// Published when the actor and its tasks are gone.
    verdict: Arc<OnceLock<Down>>,
}

/// Starts one incarnation of a supervisor, as a root or as a child.
pub(crate) async fn launch(
    spec: Arc<SupervisorSpec>,
    shared: Arc<Shared>,
    birth: Birth,
    keep: Option<Shown>,
) -> Result<Live, NotStarted> {
    let (ready, is_ready) = oneshot::channel();
    let tasks = TaskTracker::new();
    let card = birth.card.clone();
    card.set_admin(SupervisorHandle::new(shared.clone()));
    let registry = birth.registry.clone();
    let verdict = Arc::new(OnceLock::new());
    let driver = Driver {
        planner: Planner::new(spec.rules, uuid::Uuid::now_v7().as_u128() as u64),
        spec,
        shared: shared.clone(),
        registry: registry.clone(),
        card: card.clone(),
        born: Instant::now(),
        entries: HashMap::new(),
        pids: HashMap::new(),
        early: HashMap::new(),
        calls: HashMap::new(),
        last_call: 0,
        tasks: tasks.clone(),
        ready: Some(ready),
        exit: None,
        verdict: verdict.clone(),
    };
    let live = shell::start(driver, birth).await?;
    let note = live.note.clone();
    // The supervisor counts as ended when its tasks have, too: they are what is left of its children.
    let join: JoinHandle<()> = tokio::spawn(async move {
        let _ = live.join.await;
        tasks.close();
        let left = tokio::time::timeout(TASKS_WAIT, tasks.wait()).await.is_err();
        if left {
            tracing::warn!(
                supervisor = card.path(),
                tasks = tasks.len(),
                "children of an ended supervisor are still there"
            );
        }
        shared.set_mailbox(None);
        card.set_status(Status::Stopped);
        let killed = || Down { reason: ExitReason::Killed, leftover: Vec::new() };
        let down = verdict.get().cloned().unwrap_or_else(killed);
        let ended = SupervisorEvent::Down(down.clone());
        registry.tell_event(&card, &ended, None);
        drop(keep);
        shared.down.send_replace(Some(down));
        // Nobody has to watch.
        let _ = shared.events.send(ended);
    });
    Ok(Live { running: live.running, join, note, ready: Some(is_ready) })
}

impl Behaviour for Driver {
    type Msg = Msg;

    async fn init(&mut self, cx: &mut Context<Msg>) -> Result<Init, ExitError> {
        self.shared.set_mailbox(Some(cx.mailbox()));
        self.shared.down.send_replace(None);
        cx.mailbox().send(Msg::Boot)?;
        Ok(Init::Run)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        fault!(self.registry.faults, "supervisor.message", cx.card().path());
        match msg {
            Msg::Boot => self.boot(cx),
            Msg::News(id, generation, news) => self.news(&id, generation, news, cx),
            Msg::Due(id, generation) => self.on(Event::Due { id, generation }, cx),
            Msg::Admin(admin, reply) => self.admin(admin, reply, cx),
            // Nobody has to wait for an answer until it comes.
            Msg::Which(reply) => {
                let children = self.planner.views().filter_map(|(id, view)| self.info(id, view)).collect();
                let _ = reply.send(children);
            }
            Msg::WhichOne(id, reply) => {
                let _ = reply.send(self.planner.view(&id).and_then(|view| self.info(&id, view)));
            }
            Msg::Count(reply) => {
                let _ = reply.send(self.count());
            }
            Msg::Shutdown(reason) => self.on(Event::Shutdown { reason }, cx),
        }
        fault!(self.registry.faults, "supervisor.handled", cx.card().path());
        self.leave(cx)
    }

    async fn terminate(&mut self, _: &ExitReason, _: &mut Context<Msg>) {
        if self.verdict.get().is_some() {
            return;
        }
        // The planner has taken the children down before it exits. Whoever stops the actor in another way gets here, where
        // no message is read any more; the order is kept all the same.
        let alive: Vec<ChildId> = self.planner.views().map(|(id, _)| id.clone()).collect();
        for id in alive.iter().rev() {
            if let Some(life) = self.entries.get(id).and_then(|entry| entry.life.as_ref()) {
                minder::stop(life.stage.clone(), life.cancel.clone(), Shutdown::default()).await;
            }
        }
    }

    fn describe(msg: &Msg) -> &'static str {
        match msg {
            Msg::Boot => "boot",
            Msg::News(..) => "news",
            Msg::Due(..) => "due",
            Msg::Admin(..) => "admin",
            Msg::Which(_) | Msg::WhichOne(..) => "which",
            Msg::Count(_) => "count",
            Msg::Shutdown(_) => "shutdown",
        }
    }

    fn stop_message(reason: &str) -> Option<Msg> {
        Some(Msg::Shutdown(reason.to_owned()))
    }

    fn child_ended(&mut self, child: Pid, how: Ended, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        fault!(self.registry.faults, "supervisor.child_ended", cx.card().path());
        if let Some((id, generation)) = self.pids.get(&child).cloned() {
            if let Some(life) = self.life(&id, generation) {
                life.ended = Some(how);
            }
            self.bury(&id, generation, cx);
        } else if self.entries.values().any(|entry| entry.life.as_ref().is_some_and(|life| life.pid.is_none())) {
            self.early.insert(child, how);
        }
        self.leave(cx)
    }
}

impl Driver {
    fn boot(&mut self, cx: &mut Context<Msg>) {
        let spec = self.spec.clone();
        for child in &spec.children {
            self.entries.insert(child.id.clone(), self.entry(child.clone(), cx));
        }
        let children = spec.children.iter().map(|child| (child.id.clone(), child.policy)).collect();
        self.on(Event::Boot { children }, cx);
    }

    fn entry(&self, spec: ChildSpec, cx: &Context<Msg>) -> Entry {
        Entry {
            kind: spec.kind,
            restart: spec.policy.restart,
            start: Some(spec.start),
            start_timeout: spec.start_timeout,
            workers: spec.workers,
            shown: self.registry.show(Some(cx.card()), spec.id.as_str(), spec.label),
            life: None,
            timer: None,
        }
    }

    fn admin(&mut self, admin: Admin, reply: oneshot::Sender<Answer>, cx: &mut Context<Msg>) {
        self.last_call += 1;
        let call = self.last_call;
        self.calls.insert(call, reply);
        let event = match admin {
            Admin::Terminate(id) => Event::Terminate { call, id },
            Admin::Restart(id) => Event::Restart { call, id },
            Admin::Recycle(id) => Event::Recycle { call, id },
            Admin::Delete(id) => Event::Delete { call, id },
            Admin::Park(id) => Event::Park { call, id },
            Admin::Unpark(id) => Event::Unpark { call, id },
            Admin::Start(spec) => {
                let id = spec.id.clone();
                let event = Event::Start { call, id: id.clone(), policy: spec.policy };
                let actions = self.planner.on(event, self.born.elapsed());
                if self.planner.view(&id).is_some() && !self.entries.contains_key(&id) {
                    let entry = self.entry(*spec, cx);
                    self.entries.insert(id, entry);
                }
                return self.carry_out(actions, cx);
            }
        };
        self.on(event, cx);
    }

    fn news(&mut self, id: &ChildId, generation: Generation, news: News, cx: &mut Context<Msg>) {
        let owned = id.clone();
        match news {
            News::Spawned(pid, note) => {
                let early = self.early.remove(&pid);
                self.pids.insert(pid, (owned, generation));
                if let Some(life) = self.life(id, generation) {
                    life.pid = Some(pid);
                    life.note = note;
                    life.ended = early;
                }
            }
            News::Started => {
                let incarnation = self.planner.view(id).map_or(0, |view| view.incarnation);
                self.on(Event::Started { id: owned, generation }, cx);
                self.tell(SupervisorEvent::Started { id: id.clone(), incarnation });
            }
            News::Ignored => {
                self.end_life(id, generation);
                self.on(Event::Ignored { id: owned, generation }, cx);
            }
            News::StartFailed(reason) => {
                self.end_life(id, generation);
                self.on(Event::StartFailed { id: owned, generation, reason }, cx);
            }
            News::Joined { workers_left } => {
                if workers_left > 0 {
                    let path = self.entries.get(id).map(|entry| entry.shown.0.path().to_owned());
                    tracing::error!(child = path, workers_left, "workers did not end in their time");
                    self.tell(SupervisorEvent::WorkersLeft { id: owned, count: workers_left });
                }
                if let Some(life) = self.life(id, generation) {
                    life.joined = true;
                }
                self.bury(id, generation, cx);
            }
            News::Unkillable => {
                let path = self.entries.get(id).map(|entry| entry.shown.0.path().to_owned());
                tracing::error!(child = path, "a child did not end although it was killed");
                self.on(Event::Unkillable { id: owned.clone(), generation }, cx);
                self.tell(SupervisorEvent::Unkillable { id: owned });
            }
        }
    }

    /// Acts on an end, when all that proves it is there.
    fn bury(&mut self, id: &ChildId, generation: Generation, cx: &mut Context<Msg>) {
        let Some(life) = self.life(id, generation) else { return };
        if !life.joined {
            return;
        }
        let Some(ended) = life.ended.take() else { return };
        let note = life.note.take();
        let reason = match (ended, note) {
            (Ended::Failed(_), Some(reason)) => reason,
            (Ended::Failed(text), None) => ExitReason::Error(text),
            (Ended::Stopped(None), _) => ExitReason::Normal,
            (Ended::Stopped(Some(word)), _) => ExitReason::Shutdown(word),
            (Ended::Killed, _) => ExitReason::Killed,
            (Ended::Cancelled, _) => ExitReason::Cancelled,
        };
        self.end_life(id, generation);
        self.on(Event::Exited { id: id.clone(), generation, reason }, cx);
    }

    fn life(&mut self, id: &ChildId, generation: Generation) -> Option<&mut Life> {
        self.entries.get_mut(id)?.life.as_mut().filter(|life| life.generation == generation)
    }

    fn end_life(&mut self, id: &ChildId, generation: Generation) {
        if self.life(id, generation).is_some()
            && let Some(life) = self.entries.get_mut(id).and_then(|entry| entry.life.take())
            && let Some(pid) = life.pid
        {
            self.pids.remove(&pid);
        }
    }

    fn on(&mut self, event: Event, cx: &mut Context<Msg>) {
        let about = event.about().cloned();
        let actions = self.planner.on(event, self.born.elapsed());
        self.carry_out(actions, cx);
        if let Some(id) = about {
            self.sync(&id);
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>, cx: &mut Context<Msg>) {
        for action in actions {
            match action {
                Action::Spawn { id, generation, incarnation } => {
                    self.spawn(&id, generation, incarnation, cx);
                    self.sync(&id);
                }
                Action::Stop { id, generation, shutdown } => {
                    self.stop(&id, generation, shutdown, &cx.mailbox());
                    self.sync(&id);
                }
                Action::Arm { id, generation, after } => {
                    let mailbox = cx.mailbox();
                    let due = Msg::Due(id.clone(), generation);
                    let timer = self.tasks.spawn(async move {
                        tokio::time::sleep(after).await;
                        // Nobody is there to restart anything for any more.
                        let _ = mailbox.send(due);
                    });
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.timer = Some(Timer(timer.abort_handle()));
                    }
                    self.sync(&id);
                }
                Action::Cancel { id } => {
                    if let Some(entry) = self.entries.get_mut(&id) {
                        entry.timer = None;
                    }
                    self.sync(&id);
                }
                Action::Forget { id } => {
                    self.entries.remove(&id);
                    self.tell(SupervisorEvent::Removed { id });
                }
                Action::Reply { call, answer } => {
                    if let Some(reply) = self.calls.remove(&call) {
                        // Nobody has to wait for an answer until it comes.
                        let _ = reply.send(answer);
                    }
                }
                Action::Report { id, reason, expected, decision, in_window } => {
                    self.report(id, reason, expected, decision, in_window, cx);
                }
                Action::Parked { id } => {
                    self.sync(&id);
                    self.tell(SupervisorEvent::Parked { id });
                }
                Action::Booted => {
                    cx.card().set_status(Status::Running);
                    if let Some(ready) = self.ready.take() {
                        // A root's start may have been given up.
                        let _ = ready.send(Ok(()));
                    }
                }
                Action::Exit { reason, leftover } => self.exit = Some(Down { reason, leftover }),
            }
        }
    }

    fn spawn(&mut self, id: &ChildId, generation: Generation, incarnation: u64, cx: &Context<Msg>) {
        fault!(self.registry.faults, "supervisor.spawn", cx.card().path());
        let mailbox = cx.mailbox();
        let Some(entry) = self.entries.get_mut(id) else { return };
        let start = match entry.restart {
            Restart::Temporary => entry.start.take(),
            Restart::Permanent | Restart::Transient => entry.start.clone(),
        };
        let (name, card) = (id.clone(), entry.shown.0.clone());
        let tell = move |news| {
            // Where the driver is gone its children are being killed, and there is nobody left to tell.
            let _ = mailbox.send(Msg::News(name.clone(), generation, news));
        };
        let Some(start) = start else {
            return tell(News::StartFailed(ExitReason::StartFailed("a temporary child is started once".to_owned())));
        };
        card.born(incarnation, generation.0);
        let (stage, of_stage) = watch::channel(Stage::Starting);
        let cancel = CancellationToken::new();
        entry.timer = None;
        entry.life = Some(Life {
            generation,
            stage: of_stage,
            cancel: cancel.clone(),
            _cancel_with_driver: cancel.clone().drop_guard(),
            pid: None,
            note: Note::default(),
            ended: None,
            joined: false,
        });
        let birth = Birth { linker: cx.linker(), card, incarnation, registry: self.registry.clone() };
        let (start_timeout, workers) = (entry.start_timeout, entry.workers.clone());
        let charge = Charge { birth, start, start_timeout, cancel, stage, workers };
        self.tasks.spawn(minder::mind(charge, tell));
    }

    fn stop(&mut self, id: &ChildId, generation: Generation, shutdown: Shutdown, mailbox: &Mailbox<Msg>) {
        let Some(life) = self.life(id, generation) else { return };
        let (stage, cancel) = (life.stage.clone(), life.cancel.clone());
        let (mailbox, id) = (mailbox.clone(), id.clone());
        self.tasks.spawn(async move {
            if !minder::stop(stage, cancel, shutdown).await {
                // Where the driver is gone there is nobody left to tell.
                let _ = mailbox.send(Msg::News(id, generation, News::Unkillable));
            }
        });
    }

    fn report(
        &mut self,
        id: ChildId,
        reason: ExitReason,
        expected: bool,
        decision: Decision,
        in_window: u32,
        cx: &Context<Msg>,
    ) {
        let Some(entry) = self.entries.get(&id) else { return };
        let card = &entry.shown.0;
        let incarnation = card.incarnation();
        let crash = (!expected).then(|| {
            let report = CrashReport::of(card, cx.card(), id.clone(), reason.clone(), decision, in_window);
            self.registry.crash(report)
        });
        card.died(&reason);
        self.tell_of_crash(SupervisorEvent::Exited { id, incarnation, reason, decision }, crash);
    }

    fn tell(&self, event: SupervisorEvent) {
        self.tell_of_crash(event, None);
    }

    /// Tells those who watch this supervisor, and those who watch the tree.
    fn tell_of_crash(&self, event: SupervisorEvent, crash: Option<u64>) {
        self.registry.tell_event(&self.card, &event, crash);
        // Nobody has to watch.
        let _ = self.shared.events.send(event);
    }

    /// Writes what the planner thinks of a child onto its card.
    fn sync(&self, id: &ChildId) {
        if let (Some(entry), Some(view)) = (self.entries.get(id), self.planner.view(id)) {
            let card = &entry.shown.0;
            card.set_status(status(view.state));
            card.set_restarts(view.restarts, view.in_window);
        }
    }

    fn info(&self, id: &ChildId, view: ChildView) -> Option<ChildInfo> {
        let entry = self.entries.get(id)?;
        Some(ChildInfo {
            id: id.clone(),
            kind: entry.kind,
            restart: entry.restart,
            status: status(view.state),
            restarting: view.restarting,
            incarnation: view.incarnation,
            restarts: view.restarts,
            card: entry.shown.0.clone(),
        })
    }

    fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for (id, view) in self.planner.views() {
            counts.specs += 1;
            let is_up = matches!(view.state, State::Running | State::Stopping | State::Stuck);
            counts.active += usize::from(is_up);
            match self.entries.get(id).map(|entry| entry.kind) {
                Some(ChildKind::Supervisor) => counts.supervisors += 1,
                _ => counts.workers += 1,
            }
        }
        counts
    }

    /// Ends the actor, when the planner has said so.
    fn leave(&mut self, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        let Some(down) = self.exit.take() else { return Ok(()) };
        // It leaves once.
        let _ = self.verdict.set(down.clone());
        if let Some(ready) = self.ready.take() {
            // A root's start may have been given up.
            let _ = ready.send(Err(down.reason.clone()));
        }
        match down.reason {
            ExitReason::Normal => cx.exit(),
            ExitReason::Shutdown(word) => cx.exit_with(word),
            other => return Err(ExitError::As(other)),
        }
        Ok(())
    }
}

fn status(state: State) -> Status {
    match state {
        State::Idle => Status::Stopped,
        State::Starting => Status::Starting,
        State::Running => Status::Running,
        State::Stopping => Status::Stopping,
        State::Stuck => Status::Unkillable,
        State::Backoff { .. } => Status::Backoff,
        State::Parked => Status::Parked,
    }
}
