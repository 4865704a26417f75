//! Renders the tree as text: one node a line, in the order of the tree, with its status and then its facts. Of the facts the most
//! urgent one comes first.
//!
//! Functions of values. A change must keep that foreign text (ids of children, reasons, what a node does, what an actor says of
//! itself) loses its control characters ([`one_line`], [`plain`]): they could break the line, or give orders to the terminal. The
//! id of a root and the paths of [`flat`] are written as they are, because supervisors refuse ids with control characters, and a
//! runtime names its workers `request` or by their tool, with a number.

use std::{fmt::Write, time::Duration};

use crate::supervisor::{node_state::Status, status::Reading, tree::Node};

/// The most characters that a line shows of a child's id, of a reason, and of what a node does. The id of a root, paths and the
/// facts of a payload are shown whole.
const REASON_CHARS_MAX: usize = 100;

/// The tree as text, one node a line.
///
/// ```text
/// runtime              supervisor  running  up 12 s
/// └─ sessions          supervisor  running  up 12 s
///    ├─ ticket-4711    session     running  turn 12 step 3: runs bash for 31 s, queue 2 (peak 5), tokens 900 in 120 out, …
///    │  └─ bash 40     call        running  bash {"command":"cargo test"} for 31 s
///    └─ ticket-4712    session     parked   last seen at turn 7 step 1: asks openai/gpt-x, last exit 3 s ago: panic: …, …
/// ```
#[must_use]
pub fn render(roots: &[Node]) -> String {
    let mut lines: Vec<(String, &Node)> = Vec::new();
    for root in roots {
        lines.push((root.id.clone(), root));
        list(root, "", &mut lines);
    }
    table(lines)
}

/// Nodes as a table, each by its path and without its children.
pub(crate) fn flat(nodes: &[Node]) -> String {
    table(nodes.iter().map(|node| (node.path.clone(), node)).collect())
}

fn table(lines: Vec<(String, &Node)>) -> String {
    let name = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let kind = lines.iter().map(|(_, node)| node.kind.len()).max().unwrap_or(0);
    let status = lines.iter().map(|(_, node)| node.status.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (line, node) in lines {
        // Writing to a String cannot fail.
        let _ = write!(text, "{line:name$}  {:kind$}  {:status$}", node.kind, node.status.as_str());
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
        lines.push((format!("{indent}{branch}{}", one_line(&child.id)), child));
        list(child, &format!("{indent}{below}"), lines);
    }
}

/// The facts of a node, the most urgent first.
pub(crate) fn facts(node: &Node) -> Vec<String> {
    let mut facts = Vec::new();
    if let (Reading::Busy, Some(what), Some(busy)) = (node.reading, node.busy_with, node.busy_ms) {
        facts.push(format!("BUSY with {what} for {}", span(busy)));
    }
    match (node.reading, &node.doing, node.doing_ms) {
        // A busy node said this before it began to handle the present message.
        (Reading::PostMortem | Reading::Busy, Some(doing), _) => {
            facts.push(format!("last seen at {}", one_line(doing)))
        }
        (_, Some(doing), Some(since)) => facts.push(format!("{} for {}", one_line(doing), span(since))),
        _ => facts.extend(node.phase.filter(|_| node.reading != Reading::PostMortem).map(str::to_owned)),
    }
    if node.status == Status::Starting && node.incarnation > 1 {
        facts.push(format!("begins incarnation {}", node.incarnation));
    }
    if let Some(exit) = &node.last_exit {
        let ago = node.last_exit_ms.map(span).unwrap_or_default();
        facts.push(format!("last exit {ago} ago: {}", one_line(&exit.to_string())));
    }
    if node.restarts > 0 {
        facts.push(format!("restarts {} (crashes in window {})", node.restarts, node.restarts_in_window));
    }
    if node.queue > 0 {
        facts.push(format!("queue {} (peak {})", node.queue, node.queue_peak));
    }
    if node.queue_rejected > 0 {
        facts.push(format!("{} turned away", node.queue_rejected));
    }
    facts.extend(node.payload.facts().iter().map(|fact| plain(fact)));
    if let Some(age) = node.age_ms {
        facts.push(format!("up {}", span(age)));
    }
    facts
}

/// A foreign text for one line: without control characters, and cut if it is long.
pub(crate) fn one_line(text: &str) -> String {
    let mut chars = text.chars();
    let short: String = chars.by_ref().take(REASON_CHARS_MAX).collect();
    plain(&short) + if chars.next().is_some() { "…" } else { "" }
}

/// A foreign text, whole, with a blank for each control character.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A length of time, as roughly as people say it.
pub(crate) fn span(ms: u64) -> String {
    let seconds = Duration::from_millis(ms).as_secs();
    match seconds {
        0 => format!("{ms} ms"),
        1..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
