//! The write path's file operations: the newest file of each tape, the bound on open files, the right of a caller to write in place
//! ([`OpenFiles::in_place`]), and the [`Disk`] under all of them.
//!
//! Before each write to an existing file, its length is compared with what this store wrote. A file that others made longer or
//! shorter, or deleted, is not written; a change that keeps the length is not noticed here. After a failed write, the file is cut
//! back to its last good byte, at once or before the next write. A new anchor appears with its first lines or not at all (a draft
//! folder, renamed).
//!
//! A change must keep: the bytes of all appends go through [`Disk`], where tests put a slow or failing disk; `length` moves on
//! only after a write (and its sync, where one was asked for) that succeeded. A writer holds its own `Log::file` when it locks
//! the list in [`OpenFiles`], so under that list any other `Log::file` is taken with `try_lock` only; a blocking lock could
//! deadlock two writers.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    StoreOptions, TapeError,
    changed::Changed,
    handle::Log,
    layout::{Layout, make_new_folder, open_or_make, sync_folder},
    queue::Append,
};
use crate::{lock::Lock, words::ids::Seq};

/// The disk is calm while each of the last eight writes took less than this.
const CALM: Duration = Duration::from_micros(200);

/// A disk that may be slow and may refuse.
pub(super) trait Disk: Send + Sync {
    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<File>;
    /// Opens a file, and makes it where it is missing.
    fn make(&self, path: &Path) -> io::Result<File>;
    /// The length of the file in bytes; `NotFound` if the file has been deleted since it was opened.
    fn length(&self, file: &File) -> io::Result<u64>;
    /// Writes all bytes at the offset. After an error any part of them may have been written.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file to this length, in bytes.
    fn cut(&self, file: &File, length: u64) -> io::Result<()>;
    /// Returns when the file's bytes survive a power cut.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Returns when the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> Result<(), TapeError> {
        sync_folder(path)
    }
    /// Whether a write that took so long makes the disk count as slow.
    fn is_slow(&self, took: Duration) -> bool {
        took >= CALM
    }
    /// Whether a write that has been under way for so long makes the disk count as standing still.
    fn is_stalled(&self, under_way: Duration) -> bool {
        under_way >= CALM
    }
}

/// The real disk.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        File::options().read(true).write(true).open(path)
    }

    fn make(&self, path: &Path) -> io::Result<File> {
        open_or_make(path)
    }

    fn length(&self, file: &File) -> io::Result<u64> {
        let seen = file.metadata()?;
        if seen.nlink() == 0 { Err(io::ErrorKind::NotFound.into()) } else { Ok(seen.len()) }
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        within_limit(offset.saturating_add(bytes.len() as u64))?;
        file.write_all_at(bytes, offset)
    }

    fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        within_limit(length)?;
        file.set_len(length)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// Whether this process may make a file that long (`ulimit -f`). The system does not refuse a write past the limit: it kills the
/// process, unless the host ignores that signal. So the limit is checked before each write; it may change at run time.
pub(super) fn within_limit(length: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| length > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(())
}

/// The newest file of a tape.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    /// The length of its good part, in bytes: the offset of the next append.
    pub(super) length: u64,
    /// The last entry that this handle wrote; 0 before the first.
    pub(super) last: Seq,
    /// The open file; `None` while [`OpenFiles`] has it closed.
    file: Option<File>,
    /// A write failed: bytes after `length` must be cut off before the next write.
    tail_is_dirty: bool,
}

impl LogFile {
    pub(super) fn new(path: PathBuf, length: u64) -> LogFile {
        LogFile { path, length, last: Seq::ZERO, file: None, tail_is_dirty: false }
    }

    /// Writes an append at the end. After an error the file is as before, or is cut back before the next write.
    fn write(&mut self, disk: &dyn Disk, append: &Append, sync: bool) -> Result<(), TapeError> {
        let Some(file) = &self.file else {
            return Err(TapeError::io("write", &self.path)(io::ErrorKind::NotFound.into()));
        };
        let path = &self.path;
        // An error's words are made if there is one.
        let result = (|| {
            let mut found = disk.length(file).map_err(|error| TapeError::io("look at", path)(error))?;
            if self.tail_is_dirty && found > self.length {
                disk.cut(file, self.length).map_err(TapeError::io("cut", path))?;
                found = self.length;
            }
            if found != self.length {
                return Err(TapeError::Changed { path: path.clone(), expected: self.length, found });
            }
            self.tail_is_dirty = true;
            disk.write_at(file, &append.bytes, self.length).map_err(|error| TapeError::io("write", path)(error))?;
            if sync {
                disk.sync(file).map_err(TapeError::io("sync", path))?;
            }
            Ok(())
        })();
        match result {
            Ok(()) => {
                self.tail_is_dirty = false;
                self.length += append.bytes.len() as u64;
                self.last = append.after.seq;
            }
            Err(TapeError::Changed { .. }) => self.file = None,
            Err(_) if self.tail_is_dirty && disk.cut(file, self.length).is_ok() => self.tail_is_dirty = false,
            Err(_) => {}
        }
        result
    }

    /// Makes the folder of a new anchor with its first lines, complete or not at all, and moves on to the new file.
    fn begin(&mut self, disk: &dyn Disk, folder: &Path, append: &Append, sync: bool) -> Result<(), TapeError> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let draft = folder.with_file_name(format!(".new-{name}"));
        let mut renamed = false;
        let made = (|| {
            let _ = std::fs::remove_dir_all(&draft);
            make_new_folder(&draft).map_err(TapeError::io("make", &draft))?;
            let path = draft.join("entries.jsonl");
            let file = disk.make(&path).map_err(TapeError::io("open", &path))?;
            disk.write_at(&file, &append.bytes, 0).map_err(TapeError::io("write", &path))?;
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
                let (length, last) = (append.bytes.len() as u64, append.after.seq);
                *self = LogFile { path, length, last, file: Some(file), tail_is_dirty: false };
                Ok(())
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(if renamed { folder } else { &draft });
                Err(error)
            }
        }
    }
}

/// The open session files of a store, and how the disk under them does. To open one more than `max`, the file written longest ago
/// is closed. Files that are being written at that moment are not closed, so these alone can be more than `max`.
pub(super) struct OpenFiles {
    max: usize,
    /// How many writes there were; stamps `Log::used`.
    writes: AtomicU64,
    open: Lock<Vec<Weak<Log>>>,
    disk: Arc<dyn Disk>,
    /// Which sessions were written since the index looked.
    pub(super) changed: Arc<Changed>,
    /// One bit for each of the last eight writes, set where the write was slow.
    pace: AtomicU8,
    /// The one write, or mark, that a caller is doing in place.
    in_place: UnderWay,
    /// The one write, mark or release that the I/O thread is doing.
    in_thread: UnderWay,
    #[cfg(feature = "fault-injection")]
    faults: crate::fault::Faults,
}

impl OpenFiles {
    pub(super) fn new(options: &StoreOptions, disk: Arc<dyn Disk>) -> OpenFiles {
        OpenFiles {
            max: options.open_files_max.max(1),
            writes: AtomicU64::new(0),
            open: Lock::new(Vec::new()),
            disk,
            changed: Arc::default(),
            pace: AtomicU8::new(0),
            in_place: UnderWay::default(),
            in_thread: UnderWay::default(),
            #[cfg(feature = "fault-injection")]
            faults: options.faults.clone(),
        }
    }

    /// The right to touch the disk in place, for as long as the guard is held. `None` leaves the work to the I/O thread: one of the
    /// last eight writes was slow, a write of the thread does not return, or another caller is writing in place. So a stalled
    /// disk blocks one caller at most, and not each of a host's few async workers in turn.
    pub(super) fn in_place(&self) -> Option<Began<'_>> {
        let is_calm = self.pace.load(Ordering::Relaxed) == 0 && !self.in_thread.is_stalled(&*self.disk);
        if is_calm { self.in_place.begin() } else { None }
    }

    /// The I/O thread begins an operation on the disk, until the guard is dropped.
    pub(super) fn in_thread(&self) -> Option<Began<'_>> {
        self.in_thread.begin()
    }

    /// Whether an operation on the disk, in place or of the thread, has been under way for too long.
    pub(super) fn is_stalled(&self) -> bool {
        self.in_place.is_stalled(&*self.disk) || self.in_thread.is_stalled(&*self.disk)
    }

    /// How many are open.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        let is_open = |log: &Arc<Log>| log.file.lock().file.is_some();
        self.open.lock().iter().filter_map(Weak::upgrade).filter(is_open).count()
    }

    /// Makes room for one more and counts `log` as open. A file that is being written at this moment is not closed.
    fn admit(&self, log: &Arc<Log>) {
        let mut open = self.open.lock();
        open.retain(|other| other.upgrade().is_some_and(|other| !Arc::ptr_eq(&other, log)));
        if open.len() >= self.max {
            open.sort_by_cached_key(|other| other.upgrade().map_or(0, |other| other.used.load(Ordering::Relaxed)));
            let can_be_closed = |other: &Weak<Log>| match other.upgrade() {
                Some(other) => other.file.try_lock().map(|mut file| file.file = None).is_some(),
                None => true,
            };
            if let Some(oldest) = open.iter().position(can_be_closed) {
                open.remove(oldest);
            }
        }
        open.push(Arc::downgrade(log));
    }

    /// Writes one append, to the end of the tape's file or as the first lines of a new anchor, and notes how long it took.
    pub(super) fn write(&self, layout: &Layout, log: &Arc<Log>, append: &Append, sync: bool) -> Result<(), TapeError> {
        fault!(self.faults, "tape.write", log.session.as_str());
        let started = Instant::now();
        let written = self.write_untimed(layout, log, append, sync);
        self.changed.note_append(&log.session, &log.noted);
        fault!(self.faults, "tape.written", log.session.as_str());
        let slow = u8::from(self.disk.is_slow(started.elapsed()));
        let _ = self.pace.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pace| Some(pace << 1 | slow));
        written
    }

    fn write_untimed(&self, layout: &Layout, log: &Arc<Log>, append: &Append, sync: bool) -> Result<(), TapeError> {
        let disk = &*self.disk;
        log.used.store(self.writes.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut file = log.file.lock();
        if let Some(anchor) = &append.begin {
            file.file = None;
            self.admit(log);
            return file.begin(disk, &layout.anchors(&log.session).join(anchor), append, sync);
        }
        if file.file.is_none() {
            self.admit(log);
            file.file = Some(disk.open(&file.path).map_err(TapeError::io("open", &file.path))?);
        }
        file.write(disk, append, sync)
    }
}

/// Whether an operation is under way on the disk, and since when.
#[derive(Default)]
struct UnderWay(Lock<Option<Instant>>);

/// An operation is under way on the disk until this is dropped.
pub(super) struct Began<'u>(&'u UnderWay);

impl UnderWay {
    /// Begins an operation; `None` while another one is under way. Does not wait.
    fn begin(&self) -> Option<Began<'_>> {
        let mut since = self.0.lock();
        if since.is_some() {
            return None;
        }
        *since = Some(Instant::now());
        Some(Began(self))
    }

    fn is_stalled(&self, disk: &dyn Disk) -> bool {
        self.0.lock().is_some_and(|since| disk.is_stalled(since.elapsed()))
    }
}

impl Drop for Began<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}
