//! What all sessions of one runtime share: values, handed in once, never global.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    actors::{links::Nursery, slot::Slot},
    context::{Window, of_text},
    hook::Hooks,
    ids::{Millis, SessionId},
    message::ModelRef,
    model::Models,
    permission::Globs,
    session::Windows,
    supervisor::Registry,
    tape::Store,
    tool::Toolbox,
};

/// What all sessions of one runtime share.
pub(crate) struct Host {
    pub(crate) store: Store,
    pub(crate) toolbox: Toolbox,
    pub(crate) toolbox_hash: String,
    /// What the tools take in a request, estimated.
    pub(crate) tools_tokens: u64,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) hooks: Hooks,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) globs: Globs,
    /// The OS processes of all calls.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) processes: crate::process::Processes,
    /// How long appends are held back after what they record was done.
    #[cfg(feature = "fault-injection")]
    pub(crate) hold_back_appends: Option<Duration>,
    /// Who brings children up; set once the tree stands.
    pub(crate) nursery: OnceLock<Arc<dyn Nursery>>,
    slots: Mutex<BTreeMap<SessionId, Arc<Slot>>>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl Windows for Host {
    fn window(&self, model: &ModelRef) -> Window {
        let limits = self.models.limits_of(model);
        Window::new(limits.context, limits.output)
    }
}

impl Host {
    pub(crate) fn new(
        store: Store,
        toolbox: Toolbox,
        models: Arc<dyn Models>,
        hooks: Hooks,
        registry: Registry,
    ) -> Host {
        let specs = serde_json::to_vec(&*toolbox.specs()).unwrap_or_default();
        let tools_tokens = of_text(&String::from_utf8_lossy(&specs));
        let toolbox_hash = blake3::hash(&specs).to_hex()[..32].to_owned();
        Host {
            store,
            toolbox,
            toolbox_hash,
            tools_tokens,
            models,
            hooks,
            registry,
            clock: Clock::start(),
            globs: Globs::default(),
            #[cfg(all(unix, feature = "tools"))]
            processes: crate::process::Processes::unwatched(),
            #[cfg(feature = "fault-injection")]
            hold_back_appends: None,
            nursery: OnceLock::new(),
            slots: Mutex::default(),
        }
    }

    /// The same, with processes that are watched over.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) fn with_processes(mut self, processes: crate::process::Processes) -> Host {
        self.processes = processes;
        self
    }

    /// The same, with appends held back.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn holding_back_appends(mut self, by: Option<Duration>) -> Host {
        self.hold_back_appends = by;
        self
    }

    /// The slots of the sessions that this runtime knows.
    pub(crate) fn slots(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Slot>>> {
        // Only whole inserts and removes happen under this lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time, as sessions know it: the wall clock of the start, and from then on what tokio's clock counts.
///
/// So a wall clock that jumps moves no deadline, and virtual time in tests moves all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    wall: Millis,
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { wall: Millis::now(), start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Millis {
        self.wall.plus(self.start.elapsed())
    }

    /// When that moment will be; now where it is past.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        // A whole millisecond later, so that a timer never fires before the moment it was set for.
        self.start + moment.since(self.wall) + Duration::from_millis(1)
    }
}
