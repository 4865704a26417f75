//! The parts of a message: twelve kinds of pieces, from text to a tool call with its result.
//!
//! Their JSON form is on tapes, in events and in other programs, so each field is a promise: do not rename or retype one, and
//! give each new field a serde default. Data that only one provider understands ([`Extra`]) is kept as it came, and must go to no
//! other provider and no other API.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{FilePart, Finish, Span, ToolPart};
use crate::{
    words::ids::Millis,
    words::usage::{MicroUsd, Usage},
};

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// The content that one or more files had before a change, if it was kept.
    Snapshot(SnapshotPart),
    /// Files that were changed.
    Patch(PatchPart),
    /// A model request begins.
    StepStart(StepStartPart),
    /// A model request and its calls are done.
    StepFinish(StepFinishPart),
    /// A model request failed and was made again.
    Retry(RetryPart),
    /// Another agent is in force from here on.
    Agent(AgentPart),
    /// Work was given to a subagent.
    Subtask(SubtaskPart),
    /// The history before this point is replaced by a summary.
    Compaction(CompactionPart),
}

impl Part {
    /// Its size in bytes, about. The part is no deeper than an incoming value may be.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Part::Text(TextPart { text, extra: None }) => text.len(),
            Part::Reasoning(ReasoningPart { text, extra: None, .. }) => text.len(),
            Part::File(file) => file.url.len() + file.mime.len() + file.filename.as_ref().map_or(0, String::len),
            // Hosts seldom send another one.
            part => serde_json::to_vec(part).map_or(0, |written| written.len()),
        }
    }

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

/// Data that only the provider that made a part understands (a signature, encrypted reasoning).
///
/// It goes back only to the same provider and the same API; for any other it is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Extra {
    /// The provider that made the data.
    pub provider: String,
    /// The wire format that the data belongs to: `openai-chat`, `anthropic-messages`.
    pub api: String,
    /// The data, as it came.
    pub value: Value,
}

impl Extra {
    /// The data of that provider and wire format.
    #[must_use]
    pub fn new(provider: impl Into<String>, api: impl Into<String>, value: Value) -> Extra {
        Extra { provider: provider.into(), api: api.into(), value }
    }
}

/// Text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TextPart {
    /// The text.
    pub text: String,
    /// The data that the provider wants back with the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// What the model thought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReasoningPart {
    /// The thought; empty if the provider shows none of it.
    pub text: String,
    /// When the model began and ended the thought.
    pub time: Span,
    /// The signature or encrypted form that the provider wants back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// The content that one or more files had before a change, if it was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SnapshotPart {
    /// The hash that the content is kept under.
    pub snapshot: String,
}

/// Files that were changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PatchPart {
    /// The hash of the content before the change; `absent` for files that were not there, `unknown` if their content is not kept.
    pub hash: String,
    /// The paths of the changed files: relative to the workspace for a file inside, else absolute.
    pub files: Vec<String>,
    /// The change as a unified diff, where one was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A step begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StepStartPart {
    /// 1 for the first of its turn.
    pub step: u32,
}

/// A step is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct StepFinishPart {
    /// 1 for the first of its turn.
    pub step: u32,
    /// How the answer ended.
    pub finish: Finish,
    /// Tokens of the step.
    pub tokens: Usage,
    /// Whether the tokens are our estimate, because the provider gave no figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Cost of the step; `None` if no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
}

/// A request failed and was made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RetryPart {
    /// 1 for the first retry.
    pub attempt: u32,
    /// What went wrong.
    pub error: String,
    /// When it failed.
    pub time: Millis,
}

/// The agent in force from here on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct AgentPart {
    /// Its name.
    pub name: String,
}

/// Work that was given to a subagent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SubtaskPart {
    /// The prompt of the subagent.
    pub prompt: String,
    /// The subject of the work, in a few words.
    pub description: String,
    /// The agent that does the work.
    pub agent: String,
}

/// The history before this point is replaced by a summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct CompactionPart {
    /// Whether the runtime began the compaction, and not a host's request.
    pub auto: bool,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde_json::json;

    use super::*;

    /// C-p1, C-p13: the twelve kinds as they are written, each with all its fields, and read back the same.
    #[test]
    fn the_twelve_kinds_are_written_as_they_are_read() {
        let extra = json!({"provider": "p", "api": "openai-chat", "value": {"id": 1}});
        let tokens = json!({"input": 1, "output": 2, "reasoning": 3, "cache_read": 4, "cache_write": 5});
        let state = json!({"status": "pending", "input": "{}"});
        let parts = [
            json!({"type": "text", "text": "t", "extra": extra}),
            json!({"type": "reasoning", "text": "r", "time": {"start": 1, "end": 2}, "extra": extra}),
            json!({"type": "file", "url": "data:text/plain;base64,", "filename": "f", "mime": "text/plain"}),
            json!({"type": "tool", "callID": "c", "tool": "read", "state": state, "extra": extra}),
            json!({"type": "snapshot", "snapshot": "hash"}),
            json!({"type": "patch", "hash": "hash", "files": ["a"], "diff": "-a"}),
            json!({"type": "step-start", "step": 1}),
            json!({"type": "step-finish", "step": 1, "finish": "tool-calls", "tokens": tokens, "cost": 7}),
            json!({"type": "retry", "attempt": 1, "error": "busy", "time": 1}),
            json!({"type": "agent", "name": "a"}),
            json!({"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}),
            json!({"type": "compaction", "auto": true}),
        ];
        let kinds: std::collections::BTreeSet<&str> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
        assert_eq!(kinds.len(), 12);
        for written in parts {
            let read: Part = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), written);
        }
    }
}
