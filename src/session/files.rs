//! Commands on the files that a conversation changed: show the changes, and restore the files.
//!
//! A restore changes no file that its plan does not name, and keeps the present content of a file before it replaces it (with
//! [`Restore::Over`]: if the content can be kept). Then it is recorded as one entry; if that fails,
//! [`RestoreError::NotRecorded`] says so. It runs in its own task, so dropping the future does not stop it half-way. The model
//! does not learn that files changed.
//!
//! A change must keep this: the files are changed in one of the slot's tasks, so that the next incarnation (the next start of the
//! session's actor) waits for it. The recording that follows runs elsewhere, because the next incarnation may have to answer it.

use std::sync::Arc;

use crate::{
    kernel::{RecordRestored, RestoredFiles},
    ops::restore::{self, Bench, FilePlan, Restore, RestoreError, Restored},
    session::Session,
    tool::Files,
    words::ids::Seq,
};

impl Session {
    /// The files that calls changed after that entry, and what a restore would do to them: a plan with a diff. A turn's id is the
    /// entry that began the turn, so `changes(turn)` shows the changes of that turn and of everything after it. Changes nothing.
    ///
    /// # Errors
    /// [`RestoreError::Open`] if the tape cannot be read; [`RestoreError::Workspace`].
    pub async fn changes(&self, since: Seq) -> Result<FilePlan, RestoreError> {
        let id = self.id().clone();
        self.shared.blocking(move |shared| restore::changes(&*shared.store, &id, since)).await
    }

    /// Puts back the files that calls changed after that entry. The conversation does not learn of it: its earlier reads of these
    /// files are out of date, and an edit of such a file is refused until the file is read again.
    ///
    /// Files are put back one by one, each whole, under the locks of the tools; only files that a plan of this moment names are
    /// touched. Each old content is kept first, and the restore is recorded as one entry: to undo it, restore to the entry before.
    /// Files that could not be restored (a full disk half-way) are in
    /// [`RestoredFiles::refused`](crate::kernel::RestoredFiles::refused); the same call again restores the rest.
    ///
    /// Dropping the future does not stop a restore that has begun.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub async fn restore(&self, since: Seq, how: Restore) -> Result<Restored, RestoreError> {
        let files = self.shared.tools.now().toolbox.files().ok_or(RestoreError::NoFiles)?;
        if let Some(turn) = self.state().await?.turn {
            return Err(RestoreError::Busy { turn: turn.id });
        }
        let session = self.clone();
        let work = async move {
            let (files, _) = session.put_back(since, files, how).await?;
            match session.record(RecordRestored { files: files.clone() }).await {
                Ok(entry) => Ok(Restored { entry, files }),
                Err(source) => Err(RestoreError::NotRecorded { files, source }),
            }
        };
        // A separate task: a caller that drops the future does not leave the work half done.
        self.shared.tasks.spawn_on(work, &self.shared.tokio).await.map_err(|_| RestoreError::CutOff)?
    }

    /// Puts the files back in a task of the slot. The next incarnation waits for this task. It must not wait for the recording that
    /// follows, which it has to answer itself.
    pub(super) async fn put_back(
        &self,
        since: Seq,
        files: Files,
        how: Restore,
    ) -> Result<(Arc<RestoredFiles>, Bench), RestoreError> {
        let (shared, id) = (self.shared.clone(), self.id().clone());
        let done = self.slot.tasks().spawn_blocking(move || {
            let (plan, bench) = restore::prepare(&*shared.store, &id, since, files)?;
            #[cfg(feature = "fault-injection")]
            let bench = bench.with_faults(shared.store.faults());
            let done = restore::carry_out(plan, &bench, how)?;
            Ok((Arc::new(done), bench))
        });
        done.await.map_err(|_| RestoreError::CutOff)?
    }
}
