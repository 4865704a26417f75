//! Carries out the actions of a supervisor's planner: starts and stops children, sets timers, replies to calls, and reports how
//! children ended.
//!
//! Every action returns at once: starts, stops and timers are tasks, and their result is a message to the driver. Each such
//! message carries the generation (the number) of its start or timer, so the planner ignores one that comes late.
//!
//! A change must not wait here, because the driver answers questions at any moment, and must not start or stop a child without an
//! action of the planner.

use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::supervisor::{
    driver::{Driver, Msg, place::Incarnation},
    exit::{ChildDown, ExitReason},
    monitor::{self, Stage, StartArgs},
    planner::{Action, ChildEvent, Event, Generation},
    report::CrashReport,
    shell::{Context, Mailbox},
    spec::{ChildId, Restart, Shutdown},
    status::Status,
    watch::Happening,
};

impl Driver {
    /// Takes an event of a child: a start, an end, or a timer.
    pub(super) fn child_event(&mut self, id: ChildId, generation: Generation, what: ChildEvent, cx: &mut Context<Msg>) {
        if let Some(place) = self.places.get_mut(&id) {
            let is_current = place.incarnation.as_ref().is_some_and(|current| current.generation == generation);
            match &what {
                ChildEvent::Started(info) if is_current => place.info.clone_from(info),
                ChildEvent::Started(_) => {}
                ChildEvent::Ignored | ChildEvent::StartFailed(_) | ChildEvent::Exited(_) => {
                    place.incarnation.take_if(|incarnation| incarnation.generation == generation);
                }
                ChildEvent::Unkillable => {
                    let path = place.shown.0.path();
                    tracing::error!(child = path, "a child did not end although it was killed");
                }
                ChildEvent::Due => {}
            }
        }
        self.on(Event::Child(id.clone(), generation, what.clone()), cx);
        match what {
            ChildEvent::Started(_) => {
                // A child that was stopped meanwhile does not count as started.
                if let Some(view) = self.planner.view(&id).filter(|view| view.status == Status::Running) {
                    self.tell(&id, Happening::Started { incarnation: view.incarnation });
                }
            }
            ChildEvent::Unkillable => self.tell(&id, Happening::Unkillable {}),
            _ => {}
        }
    }

    /// Feeds one event to the planner, and carries out its actions.
    pub(super) fn on(&mut self, event: Event, cx: &mut Context<Msg>) {
        let about = match &event {
            Event::Child(id, ..) | Event::Admin(_, id, _) => Some(id.clone()),
            _ => None,
        };
        let actions = self.planner.on(event, self.born.elapsed());
        self.carry_out(actions, cx);
        if let Some(id) = about {
            self.sync(&id);
        }
    }

    pub(super) fn carry_out(&mut self, actions: Vec<Action>, cx: &mut Context<Msg>) {
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
                    let due = Msg::Child(id.clone(), generation, ChildEvent::Due);
                    let timer = self.tasks.spawn(async move {
                        tokio::time::sleep(after).await;
                        // If the driver is gone, no restart is needed.
                        let _ = mailbox.send(due);
                    });
                    if let Some(place) = self.places.get_mut(&id) {
                        place.timer = Some(AbortOnDropHandle::new(timer));
                    }
                    self.sync(&id);
                }
                Action::Cancel { id } => {
                    if let Some(place) = self.places.get_mut(&id) {
                        place.timer = None;
                    }
                    self.sync(&id);
                }
                Action::Forget { id } => {
                    self.places.remove(&id);
                    self.tell(&id, Happening::Removed {});
                }
                Action::Reply { call, answer } => {
                    if let Some(reply) = self.calls.remove(&call) {
                        // The caller may have dropped its receiver.
                        let _ = reply.send(answer);
                    }
                }
                Action::Report { id, reason, crash, decision, in_window } => {
                    let Some(node) = self.places.get(&id).map(|place| place.shown.0.clone()) else { continue };
                    let crash = crash.map(|context| {
                        let (child, reason) = (id.clone(), reason.clone());
                        let report = CrashReport::of(&node, cx.node(), child, context, reason, decision, in_window);
                        self.registry.crash(report)
                    });
                    node.died(&reason);
                    self.tell(&id, Happening::Exited { incarnation: node.incarnation(), reason, decision, crash });
                }
                Action::Parked { id } => {
                    self.sync(&id);
                    self.tell(&id, Happening::Parked {});
                }
                Action::Booted => {
                    cx.node().set_status(Status::Running);
                    if let Some(ready) = self.ready.take() {
                        // A root's start may have been dropped.
                        let _ = ready.send(Ok(()));
                    }
                }
                Action::Exit { reason, leftover } => {
                    let places = leftover.iter().filter_map(|id| self.places.get(id));
                    let leftover = places.flat_map(|place| place.leftover()).collect();
                    // A planner exits once.
                    let _ = self.verdict.set(ChildDown { reason, leftover });
                }
            }
        }
    }

    fn spawn(&mut self, id: &ChildId, generation: Generation, incarnation: u64, cx: &Context<Msg>) {
        fault!(self.registry.faults, "supervisor.spawn", cx.node().path());
        let mailbox = cx.mailbox();
        let Some(place) = self.places.get_mut(id) else { return };
        let start = match place.restart {
            Restart::Temporary => place.start.take(),
            Restart::Permanent | Restart::Transient => place.start.clone(),
        };
        let (name, node) = (id.clone(), place.shown.0.clone());
        let tell = move |child_event| {
            // If the driver is gone, its children are being killed, and the event is not needed.
            let _ = mailbox.send(Msg::Child(name.clone(), generation, child_event));
        };
        let Some(start) = start else {
            return tell(ChildEvent::StartFailed(ExitReason::StartFailed(
                "a temporary child is started once".to_owned(),
            )));
        };
        node.born(incarnation, generation.0);
        let (stage, of_stage) = watch::channel(Stage::Starting);
        let cancel = CancellationToken::new();
        place.timer = None;
        place.info = None;
        place.incarnation = Some(Incarnation {
            generation,
            stage: of_stage,
            cancel: cancel.clone(),
            _cancel_with_driver: cancel.clone().drop_guard(),
        });
        let spawn = cx.child(node, incarnation, self.registry.clone());
        let (start_timeout, workers) = (place.start_timeout, place.workers.clone());
        let args = StartArgs { spawn, start, start_timeout, cancel, stage, workers };
        self.tasks.spawn(monitor::watch(args, tell));
    }

    fn stop(&self, id: &ChildId, generation: Generation, shutdown: Shutdown, mailbox: &Mailbox<Msg>) {
        let incarnation = self.places.get(id).and_then(|place| place.incarnation.as_ref());
        let Some(incarnation) = incarnation.filter(|incarnation| incarnation.generation == generation) else { return };
        let (stage, cancel) = (incarnation.stage.clone(), incarnation.cancel.clone());
        let (mailbox, id) = (mailbox.clone(), id.clone());
        self.tasks.spawn(async move {
            if !monitor::stop(stage, cancel, shutdown).await {
                // If the driver is gone, the event is not needed.
                let _ = mailbox.send(Msg::Child(id, generation, ChildEvent::Unkillable));
            }
        });
    }

    /// Tells the watchers of the tree what happened to a child.
    pub(super) fn tell(&self, child: &ChildId, what: Happening) {
        self.registry.tell(&format!("{}/{child}", self.node.path()), what);
    }

    /// Writes the planner's view of a child onto its node.
    fn sync(&self, id: &ChildId) {
        if let (Some(place), Some(view)) = (self.places.get(id), self.planner.view(id)) {
            place.shown.0.judged(view);
        }
    }
}
