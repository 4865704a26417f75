//! The body of a Chat Completions request.
//!
//! Everything that may differ between two steps of a session stands before the messages only if it rarely does; the messages
//! come last and only grow. So the body of a step, up to the end of its messages, is the beginning of the next one's.

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::{
    model::{
        Answer, AnswerPart, Endpoint, MaxTokensField, ReasoningBack, Request, ToolResultItem, ToolSpec,
        body::{begin, own_extra, sampling, to_json, with_options},
        pairs::{NO_RESULT, Said, paired, stray_text},
        pieces::{NO_OUTPUT, Piece, Takes, arguments, file_piece, pieces, plain_name, short_id, write_json},
        schema::in_dialect,
    },
    words::ids::CallId,
};

/// Fields that are ours alone: options cannot set them.
const OWN_FIELDS: &[&str] = &["model", "messages", "stream", "tools"];

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = begin(&endpoint.model, &fields(endpoint, request));
    if !request.tools.is_empty() {
        let tools: Vec<Tool<'_>> = request.tools.iter().map(|tool| Tool::of(tool, endpoint)).collect();
        out.extend_from_slice(b",\"tools\":");
        write_json(&mut out, &tools);
    }
    out.extend_from_slice(b",\"messages\":[");
    Messages { out: &mut out, first: true, files: Vec::new() }.all(endpoint, wire, request);
    out.extend_from_slice(b"]}");
    out.into()
}

/// The plain fields, in a fixed order: ours, then the options by name. An option replaces a field of ours of its name.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let params = &request.params;
    let mut fields: Vec<(String, Value)> = Vec::new();
    if endpoint.quirks.stream_options {
        fields.push(("stream_options".into(), serde_json::json!({ "include_usage": true })));
    }
    if let Some(max) = params.max_output {
        let name = match endpoint.quirks.max_tokens {
            MaxTokensField::MaxTokens => "max_tokens",
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        };
        fields.push((name.into(), max.into()));
    }
    fields.extend(sampling(params));
    with_options(fields, &params.options, OWN_FIELDS)
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: FunctionSpec<'a>,
}

#[derive(Serialize)]
struct FunctionSpec<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Value,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec, endpoint: &Endpoint) -> Tool<'a> {
        let parameters = in_dialect(&tool.schema, endpoint.quirks.schema);
        Tool {
            r#type: "function",
            function: FunctionSpec { name: &tool.name, description: &tool.description, parameters },
        }
    }
}

/// Writes the messages, one fragment after the other.
struct Messages<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
    /// Images of the results of this batch, already rendered. A tool message takes text only, and nothing may stand between
    /// the tool messages of a batch, so they follow as one user's message.
    files: Vec<Bytes>,
}

impl Messages<'_> {
    fn all(mut self, endpoint: &Endpoint, wire: &str, request: &Request) {
        let takes = takes(endpoint);
        if !request.system.is_empty() {
            self.message(&to_json(&Plain { role: "system", content: &request.system }));
        }
        for said in paired(&request.history) {
            if !matches!(said, Said::Result { .. } | Said::NoResult { .. }) {
                self.flush_files();
            }
            match said {
                Said::User { item, user } => {
                    self.message(&item.fragment(wire, || user_message(&pieces(&user.parts, takes))));
                }
                Said::Answer { item, answer } => self.message(&item.fragment(wire, || assistant(endpoint, answer))),
                Said::Result { item, result } => {
                    let (message, files) = split(&item.fragment(wire, || tool_message(result, takes)));
                    self.message(&message);
                    self.files.extend(Some(files).filter(|files| !files.is_empty()));
                }
                Said::NoResult { call } => self.message(&to_json(&ToolMessage::of(call, NO_RESULT))),
                Said::Stray { result } => self.message(&to_json(&Plain { role: "user", content: &stray_text(result) })),
            }
        }
        self.flush_files();
        if let Some(reminder) = &request.reminder {
            self.message(&to_json(&Plain { role: "user", content: reminder }));
        }
    }

    fn message(&mut self, message: &[u8]) {
        if message.is_empty() {
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(message);
    }

    fn flush_files(&mut self) {
        let files = std::mem::take(&mut self.files);
        if !files.is_empty() {
            self.message(&[b"{\"role\":\"user\",\"content\":[", &files.join(&b","[..])[..], b"]}"].concat());
        }
    }
}

fn takes(endpoint: &Endpoint) -> Takes {
    Takes { images: endpoint.limits.images, pdf: false }
}

#[derive(Serialize)]
struct Plain<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Rich<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: Url<'a> },
}

#[derive(Serialize)]
struct Url<'a> {
    url: &'a str,
}

fn content<'a>(piece: &'a Piece<'_>) -> Content<'a> {
    match piece {
        Piece::Text(text) => Content::Text { text },
        Piece::Image(file) | Piece::Pdf(file) => Content::ImageUrl { image_url: Url { url: &file.url } },
    }
}

/// Text alone goes as a string: many compatible servers take nothing else.
fn user_message(pieces: &[Piece<'_>]) -> Bytes {
    match joined(pieces) {
        Some(text) => to_json(&Plain { role: "user", content: &text }),
        None => to_json(&Rich { role: "user", content: pieces.iter().map(content).collect() }),
    }
}

/// All pieces as one text, if they are texts.
fn joined(pieces: &[Piece<'_>]) -> Option<String> {
    let texts: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_ref()),
            _ => None,
        })
        .collect();
    texts.map(|texts| texts.join("\n"))
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    tool_call_id: std::borrow::Cow<'a, str>,
    content: &'a str,
}

impl<'a> ToolMessage<'a> {
    fn of(call: &'a CallId, content: &'a str) -> ToolMessage<'a> {
        ToolMessage { role: "tool", tool_call_id: short_id(call), content }
    }
}

/// A result: its tool message, the parts of its images, and four bytes that say where the first ends. An item keeps one
/// fragment, and both belong to it.
fn tool_message(result: &ToolResultItem, takes: Takes) -> Bytes {
    let attachments: Vec<Piece<'_>> = result.attachments.iter().map(|file| file_piece(file, takes)).collect();
    let (texts, files): (Vec<_>, Vec<_>) = attachments.into_iter().partition(|piece| matches!(piece, Piece::Text(_)));
    let mut text = result.content.clone();
    for piece in &texts {
        if let Piece::Text(more) = piece {
            text.push('\n');
            text.push_str(more);
        }
    }
    let text = if text.trim().is_empty() { NO_OUTPUT } else { &text };
    let mut out = Vec::new();
    write_json(&mut out, &ToolMessage::of(&result.call, text));
    let message_len = u32::try_from(out.len()).unwrap_or(u32::MAX);
    if !files.is_empty() {
        write_json(&mut out, &Content::Text { text: &format!("Files of the result of {}:", result.name) });
        for file in &files {
            out.push(b',');
            write_json(&mut out, &content(file));
        }
    }
    out.extend_from_slice(&message_len.to_le_bytes());
    out.into()
}

fn split(fragment: &Bytes) -> (Bytes, Bytes) {
    let Some((rest, len)) = fragment.split_last_chunk::<4>() else {
        return (Bytes::new(), Bytes::new());
    };
    let message_len = (u32::from_le_bytes(*len) as usize).min(rest.len());
    (fragment.slice(..message_len), fragment.slice(message_len..rest.len()))
}

#[derive(Serialize)]
struct Assistant<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: std::borrow::Cow<'a, str>,
    r#type: &'static str,
    function: FunctionCall<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: std::borrow::Cow<'a, str>,
    arguments: std::borrow::Cow<'a, str>,
}

/// An answer; nothing where it had neither text nor calls, because an empty message is refused.
fn assistant(endpoint: &Endpoint, answer: &Answer) -> Bytes {
    let own_value = |extra, name: &str| own_extra(endpoint, extra).and_then(|value| value.get(name)).cloned();
    let text = answer.text();
    let mut thought = String::new();
    let mut details = None;
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text { .. } => {}
            AnswerPart::Reasoning { text, extra, .. } => {
                if own_extra(endpoint, extra).is_some() {
                    thought.push_str(text);
                }
                details = own_value(extra, "reasoning_details").or(details);
            }
            AnswerPart::Call { id, name, input, extra } => {
                calls.push((id, name, input, own_value(extra, "extra_content")))
            }
        }
    }
    if text.trim().is_empty() && calls.is_empty() {
        return Bytes::new();
    }
    let with_calls = endpoint.quirks.reasoning == ReasoningBack::WithCalls && !calls.is_empty();
    to_json(&Assistant {
        role: "assistant",
        content: Some(text.as_str()).filter(|text| !text.is_empty()),
        reasoning_content: with_calls.then_some(thought),
        reasoning_details: details.as_ref().filter(|_| endpoint.quirks.reasoning == ReasoningBack::Details),
        tool_calls: calls
            .iter()
            .map(|(id, name, input, extra_content)| ToolCall {
                id: short_id(id),
                r#type: "function",
                function: FunctionCall { name: plain_name(name), arguments: arguments(input) },
                extra_content: extra_content.as_ref(),
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests;
