//! Renders a request as the body of OpenAI's Chat Completions.
//!
//! The messages come last. While the history only grows, and the tools, the system prompt and the parameters stay the same, the
//! body up to the end of its history is the beginning of the next request's body, and the provider's cache hits. A change must
//! keep this: it must put nothing that often differs between requests before the messages.
//!
//! Each item caches its rendered bytes under the key `wire`. So the rendering of an item may depend on two things only: the item
//! itself, and the values of the endpoint that `wire` is made of (`model/wire.rs`, `rendering`).

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    model::{
        AnswerField, AnswerPart, Endpoint, MaxTokensField, ModelAnswer, ReasoningBack, Request, Thinking,
        ThinkingField,
        answer_schema::reminder,
        attached::{halves, in_halves},
        body::{begin, is_kept, put, to_json},
        pairs::{NO_RESULT, Said, paired, stray_text},
        pieces::{Piece, Takes, arguments, plain_name, said_by_user, short_id, write_json},
        schema::in_dialect,
        thinking::{Refused, asked, beside_tools, known_thinking},
    },
    words::ids::CallId,
};

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = begin(&endpoint.model, &request.params, fields(endpoint, request));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut function = json!({"name": tool.name, "description": tool.description});
            if let Some(parameters) = in_dialect(&tool.schema, endpoint.quirks.schema) {
                function["parameters"] = parameters;
            }
            json!({"type": "function", "function": function})
        });
        out.extend_from_slice(b",\"tools\":");
        write_json(&mut out, &tools.collect::<Value>());
    }
    out.extend_from_slice(b",\"messages\":[");
    put(&mut out, &messages(endpoint, wire, request));
    out.extend_from_slice(b"]}");
    out.into()
}

/// The plain fields that only this API has.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let mut fields: Vec<(String, Value)> = Vec::new();
    if endpoint.quirks.stream_options {
        fields.push(("stream_options".into(), json!({ "include_usage": true })));
    }
    if let Some(max) = request.params.max_output {
        let name = match endpoint.quirks.max_tokens {
            MaxTokensField::MaxTokens => "max_tokens",
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        };
        fields.push((name.into(), max.into()));
    }
    if let Some(schema) = &request.params.answer_schema {
        let shape = json!({"name": "answer", "schema": schema.as_json(), "strict": schema.is_strict()});
        match endpoint.quirks.answer {
            AnswerField::Schema | AnswerField::SchemaAlone if !is_given_schema(endpoint, request) => {}
            AnswerField::Schema | AnswerField::SchemaAlone => {
                fields.push(("response_format".into(), json!({"type": "json_schema", "json_schema": shape})));
            }
            AnswerField::Json if request.tools.is_empty() => {
                fields.push(("response_format".into(), json!({"type": "json_object"})));
            }
            AnswerField::Json | AnswerField::Words => {}
        }
    }
    let refused = beside_tools(&endpoint.provider, &endpoint.model).filter(|_| !request.tools.is_empty());
    let level = match refused {
        Some(Refused::Words) => None,
        Some(Refused::Thought) => Some(Thinking::Off),
        None => asked(endpoint, request.params.thinking).map(|(level, _)| level),
    };
    fields.extend(level.into_iter().flat_map(|level| thinking(endpoint, level)));
    fields
}

/// Whether the request holds the schema of its answer.
fn is_given_schema(endpoint: &Endpoint, request: &Request) -> bool {
    let takes = match endpoint.quirks.answer {
        AnswerField::Schema => true,
        AnswerField::SchemaAlone => request.tools.is_empty(),
        AnswerField::Json | AnswerField::Words => false,
    };
    takes && is_kept(&request.params.options, "response_format", None)
}

/// The fields that say how much to think.
fn thinking(endpoint: &Endpoint, level: Thinking) -> Vec<(String, Value)> {
    let is_on = level > Thinking::Off;
    let mut fields = vec![match endpoint.quirks.thinking {
        // Groq has two words of its own for the models of Qwen.
        ThinkingField::Effort if endpoint.provider == "groq" && endpoint.model.starts_with("qwen") => {
            ("reasoning_effort", if is_on { "default" } else { "none" }.into())
        }
        ThinkingField::Effort => ("reasoning_effort", level.effort("xhigh").into()),
        ThinkingField::Record => ("reasoning", json!({"effort": level.effort("xhigh")})),
        ThinkingField::Switch => ("thinking", json!({"type": if is_on { "enabled" } else { "disabled" }})),
        ThinkingField::Budget => ("enable_thinking", is_on.into()),
    }];
    let thoughts = known_thinking(&endpoint.model).iter().filter(|level| **level > Thinking::Off);
    match endpoint.quirks.thinking {
        ThinkingField::Switch if is_on && thoughts.count() > 1 => {
            fields.push(("reasoning_effort", level.effort("max").into()));
        }
        ThinkingField::Budget if is_on => fields.push(("thinking_budget", level.budget().into())),
        _ => {}
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn messages(endpoint: &Endpoint, wire: &str, request: &Request) -> Vec<Bytes> {
    let takes = Takes::of(endpoint, false);
    let mut messages = Vec::new();
    // Images of the results of this batch, already rendered. A tool message takes text only, and nothing may come between the
    // tool messages of a batch, so they follow as one user's message.
    let mut files: Vec<Bytes> = Vec::new();
    if !request.system.is_empty() {
        messages.push(message("system", &*request.system));
    }
    for said in paired(&request.history) {
        if !files.is_empty() && !matches!(said, Said::Result(..) | Said::NoResult(..)) {
            messages.extend(message_of(std::mem::take(&mut files)));
        }
        messages.push(match said {
            Said::User(item, user) => item.fragment(wire, || user_message(&said_by_user(user, takes))),
            Said::Answer(item, answer) => item.fragment(wire, || assistant(endpoint, answer)),
            Said::Result(item, result) => {
                let message = |text: &str| tool_message(&result.call, text);
                let (message, more) = halves(&item.fragment(wire, || in_halves(result, takes, message, content)));
                files.extend(more);
                message
            }
            Said::NoResult(call, _) => to_json(&tool_message(call, NO_RESULT)),
            Said::Stray(result) => message("user", stray_text(result)),
        });
    }
    messages.extend(message_of(files));
    let said = reminder(request, is_given_schema(endpoint, request));
    messages.extend(said.map(|reminder| message("user", reminder)));
    messages.retain(|message| !message.is_empty());
    messages
}

/// A user's message with those files; `None` if there are none.
fn message_of(files: Vec<Bytes>) -> Option<Bytes> {
    let message = [b"{\"role\":\"user\",\"content\":[", &files.join(&b","[..])[..], b"]}"].concat();
    (!files.is_empty()).then(|| message.into())
}

fn message(role: &str, content: impl Into<Value>) -> Bytes {
    to_json(&json!({"role": role, "content": content.into()}))
}

fn content(piece: &Piece<'_>) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image(file, kind) => {
            let inline = file.base64().map(|data| format!("data:{kind};base64,{data}"));
            json!({"type": "image_url", "image_url": {"url": inline.as_ref().unwrap_or(&file.url)}})
        }
        Piece::Pdf(file) => json!({"type": "image_url", "image_url": {"url": file.url}}),
    }
}

/// A user's message. Text alone goes as a string: many compatible servers take nothing else.
fn user_message(pieces: &[Piece<'_>]) -> Bytes {
    let texts: Option<Vec<&str>> = pieces.iter().map(Piece::text).collect();
    match texts {
        Some(texts) => message("user", texts.join("\n")),
        None => message("user", pieces.iter().map(content).collect::<Value>()),
    }
}

fn tool_message(call: &CallId, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": short_id(call), "content": content})
}

/// The message of an answer; empty if it has neither text nor calls, because servers refuse an empty message.
fn assistant(endpoint: &Endpoint, answer: &ModelAnswer) -> Bytes {
    let own_value = |extra, name: &str| endpoint.own(extra).and_then(|value| value.get(name)).cloned();
    let text = answer.text();
    let mut thought = String::new();
    let mut details = None;
    let mut calls = Vec::new();
    for part in &answer.parts {
        match part {
            AnswerPart::Text { .. } => {}
            AnswerPart::Reasoning { text, extra, .. } => {
                if endpoint.own(extra).is_some() {
                    thought.push_str(text);
                }
                details = own_value(extra, "reasoning_details").or(details);
            }
            AnswerPart::Call { id, name, input, extra } => {
                let function = json!({"name": plain_name(name), "arguments": arguments(input)});
                let mut call = json!({"id": short_id(id), "type": "function", "function": function});
                if let Some(extra) = own_value(extra, "extra_content") {
                    call["extra_content"] = extra;
                }
                calls.push(call);
            }
        }
    }
    if text.trim().is_empty() && calls.is_empty() {
        return Bytes::new();
    }
    let mut message = json!({"role": "assistant", "content": Some(text).filter(|text| !text.is_empty())});
    match (endpoint.quirks.reasoning, details) {
        (ReasoningBack::WithCalls, _) if !calls.is_empty() => message["reasoning_content"] = thought.into(),
        (ReasoningBack::Details, Some(details)) => message["reasoning_details"] = details,
        _ => {}
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    to_json(&message)
}

#[cfg(test)]
mod tests;
