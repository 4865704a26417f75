//! A mutex that a panic does not spoil.
//!
//! The standard one refuses whoever comes after a panic under it, because what it guards may be half changed. Here each change under
//! a lock is whole before anything can panic, so what is behind it is as good as before; a lock where that is not so says it.

use std::sync::{LockResult, Mutex, MutexGuard, PoisonError, TryLockError};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lock<T: ?Sized>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    /// What is behind it, when nobody else has it.
    pub(crate) fn into_inner(self) -> T {
        unspoiled(self.0.into_inner())
    }
}

impl<T: ?Sized> Lock<T> {
    /// Waits until nobody else has it. Never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        unspoiled(self.0.lock())
    }

    /// `None` where somebody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(spoiled)) => Some(spoiled.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// What a lock, or a wait on a condition of one, gives; also after a panic under it.
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
        assert_eq!(lock.into_inner(), 2);
    }
}
