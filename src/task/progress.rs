//! [`TaskProgress`]: the envelope (JSON form) that says how far a task is while it waits or runs. `runtime/task/progress.rs`
//! makes a new one for each look, from the states of parent and child. It is shown and not recorded, and does not say how a task
//! ended.
//!
//! Other programs read its JSON form, so a change must not rename or retype a field, and a new field needs a serde default.
//! `docs/schema/task_progress.json` has the schema, and a test compares.

use serde::{Deserialize, Serialize};

use super::{TaskMetrics, TaskStatus, version};
use crate::words::ids::SessionId;

/// How far a task is: shown while it runs, and never recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskProgress {
    /// The version of the envelope.
    #[serde(default = "version")]
    pub v: u32,
    /// As in the request.
    pub trace_id: String,
    /// As in the request.
    pub task_id: String,
    /// The child.
    #[cfg_attr(feature = "tools", schemars(with = "String"))]
    pub session_id: SessionId,
    /// Its state.
    pub status: TaskStatus,
    /// The newest calls of the child that ended while a caller waited for the task, oldest first; at most 16. Empty in a single
    /// look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TaskEvent>,
    /// What it used so far. Time and steps are those of the turn that runs.
    pub metrics: TaskMetrics,
    /// The newest text of the child, also of an answer that is still being made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub partial_output: String,
    /// The tool that runs now, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_tool: Option<String>,
    /// How long ago the child last did something, in milliseconds.
    #[serde(default)]
    pub idle_ms: u64,
    /// Whether that is so long ago that a person should look.
    #[serde(default)]
    pub stalled: bool,
}

/// A call of the child that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskEvent {
    /// Which tool.
    pub tool: String,
    /// What the call did, in a few words, if the tool says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether the call failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub failed: bool,
}

impl TaskEvent {
    pub(crate) fn new(tool: impl Into<String>, title: Option<String>, failed: bool) -> TaskEvent {
        TaskEvent { tool: tool.into(), title, failed }
    }
}
