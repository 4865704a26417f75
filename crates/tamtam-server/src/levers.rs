//! The levers of one session: abort, pause, compact, fork, go back, and commands.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tamtam::{
    Receipt, Seq, SessionId, Steering,
    runtime::Commanded,
    session::{Aborted, ForkOptions, Point, Rollback},
};

use crate::{
    answer::{Accepted, Done, Made},
    app::{App, Said, Seen},
    describe::{Answers, Operation},
    nodes::AbortPassedOn,
    problem::{Answered, Problem},
    wire::{self, NewDelivery},
};

/// Why something is to be stopped.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Reason {
    /// In words for people.
    reason: Option<String>,
}

impl Reason {
    pub(crate) fn words(self) -> String {
        self.reason.unwrap_or_else(|| "a client asked for it".to_owned())
    }
}

/// A body that says nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Which turn is to end.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TurnToAbort {
    /// In words for people.
    reason: Option<String>,
    /// The turn that is meant. Where it is over by now, nothing is stopped and the answer is 409; without it, whichever runs is.
    turn: Option<Seq>,
}

/// What an abort did.
pub(crate) enum AbortAnswer {
    /// The turn has ended.
    Here(Aborted),
    /// Another node ends it, if it runs.
    Elsewhere { runs: bool },
}

impl IntoResponse for AbortAnswer {
    fn into_response(self) -> Response {
        match self {
            AbortAnswer::Here(aborted) => Json(aborted).into_response(),
            AbortAnswer::Elsewhere { runs } => AbortPassedOn::new(runs).into_response(),
        }
    }
}

impl Answers for AbortAnswer {
    fn describe(operation: &mut Operation<'_>) {
        Json::<Aborted>::describe(operation);
        operation.answers_json::<AbortPassedOn>("202", "Another node is to do it.");
    }
}

pub(crate) async fn abort(
    State(app): State<App>,
    Seen(session): Seen,
    Said(meant): Said<TurnToAbort>,
) -> Answered<AbortAnswer> {
    let reason = Reason { reason: meant.reason }.words();
    if let Some(nodes) = app.elsewhere(&session) {
        let runs = nodes.abort(session.id(), meant.turn, reason).await?;
        return Ok(AbortAnswer::Elsewhere { runs });
    }
    Ok(AbortAnswer::Here(match meant.turn {
        Some(turn) => session.abort_turn(turn, reason).await?,
        None => session.abort(reason).await?,
    }))
}

pub(crate) async fn end(Seen(session): Seen, Said(reason): Said<Reason>) -> Answered<Done> {
    session.end(reason.words()).await?;
    Ok(Done)
}

/// Levers that take nothing and say nothing.
macro_rules! plain {
    ($($name:ident),*) => { $(pub(crate) async fn $name(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<Done> {
        session.$name().await?;
        Ok(Done)
    })* };
}

plain!(pause, resume, go_on, compact, undo_compaction, reset_loops);

/// A fork to be made.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "NewFork")]
pub(crate) struct Fork {
    /// From where; from the newest entry by default.
    at: Option<Point>,
    /// Its id; a new one if none is given. The same id again is the same fork.
    id: Option<String>,
}

pub(crate) async fn fork(Seen(session): Seen, Said(fork): Said<Fork>) -> Answered<Made<SessionNamed>> {
    let mut options = ForkOptions::newest();
    options.at = fork.at;
    options.id = fork.id.map(|id| id.parse()).transpose()?;
    let fork = session.fork(options).await?;
    Ok(Made(SessionNamed { session: fork.id().clone() }))
}

/// A session by its id.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionNamed {
    /// Its id.
    session: SessionId,
}

/// A way back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Back {
    /// To where.
    to: Point,
}

pub(crate) async fn rollback(Seen(session): Seen, Said(back): Said<Back>) -> Answered<Json<Rollback>> {
    Ok(Json(session.rollback(back.to).await?))
}

pub(crate) async fn undo(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<Json<Rollback>> {
    Ok(Json(session.undo().await?))
}

pub(crate) async fn redo(Seen(session): Seen, Said(Nothing {}): Said<Nothing>) -> Answered<Json<Rollback>> {
    Ok(Json(session.redo().await?))
}

/// A command.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewCommand")]
pub(crate) struct Line {
    /// `/NAME`, with its arguments.
    line: String,
    /// As of a message, where the command sends one.
    #[serde(default)]
    delivery: Option<NewDelivery>,
    /// As of a message.
    #[serde(default)]
    steering: Option<Steering>,
}

/// What a command did: one of these.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct CommandAnswer {
    /// It sent a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<Receipt>,
    /// It says this; the model hears nothing of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    /// It gave a task to a child.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<SessionNamed>,
}

pub(crate) async fn command(Seen(session): Seen, Said(line): Said<Line>) -> Answered<Accepted<CommandAnswer>> {
    if !line.line.starts_with('/') {
        return Err(Problem::invalid("a command begins with `/`; anything else is a message"));
    }
    let mut answer = CommandAnswer::default();
    match session.command(&line.line, wire::delivery(line.delivery, line.steering)?).await? {
        Commanded::Sent(receipt) => answer.receipt = Some(receipt),
        Commanded::Said(words) => answer.said = Some(words),
        Commanded::Task(session) => answer.task = Some(SessionNamed { session }),
        _ => {}
    }
    Ok(Accepted(answer))
}
