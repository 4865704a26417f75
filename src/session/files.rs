//! Commands on the files that a conversation changed: show the changes, and restore the files.

use std::sync::Arc;

use crate::{
    kernel::{RecordRestored, RestoredFiles},
    ops::restore::{self, Bench, FilePlan, Restore, RestoreError, Restored},
    session::Session,
    tool::Files,
    words::ids::Seq,
};

impl Session {
    /// The files that calls changed after that entry, and what putting them back would do: a plan with a diff. A turn's id is
    /// the entry that began it, so `changes(turn)` tells what that turn did, and all after it. Changes nothing.
    ///
    /// # Errors
    /// [`RestoreError::Open`] where the tape cannot be read; [`RestoreError::Workspace`].
    pub async fn changes(&self, since: Seq) -> Result<FilePlan, RestoreError> {
        let id = self.id().clone();
        self.host.blocking(move |host| restore::changes(&*host.store, &id, since)).await
    }

    /// Puts the files back that calls changed after that entry. The conversation is not told: what it has read of these files
    /// is out of date then, and an edit of such a file is refused until it was read again.
    ///
    /// Files are put back one by one, each whole, under the locks of the tools, and nothing that a plan of this moment does
    /// not name. What was replaced is kept first, and all is recorded as one entry: restoring to the entry before it is the
    /// undo. What could not be done (a full disk half-way) is in [`RestoredFiles::refused`](crate::kernel::RestoredFiles::refused); the same again does the rest.
    ///
    /// Dropping the future does not stop what was begun.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub async fn restore(&self, since: Seq, how: Restore) -> Result<Restored, RestoreError> {
        let files = self.host.toolbox.files().ok_or(RestoreError::NoFiles)?;
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
        // A task of its own: whoever stops waiting does not leave it half done.
        self.host.tasks.spawn_on(work, &self.host.tokio).await.map_err(|_| RestoreError::CutOff)?
    }

    /// Puts the files back. The next incarnation waits for this, and not for the answers to what follows, which it gives.
    pub(super) async fn put_back(
        &self,
        since: Seq,
        files: Files,
        how: Restore,
    ) -> Result<(Arc<RestoredFiles>, Bench), RestoreError> {
        let (host, id) = (self.host.clone(), self.id().clone());
        let done = self.slot.tasks().spawn_blocking(move || {
            let (plan, bench) = restore::prepare(&*host.store, &id, since, files)?;
            #[cfg(feature = "fault-injection")]
            let bench = bench.with_faults(host.store.faults());
            let done = restore::carry_out(plan, &bench, how)?;
            Ok((Arc::new(done), bench))
        });
        done.await.map_err(|_| RestoreError::CutOff)?
    }
}
