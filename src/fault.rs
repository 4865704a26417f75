//! Crash points: named places in the code where a test may end an actor, a thread or the process.
//!
//! `fault!(faults, "area.place", of)` marks a crash point; `of` names its owner (a session's id, a supervisor's path). With the
//! feature `fault-injection`, the macro calls the function in the runtime's [`Faults`] on the thread that passes the point. So a
//! panic, a kill or a copy of the disk happens exactly there. `Faults` is a value that a test gives to a runtime, not a global: a
//! second runtime in the process has its own. Without the feature, the macro expands to nothing and its arguments are not
//! evaluated.
//!
//! A change must keep this: no code depends on a crash point, and its arguments have no side effect that the code needs. Tests
//! select points by name, so rename a point together with its tests. A test that blocks at a point keeps every lock that is held
//! there.

/// Marks a crash point: the [`Faults`] to call, its name, and its owner.
macro_rules! fault {
    ($faults:expr, $point:literal, $of:expr) => {
        #[cfg(feature = "fault-injection")]
        $faults.pass($point, $of);
    };
}

#[cfg(feature = "fault-injection")]
pub use hear::Faults;

#[cfg(feature = "fault-injection")]
mod hear {
    use std::sync::Arc;

    type Strike = dyn Fn(&'static str, &str) + Send + Sync;

    /// What a test does at crash points; nothing by default. Clones share one function.
    ///
    /// Exists only with the feature `fault-injection`, which must not be on in a build for users.
    #[derive(Clone, Default)]
    pub struct Faults(Option<Arc<Strike>>);

    impl Faults {
        /// Calls `strike` each time a crash point is passed, on the passing thread, with the name of the point and its owner.
        /// A panic in `strike` is a panic at that point.
        #[must_use]
        pub fn new(strike: impl Fn(&'static str, &str) + Send + Sync + 'static) -> Faults {
            Faults(Some(Arc::new(strike)))
        }

        pub(crate) fn pass(&self, point: &'static str, of: &str) {
            if let Some(strike) = &self.0 {
                strike(point, of);
            }
        }
    }

    impl std::fmt::Debug for Faults {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Faults").field("strikes", &self.0.is_some()).finish()
        }
    }
}
