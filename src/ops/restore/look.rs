//! Looks at how the files are now: absent, a file with its hash, or something that no restore touches.
//!
//! The plan is made from this look, and the restore looks again before it writes. Only reads, and only inside of the workspace.
//!
//! A change must keep this: a path that by now leads through a symbolic link is [`Now::Other`] and is not followed, because a
//! restore writes to the path that was checked.

use std::{collections::BTreeMap, io::Read as _};

use crate::{
    tool::{
        FileState,
        workspace::{FileInfo, FileKind, Workspace, WorkspaceError, WorkspacePath},
    },
    tools::names,
};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Now {
    Absent,
    File(NowFile),
    /// Something that no restore touches, described by the text.
    Other(String),
}

/// A file as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NowFile {
    pub(super) hash: String,
    pub(super) info: FileInfo,
}

impl Now {
    /// Whether this is the recorded state, leaving out the mode.
    pub(super) fn is(&self, state: &FileState) -> bool {
        match (self, state) {
            (Now::Absent, FileState::Absent) => true,
            (Now::File(now), FileState::File(image)) => match (&image.hash, &image.stamp) {
                (Some(hash), _) => *hash == now.hash,
                (None, Some(stamp)) => *stamp == now.info.version.stamp(),
                (None, None) => false,
            },
            _ => false,
        }
    }

    /// Whether a file has that mode. True without a mode, and without a file.
    pub(super) fn has(&self, mode: Option<u32>) -> bool {
        self.file().is_none_or(|file| mode.is_none_or(|mode| mode & 0o7777 == file.info.mode))
    }

    pub(super) fn file(&self) -> Option<&NowFile> {
        match self {
            Now::File(file) => Some(file),
            Now::Absent | Now::Other(_) => None,
        }
    }
}

/// Looks at some paths, as they are written on a tape.
pub(super) fn at<'p>(workspace: &Workspace, paths: impl Iterator<Item = &'p String>) -> BTreeMap<String, Now> {
    let mut found = BTreeMap::new();
    for path in paths {
        found.entry(path.clone()).or_insert_with(|| one(workspace, path));
    }
    found
}

/// Looks at one path.
pub(super) fn one(workspace: &Workspace, path: &str) -> Now {
    let Some(place) = place(workspace, path) else { return Now::Other("no path inside the workspace".to_owned()) };
    // The recorded path had no links. A link on the way now leads somewhere else.
    if workspace.real(&place).is_ok_and(|real| real != place.relative()) {
        return Now::Other("behind a symbolic link by now".to_owned());
    }
    let info = match workspace.link_info(&place) {
        Ok(info) => info,
        Err(WorkspaceError::NotFound { .. }) => return Now::Absent,
        // A folder on the path is a file by now.
        Err(WorkspaceError::NotDirectory { .. }) => return Now::Absent,
        Err(error) => return Now::Other(format!("out of reach ({error})")),
    };
    if info.kind != FileKind::File {
        return Now::Other(format!("a {} by now", info.kind));
    }
    match hash(workspace, &place) {
        Ok((hash, info)) => Now::File(NowFile { hash, info }),
        Err(error) => Now::Other(format!("not readable ({error})")),
    }
}

/// The place of a path as it is written on a tape; `None` if it leads out of the workspace.
pub(super) fn place(workspace: &Workspace, path: &str) -> Option<WorkspacePath> {
    workspace.beneath(&names::given(path)).filter(|place| !place.relative().as_os_str().is_empty())
}

fn hash(workspace: &Workspace, place: &WorkspacePath) -> Result<(String, FileInfo), WorkspaceError> {
    let (mut file, info) = workspace.open_read(place)?;
    let (mut hasher, mut piece) = (blake3::Hasher::new(), vec![0; 64 * 1024]);
    loop {
        let read = file.read(&mut piece).map_err(|source| WorkspaceError::Io { path: place.to_string(), source })?;
        if read == 0 {
            return Ok((hasher.finalize().to_hex().to_string(), info));
        }
        hasher.update(&piece[..read]);
    }
}
