//! Streams as OpenAI and the servers in its place send them.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::{
    model::{Api, Delta, Endpoint, ErrorKind, ModelAnswer, samples},
    words::usage::Usage,
};

fn endpoint() -> Endpoint {
    Endpoint::new(Api::OpenAiResponses, "p", "http://h", "m")
}

fn read_all(events: &[Value]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    samples::read(&endpoint(), &events.iter().map(Value::to_string).collect::<Vec<_>>())
}

fn read(events: &[Value]) -> ModelAnswer {
    read_all(events).0.unwrap()
}

fn fails(events: &[Value]) -> ModelError {
    read_all(events).0.unwrap_err()
}

fn item(name: &str, at: u64, item: &Value) -> Value {
    json!({"type": format!("response.output_item.{name}"), "output_index": at, "item": item})
}

fn delta(name: &str, at: u64, more: &str) -> Value {
    json!({"type": format!("response.{name}.delta"), "output_index": at, "delta": more})
}

fn last(name: &str, response: Value) -> Value {
    json!({"type": format!("response.{name}"), "response": response})
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc", "call_id": id, "name": "read", "arguments": arguments})
}

fn calls(answer: &ModelAnswer) -> Vec<(&str, &str)> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { id, input, .. } => Some((id.as_str(), input.as_str())),
        _ => None,
    });
    calls.collect()
}

/// A thought, a text and two calls in pieces that come in turns; the thought is kept as it must go back.
#[test]
fn thoughts_texts_calls_and_figures_are_read() {
    let thought =
        json!({"type": "reasoning", "id": "rs_1", "status": "completed", "summary": [], "encrypted_content": "E"});
    let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 80}, "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 10}, "total_tokens": 130});
    let paragraph =
        |n: u64| json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": n});
    let (answer, deltas) = read_all(&[
        last("created", json!({"model": "m-1"})),
        item("added", 0, &json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        paragraph(0),
        delta("reasoning_summary_text", 0, "first"),
        paragraph(1),
        delta("reasoning_summary_text", 0, "second"),
        item("done", 0, &thought),
        item("added", 1, &json!({"type": "message", "content": []})),
        delta("output_text", 1, "Hel"),
        delta("output_text", 1, "lo"),
        item("done", 1, &json!({"type": "message", "content": [{"type": "output_text", "text": "Hello"}]})),
        item("added", 2, &call("a", "")),
        item("added", 3, &call("b", "")),
        delta("function_call_arguments", 2, "{\"x\":"),
        delta("function_call_arguments", 3, "{}"),
        delta("function_call_arguments", 2, "1}"),
        item("done", 2, &call("a", "{\"x\":1}")),
        item("done", 3, &call("b", "{}")),
        json!({"type": "response.some_news", "output_index": 9}),
        last("completed", json!({"model": "m-1", "output": [thought, {}, {}, {}], "usage": usage})),
    ]);
    let answer = answer.unwrap();
    assert_eq!((answer.text().as_str(), answer.finish, answer.model.as_str()), ("Hello", Finish::ToolCalls, "m-1"));
    assert_eq!(calls(&answer), [("a", "{\"x\":1}"), ("b", "{}")]);
    assert_eq!(answer.usage, Usage { input: 20, output: 20, reasoning: 10, cache_read: 80, cache_write: 0 });
    let AnswerPart::Reasoning { text, extra, .. } = &answer.parts[0] else { panic!("{answer:?}") };
    assert_eq!(text, "first\n\nsecond");
    let kept = json!({"type": "reasoning", "summary": [], "encrypted_content": "E"});
    assert_eq!(extra, &Some(endpoint().extra(kept)));
    assert!(deltas.contains(&Delta::ReasoningEnded), "{deltas:?}");
}

/// What a server sends once is read once, wherever it sends it.
#[test]
fn whole_items_are_read_where_no_pieces_came_and_never_twice() {
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": "all"}]});
    let thought = json!({"type": "reasoning", "summary": [{"text": "one"}, {"text": "two"}], "encrypted_content": "E"});
    let output = json!([thought, message, call("a", "{}")]);
    let only_the_end = read(&[last("completed", json!({ "output": output }))]);
    let done = read(&[
        item("done", 0, &thought),
        item("done", 1, &message),
        item("done", 2, &call("a", "{}")),
        last("completed", json!({ "output": output })),
    ]);
    // No item begins, and none has a place.
    let bare = read(&[
        json!({"type": "response.reasoning_text.delta", "delta": "one\n\ntwo"}),
        json!({"type": "response.output_text.delta", "delta": "all"}),
        json!({"type": "response.output_item.done", "item": call("a", "{}")}),
        last("completed", json!({ "output": output })),
    ]);
    for answer in [&only_the_end, &done] {
        assert_eq!((answer.text().as_str(), answer.finish), ("all", Finish::ToolCalls));
        assert_eq!(calls(answer), [("a", "{}")]);
        let AnswerPart::Reasoning { text, extra, .. } = &answer.parts[0] else { panic!("{answer:?}") };
        assert!(text == "one\n\ntwo" && extra.is_some(), "{answer:?}");
    }
    assert_eq!((bare.text().as_str(), bare.parts.len()), ("all", 3), "{bare:?}");
}

/// A call runs only when it is complete: one whose end did not come is a cut one, and at the output limit it is shown as it is.
#[test]
fn a_call_without_its_end_is_never_whole() {
    let begun = [item("added", 0, &call("a", "")), delta("function_call_arguments", 0, "{\"x\":")];
    let with = |end: Value| read_all(&[begun.to_vec(), vec![end]].concat()).0;
    assert_eq!(read_all(&begun).0.unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(with(last("completed", json!({"output": []}))).unwrap_err().kind, ErrorKind::Truncated);
    let cut = json!({"type": "function_call", "call_id": "a", "name": "read", "arguments": "{\"x\":", "status": "incomplete"});
    let limit = json!({"output": [cut], "incomplete_details": {"reason": "max_output_tokens"}});
    let answer = with(last("incomplete", limit)).unwrap();
    assert_eq!((answer.finish, calls(&answer)), (Finish::Length, vec![("a", "{\"x\":")]));
    let filtered = json!({"output": [cut], "incomplete_details": {"reason": "content_filter"}});
    assert_eq!(with(last("incomplete", filtered)).unwrap_err().kind, ErrorKind::Truncated);
    assert_eq!(samples::read(&endpoint(), &["[DONE]"]).0.unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn each_end_has_its_meaning() {
    let text = delta("output_text", 0, "x");
    let ends = [
        (last("completed", json!({})), Finish::Stop),
        (last("incomplete", json!({"incomplete_details": {"reason": "max_output_tokens"}})), Finish::Length),
        (last("incomplete", json!({"incomplete_details": {"reason": "content_filter"}})), Finish::ContentFilter),
        (last("incomplete", json!({"incomplete_details": {"reason": "news"}})), Finish::Unknown),
    ];
    for (end, finish) in ends {
        assert_eq!(read(&[text.clone(), end]).finish, finish);
    }
    let refused = read(&[delta("refusal", 0, "No."), last("completed", json!({}))]);
    assert_eq!((refused.text().as_str(), refused.finish), ("No.", Finish::ContentFilter));
    let part = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let refused = read(&[last("completed", json!({"output": [part]}))]);
    assert_eq!((refused.text().as_str(), refused.finish), ("No.", Finish::ContentFilter));
}

#[test]
fn a_failure_is_told_with_its_kind() {
    let error = |code: &str| json!({"code": code, "message": "no"});
    for (code, kind) in [
        ("server_error", ErrorKind::Server),
        ("rate_limit_exceeded", ErrorKind::RateLimited),
        ("context_length_exceeded", ErrorKind::ContextOverflow),
        ("invalid_prompt", ErrorKind::ContentPolicy),
        ("server_is_overloaded", ErrorKind::Overloaded),
    ] {
        let flat = json!({"type": "error", "code": code, "message": "no", "param": null});
        for event in
            [last("failed", json!({"error": error(code)})), flat, json!({"type": "error", "error": error(code)})]
        {
            let failed = fails(std::slice::from_ref(&event));
            assert_eq!(failed.kind, kind, "{event}");
            assert!(failed.message.contains("no") && failed.message.contains(code), "{failed}");
        }
    }
    assert_eq!(fails(&[json!({"error": {"message": "overloaded"}})]).kind, ErrorKind::Overloaded);
}
