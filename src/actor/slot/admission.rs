//! Whether a slot takes inputs: drained, closed, parked or stopped, and who is told so.

use crate::{
    actor::slot::{
        Admission, Slot,
        inbox::{Inbox, Waiters},
    },
    error::{OpenError, SendError},
};

impl Slot {
    /// Sets whether inputs are taken. A closed slot refuses what waits in it; what its actor has taken up is answered when that is
    /// settled, at the latest when its actor is gone.
    pub(crate) fn set_admission(&self, admission: Admission) {
        let mut inner = self.inner();
        inner.admission = inner.admission.max(admission);
        let waiters = match (admission, &mut inner.inbox) {
            (Admission::Closed, Some(inbox)) => {
                inbox.actor = None;
                inbox.take_waiters(true)
            }
            _ => Waiters::default(),
        };
        drop(inner);
        waiters.refuse(&SendError::Closed);
    }

    /// The number of its newest incarnation; 0 before the first.
    pub(crate) fn newest_incarnation(&self) -> u32 {
        self.inner().incarnation
    }

    /// It crashed too often, or an operator said so: it takes nothing until it is unparked, and refuses what waits in it. Its actor
    /// is down, so what that had taken up is for the tape to say. Where an incarnation has begun after that one, it was unparked meanwhile,
    /// and nothing changes. `note` writes it down, under the slot's lock.
    pub(crate) fn park(&self, after: u32, note: impl FnOnce()) {
        let mut inner = self.inner();
        if inner.incarnation != after {
            return;
        }
        inner.parked = true;
        note();
        let (waiters, unsettled) = match &mut inner.inbox {
            Some(inbox) => {
                inbox.at_work.clear();
                (inbox.take_waiters(true), inbox.take_hand())
            }
            None => Default::default(),
        };
        drop(inner);
        self.moved.notify_waiters();
        waiters.refuse(&SendError::Parked);
        self.settle(unsettled, SendError::Parked);
    }

    /// An operator stops it: what waits is refused, and what it was at is not taken up again by itself. What its actor has taken up
    /// is answered when that is down. The next message is taken.
    pub(crate) fn stop(&self) {
        let waiters = self.in_inbox(|inbox| {
            inbox.idle = true;
            inbox.stopped = true;
            inbox.take_waiters(true)
        });
        waiters.unwrap_or_default().refuse(&SendError::Stopped);
    }

    /// Its tape cannot be read just now, and its actor goes on looking: whoever waits is told, as by a session that cannot be woken.
    /// What was in hand, reports and stops stay for the incarnation that can read it.
    pub(crate) fn cannot_be_read(&self, error: OpenError) {
        let left = self.in_inbox(|inbox| (inbox.take_waiters(false), inbox.take_unsettled()));
        let Some((waiters, unsettled)) = left else { return };
        let refusal = SendError::from(error);
        waiters.refuse_awake(&refusal, "its tape cannot be read just now");
        unsettled.into_iter().for_each(|left| left.tell(None, &refusal));
    }

    /// Its actor does not end, or the runtime does: whoever waits for what it had taken up is told that nobody knows.
    pub(crate) fn give_up(&self) {
        let unsettled = self.in_inbox(Inbox::take_hand).unwrap_or_default();
        unsettled.into_iter().for_each(|left| left.tell(None, &SendError::Closed));
    }

    /// It takes inputs again. Whether it was parked.
    pub(crate) fn unpark(&self) -> bool {
        std::mem::replace(&mut self.inner().parked, false)
    }
}
