//! Whether a slot takes inputs: it may be draining, closed, parked or stopped, or its tape may be unreadable just now. Where a
//! slot is closed, parked, stopped or unreadable, the callers who wait in it are refused.
//!
//! A change must keep that a command that the actor has in hand is not simply refused, because its append may be on the way to
//! the tape. It is answered when that is settled, at the latest when the actor is gone; if nobody can tell, as "unsettled".
//! Callers are answered after the unlock, never under the slot's lock.

use crate::{
    actor::slot::{Admission, Phase, Slot, slept::tell_sleepers},
    error::{OpenError, PassivateError, SendError},
};

impl Slot {
    /// Narrows the admission; never widens it. A closed slot refuses all waiting callers; a command in hand is answered when its
    /// append is settled, at the latest when the actor is gone.
    pub(crate) fn set_admission(&self, admission: Admission) {
        let mut inner = self.inner();
        inner.standing.admission = inner.standing.admission.max(admission);
        let (waiters, sleepers) = match (admission, &mut inner.inbox) {
            (Admission::Closed, Some(inbox)) => {
                inbox.waker.is_gone();
                (inbox.take_waiters(true), std::mem::take(&mut inbox.sleepers))
            }
            _ => Default::default(),
        };
        drop(inner);
        waiters.refuse(&SendError::Closed);
        // The end of the runtime gives the tape back.
        tell_sleepers(sleepers, Ok(()));
    }

    /// Whether the session is awake, and no operator is stopping it.
    pub(crate) fn is_awake(&self) -> bool {
        let standing = &self.inner().standing;
        standing.phase != Phase::Passive && !standing.stopped
    }

    /// The number of the actor's newest incarnation; 0 before the first.
    pub(crate) fn newest_incarnation(&self) -> u32 {
        self.inner().standing.incarnation
    }

    /// Parks the slot after incarnation `after`, because of crashes or by an operator: it refuses all waiting callers, and every
    /// input until it is unparked. The actor is down, so the tape decides about the commands in hand. Changes nothing if a later
    /// incarnation has begun: then the session was unparked meanwhile. `note` records the parking under the slot's lock.
    pub(crate) fn park(&self, after: u32, note: impl FnOnce()) {
        let mut inner = self.inner();
        if inner.standing.incarnation != after {
            return;
        }
        inner.standing.parked = true;
        note();
        if inner.standing.phase == Phase::Passivating {
            // The actor was parked before its place was given up, or crashed on its way to sleep: it keeps the place.
            inner.standing.phase = Phase::Active;
        }
        let (waiters, unsettled, sleepers) = match &mut inner.inbox {
            Some(inbox) => {
                inbox.workers.clear();
                (inbox.take_waiters(true), inbox.take_hand(), std::mem::take(&mut inbox.sleepers))
            }
            None => Default::default(),
        };
        drop(inner);
        self.moved.notify_waiters();
        waiters.refuse(&SendError::Parked);
        tell_sleepers(sleepers, Err(PassivateError::Parked));
        self.settle(unsettled, SendError::Parked);
    }

    /// Stops the session for an operator: refuses all waiting callers, and does not resume open work. Commands in hand
    /// are answered when the actor is down. A message that comes after that is taken.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner();
        let Some(inbox) = &mut inner.inbox else { return };
        inbox.rest.idle = true;
        let waiters = inbox.take_waiters(true);
        inner.standing.stopped = true;
        drop(inner);
        waiters.refuse(&SendError::Stopped);
    }

    /// Refuses all waiting callers because the tape cannot be read just now, while the actor goes on trying. Inputs in hand,
    /// reports and stops stay for the incarnation that can read the tape.
    pub(crate) fn cannot_be_read(&self, error: OpenError) {
        let left = self
            .in_inbox(|inbox| (inbox.take_waiters(false), inbox.take_unsettled(), std::mem::take(&mut inbox.sleepers)));
        let Some((waiters, unsettled, sleepers)) = left else { return };
        let refusal = SendError::from(error);
        waiters.refuse(&refusal);
        tell_sleepers(sleepers, Err(PassivateError::Busy { why: "its tape cannot be read just now" }));
        unsettled.into_iter().for_each(|left| left.tell(None, &refusal));
    }

    /// Answers the senders of commands in hand with "unsettled", and those who ask for sleep: the actor does not end, or the runtime
    /// ends.
    pub(crate) fn give_up(&self) {
        let left = self.in_inbox(|inbox| (inbox.take_hand(), std::mem::take(&mut inbox.sleepers)));
        let (unsettled, sleepers) = left.unwrap_or_default();
        tell_sleepers(sleepers, Err(PassivateError::Busy { why: "its actor does not end" }));
        unsettled.into_iter().for_each(|left| left.tell(None, &SendError::Closed));
    }

    /// Unparks the slot. Returns whether it was parked.
    pub(crate) fn unpark(&self) -> bool {
        std::mem::replace(&mut self.inner().standing.parked, false)
    }
}
