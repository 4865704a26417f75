//! Sessions of a client: make, load, resume, list, close, delete.
//!
//! A session that is loaded goes on by itself where its turn was cut off, and its open questions are put again. All that is told of
//! the past is of one moment: the entries of the tape are read once, and the events behind the last of them follow.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};
use tamtam::{
    EventStream, Session, SessionId,
    ops::{Parent, SessionQuery},
    runtime::Kind,
    session::{State, Transcript},
};
use tokio::sync::oneshot;

use crate::{
    calls,
    connection::{Connection, Done},
    held::{Beginning, Held},
    options::HandedServer,
    rpc::{Fault, params},
    settings,
    updates::Updates,
};

/// How many servers of tools a client may name with a session.
const SERVERS_MAX: usize = 16;

/// How often a session that another process has is tried, and how long in between: about five seconds in all.
const CLAIM_TRIES_MAX: u32 = 20;
const CLAIM_TRY_AGAIN: Duration = Duration::from_millis(250);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    session_id: Option<String>,
    cwd: PathBuf,
    #[serde(default)]
    additional_directories: Vec<PathBuf>,
    #[serde(default)]
    mcp_servers: Vec<NamedServer>,
}

#[derive(Deserialize)]
struct NamedServer {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<Variable>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// A session by its id.
#[derive(Deserialize)]
pub(crate) struct Named {
    #[serde(rename = "sessionId")]
    pub(crate) session: String,
}

/// What a client begins with.
enum Way {
    /// All that was said before is told.
    Load,
    /// Only what comes is told.
    Resume,
}

pub(crate) async fn new(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    let place = placed(params(given)?)?;
    let make = connection.options.new_session.clone();
    let make = make.ok_or_else(|| Fault::failed("this agent makes no sessions: load one").kind("forbidden"))?;
    connection.has_room()?;
    let cwd = place.cwd.clone();
    let options = tokio::task::spawn_blocking(move || make(&cwd)).await.map_err(Fault::failed)?;
    let options = options.map_err(Fault::failed)?;
    offer(connection, place).await?;
    let session = connection.runtime.create(options).await?;
    let events = session.events();
    let state = session.state().await?;
    let mut result = chosen(connection, &state);
    result["sessionId"] = session.id().to_string().into();
    hold(connection, session, events, state, Vec::new(), result).await
}

pub(crate) async fn load(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    take_up(connection, given, Way::Load).await
}

pub(crate) async fn resume(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    take_up(connection, given, Way::Resume).await
}

async fn take_up(connection: &Arc<Connection>, given: Value, way: Way) -> Result<Done, Fault> {
    let place = placed(params(given)?)?;
    let id = id(place.session_id.as_deref().ok_or_else(|| Fault::bad_params("sessionId: it is missing"))?)?;
    if connection.held(&id).is_err() {
        connection.has_room()?;
    }
    if !connection.runtime.exists(&id).await? {
        return Err(Fault::not_found(format!("there is no session {id}")));
    }
    offer(connection, place).await?;
    // The first stream listens from before the session goes on, so that what it asks at once is not denied.
    let (session, listening) = opened(connection, &id).await?;
    let entries = session.entries().await?;
    let state = State::fold(&entries).ok_or_else(|| Fault::not_found(format!("session {id} has no entry yet")))?;
    let events = session.events_after(state.seq).await?;
    drop(listening);
    let past = match way {
        Way::Load => Transcript::of(&entries),
        Way::Resume => Vec::new(),
    };
    let result = chosen(connection, &state);
    hold(connection, session, events, state, past, result).await
}

/// Opens a session. The process of a client that died a moment ago may still have it, so this waits for that.
async fn opened(connection: &Connection, id: &SessionId) -> Result<(Session, EventStream), Fault> {
    for _ in 1..CLAIM_TRIES_MAX {
        match connection.runtime.open_heard(id).await {
            Err(error) if error.kind() == Kind::Busy => tokio::time::sleep(CLAIM_TRY_AGAIN).await,
            opened => return Ok(opened?),
        }
    }
    Ok(connection.runtime.open_heard(id).await?)
}

/// Tells the client the past, and shows it what comes once it has the answer.
async fn hold(
    connection: &Arc<Connection>,
    session: Session,
    events: EventStream,
    state: State,
    past: Vec<tamtam::Message>,
    result: Value,
) -> Result<Done, Fault> {
    let mut updates =
        Updates::new(state.settings.workspace.clone().into(), connection.shows(), state.request().is_some());
    state.steering.iter().chain(&state.queue).for_each(|waiting| updates.waits(&waiting.message));
    for message in &past {
        for update in updates.past(message) {
            connection.tell_update(session.id(), update).await?;
        }
    }
    for (ticket, call) in state.calls() {
        if let Some(update) = updates.is_open(ticket, call) {
            connection.tell_update(session.id(), update).await?;
        }
    }
    let todos = serde_json::to_value(state.todos()).unwrap_or_default();
    if let Some(plan) = calls::plan(&todos).filter(|_| !state.todos().is_empty()) {
        connection.tell_update(session.id(), plan).await?;
    }
    let (start, started) = oneshot::channel();
    let workspace = state.settings.workspace.clone();
    let beginning = Beginning {
        session: session.clone(),
        events,
        updates,
        state,
        runtime: connection.runtime.clone(),
        options: connection.options.clone(),
        answers: Arc::new(connection.answers()),
    };
    connection.hold(session.id().clone(), &workspace, Held::begin(beginning, started))?;
    Ok(Done { result, then: Some(start) })
}

/// What is chosen in a session, and what may be.
fn chosen(connection: &Connection, state: &State) -> Value {
    let (runtime, options) = (&connection.runtime, &*connection.options);
    json!({
        "modes": settings::modes(state, runtime), "configOptions": settings::options(state, runtime, options),
        "_meta": { "tamtam": { "workspace": state.settings.workspace, "seq": state.seq } },
    })
}

fn placed(place: Place) -> Result<Place, Fault> {
    if !place.cwd.is_absolute() {
        return Err(Fault::bad_params("cwd: it is an absolute path"));
    }
    if !place.additional_directories.is_empty() {
        return Err(Fault::bad_params("additionalDirectories: a session works in one folder: leave them out"));
    }
    if place.mcp_servers.len() > SERVERS_MAX {
        return Err(Fault::bad_params(format!("mcpServers: at most {SERVERS_MAX} are taken")));
    }
    Ok(place)
}

/// Offers the tools of the servers that the client names.
async fn offer(connection: &Connection, place: Place) -> Result<(), Fault> {
    if place.mcp_servers.is_empty() {
        return Ok(());
    }
    let refused = || Fault::failed("this agent takes no servers of tools: leave `mcpServers` empty").kind("forbidden");
    let offer = connection.options.tool_servers.clone().ok_or_else(refused)?;
    let folder = place.cwd;
    let servers = place.mcp_servers.into_iter().map(|server| {
        let kind = server.kind.as_deref().unwrap_or("stdio");
        let command = server.command.filter(|_| kind == "stdio").ok_or_else(|| {
            Fault::bad_params(format!("mcpServers: {:?} speaks {kind}: only programs are taken", server.name))
        })?;
        let environment = server.env.into_iter().map(|variable| (variable.name, variable.value)).collect();
        let (name, arguments, folder) = (server.name, server.args, folder.clone());
        Ok(HandedServer { name, command, arguments, environment, folder })
    });
    offer(servers.collect::<Result<_, Fault>>()?).await.map_err(Fault::failed)
}

/// The id of a session.
pub(crate) fn id(given: &str) -> Result<SessionId, Fault> {
    given.parse().map_err(|bad| Fault::bad_params(format!("sessionId: {bad}")))
}

#[derive(Deserialize)]
struct Listing {
    cwd: Option<PathBuf>,
    cursor: Option<String>,
}

/// A page of sessions, most recently used first. Tasks are left out: they belong to their sessions.
pub(crate) async fn list(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    let listing: Listing = params(given)?;
    let mut query = SessionQuery::default();
    query.limit = 50;
    let cursor = listing.cursor.map(|cursor| cursor.parse());
    query.after = cursor.transpose().map_err(|bad| Fault::bad_params(format!("cursor: {bad}")))?;
    let page = connection.runtime.sessions(query).await?;
    let is_meant = |workspace: &str| listing.cwd.as_deref().is_none_or(|cwd| cwd == Path::new(workspace));
    let sessions = page.sessions.iter().filter(|one| !matches!(one.parent, Some(Parent::TaskOf { .. })));
    let sessions = sessions.filter_map(|one| {
        let workspace = one.workspace.as_deref().filter(|workspace| is_meant(workspace))?;
        let mut info = json!({ "sessionId": one.session, "cwd": workspace, "title": one.title });
        let last = one.last.and_then(|last| jiff::Timestamp::from_millisecond(i64::try_from(last.0).ok()?).ok());
        info["updatedAt"] = last.map(|last| last.to_string()).into();
        info["_meta"] = json!({ "tamtam": { "status": one.status, "open": one.open } });
        Some(info)
    });
    let sessions: Vec<_> = sessions.collect();
    let mut result = json!({ "sessions": sessions });
    if let Some(next) = page.next {
        result["nextCursor"] = next.to_string().into();
    }
    Ok(result.into())
}

/// Ends what the session does for this client, and lets it go.
pub(crate) async fn close(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    let named: Named = params(given)?;
    let id = id(&named.session)?;
    let held = connection.held(&id)?;
    connection.stop_prompts(&named.session);
    if held.session.peek().await?.turn.is_some() {
        held.session.abort(format!("{} closed the session", connection.client_name())).await?;
    }
    connection.let_go(&id);
    Ok(json!({}).into())
}

/// Deletes a session for good. One that is not there is deleted already.
pub(crate) async fn delete(connection: &Arc<Connection>, given: Value) -> Result<Done, Fault> {
    let named: Named = params(given)?;
    let id = id(&named.session)?;
    match connection.runtime.delete(&id).await {
        Ok(_) => {}
        Err(error) if error.kind() == Kind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    connection.let_go(&id);
    Ok(json!({}).into())
}
