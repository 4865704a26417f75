//! The questions and calls to a driver. Questions are answered from the planner's views and the places, at once.
//!
//! A call is kept under a number until the planner replies to it: at once, or when the child has reached the state that was asked
//! for. A change must not wait here, and must keep that every call gets its reply; otherwise the caller waits until the
//! supervisor ends.

use tokio::sync::oneshot;

use crate::supervisor::{
    admin::Answer,
    driver::{Driver, Msg, place::Place},
    handle::{ChildInfo, Counts},
    planner::{Call, ChildView, Event},
    shell::Context,
    spec::{ChildId, ChildKind, ChildSpec},
    status::Status,
};

impl Driver {
    /// Keeps the reply of a call until the planner answers it, and returns the call's number.
    pub(super) fn call(&mut self, reply: oneshot::Sender<Answer>) -> Call {
        self.last_call += 1;
        self.calls.insert(self.last_call, reply);
        self.last_call
    }

    pub(super) fn start_child(&mut self, spec: ChildSpec, reply: oneshot::Sender<Answer>, cx: &mut Context<Msg>) {
        let (call, id) = (self.call(reply), spec.id.clone());
        let actions = self.planner.on(Event::Start { call, id: id.clone(), policy: spec.policy }, self.born.elapsed());
        if self.planner.view(&id).is_some() && !self.places.contains_key(&id) {
            self.places.insert(id, Place::new(spec, &self.registry, cx.node()));
        }
        self.carry_out(actions, cx);
    }

    pub(crate) fn which(&self) -> Vec<ChildInfo> {
        self.planner.views().filter_map(|(id, view)| self.info(id, view)).collect()
    }

    pub(crate) fn which_one(&self, id: &ChildId) -> Option<ChildInfo> {
        self.planner.view(id).and_then(|view| self.info(id, view))
    }

    fn info(&self, id: &ChildId, view: ChildView) -> Option<ChildInfo> {
        let place = self.places.get(id)?;
        Some(ChildInfo {
            id: id.clone(),
            kind: place.kind,
            restart: place.restart,
            status: view.status,
            restarting: view.restarting,
            incarnation: view.incarnation,
            restarts: view.restarts,
            info: place.info.clone(),
            node: place.shown.0.clone(),
        })
    }

    pub(crate) fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for (id, view) in self.planner.views() {
            counts.specs += 1;
            let is_up = matches!(view.status, Status::Running | Status::Stopping | Status::Unkillable);
            counts.active += usize::from(is_up);
            match self.places.get(id).map(|place| place.kind) {
                Some(ChildKind::Supervisor) => counts.supervisors += 1,
                _ => counts.workers += 1,
            }
        }
        counts
    }

    /// How many entries all tables hold together, so that a test sees entries that are never removed.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.places.len() + self.calls.len() + self.tasks.len() + self.planner.kept()
    }
}
