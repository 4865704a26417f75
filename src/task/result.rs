//! [`TaskResult`]: the envelope (JSON form) that says what came of a task. Values only: `runtime/task/result.rs` waits for the
//! task's DOWN (the report of how it ended), and makes a result for each caller that asks, from the parent's entries about the task
//! and from the child's tape. So a result is about a task that is over.
//!
//! Other programs read its JSON form, and the result of a task that a model gave is on the parent's tape. So a change must not
//! rename or retype a field, and a new field needs a serde default. `docs/schema/task_result.json` has the schema, and a test
//! compares.

use serde::{Deserialize, Serialize};

use super::{ContextRef, TaskMetrics, TaskStatus, version};
use crate::{
    words::ids::SessionId,
    words::message::{FileChange, FilePart},
};

/// What came of a task that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskResult {
    /// The version of the envelope.
    #[serde(default = "version")]
    pub v: u32,
    /// As in the request.
    pub trace_id: String,
    /// As in the request.
    pub task_id: String,
    /// How it ended; never `pending` or `running`.
    pub status: TaskStatus,
    /// The answer.
    pub output: TaskOutput,
    /// The tools that the child called, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<TaskToolCalls>,
    /// Files that belong to the answer: the newest that the child's calls gave, at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FilePart>,
    /// The files that the child changed, from what each was before the child's first change to what it was after the last; at most 500,
    /// the first by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<FileChange>,
    /// What went wrong; empty for a task that is completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<TaskError>,
    /// Who made the answer.
    pub provenance: TaskProvenance,
    /// What the task used.
    pub metrics: TaskMetrics,
}

/// The answer of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct TaskOutput {
    /// The last text of the child; what it had by then if it was stopped.
    pub answer: String,
    /// What the answer rests on, as far as it says so: those of the [sources](TaskProvenance::sources) that the answer names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub citations: Vec<ContextRef>,
}

/// The calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskToolCalls {
    /// Which tool.
    pub tool: String,
    /// How often it was called.
    pub calls: u32,
    /// How many of those calls failed.
    #[serde(default)]
    pub failed: u32,
}

/// Something that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskError {
    /// One word for programs: `failed`, `aborted`, `timed_out`, `parked`, `ended`, `lost`.
    pub code: String,
    /// What happened, in words.
    pub message: String,
    /// Whether the same task may succeed if it is sent again.
    pub retryable: bool,
}

/// Who made an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskProvenance {
    /// The child: its tape has every step, and its id continues it.
    #[cfg_attr(feature = "tools", schemars(with = "String"))]
    pub session_id: SessionId,
    /// The name of its agent.
    pub agent: String,
    /// Its model, as `provider/model`.
    pub model: String,
    /// What the child read for the task: files with `read`, and pages with `web_fetch`, in the order in which they were first
    /// asked for, and each once; the newest 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<ContextRef>,
}

impl TaskToolCalls {
    pub(crate) fn new(tool: impl Into<String>) -> TaskToolCalls {
        TaskToolCalls { tool: tool.into(), calls: 0, failed: 0 }
    }
}

impl TaskError {
    pub(crate) fn new(code: &str, message: String, retryable: bool) -> TaskError {
        TaskError { code: code.to_owned(), message, retryable }
    }
}
