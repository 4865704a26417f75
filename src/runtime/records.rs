//! Conversations as records that a host keeps under ids of its own: check, open or make.
//!
//! Each of these calls that is given an id for the session may be made again after an error, a crash or a lost answer, and means
//! the same session: the id decides. In one runtime, `open_or_create`, a fork under an id and a deletion of one id run one after the
//! other (`Slot::bringing_up`); between processes the claim of the tape decides.
//!
//! A change must keep this: a session that was there before the call is never deleted by it, and nothing is made if the
//! call comes while the runtime drains or ends.

use crate::{
    actor::{shared::Shared, slot::Phase},
    error::OpenError,
    ops::{ListedSession, listing},
    runtime::{Runtime, options::SessionOptions},
    session::Session,
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

    /// What a list shows of one conversation; `None` where [`Runtime::exists`] says that there is none. Wakes nothing, and costs what
    /// this session costs, however many there are: its row of the index and what was appended since, or its tape where there is no
    /// index. [`Session::peek`] has its state.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::Scripted};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let runtime = Runtime::builder().store(folder.path()).model(Arc::new(Scripted::new([]))).start().await?;
    /// let options = SessionOptions::new(folder.path()).title("Order 7");
    /// let session = runtime.create(options).await?;
    /// let found = runtime.find(session.id()).await?;
    /// assert_eq!(found.unwrap().title.as_deref(), Some("Order 7"));
    /// assert_eq!(runtime.find(&"another".parse()?).await?, None);
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// If the store or its index cannot be read.
    pub async fn find(&self, id: &SessionId) -> Result<Option<ListedSession>, OpenError> {
        let id = id.clone();
        let find = move |shared: &Shared| {
            if !is_there(&*shared.store, &id)? {
                return Ok(None);
            }
            let found = match shared.store.files() {
                Some(files) => listing::one(files, &id),
                None => listing::one_of(&*shared.store, &id),
            };
            match found {
                // Deleted in between.
                Err(TapeError::Missing { .. }) => Ok(None),
                found => Ok(Some(found?)),
            }
        };
        self.inner.shared.blocking(find).await
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
