//! How a slot's session wakes up and goes to sleep: the changes between its phases, each whole under the slot's lock.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    actor::{
        activation::Activation,
        host::Host,
        slot::{Inner, Phase, Question, Resting, Slept, Slot, Unsettled},
    },
    error::{OpenError, PassivateError, SendError},
    words::ids::{Seq, SessionId},
};

/// How long the disk may take to say what became of what an actor had taken up.
const SETTLE_WAIT: Duration = Duration::from_secs(10);

/// How long [`put_to_sleep`] waits for what passes by itself, and how often it looks.
const PASSING_WAIT: Duration = Duration::from_secs(1);
const PASSING_LOOK: Duration = Duration::from_millis(5);

impl Slot {
    pub(crate) fn phase(&self) -> Phase {
        self.inner().phase
    }

    /// Begins an activation by hand, where none is on its way and none is needed.
    pub(crate) fn begin_activation(self: &Arc<Self>) -> Option<Activation> {
        let mut inner = self.inner();
        if inner.phase == Phase::Passive { self.take_off(&mut inner) } else { None }
    }

    pub(super) fn take_off(self: &Arc<Self>, inner: &mut Inner) -> Option<Activation> {
        let host = self.host.upgrade()?;
        inner.phase = Phase::Activating;
        inner.used = Instant::now();
        inner.inbox().born = Some(Instant::now());
        host.slots.awake(self);
        Some(Activation::new(host, self.clone()))
    }

    /// An activation is over.
    pub(crate) fn finished(self: &Arc<Self>, result: Result<(), OpenError>) {
        let mut inner = self.inner();
        match result {
            Ok(()) => {
                inner.phase = Phase::Active;
                if std::mem::replace(&mut inner.inbox().vacated, false) {
                    self.leave(inner, SendError::Closed);
                }
            }
            Err(error) => self.fall_passive(inner, &SendError::from(error)),
        }
    }

    /// It was to be made, and was not. Who waits here did not ask for that: there may be one of this name, and they wake it.
    pub(crate) fn unmade(self: &Arc<Self>, error: OpenError) {
        self.leave(self.inner(), SendError::from(error));
    }

    /// A place under the supervisor is asked for. One that was asked for before and refused no longer matters.
    pub(crate) fn next_place(&self) -> u32 {
        let mut inner = self.inner();
        inner.place = inner.place.wrapping_add(1);
        inner.inbox().vacated = false;
        inner.place
    }

    /// That place under the supervisor was given up: its actor will not be started again. Nothing of it is left, unless the
    /// supervisor itself crashed: then it is on its way out, and may have the tape for a moment still.
    pub(crate) fn vacated(self: &Arc<Self>, place: u32) {
        let mut inner = self.inner();
        match inner.phase {
            _ if place != inner.place => {}
            Phase::Passive => {}
            Phase::Activating => {
                // Whoever started it hears of it too, and has the word.
                let inbox = inner.inbox();
                inbox.vacated = true;
                inbox.actor = None;
            }
            Phase::Active | Phase::Passivating => self.leave(inner, SendError::Closed),
        }
    }

    /// Nothing of its actor is left: it is woken again where something came in, or is passive. Where it takes nothing, `why` is for those
    /// who are not told a better reason.
    fn leave(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, why: SendError) {
        let refusal = inner.refusal();
        inner.inbox().actor = None;
        if refusal.is_none()
            && !inner.inbox().is_empty()
            && let Some(activation) = self.take_off(&mut inner)
        {
            let sleepers = std::mem::take(&mut inner.inbox().sleepers);
            drop(inner);
            sleepers.into_iter().for_each(|slept| slept.tell(Ok(())));
            activation.launch();
            return;
        }
        self.fall_passive(inner, &refusal.unwrap_or(why));
    }

    /// Gives up all that a passive session does not need.
    fn fall_passive(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>, refusal: &SendError) {
        let cut_off = inner.phase == Phase::Active && inner.inbox.as_ref().is_some_and(|inbox| !inbox.idle);
        inner.phase = Phase::Passive;
        if inner.ring.as_ref().is_none_or(|ring| !ring.is_heard()) {
            (inner.ring, inner.told) = (None, Seq::ZERO);
        }
        let inbox = inner.inbox.take();
        let host = self.host.upgrade();
        if let Some(host) = &host {
            let left = inbox.as_ref().map(|inbox| inbox.tasks.clone()).filter(|tasks| !tasks.is_empty());
            host.slots.asleep(&self.id, cut_off, left);
        }
        drop(inner);
        self.moved.notify_waiters();
        drop(host);
        if let Some(mut inbox) = inbox {
            std::mem::take(&mut inbox.sleepers).into_iter().for_each(|slept| slept.tell(Ok(())));
            // Giving a tape back may wait for a disk, so it is not done under the lock.
            inbox.take_waiters(true).refuse(refusal);
            let unsettled = inbox.take_hand();
            // The tape that was put by for an incarnation goes with it, and must be free to be looked at.
            drop(inbox);
            self.settle(unsettled, refusal.clone());
        }
    }

    /// Answers what an actor that is gone had taken up, as its tape says: an append that was on its way when it went is settled
    /// behind it. What was not recorded is refused.
    pub(super) fn settle(&self, unsettled: Vec<Unsettled>, refusal: SendError) {
        // Without a runtime nobody can look: those who wait are told that it is not known.
        let Some(host) = self.host.upgrade().filter(|_| !unsettled.is_empty()) else { return };
        let (tapes, id, tokio) = (host.store.clone(), self.id.clone(), host.tokio.clone());
        let settling = async move {
            let looked = tokio.spawn_blocking(move || tapes.last_once_given_back(&id));
            let last = match tokio::time::timeout(SETTLE_WAIT, looked).await {
                Ok(Ok(Ok(last))) => Some(last),
                // It is damaged, or somebody has it by now, or the disk does not answer.
                _ => None,
            };
            unsettled.into_iter().for_each(|left| left.tell(last, &refusal));
        };
        drop(host.tasks.spawn_on(settling, &host.tokio));
    }

    /// What is cancelled when the engine has the tape back of a session that sleeps; nothing where it has, and where the session
    /// is awake again.
    pub(crate) fn given_back(&self) -> Option<CancellationToken> {
        let host = self.host.upgrade()?;
        // No other incarnation can have begun under the lock, so the tape is the one that is on its way back.
        let inner = self.inner();
        if inner.phase == Phase::Passive { host.store.given_back(&self.id) } else { None }
    }

    /// Wants the session to go to sleep, if it has nothing to do. Never wakes it.
    pub(crate) fn passivate(&self, slept: Slept) {
        let mut inner = self.inner();
        let phase = inner.phase;
        let now = match phase {
            _ if inner.parked => Err(PassivateError::Parked),
            Phase::Passive => Ok(()),
            Phase::Passivating => return inner.inbox().sleepers.push(slept),
            // A full queue is an awake session.
            Phase::Activating | Phase::Active if inner.inbox().is_full() => {
                Err(PassivateError::Busy { why: "too many wait for its answers" })
            }
            Phase::Activating | Phase::Active => {
                let inbox = inner.inbox();
                // It is asked last of all, so whatever is there is done before. It fits, as was just looked at.
                drop(inbox.question(Question::Sleep(slept)));
                return inbox.wake();
            }
        };
        drop(inner);
        slept.tell(now);
    }

    /// The actor has nothing to do: marks the session as asleep, unless something came in. Nothing slips in between.
    pub(crate) fn fall_asleep(&self, slept: Slept) -> bool {
        let mut inner = self.inner();
        let phase = inner.phase;
        let why = match phase {
            Phase::Active if inner.inbox().is_empty() => None,
            Phase::Active => Some("something came in"),
            // Whoever woke it has not been told yet.
            _ => Some(PassivateError::PASSING),
        };
        if let Some(why) = why {
            drop(inner);
            slept.tell(Err(PassivateError::Busy { why }));
            return false;
        }
        inner.phase = Phase::Passivating;
        let inbox = inner.inbox();
        inbox.actor = None;
        inbox.sleepers.push(slept);
        true
    }

    /// Since when it rests, where it does.
    pub(crate) fn resting(&self) -> Option<Resting> {
        let inner = self.inner();
        let inbox = inner.inbox.as_ref()?;
        let rests = inner.phase == Phase::Active && !inner.parked && inbox.idle && inbox.is_empty();
        rests.then_some(Resting { since: inner.used, born: inbox.born })
    }
}

/// Puts a session to sleep, and waits until its engine has the tape back. See
/// [`Runtime::passivate`](crate::Runtime::passivate).
pub(crate) async fn put_to_sleep(host: &Arc<Host>, id: &SessionId) -> Result<(), PassivateError> {
    ask_to_sleep(host, id).await?;
    // Its actor is gone, and its engine may be at giving the tape back still.
    if let Some(given_back) = host.slot(id).given_back() {
        given_back.cancelled().await;
    }
    Ok(())
}

/// Returns when its actor is gone.
async fn ask_to_sleep(host: &Host, id: &SessionId) -> Result<(), PassivateError> {
    let until = tokio::time::Instant::now() + PASSING_WAIT;
    loop {
        let Some(slot) = host.slots.awake_one(id) else { return Ok(()) };
        let (reply, answer) = oneshot::channel();
        slot.passivate(Slept(Some(reply)));
        // A question that was lost was lost with its actor.
        let answer = answer.await.unwrap_or(Err(PassivateError::Busy { why: PassivateError::PASSING }));
        let passing = answer == Err(PassivateError::Busy { why: PassivateError::PASSING });
        if !passing || tokio::time::Instant::now() >= until {
            return answer;
        }
        tokio::time::sleep(PASSING_LOOK).await;
    }
}
