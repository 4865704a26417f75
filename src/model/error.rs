//! The errors of a model request, and whether a retry may help ([`RetryClass`]).
//!
//! A message goes to people, logs and tapes, so the code that makes an error must give it one line without secrets; the type does
//! not check this. [`ModelError`] and its kinds are stored on tapes, so a change may add a kind and must not rename one. The class
//! of a kind decides whether a session retries, compacts or ends the turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A model request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// What happened, in one line without secrets.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the server asked us to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl ModelError {
    /// A failure of that kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { kind, message: message.into(), status: None, retry_after_ms: None }
    }

    /// The same failure with the HTTP status that carried it.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> ModelError {
        self.status = Some(status);
        self
    }

    /// The same failure with the wait that the server asked for.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> ModelError {
        self.retry_after_ms = wait.map(|w| u64::try_from(w.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Whether another try may help.
    #[must_use]
    pub fn class(&self) -> RetryClass {
        self.kind.class()
    }

    /// Whether the request counts as read by the provider, so that its input is estimated and charged, though the provider gave no
    /// count: a stream that was cut off, and a timeout without a status. A request that was answered with a status of failure, such
    /// as 408, was not read.
    #[must_use]
    pub fn was_read(&self) -> bool {
        match self.kind {
            ErrorKind::Truncated => true,
            ErrorKind::Timeout => self.status.is_none(),
            _ => false,
        }
    }
}

/// The kind of a failed model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The key is missing or refused, or the account is empty (401, 402, 403).
    Auth,
    /// No such model or address (404), or no such provider is known here.
    NotFound,
    /// The provider refuses the request as it is (400, 422).
    InvalidRequest,
    /// The request does not fit the model's context. The session compacts and never retries it as it is.
    ContextOverflow,
    /// The provider refuses the content.
    ContentPolicy,
    /// Too many requests (429). The session waits and retries; never a reason to compact.
    RateLimited,
    /// The server asks for a longer wait than is allowed. For models of a host: the clients here report the kind of the refusal
    /// with the wait, and the session decides whether the wait is too long (more than 60 s).
    RetryAfterTooLong,
    /// The provider has no room (503, 529).
    Overloaded,
    /// The provider failed (500, 502, 504 and others).
    Server,
    /// The connection could not be made, or broke before there was an answer.
    Network,
    /// Nothing came within the limit.
    Timeout,
    /// The stream ended before the provider said that it was complete, also where its connection broke.
    Truncated,
    /// The provider's answer does not follow the protocol.
    Protocol,
    /// The model client itself crashed.
    Crashed,
}

/// Whether another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryClass {
    /// Yes, after a wait.
    Transient,
    /// Only with a shorter context.
    ContextOverflow,
    /// No.
    Permanent,
}

impl ErrorKind {
    /// Whether another try may help.
    #[must_use]
    pub fn class(self) -> RetryClass {
        match self {
            ErrorKind::RateLimited
            | ErrorKind::Overloaded
            | ErrorKind::Server
            | ErrorKind::Network
            | ErrorKind::Timeout
            | ErrorKind::Truncated
            | ErrorKind::Protocol
            | ErrorKind::Crashed => RetryClass::Transient,
            ErrorKind::ContextOverflow => RetryClass::ContextOverflow,
            ErrorKind::Auth
            | ErrorKind::NotFound
            | ErrorKind::InvalidRequest
            | ErrorKind::ContentPolicy
            | ErrorKind::RetryAfterTooLong => RetryClass::Permanent,
        }
    }
}
