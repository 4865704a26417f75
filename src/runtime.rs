//! A runtime: starts, holds and ends one supervised tree of sessions inside a host's process.
//!
//! [`Runtime`] makes, opens, forks, lists, sweeps, passivates and deletes sessions. A runtime is a value, never a global: two
//! runtimes in one process do not see each other, and share only what the host passes to both. Dropping a future of a method
//! stops the wait, and undoes nothing that the method began (`docs/CANCELLATION.md` has a row for each).
//!
//! A change must keep this: a method decides nothing about a turn (the kernel does); a method that touches the store does so
//! through `Shared::blocking` or on a blocking task, because a disk may be slow; a method makes, deletes or sweeps nothing if it is
//! called while the runtime drains or after its end began (`is_open`); and the end begins in `ending.rs`, whether a caller asks
//! for it or drops the last clone. (A root that crashes too often ends the tree: `close_with` in `runtime/tree.rs`.)

mod agents;
mod builder;
mod children;
mod circle;
mod command;
mod delete;
mod ending;
mod host;
mod inspect;
mod labelled;
mod operate;
pub(crate) mod options;
mod records;
mod recovery;
mod report;
mod task;
mod tree;
mod writer;

use std::sync::Arc;

pub use builder::Builder;
pub use children::Child;
pub use command::{CommandError, Commanded};
pub use delete::Deletion;
pub use inspect::{By, Count, Inspection, Top};
pub use labelled::{Labelled, LabelledAsk, LabelledAsks, LabelledBill, LabelledDeletion};
pub use operate::{OperateError, Operator};
pub use report::{Leftover, Parked, Recovered, Tree};
pub use task::TaskOptions;

pub use crate::actor::{
    counters::{Counters, Durations, ModelCounters, ToolCounters},
    figures::{At, SessionFigures},
    limits::RuntimeLimits,
    tape_store::SweepReport,
    timekeeper::{Passivation, Pressure},
    trace_link::TraceLink,
    undone::LeftUndone,
};
#[cfg(feature = "agent-files")]
pub use crate::agent::{AgentFiles, AgentFolder, BadFile, Dialect};
#[cfg(feature = "fault-injection")]
pub use crate::fault::Faults;
#[cfg(all(unix, feature = "tools"))]
pub use crate::prompt::{FileTree, GitState, InstructionFiles, RuleFiles};
use crate::{
    actor::{
        shared::Shared,
        slot::{Admission, Phase, put_to_sleep},
        tape_store::{First, sweep as sweep_now},
        timekeeper::shed,
        undone::left_undone,
    },
    error::{OpenError, PassivateError},
    event::EventStream,
    kernel::{State, bounds, first_entries},
    ops::{SessionPage, SessionQuery, Sweep, SweepPolicy, listing, sweep},
    runtime::{
        ending::Ending,
        options::{SessionOptions, canonical, known_tools},
    },
    session::Session,
    supervisor::SupervisorHandle,
    tape::{SessionSummary, TapeError, TapeStoreExt as _},
    words::ids::SessionId,
};
pub use crate::{
    agent::{
        Agent, AgentLimits, AgentMode, AgentSpec, Agents, AgentsConfig, BadAgent, BadCommand, BadSkill, Called,
        Command, CommandAct, Commands, Does, Skill, Skills, ToolChoice,
    },
    error::{DeleteError, Kind, StartError},
    kernel::Layer,
    prompt::{EnvironmentProvider, Place, Section, Template},
};

/// A running tree. Cheap to clone: all clones are one runtime.
///
/// Dropping the last clone without [`Runtime::shutdown`] begins the same end in the background, as long as the tokio runtime still
/// runs. Handles answer `Closed` from that moment on, and everything on the tapes is safe. `shutdown` is the orderly way: it waits
/// for the end, and reports what could not be stopped.
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
    pub(crate) shared: Arc<Shared>,
    /// The root of the tree; its end is the end of the runtime.
    root: SupervisorHandle,
    /// The supervisor of the sessions' actors.
    sessions: SupervisorHandle,
    /// The supervisor of what tools share.
    tools: SupervisorHandle,
    /// The supervisor of the host's own children.
    host_children: SupervisorHandle,
    /// Settings of new sessions, where their options are silent.
    settings: options::Defaults,
    /// The sessions that the start found interrupted. Empty until the start has tried to resume all of them.
    recovered: std::sync::OnceLock<Vec<Recovered>>,
    /// The one end of the runtime, shared by all callers.
    ending: Ending,
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.ending.begin(&self.shared, &self.root));
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("store", &self.inner.shared.store).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A builder that collects the parts of a runtime. Nothing is read from the environment.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Begins a new conversation, and returns when the session is awake. The providers of the environment are asked first
    /// ([`Builder::environment`]), for two seconds at most. Dropping the future does not take the session back.
    ///
    /// # Errors
    /// [`OpenError::Tape`] if the id is taken or the tape cannot be made; [`OpenError::Workspace`] if the workspace is not a
    /// folder; [`OpenError::UnknownTools`] if the options name tools that there are not; [`OpenError::Options`] if a title or a
    /// name is too long, or a parameter is out of its bounds; [`OpenError::Drained`] if sessions with these labels are drained; [`OpenError::Closed`] if the runtime drains or ends.
    pub async fn create(&self, mut options: SessionOptions) -> Result<Session, OpenError> {
        self.is_open()?;
        let tools = self.inner.shared.tools.now();
        known_tools(&tools.toolbox, &options)?;
        options.bound()?;
        let workspace = canonical(&options.workspace).await?;
        let said = self
            .inner
            .shared
            .surroundings(&workspace, options.model.as_ref().unwrap_or(&self.inner.settings.model))
            .await;
        let id = options.id.clone().unwrap_or_else(SessionId::new);
        let options = options.id(id.clone());
        let mut settings = self.inner.settings.of(options, &workspace, said.as_deref());
        settings.host = self.inner.shared.host_rules().as_deref().cloned();
        settings.sandbox.clone_from(&tools.sandbox);
        bounds::settings(&mut settings)?;
        if self.inner.shared.slots.is_drained(&settings.labels) {
            return Err(OpenError::Drained);
        }
        settings.read_roots.extend(self.inner.shared.store.spill_path(&id).map(|folder| folder.display().to_string()));
        let slot = self.inner.shared.slot(&id);
        // From here on, a message to this id waits until the session is made.
        let exists = || OpenError::Tape(TapeError::Exists { session: id.clone() });
        let flight = slot.begin_activation().ok_or_else(exists)?;
        let now = self.inner.shared.clock.now();
        let (entries, state) = first_entries(State::new(id.clone(), settings, now), None, now);
        flight.make(First { entries, state }).await?;
        Ok(Session { shared: self.inner.shared.clone(), slot })
    }

    /// Opens a conversation of the store: wakes the session, and returns when it is awake. Many callers may open one session at
    /// the same time: there is one actor and one claim. An interrupted turn continues; [`Session::state`] shows it as taken up, unless
    /// the disk refused that, or took more than 10 s for it.
    ///
    /// Opening does not listen to events. Without a listener, an ask of a resumed turn is denied at once (unless the session's
    /// asks wait, [`SessionOptions::asks_wait`]); [`Runtime::open_heard`] listens before the turn continues.
    ///
    /// # Errors
    /// [`OpenError::Tape`] if the store has no such session, or another process has claimed it; [`OpenError::Damaged`] if the tape
    /// is damaged in the middle; [`OpenError::Parked`] if the session is kept stopped.
    pub async fn open(&self, id: &SessionId) -> Result<Session, OpenError> {
        let session = self.session(id);
        self.wake(&session).await?;
        Ok(session)
    }

    /// Opens a conversation like [`Runtime::open`], and listens to its events before it wakes. So a resumed turn is heard from its
    /// first step on, and its asks reach the caller.
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

    /// The handle of a conversation. The handle stays valid while the conversation sleeps, crashes or is restarted behind it.
    ///
    /// A handle is little more than an id, and this method looks nothing up. The first message wakes the conversation, and fails
    /// with [`SendError::Unavailable`](crate::SendError::Unavailable) if the store has no such id. [`Runtime::open`] checks first.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Session {
        Session { shared: self.inner.shared.clone(), slot: self.inner.shared.slot(id) }
    }

    /// The conversations that are awake, by id; those that are just waking or falling asleep too.
    #[must_use]
    pub fn awake(&self) -> Vec<SessionId> {
        self.inner.shared.slots.all_awake().iter().map(|slot| slot.id.clone()).collect()
    }

    /// The conversations that are kept stopped until they are unparked, by id. Parking outlives the runtime.
    #[must_use]
    pub fn parked(&self) -> Vec<Parked> {
        let parked = self.inner.shared.slots.parked().into_iter();
        parked.map(|(session, why)| Parked { session, why }).collect()
    }

    /// Puts a session to sleep now, and returns when its actor, tape and state are released. By then the session is no longer in
    /// the tree, lists show it as passive, a sweep may remove it and another process may open it. The next message wakes it, even a
    /// message that arrives meanwhile. A sleeping session is not an error.
    ///
    /// The tape is given back after its waiting appends are written, so a stuck disk holds this call up. Dropping the future stops
    /// the wait, and nothing else.
    ///
    /// # Errors
    /// [`PassivateError::Busy`] if the session has something to do; [`PassivateError::Parked`].
    pub async fn passivate(&self, id: &SessionId) -> Result<(), PassivateError> {
        put_to_sleep(&self.inner.shared, id).await
    }

    /// Asks idle sessions to sleep, least recently used first, until `keep` are left awake: for a host that is short of memory.
    /// Does not wait for them, and never asks a busy session. Returns how many sessions it asked.
    #[allow(clippy::must_use_candidate, reason = "asking is what it is for")]
    pub fn shed(&self, keep: usize) -> usize {
        shed(&self.inner.shared, keep)
    }

    /// Conversations as people want to see them, a page at a time: newest first, with title, age, size, cost and status. Over files
    /// the page comes from the index, which is first brought up to date for at most [`SessionQuery::wait`]. Over any other engine,
    /// and without an index, the page is read from the tapes; see [`SessionPage`].
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
    /// If the query's text is too long, or the store or its index cannot be read.
    pub async fn sessions(&self, query: SessionQuery) -> Result<SessionPage, OpenError> {
        let list = move |shared: &Shared| match shared.store.files() {
            Some(files) => Ok(listing::sessions(files, &query)?),
            None => Ok(listing::sessions_of(&*shared.store, &query)?),
        };
        self.inner.shared.blocking(list).await
    }

    /// What [`Runtime::sweep`] would remove, and why; and which sessions stay although a limit selects them. Changes nothing.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn sweep_plan(&self, policy: SweepPolicy) -> Result<Sweep, OpenError> {
        let plan = move |shared: &Shared| Ok(sweep::sweep_plan(&*shared.store, policy, shared.clock.now(), || false)?);
        self.inner.shared.blocking(plan).await
    }

    /// Permanently removes the conversations that a policy does not keep, with everything stored next to their tapes; see
    /// [`ops::sweep_planned`](crate::ops::sweep_planned) for what is never removed. The sweep delays no session, and stops
    /// between two removals when the runtime ends. Dropping the future lets the sweep finish.
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
    /// If the store cannot be read or written. A session that cannot be removed is named in [`Sweep::kept`].
    pub async fn sweep(&self, policy: SweepPolicy) -> Result<Sweep, OpenError> {
        self.is_open()?;
        let shared = self.inner.shared.clone();
        let work = move || sweep_now(&shared, policy, &|| false);
        let swept = self.inner.shared.tasks.spawn_blocking_on(work, &self.inner.shared.tokio).await;
        Ok(swept.map_err(OpenError::lost)??)
    }

    /// The report of the newest sweep that this runtime made on schedule ([`Builder::sweeps`]); `None` before the first.
    #[must_use]
    pub fn last_sweep(&self) -> Option<Arc<SweepReport>> {
        self.inner.shared.sweeper.newest.lock().clone()
    }

    /// Keeps a conversation from being swept, however long it is not used.
    ///
    /// # Errors
    /// If the store has no such session, or cannot be written.
    pub async fn protect(&self, id: &SessionId) -> Result<(), OpenError> {
        let id = id.clone();
        self.inner.shared.blocking(move |shared| Ok(shared.store.protect(&id)?)).await
    }

    /// Lets a conversation be swept again.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn unprotect(&self, id: &SessionId) -> Result<(), OpenError> {
        let id = id.clone();
        self.inner.shared.blocking(move |shared| Ok(shared.store.unprotect(&id)?)).await
    }

    /// All conversations that the store has, live or not, by id, as the ends of their files show them.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn list(&self) -> Result<Vec<SessionSummary>, OpenError> {
        self.inner.shared.blocking(|shared| Ok(shared.store.list()?)).await
    }

    /// Finds entries of all conversations by their words. The index is first brought up to date, for at most as long as the query
    /// waits; [`Page::behind`](crate::tape::Page::behind) reports where that was not enough. The words of a running answer are
    /// found once they are on the tape.
    ///
    /// # Errors
    /// If the query is empty or too long; if the index cannot be used; [`TapeError::NoIndex`] over an engine
    /// that keeps none.
    #[cfg(feature = "sqlite")]
    pub async fn search(&self, query: crate::tape::Query) -> Result<crate::tape::Page, OpenError> {
        let search = move |shared: &Shared| match shared.store.files() {
            Some(files) => Ok(files.search(&query)?),
            None => Ok(crate::tape::search_in(&*shared.store, &query)?),
        };
        self.inner.shared.blocking(search).await
    }

    /// Leftovers of runtimes that died, which could not be cleaned up when this runtime opened the store; empty is the rule. Each
    /// concerns the sessions that it names, and no others. The tree shows them at the tape store. An engine of the host's own
    /// reports to its host instead.
    #[must_use]
    pub fn left_undone(&self) -> Vec<LeftUndone> {
        left_undone(&self.inner.shared).collect()
    }

    /// The sessions that were found interrupted when the runtime started, and whether each could be resumed.
    #[must_use]
    pub fn recovered(&self) -> &[Recovered] {
        self.inner.recovered.get().map_or(&[], Vec::as_slice)
    }

    fn is_open(&self) -> Result<(), OpenError> {
        if self.inner.shared.slots.admission() == Admission::Open { Ok(()) } else { Err(OpenError::Closed) }
    }
}

#[cfg(test)]
mod tests;
