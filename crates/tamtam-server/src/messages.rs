//! Messages: send, read page by page; and those that still wait.

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tamtam::{Delivery, Message, MessageId, Session, session::MessageCursor};

use crate::{
    app::{App, Granted, Named, Params, Said, Seen},
    problem::{Answered, Problem},
    wire::NewMessage,
};

/// The messages of a page, if the client does not say.
const PAGE: usize = 50;

/// How often a page is read again because the session went on meanwhile.
const LOOKS: usize = 3;

/// Sends a message, and returns its receipt: then it is on the tape.
pub(crate) async fn send(session: &Session, new: &NewMessage, message: Message, delivery: Delivery) -> Answered<Value> {
    let receipt = match (new.when_room, new.expect_turn) {
        (true, Some(_)) => return Err(Problem::invalid("`when_room` and `expect_turn` exclude each other")),
        (true, None) => session.send_when_room(message, delivery).await?,
        (false, turn) => session.send_to_turn(message, delivery, turn.map(tamtam::Seq)).await?,
    };
    Ok(json!(receipt))
}

pub(crate) async fn post(
    State(app): State<App>,
    Granted(scope): Granted,
    Seen(session): Seen,
    Said(new): Said<NewMessage>,
) -> Answered<Response> {
    app.shows_agent(&scope, new.agent.as_deref())?;
    let (message, delivery) = (new.message()?, new.delivery()?);
    let receipt = send(&session, &new, message, delivery).await?;
    Ok((StatusCode::ACCEPTED, Json(receipt)).into_response())
}

pub(crate) async fn page(State(app): State<App>, Seen(session): Seen, mut params: Params) -> Answered<Json<Value>> {
    let limit = params.parse("limit")?.unwrap_or(PAGE);
    let before = params.take("before").map(|cursor| cursor_of(&cursor)).transpose()?;
    params.end()?;
    // The entry up to which the page is complete. While entries come one behind the other, the page may show more than that.
    let mut seq = last_entry(&app, &session).await?;
    let mut page = session.messages_before(before, limit).await?;
    for _ in 0..LOOKS {
        let now = last_entry(&app, &session).await?;
        if now == seq {
            break;
        }
        seq = now;
        page = session.messages_before(before, limit).await?;
    }
    let next = page.next.map(|next| format!("{}.{}", next.entry, next.nth));
    Ok(Json(json!({ "messages": page.messages, "next": next, "seq": seq })))
}

/// The last entry of a session's tape. Wakes nothing.
async fn last_entry(app: &App, session: &Session) -> Answered<tamtam::Seq> {
    if session.is_awake()
        && let Ok(state) = session.peek().await
    {
        return Ok(state.seq);
    }
    let listed = app.runtime.find(session.id()).await?;
    Ok(listed.ok_or_else(|| Problem::not_found(format!("there is no session {}", session.id())))?.seq)
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

pub(crate) async fn queue(Seen(session): Seen) -> Answered<Json<Value>> {
    let state = session.peek().await?;
    let shown = state
        .steering
        .iter()
        .chain(&state.queue)
        .map(|one| json!({ "seq": one.seq, "message": *one.message, "delivery": one.delivery }));
    Ok(Json(json!({ "waiting": shown.collect::<Vec<_>>() })))
}

pub(crate) async fn clear(Seen(session): Seen) -> Answered<Json<Value>> {
    Ok(Json(json!({ "messages": session.clear_queue().await? })))
}

pub(crate) async fn edit(
    State(app): State<App>,
    Granted(scope): Granted,
    Seen(session): Seen,
    Named(id): Named,
    Said(new): Said<NewMessage>,
) -> Answered<StatusCode> {
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
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn withdraw(Seen(session): Seen, Named(id): Named) -> Answered<StatusCode> {
    session.withdraw(MessageId::from(id.as_str())).await?;
    Ok(StatusCode::NO_CONTENT)
}
