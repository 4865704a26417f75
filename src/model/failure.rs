//! Turns a provider's error response into a [`ModelError`].
//!
//! The order of evidence: a code or type that is unmistakable; then, where the status leaves it open, a text that says that the
//! context is too long; then the status; without a status, words in the text. The message is one line without anything that
//! `redact.rs` takes for a key; it repeats at most 500 characters of the server's text, and of the names of its error as many.
//!
//! A change must keep this: a status of 429 is never a context overflow, because a session would compact instead of wait; and every
//! word of the server goes through `quote`, because it may repeat the key.

use std::{
    fmt::Display,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::{Endpoint, ErrorKind, ModelError, Request, redact::redact};
use crate::words::message::FilePart;

/// The most characters of the server's words that an error repeats.
const DETAIL_CHARS_MAX: usize = 500;

impl Endpoint {
    /// An error of this provider. The message is the provider's name, and then `what`.
    pub(crate) fn error(&self, kind: ErrorKind, what: impl Display) -> ModelError {
        ModelError::new(kind, format!("{} {what}", self.provider))
    }

    /// Makes the server's words safe to repeat: one line of bounded length, without keys.
    pub(crate) fn quote(&self, text: &str) -> String {
        one_line(&redact(text, self.key.as_ref()))
    }

    /// The error for a refusal: a body with its status, or an error inside a stream that began well. `wait` is the wait that a
    /// header asks for.
    pub(crate) fn refusal(&self, status: Option<u16>, body: &str, wait: Option<Duration>) -> ModelError {
        let said = Said::read(body);
        let known_status = status.or(said.status);
        let kind = kind_of(known_status, &said);
        let what = match (status, &said.names[..]) {
            (Some(status), _) => format!("answered {status}"),
            (None, []) => "failed in mid-stream".to_owned(),
            (None, names) => format!("failed in mid-stream ({})", self.quote(&names.join(", "))),
        };
        let mut error = match self.quote(&said.message).as_str() {
            "" => self.error(kind, what),
            detail => self.error(kind, format!("{what}: {detail}")),
        };
        error.status = known_status;
        let passes = matches!(kind, ErrorKind::RateLimited | ErrorKind::Overloaded);
        let hint = || said.wait.or_else(|| wait_in_text(&said.message)).filter(|_| passes);
        error.with_retry_after(wait.or_else(hint))
    }
}

/// The facts in an error body, from any of the usual shapes.
#[derive(Debug, Default)]
struct Said {
    /// `code`, `type`, `status` and `error_type`, lower case, in that order: the code is the most precise.
    names: Vec<String>,
    message: String,
    /// A status inside the body.
    status: Option<u16>,
    /// Google's `retryDelay`.
    wait: Option<Duration>,
}

impl Said {
    fn read(body: &str) -> Said {
        let Ok(value) = serde_json::from_str::<Value>(body.trim()) else {
            return Said { message: body.to_owned(), ..Said::default() };
        };
        let outer = value.get(0).unwrap_or(&value);
        let error = outer.get("error").filter(|error| !error.is_null()).unwrap_or(outer);
        let mut said = Said::default();
        for value in ["code", "type", "status", "error_type"].map(|name| &error[name]) {
            let name = value.as_str().map(|text| text.trim().to_ascii_lowercase().replace('-', "_"));
            let status = name.clone().or_else(|| Some(value.as_u64()?.to_string()));
            said.status = said.status.or(status.and_then(|text| text.parse().ok()).filter(is_status));
            said.names.extend(name.filter(|name| name != "error"));
        }
        let texts = [&error["message"], &error["detail"], &outer["message"], error];
        said.message = texts.into_iter().find_map(Value::as_str).unwrap_or(body.trim()).to_owned();
        // llama.cpp says in fields what others say in words; the session learns the real window from the numbers in the message.
        if let (Some(asked), Some(window)) = (error["n_prompt_tokens"].as_u64(), error["n_ctx"].as_u64()) {
            said.message += &format!(" ({asked} tokens, the window is {window} tokens)");
        }
        let details = || error["details"].as_array().into_iter().flatten();
        // Google's refusal of a key is an invalid argument, and only its details say more.
        said.names.extend(details().filter_map(|detail| Some(detail["reason"].as_str()?.to_ascii_lowercase())));
        said.wait = details().find_map(|detail| duration(detail["retryDelay"].as_str()?));
        said
    }
}

fn is_status(status: &u16) -> bool {
    (400..600).contains(status)
}

fn kind_of(status: Option<u16>, said: &Said) -> ErrorKind {
    if let Some(kind) = said.names.iter().find_map(|name| kind_of_name(name)) {
        // A 429 is never a context overflow, under any name.
        if !(status == Some(429) && kind == ErrorKind::ContextOverflow) {
            return kind;
        }
    }
    if matches!(status, None | Some(400 | 413 | 422 | 500)) && is_overflow_text(&said.message) {
        return ErrorKind::ContextOverflow;
    }
    if status == Some(413) || matches!(status, None | Some(400 | 500)) && is_too_large_text(&said.message) {
        return ErrorKind::RequestTooLarge;
    }
    let refused_as_invalid = said.names.iter().any(|name| INVALID_NAMES.contains(&name.as_str()));
    match status {
        // A name that says "invalid" is believed before a status that says "later"; among 4xx the status is more precise.
        Some(500..=599) | None if refused_as_invalid => ErrorKind::InvalidRequest,
        Some(status) => kind_of_status(status),
        None => kind_of_text(&said.message),
    }
}

/// Names that many kinds of refusal share, so that they say little.
const INVALID_NAMES: &[&str] = &["invalid_request_error", "invalid_request", "invalid_argument", "bad_request"];

/// The codes and types that say for certain what went wrong.
const NAMES: &[(ErrorKind, &[&str])] = &[
    (ErrorKind::ContextOverflow, &["context_length_exceeded", "context_overflow", "token_limit_exceeded", "1261"]),
    (ErrorKind::ContextOverflow, &["max_tokens_exceeded", "exceed_context_size_error", "context_window_exceeded"]),
    (ErrorKind::ContextOverflow, &["model_context_window_exceeded"]),
    (ErrorKind::RequestTooLarge, &["request_too_large", "payload_too_large", "content_too_large"]),
    (ErrorKind::RateLimited, &["rate_limit_error", "rate_limit_exceeded", "rate_limited", "too_many_requests"]),
    (ErrorKind::RateLimited, &["resource_exhausted", "1302", "1303", "1305"]),
    (ErrorKind::Overloaded, &["overloaded_error", "overloaded", "engine_overloaded_error", "server_is_overloaded"]),
    (ErrorKind::Overloaded, &["unavailable", "service_unavailable"]),
    (ErrorKind::Server, &["api_error", "server_error", "internal_server_error", "internal_error", "internal"]),
    (ErrorKind::Timeout, &["timeout", "timeout_error", "request_timeout", "etimedout", "deadline_exceeded"]),
    (ErrorKind::Network, &["connection_error", "connection_reset", "connection_refused", "connection_terminated"]),
    (ErrorKind::Network, &["transport_reset", "network_error", "econnreset", "econnrefused", "fetch_failed"]),
    // A WebSocket that has lived for an hour.
    (ErrorKind::Network, &["websocket_connection_limit_reached"]),
    (ErrorKind::Auth, &["authentication_error", "invalid_authentication_error", "invalid_api_key", "api_key_invalid"]),
    (ErrorKind::Auth, &["unauthorized", "unauthenticated", "permission_error", "permission_denied", "forbidden"]),
    (ErrorKind::Auth, &["insufficient_quota", "insufficient_balance", "billing_error"]),
    (ErrorKind::Auth, &["exceeded_current_quota_error"]),
    (ErrorKind::NotFound, &["not_found_error", "model_not_found", "not_found"]),
    (
        ErrorKind::ContentPolicy,
        &["content_policy_violation", "content_policy", "content_filter", "invalid_prompt", "1301"],
    ),
    (ErrorKind::ContentPolicy, &["data_inspection_failed", "data_inspection_failed_error"]),
    (ErrorKind::InvalidRequest, &["string_above_max_length"]),
];

fn kind_of_name(name: &str) -> Option<ErrorKind> {
    NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(kind, _)| *kind)
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        // 402 is an empty account: like a bad key, only a person can help.
        401..=403 => ErrorKind::Auth,
        // A redirect is not followed: the key would go elsewhere.
        300..=399 | 404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
        // The provider could not get hold of something; both providers' own clients try again.
        409 => ErrorKind::Server,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        500..=599 => ErrorKind::Server,
        _ => ErrorKind::InvalidRequest,
    }
}

/// Whether a text says that the request does not fit the context.
fn is_overflow_text(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().all(|word| text.contains(word));
    has(&["prompt", "too long"])
        || has(&["context", "too long"])
        || has(&["input", "too long", "token"])
        || has(&["context", "exceed"])
        || has(&["maximum context length"])
        || has(&["exceed", "token limit"])
        || has(&["input token", "exceed"])
        || has(&["prompt", "token", "exceed"])
        || has(&["prompt", "exceeds max length"])
        || has(&["maximum prompt length"])
        || has(&["reduce the length of"])
        || has(&["range of input length"])
}

/// Whether a text says that the body of the request has too many bytes.
fn is_too_large_text(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["entity too large", "payload too large", "content too large", "body too large", "body is too large"]
        .iter()
        .any(|words| text.contains(words))
}

/// The failure, with a separate kind for the refusal of an image or a PDF file in the request. No server has a code for it, and a
/// text about images proves nothing without one in the request.
pub(crate) fn of_files(error: ModelError, request: &Request) -> ModelError {
    let text = error.message.to_ascii_lowercase();
    let speaks_of_files = ["image", "vision", "multimodal", "pdf", "media type"].iter().any(|word| text.contains(word))
        || (text.contains("content") && text.contains("string"));
    let may_be = matches!(error.kind, ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::Server);
    match may_be && speaks_of_files && request.history.iter().any(|item| item.files().any(FilePart::is_shown)) {
        true => ModelError { kind: ErrorKind::FileRefused, ..error },
        false => error,
    }
}

/// Words in the text of an error that has neither a known name nor a status. The first row that fits counts.
const WORDS: &[(ErrorKind, &[&str])] = &[
    (ErrorKind::RateLimited, &["429", "rate limit", "too many requests", "exhausted"]),
    (ErrorKind::Overloaded, &["overloaded", "503", "529", "temporar", "unavailable", "try again"]),
    (ErrorKind::Timeout, &["timeout", "timed out", "etimedout"]),
    (ErrorKind::Network, &["connect", "econnreset", "econnrefused", "fetch failed", "eof"]),
    (ErrorKind::Auth, &["api key", "unauthorized"]),
    (ErrorKind::ContentPolicy, &["content_policy", "content policy"]),
];

/// The last resort: the kind by words in the text. An unknown error in a stream that began well is an error of the server,
/// because the server had accepted the request.
fn kind_of_text(text: &str) -> ErrorKind {
    let text = text.to_ascii_lowercase();
    let fits = |row: &&(ErrorKind, &[&str])| row.1.iter().any(|word| text.contains(word));
    WORDS.iter().find(fits).map_or(ErrorKind::Server, |(kind, _)| *kind)
}

/// A text as one line of bounded length.
fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The wait that the headers ask for: `Retry-After-Ms`, then `Retry-After` in seconds or as a date.
///
/// The wait is reported as it is, however long: the session decides what is too long. A date in the past means no wait.
pub(crate) fn retry_after(ms: Option<&str>, after: Option<&str>, now: SystemTime) -> Option<Duration> {
    if let Some(ms) = ms.and_then(|text| text.trim().parse::<f64>().ok()).and_then(|ms| seconds(ms / 1000.0)) {
        return Some(ms);
    }
    let after = after?.trim();
    if let Ok(number) = after.parse::<f64>() {
        return seconds(number);
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(after).ok()?;
    Some(SystemTime::from(at).duration_since(now).unwrap_or(Duration::ZERO))
}

fn seconds(number: f64) -> Option<Duration> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

/// The wait in a text such as "Please try again in 1m2.5s" or "in 20 seconds".
fn wait_in_text(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let after = ["try again in ", "retry after ", "retry in "].iter().find_map(|words| lower.split_once(words))?.1;
    let mut words = after.split_whitespace().map(|word| word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()));
    let first = words.next()?;
    duration(first).or_else(|| duration(&format!("{first} {}", words.next()?)))
}

/// Durations as Go, Google and people write them: `350ms`, `1m2.5s`, `37s`, `20 seconds`.
fn duration(text: &str) -> Option<Duration> {
    text.trim().parse::<jiff::SignedDuration>().ok()?.try_into().ok()
}

#[cfg(all(test, feature = "http"))]
mod tests;
