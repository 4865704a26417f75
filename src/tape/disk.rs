//! The few things that the write path asks of a disk. One real answer; tests put a slow or failing one in its place.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::Duration,
};

use super::{
    TapeError,
    layout::{open_or_make, sync_folder},
};

/// The disk is calm while the last eight writes took less than this each.
const CALM: Duration = Duration::from_micros(200);

/// A disk that may be slow and may refuse.
pub(super) trait Disk: Send + Sync {
    /// Opens a file that is there.
    fn open(&self, path: &Path) -> io::Result<File>;
    /// Opens a file, and makes it where it is missing.
    fn make(&self, path: &Path) -> io::Result<File>;
    /// How long the file is; `NotFound` where it has been deleted since it was opened.
    fn length(&self, file: &File) -> io::Result<u64>;
    /// Writes all of it there. After an error any part of it may have been written.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file.
    fn cut(&self, file: &File, length: u64) -> io::Result<()>;
    /// Returns when the file's bytes survive a power cut.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Returns when the names in a folder survive a power cut.
    fn sync_folder(&self, path: &Path) -> Result<(), TapeError> {
        sync_folder(path)
    }
    /// Whether a write that took so long says that the disk is slow now.
    fn is_slow(&self, took: Duration) -> bool {
        took >= CALM
    }
    /// Whether a write that is under way for so long says that the disk stands still.
    fn is_stalled(&self, under_way: Duration) -> bool {
        under_way >= CALM
    }
}

/// The disk that there is.
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

/// Whether this process may make a file that long (`ulimit -f`). Who writes past the limit is not refused but killed, unless the
/// host ignores the signal of it; so it is looked at first, each time, because the limit may be changed while we run.
pub(super) fn within_limit(length: u64) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| length > limit) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(())
}
