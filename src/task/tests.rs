#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::{
    permission::{Action, Rule},
    words::message::{FileChange, FileImage, FilePart, FileState},
};

/// O-14 to O-19: the schema of each envelope is the one that is checked in. `UPDATE_SCHEMA=1` rewrites it.
#[cfg(feature = "tools")]
#[test]
fn the_schemas_are_those_that_are_checked_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    for (name, schema) in [
        ("task_request", schemars::schema_for!(TaskRequest)),
        ("task_progress", schemars::schema_for!(TaskProgress)),
        ("task_result", schemars::schema_for!(TaskResult)),
    ] {
        let (file, made) = (folder.join(format!("{name}.json")), serde_json::to_string_pretty(&schema).unwrap() + "\n");
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&file, &made).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), made, "{}", file.display());
    }
}

/// O-14, O-16: every field that the tables of the envelopes name has its place.
#[test]
fn every_field_of_the_tables_is_there() {
    let mut request = TaskRequest::new("explore", "look", "where is it?");
    (request.trace_id, request.task_id) = ("t".into(), "1".into());
    request.parent_task_id = Some("0".into());
    request.sender = Some("parent".parse().unwrap());
    request.recipient = Some("child".parse().unwrap());
    request.input.constraints.time_budget_ms = Some(8_000);
    request.context_refs = vec![ContextRef::new(ContextRefKind::File, "src/lib.rs")];
    request.attachments = vec![FilePart::inline("image/png", None, b"x")];
    request.capabilities = Some(["read".to_owned()].into());
    request.auth_scope = vec![Rule::new("read", "**", Action::Allow)];
    request.idempotency_key = Some("k".into());
    request.deadline_ms = Some(8_000);
    request.resume_token = Some("child".parse().unwrap());
    let written = json!({
        "v": 1, "trace_id": "t", "task_id": "1", "parent_task_id": "0", "sender": "parent", "recipient": "child",
        "agent": "explore", "intent": "look",
        "input": {"query": "where is it?", "constraints": {"time_budget_ms": 8000}},
        "context_refs": [{"type": "file", "id": "src/lib.rs"}],
        "attachments": [{"url": "data:image/png;base64,eA==", "mime": "image/png"}],
        "capabilities": ["read"],
        "auth_scope": [{"permission": "read", "pattern": "**", "action": "allow"}],
        "idempotency_key": "k", "deadline_ms": 8000, "resume_token": "child",
    });
    assert_eq!(serde_json::to_value(&request).unwrap(), written);
    // The least that a request is, from a writer who knows no more.
    let least = json!({"agent": "explore", "intent": "look", "input": {"query": "where?"}, "added_later": true});
    assert_eq!(serde_json::from_value::<TaskRequest>(least).unwrap(), TaskRequest::new("explore", "look", "where?"));
}

fn text() -> impl Strategy<Value = String> {
    "[a-z\u{e9}\u{1f980}\"\\\\ \n]{0,12}"
}

fn id() -> impl Strategy<Value = crate::words::ids::SessionId> {
    "[a-z][a-z0-9._-]{0,20}".prop_map(|id| id.parse().unwrap())
}

fn status() -> impl Strategy<Value = TaskStatus> {
    use TaskStatus::*;
    prop::sample::select(vec![Pending, Running, Completed, Error, Cancelled, TimedOut])
}

fn metrics() -> impl Strategy<Value = TaskMetrics> {
    (any::<[u64; 5]>(), option::of(any::<u64>()), any::<u64>(), any::<u32>()).prop_map(
        |(tokens, cost, latency, steps)| {
            let [input, output, reasoning, cache_read, cache_write] = tokens;
            TaskMetrics {
                tokens: Usage { input, output, reasoning, cache_read, cache_write },
                cost_micro_usd: cost.map(MicroUsd),
                latency_ms: latency,
                steps,
            }
        },
    )
}

fn refs() -> impl Strategy<Value = Vec<ContextRef>> {
    use ContextRefKind::*;
    vec(
        (prop::sample::select(vec![File, Symbol, Doc, Memory]), text()).prop_map(|(kind, id)| ContextRef { kind, id }),
        0..3,
    )
}

fn files() -> impl Strategy<Value = Vec<FilePart>> {
    vec(
        (text(), option::of(text())).prop_map(|(url, filename)| FilePart { url, filename, mime: "text/plain".into() }),
        0..3,
    )
}

fn changes() -> impl Strategy<Value = Vec<FileChange>> {
    let image = || {
        (option::of(text()), any::<u64>()).prop_map(|(hash, bytes)| {
            FileState::File(FileImage { hash, mode: 0o644, bytes, not_kept: None, stamp: None })
        })
    };
    let state = || prop_oneof![Just(FileState::Absent), text().prop_map(FileState::Unknown), image()];
    vec((text(), state(), state()).prop_map(|(path, before, after)| FileChange { path, before, after }), 0..3)
}

prop_compose! {
    fn request()(
        texts in [text(), text(), text(), text(), text()],
        (sender, resume) in (option::of(id()), option::of(id())),
        parent in option::of(text()), context_refs in refs(), attachments in files(),
        capabilities in option::of(prop::collection::btree_set(text(), 0..3)),
        scope in vec((text(), text()), 0..3), key in option::of(text()), deadline in option::of(any::<u64>()),
        limits in any::<[Option<u64>; 3]>(),
    ) -> TaskRequest {
        let [trace, task, agent, intent, query] = texts;
        let mut made = TaskRequest::new(agent, intent, query);
        (made.trace_id, made.task_id, made.parent_task_id) = (trace, task, parent);
        (made.sender, made.recipient, made.resume_token) = (sender.clone(), sender, resume);
        (made.context_refs, made.attachments, made.capabilities) = (context_refs, attachments, capabilities);
        made.auth_scope = scope.into_iter().map(|(a, b)| Rule::new(a, b, Action::Deny)).collect();
        (made.idempotency_key, made.deadline_ms) = (key, deadline);
        let [time_budget_ms, tokens, cost] = limits;
        made.input.constraints = TaskConstraints { time_budget_ms, tokens, cost_micro_usd: cost.map(MicroUsd) };
        made
    }
}

prop_compose! {
    fn progress()(
        texts in [text(), text(), text()], child in id(), status in status(), metrics in metrics(),
        events in vec((text(), option::of(text()), any::<bool>()), 0..4),
        tool in option::of(text()), idle in any::<u64>(), stalled in any::<bool>(),
    ) -> TaskProgress {
        let [trace_id, task_id, partial_output] = texts;
        let events = events.into_iter().map(|(tool, title, failed)| TaskEvent { tool, title, failed }).collect();
        TaskProgress {
            v: 1, trace_id, task_id, session_id: child, status, events, metrics, partial_output, current_tool: tool,
            idle_ms: idle, stalled,
        }
    }
}

prop_compose! {
    fn result()(
        texts in [text(), text(), text(), text()], child in id(), status in status(), metrics in metrics(), citations in refs(),
        calls in vec((text(), any::<u32>(), any::<u32>()), 0..3), attachments in files(), patch in changes(),
        errors in vec((text(), text(), any::<bool>()), 0..3),
    ) -> TaskResult {
        let [trace_id, task_id, answer, agent] = texts;
        let tool_calls = calls.into_iter().map(|(tool, calls, failed)| TaskToolCalls { tool, calls, failed }).collect();
        let errors = errors.into_iter().map(|(code, message, retryable)| TaskError { code, message, retryable }).collect();
        let provenance = TaskProvenance { session_id: child, agent, model: "p/m".into(), sources: Vec::new() };
        let output = TaskOutput { answer, citations };
        TaskResult { v: 1, trace_id, task_id, status, output, tool_calls, attachments, patch, errors, provenance, metrics }
    }
}

fn comes_back<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let written = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&written).unwrap();
    assert_eq!(read, *value);
    // A reader ignores what a later version adds.
    let mut more: Value = serde_json::from_str(&written).unwrap();
    more["added_later"] = json!({"x": [1]});
    assert_eq!(serde_json::from_value::<T>(more).unwrap(), *value);
}

proptest! {
    /// C-24, O-13 to O-19: what is written is what is read, for each of the six states: an envelope needs no process in common.
    #[test]
    fn envelopes_come_back_as_they_were(request in request(), progress in progress(), result in result()) {
        comes_back(&request);
        comes_back(&progress);
        comes_back(&result);
    }
}
