//! The events of a tree, for its watchers: what happened to its actors (such as a start, an end, a park), and which levers
//! operators pulled.
//!
//! Each runtime has one bounded queue: a watcher that is too slow loses the oldest events and can ask how many ([`Watch::lost`]).
//! So nothing may depend on seeing each event; the tree shows the state at any time. A watch yields no event after the end of a
//! root of the tree.
//!
//! A change must keep this: sending never waits for a watcher, because supervisors do it, and costs next to nothing without
//! watchers. [`TreeEvent`] and [`Happening`] are JSON that hosts read: no field or word may be renamed or dropped.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use serde::Serialize;
use tokio::sync::broadcast;

use crate::{
    supervisor::{
        exit::ExitReason,
        node_state::{NodeState, Status},
        report::Decision,
    },
    words::ids::Millis,
};

/// How many events wait for a slow watcher before it loses the oldest.
const EVENTS_WAITING: usize = 1024;

/// Something that happened to a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TreeEvent {
    /// The number of the event. Counts up over the whole tree, also without watchers. The first event of a watch of one node
    /// (`Seen` or `Unknown`) is made for that watch, and has the number of the newest event at that moment.
    pub number: u64,
    /// When.
    pub at: Millis,
    /// The path of the node.
    pub path: Arc<str>,
    /// What happened to it.
    #[serde(flatten)]
    pub what: Happening,
}

/// What happened to a node, or its state as a watch begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "happened", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Happening {
    /// Nothing yet: the state of the node as the watch begins.
    Seen {
        /// Its status.
        status: Status,
        /// Which incarnation it is in, or was in last: 1 for the first.
        incarnation: u64,
        /// How it ended the last time, if it ever did.
        #[serde(skip_serializing_if = "Option::is_none")]
        last_exit: Option<ExitReason>,
    },
    /// The node does not exist, so nothing will happen to it.
    Unknown {},
    /// An incarnation is up.
    Started {
        /// Which: 1 for the first.
        incarnation: u64,
    },
    /// An incarnation ended, or could not begin.
    Exited {
        /// Which.
        incarnation: u64,
        /// Why.
        reason: ExitReason,
        /// What its supervisor did about it.
        decision: Decision,
        /// The number of the crash report, if one was made.
        #[serde(skip_serializing_if = "Option::is_none")]
        crash: Option<u64>,
    },
    /// It is kept stopped.
    Parked {},
    /// It did not end although it was killed or its start was cancelled, or it left children that did not end. Its place stays
    /// taken until they have ended.
    Unkillable {},
    /// Workers of it did not end in their time; it continues without them.
    WorkersLeft {
        /// How many.
        count: usize,
    },
    /// It is gone permanently: its supervisor has forgotten it.
    Removed {},
    /// It was a supervisor, and has ended.
    Down {
        /// Why.
        reason: ExitReason,
    },
    /// An operator pulled a lever.
    Lever {
        /// Which.
        lever: &'static str,
    },
    /// A lever that an operator pulled did nothing.
    LeverRefused {
        /// Which.
        lever: &'static str,
        /// Why.
        why: String,
    },
}

impl Happening {
    pub(crate) fn seen(node: &NodeState) -> (Arc<str>, Happening) {
        let (status, incarnation, last_exit) = (node.status(), node.incarnation(), node.last_exit());
        (node.path().into(), Happening::Seen { status, incarnation, last_exit })
    }
}

impl fmt::Display for TreeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.path)?;
        match &self.what {
            Happening::Seen { status, incarnation, last_exit: None } => {
                write!(f, "is {status}, incarnation {incarnation}")
            }
            Happening::Seen { status, incarnation, last_exit: Some(reason) } => {
                write!(f, "is {status}, incarnation {incarnation}, last exit {reason}")
            }
            Happening::Unknown {} => f.write_str("is not there"),
            Happening::Started { incarnation } => write!(f, "started, incarnation {incarnation}"),
            Happening::Exited { incarnation, reason, decision, crash } => {
                write!(f, "ended incarnation {incarnation}: {reason}; {decision}")?;
                crash.map_or(Ok(()), |number| write!(f, " (crash {number})"))
            }
            Happening::Parked {} => f.write_str("is parked"),
            Happening::Unkillable {} => f.write_str("was killed and is still there"),
            Happening::WorkersLeft { count } => write!(f, "continues without {count} workers that did not end"),
            Happening::Removed {} => f.write_str("is gone"),
            Happening::Down { reason } => write!(f, "has ended: {reason}"),
            Happening::Lever { lever } => write!(f, "an operator pulled {lever}"),
            Happening::LeverRefused { lever, why } => write!(f, "refused {lever}: {why}"),
        }
    }
}

/// The events of one tree.
#[derive(Debug)]
pub(crate) struct TreeEvents {
    last: AtomicU64,
    events: broadcast::Sender<TreeEvent>,
}

impl Default for TreeEvents {
    fn default() -> TreeEvents {
        TreeEvents { last: AtomicU64::new(0), events: broadcast::channel(EVENTS_WAITING).0 }
    }
}

impl TreeEvents {
    pub(crate) fn tell(&self, path: &str, what: Happening) {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        if self.events.receiver_count() > 0 {
            // The last watcher may have gone meanwhile.
            let _ = self.events.send(TreeEvent { number, at: Millis::now(), path: path.into(), what });
        }
    }

    pub(crate) fn listen(&self, only: Option<&str>) -> Watch {
        Watch {
            events: Some(self.events.subscribe()),
            only: only.map(Into::into),
            first: VecDeque::new(),
            next: self.last.load(Relaxed),
            lost: 0,
        }
    }
}

/// A watcher of the events of a tree. Dropping it ends the watch, and nothing else.
#[derive(Debug)]
pub struct Watch {
    events: Option<broadcast::Receiver<TreeEvent>>,
    only: Option<Arc<str>>,
    first: VecDeque<TreeEvent>,
    next: u64,
    lost: u64,
}

impl Watch {
    /// Begins with the state of a node, and then follows the node by its path.
    pub(crate) fn after(mut self, (path, what): (Arc<str>, Happening)) -> Watch {
        self.only = Some(path.clone());
        self.first.push_back(TreeEvent { number: self.next, at: Millis::now(), path, what });
        self
    }

    /// Reports that the node does not exist, and ends.
    pub(crate) fn of_nobody(mut self, id: &str) -> Watch {
        self.events = None;
        self.after((id.into(), Happening::Unknown {}))
    }

    /// Waits for the next event. The end of a root is the last one, also for a watch of another node. `None` when none can come:
    /// the tree is gone, or the node did not exist. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<TreeEvent> {
        if let Some(first) = self.first.pop_front() {
            return Some(first);
        }
        loop {
            match self.events.as_mut()?.recv().await {
                Ok(event) => {
                    let is_root = !event.path.contains('/');
                    if is_root && matches!(event.what, Happening::Down { .. }) {
                        self.events = None;
                        return Some(event);
                    }
                    if self.only.as_ref().is_none_or(|only| *only == event.path) {
                        return Some(event);
                    }
                }
                Err(broadcast::error::RecvError::Lagged(lost)) => self.lost += lost,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// How many events this watcher has lost so far. Not all of them need have been about its node.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
