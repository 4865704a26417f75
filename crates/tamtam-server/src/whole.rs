//! What is of the runtime and of no session: who is there, what was said anywhere, and health.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tamtam::{
    Millis, ModelRef, Seq, SessionId,
    runtime::AgentMode,
    session::Labels,
    tape::{Cause, Order, Page, Query},
};

use crate::{
    answer::Lines,
    app::{App, Asked, Granted, Seen},
    describe::{Answers, Operation},
    options::Scope,
    problem::{Answered, Problem},
};

/// What a request may see.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ScopeShown {
    /// Everything.
    All,
    /// The sessions that have these labels.
    Labels(Labels),
}

/// What this server is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct About {
    /// Always `tamtam`.
    name: &'static str,
    /// The version of the server.
    version: &'static str,
    /// What the request may see.
    scope: ScopeShown,
    /// Whether the server goes down.
    draining: bool,
    /// Whether requests need a token.
    needs_token: bool,
    /// Whether the request may see other nodes over the same tapes (`GET /v1/cluster`).
    several_nodes: bool,
}

pub(crate) async fn about(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<About>> {
    let several_nodes = scope == Scope::All && app.nodes.is_some();
    let scope = match scope {
        Scope::All => ScopeShown::All,
        Scope::Labels(labels) => ScopeShown::Labels(labels),
    };
    Ok(Json(About {
        name: "tamtam",
        version: env!("CARGO_PKG_VERSION"),
        scope,
        draining: app.is_draining(),
        needs_token: app.options.token.is_some(),
        several_nodes,
    }))
}

/// How the server is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Condition {
    /// The process answers.
    Ok,
    /// It takes new work.
    Ready,
    /// It goes down.
    Draining,
}

/// How the server is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    status: Condition,
}

pub(crate) async fn health() -> Json<Health> {
    Json(Health { status: Condition::Ok })
}

/// 200, or 503 while the server goes down.
pub(crate) struct Readiness(Condition);

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let status = match self.0 {
            Condition::Draining => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::OK,
        };
        (status, Json(Health { status: self.0 })).into_response()
    }
}

impl Answers for Readiness {
    fn describe(operation: &mut Operation<'_>) {
        operation.answers_json::<Health>("200", "It takes new work.");
        operation.answers_json::<Health>("503", "It goes down.");
    }
}

pub(crate) async fn ready(State(app): State<App>) -> Readiness {
    Readiness(if app.is_draining() { Condition::Draining } else { Condition::Ready })
}

/// The agents that there are.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Agents {
    agents: Vec<AgentShown>,
}

/// An agent.
#[derive(Serialize, JsonSchema)]
struct AgentShown {
    /// Its name.
    name: String,
    /// What it is for.
    description: String,
    /// Where it may be used.
    mode: AgentMode,
    /// Its model; null for that of the session.
    model: Option<ModelRef>,
}

pub(crate) async fn agents(State(app): State<App>, Granted(scope): Granted) -> Answered<Json<Agents>> {
    let agents = app.runtime.agents();
    let is_shown = |name: &str| (app.options.shows_agent)(&scope, name);
    let agents = agents.list().filter(|agent| !agent.hidden && is_shown(&agent.name)).map(|agent| AgentShown {
        name: agent.name.clone(),
        description: agent.description.clone(),
        mode: agent.mode,
        model: agent.model.clone(),
    });
    Ok(Json(Agents { agents: agents.collect() }))
}

/// The commands that there are.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Commands {
    commands: Vec<CommandShown>,
}

/// A command.
#[derive(Serialize, JsonSchema)]
struct CommandShown {
    /// Its name, without the `/`.
    name: String,
    /// What it is for.
    description: String,
    /// What it takes, in words for people.
    arguments: Option<String>,
}

pub(crate) async fn commands(State(app): State<App>, _: Granted) -> Answered<Json<Commands>> {
    // The handle of any id knows the commands of its runtime; nothing is looked up.
    let commands = app.runtime.session(&SessionId::new()).commands();
    let commands = commands.list().map(|command| CommandShown {
        name: command.name.clone(),
        description: command.description.clone(),
        arguments: command.arguments.clone(),
    });
    Ok(Json(Commands { commands: commands.collect() }))
}

/// The models that there are.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Models {
    /// Each as `provider/model`.
    models: Vec<String>,
}

pub(crate) async fn models(State(app): State<App>, _: Granted) -> Answered<Json<Models>> {
    Ok(Json(Models { models: app.options.models.clone() }))
}

/// The order of hits.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OrderName {
    /// Newest first.
    Newest,
    /// Best first.
    Best,
}

/// What is searched for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Searching {
    /// The words.
    q: Option<String>,
    /// Only in this session.
    session: Option<String>,
    /// Only entries of this kind.
    kind: Option<String>,
    /// Newest first by default.
    order: Option<OrderName>,
    /// The most hits of the page.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
}

pub(crate) async fn search(
    State(app): State<App>,
    Granted(scope): Granted,
    Asked(asked): Asked<Searching>,
) -> Answered<Json<Page>> {
    let mut query = Query::new(asked.q.unwrap_or_default());
    query.limit = asked.limit.unwrap_or(query.limit);
    query.after = asked.after.map(|after| after.parse()).transpose()?;
    query.kinds.extend(asked.kind);
    query.order = match asked.order {
        None | Some(OrderName::Newest) => Order::Newest,
        Some(OrderName::Best) => Order::Best,
    };
    if let Some(id) = asked.session {
        query.session = Some(app.seen(&scope, &id).await?.id().clone());
    }
    if let Scope::Labels(labels) = scope {
        query.labels = labels;
    }
    Ok(Json(app.runtime.search(query).await?))
}

/// An entry of a tape.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Entry")]
pub(crate) struct Line {
    /// Its number.
    seq: Seq,
    /// When it was decided.
    time: Millis,
    /// Its kind.
    kind: String,
    /// The turn it belongs to.
    turn: Option<Seq>,
    /// The step of the turn.
    step: Option<u32>,
    /// The ticket it is about.
    ticket: Option<Seq>,
    /// Why it was written.
    cause: Option<Cause>,
    /// Its content.
    data: Value,
}

/// The entries of a session's tape, one a line. To carry a session to another store, `tamtam tape export` writes a file that can be
/// imported.
pub(crate) async fn export(Seen(session): Seen) -> Answered<Lines<Line>> {
    let entries = session.entries().await?;
    let line = |entry: &tamtam::session::Entry| {
        let entry = entry.to_tape().map_err(Problem::invalid)?;
        let data = serde_json::from_str(entry.data.get()).map_err(Problem::invalid)?;
        let (seq, time, kind, turn, step) = (entry.seq, entry.time, entry.kind, entry.turn, entry.step);
        Ok(Line { seq, time, kind, turn, step, ticket: entry.ticket, cause: entry.cause, data })
    };
    entries.iter().map(line).collect::<Answered<_>>().map(Lines)
}
