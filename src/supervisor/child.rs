//! A child that is an async function of the host: its context, its start, and the actor that runs the function as a task.
//!
//! The actor takes messages while the function runs, so it can be stopped at any moment. A stop makes [`ChildContext::stopping`]
//! resolve and waits for the function; a kill drops the function at its next await.
//!
//! A change must keep that two runs of the function never overlap: the task is in a tracker that the supervisor waits for without
//! a limit, so a new incarnation (the next start of the child) starts only when the task has ended.

use std::{fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt;
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use crate::supervisor::{
    exit::{ExitReason, PanicReport, chain},
    node_state::NodeState,
    shell::{Behaviour, Context, ExitError, Init},
};

/// What a host's child is given at its start: its stop signal, its node and its incarnation.
#[derive(Clone, Debug)]
pub struct ChildContext {
    stop: CancellationToken,
    node: Arc<NodeState>,
    incarnation: u64,
}

impl ChildContext {
    /// Resolves when the child must stop. It may be awaited many times and dropped at any moment.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Whether the child must stop. For loops that do not await.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Which incarnation this is: 1 for the first.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The child's node in the tree, to say what it does.
    #[must_use]
    pub fn node(&self) -> &Arc<NodeState> {
        &self.node
    }
}

/// How a host's function ends.
pub(crate) type HostResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// One incarnation of a child, which ends when the future does.
type HostFuture = Pin<Box<dyn Future<Output = HostResult> + Send>>;

/// The result of the start of a host's child.
pub struct Start {
    future: Option<HostFuture>,
    info: Option<Arc<str>>,
}

impl Start {
    /// The child is up, and this is its incarnation: `Ok` is a normal end, `Err` and a panic are abnormal ones.
    pub fn run(future: impl Future<Output = HostResult> + Send + 'static) -> Start {
        Start { future: Some(Box::pin(future)), info: None }
    }

    /// The child has nothing to do. This is not an error: its siblings start, and it is known and not running.
    #[must_use]
    pub fn ignore() -> Start {
        Start { future: None, info: None }
    }

    /// Adds a text for the starter, such as the address that the child listens on; also shown in
    /// [`ChildInfo`](crate::supervisor::ChildInfo). It has no effect together with [`Start::ignore`].
    #[must_use]
    pub fn with(mut self, info: impl Into<Arc<str>>) -> Start {
        self.info = Some(info.into());
        self
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Start").field("runs", &self.future.is_some()).field("info", &self.info).finish()
    }
}

/// The result of a host's start function.
type StartResult = Result<Start, Box<dyn std::error::Error + Send + Sync>>;

/// A host's start function.
pub(crate) type BeginFn = dyn Fn(ChildContext) -> Pin<Box<dyn Future<Output = StartResult> + Send>> + Send + Sync;

/// Runs a host's function as a task of an actor, so that the actor takes messages while the function runs.
pub(crate) struct HostTask {
    /// Taken at the start, so that a child that is started once does not keep the values that its start holds.
    begin: Option<Arc<BeginFn>>,
    /// The supervisor waits for these tasks, so that two runs of the function never overlap.
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The task of the function; its result is how the function ended.
    task: Option<AbortOnDropHandle<ExitReason>>,
}

/// The function has ended.
pub(crate) struct Finished;

impl HostTask {
    pub(crate) fn new(begin: Arc<BeginFn>, tasks: TaskTracker) -> HostTask {
        HostTask { begin: Some(begin), tasks, stop: CancellationToken::new(), task: None }
    }

    /// Waits for the end of the function. Returns the reason if the end was abnormal.
    async fn crash(&mut self) -> Option<ExitReason> {
        let reason = self.task.take()?.await.unwrap_or(ExitReason::Cancelled);
        Some(reason).filter(ExitReason::is_abnormal)
    }
}

impl Behaviour for HostTask {
    type Msg = Finished;

    async fn init(&mut self, cx: &mut Context<Finished>) -> Result<Init, ExitError> {
        let child = ChildContext { stop: self.stop.clone(), node: cx.node().clone(), incarnation: cx.incarnation() };
        let Some(begin) = self.begin.take() else { return Ok(Init::Ignore) };
        let started = begin(child).await.map_err(|error| ExitError(ExitReason::Error(chain(error.as_ref()))))?;
        drop(begin);
        let Some(future) = started.future else { return Ok(Init::Ignore) };
        let mailbox = cx.mailbox();
        let task = self.tasks.spawn(async move {
            let reason = match AssertUnwindSafe(future).catch_unwind().await {
                Ok(Ok(())) => ExitReason::Normal,
                Ok(Err(error)) => ExitReason::Error(chain(error.as_ref())),
                Err(payload) => ExitReason::Panic(PanicReport::caught(payload.as_ref())),
            };
            // If the actor was killed, the message is not needed.
            let _ = mailbox.send(Finished);
            reason
        });
        self.task = Some(AbortOnDropHandle::new(task));
        Ok(started.info.map_or(Init::Run, Init::RunWith))
    }

    async fn handle(&mut self, Finished: Finished, cx: &mut Context<Finished>) -> Result<(), ExitError> {
        if let Some(crash) = self.crash().await {
            return Err(ExitError(crash));
        }
        cx.exit();
        Ok(())
    }

    async fn terminate(&mut self, _: &ExitReason, cx: &mut Context<Finished>) {
        self.stop.cancel();
        // A crash during the stop is reported as a crash.
        if let Some(crash) = self.crash().await {
            cx.ends_as(crash);
        }
    }

    fn describe(_: &Finished) -> &'static str {
        "finished"
    }
}
