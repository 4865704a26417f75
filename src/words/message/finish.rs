//! How an answer of the model ended, and what that means for its turn.
//!
//! The type only names the end. `kernel/turn/advance.rs` (`after_answer`) and `kernel/turn/batch.rs` decide by the table below: change them
//! and the table together. The names of the variants are a stored format. A new or unknown end of a provider must become
//! [`Finish::Unknown`], which never ends a turn as done.

use serde::{Deserialize, Serialize};

/// How an answer of the model ended, and what that does to its turn.
///
/// | finish | calls in the answer | the turn |
/// |---|---|---|
/// | stop | none | ends: done |
/// | stop, tool-calls | some | they run, then the next step |
/// | tool-calls | none | ends as an error: the model announced calls and sent none |
/// | length | some | they are answered as failed and never run, then the next step |
/// | length | none | ends: cut short |
/// | content-filter | any | no call runs; the turn ends: refused |
/// | unknown | some | they run, then the next step |
/// | unknown | none | ends as an error, never silently |
/// | steered | none | takes the next step, with the message that steered |
/// | steered | some | they run, then the next step |
///
/// "Run" means that the calls are judged, and run if the rules and hooks let them. An abort or a budget may end the turn at any
/// point.
///
/// There are three exceptions. An answer that a steering message cut off is followed by another step, with any finish. If the table
/// ends the turn, but a steering message waits and steps are left, the turn makes another step. On the last step that the turn may
/// make, no call runs, and the turn ends with the step limit where it would have continued, and where its model answers `stop`
/// right after results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Finish {
    /// The model finished its answer.
    Stop,
    /// The model wants tools to run.
    ToolCalls,
    /// The limit of output tokens was reached; the last call may be incomplete.
    Length,
    /// The provider withheld the answer.
    ContentFilter,
    /// The provider gave a reason that we do not know, or none.
    Unknown,
    /// The model stopped at a border of its output, to read a message that steers.
    Steered,
}
