//! The types that the closure of a typed tool may return, and the model's view of each.
//!
//! Hosts return these types, so a change must not make another result of one of them: texts, `()` and JSON are successes (except
//! JSON that cannot be written), and the `Err` of a `Result` is an error with its causes. `()` must stay an empty result, because
//! a streaming tool (`typed.rs`) adds the result to the text that was written.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

use crate::tool::ToolResult;

/// A value that becomes the result of a call.
///
/// | value | result |
/// |---|---|
/// | [`ToolResult`] | itself |
/// | `String`, `&str` | the text |
/// | `()` | an empty text; in a streaming tool nothing is added to the text |
/// | [`serde_json::Value`] | its JSON, on one line |
/// | [`Json`] | the JSON of any `Serialize`, on one line; an error if it cannot be written |
/// | `Result` | that of the value; an `Err` is an error result with its text |
///
/// If the result of a typed tool has neither text nor attachments in the end, the model gets `(no output)`, or for an error that
/// the tool did not say why it failed. A host may implement the trait for its own types.
///
/// ```
/// use tamtam::tool::{IntoToolResult, Json};
///
/// assert_eq!(Json([2, 3, 5]).into_tool_result().content, "[2,3,5]");
/// let failed: Result<(), _> = Err("no such table");
/// assert!(failed.into_tool_result().is_error());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    note = "return text, `tool::Json(value)`, a `ToolResult`, `()`, or a `Result` of one of them"
)]
pub trait IntoToolResult {
    /// The result of the call.
    fn into_tool_result(self) -> ToolResult;
}

/// A result that is given to the model as JSON, on one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> ToolResult {
        self
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }
}

impl IntoToolResult for &str {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self)
    }
}

impl IntoToolResult for () {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::default()
    }
}

impl IntoToolResult for Value {
    fn into_tool_result(self) -> ToolResult {
        ToolResult::ok(self.to_string())
    }
}

impl<T: Serialize> IntoToolResult for Json<T> {
    fn into_tool_result(self) -> ToolResult {
        match serde_json::to_string(&self.0) {
            Ok(text) => ToolResult::ok(text),
            Err(error) => ToolResult::error(format!("failed to write the result as JSON: {error}")),
        }
    }
}

impl<T: IntoToolResult, E: Display> IntoToolResult for Result<T, E> {
    fn into_tool_result(self) -> ToolResult {
        match self {
            Ok(value) => value.into_tool_result(),
            // The alternate form, because the errors of `anyhow` and of crates like it say their causes only there.
            Err(error) => ToolResult::error(format!("{error:#}")),
        }
    }
}
