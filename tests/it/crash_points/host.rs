//! The host of the story: it keeps a runtime up, sends the messages, answers the asks, and retries unanswered messages
//! under the same id.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    Runtime, Session, SessionId, SessionOptions,
    permission::{Action, Rule, Ruleset},
    session::{Grant, Open, State},
};

use super::{
    tools::toolbox,
    world::{MESSAGES, Server, World, message},
};

/// How long the story may take. It waits for a second of backoff in it.
const LIMIT: Duration = Duration::from_secs(60);

/// How long an answer may take before the host asks again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The session of the story.
pub(crate) fn id() -> SessionId {
    "story".parse().unwrap()
}

/// A runtime of the story, not started yet, which resumes what was interrupted.
pub(crate) fn resuming(world: &World, store: &Path) -> tamtam::runtime::Builder {
    let model = Arc::new(Server::new(world));
    Runtime::builder().store(store).model(model).tools(toolbox(world))
}

/// One that leaves it to the host: asks are denied where nobody listens, and this host listens from the start.
pub(crate) fn runtime(world: &World, store: &Path) -> tamtam::runtime::Builder {
    resuming(world, store).without_auto_resume()
}

fn rules() -> Ruleset {
    let rules = [("*", Action::Allow), ("careful", Action::Ask)];
    let rules = rules.map(|(permission, action)| Rule::new(permission, "*", action));
    Ruleset::new("story", rules)
}

/// The session. A start that fails is told to the host, who asks once more.
async fn session(runtime: &Runtime, workspace: &Path) -> Result<(Session, tamtam::EventStream), tamtam::OpenError> {
    for _ in 0..2 {
        let asked = tokio::time::timeout(PATIENCE, open(runtime, workspace)).await;
        if let Ok(Ok(heard)) = asked {
            return Ok(heard);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    open(runtime, workspace).await
}

/// The session, live: that of the runtime, the one that the store has, or a new one.
async fn open(runtime: &Runtime, workspace: &Path) -> Result<(Session, tamtam::EventStream), tamtam::OpenError> {
    match runtime.open_heard(&id()).await {
        Ok(heard) => Ok(heard),
        Err(tamtam::OpenError::Tape(tamtam::tape::TapeError::Missing { .. })) => {
            let mut options = SessionOptions::new(workspace).id(id()).system("Tell the story.");
            options.rules = Some(rules());
            let session = runtime.create(options).await?;
            let events = session.events();
            Ok((session, events))
        }
        Err(error) => Err(error),
    }
}

/// Plays the story to its end on that runtime, and gives the state it ends in.
pub(crate) async fn play(runtime: &Runtime, world: &World, workspace: &Path) -> Result<State, String> {
    world.want(MESSAGES[0], tamtam::Delivery::Queue);
    let played = tokio::time::timeout(LIMIT, go_on(runtime, world, workspace)).await;
    played.unwrap_or_else(|_| Err(format!("the story does not end; the tree:\n{}", runtime.tree())))
}

async fn go_on(runtime: &Runtime, world: &World, workspace: &Path) -> Result<State, String> {
    let (session, events) = session(runtime, workspace).await.map_err(|error| format!("no session: {error}"))?;
    loop {
        if let Some((id, delivery)) = world.next_wanted() {
            let sent = tokio::time::timeout(PATIENCE, session.send(message(id), delivery)).await;
            match sent {
                Ok(Ok(receipt)) => {
                    assert_eq!(receipt.message.as_str(), id);
                    world.look().acked.insert(id);
                }
                // An engine that panicked over its mark is a storage failure: nothing was taken, so the host asks again.
                Ok(Err(tamtam::SendError::Storage(_))) => continue,
                Ok(Err(error)) => return Err(format!("{id} was refused: {error}")),
                Err(_) => return Err(format!("{id} got no answer; the tree:\n{}", runtime.tree())),
            }
        }
        let state = tokio::time::timeout(PATIENCE, session.state()).await;
        let state = state.map_err(|_| format!("no answer about the state; the tree:\n{}", runtime.tree()))?;
        let state = state.map_err(|error| format!("no state: {error}"))?;
        let last = MESSAGES[MESSAGES.len() - 1];
        if state.is_idle() && state.ended.iter().any(|end| end.messages.iter().any(|id| id.as_str() == last)) {
            drop(events);
            return Ok(state);
        }
        let asks: Vec<_> =
            state.open.iter().filter(|(_, open)| matches!(open, Open::Ask(_))).map(|(ask, _)| *ask).collect();
        for ask in asks {
            // Where it is closed already, somebody was faster: an earlier life of this host.
            let _ = tokio::time::timeout(PATIENCE, session.answer(ask, Grant::Once)).await;
        }
        if state.waits || state.on_hold {
            session.go_on().await.map_err(|error| format!("it cannot be told to go on: {error}"))?;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
