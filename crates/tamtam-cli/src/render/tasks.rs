//! What the tasks of a session do, as lines for people: begun, each finished call, over. Of a child's text nothing is shown; its
//! parent says what came of it. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tamtam::{
    Seq, SessionId,
    session::{Down, DownReason},
};

use super::work::count;
use crate::escape;

/// Most characters of a line about a task.
const LINE_MAX: usize = 160;

/// The tasks that were seen and are not over.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// What the running calls say that they do, by ticket: of a call that gives a task, `AGENT: DESCRIPTION`.
    titles: BTreeMap<Seq, String>,
    shown: BTreeMap<SessionId, Task>,
    /// The children whose tasks are over. The call that waits for one may still report its progress.
    over: BTreeSet<SessionId>,
}

#[derive(Debug)]
struct Task {
    /// The name of its agent; with a number where another task has the same agent.
    name: String,
    /// The newest finished calls, as they were shown last.
    calls: Vec<Value>,
}

impl Tasks {
    /// A child gets a task, perhaps not its first.
    pub(super) fn begun(&mut self, child: &SessionId) {
        self.over.remove(child);
    }

    /// A running call says what it does.
    pub(super) fn titled(&mut self, ticket: Seq, title: &str) {
        self.titles.insert(ticket, title.to_owned());
    }

    /// The lines for the progress of a call; none where the call waits for no task.
    pub(super) fn progress(&mut self, ticket: Seq, progress: &Value) -> Vec<String> {
        let Some(child) = progress["session_id"].as_str().and_then(|id| id.parse().ok()) else { return Vec::new() };
        let Some(title) = self.titles.get(&ticket).cloned() else { return Vec::new() };
        let mut lines = self.named(&child, &title);
        let calls = progress["events"].as_array().cloned().unwrap_or_default();
        if let Some(task) = self.shown.get_mut(&child) {
            for call in &calls[known(&task.calls, &calls)..] {
                let mark = if call["failed"] == true { '✗' } else { '✓' };
                let tool = call["tool"].as_str().unwrap_or_default();
                let title = call["title"].as_str().map_or_else(String::new, |title| format!(": {title}"));
                lines.push(format!("  {}", escape::short(&format!("{}: {mark} {tool}{title}", task.name), LINE_MAX)));
            }
            task.calls = calls;
        }
        lines
    }

    /// A call is over. The line for a task that it gave and did not wait for.
    pub(super) fn call_finished(&mut self, ticket: Seq, title: Option<&str>, details: &Value) -> Vec<String> {
        self.titles.remove(&ticket);
        match (details["session_id"].as_str().and_then(|id| id.parse().ok()), title) {
            // A task that is over has a status in its details.
            (Some(child), Some(title)) if details["status"].is_null() => self.named(&child, title),
            _ => Vec::new(),
        }
    }

    /// The line for a task that is over.
    pub(super) fn finished(&mut self, child: &SessionId, down: &Down) -> String {
        self.over.insert(child.clone());
        let name = match self.shown.remove(child) {
            Some(task) => task.name,
            None => format!("task {}", child.as_str().chars().take(8).collect::<String>()),
        };
        let ended = match &down.reason {
            DownReason::Done => "finished".to_owned(),
            reason => reason.to_string(),
        };
        let cost = down.spent.as_ref().and_then(|spent| spent.cost.exact()).filter(|cost| cost.0 > 0);
        let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
        let steps = count(usize::try_from(down.steps).unwrap_or(usize::MAX), "step");
        format!("  {} ({steps}{cost})", escape::short(&format!("{name} – {ended}"), LINE_MAX))
    }

    /// Names a task after the title of the call that gave it; the line for one that has no name yet.
    fn named(&mut self, child: &SessionId, title: &str) -> Vec<String> {
        if self.shown.contains_key(child) || self.over.contains(child) {
            return Vec::new();
        }
        let (agent, what) = title.split_once(": ").unwrap_or(("task", title));
        let is_taken = |name: &str| self.shown.values().any(|task| task.name == name);
        let mut names = (2..).map(|number| format!("{agent} {number}"));
        let name = match is_taken(agent) {
            false => agent.to_owned(),
            true => names.find(|name| !is_taken(name)).unwrap_or_default(),
        };
        let line = format!("  {}", escape::short(&format!("{name}: {what} – started"), LINE_MAX));
        self.shown.insert(child.clone(), Task { name, calls: Vec::new() });
        vec![line]
    }
}

/// How many calls at the front of a list of the newest ones were in the list before it.
fn known(before: &[Value], now: &[Value]) -> usize {
    let gone = (0..=before.len()).find(|gone| now.starts_with(&before[*gone..]));
    before.len() - gone.unwrap_or(before.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_task_is_shown_by_its_finished_calls_and_each_of_them_once() {
        let call = |title: &str| json!({"tool": "bash", "title": title});
        let progress = |child: &str, events: Value| json!({"session_id": child, "events": events, "partial_output": "x".repeat(900)});
        let mut tasks = Tasks::default();
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([]))), Vec::<String>::new());
        tasks.titled(Seq(4), "general: look at the first half");
        tasks.titled(Seq(5), "general: look at the second half");
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([]))), ["  general: look at the first half – started"]);
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([call("one")]))), ["  general: ✓ bash: one"]);
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([call("one")]))), Vec::<String>::new());
        let failed = json!({"tool": "edit", "failed": true});
        let lines = tasks.progress(Seq(5), &progress("c2", json!([failed])));
        assert_eq!(lines, ["  general 2: look at the second half – started", "  general 2: ✗ edit"]);
        // The window of newest calls goes on.
        let lines = tasks.progress(Seq(4), &progress("c1", json!([call("one"), call("two"), call("three")])));
        assert_eq!(lines, ["  general: ✓ bash: two", "  general: ✓ bash: three"]);
        let lines = tasks.progress(Seq(4), &progress("c1", json!([call("three"), call("four")])));
        assert_eq!(lines, ["  general: ✓ bash: four"]);
        assert_eq!(known(&[call("one")], &[call("two")]), 0);
        // A late report about a task that is over says nothing; a next task of the same child is shown.
        let child = "c1".parse::<SessionId>().unwrap();
        tasks.shown.remove(&child);
        tasks.over.insert(child.clone());
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([call("four")]))), Vec::<String>::new());
        tasks.begun(&child);
        assert_eq!(tasks.progress(Seq(4), &progress("c1", json!([]))), ["  general: look at the first half – started"]);
    }
}
