//! Puts files back together with a conversation: shows the plan, puts the files back, and records files and rollback as one entry.
//!
//! If the session refuses the rollback, the files are restored to what they were before. A file that cannot be restored is
//! counted in [`RestoreError::Partly`]. The work runs in its own task, so dropping the future does not leave it half done.
//!
//! A change must keep the order: files first, then the entry, because a file can be refused, and an entry cannot be taken back.
//! After [`SendError::Unsettled`] the files are left as the rollback wants them, because the tape may have the entry.

use std::sync::Arc;

use crate::{
    error::SendError,
    kernel::{BranchSummary, RecordRestored, RestoredFiles, RollbackTarget, RolledBack},
    ops::restore::{self, Bench, FilePlan, Restore, RestoreError},
    session::{BranchError, Rollback, Session},
    words::ids::{MessageId, Seq},
};

/// What a rollback would do, files included. Nothing was done.
#[derive(Clone, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct RollbackPlan {
    /// The conversation would be what it was when this entry was the newest.
    pub to: Seq,
    /// The host's messages that would no longer be part of the conversation, oldest first.
    pub gone: Vec<MessageId>,
    /// The host's messages that would be part of the conversation again, oldest first.
    pub again: Vec<MessageId>,
    /// What would be done to each file. Its `Display` form has a diff.
    pub files: FilePlan,
}

impl Session {
    /// Shows what a rollback would do to the conversation and to the files that calls changed after the point: a plan with a diff.
    /// Changes nothing.
    ///
    /// # Errors
    /// As [`Session::rollback`]; [`BranchError::Files`] if the workspace cannot be read.
    pub async fn plan_rollback(&self, to: impl Into<RollbackTarget>) -> Result<RollbackPlan, BranchError> {
        let (_, back) = self.way_back(to.into()).await?;
        let files = self.changes(back.to).await?;
        let RolledBack { to, gone, again, .. } = Arc::unwrap_or_clone(back);
        Ok(RollbackPlan { to, gone, again, files })
    }

    /// Puts the files back and records that with the rollback.
    pub(super) async fn with_files(
        &self,
        back: Arc<RolledBack>,
        summary: Option<Arc<BranchSummary>>,
        how: Restore,
    ) -> Result<Rollback, BranchError> {
        let session = self.clone();
        // A separate task: a caller that drops the future does not leave the work half done.
        let work = async move { session.put_back_and_record(back, summary, how).await };
        self.shared
            .tasks
            .spawn_on(work, &self.shared.tokio)
            .await
            .map_err(|_| BranchError::from(RestoreError::CutOff))?
    }

    async fn put_back_and_record(
        &self,
        back: Arc<RolledBack>,
        summary: Option<Arc<BranchSummary>>,
        how: Restore,
    ) -> Result<Rollback, BranchError> {
        let tools = self.shared.tools.now().toolbox.files().ok_or(RestoreError::NoFiles)?;
        let (done, bench) = self.put_back(back.to, tools, how).await?;
        if how == Restore::Whole && !done.refused.is_empty() {
            // A file failed on the way: the disk is full, or the file was written at that moment.
            let left = self.put_forth(&done, back.from, bench).await;
            return Err(RestoreError::Partly { files: done, left }.into());
        }
        fault!(self.shared.store.faults(), "back.files", self.id().as_str());
        let from = back.from;
        let files = (!done.files.is_empty() || !done.refused.is_empty()).then(|| done.clone());
        match self.record_rollback(back, files, summary).await {
            // The session refused: the entry is not on the tape, and will not be.
            Err(BranchError::Session(error)) if !matches!(error, SendError::Unsettled { .. }) => {
                let left = self.put_forth(&done, from, bench).await;
                if left == 0 { Err(error.into()) } else { Err(RestoreError::Partly { files: done, left }.into()) }
            }
            recorded => recorded,
        }
    }

    /// Undoes the restore, because the conversation does not go back, and records both. Returns how many files could not be undone.
    async fn put_forth(&self, done: &Arc<RestoredFiles>, from: Seq, bench: Bench) -> usize {
        if done.files.is_empty() {
            return 0;
        }
        let files = done.clone();
        let forth = self.slot.tasks().spawn_blocking(move || restore::take_back(&files, from, bench)).await;
        let Ok(forth) = forth else { return done.files.len() };
        let left = forth.refused.len();
        for files in [done.clone(), Arc::new(forth)] {
            // If this cannot be recorded, the notes next to the tape still have it.
            drop(self.ask(RecordRestored { files }).await);
        }
        left
    }
}
