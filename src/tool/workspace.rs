//! The folder that a session works in, and paths that cannot leave it.
//!
//! A [`Workspace`] holds an open handle of each of its roots: the folder itself, folders that may only be read, and places outside
//! that one call was allowed to reach. Every operation on a [`WorkspacePath`] walks from the handle of the path's root, component
//! by component, and lets the system follow no link (see `walk`). So there is no moment between a check and a use in which a link
//! could be swapped in. A change must not hand the system a path of more than one component beneath a root.
//!
//! Guaranteed: nothing outside of the roots is opened, created, changed, listed or deleted, whatever else runs. A link that stays
//! beneath its root works, also an absolute one; a link that leads out of its root is refused, and so is a path that leads out by
//! `..`. Beneath a root that allows one single path, every link is refused. Opening a FIFO, a device or a socket answers with an
//! error and does not wait for the other side.
//!
//! Not guaranteed: that no other program changes the files inside; anything about a folder that is moved out of the workspace
//! while it is in use (to move it takes rights outside); and anything about a file that has a second name (hard link) outside: a
//! write changes it under both names.
//!
//! The operations block on the disk: call them from [`blocking`](crate::tool::blocking) code.

mod dir;
mod error;
mod granted;
mod info;
mod path;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::{
    fs::File,
    io::Read as _,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use crate::tool::ToolContext;

pub use dir::{Dir, DirEntries, DirEntry};
pub use error::WorkspaceError;
pub use info::{FileInfo, FileKind, Version};
pub use path::WorkspacePath;
pub(crate) use write::file_size_max;
pub use write::{WriteOptions, Written};

use walk::{Fault, LastLink, Located, Missing};

/// The folder that a session works in. Cheap to clone.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use tamtam::tool::{Workspace, WriteOptions};
/// let workspace = Workspace::open(folder.path())?;
/// let path = workspace.resolve("notes/today.txt")?;
/// workspace.write(&path, b"one line", &WriteOptions::default())?;
/// assert_eq!(workspace.read(&path, 1_000)?.0, b"one line");
/// assert!(workspace.resolve("../elsewhere").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The workspace first, then the folders that may only be read, then the places outside that this call may reach.
    roots: Vec<Arc<Root>>,
    /// Paths outside that were allowed but go through a link, each with the path that it leads to.
    linked: Vec<(PathBuf, PathBuf)>,
    /// The folder that `~` means; `None` if the host did not name one.
    home: Option<PathBuf>,
}

/// A folder with its open handle, or one place in a folder (see [`Reach`]).
#[derive(Debug)]
struct Root {
    handle: OwnedFd,
    /// The path as it was given, without `.` and `..`.
    path: PathBuf,
    /// The path with all links resolved, looked up when it is first asked for: few paths are given in that spelling.
    real: OnceLock<PathBuf>,
    read_only: bool,
    reach: Reach,
}

/// The places beneath a root that may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    /// Every place, also through links that stay inside.
    All,
    /// This one relative path, and through no link.
    Only(PathBuf),
}

impl Root {
    fn open(path: &Path, read_only: bool) -> Result<Root, WorkspaceError> {
        let shown = || path.display().to_string();
        if !path.is_absolute() {
            return Err(WorkspaceError::BadPath { path: shown(), why: "the folder must be an absolute path" });
        }
        let flags = walk::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let handle = handle.map_err(|errno| WorkspaceError::from_errno(shown(), errno))?;
        Ok(Root { handle, path: path::collapse(path), real: OnceLock::new(), read_only, reach: Reach::All })
    }

    /// The two spellings by which this folder is known, most often one and the same: as it was given, and without links. The second
    /// one is looked up only when the first does not fit.
    fn spellings(&self) -> impl Iterator<Item = &Path> {
        let real = || self.real.get_or_init(|| std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()));
        std::iter::once(self.path.as_path()).chain(std::iter::once_with(move || real().as_path()))
    }
}

impl Workspace {
    /// Opens a folder, which must exist and be named by an absolute path.
    pub fn open(root: &Path) -> Result<Workspace, WorkspaceError> {
        Ok(Workspace { roots: vec![Arc::new(Root::open(root, false)?)], linked: Vec::new(), home: None })
    }

    /// Opens the folder that holds a file of the user's own, through any links, and returns the path of the file in it. Such
    /// files are often links into another folder.
    #[cfg(any(feature = "agent-files", all(unix, feature = "tools")))]
    pub(crate) fn behind_links(path: &Path) -> Result<(Workspace, WorkspacePath), WorkspaceError> {
        let fault = |source: std::io::Error| {
            let path = path.display().to_string();
            match source.kind() {
                std::io::ErrorKind::NotFound => WorkspaceError::NotFound { path },
                _ => WorkspaceError::Io { path, source },
            }
        };
        let real = path.canonicalize().map_err(fault)?;
        let (Some(folder), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(WorkspaceError::IsDirectory { path: path.display().to_string() });
        };
        let folder = Workspace::open(folder)?;
        let file = folder.beneath(Path::new(name));
        let file = file.ok_or_else(|| WorkspaceError::NotFound { path: path.display().to_string() })?;
        Ok((folder, file))
    }

    /// Opens the workspace of a call. It has the session's large outputs as a folder that may be read, if that exists by now, and
    /// the places outside that the call was [allowed](ToolContext::external) to reach.
    pub fn for_call(context: &ToolContext) -> Result<Workspace, WorkspaceError> {
        let mut workspace = Workspace::open(&context.workspace)?;
        for (told, copies) in context.outputs.iter().flat_map(|outputs| outputs.fetched()) {
            let copies = Root::open(&copies, true)?;
            workspace.roots.push(Arc::new(Root { path: told, ..copies }));
        }
        let workspace = workspace.with_external(&context.external);
        let Some(spill) = &context.spill else { return Ok(workspace) };
        match workspace.clone().with_read_only(spill) {
            Err(WorkspaceError::NotFound { .. }) => Ok(workspace),
            with_spill => with_spill,
        }
    }

    /// The same workspace with one more folder, which may be read and listed but never changed.
    pub fn with_read_only(mut self, folder: &Path) -> Result<Workspace, WorkspaceError> {
        self.roots.push(Arc::new(Root::open(folder, true)?));
        Ok(self)
    }

    /// The same workspace with places outside of it that may be reached: each path a folder with all beneath it, or one
    /// file. A path that goes through a link is refused when it is used, and the refusal names where it leads to.
    #[must_use]
    pub fn with_external(mut self, paths: &[PathBuf]) -> Workspace {
        for path in paths {
            match granted::open(path) {
                Ok(granted::Opened::Root(root)) => self.roots.push(Arc::new(root)),
                Ok(granted::Opened::ThroughLink { real }) => self.linked.push((path::collapse(path), real)),
                // A place that cannot be opened is refused as outside, as if it had not been allowed.
                Err(_) => {}
            }
        }
        self
    }

    /// The same workspace, in which `~` means the folder `home`. Paths outside are still refused.
    #[must_use]
    pub fn with_home(mut self, home: PathBuf) -> Workspace {
        self.home = Some(home);
        self
    }

    /// The folder, as it was given.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.roots[0].path
    }

    /// Turns a path that a model wrote into a path inside. Does not look for the file, which need not exist; for a path outside of
    /// the workspace as it was given, the real paths of the folders may be looked up.
    ///
    /// Relative paths start at the workspace; every path must lie in it, in a folder that may be read, or at a place outside that
    /// may be reached; `~` and `~/…` need a home. `.` and `..` are collapsed as text. One leading `@` is dropped, and Unicode
    /// spaces become plain ones.
    pub fn resolve(&self, given: &str) -> Result<WorkspacePath, WorkspaceError> {
        self.resolve_as_written(&path::tidy(given))
    }

    /// Like [`Workspace::resolve`], for a file that should be there. Of the spellings that the model may have meant (as written,
    /// tidied, with the narrow space before AM and PM, with a typographic apostrophe) the first one that exists is taken, or the
    /// tidied one if none exists.
    pub fn resolve_existing(&self, given: &str) -> Result<WorkspacePath, WorkspaceError> {
        let exists = |path: &WorkspacePath| self.link_info(path).is_ok();
        let spellings = path::spellings(given);
        if let [only] = &spellings[..] {
            return self.resolve_as_written(only);
        }
        let found = spellings.iter().filter_map(|text| self.resolve_as_written(text).ok()).find(exists);
        found.map_or_else(|| self.resolve(given), Ok)
    }

    /// Like [`Workspace::resolve`], for a file to write. The path is taken as written if the file exists, or its folder in the
    /// workspace; else tidied. So `@types/a.ts` keeps its `@` if a folder `@types` exists, and a new `@a.ts` loses it.
    pub fn resolve_for_write(&self, given: &str) -> Result<WorkspacePath, WorkspaceError> {
        let tidied = path::tidy(given);
        if tidied != given
            && let Ok(written) = self.resolve_as_written(given)
        {
            let parent = written.relative().parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.map(|parent| written.sibling(parent.to_owned()));
            if self.link_info(&written).is_ok() || parent.is_some_and(|parent| self.link_info(&parent).is_ok()) {
                return Ok(written);
            }
        }
        self.resolve_as_written(&tidied)
    }

    /// The spellings that a path may be read as: see [`Workspace::resolve_existing`]. For permission rules, which judge the path
    /// before it is resolved.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn spellings(given: &str) -> Vec<String> {
        path::spellings(given)
    }

    /// The place of a relative path, taken to the letter; `None` for a path that is not relative or holds `..`.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn beneath(&self, relative: &Path) -> Option<WorkspacePath> {
        let mut place = self.resolve(".").ok()?;
        for component in relative.components() {
            let std::path::Component::Normal(name) = component else { return None };
            place = place.child(name)?;
        }
        Some(place)
    }

    fn resolve_as_written(&self, text: &str) -> Result<WorkspacePath, WorkspaceError> {
        let absolute = path::absolute(text, self.root(), self.home.as_deref())?;
        for (root, known) in self.roots.iter().enumerate() {
            for prefix in known.spellings() {
                if let Ok(relative) = absolute.strip_prefix(prefix) {
                    if matches!(&known.reach, Reach::Only(only) if only != relative) {
                        continue;
                    }
                    let shown = if root == 0 { path::shown(relative) } else { absolute.display().to_string() };
                    return Ok(WorkspacePath::new(root, relative.to_owned(), shown));
                }
            }
        }
        match self.linked.iter().find(|(path, _)| *path == absolute) {
            Some((_, real)) => Err(WorkspaceError::Linked { path: text.to_owned(), real: real.clone() }),
            None => Err(self.outside(text)),
        }
    }

    /// The whole path, for people and for programs that are started. Opening a file by this path would follow links anywhere: use
    /// the operations here instead.
    #[must_use]
    pub fn absolute(&self, path: &WorkspacePath) -> PathBuf {
        let root = &self.root_of(path).path;
        // A path that is joined with an empty one gets a slash at its end.
        if path.relative().as_os_str().is_empty() { root.clone() } else { root.join(path.relative()) }
    }

    /// Opens a regular file to read. Never waits, also not for a FIFO.
    pub fn open_read(&self, path: &WorkspacePath) -> Result<(File, FileInfo), WorkspaceError> {
        self.open_real(path).map(|(file, info, _)| (file, info))
    }

    /// Like [`Workspace::open_read`], with the path without links of the file that was opened, relative to its root. It is the
    /// path by which this very file was opened, even if the links change.
    pub(crate) fn open_real(&self, path: &WorkspacePath) -> Result<(File, FileInfo, PathBuf), WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let (handle, real) = match walk::open(self.root_of(path), path.relative(), flags) {
            Ok(opened) => opened,
            // A socket, or a device without a driver.
            Err(Fault::Os(Errno::NXIO | Errno::NODEV)) => {
                let kind = self.info(path).map_or(FileKind::Socket, |info| info.kind);
                return Err(WorkspaceError::NotRegular { path: path.to_string(), kind });
            }
            Err(fault) => return Err(self.fault(path, fault)),
        };
        dir::regular(handle, path).map(|(file, info)| (file, info, real))
    }

    /// Reads a whole regular file of at most `max_bytes`; a larger one is an error that names both sizes.
    pub fn read(&self, path: &WorkspacePath, max_bytes: u64) -> Result<(Vec<u8>, FileInfo), WorkspaceError> {
        let (file, info) = self.open_read(path)?;
        let too_large = |bytes| WorkspaceError::TooLarge { path: path.to_string(), bytes, max_bytes };
        if info.bytes > max_bytes {
            return Err(too_large(info.bytes));
        }
        let mut content = Vec::with_capacity(usize::try_from(info.bytes).unwrap_or(0));
        // The file may have grown since, and some files give more than their size says.
        let read = file.take(max_bytes.saturating_add(1)).read_to_end(&mut content);
        read.map_err(|error| WorkspaceError::io(path.to_string(), &error))?;
        if content.len() as u64 > max_bytes {
            return Err(too_large(content.len() as u64));
        }
        Ok((content, info))
    }

    /// The path without links that a path leads to, relative to its root. The file need not exist yet. Links may change afterwards:
    /// permission rules judge this path, and no operation here relies on it.
    pub fn real(&self, path: &WorkspacePath) -> Result<PathBuf, WorkspaceError> {
        walk::real(self.root_of(path), path.relative()).map_err(|fault| self.fault(path, fault))
    }

    /// What the system says about the file at a path, after following links.
    pub fn info(&self, path: &WorkspacePath) -> Result<FileInfo, WorkspaceError> {
        self.look(path, LastLink::Follow)
    }

    /// What the system says about the file at a path; for a link about the link itself.
    pub fn link_info(&self, path: &WorkspacePath) -> Result<FileInfo, WorkspaceError> {
        self.look(path, LastLink::Keep)
    }

    fn look(&self, path: &WorkspacePath, last: LastLink) -> Result<FileInfo, WorkspaceError> {
        match self.locate(path, last, Missing::Refuse)? {
            Located::Directory(handle) => FileInfo::of(&handle).map_err(|errno| self.fault(path, errno.into())),
            Located::Entry { stat: Some(stat), .. } => Ok(FileInfo::from_stat(&stat)),
            Located::Entry { stat: None, .. } => Err(WorkspaceError::NotFound { path: path.to_string() }),
        }
    }

    /// Opens a directory to list it or to walk down from it. Its own path ([`Dir::path`]) has no links: it is the path by which
    /// this very directory was opened, even if the links change.
    pub fn open_dir(&self, path: &WorkspacePath) -> Result<Dir, WorkspaceError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let opened = walk::open(self.root_of(path), path.relative(), flags);
        let (handle, real) = opened.map_err(|fault| self.fault(path, fault))?;
        Ok(Dir::new(handle, if real == path.relative() { path.clone() } else { path.sibling(real) }))
    }

    /// Makes a directory and the missing ones above it. An existing directory is not an error.
    pub fn create_dir_all(&self, path: &WorkspacePath) -> Result<(), WorkspaceError> {
        self.may_change(path)?;
        let (parent, name) = match self.locate(path, LastLink::Follow, Missing::Create)? {
            Located::Directory(_) => return Ok(()),
            Located::Entry { parent, name, .. } => (parent, name),
        };
        match rustix::fs::mkdirat(&parent, &name, Mode::from_bits_truncate(0o777)) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) if self.info(path)?.kind == FileKind::Directory => Ok(()),
            Err(Errno::EXIST) => Err(WorkspaceError::NotDirectory { path: path.to_string() }),
            Err(errno) => Err(self.fault(path, errno.into())),
        }
    }

    /// Makes an empty file that is not there yet, with the usual mode, and opens it. Its folder must be there. A link that stays
    /// inside is followed.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn create_new(&self, path: &WorkspacePath) -> Result<File, WorkspaceError> {
        self.may_change(path)?;
        match self.locate(path, LastLink::Follow, Missing::Refuse)? {
            Located::Directory(_) => Err(WorkspaceError::IsDirectory { path: path.to_string() }),
            Located::Entry { parent, name, .. } => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let made = rustix::fs::openat(&parent, &name, flags, Mode::from_bits_truncate(0o666));
                made.map(File::from).map_err(|errno| self.fault(path, errno.into()))
            }
        }
    }

    /// Puts `content` in a file, in one step: a reader finds the old content or the new one, never a mixture.
    ///
    /// The new content is written to a temporary file in the same directory, which then takes the old one's place and mode.
    /// A link that stays inside is written through. Two cases cannot be done in one step and are written in place, which
    /// [`Written::atomic`] says: a file with several hard links, and a file that cannot be replaced, because its directory takes no
    /// new file or it is a mount. On failure the temporary file is removed.
    pub fn write(
        &self,
        path: &WorkspacePath,
        content: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, WorkspaceError> {
        self.may_change(path)?;
        write::write(self, path, content, options)
    }

    /// Deletes a file, or a link but not what it points to.
    pub fn remove_file(&self, path: &WorkspacePath) -> Result<(), WorkspaceError> {
        self.may_change(path)?;
        match self.locate(path, LastLink::Keep, Missing::Refuse)? {
            Located::Directory(_) => Err(WorkspaceError::IsDirectory { path: path.to_string() }),
            Located::Entry { parent, name, .. } => rustix::fs::unlinkat(&parent, &name, rustix::fs::AtFlags::empty())
                .map_err(|errno| self.fault(path, errno.into())),
        }
    }

    fn root_of(&self, path: &WorkspacePath) -> &Root {
        // The path of another workspace falls back to this root, beneath which it is as harmless as any other.
        self.roots.get(path.root()).unwrap_or(&self.roots[0])
    }

    fn locate(&self, path: &WorkspacePath, last: LastLink, missing: Missing) -> Result<Located, WorkspaceError> {
        walk::locate(self.root_of(path), path.relative(), last, missing).map_err(|fault| self.fault(path, fault))
    }

    fn may_change(&self, path: &WorkspacePath) -> Result<(), WorkspaceError> {
        match self.root_of(path).read_only {
            true => Err(WorkspaceError::ReadOnly { path: path.to_string() }),
            false => Ok(()),
        }
    }

    fn fault(&self, path: &WorkspacePath, fault: Fault) -> WorkspaceError {
        match fault {
            Fault::Escapes => self.outside(&path.to_string()),
            Fault::Os(errno) => WorkspaceError::from_errno(path.to_string(), errno),
        }
    }

    fn outside(&self, path: &str) -> WorkspaceError {
        WorkspaceError::Outside { path: path.to_owned(), root: self.root().to_owned() }
    }
}
