//! What is said: messages and their parts.
//!
//! A message is a list of parts. There are twelve kinds (checklist C-p1); a host sends text and files, a model answers with
//! text, reasoning and tool calls, and the rest tell what happened around them. A tool part carries the whole life of one
//! call: pending → running → completed or error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ids::{CallId, MessageId, Millis},
    usage::{MicroUsd, Usage},
};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The host, for a person or a program.
    User,
    /// The model.
    Assistant,
}

/// A model by its provider and its name there, written `provider/model`.
///
/// ```
/// use tamtam::ModelRef;
/// let model: ModelRef = "openai/gpt-4o".parse().unwrap();
/// assert_eq!((model.provider.as_str(), model.model.as_str()), ("openai", "gpt-4o"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// Whose API it is reached through.
    pub provider: String,
    /// Its name there; may itself contain slashes.
    pub model: String,
}

impl std::fmt::Display for ModelRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad model {given:?}: write PROVIDER/MODEL, such as openai/gpt-4o or anthropic/claude-sonnet-4")]
pub struct BadModelRef {
    /// What was given.
    pub given: String,
}

impl std::str::FromStr for ModelRef {
    type Err = BadModelRef;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.split_once('/').or_else(|| given.split_once(':')) {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(ModelRef { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(BadModelRef { given: given.to_owned() }),
        }
    }
}

/// When a message was made, and when it was complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTime {
    /// When it began.
    pub created: Millis,
    /// When it was complete; `None` while it is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Millis>,
}

/// When something that takes time began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub start: Millis,
    /// When it ended; `None` while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Millis>,
}

/// One message of a conversation.
///
/// ```
/// use tamtam::Message;
/// let message = Message::user("Look at README.md").with_id("m-1".into());
/// assert_eq!(message.text(), "Look at README.md");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id. Sending the same id twice is sending one message once.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// The agent that this message is for (a user's) or from (the model's).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that should answer, or that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Tools switched on or off for the turn of this message (C-p15). It can never bring back a tool that permission denies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, bool>,
    /// When it was made. Set by the runtime when the message is accepted.
    #[serde(default)]
    pub time: MessageTime,
    /// Tokens of the answer; only on messages of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Usage>,
    /// Cost of the answer; `None` where no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How the answer ended; only on messages of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
}

impl Message {
    /// A user's message of one text part, with a new id.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Message {
        Message {
            id: MessageId::new(),
            role: Role::User,
            parts: vec![Part::text(text)],
            agent: None,
            model: None,
            tools: BTreeMap::new(),
            time: MessageTime::default(),
            tokens: None,
            cost: None,
            finish: None,
        }
    }

    /// The same message under an id of the sender's choosing.
    #[must_use]
    pub fn with_id(mut self, id: MessageId) -> Message {
        self.id = id;
        self
    }

    /// The same message with one more part.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Message {
        self.parts.push(part);
        self
    }

    /// All text parts, joined without a separator.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Message {
        Message::user(text)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Message {
        Message::user(text)
    }
}

/// How an answer of the model ended (C-p6), and what that does to its turn.
///
/// | finish | calls in the answer | the turn |
/// |---|---|---|
/// | stop | none | ends: done |
/// | stop, tool-calls | some | they run, then the next step |
/// | tool-calls | none | ends as an error: the model announced calls and sent none |
/// | length | any | calls are answered as failed and never run; without calls the turn ends: cut short |
/// | content-filter | any | no call runs; the turn ends: refused |
/// | unknown | some | they run, then the next step |
/// | unknown | none | ends as an error, never silently |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Finish {
    /// The model had said all it wanted to.
    Stop,
    /// The model wants tools to run.
    ToolCalls,
    /// The limit of output tokens was reached; the last call may be incomplete.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The provider said something that we do not know, or nothing.
    Unknown,
}

/// What only the provider that made a part understands (a signature, encrypted reasoning).
///
/// It goes back only to the same provider and the same API; to any other it is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extra {
    /// The provider that made it.
    pub provider: String,
    /// The wire format it belongs to: `openai-chat`, `anthropic-messages`.
    pub api: String,
    /// What it said, as it came.
    pub value: Value,
}

/// One piece of a message: the twelve kinds of C-p1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Part {
    /// Text, by anyone.
    Text(TextPart),
    /// What the model thought.
    Reasoning(ReasoningPart),
    /// A file or an image that goes with the message.
    File(FilePart),
    /// One tool call and all that became of it.
    Tool(ToolPart),
    /// The state of the workspace before a change.
    Snapshot(SnapshotPart),
    /// Files that were changed.
    Patch(PatchPart),
    /// A model request begins.
    StepStart(StepStartPart),
    /// A model request and its calls are done.
    StepFinish(StepFinishPart),
    /// A model request failed and will be made again.
    Retry(RetryPart),
    /// A message names the agent it is meant for.
    Agent(AgentPart),
    /// A message asks for work by a subagent.
    Subtask(SubtaskPart),
    /// The history before this point is replaced by a summary.
    Compaction(CompactionPart),
}

impl Part {
    /// A text part.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Part {
        Part::Text(TextPart { text: text.into(), extra: None })
    }

    /// A file part whose bytes are in the message itself.
    #[must_use]
    pub fn file(mime: impl Into<String>, filename: Option<String>, bytes: &[u8]) -> Part {
        Part::File(FilePart::inline(mime, filename, bytes))
    }
}

/// Text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// What the provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// What the model thought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasoningPart {
    /// The thought; empty where the provider shows none of it.
    pub text: String,
    /// When it was thought.
    pub time: Span,
    /// The signature or encrypted form that the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// A file or an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FilePart {
    /// `data:MIME;base64,…` for bytes in the message, else where the file is.
    pub url: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// What it is, such as `image/png`.
    pub mime: String,
}

impl FilePart {
    /// A part that carries its bytes.
    #[must_use]
    pub fn inline(mime: impl Into<String>, filename: Option<String>, bytes: &[u8]) -> FilePart {
        use base64::Engine as _;
        let mime = mime.into();
        let data = base64::engine::general_purpose::STANDARD.encode(bytes);
        FilePart { url: format!("data:{mime};base64,{data}"), filename, mime }
    }

    /// The base64 text of the bytes, where they are in the message.
    #[must_use]
    pub fn base64(&self) -> Option<&str> {
        let rest = self.url.strip_prefix("data:")?;
        let (_, data) = rest.split_once(";base64,")?;
        Some(data)
    }
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolPart {
    /// The id that the model gave to it.
    #[serde(rename = "callID")]
    pub call: CallId,
    /// Which tool.
    pub tool: String,
    /// What became of it.
    pub state: ToolState,
    /// What the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// The life of a call (C-p3). The input is the text that was received, unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolState {
    /// Asked for by the model; not started.
    Pending {
        /// The arguments as the model wrote them.
        input: String,
    },
    /// Being carried out.
    Running {
        /// The arguments as the model wrote them.
        input: String,
        /// What it does, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Anything that changes while it runs (D-08).
        #[serde(default, skip_serializing_if = "Value::is_null")]
        metadata: Value,
        /// Since when.
        time: Span,
    },
    /// Carried out.
    Completed {
        /// The arguments as the model wrote them.
        input: String,
        /// What the model is told.
        output: String,
        /// What it did, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What hosts and operators are told beside the output.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        metadata: Value,
        /// From when to when.
        time: Span,
        /// Files that belong to the output, such as an image that was read (C-p12).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<FilePart>,
    },
    /// Not carried out, or not well.
    Error {
        /// The arguments as the model wrote them.
        input: String,
        /// What the model is told.
        error: String,
        /// Why.
        reason: ErrorReason,
        /// From when to when.
        time: Span,
    },
}

/// Why a call has no good result (C-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorReason {
    /// The tool ran and said so, or it crashed.
    Failed,
    /// A gate hook refused it.
    Blocked,
    /// Permission refused it: a rule, a person, or nobody answered in time.
    Denied,
    /// A steering message came before it was started.
    Skipped,
    /// It was stopped by an abort or by a steering message that aborts running calls.
    Aborted,
    /// It ran longer than it may.
    Timeout,
    /// The runtime died while it ran. Nobody knows how far it got.
    Unknown,
}

/// The state of the workspace before a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotPart {
    /// The content hash it is kept under.
    pub snapshot: String,
}

/// Files that were changed (C-p13).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatchPart {
    /// The snapshot before the change.
    pub hash: String,
    /// Which files, relative to the workspace.
    pub files: Vec<String>,
    /// The change as a unified diff, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A step begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepStartPart {
    /// 1 for the first of its turn.
    pub step: u32,
}

/// A step is done (X-02).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepFinishPart {
    /// 1 for the first of its turn.
    pub step: u32,
    /// How the answer ended.
    pub finish: Finish,
    /// Tokens of the step.
    pub tokens: Usage,
    /// Cost of the step; `None` where no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
}

/// A request failed and was made again (K-12).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetryPart {
    /// 1 for the first retry.
    pub attempt: u32,
    /// What went wrong.
    pub error: String,
    /// When it failed.
    pub time: Millis,
}

/// The agent that a message is meant for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentPart {
    /// Its name.
    pub name: String,
}

/// Work for a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtaskPart {
    /// What it is told.
    pub prompt: String,
    /// What it is about, in a few words.
    pub description: String,
    /// Which agent does it.
    pub agent: String,
}

/// The history before this point is replaced by a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionPart {
    /// Whether it came by itself, and not by request.
    pub auto: bool,
}
