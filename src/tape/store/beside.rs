//! The parts of a store of files next to its tapes: the large outputs (`spill/`), the room that is reserved for a full disk, and
//! what commit logs still have of sessions that were erased.
//!
//! A tape is whole without its outputs and without the reserve. The reserve belongs to this owner (this open store) and is freed
//! here when the disk is full; the smaller `spare` stays, and only a store that opens after this owner's death frees it.
//!
//! A change must keep: tidying removes outputs and never a tape, and does not make a session's folder, or a deleted session would
//! come back.

use super::{Store, upkeep::make_reserve};
use crate::{
    tape::{TapeError, TapeStoreExt as _, layout::read_bytes},
    words::ids::SessionId,
};

impl Store {
    /// Takes the bytes of sessions that this store has erased out of its commit log, if it has one. Blocks on the disk.
    pub(crate) fn forget_erased(&self) -> Result<(), TapeError> {
        self.inner.writer.forget_erased()
    }

    /// Whether the commit log of another owner names the session: it may have lines of it until that owner ends, or has written
    /// over them. Blocks on the disk.
    pub(crate) fn is_logged_elsewhere(&self, session: &SessionId) -> bool {
        let ours = self.inner.writer.owner().ok().map(|owner| self.layout().commit_log(&owner.identity.owner));
        let named = format!("\"session\":\"{session}\"").into_bytes();
        let logs = std::fs::read_dir(self.layout().commit()).into_iter().flatten().flatten().map(|file| file.path());
        let mut others = logs.filter(|path| Some(path) != ours.as_ref());
        others.any(|path| read_bytes(&path).is_ok_and(|log| memchr::memmem::find(&log, &named).is_some()))
    }

    /// Removes the large outputs that were kept too long or are too many, of all sessions, until `stop` returns true. Blocks on the
    /// disk. Returns how many were removed; folders that cannot be read are passed over.
    pub(crate) fn tidy_spills(&self, retention: crate::tool::truncate::Retention, stop: impl Fn() -> bool) -> usize {
        let sessions = self.layout().all_session_ids().unwrap_or_default();
        let now = std::time::SystemTime::now();
        let folders = sessions.iter().take_while(|_| !stop()).filter_map(|session| self.spill_path(session));
        folders.filter_map(|folder| crate::tool::truncate::tidy_spills(&folder, now, retention).ok()).sum()
    }

    /// Frees the reserved room on the full disk, so that open work can be ended. Returns whether there was a reserve.
    #[must_use]
    pub fn release_reserve(&self) -> bool {
        let owner = self.inner.writer.owner.lock();
        let path = owner.as_ref().map(|owner| self.layout().reserve(&owner.identity.owner));
        path.is_some_and(|path| std::fs::remove_file(path).is_ok())
    }

    /// Makes the reserve again where it is missing.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`] while the disk has no room for it.
    pub(crate) fn remake_reserve(&self) -> Result<(), TapeError> {
        let owner = self.inner.writer.owner.lock();
        let owner = owner.as_ref().ok_or(TapeError::Closed)?;
        make_reserve(self.layout(), &owner.identity.owner, self.inner.writer.options.reserve_bytes)
    }
}
