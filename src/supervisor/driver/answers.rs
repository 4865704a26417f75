//! The questions that a driver answers at any moment.

use tokio::sync::oneshot;

use crate::supervisor::{
    admin::Answer,
    driver::{Admin, Driver, Msg, place::Place},
    handle::{ChildInfo, Counts},
    planner::{ChildView, Event, State},
    shell::Context,
    spec::{ChildId, ChildKind},
    status::Status,
};

impl Driver {
    /// Hands a call to the planner, which answers it now or when the child is where it was asked to be.
    pub(super) fn admin(&mut self, admin: Admin, reply: oneshot::Sender<Answer>, cx: &mut Context<Msg>) {
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
                if self.planner.view(&id).is_some() && !self.places.contains_key(&id) {
                    let place = Place::new(*spec, &self.registry, cx.node());
                    self.places.insert(id, place);
                }
                return self.carry_out(actions, cx);
            }
        };
        self.on(event, cx);
    }

    pub(super) fn which(&self) -> Vec<ChildInfo> {
        self.planner.views().filter_map(|(id, view)| self.info(id, view)).collect()
    }

    pub(super) fn which_one(&self, id: &ChildId) -> Option<ChildInfo> {
        self.planner.view(id).and_then(|view| self.info(id, view))
    }

    fn info(&self, id: &ChildId, view: ChildView) -> Option<ChildInfo> {
        let place = self.places.get(id)?;
        Some(ChildInfo {
            id: id.clone(),
            kind: place.kind,
            restart: place.restart,
            status: status(view.state),
            restarting: view.restarting,
            incarnation: view.incarnation,
            restarts: view.restarts,
            info: place.info.clone(),
            node: place.shown.0.clone(),
        })
    }

    pub(super) fn count(&self) -> Counts {
        let mut counts = Counts::default();
        for (id, view) in self.planner.views() {
            counts.specs += 1;
            let is_up = matches!(view.state, State::Running | State::Stopping | State::Stuck);
            counts.active += usize::from(is_up);
            match self.places.get(id).map(|place| place.kind) {
                Some(ChildKind::Supervisor) => counts.supervisors += 1,
                _ => counts.workers += 1,
            }
        }
        counts
    }

    /// How many entries all tables hold together, so that a test sees what is never cleared away.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.places.len() + self.calls.len() + self.tasks.len() + self.planner.kept()
    }
}

/// What people read of a state.
pub(super) fn status(state: State) -> Status {
    match state {
        State::Idle => Status::Stopped,
        State::Starting => Status::Starting,
        State::Running => Status::Running,
        State::Stopping => Status::Stopping,
        State::Stuck => Status::Unkillable,
        State::Backoff { .. } => Status::Backoff,
        State::Parked { .. } => Status::Parked,
    }
}
