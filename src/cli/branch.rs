//! Going back in a session that nobody runs: the conversation is changed, and no model is asked anything.

use std::sync::Arc;

use tamtam::{MessageId, NoPoint, Point, RollbackError, Runtime, SendError, SessionId, model::Scripted};

use super::{
    arguments::RollbackArguments,
    escape,
    failure::{Exit, Failure},
    place::Environment,
    print, tapes,
};

/// Takes a conversation back to a point.
pub(super) async fn rollback(given: &RollbackArguments, environment: &Environment) -> Result<Exit, Failure> {
    let store = environment.store(given.store.store.as_deref())?;
    let id = &given.session;
    let runtime = at_rest(&store, id).await?;
    let said = go_back(&runtime, given).await;
    drop(runtime.shutdown().await);
    print(&said?)?;
    Ok(Exit::Done)
}

/// Goes back, and says so.
async fn go_back(runtime: &Runtime, given: &RollbackArguments) -> Result<String, Failure> {
    let id = &given.session;
    let session = runtime.resume(id).await?;
    let back = session.rollback(point(given)).await.map_err(|error| failure(id, error))?;
    let (gone, again) = (messages("taken back", &back.gone), messages("there again", &back.again));
    let undo = format!("nothing left the tape: `tamtam tape rollback {id} --to {}` undoes this", back.entry.0 - 1);
    Ok(format!("session {id} is what it was at entry {}{gone}{again}\n{undo}\n", back.to))
}

fn point(given: &RollbackArguments) -> Point {
    match (&given.to, &given.message, &given.turn) {
        (_, Some(message), _) => Point::BeforeMessage(MessageId::from(message.as_str())),
        (_, _, Some(turn)) => Point::BeforeTurn(tamtam::Seq(*turn)),
        (to, ..) => Point::At(tamtam::Seq(to.unwrap_or_default())),
    }
}

fn messages(what: &str, ids: &[MessageId]) -> String {
    match ids {
        [] => String::new(),
        [one] => format!("\n{what}: message {}", escape::line(one.as_str())),
        many => format!("\n{what}: {} messages, {} to {}", many.len(), word(many.first()), word(many.last())),
    }
}

fn word(id: Option<&MessageId>) -> String {
    escape::line(id.map_or("", MessageId::as_str))
}

/// A runtime without a model to ask, for a session that has nothing under way.
async fn at_rest(store: &std::path::Path, id: &SessionId) -> Result<Runtime, Failure> {
    let missing = || tamtam::tape::TapeError::Missing { session: id.clone() };
    let state = tapes::state(store, id)?.ok_or_else(missing)?;
    if state.turn.is_some() || !state.is_idle() {
        return Err(Failure::failed(format!(
            "session {id} has a turn that is not over: `tamtam resume {id}` finishes it"
        )));
    }
    if state.tasks().next().is_some() {
        return Err(Failure::failed(format!("a child of session {id} is at work: `tamtam resume {id}` waits for it")));
    }
    let builder = Runtime::builder().store(store).model(Arc::new(Scripted::new([])));
    Ok(builder.without_auto_resume().start().await?)
}

fn failure(id: &SessionId, error: RollbackError) -> Failure {
    match error {
        RollbackError::NoPoint(why @ (NoPoint::Nothing | NoPoint::NothingToUndo | NoPoint::NothingToRedo)) => {
            Failure::failed(why.to_string())
        }
        RollbackError::NoPoint(why) => Failure::usage(format!("{why}; `tamtam tape show {id}` lists its entries")),
        RollbackError::Session(SendError::Busy { turn }) => {
            Failure::failed(format!("session {id} is busy with turn {turn}: wait until it is over"))
        }
        RollbackError::Session(error) => error.into(),
        RollbackError::Open(error) => error.into(),
        other => Failure::failed(other.to_string()),
    }
}
