//! What all routes share: the runtime, the options, and the extractors by which a route says what it needs.
//!
//! A change must keep this: a route that names a session takes it from [`Seen`], which is where a tenant is kept from the sessions
//! of others; no route reads a session's id from its path by itself.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{Uri, header, request::Parts},
};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use tamtam::{
    Message, Runtime, Session, SessionId,
    session::{Labels, TraceContext},
};
use tokio::sync::{Semaphore, watch};

use crate::{
    nodes::Nodes,
    options::{Scope, ServerOptions},
    problem::{Answered, Problem},
    tree::Feed,
};

/// How many streams may look at the rows of another node at the same time.
const LOOKS_MAX: usize = 8;

#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) options: ServerOptions,
    /// The other nodes over the same tapes; none where this one is alone.
    pub(crate) nodes: Option<Arc<dyn Nodes>>,
    /// Whether the server goes down: event streams end when it becomes true.
    pub(crate) draining: watch::Sender<bool>,
    /// A place for each event stream.
    pub(crate) subscribers: Arc<Semaphore>,
    /// A place for each look at the rows of another node: while the store gives no answer, the looks of all streams block this many
    /// threads and no more.
    pub(crate) looks: Semaphore,
    pub(crate) tree: Feed,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(runtime: Runtime, options: ServerOptions, nodes: Option<Arc<dyn Nodes>>) -> App {
        let subscribers = Arc::new(Semaphore::new(options.subscribers_max.min(Semaphore::MAX_PERMITS)));
        App(Arc::new(Inner {
            runtime,
            options,
            nodes,
            draining: watch::Sender::new(false),
            subscribers,
            looks: Semaphore::new(LOOKS_MAX),
            tree: Feed::default(),
        }))
    }

    /// Whether it takes no more work: its streams end, or the runtime drains while they still show it.
    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow() || self.runtime.is_draining()
    }

    /// The nodes, for a session that this one has not awake.
    pub(crate) fn elsewhere(&self, session: &Session) -> Option<&dyn Nodes> {
        self.nodes.as_deref().filter(|_| !session.is_awake())
    }

    /// Refuses an agent that is not for this scope in the words for one that there is not.
    pub(crate) fn shows_agent(&self, scope: &Scope, agent: Option<&str>) -> Answered<()> {
        match agent.filter(|agent| !(self.options.shows_agent)(scope, agent)) {
            Some(agent) => Err(Problem::invalid(format!("there is no agent {agent:?}"))),
            None => Ok(()),
        }
    }

    /// The labels of a session; `None` if there is no such session.
    async fn labels(&self, id: &SessionId) -> Answered<Option<Labels>> {
        let session = self.runtime.session(id);
        if session.is_awake()
            && let Ok(state) = session.peek().await
        {
            return Ok(Some(state.settings.labels.clone()));
        }
        Ok(self.runtime.find(id).await?.map(|listed| listed.labels))
    }

    /// Whether a scope sees a session.
    pub(crate) async fn sees(&self, scope: &Scope, id: &SessionId) -> Answered<bool> {
        let Scope::Labels(wanted) = scope else { return Ok(true) };
        Ok(self.labels(id).await?.is_some_and(|labels| has(&labels, wanted)))
    }

    /// As [`App::sees`], for a session that is known to be awake.
    pub(crate) async fn sees_awake(&self, scope: &Scope, id: &SessionId) -> Answered<bool> {
        match (scope, self.runtime.session(id).peek().await) {
            (Scope::All, _) => Ok(true),
            (Scope::Labels(wanted), Ok(state)) => Ok(has(&state.settings.labels, wanted)),
            (_, Err(_)) => self.sees(scope, id).await,
        }
    }

    /// A session, if the scope sees it.
    pub(crate) async fn seen(&self, scope: &Scope, id: &str) -> Answered<Session> {
        let missing = || Problem::not_found(format!("there is no session {id}"));
        let parsed: SessionId = id.parse()?;
        match self.sees(scope, &parsed).await? {
            true => Ok(self.runtime.session(&parsed)),
            false => Err(missing()),
        }
    }
}

/// Whether all of the wanted labels are among these.
pub(crate) fn has(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The session that the path names, if the request's scope sees it.
pub(crate) struct Seen(pub(crate) Session);

/// A part of the path.
async fn part_of_path(parts: &mut Parts, is_it: impl Fn(&str) -> bool) -> Answered<String> {
    let path = RawPathParams::from_request_parts(parts, &()).await;
    let path = path.map_err(|_| Problem::malformed("the path is no UTF-8"))?;
    let part = path.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value.to_owned());
    part.ok_or_else(|| Problem::not_found("there is nothing at this path"))
}

impl FromRequestParts<App> for Seen {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Seen, Problem> {
        let id = part_of_path(parts, |name| name == "id").await?;
        let Granted(scope) = Granted::from_request_parts(parts, app).await?;
        app.seen(&scope, &id).await.map(Seen)
    }
}

/// The name in a path besides that of the session: a message, an ask, a grant, a ticket, or the node of a lever.
pub(crate) struct Named(pub(crate) String);

impl Named {
    /// The entry that it names.
    pub(crate) fn seq(&self) -> Answered<tamtam::Seq> {
        self.0.parse().map(tamtam::Seq).map_err(|_| Problem::not_found(format!("{:?} names no entry", self.0)))
    }
}

impl FromRequestParts<App> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Named, Problem> {
        part_of_path(parts, |name| name != "id").await.map(Named)
    }
}

/// What the request may see.
pub(crate) struct Granted(pub(crate) Scope);

impl Granted {
    /// Refuses what only an operator may do.
    pub(crate) fn all(&self) -> Answered<()> {
        match self.0 {
            Scope::All => Ok(()),
            Scope::Labels(_) => Err(Problem::forbidden("only an operator of the whole runtime may do that")),
        }
    }
}

impl FromRequestParts<App> for Granted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Granted, Problem> {
        // Without the guard in front there is no scope, and nothing is seen.
        parts.extensions.get::<Scope>().cloned().map(Granted).ok_or_else(Problem::unauthorized)
    }
}

/// What begins the name of a parameter that filters by a label.
const LABEL: &str = "label.";

/// The query of a request. An unknown or repeated parameter is refused. Where it is `LABELLED`, parameters that filter by labels are
/// left to [`Labelled`].
pub(crate) struct Asked<Q, const LABELLED: bool = false>(pub(crate) Q);

impl<Q: DeserializeOwned, const LABELLED: bool> FromRequestParts<App> for Asked<Q, LABELLED> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Asked<Q, LABELLED>, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let own: Vec<&str> = query.split('&').filter(|pair| !LABELLED || !pair.starts_with(LABEL)).collect();
        let own = Uri::builder().path_and_query(format!("/?{}", own.join("&"))).build();
        let own = own.map_err(|_| Problem::malformed("the query cannot be read"))?;
        Query::try_from_uri(&own).map(|Query(query)| Asked(query)).map_err(Problem::invalid)
    }
}

/// The labels by which a request filters: `label.KEY=VALUE`.
pub(crate) struct Labelled(pub(crate) Vec<(String, String)>);

impl FromRequestParts<App> for Labelled {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Labelled, Problem> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(pairs) = query.map_err(|_| Problem::malformed("the query cannot be read"))?;
        let label = |(key, value): (String, String)| Some((key.strip_prefix(LABEL)?.to_owned(), value));
        Ok(Labelled(pairs.into_iter().filter_map(label).collect()))
    }
}

/// A query that says nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoQuery {}

/// The last event that a client has had, as a browser says when it comes again.
pub(crate) struct LastEventId(pub(crate) Option<String>);

impl FromRequestParts<App> for LastEventId {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<LastEventId, Self::Rejection> {
        let id = parts.headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?").to_owned());
        Ok(LastEventId(id))
    }
}

/// The trace that a request belongs to, as its headers say. Headers that are no trace context count as none, as W3C says.
pub(crate) struct InTrace(pub(crate) Option<TraceContext>);

impl FromRequestParts<App> for InTrace {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<InTrace, Self::Rejection> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let parent = header("traceparent");
        let context = |parent: &str| {
            let bad_state = |_| TraceContext::new(parent, None);
            TraceContext::new(parent, header("tracestate")).or_else(bad_state).ok()
        };
        Ok(InTrace(parent.and_then(context)))
    }
}

impl InTrace {
    /// The message, in that trace.
    pub(crate) fn of(self, message: Message) -> Message {
        match self.0 {
            Some(context) => message.in_trace(context),
            None => message,
        }
    }
}

/// The JSON body of a request; an empty body counts as `{}`. Bounded in bytes and in time.
pub(crate) struct Said<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Said<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Said<T>, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(body, app).await?;
        let is_json = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        });
        if !bytes.is_empty() && !is_json {
            return Err(Problem::not_json());
        }
        let json: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        if json.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            // The fields of an object could be read from a list, too: nobody means that.
            return Err(Problem::invalid("the body is a JSON object"));
        }
        serde_json::from_slice(json).map(Said).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Problem::invalid(error),
            _ => Problem::malformed(error.to_string()),
        })
    }
}

async fn read(body: Body, app: &App) -> Answered<axum::body::Bytes> {
    let max = app.options.body_bytes_max;
    match tokio::time::timeout(app.options.body_time_max, to_bytes(body, max)).await {
        Err(_) => Err(Problem::too_slow()),
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let is_large =
                std::error::Error::source(&error).is_some_and(|why| why.to_string().contains("length limit"));
            Err(if is_large { Problem::too_large(max) } else { Problem::malformed("the body broke off") })
        }
    }
}
