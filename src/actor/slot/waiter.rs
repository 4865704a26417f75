//! What a session shows of itself ([`Now`]), and the [`Waiter`]: a closure of a caller who waits until that shows something. There is
//! one kind of waiter, one list, one bound. `published.rs` says when they look.
//!
//! A change must keep that a waiter whose caller is gone costs nothing, and that no closure runs under the slot's lock.

use std::sync::{Arc, Weak};

use tokio::sync::oneshot;

use crate::{error::SendError, kernel::State};

/// The most waiters of a session.
pub(crate) const WAITERS_MAX: usize = 1_024;

/// What a session shows of itself.
#[derive(Clone)]
pub(crate) struct Now {
    /// The state after the newest published entry.
    pub(crate) state: Arc<State>,
    /// Whether no command and no report waits or is in hand.
    pub(crate) is_quiet: bool,
    /// Whether the recovery of this incarnation is on the tape, or the disk refused it.
    pub(crate) is_taken_up: bool,
}

impl Now {
    pub(super) fn is(&self, other: &Now) -> bool {
        let of = |now: &Now| (now.is_quiet, now.is_taken_up);
        Arc::ptr_eq(&self.state, &other.state) && of(self) == of(other)
    }
}

/// The answer that a look found, or the reason why there will be none.
pub(super) type Found<T> = Result<T, SendError>;

/// Looks, and tells the caller; whether it has told. An error is always told.
pub(super) type Look = Box<dyn FnMut(Result<&Now, SendError>) -> bool + Send>;

/// A caller that waits until the state shows something.
pub(super) struct Waiter {
    /// Gone when the caller has stopped waiting.
    caller: Weak<()>,
    /// Whether the session stays awake for the caller.
    keeps_awake: bool,
    pub(super) look: Look,
}

impl Waiter {
    pub(super) fn is_waited_for(&self) -> bool {
        self.caller.strong_count() > 0
    }

    /// Whether the session stays awake for this waiter.
    pub(super) fn keeps_awake(&self) -> bool {
        self.keeps_awake && self.is_waited_for()
    }

    /// Tells the caller that there will be no answer. Never under a lock.
    pub(super) fn refuse(mut self, error: SendError) {
        (self.look)(Err(error));
    }

    /// A waiter of this look, and what its caller holds and awaits.
    pub(super) fn new<T: Send + 'static>(
        keeps_awake: bool,
        look: impl Fn(&Now) -> Option<Found<T>> + Send + 'static,
    ) -> (Waiter, Arc<()>, oneshot::Receiver<Found<T>>) {
        let (caller, (reply, answer)) = (Arc::new(()), oneshot::channel());
        let mut reply = Some(reply);
        let look = move |now: Result<&Now, SendError>| {
            let Some(found) = now.map_or_else(|error| Some(Err(error)), &look) else { return false };
            if let Some(reply) = reply.take() {
                // The caller may have dropped its receiver.
                drop(reply.send(found));
            }
            true
        };
        (Waiter { caller: Arc::downgrade(&caller), keeps_awake, look: Box::new(look) }, caller, answer)
    }
}

/// The published part of an inbox.
#[derive(Default)]
pub(super) struct Published {
    /// The state as it is on the tape; `None` until the first incarnation begins.
    pub(super) state: Option<Arc<State>>,
    /// At most [`WAITERS_MAX`].
    pub(super) waiters: Vec<Waiter>,
}

impl Published {
    /// Whether the session stays awake for somebody who waits.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiters.iter().any(Waiter::keeps_awake)
    }
}
