//! [`Shared`]: the shared context of one runtime (tapes, tools, models, hooks, slots), built once at its start and passed on as a
//! value.
//!
//! A change must keep this. None of it becomes global, so that one process can have several runtimes. A decision asks the
//! embedding program about a model only through [`KnownModels`], which keeps the answers. No actor waits for a slow disk: work
//! that may wait for one runs on a thread of its own, as in [`Shared::blocking`]. Slots and the contexts of calls hold this value
//! weakly, or a tool that keeps its context would keep the runtime that owns it.

use std::sync::{Arc, OnceLock};
#[cfg(feature = "fault-injection")]
use std::time::Duration;

use tokio::task::JoinError;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        counters::Counting,
        governors::Governors,
        known_models::KnownModels,
        limits::RuntimeLimits,
        observers::Observers,
        slot::{Admission, Slot},
        slots::Slots,
        tape_store::{Orders, Sweeper},
        tapes::Tapes,
        timekeeper::{Keeper, Passivation},
        toolset::HostTools,
        trace_link::TraceLink,
    },
    agent::{Agents, Commands},
    error::OpenError,
    hook::{HookContext, Hooks},
    lock::Lock,
    model::{BoxFuture, Models},
    ops::remembered::Remembered,
    permission::{Globs, Ruleset},
    prompt::{Named, Place, Section, ask},
    supervisor::{Registry, SupervisorHandle},
    tape::{TapeError, TapeStoreExt as _},
    task::ContextRef,
    tool::Threads,
    words::clock::Clock,
    words::ids::SessionId,
    words::message::ModelRef,
};

/// What a host has under the name of a reference, for the session that gives the task: `Ok(None)` for nothing. The error is words for
/// the giver of the task.
pub(crate) type Resolve =
    dyn Fn(HookContext, ContextRef) -> BoxFuture<'static, Result<Option<String>, String>> + Send + Sync + 'static;

/// The shared context of one runtime. See the module.
pub(crate) struct Shared {
    pub(crate) store: Tapes,
    /// What was read of long tapes.
    pub(crate) remembered: Remembered,
    /// The tools of the moment; a host may swap them.
    pub(crate) tools: HostTools,
    /// The providers that tell new sessions of their surroundings.
    pub(crate) environment: Vec<Named>,
    pub(crate) models: KnownModels,
    /// What the requests to a provider with one key have in common.
    pub(crate) governors: Governors,
    pub(crate) hooks: Hooks,
    /// The hooks again, in their role as observers of events.
    pub(crate) observers: Observers,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) globs: Globs,
    /// The limits of the embedding program on messages and models.
    pub(crate) limits: RuntimeLimits,
    /// Whether the tree shows the beginning of a call's arguments and the titles of its progress: words of a conversation.
    pub(crate) tree_shows_arguments: bool,
    /// The counters of the runtime.
    pub(crate) counting: Counting,
    /// What joins the runtime's spans with the traces of the embedding program.
    pub(crate) trace_link: Option<Arc<dyn TraceLink>>,
    /// What the embedding program has under the names that tasks are given.
    pub(crate) resolve: Option<Arc<Resolve>>,
    /// The permission rules of the embedding program, above those of every session, as they are now; a host may swap them.
    pub(crate) rules: Lock<Option<Arc<Ruleset>>>,
    /// The agents of the moment; a host may swap them.
    pub(crate) agents: Lock<Agents>,
    /// The commands of the moment, likewise.
    pub(crate) commands: Lock<Commands>,
    /// The OS processes of all calls.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) processes: crate::process::Processes,
    /// The threads of the blocking code of all calls.
    pub(crate) threads: Threads,
    /// The table of the known sessions.
    pub(crate) slots: Slots,
    /// The limits and the alarm of the timekeeper, which puts idle sessions to sleep.
    pub(crate) keeper: Keeper,
    /// The policy and the newest report of the periodic sweeps.
    pub(crate) sweeper: Sweeper,
    /// The orders for the tape store's actor: tapes to open or make, and chores.
    pub(crate) orders: Orders,
    /// Held while the store records whether a session is parked, so that these writes are serialised.
    writes_parked: Lock<()>,
    /// Held by an adoption, from the look for a circle until both tapes have it.
    pub(crate) adopting: tokio::sync::Mutex<()>,
    /// The tokio runtime of the tree, for tasks that no caller may cancel.
    pub(crate) tokio: tokio::runtime::Handle,
    /// The tracker of those tasks; the end of the runtime waits for them.
    pub(crate) tasks: TaskTracker,
    /// The supervisor of the sessions, once the tree is up.
    pub(crate) sessions: OnceLock<SupervisorHandle>,
    /// The supervisor of the compactions, once the tree is up.
    pub(crate) compactions: OnceLock<SupervisorHandle>,
    /// Fault injection: the delay between acknowledging an append and writing it.
    #[cfg(feature = "fault-injection")]
    pub(crate) hold_back_appends: Option<Duration>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// Builds the context. Call it inside the tokio runtime that the tree will run on.
    pub(crate) fn new(
        store: Tapes,
        tools: HostTools,
        models: Arc<dyn Models>,
        hooks: Hooks,
        registry: Registry,
        passivation: Passivation,
    ) -> Shared {
        Shared {
            store,
            remembered: Remembered::default(),
            tools,
            environment: Vec::new(),
            models: KnownModels::new(models),
            governors: Governors::default(),
            observers: Observers::new(&hooks),
            hooks,
            registry,
            clock: Clock::start(),
            globs: Globs::default(),
            limits: RuntimeLimits::default(),
            tree_shows_arguments: false,
            counting: Counting::default(),
            trace_link: None,
            resolve: None,
            rules: Lock::default(),
            agents: Lock::default(),
            commands: Lock::default(),
            #[cfg(all(unix, feature = "tools"))]
            processes: crate::process::Processes::unwatched(),
            threads: Threads::default(),
            slots: Slots::default(),
            keeper: Keeper::new(passivation),
            sweeper: Sweeper::default(),
            orders: Orders::default(),
            writes_parked: Lock::default(),
            adopting: tokio::sync::Mutex::default(),
            tokio: tokio::runtime::Handle::current(),
            tasks: TaskTracker::new(),
            sessions: OnceLock::new(),
            compactions: OnceLock::new(),
            #[cfg(feature = "fault-injection")]
            hold_back_appends: None,
        }
    }

    /// The rules of the embedding program as they are now.
    pub(crate) fn host_rules(&self) -> Option<Arc<Ruleset>> {
        self.rules.lock().clone()
    }

    /// What the providers of the environment say to a new session; `None` where there is no provider.
    pub(crate) async fn surroundings(&self, workspace: &str, model: &ModelRef) -> Option<Vec<Section>> {
        if self.environment.is_empty() {
            return None;
        }
        Some(ask(&self.environment, Place::new(workspace, model.clone()), &self.tokio).await)
    }

    /// Runs work that may wait for a disk on a thread of its own. Dropping the future does not cancel the work.
    pub(crate) async fn blocking<T: Send + 'static, E: From<OpenError> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Shared) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let shared = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&shared)).await;
        done.unwrap_or_else(|lost| Err(OpenError::lost(lost).into()))
    }

    /// The slot of a session. The session need not exist.
    pub(crate) fn slot(self: &Arc<Self>, id: &SessionId) -> Arc<Slot> {
        self.slots.slot(self, id)
    }

    /// Closes the runtime to inputs and to opening tapes. Returns the slots of the known sessions.
    pub(crate) fn close(&self) -> Vec<Arc<Slot>> {
        self.orders.close();
        self.slots.set_admission(Admission::Closed)
    }

    /// Parks a session after incarnation `after`: it stays stopped until it is unparked. Senders are refused as parked, and the
    /// store records `why`. Does not park it if a later incarnation has begun. On an error it is parked in this runtime only.
    pub(crate) async fn park(self: &Arc<Self>, id: &SessionId, after: u32, why: String) -> Result<(), TapeError> {
        self.slots.park(id, after, why);
        self.write_parked(id).await
    }

    /// Unparks a session. Returns whether it was parked. Where the store could not note it, it is unparked in this runtime only.
    pub(crate) async fn unpark(self: &Arc<Self>, id: &SessionId) -> bool {
        let was_parked = self.slots.unpark(id);
        drop(self.write_parked(id).await);
        was_parked
    }

    /// Records in the store whether a session is parked. Writes are serialised, and each writes the state of that moment, so the
    /// last write is correct.
    pub(crate) async fn write_parked(self: &Arc<Self>, id: &SessionId) -> Result<(), TapeError> {
        let (shared, id) = (self.clone(), id.clone());
        let written = self.tokio.spawn_blocking(move || {
            let _one = shared.writes_parked.lock();
            match shared.slots.why_parked(&id) {
                Some(why) => shared.store.park(&id, shared.clock.now(), &why),
                None => shared.store.unpark(&id),
            }
        });
        // A task that was cancelled tells that the tokio runtime is ending.
        let lost = |lost: JoinError| if lost.is_panic() { Err(TapeError::lost(lost)) } else { Ok(()) };
        written.await.unwrap_or_else(lost).inspect_err(|error| {
            tracing::error!(%error, "whether a session is parked could not be written down: it is so in this runtime only");
        })
    }
}
