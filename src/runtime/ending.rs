//! How a runtime drains and ends: it ends once, in a task that no caller can cancel, however many callers ask for the end.
//!
//! The first call closes the admission at once, before any task runs, so senders get an error even if the tokio runtime is gone.
//! Each wait has a bound. The [`Leftover`] names the actors, tasks, hooks and OS processes that did not stop in time; a store
//! that did not close in time is logged. A tree that ends without a call only closes the admission (`close_with` in `tree.rs`);
//! the rest is ended by the shutdown or the drop that follows.
//!
//! A change must keep the order: actors, activations, workers, observers, OS processes, and the store last, because actors and
//! workers may still write. Callers that still wait for a stuck actor are answered only after that.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    actor::{activation::WORKERS_WAIT, shared::Shared, slot::Admission},
    hook::HOOK_LIMIT,
    lock::Lock,
    runtime::{Leftover, Runtime, report::drain},
    supervisor::{ChildDown, SupervisorHandle},
    words::ids::SessionId,
};

/// How long the store may take to write what is left at the end.
const STORE_CLOSE: Duration = Duration::from_secs(10);

/// How long activations may take to notice that the supervisor is gone.
const ACTIVATIONS_WAIT: Duration = Duration::from_secs(20);

/// The end of a runtime: empty until a caller asks for the end, then a channel that carries its one report.
#[derive(Default)]
pub(super) struct Ending(Lock<Option<watch::Receiver<Option<Leftover>>>>);

impl Ending {
    /// Begins the end, or joins it. Does not wait for it.
    pub(super) fn begin(&self, shared: &Arc<Shared>, root: &SupervisorHandle) -> watch::Receiver<Option<Leftover>> {
        let mut ending = self.0.lock();
        if let Some(ends) = &*ending {
            return ends.clone();
        }
        // Done here and not in the task: senders get the error at once, even if the tokio runtime is gone and no task runs.
        shared.close();
        let (ended, ends) = watch::channel(None);
        let (shared, root) = (shared.clone(), root.clone());
        let tokio = shared.tokio.clone();
        tokio.spawn(async move {
            let leftover = end(&shared, &root).await;
            // A report that no caller waits for is not an error.
            drop(ended.send(Some(leftover)));
        });
        *ending = Some(ends.clone());
        ends
    }
}

impl Runtime {
    /// Takes no new messages, and waits until the running turns are over. Open asks do not delay the drain. Turns that still run
    /// at the deadline are left as they are: they continue at the next start. Sleeping sessions are left asleep.
    ///
    /// A drain cannot be undone: dropping the future ends the wait for the turns, and the runtime still takes no new messages.
    /// [`Runtime::shutdown`] comes next.
    ///
    /// Returns the sessions that did not come to rest, including those whose actor is stuck and does not answer. The call returns
    /// at the deadline at the latest; each session still has a second to answer if the deadline is shorter. After the runtime's end
    /// it changes nothing.
    pub async fn drain(&self, deadline: Duration) -> Vec<SessionId> {
        drain(&self.inner.shared, deadline).await
    }

    /// Whether it takes no new messages: since [`Runtime::drain`] was called, by whomever, or because it ends.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.shared.slots.admission() != Admission::Open
    }

    /// Ends the tree: actors, workers, processes, locks. Running turns are cut off where they are, and continue at the next
    /// start. The method may be called many times and concurrently: there is one end, and all callers get the same report.
    ///
    /// A tool, a hook or a child of the host may call it from inside the tree. Such a caller is ended with the tree while it waits
    /// here (a child when its shutdown time is over), and the end continues without it. Dropping the future changes nothing.
    pub async fn shutdown(&self) -> Leftover {
        let mut ends = self.inner.ending.begin(&self.inner.shared, &self.inner.root);
        let ended = ends.wait_for(Option::is_some).await;
        // An error means that the tokio runtime ended first, and all tasks with it.
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
    }

    /// Waits until the tree has ended, and reports how: by [`Runtime::shutdown`], or because children of the root crashed too
    /// often. From then on handles answer [`Closed`](crate::SendError::Closed). The host decides what follows; it may start a new
    /// runtime on the same store.
    pub async fn ended(&self) -> ChildDown {
        self.inner.root.ended().await
    }
}

async fn end(shared: &Arc<Shared>, root: &SupervisorHandle) -> Leftover {
    let down = root.shutdown().await;
    let mut leftover = Leftover::default();
    leftover.actors = down.leftover.iter().map(ToString::to_string).collect();
    shared.tasks.close();
    // Each activation ends when it finds the supervisor gone.
    drop(tokio::time::timeout(ACTIVATIONS_WAIT, shared.tasks.wait()).await);
    let slots = shared.close();
    let left = shared.slots.take_left().into_iter();
    let tasks: Vec<_> = slots.iter().map(|slot| (slot.id.clone(), slot.tasks())).chain(left).collect();
    let until = tokio::time::Instant::now() + WORKERS_WAIT;
    for (session, tasks) in tasks {
        tasks.close();
        if tokio::time::timeout_at(until, tasks.wait()).await.is_err() {
            leftover.tasks.push((session, tasks.len()));
        }
    }
    leftover.unrecorded = shared.slots.unrecorded();
    // All events are in the observers' queues by now. The wait blocks a thread, so it has its own thread.
    let watched = shared.clone();
    let late = shared.tokio.spawn_blocking(move || watched.observers.close(HOOK_LIMIT)).await;
    leftover.hooks.extend(late.unwrap_or_default());
    slots.iter().for_each(|slot| slot.close_ring());
    #[cfg(all(unix, feature = "tools"))]
    leftover.processes.extend(shared.processes.close().await.left);
    let store = shared.store.clone();
    let closed = shared.tokio.spawn_blocking(move || store.close(STORE_CLOSE)).await;
    if let Ok(Err(error)) = closed {
        tracing::warn!(%error, "the store did not close in time");
    }
    // Callers that still wait for an actor that did not end get the error that it is gone.
    slots.iter().for_each(|slot| slot.give_up());
    leftover
}
