//! The writing end of one tape: which entries are on it, which are on their way, and the file they go to.
//!
//! A [`Log`] is shared by the tape's handle and the store's I/O thread. Its file is touched by one of them at a time:
//! by the handle while nothing is outstanding, by the I/O thread while something is.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    TapeError,
    disk::Disk,
    layout::{Layout, make_folder, make_new_folder, sync_folder},
    line::Chain,
    owner::Claim,
    queue::Wanted,
};
use crate::ids::{Seq, SessionId};

/// Told of every append that was answered [`Later`](crate::tape::Appended::Later), in the order of the appends.
///
/// Called by the store's I/O thread: it must be short, must not block and must not wait for the store.
pub type Notify = Arc<dyn Fn(Result<Seq, TapeError>) + Send + Sync>;

/// Told once a session was given back: from then on whoever wants it can claim it. Dropped without a call it says the same.
///
/// Called on any thread; it must be short, must not block and must not wait for the store.
pub type GivenBack = Box<dyn FnOnce() + Send>;

/// Locks, also after a panic: what is behind these locks is set in one go.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The writing end of one tape.
pub(super) struct Log {
    pub(super) session: SessionId,
    pub(super) notify: Notify,
    /// Locked over the disk by what is done in place.
    pub(super) state: Mutex<State>,
    /// The handle is gone, or the store was closed.
    pub(super) given_back: AtomicBool,
    pub(super) file: Mutex<LogFile>,
    /// When it was last written, counted in writes of the store.
    used: AtomicU64,
    /// Taken out when the tape is given back.
    pub(super) claim: Mutex<Option<Claim>>,
    /// Told behind that.
    pub(super) then: Mutex<Option<GivenBack>>,
}

/// What is known of a tape.
pub(super) struct State {
    /// Behind the last entry that was taken.
    pub(super) head: Chain,
    /// Behind the last entry that is on the tape.
    pub(super) good: Chain,
    /// Appends that were answered `Later` and not yet told.
    pub(super) outstanding: usize,
    /// Counts the failures. An append that was queued in an earlier run fails with the error that ended that run.
    pub(super) run: u64,
    /// A queued append failed and the caller has not started anew.
    pub(super) failed: bool,
    /// What ended the last run.
    pub(super) last_failure: Option<TapeError>,
    /// Why the mark of an open turn could not be made, until an append was told. One that comes only then would be taken for one
    /// that starts anew.
    pub(super) mark_failed: Option<TapeError>,
    /// Marks that wait for the store's thread, and the last of them where no append was queued behind it.
    pub(super) marks: usize,
    pub(super) mark: Option<Arc<Wanted>>,
    /// The folders of the tape's anchors, oldest first.
    pub(super) anchors: Vec<String>,
}

impl State {
    /// Notes that a queued append failed: all that was queued behind it fails as well.
    pub(super) fn fail(&mut self, error: &TapeError) {
        self.run += 1;
        self.failed = true;
        self.last_failure = Some(error.clone());
    }

    /// Notes that the mark of an open turn could not be made: what was queued behind it fails, or else what is appended next.
    pub(super) fn fail_mark(&mut self, error: &TapeError) {
        self.fail(error);
        self.mark_failed = Some(error.clone());
    }

    /// Goes on from what is on the tape.
    pub(super) fn start_anew(&mut self) {
        self.failed = false;
        self.head = self.good.clone();
        if let Some(n) = self.anchors.iter().position(|a| **a == *self.good.anchor) {
            self.anchors.truncate(n + 1);
        }
    }
}

impl Log {
    pub(super) fn new(
        session: &SessionId,
        notify: Notify,
        chain: Chain,
        anchors: Vec<String>,
        file: LogFile,
        claim: Claim,
    ) -> Log {
        let state = State {
            head: chain.clone(),
            good: chain,
            outstanding: 0,
            run: 0,
            failed: false,
            last_failure: None,
            mark_failed: None,
            marks: 0,
            mark: None,
            anchors,
        };
        Log {
            session: session.clone(),
            notify,
            state: Mutex::new(state),
            given_back: AtomicBool::new(false),
            file: Mutex::new(file),
            used: AtomicU64::new(0),
            claim: Mutex::new(Some(claim)),
            then: Mutex::new(None),
        }
    }

    /// Whether something of it is not written yet. Does not wait for what is being written.
    pub(super) fn is_on_its_way(&self) -> bool {
        !self.state.try_lock().is_ok_and(|state| state.outstanding == 0 && state.marks == 0)
    }
}

/// The newest file of a tape.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    /// Up to here it is good: the next append goes there.
    pub(super) length: u64,
    /// The last entry that was written by this handle.
    pub(super) last: Seq,
    file: Option<File>,
    /// A write began and did not end well: there may be bytes behind `length` that must be cut off first.
    tail_is_dirty: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, length: u64) -> LogFile {
        LogFile { path, length, last: Seq::ZERO, file: None, tail_is_dirty: false }
    }

    /// Writes at the end. After an error the file is as before, or will be cut back to it before the next write.
    fn write(&mut self, disk: &dyn Disk, bytes: &[u8], last: Seq, sync: bool) -> Result<(), TapeError> {
        let Some(file) = &self.file else {
            return Err(TapeError::io("write", &self.path)(io::ErrorKind::NotFound.into()));
        };
        let result = (|| {
            let mut found = disk.length(file).map_err(TapeError::io("look at", &self.path))?;
            if self.tail_is_dirty && found > self.length {
                disk.cut(file, self.length).map_err(TapeError::io("cut", &self.path))?;
                found = self.length;
            }
            if found != self.length {
                return Err(TapeError::Changed { path: self.path.clone(), expected: self.length, found });
            }
            self.tail_is_dirty = true;
            disk.write_at(file, bytes, self.length).map_err(TapeError::io("write", &self.path))?;
            if sync {
                disk.sync(file).map_err(TapeError::io("sync", &self.path))?;
            }
            Ok(())
        })();
        match result {
            Ok(()) => {
                self.tail_is_dirty = false;
                self.length += bytes.len() as u64;
                self.last = last;
            }
            Err(TapeError::Changed { .. }) => self.file = None,
            Err(_) if self.tail_is_dirty && disk.cut(file, self.length).is_ok() => self.tail_is_dirty = false,
            Err(_) => {}
        }
        result
    }

    /// Makes the folder of a new anchor with its first lines in it, complete or not at all, and goes on there.
    pub(super) fn begin(
        &mut self,
        disk: &dyn Disk,
        folder: &Path,
        bytes: &[u8],
        last: Seq,
        sync: bool,
    ) -> Result<(), TapeError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let draft = folder.with_file_name(format!(".new-{name}"));
        let mut renamed = false;
        let made = (|| {
            let _ = std::fs::remove_dir_all(&draft);
            make_new_folder(&draft).map_err(TapeError::io("make", &draft))?;
            let path = draft.join("entries.jsonl");
            let file = disk.make(&path).map_err(TapeError::io("open", &path))?;
            disk.write_at(&file, bytes, 0).map_err(TapeError::io("write", &path))?;
            if sync {
                disk.sync(&file).map_err(TapeError::io("sync", &path))?;
                sync_folder(&draft)?;
            }
            std::fs::rename(&draft, folder).map_err(TapeError::io("make", folder))?;
            renamed = true;
            if sync {
                folder.parent().map_or(Ok(()), sync_folder)?;
            }
            Ok(file)
        })();
        match made {
            Ok(file) => {
                let path = folder.join("entries.jsonl");
                *self = LogFile { path, length: bytes.len() as u64, last, file: Some(file), tail_is_dirty: false };
                Ok(())
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(if renamed { folder } else { &draft });
                Err(error)
            }
        }
    }
}

/// The session files that are open, at most so many across the store. The one written longest ago is closed for the next.
pub(super) struct OpenFiles {
    max: usize,
    writes: AtomicU64,
    open: Mutex<Vec<Weak<Log>>>,
}

impl OpenFiles {
    pub(super) fn new(max: usize) -> OpenFiles {
        OpenFiles { max: max.max(1), writes: AtomicU64::new(0), open: Mutex::new(Vec::new()) }
    }

    /// How many are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let is_open = |log: &Arc<Log>| lock(&log.file).file.is_some();
        lock(&self.open).iter().filter_map(Weak::upgrade).filter(is_open).count()
    }

    /// Makes room for one more and counts `log` as open. A file that is being written at this moment is not closed.
    fn admit(&self, log: &Arc<Log>) {
        let mut open = lock(&self.open);
        open.retain(|other| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, log)));
        while open.len() >= self.max {
            let mut oldest: Vec<(u64, usize)> = open
                .iter()
                .enumerate()
                .map(|(n, other)| (other.upgrade().map_or(0, |other| other.used.load(Ordering::Relaxed)), n))
                .collect();
            oldest.sort_unstable();
            let closed = oldest.into_iter().map(|(_, n)| n).find(|n| match open[*n].upgrade() {
                Some(other) => other.file.try_lock().map(|mut file| file.file = None).is_ok(),
                None => true,
            });
            let Some(closed) = closed else { break };
            open.swap_remove(closed);
        }
        open.push(Arc::downgrade(log));
    }

    /// Writes one append that ends with the entry `last`: to the end of the tape's file, or as the first lines of the anchor
    /// `begin`.
    #[allow(clippy::too_many_arguments, reason = "within the tape only, and each is a different type")]
    pub(super) fn write(
        &self,
        layout: &Layout,
        disk: &dyn Disk,
        log: &Arc<Log>,
        begin: Option<&str>,
        bytes: &[u8],
        last: Seq,
        sync: bool,
    ) -> Result<(), TapeError> {
        log.used.store(self.writes.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut file = lock(&log.file);
        if let Some(anchor) = begin {
            file.file = None;
            self.admit(log);
            return file.begin(disk, &layout.anchors(&log.session).join(anchor), bytes, last, sync);
        }
        if file.file.is_none() {
            self.admit(log);
            file.file = Some(disk.open(&file.path).map_err(TapeError::io("open", &file.path))?);
        }
        file.write(disk, bytes, last, sync)
    }
}

/// Makes the first anchor of a session where there is none.
pub(super) fn make_first_anchor(layout: &Layout, session: &SessionId, anchor: &str) -> Result<PathBuf, TapeError> {
    make_folder(&layout.anchors(session).join(anchor))?;
    let path = layout.entries(session, anchor);
    super::layout::open_or_make(&path).map_err(TapeError::io("make", &path))?;
    Ok(path)
}
