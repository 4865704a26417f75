//! How a session wakes up and goes to sleep: the changes between the phases of its slot. See the diagram in `slot.rs`.
//!
//! Each change is whole under the slot's lock, so no input slips in between. Sleep is asked for, never forced: a session with
//! open work, or with an input that arrived meanwhile, stays awake or is woken again. A session that cannot start becomes
//! passive, and its callers are told why. A session that the supervisor drops from its children (it was stopped, or the supervisor
//! crashed) loses its actor without being asked: waiting inputs wake it again, unless the slot refuses inputs.
//!
//! A change must keep that an activation begins only in [`Slot::take_off`], and only while no other one is under way. Answer
//! callers, give tapes back, and launch or drop an `Activation` after the unlock only: giving a tape back may wait for a disk,
//! and dropping an activation takes the lock again.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    actor::{
        activation::Activation,
        shared::Shared,
        slot::{
            Inner, LeftInFlight, Listeners, Phase, Slot,
            inbox::Unsettled,
            slept::{Slept, tell_sleepers},
            waiter::WAITERS_MAX,
        },
        timekeeper::Uses,
    },
    error::{OpenError, PassivateError, SendError},
    words::ids::{Seq, SessionId},
};

/// How long the tape may take to say what became of the commands that a gone actor had in hand.
const SETTLE_WAIT: Duration = Duration::from_secs(10);

/// How long `ask_to_sleep` waits for a passing reason to stay awake, and how often it asks again.
const PASSING_WAIT: Duration = Duration::from_secs(1);
const PASSING_LOOK: Duration = Duration::from_millis(5);

impl Slot {
    pub(crate) fn phase(&self) -> Phase {
        self.inner().standing.phase
    }

    /// Begins an activation that the caller drives itself; `None` unless the session is passive and the runtime there.
    pub(crate) fn begin_activation(self: &Arc<Self>) -> Option<Activation> {
        let mut inner = self.inner();
        if inner.standing.phase == Phase::Passive { self.take_off(&mut inner) } else { None }
    }

    /// Enters `Activating`: the one place where an activation begins. The caller has seen that none is under way. Launch or drop
    /// the result only after the unlock. `None` if the runtime is gone.
    pub(super) fn take_off(self: &Arc<Self>, inner: &mut Inner) -> Option<Activation> {
        let shared = self.shared.upgrade()?;
        inner.standing.phase = Phase::Activating;
        inner.used = Instant::now();
        inner.inbox().rest.born = Some(inner.used);
        shared.slots.awake(self);
        Some(Activation::new(shared, self.clone()))
    }

    /// Ends an activation: the session is active, or passive again and its callers are told why.
    pub(crate) fn finished(self: &Arc<Self>, result: Result<(), OpenError>) {
        let mut inner = self.inner();
        match result {
            Ok(()) => {
                inner.standing.phase = Phase::Active;
                if std::mem::replace(&mut inner.standing.vacated, false) {
                    self.leave(inner, SendError::Closed);
                }
            }
            Err(error) => self.fall_passive(inner, &SendError::from(error)),
        }
    }

    /// Ends an activation that should have made the session and did not. Waiting callers did not ask for the making: if their input
    /// waits, the session is woken for them, because one of this id may exist.
    pub(crate) fn unmade(self: &Arc<Self>, error: OpenError) {
        self.leave(self.inner(), SendError::from(error));
    }

    /// The session was deleted: its listeners hear no more, and what they were told says nothing about a later session of this id.
    pub(crate) fn forget_told(&self) {
        let mut inner = self.inner();
        inner.listeners.told = Seq::ZERO;
        let ring = inner.listeners.ring.take();
        drop(inner);
        if let Some(ring) = ring {
            ring.close();
        }
    }

    /// Numbers the next place under the supervisor. The end of an earlier place no longer matters.
    pub(crate) fn next_place(&self) -> u32 {
        let mut inner = self.inner();
        inner.standing.place = inner.standing.place.wrapping_add(1);
        inner.standing.vacated = false;
        inner.standing.place
    }

    /// The supervisor has dropped that place: the actor is not started again. Nothing of the actor is left, unless the supervisor
    /// itself crashed: then the actor is ending, and may hold the tape for another moment.
    pub(crate) fn vacated(self: &Arc<Self>, place: u32) {
        let mut inner = self.inner();
        match inner.standing.phase {
            _ if place != inner.standing.place => {}
            Phase::Passive => {}
            Phase::Activating => {
                // The activation hears of it too, and reports it with `finished`.
                inner.standing.vacated = true;
                inner.inbox().waker.is_gone();
            }
            Phase::Active | Phase::Passivating => self.leave(inner, SendError::Closed),
        }
    }

    /// Follows the end of the actor: wakes the session again if an input waits, and makes it passive if not. Waiting callers are
    /// refused with the slot's own refusal, or with `why` if it has none.
    fn leave(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, why: SendError) {
        let refusal = inner.standing.refusal();
        inner.inbox().waker.is_gone();
        if refusal.is_none()
            && !inner.inbox().is_empty()
            && let Some(activation) = self.take_off(&mut inner)
        {
            let sleepers = std::mem::take(&mut inner.inbox().sleepers);
            // Another process may write the tape before the next incarnation has it.
            let published = inner.inbox().published.state.take();
            drop(inner);
            drop(published);
            tell_sleepers(sleepers, Ok(()));
            activation.launch();
            return;
        }
        self.fall_passive(inner, &refusal.unwrap_or(why));
    }

    /// Makes the session passive and drops everything that only an awake session needs.
    fn fall_passive(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, refusal: &SendError) {
        let cut_off =
            inner.standing.phase == Phase::Active && inner.inbox.as_ref().is_some_and(|inbox| !inbox.rest.idle);
        inner.standing.phase = Phase::Passive;
        (inner.standing.stopped, inner.standing.vacated) = (false, false);
        if inner.listeners.ring.as_ref().is_none_or(|ring| !ring.is_heard()) {
            inner.listeners = Listeners::default();
        }
        let inbox = inner.inbox.take();
        let shared = self.shared.upgrade();
        if let Some(shared) = &shared {
            let left = inbox.as_ref().map(|inbox| inbox.tasks.clone()).filter(|tasks| !tasks.is_empty());
            shared.slots.asleep(&self.id, cut_off, left);
            let unrecorded = inbox.as_ref().map_or(0, |inbox| inbox.mailbox.unrecorded());
            if unrecorded > 0 {
                shared.slots.went_unrecorded(&self.id, unrecorded);
            }
        }
        drop(inner);
        self.moved.notify_waiters();
        drop(shared);
        if let Some(mut inbox) = inbox {
            tell_sleepers(std::mem::take(&mut inbox.sleepers), Ok(()));
            inbox.take_waiters(true).refuse(refusal);
            let unsettled = inbox.take_hand();
            // Gives a prepared tape back as well, which may wait for a disk, so it happens after the unlock. `settle` reads the
            // tape, so it must be free by then.
            drop(inbox);
            self.settle(unsettled, refusal.clone());
        }
    }

    /// Answers the commands that a gone actor had in hand, from its tape: an append that was under way is settled by then. A
    /// command that was not recorded is refused.
    pub(super) fn settle(&self, unsettled: Vec<Unsettled>, refusal: SendError) {
        // Without a runtime nobody can read the tape: dropping the replies tells the senders that the outcome is unknown.
        let Some(shared) = self.shared.upgrade().filter(|_| !unsettled.is_empty()) else { return };
        let (tapes, id, tokio) = (shared.store.clone(), self.id.clone(), shared.tokio.clone());
        let settling = async move {
            // All of them were in one hand.
            let flight = unsettled.iter().find_map(Unsettled::flight).unwrap_or_default();
            let flight = tokio.spawn_blocking(move || tapes.has_once_given_back(&id, &flight));
            let flight = match tokio::time::timeout(SETTLE_WAIT, flight).await {
                Ok(Ok(Ok(true))) => Some(LeftInFlight::OnTheTape),
                Ok(Ok(Ok(false))) => Some(LeftInFlight::Nowhere),
                // The tape is damaged, or claimed again by now, or the disk does not answer.
                _ => None,
            };
            unsettled.into_iter().for_each(|left| left.tell(flight, &refusal));
        };
        drop(shared.tasks.spawn_on(settling, &shared.tokio));
    }

    /// The token that is cancelled when the engine has the tape of a sleeping session back; `None` if it has the tape already, or
    /// if the session is awake again.
    pub(crate) fn given_back(&self) -> Option<CancellationToken> {
        let shared = self.shared.upgrade()?;
        // Under the lock no other incarnation can begin, so this is the tape that is on its way back.
        let inner = self.inner();
        if inner.standing.phase == Phase::Passive { shared.store.given_back(&self.id) } else { None }
    }

    /// Asks the session to go to sleep if it has nothing to do. Never wakes it, and never waits.
    pub(crate) fn passivate(&self, slept: Slept) {
        let mut inner = self.inner();
        let phase = inner.standing.phase;
        let now = match phase {
            _ if inner.standing.parked => Err(PassivateError::Parked),
            Phase::Passive => Ok(()),
            Phase::Activating | Phase::Active | Phase::Passivating => {
                let inbox = inner.inbox();
                // As many as still wait: a caller that was dropped leaves nothing.
                inbox.sleepers.retain(Slept::is_waited_for);
                if inbox.sleepers.len() >= WAITERS_MAX {
                    Err(PassivateError::Busy { why: "too many ask it to sleep" })
                } else {
                    inbox.sleepers.push(slept);
                    return inbox.waker.wake();
                }
            }
        };
        drop(inner);
        slept.tell(now);
    }

    /// Called by an actor that has something to do: tells those who ask it to sleep why it stays awake.
    pub(crate) fn stays_awake(&self, why: &'static str) {
        let sleepers = self.in_inbox(|inbox| std::mem::take(&mut inbox.sleepers));
        tell_sleepers(sleepers.unwrap_or_default(), Err(PassivateError::Busy { why }));
    }

    /// Called by an actor with nothing to do: marks the session asleep, unless an input arrived. Returns whether it did. Those who
    /// asked hear of it when the actor is gone.
    pub(crate) fn fall_asleep(&self) -> bool {
        let mut inner = self.inner();
        let phase = inner.standing.phase;
        let why = match phase {
            Phase::Active if inner.inbox().is_empty() => None,
            Phase::Active => Some("something came in"),
            // The activation has not reported yet.
            _ => Some(PassivateError::PASSING),
        };
        if let Some(why) = why {
            drop(inner);
            self.stays_awake(why);
            return false;
        }
        inner.standing.phase = Phase::Passivating;
        inner.inbox().waker.is_gone();
        true
    }

    /// Since when the session is idle; `None` if it is not.
    pub(crate) fn resting(&self) -> Option<Uses> {
        let inner = self.inner();
        let inbox = inner.inbox.as_ref()?;
        let rests =
            inner.standing.phase == Phase::Active && !inner.standing.parked && inbox.rest.idle && inbox.is_empty();
        rests.then_some(Uses { last: inner.used, born: inbox.rest.born })
    }
}

/// Puts a session to sleep, and returns when its engine has the tape back. See
/// [`Runtime::passivate`](crate::Runtime::passivate).
pub(crate) async fn put_to_sleep(shared: &Arc<Shared>, id: &SessionId) -> Result<(), PassivateError> {
    ask_to_sleep(shared, id).await?;
    tape_given_back(shared, id).await;
    Ok(())
}

/// Returns when the engine has the tape of a sleeping session back: without a bound, because it waits for the disk.
async fn tape_given_back(shared: &Arc<Shared>, id: &SessionId) {
    if let Some(given_back) = shared.slot(id).given_back() {
        given_back.cancelled().await;
    }
}

/// Asks a session to sleep, and returns when its actor is gone. The engine may still be taking its tape back. Every way out of the
/// three phases with an actor answers ([`Inbox::sleepers`](super::inbox)), so this ends when the actor takes its next piece of work
/// or ends. One that is stuck in code of an engine does neither until it is stopped; a caller who cannot wait sets a bound, and the
/// session sleeps later then.
pub(crate) async fn ask_to_sleep(shared: &Shared, id: &SessionId) -> Result<(), PassivateError> {
    let until = tokio::time::Instant::now() + PASSING_WAIT;
    loop {
        let Some(slot) = shared.slots.awake_one(id) else { return Ok(()) };
        let (reply, answer) = oneshot::channel();
        slot.passivate(Slept::told(reply));
        // The reply is dropped only with the runtime.
        let answer = answer.await.unwrap_or(Err(PassivateError::Busy { why: PassivateError::PASSING }));
        let passing = answer == Err(PassivateError::Busy { why: PassivateError::PASSING });
        if !passing || tokio::time::Instant::now() >= until {
            return answer;
        }
        tokio::time::sleep(PASSING_LOOK).await;
    }
}
