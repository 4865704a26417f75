//! Configures a runtime: the host's parts, and the defaults for missing ones.
//!
//! A [`Builder`] only collects values: nothing is opened or started before [`Builder::start`], and nothing is read from the
//! environment. A change must keep it so, because a host may drop a builder, and decides itself what its environment means.
//! `builder/start.rs` has the start; some setters are in the file of what they set (`runtime/agents.rs`, `runtime/task.rs`).

mod start;
mod timer;

use std::{path::PathBuf, sync::Arc, time::Duration};

use crate::{
    actor::{limits::RuntimeLimits, shared::Resolve, tapes::Tapes, trace_link::TraceLink},
    agent::{Agents, Commands},
    event::EventStream,
    hook::{Hook, HookContext},
    kernel::Fallback,
    model::{BoxFuture, Model, ModelError, ModelLimits, Models, Price, Prices},
    ops::SweepPolicy,
    permission::Ruleset,
    prompt::{EnvironmentProvider, Named},
    runtime::{Passivation, recovery::Listen},
    supervisor::ChildSpec,
    tape::{Durability, MemoryStore, Store, StoreOptions, TapeError, TapeStore},
    task::ContextRef,
    tool::{Tool, Toolbox},
    words::ids::SessionId,
    words::message::ModelRef,
};

/// Collects the parts of a runtime. Only a place for the tapes and a model are required.
///
/// A setter that takes one part of several (tools, hooks, providers of the environment, agents, commands, prices, rules, children,
/// listeners) adds to what earlier calls gave, in any order of the calls. A setter of one value (the store, the model, a limit)
/// replaces the value of an earlier call.
#[derive(Default)]
pub struct Builder {
    open_store: Option<OpenStore>,
    options: StoreOptions,
    models: Option<Arc<dyn Models>>,
    model: Option<ModelRef>,
    tools: Toolbox,
    environment: Vec<Named>,
    hooks: Vec<Arc<dyn Hook>>,
    pub(super) agents: Option<Agents>,
    pub(super) commands: Option<Commands>,
    pub(super) with_tasks: bool,
    host_rules: Option<Ruleset>,
    children: Vec<ChildSpec>,
    no_auto_resume: bool,
    on_resume: Vec<Box<Listen>>,
    task_limits: Option<(u32, usize)>,
    prices: Prices,
    fallback: Vec<Fallback>,
    #[cfg(all(unix, feature = "tools"))]
    watch: crate::process::WatchBy,
    passivation: Passivation,
    limits: RuntimeLimits,
    tree_shows_arguments: bool,
    counted_label: Option<String>,
    trace_link: Option<Arc<dyn TraceLink>>,
    resolve: Option<Arc<Resolve>>,
    sweeps: Option<(Duration, SweepPolicy)>,
    #[cfg(feature = "fault-injection")]
    hold_back_appends: Option<Duration>,
}

impl Builder {
    /// The folder of the tapes; made where it is missing.
    #[must_use]
    pub fn store(mut self, path: impl Into<PathBuf>) -> Builder {
        let path = path.into();
        self.open_store = Some(Box::new(|options| Store::open(whole(path), options).map(Tapes::of_files)));
        self
    }

    /// Keeps the tapes in memory: the runtime writes nothing to a disk, and nothing outlives it.
    ///
    /// A session crashes, sleeps, is parked, forked, merged, rolled back, compacted and budgeted as over files. Features that need
    /// a folder are missing, and say so where they would have been used:
    ///
    /// | over files | in memory |
    /// |---|---|
    /// | an output that is too large for the model is kept in a file | what is cut off is lost; the result says so |
    /// | what files held before calls changed them is kept | it is not, so they cannot be put back; a plan names each |
    /// | a ledger lets the next runtime end processes of a killed host | only the watcher ends them, at once: `Builder::watch` |
    /// | `Runtime::search` | [`TapeError::NoIndex`], unless the engine keeps an index of words |
    ///
    /// Tools work on real files in either case. The tapes take memory until they are removed
    /// ([`Runtime::sweep`](crate::Runtime::sweep)), 512 MiB and 100,000 sessions at most. Beyond that, new entries and sessions
    /// are refused as [`TapeError::MemoryFull`], and open turns end. The store belongs to the runtime, and its limits cannot be
    /// changed. For other limits, or to raise them later, make a [`MemoryStore`], keep a clone, and give it to
    /// [`Builder::tapes`].
    #[must_use]
    pub fn in_memory(self) -> Builder {
        self.tapes(Arc::new(MemoryStore::new()))
    }

    /// Keeps the tapes in an engine of the host's: a database, or a [`MemoryStore`] that outlives the runtime. Several runtimes
    /// may share the value, one after the other or at the same time: each session has one writer. The end of a runtime releases the
    /// tapes that it has open. It does not close the engine; the host does.
    ///
    /// An engine that names no folder lacks the features that [`Builder::in_memory`] lists.
    #[must_use]
    pub fn tapes(mut self, engine: Arc<dyn TapeStore>) -> Builder {
        self.open_store = Some(Box::new(|_options| {
            Ok(Tapes::of_engine(
                engine,
                #[cfg(feature = "fault-injection")]
                _options.faults,
            ))
        }));
        self
    }

    /// Which failure an acknowledged entry survives; the end of the process by default. Holds for [`Builder::store`] only: an
    /// engine of the host decides about its own durability.
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

    /// Where models are found by name, and the default model of sessions that name none.
    #[must_use]
    pub fn models(mut self, models: Arc<dyn Models>, default: ModelRef) -> Builder {
        self.models = Some(models);
        self.model = Some(default);
        self
    }

    /// The models that stand in for the default model, in this order, in sessions that name neither a model nor a chain: at most eight,
    /// each once ([`StartError::Fallback`](crate::error::StartError::Fallback)). None by default.
    ///
    /// A session keeps its chain when [`Session::configure`](crate::Session::configure) changes its model alone: whoever changes the
    /// model there sets [`Settings::fallback`](crate::session::Settings::fallback) with it. The command `/model` clears it.
    ///
    /// ```
    /// use tamtam::{Runtime, session::Fallback};
    ///
    /// let builder = Runtime::builder().fallback(["local/qwen3 on auth,network".parse::<Fallback>()?]);
    /// # drop(builder);
    /// # Ok::<(), String>(())
    /// ```
    #[must_use]
    pub fn fallback(mut self, chain: impl IntoIterator<Item = Fallback>) -> Builder {
        self.fallback = chain.into_iter().collect();
        self
    }

    /// What a task is given for a reference of the kind [`Doc`](crate::session::ContextRefKind::Doc) or
    /// [`Memory`](crate::session::ContextRefKind::Memory): the text that the host has under that name for the session that gives the
    /// task. The name is a model's: no rule was asked about it, so the host judges by the session and its labels who may have what.
    ///
    /// The first 16 KiB are shown to the child, as data; with `Ok(None)`, and without a function here, the child gets the name alone.
    /// A task may name 64 references, and all of them together may take [`HOOK_LIMIT`](crate::hook::HOOK_LIMIT); more, an error and a
    /// panic refuse the task in words for its giver. A task that is given again, because its session crashed before the child was
    /// made, is asked about again.
    ///
    /// ```
    /// use tamtam::{Runtime, hook::HookContext, model::BoxFuture, session::ContextRef};
    /// let notes = |_: HookContext, named: ContextRef| -> BoxFuture<'static, Result<Option<String>, String>> {
    ///     Box::pin(async move { Ok((named.id == "style").then(|| "Short sentences.".to_owned())) })
    /// };
    /// let builder = Runtime::builder().context_refs(notes);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn context_refs(
        mut self,
        resolve: impl Fn(HookContext, ContextRef) -> BoxFuture<'static, Result<Option<String>, String>>
        + Send
        + Sync
        + 'static,
    ) -> Builder {
        self.resolve = Some(Arc::new(resolve));
        self
    }

    /// Prices of models, by their exact names. They add to the prices that the models themselves know, and override them. A price
    /// without a source is unknown, never zero.
    ///
    /// ```
    /// use tamtam::{Runtime, model::{Price, MicroUsd}};
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

    /// More tools for all sessions; none by default. A name that two tools have is refused at the start
    /// ([`StartError::Tools`](crate::error::StartError::Tools)).
    #[must_use]
    pub fn tools(mut self, tools: Toolbox) -> Builder {
        self.tools = self.tools.and(&tools);
        self
    }

    /// One more tool. It is asked for its schema and description here, once.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Builder {
        self.tools.add(Arc::new(tool));
        self
    }

    /// One more provider of the environment, which describes its surroundings to each new session, once. With one, the prompt of
    /// an agent or of the options replaces only the default agent's words; without one, a host's prompt is the whole prompt.
    #[must_use]
    pub fn environment(mut self, provider: impl EnvironmentProvider) -> Builder {
        self.environment.push((provider.name().to_owned(), Arc::new(provider)));
        self
    }

    /// One more hook, after those before it.
    #[must_use]
    pub fn hook(mut self, hook: impl Hook) -> Builder {
        self.hooks.push(Arc::new(hook));
        self
    }

    /// Rules of the host, above those of every session: what they deny, no session can allow.
    ///
    /// The rules hold in every session of the runtime: also in sessions that were made under other rules, in forks and in children.
    /// Each session records them on its tape before it does anything else. A runtime without host rules removes those that an
    /// earlier host left on a session's tape.
    ///
    /// Rules of a second call come after those of the first, under the name and the order of the first.
    #[must_use]
    pub fn rules(mut self, rules: Ruleset) -> Builder {
        if let Some(have) = &mut self.host_rules {
            have.append(rules);
            return self;
        }
        self.host_rules = Some(rules.of_host());
        self
    }

    /// A child of the host's own, under the same tree. It starts with the runtime; see
    /// [`Runtime::host`](crate::Runtime::host). If its start fails, the runtime does not start.
    #[must_use]
    pub fn child(mut self, child: ChildSpec) -> Builder {
        self.children.push(child);
        self
    }

    /// The default for sessions whose options do not say: how deep children may be below the top session, and how many each
    /// session may have open at once; 1 and 8 by default.
    #[must_use]
    pub fn task_limits(mut self, depth_max: u32, width_max: usize) -> Builder {
        self.task_limits = Some((depth_max, width_max));
        self
    }

    /// Leaves sessions that were interrupted in a turn alone until they are resumed by name. By default they continue at the
    /// start.
    #[must_use]
    pub fn without_auto_resume(mut self) -> Builder {
        self.no_auto_resume = true;
        self
    }

    /// Listens to the sessions that continue at the start. The closure gets the event stream of each session that was in a turn,
    /// before any of them takes a step. It runs on the task that starts the runtime and must not block; a panic in it is logged.
    ///
    /// A child that was ordered but not yet made when the process ended is not among these sessions: its parent makes it. A session
    /// that one of the host's own children ([`child`](Builder::child)) writes to may be awake before.
    ///
    /// Without a listener, a session's asks are denied at once; so a host whose people answer asks keeps these streams. Answer
    /// with [`Session::answer`](crate::Session::answer) once the runtime has started; an ask waits that long.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tamtam::{EventStream, Runtime, SessionId, SessionOptions, model::Scripted};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let heard = Arc::new(Mutex::new(Vec::<(SessionId, EventStream)>::new()));
    /// let keeps = heard.clone();
    /// let builder = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([])));
    /// let runtime = builder.on_resume(move |id, events| keeps.lock().unwrap().push((id.clone(), events))).start().await?;
    /// assert!(heard.lock().unwrap().is_empty(), "nothing was interrupted");
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn on_resume(mut self, listen: impl Fn(&SessionId, EventStream) + Send + Sync + 'static) -> Builder {
        self.on_resume.push(Box::new(listen));
        self
    }

    /// Which program ends the processes of calls when this process is killed; a script of `/bin/sh` by default. A host that can
    /// start its own program as a watcher should name that program: it finds more of them.
    #[cfg(all(unix, feature = "tools"))]
    #[must_use]
    pub fn watch(mut self, watch: crate::process::WatchBy) -> Builder {
        self.watch = watch;
        self
    }

    /// When sessions are put to sleep; see [`Passivation`] for the defaults.
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

    /// Limits on messages and models; see [`RuntimeLimits`] for the defaults, and for what each may be. Limits out of range are
    /// refused at the start ([`StartError::Limit`](crate::error::StartError::Limit)).
    #[must_use]
    pub fn limits(mut self, limits: RuntimeLimits) -> Builder {
        self.limits = limits;
        self
    }

    /// Whether the tree shows words of conversations: of each running call the first 80 characters of its arguments, or the newest
    /// title of its progress. Off by default: the tree, its JSON, [`Runtime::inspect`](crate::Runtime::inspect) and crash reports
    /// go to operators and logs, and arguments hold passwords. The name of the tool is always shown.
    ///
    /// ```
    /// use tamtam::Runtime;
    /// // For a terminal of one's own.
    /// let builder = Runtime::builder().tree_shows_arguments(true);
    /// ```
    #[must_use]
    pub fn tree_shows_arguments(mut self, shows: bool) -> Builder {
        self.tree_shows_arguments = shows;
        self
    }

    /// The label whose values are told apart in [`Counters::labelled`](crate::runtime::Counters::labelled), such as `tenant`. None by
    /// default. The first 100 values have counters of their own. The requests of all values also take turns where they wait for a
    /// provider together ([`RateLimits`](crate::model::RateLimits)).
    #[must_use]
    pub fn count_label(mut self, key: impl Into<String>) -> Builder {
        self.counted_label = Some(key.into());
        self
    }

    /// Joins the runtime's spans with the traces of a host's tracing system. None by default: then the trace of a message goes on
    /// unchanged with the requests, calls and tasks of its turn.
    #[must_use]
    pub fn trace_link(mut self, link: impl TraceLink) -> Builder {
        self.trace_link = Some(Arc::new(link));
        self
    }

    /// Lets the runtime sweep about every `every`, which is at least a second; off by default. Each wait, also the one before the
    /// first sweep, is drawn from three quarters to five quarters of `every`, so that runtimes that were started together do not
    /// sweep together. [`Runtime::last_sweep`](crate::Runtime::last_sweep) has the newest report.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tamtam::{Runtime, ops::SweepPolicy};
    ///
    /// let mut policy = SweepPolicy::default();
    /// policy.older_than = Some(Duration::from_secs(30 * 24 * 60 * 60));
    /// let builder = Runtime::builder().sweeps(Duration::from_secs(60 * 60), policy);
    /// # drop(builder);
    /// ```
    #[must_use]
    pub fn sweeps(mut self, every: Duration, policy: SweepPolicy) -> Builder {
        self.sweeps = Some((every, policy));
        self
    }

    /// Breaks tape-first on purpose: acknowledges and starts each decision at once, and writes its entries later by this time.
    ///
    /// For one test. It shows that a process killed without tape-first loses messages and runs commands twice, and that the checks
    /// notice it. `None` changes nothing. Only with the feature `fault-injection`.
    #[cfg(feature = "fault-injection")]
    #[must_use]
    pub fn hold_back_appends(mut self, by: Option<Duration>) -> Builder {
        self.hold_back_appends = by;
        self
    }

    /// What happens at the crash points of the runtime. Only with the feature `fault-injection`.
    #[cfg(feature = "fault-injection")]
    #[must_use]
    pub fn faults(mut self, faults: crate::fault::Faults) -> Builder {
        self.options.faults = faults;
        self
    }
}

/// Opens the tapes, where they are kept. Blocks on the disk.
type OpenStore = Box<dyn FnOnce(StoreOptions) -> Result<Tapes, TapeError> + Send + Sync>;

/// The absolute path, where the system can tell it. Tools get folders below it, and these must not depend on the current directory
/// of the process.
fn whole(path: PathBuf) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(std::path::Path::new(".")).canonicalize();
    match (parent, path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        // Opening the store reports what is wrong.
        _ => path,
    }
}

/// Answers every model name with the one model.
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
