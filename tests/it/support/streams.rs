//! Answers of a provider as its API streams them, and what its requests say, for servers of tests.

use serde_json::{Value, json};
use tamtam::model::Api;

use super::fault_server::{Act, events_head, send};

/// The wires.
pub(crate) const APIS: [Api; 4] =
    [Api::OpenAiChat, Api::OpenAiResponses, Api::AnthropicMessages, Api::GeminiGenerateContent];

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
    thought(api, "", text, calls)
}

/// The same, behind a thought that the server signs in its own way; an empty one is none.
pub(crate) fn thought(api: Api, thought: &str, text: &str, calls: &[Called]) -> String {
    let events = match api {
        Api::OpenAiResponses => responses(thought, text, calls),
        Api::AnthropicMessages => anthropic(thought, text, calls),
        Api::GeminiGenerateContent => gemini(thought, text, calls),
        _ => openai(thought, text, calls),
    };
    let end = if api == Api::OpenAiChat { "data: [DONE]\n\n" } else { "" };
    events.iter().map(event).collect::<String>() + end
}

/// An event of a stream; its type, if it has one, is its name.
pub(crate) fn event(data: &Value) -> String {
    match data.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

/// What a request says, message by message: with the Responses API, item by item.
pub(crate) fn said(body: &Value) -> &Vec<Value> {
    ["messages", "input", "contents"].iter().find_map(|name| body[name].as_array()).expect("a request says something")
}

fn openai(thought: &str, text: &str, calls: &[Called]) -> Vec<Value> {
    let mut events = Vec::new();
    if !thought.is_empty() {
        events.push(json!({"choices": [{"index": 0, "delta": {"reasoning_content": thought}}]}));
    }
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

fn responses(thought: &str, text: &str, calls: &[Called]) -> Vec<Value> {
    let mut events = vec![json!({"type": "response.created", "response": {"model": "m"}})];
    let mut items = Vec::new();
    let mut item = |events: &mut Vec<Value>, begun: Value, deltas: &[Value], done: Value| {
        let at = items.len();
        events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
        for delta in deltas {
            let mut delta = delta.clone();
            delta["output_index"] = at.into();
            events.push(delta);
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": done}));
        items.push(done);
    };
    if !thought.is_empty() {
        let begun = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        let delta = json!({"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": thought});
        let summary = json!([{"type": "summary_text", "text": thought}]);
        let signed = "signed by responses";
        let done = json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": signed});
        item(&mut events, begun, &[delta], done);
    }
    if !text.is_empty() {
        let message =
            |content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "content": content});
        let delta = json!({"type": "response.output_text.delta", "content_index": 0, "delta": text});
        item(&mut events, message(json!([])), &[delta], message(json!([{"type": "output_text", "text": text}])));
    }
    for call in calls {
        let whole = call.input.to_string();
        let function = |arguments: &str| json!({"type": "function_call", "id": "fc_1", "call_id": call.id, "name": call.tool, "arguments": arguments});
        let delta = json!({"type": "response.function_call_arguments.delta", "delta": whole});
        item(&mut events, function(""), &[delta], function(&whole));
    }
    events.push(json!({"type": "response.completed", "response": {"model": "m", "output": items}}));
    events
}

fn anthropic(thought: &str, text: &str, calls: &[Called]) -> Vec<Value> {
    let mut events = vec![json!({"type": "message_start", "message": {"model": "m"}})];
    let mut index = 0;
    let mut block = |events: &mut Vec<Value>, begun: Value, deltas: &[Value]| {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        let deltas = deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
        index += 1;
    };
    if !thought.is_empty() {
        let begun = json!({"type": "thinking", "thinking": ""});
        let signed = json!({"type": "signature_delta", "signature": "signed by messages"});
        block(&mut events, begun, &[json!({"type": "thinking_delta", "thinking": thought}), signed]);
    }
    if !text.is_empty() {
        let delta = json!({"type": "text_delta", "text": text});
        block(&mut events, json!({"type": "text", "text": ""}), &[delta]);
    }
    for call in calls {
        let begun = json!({"type": "tool_use", "id": call.id, "name": call.tool, "input": {}});
        let delta = json!({"type": "input_json_delta", "partial_json": call.input.to_string()});
        block(&mut events, begun, &[delta]);
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}}));
    events.push(json!({"type": "message_stop"}));
    events
}

/// Calls have no ids here: this API gives none with most models.
fn gemini(thought: &str, text: &str, calls: &[Called]) -> Vec<Value> {
    let chunk = |part: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    let mut events = Vec::new();
    if !thought.is_empty() {
        events.push(chunk(json!({"text": thought, "thought": true})));
    }
    if !text.is_empty() {
        events.push(chunk(json!({ "text": text })));
    }
    for (n, call) in calls.iter().enumerate() {
        let mut part = json!({"functionCall": {"name": call.tool, "args": call.input}});
        if n == 0 {
            part["thoughtSignature"] = "signed by gemini".into();
        }
        events.push(chunk(part));
    }
    if !thought.is_empty() && calls.is_empty() {
        events.push(chunk(json!({"text": "", "thoughtSignature": "signed by gemini"})));
    }
    events
        .push(json!({"candidates": [{"content": {"parts": [], "role": "model"}, "finishReason": "STOP", "index": 0}]}));
    events
}
