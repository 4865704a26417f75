//! A provider's error response, as one of our errors.
//!
//! The order (`loop.md` §3.1): a code or type that is unmistakable, then the status, then patterns in the text. A status of
//! 429 is never a context overflow. The message is one line of at most 500 characters of what the server said, without keys.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{ErrorKind, ModelError, Secret, redact::redact};

/// Characters of the server's own words that an error repeats.
const DETAIL_CHARS_MAX: usize = 500;

/// What came instead of an answer.
pub(crate) struct Refusal<'a> {
    /// Who said it.
    pub(crate) provider: &'a str,
    /// With which status; `None` for an error inside a stream that began well.
    pub(crate) status: Option<u16>,
    /// The body, or the error event.
    pub(crate) body: &'a str,
    /// The wait that a header asks for.
    pub(crate) retry_after: Option<Duration>,
    /// What must not be repeated.
    pub(crate) keys: &'a [&'a Secret],
}

/// The error that a refusal is.
pub(crate) fn classify(refusal: &Refusal<'_>) -> ModelError {
    let said = Said::read(refusal.body);
    let status = refusal.status.or(said.status);
    let kind = kind_of(status, &said);
    let detail = one_line(&redact(&said.message, refusal.keys));
    let what = match (refusal.status, &said.names[..]) {
        (Some(status), _) => format!("answered {status}"),
        (None, []) => "failed in mid-stream".to_owned(),
        (None, names) => format!("failed in mid-stream ({})", redact(&names.join(", "), refusal.keys)),
    };
    let message = match detail.as_str() {
        "" => format!("{} {what}", refusal.provider),
        detail => format!("{} {what}: {detail}", refusal.provider),
    };
    let wait = refusal.retry_after.or_else(|| {
        let waits = matches!(kind, ErrorKind::RateLimited | ErrorKind::Overloaded);
        waits.then(|| said.wait.or_else(|| wait_in_text(&said.message))).flatten()
    });
    let mut error = ModelError::new(kind, message).with_retry_after(wait);
    error.status = status;
    error
}

/// What the body says, whichever of the usual shapes it has.
#[derive(Debug, Default)]
struct Said {
    /// `code`, `type` and `status`, lower case, in that order: the code is the more precise.
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
        for name in ["code", "type", "status", "error_type"] {
            match error.get(name) {
                Some(Value::String(text)) if text.bytes().all(|b| b.is_ascii_digit()) => {
                    said.status = said.status.or(text.parse().ok().filter(is_status));
                    said.names.push(text.clone());
                }
                Some(Value::String(text)) if text != "error" => {
                    said.names.push(text.trim().to_ascii_lowercase().replace('-', "_"));
                }
                Some(Value::Number(number)) => {
                    let status = number.as_u64().and_then(|n| u16::try_from(n).ok()).filter(is_status);
                    said.status = said.status.or(status);
                }
                _ => {}
            }
        }
        let texts = [error.get("message"), error.get("detail"), outer.get("message"), Some(error)];
        let text = texts.into_iter().flatten().find_map(Value::as_str);
        said.message = text.map_or_else(|| body.trim().to_owned(), str::to_owned);
        let delays = error.get("details").and_then(Value::as_array).into_iter().flatten();
        said.wait = delays.filter_map(|detail| parse_duration(detail.get("retryDelay")?.as_str()?)).next();
        said
    }
}

fn is_status(status: &u16) -> bool {
    (400..600).contains(status)
}

fn kind_of(status: Option<u16>, said: &Said) -> ErrorKind {
    if let Some(kind) = said.names.iter().find_map(|name| kind_of_name(name)) {
        // Too many requests is never too long a context, whatever it is called.
        if !(status == Some(429) && kind == ErrorKind::ContextOverflow) {
            return kind;
        }
    }
    if matches!(status, None | Some(400 | 413 | 422 | 500)) && is_overflow_text(&said.message) {
        return ErrorKind::ContextOverflow;
    }
    let refused_as_invalid = said.names.iter().any(|name| INVALID_NAMES.contains(&name.as_str()));
    match status {
        // A name that says "invalid" is believed before a status that says "later"; among 4xx the status is more precise.
        Some(500..=599) | None if refused_as_invalid => ErrorKind::InvalidRequest,
        Some(status) => kind_of_status(status),
        None => kind_of_text(&said.message),
    }
}

/// Names that many kinds of refusal share.
const INVALID_NAMES: &[&str] = &["invalid_request_error", "invalid_request", "invalid_argument", "bad_request"];

/// The codes and types that say for certain what went wrong.
fn kind_of_name(name: &str) -> Option<ErrorKind> {
    Some(match name {
        "context_length_exceeded"
        | "context_overflow"
        | "token_limit_exceeded"
        | "max_tokens_exceeded"
        | "exceed_context_size_error"
        | "context_window_exceeded"
        | "model_context_window_exceeded"
        | "1261" => ErrorKind::ContextOverflow,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted"
        | "1302"
        | "1303"
        | "1305" => ErrorKind::RateLimited,
        "overloaded_error" | "overloaded" | "engine_overloaded_error" | "unavailable" | "service_unavailable" => {
            ErrorKind::Overloaded
        }
        "api_error" | "server_error" | "internal_server_error" | "internal_error" | "internal" => ErrorKind::Server,
        "timeout" | "timeout_error" | "request_timeout" | "etimedout" | "deadline_exceeded" => ErrorKind::Timeout,
        "connection_error"
        | "connection_reset"
        | "connection_refused"
        | "connection_terminated"
        | "transport_reset"
        | "network_error"
        | "econnreset"
        | "econnrefused"
        | "fetch_failed" => ErrorKind::Network,
        "authentication_error"
        | "invalid_api_key"
        | "unauthorized"
        | "unauthenticated"
        | "permission_error"
        | "permission_denied"
        | "forbidden"
        | "insufficient_quota"
        | "billing_error"
        | "insufficient_balance"
        | "exceeded_current_quota_error"
        | "invalid_authentication_error" => ErrorKind::Auth,
        "not_found_error" | "model_not_found" | "not_found" => ErrorKind::NotFound,
        "content_policy_violation"
        | "content_policy"
        | "content_filter"
        | "data_inspection_failed"
        | "data_inspection_failed_error"
        | "1301" => ErrorKind::ContentPolicy,
        "string_above_max_length" => ErrorKind::InvalidRequest,
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        // 402 is an empty account: like a bad key, only a person can help.
        401..=403 => ErrorKind::Auth,
        // A redirect is not followed: the key would go elsewhere.
        300..=399 | 404 => ErrorKind::NotFound,
        408 => ErrorKind::Timeout,
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

/// The last resort (K-05): an error that has neither a known name nor a status.
fn kind_of_text(text: &str) -> ErrorKind {
    let text = text.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["429", "rate limit", "too many requests", "exhausted"]) {
        ErrorKind::RateLimited
    } else if has(&["overloaded", "503", "529", "temporar", "unavailable", "try again"]) {
        ErrorKind::Overloaded
    } else if has(&["timeout", "timed out", "etimedout"]) {
        ErrorKind::Timeout
    } else if has(&["connect", "econnreset", "econnrefused", "fetch failed", "eof"]) {
        ErrorKind::Network
    } else if has(&["api key", "unauthorized"]) {
        ErrorKind::Auth
    } else if has(&["content_policy", "content policy"]) {
        ErrorKind::ContentPolicy
    } else if has(&["500", "502", "504", "internal", "server error"]) {
        ErrorKind::Server
    } else {
        // An error in a stream that began well: the request was accepted, so what failed is on the other side.
        ErrorKind::Server
    }
}

/// A text as one line of bounded length.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The wait that the headers ask for (K-01): `Retry-After-Ms`, then `Retry-After` in seconds or as a date.
///
/// It is reported as it is, however long: the session decides what is too long. A date in the past is no wait at all.
pub(crate) fn retry_after(ms: Option<&str>, after: Option<&str>, now: SystemTime) -> Option<Duration> {
    if let Some(ms) = ms.and_then(|text| text.trim().parse::<f64>().ok()).and_then(|ms| seconds(ms / 1000.0)) {
        return Some(ms);
    }
    let after = after?.trim();
    if let Ok(number) = after.parse::<f64>() {
        return seconds(number);
    }
    let at = httpdate::parse_http_date(after).ok()?;
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

fn seconds(number: f64) -> Option<Duration> {
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX))
}

/// The wait in a text such as "Please try again in 1m2.5s".
fn wait_in_text(text: &str) -> Option<Duration> {
    let lower = text.to_ascii_lowercase();
    let after = ["try again in ", "retry after ", "retry in "].iter().find_map(|words| lower.split_once(words))?.1;
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == ' ')).unwrap_or(after.len());
    let mut words = after[..end].split(' ').filter(|word| !word.is_empty());
    let first = words.next()?.trim_end_matches('.');
    if first.parse::<f64>().is_ok() {
        // "20 seconds"
        return parse_duration(&format!("{first}{}", words.next()?.chars().next()?));
    }
    parse_duration(first)
}

/// Durations as Go and Google write them: `350ms`, `1m2.5s`, `37s`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = 0.0;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..number_len].parse().ok()?;
        rest = &rest[number_len..];
        let unit_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        sum += number
            * match &rest[..unit_len] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = &rest[unit_len..];
    }
    if text.trim().is_empty() { None } else { seconds(sum) }
}

#[cfg(test)]
mod tests;
