//! What a store keeps beside the tapes: folders for others, and the room that is kept for a full disk.

use super::{Store, upkeep::make_reserve};
use crate::tape::{TapeError, TapeStoreExt as _};

impl Store {
    /// Removes the outputs of all sessions that were kept too long or are too many, until `stop` says so. Blocks on the disk.
    /// Gives back how many; what cannot be looked at is passed over.
    pub fn tidy_spills(&self, retention: crate::tool::truncate::Retention, stop: impl Fn() -> bool) -> usize {
        let sessions = self.layout().all_session_ids().unwrap_or_default();
        let now = std::time::SystemTime::now();
        let folders = sessions.iter().take_while(|_| !stop()).filter_map(|session| self.spill_path(session));
        folders.filter_map(|folder| crate::tool::truncate::tidy_spills(&folder, now, retention).ok()).sum()
    }

    /// Gives the reserved room back to the disk, to close what is open when it is full. Says whether there was any.
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
    /// [`TapeError::Io`] while there is no room for it.
    pub fn remake_reserve(&self) -> Result<(), TapeError> {
        let owner = self.inner.writer.owner.lock();
        let owner = owner.as_ref().ok_or(TapeError::Closed)?;
        make_reserve(self.layout(), &owner.identity.owner, self.inner.writer.options.reserve_bytes)
    }
}
