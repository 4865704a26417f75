//! What the two wires share: the meaning of an event of the stream, and the choice between the wires.

use bytes::Bytes;
use serde_json::Value;

use super::{
    Answer, Api, Deltas, Endpoint, ErrorKind, ModelError, Request, Secret, anthropic, failure::one_line, openai,
    redact::redact, sse::Event,
};

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It says nothing but that the connection lives; the wait goes on.
    Nothing,
    /// It is part of the answer.
    Something,
    /// It is the end mark.
    End,
}

/// The name of an endpoint's rendering: everything that the fragment of an item depends on.
pub(crate) fn rendering(endpoint: &Endpoint) -> String {
    let images = if endpoint.limits.images { "images" } else { "text" };
    format!("{} {} {images} {:?}", endpoint.api.name(), endpoint.provider, endpoint.quirks.reasoning)
}

/// The body of a request.
pub(crate) fn body(endpoint: &Endpoint, rendering: &str, request: &Request) -> Bytes {
    match endpoint.api {
        Api::OpenAiChat => openai::body(endpoint, rendering, request),
        Api::AnthropicMessages => anthropic::body(endpoint, rendering, request),
    }
}

/// One stream being read.
pub(crate) enum Reading {
    OpenAi(Box<openai::Reading>),
    Anthropic(Box<anthropic::Reading>),
}

impl Reading {
    pub(crate) fn new(endpoint: &Endpoint, request: &Request) -> Reading {
        match endpoint.api {
            Api::OpenAiChat => Reading::OpenAi(Box::new(openai::Reading::new(endpoint, request))),
            Api::AnthropicMessages => Reading::Anthropic(Box::new(anthropic::Reading::new(endpoint, request))),
        }
    }

    /// Takes one event; every piece of the answer in it goes to `deltas`.
    pub(crate) fn event(&mut self, event: &Event, deltas: &mut dyn Deltas) -> Result<Step, ModelError> {
        match self {
            Reading::OpenAi(reading) => reading.event(event, deltas),
            Reading::Anthropic(reading) => reading.event(event, deltas),
        }
    }

    /// Whether the answer is whole already, though the end mark may be missing.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Reading::OpenAi(reading) => reading.is_complete(),
            Reading::Anthropic(reading) => reading.is_complete(),
        }
    }

    /// The answer, or [`ErrorKind::Truncated`].
    pub(crate) fn finish(self, deltas: &mut dyn Deltas) -> Result<Answer, ModelError> {
        match self {
            Reading::OpenAi(reading) => reading.finish(deltas),
            Reading::Anthropic(reading) => reading.finish(deltas),
        }
    }
}

/// An event that should have been JSON.
pub(crate) fn not_json(provider: &str, data: &str, keys: &[&Secret]) -> ModelError {
    let start = one_line(&redact(data, keys));
    ModelError::new(ErrorKind::Protocol, format!("{provider} sent an event that is not JSON: {start}"))
}

/// A count of tokens as a provider gives it: below zero is 0, and what is no number is 0.
pub(crate) fn tokens(value: Option<&Value>) -> u64 {
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
