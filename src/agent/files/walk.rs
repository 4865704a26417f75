//! Finds the files below a folder, and reads a file, within the bounds of `agent/files.rs`. What cannot be read becomes a
//! [`BadFile`].
//!
//! A folder is listed, entered and left by its open handle ([`Dir`]), and a file is opened beneath one. In a workspace, a
//! searched folder or one below it that is a link is not followed, nor is a link out of the workspace: no link can be swapped in
//! between a check and a read. Only plain files are opened, because a pipe would wait for a writer. A text is returned only if
//! the caller's function trusts it. A change must keep this, because others write the files of a workspace.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use super::{BadFile, DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, Trusts};
use crate::tool::{Dir, DirEntry, FileKind, Workspace, WorkspaceError};

/// The files below a folder whose names end so, by name. With `inside`, no link to a folder is followed; without it all links are
/// followed, and each folder is entered once. A link to a file is among the files: [`text`] decides about it. Names that begin with
/// a point are passed over. A link that is not followed and a folder that cannot be read are added to `bad`.
pub(super) fn files(root: &Path, inside: Option<&Path>, endings: &[&str], bad: &mut Vec<BadFile>) -> Vec<PathBuf> {
    let opened = match inside {
        Some(inside) => folder_inside(root, inside),
        None => folder_behind_links(root),
    };
    let follows_links = inside.is_none();
    let mut walk = Walk { follows_links, endings, found: Vec::new(), entered: BTreeSet::new(), bad };
    walk.folder(root, opened, DEPTH_MAX);
    walk.found
}

/// Opens a folder of a workspace. A link above the folder may lead elsewhere in the workspace; the folder itself is not a link.
fn folder_inside(folder: &Path, inside: &Path) -> Result<Dir, WorkspaceError> {
    let root = Workspace::open(inside)?;
    let outside = || WorkspaceError::Outside { path: folder.display().to_string(), root: inside.to_owned() };
    let below = folder.strip_prefix(inside).ok();
    let (parent, name) = below.and_then(|below| below.parent().zip(below.file_name())).ok_or_else(outside)?;
    root.open_dir(&root.beneath(parent).ok_or_else(outside)?)?.open_dir(name)
}

/// Opens a folder of the user's own, wherever links lead.
fn folder_behind_links(folder: &Path) -> Result<Dir, WorkspaceError> {
    let absolute = std::path::absolute(folder);
    let path = folder.display().to_string();
    let opened = Workspace::open(&absolute.map_err(|source| WorkspaceError::Io { path, source })?)?;
    opened.open_dir(&opened.resolve(".")?)
}

struct Walk<'a> {
    follows_links: bool,
    endings: &'a [&'a str],
    found: Vec<PathBuf>,
    /// The folders that were entered, by device and inode.
    entered: BTreeSet<(u64, u64)>,
    bad: &'a mut Vec<BadFile>,
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, opened: Result<Dir, WorkspaceError>, depth: usize) {
        if depth == 0 {
            let why = format!("more than {DEPTH_MAX} folders deep: it is not read");
            return self.bad.push(BadFile::whole(path, why));
        }
        let entries = opened.and_then(|dir| Ok((self.entries(&dir)?, dir)));
        let (entries, dir) = match entries {
            Ok(entries) => entries,
            Err(WorkspaceError::NotDirectory { .. } | WorkspaceError::NotRegular { .. }) if path.is_symlink() => {
                return self.bad.push(BadFile::whole(path, "a link to a folder is not followed in a workspace"));
            }
            Err(error) => return self.bad.push(BadFile::whole(path, why(error))),
        };
        for (name, kind) in entries {
            if self.found.len() >= FILES_MAX {
                return;
            }
            let path = path.join(&name);
            let opened = match kind {
                FileKind::Directory => dir.open_dir(&name),
                FileKind::Symlink if path.is_dir() && self.follows_links => folder_behind_links(&path),
                FileKind::Symlink if path.is_dir() => dir.open_dir(&name),
                _ => {
                    self.file(path);
                    continue;
                }
            };
            self.folder(&path, opened, depth - 1);
        }
    }

    /// The names in a folder and their kinds, sorted; none where the folder was entered already.
    fn entries(&mut self, dir: &Dir) -> Result<Vec<(OsString, FileKind)>, WorkspaceError> {
        if !self.entered.insert(dir.identity()?) {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        for entry in dir.entries()? {
            let DirEntry { name, kind } = entry?;
            if !name.as_bytes().starts_with(b".") {
                let kind = if kind == FileKind::Unknown { dir.info(&name)?.kind } else { kind };
                entries.push((name, kind));
            }
        }
        entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(entries)
    }

    fn file(&mut self, path: PathBuf) {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if !ending.is_some_and(|ending| self.endings.contains(&ending)) {
            return;
        }
        self.found.push(path);
        if self.found.len() == FILES_MAX {
            let folder = self.found[0].parent().unwrap_or(Path::new(""));
            let why = format!("{FILES_MAX} files are read of this folder and of those below, and no more");
            self.bad.push(BadFile::whole(folder, why));
        }
    }
}

/// The text of a file, as far as it is trusted: without a byte order mark, with line feeds as ends of lines. With `inside` an error if
/// the file is a link that leads out of that folder. The file is opened once and beneath a handle, so what was checked is what is
/// read, and a pipe is not waited for.
pub(super) fn text(path: &Path, inside: Option<&Path>, trusts: &Trusts) -> Result<String, BadFile> {
    let whole = |why: String| BadFile::whole(path, why);
    let opened = match inside {
        Some(inside) => Workspace::open(inside).and_then(|root| {
            let below = path.strip_prefix(inside).ok().and_then(|below| root.beneath(below));
            below
                .map(|below| (root, below))
                .ok_or_else(|| WorkspaceError::Outside { path: path.display().to_string(), root: inside.to_owned() })
        }),
        None => Workspace::behind_links(path),
    };
    let read = opened.and_then(|(root, file)| root.read(&file, FILE_BYTES_MAX));
    let (bytes, _) = read.map_err(|error| whole(why(error)))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count();
        BadFile { line, ..whole("it is not UTF-8".to_owned()) }
    })?;
    if !trusts(path, &text) {
        return Err(whole("it is not as it was trusted: it is not read".to_owned()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.replace("\r\n", "\n"))
}

/// Why a file or folder is not read. The caller names its path.
fn why(error: WorkspaceError) -> String {
    match error {
        WorkspaceError::Outside { .. } => "it leads out of the workspace: it is not read".to_owned(),
        WorkspaceError::NotRegular { .. } | WorkspaceError::IsDirectory { .. } => "it is not a file".to_owned(),
        WorkspaceError::TooLarge { bytes, max_bytes, .. } => {
            format!("it has {bytes} bytes: at most {max_bytes} are read")
        }
        error => error.to_string(),
    }
}
