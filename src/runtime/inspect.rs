//! What an operator can read of a running tree: the tree, one node, counts, crash reports, traces, and a live watch.
//!
//! Everything comes from the nodes' states and the kept crash reports. No method asks an actor, waits, or touches a disk, so a
//! stuck actor is shown too; a change must keep that. A reading is a snapshot, and may be a moment old.

use std::fmt;

use serde::Serialize;

use crate::{
    actor::{counters::Counters, figures::SessionFigures, undone::UNDONE},
    runtime::{Runtime, Tree},
    supervisor::{
        CrashReport, Happened, Node, Reading, Status, Watch,
        node_state::{NodeState, Role},
        render::{facts, flat},
    },
};

/// How many crash reports an inspection shows.
const CRASHES_SHOWN: usize = 5;

impl Runtime {
    /// The supervision tree at this moment. Asks no actor, so a stuck actor is shown too.
    #[must_use]
    pub fn tree(&self) -> Tree {
        Tree { roots: self.inner.shared.registry.snapshot() }
    }

    /// All that is known of one node, by its id or its path; `None` if the node does not exist.
    #[must_use]
    pub fn inspect(&self, id: &str) -> Option<Inspection> {
        let registry = &self.inner.shared.registry;
        let state = registry.find(id)?;
        let node = registry.below(state.key())?;
        let mut crashes = registry.crashes();
        crashes.retain(|crash| crash.path() == node.path);
        crashes.drain(..crashes.len().saturating_sub(CRASHES_SHOWN));
        Some(Inspection { trace: state.trace(), node, crashes })
    }

    /// What this runtime has done since its start, over all its sessions: turns, steps, tokens and money by model, calls by tool.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.inner.shared.counting.now()
    }

    /// Counts of processes, sessions, requests and calls in the whole tree.
    #[must_use]
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        self.inner.shared.registry.nodes().iter().for_each(|node| count.add(node));
        count
    }

    /// The newest crash reports, oldest first; at most 256 are kept.
    #[must_use]
    pub fn crashes(&self) -> Vec<CrashReport> {
        self.inner.shared.registry.crashes()
    }

    /// The last things that happened to a node, oldest first; at most 32. `None` if the node does not exist.
    ///
    /// A trace has kinds and numbers, and no words of the conversation unless
    /// [`Operator::trace_in_full`](crate::runtime::Operator::trace_in_full) asked for them.
    #[must_use]
    pub fn trace(&self, id: &str) -> Option<Vec<Happened>> {
        self.inner.shared.registry.trace(id)
    }

    /// At most `most` nodes, those with the largest value of `by` first. Nodes with a value of 0 are left out.
    #[must_use]
    pub fn top(&self, by: By, most: usize) -> Top {
        let nodes = self.inner.shared.registry.nodes();
        let mut nodes: Vec<Node> = nodes.iter().map(|node| Node::of(node)).filter(|node| by.of(node) > 0).collect();
        nodes.sort_by_key(|node| (std::cmp::Reverse(by.of(node)), node.key));
        nodes.truncate(most);
        Top { by, nodes }
    }

    /// What happens from now on to one node, named by its id or its path. The node's present state comes first, at once. If the
    /// node does not exist, the watch says [`Happening::Unknown`](crate::supervisor::Happening::Unknown), and ends.
    #[must_use]
    pub fn watch(&self, id: &str) -> Watch {
        self.inner.shared.registry.watch(Some(id))
    }

    /// What happens from now on in the whole tree.
    #[must_use]
    pub fn watch_all(&self) -> Watch {
        self.inner.shared.registry.watch(None)
    }
}

/// All that is known of one node. As text through `Display`, as JSON through `Serialize`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Inspection {
    /// The node, with what is shown under it.
    pub node: Node,
    /// Its last crashes, oldest first; at most 5.
    pub crashes: Vec<CrashReport>,
    /// The last things that happened to it, oldest first.
    pub trace: Vec<Happened>,
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        writeln!(f, "{} {}", node.kind, node.path)?;
        let reading = match node.reading {
            Reading::Fresh => "as it is now",
            Reading::Busy => "as it was before the message in its hand",
            Reading::PostMortem => "post-mortem: as its last incarnation left it",
        };
        writeln!(f, "  status      {} in incarnation {}, {reading}", node.status, node.incarnation)?;
        for fact in facts(node) {
            writeln!(f, "  fact        {fact}")?;
        }
        for child in &node.children {
            writeln!(f, "  under it    {} {} {}: {}", child.kind, child.id, child.status, facts(child).join(", "))?;
        }
        if !self.trace.is_empty() {
            let trace: Vec<String> = self.trace.iter().map(ToString::to_string).collect();
            writeln!(f, "  trace       {}", trace.join(", "))?;
        }
        if let Some(next) = next(node) {
            writeln!(f, "  next        {next}")?;
        }
        let Some((newest, before)) = self.crashes.split_last() else { return Ok(()) };
        write!(f, "{newest}")?;
        before.iter().rev().try_for_each(|crash| writeln!(f, "{}", crash.line()))
    }
}

/// What an operator can do about the node's condition.
fn next(node: &Node) -> Option<&'static str> {
    Some(match (node.status, node.reading, node.phase) {
        (Status::Parked, ..) => {
            "`unpark` starts it again, and its turn continues or waits; abort the turn if it is what crashes"
        }
        (Status::Unkillable, ..) => {
            "it is in code that never awaits: only the end of that code, or of the process, ends it"
        }
        (_, Reading::Busy, _) => "wait, or `stop` it: it is killed when it does not end, and what is on its tape stays",
        (Status::Backoff, ..) => "it restarts automatically; `restart` does so now",
        (_, _, Some("interrupted")) => "a message or `go_on` continues its turn, `abort` ends it",
        (_, _, Some("held")) => "a message or `go_on` releases its queue",
        (_, _, Some("storage")) => {
            "make room on the disk, or bring the database back: it is tried again every half second, and nothing is lost"
        }
        (_, _, Some(UNDONE)) => {
            "look at that path for what is in the way (room, rights), then start the runtime again: it is tried then, and when a \
             session that it is about is opened; `Runtime::left_undone` has all of it"
        }
        (_, _, Some("paused")) => "`resume` continues it",
        (_, _, Some("asking")) => "a person has to answer, or the ask's limit denies it",
        _ => return None,
    })
}

/// Counts over the whole tree at one moment. As text through `Display`, as JSON through `Serialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Count {
    /// Supervised processes, including those that are down.
    pub specs: usize,
    /// Processes that are up.
    pub active: usize,
    /// Processes that are supervisors.
    pub supervisors: usize,
    /// Processes that are not supervisors.
    pub workers: usize,
    /// Sessions that are live, parked or waiting for their restart.
    pub sessions: usize,
    /// Sessions in a turn.
    pub in_turn: usize,
    /// Processes that are kept stopped.
    pub parked: usize,
    /// Processes on their way up again after a crash.
    pub restarting: usize,
    /// Processes that have been handling one message for 100 ms or more, or did not end although they were killed.
    pub busy: usize,
    /// Model requests that run.
    pub requests: usize,
    /// Tool calls that run.
    pub calls: usize,
}

impl Count {
    fn add(&mut self, state: &NodeState) {
        let node = Node::of(state);
        let one = usize::from;
        if state.role == Role::Task {
            self.requests += one(node.kind == "request");
            self.calls += one(node.kind == "call");
            return;
        }
        let is_supervisor = state.admin().is_some();
        let is_session = node.kind == "session";
        self.specs += 1;
        self.active += one(matches!(node.status, Status::Running | Status::Stopping | Status::Unkillable));
        self.supervisors += one(is_supervisor);
        self.workers += one(!is_supervisor);
        self.sessions += one(is_session);
        self.in_turn += one(is_session
            && SessionFigures::of(&node).is_some_and(|figures| figures.at.is_some())
            && node.status.is_alive());
        self.parked += one(node.status == Status::Parked);
        let begins_again = node.status == Status::Starting && node.incarnation > 1;
        self.restarting += one(node.status == Status::Backoff || begins_again);
        self.busy += one(node.reading == Reading::Busy || node.status == Status::Unkillable);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { specs, active, sessions, in_turn, parked, restarting, busy, requests, calls, .. } = self;
        write!(
            f,
            "{specs} processes, {active} up; {sessions} sessions, {in_turn} in a turn; {requests} requests, {calls} calls; \
             {busy} busy, {restarting} restarting, {parked} parked"
        )
    }
}

/// What [`Runtime::top`] sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum By {
    /// Messages that wait in the node's queue.
    Queue,
    /// How long the node has handled its present message, in milliseconds.
    Busy,
    /// Restarts after crashes.
    Restarts,
    /// Tokens used.
    Tokens,
    /// The age of the present incarnation, in milliseconds.
    Age,
}

impl By {
    fn of(self, node: &Node) -> u64 {
        match self {
            By::Queue => node.queue,
            By::Busy => node.busy_ms.unwrap_or(0),
            By::Restarts => node.restarts,
            By::Tokens => SessionFigures::of(node).map_or(0, |figures| figures.usage.total()),
            By::Age => node.age_ms.unwrap_or(0),
        }
    }
}

/// The nodes with the largest values of one kind. As text through `Display`, as JSON through `Serialize`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Top {
    /// What the nodes are sorted by.
    pub by: By,
    /// The nodes, largest value first, without their children.
    pub nodes: Vec<Node>,
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&flat(&self.nodes))
    }
}
