//! The two tasks that wait for a child on behalf of a supervisor's driver, so that the driver itself never waits: [`watch()`]
//! follows a child from its start to the end of its workers, and [`stop`] stops it.
//!
//! `watch` reports one end for each start, when the child is gone: ignored, failed, or exited. A change must not report an end
//! before the join, because only the join proves that an actor is gone; otherwise the planner would start a second copy. Workers
//! are waited for too, but no longer than [`Workers::wait`], if that is a limit. The next start does not wait for workers that are
//! left then; after an exit they are reported.
//!
//! `stop` cancels a start that is still under way, and waits up to [`KILL_WAIT`] for that. A child that is up it asks to stop,
//! waits the child's shutdown time, kills the child, and waits up to [`KILL_WAIT`] again; with `Shutdown::Infinity` it waits for
//! the child instead of the kill, and with `Shutdown::Kill` it kills at once.

use std::{future::Future, panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use tokio::{sync::watch, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::supervisor::{
    exit::{ExitReason, PanicReport},
    planner::ChildEvent,
    shell::{Live, NotStarted, Running, SpawnArgs, StartFn},
    spec::Shutdown,
    watch::Happening,
};

/// How long a killed child, or a cancelled start, may take to be gone. It is gone at once unless it is in code that does not await.
pub(crate) const KILL_WAIT: Duration = Duration::from_secs(1);

/// The stage of life of one incarnation of a child.
#[derive(Clone)]
pub(crate) enum Stage {
    Starting,
    Up(Running),
    /// It has ended, but these children of it, by name, are still there.
    Leftover(Vec<String>),
    Gone,
}

/// The arguments of [`watch()`].
pub(crate) struct StartArgs {
    pub(crate) spawn: SpawnArgs,
    pub(crate) start: StartFn,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) cancel: CancellationToken,
    pub(crate) stage: watch::Sender<Stage>,
    pub(crate) workers: Option<Workers>,
}

/// The tasks that must be gone before the child's next incarnation starts.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) tasks: TaskTracker,
    /// The longest wait, after which the next incarnation starts without them; `None` waits for ever.
    pub(crate) wait: Option<Duration>,
}

/// Starts a child, waits for its end and the end of its workers, and reports each step.
pub(crate) async fn watch(args: StartArgs, tell: impl Fn(ChildEvent)) {
    let StartArgs { spawn, start, start_timeout, cancel, stage, workers } = args;
    let (registry, node) = (spawn.registry.clone(), spawn.node.clone());
    let begin = AssertUnwindSafe(async move { start(spawn).await }).catch_unwind();
    let begun = tokio::select! {
        biased;
        () = cancel.cancelled() => Err(NotStarted::Failed(ExitReason::Cancelled)),
        begun = limited(start_timeout, begin) => match begun {
            Some(Ok(begun)) => begun,
            Some(Err(payload)) => {
                let panic = PanicReport::caught(payload.as_ref());
                Err(NotStarted::Failed(ExitReason::StartFailed(ExitReason::Panic(panic).to_string())))
            }
            None => Err(NotStarted::Failed(ExitReason::StartTimeout)),
        },
    };
    let Live { running, mut join, last_word, info, ready, leftover } = match begun {
        Ok(live) => live,
        Err(not_started) => {
            gone(&stage, workers).await;
            return tell(match not_started {
                NotStarted::Ignored => ChildEvent::Ignored,
                NotStarted::Failed(reason) => ChildEvent::StartFailed(reason),
            });
        }
    };
    stage.send_replace(Stage::Up(running.clone()));
    let failed = match ready {
        // The stop came while the start was in code that does not await: the child does not count as up.
        _ if cancel.is_cancelled() => {
            running.kill();
            Some(ExitReason::Cancelled)
        }
        None => None,
        Some(ready) => match limited(start_timeout, ready).await {
            Some(Ok(Ok(()))) => None,
            Some(Ok(Err(reason))) => Some(reason),
            Some(Err(_)) => Some(ExitReason::StartFailed("it ended while it started".to_owned())),
            None => {
                running.kill();
                Some(ExitReason::StartTimeout)
            }
        },
    };
    if failed.is_none() {
        tell(ChildEvent::Started(info));
    }
    // Only the join proves that the old state is gone. A join error means that the state panicked when it was dropped; it is gone
    // as well.
    let leftover = async {
        match leftover {
            Some(leftover) => leftover.await,
            None => std::future::pending().await,
        }
    };
    let joined = tokio::select! {
        biased;
        joined = &mut join => joined,
        names = leftover => {
            if let Ok(names) = names {
                stage.send_replace(Stage::Leftover(names));
                tell(ChildEvent::Unkillable);
            }
            join.await
        }
    };
    let workers_left = gone(&stage, workers).await;
    if let Some(reason) = failed {
        return tell(ChildEvent::StartFailed(reason));
    }
    if workers_left > 0 {
        tracing::error!(child = node.path(), workers_left, "workers did not end in their time");
        registry.tell(node.path(), Happening::WorkersLeft { count: workers_left });
    }
    tell(ChildEvent::Exited(last_word.reason(&joined)));
}

/// Waits for the workers, sets the stage to `Gone`, and returns how many workers are left.
async fn gone(stage: &watch::Sender<Stage>, workers: Option<Workers>) -> usize {
    let Some(Workers { tasks, wait }) = workers else {
        stage.send_replace(Stage::Gone);
        return 0;
    };
    // If the wait has a limit, the child itself counts as gone now. If it has none, these tasks are the child.
    if wait.is_some() {
        stage.send_replace(Stage::Gone);
    }
    tasks.close();
    limited(wait, tasks.wait()).await;
    let left = tasks.len();
    tasks.reopen();
    stage.send_replace(Stage::Gone);
    left
}

/// Stops a child in the way that its spec says. Returns `false` if it is still there although it was killed, and `watch` has not
/// reported that.
pub(crate) async fn stop(mut stage: watch::Receiver<Stage>, cancel: CancellationToken, shutdown: Shutdown) -> bool {
    if matches!(*stage.borrow(), Stage::Starting) {
        // A start that is still under way is dropped; nothing of it is worth waiting for.
        cancel.cancel();
        let past = stage.wait_for(|stage| !matches!(stage, Stage::Starting));
        if timeout(KILL_WAIT, past).await.is_err() {
            return false;
        }
    }
    let running = match &*stage.borrow() {
        Stage::Up(running) => running.clone(),
        Stage::Starting | Stage::Leftover(_) | Stage::Gone => return true,
    };
    // An error means that `watch` has ended, and it ends after the child.
    let mut ended = async || {
        let _ = stage.wait_for(|stage| matches!(stage, Stage::Leftover(_) | Stage::Gone)).await;
    };
    let limit = match shutdown {
        Shutdown::Kill => Some(Duration::ZERO),
        Shutdown::After(limit) => Some(limit),
        Shutdown::Infinity => None,
    };
    if shutdown != Shutdown::Kill {
        running.stop("shutdown");
        if limited(limit, ended()).await.is_some() {
            return true;
        }
    }
    running.kill();
    timeout(KILL_WAIT, ended()).await.is_ok()
}

/// Awaits a future, with a limit if there is one; `None` if the time is up.
async fn limited<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
