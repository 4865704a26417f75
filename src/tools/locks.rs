//! One writer per file among the calls that share a toolbox.
//!
//! An edit reads, changes and replaces; two at once would lose one of them. A file is known by what it is, not by how it is
//! spelled, so `a/../f`, a symlink and a hard link all wait for the same lock. The table is a value that the tools of one
//! toolbox share; it holds only the files that are being written.

use std::{
    collections::HashSet,
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::tool::ToolContext;

/// How long a waiting call goes without looking at whether it must stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a lock is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum FileKey {
    /// A file that exists, by its device and inode.
    Existing(u64, u64),
    /// A file that does not exist yet, by its path.
    New(std::path::PathBuf),
}

/// The files that calls are writing at this moment.
#[derive(Clone, Default)]
pub(super) struct Locks(Arc<Table>);

#[derive(Default)]
struct Table {
    held: Mutex<HashSet<FileKey>>,
    freed: Condvar,
}

/// Holds a file until it is dropped.
pub(super) struct FileLock {
    table: Arc<Table>,
    key: FileKey,
}

impl Locks {
    /// Waits until nobody else writes this file. `None` where the call must stop first.
    ///
    /// Who waits is not served in order; each waits for at most the writes that were there before it and some that came after.
    pub(super) fn lock(&self, key: FileKey, context: &ToolContext) -> Option<FileLock> {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.contains(&key) {
            if context.is_cancelled() {
                return None;
            }
            let waited = self.0.freed.wait_timeout(held, LOOK_EVERY);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if context.is_cancelled() {
            return None;
        }
        held.insert(key.clone());
        Some(FileLock { table: self.0.clone(), key })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.table.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        self.table.freed.notify_all();
    }
}
