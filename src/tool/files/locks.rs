//! One writer per file among those who share a toolbox.
//!
//! An edit reads, changes and replaces; two at once would lose one of them. A file is known by what it is, not by how it is
//! spelled, so `a/../f`, a symlink and a hard link all wait for the same lock. The table is a value that the tools of one
//! toolbox share; it holds only the files that are being written.

use std::{
    collections::HashSet,
    sync::{Arc, Condvar},
    time::Duration,
};

use crate::{
    lock::{Lock, unspoiled},
    tool::workspace::{Workspace, WorkspaceError, WorkspacePath},
};

/// How long a waiting call goes without looking at whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a lock is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileKey {
    /// A file that exists, by its device and inode.
    Existing(u64, u64),
    /// A file that does not exist yet, by its path.
    New(std::path::PathBuf),
}

impl FileKey {
    /// The key of what a path leads to now.
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

/// The files that are being written at this moment.
#[derive(Clone, Default)]
pub(crate) struct FileLocks(Arc<Table>);

#[derive(Default)]
struct Table {
    held: Lock<HashSet<FileKey>>,
    freed: Condvar,
}

/// Holds a file until it is dropped.
pub(crate) struct FileLock {
    table: Arc<Table>,
    key: FileKey,
}

impl FileLocks {
    /// Waits until nobody else writes what a path leads to, or the path itself where nothing is there yet. `None` where
    /// `stop` says so first.
    pub(crate) fn take(
        &self,
        workspace: &Workspace,
        place: &WorkspacePath,
        stop: impl Fn() -> bool,
    ) -> Result<Option<FileLock>, WorkspaceError> {
        loop {
            let key = FileKey::of(workspace, place)?;
            let Some(lock) = self.lock(key.clone(), &stop) else { return Ok(None) };
            // Whoever held it before may have put another file in its place.
            if FileKey::of(workspace, place)? == key {
                return Ok(Some(lock));
            }
        }
    }

    /// Waits until nobody else writes this file. `None` where `stop` says so first.
    ///
    /// Who waits is not served in order; each waits for at most the writes that were there before it and some that came after.
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
