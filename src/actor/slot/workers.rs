//! The workers on a session's turn, as its slot knows them. No worker starts while a stop or the recovery waits for its record. A
//! caller who waits until all workers are down waits for their tasks to end, not for their reports.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{actor::slot::Slot, words::ids::Seq};

/// A worker of a turn, held by its task. When that is dropped, reported or not, the worker is down.
pub(crate) struct AtWork {
    slot: Arc<Slot>,
    incarnation: u32,
    ticket: Seq,
    /// Stops it.
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
    /// Whether work may begin.
    pub(crate) fn may_begin(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.may_begin()).unwrap_or_default()
    }

    /// A worker of the turn begins, in that incarnation. `None` where it may not: a stop came meanwhile.
    pub(crate) fn begin_worker(self: &Arc<Self>, incarnation: u32, ticket: Seq) -> Option<AtWork> {
        let mut inner = self.inner();
        let inbox = inner.inbox.as_mut().filter(|inbox| inbox.mailbox.may_begin())?;
        inbox.at_work.push(ticket);
        Some(AtWork { slot: self.clone(), incarnation, ticket, stop: inbox.stop_token() })
    }

    /// Returns when no worker of the turn is at work.
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
