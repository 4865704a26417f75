//! A snapshot of the tree: each actor, supervisor and worker as a value ([`Node`]), with the nodes below it.
//!
//! It locks one node at a time, never two. So each [`Node`] is consistent in itself, and the snapshot as a whole need not be.
//!
//! A change must keep this. A snapshot asks no actor, so that a stuck or flooded actor is seen too. None of the given nodes is
//! lost, also if nodes are shown under each other in a circle. [`Node`] is JSON that hosts read: no field may be renamed or
//! dropped.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    supervisor::{
        exit::ExitReason,
        node_state::{NodeState, Status, millis},
        payload::NodePayload,
        status::Reading,
    },
    words::ids::Millis,
};

/// How long one message may be handled before a reading of the node is marked as old ([`Reading::Busy`]).
const BUSY_AFTER: Duration = Duration::from_millis(100);

/// One actor, supervisor or worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Node {
    /// The key of the node: unique within its runtime, for as long as the node exists.
    pub key: u64,
    /// Its id; unique among the children of one supervisor.
    pub id: String,
    /// The ids from the root down to it, along its supervisors, with slashes between them.
    pub path: String,
    /// What kind of node it is, such as `supervisor`, `session`, `request` or `call`.
    pub kind: &'static str,
    /// Its status.
    pub status: Status,
    /// How fresh the other fields are.
    pub reading: Reading,
    /// One word for what it does, if it says one. For a session: `idle`, `turn`, `model`, `tools`, `asking`, `retry`, `compaction`,
    /// `children`, `paused`, `held`, `interrupted`, `ended` or `storage`. For the tape store: `undone`, if clean-ups failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<&'static str>,
    /// What it does now; for a node without an incarnation, what it did last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// How long it has been doing that, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing_ms: Option<u64>,
    /// The kind of message that is being handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_with: Option<&'static str>,
    /// How long that message has been handled, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<u64>,
    /// When this incarnation started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// How old this incarnation is, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Which incarnation it is in, or was in last: 1 for the first, 0 before it.
    pub incarnation: u64,
    /// The number that its supervisor gave to its newest start. A later start has a higher one, until the supervisor itself is
    /// restarted.
    pub generation: u64,
    /// Restarts after ends and failed starts that count as crashes, in all.
    pub restarts: u64,
    /// Crashes in the window of its restart budget, as of the newest one.
    pub restarts_in_window: u64,
    /// How it ended the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitReason>,
    /// How long ago that was, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit_ms: Option<u64>,
    /// Messages handled, in all incarnations; of a request or a call its signs of life, such as the pieces of its answer.
    pub handled: u64,
    /// How much waits in its queue.
    pub queue: u64,
    /// The most that ever waited there.
    pub queue_peak: u64,
    /// How many inputs were refused because the queue was full.
    pub queue_rejected: u64,
    /// Its payload: for a session, its [figures](crate::runtime::SessionFigures).
    #[serde(flatten)]
    pub payload: NodePayload,
    /// The nodes shown under it.
    pub children: Vec<Node>,
}

impl Node {
    pub(crate) fn of(node: &NodeState) -> Node {
        Node::read(node, Instant::now())
    }

    fn read(node: &NodeState, now: Instant) -> Node {
        let words = node.words();
        let age = |since: Instant| now.saturating_duration_since(since);
        let busy = words.in_hand.map(|(what, since)| (what, age(since)));
        let reading = match busy {
            _ if !words.status.is_alive() => Reading::PostMortem,
            Some((_, since)) if since >= BUSY_AFTER => Reading::Busy,
            _ => Reading::Fresh,
        };
        Node {
            key: node.key(),
            id: node.id().to_owned(),
            path: node.path().to_owned(),
            kind: node.kind(),
            status: words.status,
            reading,
            phase: words.phase,
            doing: words.doing.as_ref().map(|(what, _)| what.clone()),
            doing_ms: words.doing.as_ref().map(|(_, since)| millis(age(*since))),
            busy_with: busy.map(|(what, _)| what),
            busy_ms: busy.map(|(_, since)| millis(since)),
            started_at: words.started_at.as_ref().map(|(at, _)| *at),
            age_ms: words.started_at.as_ref().map(|(_, since)| millis(age(*since))),
            incarnation: words.incarnation,
            generation: words.generation,
            restarts: words.restarts,
            restarts_in_window: words.restarts_in_window,
            last_exit: words.last_exit.as_ref().map(|(reason, _)| reason.clone()),
            last_exit_ms: words.last_exit.as_ref().map(|(_, at)| millis(age(*at))),
            handled: words.handled,
            queue: words.depth(),
            queue_peak: words.depth_peak,
            queue_rejected: words.rejected,
            payload: words.payload.clone(),
            children: Vec::new(),
        }
    }

    /// This node, or the first below it, with this id or path.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Node> {
        if self.id == id || self.path == id {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(id))
    }

    /// This node and all below it, each before its children.
    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        let mut next = vec![self];
        std::iter::from_fn(move || {
            let node = next.pop()?;
            next.extend(node.children.iter().rev());
            Some(node)
        })
    }
}

/// One node with what is shown below it, as in the tree that [`grow`] makes of all `nodes`. Of the others it reads only where they
/// are.
pub(crate) fn below(nodes: &[Arc<NodeState>], key: u64) -> Option<Node> {
    let is_there = |key: &u64| nodes.binary_search_by_key(key, |node| node.key()).is_ok();
    let mut found = vec![key];
    loop {
        let before = found.len();
        for node in nodes {
            // Nearly all nodes have another owner, and are shown nowhere else.
            let stands_here = |above: Option<u64>| above.is_some_and(|above| found.contains(&above));
            let shown_under = node.words().shown_under;
            if (stands_here(shown_under) || stands_here(node.owner)) && !found.contains(&node.key()) {
                let parent = shown_under.filter(is_there).or(node.owner);
                found.extend(stands_here(parent).then_some(node.key()));
            }
        }
        // A node that is shown under a younger one is found in the next round.
        if found.len() == before {
            break;
        }
    }
    // With what stands above the node, for a circle must be broken at the same place.
    let family: Vec<_> = nodes.iter().filter(|node| found.contains(&node.key())).cloned().collect();
    let all = grow(&family);
    all.iter().flat_map(Node::iter).find(|node| node.key == key).cloned()
}

/// Builds the tree. A node is under the node that it is shown under, or, if that is missing, under its owner. A node
/// becomes a root if its owner is missing too, or if it would be below itself.
///
/// `nodes` are in the order of their keys, and so are the roots and the children of each node.
pub(crate) fn grow(nodes: &[Arc<NodeState>]) -> Vec<Node> {
    let is_there = |key: &u64| nodes.binary_search_by_key(key, |node| node.key()).is_ok();
    let mut parents = HashMap::new();
    let mut below = HashMap::<_, Vec<_>>::new();
    for node in nodes {
        let shown_under = node.words().shown_under.filter(is_there);
        let parent = shown_under.or(node.owner.filter(is_there));
        let mut above = std::iter::successors(parent, |key| parents.get(key).copied());
        let parent = parent.filter(|_| above.all(|key| key != node.key()));
        if let Some(parent) = parent {
            parents.insert(node.key(), parent);
        }
        below.entry(parent).or_default().push(&**node);
    }
    take(None, &mut below, Instant::now())
}

/// Takes out the nodes that are shown under `parent`, or the roots.
fn take(parent: Option<u64>, below: &mut HashMap<Option<u64>, Vec<&NodeState>>, now: Instant) -> Vec<Node> {
    let nodes = below.remove(&parent).unwrap_or_default().into_iter();
    nodes.map(|node| Node { children: take(Some(node.key()), below, now), ..Node::read(node, now) }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn no_node_is_lost_in_a_circle() {
        let registry = crate::supervisor::Registry::new();
        let root = registry.show(None, "root", "supervisor");
        let [a, b] = ["a", "b"].map(|id| registry.show(Some(&root.0), id, "session"));
        let c = registry.show(Some(&b.0), "c", "session");
        a.0.show_under(&b.0);
        b.0.show_under(&a.0);
        let tree = registry.snapshot();
        let mut ids: Vec<&str> = tree.iter().flat_map(Node::iter).map(|node| node.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["a", "b", "c", "root"]);
        drop(c);
    }
}
