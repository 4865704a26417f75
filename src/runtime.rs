//! A runtime: one supervised tree inside a host. A value, never a global; two of them in one process do not see each other.

mod builder;
mod children;
mod host;
mod inspect;
mod operate;
mod report;

use std::{sync::Arc, time::Duration};

pub use builder::{Builder, SessionOptions};
pub use children::Child;
pub use inspect::{By, Count, Inspection, Top};
pub use operate::{OperateError, Operator};
pub use report::{Leftover, Recovered, Tree};

use crate::{
    actors::{
        host::Host,
        session::{SessionActor, fold, notify},
        slot::{Door, Slot},
    },
    error::OpenError,
    event::EventStream,
    handle::Session,
    ids::{Seq, SessionId},
    session::{Entry, Record, State},
    supervisor::{ChildSpec, Restart, Shutdown, SupervisorHandle},
    tape::{Appended, SessionSummary, TapeError},
};

/// How long a session's workers may take to be gone before its next life begins.
const WORKERS_WAIT: Duration = Duration::from_secs(5);

/// How long an actor may take to shut down.
const ACTOR_SHUTDOWN: Duration = Duration::from_secs(5);

/// How long the store may take to write what is left at the end.
const STORE_CLOSE: Duration = Duration::from_secs(10);

/// A running tree. Cheap to clone: all clones are one runtime.
///
/// Dropping the last clone without [`Runtime::shutdown`] leaves the tree to the tokio runtime it runs on: what is on the tape
/// is safe, and what runs ends with that. `shutdown` is the orderly way, and says what was left.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::{Outcome, Runtime, SessionOptions, model::{Reply, Scripted}};
///
/// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let model = Scripted::new([Reply::text("Hello.")]);
/// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).start().await?;
/// let session = runtime.create(SessionOptions::new(folder.path())).await?;
/// let answer = session.prompt("Say hello.").await?.wait().await?;
/// assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "Hello."));
/// runtime.shutdown().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) host: Arc<Host>,
    root: SupervisorHandle,
    sessions: SupervisorHandle,
    hosts: SupervisorHandle,
    settings: builder::Defaults,
    door: std::sync::Mutex<Door>,
    recovered: std::sync::OnceLock<Vec<Recovered>>,
    tidying: builder::Tidying,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("store", &self.inner.host.store.path()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts a tree with what it is given. Nothing is read from the environment.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Begins a new conversation.
    ///
    /// # Errors
    /// [`OpenError::Tape`] where its id is taken or the tape cannot be made; [`OpenError::Workspace`]; [`OpenError::Closed`].
    pub async fn create(&self, options: SessionOptions) -> Result<Session, OpenError> {
        self.is_open()?;
        let workspace = canonical(&options.workspace).await?;
        let id = options.id.clone().unwrap_or_else(SessionId::new);
        let mut settings = self.inner.settings.of(options, workspace);
        settings.read_roots.push(self.inner.host.store.spill_path(&id).display().to_string());
        let slot = Arc::new(Slot::new(id.clone()));
        let (host, for_tape) = (self.inner.host.clone(), slot.clone());
        let made = tokio::task::spawn_blocking(move || {
            let mut tape = host.store.create(&for_tape.id, notify(&for_tape))?;
            let now = host.clock.now();
            let mut state = State::new(for_tape.id.clone(), settings, now);
            let record = Record::State(Arc::new(state.clone()));
            let entry = Entry { seq: Seq(1), time: now, cause: None, turn: None, step: None, ticket: None, record };
            let line = entry.to_tape().map_err(|_| TapeError::Closed)?;
            // A first append is never left for later unless the disk is slow, and then the actor's own appends wait for it.
            if let Appended::Now(Err(error)) = tape.append(&[line]) {
                return Err(error);
            }
            state.apply(&entry);
            for_tape.prepare(tape, state);
            Ok(())
        });
        made.await.map_err(|error| crashed(&id, &error))??;
        self.start(slot).await
    }

    /// Goes on with a conversation that the store has: the handle of one that is live, or one rebuilt from its tape.
    ///
    /// # Errors
    /// [`OpenError::Tape`] where there is none, or another process has claimed it; [`OpenError::Damaged`] where its tape is
    /// damaged in the middle.
    pub async fn resume(&self, id: &SessionId) -> Result<Session, OpenError> {
        self.resume_heard(id).await.map(|(session, _)| session)
    }

    /// [`Runtime::resume`] with the events of the session from before its first step on: so somebody listens already when a
    /// turn that was cut off goes on, and asks about its calls.
    ///
    /// # Errors
    /// As [`Runtime::resume`].
    pub async fn resume_heard(&self, id: &SessionId) -> Result<(Session, EventStream), OpenError> {
        if let Some(session) = self.session(id) {
            let events = session.events();
            return Ok((session, events));
        }
        self.is_open()?;
        self.open(id).await
    }

    /// Rebuilds a session from its tape and starts its actor.
    async fn open(&self, id: &SessionId) -> Result<(Session, EventStream), OpenError> {
        let slot = Arc::new(Slot::new(id.clone()));
        let (host, for_tape) = (self.inner.host.clone(), slot.clone());
        let made = tokio::task::spawn_blocking(move || {
            let loaded = host.store.load(&for_tape.id, notify(&for_tape))?;
            let damaged = |damage: String| OpenError::Damaged { session: for_tape.id.clone(), damage };
            if let Some(damage) = loaded.read_only {
                return Err(damaged(damage.to_string()));
            }
            if let Some(repair) = &loaded.repair {
                tracing::warn!(session = %for_tape.id, repair = ?repair, "a torn tail was set aside");
            }
            if loaded.entries.is_empty() {
                // Who made it died before the first entry; it can be made anew.
                return Err(OpenError::Tape(TapeError::Missing { session: for_tape.id.clone() }));
            }
            let state = fold(&loaded.entries).map_err(|bad| damaged(bad.to_string()))?;
            for_tape.prepare(loaded.tape, state);
            Ok(())
        });
        made.await.map_err(|error| crashed(id, &error))??;
        let events = slot.ring.listen();
        Ok((self.start(slot).await?, events))
    }

    /// The handle of a conversation that is live in this runtime.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<Session> {
        let slot = self.inner.host.slots().get(id).cloned()?;
        Some(Session { host: self.inner.host.clone(), slot })
    }

    /// All conversations that the store has, live or not.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn list(&self) -> Result<Vec<SessionSummary>, OpenError> {
        let store = self.inner.host.store.clone();
        let listed = tokio::task::spawn_blocking(move || store.list()).await;
        Ok(listed.map_err(|_| OpenError::Closed)??)
    }

    /// What was found interrupted when the runtime started, and what became of it.
    #[must_use]
    pub fn recovered(&self) -> &[Recovered] {
        self.inner.recovered.get().map_or(&[], Vec::as_slice)
    }

    /// Stops a session's actor and starts it again from its tape. Running calls are ended and answered as after a crash.
    ///
    /// # Errors
    /// [`OpenError::NotStarted`] where there is no such live session, or it does not come up.
    pub async fn restart(&self, id: &SessionId) -> Result<(), OpenError> {
        let restarted = self.inner.sessions.recycle_child(id.as_str()).await;
        restarted.map(drop).map_err(|error| not_started(id, &error))
    }

    /// Lets a parked session start again.
    ///
    /// # Errors
    /// [`OpenError::NotStarted`] where it is not parked.
    pub async fn unpark(&self, id: &SessionId) -> Result<(), OpenError> {
        if let Some(session) = self.session(id) {
            session.slot.set_door(Door::Open);
        }
        self.inner.sessions.unpark(id.as_str()).await.map(drop).map_err(|error| not_started(id, &error))
    }

    /// Finishes the running turns and takes no new messages. Open asks do not hold it up. After the deadline the turns that
    /// still run are left as they are: they go on at the next start.
    ///
    /// Returns the sessions that did not become idle.
    pub async fn drain(&self, deadline: Duration) -> Vec<SessionId> {
        self.set_door(Door::Draining);
        let until = tokio::time::Instant::now() + deadline;
        loop {
            let slots: Vec<_> = self.inner.host.slots().values().cloned().collect();
            slots.iter().for_each(|slot| slot.set_door(Door::Draining));
            let (mut left, mut waited) = (Vec::new(), false);
            for slot in slots {
                let session = Session { host: self.inner.host.clone(), slot };
                match report::drained(&session, until).await {
                    report::Drained::AtOnce => {}
                    report::Drained::Later => waited = true,
                    report::Drained::No => left.push(session.id().clone()),
                }
            }
            // A child that is down may wake its parent, which was looked at before: until all are found at rest.
            if !waited || tokio::time::Instant::now() >= until {
                return left;
            }
        }
    }

    /// Ends the tree: actors, workers, processes, locks. Turns that run are cut off where they are, and go on at the next
    /// start. May be called many times and side by side.
    pub async fn shutdown(&self) -> Leftover {
        self.set_door(Door::Closed);
        let slots: Vec<_> = self.inner.host.slots().values().cloned().collect();
        let down = self.inner.root.shutdown().await;
        let mut leftover = Leftover::default();
        leftover.actors = down.leftover.iter().map(ToString::to_string).collect();
        for slot in slots {
            slot.set_door(Door::Closed);
            slot.tasks.close();
            if tokio::time::timeout(WORKERS_WAIT, slot.tasks.wait()).await.is_err() {
                leftover.tasks.push((slot.id.clone(), slot.tasks.len()));
            }
            slot.ring.close();
        }
        self.inner.host.slots().clear();
        #[cfg(all(unix, feature = "tools"))]
        leftover.processes.extend(self.inner.host.processes.close().await.left);
        self.inner.tidying.stop().await;
        let store = self.inner.host.store.clone();
        let closed = tokio::task::spawn_blocking(move || store.close(STORE_CLOSE)).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the store did not close in time");
        }
        leftover
    }

    fn is_open(&self) -> Result<(), OpenError> {
        let door = *self.inner.door.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if door == Door::Open { Ok(()) } else { Err(OpenError::Closed) }
    }

    fn set_door(&self, door: Door) {
        *self.inner.door.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = door;
    }

    /// Puts a session's actor under its supervisor.
    async fn start(&self, slot: Arc<Slot>) -> Result<Session, OpenError> {
        let id = slot.id.clone();
        let (host, for_actor) = (self.inner.host.clone(), slot.clone());
        // In the table before it runs, so that whoever sees it run can find it.
        self.inner.host.slots().insert(id.clone(), slot.clone());
        let spec =
            ChildSpec::behaviour(id.as_str(), "session", move || SessionActor::new(host.clone(), for_actor.clone()))
                .restart(Restart::Transient)
                .shutdown(Shutdown::After(ACTOR_SHUTDOWN))
                .workers(slot.tasks.clone(), WORKERS_WAIT);
        match self.inner.sessions.start_child(spec).await {
            Ok(_) => Ok(Session { host: self.inner.host.clone(), slot }),
            Err(error) => {
                self.inner.host.slots().remove(&id);
                Err(not_started(&id, &error))
            }
        }
    }
}

fn not_started(id: &SessionId, error: &dyn std::fmt::Display) -> OpenError {
    OpenError::NotStarted { session: id.clone(), why: error.to_string() }
}

/// A panic while a tape was opened: it is this session's, and may be tried again.
fn crashed(id: &SessionId, error: &tokio::task::JoinError) -> OpenError {
    match error.is_panic() {
        true => not_started(id, &"it crashed while its tape was opened; try again"),
        false => OpenError::Closed,
    }
}

async fn canonical(path: &std::path::Path) -> Result<String, OpenError> {
    let found = tokio::fs::canonicalize(path).await;
    let found = match found {
        Ok(found) if found.is_dir() => Ok(found),
        Ok(_) => Err(std::io::Error::from(std::io::ErrorKind::NotADirectory)),
        Err(error) => Err(error),
    };
    let named = |source| OpenError::Workspace { path: path.display().to_string(), source };
    found.map(|path| path.display().to_string()).map_err(named)
}
