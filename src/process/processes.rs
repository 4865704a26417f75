//! The processes of one runtime: [`Processes`] starts them, and sees to it that none is left.
//!
//! The first start also starts the watcher and enters the owner in the ledger, so a runtime whose tools start no process has no
//! other process and no file. A failure of either is logged and never keeps a call from running. Once [`Processes::close`] was
//! called, a new start is refused. A change must keep this, and must not hold the lock on the guard across an await: calls start
//! processes at the same time.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use tokio::sync::OnceCell;

use crate::{
    lock::Lock,
    process::{
        Owner, Process, Spec, Swept, Tag, WatchBy,
        ledger::Ledger,
        sweep::{Target, Whose},
        sweeper::Sweeper,
        watcher::Watcher,
    },
};

/// How long the watcher may take to end on request.
const WATCHER_STOP: Duration = Duration::from_secs(2);

/// The processes of one runtime's calls. Cheap to clone: all clones share the same processes.
///
/// The first process that is started brings the watcher with it, and the owner is entered in the ledger for the next start. A
/// failure of either is logged and holds up no call.
///
/// When the last clone is dropped without [`Processes::close`], the watcher, if there is one, kills the processes that are left.
#[derive(Clone, Debug)]
pub struct Processes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    owner: Owner,
    watch: WatchBy,
    /// The folder of the ledger; `None` if no later start sweeps.
    ledger: Option<PathBuf>,
    sweeper: Sweeper,
    guard: Lock<Guard>,
    /// Set once the owner was entered: of several first calls one enters the owner, and the others wait for it.
    entered: OnceCell<()>,
}

/// The watcher and the ledger's file, for the case that this process is killed.
#[derive(Debug, Default)]
struct Guard {
    watcher: Option<Watcher>,
    ledger: Option<Ledger>,
    /// Whether a process was ever asked for: without one there is nothing to sweep.
    is_used: bool,
    /// Whether the runtime was shut down: nothing is started from then on.
    is_closed: bool,
}

impl Processes {
    /// The processes of a new owner. `watch` says who ends them when the host is killed. `ledger` is the folder that
    /// the runtime reads at the next start.
    #[must_use]
    pub fn new(watch: WatchBy, ledger: Option<PathBuf>) -> Processes {
        let owner = Owner::new();
        let (sweeper, guard, entered) = (Sweeper::default(), Lock::default(), OnceCell::new());
        Processes { inner: Arc::new(Inner { owner, watch, ledger, sweeper, guard, entered }) }
    }

    /// The processes of a new owner without a watcher: for tests, and for calls whose host cannot be killed alone.
    #[must_use]
    pub fn unwatched() -> Processes {
        Processes::new(WatchBy::Nobody, None)
    }

    /// The owner of these processes.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.inner.owner
    }

    /// A tag for one more call.
    #[must_use]
    pub fn tag(&self) -> Tag {
        Tag::new(self.inner.owner)
    }

    /// Starts a program. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotConnected`] after [`Processes::close`]; what [`Spec::confinement`] asks for and
    /// cannot be held.
    pub async fn start(&self, spec: Spec) -> io::Result<Process> {
        self.stand_guard().await?;
        let is_confined = spec.confinement.is_some();
        let starting = Process::start(spec, self.inner.sweeper.clone());
        let started = match is_confined {
            false => starting.await?,
            // A separate task: if the caller is gone, the process is dropped once it is started, and so killed.
            true => tokio::spawn(starting).await.unwrap_or_else(|lost| Err(io::Error::other(lost)))?,
        };
        // A process that began while the runtime closed may have come too late for that sweep: it is dropped, and so killed.
        if self.inner.guard.lock().is_closed { Err(closed()) } else { Ok(started) }
    }

    /// Kills every process that is left of any call, ends the watcher, and strikes the owner out of the ledger. A start that is
    /// asked for from then on is refused. The answer names the processes that could not be killed; their owner stays in the ledger.
    /// A second call does nothing. Dropping the future stops the wait, and nothing else.
    pub async fn close(&self) -> Swept {
        let guard = std::mem::replace(&mut *self.inner.guard.lock(), Guard { is_closed: true, ..Guard::default() });
        if !guard.is_used {
            return Swept::default();
        }
        let inner = self.inner.clone();
        // A separate task: the guard was taken, so no second call could finish what a dropped one began.
        let closing = tokio::spawn(async move {
            let swept = inner.sweeper.sweep(Target::new(Whose::Owner(inner.owner))).await;
            if let Some(watcher) = guard.watcher {
                watcher.stop(WATCHER_STOP).await;
            }
            if let (Some(ledger), true) = (guard.ledger, swept.left.is_empty()) {
                ledger.strike();
            }
            swept
        });
        closing.await.unwrap_or_default()
    }

    /// The process id of the watcher, while there is one.
    #[must_use]
    pub fn watcher(&self) -> Option<u32> {
        self.inner.guard.lock().watcher.as_ref().and_then(Watcher::pid)
    }

    /// Sees to it that a watcher runs and the owner is in the ledger. A watcher that was killed is replaced here.
    async fn stand_guard(&self) -> io::Result<()> {
        {
            let mut guard = self.inner.guard.lock();
            if guard.is_closed {
                return Err(closed());
            }
            guard.is_used = true;
            if !guard.watcher.as_mut().is_some_and(Watcher::runs) {
                match Watcher::start(&self.inner.watch, self.inner.owner) {
                    Ok(watcher) => guard.watcher = watcher,
                    Err(error) => tracing::warn!(%error, "the watcher of processes could not be started"),
                }
            }
        }
        self.inner.entered.get_or_init(|| self.enter()).await;
        Ok(())
    }

    async fn enter(&self) {
        let Some(folder) = self.inner.ledger.clone() else { return };
        let processes = self.clone();
        // The thread keeps the ledger too: a caller that is gone by then would drop it, and leave its file.
        let entered = tokio::task::spawn_blocking(move || {
            let ledger = Ledger::enter(&folder, processes.inner.owner)?;
            processes.keep(ledger);
            Ok(())
        });
        if let Err(error) = entered.await.unwrap_or_else(|lost| Err(io::Error::other(lost))) {
            tracing::warn!(%error, "the owner of processes could not be entered for the next start");
        }
    }

    fn keep(&self, ledger: Ledger) {
        let mut guard = self.inner.guard.lock();
        if guard.is_closed {
            ledger.strike();
        } else {
            guard.ledger = Some(ledger);
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the runtime was shut down")
}
