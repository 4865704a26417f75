//! Sessions: make, list, look at, describe, delete.
//!
//! A session that was made belongs to the scope that made it: it gets the scope's labels, and no request of that scope takes them
//! away. A look wakes nothing.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use tamtam::{
    Seq, Session, SessionId, SessionOptions,
    model::Params,
    ops::{ListedSession, SessionCursor, SessionQuery},
    runtime::{Deletion, Kind},
    session::{Labels, ShownLimits, ShownSpent, State as Conversation},
    tape::{Behind, ListCost, SessionStatus},
};

use crate::{
    answer::{Done, MadeOrFound},
    app::{App, Asked, Granted, InTrace, Labelled, Said, Seen, has},
    messages::{Sent, send},
    options::{NewSession, Scope},
    problem::{Answered, Problem},
};

/// A session that was made or found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NewlyMade {
    session: SessionShown,
    /// That of the first message; null if none was sent.
    receipt: Option<Sent>,
}

/// Makes a session, or finds the one of that id, and sends the first message.
pub(crate) async fn make(
    State(app): State<App>,
    Granted(scope): Granted,
    trace: InTrace,
    Said(new): Said<NewSession>,
) -> Answered<MadeOrFound<NewlyMade>> {
    // The message is read first: a request that cannot be carried out whole makes no session.
    let prompt =
        new.prompt.as_ref().map(|prompt| Ok::<_, Problem>((prompt.message()?, prompt.delivery()?))).transpose()?;
    let options = options(&app, &scope, &new)?;
    let id = options.id.clone();
    let (session, is_new) = match app.runtime.create(options).await {
        Ok(session) => (session, true),
        Err(error) => match id {
            Some(id) if error.kind() == Kind::Exists => (existing(&app, &scope, &id).await?, false),
            _ => return Err(error.into()),
        },
    };
    let receipt = match (prompt, &new.prompt) {
        (Some((message, delivery)), Some(prompt)) => {
            Some(send(&app, &session, prompt, trace.of(message), delivery).await?)
        }
        _ => None,
    };
    let made = NewlyMade { session: shown(&app, &session).await?, receipt };
    Ok(if is_new { MadeOrFound::Made(made) } else { MadeOrFound::Found(made) })
}

/// The session that has this id already, if it is one of the scope's.
async fn existing(app: &App, scope: &Scope, id: &SessionId) -> Answered<Session> {
    match app.seen(scope, id.as_str()).await {
        // Another node may have it.
        Ok(session) if app.nodes.is_some() => Ok(session),
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
        // A chain stands behind its model.
        (options.model, options.fallback) = (Some(model.parse()?), Vec::new());
    }
    if !new.fallback.is_empty() {
        options.fallback.clone_from(&new.fallback);
    }
    new.params.as_ref().map_or(Ok(()), |params| params.apply(&mut options.params))?;
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
    if options.model.is_none() {
        // A chain stands behind its model: an agent with a model of its own has its own chain, or none.
        options.model = host.model;
        if options.fallback.is_empty() {
            options.fallback = host.fallback;
        }
    }
    options.params = params_as_agent(host.params, options.params);
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

/// What the agent asks of its model, and of what it leaves out what the host says. An answer is no longer than both allow.
fn params_as_agent(host: Params, agent: Params) -> Params {
    let mut params = agent;
    params.temperature = params.temperature.or(host.temperature);
    params.top_p = params.top_p.or(host.top_p);
    params.max_output = [params.max_output, host.max_output].into_iter().flatten().min();
    params.thinking = params.thinking.or(host.thinking);
    params.answer_schema = host.answer_schema.or(params.answer_schema);
    if params.options.is_null() {
        params.options = host.options;
    }
    params
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

/// Which sessions are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    /// The most sessions of the page.
    limit: Option<usize>,
    /// The `next` of the page before.
    after: Option<String>,
    /// Words of the title or of the id.
    text: Option<String>,
    /// The name of their agent.
    agent: Option<String>,
    /// Their status.
    status: Option<SessionStatus>,
}

/// A page of sessions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Sessions {
    /// Most recently used first.
    sessions: Vec<ListedSession>,
    /// Where the next page begins; null on the last one.
    next: Option<SessionCursor>,
    /// Whether the index has not read everything.
    behind: Behind,
    /// Whether the page comes from the index.
    indexed: bool,
    /// The work that the page took.
    cost: ListCost,
    /// Whether this is the last page, and no session is missing on all of them.
    complete: bool,
}

pub(crate) async fn list(
    State(app): State<App>,
    Granted(scope): Granted,
    Asked(asked): Asked<Listing, true>,
    Labelled(labels): Labelled,
) -> Answered<Json<Sessions>> {
    let mut query = SessionQuery::default();
    query.limit = asked.limit.unwrap_or(query.limit);
    query.after = asked.after.map(|after| after.parse()).transpose()?;
    query.text = asked.text.unwrap_or_default();
    (query.agent, query.status) = (asked.agent, asked.status);
    let wanted = Labels::new(labels)?;
    query.labels = match &scope {
        // A client that asks for another tenant's label asks for nothing that it could see.
        Scope::Labels(own) if own.iter().any(|(key, value)| wanted.get(key).is_some_and(|asked| asked != value)) => {
            let (sessions, cost) = (Vec::new(), ListCost::default());
            return Ok(Json(Sessions {
                sessions,
                next: None,
                behind: Behind::No,
                indexed: true,
                cost,
                complete: true,
            }));
        }
        Scope::Labels(own) => wanted.or(own)?,
        Scope::All => wanted,
    };
    let page = app.runtime.sessions(query).await?;
    // A client that needs them all asks on while there is a `next`; only then `complete` says that none is missing.
    let complete = page.next.is_none() && page.behind == Behind::No;
    Ok(Json(Sessions {
        sessions: page.sessions,
        next: page.next,
        behind: page.behind,
        indexed: page.indexed,
        cost: page.cost,
        complete,
    }))
}

pub(crate) async fn look(State(app): State<App>, Seen(session): Seen) -> Answered<Json<SessionShown>> {
    shown(&app, &session).await.map(Json)
}

/// A session as a list shows it, and what it does now.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionShown {
    #[serde(flatten)]
    listed: ListedSession,
    /// What it does now; null while it sleeps.
    now: Option<Now>,
}

/// What a session does now.
#[derive(Serialize, JsonSchema)]
struct Now {
    /// Its last entry.
    seq: Seq,
    /// The running turn.
    turn: Option<Seq>,
    /// The step of it.
    step: Option<u32>,
    /// Whether nothing new starts.
    paused: bool,
    /// Whether its queue is on hold.
    on_hold: bool,
    /// Whether its turn waits to be continued.
    interrupted: bool,
    /// Why it has ended for good; null if it has not.
    ended: Option<Arc<str>>,
    /// How many steering messages wait.
    steering: usize,
    /// How many messages wait for a turn.
    queued: usize,
    /// How many asks are open.
    asks: usize,
    /// How many tasks are open.
    tasks: usize,
    /// What it has used.
    spent: ShownSpent,
    /// What is left of its budget.
    left: ShownLimits,
}

async fn shown(app: &App, session: &Session) -> Answered<SessionShown> {
    let id = session.id();
    let listed = app.runtime.find(id).await?.ok_or_else(|| Problem::not_found(format!("there is no session {id}")))?;
    // A session that is stuck, or just parked, is shown without it.
    let state = if session.is_awake() { session.peek().await.ok() } else { None };
    let mut shown = SessionShown { listed, now: state.as_ref().map(now) };
    if let Some(state) = &state {
        shown.listed.seq = state.seq;
        shown.listed.title = state.settings.title.clone().or(shown.listed.title);
        shown.listed.labels = state.settings.labels.clone();
    }
    Ok(shown)
}

fn now(state: &Conversation) -> Now {
    Now {
        seq: state.seq,
        turn: state.turn.as_ref().map(|turn| turn.id),
        step: state.turn.as_ref().map(|turn| turn.step),
        paused: state.paused,
        on_hold: state.on_hold,
        interrupted: state.waits,
        ended: state.closed.clone(),
        steering: state.steering.len(),
        queued: state.queue.len(),
        asks: state.asks().count() + state.task_asks().count() + usize::from(state.budget_ask().is_some()),
        tasks: state.tasks().count(),
        spent: state.spent.shown(),
        left: state.left().shown(),
    }
}

/// What changes of a session's description; what is left out stays.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Described {
    /// The title; null takes it away.
    #[serde(deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    title: Option<Option<String>>,
    /// All labels, in the place of those that it has.
    labels: Option<BTreeMap<String, String>>,
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

pub(crate) async fn describe(
    Granted(scope): Granted,
    Seen(session): Seen,
    Said(described): Said<Described>,
) -> Answered<Done> {
    let labels = described.labels.map(|labels| within(&scope, Labels::new(labels)?)).transpose()?;
    if let Some(title) = described.title {
        session.set_title(title).await?;
    }
    if let Some(labels) = labels {
        debug_assert!(matches!(&scope, Scope::All) || matches!(&scope, Scope::Labels(own) if has(&labels, own)));
        session.set_labels(labels).await?;
    }
    Ok(Done)
}

pub(crate) async fn delete(State(app): State<App>, Seen(session): Seen) -> Answered<Json<Deletion>> {
    Ok(Json(app.runtime.delete(session.id()).await?))
}
