//! The cards and crash reports of one runtime.
//!
//! A value, never a global: two registries know nothing of each other, also where their nodes have the same ids.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::supervisor::{
    card::{ActorCard, Shown, Status, WorkerCard},
    report::{CrashLog, CrashReport},
    tree::{self, Node},
};

/// The cards and crash reports of one runtime. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    shelf: Arc<Shelf>,
    #[cfg(feature = "fault-injection")]
    pub(crate) faults: crate::Faults,
}

/// Where the cards are.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    next: AtomicU64,
    cards: Mutex<HashMap<u64, Arc<ActorCard>>>,
    crashes: CrashLog,
}

impl Shelf {
    pub(crate) fn remove(&self, key: u64) {
        self.cards.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The same, with what happens at the crash points of its supervisors.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn with_faults(mut self, faults: crate::Faults) -> Registry {
        self.faults = faults;
        self
    }

    /// Shows a worker under its actor until the card is dropped.
    #[must_use]
    pub fn worker(&self, parent: &ActorCard, id: &str, kind: &'static str, doing: impl Into<String>) -> WorkerCard {
        let shown = self.show(Some(parent), id, kind);
        shown.0.born(1, 1);
        shown.0.set_status(Status::Running);
        shown.0.doing(doing);
        WorkerCard(shown)
    }

    /// A picture of the tree: the roots, with their children in them, in the order in which they were made.
    ///
    /// Each node is consistent in itself. A node whose parent is gone is shown as a root.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Node> {
        let cards: Vec<Arc<ActorCard>> =
            self.shelf.cards.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        tree::grow(&cards)
    }

    /// The last crashes, oldest first; at most 256.
    #[must_use]
    pub fn crashes(&self) -> Vec<CrashReport> {
        self.shelf.crashes.all()
    }

    pub(crate) fn crash(&self, report: CrashReport) {
        self.shelf.crashes.add(report);
    }

    /// A new card, in the tree until it is dropped.
    pub(crate) fn show(&self, parent: Option<&ActorCard>, id: &str, kind: &'static str) -> Shown {
        let key = self.shelf.next.fetch_add(1, Relaxed) + 1;
        let path = match parent {
            Some(parent) => format!("{}/{id}", parent.path()),
            None => id.to_owned(),
        };
        let shelf = Arc::downgrade(&self.shelf);
        let card = ActorCard::new(key, parent.map(ActorCard::key), id.into(), path.into(), kind, shelf);
        let card = Arc::new(card);
        self.shelf.cards.lock().unwrap_or_else(PoisonError::into_inner).insert(key, card.clone());
        Shown(card)
    }
}
