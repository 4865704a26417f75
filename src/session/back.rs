//! Rollback, undo and redo: how a conversation goes back to a point, to before its newest message, and forward again.
//!
//! A rollback is one entry. It is worked out here from the tape, and the session takes the entry only if it decided nothing since.
//! So a rollback is recorded whole or not at all, even if the caller drops the future or the process dies. With a summary, the
//! tape gets one more entry before it: the ticket that reserves the summary's budget. The tape is read on a thread, never by the
//! session's actor, and nothing leaves the tape.
//!
//! A change must keep this: after a refusal, only a rollback without files and without a summary is worked out again, because
//! files and summary were made for the conversation as it was. Files are put back before the entry is written, because a file can
//! be refused, and an entry cannot be taken back.

#[cfg(all(unix, feature = "tools"))]
mod files;

use std::sync::Arc;

use crate::{
    actor::shared::Shared,
    error::{OpenError, SendError},
    hook::Operation,
    kernel::{
        Branch, BranchSummary, Entry, NoPoint, Point, Refusal, RestoredFiles, RollBack, RollbackTarget, RolledBack,
        State, look_back,
    },
    ops::taped,
    session::{BranchError, Session, context::Leaving, fork::TRIES_MAX},
    tape::{TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{MessageId, Seq, SessionId},
};

/// The result of a rollback, an undo or a redo.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Rollback {
    /// The entry that records the rollback.
    pub entry: Seq,
    /// The conversation is what it was when this entry was the newest.
    pub to: Seq,
    /// The host's messages that are no longer part of the conversation, oldest first.
    pub gone: Vec<MessageId>,
    /// The host's messages that are part of the conversation again, oldest first.
    pub again: Vec<MessageId>,
    /// The files that were put back; `None` if that was not asked for, or no file had to change.
    pub files: Option<Arc<RestoredFiles>>,
    /// Whether a summary of the abandoned part was recorded.
    pub summary: bool,
}

#[cfg(all(unix, feature = "tools"))]
pub use files::RollbackPlan;

/// What a rollback does besides the conversation. Nothing, by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RollbackOptions {
    #[cfg(all(unix, feature = "tools"))]
    files: Option<crate::ops::restore::Restore>,
    summary: bool,
}

impl RollbackOptions {
    /// Options for the conversation alone.
    #[must_use]
    pub fn new() -> RollbackOptions {
        RollbackOptions::default()
    }

    /// Puts the files that calls changed after the point back to what they were at the point. [`Session::plan_rollback`] shows
    /// beforehand what that would do.
    #[cfg(all(unix, feature = "tools"))]
    #[must_use]
    pub fn with_files(mut self, how: crate::ops::restore::Restore) -> RollbackOptions {
        self.files = Some(how);
        self
    }

    /// Summarizes what was said after the point, with the model of compactions. The summary precedes the next turn. If no model
    /// can write it, the beginnings of the abandoned messages replace it. If nothing is abandoned, nothing is added.
    #[must_use]
    pub fn with_summary(mut self) -> RollbackOptions {
        self.summary = true;
        self
    }
}

impl Session {
    /// Goes back to a point: from then on the model does not see what was said after it. Nothing leaves the tape, so the session
    /// can go to any other point later, even to one it went back from.
    ///
    /// Messages keep their receipts, turns their outcomes, and usage stays counted. Settings, grants and tasks do not change.
    /// Waiting messages stay, and are on hold until the next send or [`Session::go_on`]. Files are not touched. Dropping the
    /// future may or may not stop the rollback; it is never recorded in part.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs; [`Refusal::Moved`] if the session decided something in between, five times in a row;
    /// [`BranchError::NoPoint`] if the point does not exist.
    pub async fn rollback(&self, to: impl Into<Point>) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Point(to.into()), RollbackOptions::new()).await
    }

    /// Goes back to before the newest message of the host, and before the messages that were delivered together with it.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToUndo`].
    pub async fn undo(&self) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Undo, RollbackOptions::new()).await
    }

    /// Takes back the newest undo or rollback, as long as nothing was said since. There are as many redos in a row as there were
    /// undos and rollbacks.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`NoPoint::NothingToRedo`].
    pub async fn redo(&self) -> Result<Rollback, BranchError> {
        self.rollback_with(RollbackTarget::Redo, RollbackOptions::new()).await
    }

    /// Goes back or forward, and does what the options say: put files back, summarize the abandoned part.
    ///
    /// The rollback is one entry: the conversation goes back with everything that was asked for, or not at all. Files are put back
    /// before the entry is written, because files can be refused and a tape cannot be taken back. If the session refuses the
    /// entry (a message came meanwhile), the files are restored to what they were before. If the process dies in between, the files
    /// are back and the conversation is not; the same call again finds the files done and completes the rollback.
    ///
    /// # Errors
    /// As [`Session::rollback`], but a rollback with files or a summary is not tried again after [`Refusal::Moved`].
    /// `BranchError::Files` names the files that have to be refused, and nothing was done; or it is `RestoreError::Partly`: then it
    /// says how many files could not be restored to what they were.
    pub async fn rollback_with(
        &self,
        to: impl Into<RollbackTarget>,
        options: RollbackOptions,
    ) -> Result<Rollback, BranchError> {
        let wanted = to.into();
        self.allowed(Operation::Rollback).await.map_err(SendError::from)?;
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
        // Dropping `leaving` closes the summary's ticket, unless the recorded rollback has closed it.
        drop(leaving);
        done
    }

    /// Goes back with the conversation alone. If the session decides something in between, works the rollback out again, up to
    /// [`TRIES_MAX`] times.
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

    /// Works out the rollback from the present state.
    async fn way_back(&self, wanted: RollbackTarget) -> Result<(State, Arc<RolledBack>), BranchError> {
        let now = self.state().await?;
        if let Some(turn) = &now.turn {
            return Err(SendError::from(Refusal::Busy { turn: turn.id }).into());
        }
        let id = self.id().clone();
        let found = move |shared: &Shared| look(&*shared.store, &id, &now, &wanted).map(|back| (now, Arc::new(back)));
        self.shared.blocking(found).await
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

    /// Summarizes the abandoned part, if there is one. Also returns the rollback as it is once the summary's budget is reserved,
    /// because the reservation is an entry more.
    async fn what_is_left(
        &self,
        now: State,
        back: Arc<RolledBack>,
        wanted: RollbackTarget,
    ) -> Result<(Arc<RolledBack>, Option<Arc<BranchSummary>>, Option<Leaving>), BranchError> {
        let (id, upto) = (self.id().clone(), now.seq);
        let entries = self.shared.blocking(move |shared| read(&*shared.store, &id, Seq::ZERO, upto)).await?;
        let mut left = Branch::of(&entries, back.to);
        if left.items.is_empty() {
            return Ok((back, None, None));
        }
        let key = format!("{}/rollback/{}/{}", self.id(), left.from, left.to);
        let leaving = self.begin_leaving(&now, &left).await?;
        let back = match &leaving {
            // The ticket is one entry more. With any other entry in between, another conversation would be abandoned.
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

/// Works out from the tape what a rollback records. Blocks on the disk.
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

/// Searches a tape from the newest anchor on, then from older anchors, until `look` finds something. `look` gets the entry to read
/// after, and whether that is the whole tape. Blocks on the disk.
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
            // Four times as many anchors each time: a point far back must not cost one read for each anchor.
            None => anchors_read *= 4,
        }
    }
}

/// The entries after `after`, up to and including `upto`. Fails if the tape does not have them all.
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
