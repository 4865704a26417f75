//! Being in the tree: a card is there for as long as its guard is.

use std::{fmt, sync::Arc};

use crate::supervisor::card::ActorCard;

/// A card that leaves the tree when this is dropped.
pub(crate) struct Shown(pub(crate) Arc<ActorCard>);

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(shelf) = self.0.shelf().upgrade() {
            shelf.remove(self.0.key());
        }
    }
}

/// The card of a worker: a task of an actor, such as one model request or one tool call.
///
/// It is in the tree until it is dropped; move it into the task's future, and it goes when the task does, however that ends.
pub struct WorkerCard(pub(crate) Shown);

impl WorkerCard {
    /// The card itself.
    #[must_use]
    pub fn card(&self) -> &Arc<ActorCard> {
        &self.0.0
    }

    /// Says what it does now.
    pub fn doing(&self, what: impl Into<String>) {
        self.0.0.doing(what);
    }
}

impl fmt::Debug for WorkerCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}
