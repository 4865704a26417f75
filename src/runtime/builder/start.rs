//! Starts what a [`Builder`] has collected: first the tree, then the sessions that were interrupted.
//!
//! A change must keep the order. The store is opened and its marks are read. Processes that dead runtimes left running are ended,
//! or they would work on the files of a session that continues. Parked sessions are marked in their slots, so that nothing wakes
//! them. The tree comes up; only then do interrupted sessions continue, and their listeners are attached before the first step,
//! so that no ask is missed. If a start fails, nothing is left running.

use std::sync::{Arc, OnceLock};

use tokio::task::JoinError;

use crate::{
    actor::{shared::Shared, toolset::HostTools, undone::left_undone},
    error::StartError,
    hook::Hooks,
    kernel::fallback_fault,
    lock::Lock,
    runtime::{
        Builder, Inner, Runtime,
        builder::timer::has_timer,
        ending::Ending,
        options::Defaults,
        recovery::resume_interrupted,
        task,
        tree::{Tree, close_with, tree},
    },
    supervisor::{Registry, Supervisor},
    tape::{TapeError, TapeStoreExt as _},
    words::ids::SessionId,
};

impl Builder {
    /// Starts the tree, and resumes the sessions that were interrupted in a turn. Returns when each of them is awake or has failed
    /// to wake; one that fails does not fail the start ([`Runtime::recovered`]).
    ///
    /// If the future is dropped before it completes, what was begun is ended in the background, as the drop of the last
    /// [`Runtime`] does it. No turn continues then, unless the future was already waiting for resumed sessions.
    ///
    /// # Errors
    /// See [`StartError`]. Nothing is left running then.
    pub async fn start(mut self) -> Result<Runtime, StartError> {
        tokio::runtime::Handle::try_current().map_err(|_| StartError::NoTokio)?;
        let listeners = std::mem::take(&mut self.on_resume);
        // A separate task: dropped half-way, a start would leave a tree and an open store without a handle.
        let (runtime, interrupted) = match tokio::spawn(self.start_tree()).await.map_err(JoinError::try_into_panic) {
            Ok(started) => started?,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => return Err(StartError::Store(TapeError::Closed)),
        };
        if let Some(interrupted) = interrupted {
            let recovered = resume_interrupted(&runtime, interrupted, &listeners).await;
            fault!(runtime.inner.shared.store.faults(), "start.resumed", "runtime");
            let _ = runtime.inner.recovered.set(recovered);
        }
        Ok(runtime)
    }

    /// Everything of a start but the sessions. Also returns the sessions to resume; `None` if they are left alone.
    async fn start_tree(self) -> Result<(Runtime, Option<Vec<SessionId>>), StartError> {
        let open_store = self.open_store.ok_or(StartError::NoStore)?;
        let (Some(models), Some(model)) = (self.models, self.model) else { return Err(StartError::NoModel) };
        fallback_fault(&self.fallback).map_or(Ok(()), |problem| Err(StartError::Fallback(problem)))?;
        let (agents, commands) = (self.agents.unwrap_or_default(), self.commands.unwrap_or_default());
        let own = if self.with_tasks { task::tools(&agents) } else { Vec::new() };
        let tools = HostTools::new(self.tools, own).map_err(StartError::Tools)?;
        self.limits.check()?;
        if !has_timer() {
            return Err(StartError::NoTimer);
        }
        let options = self.options;
        #[cfg(feature = "fault-injection")]
        let faults = options.faults.clone();
        let resumes = !self.no_auto_resume;
        // Opening a store may wait for a disk, and so may looking for marks.
        let opened = tokio::task::spawn_blocking(move || {
            let store = open_store(options)?;
            let parked = store.parked_sessions()?;
            // Before anything runs: a session that is missed here would lose its turn in silence.
            let interrupted = if resumes { store.open_sessions()? } else { Vec::new() };
            Ok::<_, TapeError>((store, parked, interrupted))
        });
        let (store, parked, interrupted) = opened.await.map_err(TapeError::lost)??;
        fault!(faults, "start.store_opened", "runtime");
        let registry = Registry::new();
        #[cfg(feature = "fault-injection")]
        let registry = registry.with_faults(faults.clone());
        let hooks = Hooks::new(self.hooks);
        #[cfg(all(unix, feature = "tools"))]
        let processes = processes(&store, self.watch).await;
        let mut shared = Shared::new(store, tools, models, hooks, registry.clone(), self.passivation);
        (shared.models.prices, shared.limits) = (self.prices, self.limits);
        shared.rules = Lock::new(self.host_rules.map(Arc::new));
        shared.sweeper.own = self.sweeps;
        shared.environment = self.environment;
        shared.tree_shows_arguments = self.tree_shows_arguments;
        (shared.counting.label, shared.trace_link) = (self.counted_label, self.trace_link);
        shared.resolve = self.resolve;
        (shared.agents, shared.commands) = (Lock::new(agents), Lock::new(commands));
        #[cfg(all(unix, feature = "tools"))]
        {
            shared.processes = processes;
        }
        #[cfg(feature = "fault-injection")]
        {
            shared.hold_back_appends = self.hold_back_appends;
        }
        let shared = Arc::new(shared);
        for (id, why) in parked {
            shared.slots.park(&id, 0, why);
        }
        left_undone(&shared).for_each(|left| tracing::warn!(what = left.what, next = left.next, "left undone"));
        let Tree { root, governors, sessions, compactions, tools, host_children } = tree(&shared, self.children)?;
        // Once, before there is a session.
        let _ = (shared.sessions.set(sessions.clone()), shared.compactions.set(compactions));
        let _ = shared.governors.supervisor.set(governors);
        let root = Supervisor::start(root, &registry).await?;
        close_with(&shared, root.clone());
        fault!(faults, "start.tree_up", "runtime");

        let settings = Defaults { model, fallback: self.fallback, task_limits: self.task_limits };
        let (recovered, ending) = (OnceLock::new(), Ending::default());
        let inner = Inner { shared, root, sessions, tools, host_children, settings, recovered, ending };
        Ok((Runtime { inner: Arc::new(inner) }, resumes.then_some(interrupted)))
    }
}

/// The processes of a runtime. First ends the processes that dead runtimes left running on this store, so that none of them works
/// on the files of a session that continues.
#[cfg(all(unix, feature = "tools"))]
async fn processes(store: &crate::actor::tapes::Tapes, watch: crate::process::WatchBy) -> crate::process::Processes {
    let Some(ledger) = store.processes_path() else { return crate::process::Processes::new(watch, None) };
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
