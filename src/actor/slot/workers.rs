//! The slot's list of the workers that run the requests and calls of a session: which tickets have one, what stops them, and what
//! has arrived of the answer that one of them waits for. `Session::abort` waits until the list is empty.
//!
//! No worker starts while a stop or the recovery waits for its record. A worker is down when its task has dropped [`AtWork`],
//! reported or not; a report takes its ticket off the list earlier. The list begins empty with each incarnation. A change must
//! keep the guard in the worker's task until the task ends: otherwise an abort would return while a worker still runs.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{actor::slot::Slot, lock::Lock, words::ids::Seq};

/// The part of an answer that has arrived. The worker of the request owns it.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) text: String,
    /// Reasoning and arguments of calls. An answer that is cut off does not keep them, but their tokens count.
    pub(crate) beside: String,
}

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
        if inner.incarnation == self.incarnation
            && let Some(inbox) = &mut inner.inbox
        {
            inbox.at_work.retain(|at_work| *at_work != self.ticket);
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

    /// Registers a worker of the turn. Returns `None` if it must not start, because a stop came meanwhile or the session is
    /// passive.
    pub(crate) fn begin_worker(self: &Arc<Self>, incarnation: u32, ticket: Seq) -> Option<AtWork> {
        let mut inner = self.inner();
        let inbox = inner.inbox.as_mut().filter(|inbox| inbox.mailbox.may_begin())?;
        inbox.at_work.push(ticket);
        Some(AtWork { slot: self.clone(), incarnation, ticket, stop: inbox.stop_token() })
    }

    /// Lets [`Slot::arrived_text`] see what arrives of an answer, for as long as its worker owns it.
    pub(crate) fn show_arriving(&self, arrived: &Arc<Lock<Arrived>>) {
        self.in_inbox(|inbox| inbox.arrived = Arc::downgrade(arrived));
    }

    /// The text that has arrived of the answer that is being made; `None` where there is none.
    pub(crate) fn arrived_text(&self) -> Option<String> {
        let arrived = self.in_inbox(|inbox| inbox.arrived.upgrade()).flatten()?;
        let text = arrived.lock().text.clone();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns when the list is empty: every worker of the turn is down, or has reported.
    pub(crate) async fn workers_down(&self) {
        loop {
            let moved = self.moved.notified();
            if self.in_inbox(|inbox| inbox.at_work.is_empty()).unwrap_or(true) {
                return;
            }
            moved.await;
        }
    }
}
