//! A child's place under its supervisor: its node, how to start it, its timer, and its present incarnation.
//!
//! A place outlives the child's crashes; it is dropped when the child is forgotten, or with the supervisor. A change must keep
//! `shown` the first field: the node must leave the tree before `start` is dropped, because guards in `start` tell others that the
//! place is gone (`Place` in `actor/activation.rs` is one).

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
    /// Must stay the first field, so that it is dropped first: guards dropped with `start` tell others that the place is gone, and
    /// by then the node must be out of the tree.
    pub(super) shown: Shown,
    pub(super) kind: ChildKind,
    pub(super) restart: Restart,
    /// Not kept for a temporary child once its start has begun.
    pub(super) start: Option<StartFn>,
    pub(super) start_timeout: Option<Duration>,
    pub(super) workers: Option<Workers>,
    /// The word that the last start had for its starter.
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

    /// The names of what is left of the child when its supervisor ends: the child itself, or what it left behind.
    pub(super) fn leftover(&self) -> Vec<String> {
        let id = self.shown.0.id();
        match self.incarnation.as_ref().map(|incarnation| incarnation.stage.borrow().clone()) {
            Some(Stage::Leftover(names)) if !names.is_empty() => {
                names.iter().map(|name| format!("{id}/{name}")).collect()
            }
            _ => vec![id.to_owned()],
        }
    }
}

/// One incarnation of a child.
pub(super) struct Incarnation {
    pub(super) generation: Generation,
    pub(super) stage: watch::Receiver<Stage>,
    pub(super) cancel: CancellationToken,
    /// Cancels a start that is still under way when the driver ends, because the start would outlive it.
    pub(super) _cancel_with_driver: DropGuard,
}
