//! The tool part: one call and its whole life, pending → running → completed or error.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, FilePart, Span};
use crate::words::ids::CallId;

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
