//! Reads the events of a Chat Completions stream, as OpenAI and its many imitators send them, into an answer.
//!
//! Differences between servers are tolerated: calls without an index or an id, all arguments in one piece or with
//! the finish reason, reasoning under three names, usage in three places, an error object in a stream that began well, no
//! `[DONE]` at the end. An event that is not JSON, or that reports a failure, is an error. The answer is complete once the server
//! has given a finish reason or sent `[DONE]`.
//!
//! A change must not make up content, and must not let a call pass as complete whose arguments may be cut: such an answer is
//! cut off, or says that it reached the output limit. A cut call might otherwise run with half of its arguments.

use serde_json::{Value, json};

use crate::{
    model::{
        AnswerPart, ErrorKind, ModelError, ReasoningBack,
        assembly::CALLS_MAX,
        counted::{Counted, Paths},
        sse::Event,
        wire::{Draft, Step, Wire},
    },
    words::message::{Finish, Span},
};

/// Where the servers put their figures.
const PATHS: Paths = Paths {
    input: &["/prompt_tokens"],
    output: &["/completion_tokens"],
    cache_read: &["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"],
    cache_write: &["/prompt_tokens_details/cache_write_tokens"],
    reasoning: &["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"],
    total: &["/total_tokens"],
};

/// The state of reading one stream.
#[derive(Default)]
pub(crate) struct ChatReading {
    calls: Vec<OpenCall>,
    /// The `reasoning_details` so far, with the pieces of one entry joined.
    details: Vec<Value>,
    refused: bool,
    counted: Counted,
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
            // A new id alone proves nothing: some servers make one up for every piece.
            Some(_) => another_id && !name.is_empty(),
            None => another_id || (!name.is_empty() && self.place.is_some() && (id.is_empty() || id != self.id)),
        }
    }
}

impl Wire for ChatReading {
    /// The answer is complete as soon as the model has said why it stopped: only bookkeeping may follow.
    fn event(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<Step, ModelError> {
        let chunk = draft.parse(event)?;
        if !chunk["error"].is_null() || event.name == "error" || chunk["object"] == "error" {
            return Err(draft.endpoint.refusal(None, &event.data, None));
        }
        if draft.model.is_empty() {
            draft.model = text(&chunk["model"]).to_owned();
        }
        let choice = &chunk["choices"][0];
        let usages = [&chunk["usage"], &chunk["x_groq"]["usage"], &choice["usage"]];
        let usage = usages.into_iter().find(|usage| usage.is_object());
        if let Some(usage) = usage {
            draft.usage = self.counted.read(usage, &PATHS);
        }
        if choice.is_null() {
            return Ok(if usage.is_some() { Step::Something } else { Step::Nothing });
        }
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.delta(delta, draft)?;
        }
        let reason = text(&choice["finish_reason"]);
        if !reason.is_empty() {
            draft.finish = Some(read_finish(reason, draft)?);
            draft.is_complete = true;
        }
        Ok(Step::Something)
    }

    fn is_whole_at_the_mark(&self) -> bool {
        true
    }

    fn close(&mut self, draft: &mut Draft<'_>) -> Result<bool, ModelError> {
        // Proxies send an end mark without a finish reason when the server behind them broke off. Text may pass, because the turn
        // then ends as an error. A call may be cut, and a cut call without arguments would look complete.
        if draft.finish.is_none() && !self.calls.is_empty() {
            return Ok(false);
        }
        for call in std::mem::take(&mut self.calls) {
            let place = match call.place {
                Some(place) => place,
                // A call that never got a name: the session answers it with an error.
                None => {
                    let place = draft.assembly.start_call(&call.id, "")?;
                    draft.assembly.call_input(place, &call.early);
                    place
                }
            };
            let kept = call.extra.map(|value| draft.endpoint.extra(json!({ "extra_content": value })));
            if let AnswerPart::Call { extra, .. } = &mut draft.assembly.parts[place] {
                *extra = kept;
            }
        }
        let goes_back = draft.endpoint.quirks.reasoning == ReasoningBack::WithCalls;
        for part in draft.assembly.parts.iter_mut().filter(|_| goes_back) {
            // Marks the thought as this provider's, so that it goes back to this provider only.
            if let AnswerPart::Reasoning { extra, .. } = part {
                *extra = Some(draft.endpoint.extra(Value::Null));
            }
        }
        if !self.details.is_empty() {
            // Kept with the newest thought, or with an empty one if no thought was shown.
            let details = Some(draft.endpoint.extra(json!({ "reasoning_details": self.details })));
            let newest = draft.assembly.parts.iter_mut().rev().find_map(|part| match part {
                AnswerPart::Reasoning { extra, .. } => Some(extra),
                _ => None,
            });
            match newest {
                Some(extra) => *extra = details,
                None => {
                    let thought = AnswerPart::Reasoning { text: String::new(), time: Span::default(), extra: details };
                    draft.assembly.parts.insert(0, thought);
                }
            }
        }
        if self.refused && draft.finish == Some(Finish::Stop) {
            draft.finish = Some(Finish::ContentFilter);
        }
        Ok(true)
    }
}

impl ChatReading {
    fn delta(&mut self, delta: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        self.reasoning(delta, draft);
        draft.assembly.text(&text_of(&delta["content"]));
        let refusal = text(&delta["refusal"]);
        self.refused |= !refusal.is_empty();
        draft.assembly.text(refusal);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, draft)?;
        }
        Ok(())
    }

    /// Takes a thought once, even where it comes under two names in one event.
    fn reasoning(&mut self, delta: &Value, draft: &mut Draft<'_>) {
        let details = delta["reasoning_details"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = ["reasoning_content", "reasoning"].map(|name| text(&delta[name]));
        match texts.into_iter().find(|text| !text.is_empty()) {
            Some(text) => draft.assembly.reasoning(text),
            None => {
                for detail in details {
                    draft.assembly.reasoning(text(detail.get("text").unwrap_or(&detail["summary"])));
                }
            }
        }
        if draft.endpoint.quirks.reasoning == ReasoningBack::Details {
            details.iter().for_each(|detail| join_detail(&mut self.details, detail));
        }
    }

    /// One piece of one call.
    ///
    /// The index says which call it belongs to, if there is one. Some servers send index 0 for every call: so under a known index
    /// another id together with a name begins a new call. Some send no index: then another id, or a name after the name, begins a
    /// new call, and a piece with neither continues the last one.
    fn call(&mut self, piece: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
        let function = &piece["function"];
        let (index, id, name) = (piece["index"].as_u64(), text(&piece["id"]), text(&function["name"]));
        let known = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None => self.calls.len().checked_sub(1),
        };
        let continued = known.filter(|&at| !self.calls[at].is_followed_by(index, id, name));
        let at = continued.unwrap_or(self.calls.len());
        if at >= CALLS_MAX {
            return Err(draft.endpoint.error(ErrorKind::AnswerTooLarge, "sent an answer with too many calls"));
        }
        if continued.is_none() {
            self.calls.push(OpenCall { index, id: id.to_owned(), place: None, early: String::new(), extra: None });
        }
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.place.is_none() && !name.is_empty() {
            let place = draft.assembly.start_call(&call.id, name)?;
            call.place = Some(place);
            draft.assembly.call_input(place, &std::mem::take(&mut call.early));
        }
        if !piece["extra_content"].is_null() {
            call.extra = Some(piece["extra_content"].clone());
        }
        let input = match &function["arguments"] {
            Value::String(text) => text.clone(),
            // Arguments as a tree instead of as text.
            tree @ (Value::Object(_) | Value::Array(_)) => tree.to_string(),
            _ => String::new(),
        };
        match call.place {
            Some(place) => draft.assembly.call_input(place, &input),
            None => call.early.push_str(&input),
        }
        Ok(())
    }
}

fn read_finish(reason: &str, draft: &Draft<'_>) -> Result<Finish, ModelError> {
    let failed = |kind| Err(draft.endpoint.error(kind, format!("failed in mid-stream ({reason})")));
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

/// The text of a field; an empty one if it has none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Content as a text, or as a list of parts with texts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.get("text").unwrap_or(part).as_str()).collect(),
        _ => String::new(),
    }
}

/// Adds a piece of a reasoning detail: to the last entry if it continues that entry, else as a new entry.
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

#[cfg(test)]
mod tests;
