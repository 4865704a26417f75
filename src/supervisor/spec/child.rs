//! [`ChildSpec`]: the spec of one child: its id, how to start it, how to stop it, and what to do when it ends.
//! A value that starts nothing. The start is called again for each incarnation (each start of the child), so it must be
//! repeatable, unless the child is temporary. Besides its id, [`Policy`] is all that the planner (the part of a supervisor that
//! decides) sees of a child's spec.
//!
//! A change must keep `workers` complete: a next incarnation waits until these tasks are gone (up to their limit, if they have
//! one). A child that starts tasks besides its actor must put them there, or a second copy runs alongside the first.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use tokio_util::task::TaskTracker;

use crate::supervisor::{
    backoff::Backoff,
    child::{BeginFn, ChildContext, HostTask, Start},
    driver,
    handle::{Shared, SupervisorHandle},
    intensity::Intensity,
    monitor::Workers,
    shell::{self, Behaviour, StartFn},
    spec::{BadSpec, ChildId, ChildKind, Restart, Shutdown, SupervisorSpec},
};

/// The part of a child's spec that the planner decides by; besides the id it knows nothing else of the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Policy {
    pub(crate) restart: Restart,
    pub(crate) shutdown: Shutdown,
    pub(crate) significant: bool,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) intensity: Option<Intensity>,
}

/// One child: its id, how to start it, and what to do when it ends.
///
/// ```
/// use tamtam::supervisor::{ChildSpec, Restart};
///
/// let spec = ChildSpec::new("poller", |cx| async move {
///     cx.stopping().await;
///     Ok(())
/// })
/// .restart(Restart::Transient);
/// assert_eq!(spec.id().as_str(), "poller");
/// ```
#[derive(Clone)]
pub struct ChildSpec {
    pub(crate) id: ChildId,
    pub(crate) kind: ChildKind,
    pub(crate) label: &'static str,
    pub(crate) policy: Policy,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) workers: Option<Workers>,
    pub(crate) start: StartFn,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl ChildSpec {
    /// A child that is an async function of the host.
    ///
    /// It is called again for each incarnation. Returning `Ok` is a normal end, `Err` and a panic are abnormal ones.
    /// When [`ChildContext::stopping`] resolves it should return soon; after its shutdown time it is dropped at its next
    /// await. The child counts as started at once; for a child that has to get ready first, use [`ChildSpec::with_start`].
    /// Defaults: permanent, 5 s to shut down, 30 s to start, no backoff.
    pub fn new<F, Fut>(id: impl Into<ChildId>, run: F) -> ChildSpec
    where
        F: Fn(ChildContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let run = Arc::new(run);
        ChildSpec::with_start(id, move |cx| {
            let run = run.clone();
            // The call runs inside the child's incarnation: if it panics, the child has crashed, and did not fail to start.
            let work = async move {
                let work = run(cx);
                // Its captures are needed for further calls only, and there may be none.
                drop(run);
                work.await
            };
            async move { Ok(Start::run(work)) }
        })
    }

    /// A child that is an async function of the host with a separate start. When `start` has returned, the next child starts and
    /// the starter is answered. The start has failed if `start` returns `Err`, panics, or takes longer than the start timeout.
    ///
    /// ```
    /// use tamtam::supervisor::{ChildSpec, Start};
    ///
    /// let spec = ChildSpec::with_start("listener", |cx| async move {
    ///     let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    ///     let address = listener.local_addr()?.to_string();
    ///     let work = async move {
    ///         cx.stopping().await;
    ///         drop(listener);
    ///         Ok(())
    ///     };
    ///     Ok(Start::run(work).with(address))
    /// });
    /// assert_eq!(spec.id().as_str(), "listener");
    /// ```
    pub fn with_start<F, Fut>(id: impl Into<ChildId>, start: F) -> ChildSpec
    where
        F: Fn(ChildContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Start, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let begin: Arc<BeginFn> = Arc::new(move |cx| Box::pin(start(cx)));
        let tasks = TaskTracker::new();
        let tasks_of_start = tasks.clone();
        let mut spec = ChildSpec::behaviour(id, "host", move || HostTask::new(begin.clone(), tasks_of_start.clone()));
        // The task is the child: no second task runs alongside it, however long the first one takes to end.
        spec.workers = Some(Workers { tasks, wait: None });
        spec
    }

    /// A child that is one of the crate's own actors; `make` is called for each incarnation.
    pub(crate) fn behaviour<B: Behaviour>(
        id: impl Into<ChildId>,
        label: &'static str,
        make: impl Fn() -> B + Send + Sync + 'static,
    ) -> ChildSpec {
        ChildSpec {
            id: id.into(),
            kind: ChildKind::Worker,
            label,
            policy: Policy::default(),
            start_timeout: Some(Duration::from_secs(30)),
            workers: None,
            start: shell::start_fn(make),
        }
    }

    /// Sets the word that the tree shows for its kind.
    pub(crate) fn labelled(mut self, label: &'static str) -> ChildSpec {
        self.label = label;
        self
    }

    /// The child's id.
    #[must_use]
    pub fn id(&self) -> &ChildId {
        &self.id
    }

    /// When it is started again; permanent by default.
    #[must_use]
    pub fn restart(mut self, restart: Restart) -> ChildSpec {
        self.policy.restart = restart;
        self
    }

    /// How it is stopped. By default it is asked, and killed after 5 s; a supervisor is asked and waited for.
    #[must_use]
    pub fn shutdown(mut self, shutdown: Shutdown) -> ChildSpec {
        self.policy.shutdown = shutdown;
        self
    }

    /// If it ends on its own, its supervisor may end, see [`AutoShutdown`](crate::supervisor::AutoShutdown).
    #[must_use]
    pub fn significant(mut self) -> ChildSpec {
        self.policy.significant = true;
        self
    }

    /// How long to wait before each restart after a crash, instead of the supervisor's own setting.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> ChildSpec {
        self.policy.backoff = Some(backoff);
        self
    }

    /// This child's own budget of restarts, under a supervisor that parks.
    #[must_use]
    pub fn intensity(mut self, intensity: Intensity) -> ChildSpec {
        self.policy.intensity = Some(intensity);
        self
    }

    /// How long its start may take before it is cancelled; `None` waits for ever. 30 s by default, and `None` for a supervisor.
    #[must_use]
    pub fn start_timeout(mut self, limit: Option<Duration>) -> ChildSpec {
        self.start_timeout = limit;
        self
    }

    /// The child's workers: a next incarnation waits for their end.
    ///
    /// They may take this long after the child's own end. If some are left then, the next incarnation still starts; if the child
    /// had come up, the tree's watchers see how many are left.
    pub(crate) fn workers(mut self, tasks: TaskTracker, wait: Duration) -> ChildSpec {
        self.workers = Some(Workers { tasks, wait: Some(wait) });
        self
    }

    /// A child that is a supervisor with its own children, and the handle to it.
    ///
    /// Defaults: permanent, without a limit for its start and for its shutdown.
    pub fn supervisor(spec: SupervisorSpec) -> Result<(ChildSpec, SupervisorHandle), BadSpec> {
        spec.check()?;
        let spec = Arc::new(spec);
        let shared = Shared::new(spec.id.clone());
        let handle = SupervisorHandle { shared: shared.clone() };
        let child = ChildSpec {
            id: spec.id.clone(),
            kind: ChildKind::Supervisor,
            label: "supervisor",
            policy: Policy { shutdown: Shutdown::Infinity, ..Policy::default() },
            start_timeout: None,
            workers: None,
            start: Arc::new(move |spawn| {
                let (spec, shared) = (spec.clone(), shared.clone());
                Box::pin(driver::launch(spec, shared, spawn, None))
            }),
        };
        Ok((child, handle))
    }
}
