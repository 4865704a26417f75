//! The tool part: one call and its whole life, pending, running, then completed or error, as messages and events show it; and the
//! reasons why a call has no good result ([`ErrorReason`]), which results on tapes have too.
//!
//! The arguments stay the text that the model wrote, in every state. The JSON form is a promise, its field names and the names of
//! the variants included. A change must not let a decision of the core depend on a tool part, because the core relies on its own
//! tickets.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Extra, FilePart, Span};
use crate::words::ids::CallId;

/// One tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ToolPart {
    /// The id that the model gave to the call.
    #[serde(rename = "callID")]
    pub call: CallId,
    /// The name of the tool.
    pub tool: String,
    /// How far the call is, with its arguments and its result.
    pub state: ToolState,
    /// The data that the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Extra>,
}

/// The life of a call. The input is the text that was received, unchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        /// What the call does, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Progress of the call, in a form that the tool chooses.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        metadata: Value,
        /// When the call began.
        time: Span,
    },
    /// Carried out.
    Completed {
        /// The arguments as the model wrote them.
        input: String,
        /// The result as the model sees it.
        output: String,
        /// What the call did, in a few words for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// Details for hosts and operators besides the output.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        metadata: Value,
        /// When the call began and ended.
        time: Span,
        /// Files that belong to the output, such as an image that was read.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<FilePart>,
    },
    /// Not carried out, or carried out without a good result.
    Error {
        /// The arguments as the model wrote them.
        input: String,
        /// The result as the model sees it.
        error: String,
        /// The reason of the failure.
        reason: ErrorReason,
        /// When the call began and ended.
        time: Span,
    },
}

/// Why a call has no good result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ErrorReason {
    /// The tool ran and reported a failure, or it crashed, or the call could not be carried out.
    Failed,
    /// A gate hook refused it.
    Blocked,
    /// Permission or a budget refused it: a rule, a person, no listener, or no answer in time.
    Denied,
    /// A steering message came before it was started; in a fork: the fork was made before it was started.
    Skipped,
    /// It was stopped, for example by an abort or by a steering message that aborts running calls.
    Aborted,
    /// It ran longer than it may.
    Timeout,
    /// The outcome is not known: the runtime stopped while the call ran, its result could not be recorded, or, in a fork, the fork
    /// was made while the call ran.
    Unknown,
}
