//! [`Slept`]: a caller who asked a session to sleep, and hears that it does, or why not.
//!
//! A change must keep that nobody is told under the slot's lock.

use tokio::sync::oneshot;

use crate::error::PassivateError;

/// The caller, if any, who hears that a session sleeps, or why it does not.
#[derive(Default)]
pub(crate) struct Slept(Option<oneshot::Sender<Result<(), PassivateError>>>);

impl Slept {
    pub(crate) fn told(reply: oneshot::Sender<Result<(), PassivateError>>) -> Slept {
        Slept(Some(reply))
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.0.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    pub(super) fn tell(self, how: Result<(), PassivateError>) {
        if let Some(reply) = self.0 {
            // The caller may have dropped the receiver.
            drop(reply.send(how));
        }
    }
}

/// Answers all who asked a session to sleep. Never under a lock.
pub(super) fn tell_sleepers(sleepers: Vec<Slept>, how: Result<(), PassivateError>) {
    sleepers.into_iter().for_each(|slept| slept.tell(how.clone()));
}
