//! Streams as the servers of the world really send them.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::{
    model::{Api, Delta, Endpoint, ModelAnswer, samples},
    words::usage::Usage,
};

fn endpoint(reasoning: ReasoningBack) -> Endpoint {
    let mut endpoint = Endpoint::new(Api::OpenAiChat, "p", "http://h", "m");
    endpoint.quirks.reasoning = reasoning;
    endpoint
}

fn read_as(reasoning: ReasoningBack, chunks: &[&str]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    samples::read(&endpoint(reasoning), chunks)
}

fn read(chunks: &[&str]) -> ModelAnswer {
    read_as(ReasoningBack::Never, chunks).0.unwrap()
}

fn fails(chunks: &[&str]) -> ModelError {
    read_as(ReasoningBack::Never, chunks).0.unwrap_err()
}

fn delta(delta: serde_json::Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta}]}).to_string()
}

fn finish(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn calls(answer: &ModelAnswer) -> Vec<(&str, &str, &str)> {
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { id, name, input, .. } => Some((id.as_str(), name.as_str(), input.as_str())),
        _ => None,
    });
    calls.collect()
}

#[test]
fn text_usage_and_model_are_read() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 80}, "completion_tokens_details": {"reasoning_tokens": 10}}});
    let first = json!({"model": "m-2026", "choices": [{"delta": {"role": "assistant", "content": ""}}]}).to_string();
    let chunks = [
        &first,
        &delta(json!({"content": "Hel"})),
        &delta(json!({"content": "lo"})),
        &finish("stop"),
        &usage.to_string(),
        "[DONE]",
    ];
    let answer = read(&chunks);
    assert_eq!((answer.text().as_str(), answer.finish, answer.model.as_str()), ("Hello", Finish::Stop, "m-2026"));
    assert_eq!(answer.usage, Usage { input: 20, output: 20, reasoning: 10, cache_read: 80, cache_write: 0 });
}

/// C-p6
#[test]
fn every_finish_reason_has_its_meaning() {
    let table = [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("sensitive", Finish::ContentFilter),
        ("something_new", Finish::Unknown),
    ];
    for (reason, expected) in table {
        assert_eq!(read(&[&finish(reason)]).finish, expected, "{reason}");
    }
    assert_eq!(fails(&[&finish("network_error")]).kind, ErrorKind::Server);
    assert_eq!(fails(&[&finish("insufficient_system_resource")]).kind, ErrorKind::Overloaded);
}

/// B-21, V11
#[test]
fn calls_interleaved_by_index_come_apart() {
    let piece = |index: u64, arguments: &str| {
        delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    };
    let start = |index: u64, id: &str, name: &str| {
        delta(
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}),
        )
    };
    let chunks = [
        start(0, "a", "read"),
        start(1, "b", "grep"),
        piece(1, "{\"q\":"),
        piece(0, "{\"p\":1"),
        piece(1, "2}"),
        piece(0, "}"),
        finish("tool_calls"),
    ];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let (answer, deltas) = read_as(ReasoningBack::Never, &chunks);
    assert_eq!(calls(&answer.unwrap()), [("a", "read", "{\"p\":1}"), ("b", "grep", "{\"q\":2}")]);
    let inputs: Vec<u32> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::CallInput { index, .. } => Some(*index),
            _ => None,
        })
        .collect();
    assert_eq!(inputs, [1, 0, 1, 0]);
}

/// V11: the forms that other servers send.
#[test]
fn calls_without_index_or_id_or_in_one_piece_are_read() {
    // Whole calls, no index, no id.
    let whole = |name: &str| json!({"function": {"name": name, "arguments": "{}"}});
    let answer = read(&[
        &delta(json!({"tool_calls": [whole("a"), whole("b")]})),
        &delta(json!({"tool_calls": [whole("a")]})),
        &finish("stop"),
    ]);
    assert_eq!(calls(&answer), [("call_0", "a", "{}"), ("call_1", "b", "{}"), ("call_2", "a", "{}")]);
    // All of them under index 0, separated by id.
    let zero = |id: &str| json!({"index": 0, "id": id, "function": {"name": "t", "arguments": "{}"}});
    let answer = read(&[
        &delta(json!({"tool_calls": [zero("x")]})),
        &delta(json!({"tool_calls": [zero("y")]})),
        &finish("stop"),
    ]);
    assert_eq!(calls(&answer), [("x", "t", "{}"), ("y", "t", "{}")]);
    // The same id twice.
    let one = |index: u64| json!({"index": index, "id": "x", "function": {"name": "t", "arguments": "{}"}});
    let answer = read(&[&delta(json!({"tool_calls": [one(0), one(1)]})), &finish("stop")]);
    assert_eq!(calls(&answer), [("x", "t", "{}"), ("x_2", "t", "{}")]);
    // Id, name and the first brace in one piece; a new id with every piece.
    let first = json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "t", "arguments": "{"}}]});
    let more = json!({"tool_calls": [{"index": 0, "id": "other", "function": {"name": "", "arguments": "}"}}]});
    assert_eq!(calls(&read(&[&delta(first), &delta(more), &finish("stop")])), [("x", "t", "{}")]);
    // Arguments with the finish reason, as a tree, or none at all.
    let last = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "x", "function": {"name": "t", "arguments": {"a": 1}}},
        {"index": 1, "id": "y", "function": {"name": "t", "arguments": null}},
    ]}, "finish_reason": "tool_calls"}]});
    assert_eq!(calls(&read(&[&last.to_string()])), [("x", "t", "{\"a\":1}"), ("y", "t", "{}")]);
    // Arguments before the name, and a call that never gets one.
    let early = json!({"tool_calls": [{"index": 0, "id": "x", "function": {"arguments": "{\"a\""}}, {"index": 1, "function": {"arguments": "{}"}}]});
    let name = json!({"tool_calls": [{"index": 0, "function": {"name": "t", "arguments": ":1}"}}]});
    assert_eq!(
        calls(&read(&[&delta(early), &delta(name), &finish("stop")])),
        [("x", "t", "{\"a\":1}"), ("call_1", "", "{}")]
    );
}

/// V11
#[test]
fn two_hundred_calls_in_one_answer_are_read() {
    let many: Vec<serde_json::Value> = (0..200)
        .map(|n| json!({"index": n, "id": format!("c{n}"), "function": {"name": "t", "arguments": "{}"}}))
        .collect();
    let answer = read(&[&delta(json!({"tool_calls": many})), &finish("tool_calls")]);
    assert_eq!(calls(&answer).len(), 200);
    assert_eq!(calls(&answer)[199].0, "c199");
}

/// V12
#[test]
fn arguments_that_were_cut_stay_as_they_are() {
    let cut =
        json!({"tool_calls": [{"index": 0, "id": "x", "function": {"name": "t", "arguments": "{\"path\": \"a"}}]});
    let empty = json!({"tool_calls": [{"index": 1, "id": "y", "function": {"name": "t", "arguments": ""}}]});
    let answer = read(&[&delta(cut), &delta(empty), &finish("length")]);
    assert_eq!((answer.finish, calls(&answer)), (Finish::Length, vec![("x", "t", "{\"path\": \"a"), ("y", "t", "")]));
}

/// V05
#[test]
fn the_end_needs_a_finish_reason_or_the_end_mark() {
    let text = delta(json!({"content": "half"}));
    assert_eq!(fails(&[&text]).kind, ErrorKind::Truncated);
    assert_eq!(fails(&[]).kind, ErrorKind::Truncated);
    assert_eq!(read(&[&text, &finish("stop")]).text(), "half");
    assert_eq!(read(&[&text, "[DONE]"]).finish, Finish::Unknown);
}

/// V10, B-21
#[test]
fn an_error_object_in_a_good_stream_is_an_error() {
    let text = delta(json!({"content": "half"}));
    let overloaded = json!({"error": {"type": "overloaded_error", "message": "m"}}).to_string();
    assert_eq!(fails(&[&text, &overloaded]).kind, ErrorKind::Overloaded);
    let vllm = json!({"object": "error", "message": "boom", "code": 400, "type": "BadRequestError"}).to_string();
    assert_eq!(fails(&[&vllm]).kind, ErrorKind::InvalidRequest);
    assert_eq!(fails(&["{half"]).kind, ErrorKind::Protocol);
    let null = json!({"error": null, "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}).to_string();
    assert_eq!(read(&[&null]).text(), "x");
}

/// D-01, C-p8
#[test]
fn reasoning_under_each_name_is_one_thought() {
    for name in ["reasoning_content", "reasoning"] {
        let chunks = [
            delta(json!({name: "th", "content": null})),
            delta(json!({name: "ink"})),
            delta(json!({"content": "said"})),
            finish("stop"),
        ];
        let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let (answer, deltas) = read_as(ReasoningBack::WithCalls, &chunks);
        let answer = answer.unwrap();
        let AnswerPart::Reasoning { text, extra, time } = &answer.parts[0] else { panic!("{answer:?}") };
        assert_eq!((text.as_str(), extra.as_ref().unwrap().provider.as_str()), ("think", "p"), "{name}");
        assert!(time.end.is_some());
        let expected = [
            Delta::ReasoningStarted,
            Delta::Reasoning("th".into()),
            Delta::Reasoning("ink".into()),
            Delta::ReasoningEnded,
            Delta::Text("said".into()),
        ];
        assert_eq!(deltas, expected);
    }
}

#[test]
fn reasoning_details_are_joined_and_kept() {
    let piece = |text: &str| {
        delta(json!({"reasoning": text, "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": text}]}))
    };
    let sealed = delta(json!({"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "xyz"}]}));
    let chunks = [piece("a"), piece("b"), sealed, finish("stop")];
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let answer = read_as(ReasoningBack::Details, &chunks).0.unwrap();
    let AnswerPart::Reasoning { text, extra: Some(extra), .. } = &answer.parts[0] else { panic!("{answer:?}") };
    assert_eq!(text, "ab");
    let expected = json!({"reasoning_details": [
        {"type": "reasoning.text", "index": 0, "text": "ab"},
        {"type": "reasoning.encrypted", "index": 1, "data": "xyz"},
    ]});
    assert_eq!(extra.value, expected);
}

/// V13
#[test]
fn empty_and_refused_answers_are_answers() {
    assert_eq!(read(&[&finish("stop")]).parts, []);
    let answer = read(&[&delta(json!({"refusal": "no"})), &finish("stop")]);
    assert_eq!((answer.text().as_str(), answer.finish), ("no", Finish::ContentFilter));
    let odd =
        ["{}", "[]", "7", "null", "\"x\"", "{\"choices\":7}", "{\"choices\":[null]}", "{\"choices\":[{\"delta\":7}]}"];
    for chunk in odd {
        assert_eq!(read(&[chunk, &finish("stop")]).parts, [], "{chunk}");
    }
}

/// V17
#[test]
fn usage_is_never_negative_and_reasoning_is_counted_once() {
    let usage = |usage: serde_json::Value| Counted::default().read(&usage, &PATHS);
    assert_eq!(usage(json!({})), Usage::default());
    assert_eq!(usage(json!({"prompt_tokens": -5, "completion_tokens": "x"})), Usage::default());
    let beside = usage(
        json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 35, "completion_tokens_details": {"reasoning_tokens": 20}}),
    );
    assert_eq!((beside.output, beside.reasoning), (5, 20));
    let deepseek = usage(json!({"prompt_tokens": 10, "prompt_cache_hit_tokens": 8, "completion_tokens": 1}));
    assert_eq!((deepseek.input, deepseek.cache_read), (2, 8));
    let absurd =
        usage(json!({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 99}, "completion_tokens": 1e300}));
    assert_eq!((absurd.input, absurd.output), (0, u64::MAX));
}

/// V05, V12: an end mark without a finish reason comes from a proxy whose server broke off. No call of it may run.
#[test]
fn an_end_mark_without_a_finish_reason_makes_no_calls() {
    for arguments in ["", "{}", "{\"path\":"] {
        let call =
            delta(json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "ls", "arguments": arguments}}]}));
        assert_eq!(fails(&[&call, "[DONE]"]).kind, ErrorKind::Truncated, "{arguments:?}");
        assert_eq!(read(&[&call, &finish("tool_calls"), "[DONE]"]).parts.len(), 1);
    }
}

/// Running totals in several events: a later 0 replaces none, and what came from the cache is not counted twice.
#[test]
fn a_later_figure_of_0_replaces_none() {
    let usage = |usage: serde_json::Value| json!({"choices": [], "usage": usage}).to_string();
    let first = usage(json!({"prompt_tokens": 900, "completion_tokens": 1}));
    let zero = usage(json!({"prompt_tokens": 0, "completion_tokens": 5, "total_tokens": 5}));
    let cached = usage(json!({"prompt_tokens": 900, "prompt_cache_hit_tokens": 900, "completion_tokens": 5}));
    for (last, input, cache_read) in [(zero, 900, 0), (cached, 0, 900)] {
        let answer = read(&[&first, &delta(json!({"content": "x"})), &finish("stop"), &last, "[DONE]"]);
        assert_eq!(answer.usage, Usage { input, output: 5, cache_read, ..Usage::default() });
    }
}

/// The halves of a character in two events are one character; the same on the other wire.
#[test]
fn a_character_that_was_cut_in_two_is_one() {
    let half = |half: &str| delta(json!({"content": "HALF"})).replace("HALF", half);
    let (lead, trail) = (half("Done \\ud83d"), half("\\ude00"));
    assert_eq!(read(&[&lead, &trail, &finish("stop")]).text(), "Done 😀");
    assert_eq!(read(&[&lead, &finish("stop")]).text(), "Done \u{fffd}");
    assert_eq!(read(&[&lead, &half("x"), &finish("stop")]).text(), "Done \u{fffd}x");
    let own = half("\u{10f83d}");
    assert_eq!(read(&[&own, &finish("stop")]).text(), "\u{10f83d}", "a text may have such a character of its own");
}

/// An answer with more calls than any can have would have as many again.
#[test]
fn an_answer_with_too_many_calls_is_not_asked_for_again() {
    let call = |n: usize| json!({"index": n, "id": format!("c{n}"), "function": {"name": "ls", "arguments": "{}"}});
    let all: Vec<_> = (0..=CALLS_MAX).map(call).collect();
    let error = fails(&[&delta(json!({"tool_calls": all}))]);
    assert_eq!((error.kind, error.class()), (ErrorKind::AnswerTooLarge, crate::model::RetryClass::Permanent));
}
