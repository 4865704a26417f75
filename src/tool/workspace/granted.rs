//! Places outside of the workspace that one call was allowed to reach (`external_directory`).
//!
//! What was allowed is a path as text, so only what that text names is opened: a folder with all beneath it, or one file, or
//! one file that is not there yet. The way to it is walked from the top without following a single link. A path that goes
//! through a link is refused and its real path is named: whoever allowed `/tmp/notes` did not allow what it may be made to
//! point to.

use std::path::{Component, Path, PathBuf};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

use crate::tool::workspace::{Reach, Root, WorkspaceError, path::collapse, walk::DIRECTORY};

/// What came of a path that was allowed.
pub(super) enum Granted {
    Root(Root),
    /// It goes through a link. This is where it leads to.
    Link {
        real: PathBuf,
    },
}

/// Opens what an absolute path names, or what is there of the way to it.
pub(super) fn open(given: &Path) -> Result<Granted, WorkspaceError> {
    let path = collapse(given);
    let shown = || path.display().to_string();
    let failed = |errno: Errno| WorkspaceError::from_errno(shown(), errno);
    let names: Vec<_> = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = openat(CWD, "/", flags, Mode::empty()).map_err(failed)?;
    let mut top = PathBuf::from("/");
    for (index, name) in names.iter().enumerate() {
        match openat(&here, *name, flags, Mode::empty()) {
            Ok(below) => {
                here = below;
                top.push(name);
                continue;
            }
            Err(Errno::LOOP | Errno::NOTDIR | Errno::MLINK) => {
                let stat = statat(&here, *name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                if FileType::from_raw_mode(stat.st_mode).is_symlink() {
                    let real = std::fs::canonicalize(&path).map_err(|error| WorkspaceError::io(shown(), &error))?;
                    return Ok(Granted::Link { real });
                }
                if index + 1 < names.len() {
                    return Err(WorkspaceError::NotDirectory { path: shown() });
                }
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        // A file, or something that is not there yet: only this very path.
        let only = names[index..].iter().collect();
        return Ok(Granted::Root(Root {
            handle: here,
            path: top.clone(),
            real: top,
            read_only: false,
            reach: Reach::Only(only),
        }));
    }
    Ok(Granted::Root(Root { handle: here, path: top.clone(), real: top, read_only: false, reach: Reach::All }))
}
