//! Gets the session for `run` and `resume`: makes a new one, or opens one from its tape.
//!
//! Arguments, workspace, model and budget are checked before the runtime starts, so a usage error in them leaves no session behind.
//! An existing session keeps the settings that the arguments do not name, except for two that follow the user's files: the user's
//! own rules, if they deny anything, and what people granted for the project. A grant that is gone from the trust file is taken
//! back. A runtime whose session cannot be opened is shut down here.
//!
//! A change must keep this: a check that needs no runtime comes before [`start`]; and a command that fails after it goes through
//! [`or_shut_down`], or its actors and processes would run on.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tamtam::{
    EventStream, ModelRef, OpenError, Runtime, SendError, Seq, Session, SessionId, SessionOptions,
    hook::{Planning, ReadLoop},
    model::Params,
    permission::{Rule, Ruleset},
    runtime::{Agent, Builder, InstructionFiles},
    session::{AgentChoice, Budget, Open, Scope, State},
    tape::{Durability, TapeError},
    tool::SandboxTerms,
    tools::{WebFetch, process::SandboxLevel},
};
use tamtam_mcp::Servers;

use super::{Hints, used::Used};
use crate::{
    arguments::{ModelArguments, ResumeArguments, RunArguments, Survives, TurnArguments, labels},
    config::{self, Config},
    environment::Environment,
    failure::Failure,
    hooks,
    mcp::Configured,
    models::{self, Choice},
    note, prompt,
    rules::{self, Audience},
    run::view,
    sandboxed, tapes,
    team::Team,
    trust::Trust,
};

/// How often `run` tries to open or make a session that another process is making at the same moment. Its first entry comes soon.
const TRIES_MAX: u32 = 10;
/// The pause between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// A session, ready to be driven.
pub(super) struct Opened {
    pub(super) runtime: Runtime,
    pub(super) session: Session,
    pub(super) events: EventStream,
    pub(super) hints: Hints,
    /// The questions that were open on the tape. They are older than the events, so they must be shown again.
    pub(super) asked: Vec<Seq>,
    /// Its last entry, when it was opened.
    pub(super) opened: Seq,
    /// What it had used before this command.
    pub(super) used: Used,
    /// Where answers with the scope `project` are kept.
    pub(super) trust: Trust,
    /// The configuration that was not read, each with the reason.
    pub(super) not_read: Vec<String>,
    /// The MCP servers; `None` without any.
    pub(super) servers: Option<Servers>,
}

/// What is said to the session first.
#[derive(Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    /// Whether it is a command where it begins with `/`: text that goes with files is a message.
    pub(super) may_be_command: bool,
}

/// How many tasks of a new session may wait for room behind those that work.
pub(crate) const TASKS_QUEUED: usize = 200;

/// The session for `run`: the named one, or a new one. If another process makes the named one at the same moment, this tries again,
/// so that it gives the session or the error that names the process which has it.
pub(super) async fn for_run(
    given: &RunArguments,
    said: Said<'_>,
    environment: &Environment,
) -> Result<Opened, Failure> {
    for _ in 1..TRIES_MAX {
        if let Ok(opened) = try_run(given, said, environment).await? {
            return Ok(opened);
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
    try_run(given, said, environment).await?.map_err(Failure::from)
}

/// One try of [`for_run`]. The inner error says that another process has made the session between the look and the making.
async fn try_run(
    given: &RunArguments,
    said: Said<'_>,
    environment: &Environment,
) -> Result<Result<Opened, TapeError>, Failure> {
    let store = config::store(environment, &given.turn)?;
    let labels = labels(&given.label)?;
    let before = match &given.session {
        Some(id) => tapes::state(&store, id)?,
        None => None,
    };
    if let (Some(before), Some(id)) = (before, &given.session) {
        let labels = labels.or(&before.settings.labels).map_err(|error| Failure::usage(error.to_string()))?;
        let opened = take_up(id, &given.turn, said, &before, store, environment).await?;
        if !given.label.is_empty() {
            or_shut_down(&opened.runtime, opened.session.set_labels(labels).await).await?;
        }
        if given.title.is_some() {
            or_shut_down(&opened.runtime, opened.session.set_title(given.title.clone()).await).await?;
        }
        return Ok(Ok(opened));
    }
    let workspace = environment.workspace(given.turn.setup.workspace.as_deref())?;
    let config = Config::load(environment, &workspace, given.turn.config.as_deref())?;
    let (turn, _) = config.over(&given.turn, None);
    let team = team(&workspace, said, environment)?;
    let servers = Configured::load(&workspace, environment)?;
    let hooks = hooks::Configured::load(&workspace, environment)?;
    let options = SessionOptions::from_agent(team.agent(turn.setup.agent.as_deref())?, &workspace);
    let mut options = options.map_err(|error| Failure::usage(error.to_string()))?;
    let choice = models::choose(&turn.model, None, environment).await?;
    choice.check_prompt(said.text)?;
    options.id = given.session.clone();
    options.title = given.title.clone();
    options.labels = labels;
    let rights = rules::rights(&turn.setup.permission, &config, audience(turn.json))?;
    options.rules_below = rights.session;
    options.granted = config.granted_rules();
    options.steps_max = turn.max_steps.or(options.steps_max);
    models::sampling(&given.turn.model, &turn.model, &mut options.params);
    options.fallback = models::fallback(&given.turn.model, &turn.model, options.fallback);
    options.params.answer_schema = models::schema(turn.output_schema.as_deref())?;
    options.task_queue_max = Some(TASKS_QUEUED);
    options.ask_limit = turn.ask_limit.map_or(options.ask_limit, |limit| limit.0);
    turn.budget.apply(&mut options.budget);
    options.date = Some(prompt::today());
    turn.budget.check(&choice.model, &*choice.models, &options.budget)?;
    let mut not_read = team.not_used();
    for why in servers.not_used.iter().chain(&hooks.not_used) {
        if !not_read.contains(why) {
            not_read.push(why.clone());
        }
    }
    let sandbox = turn.setup.sandbox.sandbox(environment);
    sandboxed::warning(sandbox.mode, SandboxLevel::probe).iter().for_each(|said| note(said));
    let http = turn.model.network.options(environment)?;
    let host = team.host(sandbox.clone(), rights.host, environment);
    let (host, placed) = hooks.onto(host, &sandbox, environment);
    let (runtime, hints) = start(store, choice, &turn, host, environment).await?;
    placed.begin(&runtime);
    let (servers, not_offered) = or_shut_down(&runtime, servers.offer(&runtime, http).await).await?;
    not_read.extend(not_offered);
    let session = match runtime.create(options).await {
        Err(OpenError::Tape(error @ TapeError::Exists { .. })) => {
            drop(runtime.shutdown().await);
            return Ok(Err(error));
        }
        created => or_shut_down(&runtime, created).await?,
    };
    let events = session.events();
    let state = or_shut_down(&runtime, session.state().await).await?;
    let trust = Trust::of(environment);
    let rules = prompt::rules_not_used(&state.settings, &trust);
    let not_read = config.notes.into_iter().chain(not_read).chain(rules).collect();
    let (asked, opened, used) = (Vec::new(), Seq::ZERO, Used::default());
    Ok(Ok(Opened { runtime, session, events, hints, asked, opened, used, trust, not_read, servers }))
}

/// The session for `resume`. Ends a pause, and continues an interrupted turn and a queue on hold.
pub(super) async fn for_resume(
    given: &ResumeArguments,
    said: Said<'_>,
    environment: &Environment,
) -> Result<Opened, Failure> {
    let store = config::store(environment, &given.turn)?;
    let missing = || TapeError::Missing { session: given.session.clone() };
    let before = tapes::state(&store, &given.session)?.ok_or_else(missing)?;
    let opened = take_up(&given.session, &given.turn, said, &before, store, environment).await?;
    let go_on = async {
        let state = opened.session.state().await?;
        if state.paused {
            opened.session.resume().await?;
        }
        if state.waits || state.on_hold {
            opened.session.go_on().await?;
        }
        Ok::<_, SendError>(())
    };
    or_shut_down(&opened.runtime, go_on.await).await?;
    Ok(opened)
}

/// Opens an existing session and changes its settings. An open turn continues by itself.
async fn take_up(
    id: &SessionId,
    given: &TurnArguments,
    said: Said<'_>,
    before: &State,
    store: PathBuf,
    environment: &Environment,
) -> Result<Opened, Failure> {
    let settings = &before.settings;
    let moved_to = moved_to(id, &settings.workspace, given.setup.workspace.as_deref(), environment)?;
    let own = settings.switched.as_deref().map_or(&settings.agent, |switched| &switched.own.agent);
    let workspace = moved_to.as_deref().unwrap_or(&settings.workspace);
    let config = Config::load(environment, Path::new(workspace), given.config.as_deref())?;
    let by_arguments = &given.setup.sandbox;
    let asked_of_model = &given.model;
    let (given, _) = &config.over(given, Some(&settings.model));
    let sandbox = given.setup.sandbox.resumed(by_arguments, (id, settings.sandbox.as_deref()), environment)?;
    let terms = sandbox.terms().map(Arc::new);
    if let (Some(kept), true) = (&terms, terms == settings.sandbox) {
        note(&format!("sandbox of the session: {}", kept.in_words()));
    }
    sandboxed::warning(sandbox.mode, SandboxLevel::probe).iter().for_each(|said| note(said));
    let team = team(Path::new(workspace), said, environment)?;
    let servers = Configured::load(Path::new(workspace), environment)?;
    let hooks = hooks::Configured::load(Path::new(workspace), environment)?;
    let agent = agent(&team, given.setup.agent.as_deref(), (own, &settings.agent))?;
    let choice = models::choose(&given.model, Some(&settings.model), environment).await?;
    choice.check_prompt(said.text)?;
    let answer_schema = models::schema(given.output_schema.as_deref())?;
    let asked_for = &given.setup.permission;
    let rules = match asked_for.permission.is_some() || asked_for.rules.is_some() {
        true => Some(rules::rights(asked_for, &config, audience(given.json))?.session),
        false => None,
    };
    let granted = Some(config.granted_rules()).filter(|granted| *granted != settings.granted);
    let model = Some(choice.model.clone()).filter(|_| given.model.model.is_some());
    let mut budget = settings.budget.clone();
    given.budget.apply(&mut budget);
    given.budget.check(&choice.model, &*choice.models, &budget)?;
    let switch_to = choice_of(agent, given.setup.agent.as_deref() == Some(own), id)?;
    let switch_to = switch_to.map(|choice| with_flags(choice, asked_of_model));
    let mut not_read: Vec<_> = config.notes.iter().cloned().chain(team.not_used()).collect();
    for why in servers.not_used.iter().chain(&hooks.not_used) {
        if !not_read.contains(why) {
            not_read.push(why.clone());
        }
    }
    let http = given.model.network.options(environment)?;
    let host = team.host(sandbox.clone(), rules::host(&config), environment);
    let (host, placed) = hooks.onto(host, &sandbox, environment);
    let (runtime, hints) = start(store, choice, given, host, environment).await?;
    placed.begin(&runtime);
    let (servers, not_offered) = or_shut_down(&runtime, servers.offer(&runtime, http).await).await?;
    not_read.extend(not_offered);
    let (session, events) = or_shut_down(&runtime, runtime.open_heard(id).await).await?;
    let budget = Some(budget).filter(|budget| *budget != settings.budget);
    let sandbox = Some(terms).filter(|terms| *terms != settings.sandbox);
    // What the other agent had set is the session's own again, and then the flags win. The choice of another agent has them itself.
    let is_own_again = matches!(switch_to, Some(AgentChoice::Own));
    if is_own_again {
        or_shut_down(&runtime, session.switch_agent(AgentChoice::Own).await).await?;
    }
    let change = |params: &mut Params| {
        models::sampling(asked_of_model, asked_of_model, params);
        params.answer_schema = answer_schema.clone().or(params.answer_schema.take());
    };
    let mut changed = settings.params.clone();
    change(&mut changed);
    let is_changed = changed != settings.params || is_own_again && asked_of_model.samples();
    let params = is_changed.then_some(&change as &(dyn Fn(&mut Params) + Sync));
    let changes = Changes { model, params, rules, granted, budget, workspace: moved_to, sandbox };
    or_shut_down(&runtime, configure(&session, given, changes).await).await?;
    for id in taken_back(before, &config) {
        or_shut_down(&runtime, session.revoke(id).await).await?;
    }
    if let Some(choice) = switch_to.filter(|_| !is_own_again) {
        or_shut_down(&runtime, session.switch_agent(choice).await).await?;
    }
    let opened = or_shut_down(&runtime, session.state().await).await?.seq;
    let asked = before
        .open
        .iter()
        .filter(|(_, open)| match open {
            Open::Ask(_) | Open::BudgetAsk(_) => true,
            Open::TaskAsk(open) => open.answer.is_none(),
            _ => false,
        })
        .map(|(ask, _)| *ask)
        .collect();
    let (used, trust) = (Used::of(before), Trust::of(environment));
    Ok(Opened { runtime, session, events, hints, asked, opened, used, trust, not_read, servers })
}

/// The standing grants of the session that were given for the project, and that the project no longer has.
fn taken_back(before: &State, config: &Config) -> Vec<Seq> {
    let is_there = |rules: &[Rule]| config.granted.iter().any(|granted| granted.rules == rules);
    let of_project = before.grants.iter().filter(|granted| granted.scope == Scope::Project);
    of_project.filter(|granted| !is_there(&granted.rules)).map(|granted| granted.id).collect()
}

/// The new folder of a session whose own one is gone; `None` where the session stays in its folder.
fn moved_to(
    id: &SessionId,
    own: &str,
    given: Option<&Path>,
    environment: &Environment,
) -> Result<Option<String>, Failure> {
    let is_there = Path::new(own).is_dir();
    let Some(given) = given else {
        let gone = || {
            Failure::usage(format!(
                "the folder of session {id} is gone: {own}: name its new place with --workspace DIR"
            ))
        };
        return if is_there { Ok(None) } else { Err(gone()) };
    };
    let given = environment.workspace(Some(given))?;
    if given == Path::new(own) {
        return Ok(None);
    }
    if is_there {
        // A session does not change its folder by accident: what it has read and written is there.
        return Err(Failure::usage(format!("session {id} works in {own}: leave --workspace out")));
    }
    Ok(Some(given.display().to_string()))
}

/// The agents and commands, which must have what is said, where that is a command.
fn team(workspace: &Path, said: Said<'_>, environment: &Environment) -> Result<Team, Failure> {
    let team = Team::load(workspace, environment)?;
    if said.may_be_command {
        team.check(said.text)?;
    }
    Ok(team)
}

/// The agent that the arguments name, which must be there. `None` where they name none, and where the session has it as its own or
/// in force: a session keeps the agent that a host gave it.
fn agent(team: &Team, given: Option<&str>, (own, in_force): (&String, &String)) -> Result<Option<Agent>, Failure> {
    match given {
        Some(given) if given != own && given != in_force => team.agent(Some(given)).cloned().map(Some),
        _ => Ok(None),
    }
}

/// What is to be chosen for a session that is there: nothing where its agent stays.
fn choice_of(agent: Option<Agent>, is_own: bool, id: &SessionId) -> Result<Option<AgentChoice>, Failure> {
    match agent {
        _ if is_own => Ok(Some(AgentChoice::Own)),
        Some(agent) => agent.for_session(id).map(Some).map_err(|error| Failure::usage(error.to_string())),
        None => Ok(None),
    }
}

/// The choice of an agent whose own sampling gives way to the flags.
fn with_flags(choice: AgentChoice, flags: &ModelArguments) -> AgentChoice {
    match choice {
        AgentChoice::Other(mut parts) => {
            let parts_now = Arc::make_mut(&mut parts);
            // What the agent leaves open stays the session's, which the flags have changed.
            parts_now.thinking = parts_now.thinking.and(flags.thinking).or(parts_now.thinking);
            parts_now.temperature = parts_now.temperature.and(flags.temperature).or(parts_now.temperature);
            parts_now.top_p = parts_now.top_p.and(flags.top_p).or(parts_now.top_p);
            AgentChoice::Other(parts)
        }
        own => own,
    }
}

/// The settings to change in an existing session, beside its limit of steps; `None` for one that stays.
struct Changes<'a> {
    model: Option<ModelRef>,
    params: Option<&'a (dyn Fn(&mut Params) + Sync)>,
    rules: Option<Vec<Ruleset>>,
    granted: Option<Vec<Rule>>,
    budget: Option<Budget>,
    workspace: Option<String>,
    sandbox: Option<Option<Arc<SandboxTerms>>>,
}

/// Makes the changes, and sets the limit of steps if the arguments name one. Writes nothing if nothing is to be changed.
async fn configure(session: &Session, given: &TurnArguments, changes: Changes<'_>) -> Result<(), Failure> {
    let Changes { model, params, rules, granted, budget, workspace, sandbox } = changes;
    let nothing = model.is_none() && rules.is_none() && granted.is_none() && budget.is_none() && workspace.is_none();
    let nothing = nothing && params.is_none() && sandbox.is_none() && given.model.fallback.is_empty();
    if nothing && given.max_steps.is_none() && given.ask_limit.is_none() {
        return Ok(());
    }
    let changed = session.configure(|settings| {
        if let Some(model) = &model {
            settings.model.clone_from(model);
        }
        settings.fallback = models::fallback(&given.model, &given.model, settings.fallback.clone());
        if let Some(change) = params {
            change(&mut settings.params);
        }
        if let Some(rules) = &rules {
            settings.choose_rules(rules.iter().cloned());
        }
        if let Some(granted) = &granted {
            settings.granted.clone_from(granted);
        }
        if let Some(budget) = &budget {
            settings.budget.clone_from(budget);
        }
        if let Some(workspace) = &workspace {
            settings.workspace.clone_from(workspace);
        }
        if let Some(sandbox) = &sandbox {
            settings.sandbox.clone_from(sandbox);
        }
        settings.steps_max = given.max_steps.or(settings.steps_max);
        if let Some(limit) = given.ask_limit {
            settings.ask_limit_ms = u64::try_from(limit.0.as_millis()).unwrap_or(u64::MAX);
        }
    });
    Ok(changed.await?)
}

async fn start(
    store: PathBuf,
    choice: Choice,
    given: &TurnArguments,
    host: Builder,
    environment: &Environment,
) -> Result<(Runtime, Hints), Failure> {
    let Choice { model, key_from, base_url, takes, found, .. } = &choice;
    let (key_from, base_url, found) = (key_from.clone(), base_url.clone(), found.clone());
    let hints = Hints { key_from, base_url, takes: *takes, found, model: model.clone() };
    let runtime = builder(choice, given, host.store(store), environment)?.without_auto_resume().start().await?;
    Ok((runtime, hints))
}

/// The builder of a runtime over the store of the host, with what the arguments say of it.
pub(crate) fn builder(
    choice: Choice,
    given: &TurnArguments,
    host: Builder,
    environment: &Environment,
) -> Result<Builder, Failure> {
    let Choice { models, model, .. } = choice;
    let durability = match given.durability {
        None | Some(Survives::Process) => Durability::Process,
        Some(Survives::Power) => Durability::Power,
    };
    let prices = given.budget.price.map(|price| (model.clone(), price));
    let builder = host.durability(durability).prices(prices).models(models, model).watch(Environment::watch());
    // Before the one that takes keys out, which sees what the hints quote.
    let builder = with_instructions(with_hints(builder, given), given, environment);
    let builder = match given.web_fetch {
        Some(true) => builder.tool(WebFetch::new(given.model.network.options(environment)?)),
        _ => builder,
    };
    let builder = if given.no_redact { builder } else { builder.hook(environment.redact()) };
    #[cfg(feature = "fault-injection")]
    let builder = builder.hold_back_appends(environment.held_back()).faults(environment.faults());
    Ok(builder)
}

/// The files whose text joins the system prompt of a new session.
fn with_instructions(builder: Builder, given: &TurnArguments, environment: &Environment) -> Builder {
    if given.instructions.is_empty() {
        return builder;
    }
    let whole = |file: &PathBuf| match (file.strip_prefix("~"), environment.get("HOME")) {
        (Ok(below), Some(home)) => Path::new(home).join(below),
        _ => environment.absolute(file),
    };
    builder.environment(InstructionFiles::new(given.instructions.iter().map(whole)))
}

/// The hooks with hints that the arguments and files switch on.
fn with_hints(builder: Builder, given: &TurnArguments) -> Builder {
    let builder = match given.planning {
        Some(true) => {
            let planning = Planning::new().findings(".tamtam/findings.md");
            planning.tool().into_iter().fold(builder, Builder::tool).hook(planning)
        }
        _ => builder,
    };
    if given.read_loop == Some(true) { builder.hook(ReadLoop::new()) } else { builder }
}

/// Gives `done` on. If it is an error, the command cannot go on, so the runtime is shut down first.
pub(super) async fn or_shut_down<T, E: Into<Failure>>(runtime: &Runtime, done: Result<T, E>) -> Result<T, Failure> {
    if done.is_err() {
        drop(runtime.shutdown().await);
    }
    done.map_err(Into::into)
}

/// Whether somebody can be asked: a program with `--json`, or a person at a terminal.
pub(crate) fn audience(json: bool) -> Audience {
    if json || view::is_interactive() { Audience::Someone } else { Audience::Nobody }
}
