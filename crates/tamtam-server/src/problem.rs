//! What a client is told where a request is refused: `application/problem+json` (RFC 9457) with the typed error inside.
//!
//! There is one function from an error's [`Kind`] to a status, and no route makes a status of its own. `detail` is the sentence of
//! the library's error, and `next` says what the client can do. A change must keep the names of the kinds: clients decide by them.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use tamtam::{
    OpenError, SendError,
    runtime::{CommandError, DeleteError, Kind, OperateError},
    session::{BadLabel, BadModelRef, BadSessionId, BranchError, Refusal, SpawnError},
    tape::{BadCursor, TapeError},
};

/// A refused request, as a client is told of it: the answer of every route that refuses. A host's own routes
/// ([`Server::routes`](crate::Server::routes)) make it of the library's errors with `?`.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: ProblemKind,
    is_retryable: bool,
    detail: String,
    next: &'static str,
    challenge: bool,
}

macro_rules! kinds {
    ($($kind:ident = $name:literal),* $(,)?) => {
        /// The kind of a refusal, by which a client decides.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
        pub(crate) enum ProblemKind {
            $(#[serde(rename = $name)] $kind),*
        }

        impl ProblemKind {
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(ProblemKind::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    NotFound = "not_found",
    Exists = "exists",
    Busy = "busy",
    Retry = "retry",
    Limit = "limit",
    Stale = "stale",
    Invalid = "invalid",
    Parked = "parked",
    Closed = "closed",
    Ended = "ended",
    Storage = "storage",
    Damaged = "damaged",
    Unsettled = "unsettled",
    Failed = "failed",
    Malformed = "malformed",
    Unauthorized = "unauthorized",
    Forbidden = "forbidden",
    Misdirected = "misdirected",
    MethodNotAllowed = "method_not_allowed",
    Timeout = "timeout",
    TooLarge = "too_large",
    UnsupportedMedia = "unsupported_media",
    TooMany = "too_many",
}

/// A refused request, as `application/problem+json`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemJson {
    /// Always `about:blank`: `kind` tells the kinds apart.
    r#type: &'static str,
    /// The words of the status.
    title: &'static str,
    /// The status.
    status: u16,
    /// The kind.
    kind: ProblemKind,
    /// Whether the same request may be taken later.
    retryable: bool,
    /// What happened.
    detail: String,
    /// What the client can do.
    next: &'static str,
}

/// Lies in the extensions of a response that refuses: the name of its kind.
#[derive(Clone, Copy)]
pub(crate) struct Refused(pub(crate) ProblemKind);

/// What becomes of a request.
pub(crate) type Answered<T> = Result<T, Problem>;

/// The status of a kind, its name, and what a client can do about it.
fn of_kind(kind: Kind) -> (StatusCode, ProblemKind, &'static str) {
    match kind {
        Kind::NotFound => (StatusCode::NOT_FOUND, ProblemKind::NotFound, "name something that exists"),
        Kind::Exists => (StatusCode::CONFLICT, ProblemKind::Exists, "choose another name"),
        Kind::Busy => (StatusCode::CONFLICT, ProblemKind::Busy, "wait for the running work, or abort it"),
        Kind::Retry => (StatusCode::SERVICE_UNAVAILABLE, ProblemKind::Retry, "send the same request again in a moment"),
        Kind::Limit => (StatusCode::TOO_MANY_REQUESTS, ProblemKind::Limit, "make room, or raise the limit"),
        Kind::Stale => (StatusCode::CONFLICT, ProblemKind::Stale, "read the session again, then decide"),
        Kind::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, ProblemKind::Invalid, "change the request"),
        Kind::Parked => (StatusCode::CONFLICT, ProblemKind::Parked, "unpark it: POST /v1/actors/{id}/unpark"),
        Kind::Closed => (StatusCode::SERVICE_UNAVAILABLE, ProblemKind::Closed, "it takes no more work"),
        Kind::Storage => {
            (StatusCode::INSUFFICIENT_STORAGE, ProblemKind::Storage, "an operator has to look at the disk")
        }
        Kind::Damaged => (StatusCode::INTERNAL_SERVER_ERROR, ProblemKind::Damaged, "fork it from before the damage"),
        Kind::Unsettled => {
            (StatusCode::SERVICE_UNAVAILABLE, ProblemKind::Unsettled, "send the same request again, with the same id")
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, ProblemKind::Failed, "an operator can look: GET /v1/actors/{id}"),
    }
}

impl Problem {
    /// An error of the library.
    pub(crate) fn of(kind: Kind, error: &dyn std::fmt::Display) -> Problem {
        let (status, name, next) = of_kind(kind);
        let is_retryable = matches!(kind, Kind::Busy | Kind::Retry | Kind::Unsettled);
        Problem { is_retryable, ..Problem::new(status, name, error.to_string(), next) }
    }

    fn new(status: StatusCode, kind: ProblemKind, detail: impl Into<String>, next: &'static str) -> Problem {
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

    /// The session has ended for good: nothing that is sent to it again will be taken.
    fn ended(detail: &dyn std::fmt::Display) -> Problem {
        let next = "make another session, or fork this one";
        Problem::new(StatusCode::CONFLICT, ProblemKind::Ended, detail.to_string(), next)
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, ProblemKind::Malformed, detail, "send well-formed JSON in UTF-8")
    }

    pub(crate) fn unauthorized() -> Problem {
        let (detail, next) = ("a token is needed", "send `Authorization: Bearer TOKEN`, or POST /v1/login");
        Problem { challenge: true, ..Problem::new(StatusCode::UNAUTHORIZED, ProblemKind::Unauthorized, detail, next) }
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::FORBIDDEN, ProblemKind::Forbidden, detail, "ask the operator of this server")
    }

    pub(crate) fn misdirected(host: &str) -> Problem {
        let detail = format!("this server is not called {host:?}");
        let next = "use the address that the server prints, or let its operator allow the name";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, ProblemKind::Misdirected, detail, next)
    }

    pub(crate) fn method_not_allowed() -> Problem {
        let detail = "this path does not take that method";
        Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            ProblemKind::MethodNotAllowed,
            detail,
            "`Allow` lists those that it takes",
        )
    }

    pub(crate) fn too_slow() -> Problem {
        let detail = "the body did not come in time";
        let slow = Problem::new(StatusCode::REQUEST_TIMEOUT, ProblemKind::Timeout, detail, "send it again, faster");
        Problem { is_retryable: true, ..slow }
    }

    pub(crate) fn too_large(max: usize) -> Problem {
        let detail = format!("the body has more than {max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ProblemKind::TooLarge, detail, "send less")
    }

    pub(crate) fn not_json() -> Problem {
        let detail = "the body is not declared as JSON";
        let next = "send `content-type: application/json`";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ProblemKind::UnsupportedMedia, detail, next)
    }

    pub(crate) fn too_many(what: &str) -> Problem {
        let detail = format!("too many {what}");
        let many =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemKind::TooMany, detail, "come again in a moment");
        Problem { is_retryable: true, ..many }
    }

    /// What only the process of the session can do, which `detail` names.
    fn elsewhere(detail: &dyn std::fmt::Display) -> Problem {
        let next = "ask the process that has the session, which `detail` names; GET /v1/cluster lists several nodes";
        Problem { next, ..Problem::of(Kind::Busy, detail) }
    }

    /// There are no other nodes.
    pub(crate) fn alone() -> Problem {
        let detail = "this server has no other nodes: `tamtam serve --postgres URL` starts one of several";
        let next = "start several servers over one PostgreSQL; a host gives them to `Server::nodes`";
        Problem { next, ..Problem::not_found(detail) }
    }

    /// Whether it says that the thing is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.kind == ProblemKind::NotFound
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem { status, kind, is_retryable, detail, next, challenge } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let body = ProblemJson {
            r#type: "about:blank",
            title,
            status: status.as_u16(),
            kind,
            retryable: is_retryable,
            detail,
            next,
        };
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

/// Whether another process has the session.
pub(crate) fn is_anothers(error: &SendError) -> bool {
    match error {
        SendError::Storage(TapeError::Claimed { .. }) => true,
        SendError::Unavailable(error) => matches!(**error, OpenError::Tape(TapeError::Claimed { .. })),
        _ => false,
    }
}

macro_rules! by_kind {
    ($($error:ty => $what:pat => $sent:expr;)*) => { $(impl From<$error> for Problem {
        fn from(error: $error) -> Problem {
            let sent: Option<&SendError> = match &error {
                $what => $sent,
                #[allow(unreachable_patterns, reason = "the other errors are about no session that could have ended")]
                _ => None,
            };
            match sent {
                Some(SendError::Refused(Refusal::Ended)) => Problem::ended(&error),
                Some(sent) if is_anothers(sent) => Problem::elsewhere(&error),
                _ => Problem::of(error.kind(), &error),
            }
        }
    })* };
}

by_kind! {
    SendError => sent => Some(sent);
    SpawnError => SpawnError::Parent(sent) => Some(sent);
    BranchError => BranchError::Session(sent) => Some(sent);
    CommandError => CommandError::Session(sent)
        | CommandError::Task(SpawnError::Parent(sent))
        | CommandError::Branch(BranchError::Session(sent)) => Some(sent);
    OperateError => _ => None;
}

impl From<DeleteError> for Problem {
    fn from(error: DeleteError) -> Problem {
        match error {
            DeleteError::Open(error) => error.into(),
            error => Problem::of(error.kind(), &error),
        }
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Problem {
        match &error {
            OpenError::Tape(TapeError::Claimed { .. }) => Problem::elsewhere(&error),
            _ => Problem::of(error.kind(), &error),
        }
    }
}

impl From<TapeError> for Problem {
    fn from(error: TapeError) -> Problem {
        match &error {
            TapeError::Claimed { .. } => Problem::elsewhere(&error),
            _ => Problem::of(error.kind(), &error),
        }
    }
}

macro_rules! invalid {
    ($($error:ty),*) => { $(impl From<$error> for Problem {
        fn from(error: $error) -> Problem {
            Problem::invalid(error)
        }
    })* };
}

invalid!(BadLabel, BadModelRef, BadSessionId, BadCursor);
