//! The tasks that a session has given to children.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamtam::{
    Seq, Session, SessionId, SessionOptions,
    runtime::Child,
    session::{Link, State as Conversation, TaskProgress},
};

use crate::{
    answer::{Done, Made},
    app::{Named, Said, Seen},
    levers::Reason,
    problem::{Answered, Problem},
};

/// The open tasks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tasks {
    tasks: Vec<TaskShown>,
}

/// An open task.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TaskShown {
    /// Its ticket.
    ticket: Seq,
    /// The child.
    session: SessionId,
    /// Whether it waits for room.
    queued: bool,
    /// How deep the child is below the topmost session.
    depth: u32,
    /// How the child is tied to the session.
    link: Link,
    /// How far it is; null while it waits, or if the child cannot answer.
    progress: Option<TaskProgress>,
}

pub(crate) async fn list(Seen(session): Seen) -> Answered<Json<Tasks>> {
    let (state, mut tasks) = (session.peek().await?, Vec::new());
    if state.tasks().next().is_none() {
        // A session that sleeps has given none, and stays asleep.
        return Ok(Json(Tasks { tasks }));
    }
    for child in session.tasks().await? {
        tasks.extend(shown(&state, &child).await);
    }
    Ok(Json(Tasks { tasks }))
}

/// `None` if the task has ended meanwhile.
async fn shown(state: &Conversation, child: &Child) -> Option<TaskShown> {
    let (_, task) = state.tasks().find(|(ticket, _)| *ticket == child.ticket())?;
    // A child that cannot answer is shown without its progress.
    let progress = if task.queued { None } else { child.progress().await.ok() };
    Some(TaskShown {
        ticket: child.ticket(),
        session: task.child.clone(),
        queued: task.queued,
        depth: task.depth,
        link: task.link,
        progress,
    })
}

async fn task_of(session: &Session, ticket: Seq) -> Answered<Child> {
    let task = session.tasks().await?.into_iter().find(|child| child.ticket() == ticket);
    task.ok_or_else(|| Problem::not_found(format!("no task of this session has the ticket {ticket}")))
}

pub(crate) async fn look(Seen(session): Seen, name: Named) -> Answered<Json<TaskShown>> {
    let ticket = name.seq()?;
    let (child, state) = (task_of(&session, ticket).await?, session.state().await?);
    let shown = shown(&state, &child).await;
    shown.map(Json).ok_or_else(|| Problem::not_found(format!("the task {ticket} is over")))
}

/// A task to be given.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewTask")]
pub(crate) struct Task {
    /// What the child is told.
    prompt: String,
    /// The child's id: the same again is the same task.
    #[serde(default)]
    id: Option<String>,
    /// The child's title.
    #[serde(default)]
    title: Option<String>,
}

/// A task that was given.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Given {
    /// Its ticket.
    ticket: Seq,
    /// The child.
    session: SessionId,
}

/// Gives a task to a child with the rights of the session or fewer, and with its labels.
pub(crate) async fn give(Seen(session): Seen, Said(task): Said<Task>) -> Answered<Made<Given>> {
    let state = session.state().await?;
    let mut options = SessionOptions::new(&state.settings.workspace);
    options.id = task.id.map(|id| id.parse()).transpose()?;
    (options.title, options.labels) = (task.title, state.settings.labels.clone());
    (options.asks_wait, options.budget) = (state.settings.asks_wait, Default::default());
    let child = session.spawn_child(options, task.prompt, Link::LINKED).await?;
    Ok(Made(Given { ticket: child.ticket(), session: child.session().id().clone() }))
}

pub(crate) async fn stop(Seen(session): Seen, name: Named, Said(reason): Said<Reason>) -> Answered<Done> {
    task_of(&session, name.seq()?).await?.stop(reason.words()).await?;
    Ok(Done)
}
