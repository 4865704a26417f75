//! A model request and its answer, in a form that belongs to no provider.
//!
//! A [`Request`] is complete: a model needs nothing else to answer it, or to answer it again. A [`History`] shares its items, so
//! that cloning a long conversation is cheap. Each item keeps the fragment of request body that the first wire (the code for one
//! provider's format) made of it, so that a conversation is serialized once and not once per step.
//!
//! A change must keep this: items never change once they are in a history, because clones share them; types stored on tapes
//! (items, answers and their parts) get new fields with a default only, and no field is renamed; a fragment is never stored, and
//! takes no part in a comparison.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    words::depth::{self, TooDeep, VALUE_DEPTH_MAX},
    words::ids::{CallId, Millis, Seq, SessionId},
    words::is_default,
    words::labels::Labels,
    words::message::{Extra, FilePart, Finish, ModelRef, Part, Span},
    words::trace::TraceContext,
    words::usage::Usage,
};

use super::{AnswerSchema, Steered, Steers, Thinking};

/// One model request, complete: a model needs nothing else to answer it, or to answer it again. Never stored; the tape has its
/// parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// The system prompt. It seldom changes within a session, so that provider caches hit.
    pub system: Arc<str>,
    /// The tools on offer, in a stable order; none on the last step of a turn.
    pub tools: Arc<[ToolSpec]>,
    /// The conversation so far.
    pub history: History,
    /// A reminder for this request only, put after the history as a user's text.
    pub reminder: Option<Arc<str>>,
    /// Sampling and limits.
    pub params: Params,
    /// The name of this request on the tape; the same after a crash. Scripted models recognize a repeated request by it.
    pub key: String,
    /// The session that asks; `None` for a request of no session. No wire sends it: it is for the model's own choice of a key, a quota
    /// or a header.
    pub session: Option<SessionId>,
    /// The labels of that session, such as its tenant, as they are when the request is made.
    pub labels: Labels,
    /// The trace that the request carries on, as `traceparent` and `tracestate`; `None` outside of one.
    pub trace: Option<TraceContext>,
    /// The steering messages that come while the answer is being made. A model may leave them alone.
    pub steers: Steers,
    /// Cancelled when the turn of the request is over; `None` where it is of no turn. What was kept for the next request is closed then.
    pub(crate) turn: Option<CancellationToken>,
}

impl Request {
    /// A request with that history and nothing else.
    #[must_use]
    pub fn new(history: History) -> Request {
        let (system, tools, params) = (Arc::default(), Arc::default(), Params::default());
        let (session, labels) = (None, Labels::default());
        let (key, trace, steers, turn) = (String::new(), None, Steers::default(), None);
        Request { system, tools, history, reminder: None, params, key, session, labels, trace, steers, turn }
    }
}

/// Sampling and limits of a request. `None` leaves the choice to the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Params {
    /// Sampling temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// The most tokens of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// How much the model thinks before it answers. A model that lacks the level is asked for the nearest one that it has
    /// ([`Thinking::among`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// The shape of the final answer of each turn; free text by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<AnswerSchema>,
    /// Further options, put into the request body as they are. An option never replaces the model, the messages, the tools, the
    /// system prompt or `stream`.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Params {
    crate::words::setters::setters! {
        /// Sets the [temperature](#structfield.temperature).
        temperature: f32 = Some(temperature);
        /// Sets the [nucleus sampling](#structfield.top_p).
        top_p: f32 = Some(top_p);
        /// Limits the [tokens of the answer](#structfield.max_output).
        max_output: u64 = Some(max_output);
        /// Sets the [level of thinking](#structfield.thinking).
        thinking: Thinking = Some(thinking);
        /// Sets the [shape of the final answer](#structfield.answer_schema).
        answer_schema: AnswerSchema = Some(answer_schema);
        /// Sets the [further options](#structfield.options).
        options: Value;
    }
}

impl Params {
    /// The first field that no request may have, and what is wrong with it.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        fault(self.temperature, self.top_p, self.max_output, &self.options)
    }

    /// These, and of what they leave out what `below` says.
    pub(crate) fn over(self, below: Params) -> Params {
        Params {
            temperature: self.temperature.or(below.temperature),
            top_p: self.top_p.or(below.top_p),
            max_output: self.max_output.or(below.max_output),
            thinking: self.thinking.or(below.thinking),
            answer_schema: self.answer_schema.or(below.answer_schema),
            options: if self.options.is_null() { below.options } else { self.options },
        }
    }
}

/// As [`Params::fault`]. Copies nothing: what is too deep must not be copied.
pub(crate) fn fault(
    temperature: Option<f32>,
    top_p: Option<f32>,
    max_output: Option<u64>,
    options: &Value,
) -> Option<(&'static str, String)> {
    let is_off = |value: Option<f32>, most: f32| value.is_some_and(|value| !(0.0..=most).contains(&value));
    if max_output == Some(0) {
        Some(("max_output", "is 0: an answer takes at least 1 token".to_owned()))
    } else if is_off(temperature, 2.0) {
        Some(("temperature", "is not a number from 0 to 2".to_owned()))
    } else if is_off(top_p, 1.0) {
        Some(("top_p", "is not a number from 0 to 1".to_owned()))
    } else if !options.is_null() && !options.is_object() {
        Some(("options", "is not a table".to_owned()))
    } else {
        (!depth::is_within(options, VALUE_DEPTH_MAX)).then(|| ("options", format!("is {TooDeep}")))
    }
}

/// A tool as it is described to the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments.
    pub schema: Value,
    /// Whether a session's model is told of it only once it was found ([`Tool::deferred`](crate::tool::Tool::deferred)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

impl ToolSpec {
    /// A tool with that name, its description, and the JSON schema of its arguments.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, schema: Value) -> ToolSpec {
        ToolSpec { name: name.into(), description: description.into(), schema, deferred: false }
    }
}

/// The conversation as a model sees it: items in order, shared and never changed.
///
/// Cloning costs the same however long the history is. Pushing never copies an item.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Full chunks, shared between clones. The list of pointers is copied only when a chunk gets full while a clone exists.
    full: Arc<Vec<Arc<[Arc<Item>]>>>,
    tail: Vec<Arc<Item>>,
}

/// Items in one shared chunk of a [`History`].
const CHUNK: usize = 32;

impl History {
    /// Adds an item at the end.
    pub fn push(&mut self, item: Item) {
        self.push_shared(Arc::new(item));
    }

    /// Adds an item of another history at the end, with the fragment that was made of it.
    pub(crate) fn push_shared(&mut self, item: Arc<Item>) {
        self.tail.push(item);
        if self.tail.len() == CHUNK {
            Arc::make_mut(&mut self.full).push(std::mem::take(&mut self.tail).into());
        }
    }

    /// All items, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Item>> + Clone {
        self.full.iter().flat_map(|chunk| chunk.iter()).chain(self.tail.iter())
    }

    /// The answers of the model, oldest first.
    pub(crate) fn answers(&self) -> impl Iterator<Item = &ModelAnswer> {
        self.iter().filter_map(|item| match item.as_ref() {
            Item::Assistant(answer) => Some(answer),
            _ => None,
        })
    }

    /// How many items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.len() * CHUNK + self.tail.len()
    }

    /// Whether nothing was said yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.full.is_empty() && self.tail.is_empty()
    }

    /// The first `items` items, or all where there are fewer. Whole chunks are shared.
    #[must_use]
    pub fn first(&self, items: usize) -> History {
        let chunks = (items / CHUNK).min(self.full.len());
        let mut first = History { full: Arc::new(self.full[..chunks].to_vec()), tail: Vec::new() };
        let (taken, rest) = (chunks * CHUNK, items - chunks * CHUNK);
        self.iter().skip(taken).take(rest).for_each(|item| first.push_shared(item.clone()));
        first
    }

    /// How many items at the beginning both histories have in common.
    #[must_use]
    pub fn common(&self, other: &History) -> usize {
        self.iter().zip(other.iter()).take_while(|(a, b)| Arc::ptr_eq(a, b) || a == b).count()
    }

    /// The newest item.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Item>> {
        self.iter().next_back()
    }
}

impl PartialEq for History {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

impl FromIterator<Item> for History {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> History {
        let mut history = History::default();
        items.into_iter().for_each(|item| history.push(item));
        history
    }
}

impl Serialize for History {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|item| item.as_ref()))
    }
}

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Item>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// One item of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "item", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Item {
    /// A message in the user's place: of the host, or of the runtime (a summary, the news of a child).
    User(UserItem),
    /// An answer of the model.
    Assistant(ModelAnswer),
    /// The result of one call. Results are in call order, directly after the answer that asked for them.
    Result(ToolResultItem),
}

impl Item {
    /// The files that go with it: in a message, or with a result.
    pub(crate) fn files(&self) -> impl Iterator<Item = &FilePart> {
        let (parts, attachments): (&[Part], &[FilePart]) = match self {
            Item::User(user) => (&user.parts, &[]),
            Item::Result(result) => (&[], &result.attachments),
            Item::Assistant(_) => (&[], &[]),
        };
        let of_parts = parts.iter().filter_map(|part| if let Part::File(file) = part { Some(file) } else { None });
        of_parts.chain(attachments)
    }

    /// The fragment of request body that a wire makes of this item. `render` makes it the first time; then it is kept.
    ///
    /// `wire` names the format and everything that its rendering depends on. Only the first wire's fragment is kept; another wire
    /// renders each time.
    #[cfg(feature = "_wire")]
    pub(crate) fn fragment(&self, wire: &str, render: impl Fn() -> Bytes) -> Bytes {
        let cell = match self {
            Item::User(item) => &item.fragment,
            Item::Assistant(item) => &item.fragment,
            Item::Result(item) => &item.fragment,
        };
        let (kept_for, kept) = cell.0.get_or_init(|| (wire.into(), render()));
        if **kept_for == *wire { kept.clone() } else { render() }
    }
}

/// A rendered fragment. Never compared and never stored: it follows from the rest.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "_wire"), allow(dead_code))]
pub(crate) struct Fragment(OnceLock<(Box<str>, Bytes)>);

impl PartialEq for Fragment {
    fn eq(&self, _: &Fragment) -> bool {
        true
    }
}

/// A message in the user's place: of the host, or of the runtime (a summary, the news of a child).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct UserItem {
    /// The id of the message.
    pub id: crate::words::ids::MessageId,
    /// Text and files.
    pub parts: Vec<Part>,
    /// Kept rendering.
    #[serde(skip)]
    pub(crate) fragment: Fragment,
}

impl UserItem {
    /// The item of a message.
    #[must_use]
    pub fn new(id: crate::words::ids::MessageId, parts: Vec<Part>) -> UserItem {
        UserItem { id, parts, fragment: Fragment::default() }
    }

    /// All text parts, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(text.text.as_str()) } else { None })
            .collect()
    }
}

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelAnswer {
    /// Text, reasoning and calls, in the order they came.
    pub parts: Vec<AnswerPart>,
    /// How it ended.
    pub finish: Finish,
    /// The usage that the provider reported; all zero where it reported none.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, by the provider's own name for it.
    #[serde(default)]
    pub model: String,
    /// The model that answered, if the implementation says so; its price holds for the answer, even if another model was asked. A
    /// host's model that falls back on another one passes on the other's answer unchanged, name included. A tape keeps it only
    /// where it differs from the model that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<ModelRef>,
    /// What became of the messages that were sent into this answer. A tape keeps it with the answer; the history does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steered: Vec<Steered>,
    /// The answers that the provider had begun ahead, and that were dropped because another request was made than the one that they
    /// answer. Charged with this answer, each on a line of its own, and no part of its context.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
    /// Kept rendering.
    #[serde(skip)]
    pub(crate) fragment: Fragment,
}

/// What an answer used that a provider began ahead of its request, and that nobody read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dropped {
    /// Its tokens.
    pub usage: Usage,
    /// Whether these are our estimate, because the provider has not said all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub estimated: bool,
}

impl ModelAnswer {
    /// An answer of those parts.
    #[must_use]
    pub fn new(parts: Vec<AnswerPart>, finish: Finish) -> ModelAnswer {
        ModelAnswer {
            parts,
            finish,
            usage: Usage::default(),
            model: String::new(),
            by: None,
            steered: Vec::new(),
            dropped: Vec::new(),
            fragment: Fragment::default(),
        }
    }

    /// Takes out the data of providers that is too deep, and says whether there was any.
    pub(crate) fn bound(&mut self) -> Result<(), TooDeep> {
        bound_parts(&mut self.parts)
    }

    /// Its calls, in order: the name as the model wrote it, and the arguments as they were received.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().filter_map(|part| match part {
            AnswerPart::Call { name, input, .. } => Some((name.as_str(), input.as_str())),
            _ => None,
        })
    }

    /// All text, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AnswerPart::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// One piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerPart {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Extra>,
    },
    /// A thought.
    Reasoning {
        /// The thought; empty if the provider shows none of it.
        text: String,
        /// When it was thought.
        #[serde(default)]
        time: Span,
        /// Its signature or encrypted form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Extra>,
    },
    /// A tool call.
    Call {
        /// The id that the model gave to it; made up where it gave none, and with a suffix where another call had it.
        id: CallId,
        /// Which tool.
        name: String,
        /// The arguments: the text as it was received, which need not be valid JSON.
        input: String,
        /// What the provider wants back with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Extra>,
    },
}

/// Takes out the data of providers that is too deep in these parts, and says whether there was any.
pub(crate) fn bound_parts(parts: &mut [AnswerPart]) -> Result<(), TooDeep> {
    let mut all = Ok(());
    for part in parts {
        let (AnswerPart::Text { extra, .. } | AnswerPart::Reasoning { extra, .. } | AnswerPart::Call { extra, .. }) =
            part;
        if let Err(error) = extra.as_mut().map_or(Ok(()), |extra| depth::bound(&mut extra.value)) {
            *extra = None;
            all = Err(error);
        }
    }
    all
}

/// The result of one call, as the model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolResultItem {
    /// The id of the call, as in its answer.
    pub call: CallId,
    /// Which tool.
    pub name: String,
    /// The text of the result.
    pub content: String,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
    /// Images and files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FilePart>,
    /// When it was recorded.
    #[serde(default)]
    pub time: Millis,
    /// The entry that opened the call; 0 where the result came from elsewhere.
    #[serde(default, skip_serializing_if = "is_none")]
    pub seq: Seq,
    /// Kept rendering.
    #[serde(skip)]
    pub(crate) fragment: Fragment,
}

fn is_none(seq: &Seq) -> bool {
    *seq == Seq::ZERO
}
