//! Renders a request as the body of OpenAI's Responses API.
//!
//! The server is asked to keep nothing (`store: false`), so a request carries the whole conversation, as a flat list of items:
//! messages, calls, results, thoughts. A thought goes back encrypted, as it came, before the item that it led to. The ids that the
//! server gave to its items stay here: without what it keeps, they name nothing.
//!
//! The items come last in the body. While the history only grows, the body up to the end of its history is the beginning of the
//! next request's body, and the provider's cache hits. Each item of the history caches its rendered bytes under the key `wire`. So
//! the rendering of an item may depend on two things only: the item itself, and the values of the endpoint that `wire` is made of
//! (`model/wire.rs`, `rendering`).

use bytes::Bytes;
use serde_json::{Value, json};

use crate::model::{
    AnswerPart, Endpoint, ModelAnswer, Request, ToolResultItem,
    answer_schema::reminder,
    body::{begin, is_kept, put, to_json},
    pairs::{NO_RESULT, NOTHING_EARLIER, Said, paired, stray_text},
    pieces::{NO_OUTPUT, Piece, Takes, arguments, file_piece, plain_name, said_by_user, short_id, write_json},
    schema::in_dialect,
    thinking::{asked, known_thinking},
};

/// The fewest tokens of an answer that the API may be asked for.
const MAX_OUTPUT_MIN: u64 = 16;

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = begin(&endpoint.model, &request.params, fields(endpoint, request));
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b",\"instructions\":");
        write_json(&mut out, &*request.system);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let parameters = in_dialect(&tool.schema, endpoint.quirks.schema);
            // Strict would refuse every schema with a field that may be left out.
            json!({
                "type": "function", "name": tool.name, "description": tool.description,
                "parameters": parameters, "strict": false,
            })
        });
        out.extend_from_slice(b",\"tools\":");
        write_json(&mut out, &tools.collect::<Value>());
    }
    out.extend_from_slice(b",\"input\":[");
    put(&mut out, &items(endpoint, wire, request));
    out.extend_from_slice(b"]}");
    out.into()
}

/// The same as an event that begins a response over a WebSocket, where `stream` is no field.
#[cfg(feature = "websocket")]
pub(crate) fn create(endpoint: &Endpoint, wire: &str, request: &Request) -> String {
    let body = body(endpoint, wire, request);
    let body = String::from_utf8_lossy(&body);
    format!("{{\"type\":\"response.create\",{}", body[1..].replacen(",\"stream\":true", "", 1))
}

/// Whether a text stands behind the history for this request alone.
#[cfg(feature = "websocket")]
pub(crate) fn is_reminded(request: &Request) -> bool {
    behind(request).is_some()
}

/// The event that sends a message into the response of that name.
#[cfg(feature = "websocket")]
pub(crate) fn steer(endpoint: &Endpoint, response: &str, said: &crate::model::UserItem) -> String {
    let parts = said_by_user(said, Takes::of(endpoint, true));
    let message = message("user", parts.iter().map(content));
    let message: Value = serde_json::from_slice(&message).unwrap_or_default();
    json!({"type": "response.steer", "previous_response_id": response, "input": [message]}).to_string()
}

/// The plain fields that only this API has.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let mut fields = vec![("store".to_owned(), false.into())];
    // A model that does not think refuses to be asked for its thoughts.
    if !known_thinking(&endpoint.model).is_empty() {
        fields.push(("include".to_owned(), json!(["reasoning.encrypted_content"])));
    }
    if let Some(max) = request.params.max_output {
        fields.push(("max_output_tokens".to_owned(), max.max(MAX_OUTPUT_MIN).into()));
    }
    if let Some(schema) = &request.params.answer_schema {
        let shape =
            json!({"type": "json_schema", "name": "answer", "schema": schema.as_json(), "strict": schema.is_strict()});
        fields.push(("text".to_owned(), json!({ "format": shape })));
    }
    if let Some((level, _)) = asked(endpoint, request.params.thinking) {
        fields.push(("reasoning".to_owned(), json!({"effort": level.effort("xhigh")})));
    }
    fields
}

/// What stands behind the history for this request alone.
fn behind(request: &Request) -> Option<String> {
    let is_given = is_kept(&request.params.options, "text", Some("format"));
    reminder(request, is_given).filter(|reminder| !reminder.trim().is_empty())
}

fn items(endpoint: &Endpoint, wire: &str, request: &Request) -> Vec<Bytes> {
    let takes = Takes::of(endpoint, true);
    let user = |text: &str| message("user", [content(&Piece::Text(text.into()))]);
    let said = paired(&request.history).into_iter().map(|said| match said {
        Said::User(item, of) => item.fragment(wire, || message("user", said_by_user(of, takes).iter().map(content))),
        Said::Answer(item, answer) => item.fragment(wire, || answer_items(endpoint, answer)),
        Said::Result(item, result) => item.fragment(wire, || result_item(result, takes)),
        Said::NoResult(call, _) => output(short_id(call).as_ref(), NO_RESULT.into()),
        Said::Stray(result) => user(&stray_text(result)),
    });
    let mut items: Vec<Bytes> =
        said.chain(behind(request).as_deref().map(user)).filter(|items| !items.is_empty()).collect();
    if items.is_empty() {
        items.push(user(NOTHING_EARLIER));
    }
    items
}

fn message(role: &str, content: impl IntoIterator<Item = Value>) -> Bytes {
    to_json(&json!({"type": "message", "role": role, "content": Value::from_iter(content)}))
}

fn content(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "input_text", "text": text}),
        Piece::Image(file, kind) => {
            let inline = file.base64().map(|data| format!("data:{kind};base64,{data}"));
            json!({"type": "input_image", "image_url": inline.as_ref().unwrap_or(&file.url), "detail": "auto"})
        }
        Piece::Pdf(file) if file.base64().is_some() => {
            let name = file.filename.as_deref().unwrap_or("unnamed.pdf");
            json!({"type": "input_file", "filename": name, "file_data": file.url})
        }
        Piece::Pdf(file) => json!({"type": "input_file", "file_url": file.url}),
    }
}

fn output(call: &str, output: Value) -> Bytes {
    to_json(&json!({"type": "function_call_output", "call_id": call, "output": output}))
}

/// A result: its text alone as a string, which every server with this API takes, and with files as a list.
fn result_item(result: &ToolResultItem, takes: Takes) -> Bytes {
    let text = if result.content.trim().is_empty() { NO_OUTPUT } else { &result.content };
    let attached = result.attachments.iter().map(|file| content(&file_piece(file, takes)));
    let all = match result.attachments.is_empty() {
        true => text.into(),
        false => std::iter::once(content(&Piece::Text(text.into()))).chain(attached).collect(),
    };
    output(short_id(&result.call).as_ref(), all)
}

/// The items of an answer; empty if nothing of it can be sent.
///
/// The API refuses a thought that nothing follows, as in an answer that was cut short, so a thought waits for the item behind it.
fn answer_items(endpoint: &Endpoint, answer: &ModelAnswer) -> Bytes {
    let mut items: Vec<Bytes> = Vec::new();
    let mut thoughts: Vec<Bytes> = Vec::new();
    for part in &answer.parts {
        let item = match part {
            AnswerPart::Reasoning { extra, .. } => {
                let own = endpoint.own(extra).filter(|item| item["encrypted_content"].is_string());
                thoughts.extend(own.map(to_json));
                continue;
            }
            AnswerPart::Text { text, .. } if text.trim().is_empty() => continue,
            AnswerPart::Text { text, .. } => message("assistant", [json!({"type": "output_text", "text": text})]),
            AnswerPart::Call { id, name, input, .. } => to_json(&json!({
                "type": "function_call", "call_id": short_id(id), "name": plain_name(name),
                "arguments": arguments(input),
            })),
        };
        items.append(&mut thoughts);
        items.push(item);
    }
    items.join(&b","[..]).into()
}

#[cfg(test)]
mod tests;
