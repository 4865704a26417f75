//! Messages: send, read page by page; and those that still wait.

use std::sync::Arc;

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tamtam::{
    Delivery, Message, MessageId, Receipt, SendError, Seq, Session,
    session::{Ahead, MessageCursor},
};

use crate::{
    answer::{Accepted, Done},
    app::{App, Asked, Granted, InTrace, Named, Said, Seen},
    nodes::{PassedOn, pass_on},
    problem::{Answered, Problem, is_anothers},
    wire::NewMessage,
};

/// The messages of a page, if the client does not say.
const PAGE: usize = 50;

/// How often a page is read again because the session went on meanwhile.
const LOOKS: usize = 3;

/// What became of a message that was sent.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Sent {
    /// It is on the tape.
    Here(Receipt),
    /// Another node gives it to its session.
    Elsewhere(PassedOn),
}

/// Sends a message: on the tape where the session is awake here, else by the nodes if there are others.
pub(crate) async fn send(
    app: &App,
    session: &Session,
    new: &NewMessage,
    message: Message,
    delivery: Delivery,
) -> Answered<Sent> {
    // Which turn runs is known where the session is. What waits for room does so on the way, too.
    let nodes = app.nodes.as_deref().filter(|_| new.expect_turn.is_none());
    if let (Some(nodes), false) = (nodes, session.is_awake()) {
        return pass_on(nodes, session.id(), message, delivery).await.map(Sent::Elsewhere);
    }
    let again = nodes.map(|nodes| (nodes, message.clone()));
    let sent = match (new.when_room, new.expect_turn) {
        (true, Some(_)) => return Err(Problem::invalid("`when_room` and `expect_turn` exclude each other")),
        (true, None) => session.send_when_room(message, delivery).await,
        (false, turn) => session.send_to_turn(message, delivery, turn.map(Seq)).await,
    };
    match (sent, again) {
        (Err(error), Some((nodes, message))) if matches!(error, SendError::Draining) || is_anothers(&error) => {
            pass_on(nodes, session.id(), message, delivery).await.map(Sent::Elsewhere)
        }
        (sent, _) => Ok(Sent::Here(sent?)),
    }
}

pub(crate) async fn post(
    State(app): State<App>,
    Granted(scope): Granted,
    Seen(session): Seen,
    trace: InTrace,
    Said(new): Said<NewMessage>,
) -> Answered<Accepted<Sent>> {
    app.shows_agent(&scope, new.agent.as_deref())?;
    let (message, delivery) = (trace.of(new.message()?), new.delivery()?);
    send(&app, &session, &new, message, delivery).await.map(Accepted)
}

/// Which messages are shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    /// The `next` of the page before.
    before: Option<String>,
    /// The most messages of the page.
    limit: Option<usize>,
}

/// A page of a conversation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Messages {
    /// Newest first.
    messages: Vec<Message>,
    /// Where the next page begins; null if there is nothing older.
    next: Option<String>,
    /// The entry up to which the page is complete: listen behind it.
    seq: Seq,
}

pub(crate) async fn page(Seen(session): Seen, Asked(asked): Asked<Reading>) -> Answered<Json<Messages>> {
    let limit = asked.limit.unwrap_or(PAGE);
    let before = asked.before.map(|cursor| cursor_of(&cursor)).transpose()?;
    // The entry up to which the page is complete. While entries come one behind the other, the page may show more than that.
    let mut seq = session.last_entry().await?;
    let mut page = session.messages_before(before, limit).await?;
    for _ in 0..LOOKS {
        let now = session.last_entry().await?;
        if now == seq {
            break;
        }
        seq = now;
        page = session.messages_before(before, limit).await?;
    }
    let next = page.next.map(|next| format!("{}.{}", next.entry, next.nth));
    Ok(Json(Messages { messages: page.messages, next, seq }))
}

fn cursor_of(cursor: &str) -> Answered<MessageCursor> {
    let read = || {
        let (entry, nth) = cursor.split_once('.')?;
        let (entry, nth) = (entry.parse::<u64>().ok()?, nth.parse::<u32>().ok()?);
        serde_json::from_value(json!({ "entry": entry, "nth": nth })).ok()
    };
    read().ok_or_else(|| {
        Problem::invalid(format!("not a page cursor: {:?}", cursor.chars().take(40).collect::<String>()))
    })
}

/// The messages that wait.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Queue {
    /// Next first.
    waiting: Vec<WaitingShown>,
}

/// A message that waits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WaitingShown {
    /// The entry that accepted it.
    seq: Seq,
    /// The message.
    message: Arc<Message>,
    /// What its sender chose.
    delivery: Delivery,
    /// How far it has come on its way into the answer that is being made.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<Ahead>,
}

async fn all_waiting(session: &Session) -> Answered<Vec<WaitingShown>> {
    let state = session.peek().await?;
    let shown = |one: &tamtam::session::Waiting| WaitingShown {
        seq: one.seq,
        message: one.message.clone(),
        delivery: one.delivery,
        ahead: one.ahead,
    };
    Ok(state.steering.iter().chain(&state.queue).map(shown).collect())
}

pub(crate) async fn queue(Seen(session): Seen) -> Answered<Json<Queue>> {
    Ok(Json(Queue { waiting: all_waiting(&session).await? }))
}

pub(crate) async fn waiting(Seen(session): Seen, Named(id): Named) -> Answered<Json<WaitingShown>> {
    let waiting = all_waiting(&session).await?.into_iter().find(|one| one.message.id.as_str() == id);
    waiting.map(Json).ok_or_else(|| Problem::not_found(format!("no message {id} waits")))
}

/// The messages that were taken back.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TakenBack {
    messages: Vec<Message>,
}

pub(crate) async fn clear(Seen(session): Seen) -> Answered<Json<TakenBack>> {
    Ok(Json(TakenBack { messages: session.clear_queue().await? }))
}

pub(crate) async fn edit(
    State(app): State<App>,
    Granted(scope): Granted,
    Seen(session): Seen,
    Named(id): Named,
    Said(new): Said<NewMessage>,
) -> Answered<Done> {
    app.shows_agent(&scope, new.agent.as_deref())?;
    if new.id.is_some()
        || new.delivery.is_some()
        || new.steering.is_some()
        || new.expect_turn.is_some()
        || new.when_room
    {
        return Err(Problem::invalid("an edit changes the words of a message; its id and delivery stay"));
    }
    session.edit(new.message()?.with_id(MessageId::from(id.as_str()))).await?;
    Ok(Done)
}

pub(crate) async fn withdraw(Seen(session): Seen, Named(id): Named) -> Answered<Done> {
    session.withdraw(MessageId::from(id.as_str())).await?;
    Ok(Done)
}
