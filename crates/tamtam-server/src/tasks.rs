//! The tasks that a session has given to children.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    Seq, Session, SessionOptions,
    runtime::Child,
    session::{Link, State as Conversation},
};

use crate::{
    app::{Named, Said, Seen},
    levers::Reason,
    problem::{Answered, Problem},
};

pub(crate) async fn list(Seen(session): Seen) -> Answered<Json<Value>> {
    let (state, mut tasks) = (session.peek().await?, Vec::new());
    if state.tasks().next().is_none() {
        // A session that sleeps has given none, and stays asleep.
        return Ok(Json(json!({ "tasks": tasks })));
    }
    for child in session.tasks().await? {
        tasks.extend(shown(&state, &child).await);
    }
    Ok(Json(json!({ "tasks": tasks })))
}

/// `None` if the task has ended meanwhile.
async fn shown(state: &Conversation, child: &Child) -> Option<Value> {
    let (_, task) = state.tasks().find(|(ticket, _)| *ticket == child.ticket())?;
    // A child that cannot answer is shown without its progress.
    let progress = if task.queued { None } else { child.progress().await.ok() };
    Some(json!({
        "ticket": child.ticket(), "session": task.child, "queued": task.queued, "depth": task.depth, "link": task.link,
        "progress": progress,
    }))
}

async fn task_of(session: &Session, ticket: Seq) -> Answered<Child> {
    let task = session.tasks().await?.into_iter().find(|child| child.ticket() == ticket);
    task.ok_or_else(|| Problem::not_found(format!("no task of this session has the ticket {ticket}")))
}

pub(crate) async fn look(Seen(session): Seen, name: Named) -> Answered<Json<Value>> {
    let ticket = name.seq()?;
    let (child, state) = (task_of(&session, ticket).await?, session.state().await?);
    let shown = shown(&state, &child).await;
    shown.map(Json).ok_or_else(|| Problem::not_found(format!("the task {ticket} is over")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    prompt: String,
    /// The child's id: the same again is the same task.
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    title: Option<String>,
}

/// Gives a task to a child with the rights of the session or fewer, and with its labels.
pub(crate) async fn give(Seen(session): Seen, Said(task): Said<Task>) -> Answered<Response> {
    let state = session.state().await?;
    let mut options = SessionOptions::new(&state.settings.workspace);
    options.id = task.id.map(|id| id.parse()).transpose()?;
    (options.title, options.labels) = (task.title, state.settings.labels.clone());
    (options.asks_wait, options.budget) = (state.settings.asks_wait, Default::default());
    let child = session.spawn_child(options, task.prompt, Link::LINKED).await?;
    let body = json!({ "ticket": child.ticket(), "session": child.session().id() });
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(crate) async fn stop(Seen(session): Seen, name: Named, Said(reason): Said<Reason>) -> Answered<StatusCode> {
    task_of(&session, name.seq()?).await?.stop(reason.words()).await?;
    Ok(StatusCode::NO_CONTENT)
}
