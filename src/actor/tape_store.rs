//! The tape store's actor: it claims and opens tapes and makes new ones; unasked it sweeps, deletes old outputs, refills the disk's
//! reserve and scrubs the index.
//!
//! Its handler never waits: blocking work runs on threads. Orders stand in [`Orders`], a value of the runtime, and the thread that
//! carries an order out sends the result to its caller. A crash of the actor therefore loses nothing: work that has begun goes on,
//! and the next incarnation takes the orders that wait. No append goes through this actor: sessions append by handles of their own,
//! and live on without it.

mod open;
mod orders;
mod sweeps;

pub(crate) use open::First;
pub(crate) use orders::{Opening, Orders};
pub use sweeps::{SweepReport, Sweeps};
pub(crate) use sweeps::{Sweeper, sweep};

use std::{sync::Arc, time::Duration};

use tokio::task::JoinError;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::{host::Host, undone::show_undone},
    supervisor::{
        ChildSpec, NodeState,
        shell::{Behaviour, Context, ExitError, Init, Mailbox},
    },
    tape::Store,
    tool::truncate::RETENTION,
};

/// Its id under its supervisor.
pub(crate) const TAPE_STORE: &str = "tape store";

/// How often outputs that are too old are deleted.
const TIDY_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is waited before what was deleted is scrubbed once more, where something was in the way.
const SCRUB_AGAIN: Duration = Duration::from_secs(10);

/// How long a chore of one incarnation may hold up the next. Each looks often whether it must end.
const CHORES_WAIT: Duration = Duration::from_secs(2);

/// The actor as a child of its supervisor.
pub(crate) fn tape_store(host: &Arc<Host>) -> ChildSpec {
    let (host, chores) = (host.clone(), TaskTracker::new());
    let of_incarnation = chores.clone();
    let make = move || TapeStore {
        host: host.clone(),
        chores: of_incarnation.clone(),
        ends: CancellationToken::new(),
        doing: Vec::new(),
        mailbox: None,
    };
    ChildSpec::behaviour(TAPE_STORE, TAPE_STORE, make).workers(chores, CHORES_WAIT)
}

/// What the actor is told.
pub(crate) enum Msg {
    /// A tape is to be opened.
    Look,
    /// It is time for a chore.
    Due(Chore),
    /// A chore is over. Whether something of it is left to do.
    Done(Chore, Result<bool, JoinError>),
}

/// What it does unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    Tidy,
    Reserve,
    Sweep,
    Scrub,
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
}

struct TapeStore {
    host: Arc<Host>,
    chores: TaskTracker,
    /// Its chores and timers are to end.
    ends: CancellationToken,
    /// The chores that are under way.
    doing: Vec<Chore>,
    mailbox: Option<Mailbox<Msg>>,
}

impl Behaviour for TapeStore {
    type Msg = Msg;

    const MAY_WAIT: bool = false;

    async fn init(&mut self, cx: &mut Context<Msg>) -> Result<Init, ExitError> {
        let mailbox = cx.mailbox();
        self.mailbox = Some(mailbox.clone());
        self.host.orders.begin(mailbox, cx.node().clone());
        self.after(Duration::ZERO, Chore::Tidy);
        self.sweep_later();
        // What another process, or the incarnation before, left.
        self.after(Duration::ZERO, Chore::Scrub);
        self.after(Duration::ZERO, Chore::Reserve);
        self.show(cx.node());
        Ok(Init::Run)
    }

    async fn handle(&mut self, msg: Msg, cx: &mut Context<Msg>) -> Result<(), ExitError> {
        match msg {
            Msg::Look => {
                while let Some((slot, opening)) = self.host.orders.take() {
                    open::begin(&self.host, slot, opening);
                }
            }
            // The one that is under way may be past it.
            Msg::Due(Chore::Scrub) if self.doing.contains(&Chore::Scrub) => self.after(SCRUB_AGAIN, Chore::Scrub),
            Msg::Due(chore) => self.begin(chore),
            Msg::Done(chore, result) => {
                self.doing.retain(|doing| *doing != chore);
                let is_left = result.unwrap_or_else(|lost| {
                    tracing::warn!(chore = chore.word(), %lost, "a chore of the tape store came to no end");
                    true
                });
                match chore {
                    Chore::Tidy => self.after(TIDY_EVERY, Chore::Tidy),
                    Chore::Sweep => self.sweep_later(),
                    Chore::Scrub if is_left => self.after(SCRUB_AGAIN, Chore::Scrub),
                    Chore::Scrub | Chore::Reserve => {}
                }
            }
        }
        self.show(cx.node());
        Ok(())
    }

    fn describe(msg: &Msg) -> &'static str {
        match msg {
            Msg::Look => "look",
            Msg::Due(chore) | Msg::Done(chore, _) => chore.word(),
        }
    }
}

impl TapeStore {
    /// Begins a chore on a thread of its own, unless it is under way.
    fn begin(&mut self, chore: Chore) {
        if self.doing.contains(&chore) {
            return;
        }
        let Some(mailbox) = self.mailbox.clone() else { return };
        self.doing.push(chore);
        let (host, ends) = (self.host.clone(), self.ends.clone());
        let blocking = self.host.tokio.spawn_blocking(move || {
            let stop = || ends.is_cancelled() || host.orders.is_closed();
            match (chore, host.store.files()) {
                (Chore::Sweep, _) => host.sweeper.sweep(&host, &stop),
                (Chore::Tidy, Some(files)) => tidy(files, stop),
                // Without room for it the reserve is made another time.
                (Chore::Reserve, Some(files)) => drop(files.remake_reserve()),
                (Chore::Scrub, Some(files)) => return !scrub(files, &stop),
                (Chore::Tidy | Chore::Reserve | Chore::Scrub, None) => {}
            }
            false
        });
        let over = async move {
            // An actor that has ended wants to know of nothing.
            let _ = mailbox.send(Msg::Done(chore, blocking.await));
        };
        self.chores.spawn_on(over, &self.host.tokio);
    }

    fn sweep_later(&self) {
        if let Some(wait) = self.host.sweeper.wait() {
            self.after(wait, Chore::Sweep);
        }
    }

    /// It is told after that time to begin a chore.
    fn after(&self, wait: Duration, chore: Chore) {
        let Some(mailbox) = self.mailbox.clone() else { return };
        let ends = self.ends.clone();
        self.host.tokio.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => drop(mailbox.send(Msg::Due(chore))),
                () = ends.cancelled() => {}
            }
        });
    }

    /// Says what it does; at rest, what was left undone.
    fn show(&self, node: &NodeState) {
        match self.doing.first() {
            Some(chore) => node.doing(chore.word()),
            None => show_undone(&self.host, node),
        }
    }
}

impl Drop for TapeStore {
    fn drop(&mut self) {
        self.ends.cancel();
        // One that did not begin has nothing to end.
        if self.mailbox.take().is_some() {
            self.host.orders.end(&self.host);
        }
    }
}

/// Takes what was deleted out of the index. Says whether all of it is.
#[cfg(feature = "sqlite")]
fn scrub(store: &Store, stop: &dyn Fn() -> bool) -> bool {
    store.scrub(stop).unwrap_or_else(|error| {
        tracing::warn!(%error, "what was deleted is still in the index");
        false
    })
}

/// Without a database in it, this library leaves the index to others.
#[cfg(not(feature = "sqlite"))]
fn scrub(_: &Store, _: &dyn Fn() -> bool) -> bool {
    true
}

fn tidy(store: &Store, stop: impl Fn() -> bool) {
    let removed = store.tidy_spills(RETENTION, stop);
    if removed > 0 {
        tracing::info!(removed, "old outputs were removed");
    }
}
