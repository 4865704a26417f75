//! What all routes share: the runtime, the options, and the extractors by which a route says what it needs.
//!
//! A change must keep this: a route that names a session takes it from [`Seen`], which is where a tenant is kept from the sessions
//! of others; no route reads a session's id from its path by itself.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, FromRequestParts, RawPathParams, Request},
    http::{header, request::Parts},
};
use serde::de::DeserializeOwned;
use tamtam::{Runtime, Session, SessionId, session::Labels};
use tokio::sync::{Semaphore, watch};

use crate::{
    options::{Scope, ServerOptions},
    problem::{Answered, Problem},
    tree::Feed,
};

#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) runtime: Runtime,
    pub(crate) options: ServerOptions,
    /// Whether the server goes down: event streams end when it becomes true.
    pub(crate) draining: watch::Sender<bool>,
    /// A place for each event stream.
    pub(crate) subscribers: Arc<Semaphore>,
    pub(crate) tree: Feed,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(runtime: Runtime, options: ServerOptions) -> App {
        let subscribers = Arc::new(Semaphore::new(options.subscribers_max.min(Semaphore::MAX_PERMITS)));
        App(Arc::new(Inner {
            runtime,
            options,
            draining: watch::Sender::new(false),
            subscribers,
            tree: Feed::default(),
        }))
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
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
async fn part_of_path(parts: &mut Parts, name: &str) -> Answered<String> {
    let path = RawPathParams::from_request_parts(parts, &()).await;
    let path = path.map_err(|_| Problem::malformed("the path is no UTF-8"))?;
    let part = path.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    part.ok_or_else(|| Problem::not_found("there is nothing at this path"))
}

impl FromRequestParts<App> for Seen {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Seen, Problem> {
        let id = part_of_path(parts, "id").await?;
        let Granted(scope) = Granted::from_request_parts(parts, app).await?;
        app.seen(&scope, &id).await.map(Seen)
    }
}

/// The second name in a path: a message, an ask, a grant, a ticket, or the node of a lever.
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
        part_of_path(parts, "name").await.map(Named)
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

/// The query of a request, name by name. What is left at the end is unknown, and refused.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// A value that must be of a type.
    pub(crate) fn parse<T: std::str::FromStr>(&mut self, name: &str) -> Answered<Option<T>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| Problem::invalid(format!("`{name}` cannot be {value:?}")))
    }

    /// The values whose names begin with this prefix.
    pub(crate) fn with_prefix(&mut self, prefix: &str) -> Vec<(String, String)> {
        let (with, without) = std::mem::take(&mut self.0).into_iter().partition(|(key, _)| key.starts_with(prefix));
        self.0 = without;
        let with: Vec<(String, String)> = with;
        with.into_iter().map(|(key, value)| (key[prefix.len()..].to_owned(), value)).collect()
    }

    pub(crate) fn end(self) -> Answered<()> {
        match self.0.first() {
            Some((key, _)) => Err(Problem::invalid(format!("unknown or repeated parameter `{key}`"))),
            None => Ok(()),
        }
    }
}

impl FromRequestParts<App> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Params, Problem> {
        let query = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        query.map(|query| Params(query.0)).map_err(|_| Problem::malformed("the query cannot be read"))
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
