//! The events of a Messages stream.
//!
//! An answer is whole at `message_stop` and not before. Blocks and stop reasons that are not known here are passed over, as
//! the API's rules for versions ask of a client; an `error` event ends the stream with a typed error.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    model::{
        Answer, AnswerPart, Api, Deltas, Endpoint, ErrorKind, ModelError, Request, Secret,
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
    assembly: Assembly,
    /// Blocks that have begun and not ended, by their index.
    open: BTreeMap<u64, Block>,
    stop_reason: Option<String>,
    done: bool,
    usage: Usage,
    model: String,
}

/// A block that may still grow.
enum Block {
    Text,
    Thinking {
        signature: String,
    },
    /// A call: its place among the parts, and the input that came with its beginning.
    Call {
        place: usize,
        given: String,
        has_pieces: bool,
    },
    /// Something that is not known here.
    Other,
}

impl Reading {
    pub(crate) fn new(endpoint: &Endpoint, request: &Request) -> Reading {
        Reading {
            provider: endpoint.provider.clone(),
            key: endpoint.key.clone(),
            assembly: Assembly::new(&request.history),
            open: BTreeMap::new(),
            stop_reason: None,
            done: false,
            usage: Usage::default(),
            model: String::new(),
        }
    }

    /// Whether the end mark has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.done
    }

    /// Takes one event. Its type is read from the data; the event's name repeats it.
    pub(crate) fn event(&mut self, event: &Event, deltas: &mut dyn Deltas) -> Result<Step, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(Step::Nothing);
        }
        let keys: Vec<&Secret> = self.key.iter().collect();
        let Ok(value) = serde_json::from_str::<Value>(data) else {
            return Err(not_json(&self.provider, data, &keys));
        };
        let index = value.get("index").and_then(Value::as_u64).unwrap_or_default();
        match value.get("type").and_then(Value::as_str).unwrap_or(&event.name) {
            "message_start" => {
                let message = value.get("message").unwrap_or(&Value::Null);
                self.model = message.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.read_usage(message.get("usage"));
            }
            "content_block_start" => {
                self.start(index, value.get("content_block").unwrap_or(&Value::Null), deltas)?;
            }
            "content_block_delta" => self.grow(index, value.get("delta").unwrap_or(&Value::Null), deltas),
            "content_block_stop" => self.end(index, deltas),
            "message_delta" => {
                let reason = value.pointer("/delta/stop_reason").and_then(Value::as_str);
                self.stop_reason = reason.map(str::to_owned).or(self.stop_reason.take());
                self.read_usage(value.get("usage"));
            }
            "message_stop" => {
                self.done = true;
                return Ok(Step::End);
            }
            "error" => {
                let refusal =
                    Refusal { provider: &self.provider, status: None, body: data, retry_after: None, keys: &keys };
                return Err(classify(&refusal));
            }
            _ => return Ok(Step::Nothing),
        }
        Ok(Step::Something)
    }

    fn start(&mut self, index: u64, block: &Value, deltas: &mut dyn Deltas) -> Result<(), ModelError> {
        // A server that forgets to end a block ends it by beginning another one in its place.
        self.end(index, deltas);
        let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
        let begun = match text("type") {
            "text" => {
                self.assembly.text(text("text"), deltas);
                Block::Text
            }
            "thinking" => {
                self.assembly.start_reasoning(deltas);
                self.assembly.reasoning(text("thinking"), deltas);
                Block::Thinking { signature: text("signature").to_owned() }
            }
            "redacted_thinking" => {
                let extra = self.extra(serde_json::json!({ "redacted": text("data") }));
                self.assembly.hidden_reasoning(extra, deltas);
                Block::Other
            }
            "tool_use" => {
                let place = self.assembly.start_call(text("id"), text("name"), deltas)?;
                // Usually `{}`, and the input follows in pieces; some servers give it whole.
                let given = block.get("input").filter(|input| input.is_object()).map(Value::to_string);
                Block::Call { place, given: given.unwrap_or_default(), has_pieces: false }
            }
            _ => Block::Other,
        };
        self.open.insert(index, begun);
        Ok(())
    }

    fn grow(&mut self, index: u64, delta: &Value, deltas: &mut dyn Deltas) {
        let text = |name: &str| delta.get(name).and_then(Value::as_str).unwrap_or_default();
        match (text("type"), self.open.get_mut(&index)) {
            ("text_delta", Some(Block::Text)) => self.assembly.text(text("text"), deltas),
            ("thinking_delta", Some(Block::Thinking { .. })) => self.assembly.reasoning(text("thinking"), deltas),
            ("signature_delta", Some(Block::Thinking { signature })) => signature.push_str(text("signature")),
            ("input_json_delta", Some(Block::Call { place, has_pieces, .. })) => {
                let more = text("partial_json");
                *has_pieces |= !more.is_empty();
                self.assembly.call_input(*place, more, deltas);
            }
            _ => {}
        }
    }

    fn end(&mut self, index: u64, deltas: &mut dyn Deltas) {
        match self.open.remove(&index) {
            Some(Block::Thinking { signature }) => {
                self.assembly.end_reasoning(deltas);
                if !signature.is_empty() {
                    let kept = self.extra(serde_json::json!({ "signature": signature }));
                    if let Some(AnswerPart::Reasoning { extra, .. }) = self.assembly.last_mut() {
                        *extra = Some(kept);
                    }
                }
            }
            Some(Block::Call { place, given, has_pieces: false }) => self.assembly.call_input(place, &given, deltas),
            _ => {}
        }
    }

    fn extra(&self, value: Value) -> Extra {
        Extra { provider: self.provider.clone(), api: Api::AnthropicMessages.name().to_owned(), value }
    }

    /// Figures of a later event replace those of an earlier one: they are sums. What it does not say stays.
    fn read_usage(&mut self, usage: Option<&Value>) {
        let places = [
            ("input_tokens", &mut self.usage.input),
            ("output_tokens", &mut self.usage.output),
            ("cache_read_input_tokens", &mut self.usage.cache_read),
            ("cache_creation_input_tokens", &mut self.usage.cache_write),
        ];
        for (name, place) in places {
            if let Some(count) = usage.and_then(|usage| usage.get(name)).filter(|count| count.is_number()) {
                *place = tokens(Some(count));
            }
        }
    }

    /// The answer; the stream is over.
    pub(crate) fn finish(self, deltas: &mut dyn Deltas) -> Result<Answer, ModelError> {
        let finish = finish_of(self.stop_reason.as_deref());
        // At the output limit the API may leave the last block open; otherwise an open call is a cut one.
        let has_open_call = self.open.values().any(|block| matches!(block, Block::Call { .. }));
        if !self.done || (has_open_call && finish != Finish::Length) {
            let message = format!("the stream of {} ended before the answer was complete", self.provider);
            return Err(ModelError::new(ErrorKind::Truncated, message));
        }
        let mut answer = Answer::new(self.assembly.finish(deltas), finish);
        for part in &mut answer.parts {
            if let AnswerPart::Call { input, .. } = part
                && input.trim().is_empty()
                && finish != Finish::Length
            {
                *input = "{}".to_owned();
            }
        }
        answer.usage = self.usage;
        answer.model = self.model;
        Ok(answer)
    }
}

/// Why the model stopped. What is not known here is [`Finish::Unknown`].
fn finish_of(reason: Option<&str>) -> Finish {
    match reason {
        Some("end_turn" | "stop_sequence") => Finish::Stop,
        Some("tool_use") => Finish::ToolCalls,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::ContentFilter,
        _ => Finish::Unknown,
    }
}

#[cfg(test)]
mod tests;
