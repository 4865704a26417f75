//! Tables of what providers really say.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::json;

use super::*;
use crate::model::{Api, RetryClass, Secret};

fn endpoint() -> Endpoint {
    Endpoint::new(Api::OpenAiChat, "p", "http://h", "m")
}

fn kind(status: u16, body: &str) -> ErrorKind {
    refused(Some(status), body).kind
}

fn refused(status: Option<u16>, body: &str) -> ModelError {
    endpoint().refusal(status, body, None)
}

/// V02, V03, K-06, C-19
#[test]
fn statuses_have_their_kinds_and_classes() {
    use ErrorKind::*;
    let table = [
        (400, InvalidRequest),
        (401, Auth),
        (402, Auth),
        (403, Auth),
        (404, NotFound),
        (408, Timeout),
        (409, Server),
        (413, RequestTooLarge),
        (418, InvalidRequest),
        (422, InvalidRequest),
        (429, RateLimited),
        (500, Server),
        (502, Server),
        (503, Overloaded),
        (504, Server),
        (529, Overloaded),
        (302, NotFound),
    ];
    for (status, expected) in table {
        assert_eq!(kind(status, ""), expected, "{status}");
        let retried = matches!(status, 408 | 409 | 429 | 500..);
        assert_eq!(expected.class() == RetryClass::Transient, retried, "{status}");
    }
}

/// Seen on the release binary: a 409 was tried again on one wire and not on the other, and a 408 was charged though the request
/// was never read. The body that each provider sends with a status changes neither.
#[test]
fn a_status_means_the_same_on_both_wires_and_a_refusal_was_not_read() {
    for (status, name) in [(408, "timeout_error"), (409, "conflict_error"), (409, "invalid_request_error"), (503, "x")]
    {
        let openai = json!({"error": {"message": "no", "type": name}}).to_string();
        let anthropic = json!({"type": "error", "error": {"type": name, "message": "no"}}).to_string();
        for body in ["", &openai, &anthropic] {
            let error = refused(Some(status), body);
            assert_eq!((error.class(), error.was_read()), (RetryClass::Transient, false), "{status} {body}");
        }
    }
    assert!(endpoint().error(ErrorKind::Timeout, "took too long").was_read(), "our own limit: it may have read it");
}

/// llama.cpp says the size of the request and its window in fields, not in words.
#[test]
fn a_window_that_is_said_in_fields_stands_in_the_message() {
    let error = json!({"code": 400, "message": "the request exceeds the available context size, try increasing it",
        "type": "exceed_context_size_error", "n_prompt_tokens": 5213, "n_ctx": 4096});
    let error = refused(Some(400), &json!({ "error": error }).to_string());
    assert_eq!(error.kind, ErrorKind::ContextOverflow);
    assert!(error.message.ends_with("(5213 tokens, the window is 4096 tokens)"), "{}", error.message);
}

/// Google's refusals: a key that is none is an invalid argument by its status, and a wait stands in the details.
#[test]
fn the_details_of_a_refusal_are_read() {
    let details = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let error = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": details}});
    assert_eq!(kind(400, &error.to_string()), ErrorKind::Auth);
    let details = json!([{"reason": "RATE_LIMIT"}, {"retryDelay": "37s"}]);
    let error = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": details}});
    let refused = refused(Some(429), &error.to_string());
    assert_eq!((refused.kind, refused.retry_after_ms), (ErrorKind::RateLimited, Some(37_000)));
}

/// V04
#[test]
fn overflow_is_known_by_code_and_by_the_words_of_each_provider() {
    let openai = json!({"error": {"message": "x", "type": "invalid_request_error", "code": "context_length_exceeded"}});
    assert_eq!(kind(400, &openai.to_string()), ErrorKind::ContextOverflow);
    let texts = [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "Your request exceeded model token limit: 131072",
        "the request exceeds the available context size, try increasing it",
        "Please reduce the length of the messages or completion.",
        "Range of input length should be [1, 30720]",
        "Prompt exceeds max length",
    ];
    for text in texts {
        let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": text}}).to_string();
        assert_eq!(kind(400, &body), ErrorKind::ContextOverflow, "{text}");
        assert_eq!(kind(429, &body), ErrorKind::RateLimited, "{text}");
    }
    assert_eq!(kind(429, &openai.to_string()), ErrorKind::RateLimited);
}

/// V04: the side that must not happen.
#[test]
fn other_limits_are_no_overflow() {
    let texts = [
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
        "Invalid 'messages[1].name': string too long. Expected a string with maximum length 64",
        "tools.0.name: string too long",
        "temperature must be at most 2",
    ];
    for text in texts {
        let body = json!({"error": {"type": "invalid_request_error", "message": text}}).to_string();
        assert_eq!(kind(400, &body), ErrorKind::InvalidRequest, "{text}");
    }
}

/// V10, and the checks of `loop.md` §3.1
#[test]
fn a_known_type_is_believed_before_the_status() {
    let typed = |name: &str| json!({"error": {"type": name, "message": "m"}}).to_string();
    assert_eq!(kind(503, &typed("invalid_request")), ErrorKind::InvalidRequest);
    assert_eq!(kind(400, &typed("timeout")), ErrorKind::Timeout);
    assert_eq!(kind(401, &typed("invalid_request_error")), ErrorKind::Auth);
    assert_eq!(kind(404, &typed("invalid_request_error")), ErrorKind::NotFound);
    assert_eq!(kind(429, &typed("insufficient_quota")), ErrorKind::Auth);
    let overloaded = refused(
        None,
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).to_string(),
    );
    assert_eq!(overloaded.kind, ErrorKind::Overloaded);
    assert_eq!(overloaded.message, "p failed in mid-stream (overloaded_error): Overloaded");
    let openrouter = refused(None, &json!({"error": {"code": 502, "message": "bad gateway"}}).to_string());
    assert_eq!((openrouter.kind, openrouter.status), (ErrorKind::Server, Some(502)));
    assert_eq!(refused(None, "connection terminated unexpectedly").kind, ErrorKind::Network);
    assert_eq!(refused(None, "HTTP 429 Too Many Requests").kind, ErrorKind::RateLimited);
}

/// The names of an error are the server's words too: they went into the message as they were, with line breaks and of any length.
#[test]
fn the_names_of_an_error_in_a_stream_are_one_bounded_line() {
    let code = format!("bad\n{}", "x".repeat(10_000));
    let error = refused(None, &json!({"error": {"code": code, "message": "m"}}).to_string());
    assert!(error.message.starts_with("p failed in mid-stream (bad x"), "{}", error.message);
    assert!(error.message.ends_with("…): m") && error.message.chars().count() < 600, "{}", error.message.len());
}

/// K-05: the last resort, where there is neither a name nor a status. And the side that must not happen.
#[test]
fn an_error_that_is_only_a_text_is_known_by_its_words() {
    let passing = [
        ("read tcp: connection reset by peer", ErrorKind::Network),
        ("dial tcp: connection refused", ErrorKind::Network),
        ("write ECONNRESET", ErrorKind::Network),
        ("unexpected EOF", ErrorKind::Network),
        ("i/o timeout", ErrorKind::Timeout),
        ("connect ETIMEDOUT", ErrorKind::Timeout),
        ("temporary failure in name resolution", ErrorKind::Overloaded),
        ("The engine is currently overloaded", ErrorKind::Overloaded),
        ("upstream said 503", ErrorKind::Overloaded),
        ("Resource has been exhausted", ErrorKind::RateLimited),
        ("too many requests", ErrorKind::RateLimited),
        ("Rate limit reached", ErrorKind::RateLimited),
        ("upstream said 429", ErrorKind::RateLimited),
        ("upstream said 502", ErrorKind::Server),
        ("upstream said 504", ErrorKind::Server),
    ];
    for (text, expected) in passing {
        let error = refused(None, text);
        assert_eq!((error.kind, error.class()), (expected, RetryClass::Transient), "{text}");
    }
    for text in [
        "Invalid API key provided",
        "stop_reason: content_policy violation",
        "prompt is too long for the context window",
    ] {
        assert_ne!(refused(None, text).class(), RetryClass::Transient, "{text}");
    }
}

/// K02
#[test]
fn a_body_that_repeats_the_key_is_redacted_and_put_on_one_short_line() {
    let key = Secret::new("own-CANARY-key");
    let body = format!("bad key own-CANARY-key\r\nand sk-CANARY-123456\n{}", "x ".repeat(1000));
    let error = endpoint().with_key(key).refusal(Some(401), &body, None);
    assert!(!error.message.contains("CANARY"), "{error}");
    assert!(error.message.starts_with("p answered 401: bad key [redacted: secret] and [redacted] x x"), "{error}");
    assert!(!error.message.contains('\n') && error.message.chars().count() < 540);
}

#[test]
fn every_shape_of_error_body_gives_its_message() {
    for body in [
        r#"{"error":{"message":"why"}}"#,
        r#"{"error":"why"}"#,
        r#"{"message":"why"}"#,
        r#"{"detail":"why"}"#,
        r#"[{"error":{"message":"why","code":400,"status":"INVALID_ARGUMENT"}}]"#,
        "why",
        " why\n",
    ] {
        assert_eq!(refused(Some(400), body).message, "p answered 400: why", "{body}");
    }
    assert_eq!(refused(Some(502), "").message, "p answered 502");
}

/// V01, K-01
#[test]
fn retry_after_is_read_in_each_of_its_forms() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let read = |ms, after| retry_after(ms, after, now);
    assert_eq!(read(Some("1500"), Some("9")), Some(Duration::from_millis(1500)));
    assert_eq!(read(None, Some("2")), Some(Duration::from_secs(2)));
    assert_eq!(read(None, Some(" 0.25 ")), Some(Duration::from_millis(250)));
    assert_eq!(read(None, Some("Sun, 06 Nov 1994 08:49:47 GMT")), Some(Duration::from_secs(10)));
    assert_eq!(read(None, Some("Sun, 06 Nov 1994 08:49:00 GMT")), Some(Duration::ZERO));
    assert_eq!(read(Some("no"), Some("3")), Some(Duration::from_secs(3)));
    for bad in ["-1", "NaN", "soon", ""] {
        assert_eq!(read(None, Some(bad)), None, "{bad}");
    }
    assert!(read(None, Some("99999999999999999999")).unwrap() > Duration::from_secs(1 << 60));
}

/// V01: the body's own hint, where no header says it.
#[test]
fn a_wait_in_the_text_is_read_for_refusals_that_pass() {
    let hint = |text: &str| refused(Some(429), text).retry_after_ms;
    assert_eq!(hint("Rate limit reached. Please try again in 350ms. Visit x."), Some(350));
    assert_eq!(hint("Please try again in 1m2.5s."), Some(62_500));
    assert_eq!(hint("try again in 20 seconds"), Some(20_000));
    assert_eq!(hint("try again later"), None);
    let google =
        r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"37s"}]}}"#;
    assert_eq!(hint(google), Some(37_000));
    assert_eq!(refused(Some(400), "try again in 5s").retry_after_ms, None);
}
