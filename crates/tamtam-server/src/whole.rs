//! What is of the runtime and of no session: who is there, what was said anywhere, and health.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tamtam::{
    SessionId,
    tape::{Order, Query},
};

use crate::{
    app::{App, Granted, Params, Seen},
    options::Scope,
    problem::{Answered, Problem},
};

pub(crate) async fn about(State(app): State<App>, Granted(scope): Granted) -> Json<Value> {
    let scope = match scope {
        Scope::All => json!("all"),
        Scope::Labels(labels) => json!({ "labels": labels }),
    };
    Json(json!({
        "name": "tamtam", "version": env!("CARGO_PKG_VERSION"), "scope": scope, "draining": app.is_draining(),
        "needs_token": app.options.token.is_some(),
    }))
}

pub(crate) async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub(crate) async fn ready(State(app): State<App>) -> Response {
    match app.is_draining() {
        true => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "draining" }))).into_response(),
        false => Json(json!({ "status": "ready" })).into_response(),
    }
}

pub(crate) async fn agents(State(app): State<App>, Granted(scope): Granted) -> Json<Value> {
    let agents = app.runtime.agents();
    let is_shown = |name: &str| (app.options.shows_agent)(&scope, name);
    let agents: Vec<_> = agents.list().filter(|agent| !agent.hidden && is_shown(&agent.name)).map(|agent| {
        json!({ "name": agent.name, "description": agent.description, "mode": agent.mode, "model": agent.model })
    }).collect();
    Json(json!({ "agents": agents }))
}

pub(crate) async fn commands(State(app): State<App>, _: Granted) -> Json<Value> {
    // The handle of any id knows the commands of its runtime; nothing is looked up.
    let commands = app.runtime.session(&SessionId::new()).commands();
    let commands: Vec<_> = commands.list().map(|command| {
        json!({ "name": command.name, "description": command.description, "arguments": command.arguments })
    }).collect();
    Json(json!({ "commands": commands }))
}

pub(crate) async fn models(State(app): State<App>, _: Granted) -> Json<Value> {
    Json(json!({ "models": app.options.models }))
}

pub(crate) async fn search(
    State(app): State<App>,
    Granted(scope): Granted,
    mut params: Params,
) -> Answered<Json<Value>> {
    let mut query = Query::new(params.take("q").unwrap_or_default());
    query.limit = params.parse("limit")?.unwrap_or(query.limit);
    query.after = params.parse("after")?;
    query.kinds.extend(params.take("kind"));
    query.order = match params.take("order").as_deref() {
        None | Some("newest") => Order::Newest,
        Some("best") => Order::Best,
        Some(_) => return Err(Problem::invalid("`order` is newest or best")),
    };
    if let Some(id) = params.take("session") {
        query.session = Some(app.seen(&scope, &id).await?.id().clone());
    }
    params.end()?;
    if let Scope::Labels(labels) = scope {
        query.labels = labels;
    }
    Ok(Json(json!(app.runtime.search(query).await?)))
}

/// The entries of a session's tape, one a line. To carry a session to another store, `tamtam tape export` writes a file that can be
/// imported.
pub(crate) async fn export(Seen(session): Seen) -> Answered<Response> {
    let mut lines = Vec::new();
    for entry in session.entries().await? {
        let entry = entry.to_tape().map_err(Problem::invalid)?;
        let line = json!({
            "seq": entry.seq, "time": entry.time, "kind": entry.kind, "turn": entry.turn, "step": entry.step,
            "ticket": entry.ticket, "cause": entry.cause, "data": entry.data,
        });
        lines.extend(line.to_string().into_bytes());
        lines.push(b'\n');
    }
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from(lines)).into_response())
}
