//! Renders a request as the body of Gemini's `streamGenerateContent`.
//!
//! Items are rendered as parts without an envelope; consecutive parts of one speaker make one content. The results of a batch are a
//! content of their own, as many as the calls before it: the API counts them. Files of results follow in the user's place, because
//! not every model takes them in a result.
//!
//! The contents come last in the body. While the history only grows, its parts in one request begin with those of the request
//! before, and the provider's cache hits. Each item caches its rendered bytes under the key `wire`. So the rendering of an item may
//! depend on two things only: the item itself, and the values of the endpoint that `wire` is made of (`model/wire.rs`,
//! `rendering`).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::SIGNATURE;
use crate::model::{
    AnswerPart, Endpoint, ModelAnswer, Request, SchemaDialect, Thinking,
    answer_schema::reminder,
    attached::{halves, in_halves},
    body::{Turns, add, is_kept, put_turns, sampling, to_json, with_options},
    pairs::{NO_RESULT, NOTHING_EARLIER, Said, paired, stray_text},
    pieces::{Piece, Takes, arguments, plain_name, said_by_user, write_json},
    schema::in_dialect,
    thinking::{By, asked, budget},
};

/// The signature of a call that Gemini did not make: its newer models refuse a call without one, and take this one for any.
/// See <https://ai.google.dev/gemini-api/docs/thought-signatures>.
const NOT_OURS: &str = "skip_thought_signature_validator";

/// The body of a request. `wire` names this endpoint's rendering, for the fragments that items keep.
pub(crate) fn body(endpoint: &Endpoint, wire: &str, request: &Request) -> Bytes {
    let mut out = Vec::with_capacity(4096);
    out.push(b'{');
    for (name, value) in fields(endpoint, request) {
        write_json(&mut out, &name);
        out.push(b':');
        write_json(&mut out, &value);
        out.push(b',');
    }
    out.extend_from_slice(b"\"contents\":[");
    let role = |speaker| if speaker == "model" { speaker } else { "user" };
    put_turns(&mut out, &contents(endpoint, wire, request), "parts", role);
    out.extend_from_slice(b"]}");
    out.into()
}

/// The fields before the contents.
fn fields(endpoint: &Endpoint, request: &Request) -> Vec<(String, Value)> {
    let mut fields = Vec::new();
    let config = config(endpoint, request);
    if !config.is_empty() {
        fields.push(("generationConfig".to_owned(), Value::Object(config)));
    }
    let mut fields = with_options(fields, &request.params.options);
    if !request.system.trim().is_empty() {
        fields.push(("systemInstruction".to_owned(), json!({"parts": [{"text": &*request.system}]})));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut function = json!({"name": tool.name, "description": tool.description});
            // The API takes no other dialect, whatever the server.
            if let Some(parameters) = in_dialect(&tool.schema, SchemaDialect::Gemini) {
                function["parameters"] = parameters;
            }
            function
        });
        fields.push(("tools".to_owned(), json!([{"functionDeclarations": tools.collect::<Value>()}])));
    }
    fields
}

/// The sampling parameters, which this API has in a record of their own, with the host's options for that record put over them.
fn config(endpoint: &Endpoint, request: &Request) -> Map<String, Value> {
    let params = &request.params;
    let mut config: Map<String, Value> = sampling(params, ["temperature", "topP"]).collect();
    if let Some(max) = params.max_output {
        config.insert("maxOutputTokens".into(), max.into());
    }
    if let Some(schema) = params.answer_schema.as_ref().filter(|_| takes_schema(request)) {
        config.insert("responseMimeType".into(), "application/json".into());
        config.insert("responseJsonSchema".into(), schema.as_json().clone());
    }
    let output_max = params.max_output.unwrap_or(endpoint.limits.output);
    match asked(endpoint, params.thinking) {
        Some((level, By::Effort)) => {
            // A model of an unknown name may be asked for what no model of this API has.
            let level = level.clamp(Thinking::Minimal, Thinking::High);
            config.insert("thinkingConfig".into(), json!({"thinkingLevel": level.name()}));
        }
        Some((level, By::Budget)) => {
            let budget = if level == Thinking::Off { Some(0) } else { budget(level, output_max) };
            config.extend(budget.map(|budget| ("thinkingConfig".to_owned(), json!({"thinkingBudget": budget}))));
        }
        None => {}
    }
    config.extend(params.options["generationConfig"].as_object().cloned().unwrap_or_default());
    config
}

/// Whether the request holds the schema of its answer: most models take none beside tools.
fn takes_schema(request: &Request) -> bool {
    request.tools.is_empty() && is_kept(&request.params.options, "generationConfig", Some("responseJsonSchema"))
}

fn contents(endpoint: &Endpoint, wire: &str, request: &Request) -> Turns {
    let takes = Takes { gif: false, ..Takes::of(endpoint, true) };
    let text = |text: &str| to_json(&json!({ "text": text }));
    let mut contents = Turns::new();
    // Files of the results of this batch, already rendered.
    let mut files: Vec<Bytes> = Vec::new();
    for said in paired(&request.history) {
        if !matches!(said, Said::Result(..) | Said::NoResult(..)) {
            std::mem::take(&mut files).into_iter().for_each(|files| add(&mut contents, "user", files));
        }
        let (speaker, parts) = match said {
            Said::User(item, user) => {
                ("user", item.fragment(wire, || parts(said_by_user(user, takes).iter().map(content))))
            }
            Said::Answer(item, answer) => ("model", item.fragment(wire, || answer_parts(endpoint, answer))),
            Said::Result(item, of) => {
                let result = |text: &str| response(of.call.as_str(), &of.name, text, of.is_error);
                let (result, more) = halves(&item.fragment(wire, || in_halves(of, takes, result, content)));
                files.extend(more);
                ("results", result)
            }
            Said::NoResult(call, name) => ("results", to_json(&response(call.as_str(), name, NO_RESULT, true))),
            Said::Stray(result) => ("user", text(&stray_text(result))),
        };
        if speaker == "model" && contents.is_empty() && !parts.is_empty() {
            add(&mut contents, "user", text(NOTHING_EARLIER));
        }
        add(&mut contents, speaker, parts);
    }
    files.into_iter().for_each(|files| add(&mut contents, "user", files));
    if let Some(reminder) = reminder(request, takes_schema(request)).filter(|reminder| !reminder.trim().is_empty()) {
        add(&mut contents, "user", text(&reminder));
    }
    if contents.is_empty() {
        add(&mut contents, "user", text(NOTHING_EARLIER));
    }
    contents
}

fn content(piece: &Piece<'_>) -> Value {
    let (file, kind) = match piece {
        Piece::Text(text) => return json!({ "text": text }),
        Piece::Image(file, kind) => (file, *kind),
        Piece::Pdf(file) => (file, &*file.mime),
    };
    match file.base64() {
        Some(data) => json!({"inlineData": {"mimeType": kind, "data": data}}),
        None => json!({"fileData": {"mimeType": kind, "fileUri": file.url}}),
    }
}

/// Parts as JSON, with commas between them and nothing around.
fn parts(parts: impl Iterator<Item = Value>) -> Bytes {
    parts.map(|part| to_json(&part)).collect::<Vec<_>>().join(&b","[..]).into()
}

fn response(call: &str, name: &str, text: &str, is_error: bool) -> Value {
    let said = if is_error { "error" } else { "output" };
    json!({"functionResponse": {"id": call, "name": function_name(name), "response": {said: text}}})
}

/// A tool's name as the API takes it: it begins with a letter or a line.
fn function_name(name: &str) -> String {
    let name = plain_name(name);
    match name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        true => name.into_owned(),
        false => format!("_{name}").chars().take(64).collect(),
    }
}

/// The parts of an answer; empty if nothing of it can be sent.
///
/// A signature goes back next to the part that it came with, and only to this provider; a thought goes back only if it is signed.
/// Of the calls of one answer Gemini signs the first, so in an answer of another model the first gets [`NOT_OURS`].
fn answer_parts(endpoint: &Endpoint, answer: &ModelAnswer) -> Bytes {
    let signature = |part: &AnswerPart| {
        let (AnswerPart::Text { extra, .. } | AnswerPart::Reasoning { extra, .. } | AnswerPart::Call { extra, .. }) =
            part;
        endpoint.own(extra)?[SIGNATURE].as_str().map(str::to_owned)
    };
    let mut is_unsigned = !answer.parts.iter().any(|part| signature(part).is_some());
    let mut out = Vec::new();
    for part in &answer.parts {
        let mut signature = signature(part);
        let rendered = match part {
            AnswerPart::Text { text, .. } if text.trim().is_empty() && signature.is_none() => continue,
            AnswerPart::Text { text, .. } => to_json(&json!({ "text": text })),
            AnswerPart::Reasoning { .. } if signature.is_none() => continue,
            // A signature that came alone.
            AnswerPart::Reasoning { text, .. } if text.is_empty() => to_json(&json!({"text": ""})),
            AnswerPart::Reasoning { text, .. } => to_json(&json!({"text": text, "thought": true})),
            AnswerPart::Call { id, name, input, .. } => {
                if std::mem::take(&mut is_unsigned) {
                    signature = Some(NOT_OURS.to_owned());
                }
                let head = to_json(&json!({"functionCall": {"id": id.as_str(), "name": function_name(name)}}));
                // The arguments go back byte by byte, not parsed and written again.
                let input = arguments(input);
                [&head[..head.len() - 2], b",\"args\":", input.as_bytes(), b"}}"].concat().into()
            }
        };
        out.push(match signature {
            None => rendered,
            Some(signature) => {
                let signature = to_json(&signature);
                let name = [b",\"", SIGNATURE.as_bytes(), b"\":"].concat();
                [&rendered[..rendered.len() - 1], &name, &signature, b"}"].concat().into()
            }
        });
    }
    out.join(&b","[..]).into()
}

#[cfg(test)]
mod tests;
