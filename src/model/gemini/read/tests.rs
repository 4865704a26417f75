//! Streams as Gemini and the servers in its place send them.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::{
    model::{Api, Delta, Endpoint, ModelAnswer, samples},
    words::{message::Extra, usage::Usage},
};

fn endpoint() -> Endpoint {
    Endpoint::new(Api::GeminiGenerateContent, "p", "http://h", "m")
}

fn read_all(events: &[Value]) -> (Result<ModelAnswer, ModelError>, Vec<Delta>) {
    samples::read(&endpoint(), &events.iter().map(Value::to_string).collect::<Vec<_>>())
}

fn read(events: &[Value]) -> ModelAnswer {
    read_all(events).0.unwrap()
}

fn chunk(part: Value) -> Value {
    json!({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}], "modelVersion": "m-1"})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"finishReason": reason, "finishMessage": "why"}]})
}

fn signed(with: &str) -> Option<Extra> {
    Some(endpoint().extra(json!({ SIGNATURE: with })))
}

#[test]
fn thoughts_texts_calls_and_figures_are_read() {
    let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 80, "candidatesTokenCount": 20,
        "thoughtsTokenCount": 10, "totalTokenCount": 130});
    let mut last = end("STOP");
    last["usageMetadata"] = usage;
    let (answer, deltas) = read_all(&[
        chunk(json!({"text": "hm", "thought": true})),
        chunk(json!({"text": "Hel"})),
        chunk(json!({"text": "lo"})),
        chunk(json!({"functionCall": {"name": "read", "args": {"x": 1}}, "thoughtSignature": "S"})),
        chunk(json!({"functionCall": {"name": "read"}})),
        chunk(json!({"functionCall": {"id": "own", "name": "read", "args": {}}})),
        chunk(json!({"executableCode": {}})),
        last,
    ]);
    let answer = answer.unwrap();
    assert_eq!((answer.text().as_str(), answer.finish, answer.model.as_str()), ("Hello", Finish::ToolCalls, "m-1"));
    assert_eq!(answer.usage, Usage { input: 20, output: 20, reasoning: 10, cache_read: 80, cache_write: 0 });
    let calls = answer.parts.iter().filter_map(|part| match part {
        AnswerPart::Call { id, input, extra, .. } => Some((id.as_str(), input.as_str(), extra.clone())),
        _ => None,
    });
    // The API gives no ids with most models, so they are made here.
    let expected = [("call_0", "{\"x\":1}", signed("S")), ("call_1", "{}", None), ("own", "{}", None)];
    assert_eq!(calls.collect::<Vec<_>>(), expected);
    assert!(matches!(&answer.parts[0], AnswerPart::Reasoning { text, extra: None, .. } if text == "hm"));
    assert!(deltas.contains(&Delta::ReasoningEnded), "{deltas:?}");
}

/// A signature is kept where it must go back: next to its part, next to the text that it follows, or alone.
#[test]
fn a_signature_is_kept_next_to_its_part() {
    let answer = read(&[
        chunk(json!({"text": "hm", "thought": true, "thoughtSignature": "1"})),
        chunk(json!({"text": "said"})),
        chunk(json!({"text": "", "thoughtSignature": "2"})),
        chunk(json!({"text": "more"})),
        chunk(json!({"functionCall": {"name": "read", "args": {}}})),
        chunk(json!({"text": "", "thoughtSignature": "3"})),
        end("STOP"),
    ]);
    let kept = answer.parts.iter().map(|part| match part {
        AnswerPart::Text { text, extra } | AnswerPart::Reasoning { text, extra, .. } => (text.as_str(), extra.clone()),
        AnswerPart::Call { name, extra, .. } => (name.as_str(), extra.clone()),
    });
    let expected = [("hm", signed("1")), ("said", signed("2")), ("more", None), ("read", None), ("", signed("3"))];
    assert_eq!(kept.collect::<Vec<_>>(), expected);
    assert_eq!(answer.text(), "saidmore");
}

#[test]
fn every_reason_has_its_meaning() {
    for (reason, finish) in [
        ("STOP", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::ContentFilter),
        ("PROHIBITED_CONTENT", Finish::ContentFilter),
        ("RECITATION", Finish::ContentFilter),
        ("NEWS", Finish::Unknown),
    ] {
        assert_eq!(read(&[chunk(json!({"text": "x"})), end(reason)]).finish, finish, "{reason}");
    }
    let cut = read_all(&[chunk(json!({"text": "x"}))]).0.unwrap_err();
    assert_eq!(cut.kind, ErrorKind::Truncated);
    // A relay's end mark, behind an answer and in the middle of one.
    let words = chunk(json!({"text": "x"})).to_string();
    let marked = |events: &[&str]| samples::read(&endpoint(), events).0;
    assert_eq!(marked(&[&words, &end("STOP").to_string(), "[DONE]"]).unwrap().text(), "x");
    assert_eq!(marked(&[&words, "[DONE]"]).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn what_failed_is_told_with_its_kind() {
    let malformed = read_all(&[end("MALFORMED_FUNCTION_CALL")]).0.unwrap_err();
    let expected = "p failed in mid-stream (MALFORMED_FUNCTION_CALL): why";
    assert_eq!((malformed.kind, malformed.message.as_str()), (ErrorKind::Protocol, expected));
    let blocked = read_all(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]).0.unwrap_err();
    assert_eq!((blocked.kind, blocked.message.as_str()), (ErrorKind::ContentPolicy, "p refused the prompt (SAFETY)"));
    let error = json!({"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}});
    assert_eq!(read_all(&[error]).0.unwrap_err().kind, ErrorKind::Overloaded);
}
