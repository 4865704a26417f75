//! The errors of a model request, and whether a retry may help ([`RetryClass`]).
//!
//! A message goes to people, logs and tapes, so the code that makes an error must give it one line without secrets; the type does
//! not check this. [`ModelError`] and its kinds are stored on tapes, so a change may add a kind and must not rename one. The class
//! of a kind decides whether a session retries, compacts or ends the turn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::words::is_default;

/// A model request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
#[non_exhaustive]
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
    /// How many tokens of the answer had arrived before the failure, by our estimate; 0 where none had. The runtime sets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrived: u64,
    /// Whether the host has another key since ([`Models::renew_key`](super::Models::renew_key)), so that the request is made once
    /// more. The runtime sets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub key_renewed: bool,
}

impl ModelError {
    /// A failure of that kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> ModelError {
        ModelError { kind, message: message.into(), status: None, retry_after_ms: None, arrived: 0, key_renewed: false }
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

    /// How long the server asked to wait; `None` where it asked for no wait, also by a 0: many sessions would come back at once.
    pub(crate) fn server_wait(&self) -> Option<Duration> {
        self.retry_after_ms.filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Whether another try may help.
    #[must_use]
    pub fn class(&self) -> RetryClass {
        self.kind.class()
    }

    /// Whether the request counts as read by the provider, so that its input is estimated and charged, though the provider gave no
    /// count: part of the answer had arrived, the stream was cut off or broke the protocol, or nothing came in time. A request that
    /// was answered with a status of failure, such as 408, was not read.
    #[must_use]
    pub fn was_read(&self) -> bool {
        match self.kind {
            _ if self.arrived > 0 => true,
            ErrorKind::Truncated | ErrorKind::Silent | ErrorKind::AnswerTooLarge => true,
            ErrorKind::Timeout | ErrorKind::Protocol => self.status.is_none(),
            _ => false,
        }
    }
}

/// The kind of a failed model request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(any(feature = "agent-files", feature = "schema"), derive(schemars::JsonSchema))]
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
    /// The request has more bytes than the provider, or a gateway before it, takes (413). The session leaves out files, then makes
    /// the conversation smaller, and never retries the request as it is.
    RequestTooLarge,
    /// The provider refuses an image or a PDF file: it is damaged, too large or one too many, or the model takes none. The session
    /// makes the request once more without files.
    FileRefused,
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
    /// Nothing of the answer came within the longer limit of a server that is known to read its prompts slowly. Another try would
    /// make it start over.
    Silent,
    /// The stream ended before the provider said that it was complete, also where its connection broke.
    Truncated,
    /// The provider's answer does not follow the protocol.
    Protocol,
    /// The answer is larger than its bound, or has too many calls. Another one would be as large.
    AnswerTooLarge,
    /// The model client itself crashed. A session tries once more, because the same request mostly crashes it again.
    Crashed,
}

/// Whether another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryClass {
    /// Yes, after a wait.
    Transient,
    /// Only with a shorter context.
    ContextOverflow,
    /// No.
    Permanent,
}

impl ErrorKind {
    /// Its name in files and on tapes, such as `rate_limited`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Auth => "auth",
            ErrorKind::NotFound => "not_found",
            ErrorKind::InvalidRequest => "invalid_request",
            ErrorKind::ContextOverflow => "context_overflow",
            ErrorKind::RequestTooLarge => "request_too_large",
            ErrorKind::FileRefused => "file_refused",
            ErrorKind::ContentPolicy => "content_policy",
            ErrorKind::RateLimited => "rate_limited",
            ErrorKind::Overloaded => "overloaded",
            ErrorKind::Server => "server",
            ErrorKind::Network => "network",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Truncated => "truncated",
            ErrorKind::Protocol => "protocol",
            ErrorKind::RetryAfterTooLong => "retry_after_too_long",
            ErrorKind::Silent => "silent",
            ErrorKind::AnswerTooLarge => "answer_too_large",
            ErrorKind::Crashed => "crashed",
        }
    }

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
            ErrorKind::ContextOverflow | ErrorKind::RequestTooLarge => RetryClass::ContextOverflow,
            ErrorKind::Auth
            | ErrorKind::NotFound
            | ErrorKind::InvalidRequest
            | ErrorKind::ContentPolicy
            | ErrorKind::FileRefused
            | ErrorKind::RetryAfterTooLong
            | ErrorKind::Silent
            | ErrorKind::AnswerTooLarge => RetryClass::Permanent,
        }
    }
}
