//! OpenAI's two APIs: Chat Completions and Responses.

use serde_json::Value;

use super::{Checked, IMAGES, arguments, data_url, ensure, fields, is_plain, list, parameters, text, wrong};

/// The longest id of a call.
const ID_BYTES_MAX: usize = 64;

fn id<'v>(value: &'v Value, at: &Value) -> Result<&'v str, String> {
    let id = text(value, "an id")?;
    ensure((1..=ID_BYTES_MAX).contains(&id.len()), "an id that is too long, or none", at)?;
    Ok(id)
}

/// The shape that an answer is to have.
fn shape(format: &Value, of: &Value) -> Checked {
    match text(&format["type"], "a type")? {
        "json_object" | "text" => Ok(()),
        "json_schema" => {
            ensure(is_plain(text(&of["name"], "a name")?, 64), "a name that is not taken", format)?;
            let schema = &of["schema"];
            ensure(of["strict"] != true || schema["additionalProperties"] == false, "not strict", schema)
        }
        _ => wrong("an unknown format", format),
    }
}

fn is_effort(word: &Value) -> bool {
    ["none", "minimal", "low", "medium", "high", "xhigh"].iter().any(|known| word == known)
}

/// How much a request of Chat Completions lets its model think, in the words of those who have this API.
fn thinks(body: &Value) -> Checked {
    let effort = &body["reasoning_effort"];
    let is_known = is_effort(effort) || (effort == "default" && body["model"].to_string().contains("qwen"));
    let is_switched = body["thinking"]["type"] == "enabled";
    ensure(effort.is_null() || is_known || (effort == "max" && is_switched), "no effort", effort)?;
    let is = |names: &[&str]| names.iter().any(|name| body["model"].as_str().is_some_and(|of| of.starts_with(name)));
    if body.get("tools").is_some() {
        ensure(!is(&["gpt-5.2", "gpt-5.4"]) || effort.is_null(), "reasoning_effort beside tools", effort)?;
        ensure(!is(&["gpt-5.5", "gpt-5.6"]) || effort == "none", "tools, and it is to think", effort)?;
    }
    if let Some(reasoning) = body.get("reasoning") {
        ensure(is_effort(&fields(reasoning, &["effort"])?["effort"]), "no effort", reasoning)?;
    }
    if let Some(switch) = body.get("thinking") {
        let kind = text(&fields(switch, &["type"])?["type"], "a type")?;
        ensure(["enabled", "disabled"].contains(&kind), "an unknown kind of thinking", switch)?;
        ensure(is_switched || effort.is_null(), "an effort not to think", effort)?;
    }
    let (is_on, budget) = (&body["enable_thinking"], &body["thinking_budget"]);
    ensure(is_on.is_null() || is_on.is_boolean(), "neither on nor off", is_on)?;
    ensure(budget.is_null() || (*is_on == true && budget.is_u64()), "a budget of no thought", budget)
}

/// Chat Completions, as OpenAI and its imitators take them: each message may hold the thoughts that some want back.
pub(super) fn chat(body: &Value) -> Checked {
    let known = ["model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p"];
    fields(
        body,
        &[
            &known[..],
            &["tools", "tool_choice", "messages", "seed", "reasoning_effort", "response_format", "stop"],
            &["reasoning", "thinking", "enable_thinking", "thinking_budget"],
        ]
        .concat(),
    )?;
    thinks(body)?;
    if let Some(format) = body.get("response_format") {
        shape(format, &fields(format, &["type", "json_schema"])?.get("json_schema").cloned().unwrap_or_default())?;
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        let function = fields(tool, &["type", "function"])?["function"].clone();
        fields(&function, &["name", "description", "parameters", "strict"])?;
        ensure(is_plain(text(&function["name"], "a name")?, 64), "a name that is not taken", tool)?;
        function.get("parameters").map_or(Ok(()), parameters)?;
    }
    let mut asked: Vec<&str> = Vec::new();
    for message in list(&body["messages"], "messages")? {
        let role = text(&message["role"], "a role")?;
        if role != "tool"
            && let Some(call) = asked.first()
        {
            return wrong(format!("no result of the call {call}"), message);
        }
        match role {
            "system" | "user" => {
                fields(message, &["role", "content"])?;
                for part in message["content"].as_array().into_iter().flatten() {
                    match text(&part["type"], "a type")? {
                        "text" => text(&part["text"], "text").map(drop)?,
                        "image_url" => data_url(text(&part["image_url"]["url"], "an address")?, &IMAGES, part)?,
                        _ => return wrong("an unknown part", part),
                    }
                }
            }
            "assistant" => {
                let known = ["role", "content", "tool_calls", "reasoning_content", "reasoning_details"];
                let calls =
                    fields(message, &known)?.get("tool_calls").map_or(Ok(&[][..]), |calls| list(calls, "calls"))?;
                let says = message["content"].as_str().is_some_and(|said| !said.is_empty());
                ensure(says || !calls.is_empty(), "neither text nor calls", message)?;
                for call in calls {
                    fields(call, &["id", "type", "function", "extra_content"])?;
                    let (id, function) = (id(&call["id"], call)?, &call["function"]);
                    ensure(!asked.contains(&id), "two calls with one id", message)?;
                    ensure(is_plain(text(&function["name"], "a name")?, 64), "a name that is not taken", call)?;
                    arguments(&function["arguments"])?;
                    asked.push(id);
                }
            }
            "tool" => {
                fields(message, &["role", "tool_call_id", "content"])?;
                text(&message["content"], "a result")?;
                let at = asked.iter().position(|call| message["tool_call_id"] == *call);
                let Some(at) = at else { return wrong("a result without its call, or a second one", message) };
                asked.remove(at);
            }
            _ => return wrong("an unknown role", message),
        }
    }
    ensure(asked.is_empty(), "no result of the last call", &body["model"])
}

/// Responses.
pub(super) fn responses(body: &Value) -> Checked {
    let known =
        ["model", "stream", "store", "include", "max_output_tokens", "temperature", "top_p", "reasoning", "text"];
    fields(body, &[&known[..], &["instructions", "tools", "tool_choice", "parallel_tool_calls", "input"]].concat())?;
    if let Some(said) = body.get("text") {
        let format = &fields(said, &["format", "verbosity"])?["format"];
        shape(fields(format, &["type", "name", "schema", "strict"]).map(|_| format)?, format)?;
    }
    if let Some(reasoning) = body.get("reasoning") {
        fields(reasoning, &["effort", "summary"])?;
        ensure(is_effort(&reasoning["effort"]), "no effort", reasoning)?;
    }
    let is_encrypted = body["include"].to_string().contains("reasoning.encrypted_content");
    ensure(!is_encrypted || body["store"] == false, "kept, and asked for encrypted thoughts", &body["store"])?;
    let max = body["max_output_tokens"].as_u64();
    ensure(max.is_none_or(|max| max >= 16), "fewer than 16 tokens", &body["max_output_tokens"])?;
    for tool in body["tools"].as_array().into_iter().flatten() {
        fields(tool, &["type", "name", "description", "parameters", "strict"])?;
        ensure(is_plain(text(&tool["name"], "a name")?, 64), "a name that is not taken", tool)?;
        ensure(tool["strict"] == false, "strict, with fields that may be left out", tool)?;
        parameters(&tool["parameters"])?;
    }
    let items = list(&body["input"], "input")?;
    let mut asked: Vec<&str> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        match item["type"].as_str().unwrap_or("message") {
            "message" => message(item)?,
            "function_call" => {
                fields(item, &["type", "call_id", "name", "arguments"])?;
                ensure(is_plain(text(&item["name"], "a name")?, 64), "a name that is not taken", item)?;
                arguments(&item["arguments"])?;
                let call = id(&item["call_id"], item)?;
                ensure(!asked.contains(&call), "two calls with one id", item)?;
                asked.push(call);
            }
            "function_call_output" => {
                fields(item, &["type", "call_id", "output"])?;
                let call = id(&item["call_id"], item)?;
                let known = asked.iter().position(|asked| *asked == call);
                let Some(known) = known else { return wrong("an output without its call, or a second one", item) };
                asked.remove(known);
                match &item["output"] {
                    Value::String(_) => {}
                    parts => list(parts, "an output")?.iter().try_for_each(user_part)?,
                }
            }
            "reasoning" => {
                let known = fields(item, &["type", "id", "summary", "content", "encrypted_content"])?;
                known.get("id").map_or(Ok(""), |of| id(of, item))?;
                ensure(item["summary"].is_array(), "a thought without a summary", item)?;
                ensure(item["encrypted_content"] == "signed by responses", "a thought that is not ours", item)?;
                let next = items.get(at + 1).unwrap_or(&Value::Null);
                let follows =
                    next["role"] == "assistant" || next["type"] == "function_call" || next["type"] == "reasoning";
                ensure(follows, "a thought that nothing follows", item)?;
            }
            _ => return wrong("an unknown item", item),
        }
    }
    asked.first().map_or(Ok(()), |call| wrong(format!("no output of the call {call}"), &body["model"]))
}

fn message(item: &Value) -> Checked {
    fields(item, &["type", "role", "content"])?;
    for part in list(&item["content"], "content")? {
        match item["role"].as_str() {
            Some("user") => user_part(part)?,
            Some("assistant") => {
                fields(part, &["type", "text"])?;
                ensure(part["type"] == "output_text" && part["text"].is_string(), "no text of an answer", part)?;
            }
            _ => return wrong("an unknown role", item),
        }
    }
    Ok(())
}

fn user_part(part: &Value) -> Checked {
    match text(&part["type"], "a type")? {
        "input_text" => fields(part, &["type", "text"]).map(drop),
        "input_image" => {
            fields(part, &["type", "image_url", "detail"])?;
            data_url(text(&part["image_url"], "an address")?, &IMAGES, part)
        }
        "input_file" if part["file_url"].is_string() => fields(part, &["type", "file_url"]).map(drop),
        "input_file" => {
            fields(part, &["type", "filename", "file_data"])?;
            text(&part["filename"], "a name")?;
            data_url(text(&part["file_data"], "data")?, &["application/pdf"], part)
        }
        _ => wrong("an unknown part", part),
    }
}
