//! A child's place under its supervisor, and the incarnation in it.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use crate::supervisor::{
    monitor::{Stage, Workers},
    node_state::NodeState,
    planner::Generation,
    registry::Registry,
    shell::StartFn,
    shown::Shown,
    spec::{ChildKind, ChildSpec, Restart},
};

/// A child's place; it outlives the child's crashes.
pub(super) struct Place {
    /// Dropped first: by what is dropped with `start` others hear that the place was given up, and then it is in no tree.
    pub(super) shown: Shown,
    pub(super) kind: ChildKind,
    pub(super) restart: Restart,
    /// Not kept for temporary children once they have started.
    pub(super) start: Option<StartFn>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) workers: Option<Workers>,
    /// What the last start had to say.
    pub(super) info: Option<Arc<str>>,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) timer: Option<AbortOnDropHandle<()>>,
}

impl Place {
    pub(super) fn new(spec: ChildSpec, registry: &Registry, supervisor: &NodeState) -> Place {
        Place {
            shown: registry.show(Some(supervisor), spec.id.as_str(), spec.label),
            kind: spec.kind,
            restart: spec.policy.restart,
            start: Some(spec.start),
            start_timeout: spec.start_timeout,
            workers: spec.workers,
            info: None,
            incarnation: None,
            timer: None,
        }
    }

    /// What is left of the child when its supervisor ends, by name.
    pub(super) fn leftover(&self) -> Vec<String> {
        let id = self.shown.0.id();
        match self.incarnation.as_ref().map(|incarnation| incarnation.stage.borrow().clone()) {
            Some(Stage::Held(names)) if !names.is_empty() => names.iter().map(|name| format!("{id}/{name}")).collect(),
            _ => vec![id.to_owned()],
        }
    }
}

/// One incarnation of a child.
pub(super) struct Incarnation {
    pub(super) generation: Generation,
    pub(super) stage: watch::Receiver<Stage>,
    pub(super) cancel: CancellationToken,
    /// A start that is still on its way ends with the driver, whom it would otherwise outlive.
    pub(super) _cancel_with_driver: DropGuard,
}
