//! Answers of a provider as its API streams them, for servers of tests.

use serde_json::{Value, json};
use tamtam::model::Api;

use super::fault_server::{Act, events_head, send};

/// One call of an answer.
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) tool: &'static str,
    pub(crate) input: Value,
}

/// An answer of words, or with calls, as a server sends it.
pub(crate) fn answer(api: Api, text: &str, calls: &[Called]) -> Vec<Act> {
    vec![events_head(), send(&body(api, text, calls))]
}

/// The same as text.
pub(crate) fn body(api: Api, text: &str, calls: &[Called]) -> String {
    let events = match api {
        Api::OpenAiChat => openai(text, calls),
        _ => anthropic(text, calls),
    };
    let line = |event: &Value| match event.get("type").and_then(Value::as_str) {
        Some(name) if api != Api::OpenAiChat => format!("event: {name}\ndata: {event}\n\n"),
        _ => format!("data: {event}\n\n"),
    };
    let end = if api == Api::OpenAiChat { "data: [DONE]\n\n" } else { "" };
    events.iter().map(line).collect::<String>() + end
}

fn openai(text: &str, calls: &[Called]) -> Vec<Value> {
    let mut events = Vec::new();
    if !text.is_empty() {
        events.push(json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    }
    for (index, call) in calls.iter().enumerate() {
        let function = json!({"name": call.tool, "arguments": call.input.to_string()});
        let call = json!({"index": index, "id": call.id, "type": "function", "function": function});
        events.push(json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}));
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}));
    events
}

fn anthropic(text: &str, calls: &[Called]) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {"model": "m"}})];
    let mut index = 0;
    if !text.is_empty() {
        let block = json!({"type": "text", "text": ""});
        events.push(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        let delta = json!({"type": "text_delta", "text": text});
        events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": 0}));
        index = 1;
    }
    for call in calls {
        let block = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}});
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let delta = json!({"type": "input_json_delta", "partial_json": call.input.to_string()});
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}}));
    events.push(json!({"type": "message_stop"}));
    events
}
