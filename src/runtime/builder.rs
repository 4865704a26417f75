//! What a runtime and a session are made from.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::StreamExt as _;

use crate::{
    actors::{host::Host, slot::Door, tape::look_after_store, timekeeper::keep_time},
    agent::{Agent, BadAgent},
    error::StartError,
    hook::{Hook, Hooks},
    ids::SessionId,
    message::ModelRef,
    model::{Model, ModelError, ModelLimits, Models, Params, Price, Prices},
    permission::{Profile, Ruleset},
    runtime::{
        Inner, Passivation, Recovered, Runtime,
        children::{self, Family},
        ending::Ending,
    },
    session::{Budget, Mode, Settings},
    supervisor::{ChildSpec, Intensity, OnExhausted, Registry, Strategy, Supervisor, SupervisorHandle, SupervisorSpec},
    tape::{Durability, Store, StoreOptions, TapeError},
    tool::{Tool, Toolbox},
};

/// How many interrupted sessions are brought back at once: as many as keep a disk and a few cores busy.
const RESUMED_AT_ONCE: usize = 16;

/// Collects what a runtime is started with. Only a store and a model are needed.
#[derive(Default)]
pub struct Builder {
    store: Option<PathBuf>,
    options: StoreOptions,
    models: Option<Arc<dyn Models>>,
    model: Option<ModelRef>,
    tools: Toolbox,
    hooks: Vec<Arc<dyn Hook>>,
    host_rules: Option<Ruleset>,
    children: Vec<ChildSpec>,
    no_auto_resume: bool,
    task_limits: Option<(u32, usize)>,
    prices: Prices,
    #[cfg(all(unix, feature = "tools"))]
    watch: crate::process::Watch,
    passivation: Passivation,
    #[cfg(feature = "fault-injection")]
    hold_back_appends: Option<Duration>,
}

impl Builder {
    /// The folder of the tapes; made where it is missing.
    #[must_use]
    pub fn store(mut self, path: impl Into<PathBuf>) -> Builder {
        self.store = Some(path.into());
        self
    }

    /// What an acknowledged entry survives; the end of the process by default.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Builder {
        self.options.durability = durability;
        self
    }

    /// The one model that answers all sessions.
    #[must_use]
    pub fn model(mut self, model: Arc<dyn Model>) -> Builder {
        self.model = Some(model.id().clone());
        self.models = Some(Arc::new(OneModel(model)));
        self
    }

    /// Where models are found by name, and the one that sessions use unless they name another.
    #[must_use]
    pub fn models(mut self, models: Arc<dyn Models>, default: ModelRef) -> Builder {
        self.models = Some(models);
        self.model = Some(default);
        self
    }

    /// What models cost, by their exact names: more, or other, than is known by itself. A price that nobody gives is unknown,
    /// and never zero.
    ///
    /// ```
    /// use tamtam::{Runtime, model::Price, usage::MicroUsd};
    ///
    /// // $0.25 for a million tokens read, $2 for a million written.
    /// let price = Price::new(MicroUsd(250_000), MicroUsd(2_000_000));
    /// let builder = Runtime::builder().prices([("local/qwen3".parse().unwrap(), price)]);
    /// ```
    #[must_use]
    pub fn prices(mut self, prices: impl IntoIterator<Item = (ModelRef, Price)>) -> Builder {
        self.prices.extend(prices);
        self
    }

    /// The tools of all sessions; none by default.
    #[must_use]
    pub fn tools(mut self, tools: Toolbox) -> Builder {
        self.tools = tools;
        self
    }

    /// One more tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Builder {
        self.tools = self.tools.with(tool);
        self
    }

    /// One more hook, after those before it.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Builder {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Rules of the host, above those of every session: what they deny, no session can allow.
    #[must_use]
    pub fn rules(mut self, mut rules: Ruleset) -> Builder {
        if rules.name.is_empty() {
            "host".clone_into(&mut rules.name);
        }
        self.host_rules = Some(rules);
        self
    }

    /// A child of the host's own, under the same tree; started with the runtime, see [`Runtime::host`]. Where its start fails
    /// the runtime does not start.
    #[must_use]
    pub fn child(mut self, child: ChildSpec) -> Builder {
        self.children.push(child);
        self
    }

    /// How deep children may stand below the session at the top, and how many each session may have open at the same time,
    /// where a session's options say nothing: 1 and 8 by default.
    #[must_use]
    pub fn task_limits(mut self, depth_max: u32, width_max: usize) -> Builder {
        self.task_limits = Some((depth_max, width_max));
        self
    }

    /// Leaves sessions that were interrupted in a turn alone until they are resumed by name. They go on at the start by
    /// default (promise 5).
    #[must_use]
    pub fn without_auto_resume(mut self) -> Builder {
        self.no_auto_resume = true;
        self
    }

    /// Who ends the processes of calls when this process is killed; a script of `/bin/sh` by default. A host that can start its
    /// own program as a watcher names that: it finds more.
    #[cfg(all(unix, feature = "tools"))]
    #[must_use]
    pub fn watch(mut self, watch: crate::process::Watch) -> Builder {
        self.watch = watch;
        self
    }

    /// When sessions are put to sleep; see [`Passivation`] for what it is by default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tamtam::{Runtime, runtime::Passivation};
    ///
    /// let mut passivation = Passivation::default();
    /// passivation.idle_after = Some(Duration::from_secs(60));
    /// passivation.awake_max = 500;
    /// let builder = Runtime::builder().passivation(passivation);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn passivation(mut self, passivation: Passivation) -> Builder {
        self.passivation = passivation;
        self
    }

    /// Breaks promise 1 on purpose: acknowledges and starts what was decided at once, and writes it that much later.
    ///
    /// For the test that shows that a process killed without tape-first loses messages and runs commands twice, and that
    /// this is noticed. `None` changes nothing. Only with the feature `fault-injection`.
    #[cfg(feature = "fault-injection")]
    #[must_use]
    pub fn hold_back_appends(mut self, by: Option<Duration>) -> Builder {
        self.hold_back_appends = by;
        self
    }

    /// What happens at the crash points of the runtime. Only with the feature `fault-injection`.
    #[cfg(feature = "fault-injection")]
    #[must_use]
    pub fn faults(mut self, faults: crate::Faults) -> Builder {
        self.options.faults = faults;
        self
    }

    /// Starts the tree, and the sessions that were interrupted in a turn.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left running then.
    pub async fn start(self) -> Result<Runtime, StartError> {
        let path = self.store.ok_or(StartError::NoStore)?;
        let (Some(models), Some(model)) = (self.models, self.model) else { return Err(StartError::NoModel) };
        let options = self.options;
        #[cfg(feature = "fault-injection")]
        let faults = options.faults.clone();
        let opened = tokio::task::spawn_blocking(move || Store::open(whole(path), options)).await;
        let store = opened.map_err(|_| StartError::Store(TapeError::Closed))??;
        fault!(faults, "start.store_opened", "runtime");
        let registry = Registry::new();
        #[cfg(feature = "fault-injection")]
        let registry = registry.with_faults(faults.clone());
        let hooks = Hooks(self.hooks.into());
        #[cfg(all(unix, feature = "tools"))]
        let processes = processes(&store, self.watch).await;
        let host =
            Host::new(store, self.tools, models, hooks, registry.clone(), self.passivation).with_prices(self.prices);
        #[cfg(all(unix, feature = "tools"))]
        let host = host.with_processes(processes);
        #[cfg(feature = "fault-injection")]
        let host = host.holding_back_appends(self.hold_back_appends);
        let host = Arc::new(host);
        for (id, why) in host.store.parked_sessions()? {
            host.slots.park(&id, why);
        }
        // Before anything runs: one that cannot be found here would lose its turn in silence.
        let interrupted = if self.no_auto_resume { Vec::new() } else { host.store.open_sessions()? };
        let (root, sessions, hosts) = tree(&host, self.children)?;
        host.set_sessions(sessions.clone());
        let root = Supervisor::start(root, &registry).await?;
        close_with(&host, root.clone());
        fault!(faults, "start.tree_up", "runtime");

        let settings = Defaults { model, host_rules: self.host_rules, task_limits: self.task_limits };
        let (recovered, ending) = (OnceLock::new(), Ending::default());
        let inner = Inner { host, root, sessions, hosts, settings, recovered, ending };
        let runtime = Runtime { inner: Arc::new(inner) };
        // Set once, here, before there is a session.
        let _ = runtime.inner.host.nursery.set(Arc::new(Family::of(&runtime)));
        if !self.no_auto_resume {
            let recovered = resume_interrupted(&runtime, interrupted).await;
            fault!(faults, "start.resumed", "runtime");
            let _ = runtime.inner.recovered.set(recovered);
        }
        Ok(runtime)
    }
}

/// The processes of a runtime, after those that dead runtimes left running on this store are gone: so nothing works on the
/// files of a session that goes on.
#[cfg(all(unix, feature = "tools"))]
async fn processes(store: &Store, watch: crate::process::Watch) -> crate::process::Processes {
    let ledger = store.processes_path();
    let folder = ledger.clone();
    let swept = tokio::task::spawn_blocking(move || crate::process::sweep_dead(&folder)).await;
    match swept.unwrap_or_else(|lost| Err(std::io::Error::other(lost))) {
        Ok(swept) if swept == crate::process::Swept::default() => {}
        Ok(swept) => {
            tracing::warn!(killed = swept.killed, left = ?swept.left, "a killed runtime had left processes running");
        }
        Err(error) => tracing::warn!(%error, "the processes of dead runtimes could not be looked for"),
    }
    crate::process::Processes::new(watch, Some(ledger))
}

/// The tree of a runtime (design §4), and the handles of the supervisors of its sessions and of the host's own children.
fn tree(
    host: &Arc<Host>,
    children: Vec<ChildSpec>,
) -> Result<(SupervisorSpec, SupervisorHandle, SupervisorHandle), StartError> {
    let supervisor = |spec| ChildSpec::supervisor(spec).map_err(crate::supervisor::StartError::from);
    let for_store = host.clone();
    let tape = ChildSpec::new("tape store", move |cx| {
        let host = for_store.clone();
        async move {
            look_after_store(host, cx).await;
            Ok(())
        }
    });
    // Places for what all sessions will share: a governor per provider, a client per MCP server.
    let (models, _) = supervisor(SupervisorSpec::new("models", Strategy::OneForOne))?;
    let (tools, _) = supervisor(SupervisorSpec::new("tools", Strategy::OneForOne))?;
    // At most 2 restarts in 60 s; the third crash parks that one session, and the others live on.
    let sessions = SupervisorSpec::dynamic("sessions")
        .intensity(Intensity::new(2, Duration::from_secs(60)))
        .on_exhausted(OnExhausted::Park)
        .max_children(host.keeper.awake_limit());
    let (sessions_child, sessions) = supervisor(sessions)?;
    let (for_keeper, of_keeper) = (host.clone(), sessions.clone());
    let timekeeper = ChildSpec::new("timekeeper", move |cx| {
        let (host, sessions) = (for_keeper.clone(), of_keeper.clone());
        async move {
            keep_time(host, sessions, cx).await;
            Ok(())
        }
    });
    let (hosts_child, hosts) = super::host::supervisor(children)?;
    let root = SupervisorSpec::new("runtime", Strategy::OneForOne)
        .intensity(Intensity::new(3, Duration::from_secs(30)))
        .child(tape.labelled("tape store"))
        .child(models)
        .child(tools)
        .child(sessions_child)
        .child(timekeeper.labelled("timekeeper"))
        // The host's own come last, and so they are stopped first: they may talk to sessions to their end.
        .child(hosts_child);
    Ok((root, sessions, hosts))
}

/// When the tree ends by itself, handles say so, instead of letting their senders wait.
fn close_with(host: &Arc<Host>, root: SupervisorHandle) {
    let host = Arc::downgrade(host);
    tokio::spawn(async move {
        root.ended().await;
        if let Some(host) = host.upgrade() {
            host.slots.set_door(Door::Closed);
        }
    });
}

/// The path from the root, where the system can tell: tools are given folders below it, and those must not depend on where the
/// process stands.
fn whole(path: PathBuf) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(std::path::Path::new(".")).canonicalize();
    match (parent, path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        // Opening it will say what is wrong.
        _ => path,
    }
}

/// Brings back the sessions that were in a turn when their process ended, some at a time. One that cannot come back holds up
/// no other.
async fn resume_interrupted(runtime: &Runtime, open: Vec<SessionId>) -> Vec<Recovered> {
    let resumed = futures_util::stream::iter(open).map(async |id| {
        fault!(runtime.inner.host.store.faults(), "start.resume", id.as_str());
        let error = runtime.resume(&id).await.err().map(|error| error.to_string());
        if let Some(error) = &error {
            tracing::warn!(session = %id, error, "an interrupted session could not be resumed");
        }
        Recovered { session: id, error }
    });
    let mut recovered: Vec<_> = resumed.buffer_unordered(RESUMED_AT_ONCE).collect().await;
    recovered.sort_by(|one, other| one.session.cmp(&other.session));
    children::orphan_the_bereaved(runtime, &recovered).await;
    recovered
}

/// What sessions are set to where their options say nothing.
pub(super) struct Defaults {
    model: ModelRef,
    host_rules: Option<Ruleset>,
    task_limits: Option<(u32, usize)>,
}

impl Defaults {
    pub(super) fn of(&self, options: SessionOptions, workspace: String) -> Settings {
        let mut settings = Settings::new(&workspace, options.model.unwrap_or_else(|| self.model.clone()));
        let system = options.system.unwrap_or_else(|| crate::prompt::system(&workspace, options.date.as_deref()));
        settings.system = system.into();
        settings.title = options.title;
        settings.agent = options.agent.unwrap_or(settings.agent);
        settings.budget = options.budget;
        settings.params = options.params;
        settings.tools = options.tools;
        settings.steps_max = options.steps_max;
        settings.steering_mode = options.steering_mode;
        settings.queue_mode = options.queue_mode;
        settings.ask_limit_ms = u64::try_from(options.ask_limit.as_millis()).unwrap_or(u64::MAX);
        let nobodys = options.agent_rules.is_none() && options.rules.is_none();
        let unsaid = nobodys.then(|| Profile::default().ruleset());
        let layers = [self.host_rules.clone(), options.agent_rules, options.rules, unsaid];
        settings.rules = layers.into_iter().flatten().collect();
        let (depth, width) = self.task_limits.unwrap_or((settings.task_depth_max, settings.task_width_max));
        settings.task_depth_max = options.task_depth_max.unwrap_or(depth);
        settings.task_width_max = options.task_width_max.unwrap_or(width);
        settings
    }
}

/// What a session is made with. Only the workspace is needed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Its id; a new one by default.
    pub id: Option<SessionId>,
    /// The folder that its tools work in, and do not leave.
    pub workspace: PathBuf,
    /// The model that answers; the runtime's default.
    pub model: Option<ModelRef>,
    /// What it is called in lists; the words that its first message begins with by default.
    pub title: Option<String>,
    /// The agent's name, for people; `build` by default.
    pub agent: Option<String>,
    /// The system prompt, in place of the default one.
    pub system: Option<String>,
    /// The date that the default system prompt names, such as `2026-11-21`; none by default, for the library asks no clock.
    pub date: Option<String>,
    /// The tools that it is told of and may use, by names and patterns such as `mcp_files_*`; all of the runtime's by default.
    pub tools: Option<BTreeSet<String>>,
    /// Sampling and limits.
    pub params: Params,
    /// Model requests a turn may make; 50 by default, `None` for no limit.
    pub steps_max: Option<u32>,
    /// How waiting steering messages are delivered; together by default.
    pub steering_mode: Mode,
    /// How queued messages are delivered; one by one by default.
    pub queue_mode: Mode,
    /// How long an ask may stay unanswered; 10 minutes by default.
    pub ask_limit: Duration,
    /// The rules of its agent; none by default. They stand before `rules`, which may loosen what they ask and not what they deny.
    pub agent_rules: Option<Ruleset>,
    /// The rules of permission; those of [`Profile::Strict`] by default, where there are none of its agent.
    pub rules: Option<Ruleset>,
    /// What it may use, with its children, and what happens when that is not enough; no limit by default. Of a child the
    /// session's limits are what its parent grants to it; where they say nothing, a share of what is left.
    pub budget: Budget,
    /// How deep children may stand below the session at the top; the runtime's, which is 1 by default.
    pub task_depth_max: Option<u32>,
    /// How many children it may have open at the same time; the runtime's, which is 8 by default.
    pub task_width_max: Option<usize>,
}

impl SessionOptions {
    /// What an agent says, for a workspace; all that it leaves open is as in [`SessionOptions::new`].
    ///
    /// # Errors
    /// [`BadAgent`] where the agent cannot be used.
    pub fn from_agent(agent: &Agent, workspace: impl Into<PathBuf>) -> Result<SessionOptions, BadAgent> {
        agent.check()?;
        let mut options = SessionOptions::new(workspace);
        options.agent = Some(agent.name.clone());
        options.system.clone_from(&agent.prompt);
        options.model.clone_from(&agent.model);
        options.tools.clone_from(&agent.tools);
        options.agent_rules = agent.ruleset();
        options.params.max_output = agent.limits.output_max;
        options.steps_max = agent.limits.steps_max.or(options.steps_max);
        Ok(options)
    }

    /// The defaults, for a workspace.
    #[must_use]
    pub fn new(workspace: impl Into<PathBuf>) -> SessionOptions {
        SessionOptions {
            id: None,
            workspace: workspace.into(),
            model: None,
            title: None,
            agent: None,
            system: None,
            date: None,
            tools: None,
            params: Params::default(),
            steps_max: Some(50),
            steering_mode: Mode::All,
            queue_mode: Mode::One,
            ask_limit: Duration::from_secs(600),
            agent_rules: None,
            rules: None,
            budget: Budget::default(),
            task_depth_max: None,
            task_width_max: None,
        }
    }

    /// Under that id.
    #[must_use]
    pub fn id(mut self, id: SessionId) -> SessionOptions {
        self.id = Some(id);
        self
    }

    /// Under the rules of that profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> SessionOptions {
        self.rules = Some(profile.ruleset());
        self
    }

    /// With that system prompt.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> SessionOptions {
        self.system = Some(system.into());
        self
    }
}

/// The one model, whatever it is called by.
struct OneModel(Arc<dyn Model>);

impl Models for OneModel {
    fn find(&self, _: &ModelRef) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }

    fn limits_of(&self, _: &ModelRef) -> ModelLimits {
        self.0.limits()
    }

    fn price_of(&self, _: &ModelRef) -> Option<Price> {
        self.0.price()
    }
}
