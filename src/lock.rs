//! A mutex that stays usable after a panic under it: the standard mutex without poisoning. A panic caught in one session or hook
//! locks out no other.
//!
//! The standard mutex reports an error to everyone who locks it after such a panic, because the value may be half changed.
//! [`Lock`] ignores that report. In exchange, code under a lock must complete each change before anything can panic, so that the
//! value is valid at every moment. A lock for which this does not hold must say so where it is declared.
//!
//! Never hold a guard across an `await`: the wait may be long, and every other user of the lock would block a thread. This module
//! sets no lock order: code that takes two locks at once states its own (for the tape: `tape/write.rs`).

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, TryLockError};

/// A mutex without poisoning. Code under the lock must complete each change before anything can panic; see the module.
#[derive(Debug, Default)]
pub(crate) struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits until the lock is free, and takes it. Never hold the guard across an `await`.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        unspoiled(self.0.lock())
    }

    /// Takes the lock if it is free, without waiting; `None` while it is held elsewhere.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(spoiled)) => Some(spoiled.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The guard or value from a standard lock operation or condition wait, also when it is marked as poisoned.
pub(crate) fn unspoiled<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_panic_under_a_lock_keeps_nobody_out() {
        let lock = Lock::new(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = lock.lock();
            *held = 2;
            panic!("under the lock");
        }));
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
        assert_eq!(*lock.lock(), 2);
    }
}
