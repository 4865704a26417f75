//! What a session shows of itself while it is awake: the state as it is on the tape, put here by the actor after each recorded append
//! ([`Slot::publish`]). A read of it asks no actor. A caller that waits for something leaves a [`Waiter`], a closure that the actor
//! runs in its next rounds, outside of the slot's lock, until the closure has its answer. There is one kind of waiter, one list, one bound.
//!
//! A waiter is a closure and no task that wakes and looks, because the state remembers the newest 16 turns only: the actor runs the
//! closures after each append, so none misses a turn. Waiters outlive a crash of the actor. A waiter whose caller is gone is dropped.
//!
//! A change must keep that what is published is recorded, that a waiter is left only where the caller has seen the newest state (or
//! the two could miss each other), and that no closure runs under the lock.

use std::sync::{Arc, MutexGuard};

use tokio::time::Instant;

use crate::{
    actor::slot::{
        ANSWER_WAIT, Inner, Slot, Work,
        waiter::{Found, Now, WAITERS_MAX, Waiter},
    },
    error::SendError,
    event::Ring,
    kernel::{Refusal, State},
    words::ids::{Millis, Seq},
};

/// What [`Slot::round`] hands to the actor besides its work.
pub(crate) struct Waiting(Vec<Waiter>, Option<Now>);

impl Inner {
    /// What is published; `None` while the session is passive, and until its first incarnation has begun.
    pub(super) fn now(&self) -> Option<Now> {
        let inbox = self.inbox.as_ref()?;
        let mailbox = &inbox.mailbox;
        let (is_quiet, is_taken_up) = (mailbox.is_empty(), mailbox.is_recovered() || mailbox.refusal().is_some());
        Some(Now { state: inbox.published.state.clone()?, is_quiet, is_taken_up })
    }
}

impl Slot {
    /// The state as it is on the tape. Wakes a session that sleeps.
    pub(crate) async fn now(self: &Arc<Self>) -> Result<Arc<State>, SendError> {
        self.until(|now| Some(Ok(now.state.clone()))).await
    }

    /// What the session shows; `None` while it sleeps. Wakes nobody.
    pub(crate) fn shown(&self) -> Option<Arc<State>> {
        self.inner().now().map(|now| now.state)
    }

    /// Whether it shows anything. Wakes nobody.
    pub(crate) fn is_shown(&self) -> bool {
        self.inner().now().is_some()
    }

    /// Waits until `look` finds something in what the session shows: at once, or after one of the next appends. Wakes a session that
    /// sleeps, and keeps it awake. If the slot takes no inputs, now or later, its refusal is the answer. Dropping the future leaves
    /// nothing.
    pub(crate) async fn until<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn(&Now) -> Option<Found<T>> + Clone + Send + 'static,
    ) -> Found<T> {
        self.wait(true, look).await
    }

    /// As [`Slot::until`], but the session may fall asleep meanwhile; what the caller waits for wakes it.
    pub(crate) async fn until_in_its_sleep<T: Send + 'static>(
        self: &Arc<Self>,
        look: impl Fn(&Now) -> Option<Found<T>> + Clone + Send + 'static,
    ) -> Found<T> {
        self.wait(false, look).await
    }

    async fn wait<T: Send + 'static>(
        self: &Arc<Self>,
        keeps_awake: bool,
        look: impl Fn(&Now) -> Option<Found<T>> + Clone + Send + 'static,
    ) -> Found<T> {
        let mut seen: Option<Now> = None;
        loop {
            if let Some(found) = seen.as_ref().and_then(&look) {
                return found;
            }
            let (waiter, _caller, answer) = Waiter::new(keeps_awake, look.clone());
            seen = self.leave_if_seen(seen, waiter)?;
            if seen.is_none()
                && let Ok(found) = answer.await
            {
                return found;
            }
        }
    }

    /// Leaves a waiter if its caller has seen what the session shows now; otherwise returns that. Without an answer, the incarnation
    /// that looked for the caller has crashed over another waiter.
    fn leave_if_seen(self: &Arc<Self>, seen: Option<Now>, waiter: Waiter) -> Result<Option<Now>, SendError> {
        let inner = self.in_use()?;
        match inner.now() {
            Some(now) if seen.is_none_or(|seen| !seen.is(&now)) => Ok(Some(now)),
            now => self.leave_waiter(inner, waiter, now.is_none()).map(|()| None),
        }
    }

    /// Returns when the session is awake: an incarnation of its actor takes work, and its recovery is on the tape. A disk that takes
    /// longer than [`ANSWER_WAIT`] for that holds nobody up.
    pub(crate) async fn answers(self: &Arc<Self>) -> Result<(), SendError> {
        match tokio::time::timeout(ANSWER_WAIT, self.looked_at(|now| now.is_taken_up)).await {
            Ok(answer) => answer,
            Err(_) => self.next_round().await,
        }
    }

    /// Returns in the next round of the actor, whatever its disk does. Wakes a session that sleeps.
    pub(crate) async fn next_round(self: &Arc<Self>) -> Result<(), SendError> {
        self.looked_at(|_| true).await
    }

    /// Returns when the actor, in one of its next rounds, finds that it is so.
    async fn looked_at(self: &Arc<Self>, is_so: fn(&Now) -> bool) -> Result<(), SendError> {
        loop {
            let (waiter, _caller, answer) = Waiter::new(true, move |now| is_so(now).then_some(Ok(())));
            self.leave_at_once(waiter)?;
            if let Ok(found) = answer.await {
                return found;
            }
        }
    }

    /// A drill: the actor crashes with these words in its next round, as a bug in it would.
    pub(crate) fn crash(self: &Arc<Self>, words: String) -> Result<(), SendError> {
        let (mut waiter, caller, _) = Waiter::new(true, |_| None::<Found<()>>);
        let slot = Arc::downgrade(self);
        waiter.look = Box::new(move |now| {
            let _still_waited_for = &caller;
            let Ok(_) = now else { return true };
            if let Some(node) = slot.upgrade().and_then(|slot| slot.node()) {
                node.take_up("drill", None, || None);
            }
            std::panic::resume_unwind(Box::new(words.clone()))
        });
        self.leave_at_once(waiter)
    }

    /// Leaves a waiter that the actor looks for in its next round.
    fn leave_at_once(self: &Arc<Self>, waiter: Waiter) -> Result<(), SendError> {
        self.leave_waiter(self.in_use()?, waiter, true)
    }

    /// The slot's lock, for a caller who uses the session; an error where the slot takes no inputs.
    fn in_use(&self) -> Result<MutexGuard<'_, Inner>, SendError> {
        let mut inner = self.inner();
        inner.used = Instant::now();
        inner.standing.refusal().map_or(Ok(inner), Err)
    }

    /// Leaves a waiter, and wakes the actor for it if it is to look at once, as it must be where nothing is published.
    fn leave_waiter(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        waiter: Waiter,
        at_once: bool,
    ) -> Result<(), SendError> {
        let waiters = &mut inner.inbox().published.waiters;
        if waiters.len() >= WAITERS_MAX {
            // Those whose callers are gone make room, also while the actor is stuck. Dropping them here answers nobody.
            waiters.retain(Waiter::is_waited_for);
        }
        let depth = waiters.len();
        if depth >= WAITERS_MAX {
            return Err(SendError::Refused(Refusal::InboxFull { depth }));
        }
        waiters.push(waiter);
        if at_once {
            self.rouse_locked(inner);
        }
        Ok(())
    }

    // ---- the actor's side ------------------------------------------------------------------------------------------------

    /// Publishes the state: the tape has it. `told` is the entry up to which listeners hear of it now. Returns their ring.
    pub(crate) fn publish(&self, state: Arc<State>, told: Seq) -> Option<Arc<Ring>> {
        let mut inner = self.inner();
        inner.listeners.told = told;
        let ring = inner.listeners.ring.clone();
        let before = inner.inbox.as_mut().and_then(|inbox| inbox.published.state.replace(state));
        drop(inner);
        // Where it was the last one, dropping it takes a while.
        drop(before);
        ring
    }

    /// Takes out the next piece of work, as [`Slot::take`], and all waiters, who look first: see [`Slot::look`].
    pub(crate) fn round(&self, state: &State, at: Millis) -> (Option<Work>, Waiting) {
        let mut inner = self.inner();
        let work = inner.inbox.as_mut().and_then(|inbox| inbox.take(state, at));
        let now = inner.now();
        let waiters = inner.inbox.as_mut().map(|inbox| std::mem::take(&mut inbox.published.waiters));
        (work, Waiting(waiters.unwrap_or_default(), now))
    }

    /// Runs the waiters that [`Slot::round`] gave, and keeps those that have no answer yet.
    pub(crate) fn look(&self, Waiting(mut waiters, now): Waiting) {
        let Some(now) = now.filter(|_| !waiters.is_empty()) else { return };
        waiters.retain_mut(|waiter| waiter.is_waited_for() && !(waiter.look)(Ok(&now)));
        let mut inner = self.inner();
        let refusal = inner.standing.refusal();
        match &mut inner.inbox {
            Some(inbox) if refusal.is_none() => {
                // Before those who came meanwhile.
                std::mem::swap(&mut inbox.published.waiters, &mut waiters);
                inbox.published.waiters.append(&mut waiters);
            }
            // A passive session: its callers ask again, which wakes it.
            _ => {}
        }
        drop(inner);
        if let Some(error) = refusal {
            waiters.into_iter().for_each(|waiter| waiter.refuse(error.clone()));
        }
    }
}
