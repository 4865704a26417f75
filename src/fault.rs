//! Crash points: places in the code, each with a name, where a test may end an actor, a thread or the process.
//!
//! `fault!(faults, "area.place", of)` marks one; `of` says whose it is (a session's id, a supervisor's path). Without the
//! feature `fault-injection` it is nothing at all. With it the [`Faults`] that a runtime was built with hear of each passing,
//! and what they do there (panic, kill the process, copy the disk) happens there. They are a value of that runtime: two
//! runtimes in one process do not share them. Nothing here decides anything by itself.

/// Marks a crash point: which [`Faults`] hear of it, its name, and whose it is.
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

    /// What a test wants to happen where crash points are passed; nothing by default. Clones are the same.
    ///
    /// Only with the feature `fault-injection`, which no build that is used has on.
    #[derive(Clone, Default)]
    pub struct Faults(Option<Arc<Strike>>);

    impl Faults {
        /// Calls the function at each passing, with the name of the point and whose it is, on the thread that passes. What
        /// the function does there is what happens there: a panic is a panic of that place.
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
