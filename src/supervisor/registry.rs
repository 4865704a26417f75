//! The registry: the nodes (actors, supervisors and workers), crash reports and tree events of one runtime, or of one host that
//! supervises without a runtime. Those who look at the tree read it here.
//!
//! A value, never a global: two registries are independent, even if their nodes have the same ids. A change must keep that
//! reading it asks no actor and waits for none, so that a stuck actor is seen. Under the lock of the table of nodes, read only
//! what never changes of a node (id, path, key). For all else copy the list first, because a node has its own lock.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, MutexGuard, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    lock::Lock,
    supervisor::{
        crash_log::CrashLog,
        node_state::{NodeState, Role, Shown, Status},
        report::CrashReport,
        shown::WorkerNode,
        trace::Happened,
        tree::{self, Node},
        watch::{Happening, TreeEvents, Watch},
    },
};

/// The nodes, crash reports and tree events of one runtime. Clones are the same registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    shelf: Arc<Shelf>,
    #[cfg(feature = "fault-injection")]
    pub(crate) faults: crate::fault::Faults,
}

/// The contents of a registry; nodes refer to it weakly.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    next: AtomicU64,
    /// The nodes by key. Keys are given in the order in which nodes are made.
    nodes: Lock<BTreeMap<u64, Arc<NodeState>>>,
    crashes: CrashLog,
    news: TreeEvents,
}

impl Shelf {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<NodeState>>> {
        // Only whole inserts and removes happen under this lock.
        self.nodes.lock()
    }

    pub(crate) fn remove(&self, key: u64) {
        self.nodes().remove(&key);
    }
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Sets the fault injection's plan for the crash points of its supervisors.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn with_faults(mut self, faults: crate::fault::Faults) -> Registry {
        self.faults = faults;
        self
    }

    /// Shows a worker under its actor until the returned guard is dropped.
    #[must_use]
    pub fn worker(&self, parent: &NodeState, id: &str, kind: &'static str, doing: impl Into<String>) -> WorkerNode {
        let shown = self.show_as(Role::Task, Some(parent), id, kind);
        shown.0.born(1, 1);
        shown.0.set_status(Status::Running);
        shown.0.doing(doing);
        WorkerNode(shown)
    }

    /// A snapshot of the tree: the roots with their children, in the order in which they were made.
    ///
    /// Each node is consistent in itself. A node is under the node that it is shown under; if that is gone, under its supervisor
    /// or actor; and a root if that is gone, too, or if the node would be below itself.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Node> {
        tree::grow(&self.nodes())
    }

    /// One node, with what is shown below it; `None` if there is none.
    pub(crate) fn below(&self, key: u64) -> Option<Node> {
        tree::below(&self.nodes(), key)
    }

    /// The last events of a node, oldest first; at most 32. `None` if there is no such node.
    #[must_use]
    pub fn trace(&self, id: &str) -> Option<Vec<Happened>> {
        self.find(id).map(|node| node.trace())
    }

    /// The last crashes, oldest first; at most 256.
    #[must_use]
    pub fn crashes(&self) -> Vec<CrashReport> {
        self.shelf.crashes.all()
    }

    /// Watches one node (by its path or its id), or all. For one node, its present state comes first, and at once. If the node
    /// does not exist, one event says so ([`Happening::Unknown`]), and nothing follows.
    #[must_use]
    pub fn watch(&self, id: Option<&str>) -> Watch {
        // Listens before it looks, so that nothing is missed between.
        let watch = self.shelf.news.listen(id);
        let Some(id) = id else { return watch };
        match self.find(id) {
            Some(node) => watch.after(Happening::seen(&node)),
            None => watch.of_nobody(id),
        }
    }

    /// All nodes, in the order in which they were made. The lock is not held while they are read.
    pub(crate) fn nodes(&self) -> Vec<Arc<NodeState>> {
        self.shelf.nodes().values().cloned().collect()
    }

    /// The node with this path; else the oldest node with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<NodeState>> {
        let nodes = self.shelf.nodes();
        let named = nodes.values().filter(|node| node.path() == id || node.id() == id);
        named.min_by_key(|node| (node.path() != id, node.key())).cloned()
    }

    pub(crate) fn tell(&self, path: &str, what: Happening) {
        self.shelf.news.tell(path, what);
    }

    pub(crate) fn crash(&self, report: CrashReport) -> u64 {
        self.shelf.crashes.add(report)
    }

    pub(crate) fn node(&self, key: u64) -> Option<Arc<NodeState>> {
        self.shelf.nodes().get(&key).cloned()
    }

    /// A new node. It is in the tree until the returned guard is dropped.
    pub(crate) fn show(&self, owner: Option<&NodeState>, id: &str, kind: &'static str) -> Shown {
        self.show_as(Role::Process, owner, id, kind)
    }

    fn show_as(&self, role: Role, owner: Option<&NodeState>, id: &str, kind: &'static str) -> Shown {
        let key = self.shelf.next.fetch_add(1, Relaxed) + 1;
        let path = match owner {
            Some(owner) => format!("{}/{id}", owner.path()),
            None => id.to_owned(),
        };
        let shelf = Arc::downgrade(&self.shelf);
        let (id, path, owner) = (id.into(), path.into(), owner.map(NodeState::key));
        let (admin, words) = (OnceLock::new(), Lock::default());
        let node = Arc::new(NodeState { key, id, path, kind, owner, role, shelf, admin, words });
        self.shelf.nodes().insert(key, node.clone());
        Shown(node)
    }
}
