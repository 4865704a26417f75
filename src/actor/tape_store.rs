//! The tape store's actor: it has tapes claimed, opened and made. At intervals or on request it sweeps, deletes old outputs,
//! remakes the disk's reserve and scrubs the index; such other work is a chore.
//!
//! Orders wait in [`Orders`], a value of the runtime. The task that carries an order out tells its callers the result, and no
//! crash of the actor ends that task. After a crash the next incarnation takes the orders that wait; if none comes within five
//! seconds, they are refused. A chore ends with its incarnation, and the next incarnation begins chores of its own.
//!
//! A change must keep this. The handler never waits: blocking work runs on threads, and a chore that may take long looks often
//! whether it has to end. No append to an open tape goes through this actor: sessions append by handles of their own, and live on
//! without it.

mod open;
mod orders;
mod sweeper;
mod sweeps;

use orders::Look;
pub(crate) use orders::{Chore, First, Opening, Orders};
pub use sweeper::SweepReport;
pub(crate) use sweeper::Sweeper;
pub(crate) use sweeps::sweep;

use std::{future::pending, sync::Arc, time::Duration};

use tokio::time::sleep;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::{shared::Shared, undone::show_undone},
    supervisor::{
        ChildSpec, NodeState,
        shell::{Behaviour, Context, ExitError, Init},
    },
    tape::{Store, TapeError},
    tool::truncate::RETENTION,
};

/// The id of the actor under its supervisor.
pub(crate) const TAPE_STORE: &str = "tape store";

/// How often outputs that are too old are deleted.
const TIDY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The wait before deleted sessions are scrubbed from the index again, after a scrub that could not finish.
const SCRUB_AGAIN: Duration = Duration::from_secs(10);

/// How long a chore of one incarnation may hold up the next incarnation. Each long chore looks often whether it must end.
const CHORES_WAIT: Duration = Duration::from_secs(2);

/// The actor as a child of its supervisor.
pub(crate) fn tape_store(shared: &Arc<Shared>) -> ChildSpec {
    let (shared, chores) = (shared.clone(), TaskTracker::new());
    let of_incarnation = chores.clone();
    let make = move || TapeStore {
        shared: shared.clone(),
        chores: of_incarnation.clone(),
        ends: CancellationToken::new(),
        has_begun: false,
    };
    ChildSpec::behaviour(TAPE_STORE, TAPE_STORE, make).workers(chores, CHORES_WAIT)
}

impl Chore {
    fn word(self) -> &'static str {
        match self {
            Chore::Tidy => "deletes old outputs",
            Chore::Reserve => "makes the disk's reserve again",
            Chore::Sweep => "sweeps",
            Chore::Scrub => "scrubs what was deleted",
        }
    }

    /// Does the chore once; blocks on the disk. Returns whether some of it is left to do.
    fn work(self, shared: &Shared, stop: &dyn Fn() -> bool) -> bool {
        match (self, shared.store.files()) {
            (Chore::Sweep, _) => shared.sweeper.sweep(shared, stop),
            (Chore::Tidy, Some(files)) => tidy(files, stop),
            // If the disk has no room for the reserve, a later chore makes it.
            (Chore::Reserve, Some(files)) => drop(files.remake_reserve()),
            (Chore::Scrub, Some(files)) => return !scrub(files, stop),
            (Chore::Tidy | Chore::Reserve | Chore::Scrub, None) => {}
        }
        false
    }

    /// Does the chore at intervals and on request, until the incarnation ends.
    async fn run(self, shared: Arc<Shared>, node: Arc<NodeState>, ends: CancellationToken) {
        let mut wait = match self {
            Chore::Sweep => shared.sweeper.wait(),
            Chore::Reserve => None,
            // At once, for what another process or an earlier incarnation left behind.
            Chore::Tidy | Chore::Scrub => Some(Duration::ZERO),
        };
        loop {
            tokio::select! {
                biased;
                () = ends.cancelled() => return,
                () = shared.orders.asked(self) => {}
                () = due(wait) => {}
            }
            node.doing(self.word());
            let (of_work, stops) = (shared.clone(), ends.clone());
            let work = move || self.work(&of_work, &|| stops.is_cancelled() || of_work.orders.is_closed());
            let is_left = shared.tokio.spawn_blocking(work).await.unwrap_or_else(|lost| {
                tracing::warn!(chore = self.word(), %lost, "a chore of the tape store came to no end");
                true
            });
            show_undone(&shared, &node);
            wait = match self {
                Chore::Tidy => Some(TIDY_EVERY),
                Chore::Sweep => shared.sweeper.wait(),
                Chore::Scrub => is_left.then_some(SCRUB_AGAIN),
                Chore::Reserve => None,
            };
        }
    }
}

async fn due(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => pending().await,
    }
}

struct TapeStore {
    shared: Arc<Shared>,
    chores: TaskTracker,
    /// Cancelled when the incarnation ends: its chores must end.
    ends: CancellationToken,
    has_begun: bool,
}

impl Behaviour for TapeStore {
    type Msg = Look;

    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Look>) -> Result<Init, ExitError> {
        self.has_begun = true;
        self.shared.orders.begin(cx.mailbox(), cx.node().clone());
        show_undone(&self.shared, cx.node());
        for chore in Chore::ALL {
            let work = chore.run(self.shared.clone(), cx.node().clone(), self.ends.clone());
            self.chores.spawn_on(work, &self.shared.tokio);
        }
        Ok(Init::Run)
    }

    async fn handle(&mut self, _: Look, _: &mut Context<Look>) -> Result<(), ExitError> {
        while let Some((session, opening)) = self.shared.orders.take() {
            open::begin(&self.shared, session, opening);
        }
        Ok(())
    }

    fn describe(_: &Look) -> &'static str {
        "look"
    }
}

impl Drop for TapeStore {
    fn drop(&mut self) {
        self.ends.cancel();
        if self.has_begun {
            self.shared.orders.end(&self.shared.tokio);
        }
    }
}

/// Takes deleted sessions out of the index and the commit log. Returns whether all of them are out.
fn scrub(store: &Store, stop: &dyn Fn() -> bool) -> bool {
    scrub_words(store, stop).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was deleted is still in the index");
        false
    })
}

/// Takes deleted sessions out of the index and the commit log. Says whether all of them are out.
#[cfg(feature = "sqlite")]
pub(crate) fn scrub_words(store: &Store, stop: &dyn Fn() -> bool) -> Result<bool, TapeError> {
    store.scrub(stop)
}

/// A build without SQLite does not touch the index.
#[cfg(not(feature = "sqlite"))]
pub(crate) fn scrub_words(store: &Store, _: &dyn Fn() -> bool) -> Result<bool, TapeError> {
    store.forget_erased().map(|()| true)
}

fn tidy(store: &Store, stop: impl Fn() -> bool) {
    let removed = store.tidy_spills(RETENTION, stop);
    if removed > 0 {
        tracing::info!(removed, "old outputs were removed");
    }
}
