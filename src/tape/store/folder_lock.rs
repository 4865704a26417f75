//! Whether a session stays: a removal and a protection of the same session agree on it.
//!
//! Both hold the session's folder locked while they look and act. A removal therefore sees the protection, or the caller who
//! protects hears that the session is gone; never both, and never neither. The lock is the system's (`flock`), on the folder
//! itself: no file is made for it, and it ends with its holder, however that ends.

use std::{fs::File, io, os::unix::fs::MetadataExt as _, time::Duration};

use crate::{
    tape::{
        TapeError,
        layout::{Layout, lock_within},
    },
    words::ids::SessionId,
};

/// How long it is waited for another one, who has it for some file operations.
const WAIT: Duration = Duration::from_secs(10);

/// A session's folder, locked until this is dropped; also where it was moved away since.
#[derive(Debug)]
pub(super) struct FolderLock {
    _folder: File,
}

impl FolderLock {
    /// Waits for others who decide about this session, 10 s at most.
    ///
    /// # Errors
    /// [`TapeError::Missing`] where there is no such folder, by now; [`TapeError::Io`].
    pub(super) fn decide(layout: &Layout, session: &SessionId) -> Result<FolderLock, TapeError> {
        let path = layout.session(session);
        let failed = |op| TapeError::io(op, &path);
        let looked = |looked: io::Result<File>| match looked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(TapeError::Missing { session: session.clone() })
            }
            looked => looked.map_err(failed("open")),
        };
        loop {
            let folder = looked(File::open(&path))?;
            if !lock_within(&folder, WAIT).map_err(failed("lock"))? {
                return Err(failed("lock")(io::ErrorKind::TimedOut.into()));
            }
            // It may have been removed, and made anew, before it was ours.
            let there = looked(File::open(&path))?.metadata().map_err(failed("look at"))?;
            let ours = folder.metadata().map_err(failed("look at"))?;
            if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) {
                return Ok(FolderLock { _folder: folder });
            }
        }
    }
}
