//! What the operator's commands print for people: pure functions of the server's JSON.

use std::fmt::Write as _;

use serde_json::Value;
use tamtam::SessionId;

use super::super::escape;

/// The longest text of a column.
const COLUMN_MAX: usize = 40;

/// The nodes of sessions in a tree, parents before their children.
pub(super) fn sessions(tree: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    let mut next: Vec<&Value> = tree.as_array().into_iter().flatten().rev().collect();
    while let Some(node) = next.pop() {
        if node["kind"] == "session" {
            let mut row = node.clone();
            if let Some(fields) = row.as_object_mut() {
                fields.remove("children");
            }
            found.push(row);
        }
        next.extend(node["children"].as_array().into_iter().flatten().rev());
    }
    found
}

/// A session's state in a word: what it does while it is up, else how its actor is.
fn state(node: &Value) -> &str {
    match (node["status"].as_str().unwrap_or("unknown"), node["phase"].as_str()) {
        ("running", Some(phase)) => phase,
        (status, _) => status,
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape::short(text, COLUMN_MAX),
        other => other.to_string(),
    }
}

/// Money in dollars; `unknown` where a request had no price.
fn cost(node: &Value) -> String {
    let dollars = |micro: u64| format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100);
    match (node["cost"].as_u64(), node["cost_at_least"].as_u64()) {
        (Some(cost), _) => dollars(cost),
        (None, Some(least)) => format!("{}+", dollars(least)),
        (None, None) => "unknown".to_owned(),
    }
}

/// A duration in its two largest units.
fn age(ms: &Value) -> String {
    let Some(seconds) = ms.as_u64().map(|ms| ms / 1_000) else { return String::new() };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The table of `ps`: those that need a person first.
pub(super) fn ps(sessions: &[Value]) -> String {
    if sessions.is_empty() {
        return "no session is awake\n".to_owned();
    }
    let mut rows: Vec<_> = sessions.iter().collect();
    let needs =
        |node: &Value| node["status"] == "parked" || matches!(state(node), "asking" | "interrupted" | "storage");
    rows.sort_by_key(|node| !needs(node));
    let rows = rows.into_iter().map(|node| {
        let since = if node["doing_ms"].is_null() { &node["age_ms"] } else { &node["doing_ms"] };
        let (does, tokens) = (text(&node["doing"]), text(&node["tokens"]));
        [
            text(&node["id"]),
            state(node).to_owned(),
            age(since),
            text(&node["queue"]),
            text(&node["restarts"]),
            tokens,
            cost(node),
            does,
        ]
    });
    let head = ["SESSION", "STATE", "SINCE", "INBOX", "RESTARTS", "TOKENS", "COST", "DOES"].map(str::to_owned);
    table(std::iter::once(head).chain(rows))
}

fn table<const N: usize>(rows: impl Iterator<Item = [String; N]>) -> String {
    let rows: Vec<_> = rows.collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..N).map(width).collect();
    let mut shown = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}

/// What became of a message.
pub(super) fn receipt(id: &SessionId, receipt: &Value) -> String {
    if receipt["stage"] == "accepted" {
        return format!("session {id}: message {} goes to the server that has the session", text(&receipt["message"]));
    }
    let became = match &receipt["disposition"] {
        Value::String(word) if word == "started" => "begins a turn".to_owned(),
        Value::String(word) if word == "steering" => "goes to the running turn".to_owned(),
        other => match other["queued"]["before"].as_u64() {
            Some(0) => "is next in the queue".to_owned(),
            Some(before) => format!("waits behind {before}"),
            None => "is accepted".to_owned(),
        },
    };
    format!("session {id}: message {} {became} (entry {})", text(&receipt["message"]), receipt["seq"])
}

/// Crash reports, oldest first.
pub(super) fn crashes(crashes: &[Value]) -> String {
    if crashes.is_empty() {
        return "no crash\n".to_owned();
    }
    let mut shown = String::new();
    for crash in crashes {
        let who = if crash["path"].is_null() { &crash["offender"] } else { &crash["path"] };
        let reason = &crash["reason"];
        let why = match (reason["kind"].as_str(), reason["detail"].as_str()) {
            (Some(kind), Some(detail)) => format!("{kind}: {detail}"),
            (Some(kind), None) => kind.to_owned(),
            _ => reason.as_str().map_or_else(|| reason.to_string(), str::to_owned),
        };
        let _ = writeln!(
            shown,
            "#{} {} incarnation {}: {}",
            crash["number"],
            text(who),
            crash["incarnation"],
            escape::line(&why)
        );
        for (name, label) in [("message", "in hand"), ("doing", "doing"), ("decision", "then")] {
            if !crash[name].is_null() {
                let value = crash[name].as_str().map_or_else(|| crash[name].to_string(), str::to_owned);
                let _ = writeln!(shown, "   {label}: {}", escape::line(&value));
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_that_need_a_person_come_first() {
        let tree = json!([{ "kind": "supervisor", "id": "runtime", "children": [
            { "kind": "session", "id": "calm", "status": "running", "phase": "idle", "age_ms": 61_000, "queue": 0, "restarts": 0,
              "tokens": 7, "cost": 1_234_567, "children": [{ "kind": "worker", "id": "request" }] },
            { "kind": "session", "id": "\u{1b}[31masks", "status": "running", "phase": "asking", "doing": "waits", "doing_ms": 5,
              "queue": 1, "restarts": 2, "tokens": 1, "unpriced": 1 },
        ] }]);
        let shown = ps(&sessions(&tree));
        let rows: Vec<_> = shown.lines().collect();
        assert!(rows[0].starts_with("SESSION") && rows[1].contains("asks") && rows[2].starts_with("calm"), "{shown}");
        assert!(!shown.contains('\u{1b}') && rows[1].contains("unknown"), "{shown}");
        assert!(rows[2].contains("1 min 1 s") && rows[2].contains("$1.2345"), "{shown}");
        assert_eq!(ps(&[]), "no session is awake\n");
    }

    #[test]
    fn a_receipt_says_what_becomes_of_the_message() {
        let id = "a".parse().unwrap();
        let said = |disposition: Value| receipt(&id, &json!({ "message": "m", "seq": 3, "disposition": disposition }));
        assert_eq!(said(json!("started")), "session a: message m begins a turn (entry 3)");
        assert_eq!(said(json!("steering")), "session a: message m goes to the running turn (entry 3)");
        assert_eq!(said(json!({ "queued": { "before": 2 } })), "session a: message m waits behind 2 (entry 3)");
        let passed_on = receipt(&id, &json!({ "message": "m", "stage": "accepted" }));
        assert_eq!(passed_on, "session a: message m goes to the server that has the session");
    }
}
