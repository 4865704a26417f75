//! The operator's levers: commands on one node of a running tree, or on the whole tree.
//!
//! A lever takes the id or the path of a node (`drain` works on the whole tree). A stuck actor delays a lever for its own
//! shutdown time at most (5 s for a session). A stuck disk may delay the levers that write a mark in the store, wake a session or
//! release a tape (`passivate`, `park`, `unpark`, `restart` of what is parked) for as long as it is stuck. Dropping a lever's
//! future does not undo the lever. Watchers ([`Runtime::watch`]) see each lever: once when it is pulled, and once more if it failed
//! or is not done yet; the error says why, and names the next step, if any.
//!
//! A change must keep this: every lever tells the watchers when it begins and when it returns an error (by `pull`, or by `pulled`
//! and `done`). No lever asks an actor without a limit. A session that an operator parks is marked in the store, so that the
//! parking outlives the runtime; if the mark fails, the lever says so.

mod error;

use std::{sync::Arc, time::Duration};

use crate::{
    actor::slot::put_to_sleep,
    error::{Kind, PassivateError, SendError},
    runtime::Runtime,
    session::Session,
    supervisor::{AdminError, Done, ExitReason, Happening, NodeState, Status, SupervisorHandle, node_state::Role},
    tape::{Mark, TapeError},
    words::ids::SessionId,
};

pub use error::OperateError;

/// How long a session may take to answer a lever. Then the lever fails with [`OperateError::NoAnswer`].
const ANSWER_WAIT: Duration = Duration::from_secs(2);

impl Runtime {
    /// The levers of an operator.
    #[must_use]
    pub fn operate(&self) -> Operator {
        Operator { runtime: self.clone() }
    }
}

/// The levers of an operator. Cheap to clone. Dropping the future of a lever does not take the lever back.
#[derive(Clone, Debug)]
pub struct Operator {
    runtime: Runtime,
}

/// The node that a lever works on, its supervisor, and its session where it is one.
struct Target {
    node: Arc<NodeState>,
    supervisor: SupervisorHandle,
    session: Option<Session>,
}

impl Operator {
    /// Stops a node with everything that it runs, and returns when it is down. Its supervisor does not start it again.
    ///
    /// A session's turn is cut off where it is. The tape stays, and the next message, or [`Runtime::open`], continues the turn. A
    /// session that is parked stays so, until [`Operator::unpark`]. Messages that come before the session is down fail with
    /// [`SendError::Stopped`]. The lever takes at most the node's shutdown time (5 s for a session) and a second more.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn stop(&self, id: &str) -> Result<(), OperateError> {
        self.pull("stop", id, |operator, id| async move {
            let Target { node, supervisor, session } = operator.target(&id)?;
            if let Some(session) = &session {
                session.slot.stop();
            }
            let stopped = supervisor.terminate_child(node.id()).await;
            if let (Some(session), Err(AdminError::Unkillable)) = (&session, &stopped) {
                session.slot.give_up();
            }
            carried_out(&node, &supervisor, stopped).await
        })
        .await
    }

    /// Stops a node and starts it again, and returns when it is up. A session starts from its tape, with its running calls answered
    /// as after a crash; one that sleeps is woken. A node that was parked, or that waited for a restart, has its crashes forgotten.
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn restart(&self, id: &str) -> Result<(), OperateError> {
        self.pull("restart", id, |operator, id| async move {
            if let Some(session) = operator.absent(&id) {
                return operator.wake(&session).await;
            }
            let Target { node, supervisor, session } = operator.target(&id)?;
            let unparked = match session.as_ref().filter(|_| node.status() == Status::Parked) {
                Some(session) => operator.unpark_session(session.id()).await,
                None => Ok(()),
            };
            let restarted = supervisor.recycle_child(node.id()).await;
            if let (Some(session), Err(AdminError::NotFound)) = (&session, &restarted) {
                // It went to sleep meanwhile.
                return operator.wake(session.id()).await;
            }
            carried_out(&node, &supervisor, restarted).await?;
            noted(&node, unparked)
        })
        .await
    }

    /// Puts a session to sleep now, and returns when it sleeps; the next message wakes it. See [`Runtime::passivate`].
    ///
    /// # Errors
    /// [`OperateError::Busy`] if the session has something to do; [`OperateError::NoAnswer`] after two seconds, because the session
    /// or its disk does not answer: it then sleeps when it has answered; others of [`OperateError`].
    pub async fn passivate(&self, id: &str) -> Result<(), OperateError> {
        self.pull("passivate", id, |operator, id| async move {
            let (node, session) = operator.session(&id)?;
            let (shared, id) = (&operator.runtime.inner.shared, session.id());
            in_time(&node, put_to_sleep(shared, id)).await?.map_err(|error| match error {
                PassivateError::Parked => OperateError::Parked { id: id.to_string() },
                PassivateError::Busy { why } => OperateError::Busy { id: id.to_string(), why },
            })
        })
        .await
    }

    /// Stops a node and keeps it stopped until [`Operator::unpark`]. A message to a parked session fails with
    /// [`SendError::Parked`].
    ///
    /// # Errors
    /// See [`OperateError`].
    pub async fn park(&self, id: &str) -> Result<(), OperateError> {
        self.pull("park", id, |operator, id| async move {
            let Target { node, supervisor, session } = operator.target(&id)?;
            let parked = supervisor.park(node.id()).await;
            carried_out(&node, &supervisor, parked).await?;
            let Some(session) = session else { return Ok(()) };
            let incarnation = session.slot.newest_incarnation();
            if supervisor.which_child(node.id()).await.is_ok_and(|child| child.status == Status::Parked) {
                let parked = operator.runtime.inner.shared.park(session.id(), incarnation, "by an operator".to_owned());
                noted(&node, parked.await)?;
            }
            Ok(())
        })
        .await
    }

    /// Starts a parked node again, with its crashes forgotten, also a session that an earlier runtime parked, or another one on the
    /// same store. Runtimes that started while the session was parked go on refusing it, until the lever is pulled there too.
    ///
    /// # Errors
    /// [`OperateError::NotParked`]; others of [`OperateError`].
    pub async fn unpark(&self, id: &str) -> Result<(), OperateError> {
        self.pull("unpark", id, |operator, id| async move { operator.do_unpark(&id).await }).await
    }

    /// A drill: makes a session's actor panic with these words, as a bug would, after its present piece of work. The crash is a
    /// real one: it is reported, counted and followed by a restart; too many of them park the session (by default the third one in
    /// a minute).
    ///
    /// # Errors
    /// [`OperateError::Refused`] if the session takes no input; [`OperateError::Unknown`] if it is not in the tree.
    pub fn crash(&self, id: &str, words: &str) -> Result<(), OperateError> {
        self.pulled("crash", id);
        let done = self.session(id).and_then(|(node, session)| {
            let asked = session.slot.crash(words.to_owned());
            asked.map_err(|error| OperateError::Refused { id: node.id().to_owned(), error })
        });
        self.done("crash", id, done)
    }

    /// Pauses a session: it starts nothing new, and finishes what runs.
    ///
    /// # Errors
    /// [`OperateError::NoAnswer`] after two seconds: the request stays noted, and takes effect as soon as the session answers.
    pub async fn pause(&self, id: &str) -> Result<(), OperateError> {
        self.pull("pause", id, |operator, id| async move {
            let (node, session) = operator.session(&id)?;
            answered(&node, session.pause()).await
        })
        .await
    }

    /// Lifts a session's pause.
    ///
    /// # Errors
    /// As [`Operator::pause`].
    pub async fn resume(&self, id: &str) -> Result<(), OperateError> {
        self.pull("resume", id, |operator, id| async move {
            let (node, session) = operator.session(&id)?;
            answered(&node, session.resume()).await
        })
        .await
    }

    /// Takes no new messages and waits for the running turns, see [`Runtime::drain`]. Returns the sessions that were not at rest at
    /// the deadline.
    pub async fn drain(&self, deadline: Duration) -> Vec<SessionId> {
        self.pulled("drain", ROOT);
        self.runtime.drain(deadline).await
    }

    /// Sets whether a node's trace keeps the words of its messages, cut short. Off by default; turning it off again forgets the
    /// words that were kept.
    ///
    /// # Errors
    /// [`OperateError::Unknown`].
    pub fn trace_in_full(&self, id: &str, on: bool) -> Result<(), OperateError> {
        let lever = if on { "trace in full" } else { "trace redacted" };
        self.pulled(lever, id);
        let done = self.node(id).map(|node| node.trace_in_full(on));
        self.done(lever, id, done)
    }

    /// Pulls a lever: notifies the watchers of the tree, and again if the lever did nothing. The work runs in its own task: a
    /// lever that is dropped between two of its steps would leave a session stopped for every sender, or parked in the tree and
    /// not in the store.
    async fn pull<W>(
        &self,
        lever: &'static str,
        id: &str,
        work: impl FnOnce(Operator, String) -> W,
    ) -> Result<(), OperateError>
    where
        W: Future<Output = Result<(), OperateError>> + Send + 'static,
    {
        self.pulled(lever, id);
        let (operator, work, id) = (self.clone(), work(self.clone(), id.to_owned()), id.to_owned());
        let pulled = async move { operator.done(lever, &id, work.await) };
        let shared = &self.runtime.inner.shared;
        match shared.tasks.spawn_on(pulled, &shared.tokio).await {
            Ok(done) => done,
            // A bug, which must not read as an end of the runtime.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(OperateError::Closing),
        }
    }

    async fn unpark_session(&self, id: &SessionId) -> Result<(), TapeError> {
        let shared = &self.runtime.inner.shared;
        shared.slots.unpark(id);
        shared.write_parked(id).await
    }

    /// Whether the store says that a session is parked. Another runtime on it may have parked the session since this one started.
    async fn is_marked(&self, session: &SessionId) -> Result<bool, TapeError> {
        let (shared, session) = (self.runtime.inner.shared.clone(), session.clone());
        let marks = tokio::task::spawn_blocking(move || shared.store.marks(Mark::Parked, Some(&session)));
        Ok(!marks.await.map_err(TapeError::lost)??.is_empty())
    }

    /// The session with this id that has no place in the tree: it sleeps, or an earlier runtime parked it. Or there is none.
    fn absent(&self, id: &str) -> Option<SessionId> {
        id.parse().ok().filter(|_| self.runtime.inner.shared.registry.find(id).is_none())
    }

    /// Wakes a session that has no place in the tree, also a parked one.
    async fn wake(&self, session: &SessionId) -> Result<(), OperateError> {
        let shared = &self.runtime.inner.shared;
        if shared.slots.why_parked(session).is_some() {
            shared.unpark(session).await;
        }
        let id = session.to_string();
        self.runtime.open(session).await.map(drop).map_err(|error| match error.kind() {
            Kind::NotFound => OperateError::Unknown { id },
            Kind::Closed => OperateError::Closing,
            Kind::Retry => OperateError::Refused { id, error: error.into() },
            _ => OperateError::NotStarted { id, reason: ExitReason::StartFailed(error.to_string()) },
        })
    }

    async fn do_unpark(&self, id: &str) -> Result<(), OperateError> {
        let shared = &self.runtime.inner.shared;
        if let Some(session) = self.absent(id) {
            let unread = |error: TapeError| match error.kind() {
                Kind::Retry => OperateError::Refused { id: id.to_owned(), error: SendError::Storage(error) },
                _ => OperateError::NotStarted { id: id.to_owned(), reason: ExitReason::StartFailed(error.to_string()) },
            };
            if shared.slots.why_parked(&session).is_some() || self.is_marked(&session).await.map_err(unread)? {
                let written = self.unpark_session(&session).await;
                self.wake(&session).await?;
                return written.map_err(|error| OperateError::NotNoted { id: id.to_owned(), error });
            }
        }
        let Target { node, supervisor, session } = self.target(id)?;
        if node.status() != Status::Parked {
            return Err(OperateError::NotParked { id: node.id().to_owned(), status: node.status() });
        }
        let written = match session {
            Some(session) => self.unpark_session(session.id()).await,
            None => Ok(()),
        };
        let unparked = supervisor.unpark(node.id()).await;
        carried_out(&node, &supervisor, unparked).await?;
        noted(&node, written)
    }

    fn target(&self, id: &str) -> Result<Target, OperateError> {
        let node = self.node(id)?;
        let owner = node.owner.and_then(|owner| self.runtime.inner.shared.registry.node(owner));
        if node.role == Role::Task {
            let owner = owner.map_or_else(String::new, |owner| owner.id().to_owned());
            return Err(OperateError::IsTask { id: node.id().to_owned(), owner });
        }
        let supervisor = owner.and_then(|owner| owner.admin().cloned());
        let supervisor = supervisor.ok_or_else(|| OperateError::IsRoot { id: node.id().to_owned() })?;
        let session = self.session_of(&node);
        Ok(Target { node, supervisor, session })
    }

    fn session(&self, id: &str) -> Result<(Arc<NodeState>, Session), OperateError> {
        let node = self.node(id)?;
        if let Some(session) = self.session_of(&node) {
            return Ok((node, session));
        }
        // If no lever works on the node, that is said instead.
        self.target(id)?;
        Err(OperateError::NotASession { id: node.id().to_owned(), kind: node.kind() })
    }

    fn node(&self, id: &str) -> Result<Arc<NodeState>, OperateError> {
        self.runtime.inner.shared.registry.find(id).ok_or_else(|| OperateError::Unknown { id: id.to_owned() })
    }

    fn session_of(&self, node: &NodeState) -> Option<Session> {
        if node.kind() != "session" {
            return None;
        }
        node.id().parse().ok().map(|id: SessionId| self.runtime.session(&id))
    }

    fn pulled(&self, lever: &'static str, id: &str) {
        self.tell(id, Happening::Lever { lever });
        tracing::info!(lever, node = id, "an operator pulled a lever");
    }

    fn done(&self, lever: &'static str, id: &str, done: Result<(), OperateError>) -> Result<(), OperateError> {
        if let Err(error) = &done {
            self.tell(id, Happening::LeverRefused { lever, why: error.to_string() });
        }
        done
    }

    fn tell(&self, id: &str, what: Happening) {
        let registry = &self.runtime.inner.shared.registry;
        let node = registry.find(id);
        registry.tell(node.as_ref().map_or(id, |node| node.path()), what);
    }
}

/// The id of the root.
const ROOT: &str = "runtime";

/// The result of a lever that a supervisor carried out.
async fn carried_out(
    node: &NodeState,
    supervisor: &SupervisorHandle,
    done: Result<Done, AdminError>,
) -> Result<(), OperateError> {
    // By the time the supervisor answers again, the nodes show what it did.
    drop(supervisor.ping().await);
    done.map(drop).map_err(|error| refused(node, error))
}

async fn answered(node: &NodeState, asked: impl Future<Output = Result<(), SendError>>) -> Result<(), OperateError> {
    let id = node.id().to_owned();
    in_time(node, asked).await?.map_err(|error| match error {
        SendError::Parked => OperateError::Parked { id },
        SendError::Closed | SendError::Draining => OperateError::Closing,
        error => OperateError::Refused { id, error },
    })
}

/// What a session answers, if it does in time.
async fn in_time<T>(node: &NodeState, asked: impl Future<Output = T>) -> Result<T, OperateError> {
    tokio::time::timeout(ANSWER_WAIT, asked).await.map_err(|_| {
        let (with, since) = node.in_hand().unwrap_or(("nothing", Duration::ZERO));
        OperateError::NoAnswer { id: node.id().to_owned(), with, since }
    })
}

fn noted(node: &NodeState, noted: Result<(), TapeError>) -> Result<(), OperateError> {
    noted.map_err(|error| OperateError::NotNoted { id: node.id().to_owned(), error })
}

fn refused(node: &NodeState, error: AdminError) -> OperateError {
    let id = node.id().to_owned();
    match error {
        AdminError::NotFound => OperateError::Unknown { id },
        AdminError::NotParked => OperateError::NotParked { id, status: node.status() },
        AdminError::Parked => OperateError::Parked { id },
        AdminError::StartFailed { reason } => OperateError::NotStarted { id, reason },
        AdminError::Unkillable => OperateError::Unkillable { id },
        AdminError::ShuttingDown | AdminError::Gone => OperateError::Closing,
        error => OperateError::Supervisor { id, error },
    }
}
