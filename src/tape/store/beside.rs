//! The parts of a store beside its tapes: the large outputs (`spill/`), and the room that is reserved for a full disk.
//!
//! A tape is whole without both. Tidying removes outputs and never a tape, and must not make a session's folder: a deleted session
//! would come back. The reserve belongs to this owner; the smaller `spare` is given up only by a store that opens after its death.

use super::{Store, upkeep::make_reserve};
use crate::tape::{TapeError, TapeStoreExt as _};

impl Store {
    /// Removes the large outputs that were kept too long or are too many, of all sessions, until `stop` returns true. Blocks on the
    /// disk. Returns how many were removed; folders that cannot be read are passed over.
    pub fn tidy_spills(&self, retention: crate::tool::truncate::Retention, stop: impl Fn() -> bool) -> usize {
        let sessions = self.layout().all_session_ids().unwrap_or_default();
        let now = std::time::SystemTime::now();
        let folders = sessions.iter().take_while(|_| !stop()).filter_map(|session| self.spill_path(session));
        folders.filter_map(|folder| crate::tool::truncate::tidy_spills(&folder, now, retention).ok()).sum()
    }

    /// Gives the reserved room back to the full disk, so that open work can be ended. Says whether there was a reserve.
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
