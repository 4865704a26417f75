//! The envelopes (JSON forms) of a task, which is work for a child session: what is asked of the child ([`TaskRequest`]), how far
//! the child is ([`TaskProgress`]), and the task's result ([`TaskResult`]). Values only: `runtime/task.rs` passes the request to a
//! child and makes the other two.
//!
//! Programs exchange the envelopes as JSON, and the result of a task that a model gave is on the parent's tape, in the details of
//! the call's result. A reader ignores fields that it does not know. A change must not rename or retype a field or a variant, and
//! must give each new field a serde default. `docs/schema/` has the JSON schema of each envelope, and a test compares. If the
//! meaning of a field changes, [`TASK_VERSION`] must rise.

mod progress;
mod request;
mod result;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use progress::{TaskEvent, TaskProgress};
pub use request::{ContextRef, ContextRefKind, TaskConstraints, TaskInput, TaskRequest};
pub use result::{TaskError, TaskOutput, TaskProvenance, TaskResult, TaskToolCalls};

use crate::words::usage::{MicroUsd, Usage};

/// The version of the envelopes.
pub const TASK_VERSION: u32 = 1;

fn version() -> u32 {
    TASK_VERSION
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskStatus {
    /// It waits for room, and has no child yet.
    #[default]
    Pending,
    /// Its child works.
    Running,
    /// Its child said all that it wanted to.
    Completed,
    /// It failed, is parked or is lost.
    Error,
    /// It was stopped or ended. The output is what the child had by then.
    Cancelled,
    /// Its deadline passed. The output is what the child had by then.
    TimedOut,
}

/// What a task used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(feature = "tools", feature = "schema"), derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct TaskMetrics {
    /// Tokens of the child and of its own children, estimates included.
    pub tokens: Usage,
    /// Cost of the child and of its own children, in millionths of a dollar; left out if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "tools", schemars(with = "Option<u64>"))]
    pub cost_micro_usd: Option<MicroUsd>,
    /// How long the task took from its acceptance on, in milliseconds.
    pub latency_ms: u64,
    /// Model requests of the child.
    pub steps: u32,
}
