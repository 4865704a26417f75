//! An open directory of a workspace: to list it, and to walk down from it without ever following a link.
//!
//! A [`Dir`] holds an open handle. Every operation works on that handle, so it stays in this very directory even if the directory
//! is renamed or replaced. A name must be a single component: a change must not take a path here, because the system would follow
//! the links in it. Opening never waits for the other end of a FIFO or for a device, but it blocks the thread while the disk works,
//! and so do the other operations.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, openat, statat},
    io::Errno,
};

use crate::tool::workspace::{FileInfo, FileKind, WorkspaceError, WorkspacePath};

/// An open directory of a workspace.
///
/// Its methods work in this very directory, also when it was renamed meanwhile. They take names, not paths, and follow no link.
#[derive(Debug)]
pub struct Dir {
    handle: OwnedFd,
    path: WorkspacePath,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirEntry {
    /// The name. Not always UTF-8.
    pub name: OsString,
    /// The kind of file, as the directory says. It is [`FileKind::Unknown`] if the directory does not say: ask [`Dir::info`].
    pub kind: FileKind,
}

impl Dir {
    pub(super) fn new(handle: OwnedFd, path: WorkspacePath) -> Dir {
        Dir { handle, path }
    }

    /// The path of the directory when it was opened, without links.
    #[must_use]
    pub fn path(&self) -> &WorkspacePath {
        &self.path
    }

    /// The identity of the directory under any name: device and inode.
    #[cfg(feature = "agent-files")]
    pub(crate) fn identity(&self) -> Result<(u64, u64), WorkspaceError> {
        let info = FileInfo::of(&self.handle);
        let info = info.map_err(|errno| WorkspaceError::from_errno(self.path.to_string(), errno))?;
        Ok(info.version.identity())
    }

    /// Lists the directory, in the order of the disk, without `.` and `..`. A million entries take as little memory as one.
    pub fn entries(&self) -> Result<DirEntries, WorkspaceError> {
        let read = rustix::fs::Dir::read_from(&self.handle);
        let inner = read.map_err(|errno| WorkspaceError::from_errno(self.path.to_string(), errno))?;
        Ok(DirEntries { inner, path: self.path.clone() })
    }

    /// What the system says about the file of this name; for a link about the link itself.
    pub fn info(&self, name: &OsStr) -> Result<FileInfo, WorkspaceError> {
        let path = self.child(name)?;
        let stat = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map(|stat| FileInfo::from_stat(&stat)).map_err(|errno| WorkspaceError::from_errno(path.to_string(), errno))
    }

    /// Opens the directory of this name. A link is refused as "not a directory".
    pub fn open_dir(&self, name: &OsStr) -> Result<Dir, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let (handle, path) = self.open(name, flags)?;
        Ok(Dir::new(handle, path))
    }

    /// Opens the regular file of this name to read. A link is refused as "not a regular file". Never waits for the other end of a
    /// FIFO.
    pub fn open_read(&self, name: &OsStr) -> Result<(File, FileInfo), WorkspaceError> {
        let (handle, path) = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        regular(handle, &path)
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> Result<(OwnedFd, WorkspacePath), WorkspaceError> {
        let path = self.child(name)?;
        let special = |kind| WorkspaceError::NotRegular { path: path.to_string(), kind };
        match openat(&self.handle, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(handle) => Ok((handle, path)),
            Err(Errno::LOOP) => Err(special(FileKind::Symlink)),
            Err(Errno::NXIO | Errno::NODEV) => Err(special(FileKind::Socket)),
            Err(errno) => Err(WorkspaceError::from_errno(path.to_string(), errno)),
        }
    }

    fn child(&self, name: &OsStr) -> Result<WorkspacePath, WorkspaceError> {
        let bad = || WorkspaceError::BadPath {
            path: name.to_string_lossy().chars().take(200).collect(),
            why: "it must be one name, not a path",
        };
        self.path.child(name).ok_or_else(bad)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// The names in a directory.
#[derive(Debug)]
pub struct DirEntries {
    inner: rustix::fs::Dir,
    path: WorkspacePath,
}

impl Iterator for DirEntries {
    type Item = Result<DirEntry, WorkspaceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entry = match self.inner.read()? {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(WorkspaceError::from_errno(self.path.to_string(), errno))),
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let name = OsStr::from_bytes(name).to_owned();
                return Some(Ok(DirEntry { name, kind: FileKind::of(entry.file_type()) }));
            }
        }
    }
}

/// Takes an open handle as a regular file, or returns its kind.
pub(super) fn regular(handle: OwnedFd, path: &WorkspacePath) -> Result<(File, FileInfo), WorkspaceError> {
    let info = FileInfo::of(&handle).map_err(|errno| WorkspaceError::from_errno(path.to_string(), errno))?;
    match info.kind {
        FileKind::File => Ok((File::from(handle), info)),
        FileKind::Directory => Err(WorkspaceError::IsDirectory { path: path.to_string() }),
        kind => Err(WorkspaceError::NotRegular { path: path.to_string(), kind }),
    }
}
