//! Rollback, undo and redo: to a point of a conversation, to before the newest message, and forward again.
//!
//! The tape is read here, on a thread of its own, and never by the session's actor. The result is one entry, and the session takes
//! it only if it decided nothing in between. A caller who drops the future, or dies, has therefore rolled back whole or not at all.

#[cfg(all(unix, feature = "tools"))]
mod files;

use std::sync::Arc;

use crate::{
    actor::host::Host,
    error::{OpenError, SendError},
    kernel::{
        Branch, BranchSummary, Entry, NoPoint, Point, Refusal, RestoredFiles, RollBack, RollbackTarget, RolledBack,
        State, look_back,
    },
    ops::taped,
    session::{BranchError, Session, context::Leaving, fork::TRIES_MAX},
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{MessageId, Seq, SessionId},
};

/// How a conversation went back, or forth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rollback {
    /// The entry that records it.
    pub entry: Seq,
    /// The conversation is what it was when this entry was the newest.
    pub to: Seq,
    /// Messages of the host that are no part of it any more, oldest first.
    pub gone: Vec<MessageId>,
    /// Messages of the host that are part of it again, oldest first.
    pub again: Vec<MessageId>,
    /// The files that went back too, where that was asked for and something was to be done.
    pub files: Option<Arc<RestoredFiles>>,
    /// Whether a summary of what was left went along.
    pub summary: bool,
}

#[cfg(all(unix, feature = "tools"))]
pub use files::RollbackPlan;

/// What goes along when a conversation goes back. Nothing, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollbackOptions {
    #[cfg(all(unix, feature = "tools"))]
    files: Option<crate::ops::restore::Restore>,
    summary: bool,
}

impl RollbackOptions {
    /// Nothing goes along.
    #[must_use]
    pub fn new() -> RollbackOptions {
        RollbackOptions::default()
    }

    /// The files that calls changed behind the point are put back to what they were there. [`Session::plan_rollback`] shows
    /// before what that would do.
    #[cfg(all(unix, feature = "tools"))]
    #[must_use]
    pub fn with_files(mut self, how: crate::ops::restore::Restore) -> RollbackOptions {
        self.files = Some(how);
        self
    }

    /// What was said behind the point is summed up, by the model that sums up, and stands in front of the next turn. Where no
    /// model can write it, the beginnings of what was said do. Nothing is added where nothing is left behind.
    #[must_use]
    pub fn with_summary(mut self) -> RollbackOptions {
        self.summary = true;
        self
    }
}

impl Session {
    /// Goes back to a point: the model knows nothing of what was said after it. Nothing leaves the tape, so another point, also
    /// one that was gone back from, can be gone to later.
    ///
    /// Messages keep their receipts, and turns their outcomes; what was used stays used; settings, grants and tasks stay as they
    /// are; messages that wait stay, and are held until the next send or [`Session::go_on`]. Files are not touched.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs; [`Refusal::Moved`] where something was decided in
    /// between; [`BranchError::NoPoint`].
    pub async fn rollback(&self, to: impl Into<Point>) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Point(to.into()), RollbackOptions::new()).await
    }

    /// Goes back to before the newest message of the host, and of those that were delivered together with it.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToUndo`].
    pub async fn undo(&self) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Undo, RollbackOptions::new()).await
    }

    /// Goes to where the newest undo or rollback came from, as long as nothing was said since. As many in a row as there were.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToRedo`].
    pub async fn redo(&self) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Redo, RollbackOptions::new()).await
    }

    /// Goes back, or forth, and takes along what the options say: files that are put back, a summary of what is left.
    ///
    /// It is one append: the conversation goes back with all that was asked for, or not at all. Files are put back before it is
    /// written, because they can be refused and a tape cannot be taken back. Where the session does not take the entry (a
    /// message came meanwhile), the files are put forth again. If the process dies in between, files are back and the
    /// conversation is not: the same again finds them done and completes it.
    ///
    /// # Errors
    /// As [`Session::rollback`]; `BranchError::Files` where a file has to be refused, by name, and nothing was done.
    pub async fn rollback_with(
        &self,
        to: impl Into<RollbackTarget>,
        options: RollbackOptions,
    ) -> Result<Rollback, BranchError> {
        let wanted = to.into();
        if options == RollbackOptions::new() {
            return self.go_back(wanted).await;
        }
        let (now, back) = self.way_back(wanted.clone()).await?;
        let (back, summary, leaving) = match options.summary {
            true => self.what_is_left(now, back, wanted).await?,
            false => (back, None, None),
        };
        #[cfg(all(unix, feature = "tools"))]
        if let Some(how) = options.files {
            let done = self.with_files(back, summary, how).await;
            drop(leaving);
            return done;
        }
        let done = self.record_rollback(back, None, summary).await;
        // The summary was handed in: its ticket is closed by now, or by this.
        drop(leaving);
        done
    }

    /// Goes back and takes nothing along. Where something comes to the tape in between it is worked out anew.
    async fn go_back(&self, wanted: RollbackTarget) -> Result<Rollback, BranchError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (_, back) = self.way_back(wanted.clone()).await?;
            match self.record_rollback(back, None, None).await {
                Err(BranchError::Session(SendError::Refused(Refusal::Moved { .. }))) if tries < TRIES_MAX => {}
                done => return done,
            }
        }
    }

    /// Works out where to, from the state as it is now.
    async fn way_back(&self, wanted: RollbackTarget) -> Result<(State, Arc<RolledBack>), BranchError> {
        let now = self.state().await?;
        if let Some(turn) = &now.turn {
            return Err(SendError::from(Refusal::Busy { turn: turn.id }).into());
        }
        let id = self.id().clone();
        let found = move |host: &Host| look(&*host.store, &id, &now, &wanted).map(|back| (now, Arc::new(back)));
        self.host.blocking(found).await
    }

    async fn record_rollback(
        &self,
        back: Arc<RolledBack>,
        files: Option<Arc<RestoredFiles>>,
        summary: Option<Arc<BranchSummary>>,
    ) -> Result<Rollback, BranchError> {
        let (recorded, put_back, has_summary) = (back.clone(), files.clone(), summary.is_some());
        let entry = self.record(RollBack { back: recorded, files: put_back, summary }).await?;
        let RolledBack { to, gone, again, .. } = Arc::unwrap_or_clone(back);
        Ok(Rollback { entry, to, gone, again, files, summary: has_summary })
    }

    /// What came of that which is left, where something is; and the way back as it is once what that takes is held back.
    async fn what_is_left(
        &self,
        now: State,
        back: Arc<RolledBack>,
        wanted: RollbackTarget,
    ) -> Result<(Arc<RolledBack>, Option<Arc<BranchSummary>>, Option<Leaving>), BranchError> {
        let (id, upto) = (self.id().clone(), now.seq);
        let entries = self.host.blocking(move |host| read(&*host.store, &id, Seq::ZERO, upto)).await?;
        let mut left = Branch::of(&entries, back.to);
        if left.items.is_empty() {
            return Ok((back, None, None));
        }
        let key = format!("{}/rollback/{}/{}", self.id(), left.from, left.to);
        let leaving = self.begin_leaving(&now, &left).await?;
        let back = match &leaving {
            // Its ticket is an entry more. Anything else in between, and it is another conversation that would be left.
            Some(leaving) => {
                let (then, again) = self.way_back(wanted).await?;
                if leaving.ticket != back.from.next() || then.seq != leaving.ticket || again.to != back.to {
                    let moved = Refusal::Moved { expected: back.from, actual: then.seq };
                    return Err(SendError::Refused(moved).into());
                }
                left.to = then.seq;
                again
            }
            None => back,
        };
        let summary = self.sum_up(&left, leaving.as_ref(), key).await;
        Ok((back, Some(Arc::new(summary)), leaving))
    }
}

/// Works out from the tape what a rollback records.
pub(super) fn look(
    store: &dyn TapeStore,
    session: &SessionId,
    now: &State,
    wanted: &RollbackTarget,
) -> Result<RolledBack, BranchError> {
    look_from_the_end(store, session, |after, is_all| {
        Ok(look_back(&read(store, session, after, now.seq)?, now, wanted, is_all)?)
    })
}

/// Looks for something behind the newest anchor, and further back until it is found. `look` is told behind which entry, and
/// whether that is all.
pub(super) fn look_from_the_end<T>(
    store: &dyn TapeStore,
    session: &SessionId,
    look: impl Fn(Seq, bool) -> Result<Option<T>, BranchError>,
) -> Result<T, BranchError> {
    let anchors = store.anchors(session)?;
    let mut anchors_read = 1;
    loop {
        let from = anchors.len().saturating_sub(anchors_read);
        let after = anchors.get(from).map_or(Seq::ZERO, |anchor| Seq(anchor.first.0.saturating_sub(1)));
        match look(after, from == 0)? {
            Some(found) => return Ok(found),
            None if from == 0 => return Err(NoPoint::Unreadable.into()),
            // More at a time, so that a point far back is not looked for once for each anchor.
            None => anchors_read *= 4,
        }
    }
}

/// The entries behind `after` through `upto`, which are on the tape by now.
pub(super) fn read(store: &dyn TapeStore, session: &SessionId, after: Seq, upto: Seq) -> Result<Vec<Entry>, OpenError> {
    if upto <= after {
        return Ok(Vec::new());
    }
    let lines = store.read(session, after)?;
    let last = lines.last().map_or(after, |line| line.seq);
    if last < upto {
        return Err(TapeError::NoEntry { session: session.clone(), seq: upto, last }.into());
    }
    taped::entries(session, lines.iter().take_while(|line| line.seq <= upto))
}
