//! Being in the tree: a node is there for as long as its guard is.

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
/// It is in the tree until it is dropped; move it into the task's future, and it goes when the task does, however that ends.
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
