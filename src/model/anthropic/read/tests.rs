//! Streams of Messages, whole and broken.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::model::{Api, Delta, Endpoint, ErrorKind, ModelAnswer, samples};
use crate::words::usage::Usage;

fn read_all(events: &[Value]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    let texts: Vec<_> = events.iter().map(Value::to_string).collect();
    read_texts(ReasoningBack::Never, &texts)
}

fn read_texts(back: ReasoningBack, events: &[String]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    let mut endpoint = Endpoint::new(Api::AnthropicMessages, "anthropic", "http://h", "m");
    endpoint.quirks.reasoning = back;
    samples::read(&endpoint, events)
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn grow(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn stop(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// D-01, D-02, C-p8
#[test]
fn thinking_text_and_a_call_are_read_in_order() {
    let usage =
        json!({"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7, "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"model": "claude-x", "usage": usage}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        grow(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        grow(0, json!({"type": "signature_delta", "signature": "SIG"})),
        end(0),
        start(1, json!({"type": "redacted_thinking", "data": "SEALED"})),
        end(1),
        json!({"type": "ping"}),
        start(2, json!({"type": "text", "text": ""})),
        grow(2, json!({"type": "text_delta", "text": "I look"})),
        end(2),
        start(3, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
        grow(3, json!({"type": "input_json_delta", "partial_json": ""})),
        grow(3, json!({"type": "input_json_delta", "partial_json": "{\"path\":"})),
        grow(3, json!({"type": "input_json_delta", "partial_json": " \"a\"}"})),
        end(3),
    ];
    events.extend(stop("tool_use"));
    let (answer, deltas) = read_all(&events);
    let answer = answer.unwrap();
    assert_eq!(answer.usage, Usage { input: 3, output: 9, reasoning: 0, cache_read: 50, cache_write: 7 });
    assert_eq!((answer.finish, answer.model.as_str()), (Finish::ToolCalls, "claude-x"));
    let [
        AnswerPart::Reasoning { text: thought, extra: Some(signed), .. },
        AnswerPart::Reasoning { extra: Some(sealed), .. },
        AnswerPart::Text { text, .. },
        AnswerPart::Call { id, input, .. },
    ] = &answer.parts[..]
    else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (thought.as_str(), text.as_str(), id.as_str(), input.as_str()),
        ("hm", "I look", "toolu_1", "{\"path\": \"a\"}")
    );
    assert_eq!((&signed.value, &sealed.value), (&json!({"signature": "SIG"}), &json!({"redacted": "SEALED"})));
    assert_eq!((signed.provider.as_str(), signed.api.as_str()), ("anthropic", "anthropic-messages"));
    assert_eq!(deltas.iter().filter(|delta| matches!(delta, Delta::CallPending { index: 0, .. })).count(), 1);
}

/// C-p6, V13
#[test]
fn every_stop_reason_has_its_meaning() {
    let table = [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("tool_use", Finish::ToolCalls),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::ContentFilter),
        ("pause_turn", Finish::Unknown),
        ("something_new", Finish::Unknown),
    ];
    for (reason, expected) in table {
        assert_eq!(read_all(&stop(reason)).0.unwrap().finish, expected, "{reason}");
    }
}

/// V05, V12
#[test]
fn an_answer_needs_a_reason_why_it_ended() {
    let call = start(0, json!({"type": "tool_use", "id": "x", "name": "t", "input": {}}));
    let kind = |events: &[Value]| read_all(events).0.map_err(|error| error.kind);
    let [reason, stop_mark] = stop("tool_use");
    assert_eq!(kind(&[]), Err(ErrorKind::Truncated));
    assert_eq!(kind(std::slice::from_ref(&call)), Err(ErrorKind::Truncated));
    assert!(kind(&[call.clone(), end(0), reason.clone()]).is_ok(), "the end mark alone is missing");
    assert_eq!(kind(&[call.clone(), reason.clone()]), Err(ErrorKind::Truncated));
    // An open call at the end mark is a cut call, and never one with `{}`.
    assert_eq!(kind(&[call.clone(), reason.clone(), stop_mark.clone()]), Err(ErrorKind::Truncated));
    let whole = read_all(&[call, end(0), reason, stop_mark]).0.unwrap();
    assert!(matches!(&whole.parts[..], [AnswerPart::Call { input, .. }] if input == "{}"));
}

/// V12
#[test]
fn a_call_cut_at_the_output_limit_keeps_its_text() {
    let mut events = vec![
        start(0, json!({"type": "tool_use", "id": "x", "name": "t", "input": {}})),
        grow(0, json!({"type": "input_json_delta", "partial_json": "{\"a\": \"b"})),
    ];
    events.extend(stop("max_tokens"));
    let answer = read_all(&events).0.unwrap();
    assert_eq!(answer.finish, Finish::Length);
    assert!(matches!(&answer.parts[..], [AnswerPart::Call { input, .. }] if input == "{\"a\": \"b"));
}

/// V10
#[test]
fn an_error_event_in_mid_stream_is_that_error() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "m"}});
    let kind =
        |name: &str| read_all(&[start(0, json!({"type": "text", "text": "x"})), error(name)]).0.unwrap_err().kind;
    assert_eq!(kind("overloaded_error"), ErrorKind::Overloaded);
    assert_eq!(kind("rate_limit_error"), ErrorKind::RateLimited);
    assert_eq!(kind("api_error"), ErrorKind::Server);
    assert_eq!(kind("invalid_request_error"), ErrorKind::InvalidRequest);
}

/// V13
#[test]
fn unknown_blocks_deltas_and_events_are_passed_over() {
    let mut events = vec![
        json!({"type": "something_new"}),
        json!({}),
        json!(7),
        start(0, json!({"type": "server_tool_use", "id": "x", "name": "web"})),
        grow(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
        end(0),
        end(9),
        start(1, json!({"type": "text", "text": "a"})),
        grow(1, json!({"type": "citations_delta", "citation": {}})),
        end(1),
    ];
    events.extend(stop("end_turn"));
    assert_eq!(read_all(&events).0.unwrap().parts, [AnswerPart::Text { text: "a".into(), extra: None }]);
}

/// Compatible servers: the input whole, at the beginning of its block.
#[test]
fn an_input_that_comes_with_the_beginning_is_kept() {
    let mut events = vec![start(0, json!({"type": "tool_use", "id": "", "name": "t", "input": {"a": 1}})), end(0)];
    events.extend(stop("tool_use"));
    let answer = read_all(&events).0.unwrap();
    assert!(
        matches!(&answer.parts[..], [AnswerPart::Call { id, input, .. }] if input == "{\"a\":1}" && id.as_str() == "call_0")
    );
}

/// V11: a block that is never ended keeps what came with its beginning, though the next one has the same index.
#[test]
fn a_call_whose_end_is_forgotten_keeps_its_input() {
    let call = |id: &str| start(0, json!({"type": "tool_use", "id": id, "name": "read", "input": {"path": id}}));
    let mut events = vec![call("a"), call("b"), end(0)];
    events.extend(stop("tool_use"));
    let answer = read_all(&events).0.unwrap();
    let inputs: Vec<_> =
        answer.parts.iter().map(|part| if let AnswerPart::Call { input, .. } = part { input } else { "" }).collect();
    assert_eq!(inputs, ["{\"path\":\"a\"}", "{\"path\":\"b\"}"]);
}

/// A relay that says 0 in its last figures, although the beginning had said how much was read.
#[test]
fn a_later_figure_of_0_replaces_none() {
    let usage = json!({"input_tokens": 50_000, "cache_read_input_tokens": 9, "output_tokens": 1});
    let ends = |usage: Value| json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage});
    let begins = json!({"type": "message_start", "message": {"usage": usage}});
    let zero = json!({"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7});
    for (usage, input) in [(zero, 50_000), (json!({"input_tokens": 60_000, "output_tokens": 7}), 60_000)] {
        let usage = read_all(&[begins.clone(), ends(usage)]).0.unwrap().usage;
        assert_eq!(usage, Usage { input, output: 7, cache_read: 9, ..Usage::default() });
    }
}

/// Servers that begin no block for a text, or send it in a block of a thought or of a call: none of it is lost.
#[test]
fn a_text_in_another_block_is_a_text() {
    let text = |index| grow(index, json!({"type": "text_delta", "text": "THE ANSWER"}));
    let thought = start(0, json!({"type": "thinking", "thinking": "hm", "signature": ""}));
    let sign = grow(0, json!({"type": "signature_delta", "signature": "SIG"}));
    let call = start(0, json!({"type": "tool_use", "id": "c", "name": "ls", "input": {}}));
    let input = grow(0, json!({"type": "input_json_delta", "partial_json": "{}"}));
    for (events, parts) in [
        (vec![text(0), end(0)], vec!["text"]),
        (vec![thought, text(0), sign, end(0)], vec!["signed", "text"]),
        (vec![call, text(0), input, end(0)], vec!["call {}", "text"]),
        (vec![start(0, json!({"type": "web_search", "id": "x"})), text(0), end(0)], vec!["text"]),
    ] {
        let answer = read_all(&[&events[..], &stop("end_turn")].concat()).0.unwrap();
        let kinds = answer.parts.iter().map(|part| match part {
            AnswerPart::Text { .. } => "text".to_owned(),
            AnswerPart::Reasoning { extra, .. } => if extra.is_some() { "signed" } else { "thought" }.to_owned(),
            AnswerPart::Call { input, .. } => format!("call {input}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>(), parts, "{events:?}");
        assert_eq!(answer.text(), "THE ANSWER");
    }
}

/// A thought keeps its signature, whenever that comes.
#[test]
fn a_signature_that_comes_late_belongs_to_its_thought() {
    let begun = start(0, json!({"type": "thinking", "thinking": "hm", "signature": ""}));
    let sign = grow(0, json!({"type": "signature_delta", "signature": "SIG"}));
    let next = start(1, json!({"type": "text", "text": "x"}));
    for events in [
        vec![begun.clone(), sign.clone(), end(0), next.clone(), end(1)],
        vec![begun.clone(), sign.clone(), next.clone(), end(1)],
        vec![begun.clone(), next.clone(), sign.clone(), end(0), end(1)],
        vec![begun, end(0), sign, next, end(1)],
    ] {
        let answer = read_all(&[&events[..], &stop("end_turn")].concat()).0.unwrap();
        let [AnswerPart::Reasoning { extra: Some(extra), .. }, AnswerPart::Text { .. }] = &answer.parts[..] else {
            panic!("{:?}", answer.parts)
        };
        assert_eq!(extra.value, json!({"signature": "SIG"}), "{events:?}");
    }
}

/// The halves of a character in two events are one character, in any part; the same on the other wire.
#[test]
fn a_character_that_was_cut_in_two_is_one() {
    let half = |kind: &str, name: &str, half: &str| {
        grow(0, json!({"type": kind, name: "HALF"})).to_string().replace("HALF", half)
    };
    for (block, kind, name) in [
        (json!({"type": "text", "text": ""}), "text_delta", "text"),
        (json!({"type": "thinking", "thinking": ""}), "thinking_delta", "thinking"),
        (json!({"type": "tool_use", "id": "c", "name": "t"}), "input_json_delta", "partial_json"),
    ] {
        let [reason, stop] = stop("end_turn");
        let halves = [half(kind, name, "a \\ud83d"), half(kind, name, "\\ude00 b"), half(kind, name, " \\ud83d")];
        let mut events = vec![start(0, block).to_string()];
        events.extend(halves);
        events.extend([end(0), reason, stop].map(|event| event.to_string()));
        let (answer, deltas) = read_texts(ReasoningBack::Never, &events);
        let said = match &answer.unwrap().parts[..] {
            [AnswerPart::Text { text, .. } | AnswerPart::Reasoning { text, .. }] => text.clone(),
            [AnswerPart::Call { input, .. }] => input.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(said, "a 😀 b \u{fffd}");
        let shown = deltas.iter().map(|delta| match delta {
            Delta::Text(text) | Delta::Reasoning(text) | Delta::CallInput { text, .. } => text.as_str(),
            _ => "",
        });
        assert_eq!(shown.collect::<String>(), said, "what is shown is what is kept");
    }
}

/// Where a server signs nothing and wants its thoughts back, they are marked as its own.
#[test]
fn an_unsigned_thought_is_marked_where_it_is_to_go_back() {
    let thought = [start(0, json!({"type": "thinking", "thinking": "hm"})), end(0)];
    let events: Vec<_> = thought.iter().chain(&stop("end_turn")).map(Value::to_string).collect();
    for (back, expected) in [(ReasoningBack::Never, None), (ReasoningBack::WithCalls, Some(Value::Null))] {
        let answer = read_texts(back, &events).0.unwrap();
        let [AnswerPart::Reasoning { extra, .. }] = &answer.parts[..] else { panic!("{:?}", answer.parts) };
        assert_eq!(extra.as_ref().map(|extra| extra.value.clone()), expected);
    }
}
