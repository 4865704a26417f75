//! [`ExitReason`]: how a child or a supervisor ended, and whether that end was abnormal; with what is known of a panic
//! ([`PanicReport`]) and the end of a whole supervisor ([`ChildDown`]).
//!
//! Every reason but [`ExitReason::Normal`] and [`ExitReason::Shutdown`] is abnormal, also a kill. A change to
//! [`ExitReason::is_abnormal`] changes which transient children are restarted, and which ends are reported as crashes. Reasons are
//! JSON that hosts read, so the names of the variants and fields are a promise.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{supervisor::panics::last_location, words::panic_text};

/// How a child or a supervisor ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitReason {
    /// It was done.
    Normal,
    /// It was asked to stop and did, or it ended on its own with this reason.
    Shutdown(String),
    /// It was killed: it did not stop in time, its stop had no wait, or its supervisor was killed.
    Killed,
    /// Its code panicked.
    Panic(PanicReport),
    /// It ended with an error; the text carries the chain of causes.
    Error(String),
    /// It could not start; the text carries the chain of causes.
    StartFailed(String),
    /// Its start took longer than its start timeout.
    StartTimeout,
    /// Its task was dropped from outside, as when the tokio runtime ends.
    Cancelled,
}

impl ExitReason {
    /// Whether a transient child that ended like this is started again.
    #[must_use]
    pub fn is_abnormal(&self) -> bool {
        !matches!(self, ExitReason::Normal | ExitReason::Shutdown(_))
    }

    /// The text for a chain of causes, without the "failed to start" of this reason.
    pub(crate) fn cause(&self) -> String {
        match self {
            ExitReason::StartFailed(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitReason::Normal => f.write_str("normal"),
            ExitReason::Shutdown(text) => write!(f, "shutdown: {text}"),
            ExitReason::Killed => f.write_str("killed"),
            ExitReason::Panic(report) => write!(f, "panic: {}", report.text),
            ExitReason::Error(text) => write!(f, "error: {text}"),
            ExitReason::StartFailed(text) => write!(f, "failed to start: {text}"),
            ExitReason::StartTimeout => f.write_str("start timed out"),
            ExitReason::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// What is known about a panic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PanicReport {
    /// The text of the panic.
    pub text: String,
    /// File, line and column. Known only if the host has opted in, see [`PanicReport::place`].
    pub location: Option<String>,
    /// The kind of message that was being handled.
    pub message: Option<String>,
    /// How long that message had been handled, in milliseconds.
    pub in_hand_ms: u64,
}

impl PanicReport {
    /// The place of the panic, or `unknown`. It is known only after [`locate_panics`](crate::supervisor::locate_panics).
    #[must_use]
    pub fn place(&self) -> &str {
        self.location.as_deref().unwrap_or("unknown")
    }

    /// The report of a panic that this thread has just caught. Call it on that thread, or the place is lost.
    pub(crate) fn caught(payload: &(dyn std::any::Any + Send)) -> PanicReport {
        PanicReport { text: panic_text(payload), location: last_location(), ..PanicReport::default() }
    }
}

/// An error with its causes, outermost first: `a: b: c`.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// How a supervisor ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChildDown {
    /// Why.
    pub reason: ExitReason,
    /// The children that were still there although they were killed, by their path below the supervisor: `sessions/4711`.
    pub leftover: Vec<String>,
}
