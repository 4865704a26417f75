//! Renders a request as the body of Anthropic's Messages API.
//!
//! Items are rendered as content blocks without an envelope; consecutive blocks of one role make one message. So the results of a
//! batch and the user's text after them share a message, results first, as the API demands. A call without a result gets a
//! stand-in (`model/pairs.rs`).
//!
//! A change must keep the messages last in the body. While the history only grows, its blocks in one request must begin with those
//! of the request before, apart from the cache marks, or the provider's cache is lost. Each item caches its rendered bytes under
//! the key `wire`. So the rendering of an item may depend on two things only: the item itself, and the values of the endpoint that
//! `wire` is made of (`model/wire.rs`, `rendering`).

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    model::{
        AnswerPart, Endpoint, ModelAnswer, Params, ReasoningBack, Request, Thinking, ToolResultItem,
        answer_schema::reminder,
        assembly::calls,
        body::{Turns, add, begin, is_kept, put_turns},
        catalogue::takes_schema,
        pairs::{NO_RESULT, NOTHING_EARLIER, Said, paired, stray_text},
        pieces::{NO_OUTPUT, Piece, Takes, arguments, file_piece, plain_id, plain_name, said_by_user, write_json},
        schema::in_dialect,
        thinking::{By, asked, budget},
    },
    words::{ids::CallId, message::FilePart},
};

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = begin(&endpoint.model, &sampling(endpoint, request), fields(endpoint, request));
    let mut tools = blocks(tools(endpoint, request));
    if !tools.is_empty() {
        if endpoint.quirks.auto_cache && !request.tools.is_empty() {
            tools = marked(&tools);
        }
        out.extend_from_slice(&[b",\"tools\":[", &tools[..], b"]"].concat());
    }
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b",\"system\":");
        match endpoint.quirks.auto_cache {
            true => out.extend_from_slice(&[b"[", &marked(&blocks([text_block(&request.system)]))[..], b"]"].concat()),
            false => write_json(&mut out, &*request.system),
        }
    }
    out.extend_from_slice(b",\"messages\":[");
    put_turns(&mut out, &messages(endpoint, wire, request), "content", |role| role);
    out.extend_from_slice(b"]}");
    out.into()
}

/// The cache mark of a block. The provider caches the prefix up to the end of the block, and looks for a cached prefix up to some
/// twenty blocks back.
///
/// At most four marks may be set. They are set on the last tool, on the system prompt, at the end of the history, and at the end
/// of the user's message before the newest answer. The request before this one ended there, so its cached prefix is found after
/// any number of calls. The provider does not compare the marks, so they may move.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// Blocks with a mark on the last one.
fn marked(blocks: &[u8]) -> Bytes {
    let before_the_brace = &blocks[..blocks.len().saturating_sub(1)];
    [before_the_brace, MARK, b"}"].concat().into()
}

/// The plain fields that only this API has.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let max = output_max(endpoint, &request.params);
    let mut fields = vec![("max_tokens".to_owned(), max.into())];
    let mut config = json!({});
    for (name, value) in thinking(endpoint, request) {
        match name {
            "effort" => config[name] = value,
            name => fields.push((name.to_owned(), value)),
        }
    }
    if let Some(schema) = request.params.answer_schema.as_ref().filter(|_| is_given_schema(endpoint, request)) {
        config["format"] = json!({"type": "json_schema", "schema": schema.as_json()});
    }
    if config != json!({}) {
        fields.push(("output_config".to_owned(), config));
    }
    if request.tools.is_empty() && request.history.answers().any(|answer| calls(answer).next().is_some()) {
        fields.push(("tool_choice".to_owned(), json!({ "type": "none" })));
    }
    fields
}

fn output_max(endpoint: &Endpoint, params: &Params) -> u64 {
    params.max_output.unwrap_or(endpoint.limits.output).clamp(1, endpoint.limits.output.max(1))
}

/// The fields that say how much to think. Of the older models, which take a number of tokens, none thinks unless it is asked to.
fn thinking(endpoint: &Endpoint, request: &Request) -> Vec<(&'static str, Value)> {
    match asked(endpoint, wish(endpoint, request)) {
        None => Vec::new(),
        Some((Thinking::Off, By::Effort)) => vec![("thinking", json!({"type": "disabled"}))],
        Some((level, By::Effort)) => {
            vec![("thinking", json!({"type": "adaptive"})), ("effort", level.max(Thinking::Low).name().into())]
        }
        Some((level, By::Budget)) => {
            let budget = budget(level, output_max(endpoint, &request.params));
            let thinking = |budget| ("thinking", json!({"type": "enabled", "budget_tokens": budget}));
            budget.map(thinking).into_iter().collect()
        }
    }
}

/// The level that is wished for. A model with a number of tokens thinks behind the results of its calls where it thought before
/// them, and nowhere else: the API refuses a change in mid-turn.
fn wish(endpoint: &Endpoint, request: &Request) -> Option<Thinking> {
    let wish = request.params.thinking;
    let newest = request.history.answers().last().filter(|answer| calls(answer).next().is_some());
    let is_by_budget = asked(endpoint, Some(Thinking::High)).is_some_and(|(_, by)| by == By::Budget);
    match newest.filter(|_| is_by_budget).map(|answer| has_signed_thought(endpoint, answer)) {
        Some(true) => Some(wish.map_or(Thinking::Minimal, |level| level.max(Thinking::Minimal))),
        Some(false) => None,
        None => wish,
    }
}

fn has_signed_thought(endpoint: &Endpoint, answer: &ModelAnswer) -> bool {
    answer.parts.iter().any(|part| match part {
        AnswerPart::Reasoning { extra, .. } => {
            let own = endpoint.own(extra);
            own.is_some_and(|value| value["signature"].is_string() || value["redacted"].is_string())
        }
        _ => false,
    })
}

/// Whether the request holds the schema of its answer. The API takes the strict form alone.
fn is_given_schema(endpoint: &Endpoint, request: &Request) -> bool {
    let is_strict =
        || request.params.answer_schema.as_ref().is_some_and(|schema| schema.is_strict() && schema.is_finite());
    let is_kept = is_kept(&request.params.options, "output_config", Some("format"));
    endpoint.quirks.answer.is_schema() && takes_schema(&endpoint.model) && is_kept && is_strict()
}

/// The beginnings of the names of models that refuse a temperature and nucleus sampling, whether they think or not.
const NOT_SAMPLED: &[&str] = &[
    "claude-opus-4-7",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5-5",
    "claude-fable",
    "claude-mythos",
];

/// The parameters without those that the API refuses: of a model that thinks, of a newer one, and nucleus sampling beside a
/// temperature.
fn sampling(endpoint: &Endpoint, request: &Request) -> Params {
    let mut params = request.params.clone();
    let name = endpoint.model.rsplit('/').next().unwrap_or_default();
    let thinks = thinking(endpoint, request).iter().any(|(_, value)| value["type"] != "disabled");
    if thinks || NOT_SAMPLED.iter().any(|beginning| name.starts_with(beginning)) {
        (params.temperature, params.top_p) = (None, None);
    } else if params.temperature.is_some() && name.starts_with("claude") {
        params.top_p = None;
    }
    params
}

/// The tools on offer. The API demands tools with a history that has calls. So where none are on offer (the last step of a turn),
/// the tools that were called are named, and `tool_choice` forbids calling them.
fn tools(endpoint: &Endpoint, request: &Request) -> Vec<Value> {
    let tool = |name: &str, description: &str, schema: &Value| {
        // The API demands a schema, also of a tool without arguments.
        let schema = in_dialect(schema, endpoint.quirks.schema).unwrap_or_else(|| json!({"type": "object"}));
        json!({"name": name, "description": description, "input_schema": schema})
    };
    if request.tools.is_empty() {
        let called = request.history.answers().flat_map(calls).map(|(_, name)| plain_name(name));
        let called = called.collect::<BTreeSet<_>>();
        return called.iter().map(|name| tool(name, "Not on offer now.", &json!({}))).collect();
    }
    request.tools.iter().map(|offered| tool(&offered.name, &offered.description, &offered.schema)).collect()
}

/// The messages. Consecutive blocks of one role make one message.
fn messages(endpoint: &Endpoint, wire: &str, request: &Request) -> Turns {
    let takes = Takes::of(endpoint, true);
    let text = |text: &str| blocks([text_block(text)]);
    let mut messages = Turns::new();
    for said in paired(&request.history) {
        let (role, blocks) = match said {
            Said::User(item, user) => {
                ("user", item.fragment(wire, || blocks(said_by_user(user, takes).iter().map(block))))
            }
            Said::Answer(item, answer) => ("assistant", item.fragment(wire, || answer_blocks(endpoint, answer))),
            Said::Result(item, result) => ("user", item.fragment(wire, || result_fragment(result, takes))),
            Said::NoResult(call, _) => ("user", tool_result(call, NO_RESULT.into(), true)),
            Said::Stray(result) => ("user", text(&stray_text(result))),
        };
        if role == "assistant" && messages.is_empty() && !blocks.is_empty() {
            add(&mut messages, "user", text(NOTHING_EARLIER));
        }
        add(&mut messages, role, blocks);
    }
    if endpoint.quirks.auto_cache {
        let of_the_user = messages.iter_mut().rev().filter(|(role, _)| *role == "user");
        for last in of_the_user.take(2).filter_map(|(_, blocks)| blocks.last_mut()) {
            *last = marked(last);
        }
    }
    // The reminder comes after the marks, because it belongs to this request only.
    let said = reminder(request, is_given_schema(endpoint, request));
    if let Some(reminder) = said.filter(|reminder| !reminder.trim().is_empty()) {
        add(&mut messages, "user", text(&reminder));
    }
    if messages.is_empty() {
        add(&mut messages, "user", text(NOTHING_EARLIER));
    }
    messages
}

fn source(file: &FilePart, kind: &str) -> Value {
    match file.base64() {
        Some(data) => json!({"type": "base64", "media_type": kind, "data": data}),
        None => json!({"type": "url", "url": file.url}),
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn block(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => text_block(text),
        Piece::Image(file, kind) => json!({"type": "image", "source": source(file, kind)}),
        Piece::Pdf(file) => json!({"type": "document", "source": source(file, &file.mime)}),
    }
}

/// Blocks as JSON, with commas between them and nothing around.
fn blocks(blocks: impl IntoIterator<Item = Value>) -> Bytes {
    let mut out = Vec::new();
    for block in blocks {
        if !out.is_empty() {
            out.push(b',');
        }
        write_json(&mut out, &block);
    }
    out.into()
}

fn result_fragment(result: &ToolResultItem, takes: Takes) -> Bytes {
    // The API refuses empty text, and an error without any.
    let text = if result.content.trim().is_empty() { NO_OUTPUT } else { &result.content };
    let attached = result.attachments.iter().map(|file| block(&file_piece(file, takes)));
    let content = match result.attachments.is_empty() {
        true => text.into(),
        false => std::iter::once(text_block(text)).chain(attached).collect(),
    };
    tool_result(&result.call, content, result.is_error)
}

fn tool_result(call: &CallId, content: Value, is_error: bool) -> Bytes {
    let mut block = json!({"type": "tool_result", "tool_use_id": plain_id(call), "content": content});
    if is_error {
        block["is_error"] = true.into();
    }
    blocks([block])
}

/// The blocks of an answer; empty if nothing of it can be sent.
///
/// A thought goes back only to the provider that it came from, and with its signature: the API refuses an unsigned thought, as in
/// an answer that was cut short. Servers that sign nothing may still want it back next to its calls: the quirk
/// [`ReasoningBack::WithCalls`]. The API also refuses text of white space alone.
fn answer_blocks(endpoint: &Endpoint, answer: &ModelAnswer) -> Bytes {
    let mut out: Vec<Bytes> = Vec::new();
    let unsigned_too = endpoint.quirks.reasoning == ReasoningBack::WithCalls && calls(answer).next().is_some();
    for part in &answer.parts {
        match part {
            AnswerPart::Text { text, .. } => out.extend((!text.trim().is_empty()).then(|| blocks([text_block(text)]))),
            AnswerPart::Reasoning { text, extra, .. } => {
                let Some(value) = endpoint.own(extra) else { continue };
                if let Some(signature) = value["signature"].as_str() {
                    out.push(blocks([json!({"type": "thinking", "thinking": text, "signature": signature})]));
                } else if let Some(data) = value["redacted"].as_str() {
                    out.push(blocks([json!({"type": "redacted_thinking", "data": data})]));
                } else if unsigned_too && !text.trim().is_empty() {
                    out.push(blocks([json!({"type": "thinking", "thinking": text, "signature": ""})]));
                }
            }
            AnswerPart::Call { id, name, input, .. } => {
                let head = blocks([json!({"type": "tool_use", "id": plain_id(id), "name": plain_name(name)})]);
                // The arguments go back byte by byte, not parsed and written again.
                let input = arguments(input);
                out.push([&head[..head.len() - 1], b",\"input\":", input.as_bytes(), b"}"].concat().into());
            }
        }
    }
    out.join(&b","[..]).into()
}

#[cfg(test)]
mod tests;
