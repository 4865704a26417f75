//! [`FileLocks`]: one writer for each existing file, among the file tools (`write`, `edit`) and restores that share this value.
//! Commands of `bash` and other processes take no lock here.
//!
//! An edit reads a file, changes the content and replaces the file, so two edits at once would lose one of them. A file that exists
//! is known by device and inode, so `a/../f`, a symlink and a hard link all wait for the same lock. A file that does not exist yet
//! is known by its path alone: two spellings of the path through links are two locks, and so are the path and the file once it is
//! made.
//!
//! A change must keep that a call takes one lock at most, and takes it before its gate (`tools/call.rs`): with two locks, two calls
//! could wait for each other for ever. Waiting blocks the thread and looks every [`LOOK_EVERY`] whether the call must stop. The
//! table holds only the files that are locked at this moment.

use std::{
    collections::HashSet,
    sync::{Arc, Condvar},
    time::Duration,
};

use crate::{
    lock::{Lock, unspoiled},
    tool::workspace::{Workspace, WorkspaceError, WorkspacePath},
};

/// How often a waiting call looks whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The file, or the place for a file, that a lock is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileKey {
    /// A file that exists, by its device and inode.
    Existing(u64, u64),
    /// A file that does not exist yet, by its path.
    New(std::path::PathBuf),
}

impl FileKey {
    /// The key of the file that a path leads to now.
    pub(crate) fn of(workspace: &Workspace, place: &WorkspacePath) -> Result<FileKey, WorkspaceError> {
        match workspace.info(place) {
            Ok(info) => {
                let (device, inode) = info.version.identity();
                Ok(FileKey::Existing(device, inode))
            }
            Err(WorkspaceError::NotFound { .. }) => Ok(FileKey::New(workspace.absolute(place))),
            Err(error) => Err(error),
        }
    }
}

/// The files that are locked at this moment. A clone shares them.
#[derive(Clone, Default)]
pub(crate) struct FileLocks(Arc<Table>);

#[derive(Default)]
struct Table {
    /// The files that are locked.
    held: Lock<HashSet<FileKey>>,
    /// Notified when a lock was dropped.
    freed: Condvar,
}

/// A lock on a file, held until it is dropped.
pub(crate) struct FileLock {
    table: Arc<Table>,
    key: FileKey,
}

impl FileLocks {
    /// Waits until no other call writes the file that a path leads to (or the path itself, if no file exists yet), and locks it.
    /// `None` if `stop` answers true first.
    pub(crate) fn take(
        &self,
        workspace: &Workspace,
        place: &WorkspacePath,
        stop: impl Fn() -> bool,
    ) -> Result<Option<FileLock>, WorkspaceError> {
        loop {
            let key = FileKey::of(workspace, place)?;
            let Some(lock) = self.lock(key.clone(), &stop) else { return Ok(None) };
            // The call that held the lock before may have put another file in its place.
            if FileKey::of(workspace, place)? == key {
                return Ok(Some(lock));
            }
        }
    }

    /// Waits until no other call writes this file, and locks it. `None` if `stop` answers true first.
    ///
    /// Waiting calls are not served in order: a call that came later may be served first.
    pub(crate) fn lock(&self, key: FileKey, stop: impl Fn() -> bool) -> Option<FileLock> {
        let mut held = self.0.held.lock();
        while held.contains(&key) {
            if stop() {
                return None;
            }
            let waited = self.0.freed.wait_timeout(held, LOOK_EVERY);
            held = unspoiled(waited).0;
        }
        if stop() {
            return None;
        }
        held.insert(key.clone());
        Some(FileLock { table: self.0.clone(), key })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.table.held.lock().remove(&self.key);
        self.table.freed.notify_all();
    }
}
