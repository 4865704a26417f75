//! What a request tells the model, read from its body: the same for all wires.

use serde_json::Value;

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    OpenAi,
    Responses,
    Anthropic,
    Gemini,
}

/// One thing that was said, in the order of the body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said {
    User(String),
    /// An answer of the model: its text, and its calls as id, tool and arguments.
    Model(String, Vec<(String, String, Value)>),
    /// A result: of which call, and its text.
    Result(String, String),
}

/// All that a body says, but for the system prompt.
pub(crate) fn said(wire: Wire, body: &Value) -> Vec<Said> {
    let list = |name: &str| body[name].as_array().unwrap().iter();
    match wire {
        Wire::OpenAi => list("messages").filter_map(openai).collect(),
        Wire::Anthropic => list("messages").flat_map(anthropic).collect(),
        Wire::Responses => list("input").fold(Vec::new(), responses),
        Wire::Gemini => list("contents").flat_map(gemini).collect(),
    }
}

/// The text and the calls of one answer are items of their own.
fn responses(mut before: Vec<Said>, item: &Value) -> Vec<Said> {
    let text_of = || text(&item["content"]);
    let more = match item["type"].as_str().unwrap() {
        "message" if item["role"] == "user" => Said::User(text_of()),
        "message" => Said::Model(text_of(), Vec::new()),
        "function_call" => {
            let arguments = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
            Said::Model(String::new(), vec![(word(&item["call_id"]), word(&item["name"]), arguments)])
        }
        "function_call_output" => Said::Result(word(&item["call_id"]), text(&item["output"])),
        other => panic!("unknown item {other}"),
    };
    match (before.last_mut(), more) {
        (Some(Said::Model(text, calls)), Said::Model(more, further)) => {
            text.push_str(&more);
            calls.extend(further);
        }
        (_, more) => before.push(more),
    }
    before
}

fn gemini(content: &Value) -> Vec<Said> {
    let parts = content["parts"].as_array().unwrap();
    if content["role"] == "model" {
        let calls = parts.iter().filter_map(|part| part.get("functionCall"));
        let calls = calls.map(|call| (word(&call["id"]), word(&call["name"]), call["args"].clone()));
        return vec![Said::Model(text(&content["parts"]), calls.collect())];
    }
    let parts = parts.iter().map(|part| match part.get("functionResponse") {
        Some(result) => {
            let said = &result["response"];
            Said::Result(word(&result["id"]), word(said.get("output").unwrap_or(&said["error"])))
        }
        None => Said::User(word(&part["text"])),
    });
    parts.collect()
}

/// The texts of the user's messages.
pub(crate) fn users(said: &[Said]) -> Vec<&str> {
    let texts = said.iter().map(|said| if let Said::User(text) = said { Some(text.as_str()) } else { None });
    texts.flatten().collect()
}

fn openai(message: &Value) -> Option<Said> {
    let text = text(&message["content"]);
    match message["role"].as_str().unwrap() {
        "system" | "developer" => None,
        "user" => Some(Said::User(text)),
        "tool" => Some(Said::Result(word(&message["tool_call_id"]), text)),
        "assistant" => {
            let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
                let arguments = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                (word(&call["id"]), word(&call["function"]["name"]), arguments)
            });
            Some(Said::Model(text, calls.collect()))
        }
        other => panic!("unknown role {other}"),
    }
}

fn anthropic(message: &Value) -> Vec<Said> {
    let blocks = match &message["content"] {
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        blocks => blocks.as_array().unwrap().clone(),
    };
    let of_type = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    if message["role"] == "assistant" {
        let text: Vec<_> = of_type("text").map(|block| word(&block["text"])).collect();
        let calls = of_type("tool_use").map(|call| (word(&call["id"]), word(&call["name"]), call["input"].clone()));
        return vec![Said::Model(text.concat(), calls.collect())];
    }
    let blocks = blocks.iter().map(|block| match block["type"].as_str().unwrap() {
        "text" => Said::User(word(&block["text"])),
        "tool_result" => Said::Result(word(&block["tool_use_id"]), text(&block["content"])),
        other => panic!("unknown block {other}"),
    });
    blocks.collect()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A text, also one that comes in pieces.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(pieces) => pieces.iter().filter_map(|piece| piece["text"].as_str()).collect(),
        _ => String::new(),
    }
}
