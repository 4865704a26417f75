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
    actor::{shared::Shared, slot::put_to_sleep, tape_store::Chore},
    error::{OpenError, SendError},
    kernel::{Merged, Point, Record, Refusal, Spent, State, plan_merge},
    ops::taped,
    session::{BranchError, Session, back::read},
    tape::{Deleted, TapeError, TapeStoreExt as _},
    words::ids::{MessageId, Seq, SessionId},
};

pub use stand::fork_at;
use stand::{Made, is_fork_of, stand, state_at};

/// How often a merge or a rollback is worked out at most, where the session decided something in between.
pub(super) const TRIES_MAX: u32 = 5;

/// How a fork was merged.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub spent: Spent,
    /// How the fork was deleted; `None` if it is kept.
    pub deleted: Option<Deleted>,
}

/// Where a fork was made.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Makes a new conversation that continues from a point of this one, and wakes it. This conversation does not notice, even
    /// while it has a running turn, and is not woken. Nothing is copied.
    ///
    /// The fork has the conversation as it was at that point, including what was taken back here since. A tape can be forked only
    /// where an append ends. For a point inside of an append, the fork is made at the end before the point if nothing was said in
    /// between. Otherwise it is made at the end after the point, and the fork goes back to the point. If a call had no result
    /// at the point, the fork stays at the end of the append. The fork's budget is what was left there (`docs/SEMANTICS.md`,
    /// "Forks").
    ///
    /// If the future is dropped half-way, or the process dies, an unused session may be left whose id no caller has; it does
    /// nothing.
    ///
    /// # Errors
    /// See [`BranchError`]; [`TapeError::Busy`] if the point lies in an append that is just being written: try again. No session
    /// was made then.
    pub async fn fork(&self, at: impl Into<Point>) -> Result<Session, BranchError> {
        let (id, at, fork) = (self.id().clone(), at.into(), SessionId::new());
        let made = {
            let fork = fork.clone();
            move |shared: &Shared| fork_published(shared, &id, &at, &fork)
        };
        self.shared.blocking(made).await?;
        Ok(wake_fork(&self.shared, fork).await?)
    }

    /// Forks like [`Session::fork`], under an id that the host gives. The same call again means the same fork: it is found, woken
    /// and returned, however far it has got. A fork that was made and does not wake, or was not yet taken back to its point,
    /// stays: the same call repairs it. Dropping the future takes nothing back.
    ///
    /// # Errors
    /// See [`BranchError`]; [`TapeError::Exists`] if the id is that of another session, or of a fork of another session or point;
    /// [`TapeError::Busy`] as for [`Session::fork`], and where another process is just making the fork.
    pub async fn fork_as(&self, at: impl Into<Point>, fork: &SessionId) -> Result<Session, BranchError> {
        let (id, at, named) = (self.id().clone(), at.into(), fork.clone());
        fork_named(&self.shared, fork, move |shared| fork_published(shared, &id, &at, &named)).await
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

/// Makes a session that continues from the entry `at` of another one; without `at`, from the newest published entry.
///
/// # Errors
/// See [`Runtime::fork`](crate::Runtime::fork). No session was made then.
pub(crate) async fn fork_now(
    shared: &Arc<Shared>,
    parent: &SessionId,
    at: Option<Seq>,
) -> Result<SessionId, OpenError> {
    let (parent, fork) = (parent.clone(), SessionId::new());
    let made = move |shared: &Shared| {
        let at = at.or_else(|| published(shared, &parent));
        let forked = shared.store.fork(&parent, at, &fork, shared.clock.now())?;
        must_be_published(shared, &parent, forked.seq, &fork)?;
        Ok(fork)
    };
    shared.blocking(made).await
}

/// Makes a fork as [`fork_now`] does, under the host's id, unless it exists already. Blocks on the disk.
///
/// # Errors
/// See [`Runtime::fork_as`](crate::Runtime::fork_as). No session was made then.
pub(crate) fn fork_now_as(
    shared: &Shared,
    parent: &SessionId,
    at: Option<Seq>,
    fork: &SessionId,
) -> Result<(), OpenError> {
    let newest = at.or_else(|| published(shared, parent));
    match shared.store.fork(parent, newest, fork, shared.clock.now()) {
        Err(TapeError::Exists { session }) if is_fork_of(&*shared.store, parent, at, &session)? => Ok(()),
        made => Ok(must_be_published(shared, parent, made?.seq, fork)?),
    }
}

/// Takes back and refuses a fork made a moment ago, if it is based on an entry that may still be cut back.
fn must_be_published(shared: &Shared, parent: &SessionId, at: Seq, fork: &SessionId) -> Result<(), TapeError> {
    if published(shared, parent).is_none_or(|upto| at <= upto) {
        return Ok(());
    }
    drop(shared.store.delete(fork));
    Err(TapeError::Busy { waiting: 1 })
}

/// Makes a fork at a point, unless it exists already; refuses a point that is not published yet. Blocks on the disk.
fn fork_published(shared: &Shared, parent: &SessionId, at: &Point, fork: &SessionId) -> Result<(), BranchError> {
    let (forked, made) = stand(&*shared.store, parent, at, fork, shared.clock.now())?;
    match made {
        Made::Now => Ok(must_be_published(shared, parent, forked.entry, fork)?),
        Made::Before => Ok(()),
    }
}

/// Makes a fork under an id that the host gave, or finds it made, and wakes it: one call at a time. It is never deleted here: if it
/// does not wake, the same call wakes it later.
pub(crate) async fn fork_named<E: From<OpenError> + Send + 'static>(
    shared: &Arc<Shared>,
    fork: &SessionId,
    make: impl FnOnce(&Shared) -> Result<(), E> + Send + 'static,
) -> Result<Session, E> {
    let slot = shared.slot(fork);
    let _one = slot.bringing_up().lock_owned().await;
    shared.blocking(make).await?;
    slot.up().await?;
    Ok(Session { shared: shared.clone(), slot })
}

/// Wakes a fork that was just made, under a generated id. If it does not wake, it is deleted again: no caller knows it. If that
/// fails too, it is left, and does nothing.
pub(crate) async fn wake_fork(shared: &Arc<Shared>, fork: SessionId) -> Result<Session, OpenError> {
    let session = Session { shared: shared.clone(), slot: shared.slot(&fork) };
    if let Err(error) = session.slot.up().await {
        drop(shared.blocking(move |shared| Ok::<_, OpenError>(shared.store.delete(&fork)?)).await);
        return Err(error);
    }
    Ok(session)
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
    let tools = shared.toolbox.files().unwrap_or_default();
    crate::ops::restore::hand_over(&*shared.store, &tools, fork, parent, files);
}

#[cfg(not(all(unix, feature = "tools")))]
fn hand_over(_: &Shared, _: &SessionId, _: &SessionId, _: &[crate::tool::FileChange]) {}
