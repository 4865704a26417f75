//! A conversation as messages of parts: what a page shows of it, while it runs and afterwards.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Message, Outcome, Runtime, SessionOptions,
    event::Next,
    message::{FilePart, Part},
    model::{ErrorKind, ModelError, Reply, Scripted},
    permission::{Action, Rule, Ruleset},
    tools,
    usage::Usage,
};

use crate::support::taped;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0";

/// Whatever is a moment becomes `"T"`; that the moments of one thing are in order is checked here.
fn without_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Object(fields) => {
            for (begins, ends) in [("start", "end"), ("created", "completed")] {
                if let (Some(begin), Some(end)) = (fields.get(begins), fields.get(ends)) {
                    assert!(begin.as_u64().unwrap() <= end.as_u64().unwrap(), "{fields:?}");
                }
            }
            for (name, value) in fields.iter_mut() {
                // A script has no clock: its thoughts are at 0.
                let is_time = matches!(name.as_str(), "start" | "end" | "created" | "completed" | "time");
                if is_time && value.as_u64().is_some_and(|time| time > 0) {
                    *value = json!("T");
                } else if name != "input" {
                    without_times(value);
                }
            }
        }
        _ => {}
    }
}

async fn told(session: &tamtam::Session) -> Value {
    let mut messages = serde_json::to_value(session.messages().await.unwrap()).unwrap();
    without_times(&mut messages);
    messages
}

/// A-16, C-p2, C-p3, C-p4, C-p7, C-p8, C-p9, C-p10, C-p11, C-p12, C-16, K-12, B-03, H-15: a turn is told as messages with every
/// field: text, thought and file, the retry, the bounds of each step with its tokens, and each call from pending over running
/// to completed or error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_told_as_messages_while_it_runs_and_afterwards() {
    let folder = taped::folder();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    let work = |name: &str| folder.path().join("work").join(name);
    std::fs::write(work("dot.png"), PNG).unwrap();
    let usage = Usage { input: 7, output: 5, reasoning: 2, cache_read: 3, cache_write: 1 };
    let busy = ModelError::new(ErrorKind::Overloaded, "busy").with_retry_after(Some(Duration::from_millis(1)));
    let wait = r#"{"command":"until [ -e ../go ]; do sleep 0.02; done"}"#;
    let model = Arc::new(Scripted::new([
        Reply::error(busy),
        Reply::empty()
            .with_reasoning("hm")
            .with_text("I look.")
            .with_raw_call("c1", "bash", wait)
            .with_raw_call("c2", "bash", r#"{"command":"rm -r ."}"#)
            .with_raw_call("c3", "read", r#"{"path":"dot.png"}"#)
            .with_raw_call("c4", "read", r#"{"path":"none"}"#)
            .with_usage(usage),
        Reply::text("Done."),
    ]));
    let builder = Runtime::builder().store(folder.path().join("store")).model(model).tools(tools::full());
    let runtime = builder.start().await.unwrap();
    let mut options = SessionOptions::new(work(""));
    let rules = vec![Rule::new("*", "**", Action::Allow), Rule::new("bash", "rm *", Action::Deny)];
    options.rules = Some(Ruleset { name: "test".into(), rules });
    let session = runtime.create(options).await.unwrap();
    assert!(session.state().await.unwrap().is_idle());
    let mut events = session.events();
    let message =
        Message::user("look").with_id("m-1".into()).with_part(Part::file("text/plain", Some("a.txt".into()), b"note"));
    let receipt = session.prompt(message).await.unwrap();
    while let Some(next) = events.next().await {
        if matches!(next, Next::Event(event) if matches!(&event.kind, EventKind::CallStarted { call, .. } if call.as_str() == "c1"))
        {
            break;
        }
    }

    assert!(!session.state().await.unwrap().is_idle());
    let running = told(&session).await;
    let states: Vec<&Value> = running[1]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["type"] == "tool")
        .map(|part| &part["state"])
        .collect();
    assert_eq!(states[0], &json!({"status": "running", "input": wait, "time": {"start": "T"}}));
    assert_eq!(states[2], &json!({"status": "pending", "input": r#"{"path":"dot.png"}"#}));

    // Beside the workspace: what appears in it while a command runs is taken for its work.
    std::fs::write(folder.path().join("go"), "").unwrap();
    let answer = receipt.wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "Done."));
    session.wait().await.unwrap();
    assert!(session.state().await.unwrap().is_idle());
    let mut messages = told(&session).await;
    let metadata = messages[1]["parts"][4]["state"].as_object_mut().unwrap().remove("metadata").unwrap();
    assert_eq!(metadata["exit_code"], 0);
    messages[1]["parts"][6]["state"].as_object_mut().unwrap().remove("metadata").unwrap();
    let (image, span) = (FilePart::inline("image/png", Some("dot.png".into()), PNG), json!({"start": "T", "end": "T"}));
    let call = |id: &str, tool: &str, state: Value| json!({"type": "tool", "callID": id, "tool": tool, "state": state});
    let finish = |step: u32, finish: &str, tokens: Usage| json!({"type": "step-finish", "step": step, "finish": finish, "tokens": tokens});
    let answered = |parts: Value, finish: &str, tokens: Usage| {
        json!({"role": "assistant", "parts": parts, "agent": "build", "model": {"provider": "scripted", "model": "script"},
            "time": {"created": "T", "completed": "T"}, "tokens": tokens, "finish": finish})
    };
    let calls = [
        call(
            "c1",
            "bash",
            json!({"status": "completed", "input": wait, "output": "(no output)",
            "title": "until [ -e ../go ]; do sleep 0.02; done", "time": span}),
        ),
        call(
            "c2",
            "bash",
            json!({"status": "error", "input": r#"{"command":"rm -r ."}"#, "reason": "denied",
            "error": "Permission denied: bash rm -r . by test (deny bash rm *).", "time": span}),
        ),
        call(
            "c3",
            "read",
            json!({"status": "completed", "input": r#"{"path":"dot.png"}"#, "title": "Read dot.png",
            "output": format!("[Image: image/png, {} bytes]", PNG.len()), "time": span, "attachments": [image]}),
        ),
        call(
            "c4",
            "read",
            json!({"status": "error", "input": r#"{"path":"none"}"#, "reason": "failed",
            "error": "none: No such file or directory (ENOENT)", "time": span}),
        ),
    ];
    let mut parts = vec![
        json!({"type": "step-start", "step": 1}),
        json!({"type": "retry", "attempt": 1, "error": "busy", "time": "T"}),
        json!({"type": "reasoning", "text": "hm", "time": {"start": 0}}),
        json!({"type": "text", "text": "I look."}),
    ];
    parts.extend(calls);
    parts.push(finish(1, "tool-calls", usage));
    let rest = json!([{"type": "step-start", "step": 2}, {"type": "text", "text": "Done."}, finish(2, "stop", Usage::default())]);
    let mut expected = json!([
        {"id": "m-1", "role": "user", "time": {"created": "T", "completed": "T"}, "parts": [
            {"type": "text", "text": "look"},
            {"type": "file", "url": "data:text/plain;base64,bm90ZQ==", "filename": "a.txt", "mime": "text/plain"},
        ]},
        answered(json!(parts), "tool-calls", usage),
        answered(rest, "stop", Usage::default()),
    ]);
    for n in [1, 2] {
        let id = messages[n]["id"].as_str().unwrap();
        assert!(id.starts_with("answer-"), "{id}");
        expected[n]["id"] = id.into();
    }
    assert_eq!(messages, expected, "{messages:#}");
    assert!(runtime.shutdown().await.is_empty());
}
