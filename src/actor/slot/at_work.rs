//! A slot's side of its workers: how one begins and leaves the slot's list (`workers.rs`), and what others see of them.
//! `Session::abort` waits until no worker that it told to stop is listed.
//!
//! No worker starts while a stop or the recovery is not on the tape yet. A worker leaves the list with its report, which it makes
//! when nothing of its work is left (for the exceptions see `worker.rs`). One that ends without a report leaves it when its task
//! drops [`AtWork`]. The list is emptied when an incarnation begins, and when the session is parked.
//!
//! A change must keep the guard in the worker's task until the task ends: dropped earlier, it would let an abort return while a
//! worker that has not reported still runs. And an abort must not wait for the workers of a later turn, which it did not stop.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    actor::slot::{Inbox, Slot, workers::Arrived},
    lock::Lock,
    words::ids::Seq,
};

/// The guard of one worker of a turn, held by the worker's task. Dropping it marks the worker as down, whether it has reported or
/// not.
pub(crate) struct AtWork {
    slot: Arc<Slot>,
    incarnation: u32,
    ticket: Seq,
    /// Cancelled to stop the worker.
    pub(crate) stop: CancellationToken,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut inner = self.slot.inner();
        if inner.standing.incarnation == self.incarnation
            && let Some(inbox) = &mut inner.inbox
        {
            inbox.workers.left(self.ticket);
        }
        drop(inner);
        self.slot.moved.notify_waiters();
    }
}

impl Slot {
    /// Whether a worker may start: the session is awake, and no stop and no recovery waits for its record.
    pub(crate) fn may_begin(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.may_begin()).unwrap_or_default()
    }

    /// Registers a worker of the turn. Returns `None` if it must not start, because a stop came meanwhile, the recovery is not
    /// recorded yet, or the session is passive.
    pub(crate) fn begin_worker(self: &Arc<Self>, incarnation: u32, ticket: Seq) -> Option<AtWork> {
        let mut inner = self.inner();
        let inbox = inner.inbox.as_mut().filter(|inbox| inbox.mailbox.may_begin())?;
        let stop = inbox.workers.begun(ticket);
        Some(AtWork { slot: self.clone(), incarnation, ticket, stop })
    }

    /// Lets [`Slot::arrived_text`] see what arrives of an answer, for as long as its worker owns it.
    pub(crate) fn show_arriving(&self, arrived: &Arc<Lock<Arrived>>) {
        self.in_inbox(|inbox| inbox.workers.arrived = Arc::downgrade(arrived));
    }

    /// The text that has arrived of the answer that is being made; `None` where there is none.
    pub(crate) fn arrived_text(&self) -> Option<String> {
        let arrived = self.in_inbox(|inbox| inbox.workers.arrived.upgrade()).flatten()?;
        let text = arrived.lock().text.clone();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns when every worker that was told to stop is down, or has reported.
    pub(crate) async fn stopped_workers_down(&self) {
        loop {
            let moved = self.moved.notified();
            let stopping = |inbox: &mut Inbox| inbox.workers.at_work.iter().any(|(_, stop)| stop.is_cancelled());
            if !self.in_inbox(stopping).unwrap_or_default() {
                return;
            }
            moved.await;
        }
    }
}
