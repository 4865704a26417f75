//! How a runtime ends: once, in a task that no caller can cancel, however many ask for it and from wherever.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::{
    actor::{activation::WORKERS_WAIT, host::Host},
    hook::HOOK_LIMIT,
    lock::Lock,
    runtime::Leftover,
    supervisor::SupervisorHandle,
};

/// How long the store may take to write what is left at the end.
const STORE_CLOSE: Duration = Duration::from_secs(10);

/// How long those that are waking up may take to be told that there is nothing to wake up for.
const ACTIVATIONS_WAIT: Duration = Duration::from_secs(20);

/// The end of a runtime, from the first wish for it on.
#[derive(Default)]
pub(super) struct Ending(Lock<Option<watch::Receiver<Option<Leftover>>>>);

impl Ending {
    /// Begins the end, or joins it. Does not wait for it.
    pub(super) fn begin(&self, host: &Arc<Host>, root: &SupervisorHandle) -> watch::Receiver<Option<Leftover>> {
        let mut ending = self.0.lock();
        if let Some(ends) = &*ending {
            return ends.clone();
        }
        // At once, so that whoever sends now is told, also where the tokio runtime is gone and nothing runs any more.
        host.close();
        let (ended, ends) = watch::channel(None);
        let (host, root) = (host.clone(), root.clone());
        let tokio = host.tokio.clone();
        tokio.spawn(async move {
            let leftover = end(&host, &root).await;
            // Nobody has to wait for it.
            drop(ended.send(Some(leftover)));
        });
        *ending = Some(ends.clone());
        ends
    }
}

async fn end(host: &Arc<Host>, root: &SupervisorHandle) -> Leftover {
    let down = root.shutdown().await;
    let mut leftover = Leftover::default();
    leftover.actors = down.leftover.iter().map(ToString::to_string).collect();
    host.tasks.close();
    // Each of them ends when it sees that the supervisor is not there any more.
    drop(tokio::time::timeout(ACTIVATIONS_WAIT, host.tasks.wait()).await);
    let slots = host.close();
    let left = host.slots.take_left().into_iter();
    let tasks: Vec<_> = slots.iter().map(|slot| (slot.id.clone(), slot.tasks())).chain(left).collect();
    let until = tokio::time::Instant::now() + WORKERS_WAIT;
    for (session, tasks) in tasks {
        tasks.close();
        if tokio::time::timeout_at(until, tasks.wait()).await.is_err() {
            leftover.tasks.push((session, tasks.len()));
        }
    }
    // All that happened has been shown to them by now; and what they cannot take they have a thread of their own for.
    let watched = host.clone();
    let late = host.tokio.spawn_blocking(move || watched.observers.close(HOOK_LIMIT)).await;
    leftover.hooks.extend(late.unwrap_or_default());
    slots.iter().for_each(|slot| slot.close_ring());
    #[cfg(all(unix, feature = "tools"))]
    leftover.processes.extend(host.processes.close().await.left);
    let store = host.store.clone();
    let closed = host.tokio.spawn_blocking(move || store.close(STORE_CLOSE)).await;
    if let Ok(Err(error)) = closed {
        tracing::warn!(%error, "the store did not close in time");
    }
    // Nobody waits for an actor that did not end.
    slots.iter().for_each(|slot| slot.give_up());
    leftover
}
