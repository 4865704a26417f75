//! `tamtam acp`: an editor's agent over the Agent Client Protocol (`docs/EDITORS.md`), on stdin and stdout.
//!
//! A session is made as `serve` makes one, with the configuration of its folder if that is trusted. The command ends when the editor
//! closes stdin, or a signal comes: what runs is cut off in order, and goes on when the editor loads the session again. A change must
//! keep that nothing but the protocol is written to stdout.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use tamtam::{Runtime, model::Scripted, permission::Profile};
use tamtam_acp::{AcpOptions, HandedServer, ServeError, UnsavedFiles, serve};
use tamtam_mcp::{ServerConfig, Servers};
use tamtam_server::NewSession;

use super::{
    arguments::{AcpArguments, TurnArguments},
    config::{self, Config},
    environment::Environment,
    failed_to_start,
    failure::{Exit, Failure},
    hooks,
    mcp::Configured,
    models, note,
    rules::{self, Audience},
    run::{Door, builder},
    sandboxed,
    serve::{Signals, new_session},
    team::Team,
};

/// The longest name that a server of tools has, in bytes.
const SERVER_NAME_MAX: usize = 24;
/// How many servers of tools the editor may name in all, over all sessions: each is a process.
const SERVERS_MAX: usize = 64;

/// Carries out `acp`.
pub(super) async fn acp(given: AcpArguments, environment: &Environment) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| failed_to_start(&error))?;
    let store = config::store(environment, &given.turn)?;
    let workspace = environment.workspace(given.turn.setup.workspace.as_deref())?;
    let config = Config::load(environment, &workspace, given.turn.config.as_deref())?;
    let (turn, _) = config.over(&given.turn, None);
    let team = Team::load(&workspace, environment)?;
    team.agent(turn.setup.agent.as_deref())?;
    let choice = match models::choose(&turn.model, None, environment).await {
        Ok(choice) => choice,
        Err(why) => return without_model(why, &mut signals).await,
    };
    config.notes.iter().cloned().chain(team.not_used()).for_each(|why| note(&why));
    let sandbox = turn.setup.sandbox.sandbox(environment);
    sandboxed::warning(sandbox.mode, tamtam::tools::process::SandboxLevel::probe).iter().for_each(|said| note(said));
    let host = team.host(sandbox.clone(), rules::host(&config), environment);
    // The user's own only: the editor chooses the folder of each session.
    let hooks = hooks::Configured::of_user(&workspace, environment);
    hooks.not_used.iter().for_each(|why| note(why));
    let (host, placed) = hooks.onto(host, &sandbox, environment);
    let mut offered = vec![choice.model.clone()];
    if choice.model.provider != "scripted" {
        let others = models::all_of_keys(environment).map(|(model, _)| model);
        offered.extend(others.filter(|model| *model != choice.model));
    }
    let servers = Configured::of_user(environment);
    servers.not_used.iter().for_each(|why| note(why));
    // An editor takes up its own sessions; those of others stay as they are.
    let unsaved = UnsavedFiles::new();
    let host = host.hook(unsaved.clone());
    let runtime = builder(choice, &turn, host.store(store), environment)?.without_auto_resume().start().await?;
    placed.begin(&runtime);
    let mut options = options(&given.turn, &runtime, servers.names(), environment).unsaved(unsaved);
    options.models = offered;
    let ended = serve_editor(&given, servers, &runtime, options, environment, &mut signals).await;
    let left = runtime.shutdown().await;
    ended?;
    match left.is_empty() {
        true => Ok(Exit::Done),
        false => Err(Failure::failed(format!("not all could be stopped: {left:?}"))),
    }
}

/// Tells the editor what is missing, instead of ending before it can listen.
async fn without_model(why: Failure, signals: &mut Signals) -> Result<Exit, Failure> {
    let runtime = Runtime::builder().in_memory().model(Arc::new(Scripted::new([]))).start().await?;
    let options = AcpOptions::default().no_key(&why.message);
    tokio::select! {
        // That it could not be told is no more than that a model is missing.
        _ = serve(runtime.clone(), options, tokio::io::stdin(), tokio::io::stdout()) => {}
        () = signals.next() => {}
    }
    drop(runtime.shutdown().await);
    Err(why)
}

/// Serves until the editor is gone or a signal comes.
async fn serve_editor(
    given: &AcpArguments,
    servers: Configured,
    runtime: &Runtime,
    options: AcpOptions,
    environment: &Environment,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let http = given.turn.model.network.options(environment)?;
    servers.offer(runtime, http).await?.1.iter().for_each(|why| note(why));
    let door = Door::open(runtime, given.listen.as_deref(), environment).await?;
    if let Some(door) = &door {
        note(&format!("listening on {}", door.at));
    }
    let served = tokio::select! {
        served = serve(runtime.clone(), options, tokio::io::stdin(), tokio::io::stdout()) => served,
        () = signals.next() => Ok(()),
    };
    if let Some(door) = door {
        door.close().await;
    }
    match served {
        // An editor that dies is one that has closed its side.
        Err(ServeError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        served => served.map_err(|error| Failure::failed(error.to_string())),
    }
}

/// `taken` are the names of the user's own servers of tools.
fn options(given: &TurnArguments, runtime: &Runtime, taken: Vec<String>, environment: &Environment) -> AcpOptions {
    let (turn, surroundings) = (given.clone(), Arc::new(environment.clone()));
    let make = move |folder: &Path| {
        let mut new = NewSession::default();
        new.workspace = Some(folder.to_owned());
        new_session(&new, &turn, folder, &surroundings).map_err(|failure| failure.message)
    };
    let (turn, surroundings) = (given.clone(), environment.clone());
    let rights = move |folder: &Path, profile: Profile| {
        let rights = || {
            let config = Config::load(&surroundings, folder, turn.config.as_deref())?;
            let (mut turn, _) = config.over(&turn, None);
            turn.setup.permission.permission = Some(profile);
            Ok(rules::rights(&turn.setup.permission, &config, Audience::Someone)?.session)
        };
        rights().map_err(|failure: Failure| failure.message)
    };
    let (runtime, environment) = (runtime.clone(), environment.clone());
    let handed = Arc::new(Handed { runtime, environment, taken, known: Mutex::default() });
    AcpOptions::default().new_session(make).rights(rights).tool_servers(move |servers| {
        let handed = handed.clone();
        async move { handed.offer(servers).await }
    })
}

/// The servers of tools that the editor has named so far. Each is one process, whichever sessions name it, and its tools are offered
/// to all sessions of this process.
struct Handed {
    runtime: Runtime,
    environment: Environment,
    /// The names of the user's own servers.
    taken: Vec<String>,
    /// With the name that each has here.
    known: Mutex<Vec<(HandedServer, String)>>,
}

impl Handed {
    /// Starts those that are new, and offers their tools. A server that does not start is said on stderr, and costs its own tools.
    async fn offer(&self, servers: Vec<HandedServer>) -> Result<(), String> {
        let added = self.add(servers)?;
        if added.is_empty() {
            return Ok(());
        }
        let started = self.start(added.iter().map(|(_, config)| config.clone()).collect()).await;
        if started.is_err() {
            // The next session that names them tries again.
            let is_added = |name: &String| added.iter().any(|(added, _)| added == name);
            self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|(_, name)| !is_added(name));
        }
        started
    }

    async fn start(&self, configs: Vec<ServerConfig>) -> Result<(), String> {
        let servers = Servers::new(configs).map_err(|bad| bad.to_string())?;
        servers.start_in(&self.runtime).await.map_err(|error| error.to_string())?;
        for listed in servers.list().await {
            if let Some(error) = listed.error {
                note(&format!("not used: {error}"));
            }
        }
        servers.offer(&self.runtime).map_err(|error| error.to_string())?;
        let runtime = self.runtime.clone();
        // It holds the runtime, which the command shuts down; the task ends with the process.
        tokio::spawn(async move { servers.keep_offered(&runtime).await });
        Ok(())
    }

    /// The configurations of those that are new, with their names: all of them, or none where there is no room.
    fn add(&self, servers: Vec<HandedServer>) -> Result<Vec<(String, ServerConfig)>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new: Vec<HandedServer> = Vec::new();
        for server in servers {
            if !known.iter().any(|(other, _)| *other == server) && !new.contains(&server) {
                new.push(server);
            }
        }
        if known.len() + new.len() > SERVERS_MAX {
            return Err(format!(
                "the editor has named {} servers of tools, and {SERVERS_MAX} are the most: start the agent again to begin anew",
                known.len() + new.len()
            ));
        }
        let mut added = Vec::new();
        for server in new {
            let name = self.free_name(&server.name, &known);
            added.push((name.clone(), self.config(&name, &server)));
            known.push((server, name));
        }
        Ok(added)
    }

    /// A name that no other server has: one that is taken gets a number.
    fn free_name(&self, wanted: &str, known: &[(HandedServer, String)]) -> String {
        let plain: String = wanted.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let plain = match plain.get(..plain.len().min(SERVER_NAME_MAX)).unwrap_or_default() {
            "" => "server",
            plain => plain,
        };
        let taken = || self.taken.iter().chain(known.iter().map(|(_, name)| name));
        let mut name = plain.to_owned();
        let mut number = 1;
        while taken().any(|taken| taken.eq_ignore_ascii_case(&name)) {
            number += 1;
            name = format!("{plain}-{number}");
        }
        name
    }

    fn config(&self, name: &str, server: &HandedServer) -> ServerConfig {
        let variables = self.environment.all().into_iter().map(|(name, value)| (name.into(), value.into()));
        let mut environment = tamtam_mcp::well_known(variables);
        environment.extend(server.environment.iter().cloned());
        ServerConfig::stdio(name, &server.command)
            .arguments(&server.arguments)
            .environment(environment)
            .folder(&server.folder)
    }
}
