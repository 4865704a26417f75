//! A picture of the tree at one moment, for people and for programs.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::Arc,
    time::Duration,
};

use serde::Serialize;

use crate::{
    ids::Millis,
    supervisor::{
        card::{ActorCard, Status, millis},
        exit::ExitReason,
    },
};

/// One actor, supervisor or worker at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// Names the node within its runtime, for as long as the node is there.
    pub key: u64,
    /// Its id; unique among the children of one supervisor.
    pub id: String,
    /// The ids from the root of its supervisors down to it.
    pub path: String,
    /// What kind of node it is.
    pub kind: &'static str,
    /// What it is.
    pub status: Status,
    /// What it does now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// How long it has been doing that, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doing_ms: Option<u64>,
    /// How long the message in its hand has been there, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ms: Option<u64>,
    /// When this incarnation started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    /// How old this incarnation is, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
    /// Which life it is in: 1 for the first.
    pub incarnation: u64,
    /// The number of its start within its supervisor.
    pub generation: u64,
    /// Restarts after crashes, in all.
    pub restarts: u64,
    /// Restarts that still count.
    pub restarts_in_window: u64,
    /// How it ended the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitReason>,
    /// Messages handled, in all incarnations.
    pub handled: u64,
    /// What waits in its queue.
    pub queue: u64,
    /// The most that ever waited there.
    pub queue_peak: u64,
    /// Tokens used.
    pub tokens: u64,
    /// The end of its tape; 0 where it has none.
    pub tape_seq: u64,
    /// The nodes shown under it.
    pub children: Vec<Node>,
}

impl Node {
    fn of(card: &ActorCard) -> Node {
        let words = card.words();
        let numbers = card.numbers();
        Node {
            key: card.key(),
            id: card.id().to_owned(),
            path: card.path().to_owned(),
            kind: card.kind(),
            status: words.status,
            doing: words.doing.as_ref().map(|(what, _)| what.clone()),
            doing_ms: words.doing.as_ref().map(|(_, since)| millis(since.elapsed())),
            busy_ms: words.in_hand.as_ref().map(|(_, since)| millis(since.elapsed())),
            started_at: words.started_at.as_ref().map(|(at, _)| *at),
            age_ms: words.started_at.as_ref().map(|(_, since)| millis(since.elapsed())),
            incarnation: numbers.incarnation,
            generation: numbers.generation,
            restarts: numbers.restarts,
            restarts_in_window: numbers.restarts_in_window,
            last_exit: words.last_exit.clone(),
            handled: numbers.handled,
            queue: numbers.depth,
            queue_peak: numbers.depth_peak,
            tokens: numbers.tokens,
            tape_seq: numbers.tape_seq,
            children: Vec::new(),
        }
    }

    /// This node, or the first below it, with this id.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Node> {
        if self.id == id { Some(self) } else { self.children.iter().find_map(|child| child.find(id)) }
    }
}

/// Puts cards under their parents. Cards whose parent is missing, or which are under themselves, become roots.
pub(crate) fn grow(cards: &[Arc<ActorCard>]) -> Vec<Node> {
    let mut nodes: HashMap<u64, Node> = cards.iter().map(|card| (card.key(), Node::of(card))).collect();
    let parents: HashMap<u64, Option<u64>> = cards.iter().map(|card| (card.key(), card.words().parent)).collect();
    // A node goes into its parent only when it is complete itself: the deepest first.
    let mut order: Vec<(usize, u64)> = nodes.keys().map(|key| (depth(*key, &parents), *key)).collect();
    order.sort_unstable_by_key(|(depth, key)| (std::cmp::Reverse(*depth), *key));
    let mut roots = Vec::new();
    for (depth, key) in order {
        let Some(node) = nodes.remove(&key) else { continue };
        let parent = if depth == 0 { None } else { parents.get(&key).copied().flatten() };
        match parent.and_then(|parent| nodes.get_mut(&parent)) {
            Some(parent) => parent.children.push(node),
            None => roots.push(node),
        }
    }
    roots
}

/// How many steps from the root; 0 for a root, and for all nodes of a circle.
fn depth(key: u64, parents: &HashMap<u64, Option<u64>>) -> usize {
    let mut seen = HashSet::from([key]);
    let mut at = key;
    while let Some(parent) = parents.get(&at).copied().flatten().filter(|parent| parents.contains_key(parent)) {
        if !seen.insert(parent) {
            return 0;
        }
        at = parent;
    }
    seen.len() - 1
}

/// The tree as text, one node a line.
///
/// ```text
/// runtime           supervisor  running   up 12 s
/// ├─ sessions       supervisor  running   up 12 s
/// │  └─ ticket-4711 session     running   up 9 s, restarts 1 (1 in window), queue 2, model gpt-x for 3 s
/// └─ timekeeper     worker      running   up 12 s
/// ```
#[must_use]
pub fn render(roots: &[Node]) -> String {
    let mut lines: Vec<(String, &Node)> = Vec::new();
    for root in roots {
        lines.push((root.id.clone(), root));
        list(root, "", &mut lines);
    }
    let name = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let kind = lines.iter().map(|(_, node)| node.kind.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, node) in lines {
        let status = node.status.to_string();
        // Writing to a String cannot fail.
        let _ = write!(text, "{line:name$}  {:kind$}  {status:10}", node.kind);
        let facts = facts(node).join(", ");
        if !facts.is_empty() {
            let _ = write!(text, "  {facts}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn list<'a>(node: &'a Node, indent: &str, lines: &mut Vec<(String, &'a Node)>) {
    for (index, child) in node.children.iter().enumerate() {
        let last = index + 1 == node.children.len();
        let (branch, below) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        lines.push((format!("{indent}{branch}{}", child.id), child));
        list(child, &format!("{indent}{below}"), lines);
    }
}

fn facts(node: &Node) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(age) = node.age_ms {
        facts.push(format!("up {}", span(age)));
    }
    if let (Some(doing), Some(since)) = (&node.doing, node.doing_ms) {
        facts.push(format!("{doing} for {}", span(since)));
    }
    if let Some(busy) = node.busy_ms.filter(|busy| *busy >= 1000) {
        facts.push(format!("busy for {}", span(busy)));
    }
    if node.restarts > 0 {
        facts.push(format!("restarts {} ({} in window)", node.restarts, node.restarts_in_window));
    }
    if let Some(exit) = &node.last_exit {
        facts.push(format!("last exit {}", one_line(&exit.to_string())));
    }
    if node.queue_peak > 0 {
        facts.push(format!("queue {} (peak {})", node.queue, node.queue_peak));
    }
    if node.tokens > 0 {
        facts.push(format!("tokens {}", node.tokens));
    }
    if node.tape_seq > 0 {
        facts.push(format!("tape {}", node.tape_seq));
    }
    facts
}

fn one_line(text: &str) -> String {
    let short: String = text.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() { short + "…" } else { short }
}

fn span(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
