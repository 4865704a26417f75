//! A runtime: one supervised tree inside a host. A value, never a global; two of them in one process do not see each other.

mod builder;
mod children;
mod ending;
mod host;
mod inspect;
mod operate;
mod options;
mod recovery;
mod report;
mod tree;

use std::{sync::Arc, time::Duration};

pub use builder::Builder;
pub use children::Child;
pub use inspect::{By, Count, Inspection, Top};
pub use operate::{OperateError, Operator};
pub use options::SessionOptions;
pub use report::{Leftover, Parked, Recovered, Tree};

pub use crate::actor::{
    figures::{At, SessionFigures},
    tape_store::{SweepReport, Sweeps},
    timekeeper::{Passivation, Pressure},
    undone::LeftUndone,
};
#[cfg(feature = "fault-injection")]
pub use crate::fault::Faults;
use crate::{
    actor::{
        host::Host,
        slot::{Admission, Phase, put_to_sleep},
        tape_store::{First, sweep as sweep_now},
        timekeeper::shed,
        undone::left_undone,
    },
    error::{OpenError, PassivateError},
    event::EventStream,
    kernel::{State, first_entries},
    ops::{SessionPage, SessionQuery, Sweep, SweepPolicy, listing, sweep},
    runtime::ending::Ending,
    session::{Session, fork_now, wake_fork},
    supervisor::{AdminError, Down, SupervisorHandle},
    tape::{SessionSummary, TapeError, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};
pub use crate::{
    agent::{Agent, AgentLimits, BadAgent},
    error::{Kind, StartError},
};

/// A running tree. Cheap to clone: all clones are one runtime.
///
/// Dropping the last clone without [`Runtime::shutdown`] begins the same end in the background, where the tokio runtime is
/// still there to carry it out: handles answer `Closed` from then on, and what is on the tape is safe. `shutdown` is the orderly
/// way: it waits, and says what was left.
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
    settings: options::Defaults,
    recovered: std::sync::OnceLock<Vec<Recovered>>,
    ending: Ending,
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.ending.begin(&self.host, &self.root));
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("store", &self.inner.host.store).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Starts a tree with what it is given. Nothing is read from the environment.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Begins a new conversation. Dropping the future does not take it back.
    ///
    /// # Errors
    /// [`OpenError::Tape`] where its id is taken or the tape cannot be made; [`OpenError::Workspace`]; [`OpenError::Closed`].
    pub async fn create(&self, options: SessionOptions) -> Result<Session, OpenError> {
        self.is_open()?;
        let workspace = canonical(&options.workspace).await?;
        let id = options.id.clone().unwrap_or_else(SessionId::new);
        let mut settings = self.inner.settings.of(options, &workspace);
        settings.read_roots.extend(self.inner.host.store.spill_path(&id).map(|folder| folder.display().to_string()));
        let slot = self.inner.host.slot(&id);
        // Whoever sends to it from now on waits until it is made.
        let exists = || OpenError::Tape(TapeError::Exists { session: id.clone() });
        let flight = slot.begin_activation().ok_or_else(exists)?;
        let now = self.inner.host.clock.now();
        let (entries, state) = first_entries(State::new(id.clone(), settings, now), None, now);
        // A task of its own: others may wait for what is begun here, also where this future is dropped.
        let making = flight.make(First { entries, state });
        let tasks = &self.inner.host.tasks;
        tasks.spawn_on(making, &self.inner.host.tokio).await.map_err(|_| OpenError::Closed)??;
        Ok(Session { host: self.inner.host.clone(), slot })
    }

    /// Opens a conversation that the store has: wakes it, and returns when it is awake. Many callers may open it at once: there
    /// is one actor and one claim. A turn that was cut off goes on.
    ///
    /// Nobody listens by this alone: what a turn that goes on has to ask before somebody does is denied at once.
    /// [`Runtime::open_heard`] listens first.
    ///
    /// # Errors
    /// [`OpenError::Tape`] where there is none, or another process has claimed it; [`OpenError::Damaged`] where its tape is
    /// damaged in the middle; [`OpenError::Parked`].
    pub async fn open(&self, id: &SessionId) -> Result<Session, OpenError> {
        let session = self.session(id);
        self.wake(&session).await?;
        Ok(session)
    }

    /// [`Runtime::open`] with the events of the session from before its first step on: so somebody listens already when a
    /// turn that was cut off goes on, and asks about its calls.
    ///
    /// # Errors
    /// As [`Runtime::open`].
    pub async fn open_heard(&self, id: &SessionId) -> Result<(Session, EventStream), OpenError> {
        let session = self.session(id);
        let events = session.events();
        self.wake(&session).await?;
        Ok((session, events))
    }

    async fn wake(&self, session: &Session) -> Result<(), OpenError> {
        if session.slot.phase() == Phase::Passive {
            self.is_open()?;
        }
        session.slot.up().await
    }

    /// Makes a new conversation that goes on from an entry of another one, and starts it: from the newest that was decided, or
    /// from `at`, which must end an append ([`TapeError::InsideAppend`] names those beside it).
    ///
    /// The other one, live or not, does not notice. Nothing is copied, so it costs the same however long the conversation is.
    /// The fork has the history, the settings and the context of that point; its turn, its waiting messages, its tasks and the
    /// grants for that session stay behind, and tokens are counted from 0.
    ///
    /// # Errors
    /// [`OpenError::Tape`] where there is no such session or entry, and with [`TapeError::Busy`] where what was decided last does not
    /// come to the tape within half a minute; [`OpenError::Closed`].
    pub async fn fork(&self, id: &SessionId, at: Option<Seq>) -> Result<Session, OpenError> {
        self.is_open()?;
        let fork = fork_now(&self.inner.host, id, at).await?;
        wake_fork(&self.inner.host, fork).await
    }

    /// The handle of a conversation. It never dies: the conversation may sleep, crash or be restarted behind it.
    ///
    /// A handle is little more than an id, and nothing is looked up here: the first message wakes the conversation, and says
    /// [`SendError::Unavailable`](crate::SendError::Unavailable) where there is none of that id. [`Runtime::open`] looks first.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Session {
        Session { host: self.inner.host.clone(), slot: self.inner.host.slot(id) }
    }

    /// The conversations that are awake, by id; those that are just waking or falling asleep too.
    #[must_use]
    pub fn awake(&self) -> Vec<SessionId> {
        self.inner.host.slots.all_awake().iter().map(|slot| slot.id.clone()).collect()
    }

    /// The conversations that are kept stopped until they are unparked, by id. That they are outlives the runtime.
    #[must_use]
    pub fn parked(&self) -> Vec<Parked> {
        let parked = self.inner.host.slots.parked().into_iter();
        parked.map(|(session, why)| Parked { session, why }).collect()
    }

    /// Puts a session to sleep now, and returns when it has given up its actor, its tape and its state: by then it is no more in
    /// the tree, lists show it as passive, a sweep may take it and another process may open it. The next message wakes it, also
    /// one that comes meanwhile. One that sleeps already is fine.
    ///
    /// A tape is given back behind what waits for the disk; while that stands still, so does this. Dropping the future stops
    /// waiting, and nothing else.
    ///
    /// # Errors
    /// [`PassivateError::Busy`] where it has something to do; [`PassivateError::Parked`].
    pub async fn passivate(&self, id: &SessionId) -> Result<(), PassivateError> {
        put_to_sleep(&self.inner.host, id).await
    }

    /// Asks idle sessions to sleep, those first that were used longest ago, until so many are left awake: for a host that is
    /// short of memory. Does not wait for them. Gives how many were asked; busy ones never are.
    #[allow(clippy::must_use_candidate, reason = "asking is what it is for")]
    pub fn shed(&self, keep: usize) -> usize {
        shed(&self.inner.host, keep)
    }

    /// Conversations as people want to see them, a page at a time: newest first, with title, age, size, cost and standing. Comes
    /// from the index, which is first brought up to date for as long as the query waits; see [`SessionPage`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, ops::SessionQuery};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Scripted::new([Reply::text("Hello.")]);
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(model)).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// session.prompt("Say hello.").await?.wait().await?;
    /// let page = runtime.sessions(SessionQuery::default()).await?;
    /// # #[cfg(feature = "sqlite")]
    /// assert_eq!(page.sessions[0].title.as_deref(), Some("Say hello."));
    /// assert_eq!(page.next, None);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Where too much is looked for; where the store or its index cannot be read.
    pub async fn sessions(&self, query: SessionQuery) -> Result<SessionPage, OpenError> {
        let list = move |host: &Host| match host.store.files() {
            Some(files) => Ok(listing::sessions(files, &query)?),
            None => Ok(listing::sessions_of(&*host.store, &query)?),
        };
        self.inner.host.blocking(list).await
    }

    /// What [`Runtime::sweep`] would remove, and why; and what stays though a limit takes it. Changes nothing.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn sweep_plan(&self, policy: SweepPolicy) -> Result<Sweep, OpenError> {
        let plan = move |host: &Host| Ok(sweep::sweep_plan(&*host.store, policy, host.clock.now())?);
        self.inner.host.blocking(plan).await
    }

    /// Removes the conversations that a policy does not keep, for good, with all that is beside them; see
    /// [`ops::sweep`](crate::ops::sweep()) for what is never removed. It works beside the sessions and holds up none of them, and stops
    /// between two removals when the runtime ends. Dropping the future lets it finish.
    ///
    /// ```
    /// use std::{sync::Arc, time::Duration};
    /// use tamtam::{Runtime, SessionOptions, model::Scripted, ops::SweepPolicy};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([]))).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// runtime.passivate(session.id()).await?;
    /// let mut policy = SweepPolicy::default();
    /// policy.older_than = Some(Duration::from_secs(30 * 24 * 60 * 60));
    /// policy.keep_newest = Some(0);
    /// assert_eq!(runtime.sweep_plan(policy).await?.gone.len(), 1);
    /// assert_eq!(runtime.sweep(policy).await?.gone[0].session, *session.id());
    /// assert!(runtime.list().await?.is_empty());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Where the store cannot be read or written. What cannot be removed is named in [`Sweep::kept`].
    pub async fn sweep(&self, policy: SweepPolicy) -> Result<Sweep, OpenError> {
        self.is_open()?;
        let host = self.inner.host.clone();
        let work = move || sweep_now(&host, policy, usize::MAX, &|| false);
        let swept = self.inner.host.tasks.spawn_blocking_on(work, &self.inner.host.tokio).await;
        Ok(swept.map_err(|_| OpenError::Closed)??)
    }

    /// What came of the newest sweep that this runtime made by itself ([`Builder::sweeps`]); `None` before the first.
    #[must_use]
    pub fn last_sweep(&self) -> Option<Arc<SweepReport>> {
        self.inner.host.sweeper.newest.lock().clone()
    }

    /// Keeps a conversation from being swept, however long it is not used.
    ///
    /// # Errors
    /// Where there is none of that id; where the store cannot be written.
    pub async fn protect(&self, id: &SessionId) -> Result<(), OpenError> {
        let id = id.clone();
        self.inner.host.blocking(move |host| Ok(host.store.protect(&id)?)).await
    }

    /// Lets a conversation be swept again.
    ///
    /// # Errors
    /// Where the store cannot be written.
    pub async fn unprotect(&self, id: &SessionId) -> Result<(), OpenError> {
        let id = id.clone();
        self.inner.host.blocking(move |host| Ok(host.store.unprotect(&id)?)).await
    }

    /// All conversations that the store has, live or not, by id, as the ends of their files show them.
    ///
    /// # Errors
    /// Where the store cannot be read.
    pub async fn list(&self) -> Result<Vec<SessionSummary>, OpenError> {
        self.inner.host.blocking(|host| Ok(host.store.list()?)).await
    }

    /// Finds entries of all conversations by what they say. The index is first brought up to date, for at most as long as the
    /// query waits; [`Page::behind`](crate::tape::Page::behind) says where that was not enough. What a session is saying just now
    /// is found once it is on its tape.
    ///
    /// # Errors
    /// Where nothing, or too much, is searched for; where the index cannot be used.
    #[cfg(feature = "sqlite")]
    pub async fn search(&self, query: crate::tape::Query) -> Result<crate::tape::Page, OpenError> {
        let search = move |host: &Host| Ok(host.store.files().ok_or(TapeError::NoIndex)?.search(&query)?);
        self.inner.host.blocking(search).await
    }

    /// What was left behind by runtimes that died, and could not be cleaned up when this one opened the store; empty is the rule.
    /// It concerns the sessions that it names, and no others. The tree shows it at the tape store. An engine of the host's own
    /// tells its host.
    #[must_use]
    pub fn left_undone(&self) -> Vec<LeftUndone> {
        left_undone(&self.inner.host).collect()
    }

    /// What was found interrupted when the runtime started, and what became of it.
    #[must_use]
    pub fn recovered(&self) -> &[Recovered] {
        self.inner.recovered.get().map_or(&[], Vec::as_slice)
    }

    /// Stops a session's actor and starts it again from its tape. Running calls are ended and answered as after a crash. One
    /// that sleeps is woken; one that is parked is unparked.
    ///
    /// # Errors
    /// As [`Runtime::open`]; [`OpenError::NotStarted`] where it does not come up.
    pub async fn restart(&self, id: &SessionId) -> Result<(), OpenError> {
        self.inner.host.unpark(id).await;
        match self.inner.sessions.recycle_child(id.as_str()).await {
            Ok(_) => Ok(()),
            Err(AdminError::NotFound) => self.open(id).await.map(drop),
            Err(error) => Err(OpenError::not_started(id, error)),
        }
    }

    /// Lets a parked session start again, also one that was parked in an earlier life of the runtime, and returns when it is
    /// awake.
    ///
    /// # Errors
    /// [`OpenError::NotStarted`] where it is not parked; as [`Runtime::open`].
    pub async fn unpark(&self, id: &SessionId) -> Result<(), OpenError> {
        let was_parked = self.inner.host.unpark(id).await;
        match self.inner.sessions.unpark(id.as_str()).await {
            Ok(_) => Ok(()),
            // It was parked before this runtime began, or before its supervisor did.
            Err(AdminError::NotFound | AdminError::Gone) if was_parked => self.open(id).await.map(drop),
            Err(error) => Err(OpenError::not_started(id, error)),
        }
    }

    /// Finishes the running turns and takes no new messages. Open asks do not hold it up. After the deadline the turns that
    /// still run are left as they are: they go on at the next start. Sessions that sleep are left asleep.
    ///
    /// Returns the sessions that did not become idle, those among them whose actor is stuck and does not say. It returns when the
    /// deadline is over; a shorter one than a second gives each session that long to answer. After the runtime's end it changes
    /// nothing.
    pub async fn drain(&self, deadline: Duration) -> Vec<SessionId> {
        report::drain(&self.inner.host, deadline).await
    }

    /// Ends the tree: actors, workers, processes, locks. Turns that run are cut off where they are, and go on at the next
    /// start. May be called many times and side by side: there is one end, and all are told the same of it.
    ///
    /// It may be called from within: by a tool, a hook or a child of the host's. Whoever is part of the tree is ended with it
    /// while it waits here (a child when its shutdown time is over), and the end goes on without it. Dropping the future
    /// changes nothing.
    pub async fn shutdown(&self) -> Leftover {
        let mut ends = self.inner.ending.begin(&self.inner.host, &self.inner.root);
        let ended = ends.wait_for(Option::is_some).await;
        // An error means that the tokio runtime went first, and took all with it.
        ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
    }

    /// Returns when the tree has ended, and how: by [`Runtime::shutdown`], or by itself, because children of the root crashed
    /// too often. Then handles answer [`Closed`](crate::SendError::Closed), and the host decides what follows; a new runtime on
    /// the same store is one answer.
    pub async fn ended(&self) -> Down {
        self.inner.root.ended().await
    }

    fn is_open(&self) -> Result<(), OpenError> {
        if self.inner.host.slots.admission() == Admission::Open { Ok(()) } else { Err(OpenError::Closed) }
    }
}

async fn canonical(path: &std::path::Path) -> Result<String, OpenError> {
    let error = match tokio::fs::canonicalize(path).await {
        Ok(found) if found.is_dir() => return Ok(found.display().to_string()),
        Ok(_) => std::io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    Err(OpenError::Workspace { path: path.display().to_string(), source: Arc::new(error) })
}

#[cfg(test)]
mod tests;
