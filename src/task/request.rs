//! [`TaskRequest`]: the envelope (JSON form) that asks a child session for work. Values only: `runtime/task/order.rs` makes the
//! child's settings and first message of it. It is not on a tape itself.
//!
//! Hosts and other programs write this JSON, so a change must not rename or retype a field or a variant, and a new field needs a
//! serde default: the least request has `agent`, `intent` and `input.query`. `docs/schema/task_request.json` has the schema, and a
//! test compares.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::version;
use crate::{
    permission::Rule, words::ids::SessionId, words::is_default, words::message::FilePart, words::usage::MicroUsd,
};

/// A task, as sent. [`Session::delegate`](crate::Session::delegate) fills in what the sender leaves empty: the ids, the sender
/// and the recipient.
///
/// ```
/// use tamtam::session::TaskRequest;
///
/// let mut request = TaskRequest::new("explore", "Find the parser", "Which file parses the rules?");
/// request.deadline_ms = Some(60_000);
/// let written = serde_json::to_string(&request)?;
/// assert_eq!(serde_json::from_str::<TaskRequest>(&written)?, request);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskRequest {
    /// The version of the envelope.
    #[serde(default = "version")]
    pub v: u32,
    /// What all tasks of one request of a user have in common: the id of its message. Filled in if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
    /// The id of this task: that of the message which is the task. Always filled in by the runtime.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// The task that the sender works on itself; `None` for the topmost session. Always filled in by the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// The session that asks. Always filled in by the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "tools", schemars(with = "Option<String>"))]
    pub sender: Option<SessionId>,
    /// The session that does the task. Always filled in by the runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "tools", schemars(with = "Option<String>"))]
    pub recipient: Option<SessionId>,
    /// The agent that does the task.
    pub agent: String,
    /// What the task is for, in a few words.
    pub intent: String,
    /// What is asked.
    pub input: TaskInput,
    /// What the child should know, by reference: resolved when the child is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_refs: Vec<ContextRef>,
    /// Files that go with the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<FilePart>,
    /// The tools that the child may use at most, by names and patterns; all that agent and parent allow if this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<BTreeSet<String>>,
    /// Further rules for the child. They come before its agent's, so they can only narrow what the child may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth_scope: Vec<Rule>,
    /// Two requests of one sender with the same key are one task. A second one that asks for something else is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How long the task may take, in milliseconds from its acceptance on, the time that it waits for room included. The deadline
    /// of the sender's own task bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The session of a finished task, to continue; a new child if this is left out. It keeps its agent, tools and rules: a request
    /// that names another agent, or `capabilities` or `auth_scope`, is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "tools", schemars(with = "Option<String>"))]
    pub resume_token: Option<SessionId>,
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TaskInput {
    /// The question, or the work.
    pub query: String,
    /// What the child may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub constraints: TaskConstraints,
}

/// What a child may use of its parent's budget. What is left out is a share of what the parent has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[serde(default)]
#[non_exhaustive]
pub struct TaskConstraints {
    /// The time that its turns may run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_budget_ms: Option<u64>,
    /// Tokens of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in millionths of a dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "tools", schemars(with = "Option<u64>"))]
    pub cost_micro_usd: Option<MicroUsd>,
}

/// Something that the child should know, by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextRef {
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: ContextRefKind,
    /// Its name: the path of a file, the name of a symbol, the title of a document.
    pub id: String,
}

/// What a [`ContextRef`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "tools", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextRefKind {
    /// A file in the workspace. The child's first message has its beginning.
    File,
    /// A symbol of the code. The child gets its name.
    Symbol,
    /// A document. The child gets its name, and what the host has under it.
    Doc,
    /// Something remembered. The child gets its name, and what the host has under it.
    Memory,
}

impl TaskRequest {
    /// A task for an agent: what it is for in a few words, and what is asked.
    #[must_use]
    pub fn new(agent: impl Into<String>, intent: impl Into<String>, query: impl Into<String>) -> TaskRequest {
        TaskRequest {
            v: version(),
            trace_id: String::new(),
            task_id: String::new(),
            parent_task_id: None,
            sender: None,
            recipient: None,
            agent: agent.into(),
            intent: intent.into(),
            input: TaskInput { query: query.into(), ..TaskInput::default() },
            context_refs: Vec::new(),
            attachments: Vec::new(),
            capabilities: None,
            auth_scope: Vec::new(),
            idempotency_key: None,
            deadline_ms: None,
            resume_token: None,
        }
    }
}

impl ContextRef {
    /// A reference.
    #[must_use]
    pub fn new(kind: ContextRefKind, id: impl Into<String>) -> ContextRef {
        ContextRef { kind, id: id.into() }
    }
}
