//! The operator's routes: the tree and its stream, one node, crash reports, the levers, and the drain.
//!
//! A tenant has them for its own sessions, except for the drain and the counts. A node is named by its id or its path; a tenant
//! reaches the node of a session only by the session, so that no name of its choice means another node.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tamtam::{
    SessionId,
    supervisor::{CrashReport, Node},
};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{
    app::{App, Granted, Named, Params, Said},
    events::{draining, is_true, named, respond},
    levers::Nothing,
    options::Scope,
    problem::{Answered, Problem},
    tree::{Sample, Seen, Told, pruned, session_of},
};

/// The longest drain that a request may ask for.
const DRAIN_MAX: Duration = Duration::from_secs(600);

pub(crate) async fn tree(
    State(app): State<App>,
    Granted(scope): Granted,
    headers: HeaderMap,
    mut params: Params,
) -> Answered<Response> {
    let (format, flat) = (params.take("format"), params.take("flat"));
    params.end()?;
    if flat.as_deref().is_some_and(|flat| flat != "0") {
        let sample = app.sample();
        let visible = app.visible(&scope, &sample, &mut Seen::default()).await?;
        let (nodes, _) = Told::default().differences(&sample, &visible);
        return Ok(Json(json!({ "nodes": nodes })).into_response());
    }
    let mut tree = app.runtime.tree();
    if scope != Scope::All {
        let mut own = HashSet::new();
        for id in tree.roots.iter().flat_map(Node::iter).filter_map(session_of).collect::<HashSet<_>>() {
            if app.sees(&scope, &id).await? {
                own.insert(id);
            }
        }
        tree.roots = pruned(tree.roots, &|id| own.contains(id));
    }
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match format.as_deref() {
        Some("text") => Ok(tree.to_string().into_response()),
        None if accept.starts_with("text/plain") => Ok(tree.to_string().into_response()),
        None | Some("json") => Ok(Json(tree).into_response()),
        Some(_) => Err(Problem::invalid("`format` is json or text")),
    }
}

pub(crate) async fn events(State(app): State<App>, Granted(scope): Granted, params: Params) -> Answered<Response> {
    params.end()?;
    let permit = app.subscribers.clone().try_acquire_owned().map_err(|_| Problem::too_many("event streams"))?;
    let samples = app.samples();
    // The first frame is of now, not of the last time that somebody looked.
    let first = app.sample();
    let (beat, draining) = (app.options.beat, app.draining.subscribe());
    let stream = Watching {
        app,
        scope,
        samples,
        first: Some(first),
        told: Told::default(),
        draining,
        is_over: false,
        _permit: permit,
    };
    let frames = stream::unfold(stream, |mut stream| async move { stream.frame().await.map(|frame| (frame, stream)) });
    Ok(respond(frames, beat))
}

/// One client's stream of the tree.
struct Watching {
    app: App,
    scope: Scope,
    samples: watch::Receiver<Arc<Sample>>,
    first: Option<Arc<Sample>>,
    told: Told,
    draining: watch::Receiver<bool>,
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

impl Watching {
    async fn frame(&mut self) -> Option<axum::response::sse::Event> {
        loop {
            if self.is_over {
                return None;
            }
            if let Some(sample) = self.first.take() {
                let (nodes, _) = self.differences(&sample).await?;
                return Some(named("snapshot", &json!({ "nodes": nodes })));
            }
            tokio::select! {
                biased;
                () = is_true(&mut self.draining) => {
                    self.is_over = true;
                    return Some(draining());
                }
                _ = self.app.runtime.ended() => {
                    self.is_over = true;
                    return Some(named("ended", &json!({ "why": "the runtime is down" })));
                }
                changed = self.samples.changed() => changed.ok()?,
            }
            let sample = self.samples.borrow_and_update().clone();
            let (changed, gone) = self.differences(&sample).await?;
            if !changed.is_empty() || !gone.is_empty() {
                return Some(named("changed", &json!({ "changed": changed, "gone": gone })));
            }
        }
    }

    /// `None` ends the stream: what the client may see cannot be found out.
    async fn differences(&mut self, sample: &Sample) -> Option<(Vec<Value>, Vec<u64>)> {
        let visible = self.app.visible(&self.scope, sample, &mut self.told.seen).await.ok()?;
        Some(self.told.differences(sample, &visible))
    }
}

/// What a lever is to be told: the id or path of the node.
async fn target(app: &App, scope: &Scope, name: &str) -> Answered<String> {
    if *scope == Scope::All {
        return Ok(name.to_owned());
    }
    let tree = app.runtime.tree();
    let is_meant = |node: &&Node| node.kind == "session" && (node.id == name || node.path == name);
    let node = tree.roots.iter().flat_map(Node::iter).find(is_meant);
    let missing = || Problem::not_found(format!("there is no session {name}"));
    match node {
        Some(node) => app.seen(scope, &node.id).await.map(|_| node.path.clone()),
        // A session that sleeps has no node; another node of that name is none of the tenant's.
        None if app.runtime.inspect(name).is_some() => Err(missing()),
        None => app.seen(scope, name).await.map(|session| session.id().to_string()),
    }
}

pub(crate) async fn inspect(
    State(app): State<App>,
    Granted(scope): Granted,
    Named(name): Named,
) -> Answered<Json<Value>> {
    let target = target(&app, &scope, &name).await?;
    let found = app.runtime.inspect(&target).ok_or_else(|| Problem::not_found(format!("no node is called {name}")))?;
    let mut shown = json!(found);
    shown["crashes"] = found.crashes.iter().map(with_path).collect();
    if scope != Scope::All {
        let own = app.seen(&scope, &found.node.id).await?.id().clone();
        // Children with other labels are not the tenant's.
        let node = pruned(vec![found.node], &|id| *id == own).into_iter().next();
        shown["node"] = json!(node);
    }
    Ok(Json(shown))
}

/// Levers that return nothing.
macro_rules! levers {
    ($($name:ident),*) => { $(pub(crate) async fn $name(
        State(app): State<App>,
        Granted(scope): Granted,
        Named(name): Named,
        Said(Nothing {}): Said<Nothing>,
    ) -> Answered<StatusCode> {
        let target = target(&app, &scope, &name).await?;
        app.runtime.operate().$name(&target).await?;
        Ok(StatusCode::NO_CONTENT)
    })* };
}

levers!(restart, stop, park, unpark, passivate);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Words {
    words: Option<String>,
}

/// A drill: the session's actor panics, as by a bug.
pub(crate) async fn crash(
    State(app): State<App>,
    Granted(scope): Granted,
    Named(name): Named,
    Said(given): Said<Words>,
) -> Answered<StatusCode> {
    if !app.options.drills {
        return Err(Problem::forbidden("this server has no drills"));
    }
    let target = target(&app, &scope, &name).await?;
    app.runtime.operate().crash(&target, given.words.as_deref().unwrap_or("a drill"))?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn crashes(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<Value>> {
    let mut shown = Vec::new();
    for crash in app.runtime.crashes() {
        if is_own(&app, &scope, &crash).await? {
            shown.push(with_path(&crash));
        }
    }
    Ok(Json(json!({ "crashes": shown })))
}

/// A report with the path of the node that it is about.
fn with_path(crash: &CrashReport) -> Value {
    let mut shown = json!(crash);
    shown["path"] = json!(crash.path());
    shown
}

async fn is_own(app: &App, scope: &Scope, crash: &CrashReport) -> Answered<bool> {
    let id = crash.offender.as_str().parse::<SessionId>();
    match (scope, id) {
        (Scope::All, _) => Ok(true),
        (_, Ok(id)) if crash.kind == "session" => app.sees(scope, &id).await,
        _ => Ok(false),
    }
}

pub(crate) async fn parked(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<Value>> {
    let mut shown = Vec::new();
    for parked in app.runtime.parked() {
        if app.sees(&scope, &parked.session).await? {
            shown.push(parked);
        }
    }
    Ok(Json(json!({ "parked": shown })))
}

pub(crate) async fn count(State(app): State<App>, scope: Granted) -> Answered<Response> {
    scope.all()?;
    Ok(Json(app.runtime.count()).into_response())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Drain {
    deadline_ms: Option<u64>,
}

/// Takes no new messages and waits for running turns. Streams go on: the server is still there to be looked at.
pub(crate) async fn drain(State(app): State<App>, scope: Granted, Said(drain): Said<Drain>) -> Answered<Json<Value>> {
    scope.all()?;
    let deadline = drain.deadline_ms.map_or(app.options.drain_time_max, Duration::from_millis).min(DRAIN_MAX);
    Ok(Json(json!({ "left": app.runtime.operate().drain(deadline).await })))
}
