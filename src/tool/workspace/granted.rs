//! Opens the places outside of the workspace that one call was allowed to reach (the permission `external_directory`).
//!
//! A person or a rule allows a path as text, so only the place that the text names becomes reachable: a folder with all beneath it,
//! one file, or one path that does not exist yet. The path is walked from `/` without following a single link. A path that goes
//! through a link is not opened: the path that the link leads to is returned, which the workspace names in its refusal, so that it
//! can be asked for. If the link leads nowhere, opening fails with the system's error.
//!
//! A change must not follow links here: a permission for `/tmp/notes` does not cover the target of a link that later replaces
//! `/tmp/notes`.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

use crate::tool::workspace::{Reach, Root, WorkspaceError, path::collapse, walk::DIRECTORY};

/// The outcome of opening a path that was allowed: one more root for a workspace, or a refusal.
pub(super) enum Opened {
    Root(Root),
    /// The path goes through a link, and leads to `real`.
    ThroughLink {
        real: PathBuf,
    },
}

/// Opens the folder that an absolute path names. For a file, or a path that does not exist yet, opens the deepest folder on the way
/// to it, of which only that path may be reached.
pub(super) fn open(given: &Path) -> Result<Opened, WorkspaceError> {
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
                    let real = real_path(&top.join(name), &names[index + 1..]);
                    return Ok(Opened::ThroughLink {
                        real: real.map_err(|error| WorkspaceError::io(shown(), &error))?,
                    });
                }
                if index + 1 < names.len() {
                    return Err(WorkspaceError::NotDirectory { path: shown() });
                }
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
        // A file, or a path that does not exist yet: only this very path may be reached.
        let only = names[index..].iter().collect();
        return Ok(Opened::Root(Root {
            handle: here,
            path: top.clone(),
            real: OnceLock::from(top),
            read_only: false,
            reach: Reach::Only(only),
        }));
    }
    Ok(Opened::Root(Root {
        handle: here,
        path: top.clone(),
        real: OnceLock::from(top),
        read_only: false,
        reach: Reach::All,
    }))
}

/// Where a link leads, with the names that come after it. The last of these need not exist yet.
fn real_path(link: &Path, behind: &[Component<'_>]) -> io::Result<PathBuf> {
    let mut real = std::fs::canonicalize(link)?;
    for (index, name) in behind.iter().enumerate() {
        match std::fs::canonicalize(real.join(name)) {
            Ok(below) => real = below,
            Err(_) => return Ok(real.join(behind[index..].iter().collect::<PathBuf>())),
        }
    }
    Ok(real)
}
