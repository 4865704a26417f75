//! The levers of one session: abort, pause, compact, fork, go back, and commands.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    runtime::Commanded,
    session::{ForkOptions, Point},
};

use crate::{
    app::{Said, Seen},
    problem::{Answered, Problem},
    wire,
};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Reason {
    reason: Option<String>,
}

impl Reason {
    pub(crate) fn words(self) -> String {
        self.reason.unwrap_or_else(|| "a client asked for it".to_owned())
    }
}

/// A body that says nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

pub(crate) async fn abort(Seen(session): Seen, Said(reason): Said<Reason>) -> Answered<Json<Value>> {
    Ok(Json(json!(session.abort(reason.words()).await?)))
}

pub(crate) async fn end(Seen(session): Seen, Said(reason): Said<Reason>) -> Answered<StatusCode> {
    session.end(reason.words()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Levers that take nothing and say nothing.
macro_rules! plain {
    ($($name:ident),*) => { $(pub(crate) async fn $name(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<StatusCode> {
        session.$name().await?;
        Ok(StatusCode::NO_CONTENT)
    })* };
}

plain!(pause, resume, go_on, compact, undo_compaction, reset_loops);

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fork {
    at: Option<Point>,
    id: Option<String>,
}

pub(crate) async fn fork(Seen(session): Seen, Said(fork): Said<Fork>) -> Answered<Response> {
    let mut options = ForkOptions::newest();
    options.at = fork.at;
    options.id = fork.id.map(|id| id.parse()).transpose()?;
    let fork = session.fork(options).await?;
    Ok((StatusCode::CREATED, Json(json!({ "session": fork.id() }))).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Back {
    to: Point,
}

pub(crate) async fn rollback(Seen(session): Seen, Said(back): Said<Back>) -> Answered<Json<Value>> {
    Ok(Json(json!(session.rollback(back.to).await?)))
}

pub(crate) async fn undo(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<Json<Value>> {
    Ok(Json(json!(session.undo().await?)))
}

pub(crate) async fn redo(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<Json<Value>> {
    Ok(Json(json!(session.redo().await?)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    line: String,
    #[serde(default)]
    delivery: Option<String>,
    #[serde(default)]
    steering: Option<String>,
}

pub(crate) async fn command(Seen(session): Seen, Said(line): Said<Line>) -> Answered<Response> {
    if !line.line.starts_with('/') {
        return Err(Problem::invalid("a command begins with `/`; anything else is a message"));
    }
    let delivery = wire::delivery(line.delivery.as_deref(), line.steering.as_deref())?;
    let body = match session.command(&line.line, delivery).await? {
        Commanded::Sent(receipt) => json!({ "receipt": receipt }),
        Commanded::Said(words) => json!({ "said": words }),
        Commanded::Task(child) => json!({ "task": { "session": child } }),
        _ => json!({}),
    };
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}
