//! `tamtam serve`: the sessions of a store over HTTP, until a signal comes. `tamtam mcp serve`: the same for one client of MCP.
//!
//! It serves on a Unix socket that only this user can open, or on an address. The one line on stdout says where, once requests are
//! taken. Interrupted turns of the store go on by themselves. SIGTERM, SIGINT and SIGHUP let running turns finish (10 s at most), end
//! the event streams with a word about when to come back, and end the command with 0; a second signal ends it at once.
//!
//! With `--postgres` it is one of several servers over a database: each takes messages for every session, and goes on with those of one
//! that is gone.
//!
//! A client chooses folder, profile and limits of a new session, because whoever reaches the socket is this user; what the user's
//! rules deny stays denied. A change must keep that a session is made as `run` makes one: with the configuration of its folder, if
//! that folder is trusted.

mod tapes;

use std::{path::PathBuf, sync::Arc, time::Duration};

use tamtam::{Runtime, SessionOptions, permission::Profile};
use tamtam_mcp::SessionTools;
use tamtam_server::{Bound, Denied, NewSession, Server, ServerOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    arguments::{TurnArguments, remote::ServeArguments},
    config::{self, Config},
    environment::Environment,
    failed_to_start,
    failure::{Exit, Failure},
    hooks,
    mcp::Configured,
    models, note, print, prompt,
    rules::{self, Audience},
    run::{TASKS_QUEUED, builder},
    sandboxed,
    team::Team,
};
use tapes::{Others, Tapes};

/// The variable with the token.
pub(super) const TOKEN: &str = "TAMTAM_SERVE_TOKEN";

/// How long running turns may go on after a signal.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Carries out `serve`.
pub(super) async fn serve(given: ServeArguments, environment: &Environment) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed_to_start(&error))?;
    let Started { runtime, model, workspace, others } = started(&given.turn, Some(&given), environment).await?;
    let options = options(&given, model, workspace, environment);
    let server = others.with(Server::new(runtime.clone()).with(options));
    let bound = match (given.addr, socket(&given, environment)) {
        (Some(address), _) => Bound::tcp(address, &server).await,
        (None, socket) => Bound::unix(socket?).await,
    };
    let bound = match bound {
        Ok(bound) => bound,
        Err(error) => {
            drop(runtime.shutdown().await);
            others.leave().await;
            return Err(Failure::usage(error.to_string()));
        }
    };
    print(&format!("listening on {}\n", bound.at()))?;
    let mut again = Signals::listen().map_err(|error| failed_to_start(&error))?;
    let stop = async {
        signals.next().await;
        note("no new work is taken; running turns may finish, 10 s at most (press Ctrl-C again to leave them)");
    };
    let leave = async {
        again.next().await;
        again.next().await;
    };
    let leftover = tokio::select! {
        leftover = tamtam_server::serve(server, bound, stop) => leftover,
        // What runs is cut off, as by a crash: the next `serve` goes on with it.
        () = leave => return Err(Failure::quiet(Exit::Aborted)),
    };
    others.leave().await;
    match leftover.is_empty() {
        true => Ok(Exit::Done),
        false => Err(Failure::failed(format!("not all could be stopped: {leftover:?}"))),
    }
}

/// Carries out `mcp serve`: the same sessions for the one client on standard input and output, until its input ends or a signal comes.
/// Turns that run then are interrupted, and go on with the next start.
pub(super) async fn over_mcp(turn: TurnArguments, environment: &Environment) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed_to_start(&error))?;
    // The turns of others stay as they are: who is served here did not begin them.
    let Started { runtime, workspace, .. } = started(&turn, None, environment).await?;
    let surroundings = environment.clone();
    let make = move || {
        new_session(&NewSession::default(), &turn, &workspace, &surroundings).map_err(|failure| failure.message)
    };
    let tools = SessionTools::new(&runtime, make);
    let served = tokio::select! {
        served = tools.serve(tokio::io::stdin(), tokio::io::stdout()) => served,
        () = signals.next() => Ok(()),
    };
    let leftover = runtime.shutdown().await;
    served.map_err(|error| Failure::failed(format!("failed to serve the client: {error}")))?;
    match leftover.is_empty() {
        true => Ok(Exit::Done),
        false => Err(Failure::failed(format!("not all could be stopped: {leftover:?}"))),
    }
}

/// A runtime for clients, with what a new session needs to know.
struct Started {
    runtime: Runtime,
    model: String,
    workspace: PathBuf,
    others: Others,
}

/// Starts a runtime with the user's own servers of tools: that of `serve`, which goes on with open turns, or one over the store.
async fn started(
    given: &TurnArguments,
    serve: Option<&ServeArguments>,
    environment: &Environment,
) -> Result<Started, Failure> {
    let workspace = environment.workspace(given.setup.workspace.as_deref())?;
    let config = Config::load(environment, &workspace, given.config.as_deref())?;
    let (turn, _) = config.over(given, None);
    let team = Team::load(&workspace, environment)?;
    team.agent(turn.setup.agent.as_deref())?;
    // A file that is no schema is said now, and not to the client that makes a session.
    models::schema(turn.output_schema.as_deref())?;
    let choice = models::choose(&turn.model, None, environment).await?;
    if let Some(why) = &choice.found {
        note(&format!("model {} ({why})", choice.model));
    }
    config.notes.iter().cloned().chain(team.not_used()).for_each(|why| note(&why));
    let sandbox = turn.setup.sandbox.sandbox(environment);
    sandboxed::warning(sandbox.mode, tamtam::tools::process::SandboxLevel::probe).iter().for_each(|said| note(said));
    let host = team.host(sandbox.clone(), rules::host(&config), environment);
    // The user's own only, like the servers below.
    let hooks = hooks::Configured::of_user(&workspace, environment);
    hooks.not_used.iter().for_each(|why| note(why));
    let (host, placed) = hooks.onto(host, &sandbox, environment);
    let model = choice.model.to_string();
    // The user's own only: a client chooses the folder of its session, and the servers of one folder are not for another.
    let servers = Configured::of_user(environment);
    servers.not_used.iter().for_each(|why| note(why));
    let http = turn.model.network.options(environment)?;
    let tapes = match serve {
        Some(serve) => Tapes::of(serve, &turn, environment).await?,
        None => Tapes::Files(config::store(environment, given)?),
    };
    let builder = builder(choice, &turn, tapes.under(host), environment)?;
    let runtime = if serve.is_some() { builder } else { builder.without_auto_resume() }.start().await?;
    placed.begin(&runtime);
    match servers.offer(&runtime, http).await {
        Ok((_, notes)) => notes.iter().for_each(|why| note(why)),
        Err(error) => {
            drop(runtime.shutdown().await);
            return Err(error);
        }
    }
    // Sessions that it takes up have the tools of these servers.
    let others = tapes.join(&runtime);
    Ok(Started { runtime, model, workspace, others })
}

/// Where the socket is: the named place, else one in the folder that the system makes for this user while they are logged in.
fn socket(given: &ServeArguments, environment: &Environment) -> Result<PathBuf, Failure> {
    if let Some(path) = &given.socket {
        return Ok(environment.absolute(path));
    }
    default_socket(environment)
}

/// The socket that `serve` listens on where none is named.
pub(super) fn default_socket(environment: &Environment) -> Result<PathBuf, Failure> {
    let folder = environment.get("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("tamtam"));
    // Where there is none, the user's own data folder: unlike the folder for temporary files, it is nobody else's.
    let folder = folder.or_else(|| environment.data().map(|data| data.join("run")));
    let folder =
        folder.ok_or_else(|| Failure::usage("no folder for a socket is known: name one with --socket PATH"))?;
    Ok(folder.join("tamtam.sock"))
}

fn options(given: &ServeArguments, model: String, workspace: PathBuf, environment: &Environment) -> ServerOptions {
    let (turn, surroundings) = (given.turn.clone(), Arc::new(environment.clone()));
    let make = move |new: &NewSession| new_session(new, &turn, &workspace, &surroundings);
    let options = ServerOptions::default()
        .new_session(move |new, _| make(new).map_err(|failure| Denied::Invalid(failure.message)))
        .models([model]);
    let token = given.token.as_deref().or_else(|| environment.get(TOKEN));
    let options = token.into_iter().fold(options, |options, token| options.token(token));
    let mut options = given.host.iter().fold(options, |options, name| options.host(name));
    options.drain_time_max = DRAIN_MAX;
    options.drills = given.drills;
    options
}

/// The options of a session, as `run` makes them: the arguments of `serve`, the configuration of the session's folder, and what the
/// client says.
pub(super) fn new_session(
    new: &NewSession,
    given: &TurnArguments,
    workspace: &std::path::Path,
    environment: &Environment,
) -> Result<SessionOptions, Failure> {
    let workspace = match &new.workspace {
        Some(path) if path.is_absolute() => environment.workspace(Some(path))?,
        Some(_) => return Err(Failure::usage("`workspace` is an absolute path")),
        None => workspace.to_owned(),
    };
    let config = Config::load(environment, &workspace, given.config.as_deref())?;
    let (mut turn, _) = config.over(given, None);
    if let Some(profile) = &new.profile {
        let named = profile.parse::<Profile>().map_err(|error| Failure::usage(error.to_string()))?;
        turn.setup.permission.permission = Some(named);
    }
    let team = Team::load(&workspace, environment)?;
    let options = SessionOptions::from_agent(team.agent(turn.setup.agent.as_deref())?, &workspace);
    let mut options = options.map_err(|error| Failure::usage(error.to_string()))?;
    let rights = rules::rights(&turn.setup.permission, &config, Audience::Someone)?;
    options.rules_below = rights.session;
    options.granted = config.granted_rules();
    options.steps_max = new.steps_max.or(turn.max_steps).or(options.steps_max);
    models::sampling(&given.model, &turn.model, &mut options.params);
    options.fallback = models::fallback(&given.model, &turn.model, options.fallback);
    options.params.answer_schema = models::schema(turn.output_schema.as_deref())?;
    options.task_queue_max = Some(TASKS_QUEUED);
    options.ask_limit = turn.ask_limit.map_or(options.ask_limit, |limit| limit.0);
    // A client may come back later than the question.
    options.asks_wait = new.asks_wait.unwrap_or(true);
    turn.budget.apply(&mut options.budget);
    if let Some(budget) = &new.budget {
        budget.apply(&mut options.budget);
    }
    options.system = new.system.clone().or(options.system);
    if let Some(tools) = &new.tools {
        options = options.tools(tools.iter().cloned());
    }
    options.date = Some(prompt::today());
    Ok(options)
}

/// The signals that end the command.
pub(super) struct Signals([Signal; 3]);

impl Signals {
    pub(super) fn listen() -> std::io::Result<Signals> {
        Ok(Signals([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?]))
    }

    pub(super) async fn next(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
