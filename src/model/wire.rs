//! What the wires (the code for one provider's format each) share: the choice between them, the draft of an answer, and the
//! meaning of an event of the stream.
//!
//! An answer is complete only where the provider said why it ended; a stream that just ends before that is [`ErrorKind::Truncated`].
//! An end mark that is missing after that is not waited for long. A change must keep that, or half an answer would be acted upon. It must also name in `rendering` everything that the rendering of an item
//! depends on, or a fragment that was kept for another endpoint is sent.

use bytes::Bytes;
use serde_json::Value;

#[cfg(feature = "anthropic")]
use super::anthropic;
#[cfg(feature = "gemini")]
use super::gemini;
use super::{
    AnswerPart, Api, Deltas, Endpoint, ErrorKind, ModelAnswer, ModelError, Request, assembly::Assembly, halves::marked,
    sse::Event,
};
#[cfg(feature = "openai")]
use super::{openai, responses};
use crate::words::{message::Finish, usage::Usage};

/// The meaning of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The event only shows that the connection lives. Behind the first piece of the answer it does not restart the idle limit.
    Nothing,
    /// The event is part of the answer.
    Something,
    /// The event is the end mark.
    End,
}

/// The name of an endpoint's rendering: everything that the fragment of an item depends on.
pub(crate) fn rendering(endpoint: &Endpoint) -> String {
    let images = if endpoint.limits.images { "images" } else { "text" };
    let (quirks, api) = (&endpoint.quirks, endpoint.api.name());
    format!("{api} {} {images} {} {:?}", endpoint.provider, quirks.image_bytes_max, quirks.reasoning)
}

/// The body of a request.
pub(crate) fn body(endpoint: &Endpoint, rendering: &str, request: &Request) -> Bytes {
    match endpoint.api {
        #[cfg(feature = "openai")]
        Api::OpenAiChat => openai::body(endpoint, rendering, request),
        #[cfg(feature = "openai")]
        Api::OpenAiResponses => responses::body(endpoint, rendering, request),
        #[cfg(feature = "anthropic")]
        Api::AnthropicMessages => anthropic::body(endpoint, rendering, request),
        #[cfg(feature = "gemini")]
        Api::GeminiGenerateContent => gemini::body(endpoint, rendering, request),
    }
}

/// An answer that is being read. The wires fill it in.
pub(crate) struct Draft<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) assembly: Assembly<'a>,
    /// Why the model stopped; `None` until the provider says so.
    pub(crate) finish: Option<Finish>,
    /// Whether the answer is complete. The end mark may still be missing.
    pub(crate) is_complete: bool,
    pub(crate) usage: Usage,
    pub(crate) model: String,
}

impl Draft<'_> {
    /// The data of an event as JSON.
    pub(crate) fn parse(&mut self, event: &Event) -> Result<Value, ModelError> {
        let text = event.data.trim();
        if let Ok(value) = serde_json::from_str(text) {
            return Ok(value);
        }
        if let Ok(value) = serde_json::from_str(&marked(text)) {
            self.assembly.has_halves();
            return Ok(value);
        }
        let start = self.endpoint.quote(&event.data);
        Err(self.endpoint.error(ErrorKind::Protocol, format!("sent an event that is not JSON: {start}")))
    }
}

/// The end mark of Chat Completions, which relays put behind the streams of other APIs too.
const END_MARK: &str = "[DONE]";

/// The reading half of one wire: takes events into a draft.
pub(crate) trait Wire: Send {
    /// Takes one event that has data.
    fn event(&mut self, event: &Event, draft: &mut Draft<'_>) -> Result<Step, ModelError>;

    /// Whether [`END_MARK`] says that the answer is complete. On the wires whose API has another end, it only ends the stream.
    fn is_whole_at_the_mark(&self) -> bool {
        false
    }

    /// Puts the last pieces in their places at the end of a complete stream. `false` if part of the answer was cut off.
    fn close(&mut self, draft: &mut Draft<'_>) -> Result<bool, ModelError>;
}

/// The reading of one stream.
pub(crate) struct Reading<'a> {
    pub(crate) draft: Draft<'a>,
    wire: Box<dyn Wire>,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint, request: &Request, deltas: &'a mut dyn Deltas) -> Reading<'a> {
        let wire: Box<dyn Wire> = match endpoint.api {
            #[cfg(feature = "openai")]
            Api::OpenAiChat => Box::new(openai::ChatReading::default()),
            #[cfg(feature = "openai")]
            Api::OpenAiResponses => Box::new(responses::ResponsesReading::default()),
            #[cfg(feature = "anthropic")]
            Api::AnthropicMessages => Box::new(anthropic::MessagesReading::default()),
            #[cfg(feature = "gemini")]
            Api::GeminiGenerateContent => Box::new(gemini::GeminiReading::default()),
        };
        let draft = Draft {
            endpoint,
            assembly: Assembly::new(&request.history, deltas),
            finish: None,
            is_complete: false,
            usage: Usage::default(),
            model: String::new(),
        };
        Reading { draft, wire }
    }

    /// Takes one event. Every piece of the answer in it goes to the deltas.
    pub(crate) fn event(&mut self, event: &Event) -> Result<Step, ModelError> {
        match event.data.trim() {
            "" => Ok(Step::Nothing),
            END_MARK => {
                self.draft.is_complete |= self.wire.is_whole_at_the_mark();
                Ok(Step::End)
            }
            _ => self.wire.event(event, &mut self.draft),
        }
    }

    /// The answer, or [`ErrorKind::Truncated`].
    pub(crate) fn finish(mut self) -> Result<ModelAnswer, ModelError> {
        if !self.draft.is_complete || !self.wire.close(&mut self.draft)? {
            let message =
                format!("the stream of {} ended before the answer was complete", self.draft.endpoint.provider);
            return Err(ModelError::new(ErrorKind::Truncated, message));
        }
        let Draft { assembly, finish, usage, model, .. } = self.draft;
        let mut answer = ModelAnswer::new(assembly.finish(), finish.unwrap_or(Finish::Unknown));
        for part in &mut answer.parts {
            // The stream is complete, so empty arguments mean none. At the output limit they may be cut, and stay as they are.
            if let AnswerPart::Call { input, .. } = part
                && input.trim().is_empty()
                && answer.finish != Finish::Length
            {
                *input = "{}".to_owned();
            }
        }
        (answer.usage, answer.model) = (usage, model);
        Ok(answer)
    }
}

/// Takes a later figure of a running total over an earlier one. A missing figure or 0 replaces none: some relays end a stream
/// with figures of 0, although the beginning said how much was read.
pub(crate) fn take_figure(place: &mut u64, value: Option<&Value>) {
    match tokens(value) {
        0 => {}
        count => *place = count,
    }
}

/// A count of tokens from a provider. A negative count, and a value that is not a number, become 0.
fn tokens(value: Option<&Value>) -> u64 {
    let Some(value) = value else { return 0 };
    match (value.as_u64(), value.as_f64()) {
        (Some(count), _) => count,
        (None, Some(float)) if float > 0.0 => {
            // The cast saturates: a figure beyond u64 becomes the largest one.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let count = float as u64;
            count
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// V17
    #[test]
    fn odd_figures_become_counts() {
        let cases = [(json!(7), 7), (json!(-7), 0), (json!(7.9), 7), (json!(1e300), u64::MAX), (json!(null), 0)];
        for (value, expected) in cases {
            assert_eq!(tokens(Some(&value)), expected, "{value}");
        }
        assert_eq!(tokens(None), 0);
    }
}
