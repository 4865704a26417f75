//! A child that is an async function of the host.

use std::{fmt, future::Future, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt;
use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actors::shell::{Behaviour, Context, ExitError, Init},
    supervisor::{
        card::ActorCard,
        exit::{ExitReason, PanicReport, panic_text},
    },
};

/// What a host's child knows about itself.
#[derive(Clone)]
pub struct ChildContext {
    stop: CancellationToken,
    card: Arc<ActorCard>,
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

    /// Which life this is: 1 for the first.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The child's card in the tree, to say what it does.
    #[must_use]
    pub fn card(&self) -> &Arc<ActorCard> {
        &self.card
    }
}

impl fmt::Debug for ChildContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildContext").field("card", &self.card).field("incarnation", &self.incarnation).finish()
    }
}

/// How a host's function ends.
pub(crate) type HostResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A host's function.
pub(crate) type RunFn = dyn Fn(ChildContext) -> Pin<Box<dyn Future<Output = HostResult> + Send>> + Send + Sync;

/// Runs a host's function as a task of an actor, so that the actor answers while the function runs.
pub(crate) struct HostTask {
    run: Arc<RunFn>,
    /// The supervisor waits for these, so that two runs of the function never overlap.
    tasks: TaskTracker,
    stop: CancellationToken,
    task: Option<AbortHandle>,
}

/// The function has ended.
pub(crate) struct Finished(Result<(), ExitError>);

impl HostTask {
    pub(crate) fn new(run: Arc<RunFn>, tasks: TaskTracker) -> HostTask {
        HostTask { run, tasks, stop: CancellationToken::new(), task: None }
    }
}

impl Behaviour for HostTask {
    type Msg = Finished;

    async fn init(&mut self, cx: &mut Context<Finished>) -> Result<Init, ExitError> {
        let child = ChildContext { stop: self.stop.clone(), card: cx.card().clone(), incarnation: cx.incarnation() };
        let mailbox = cx.mailbox();
        let run = self.run.clone();
        let task = self.tasks.spawn(async move {
            // The call itself may panic as well as the future that it gives.
            let ended = AssertUnwindSafe(async move { run(child).await }).catch_unwind().await;
            let result = match ended {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(ExitError::Failed(crate::supervisor::exit::chain(error.as_ref()))),
                Err(payload) => {
                    let text = panic_text(payload.as_ref());
                    Err(ExitError::Panicked(PanicReport { text, ..PanicReport::default() }))
                }
            };
            // Nobody listens any more when the actor was killed.
            let _ = mailbox.send(Finished(result));
        });
        self.task = Some(task.abort_handle());
        Ok(Init::Run)
    }

    async fn handle(&mut self, Finished(result): Finished, cx: &mut Context<Finished>) -> Result<(), ExitError> {
        result?;
        cx.exit();
        Ok(())
    }

    async fn terminate(&mut self, _: &ExitReason, _: &mut Context<Finished>) {
        self.stop.cancel();
        // Only this task is in the tracker: no other incarnation is alive.
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    fn describe(_: &Finished) -> &'static str {
        "finished"
    }
}

impl Drop for HostTask {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
