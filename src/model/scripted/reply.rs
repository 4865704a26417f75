//! One reply of a script: its texts, calls and waits, in order, and how it ends.
//!
//! A [`Reply`] is a value. Methods add a beat (text, thought, call, wait, barrier), set how the reply ends (the last one set
//! counts), its usage or its finish, or say when it is given and what its request must contain. Nothing is played before a
//! request asks for it. A change must keep the order of the beats, and the serialized names of [`Beat`]'s variants and [`Call`]'s
//! fields: script files are read into them (`docs/FORMATS.md`).

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::transcript;
use crate::{
    model::{ErrorKind, ModelError, Request},
    words::message::Finish,
    words::usage::Usage,
};

/// One reply. Its beats are played in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub(super) beats: Vec<Beat>,
    pub(super) end: End,
    pub(super) usage: Usage,
    /// How it finishes; `None` for the usual way.
    pub(super) finish: Option<Finish>,
    /// Texts that the request must contain; otherwise the reply is an error.
    pub(super) expect: Vec<String>,
    /// Given only to requests that contain all of these texts; empty for no condition.
    pub(super) when: Vec<String>,
    /// Given only to requests whose history holds that many answers.
    pub(super) answers: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Beat {
    Text(String),
    Reasoning(String),
    Call(Call),
    #[serde(rename = "delay_ms", deserialize_with = "millis")]
    Wait(Duration),
    Barrier(String),
}

fn millis<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default)]
    pub(super) id: String,
    /// The arguments as a value …
    #[serde(default)]
    input: Option<Value>,
    /// … or as the text that the model writes, which need not be JSON.
    #[serde(default)]
    input_text: Option<String>,
}

impl Call {
    /// The arguments as the model writes them.
    pub(super) fn arguments(&self) -> String {
        match (&self.input_text, &self.input) {
            (Some(text), _) => text.clone(),
            (None, Some(value)) => value.to_string(),
            (None, None) => "{}".to_owned(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) enum End {
    #[default]
    Answer,
    Error(ModelError),
    Hang,
    Panic(String),
}

impl End {
    pub(super) fn cut_off() -> End {
        End::Error(ModelError::new(ErrorKind::Truncated, "the script cuts the stream off here"))
    }
}

impl Reply {
    /// An answer without text and calls.
    #[must_use]
    pub fn empty() -> Reply {
        Reply::default()
    }

    /// An answer of one text, in one piece.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::empty().with_text(text)
    }

    /// An answer that asks for one call.
    #[must_use]
    pub fn call(name: impl Into<String>, input: Value) -> Reply {
        Reply::empty().with_call(name, input)
    }

    /// A reply that fails. Texts and calls that are added to it arrive before the failure.
    #[must_use]
    pub fn error(error: ModelError) -> Reply {
        Reply::empty().failing(error)
    }

    /// A reply that never ends. Texts and calls that are added to it arrive before it hangs.
    #[must_use]
    pub fn hang() -> Reply {
        Reply::empty().hanging()
    }

    /// The same reply with a text; each text is a separate piece in the stream.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Reply {
        self.beats.push(Beat::Text(text.into()));
        self
    }

    /// The same reply with a thought.
    #[must_use]
    pub fn with_reasoning(mut self, text: impl Into<String>) -> Reply {
        self.beats.push(Beat::Reasoning(text.into()));
        self
    }

    /// The same reply with a call, whose id is made up.
    #[must_use]
    pub fn with_call(self, name: impl Into<String>, input: Value) -> Reply {
        self.with_raw_call("", name, input.to_string())
    }

    /// The same reply with a call under an id. The arguments are a text, which need not be JSON.
    #[must_use]
    pub fn with_raw_call(mut self, id: impl Into<String>, name: impl Into<String>, input: impl Into<String>) -> Reply {
        let call = Call { id: id.into(), name: name.into(), input: None, input_text: Some(input.into()) };
        self.beats.push(Beat::Call(call));
        self
    }

    /// The same reply, waiting here on tokio's clock.
    #[must_use]
    pub fn waiting(mut self, time: Duration) -> Reply {
        self.beats.push(Beat::Wait(time));
        self
    }

    /// The same reply, waiting here until the [`Barrier`](super::Barrier) of that name is released.
    #[must_use]
    pub fn at_barrier(mut self, name: impl Into<String>) -> Reply {
        self.beats.push(Beat::Barrier(name.into()));
        self
    }

    /// The same reply, failing at its end.
    #[must_use]
    pub fn failing(mut self, error: ModelError) -> Reply {
        self.end = End::Error(error);
        self
    }

    /// The same reply, cut off at its end: [`ErrorKind::Truncated`].
    #[must_use]
    pub fn truncated(mut self) -> Reply {
        self.end = End::cut_off();
        self
    }

    /// The same reply, hanging at its end.
    #[must_use]
    pub fn hanging(mut self) -> Reply {
        self.end = End::Hang;
        self
    }

    /// The same reply, panicking at its end.
    #[must_use]
    pub fn panicking(mut self, message: impl Into<String>) -> Reply {
        self.end = End::Panic(message.into());
        self
    }

    /// The same reply with a usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Reply {
        self.usage = usage;
        self
    }

    /// The same reply with another finish than the usual one (tool-calls with calls, else stop).
    #[must_use]
    pub fn with_finish(mut self, finish: Finish) -> Reply {
        self.finish = Some(finish);
        self
    }

    /// The same reply, failing unless the request contains this text; the text is looked for in `transcript(request)`.
    #[must_use]
    pub fn expecting(mut self, text: impl Into<String>) -> Reply {
        self.expect.push(text.into());
        self
    }

    /// The same reply, outside the sequence: given to every request that contains this text, unless an earlier reply with a
    /// condition fits. Called again, it adds a text that the request must contain as well. The text is looked for in
    /// `transcript(request)`.
    #[must_use]
    pub fn when(mut self, text: impl Into<String>) -> Reply {
        self.when.push(text.into());
        self
    }

    /// The same reply, outside the sequence: given to requests whose history holds that many answers.
    #[must_use]
    pub fn when_answers(mut self, answers: usize) -> Reply {
        self.answers = Some(answers);
        self
    }

    pub(super) fn is_conditional(&self) -> bool {
        !self.when.is_empty() || self.answers.is_some()
    }

    pub(super) fn applies(&self, request: &Request, answers: usize) -> bool {
        self.answers.is_none_or(|wanted| wanted == answers) && missing(&self.when, request).is_none()
    }

    /// Whether the history holds an answer after this reply. The session keeps no answer of a failed request. A hanging reply
    /// ends only when the session aborts it, and the session keeps the text that came until then as an answer.
    pub(super) fn leaves_an_answer(&self) -> bool {
        match self.end {
            End::Answer => true,
            End::Hang => self.beats.iter().any(|beat| matches!(beat, Beat::Text(_))),
            End::Error(_) | End::Panic(_) => false,
        }
    }

    pub(super) fn check(&self, request: &Request) -> Result<(), ModelError> {
        match missing(&self.expect, request) {
            None => Ok(()),
            Some(text) => {
                let message = format!("the script expects {text:?} in the request, and it is not there");
                Err(ModelError::new(ErrorKind::InvalidRequest, message))
            }
        }
    }
}

fn missing<'a>(texts: &'a [String], request: &Request) -> Option<&'a str> {
    if texts.is_empty() {
        return None;
    }
    let said = transcript(request);
    texts.iter().find(|text| !said.contains(text.as_str())).map(String::as_str)
}

impl From<&str> for Reply {
    fn from(text: &str) -> Reply {
        Reply::text(text)
    }
}
