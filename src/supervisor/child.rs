//! A child that is an async function of the host.

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

/// What a host's child knows about itself.
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

/// An incarnation of a child: it ends when this does.
type HostFuture = Pin<Box<dyn Future<Output = HostResult> + Send>>;

/// What the start of a host's child found.
pub struct Start {
    future: Option<HostFuture>,
    info: Option<Arc<str>>,
}

impl Start {
    /// The child is up, and this is its incarnation: `Ok` is a normal end, `Err` and a panic are abnormal ones.
    pub fn run(future: impl Future<Output = HostResult> + Send + 'static) -> Start {
        Start { future: Some(Box::pin(future)), info: None }
    }

    /// There is nothing for the child to do. This is no error: its siblings start, and it is known and not running.
    #[must_use]
    pub fn ignore() -> Start {
        Start { future: None, info: None }
    }

    /// With a word for whoever started it, such as the address it listens on; also shown in
    /// [`ChildInfo`](crate::supervisor::ChildInfo). It means nothing beside [`Start::ignore`].
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

/// How a host's start ends.
type StartResult = Result<Start, Box<dyn std::error::Error + Send + Sync>>;

/// A host's start.
pub(crate) type BeginFn = dyn Fn(ChildContext) -> Pin<Box<dyn Future<Output = StartResult> + Send>> + Send + Sync;

/// Runs a host's function as a task of an actor, so that the actor answers while the function runs.
pub(crate) struct HostTask {
    /// Given away at the start: a child that is started once need not keep what its start holds.
    begin: Option<Arc<BeginFn>>,
    /// The supervisor waits for these, so that two runs of the function never overlap.
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Ends with how the function ended.
    task: Option<AbortOnDropHandle<ExitReason>>,
}

/// The function has ended.
pub(crate) struct Finished;

impl HostTask {
    pub(crate) fn new(begin: Arc<BeginFn>, tasks: TaskTracker) -> HostTask {
        HostTask { begin: Some(begin), tasks, stop: CancellationToken::new(), task: None }
    }

    /// Waits for the end of the function, and says how it ended where that was abnormal.
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
            // Nobody listens any more when the actor was killed.
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
        // It was asked to stop; that it crashed over it is not lost.
        if let Some(crash) = self.crash().await {
            cx.ends_as(crash);
        }
    }

    fn describe(_: &Finished) -> &'static str {
        "finished"
    }
}
