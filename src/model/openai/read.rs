//! The events of a Chat Completions stream, as OpenAI and its many imitators send them.
//!
//! What differs between servers is taken as it comes: calls without an index or an id, all arguments in one piece or with
//! the finish reason, reasoning under three names, usage in four places, an error object in a stream that began well, no
//! `[DONE]` at the end. What is not JSON, or says that it failed, is an error; nothing is guessed about content.

use serde_json::Value;

use crate::{
    model::{
        Answer, AnswerPart, Api, Deltas, Endpoint, ErrorKind, ModelError, ReasoningBack, Request, Secret,
        assembly::Assembly,
        failure::{Refusal, classify},
        sse::Event,
        wire::{Step, not_json, tokens},
    },
    words::message::{Extra, Finish},
    words::usage::Usage,
};

/// One stream being read.
pub(crate) struct Reading {
    provider: String,
    key: Option<Secret>,
    reasoning: ReasoningBack,
    assembly: Assembly,
    calls: Vec<OpenCall>,
    /// `reasoning_details` as they came, pieces of one entry joined.
    details: Vec<Value>,
    finish: Option<Finish>,
    refused: bool,
    done: bool,
    usage: Usage,
    model: String,
}

/// A call that may still grow.
struct OpenCall {
    index: Option<u64>,
    /// The id that the server gave, if any.
    id: String,
    /// Its place in the assembly; `None` until its name is known.
    place: Option<usize>,
    /// Arguments that came before the name.
    early: String,
    extra: Option<Value>,
}

impl OpenCall {
    /// Whether a piece with these marks begins another call, though its index (or the lack of one) leads to this one.
    fn is_followed_by(&self, index: Option<u64>, id: &str, name: &str) -> bool {
        let another_id = !id.is_empty() && !self.id.is_empty() && id != self.id;
        match index {
            // A new id alone is no sign: some servers make one up for every piece.
            Some(_) => another_id && !name.is_empty(),
            None => another_id || (!name.is_empty() && self.place.is_some() && (id.is_empty() || id != self.id)),
        }
    }
}

impl Reading {
    pub(crate) fn new(endpoint: &Endpoint, request: &Request) -> Reading {
        Reading {
            provider: endpoint.provider.clone(),
            key: endpoint.key.clone(),
            reasoning: endpoint.quirks.reasoning,
            assembly: Assembly::new(&request.history),
            calls: Vec::new(),
            details: Vec::new(),
            finish: None,
            refused: false,
            done: false,
            usage: Usage::default(),
            model: String::new(),
        }
    }

    /// Whether the model has said why it stopped: what may still come is bookkeeping.
    pub(crate) fn is_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    /// Takes one event.
    pub(crate) fn event(&mut self, event: &Event, deltas: &mut dyn Deltas) -> Result<Step, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Step::Nothing);
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(Step::End);
        }
        let keys: Vec<&Secret> = self.key.iter().collect();
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            return Err(not_json(&self.provider, data, &keys));
        };
        let is_error = chunk.get("error").is_some_and(|error| !error.is_null())
            || event.name == "error"
            || chunk.get("object").and_then(Value::as_str) == Some("error");
        if is_error {
            let refusal =
                Refusal { provider: &self.provider, status: None, body: data, retry_after: None, keys: &keys };
            return Err(classify(&refusal));
        }
        if let Some(model) = chunk.get("model").and_then(Value::as_str).filter(|_| self.model.is_empty()) {
            self.model = model.to_owned();
        }
        let choice = chunk.get("choices").and_then(|choices| choices.get(0));
        let usages = [
            chunk.get("usage"),
            chunk.get("x_groq").and_then(|groq| groq.get("usage")),
            choice.and_then(|choice| choice.get("usage")),
        ];
        let usage = usages.into_iter().flatten().find(|usage| usage.is_object());
        if let Some(usage) = usage {
            self.usage = read_usage(usage);
        }
        let Some(choice) = choice else {
            return Ok(if usage.is_some() { Step::Something } else { Step::Nothing });
        };
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.delta(delta, deltas)?;
        }
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str).filter(|reason| !reason.is_empty()) {
            self.finish = Some(self.read_finish(reason)?);
        }
        Ok(Step::Something)
    }

    fn delta(&mut self, delta: &Value, deltas: &mut dyn Deltas) -> Result<(), ModelError> {
        self.reasoning(delta, deltas);
        self.assembly.text(&text_of(delta.get("content")), deltas);
        if let Some(refusal) = delta.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.refused = true;
            self.assembly.text(refusal, deltas);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.call(call, deltas)?;
        }
        Ok(())
    }

    /// One thought may come under two names at once; it is taken once.
    fn reasoning(&mut self, delta: &Value, deltas: &mut dyn Deltas) {
        let details = delta.get("reasoning_details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let names = ["reasoning_content", "reasoning"];
        let text = names.iter().filter_map(|name| delta.get(name)?.as_str()).find(|text| !text.is_empty());
        match text {
            Some(text) => self.assembly.reasoning(text, deltas),
            None => {
                for detail in details {
                    let text = detail.get("text").or_else(|| detail.get("summary")).and_then(Value::as_str);
                    self.assembly.reasoning(text.unwrap_or_default(), deltas);
                }
            }
        }
        if self.reasoning == ReasoningBack::Details {
            details.iter().for_each(|detail| join_detail(&mut self.details, detail));
        }
    }

    /// One piece of one call.
    ///
    /// The index says which call it belongs to, if there is one. Some servers give every call the index 0, or none: then an
    /// id or a name that was not there before begins a new call, and a piece without either continues the last one.
    fn call(&mut self, piece: &Value, deltas: &mut dyn Deltas) -> Result<(), ModelError> {
        let function = piece.get("function").unwrap_or(&Value::Null);
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).unwrap_or_default();
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let known = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        let continued = known.filter(|&at| !self.calls[at].is_followed_by(index, id, name));
        let at = match continued {
            Some(at) => at,
            None => {
                if self.calls.len() >= crate::model::assembly::CALLS_MAX {
                    return Err(ModelError::new(
                        ErrorKind::Protocol,
                        format!("an answer of {} has too many calls", self.provider),
                    ));
                }
                self.calls.push(OpenCall { index, id: id.to_owned(), place: None, early: String::new(), extra: None });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        if call.place.is_none() && !name.is_empty() {
            let place = self.assembly.start_call(&call.id, name, deltas)?;
            call.place = Some(place);
            self.assembly.call_input(place, &std::mem::take(&mut call.early), deltas);
        }
        if let Some(extra) = piece.get("extra_content").filter(|extra| !extra.is_null()) {
            call.extra = Some(extra.clone());
        }
        let input = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            // Arguments as a tree instead of as text.
            Some(tree @ (Value::Object(_) | Value::Array(_))) => tree.to_string(),
            _ => String::new(),
        };
        match call.place {
            Some(place) => self.assembly.call_input(place, &input, deltas),
            None => call.early.push_str(&input),
        }
        Ok(())
    }

    fn read_finish(&self, reason: &str) -> Result<Finish, ModelError> {
        let failed = |kind| Err(ModelError::new(kind, format!("{} failed in mid-stream ({reason})", self.provider)));
        Ok(match reason {
            "stop" | "eos" | "end_turn" | "stop_sequence" => Finish::Stop,
            "tool_calls" | "tool_use" | "function_call" => Finish::ToolCalls,
            "length" | "max_tokens" | "model_length" => Finish::Length,
            "sensitive" | "refusal" => Finish::ContentFilter,
            reason if reason.starts_with("content_filter") => Finish::ContentFilter,
            "error" | "network_error" => return failed(ErrorKind::Server),
            "insufficient_system_resource" => return failed(ErrorKind::Overloaded),
            _ => Finish::Unknown,
        })
    }

    /// The answer; the stream is over.
    pub(crate) fn finish(mut self, deltas: &mut dyn Deltas) -> Result<Answer, ModelError> {
        // An end mark without a finish reason is what proxies send when the server behind them broke off. A text may pass, for
        // the turn then ends as an error; a call of such an answer may be cut, and one without arguments would look whole.
        let is_cut = self.finish.is_none() && !self.calls.is_empty();
        if !self.is_complete() || is_cut {
            let message = format!("the stream of {} ended before the answer was complete", self.provider);
            return Err(ModelError::new(ErrorKind::Truncated, message));
        }
        let extra = |value| Extra { provider: self.provider.clone(), api: Api::OpenAiChat.name().to_owned(), value };
        for call in &mut self.calls {
            let place = match call.place {
                Some(place) => place,
                // A call that never got a name: the session answers it with an error.
                None => {
                    let place = self.assembly.start_call(&call.id, "", deltas)?;
                    self.assembly.call_input(place, &call.early, deltas);
                    place
                }
            };
            let kept = call.extra.take().map(|value| extra(serde_json::json!({ "extra_content": value })));
            if let Some(AnswerPart::Call { extra, .. }) = self.assembly.part_mut(place) {
                *extra = kept;
            }
        }
        if !self.details.is_empty() {
            let details = std::mem::take(&mut self.details);
            self.assembly.reasoning_extra(extra(serde_json::json!({ "reasoning_details": details })));
        }
        let mut finish = self.finish.unwrap_or(Finish::Unknown);
        if self.refused && finish == Finish::Stop {
            finish = Finish::ContentFilter;
        }
        let mut parts = self.assembly.finish(deltas);
        for part in &mut parts {
            match part {
                // So that it goes back to the one who thought it, and to nobody else.
                AnswerPart::Reasoning { extra: place, .. } if self.reasoning == ReasoningBack::WithCalls => {
                    *place = Some(extra(Value::Null));
                }
                // The stream is whole, so no arguments at all means that there are none. Cut ones stay as they are.
                AnswerPart::Call { input, .. } if input.trim().is_empty() && finish != Finish::Length => {
                    *input = "{}".to_owned();
                }
                _ => {}
            }
        }
        let mut answer = Answer::new(parts, finish);
        answer.usage = self.usage;
        answer.model = self.model;
        Ok(answer)
    }
}

/// Content as a text, or as a list of parts with texts.
fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").unwrap_or(part).as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

/// Adds a piece of a reasoning detail: to the last entry if it continues that one, else as a new entry.
fn join_detail(details: &mut Vec<Value>, piece: &Value) {
    let same = |entry: &Value| entry.get("type") == piece.get("type") && entry.get("index") == piece.get("index");
    let (Some(entry), Some(piece_fields)) =
        (details.last_mut().filter(|entry| same(entry)).and_then(Value::as_object_mut), piece.as_object())
    else {
        details.push(piece.clone());
        return;
    };
    for (name, value) in piece_fields {
        match (name.as_str(), entry.get_mut(name), value) {
            ("text" | "summary" | "data", Some(Value::String(before)), Value::String(more)) => before.push_str(more),
            (_, _, Value::Null) => {}
            _ => {
                entry.insert(name.clone(), value.clone());
            }
        }
    }
}

/// V17: figures that are missing, negative or absurd become 0 or the largest number, never a panic.
fn read_usage(usage: &Value) -> Usage {
    let of = |names: &[&str]| tokens(names.iter().find_map(|path| usage.pointer(path).filter(|n| n.is_number())));
    let prompt = of(&["/prompt_tokens"]);
    let completion = of(&["/completion_tokens"]);
    let cache_read = of(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"]);
    let cache_write = of(&["/prompt_tokens_details/cache_write_tokens"]);
    let reasoning = of(&["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"]);
    // Most servers count reasoning within the completion; a few beside it, which their total gives away.
    let is_beside = reasoning > 0
        && tokens(usage.get("total_tokens")) == prompt.saturating_add(completion).saturating_add(reasoning);
    Usage {
        input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
        output: if is_beside { completion } else { completion.saturating_sub(reasoning) },
        reasoning: if is_beside { reasoning } else { reasoning.min(completion) },
        cache_read,
        cache_write,
    }
}

#[cfg(test)]
mod tests;
