//! The guards that keep a node in the tree that operators see: `Shown` for supervisors and their children, [`WorkerNode`] for
//! workers (tasks of an actor). A node is in the tree until its guard is dropped.
//!
//! A change must keep the guard with the owner of the shown thing: a supervisor holds the guards of its children's places, the
//! task that joins a root holds the root's, a worker's task holds the worker's. Otherwise the tree shows what is gone, or hides
//! what exists.

use std::sync::Arc;

use crate::supervisor::node_state::NodeState;

/// A node that leaves the tree when this is dropped.
#[derive(Debug)]
pub(crate) struct Shown(pub(crate) Arc<NodeState>);

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(shelf) = self.0.shelf.upgrade() {
            shelf.remove(self.0.key);
        }
    }
}

/// The node of a worker: a task of an actor, such as one model request or one tool call.
///
/// The node is in the tree until this guard is dropped. Move the guard into the task's future: then the node goes with the task,
/// however the task ends.
#[derive(Debug)]
pub struct WorkerNode(pub(crate) Shown);

impl WorkerNode {
    /// The node itself.
    #[must_use]
    pub fn node(&self) -> &Arc<NodeState> {
        &self.0.0
    }

    /// Says what it does now.
    pub fn doing(&self, what: impl Into<String>) {
        self.0.0.doing(what);
    }
}
