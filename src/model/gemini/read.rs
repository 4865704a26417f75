//! Reads the events of a stream of Gemini's `streamGenerateContent` into an answer.
//!
//! Each event is a whole response with a few more parts: texts and thoughts come in pieces, calls always whole. The answer is
//! complete once the server has said why the model stopped; no end mark follows. A signature is kept next to the part that it came
//! with, and one that came alone, after a text, next to that text.
//!
//! A change must keep that unknown parts are passed over and an unknown reason is [`Finish::Unknown`], because the API adds such
//! values without a new version.

use serde_json::{Value, json};

use super::SIGNATURE;
use crate::{
    model::{
        AnswerPart, ErrorKind, ModelError,
        counted::{Counted, Paths},
        sse::Event,
        wire::{Draft, Step, Wire},
    },
    words::message::Finish,
};

/// Where the API puts its figures. It counts thoughts beside the answer.
const PATHS: Paths = Paths {
    input: &["/promptTokenCount"],
    output: &["/candidatesTokenCount"],
    cache_read: &["/cachedContentTokenCount"],
    cache_write: &[],
    reasoning: &["/thoughtsTokenCount"],
    total: &["/totalTokenCount"],
};

/// The state of reading one stream.
#[derive(Default)]
pub(crate) struct GeminiReading {
    counted: Counted,
}

impl Wire for GeminiReading {
    fn event(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<Step, ModelError> {
        let chunk = draft.parse(event)?;
        if !chunk["error"].is_null() || event.name == "error" {
            return Err(draft.endpoint.refusal(None, &event.data, None));
        }
        if let Some(model) = chunk["modelVersion"].as_str() {
            model.clone_into(&mut draft.model);
        }
        let usage = &chunk["usageMetadata"];
        if usage.is_object() {
            draft.usage = self.counted.read(usage, &PATHS);
        }
        if let Some(reason) = chunk["promptFeedback"]["blockReason"].as_str() {
            let reason = draft.endpoint.quote(reason);
            return Err(draft.endpoint.error(ErrorKind::ContentPolicy, format!("refused the prompt ({reason})")));
        }
        let candidate = &chunk["candidates"][0];
        if candidate.is_null() {
            return Ok(if usage.is_object() { Step::Something } else { Step::Nothing });
        }
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            take(part, draft)?;
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            draft.finish = Some(finish_of(reason, &candidate["finishMessage"], draft)?);
            draft.is_complete = true;
        }
        Ok(Step::Something)
    }

    fn close(&mut self, _: &mut Draft<'_>) -> Result<bool, ModelError> {
        Ok(true)
    }
}

/// Takes one part.
fn take(part: &Value, draft: &mut Draft<'_>) -> Result<(), ModelError> {
    let call = &part["functionCall"];
    if call.is_object() {
        let text = |name: &str| call[name].as_str().unwrap_or_default();
        let place = draft.assembly.start_call(text("id"), text("name"))?;
        let input = match &call["args"] {
            // Relays for other models may send a text.
            Value::String(text) => text.clone(),
            Value::Null => "{}".to_owned(),
            tree => tree.to_string(),
        };
        draft.assembly.call_input(place, &input);
    } else if let Some(text) = part["text"].as_str() {
        match part["thought"].as_bool() {
            Some(true) => draft.assembly.reasoning(text),
            _ => draft.assembly.text(text),
        }
    }
    let Some(signature) = part[SIGNATURE].as_str() else { return Ok(()) };
    let kept = draft.endpoint.extra(json!({ SIGNATURE: signature }));
    match draft.assembly.parts.last_mut() {
        Some(AnswerPart::Text { extra, .. }) => *extra = Some(kept),
        Some(AnswerPart::Call { extra, .. }) if call.is_object() => *extra = Some(kept),
        Some(AnswerPart::Reasoning { extra, .. }) if part["thought"] == true => *extra = Some(kept),
        _ => draft.assembly.hidden_reasoning(kept),
    }
    Ok(())
}

/// Why the model stopped. A call that came out malformed is a failed answer: another try mostly is a good one.
fn finish_of(reason: &str, message: &Value, draft: &Draft<'_>) -> Result<Finish, ModelError> {
    let has_calls = draft.assembly.parts.iter().any(|part| matches!(part, AnswerPart::Call { .. }));
    Ok(match reason {
        // The second is that of servers in Gemini's place.
        "STOP" | "FUNCTION_CALL" if has_calls => Finish::ToolCalls,
        "STOP" => Finish::Stop,
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE" => Finish::ContentFilter,
        "IMAGE_SAFETY" | "IMAGE_PROHIBITED_CONTENT" | "IMAGE_RECITATION" => Finish::ContentFilter,
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" | "MISSING_THOUGHT_SIGNATURE" => {
            let said = message.as_str().map(|said| format!(": {}", draft.endpoint.quote(said))).unwrap_or_default();
            return Err(draft.endpoint.error(ErrorKind::Protocol, format!("failed in mid-stream ({reason}){said}")));
        }
        _ => Finish::Unknown,
    })
}

#[cfg(test)]
mod tests;
