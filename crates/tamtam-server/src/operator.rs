//! The operator's routes: the tree and its stream, one node, crash reports, the levers, and the drain.
//!
//! A tenant has them for its own sessions, except for the drain and the counts. A node is named by its id or its path; a tenant
//! reaches the node of a session only by the session, so that no name of its choice means another node.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tamtam::{
    OpenError, SessionId,
    runtime::{Count, OperateError, Parked, Tree},
    supervisor::{CrashReport, Happened, Node},
    tape::{SessionStatus, TapeError},
};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::{
    answer::{Done, Events, Frames},
    app::{App, Asked, Granted, Named, NoQuery, Said},
    describe::{Answers, Operation},
    events::{Draining, Flag, Over, draining, is_true, named, respond},
    levers::Nothing,
    options::Scope,
    problem::{Answered, Problem},
    tree::{FlatNode, Sample, Seen, Told, pruned, session_of},
};

/// The longest drain that a request may ask for.
const DRAIN_MAX: Duration = Duration::from_secs(600);

/// The form of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// As JSON.
    Json,
    /// As text for people.
    Text,
}

/// How the tree is shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Showing {
    /// By default what `Accept` says, else JSON.
    format: Option<Format>,
    /// Whether the nodes come as a list.
    flat: Option<Flag>,
}

/// The nodes of the tree as a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Nodes {
    nodes: Vec<FlatNode>,
}

pub(crate) enum TreeAnswer {
    Tree(Tree),
    Flat(Nodes),
    Text(String),
}

impl IntoResponse for TreeAnswer {
    fn into_response(self) -> Response {
        match self {
            TreeAnswer::Tree(tree) => Json(tree).into_response(),
            TreeAnswer::Flat(nodes) => Json(nodes).into_response(),
            TreeAnswer::Text(text) => text.into_response(),
        }
    }
}

impl Answers for TreeAnswer {
    fn describe(operation: &mut Operation<'_>) {
        let (tree, nodes) = (operation.shown::<Tree>(), operation.shown::<Nodes>());
        operation.answers("200", "The tree.", "application/json", json!({ "oneOf": [tree, nodes] }));
        operation.responses["200"]["content"]["text/plain"] = json!({ "schema": { "type": "string" } });
    }
}

/// The nodes that changed.
#[derive(Serialize, JsonSchema)]
struct Changed {
    /// As they are now.
    changed: Vec<FlatNode>,
    /// The keys of those that are gone.
    gone: Vec<u64>,
}

/// The frames of the tree's stream.
pub(crate) struct TreeFrames;

impl Frames for TreeFrames {
    fn frames(operation: &mut Operation<'_>) -> Vec<(&'static str, Value)> {
        vec![
            ("snapshot", operation.shown::<Nodes>()),
            ("changed", operation.shown::<Changed>()),
            ("draining", operation.shown::<Draining>()),
            ("ended", operation.shown::<Over>()),
        ]
    }
}

pub(crate) async fn tree(
    State(app): State<App>,
    Granted(scope): Granted,
    headers: HeaderMap,
    Asked(asked): Asked<Showing>,
) -> Answered<TreeAnswer> {
    if asked.flat == Some(Flag::On) {
        let sample = app.sample();
        let visible = app.visible(&scope, &sample, &mut Seen::default()).await?;
        let (nodes, _) = Told::default().differences(&sample, &visible);
        return Ok(TreeAnswer::Flat(Nodes { nodes }));
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
    Ok(if wants_text(asked.format, &headers) { TreeAnswer::Text(tree.to_string()) } else { TreeAnswer::Tree(tree) })
}

/// Whether a request wants text for people.
pub(crate) fn wants_text(format: Option<Format>, headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    match format {
        Some(format) => format == Format::Text,
        None => accept.starts_with("text/plain"),
    }
}

pub(crate) async fn events(
    State(app): State<App>,
    Granted(scope): Granted,
    _: Asked<NoQuery>,
) -> Answered<Events<TreeFrames>> {
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
    Ok(Events::new(respond(frames, beat)))
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
                return Some(named("snapshot", &Nodes { nodes }));
            }
            tokio::select! {
                biased;
                () = is_true(&mut self.draining) => {
                    self.is_over = true;
                    return Some(draining());
                }
                _ = self.app.runtime.ended() => {
                    self.is_over = true;
                    return Some(named("ended", &Over { why: "the runtime is down" }));
                }
                changed = self.samples.changed() => changed.ok()?,
            }
            let sample = self.samples.borrow_and_update().clone();
            let (changed, gone) = self.differences(&sample).await?;
            if !changed.is_empty() || !gone.is_empty() {
                return Some(named("changed", &Changed { changed, gone }));
            }
        }
    }

    /// `None` ends the stream: what the client may see cannot be found out.
    async fn differences(&mut self, sample: &Sample) -> Option<(Vec<FlatNode>, Vec<u64>)> {
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

/// All that is known of one node.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Inspected {
    /// The node, with what is shown under it.
    node: Option<Node>,
    /// Its last crashes, oldest first.
    crashes: Vec<CrashShown>,
    /// The last things that happened to it, oldest first.
    trace: Vec<Happened>,
}

/// A crash report, with the path of the node that it is about.
#[derive(Serialize, JsonSchema)]
struct CrashShown {
    #[serde(flatten)]
    crash: CrashReport,
    /// The path of the node.
    path: String,
}

impl CrashShown {
    fn of(crash: CrashReport) -> CrashShown {
        CrashShown { path: crash.path(), crash }
    }
}

pub(crate) async fn inspect(
    State(app): State<App>,
    Granted(scope): Granted,
    Named(name): Named,
) -> Answered<Json<Inspected>> {
    let target = target(&app, &scope, &name).await?;
    let found = app.runtime.inspect(&target).ok_or_else(|| Problem::not_found(format!("no node is called {name}")))?;
    let crashes = found.crashes.into_iter().map(CrashShown::of).collect();
    let mut shown = Inspected { node: Some(found.node), crashes, trace: found.trace };
    if scope != Scope::All
        && let Some(node) = shown.node.take()
    {
        let own = app.seen(&scope, &node.id).await?.id().clone();
        // Children with other labels are not the tenant's.
        shown.node = pruned(vec![node], &|id| *id == own).into_iter().next();
    }
    Ok(Json(shown))
}

/// Why a lever did nothing: where the session has no actor here because another node has it, the name of that node.
async fn without_actor(app: &App, target: &str, error: OperateError) -> Problem {
    let is_absent = matches!(error, OperateError::Unknown { .. } | OperateError::NotStarted { .. });
    if let (true, Some(_), Ok(id)) = (is_absent, &app.nodes, target.parse::<SessionId>())
        // Asked first, so that a session that nobody has is not woken.
        && let Ok(Some(listed)) = app.runtime.find(&id).await
        && listed.status == SessionStatus::Live
        && let Err(held @ OpenError::Tape(TapeError::Claimed { .. })) = app.runtime.open(&id).await
    {
        return held.into();
    }
    error.into()
}

/// Levers that return nothing.
macro_rules! levers {
    ($($name:ident),*) => { $(pub(crate) async fn $name(
        State(app): State<App>,
        Granted(scope): Granted,
        Named(name): Named,
        Said(Nothing {}): Said<Nothing>,
    ) -> Answered<Done> {
        let target = target(&app, &scope, &name).await?;
        match app.runtime.operate().$name(&target).await {
            Ok(()) => Ok(Done),
            Err(error) => Err(without_actor(&app, &target, error).await),
        }
    })* };
}

levers!(restart, stop, park, unpark, passivate);

/// The words of a drill.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Words {
    /// What the panic says.
    words: Option<String>,
}

/// A drill: the session's actor panics, as by a bug.
pub(crate) async fn crash(
    State(app): State<App>,
    Granted(scope): Granted,
    Named(name): Named,
    Said(given): Said<Words>,
) -> Answered<Done> {
    if !app.options.drills {
        return Err(Problem::forbidden("this server has no drills"));
    }
    let target = target(&app, &scope, &name).await?;
    match app.runtime.operate().crash(&target, given.words.as_deref().unwrap_or("a drill")) {
        Ok(()) => Ok(Done),
        Err(error) => Err(without_actor(&app, &target, error).await),
    }
}

/// Crash reports.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Crashes {
    /// Oldest first.
    crashes: Vec<CrashShown>,
}

pub(crate) async fn crashes(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<Crashes>> {
    let mut shown = Vec::new();
    for crash in app.runtime.crashes() {
        if is_own(&app, &scope, &crash).await? {
            shown.push(CrashShown::of(crash));
        }
    }
    Ok(Json(Crashes { crashes: shown }))
}

async fn is_own(app: &App, scope: &Scope, crash: &CrashReport) -> Answered<bool> {
    let id = crash.offender.as_str().parse::<SessionId>();
    match (scope, id) {
        (Scope::All, _) => Ok(true),
        (_, Ok(id)) if crash.kind == "session" => app.sees(scope, &id).await,
        _ => Ok(false),
    }
}

/// Sessions that are kept stopped.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AllParked {
    parked: Vec<Parked>,
}

pub(crate) async fn parked(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<AllParked>> {
    let mut shown = Vec::new();
    for parked in app.runtime.parked() {
        if app.sees(&scope, &parked.session).await? {
            shown.push(parked);
        }
    }
    Ok(Json(AllParked { parked: shown }))
}

pub(crate) async fn count(State(app): State<App>, scope: Granted) -> Answered<Json<Count>> {
    scope.all()?;
    Ok(Json(app.runtime.count()))
}

/// The text that Prometheus reads.
pub(crate) struct Metrics(String);

/// Its content type.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl IntoResponse for Metrics {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, OPENMETRICS)], self.0).into_response()
    }
}

impl Answers for Metrics {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers("200", "All figures, as OpenMetrics.", OPENMETRICS, json!({ "type": "string" }));
    }
}

pub(crate) async fn metrics(State(app): State<App>, scope: Granted) -> Answered<Metrics> {
    scope.all()?;
    Ok(Metrics(tamtam_otel::prometheus_text(&app.runtime)))
}

/// How long a drain waits.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Drain {
    /// In milliseconds.
    deadline_ms: Option<u64>,
}

/// The end of a drain.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Drained {
    /// The sessions that were not at rest at the deadline.
    left: Vec<SessionId>,
}

/// Takes no new messages and waits for running turns. Streams go on: the server is still there to be looked at.
pub(crate) async fn drain(State(app): State<App>, scope: Granted, Said(drain): Said<Drain>) -> Answered<Json<Drained>> {
    scope.all()?;
    let deadline = drain.deadline_ms.map_or(app.options.drain_time_max, Duration::from_millis).min(DRAIN_MAX);
    Ok(Json(Drained { left: app.runtime.operate().drain(deadline).await }))
}
