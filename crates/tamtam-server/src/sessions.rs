//! Sessions: make, list, look at, describe, delete.
//!
//! A session that was made belongs to the scope that made it: it gets the scope's labels, and no request of that scope takes them
//! away. A look wakes nothing.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tamtam::{
    Session, SessionId, SessionOptions,
    ops::SessionQuery,
    runtime::Kind,
    session::{Labels, State as Conversation},
    tape::{Behind, SessionStatus},
};

use crate::{
    app::{App, Granted, Params, Said, Seen, has},
    messages::send,
    options::{NewSession, Scope},
    problem::{Answered, Problem},
};

/// Makes a session, or finds the one of that id, and sends the first message.
pub(crate) async fn make(
    State(app): State<App>,
    Granted(scope): Granted,
    Said(new): Said<NewSession>,
) -> Answered<Response> {
    // The message is read first: a request that cannot be carried out whole makes no session.
    let prompt =
        new.prompt.as_ref().map(|prompt| Ok::<_, Problem>((prompt.message()?, prompt.delivery()?))).transpose()?;
    let options = options(&app, &scope, &new)?;
    let id = options.id.clone();
    let (session, status) = match app.runtime.create(options).await {
        Ok(session) => (session, StatusCode::CREATED),
        Err(error) => match id {
            Some(id) if error.kind() == Kind::Exists => (existing(&app, &scope, &id).await?, StatusCode::OK),
            _ => return Err(error.into()),
        },
    };
    let receipt = match (prompt, &new.prompt) {
        (Some((message, delivery)), Some(prompt)) => Some(send(&session, prompt, message, delivery).await?),
        _ => None,
    };
    let body = json!({ "session": shown(&app, &session).await?, "receipt": receipt });
    Ok((status, Json(body)).into_response())
}

/// The session that has this id already, if it is one of the scope's.
async fn existing(app: &App, scope: &Scope, id: &SessionId) -> Answered<Session> {
    match app.seen(scope, id.as_str()).await {
        Ok(_) => Ok(app.runtime.open(id).await?),
        Err(problem) if problem.is_not_found() => Err(Problem::of(Kind::Exists, &format!("the id {id} is taken"))),
        Err(problem) => Err(problem),
    }
}

/// The options of a new session: the host's, with what a client chooses, and with the labels of its scope.
fn options(app: &App, scope: &Scope, new: &NewSession) -> Answered<SessionOptions> {
    let of_prompt = new.prompt.as_ref().and_then(|prompt| prompt.agent.as_deref());
    app.shows_agent(scope, new.agent.as_deref()).and_then(|()| app.shows_agent(scope, of_prompt))?;
    let mut options = (app.options.new_session)(new, scope)?;
    if let Some(name) = &new.agent {
        let agents = app.runtime.agents();
        options = as_agent(options, agents.primary(name).map_err(Problem::invalid)?)?;
    }
    if let Some(model) = &new.model {
        options.model = Some(model.parse()?);
    }
    if let Some(id) = &new.id {
        options.id = Some(id.parse()?);
    }
    options.title = new.title.clone().or(options.title);
    let labels = Labels::new(&new.labels)?.or(&options.labels)?;
    options.labels = within(scope, labels)?;
    Ok(options)
}

/// The host's options for a session of this agent: the agent says who it is, the host what it may.
fn as_agent(host: SessionOptions, agent: &tamtam::runtime::Agent) -> Answered<SessionOptions> {
    let mut options = SessionOptions::from_agent(agent, &host.workspace).map_err(Problem::invalid)?;
    options.system = host.system.or(options.system);
    options.tools = host.tools.or(options.tools);
    options.date = host.date;
    (options.rules, options.rules_below, options.granted) = (host.rules, host.rules_below, host.granted);
    (options.budget, options.asks_wait, options.ask_limit) = (host.budget, host.asks_wait, host.ask_limit);
    (options.labels, options.restart, options.title) = (host.labels, host.restart, host.title);
    (options.task_depth_max, options.task_width_max) = (host.task_depth_max, host.task_width_max);
    options.task_queue_max = host.task_queue_max;
    options.steps_max = host.steps_max.or(options.steps_max);
    Ok(options)
}

/// The labels, with those of the scope. A client cannot choose others in their place.
fn within(scope: &Scope, labels: Labels) -> Answered<Labels> {
    let Scope::Labels(own) = scope else { return Ok(labels) };
    let clash = own.iter().find(|(key, value)| labels.get(key).is_some_and(|chosen| chosen != *value));
    match clash {
        Some((key, _)) => Err(Problem::forbidden(format!("the label `{key}` is not yours to choose"))),
        None => Ok(labels.or(own)?),
    }
}

pub(crate) async fn list(State(app): State<App>, Granted(scope): Granted, mut params: Params) -> Answered<Json<Value>> {
    let mut query = SessionQuery::default();
    query.limit = params.parse("limit")?.unwrap_or(query.limit);
    query.after = params.parse("after")?;
    query.text = params.take("text").unwrap_or_default();
    query.agent = params.take("agent");
    query.status = params.take("status").map(|status| status_of(&status)).transpose()?;
    let wanted = Labels::new(params.with_prefix("label."))?;
    params.end()?;
    query.labels = match &scope {
        // A client that asks for another tenant's label asks for nothing that it could see.
        Scope::Labels(own) if own.iter().any(|(key, value)| wanted.get(key).is_some_and(|asked| asked != value)) => {
            return Ok(Json(
                json!({ "sessions": [], "next": null, "behind": "no", "indexed": true, "complete": true }),
            ));
        }
        Scope::Labels(own) => wanted.or(own)?,
        Scope::All => wanted,
    };
    let page = app.runtime.sessions(query).await?;
    // A client that needs them all asks on while there is a `next`; only then `complete` says that none is missing.
    let complete = page.next.is_none() && page.behind == Behind::No;
    let mut shown = json!(page);
    shown["complete"] = json!(complete);
    Ok(Json(shown))
}

fn status_of(status: &str) -> Answered<SessionStatus> {
    match status {
        "live" => Ok(SessionStatus::Live),
        "passive" => Ok(SessionStatus::Passive),
        "parked" => Ok(SessionStatus::Parked),
        "hidden" => Ok(SessionStatus::Hidden),
        _ => Err(Problem::invalid("`status` is live, passive, parked or hidden")),
    }
}

pub(crate) async fn look(State(app): State<App>, Seen(session): Seen) -> Answered<Json<Value>> {
    shown(&app, &session).await.map(Json)
}

/// The session as a list shows it, and what it does now while it is awake.
async fn shown(app: &App, session: &Session) -> Answered<Value> {
    let id = session.id();
    let listed = app.runtime.find(id).await?.ok_or_else(|| Problem::not_found(format!("there is no session {id}")))?;
    // A session that is stuck, or just parked, is shown without it.
    let state = if session.is_awake() { session.peek().await.ok() } else { None };
    let mut shown = json!(listed);
    if let Some(state) = &state {
        shown["seq"] = json!(state.seq);
        if let Some(title) = &state.settings.title {
            shown["title"] = json!(title);
        }
        shown["labels"] = json!(state.settings.labels);
    }
    shown["now"] = state.as_ref().map_or(Value::Null, now);
    Ok(shown)
}

fn now(state: &Conversation) -> Value {
    json!({
        "seq": state.seq,
        "turn": state.turn.as_ref().map(|turn| turn.id),
        "step": state.turn.as_ref().map(|turn| turn.step),
        "paused": state.paused,
        "on_hold": state.on_hold,
        "interrupted": state.waits,
        "ended": state.closed,
        "steering": state.steering.len(),
        "queued": state.queue.len(),
        "asks": state.asks().count() + state.task_asks().count() + usize::from(state.budget_ask().is_some()),
        "tasks": state.tasks().count(),
        "spent": state.spent.shown(),
        "left": state.left().shown(),
    })
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Described {
    /// `Some(None)` takes the title away.
    #[serde(deserialize_with = "given")]
    title: Option<Option<String>>,
    labels: Option<BTreeMap<String, String>>,
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

pub(crate) async fn describe(
    Granted(scope): Granted,
    Seen(session): Seen,
    Said(described): Said<Described>,
) -> Answered<StatusCode> {
    let labels = described.labels.map(|labels| within(&scope, Labels::new(labels)?)).transpose()?;
    if let Some(title) = described.title {
        session.set_title(title).await?;
    }
    if let Some(labels) = labels {
        debug_assert!(matches!(&scope, Scope::All) || matches!(&scope, Scope::Labels(own) if has(&labels, own)));
        session.set_labels(labels).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(State(app): State<App>, Seen(session): Seen) -> Answered<Json<Value>> {
    Ok(Json(json!(app.runtime.delete(session.id()).await?)))
}
