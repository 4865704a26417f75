//! What a call gives back: a text for the model, details for people and programs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{ErrorReason, FilePart};

/// What came of a call.
///
/// The model sees `content` and the attachments, nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// What the model is told. Always valid UTF-8; the tool keeps it within its limits.
    pub content: String,
    /// What hosts and operators are told beside it.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// Why there is no good result; `None` for a good one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReason>,
    /// What was done, in a few words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Images and files that belong to the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FilePart>,
}

impl ToolResult {
    /// A good result.
    #[must_use]
    pub fn ok(content: impl Into<String>) -> ToolResult {
        ToolResult { content: content.into(), details: Value::Null, error: None, title: None, attachments: Vec::new() }
    }

    /// A failure that the model should know of. Say what to do next.
    #[must_use]
    pub fn error(content: impl Into<String>) -> ToolResult {
        ToolResult::failed(ErrorReason::Failed, content)
    }

    /// A failure with its reason.
    #[must_use]
    pub fn failed(reason: ErrorReason, content: impl Into<String>) -> ToolResult {
        ToolResult { error: Some(reason), ..ToolResult::ok(content) }
    }

    /// The same result with details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> ToolResult {
        self.details = details;
        self
    }

    /// The same result with a title.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> ToolResult {
        self.title = Some(title.into());
        self
    }

    /// Whether the call went wrong.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.error.is_some()
    }
}
