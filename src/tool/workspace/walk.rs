//! Walks from an open folder to the place that a path means beneath it, without ever leaving the folder.
//!
//! A walk opens one component at a time, relative to the handle of the one before, and never lets the system follow a link. It
//! reads a link and walks the link's text in turn; beneath a root that allows one single path, it refuses every link. For `..` it
//! goes back to a handle that it still holds, or down once more from the root. It never names a path of more than one component
//! to the system, so a link that is swapped in is either seen as a link or not there yet. A change must keep this: every guarantee
//! of a workspace rests on it.
//!
//! A walk keeps at most [`HELD_MAX`] handles and goes through at most [`LINKS_MAX`] links, for any path.
//!
//! Rejected: `openat2` with `RESOLVE_BENEATH`. It refuses absolute links that lead inside, makes no directory, and is missing in
//! some sandboxes, so the walk is needed anyway; a second way only saves a few system calls for each open.

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, openat, readlinkat, statat},
    io::Errno,
};

use crate::tool::workspace::{Reach, Root};

/// How many links one path may go through, as in Linux.
const LINKS_MAX: usize = 40;
/// How many directories of one path are held open. A path may have thousands of them, and a process has not many more handles.
const HELD_MAX: usize = 64;
/// How often a path is tried again because a file or link on it was replaced meanwhile.
const TRIES: usize = 32;

/// Flags that open a directory only to continue from it.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Flags that open a directory only to continue from it.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The path leads out of the root.
    Escapes,
    /// The system gave this error.
    Os(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Os(errno)
    }
}

/// What happens to a link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLink {
    Follow,
    Keep,
}

/// What happens to a directory that is missing on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Refuse,
}

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Located {
    /// A directory at which no name was left to look up: the root, or a directory reached by `..` or by a link to `.` or `..`.
    Directory(OwnedFd),
    /// A name in a directory; `stat` is `None` if nothing has that name.
    Entry { parent: OwnedFd, name: OsString, stat: Option<Stat> },
}

/// Opens the file or directory that a path leads to, beneath the root, and returns its path without links. `flags` must not
/// create.
pub(super) fn open(root: &Root, relative: &Path, flags: OFlags) -> Result<(OwnedFd, PathBuf), Fault> {
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..TRIES {
        let mut walk = Walk::new(root, relative)?;
        match walk.go(LastLink::Follow, Missing::Refuse)? {
            Located::Directory(handle) => {
                let opened = openat(&handle, ".", flags, Mode::empty())?;
                return Ok((opened, walk.names.iter().collect()));
            }
            Located::Entry { stat: None, .. } => return Err(Errno::NOENT.into()),
            Located::Entry { parent, name, stat: Some(stat) } => {
                match openat(&parent, &name, flags | OFlags::NOFOLLOW, Mode::empty()) {
                    // A link took its place in between.
                    Err(Errno::LOOP) => {}
                    Err(Errno::NOTDIR) if FileType::from_raw_mode(stat.st_mode).is_dir() => {}
                    opened => return Ok((opened?, walk.names.iter().chain([&name]).collect())),
                }
            }
        }
    }
    Err(Errno::AGAIN.into())
}

/// The path without links that a path leads to, relative to the root: the path that [`locate`] reaches where it makes the missing
/// directories. The file need not exist yet. Permission rules judge this path, so a change must keep the two walks the same.
pub(super) fn real(root: &Root, relative: &Path) -> Result<PathBuf, Fault> {
    let mut walk = Walk::new(root, relative)?;
    loop {
        let reached = walk.go(LastLink::Follow, Missing::Refuse);
        // The directories that would be made: nothing is in them, so there are no links. A `..` may lead out of them again, and
        // from there on links count.
        let mut made = Vec::from_iter(walk.missing.take());
        let name = match reached {
            Ok(Located::Entry { name, .. }) => Some(name),
            Ok(Located::Directory(_)) => None,
            Err(Fault::Os(Errno::NOENT)) if !made.is_empty() => {
                while !made.is_empty()
                    && let Some(step) = walk.ahead.pop()
                {
                    match step {
                        Step::Up => drop(made.pop()),
                        Step::Down(name) => made.push(name),
                    }
                }
                if made.is_empty() {
                    continue;
                }
                None
            }
            Err(fault) => return Err(fault),
        };
        return Ok(walk.names.iter().chain(&made).chain(&name).collect());
    }
}

/// Walks to the place that a path leads to. With [`Missing::Create`] the directories on the way are made, but not the place itself.
pub(super) fn locate(root: &Root, relative: &Path, last: LastLink, missing: Missing) -> Result<Located, Fault> {
    Walk::new(root, relative)?.go(last, missing)
}

struct Walk<'a> {
    root: &'a Root,
    /// The last [`HELD_MAX`] directories on the way from the root down to here, without the root.
    held: VecDeque<OwnedFd>,
    /// The names of all directories on the way, each as it is called in the one above it.
    names: Vec<OsString>,
    /// The name of the missing directory at which the walk ended, if any.
    missing: Option<OsString>,
    /// The steps that are left, the next one last.
    ahead: Vec<Step>,
    /// How many links the walk has gone through.
    links: usize,
}

enum Step {
    Up,
    Down(OsString),
}

impl<'a> Walk<'a> {
    fn new(root: &'a Root, relative: &Path) -> Result<Walk<'a>, Fault> {
        let (held, names, missing) = (VecDeque::new(), Vec::new(), None);
        let mut walk = Walk { root, held, names, missing, ahead: Vec::new(), links: 0 };
        walk.push_ahead(relative)?;
        Ok(walk)
    }
}

impl Walk<'_> {
    fn go(&mut self, last: LastLink, missing: Missing) -> Result<Located, Fault> {
        let (walk, mut tries) = (self, 0);
        while let Some(step) = walk.ahead.pop() {
            match step {
                Step::Up => walk.leave()?,
                Step::Down(name) if walk.ahead.is_empty() => {
                    match statat(walk.here(), &name, AtFlags::SYMLINK_NOFOLLOW) {
                        Ok(stat) if last == LastLink::Follow && FileType::from_raw_mode(stat.st_mode).is_symlink() => {
                            match walk.follow(&name) {
                                // It was replaced, or is gone: look again.
                                Err(Fault::Os(Errno::INVAL | Errno::NOENT)) if tries < TRIES => {
                                    tries += 1;
                                    walk.ahead.push(Step::Down(name));
                                }
                                followed => followed?,
                            }
                        }
                        Ok(stat) => return walk.entry(name, Some(stat)),
                        Err(Errno::NOENT) => return walk.entry(name, None),
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Step::Down(name) => walk.enter(&name, missing)?,
            }
        }
        walk.end().map(Located::Directory)
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.held.back().unwrap_or(&self.root.handle).as_fd()
    }

    fn entry(&mut self, name: OsString, stat: Option<Stat>) -> Result<Located, Fault> {
        Ok(Located::Entry { parent: self.end()?, name, stat })
    }

    /// The handle of the directory that the walk has reached. The walk goes no further.
    fn end(&mut self) -> Result<OwnedFd, Fault> {
        self.held.pop_back().map_or_else(|| self.root.handle.try_clone().map_err(|error| os(&error)), Ok)
    }

    fn hold(&mut self, handle: OwnedFd) {
        if self.held.len() == HELD_MAX {
            self.held.pop_front();
        }
        self.held.push_back(handle);
    }

    /// Goes back to the directory above.
    fn leave(&mut self) -> Result<(), Fault> {
        self.names.pop().ok_or(Fault::Escapes)?;
        self.held.pop_back();
        if self.held.is_empty() {
            // The directory above is not held any more. Its path had no links; a name that has become one since is refused.
            for name in self.names.clone() {
                let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let handle = openat(self.here(), &name, flags, Mode::empty())?;
                self.hold(handle);
            }
        }
        Ok(())
    }

    /// Goes into the directory of this name, through a link if the name is one.
    fn enter(&mut self, name: &OsStr, missing: Missing) -> Result<(), Fault> {
        for _ in 0..TRIES {
            let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(self.here(), name, flags, Mode::empty()) {
                Ok(handle) => {
                    self.hold(handle);
                    self.names.push(name.to_owned());
                    return Ok(());
                }
                Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) => match self.follow(name) {
                    // No link: a file, or the link has just become a directory.
                    Err(Fault::Os(Errno::INVAL)) => {
                        let stat = statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)?;
                        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
                            return Err(Errno::NOTDIR.into());
                        }
                    }
                    // Gone in between: look again.
                    Err(Fault::Os(Errno::NOENT)) => {}
                    followed => return followed,
                },
                Err(Errno::NOENT) if missing == Missing::Create => {
                    match mkdirat(self.here(), name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                }
                Err(Errno::NOENT) => {
                    self.missing = Some(name.to_owned());
                    return Err(Errno::NOENT.into());
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Puts the steps of a link's text before the steps that are left.
    fn follow(&mut self, name: &OsStr) -> Result<(), Fault> {
        let target = readlinkat(self.here(), name, Vec::new())?;
        if self.root.reach != Reach::All {
            return Err(Fault::Escapes);
        }
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if !target.is_absolute() {
            return self.push_ahead(&target);
        }
        let inside = self.root.spellings().find_map(|root| target.strip_prefix(root).ok());
        self.held.clear();
        self.names.clear();
        self.push_ahead(inside.ok_or(Fault::Escapes)?)
    }

    fn push_ahead(&mut self, path: &Path) -> Result<(), Fault> {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.ahead.push(Step::Down(name.to_owned())),
                Component::ParentDir => self.ahead.push(Step::Up),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(Fault::Escapes),
            }
        }
        Ok(())
    }
}

fn os(error: &std::io::Error) -> Fault {
    Fault::Os(Errno::from_io_error(error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A missing directory on the way is made by a write, which then continues: a link after it, out of it by `..`, counts. A
    /// checkout could pass a file off as another one that way.
    #[test]
    fn a_path_out_of_a_missing_directory_leads_where_a_write_would() {
        let folder = tempfile::tempdir().unwrap();
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, folder.path().join(at)).unwrap();
        std::fs::create_dir(folder.path().join("secret")).unwrap();
        link("secret", "b");
        link("nope/../b/f", "a");
        link("nope/../../out", "up");
        let root = Root::open(folder.path(), false).unwrap();
        let real = |path: &str| real(&root, Path::new(path)).map(|path| path.display().to_string());
        for (path, leads) in [
            ("a", "secret/f"),
            ("nope/x/../../b/f", "secret/f"),
            ("nope/x/../y/f", "nope/y/f"),
            ("nope/..", ""),
            ("nope/../b", "secret"),
            ("b/nope/f", "secret/nope/f"),
        ] {
            assert_eq!(real(path), Ok(leads.to_owned()), "{path}");
        }
        assert_eq!(real("up"), Err(Fault::Escapes));
        // What a write does.
        locate(&root, Path::new("a"), LastLink::Follow, Missing::Create).unwrap();
        assert!(folder.path().join("nope").is_dir());
        assert_eq!(real("a"), Ok("secret/f".to_owned()));
    }

    /// A path takes a few handles, however deep it is, and leads to the same place.
    #[test]
    fn a_deep_path_holds_few_handles() {
        let folder = tempfile::tempdir().unwrap();
        let deep = "d/".repeat(300);
        std::fs::create_dir_all(folder.path().join(&deep)).unwrap();
        std::fs::write(folder.path().join("d/".repeat(50)).join("f"), "here").unwrap();
        std::os::unix::fs::symlink(format!("{}f", "../".repeat(250)), folder.path().join(&deep).join("up")).unwrap();
        std::os::unix::fs::symlink(format!("{}f", "../".repeat(301)), folder.path().join(&deep).join("out")).unwrap();
        let root = Root::open(folder.path(), false).unwrap();
        let mut walk = Walk::new(&root, Path::new(&deep)).unwrap();
        walk.go(LastLink::Follow, Missing::Refuse).unwrap();
        assert_eq!((walk.held.len(), walk.names.len()), (HELD_MAX - 1, 299), "the last one was given away");
        assert_eq!(real(&root, &Path::new(&deep).join("up")).unwrap(), Path::new(&"d/".repeat(50)).join("f"));
        assert_eq!(real(&root, &Path::new(&deep).join("out")), Err(Fault::Escapes));
    }
}
