//! Conversations as records under the host's own ids: check, open or make, fork.
//!
//! Each of these calls that is given an id for the session may be made again after an error, a crash or a lost answer, and means
//! the same session: the id decides. ([`Runtime::fork`] is given none, and makes another fork each time.) In one runtime,
//! `open_or_create`, `fork_as` and a deletion of one id run one after the other (`Slot::bringing_up`); between processes the claim
//! of the tape decides.
//!
//! A change must keep this: a session or fork that was there before the call is never deleted by it, and nothing is made if the
//! call comes while the runtime drains or ends.

use crate::{
    actor::slot::Phase,
    error::OpenError,
    runtime::{Runtime, options::SessionOptions},
    session::{Session, fork_named, fork_now, fork_now_as, wake_fork},
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Seq, SessionId},
};

/// How often [`Runtime::open_or_create`] looks again, where others make, open or delete the session at the same time.
const TRIES_MAX: u32 = 32;

impl Runtime {
    /// Whether the store has this conversation, awake or not. Wakes nothing. A conversation whose maker died before its first entry
    /// counts as missing, and so does a deleted one that forks still depend on; a damaged one exists.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn exists(&self, id: &SessionId) -> Result<bool, OpenError> {
        let id = id.clone();
        self.inner.shared.blocking(move |shared| Ok(is_there(&*shared.store, &id)?)).await
    }

    /// Opens the conversation whose id the options carry, and makes it if there is none; returns when the session is awake.
    /// Many callers may do so at the same time: one session is made, and all of them get it.
    ///
    /// The options make a new session. For an existing session they change nothing, and are not even checked:
    /// [`Session::configure`] changes its settings. Options without an id make a new session, as [`Runtime::create`] does. A
    /// session whose maker died half-way is made again. Dropping the future does not take the session back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let options = SessionOptions::new(folder.path()).id("ticket-4711".parse()?);
    /// assert!(!runtime.exists(&"ticket-4711".parse()?).await?);
    /// let session = runtime.open_or_create(options.clone()).await?;
    /// session.prompt("Say hello.").await?.wait().await?;
    /// // The same call again opens it.
    /// assert_eq!(runtime.open_or_create(options).await?.messages().await?.len(), 2);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Runtime::open`] if the session exists, [`TapeError::Claimed`] if another process has it; else as [`Runtime::create`],
    /// [`TapeError::Exists`] if the id is that of a deleted session that forks still need.
    pub async fn open_or_create(&self, options: SessionOptions) -> Result<Session, OpenError> {
        let Some(id) = options.id.clone() else { return self.create(options).await };
        let session = self.session(&id);
        let _one = session.slot.bringing_up().lock_owned().await;
        let mut tries = 0;
        loop {
            tries += 1;
            if session.slot.phase() == Phase::Passive && !self.exists(&id).await? {
                match self.create(options.clone()).await {
                    // Another caller is making or waking it.
                    Err(OpenError::Tape(TapeError::Exists { .. })) => {}
                    created => return created,
                }
            }
            match self.open(&id).await {
                // Deleted in between, or its maker died before its first entry, or another caller found it missing.
                Err(OpenError::Tape(TapeError::Missing { .. })) if tries < TRIES_MAX => {}
                Err(OpenError::Tape(TapeError::Missing { session })) => {
                    return Err(TapeError::Exists { session }.into());
                }
                opened => return opened,
            }
        }
    }

    /// Makes a new conversation that continues from an entry of another one, and wakes it. The entry is the newest that was
    /// published, or `at`, which must end an append ([`TapeError::InsideAppend`] names the nearest entries that do).
    ///
    /// The parent, awake or not, does not notice. Nothing is copied, so a fork costs the same however long the conversation is.
    /// The fork has the history, the settings and the context of that point. The parent's turn, waiting messages, tasks and session
    /// grants stay behind, and the fork counts tokens from 0.
    ///
    /// If the future is dropped, the fork is still made, and does nothing; [`Runtime::list`] shows its id.
    ///
    /// # Errors
    /// [`OpenError::Tape`] if the session or entry does not exist, and with [`TapeError::Busy`] if `at` lies in an append that is
    /// being written (try again); [`OpenError::Closed`].
    pub async fn fork(&self, id: &SessionId, at: Option<Seq>) -> Result<Session, OpenError> {
        self.is_open()?;
        let fork = fork_now(&self.inner.shared, id, at).await?;
        wake_fork(&self.inner.shared, fork).await
    }

    /// Forks like [`Runtime::fork`], under an id that the host gives. The same call again means the same fork: it is found, woken
    /// and returned, however far it has got. Without `at`, any fork of `id` under this id is the same one, since the newest entry
    /// changes.
    ///
    /// A fork that was made and does not wake stays: the same call wakes it later. Dropping the future takes nothing back.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let parent = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let fork = "what-if".parse()?;
    /// runtime.fork_as(parent.id(), None, &fork).await?.prompt("Say hello.").await?.wait().await?;
    /// let again = runtime.fork_as(parent.id(), None, &fork).await?;
    /// assert_eq!((again.id(), again.messages().await?.len()), (&fork, 2));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`Runtime::fork`]; [`TapeError::Exists`] if the id is that of another session, or of a fork of another session or entry;
    /// [`TapeError::Busy`] if another process is just making it; as [`Runtime::open`] if the fork cannot be woken.
    pub async fn fork_as(&self, id: &SessionId, at: Option<Seq>, fork: &SessionId) -> Result<Session, OpenError> {
        self.is_open()?;
        let (parent, named) = (id.clone(), fork.clone());
        fork_named(&self.inner.shared, fork, move |shared| fork_now_as(shared, &parent, at, &named)).await
    }
}

/// Whether a store has a session that can be opened, or is damaged.
fn is_there(store: &dyn TapeStore, id: &SessionId) -> Result<bool, TapeError> {
    if !store.exists(id) {
        return Ok(false);
    }
    match store.summary(id) {
        Ok(summary) if summary.seq > Seq::ZERO => Ok(true),
        // No entry was seen from outside: there is none yet, its first append is torn, or the tape is damaged.
        Ok(_) => match store.read(id, Seq::ZERO) {
            Ok(entries) => Ok(!entries.is_empty()),
            Err(TapeError::Missing { .. }) => Ok(false),
            Err(TapeError::Damaged(_)) => Ok(true),
            Err(error) => Err(error),
        },
        Err(TapeError::Missing { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
