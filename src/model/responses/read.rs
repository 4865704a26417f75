//! Reads the events of a stream of OpenAI's Responses API into an answer.
//!
//! The answer is a list of items: messages, calls, thoughts. An item counts once the server has said that it is done, in an event of
//! its own or in the last event, which repeats all items. So a server that streams nothing but its last event is read as well, and a
//! call whose end never came makes the answer a cut-off one, unless the model had reached its output limit.
//!
//! A change must keep that unknown events and items are passed over, because the API adds some without a new version, and that
//! nothing is taken twice that comes in pieces and then whole.

use std::collections::BTreeMap;

use serde_json::{Value, json};

#[cfg(feature = "websocket")]
use crate::words::usage::Usage;
use crate::{
    model::{
        AnswerPart, ModelError,
        counted::{Counted, Paths},
        sse::Event,
        wire::{Draft, Step, Wire},
    },
    words::message::Finish,
};

/// Where the API puts its figures.
const PATHS: Paths = Paths {
    input: &["/input_tokens"],
    output: &["/output_tokens"],
    cache_read: &["/input_tokens_details/cached_tokens"],
    cache_write: &["/input_tokens_details/cache_write_tokens"],
    reasoning: &["/output_tokens_details/reasoning_tokens"],
    total: &["/total_tokens"],
};

/// What the last event of a response says that it used; `None` if it is another event, or says nothing.
#[cfg(feature = "websocket")]
pub(crate) fn said_usage(event: &Value) -> Option<Usage> {
    let is_last =
        matches!(event["type"].as_str(), Some("response.completed" | "response.incomplete" | "response.failed"));
    let usage = event["response"]["usage"].as_object().filter(|_| is_last)?;
    Some(Counted::default().read(&Value::Object(usage.clone()), &PATHS).if_read()).filter(|usage| usage.total() > 0)
}

/// The state of reading one stream.
#[derive(Default)]
pub(crate) struct ResponsesReading {
    /// The items by their place in the output.
    items: BTreeMap<u64, Item>,
    refused: bool,
    counted: Counted,
}

/// An item of the answer.
struct Item {
    kind: Kind,
    /// Whether some of it came in pieces: then the whole, which comes at its end, is a repetition.
    has_pieces: bool,
    has_ended: bool,
}

impl Item {
    /// Whether it may still grow, and is of that type.
    fn is_open_as(&self, name: &Value) -> bool {
        let own = match self.kind {
            Kind::Message => "message",
            Kind::Thought(_) => "reasoning",
            Kind::Call(_) => "function_call",
            Kind::Other => return !self.has_ended,
        };
        !self.has_ended && name == own
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Message,
    /// A thought: its place among the parts.
    Thought(usize),
    /// A call: its place among the parts.
    Call(usize),
    /// An item of an unknown type.
    Other,
}

impl Wire for ResponsesReading {
    /// The type is read from the data; the event's name repeats it.
    fn event(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<Step, ModelError> {
        let value = draft.parse(event)?;
        let index = value["output_index"].as_u64().unwrap_or_default();
        let more = value["delta"].as_str().unwrap_or_default();
        match value["type"].as_str().unwrap_or(&event.name) {
            "response.output_item.added" => self.start(index, &value["item"], draft)?,
            name @ ("response.output_text.delta" | "response.refusal.delta") => {
                self.has_piece(index, || Kind::Message);
                self.refused |= name == "response.refusal.delta";
                draft.assembly.text(more);
            }
            "response.reasoning_summary_part.added" => self.start_paragraph(index, draft),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.has_piece(index, || Kind::Thought(draft.assembly.start_reasoning()));
                draft.assembly.reasoning(more);
            }
            "response.function_call_arguments.delta" => {
                if let Some(Item { kind: Kind::Call(place), has_pieces, .. }) = self.items.get_mut(&index) {
                    *has_pieces |= !more.is_empty();
                    draft.assembly.call_input(*place, more);
                }
            }
            "response.output_item.done" => self.end(index, &value["item"], draft)?,
            "response.completed" | "response.incomplete" => {
                self.close_with(&value["response"], draft)?;
                return Ok(Step::End);
            }
            "response.failed" => {
                let error = json!({"error": value["response"]["error"]});
                return Err(draft.endpoint.refusal(None, &error.to_string(), None));
            }
            "error" => return Err(draft.endpoint.refusal(None, &event.data, None)),
            _ if !value["error"].is_null() => return Err(draft.endpoint.refusal(None, &event.data, None)),
            _ => return Ok(Step::Nothing),
        }
        Ok(Step::Something)
    }

    /// At the output limit the last call may be cut, and says so itself; otherwise a call that did not end is a cut one.
    fn close(&mut self, draft: &mut Draft<'_>) -> Result<bool, ModelError> {
        let is_open = |item: &Item| matches!(item.kind, Kind::Call(_)) && !item.has_ended;
        Ok(!self.items.values().any(is_open) || draft.finish == Some(Finish::Length))
    }
}

impl ResponsesReading {
    /// Notes a piece of an item. Some servers begin no item; none of what they send is lost, or taken twice.
    fn has_piece(&mut self, index: u64, kind: impl FnOnce() -> Kind) {
        let begun = || Item { kind: kind(), has_pieces: true, has_ended: false };
        self.items.entry(index).or_insert_with(begun).has_pieces = true;
    }

    fn start(&mut self, index: u64, item: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        let kind = match text("type") {
            "message" => Kind::Message,
            "reasoning" => Kind::Thought(draft.assembly.start_reasoning()),
            "function_call" => Kind::Call(draft.assembly.start_call(text("call_id"), text("name"))?),
            _ => Kind::Other,
        };
        self.items.insert(index, Item { kind, has_pieces: false, has_ended: false });
        Ok(())
    }

    /// The summary of a thought has paragraphs.
    fn start_paragraph(&mut self, index: u64, draft: &mut Draft<'_>) {
        if let Some(Item { kind: Kind::Thought(_), has_pieces: true, .. }) = self.items.get(&index) {
            draft.assembly.reasoning("\n\n");
        }
    }

    /// Takes an item that is done, whole: what of it came in pieces is here already.
    fn end(&mut self, index: u64, item: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        // Another item may come under the same place, from a server that numbers none.
        if !self.items.get(&index).is_some_and(|known| known.is_open_as(&item["type"])) {
            self.start(index, item, draft)?;
        }
        let Some(known) = self.items.get_mut(&index) else { return Ok(()) };
        known.has_ended = item["status"] != "incomplete";
        let is_new = !std::mem::replace(&mut known.has_pieces, true);
        match known.kind {
            Kind::Message if is_new => {
                for part in item["content"].as_array().into_iter().flatten() {
                    self.refused |= part["refusal"].is_string();
                    draft.assembly.text(part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default());
                }
            }
            Kind::Call(place) if is_new => {
                draft.assembly.call_input(place, item["arguments"].as_str().unwrap_or_default());
            }
            Kind::Thought(place) => {
                if is_new {
                    let paragraphs = item["summary"].as_array().into_iter().flatten();
                    let paragraphs: Vec<_> = paragraphs.filter_map(|part| part["text"].as_str()).collect();
                    draft.assembly.reasoning(&paragraphs.join("\n\n"));
                }
                draft.assembly.end_reasoning();
                keep(item, place, draft);
            }
            Kind::Message | Kind::Call(_) | Kind::Other => {}
        }
        Ok(())
    }

    /// Takes the last event: the whole response.
    fn close_with(&mut self, response: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        draft.model = response["model"].as_str().unwrap_or_default().to_owned();
        // Items that came without a place of their own are not known by the one that they have here, and were taken already.
        let has_come = !self.items.is_empty();
        for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
            match self.items.get(&index) {
                Some(known) if known.has_ended => {}
                None if has_come => {}
                _ => self.end(index, item, draft)?,
            }
        }
        if response["usage"].is_object() {
            draft.usage = self.counted.read(&response["usage"], &PATHS);
        }
        let has_calls = draft.assembly.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
        draft.finish = Some(match response["incomplete_details"]["reason"].as_str() {
            Some("max_output_tokens") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            Some("steered") => Finish::Steered,
            Some(_) => Finish::Unknown,
            None if self.refused => Finish::ContentFilter,
            None if has_calls => Finish::ToolCalls,
            None => Finish::Stop,
        });
        draft.is_complete = true;
        Ok(())
    }
}

/// Keeps a thought next to its part, as it must go back: without the id, which may be longer than the API itself takes, and
/// without the state, which it does not take at all.
fn keep(item: &Value, place: usize, draft: &mut Draft<'_>) {
    let mut kept = item.clone();
    if let Some(fields) =
        kept.as_object_mut().filter(|fields| fields.get("encrypted_content").is_some_and(Value::is_string))
    {
        fields.remove("id");
        fields.remove("status");
        if let Some(AnswerPart::Reasoning { extra, .. }) = draft.assembly.parts.get_mut(place) {
            *extra = Some(draft.endpoint.extra(kept));
        }
    }
}

#[cfg(test)]
mod tests;
