//! What a client is told where a request is refused: `application/problem+json` (RFC 9457) with the typed error inside.
//!
//! There is one function from an error's [`Kind`] to a status, and no route makes a status of its own. `detail` is the sentence of
//! the library's error, and `next` says what the client can do. A change must keep the names of the kinds: clients decide by them.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;
use tamtam::{
    OpenError, SendError,
    runtime::{CommandError, DeleteError, Kind, OperateError},
    session::{BadLabel, BadModelRef, BadSessionId, BranchError, SpawnError},
    tape::{BadCursor, TapeError},
};

/// A refused request, as a client is told of it: the answer of every route that refuses. A host's own routes
/// ([`Server::routes`](crate::Server::routes)) make it of the library's errors with `?`.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    is_retryable: bool,
    detail: String,
    next: &'static str,
    challenge: bool,
}

/// Lies in the extensions of a response that refuses: the name of its kind.
#[derive(Clone, Copy)]
pub(crate) struct Refused(pub(crate) &'static str);

/// What becomes of a request.
pub(crate) type Answered<T> = Result<T, Problem>;

/// The status of a kind, its name, and what a client can do about it.
fn of_kind(kind: Kind) -> (StatusCode, &'static str, &'static str) {
    match kind {
        Kind::NotFound => (StatusCode::NOT_FOUND, "not_found", "name something that exists"),
        Kind::Exists => (StatusCode::CONFLICT, "exists", "choose another name"),
        Kind::Busy => (StatusCode::CONFLICT, "busy", "wait for the running work, or abort it"),
        Kind::Retry => (StatusCode::SERVICE_UNAVAILABLE, "retry", "send the same request again in a moment"),
        Kind::Limit => (StatusCode::TOO_MANY_REQUESTS, "limit", "make room, or raise the limit"),
        Kind::Stale => (StatusCode::CONFLICT, "stale", "read the session again, then decide"),
        Kind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "invalid", "change the request"),
        Kind::Parked => (StatusCode::CONFLICT, "parked", "unpark it: POST /v1/actors/{id}/unpark"),
        Kind::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed", "it takes no more work"),
        Kind::Storage => (StatusCode::INSUFFICIENT_STORAGE, "storage", "an operator has to look at the disk"),
        Kind::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, "damaged", "fork it from before the damage"),
        Kind::Unsettled => {
            (StatusCode::SERVICE_UNAVAILABLE, "unsettled", "send the same request again, with the same id")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, "failed", "an operator can look: GET /v1/actors/{id}"),
    }
}

impl Problem {
    /// An error of the library.
    pub(crate) fn of(kind: Kind, error: &dyn std::fmt::Display) -> Problem {
        let (status, name, next) = of_kind(kind);
        let is_retryable = matches!(kind, Kind::Busy | Kind::Retry | Kind::Unsettled);
        Problem { is_retryable, ..Problem::new(status, name, error.to_string(), next) }
    }

    fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>, next: &'static str) -> Problem {
        Problem { status, kind, is_retryable: false, detail: detail.into(), next, challenge: false }
    }

    /// A request that names something, or has a value, that cannot be right.
    pub(crate) fn invalid(detail: impl std::fmt::Display) -> Problem {
        Problem::of(Kind::Invalid, &detail)
    }

    /// The session, or whatever is named, is not there for this client.
    pub(crate) fn not_found(detail: impl std::fmt::Display) -> Problem {
        Problem::of(Kind::NotFound, &detail)
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", detail, "send well-formed JSON in UTF-8")
    }

    pub(crate) fn unauthorized() -> Problem {
        let (detail, next) = ("a token is needed", "send `Authorization: Bearer TOKEN`, or POST /v1/login");
        Problem { challenge: true, ..Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail, next) }
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, "forbidden", detail, "ask the operator of this server")
    }

    pub(crate) fn misdirected(host: &str) -> Problem {
        let detail = format!("this server is not called {host:?}");
        let next = "use the address that the server prints, or let its operator allow the name";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", detail, next)
    }

    pub(crate) fn method_not_allowed() -> Problem {
        let detail = "this path does not take that method";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail, "`Allow` lists those that it takes")
    }

    pub(crate) fn too_slow() -> Problem {
        let detail = "the body did not come in time";
        let slow = Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail, "send it again, faster");
        Problem { is_retryable: true, ..slow }
    }

    pub(crate) fn too_large(max: usize) -> Problem {
        let detail = format!("the body has more than {max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail, "send less")
    }

    pub(crate) fn not_json() -> Problem {
        let detail = "the body is not declared as JSON";
        let next = "send `content-type: application/json`";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media", detail, next)
    }

    pub(crate) fn too_many(what: &str) -> Problem {
        let detail = format!("too many {what}");
        let many = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many", detail, "come again in a moment");
        Problem { is_retryable: true, ..many }
    }

    /// Whether it says that the thing is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.kind == "not_found"
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem { status, kind, is_retryable, detail, next, challenge } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let body = json!({
            "type": "about:blank", "title": title, "status": status.as_u16(), "kind": kind, "retryable": is_retryable,
            "detail": detail, "next": next,
        });
        let mut response = (status, Json(body)).into_response();
        response.extensions_mut().insert(Refused(kind));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

macro_rules! by_kind {
    ($($error:ty),*) => { $(impl From<$error> for Problem {
        fn from(error: $error) -> Problem {
            Problem::of(error.kind(), &error)
        }
    })* };
}

by_kind!(SendError, OpenError, SpawnError, BranchError, CommandError, DeleteError, OperateError, TapeError);

macro_rules! invalid {
    ($($error:ty),*) => { $(impl From<$error> for Problem {
        fn from(error: $error) -> Problem {
            Problem::invalid(error)
        }
    })* };
}

invalid!(BadLabel, BadModelRef, BadSessionId, BadCursor);
