//! Deletes one conversation permanently, with every byte of it in the store.
//!
//! The session comes to rest first. Then the deletion takes its slot, as an activation does (`Slot::begin_activation`): from there
//! on nothing in this runtime wakes it, and senders to it wait in its slot and get the result at the end. Other processes are
//! held off by the claim, which the engine takes to erase. Last, the words are removed from the files next to the tapes: index
//! and commit log.
//!
//! A change must keep this: a session is erased only while the deletion has its slot (the `flight`), or an actor could write on an
//! erased tape; if the erasing is refused or fails, the session stays, and may have been put to sleep; and the result says what
//! is left of it.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{
    actor::{
        activation::Activation,
        shared::Shared,
        slot::{Slot, ask_to_sleep},
        tape_store::{Chore, scrub_words},
    },
    error::{DeleteError, OpenError, PassivateError},
    hook::Operation,
    ops::taped,
    runtime::Runtime,
    session::Session,
    supervisor::SupervisorHandle,
    tape::{Deleted, Mark, Store, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::SessionId,
};

/// How long a session may take to come to rest, while others wake it or its actor ends, and how often to look.
const REST_WAIT: Duration = Duration::from_secs(10);
const REST_LOOK: Duration = Duration::from_millis(5);

/// How long a deletion keeps taking words out of the index before it reports that some are left, and the wait between two tries.
const WORDS_WAIT: Duration = Duration::from_secs(30);
const WORDS_AGAIN: Duration = Duration::from_millis(20);

/// The outcome of [`Runtime::delete`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Deletion {
    /// Whether the session is gone, or hidden: then only its forks can read it, and it goes with the last of them.
    pub session: Deleted,
    /// Why words of the session may still be in the search index or in a commit log; `None` if none are. The runtime keeps taking
    /// them out of the index, and so does the next one. A search or a list shows none of them.
    pub left: Option<String>,
}

impl Runtime {
    /// Deletes a conversation permanently: tape and anchors, its rows in the index, large outputs, kept contents of files, marks.
    /// When this returns, no file of the store has its words, or the result says where and why ([`Deletion::left`]).
    ///
    /// A session that is awake and idle is put to sleep first, also a protected one; a parked one is deleted with its unfinished
    /// turn. While forks depend on it, it is only hidden. The id can be used again once the session is gone. Handles of it stay
    /// valid: a send fails, because the session does not exist, and event streams end.
    ///
    /// Other sessions that share words with it are not deleted: its forks, its children, a parent that merged it or got its
    /// answer. Exports and the files in its workspace are not deleted either.
    ///
    /// Dropping the future lets the deletion finish.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, tape::Deleted};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// session.prompt("A secret.").await?.wait().await?;
    /// session.wait().await?;
    /// let deletion = runtime.delete(session.id()).await?;
    /// assert_eq!((deletion.session, deletion.left), (Deleted::Gone, None));
    /// assert!(session.prompt("Still there?").await.is_err());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DeleteError::Busy`] while it has a turn, awake or not: [`Session::abort`](crate::Session::abort) it first;
    /// [`DeleteError::Children`] while children of it are at work; [`DeleteError::Task`] while a parent waits for its answer;
    /// [`DeleteError::Open`] with [`TapeError::Missing`] or [`TapeError::Claimed`], and if the store cannot be written.
    pub async fn delete(&self, id: &SessionId) -> Result<Deletion, DeleteError> {
        self.is_open()?;
        let (shared, sessions, id) = (self.inner.shared.clone(), self.inner.sessions.clone(), id.clone());
        let tasks = shared.tasks.clone();
        let tokio = shared.tokio.clone();
        let deleting = async move { delete(&shared, &sessions, &id).await };
        tasks.spawn_on(deleting, &tokio).await.map_err(OpenError::lost)?
    }
}

async fn delete(shared: &Arc<Shared>, sessions: &SupervisorHandle, id: &SessionId) -> Result<Deletion, DeleteError> {
    let erased = erase(shared, sessions, id).await?;
    let deletion = words_taken_out(shared, vec![(id.clone(), erased)]).await.pop();
    deletion.map(|(_, deletion)| deletion).ok_or_else(|| OpenError::Closed.into())
}

/// Erases a session. Its words may still be in the index and in a commit log ([`words_taken_out`]).
pub(super) async fn erase(
    shared: &Arc<Shared>,
    sessions: &SupervisorHandle,
    id: &SessionId,
) -> Result<Deleted, DeleteError> {
    let slot = shared.slot(id);
    let session = Session { shared: shared.clone(), slot: slot.clone() };
    session
        .allowed(Operation::Deletion)
        .await
        .map_err(|refusal| DeleteError::Blocked { session: id.clone(), refusal })?;
    let _one = slot.bringing_up().lock_owned().await;
    let flight = come_to_rest(shared, sessions, &slot).await?;
    let is_parked = shared.slots.why_parked(id).is_some();
    let session = id.clone();
    let removed = shared.blocking(move |shared| remove(shared, &session, is_parked)).await;
    let deleted = match removed {
        Ok(deleted) => deleted,
        Err(error) => {
            flight.finish_unmade(OpenError::not_started(id, &error));
            return Err(error);
        }
    };
    if is_parked {
        shared.unpark(id).await;
    }
    slot.forget_told();
    flight.finish(Err(TapeError::Missing { session: id.clone() }.into()));
    shared.slots.drop_drained(id);
    Ok(deleted)
}

/// Takes the words of sessions that were erased out of index and commit log: once for all of them.
pub(super) async fn words_taken_out(
    shared: &Arc<Shared>,
    erased: Vec<(SessionId, Deleted)>,
) -> Vec<(SessionId, Deletion)> {
    let sessions: Vec<_> = erased.iter().map(|(session, _)| session.clone()).collect();
    // The sessions are gone: an unreadable index is not an error of the deletion.
    let left = shared.blocking(move |shared| Ok::<_, OpenError>(words_left(shared, &sessions))).await;
    let left =
        left.unwrap_or_else(|error| vec![Some(format!("the search index was not checked: {error}")); erased.len()]);
    if left.iter().any(Option::is_some) {
        shared.orders.chore(Chore::Scrub);
    }
    let deletions = erased.into_iter().zip(left);
    deletions.map(|((id, session), left)| (id, Deletion { session, left })).collect()
}

/// Has the session sleep, and takes its slot: nothing wakes it until the result is finished.
async fn come_to_rest(
    shared: &Arc<Shared>,
    sessions: &SupervisorHandle,
    slot: &Arc<Slot>,
) -> Result<Activation, DeleteError> {
    let until = Instant::now() + REST_WAIT;
    let busy = |why: &str| DeleteError::Busy { session: slot.id.clone(), why: why.to_owned() };
    loop {
        if let Some(flight) = slot.begin_activation() {
            // The engine may still be taking the tape back.
            if let Some(given_back) = shared.store.given_back(&slot.id) {
                drop(timeout(REST_WAIT, given_back.cancelled()).await);
            }
            return Ok(flight);
        }
        let stuck = Err(PassivateError::Busy { why: "its actor does not answer" });
        match timeout_at(until, ask_to_sleep(shared, &slot.id)).await.unwrap_or(stuck) {
            // No wait before the slot is taken: another caller would wake the session first, again and again.
            Ok(()) if Instant::now() < until => continue,
            Ok(()) => {}
            // It has a place and no actor. Once the place is released, the session is passive.
            Err(PassivateError::Parked) => drop(sessions.terminate_child(slot.id.as_str()).await),
            Err(PassivateError::Busy { why }) => return Err(busy(why)),
        }
        if Instant::now() >= until {
            return Err(busy("it is woken again and again"));
        }
        sleep(REST_LOOK).await;
    }
}

/// Removes the tape and everything next to it. Blocks on the disk.
fn remove(shared: &Shared, id: &SessionId, is_parked: bool) -> Result<Deleted, DeleteError> {
    has_nobody(&*shared.store, id)?;
    let deleted = if is_parked { shared.store.delete_given_up(id) } else { shared.store.delete(id) };
    deleted.map_err(|error| match error {
        TapeError::Unfinished { session } => {
            DeleteError::Busy { session, why: "its turn was cut off: open it".to_owned() }
        }
        error => OpenError::from(error).into(),
    })
}

/// Refuses a session with open children, and one that a parent waits for. An unreadable tape names neither.
fn has_nobody(store: &dyn TapeStore, id: &SessionId) -> Result<(), DeleteError> {
    let read = || taped::state(id, &store.read_to(id, store.summary(id)?.seq)?.entries);
    let Ok(state) = read() else { return Ok(()) };
    let children = state.tasks().count();
    if children > 0 {
        return Err(DeleteError::Children { session: id.clone(), children });
    }
    let is_open = state.closed.is_none();
    let origin = state.origin.as_ref().filter(|origin| is_open && origin.end.is_none() && origin.orphaned.is_none());
    let Some(parent) = origin.map(|origin| origin.parent.clone()) else { return Ok(()) };
    let is_waiting = !store.marks(Mark::Open, Some(&parent)).map_err(OpenError::from)?.is_empty();
    if is_waiting { Err(DeleteError::Task { session: id.clone(), parent }) } else { Ok(()) }
}

/// Takes the words of deleted sessions out of index and commit log. Says of each why, where some may be left. Blocks on the disk.
fn words_left(shared: &Shared, ids: &[SessionId]) -> Vec<Option<String>> {
    let Some(files) = shared.store.files().filter(|_| !ids.is_empty()) else { return vec![None; ids.len()] };
    let until = std::time::Instant::now() + WORDS_WAIT;
    let stop = || shared.orders.is_closed() || std::time::Instant::now() >= until;
    let left = loop {
        match scrub_words(files, &stop) {
            Ok(true) => break None,
            Ok(false) if stop() => break Some("other programs use the search index, or it is large".to_owned()),
            Ok(false) => std::thread::sleep(WORDS_AGAIN),
            Err(error) => break Some(format!("the search index cannot be written: {error}")),
        }
    };
    ids.iter().map(|id| left.clone().or_else(|| logged(files, id))).collect()
}

fn logged(files: &Store, id: &SessionId) -> Option<String> {
    let is_logged = files.is_logged_elsewhere(id);
    is_logged.then(|| "another process had it open, and its commit log has lines of it until it is closed".to_owned())
}
