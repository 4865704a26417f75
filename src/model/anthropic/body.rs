//! The body of a Messages request.
//!
//! Items are rendered as content blocks without an envelope; what follows each other in one role goes into one message. So
//! the results of a batch and the user's text after them share a message, results first, as the API demands, and a message
//! that grows by another block keeps its beginning. The messages come last in the body and only grow (promise 12).

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};

use crate::{
    model::{
        Answer, AnswerPart, Endpoint, Item, Request, ToolResultItem,
        assembly::calls,
        body::{begin, own_extra, sampling, with_options},
        pairs::{NO_RESULT, Said, paired, stray_text},
        pieces::{NO_OUTPUT, Piece, Takes, arguments, file_piece, pieces, plain_id, plain_name, write_json},
        schema::in_dialect,
    },
    words::message::FilePart,
};

/// Fields that are ours alone: options cannot set them.
const OWN_FIELDS: &[&str] = &["model", "messages", "stream", "tools", "system"];

/// What is said where the API demands a user's message and there is none.
const NOTHING_EARLIER: &str = "(the earlier part of this conversation is left out)";

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = begin(&endpoint.model, &fields(endpoint, request));
    let tools = tools(endpoint, request);
    if !tools.is_empty() {
        out.extend_from_slice(b",\"tools\":");
        write_json(&mut out, &tools);
    }
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b",\"system\":");
        match endpoint.quirks.auto_cache {
            true => {
                out.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
                write_json(&mut out, &*request.system);
                out.extend_from_slice(MARK);
                out.extend_from_slice(b"}]");
            }
            false => write_json(&mut out, &*request.system),
        }
    }
    out.extend_from_slice(b",\"messages\":[");
    let mut messages = Messages { out: &mut out, role: None, has_block: false, ends: [None; 2] };
    messages.all(endpoint, wire, request);
    let ends = messages.ends;
    out.extend_from_slice(b"]}");
    if endpoint.quirks.auto_cache {
        // The later one first, so that the other stays where it is.
        for end in ends.into_iter().rev().flatten() {
            let before_the_brace = end.saturating_sub(1);
            out.splice(before_the_brace..before_the_brace, MARK.iter().copied());
        }
    }
    out.into()
}

/// Marks a block: the provider keeps what goes up to its end, and looks for what it has kept some twenty blocks back from it.
///
/// At most four may be set. They stand on the last tool, on the system prompt, at the end of the history, and at the end of
/// the user's message before the newest answer: there the request before this one ended, so what it had kept is found
/// however many calls came between. The marks are no part of what is compared, so they may move.
const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

/// The plain fields, in a fixed order: ours, then the options by name. An option replaces a field of ours of its name.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let max = request.params.max_output.unwrap_or(endpoint.limits.output).clamp(1, endpoint.limits.output.max(1));
    let mut fields = vec![("max_tokens".to_owned(), max.into())];
    fields.extend(sampling(&request.params));
    if request.tools.is_empty() && has_calls(request) {
        fields.push(("tool_choice".to_owned(), json!({ "type": "none" })));
    }
    with_options(fields, &request.params.options, OWN_FIELDS)
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

/// The tools on offer. A history with calls must come with tools, so where none are on offer (the last step of a turn) those
/// that were called are named, and `tool_choice` forbids to call them.
fn tools<'a>(endpoint: &Endpoint, request: &'a Request) -> Vec<Tool<'a>> {
    if !request.tools.is_empty() {
        let tool = |tool: &'a crate::model::ToolSpec| Tool {
            name: tool.name.as_str().into(),
            description: &tool.description,
            input_schema: in_dialect(&tool.schema, endpoint.quirks.schema),
            cache_control: None,
        };
        let mut tools: Vec<_> = request.tools.iter().map(tool).collect();
        if let (Some(last), true) = (tools.last_mut(), endpoint.quirks.auto_cache) {
            last.cache_control = Some(json!({ "type": "ephemeral" }));
        }
        return tools;
    }
    let answers = request.history.iter().filter_map(|item| match item.as_ref() {
        Item::Assistant(answer) => Some(answer),
        _ => None,
    });
    let names: std::collections::BTreeSet<Cow<'_, str>> =
        answers.flat_map(|answer| calls(answer).map(|(_, name)| plain_name(name))).collect();
    let called = |name| Tool {
        name,
        description: "Not on offer now.",
        input_schema: in_dialect(&json!({}), endpoint.quirks.schema),
        cache_control: None,
    };
    names.into_iter().map(called).collect()
}

fn has_calls(request: &Request) -> bool {
    let has = |item: &Item| matches!(item, Item::Assistant(answer) if calls(answer).next().is_some());
    request.history.iter().any(|item| has(item))
}

/// Writes the messages: opens one where the role changes, and puts blocks into it.
struct Messages<'a> {
    out: &'a mut Vec<u8>,
    role: Option<&'static str>,
    has_block: bool,
    /// Where the newest two messages of the user end: behind the last block of each.
    ends: [Option<usize>; 2],
}

impl Messages<'_> {
    fn all(&mut self, endpoint: &Endpoint, wire: &str, request: &Request) {
        let takes = Takes { images: endpoint.limits.images, pdf: endpoint.limits.images };
        for said in paired(&request.history) {
            match said {
                Said::User { item, user } => {
                    let fragment = item.fragment(wire, || blocks(pieces(&user.parts, takes).iter().map(block)));
                    self.blocks("user", &fragment);
                }
                Said::Answer { item, answer } => {
                    let fragment = item.fragment(wire, || answer_blocks(endpoint, answer));
                    if self.role.is_none() && !fragment.is_empty() {
                        self.blocks("user", &blocks([text_block(NOTHING_EARLIER)]));
                    }
                    self.blocks("assistant", &fragment);
                }
                Said::Result { item, result } => {
                    self.blocks("user", &item.fragment(wire, || result_fragment(result, takes)));
                }
                Said::NoResult { call } => {
                    let content = ResultContent::Text(NO_RESULT);
                    self.blocks(
                        "user",
                        &blocks([Block::ToolResult { tool_use_id: plain_id(call), content, is_error: true }]),
                    );
                }
                Said::Stray { result } => self.blocks("user", &blocks([text_block(&stray_text(result))])),
            }
        }
        // Behind it comes what is for this request only.
        self.note_end();
        if let Some(reminder) = request.reminder.as_deref().filter(|reminder| !reminder.trim().is_empty()) {
            self.blocks("user", &blocks([text_block(reminder)]));
        }
        if self.role.is_none() {
            self.blocks("user", &blocks([text_block(NOTHING_EARLIER)]));
        }
        self.out.extend_from_slice(b"]}");
    }

    /// A message of the user ends here, for now.
    fn note_end(&mut self) {
        let end = Some(self.out.len());
        if self.role == Some("user") && self.ends[1] != end {
            self.ends = [self.ends[1], end];
        }
    }

    fn blocks(&mut self, role: &'static str, blocks: &[u8]) {
        if blocks.is_empty() {
            return;
        }
        if self.role != Some(role) {
            self.note_end();
            if self.role.is_some() {
                self.out.extend_from_slice(b"]},");
            }
            self.out.extend_from_slice(b"{\"role\":\"");
            self.out.extend_from_slice(role.as_bytes());
            self.out.extend_from_slice(b"\",\"content\":[");
            self.role = Some(role);
            self.has_block = false;
        }
        if std::mem::replace(&mut self.has_block, true) {
            self.out.push(b',');
        }
        self.out.extend_from_slice(blocks);
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
}

fn source(file: &FilePart) -> Source<'_> {
    match file.base64() {
        Some(data) => Source::Base64 { media_type: &file.mime, data },
        None => Source::Url { url: &file.url },
    }
}

fn text_block(text: &str) -> Block<'_> {
    Block::Text { text }
}

fn block<'a>(piece: &'a Piece<'_>) -> Block<'a> {
    match piece {
        Piece::Text(text) => text_block(text),
        Piece::Image(file) => Block::Image { source: source(file) },
        Piece::Pdf(file) => Block::Document { source: source(file) },
    }
}

/// Blocks as JSON, with commas between them and nothing around.
fn blocks<'a>(blocks: impl IntoIterator<Item = Block<'a>>) -> Bytes {
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
    let attached: Vec<Piece<'_>> = result.attachments.iter().map(|file| file_piece(file, takes)).collect();
    let content = if attached.is_empty() {
        ResultContent::Text(text)
    } else {
        ResultContent::Blocks(std::iter::once(text_block(text)).chain(attached.iter().map(block)).collect())
    };
    blocks([Block::ToolResult { tool_use_id: plain_id(&result.call), content, is_error: result.is_error }])
}

/// The blocks of an answer; nothing where it had nothing that can be sent.
///
/// Thoughts go back only to the provider that signed them, and only signed: an unsigned one, of an answer that was cut
/// short, would be refused. Text of white space alone is refused too.
fn answer_blocks(endpoint: &Endpoint, answer: &Answer) -> Bytes {
    let mut out: Vec<Bytes> = Vec::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text { text, .. } => {
                if !text.trim().is_empty() {
                    out.push(blocks([text_block(text)]));
                }
            }
            AnswerPart::Reasoning { text, extra, .. } => {
                let Some(value) = own_extra(endpoint, extra) else { continue };
                if let Some(signature) = value.get("signature").and_then(Value::as_str) {
                    out.push(blocks([Block::Thinking { thinking: text, signature }]));
                } else if let Some(data) = value.get("redacted").and_then(Value::as_str) {
                    out.push(blocks([Block::RedactedThinking { data }]));
                }
            }
            AnswerPart::Call { id, name, input, .. } => {
                let input = RawValue::from_string(arguments(input).into_owned());
                let input = input.or_else(|_| RawValue::from_string("{}".to_owned()));
                if let Ok(input) = input {
                    out.push(blocks([Block::ToolUse { id: plain_id(id), name: plain_name(name), input }]));
                }
            }
        }
    }
    out.join(&b","[..]).into()
}

#[cfg(test)]
mod tests;
