//! A chat service over HTTP: events as SSE, steering, questions to people, budgets, children. It continues after a restart.
//!
//! `cargo run --example service -- 127.0.0.1:8080`, then `curl -N localhost:8080/sessions/s1/events` alongside a `curl
//! localhost:8080/sessions/s1/messages --json '{"text":"primes 20"}'`; `POST /sessions` with `{"id":"s1"}` makes it first.
//!
//! | request | does |
//! |---|---|
//! | `POST /sessions` | makes a conversation, or opens the one of that id |
//! | `GET /sessions?text=WORDS&after=NEXT` | a page of conversations, and where the next one begins |
//! | `GET /sessions/{id}`, `DELETE /sessions/{id}` | what was said; removes the conversation permanently |
//! | `POST /sessions/{id}/messages` | sends a message: `queue`, `skip`, `finish` or `abort` says what becomes of what runs |
//! | `POST /sessions/{id}/abort`, `POST /sessions/{id}/tasks` | ends the running turn; gives a task to a child |
//! | `GET /sessions/{id}/events` | the events as SSE; `Last-Event-ID` continues where a client stopped |
//! | `GET /sessions/{id}/asks`, `POST /sessions/{id}/asks/{ask}` | the open questions; answers one |
//! | `GET /tree` | the supervision tree |

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, Sse, sse},
    routing::{get, post},
};
use futures_util::{Stream, StreamExt as _};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    Delivery, Message, Part, Runtime, Seq, Session, SessionId, SessionOptions, Steering,
    hook::{Hook, HookCall, HookContext, Input, Verdict},
    model::{AnswerPart, BoxFuture, Model, Reply, Request, Scripted, transcript},
    ops::SessionQuery,
    permission::{Action, Rule, Ruleset},
    runtime::{Kind, StartError},
    session::{Grant, Link, Next},
    tape::Behind,
    tool::{self, Effect},
};

#[derive(Deserialize, JsonSchema)]
struct Primes {
    /// Primes below this number are listed.
    below: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    /// What to write down.
    text: String,
}

/// Takes keys out of what people and models say, before anyone else sees it.
struct NoKeys;

fn without_keys(text: &str) -> String {
    text.split(' ').map(|word| if word.starts_with("sk-") { "[key]" } else { word }).collect::<Vec<_>>().join(" ")
}

impl Hook for NoKeys {
    fn name(&self) -> &str {
        "no keys"
    }

    fn sees_answers(&self) -> bool {
        true
    }

    fn on_input<'a>(&'a self, _: &'a HookContext, mut message: Message) -> BoxFuture<'a, Input> {
        for part in &mut message.parts {
            if let Part::Text(text) = part {
                text.text = without_keys(&text.text);
            }
        }
        Box::pin(async { Input::Pass(Box::new(message)) })
    }

    fn on_answer<'a>(&'a self, _: &'a HookContext, mut parts: Vec<AnswerPart>) -> BoxFuture<'a, Vec<AnswerPart>> {
        for part in &mut parts {
            if let AnswerPart::Text { text, .. } = part {
                *text = without_keys(text);
            }
        }
        Box::pin(async { parts })
    }
}

/// Refuses calls that would write a password down.
struct NoPasswords;

impl Hook for NoPasswords {
    fn name(&self) -> &str {
        "no passwords"
    }

    fn before_call<'a>(&'a self, call: &'a HookCall) -> BoxFuture<'a, Verdict> {
        let blocked = call.tool == "note" && call.arguments.to_string().contains("password");
        Box::pin(async move { if blocked { Verdict::Block("no passwords in notes".into()) } else { Verdict::Pass } })
    }
}

/// Starts the runtime over a folder: the tapes in one part of it, the notes in another. Interrupted turns continue automatically.
pub async fn start(folder: &std::path::Path, model: Arc<dyn Model>) -> Result<Runtime, StartError> {
    let primes = tool::typed("primes", "Lists prime numbers.", |Primes { below }, _cx| async move {
        tool::Json((2..below).filter(|n| (2..*n).all(|d| n % d != 0)).collect::<Vec<_>>())
    });
    let note = tool::typed_blocking("note", "Writes a note down.", |Note { text }, cx| {
        let path = cx.workspace.join(format!("{}.notes", cx.session));
        let mut notes = std::fs::read_to_string(&path).unwrap_or_default();
        notes.push_str(&format!("{text}\n"));
        std::fs::write(path, notes).map(|()| "written down")
    });
    Runtime::builder()
        .store(folder.join("tapes"))
        .model(model)
        .tool(primes.effect(Effect::Read).parallel())
        .tool(note)
        .hook(NoKeys)
        .hook(NoPasswords)
        .start()
        .await
}

/// What the service answers if it does not do what it was asked.
struct Failed(StatusCode, String);

fn failed(kind: Kind, error: &dyn std::fmt::Display) -> Failed {
    let status = match kind {
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Exists | Kind::Busy | Kind::Stale => StatusCode::CONFLICT,
        Kind::Limit => StatusCode::TOO_MANY_REQUESTS,
        Kind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Retry | Kind::Closed | Kind::Parked | Kind::Unsettled => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Failed(status, error.to_string())
}

macro_rules! failed_from {
    ($($error:ty),*) => { $(impl From<$error> for Failed {
        fn from(error: $error) -> Failed {
            failed(error.kind(), &error)
        }
    })* };
}

failed_from!(tamtam::SendError, tamtam::OpenError, tamtam::session::SpawnError, tamtam::runtime::DeleteError);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

type Answered = Result<Json<Value>, Failed>;

#[derive(Clone)]
struct Service {
    runtime: Runtime,
    notes: PathBuf,
}

impl Service {
    fn session(&self, id: &str) -> Result<Session, Failed> {
        parsed(id).map(|id| self.runtime.session(&id))
    }
    fn options(&self) -> SessionOptions {
        let mut options = SessionOptions::new(&self.notes);
        let rules = vec![Rule::new("primes", "*", Action::Allow), Rule::new("note", "*", Action::Ask)];
        options.rules = Some(Ruleset::new("service", rules));
        // A person may come to the page later than the question.
        options.asks_wait = true;
        options
    }
}

fn parsed(id: &str) -> Result<SessionId, Failed> {
    id.parse().map_err(|error| failed(Kind::Invalid, &error))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct New {
    id: Option<String>,
    budget_tokens: Option<u64>,
}

async fn make(State(service): State<Service>, Json(new): Json<New>) -> Answered {
    let mut options = service.options();
    options.id = new.id.as_deref().map(parsed).transpose()?;
    options.budget.session.tokens = new.budget_tokens;
    let session = service.runtime.open_or_create(options).await?;
    Ok(Json(json!({ "id": session.id() })))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wanted {
    text: String,
    after: Option<String>,
}

async fn list(State(service): State<Service>, Query(wanted): Query<Wanted>) -> Answered {
    let mut query = SessionQuery::default();
    query.limit = 200;
    query.text = wanted.text;
    let after = wanted.after.as_deref().map(|after| after.parse().map_err(|error| failed(Kind::Invalid, &error)));
    query.after = after.transpose()?;
    let page = service.runtime.sessions(query).await?;
    // A client that needs them all asks on while there is a `next`; only then `complete` says that none is missing.
    let next = page.next.as_ref().map(ToString::to_string);
    let complete = next.is_none() && page.behind == Behind::No;
    Ok(Json(json!({ "sessions": page.sessions, "next": next, "complete": complete })))
}

async fn said(State(service): State<Service>, Path(id): Path<String>) -> Answered {
    Ok(Json(json!(service.session(&id)?.messages().await?)))
}

async fn delete(State(service): State<Service>, Path(id): Path<String>) -> Result<StatusCode, Failed> {
    service.runtime.delete(&parsed(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Sent {
    text: String,
    /// The message's id: sent again under it, the message is taken once.
    id: Option<String>,
    #[serde(default)]
    delivery: String,
}

async fn send(
    State(service): State<Service>,
    Path(id): Path<String>,
    Json(sent): Json<Sent>,
) -> Result<(StatusCode, Json<Value>), Failed> {
    let delivery = match sent.delivery.as_str() {
        "" | "queue" => Delivery::Queue,
        "skip" => Delivery::Steer(Steering::SkipRemaining),
        "finish" => Delivery::Steer(Steering::FinishBatch),
        "abort" => Delivery::Steer(Steering::AbortRunning),
        other => return Err(failed(Kind::Invalid, &format!("no such delivery: {other}"))),
    };
    let message = Message::user(sent.text);
    let message = if let Some(id) = sent.id { message.with_id(id.as_str().into()) } else { message };
    let receipt = service.session(&id)?.send(message, delivery).await?;
    let receipt = json!({ "message": receipt.message, "seq": receipt.seq, "disposition": receipt.disposition });
    Ok((StatusCode::ACCEPTED, Json(receipt)))
}

async fn abort(State(service): State<Service>, Path(id): Path<String>) -> Answered {
    let aborted = service.session(&id)?.abort("a client asked for it").await?;
    Ok(Json(json!({ "recorded": aborted.recorded })))
}

async fn task(State(service): State<Service>, Path(id): Path<String>, Json(sent): Json<Sent>) -> Answered {
    let child = service.session(&id)?.spawn_child(service.options(), sent.text, Link::LINKED).await?;
    Ok(Json(json!({ "child": child.session().id(), "ticket": child.ticket() })))
}

/// Durable events have ids; a client that comes again names the last one, and misses none. Text as it is written has no id.
async fn events(
    State(service): State<Service>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<sse::Event, Infallible>>>, Failed> {
    let session = service.session(&id)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.split('.').next()?.parse().ok());
    let events = session.events_after(Seq(last.unwrap_or(0))).await?;
    let shown = events.map(|next| {
        Ok(match next {
            Next::Event(event) => {
                let shown = sse::Event::default().json_data(&*event).unwrap_or_default();
                if event.id.is_durable() { shown.id(event.id.to_string()) } else { shown }
            }
            Next::Lagged(missed) => sse::Event::default().event("lagged").data(missed.to_string()),
            _ => sse::Event::default().comment("unknown here"),
        })
    });
    Ok(Sse::new(shown).keep_alive(sse::KeepAlive::default()))
}

async fn asks(State(service): State<Service>, Path(id): Path<String>) -> Answered {
    let state = service.session(&id)?.state().await?;
    let asks: Vec<_> = state.asks().map(|(ask, open)| json!({ "ask": ask, "access": open.access })).collect();
    Ok(Json(json!(asks)))
}

#[derive(Deserialize)]
struct Said {
    allow: bool,
}

async fn answer(
    State(service): State<Service>,
    Path((id, ask)): Path<(String, u64)>,
    Json(said): Json<Said>,
) -> Result<StatusCode, Failed> {
    let grant = if said.allow { Grant::Once } else { Grant::Reject(Some("a person said no".into())) };
    service.session(&id)?.answer(Seq(ask), grant).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn tree(State(service): State<Service>) -> String {
    service.runtime.tree().to_string()
}

/// Serves until `stop` resolves. Then the running turns are finished and the runtime ends, before the server does: event streams end
/// with the runtime, and a server that waits for its connections would wait for them.
pub async fn serve(
    listener: tokio::net::TcpListener,
    runtime: Runtime,
    notes: PathBuf,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let app = Router::new()
        .route("/sessions", post(make).get(list))
        .route("/sessions/{id}", get(said).delete(delete))
        .route("/sessions/{id}/messages", post(send))
        .route("/sessions/{id}/abort", post(abort))
        .route("/sessions/{id}/tasks", post(task))
        .route("/sessions/{id}/events", get(events))
        .route("/sessions/{id}/asks", get(asks))
        .route("/sessions/{id}/asks/{ask}", post(answer))
        .route("/tree", get(tree))
        .with_state(Service { runtime: runtime.clone(), notes });
    let stopped = async move {
        stop.await;
        runtime.drain(Duration::from_secs(10)).await;
        runtime.shutdown().await;
    };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await
}

/// A model without a network: the first word tells it what to do.
pub fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    let last = said.lines().next_back().unwrap_or_default();
    match last.split_once(": ").map(|(who, text)| (who, text.split_once(' '))) {
        Some(("user", Some(("primes", below)))) => Reply::call("primes", json!({ "below": below.parse::<u32>().ok() })),
        Some(("user", Some(("note", text)))) => Reply::call("note", json!({ "text": text })),
        _ => Reply::text(format!("I was told: {last}")),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = PathBuf::from("service-data");
    std::fs::create_dir_all(folder.join("notes"))?;
    let runtime = start(&folder, Arc::new(Scripted::from_fn(reply))).await?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let stop = async { drop(tokio::signal::ctrl_c().await) };
    Ok(serve(listener, runtime, folder.join("notes"), stop).await?)
}
