//! The supervision tree as values that can be compared: what is shown to whom, and what changed.
//!
//! One sampler reads the tree for all subscribers, at most so many times a second, and only while there are any. It keeps each node
//! as a value of its own and keeps that value while the node does not change, so that a subscriber finds what changed by comparing
//! pointers. A subscriber sees the newest sample only: one that is slow gets larger differences, and no queue grows for it.
//!
//! The nodes of the stream have no field that moves with the clock alone: moments in the place of durations.
//!
//! A change must keep that a tenant is shown a node only where the nearest session above it, or the node itself, is a session of its
//! own, and that the differences fold to the tree.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use tamtam::{
    Millis, SessionId,
    supervisor::{Node, Status},
};
use tokio::sync::watch;

use crate::{app::App, describe::without_field, options::Scope, problem::Answered};

/// How far a moment may seem to move, because it is worked out from a duration, before the node counts as changed.
const JITTER_MS: u64 = 50;

/// A node without those below it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flat {
    /// Without children and durations.
    node: Node,
    /// The key of the node above it.
    parent: Option<u64>,
    doing_since: Option<u64>,
    busy_since: Option<u64>,
    last_exit_at: Option<u64>,
}

/// The nodes of one moment, by key.
pub(crate) type Sample = BTreeMap<u64, Arc<Flat>>;

impl Flat {
    fn of(mut node: Node, parent: Option<u64>, now: Millis) -> Flat {
        let since = |ms: Option<u64>| ms.map(|ms| now.0.saturating_sub(ms));
        let (doing_since, busy_since) = (since(node.doing_ms.take()), since(node.busy_ms.take()));
        let last_exit_at = since(node.last_exit_ms.take());
        node.age_ms = None;
        Flat { node, parent, doing_since, busy_since, last_exit_at }
    }

    fn is_as(&self, before: &Flat) -> bool {
        let same = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => a.abs_diff(b) <= JITTER_MS,
            (a, b) => a == b,
        };
        self.node == before.node
            && self.parent == before.parent
            && same(self.doing_since, before.doing_since)
            && same(self.busy_since, before.busy_since)
            && same(self.last_exit_at, before.last_exit_at)
    }

    /// The session that the node is.
    fn session(&self) -> Option<SessionId> {
        session_of(&self.node)
    }

    fn shown(&self, parent: Option<u64>) -> FlatNode {
        let Flat { node, doing_since, busy_since, last_exit_at, .. } = self;
        let fields = NodeFields {
            node: node.clone(),
            parent,
            doing_since: *doing_since,
            busy_since: *busy_since,
            last_exit_at: *last_exit_at,
        };
        let mut shown = serde_json::to_value(fields).unwrap_or_default();
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("children");
        }
        FlatNode(shown)
    }
}

/// A node of the list of all: as in the tree, without children and durations.
#[derive(Debug, Serialize)]
pub(crate) struct FlatNode(Value);

impl JsonSchema for FlatNode {
    fn schema_name() -> Cow<'static, str> {
        "FlatNode".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = NodeFields::json_schema(generator);
        ["children", "doing_ms", "busy_ms", "last_exit_ms", "age_ms"]
            .iter()
            .for_each(|name| without_field(&mut schema, name));
        schema
    }
}

#[derive(Serialize, JsonSchema)]
struct NodeFields {
    #[serde(flatten)]
    node: Node,
    /// The key of the node above it; null for a root.
    parent: Option<u64>,
    /// Since when it does what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    doing_since: Option<u64>,
    /// Since when it handles its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_since: Option<u64>,
    /// When it ended the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_exit_at: Option<u64>,
}

/// The session that a node is.
pub(crate) fn session_of(node: &Node) -> Option<SessionId> {
    if node.kind == "session" { node.id.parse().ok() } else { None }
}

fn flatten(nodes: Vec<Node>, parent: Option<u64>, now: Millis, before: &Sample, sample: &mut Sample) {
    let mut next: Vec<(Node, Option<u64>)> = nodes.into_iter().map(|node| (node, parent)).collect();
    while let Some((mut node, parent)) = next.pop() {
        let key = node.key;
        next.extend(std::mem::take(&mut node.children).into_iter().map(|child| (child, Some(key))));
        let flat = Flat::of(node, parent, now);
        let kept = before.get(&key).filter(|before| flat.is_as(before)).cloned();
        sample.insert(key, kept.unwrap_or_else(|| Arc::new(flat)));
    }
}

/// The newest sample, for all subscribers.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    newest: watch::Sender<Arc<Sample>>,
    /// Held while a sample is taken, so that the next one is compared with it.
    sampling: Mutex<()>,
    is_running: AtomicBool,
}

impl App {
    /// The tree as it is now.
    pub(crate) fn sample(&self) -> Arc<Sample> {
        let _one = self.tree.sampling.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.tree.newest.borrow().clone();
        let mut sample = Sample::new();
        flatten(self.runtime.tree().roots, None, Millis::now(), &before, &mut sample);
        let sample = Arc::new(sample);
        self.tree.newest.send_replace(sample.clone());
        sample
    }

    /// The samples from now on. The sampler runs as long as somebody has such a receiver.
    pub(crate) fn samples(&self) -> watch::Receiver<Arc<Sample>> {
        let samples = self.tree.newest.subscribe();
        if !self.tree.is_running.swap(true, Ordering::AcqRel) {
            tokio::spawn(sampler(self.clone()));
        }
        samples
    }

    /// What the scope sees of a sample: keys, each with the key of the node above it.
    pub(crate) async fn visible(
        &self,
        scope: &Scope,
        sample: &Sample,
        seen: &mut Seen,
    ) -> Answered<BTreeMap<u64, Option<u64>>> {
        if *scope == Scope::All {
            return Ok(sample.iter().map(|(key, flat)| (*key, flat.parent)).collect());
        }
        seen.look(self, scope, sample).await?;
        let is_seen = |key: &u64| seen.own.contains(key);
        let shown = sample.keys().filter(|key| nearest(sample, **key).is_some_and(|session| is_seen(&session)));
        let shown: HashSet<u64> = shown.copied().collect();
        let parent = |key: &u64| sample.get(key).and_then(|flat| flat.parent).filter(|parent| shown.contains(parent));
        Ok(shown.iter().map(|key| (*key, parent(key))).collect())
    }
}

/// The key of the nearest session at a node or above it.
fn nearest(sample: &Sample, key: u64) -> Option<u64> {
    let mut at = Some(key);
    // A circle of nodes ends the search, too.
    for _ in 0..=sample.len() {
        let flat = sample.get(&at?)?;
        if flat.node.kind == "session" {
            return at;
        }
        at = flat.parent;
    }
    None
}

/// Which session nodes a tenant has, as of the samples that it was shown. A session's labels are looked at again only when its
/// node changed: a change of labels is an entry on its tape, and the node shows the last entry.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    looked: BTreeMap<u64, Arc<Flat>>,
    own: HashSet<u64>,
}

impl Seen {
    async fn look(&mut self, app: &App, scope: &Scope, sample: &Sample) -> Answered<()> {
        self.looked.retain(|key, _| sample.contains_key(key));
        self.own.retain(|key| sample.contains_key(key));
        for (key, flat) in sample {
            let is_known = self.looked.get(key).is_some_and(|looked| Arc::ptr_eq(looked, flat));
            let Some(id) = flat.session().filter(|_| !is_known) else { continue };
            let sees = match flat.node.status {
                Status::Running => app.sees_awake(scope, &id).await?,
                _ => app.sees(scope, &id).await?,
            };
            if sees {
                self.own.insert(*key)
            } else {
                self.own.remove(key)
            };
            self.looked.insert(*key, flat.clone());
        }
        Ok(())
    }
}

async fn sampler(app: App) {
    let mut ticks = tokio::time::interval(app.options.tree_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        app.sample();
        if app.tree.newest.receiver_count() == 0 {
            app.tree.is_running.store(false, Ordering::Release);
            // Somebody may have come between the look and the mark.
            if app.tree.newest.receiver_count() == 0 || app.tree.is_running.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }
}

/// What a subscriber was shown last.
#[derive(Default)]
pub(crate) struct Told {
    nodes: BTreeMap<u64, (Arc<Flat>, Option<u64>)>,
    pub(crate) seen: Seen,
}

impl Told {
    /// The differences to a newer sample: the nodes that changed or are new, and the keys of those that are gone.
    pub(crate) fn differences(
        &mut self,
        sample: &Sample,
        visible: &BTreeMap<u64, Option<u64>>,
    ) -> (Vec<FlatNode>, Vec<u64>) {
        let gone: Vec<u64> = self.nodes.keys().filter(|key| !visible.contains_key(key)).copied().collect();
        gone.iter().for_each(|key| drop(self.nodes.remove(key)));
        let mut changed = Vec::new();
        for (key, parent) in visible {
            let Some(flat) = sample.get(key) else { continue };
            let is_same = self.nodes.get(key).is_some_and(|(told, above)| Arc::ptr_eq(told, flat) && above == parent);
            if !is_same {
                changed.push(flat.shown(*parent));
                self.nodes.insert(*key, (flat.clone(), *parent));
            }
        }
        (changed, gone)
    }
}

/// The nodes that a tenant sees of a tree: its own sessions, with what is below them.
pub(crate) fn pruned(nodes: Vec<Node>, is_own: &impl Fn(&SessionId) -> bool) -> Vec<Node> {
    let mut roots = Vec::new();
    for node in nodes {
        prune(node, false, is_own, &mut roots);
    }
    roots
}

/// Puts the node, if it is seen, or what is seen below it, into `out`. What is seen below a node that is seen stays below it.
fn prune(mut node: Node, is_below_own: bool, is_own: &impl Fn(&SessionId) -> bool, out: &mut Vec<Node>) {
    let is_seen = session_of(&node).map_or(is_below_own, |id| is_own(&id));
    let mut below = Vec::new();
    for child in std::mem::take(&mut node.children) {
        prune(child, is_seen, is_own, &mut below);
    }
    if is_seen {
        node.children = below;
        out.push(node);
    } else {
        out.append(&mut below);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tamtam::{Runtime, model::Scripted};

    /// A moment is worked out from a duration and a clock, each cut to milliseconds: a node that only grew older has not changed.
    #[tokio::test]
    async fn a_node_that_only_grew_older_is_the_same() {
        let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await.unwrap();
        let node = runtime.tree().roots.into_iter().next().unwrap();
        runtime.shutdown().await;
        let at = |doing_ms: u64, now: u64| {
            let mut node = node.clone();
            (node.doing_ms, node.age_ms) = (Some(doing_ms), Some(now));
            Flat::of(node, None, Millis(now))
        };
        let before = at(1_000, 10_000);
        assert!(at(3_000, 12_000).is_as(&before) && at(3_000, 12_001).is_as(&before));
        assert!(!at(0, 12_000).is_as(&before), "it does something else since then");
        assert_eq!(before.shown(None).0["doing_since"], 9_000);
    }
}
