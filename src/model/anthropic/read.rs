//! Reads the events of a stream of Anthropic's Messages API into an answer.
//!
//! An answer is complete at `message_stop` and not before; an `error` event ends the stream with a typed error. A tool call whose
//! block was left open makes the answer a cut-off one, unless the model had reached its output limit.
//!
//! A change must keep that unknown events and blocks are passed over and an unknown stop reason is [`Finish::Unknown`], because the
//! API adds such values without a new version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    model::{
        AnswerPart, ModelError,
        sse::Event,
        wire::{Draft, Step, Wire, tokens},
    },
    words::message::Finish,
};

/// The state of reading one stream.
#[derive(Default)]
pub(crate) struct Reading {
    /// Blocks that have begun and not ended, by their index.
    open: BTreeMap<u64, Block>,
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
    /// A block of an unknown type.
    Other,
}

impl Wire for Reading {
    /// The type is read from the data; the event's name repeats it.
    fn event(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<Step, ModelError> {
        let value = draft.parse(event)?;
        let index = value["index"].as_u64().unwrap_or_default();
        match value["type"].as_str().unwrap_or(&event.name) {
            "message_start" => {
                let message = &value["message"];
                draft.model = message["model"].as_str().unwrap_or_default().to_owned();
                read_usage(&message["usage"], draft);
            }
            "content_block_start" => self.start(index, &value["content_block"], draft)?,
            "content_block_delta" => self.grow(index, &value["delta"], draft),
            "content_block_stop" => self.end(index, draft),
            "message_delta" => {
                draft.finish = value["delta"]["stop_reason"].as_str().map(finish_of).or(draft.finish);
                read_usage(&value["usage"], draft);
            }
            "message_stop" => {
                draft.is_complete = true;
                return Ok(Step::End);
            }
            "error" => return Err(draft.endpoint.refusal(None, &event.data, None)),
            _ => return Ok(Step::Nothing),
        }
        Ok(Step::Something)
    }

    /// At the output limit the API may leave the last block open; otherwise an open call is a cut one.
    fn close(&mut self, draft: &mut Draft<'_>) -> Result<bool, ModelError> {
        let has_open_call = self.open.values().any(|block| matches!(block, Block::Call { .. }));
        Ok(!has_open_call || draft.finish == Some(Finish::Length))
    }
}

impl Reading {
    fn start(&mut self, index: u64, block: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        // A server that forgets to end a block ends it by beginning another one in its place.
        self.end(index, draft);
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        let begun = match text("type") {
            "text" => {
                draft.assembly.text(text("text"));
                Block::Text
            }
            "thinking" => {
                draft.assembly.start_reasoning();
                draft.assembly.reasoning(text("thinking"));
                Block::Thinking { signature: text("signature").to_owned() }
            }
            "redacted_thinking" => {
                let extra = draft.endpoint.extra(json!({ "redacted": text("data") }));
                draft.assembly.hidden_reasoning(extra);
                Block::Other
            }
            "tool_use" => {
                let place = draft.assembly.start_call(text("id"), text("name"))?;
                // Usually `{}`, and the input follows in pieces; some servers give it whole.
                let given = Some(&block["input"]).filter(|input| input.is_object()).map(Value::to_string);
                Block::Call { place, given: given.unwrap_or_default(), has_pieces: false }
            }
            _ => Block::Other,
        };
        self.open.insert(index, begun);
        Ok(())
    }

    fn grow(&mut self, index: u64, delta: &Value, draft: &mut Draft<'_>) {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match (text("type"), self.open.get_mut(&index)) {
            ("text_delta", Some(Block::Text)) => draft.assembly.text(text("text")),
            ("thinking_delta", Some(Block::Thinking { .. })) => draft.assembly.reasoning(text("thinking")),
            ("signature_delta", Some(Block::Thinking { signature })) => signature.push_str(text("signature")),
            ("input_json_delta", Some(Block::Call { place, has_pieces, .. })) => {
                let more = text("partial_json");
                *has_pieces |= !more.is_empty();
                draft.assembly.call_input(*place, more);
            }
            _ => {}
        }
    }

    fn end(&mut self, index: u64, draft: &mut Draft<'_>) {
        match self.open.remove(&index) {
            Some(Block::Thinking { signature }) => {
                draft.assembly.end_reasoning();
                if let Some(AnswerPart::Reasoning { extra, .. }) = draft.assembly.parts.last_mut()
                    && !signature.is_empty()
                {
                    *extra = Some(draft.endpoint.extra(json!({ "signature": signature })));
                }
            }
            Some(Block::Call { place, given, has_pieces: false }) => draft.assembly.call_input(place, &given),
            _ => {}
        }
    }
}

/// Figures of a later event replace those of an earlier one, because they are running totals. Missing figures keep their value.
fn read_usage(usage: &Value, draft: &mut Draft<'_>) {
    let places = [
        ("input_tokens", &mut draft.usage.input),
        ("output_tokens", &mut draft.usage.output),
        ("cache_read_input_tokens", &mut draft.usage.cache_read),
        ("cache_creation_input_tokens", &mut draft.usage.cache_write),
    ];
    for (name, place) in places {
        if usage[name].is_number() {
            *place = tokens(Some(&usage[name]));
        }
    }
}

/// Why the model stopped. An unknown reason is [`Finish::Unknown`].
fn finish_of(reason: &str) -> Finish {
    match reason {
        "end_turn" | "stop_sequence" => Finish::Stop,
        "tool_use" => Finish::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
        "refusal" => Finish::ContentFilter,
        _ => Finish::Unknown,
    }
}

#[cfg(test)]
mod tests;
