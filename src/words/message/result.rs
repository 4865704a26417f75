//! The result of a call: a text for the model, and details for people and programs.
//!
//! The model sees the content, the attachments and, through some providers' APIs, whether the call failed. A change must not show
//! the model the details, the title, the changes or the reason of the error: they are for people and programs alone. A
//! [`ToolResult`] is on the tape: a change may add a field with a default, and must read what older versions wrote.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::words::{
    depth,
    message::{Changes, ErrorReason, FilePart},
};

/// The result of a call.
///
/// The model sees `content`, the attachments and, through some providers' APIs, whether the call failed; nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolResult {
    /// The text for the model. A tool should keep it short; the worker bounds it again (`tool::truncate`).
    pub content: String,
    /// Facts for hosts and operators. Details of more than 96 levels are left out, and a note takes their place
    /// ([`VALUE_DEPTH_MAX`](crate::session::VALUE_DEPTH_MAX)).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub details: Value,
    /// The reason of a failure; `None` for a good result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorReason>,
    /// What the call did, in a few words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Images and files that belong to the result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FilePart>,
    /// The changes of the call to files. The runtime sets them from the call's [`ChangeLog`](crate::tool::ChangeLog) and replaces
    /// any value that a tool or a hook puts here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Box<Changes>>,
}

impl ToolResult {
    /// A good result.
    #[must_use]
    pub fn ok(content: impl Into<String>) -> ToolResult {
        ToolResult { content: content.into(), ..ToolResult::default() }
    }

    /// A failure that the model should know of. The text should say what to do next.
    #[must_use]
    pub fn error(content: impl Into<String>) -> ToolResult {
        ToolResult::failed(ErrorReason::Failed, content)
    }

    /// A failure with its reason.
    #[must_use]
    pub fn failed(reason: ErrorReason, content: impl Into<String>) -> ToolResult {
        ToolResult { error: Some(reason), ..ToolResult::ok(content) }
    }

    /// How many bytes of the result a model is given: the content, and each attachment as long as its URL.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let attached = self.attachments.iter().map(|file| file.url.len() as u64).sum::<u64>();
        attached.saturating_add(self.content.len() as u64)
    }

    /// The same result, with a note in place of details that are too deep.
    #[must_use]
    pub(crate) fn bounded(mut self) -> ToolResult {
        if depth::bound(&mut self.details).is_err() {
            self.details = depth::left_out();
        }
        self
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// TOOLRES-001, TOOLRES-005, TOOLRES-006: a text alone has no details and is not an error.
    #[test]
    fn a_text_alone_is_a_good_result_without_details() {
        let result = ToolResult::ok("hello world");
        assert_eq!((result.content.as_str(), &result.details, result.is_error()), ("hello world", &Value::Null, false));
        assert_eq!(serde_json::to_value(&result).ok(), Some(json!({"content": "hello world"})));
    }

    /// TOOLRES-002, TOOLRES-004: the text for the model and the details for programs are separate.
    #[test]
    fn details_stand_beside_the_content() {
        let result = ToolResult::ok("OK").with_details(json!({"diff_lines": 3, "exit_code": 0}));
        assert_eq!((result.content.as_str(), &result.details["diff_lines"]), ("OK", &json!(3)));
        let changed = ToolResult { content: "shorter".into(), ..result.clone() };
        assert_eq!(changed.details, result.details, "one is changed without the other");
    }

    /// TOOLRES-003
    #[test]
    fn an_error_keeps_its_text() {
        let result = ToolResult::error("no such file").with_details(json!({"path": "x"}));
        assert_eq!((result.content.as_str(), result.error), ("no such file", Some(ErrorReason::Failed)));
        assert_eq!(result.details["path"], "x");
    }
}
