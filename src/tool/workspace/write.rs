//! Writes a file in the workspace ([`Workspace::write`]): in one step where that is possible, so that a reader finds the old
//! content or the new one, and never outside of the workspace.
//!
//! The new content goes to a temporary file next to the target, which is then renamed over it. In two cases the file is written in
//! place, and a reader may find it half written ([`Written::atomic`] is false): it has several hard links, which a rename would
//! part; or it cannot be replaced, because its directory takes no new file, or because it is a mount. Nothing is synced to the
//! disk.
//!
//! Each try walks the path once, to the handle of the directory that holds the file (after links). From then on only single names
//! relative to that handle are used, so a link that is swapped in later is at most replaced, never followed. A change must keep
//! this. It must also compare the file with the expected version right before the rename: otherwise a change by another program
//! would be lost. (The expected version is that of the caller's last read or write in this runtime.)

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Write as _,
    os::fd::OwnedFd,
};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, openat, renameat, statat, unlinkat},
    io::Errno,
};

use crate::tool::workspace::{
    FileInfo, FileKind, Version, Workspace, WorkspaceError, WorkspacePath,
    walk::{Fault, LastLink, Located, Missing},
};

/// How many times a write is tried when the file is replaced between two looks at it.
const TRIES: usize = 32;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// Make the directories above it that are missing. True by default.
    pub create_parents: bool,
    /// Write only if the file is still in this state; otherwise [`WorkspaceError::Changed`]. The state is checked right before
    /// the new content replaces the old; a change in the microseconds between is not seen. `None` by default: write always.
    pub expect: Option<Version>,
    /// The permission bits of the file after the write. `None` by default: an old file keeps its own (a set-user-ID bit and its
    /// like may be lost), a new file has the usual.
    pub mode: Option<u32>,
}

impl WriteOptions {
    crate::words::setters::setters! {
        /// Sets whether missing [directories above](#structfield.create_parents) are made.
        create_parents: bool;
        /// Writes only over [this state](#structfield.expect).
        expect: Version = Some(expect);
        /// Sets the [permission bits](#structfield.mode).
        mode: u32 = Some(mode);
    }
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions { create_parents: true, expect: None, mode: None }
    }
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// Whether the file did not exist before.
    pub created: bool,
    /// Whether the new content took the old one's place in one step.
    pub atomic: bool,
    /// The file after the write, to expect in the next one.
    pub info: FileInfo,
}

/// Why one try did not succeed.
enum Stop {
    /// The file was replaced meanwhile: the write starts again.
    Again,
    Error(WorkspaceError),
}

/// How large a file this process may make, in bytes. The system kills a process that writes past this limit, unless the process
/// ignores the signal (SIGXFSZ), which only the host may choose.
pub(crate) fn file_size_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Fsize).current.unwrap_or(u64::MAX)
}

pub(super) fn write(
    workspace: &Workspace,
    path: &WorkspacePath,
    content: &[u8],
    options: &WriteOptions,
) -> Result<Written, WorkspaceError> {
    let missing = if options.create_parents { Missing::Create } else { Missing::Refuse };
    if content.len() as u64 > file_size_max() {
        return Err(workspace.fault(path, Fault::Os(Errno::FBIG)));
    }
    for _ in 0..TRIES {
        let (parent, name, stat) = match workspace.locate(path, LastLink::Follow, missing)? {
            Located::Directory(_) => return Err(WorkspaceError::IsDirectory { path: path.to_string() }),
            Located::Entry { parent, name, stat } => (parent, name, stat),
        };
        let target = Target { path, parent: &parent, name: &name, options };
        match target.write(content, stat) {
            Ok(written) => return Ok(written),
            Err(Stop::Again) => {}
            Err(Stop::Error(error)) => return Err(error),
        }
    }
    Err(workspace.fault(path, Fault::Os(Errno::AGAIN)))
}

/// The name in a directory for the written file.
struct Target<'a> {
    path: &'a WorkspacePath,
    parent: &'a OwnedFd,
    name: &'a OsStr,
    options: &'a WriteOptions,
}

impl Target<'_> {
    fn write(&self, content: &[u8], stat: Option<Stat>) -> Result<Written, Stop> {
        self.check(stat.as_ref())?;
        let Some(stat) = stat else { return self.create(content) };
        let info = FileInfo::from_stat(&stat);
        match info.kind {
            FileKind::File => {}
            FileKind::Directory => {
                return Err(Stop::Error(WorkspaceError::IsDirectory { path: self.path.to_string() }));
            }
            FileKind::Symlink => return Err(Stop::Again),
            kind => return Err(Stop::Error(WorkspaceError::NotRegular { path: self.path.to_string(), kind })),
        }
        let old = self.open_old(&info)?;
        // A rename would cut this name off from the file's other names.
        if info.links > 1
            && let Some(old) = old
        {
            return self.write_in_place(old, content);
        }
        match (self.replace(content, &stat), old) {
            // The directory takes no new file, or the file cannot be replaced (mounted over, or a sticky directory).
            (Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::XDEV), Some(old)) => {
                self.write_in_place(old, content)
            }
            (Err(Errno::STALE), _) => Err(self.changed()),
            (Err(errno), _) => Err(self.error(errno)),
            (Ok(info), _) => Ok(Written { created: false, atomic: true, info }),
        }
    }

    /// Opens the file to overwrite, to learn whether it may be. `None` for a program that is running.
    fn open_old(&self, info: &FileInfo) -> Result<Option<File>, Stop> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let old = match openat(self.parent, self.name, flags, Mode::empty()) {
            Ok(old) => old,
            Err(Errno::TXTBSY) => return Ok(None),
            Err(Errno::LOOP | Errno::NOENT | Errno::NXIO | Errno::ISDIR) => return Err(Stop::Again),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                return Err(Stop::Error(WorkspaceError::ReadOnly { path: self.path.to_string() }));
            }
            Err(errno) => return Err(self.error(errno)),
        };
        let now = FileInfo::of(&old).map_err(|errno| self.error(errno))?;
        match now.kind == FileKind::File && now.version.identity() == info.version.identity() {
            true => Ok(Some(File::from(old))),
            false => Err(Stop::Again),
        }
    }

    fn create(&self, content: &[u8]) -> Result<Written, Stop> {
        let write = || {
            let mut temporary = Temporary::create(self.parent, Mode::from_bits_truncate(0o666))?;
            temporary.fill(content)?;
            self.set_mode(&temporary.file)?;
            temporary.rename(self.name)?;
            // The rename sets the file's `ctime`, so the file is asked afterwards.
            FileInfo::of(&temporary.file)
        };
        let info = write().map_err(|errno| self.error(errno))?;
        Ok(Written { created: true, atomic: true, info })
    }

    /// Replaces the old file by a new one. `STALE` if the old file is not the expected one any more.
    fn replace(&self, content: &[u8], stat: &Stat) -> Result<FileInfo, Errno> {
        // Private until the file has the mode of the old one.
        let mut temporary = Temporary::create(self.parent, Mode::from_bits_truncate(0o600))?;
        temporary.fill(content)?;
        let new = rustix::fs::fstat(&temporary.file)?;
        if (new.st_uid, new.st_gid) != (stat.st_uid, stat.st_gid) {
            // Only root can change a file's owner. For any other user the file becomes the writer's own, as with any editor.
            let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            let _ = fchown(&temporary.file, Some(owner.0), Some(owner.1));
        }
        fchmod(&temporary.file, Mode::from_raw_mode(stat.st_mode & 0o777))?;
        self.set_mode(&temporary.file)?;
        let now = statat(self.parent, self.name, AtFlags::SYMLINK_NOFOLLOW).ok();
        if !self.is_expected(now.as_ref()) {
            return Err(Errno::STALE);
        }
        temporary.rename(self.name)?;
        FileInfo::of(&temporary.file)
    }

    fn write_in_place(&self, mut old: File, content: &[u8]) -> Result<Written, Stop> {
        let now = rustix::fs::fstat(&old).map_err(|errno| self.error(errno))?;
        self.check(Some(&now))?;
        // So a full disk is noticed before the old content is touched.
        #[cfg(target_os = "linux")]
        if !content.is_empty() {
            use rustix::fs::{FallocateFlags, fallocate};
            match fallocate(&old, FallocateFlags::KEEP_SIZE, 0, content.len() as u64) {
                Err(Errno::NOSPC) => return Err(self.error(Errno::NOSPC)),
                Err(Errno::DQUOT) => return Err(self.error(Errno::DQUOT)),
                _ => {}
            }
        }
        let io = |error: std::io::Error| Stop::Error(WorkspaceError::io(self.path.to_string(), &error));
        old.write_all(content).map_err(io)?;
        old.set_len(content.len() as u64).map_err(io)?;
        self.set_mode(&old).map_err(|errno| self.error(errno))?;
        let info = FileInfo::of(&old).map_err(|errno| self.error(errno))?;
        Ok(Written { created: false, atomic: false, info })
    }

    fn check(&self, stat: Option<&Stat>) -> Result<(), Stop> {
        if self.is_expected(stat) { Ok(()) } else { Err(self.changed()) }
    }

    fn is_expected(&self, stat: Option<&Stat>) -> bool {
        let expected = self.options.expect;
        expected.is_none_or(|version| stat.is_some_and(|stat| FileInfo::from_stat(stat).version == version))
    }

    fn set_mode(&self, file: &File) -> Result<(), Errno> {
        match self.options.mode {
            Some(mode) => fchmod(file, Mode::from_raw_mode(mode & 0o7777)),
            None => Ok(()),
        }
    }

    fn changed(&self) -> Stop {
        Stop::Error(WorkspaceError::Changed { path: self.path.to_string() })
    }

    fn error(&self, errno: Errno) -> Stop {
        Stop::Error(WorkspaceError::from_errno(self.path.to_string(), errno))
    }
}

/// A temporary file in the target's directory. A drop before the rename removes it.
struct Temporary<'a> {
    parent: &'a OwnedFd,
    name: OsString,
    file: File,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(parent: &'a OwnedFd, mode: Mode) -> Result<Temporary<'a>, Errno> {
        let random = crate::words::ids::new_uuid().simple().to_string();
        // The name does not contain the target's, which may be as long as names can be.
        let name = OsString::from(format!(".tamtam-{}.tmp", &random[16..]));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(parent, &name, flags, mode)?);
        Ok(Temporary { parent, name, file, renamed: false })
    }

    fn fill(&mut self, content: &[u8]) -> Result<(), Errno> {
        self.file.write_all(content).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    fn rename(&mut self, name: &OsStr) -> Result<(), Errno> {
        renameat(self.parent, &self.name, self.parent, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing more can be done about a file that cannot be removed.
            let _ = unlinkat(self.parent, &self.name, AtFlags::empty());
        }
    }
}
