//! What a request tells the model, read from its body: the same for both wires.

use serde_json::Value;

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    OpenAi,
    Anthropic,
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
    let messages = body["messages"].as_array().unwrap();
    match wire {
        Wire::OpenAi => messages.iter().filter_map(openai).collect(),
        Wire::Anthropic => messages.iter().flat_map(anthropic).collect(),
    }
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
