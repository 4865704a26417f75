//! Whether a session stays: a removal and a protection of the same session agree on it.
//!
//! Both hold the folder of the sessions locked while they look and act. A removal therefore sees the protection, or the caller who
//! protects hears that the session is gone; never both, and never neither. The lock is the system's (`flock`), on the folder
//! itself: no file is made for it, and it ends with its holder, however that ends.

use std::{fs::File, io, time::Duration};

use super::Store;
use crate::{
    tape::{TapeError, layout::lock_within},
    words::ids::SessionId,
};

/// How long it is waited for another one, who has it for some file operations.
const WAIT: Duration = Duration::from_secs(10);

impl Store {
    /// Waits for others who decide about a session, 10 s at most; nobody else does until the file is dropped.
    /// [`TapeError::Missing`] where the session is not there by then.
    pub(super) fn decide(&self, session: &SessionId) -> Result<File, TapeError> {
        let path = self.layout().sessions();
        let folder = File::open(&path).map_err(TapeError::io("open", &path))?;
        match lock_within(&folder, WAIT) {
            Ok(true) => self.must_be_there(session).map(|()| folder),
            Ok(false) => Err(TapeError::io("lock", &path)(io::ErrorKind::TimedOut.into())),
            Err(error) => Err(TapeError::io("lock", &path)(error)),
        }
    }
}
