//! What the real APIs refuse, for the servers of tests: each request to one of the four wires is checked before it is answered.
//!
//! The rules are those that clients met: unknown fields, calls without results and results without calls, in the wrong order or
//! twice, ids that are too long, thoughts that the server did not sign, schemas in a dialect that it does not take.

#[path = "strict/gemini.rs"]
mod gemini;
#[path = "strict/openai.rs"]
mod openai;

use serde_json::{Map, Value};

/// What is wrong with a request.
type Checked = Result<(), String>;

/// Checks a request by its path. One to another path, or that asks for nothing but a connection, is nobody's business here.
pub(crate) fn check(head: &str, body: &str) -> Checked {
    if !head.starts_with("POST ") {
        return Ok(());
    }
    let target = head.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let check = match path {
        path if path.ends_with("/chat/completions") => openai::chat,
        path if path.ends_with("/responses") => openai::responses,
        path if path.ends_with("/messages") => messages,
        path if path.ends_with(":streamGenerateContent") && query == "alt=sse" => gemini::contents,
        path if path.ends_with(":streamGenerateContent") => return Err("not asked for a stream of events".into()),
        _ => return Ok(()),
    };
    let body: Value = serde_json::from_str(body).map_err(|error| format!("the body is no JSON: {error}"))?;
    check(&body)
}

fn wrong<T>(why: impl std::fmt::Display, at: &Value) -> Result<T, String> {
    Err(format!("{why}: {at}"))
}

fn ensure(holds: bool, why: &str, at: &Value) -> Checked {
    if holds { Ok(()) } else { wrong(why, at) }
}

/// The object, if it has no other fields than these.
fn fields<'v>(value: &'v Value, known: &[&str]) -> Result<&'v Map<String, Value>, String> {
    let Some(object) = value.as_object() else { return wrong("no object", value) };
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => wrong(format!("unknown field {key:?}"), value),
        None => Ok(object),
    }
}

fn list<'v>(value: &'v Value, why: &str) -> Result<&'v [Value], String> {
    match value.as_array() {
        Some(list) if !list.is_empty() => Ok(list),
        _ => wrong(format!("{why} must be a list that is not empty"), value),
    }
}

fn text<'v>(value: &'v Value, why: &str) -> Result<&'v str, String> {
    value.as_str().map_or_else(|| wrong(format!("{why} must be a text"), value), Ok)
}

fn is_plain(name: &str, most: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=most).contains(&name.len()) && name.bytes().all(plain)
}

/// Arguments as a text: one JSON object.
fn arguments(value: &Value) -> Checked {
    let object = serde_json::from_str::<Map<String, Value>>(text(value, "arguments")?);
    object.map(drop).or_else(|error| wrong(format!("arguments are no object: {error}"), value))
}

/// A schema of the arguments of a tool.
fn parameters(schema: &Value) -> Checked {
    ensure(schema["type"] == "object" && schema["properties"].is_object(), "no schema of an object", schema)?;
    ensure(schema.get("$schema").is_none(), "a schema that names its dialect", schema)
}

/// Data of an image or a PDF file as base64.
fn inline(kind: &str, data: &str, kinds: &[&str], at: &Value) -> Checked {
    ensure(kinds.contains(&kind) && !data.is_empty(), "a file of a kind that is not taken", at)
}

/// A `data:` address of such a file.
fn data_url(url: &str, kinds: &[&str], at: &Value) -> Checked {
    match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((kind, data)) => inline(kind, data, kinds, at),
        None => ensure(url.starts_with("http"), "neither data nor an address", at),
    }
}

const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// How much a request of Messages lets its model think, and what is left to chance.
fn thinks(body: &Value) -> Checked {
    let thinking = &body["thinking"];
    let is = |names: &[&str]| names.iter().any(|name| body["model"].as_str().is_some_and(|of| of.starts_with(name)));
    let sampled = ["temperature", "top_p"].map(|field| body.get(field).is_some());
    let newest = ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable", "claude-mythos"];
    let newer = ["claude-opus-4-7", "claude-opus-4-8", "claude-opus-5", "claude-sonnet-5"];
    let refuses_chance = is(&newer) || is(&newest);
    ensure(!refuses_chance || sampled == [false, false], "a temperature or top_p to a newer model", body)?;
    ensure(!is(&["claude"]) || sampled != [true, true], "a temperature and top_p", body)?;
    ensure(!is(&newest) || thinking["type"] != "disabled", "a thought that cannot be disabled", thinking)?;
    let fields_of = |kind: &str| match kind {
        "enabled" => Some(&["type", "budget_tokens"][..]),
        "adaptive" | "disabled" => Some(&["type"][..]),
        _ => None,
    };
    if let Some(kind) = thinking["type"].as_str() {
        let Some(known) = fields_of(kind) else { return wrong("an unknown kind of thinking", thinking) };
        fields(thinking, known)?;
        ensure(kind == "disabled" || sampled == [false, false], "temperature while it thinks", thinking)?;
    }
    if thinking["type"] == "enabled" {
        let (budget, max) = (thinking["budget_tokens"].as_u64(), body["max_tokens"].as_u64());
        ensure(budget.is_some_and(|budget| budget >= 1_024), "a budget below 1024", thinking)?;
        ensure(budget < max, "no room behind the budget", thinking)?;
    }
    let Some(config) = body.get("output_config") else { return Ok(()) };
    fields(config, &["effort", "format"])?;
    if let Some(format) = config.get("format") {
        let schema = &fields(format, &["type", "schema"])?["schema"];
        ensure(schema["additionalProperties"] == false, "an object that is open", schema)?;
    }
    let effort = config["effort"].as_str();
    ensure(effort.is_none_or(|effort| ["low", "medium", "high", "xhigh", "max"].contains(&effort)), "no effort", config)
}

/// Anthropic's Messages.
fn messages(body: &Value) -> Checked {
    let known = ["model", "stream", "max_tokens", "temperature", "top_p", "tools", "tool_choice", "system", "messages"];
    fields(body, &[&known[..], &["thinking", "output_config", "metadata", "stop_sequences", "top_k"]].concat())?;
    ensure(body["max_tokens"].as_u64().is_some_and(|max| max > 0), "max_tokens is needed", &body["max_tokens"])?;
    thinks(body)?;
    ensure(body.to_string().matches("\"cache_control\"").count() <= 4, "more than four marks", &body["model"])?;
    for tool in body["tools"].as_array().into_iter().flatten() {
        fields(tool, &["name", "description", "input_schema", "cache_control"])?;
        ensure(is_plain(text(&tool["name"], "a name")?, 128), "a name that is not taken", tool)?;
        ensure(tool["input_schema"]["type"] == "object", "no schema of an object", tool)?;
    }
    let messages = list(&body["messages"], "messages")?;
    ensure(messages[0]["role"] == "user", "the first message is not the user's", &messages[0])?;
    let mut asked: Vec<&str> = Vec::new();
    for message in messages {
        fields(message, &["role", "content"])?;
        let blocks = match &message["content"] {
            Value::String(said) if !said.trim().is_empty() => &[][..],
            blocks => list(blocks, "content")?,
        };
        // All results of the calls of the message before come first.
        let mut results = blocks.iter().take_while(|block| block["type"] == "tool_result").collect::<Vec<_>>();
        for call in std::mem::take(&mut asked) {
            let at = results.iter().position(|result| result["tool_use_id"] == call);
            let Some(at) = at else { return wrong(format!("no result of the call {call}"), message) };
            results.remove(at);
        }
        ensure(results.is_empty(), "a result without its call, or a second one", message)?;
        let is_user = message["role"] == "user";
        ensure(is_user || message["role"] == "assistant", "an unknown role", message)?;
        for block in blocks {
            match text(&block["type"], "a type")? {
                "text" => {
                    fields(block, &["type", "text", "cache_control"])?;
                    ensure(!text(&block["text"], "text")?.trim().is_empty(), "an empty text", block)?;
                }
                "image" | "document" if is_user => file(block)?,
                "tool_result" if is_user => {
                    fields(block, &["type", "tool_use_id", "content", "is_error", "cache_control"])?;
                    for inner in block["content"].as_array().into_iter().flatten().filter(|of| of["type"] != "text") {
                        file(inner)?;
                    }
                }
                "tool_use" if !is_user => {
                    fields(block, &["type", "id", "name", "input"])?;
                    let id = text(&block["id"], "an id")?;
                    ensure(is_plain(id, 256) && block["input"].is_object(), "a call that is not taken", block)?;
                    ensure(!asked.contains(&id), "two calls with one id", message)?;
                    ensure(body["tools"].is_array(), "calls without tools", block)?;
                    asked.push(id);
                }
                "thinking" if !is_user => {
                    fields(block, &["type", "thinking", "signature"])?;
                    ensure(block["signature"] == "signed by messages", "a thought that is not ours", block)?;
                }
                _ => return wrong("an unknown block", block),
            }
        }
        ensure(
            blocks.last().is_none_or(|last| is_user || last["type"] != "thinking"),
            "a thought at the end",
            message,
        )?;
    }
    ensure(asked.is_empty(), "no result of the last call", &body["model"])
}

fn file(block: &Value) -> Checked {
    fields(block, &["type", "source", "cache_control"])?;
    let source = &block["source"];
    let kinds: &[&str] = if block["type"] == "image" { &IMAGES } else { &["application/pdf"] };
    match text(&source["type"], "a type")? {
        "base64" => inline(text(&source["media_type"], "a kind")?, text(&source["data"], "data")?, kinds, block),
        _ => ensure(source["url"].is_string(), "a file from nowhere", block),
    }
}
