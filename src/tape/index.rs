//! The index: a database for searches and lists. It is derived from the tapes, decides nothing, and can be deleted at any time.
//!
//! The index pulls. For each file of each tape it remembers up to which byte it has read, and reads on from there when it is asked
//! to [catch up](Index::catch_up). An append never writes to it and never waits for it. If a file is not what was read before (cut,
//! replaced, gone), its session is read again from the start. A crash leaves the index behind, never half-changed: each piece is
//! one transaction.
//!
//! A change may alter the tables freely (with a new `schema::VERSION`), because the index is not a stored format. It must keep:
//! every writer holds the lock on `index.lock`, and waits 5 s for it at most; a sound index can be read without that lock (a
//! search asks for it only to catch up first); no operation on a tape needs the index; a name from the database is parsed again,
//! and a hit is looked up in its file, before either is used. No type of `rusqlite` may leave this module. Everything here
//! blocks.

mod elsewhere;
mod labels;
mod pull;
mod query;
mod schema;
mod scrub;
mod search;
mod session_rows;
mod snippet;
mod tail;
mod text;
mod tokens;

use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{
    Store, TapeAccess, TapeError,
    changed::Changed,
    layout::{Layout, lock_within, open_or_make, remove_file},
};

pub(crate) use elsewhere::search_in;
pub use query::{BadCursor, Cursor, Order, Query};
pub use search::{Hit, Page};
pub(crate) use session_rows::{Fold, SessionRow, SessionRows};
pub use snippet::Snippet;

/// Overwrites deleted content instead of only freeing it: a session may have been deleted so that it cannot be read.
const SECURE_DELETE: &str = "pragma secure_delete = on";

/// How long to wait for another process that writes the index.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The index of a store. See [`Store::index`].
#[derive(Debug)]
pub struct Index {
    layout: Layout,
    path: PathBuf,
    /// Which sessions the store has changed, and the name of the store as an owner; `None` for one that is only read.
    changed: Option<(Arc<Changed>, String)>,
    database: Connection,
    /// The inode of the file that the connection has open. Another process may have put a new file in its place.
    inode: Option<u64>,
    /// The store was opened for reading only: the index is used as it is, and cannot catch up.
    only_reads: bool,
}

/// The outcome of catching up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CaughtUp {
    /// How many entries were added.
    pub added: u64,
    /// How many sessions were read again from the start, because their files are not what was read before.
    pub read_anew: u64,
    /// How many sessions were taken out, because they are gone.
    pub removed: u64,
    /// How many sessions have entries that were not read, because the time was over, or their files cannot be read.
    pub behind: u64,
}

/// How much is in the index. Two indexes of the same tapes are equal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Rows {
    /// How many entries.
    pub entries: u64,
    /// A hash over all columns of all entries, in the order of session and entry.
    pub digest: String,
}

/// The outcome of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Rebuilt {
    /// The rows of the old index after catching up; absent if it could not be read.
    pub before: Option<Rows>,
    /// The rows of the new index. If they differ from `before` and no session was written meanwhile, the old index was wrong.
    pub after: Rows,
}

impl Store {
    /// Opens the index of this store, and makes an empty one where it is missing, of an older version, or no sound database.
    ///
    /// # Errors
    ///
    /// [`TapeError::ReadingOnly`]; [`TapeError::Newer`] if a later version of this library made it; [`TapeError::Index`];
    /// [`TapeError::Io`].
    pub fn index(&self) -> Result<Index, TapeError> {
        if self.access() == TapeAccess::Read {
            return Err(TapeError::ReadingOnly);
        }
        self.index_to_search()
    }

    /// Whether a path is a file of this store's index.
    pub(crate) fn is_of_index(&self, path: &Path) -> bool {
        let name = path.strip_prefix(&self.layout().root).ok().and_then(Path::to_str);
        name.is_some_and(|name| name.starts_with("index."))
    }

    /// Opens the index for a search. An index of this version is opened without a lock, so a search does not wait for another
    /// process that writes it. A missing, older or broken one is rebuilt under the lock, unless the store is open for reading
    /// only.
    pub(crate) fn index_to_search(&self) -> Result<Index, TapeError> {
        let only_reads = self.access() == TapeAccess::Read;
        let layout = self.layout().clone();
        let path = layout.root.join("index.db");
        let database = match open_as_it_is(&path, only_reads) {
            Ok(Some(database)) => Ok(database),
            Ok(None) | Err(Failed::Corrupt(_)) if !only_reads => {
                let _lock = lock_index(&layout, BUSY_WAIT)?;
                let opened = match open(&path) {
                    Err(Failed::Corrupt(_)) => delete(&path).map_err(Failed::from).and_then(|()| open(&path)),
                    opened => opened,
                };
                fault!(self.faults(), "index.opened", "index");
                opened
            }
            Ok(None) => {
                let message = "there is none yet, or an older one; opening the store to write makes it".to_owned();
                return Err(TapeError::Index { op: "read", message, is_damaged: false });
            }
            Err(failed) => Err(failed),
        };
        let database = database.map_err(|failed| failed.into_error("open"))?;
        let owner = self.inner.writer.owner.lock().as_ref().map(|owner| owner.identity.owner.clone());
        let changed = owner.map(|owner| (self.inner.writer.files.changed.clone(), owner));
        Ok(Index { database, inode: inode(&path), layout, path, changed, only_reads })
    }
}

impl Index {
    /// Reads everything that was appended since the last time. A broken database is rebuilt.
    ///
    /// # Errors
    ///
    /// [`TapeError::Index`], also where another process writes the index for longer than 5 s; [`TapeError::Io`].
    pub fn catch_up(&mut self) -> Result<CaughtUp, TapeError> {
        self.catch_up_telling(&mut |_| {})
    }

    /// [`Index::catch_up`]; calls `told` with the progress after each piece that was read.
    ///
    /// # Errors
    ///
    /// As [`Index::catch_up`].
    pub fn catch_up_telling(&mut self, told: &mut dyn FnMut(&CaughtUp)) -> Result<CaughtUp, TapeError> {
        let lock = lock_index(&self.layout, BUSY_WAIT)?;
        self.write(&lock, &mut |database, layout| pull::pull_all(database, layout, None, told))
    }

    /// Brings the index up to date with `change`; of a store that is open for reading only, `look` says how much is behind. `None`
    /// if that cannot be done now, because another process writes the index or the disk is full; the index can still be read.
    fn bring<T>(
        &mut self,
        wait: Duration,
        look: impl FnOnce(&Connection, &Layout) -> Result<T, Failed>,
        change: &mut Change<'_, T>,
    ) -> Result<Option<T>, TapeError> {
        if self.only_reads {
            return look(&self.database, &self.layout).map(Some).map_err(|failed| failed.into_error("read"));
        }
        let brought = match try_lock_index(&self.layout, wait.min(BUSY_WAIT)) {
            Ok(Some(lock)) => self.write(&lock, change).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        brought.or_else(|error| if error.is_full() { Ok(None) } else { Err(error) })
    }

    /// Changes the index; the caller shows the lock that it holds. A broken database is rebuilt, and `change` runs once more.
    fn write<T>(&mut self, _lock: &File, change: &mut Change<'_, T>) -> Result<T, TapeError> {
        if self.only_reads {
            return Err(TapeError::ReadingOnly);
        }
        if self.inode != inode(&self.path) {
            self.database = open(&self.path).map_err(|failed| failed.into_error("open"))?;
            self.inode = inode(&self.path);
        }
        match change(&mut self.database, &self.layout) {
            Err(Failed::Corrupt(_)) => {
                self.make_anew()?;
                change(&mut self.database, &self.layout)
            }
            changed => changed,
        }
        .map_err(|failed| failed.into_error("write"))
    }

    /// Deletes it and reads all tapes again.
    ///
    /// # Errors
    ///
    /// As [`Index::catch_up`].
    pub fn rebuild(&mut self) -> Result<Rebuilt, TapeError> {
        self.rebuild_telling(&mut |_| {})
    }

    /// [`Index::rebuild`]; calls `told` with the progress after each piece that was read.
    ///
    /// # Errors
    ///
    /// As [`Index::catch_up`].
    pub fn rebuild_telling(&mut self, told: &mut dyn FnMut(&CaughtUp)) -> Result<Rebuilt, TapeError> {
        let before = self.catch_up().and_then(|_| self.rows()).ok();
        {
            let _lock = lock_index(&self.layout, BUSY_WAIT)?;
            self.make_anew()?;
        }
        self.catch_up_telling(told)?;
        Ok(Rebuilt { before, after: self.rows()? })
    }

    /// How much is in the index, as far as it has caught up.
    ///
    /// # Errors
    ///
    /// [`TapeError::Index`].
    pub fn rows(&self) -> Result<Rows, TapeError> {
        rows(&self.database).map_err(|failed| failed.into_error("read"))
    }

    fn make_anew(&mut self) -> Result<(), TapeError> {
        // The old connection must be gone before its files are.
        self.database = Connection::open_in_memory().map_err(|e| Failed::from(e).into_error("open"))?;
        delete(&self.path)?;
        fault!(self.layout.faults, "index.deleted", "index");
        self.database = open(&self.path).map_err(|failed| failed.into_error("make"))?;
        self.inode = inode(&self.path);
        Ok(())
    }
}

/// A change of the database. It runs once more where the database was broken, so it must not count on its first run.
type Change<'c, T> = dyn FnMut(&mut Connection, &Layout) -> Result<T, Failed> + 'c;

/// Why an operation on the index failed.
#[derive(Debug)]
enum Failed {
    /// The file is not a database, or a broken one: a rebuild helps.
    Corrupt(String),
    Database(String),
    Tape(TapeError),
}

impl Failed {
    /// Whether only the files of the current session could not be read. All other sessions can be read on.
    fn is_of_one_session(&self) -> bool {
        matches!(self, Failed::Tape(TapeError::Io { .. }))
    }

    fn into_error(self, op: &'static str) -> TapeError {
        match self {
            Failed::Corrupt(message) => TapeError::Index { op, message, is_damaged: true },
            Failed::Database(message) => TapeError::Index { op, message, is_damaged: false },
            Failed::Tape(error) => error,
        }
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Failed {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Failed::Corrupt(error.to_string()),
            // A damaged header may name a format that no version of SQLite reads. It has no separate code.
            _ if error.to_string().contains("unsupported file format") => Failed::Corrupt(error.to_string()),
            _ => Failed::Database(error.to_string()),
        }
    }
}

impl From<TapeError> for Failed {
    fn from(error: TapeError) -> Failed {
        Failed::Tape(error)
    }
}

fn inode(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|file| file.ino())
}

fn open(path: &Path) -> Result<Connection, Failed> {
    // Make the file here: the database would make it readable for other users.
    open_or_make(path).map_err(TapeError::io("open", path))?;
    let mut database = Connection::open(path)?;
    database.busy_timeout(BUSY_WAIT)?;
    database.execute_batch("pragma journal_mode = wal")?;
    prepare_to_write(&database)?;
    schema::make_tables(&mut database, path)?;
    Ok(database)
}

fn prepare_to_write(database: &Connection) -> Result<(), Failed> {
    // Recursive triggers: a row that is replaced must leave the search table too.
    database.execute_batch("pragma synchronous = normal; pragma recursive_triggers = on;")?;
    Ok(database.query_row(SECURE_DELETE, [], |_| Ok(()))?)
}

/// Opens a database of this version, without a lock of `index.lock` and without changing it. `None` if it is missing or older.
fn open_as_it_is(path: &Path, only_reads: bool) -> Result<Option<Connection>, Failed> {
    if !path.exists() {
        return Ok(None);
    }
    let access = if only_reads { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let database = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    database.busy_timeout(BUSY_WAIT)?;
    let version: i64 = database.query_row("pragma user_version", [], |row| row.get(0))?;
    match version.cmp(&schema::VERSION) {
        std::cmp::Ordering::Greater => Err(schema::newer(path, version)),
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => {
            if !only_reads {
                prepare_to_write(&database)?;
            }
            Ok(Some(database))
        }
    }
}

fn delete(path: &Path) -> Result<(), TapeError> {
    ["", "-wal", "-shm"].iter().try_for_each(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        remove_file(name.as_ref())
    })
}

/// Locks `index.lock` until the file is dropped; an error where another process has it for longer than `wait`.
fn lock_index(layout: &Layout, wait: Duration) -> Result<File, TapeError> {
    let taken = || TapeError::Index { op: "lock", message: "another process writes it".into(), is_damaged: false };
    try_lock_index(layout, wait)?.ok_or_else(taken)
}

/// As [`lock_index`]; `None` if another process has the lock for longer than `wait`.
fn try_lock_index(layout: &Layout, wait: Duration) -> Result<Option<File>, TapeError> {
    let path = layout.root.join("index.lock");
    let file = open_or_make(&path).map_err(TapeError::io("open", &path))?;
    let is_ours = lock_within(&file, wait).map_err(TapeError::io("lock", &path))?;
    Ok(is_ours.then_some(file))
}

fn rows(database: &Connection) -> Result<Rows, Failed> {
    let mut query = database.prepare(
        "select e.session, e.seq, e.kind, e.anchor, e.time, f.path, e.offset, e.length, e.text
         from entries e join files f on f.id = e.file order by e.session, e.seq",
    )?;
    let mut hasher = blake3::Hasher::new();
    let mut entries = 0;
    let mut found = query.query([])?;
    while let Some(row) = found.next()? {
        for column in 0..9 {
            let value = row.get_ref(column)?;
            match value.as_i64() {
                Ok(number) => hasher.update(&number.to_le_bytes()),
                Err(_) => {
                    let bytes = value.as_bytes().unwrap_or_default();
                    hasher.update(&bytes.len().to_le_bytes()).update(bytes)
                }
            };
        }
        entries += 1;
    }
    Ok(Rows { entries, digest: hasher.finalize().to_hex()[..32].to_owned() })
}

#[cfg(test)]
mod tests;
