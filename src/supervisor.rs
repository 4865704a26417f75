//! Supervision as in OTP: actors that start in order, restart when they crash, and stop in reverse.
//!
//! A supervisor is two halves. The planner decides: it is a pure state machine. The driver acts: it is an actor that starts and
//! stops children as the planner says, and never waits, so that it answers at any moment. A monitor task waits for each child.
//!
//! What it promises:
//! - a child is not started again while its last incarnation (its last start) is alive; the workers of that incarnation delay the
//!   start too, for as long as the spec says;
//! - when a supervisor starts or ends, its children start in the order of their specs and stop in reverse; those of a dynamic
//!   supervisor do so side by side;
//! - a stop ends: after its shutdown time a child is killed, and if it is still there a second later, it is reported as unkillable;
//!   only with [`Shutdown::Infinity`] a child that is up is waited for without a limit;
//! - nothing here is global, unless a host calls [`locate_panics`]: two runtimes with the same ids do not see each other.
//!
//! What it never does: end the host's process, or keep a child's state across a crash. A child rebuilds itself.

// What a change must keep: `ractor` stays inside `shell.rs`, decisions inside the planner, and waits out of the driver.

pub(crate) mod abort;
pub(crate) mod admin;
pub(crate) mod backoff;
pub(crate) mod child;
pub(crate) mod crash_log;
pub(crate) mod driver;
pub(crate) mod exit;
pub(crate) mod handle;
pub(crate) mod intensity;
pub(crate) mod monitor;
pub(crate) mod node_state;
pub(crate) mod panics;
pub(crate) mod payload;
pub(crate) mod planner;
pub(crate) mod registry;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod shell;
pub(crate) mod shown;
pub(crate) mod spec;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod tree;
pub(crate) mod watch;

use std::sync::Arc;

use crate::supervisor::{
    handle::Shared,
    shell::{NotStarted, SpawnArgs},
};

pub use crate::supervisor::{
    abort::{PanicAbort, refuse_panic_abort},
    admin::{AdminError, Done},
    backoff::Backoff,
    child::{ChildContext, Start},
    exit::{ChildDown, ExitReason, PanicReport},
    handle::{ChildInfo, Counts, SupervisorHandle},
    intensity::Intensity,
    node_state::NodeState,
    panics::locate_panics,
    payload::{NodePayload, Payload},
    registry::Registry,
    render::render,
    report::{Context, CrashReport, Decision},
    shown::WorkerNode,
    spec::{
        AutoShutdown, BadSpec, ChildId, ChildKind, ChildSpec, OnExhausted, Restart, Shutdown, Strategy, SupervisorSpec,
    },
    status::{Reading, Status},
    trace::{Happened, HappenedKind},
    tree::Node,
    watch::{Happening, TreeEvent, Watch},
};

/// A supervisor without a supervisor: the root of a tree.
///
/// ```
/// use tamtam::supervisor::{ChildSpec, Registry, Strategy, Supervisor, SupervisorSpec};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # runtime.block_on(async {
/// let poller = ChildSpec::new("poller", |cx| async move {
///     cx.node().doing("waiting for work");
///     cx.stopping().await;
///     Ok(())
/// });
/// let registry = Registry::new();
/// let spec = SupervisorSpec::new("mine", Strategy::OneForOne).child(poller);
/// let supervisor = Supervisor::start(spec, &registry).await.unwrap();
///
/// assert_eq!(supervisor.count_children().await.unwrap().active, 1);
/// assert!(registry.snapshot()[0].find("poller").is_some());
/// supervisor.shutdown().await;
/// # });
/// ```
#[derive(Debug)]
pub struct Supervisor;

impl Supervisor {
    /// Starts a root, and returns when all its children have started.
    ///
    /// It runs until [`SupervisorHandle::shutdown`], or until it ends on its own (too many restarts, significant children);
    /// [`SupervisorHandle::ended`] waits for that. If a child cannot start, those before it are stopped in reverse. Needs a tokio
    /// runtime with time. If the future is dropped before it completes, the supervisor is shut down in the background.
    pub async fn start(spec: SupervisorSpec, registry: &Registry) -> Result<SupervisorHandle, TreeError> {
        refuse_panic_abort()?;
        spec.check()?;
        // A separate task: dropped half-way, a start would leave an actor without a handle.
        let started = tokio::spawn(start(spec, registry.clone())).await;
        let mut started = started.unwrap_or(Err(TreeError::Failed { reason: ExitReason::Cancelled }))?;
        started.0.take().ok_or(TreeError::Failed { reason: ExitReason::Cancelled })
    }
}

/// A started root that its caller has not taken yet. A drop shuts it down.
struct Started(Option<SupervisorHandle>);

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(nobodys) = &self.0 {
            nobodys.request_shutdown();
        }
    }
}

async fn start(spec: SupervisorSpec, registry: Registry) -> Result<Started, TreeError> {
    let shared = Shared::new(spec.id.clone());
    let shown = registry.show(None, spec.id.as_str(), "supervisor");
    shown.0.born(1, 1);
    let node = shown.0.clone();
    let spawn = SpawnArgs::root(node, registry);
    let handle = SupervisorHandle { shared: shared.clone() };
    let failed = |reason| TreeError::Failed { reason };
    let live = match driver::launch(Arc::new(spec), shared, spawn, Some(shown)).await {
        Ok(live) => live,
        Err(NotStarted::Failed(reason)) => return Err(failed(reason)),
        Err(NotStarted::Ignored) => return Err(failed(ExitReason::Normal)),
    };
    let ready = match live.ready {
        Some(ready) => ready.await.unwrap_or(Err(ExitReason::Cancelled)),
        None => Ok(()),
    };
    match ready {
        Ok(()) => Ok(Started(Some(handle))),
        Err(reason) => {
            handle.ended().await;
            Err(failed(reason))
        }
    }
}

/// Why a supervisor did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The spec is not valid.
    #[error(transparent)]
    BadSpec(#[from] BadSpec),
    /// The supervisor, or one of its children, could not start; the reason carries the chain of causes.
    #[error("the supervisor did not start: {reason}")]
    Failed {
        /// Why.
        reason: ExitReason,
    },
    /// Supervision needs panics that unwind.
    #[error(transparent)]
    PanicAbort(#[from] PanicAbort),
}

#[cfg(test)]
mod tests;
