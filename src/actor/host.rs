//! What all sessions of one runtime share: values, handed in once, never global.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        observers::Observers,
        slot::{Admission, Slot},
        slots::Slots,
        tape_store::{Orders, Sweeper},
        tapes::Tapes,
        timekeeper::{Keeper, Passivation},
    },
    error::OpenError,
    hook::Hooks,
    kernel::context::Window,
    kernel::{Windows, tools_tokens},
    lock::Lock,
    model::{Models, Price, Prices},
    permission::{Globs, Ruleset},
    supervisor::{Registry, SupervisorHandle},
    tape::TapeStoreExt as _,
    tool::Toolbox,
    words::ids::{Millis, SessionId},
    words::message::ModelRef,
};

/// What all sessions of one runtime share.
pub(crate) struct Host {
    pub(crate) store: Tapes,
    pub(crate) toolbox: Toolbox,
    pub(crate) toolbox_hash: String,
    /// What the tools take in a request, estimated.
    pub(crate) tools_tokens: u64,
    pub(crate) models: Arc<dyn Models>,
    /// What the host says that models cost.
    pub(crate) prices: Prices,
    pub(crate) hooks: Hooks,
    /// The same, as those who watch.
    pub(crate) observers: Observers,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) globs: Globs,
    /// The rules of the host, above those of every session.
    pub(crate) rules: Option<Ruleset>,
    /// The OS processes of all calls.
    #[cfg(all(unix, feature = "tools"))]
    pub(crate) processes: crate::process::Processes,
    /// The sessions that are known.
    pub(crate) slots: Slots,
    /// Who puts them to sleep.
    pub(crate) keeper: Keeper,
    /// What is removed by itself now and then.
    pub(crate) sweeper: Sweeper,
    /// What is asked of the tape store.
    pub(crate) orders: Orders,
    /// Held while it is written down whether a session is parked.
    writes_parked: Lock<()>,
    /// Where tasks run that no caller may cancel.
    pub(crate) tokio: tokio::runtime::Handle,
    /// Those tasks.
    pub(crate) tasks: TaskTracker,
    /// The supervisors of the sessions and of their compactions, once the tree is up.
    pub(crate) sessions: OnceLock<SupervisorHandle>,
    pub(crate) compactions: OnceLock<SupervisorHandle>,
    /// How long appends are held back after what they record was done.
    #[cfg(feature = "fault-injection")]
    pub(crate) hold_back_appends: Option<Duration>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// What the host's code says, asked inside a session; nothing where it panics: what it knows of a model is worth no session.
fn isolated<T>(ask: impl FnOnce() -> T) -> Option<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(ask)).ok()
}

impl Windows for Host {
    fn window(&self, model: &ModelRef) -> Window {
        let limits = isolated(|| self.models.limits_of(model)).unwrap_or_default();
        Window::new(limits.context, limits.output)
    }

    fn price(&self, model: &ModelRef) -> Option<Price> {
        self.prices.get(model).or_else(|| isolated(|| self.models.price_of(model)).flatten())
    }
}

impl Host {
    /// Must be called in the tokio runtime that the tree will run on.
    pub(crate) fn new(
        store: Tapes,
        toolbox: Toolbox,
        models: Arc<dyn Models>,
        hooks: Hooks,
        registry: Registry,
        passivation: Passivation,
    ) -> Host {
        let (toolbox_hash, tools_tokens) = (toolbox.hash(), tools_tokens(&toolbox));
        Host {
            store,
            toolbox,
            toolbox_hash,
            tools_tokens,
            models,
            prices: Prices::default(),
            observers: Observers::new(&hooks),
            hooks,
            registry,
            clock: Clock::start(),
            globs: Globs::default(),
            rules: None,
            #[cfg(all(unix, feature = "tools"))]
            processes: crate::process::Processes::unwatched(),
            slots: Slots::default(),
            keeper: Keeper::new(passivation),
            sweeper: Sweeper::default(),
            orders: Orders::default(),
            writes_parked: Lock::default(),
            tokio: tokio::runtime::Handle::current(),
            tasks: TaskTracker::new(),
            sessions: OnceLock::new(),
            compactions: OnceLock::new(),
            #[cfg(feature = "fault-injection")]
            hold_back_appends: None,
        }
    }

    /// Does on a thread of its own what may wait for a disk. Dropping the future lets it finish.
    pub(crate) async fn blocking<T: Send + 'static, E: From<OpenError> + Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Host) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let host = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&host)).await;
        done.unwrap_or_else(|_| Err(OpenError::Closed.into()))
    }

    /// The slot of a session; it need not exist.
    pub(crate) fn slot(self: &Arc<Self>, id: &SessionId) -> Arc<Slot> {
        self.slots.slot(self, id)
    }

    /// Takes no inputs and opens nothing any more. Gives the sessions that are known.
    pub(crate) fn close(&self) -> Vec<Arc<Slot>> {
        self.orders.close();
        self.slots.set_admission(Admission::Closed)
    }

    /// A session is kept stopped after its incarnation of that number, until it is unparked; it says so to whoever sends, and in the store.
    pub(crate) async fn park(self: &Arc<Self>, id: &SessionId, after: u32, why: String) {
        self.slots.park(id, after, why);
        self.write_parked(id).await;
    }

    /// A session may run again. Whether it was kept stopped.
    pub(crate) async fn unpark(self: &Arc<Self>, id: &SessionId) -> bool {
        let was_parked = self.slots.unpark(id);
        self.write_parked(id).await;
        was_parked
    }

    /// Writes into the store whether a session is parked. One after the other, each by what is so then: the last one is right.
    pub(crate) async fn write_parked(self: &Arc<Self>, id: &SessionId) {
        let (host, id) = (self.clone(), id.clone());
        let written = self.tokio.spawn_blocking(move || {
            let _one = host.writes_parked.lock();
            match host.slots.why_parked(&id) {
                Some(why) => host.store.park(&id, host.clock.now(), &why),
                None => host.store.unpark(&id),
            }
        });
        if let Ok(Err(error)) = written.await {
            tracing::error!(%error, "whether a session is parked could not be written down: it is so in this runtime only");
        }
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

    /// The same, moved so that it is that moment now, or later. For a session whose tape was written under a clock that was ahead
    /// of this one: its waits take as long as they are, and not as much longer as the clock was set back.
    pub(crate) fn not_before(self, moment: Millis) -> Clock {
        Clock { wall: self.wall.plus(moment.since(self.now())), ..self }
    }

    /// When that moment will be; now where it is past.
    pub(crate) fn instant(&self, moment: Millis) -> Instant {
        // A whole millisecond later, so that a timer never fires before the moment it was set for.
        self.start + moment.since(self.wall) + Duration::from_millis(1)
    }
}
