//! Child sessions, as a host uses them: spawn, adopt and end a child, and wait for its DOWN.
//!
//! A parent gets exactly one DOWN for each task that its tape has, through any crash, unless the parent ends first: then the child
//! ends too, or is an orphan. The link lives on the two tapes, and a [`Child`] value is only a way to ask for it. Dropping a
//! `Child`, or a future of these methods, cancels no task.
//!
//! A change must keep this: no right of a child goes beyond its parent's (the workspace is checked here, before anything is
//! written; the core narrows the rest), and the order of a new child goes to the parent's tape before the child is made, because a
//! child without an order on that tape would have no parent to report to.

use std::{path::Path, sync::Arc};

use crate::{
    actor::{
        bring_up::{SpawnArgs, bring_up},
        shared::Shared,
    },
    error::{OpenError, SendError, SpawnError},
    kernel::{
        Adopt, BeAdopted, Down, End, Entry, Limits, Link, Open, OpenTask, Origin, Orphan, Record, Refusal, Settings,
        Spawn, State, StopChild, StopLevel, TaskOrder, Tie, kept, toolset,
    },
    prompt::Section,
    runtime::{
        Recovered, Runtime,
        circle::stands_above,
        options::{SessionOptions, canonical, default_prompt, known_tools},
    },
    session::Session,
    tape::{TapeError, TapeStoreExt as _},
    tool::Toolbox,
    words::{
        ids::{Seq, SessionId},
        message::Message,
    },
};

/// A child and the ticket of its task. Dropping the value changes nothing about the task.
#[derive(Clone, Debug)]
pub struct Child {
    session: Session,
    pub(super) parent: Session,
    /// The entry of the parent's tape that opened the task.
    ticket: Seq,
}

impl Child {
    /// The child of a task that this session's tape has. Looks nothing up.
    pub(super) fn new(parent: &Session, child: SessionId, ticket: Seq) -> Child {
        let session = Session { shared: parent.shared.clone(), slot: parent.shared.slot(&child) };
        Child { session, parent: parent.clone(), ticket }
    }

    /// The child: a session like any other. A host may listen to it, steer it, answer its asks and stop it. While its task waits
    /// for room the session is not made, and answers [`OpenError::Queued`]; only listening works before that.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The task's ticket on its parent's tape.
    #[must_use]
    pub fn ticket(&self) -> Seq {
        self.ticket
    }

    /// Whether the task waits for room under its parent's [`Settings::task_width_max`], so that there is no child yet.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`] if the parent cannot answer.
    pub async fn is_queued(&self) -> Result<bool, SendError> {
        Ok(self.parent.state().await?.is_queued(self.ticket))
    }

    /// Waits until there is room for the task and the child is up; at once if it does not wait. Dropping the future changes
    /// nothing about the task.
    ///
    /// # Errors
    /// [`OpenError::NotStarted`] if the task is over and there never was a child: its DOWN says why. Otherwise as
    /// [`Session::spawn_child`].
    pub async fn started(&self) -> Result<&Session, SpawnError> {
        let ticket = self.ticket;
        self.parent.slot.until(move |now| (!now.state.is_queued(ticket)).then_some(Ok(()))).await?;
        self.parent.child(self.session.id().clone(), self.ticket).await?;
        Ok(&self.session)
    }

    /// Waits until the parent's tape has the child's DOWN. A parent remembers the newest 32; an older one is read from its tape. The
    /// first such look reads the tape, each further one only what came since.
    ///
    /// # Errors
    /// [`Refusal::Ended`] if no DOWN comes: the parent has ended, and the child lives on as an orphan. [`SendError::Closed`] or
    /// [`SendError::Parked`] if the parent cannot answer.
    pub async fn down(&self) -> Result<Arc<Down>, SendError> {
        let ticket = self.ticket;
        let down = self.parent.slot.until(move |now| task_down(&now.state, ticket).map(Ok)).await?;
        match down {
            Some(down) => Ok(down),
            None => self.down_on_tape().await?.ok_or(SendError::Refused(Refusal::Ended)),
        }
    }

    /// Stops the task, and keeps what the child has: its text so far is that of the DOWN. A task that waits for room is over at
    /// once. The parent's model does not learn of it, because the caller knows; with [`Session::abort`] of the child it does.
    /// Returns when the parent's tape has the stop; [`Child::down`] waits for the end. A task that is over is not an error. The
    /// first 64 KiB of the reason are kept.
    ///
    /// To kill a task with everything that its child would still do, [`end`](Session::end) the child.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Parked`] or [`SendError::Storage`] of the parent.
    pub async fn stop(&self, reason: impl Into<String>) -> Result<(), SendError> {
        let why = kept(reason.into()).into();
        self.parent.ask(StopChild { ticket: self.ticket, why }).await.map(drop)
    }

    /// The DOWN as the parent's tape has it; `None` if there is none.
    async fn down_on_tape(&self) -> Result<Option<Arc<Down>>, SendError> {
        Ok(self.on_tape().await?.into_iter().find_map(|entry| match entry.record {
            Record::TaskFinished { down, .. } => Some(down),
            _ => None,
        }))
    }

    /// The entries of the parent's tape about the task, its start first.
    pub(super) async fn on_tape(&self) -> Result<Vec<Entry>, OpenError> {
        let (id, ticket) = (self.parent.id().clone(), self.ticket);
        let read = move |shared: &Shared| shared.remembered.task(&*shared.store, &id, ticket);
        self.parent.shared.blocking(read).await
    }
}

impl Session {
    /// Gives a task to a new child: a separate session that begins with `prompt`. Returns when the parent's tape has the task and
    /// the child is up. From then on the parent gets exactly one DOWN for the task, even if this process dies.
    ///
    /// If as many children work as may, the task is refused; or it waits for room, if [`Settings::task_queue_max`] lets it. Then
    /// this returns when the parent's tape has the task, and [`Child::started`] waits for the child. Tasks begin in the order in
    /// which they were given.
    ///
    /// Agent, system prompt, model, tools, rules and labels that the options leave out are those of the parent; the title is not,
    /// and in another folder than the parent's the child has the default prompt of that folder. The child has the parent's rights
    /// or fewer: it works in the parent's workspace or below, has no tool that the parent lacks, and each of its calls must be
    /// allowed by the parent's rules and by its own. The parent's [`Settings::task_depth_max`] and [`Settings::task_width_max`]
    /// bound depth and width.
    ///
    /// Dropping the future does not take the task back. Calling again with the same id in the options means the same task.
    ///
    /// # Errors
    /// See [`SpawnError`]; [`Refusal::OtherTask`] if the child of this id is at work on another prompt.
    pub async fn spawn_child(
        &self,
        mut options: SessionOptions,
        prompt: impl Into<Message>,
        link: Link,
    ) -> Result<Child, SpawnError> {
        options.bound()?;
        let tools = self.shared.tools.now();
        known_tools(&tools.toolbox, &options)?;
        let state = self.state().await?;
        let parent = state.settings.clone();
        let workspace = canonical(&options.workspace).await?;
        is_beneath(&workspace, &parent)?;
        let labels = options.labels.or(&parent.labels).map_err(OpenError::Labels)?;
        let options = SessionOptions { labels, ..options };
        let child = options.id.clone().unwrap_or_else(SessionId::new);
        // The message is the child's: the input hooks see it like a message sent to the child.
        let prompt =
            Session { shared: self.shared.clone(), slot: self.shared.slot(&child) }.passed(prompt.into()).await?;
        let is_known = state.tasks().any(|(_, task)| task.child == child)
            || state.tasks_ended.iter().any(|end| end.child == child);
        let wanted = child.clone();
        let exists = self.shared.blocking(move |shared| Ok::<_, OpenError>(shared.store.exists(&wanted))).await;
        if !is_known && exists.unwrap_or(false) {
            return Err(SpawnError::Open(TapeError::Exists { session: child }.into()));
        }
        // In the parent's folder the child has its parent's sections: the two prompts begin with the same bytes.
        let said = match workspace == parent.workspace {
            true => None,
            false => self.shared.surroundings(&workspace, options.model.as_ref().unwrap_or(&parent.model)).await,
        };
        let settings = of_child(&parent, options.id(child.clone()), workspace, &tools.toolbox, said.as_deref());
        self.give(child, TaskOrder::new(settings, prompt), link).await
    }

    /// Gives a prepared task. The same child again is the same task.
    pub(super) async fn give(&self, child: SessionId, order: TaskOrder, link: Link) -> Result<Child, SpawnError> {
        let ticket = self.record(Spawn { child: child.clone(), order: Box::new(order), link }).await?;
        self.child(child, ticket).await
    }

    /// Takes over an orphan: a child whose parent has ended. Returns when both tapes record the adoption. The orphan's DOWN comes
    /// to this session, at once where its task is over already. The orphan's rights narrow to those of this session.
    ///
    /// # Errors
    /// See [`SpawnError`]; [`Refusal::NotAnOrphan`] if the session has a parent, or never had one; [`Refusal::StandsAbove`] if this
    /// session is a descendant of the orphan, also if another adoption makes it one at the same time; [`Refusal::Ended`] if this
    /// session has ended, also meanwhile: the orphan is an orphan then.
    pub async fn adopt(&self, child: &SessionId, link: Link) -> Result<Child, SpawnError> {
        let spawn = self.spawn(child, Seq::ZERO, None);
        let orphan = self.bring_up(spawn).await?.state().await?;
        let may_be_ours = |origin: &Arc<Origin>| origin.orphaned.is_some() || origin.parent == *self.id();
        if !orphan.origin.as_ref().is_some_and(may_be_ours) {
            return Err(SendError::from(Refusal::NotAnOrphan { session: child.clone() }).into());
        }
        is_beneath(&orphan.settings.workspace, &self.state().await?.settings)?;
        // Until both tapes have the adoption, or the future is dropped: another one would not see it.
        let _one = self.shared.adopting.lock().await;
        let (above, below) = (child.clone(), self.id().clone());
        if self.shared.blocking(move |shared| stands_above(&*shared.store, &above, &below)).await? {
            return Err(SendError::from(Refusal::StandsAbove { session: child.clone() }).into());
        }
        let ticket = self.record(Adopt { child: child.clone(), link }).await?;
        let adopted = self.child(child.clone(), ticket).await?;
        // The child's watcher tells it too, and again after a crash. Telling it here means that it knows when this returns.
        let state = self.state().await?;
        let (parent, depth) = (self.id().clone(), state.depth() + 1);
        let grant = match state.open.get(&ticket) {
            Some(Open::Task(task)) => task.grant,
            _ => Limits::default(),
        };
        let (tie, above) = (Tie { parent, ticket, link, depth, grant }, state.settings.above_children());
        adopted.session.ask(BeAdopted { tie, above, next: None }).await?;
        // If this session ended meanwhile, its watcher may have notified the child before the child was adopted. A second notice
        // does not orphan the child twice.
        let now = self.state().await?;
        let runs = |open: &Open| matches!(open, Open::Task(task) if task.stop_level == StopLevel::Run);
        if let Some(why) = now.closed.as_ref().filter(|_| !now.open.get(&ticket).is_some_and(runs)) {
            let why = kept(format!("its parent {} has ended: {why}", self.id()));
            adopted.session.ask(Orphan { parent: self.id().clone(), ticket, why }).await?;
            return Err(SendError::Refused(Refusal::Ended).into());
        }
        Ok(adopted)
    }

    /// Ends the session permanently: its turn is aborted, waiting messages are taken back, linked children end, and the other
    /// children become orphans. Returns when the end is on the tape; [`Session::wait`] waits until all of that is done. The tape
    /// stays. The first 64 KiB of the reason are kept.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Parked`], [`SendError::Storage`].
    pub async fn end(&self, reason: impl Into<String>) -> Result<(), SendError> {
        let reason = reason.into();
        self.ask(End { reason }).await.map(drop)
    }

    pub(super) async fn child(&self, child: SessionId, ticket: Seq) -> Result<Child, SpawnError> {
        let state = self.state().await?;
        let task = match state.open.get(&ticket) {
            Some(Open::Task(task)) => Some(task),
            _ => None,
        };
        if task.is_some_and(|task| task.queued) {
            let child = Child::new(self, child, ticket);
            child.session.slot.make_for_task(self.id().clone(), ticket);
            return Ok(child);
        }
        let up = self.bring_up(self.spawn(&child, ticket, task)).await;
        let session = up.map_err(|error| match error {
            SpawnError::Open(OpenError::Tape(TapeError::Missing { .. })) => {
                let why = "its task was stopped before it began, or it is gone; the DOWN of its task says which";
                OpenError::not_started(&child, why).into()
            }
            error => error,
        })?;
        Ok(Child { session, parent: self.clone(), ticket })
    }

    fn spawn(&self, child: &SessionId, ticket: Seq, task: Option<&OpenTask>) -> SpawnArgs {
        let (link, depth, grant) = task.map_or_else(Default::default, |task| (task.link, task.depth, task.grant));
        let may_be_made = |task: &&OpenTask| task.stop_level == StopLevel::Run && !task.queued;
        let order = task.filter(may_be_made).and_then(|task| task.order.clone());
        let tie = Tie { parent: self.id().clone(), ticket, link, depth, grant };
        SpawnArgs { child: child.clone(), tie, order, asks_first: true }
    }

    async fn bring_up(&self, spawn: SpawnArgs) -> Result<Session, SpawnError> {
        let slot = bring_up(self.shared.clone(), spawn).await?;
        Ok(Session { shared: self.shared.clone(), slot })
    }
}

/// Refuses a child's workspace that is not its parent's or below.
fn is_beneath(workspace: &str, parent: &Settings) -> Result<(), SpawnError> {
    match Path::new(workspace).starts_with(&parent.workspace) {
        true => Ok(()),
        false => {
            Err(SpawnError::OutsideWorkspace { workspace: workspace.to_owned(), parent: parent.workspace.clone() })
        }
    }
}

/// The settings of a child: those of its parent where its options are silent (see `SessionOptions::over`). The core narrows them.
pub(super) fn of_child(
    parent: &Settings,
    mut options: SessionOptions,
    workspace: String,
    toolbox: &Toolbox,
    said: Option<&[Section]>,
) -> Settings {
    // The names are written out: two sets of patterns have no common pattern. The child gets no tool that the parent lacks.
    options.tools = options.tools.map(|tools| {
        let both = |name: &&str| toolset::has(Some(&tools), name) && parent.has_tool(name);
        toolbox.names().filter(both).map(str::to_owned).collect()
    });
    let mut settings = Settings { workspace, read_roots: Vec::new(), ..parent.own() };
    if settings.workspace != parent.workspace {
        // A granted path is relative to the folder that it was granted in.
        settings.granted.clear();
        default_prompt(&mut settings, options.date.as_deref(), said);
    }
    options.over(settings)
}

/// Makes orphans of the recovered children whose parent is lost permanently: its tape is damaged or missing.
pub(super) async fn orphan_the_bereaved(runtime: &Runtime, recovered: &[Recovered]) {
    for recovered in recovered.iter().filter(|recovered| recovered.error.is_none()) {
        let child = runtime.session(&recovered.session);
        let Ok(state) = child.state().await else { continue };
        let Some(origin) = state.origin.as_ref().filter(|origin| origin.orphaned.is_none()) else { continue };
        let why = match runtime.open(&origin.parent).await {
            Err(error @ (OpenError::Damaged { .. } | OpenError::Tape(TapeError::Missing { .. }))) => error.to_string(),
            _ => continue,
        };
        let (parent, ticket) = (origin.parent.clone(), origin.ticket);
        tracing::warn!(session = %child.id(), %parent, why, "a child lost its parent and is an orphan");
        // The child may go down before it hears of this; the next start tries again.
        drop(child.ask(Orphan { parent, ticket, why }).await);
    }
}

/// How a task of this session ended; `None` inside where no DOWN comes for it. `None` while the task is open.
fn task_down(state: &State, ticket: Seq) -> Option<Option<Arc<Down>>> {
    let is_open = matches!(state.open.get(&ticket), Some(Open::Task(_)));
    let end = || state.tasks_ended.iter().find(|end| end.ticket == ticket);
    (!is_open).then(|| end().and_then(|end| end.down.clone()))
}
