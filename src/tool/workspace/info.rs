//! What the system says about a file ([`FileInfo`]): its kind, size, time, mode and number of names, and the [`Version`] by which a
//! change is noticed.
//!
//! Equal versions mean an unchanged file only as far as the time stamps of the file system show: two writes within one tick may
//! look like one. The text of [`Version::stamp`] is on tapes, and a restore compares it as a whole (`ops/restore/look.rs`). A
//! change must keep the layout of the text, because otherwise every file with an older stamp looks changed.

use std::{
    fmt,
    os::fd::AsFd,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{FileType, Stat};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// The system does not say.
    Unknown,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symbolic link",
            FileKind::Fifo => "named pipe",
            FileKind::Socket => "socket",
            FileKind::CharacterDevice => "character device",
            FileKind::BlockDevice => "block device",
            FileKind::Unknown => "unknown",
        })
    }
}

impl FileKind {
    pub(super) fn of(kind: FileType) -> FileKind {
        match kind {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Symlink,
            FileType::Fifo => FileKind::Fifo,
            FileType::Socket => FileKind::Socket,
            FileType::CharacterDevice => FileKind::CharacterDevice,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Unknown => FileKind::Unknown,
        }
    }
}

/// A file and its state. Two equal versions mean the same file with the same content, as far as its time stamps tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When the content was last changed: seconds and nanoseconds since 1970.
    modified: (i64, i64),
    /// When the content or the inode was last changed: seconds and nanoseconds since 1970.
    changed: (i64, i64),
}

impl Version {
    /// The identity of the file, with any name and content: device and inode. Good for a lock per file.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// When the file was last changed: its content, or its metadata (`ctime`). No program can set this time.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn changed(&self) -> SystemTime {
        system_time(self.changed)
    }

    /// The version as a text, to compare it with another of the same file.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn stamp(&self) -> String {
        let Version { device, inode, bytes, modified, changed } = self;
        format!("{device}:{inode}:{bytes}:{}.{}:{}.{}", modified.0, modified.1, changed.0, changed.1)
    }
}

/// What the system says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes. Some special files give more bytes than this says.
    pub bytes: u64,
    /// When its content was last changed.
    pub modified: SystemTime,
    /// Its permission bits, at most `0o7777`.
    pub mode: u32,
    /// How many names (hard links) it has.
    pub links: u64,
    /// The file and its state.
    pub version: Version,
}

impl FileInfo {
    pub(super) fn of(handle: impl AsFd) -> rustix::io::Result<FileInfo> {
        rustix::fs::fstat(handle).map(|stat| FileInfo::from_stat(&stat))
    }

    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        clippy::cast_lossless,
        reason = "the fields have other widths on other systems"
    )]
    pub(super) fn from_stat(stat: &Stat) -> FileInfo {
        let modified = (stat.st_mtime as i64, stat.st_mtime_nsec as i64);
        let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as i64);
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        FileInfo {
            kind: FileKind::of(FileType::from_raw_mode(stat.st_mode)),
            bytes,
            modified: system_time(modified),
            mode: stat.st_mode as u32 & 0o7777,
            links: stat.st_nlink as u64,
            version: Version { device: stat.st_dev as u64, inode: stat.st_ino as u64, bytes, modified, changed },
        }
    }
}

fn system_time((seconds, nanoseconds): (i64, i64)) -> SystemTime {
    let nanoseconds = Duration::from_nanos(nanoseconds.unsigned_abs());
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = if seconds >= 0 { UNIX_EPOCH.checked_add(whole) } else { UNIX_EPOCH.checked_sub(whole) };
    time.and_then(|time| time.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}
