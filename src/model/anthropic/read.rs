//! Reads the events of a stream of Anthropic's Messages API into an answer.
//!
//! An answer is complete once the server has said why the model stopped: after that, only figures and the end mark may follow. An
//! `error` event ends the stream with a typed error. A tool call whose block was left open makes the answer a cut-off one, unless
//! the model had reached its output limit.
//!
//! A change must keep that unknown events and blocks are passed over and an unknown stop reason is [`Finish::Unknown`], because the
//! API adds such values without a new version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    model::{
        AnswerPart, ModelError, ReasoningBack,
        sse::Event,
        wire::{Draft, Step, Wire, take_figure},
    },
    words::message::Finish,
};

/// The state of reading one stream.
#[derive(Default)]
pub(crate) struct MessagesReading {
    /// The newest block of each index, ended or not: a piece of it may come late.
    blocks: BTreeMap<u64, Block>,
}

/// A block of the answer.
enum Block {
    Text,
    /// A thought: its place among the parts.
    Thinking {
        place: usize,
        signature: String,
    },
    /// A call: its place among the parts, and the input that came with its beginning.
    Call {
        place: usize,
        given: String,
        has_pieces: bool,
        has_ended: bool,
    },
    /// A block of an unknown type.
    Other,
}

impl Wire for MessagesReading {
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
                // No block follows the reason; the end mark may.
                draft.is_complete |= draft.finish.is_some();
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
        let is_open = |block: &Block| matches!(block, Block::Call { has_ended: false, .. });
        let has_open_call = self.blocks.values().any(is_open);
        std::mem::take(&mut self.blocks).into_values().for_each(|block| sign(block, draft));
        Ok(!has_open_call || draft.finish == Some(Finish::Length))
    }
}

impl MessagesReading {
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
                let place = draft.assembly.start_reasoning();
                draft.assembly.reasoning(text("thinking"));
                Block::Thinking { place, signature: text("signature").to_owned() }
            }
            "redacted_thinking" => {
                let extra = draft.endpoint.extra(json!({ "redacted": text("data") }));
                draft.assembly.hidden_reasoning(extra);
                Block::Other
            }
            "tool_use" => {
                let place = draft.assembly.start_call(text("id"), text("name"))?;
                // Usually `{}`, and the input follows in pieces; some servers send it whole.
                let given = Some(&block["input"]).filter(|input| input.is_object()).map(Value::to_string);
                Block::Call { place, given: given.unwrap_or_default(), has_pieces: false, has_ended: false }
            }
            _ => Block::Other,
        };
        self.blocks.insert(index, begun).into_iter().for_each(|before| sign(before, draft));
        Ok(())
    }

    /// Takes a piece of a block. Some servers begin no block for a text or a thought, or send it in a block of another kind; none of
    /// it is lost.
    fn grow(&mut self, index: u64, delta: &Value, draft: &mut Draft<'_>) {
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        match (text("type"), self.blocks.get_mut(&index)) {
            ("text_delta", _) => draft.assembly.text(text("text")),
            ("thinking_delta", Some(Block::Thinking { .. })) => draft.assembly.reasoning(text("thinking")),
            ("thinking_delta", block) => {
                let place = draft.assembly.start_reasoning();
                draft.assembly.reasoning(text("thinking"));
                if block.is_none() {
                    self.blocks.insert(index, Block::Thinking { place, signature: String::new() });
                }
            }
            ("signature_delta", Some(Block::Thinking { signature, .. })) => signature.push_str(text("signature")),
            ("input_json_delta", Some(Block::Call { place, has_pieces, .. })) => {
                let more = text("partial_json");
                *has_pieces |= !more.is_empty();
                draft.assembly.call_input(*place, more);
            }
            _ => {}
        }
    }

    fn end(&mut self, index: u64, draft: &mut Draft<'_>) {
        match self.blocks.get_mut(&index) {
            Some(Block::Thinking { .. }) => draft.assembly.end_reasoning(),
            Some(Block::Call { place, given, has_pieces, has_ended }) => {
                let ends_now = !std::mem::replace(has_ended, true);
                if ends_now && !*has_pieces {
                    draft.assembly.call_input(*place, given);
                }
            }
            _ => {}
        }
    }
}

/// Puts the signature of a thought next to it. If the server wants thoughts back without one, the mark says whose thought it is.
fn sign(block: Block, draft: &mut Draft<'_>) {
    let Block::Thinking { place, signature } = block else { return };
    let value = match signature.as_str() {
        "" if draft.endpoint.quirks.reasoning == ReasoningBack::Never => return,
        "" => Value::Null,
        signature => json!({ "signature": signature }),
    };
    if let Some(AnswerPart::Reasoning { extra, .. }) = draft.assembly.parts.get_mut(place) {
        *extra = Some(draft.endpoint.extra(value));
    }
}

/// Figures of a later event replace those of an earlier one, because they are running totals.
fn read_usage(usage: &Value, draft: &mut Draft<'_>) {
    let places = [
        ("input_tokens", &mut draft.usage.input),
        ("output_tokens", &mut draft.usage.output),
        ("cache_read_input_tokens", &mut draft.usage.cache_read),
        ("cache_creation_input_tokens", &mut draft.usage.cache_write),
    ];
    for (name, place) in places {
        take_figure(place, usage.get(name));
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
