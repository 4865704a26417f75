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

/// An append that a thread of the tape is at: the clock of a test that is stopped does not jump ahead over it.
///
/// With a stopped clock, tokio takes time forward to the next timer whenever no task can run, and what a thread of ours does is no
/// task. So a question could be too old for an answer before it was on the tape. A blocking task of tokio's holds the clock up; that
/// is all this is. It ends with the actor: behind a crash, and for the release of a claim, the clock does not wait.
#[derive(Debug)]
pub(crate) struct InFlight {
    #[cfg(feature = "fault-injection")]
    _over: Option<std::sync::mpsc::Sender<()>>,
}

impl InFlight {
    /// An engine that never answers holds the clock up no longer than this.
    #[cfg(feature = "fault-injection")]
    const LIMIT: std::time::Duration = std::time::Duration::from_secs(20);

    #[cfg(feature = "fault-injection")]
    pub(crate) fn begin(tokio: &tokio::runtime::Handle) -> InFlight {
        // The clock can be stopped in no other flavor.
        if tokio.runtime_flavor() != tokio::runtime::RuntimeFlavor::CurrentThread {
            return InFlight { _over: None };
        }
        let (over, hears) = std::sync::mpsc::channel();
        drop(tokio.spawn_blocking(move || hears.recv_timeout(InFlight::LIMIT)));
        InFlight { _over: Some(over) }
    }

    #[cfg(not(feature = "fault-injection"))]
    pub(crate) fn begin(_: &tokio::runtime::Handle) -> InFlight {
        InFlight {}
    }
}

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

#[cfg(all(test, feature = "fault-injection"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::InFlight;

    /// Without one, the ten minutes are over at once: nothing else can run here meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_stopped_clock_waits_for_an_append_in_flight() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let flight = InFlight::begin(&tokio::runtime::Handle::current());
        let writes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            tell.send(()).unwrap();
            drop(flight);
        });
        let told = tokio::time::timeout(Duration::from_secs(600), told).await;
        told.expect("the clock stood still while it was written").unwrap();
        writes.join().unwrap();
    }
}
