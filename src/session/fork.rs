//! Forks a conversation at any point, and merges the messages of a fork back.
//!
//! A fork is a new tape that refers to an entry of its parent's tape. Nothing is copied, and the parent's conversation does not
//! notice. If the point lies inside of an append (entries that a tape takes together), the fork may need one more entry, which
//! goes back to the point. A merge is one entry on the tape that is merged into: recorded whole, or not at all. It changes nothing
//! on the fork. Tapes are read on a thread for such work, and no actor waits for it.
//!
//! A change must keep this: a fork and a merge take no entry beyond the newest published one (`published`), because
//! later entries may still be cut back; a merge is refused if the conversation decided anything since it was worked out; and a
//! merged fork is deleted only after the tape that it was merged into has its words.

mod stand;

use std::sync::Arc;

use crate::{
    actor::{
        shared::Shared,
        slot::{Admission, put_to_sleep},
        tape_store::Chore,
    },
    error::{OpenError, SendError},
    hook::Operation,
    kernel::{Merged, Point, Record, Refusal, Spent, State, plan_merge},
    ops::taped,
    session::{BranchError, Session, back::read},
    tape::{Deleted, TapeError, TapeStoreExt as _},
    words::ids::{MessageId, Seq, SessionId},
};

pub use stand::fork_at;
use stand::{Made, stand, stand_at_newest, state_at};

/// How often a merge or a rollback is worked out at most, where the session decided something in between.
pub(super) const TRIES_MAX: u32 = 5;

/// How a fork was merged.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Merge {
    /// The entry that records the merge; `None` if everything that the fork said and used was merged already.
    pub entry: Option<Seq>,
    /// The merge begins after this entry of the fork's tape.
    pub from: Seq,
    /// The newest entry of the fork's tape that was merged.
    pub to: Seq,
    /// How many items the conversation gained: messages, answers, results.
    pub items: usize,
    /// The host's messages among these items, oldest first.
    pub messages: Vec<MessageId>,
    /// What the fork used. It counts in this conversation from now on.
    #[serde(with = "crate::event::shown::spent")]
    pub spent: Spent,
    /// How the fork was deleted; `None` if it is kept.
    pub deleted: Option<Deleted>,
}

/// How a fork is to be made: where, and under which id. An entry or a [`Point`] alone will do too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForkOptions {
    /// The point that the fork goes on from; `None` for the newest entry that was published.
    pub at: Option<Point>,
    /// The id of the fork; `None` for a new one. Where the point is the newest entry, any fork of the session under this id is the
    /// same one, because the newest entry is another one each time.
    pub id: Option<SessionId>,
}

impl ForkOptions {
    /// A fork that goes on from the newest entry.
    #[must_use]
    pub fn newest() -> ForkOptions {
        ForkOptions::default()
    }

    /// A fork that goes on from this point.
    #[must_use]
    pub fn at(point: impl Into<Point>) -> ForkOptions {
        ForkOptions { at: Some(point.into()), id: None }
    }

    /// The same, under an id of the host's.
    #[must_use]
    pub fn id(self, id: SessionId) -> ForkOptions {
        ForkOptions { id: Some(id), ..self }
    }
}

impl From<Point> for ForkOptions {
    fn from(point: Point) -> ForkOptions {
        ForkOptions::at(point)
    }
}

impl From<Seq> for ForkOptions {
    fn from(entry: Seq) -> ForkOptions {
        ForkOptions::at(entry)
    }
}

/// Where a fork was made.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ForkedAt {
    /// The last entry of the parent's tape that the fork has. It ends an append.
    pub entry: Seq,
    /// The entry that the fork went back to, if it had to go back to be exactly at the point.
    pub back_to: Option<Seq>,
}

/// What becomes of a fork that was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Afterwards {
    Keep,
    Delete,
}

impl Session {
    /// Makes a new conversation that continues from a point of this one, and wakes it. This conversation does not notice, even while
    /// it has a running turn, and is not woken. Nothing is copied, so a fork costs the same however long the conversation is.
    ///
    /// The fork has the history, the settings and the context of that point, whatever was taken back here since; the turn, the
    /// waiting messages, the tasks and the session's grants stay behind. A tape can be forked only where an append ends. For a point
    /// inside of an append, the fork is made at the end before the point if nothing was said in between. Otherwise it is made at the
    /// end behind the point, and the fork goes back to the point. Where a call had no result at the point, the fork stays at the end
    /// of the append. The fork's budget is what was left there (`docs/SEMANTICS.md`, "Forks").
    ///
    /// With an id of the host's ([`ForkOptions::id`]) the same call again means the same fork: it is found, woken and returned,
    /// however far it has gone on. Such a fork is never deleted: where it was made and does not wake, or was not yet taken back to
    /// its point, the same call mends it. Without an id, a fork that does not wake is deleted again. If the future is dropped
    /// half-way, or the process dies, a fork may be left that nobody was told of and that does nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Runtime, SessionOptions, model::{Reply, Scripted}, session::ForkOptions};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let parent = runtime.create(SessionOptions::new(folder.path())).await?;
    /// let what_if = ForkOptions::newest().id("what-if".parse()?);
    /// parent.fork(what_if.clone()).await?.prompt("Say hello.").await?.wait().await?;
    /// let again = parent.fork(what_if).await?;
    /// assert_eq!((again.id().as_str(), again.messages().await?.len()), ("what-if", 2));
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// See [`BranchError`]; [`TapeError::Exists`] where the id is that of another session, or of a fork of another session or
    /// point; [`TapeError::Busy`] where the point lies in an append that is just being written, or another process is just making
    /// the fork: try again; [`OpenError::Closed`].
    pub async fn fork(&self, options: impl Into<ForkOptions>) -> Result<Session, BranchError> {
        if self.shared.slots.admission() != Admission::Open {
            return Err(OpenError::Closed.into());
        }
        self.allowed(Operation::Fork).await.map_err(SendError::from)?;
        let ForkOptions { at, id } = options.into();
        let (parent, fork, is_named) = (self.id().clone(), id.clone().unwrap_or_else(SessionId::new), id.is_some());
        let slot = self.shared.slot(&fork);
        // One call at a time makes and wakes a fork.
        let _one = slot.bringing_up().lock_owned().await;
        let made = {
            let fork = fork.clone();
            move |shared: &Shared| make_fork(shared, &parent, at.as_ref(), &fork)
        };
        self.shared.blocking(made).await?;
        if let Err(error) = slot.up().await {
            if !is_named {
                drop(self.shared.blocking(move |shared| Ok::<_, OpenError>(shared.store.delete(&fork)?)).await);
            }
            return Err(error.into());
        }
        Ok(Session { shared: self.shared.clone(), slot })
    }

    /// Merges a fork: everything that was said in it since it was forked or last merged becomes part of this conversation, as one
    /// entry after all that was said here. The fork's usage counts here from then on, once. The fork is not changed, and is kept.
    ///
    /// The fork must be one of this session, or of a session that this one continues from after the fork's point. Merging again
    /// without anything new changes nothing ([`Merge::entry`] is `None`). Words that were taken back in the fork are not merged.
    /// An undo here takes back a merge as a whole; the fork can then be merged again.
    ///
    /// # Errors
    /// See [`BranchError`]. After an error both sides are unchanged; only after [`SendError::Unsettled`] it is unknown whether
    /// the merge is recorded.
    pub async fn merge(&self, fork: &SessionId) -> Result<Merge, BranchError> {
        self.merge_and(fork, Afterwards::Keep).await
    }

    /// Merges a fork as [`Session::merge`] does, and deletes it once its words are on the tape here. The fork's large outputs go
    /// with it.
    ///
    /// # Errors
    /// As [`Session::merge`]; [`BranchError::Waiting`] if the fork has messages or children that would be lost;
    /// [`BranchError::Kept`] if the fork was merged but could not be deleted: calling this again deletes it.
    pub async fn merge_and_delete(&self, fork: &SessionId) -> Result<Merge, BranchError> {
        self.merge_and(fork, Afterwards::Delete).await
    }

    async fn merge_and(&self, fork: &SessionId, then: Afterwards) -> Result<Merge, BranchError> {
        self.allowed(Operation::Merge).await.map_err(SendError::from)?;
        let mut tries = 0;
        let (entry, planned) = loop {
            tries += 1;
            let here = self.state().await?;
            if let Some(turn) = &here.turn {
                return Err(BranchError::Busy { session: self.id().clone(), turn: turn.id });
            }
            let fork = fork.clone();
            let planned = self.shared.blocking(move |shared| work_out(shared, &here, &fork)).await?;
            if then == Afterwards::Delete && planned.waiting > 0 {
                return Err(BranchError::Waiting { fork: planned.merged.fork.clone(), waiting: planned.waiting });
            }
            if planned.merged.is_nothing() {
                break (None, planned);
            }
            let merged = planned.merged.clone();
            match self.record(crate::kernel::Merge { merged }).await {
                Ok(entry) => break (Some(entry), planned),
                Err(SendError::Refused(Refusal::Moved { .. })) if tries < TRIES_MAX => {}
                Err(SendError::Refused(Refusal::Busy { turn })) => {
                    return Err(BranchError::Busy { session: self.id().clone(), turn });
                }
                Err(error) => return Err(error.into()),
            }
        };
        let deleted = match then {
            Afterwards::Keep => None,
            Afterwards::Delete => Some(self.delete_merged(&planned).await.map_err(|why| BranchError::Kept {
                fork: planned.merged.fork.clone(),
                entry,
                why,
            })?),
        };
        let Merged { from, to, spent, .. } = *planned.merged;
        let (items, messages) = (planned.merged.items.len(), planned.merged.messages());
        Ok(Merge { entry, from, to, items, messages, spent, deleted })
    }

    /// Deletes a fork whose words are on the tape here, unless the fork has continued meanwhile.
    async fn delete_merged(&self, planned: &Planned) -> Result<Deleted, String> {
        let parent = self.id().clone();
        let (fork, to, files) = (planned.merged.fork.clone(), planned.merged.to, planned.files.clone());
        fault!(self.shared.store.faults(), "merge.recorded", parent.as_str());
        put_to_sleep(&self.shared, &fork).await.map_err(|error| error.to_string())?;
        let delete = move |shared: &Shared| {
            hand_over(shared, &fork, &parent, &files);
            let deleted = shared.store.delete_unless_gone_on(&fork, to);
            shared.orders.chore(Chore::Scrub);
            Ok::<_, OpenError>(deleted?)
        };
        self.shared.blocking(delete).await.map_err(|error| error.to_string())
    }
}

/// The newest published entry of a session: readers may read up to it, because later entries may still be cut back. `None` if
/// the session is not awake here: then this runtime has no append under way.
pub(super) fn published(shared: &Shared, id: &SessionId) -> Option<Seq> {
    let slot = shared.slots.awake_one(id)?;
    Some(slot.told()).filter(|seq| *seq > Seq::ZERO)
}

/// Makes a fork, unless it is there already. A fork that stands on an entry that may still be cut back is taken back. Blocks on the
/// disk.
pub(crate) fn make_fork(
    shared: &Shared,
    parent: &SessionId,
    at: Option<&Point>,
    fork: &SessionId,
) -> Result<(), BranchError> {
    let (store, now) = (&*shared.store, shared.clock.now());
    let (entry, made) = match at {
        Some(point) => stand(store, parent, point, fork, now).map(|(forked, made)| (forked.entry, made))?,
        None => stand_at_newest(store, parent, published(shared, parent), fork, now)?,
    };
    if made == Made::Now && published(shared, parent).is_some_and(|upto| entry > upto) {
        drop(store.delete(fork));
        return Err(TapeError::Busy { waiting: 1 }.into());
    }
    Ok(())
}

/// A merge that was worked out.
struct Planned {
    merged: Arc<Merged>,
    /// How many messages and children of the fork are not part of the merge.
    waiting: usize,
    /// All file changes of the fork, including those that were merged before.
    files: Vec<crate::tool::FileChange>,
}

fn work_out(shared: &Shared, here: &State, fork: &SessionId) -> Result<Planned, BranchError> {
    let (store, session) = (&*shared.store, &here.session);
    let not_a_fork = || BranchError::NotAFork { session: session.clone(), fork: fork.clone() };
    let forked = store.forked_from(fork)?.ok_or_else(not_a_fork)?;
    if fork == session || !store.has_entry_of(session, &forked.parent, forked.seq)? {
        return Err(not_a_fork());
    }
    let then = state_at(store, fork, forked.seq.next())?;
    let mut there = taped::entries(fork, &store.read(fork, forked.seq.next())?)?;
    if let Some(upto) = published(shared, fork) {
        there.retain(|entry| entry.seq <= upto);
    }
    let now = then.clone().after(&there);
    if let Some(turn) = &now.turn {
        return Err(BranchError::Busy { session: fork.clone(), turn: turn.id });
    }
    let ours = read(store, session, forked.seq, here.seq)?;
    let mut merged = plan_merge(here.seq, &ours, &then, &there);
    let spill = store.spill_path(fork).filter(|_| !merged.items.is_empty());
    merged.spill = spill.map(|folder| folder.display().to_string());
    #[cfg(all(unix, feature = "tools"))]
    {
        // The file changes of the fork since its last merge.
        (merged.files, merged.unlisted) = crate::ops::restore::changed(store, fork, merged.from, merged.to)?;
    }
    let before = ours.iter().filter_map(|entry| match &entry.record {
        Record::Merged(earlier) if earlier.is_of(&then) => Some(&earlier.files),
        _ => None,
    });
    let files = before.flatten().chain(&merged.files).cloned().collect();
    let waiting = now.queue.len() + now.steering.len() + now.tasks().count();
    Ok(Planned { merged: Arc::new(merged), waiting, files })
}

/// Copies the kept file contents of the fork's tape to the parent's, before the fork is deleted.
#[cfg(all(unix, feature = "tools"))]
fn hand_over(shared: &Shared, fork: &SessionId, parent: &SessionId, files: &[crate::tool::FileChange]) {
    let tools = shared.tools.now().toolbox.files().unwrap_or_default();
    crate::ops::restore::hand_over(&*shared.store, &tools, fork, parent, files);
}

#[cfg(not(all(unix, feature = "tools")))]
fn hand_over(_: &Shared, _: &SessionId, _: &SessionId, _: &[crate::tool::FileChange]) {}
