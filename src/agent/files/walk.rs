//! Finds the files below a folder, and reads a file, within the bounds of `agent/files.rs`. What cannot be read becomes a
//! [`BadFile`].
//!
//! In a workspace a link in the place of a searched folder, or of one below it, is not followed, and no link that leads out of the
//! workspace. Only plain files are opened, because a pipe would wait for a writer. A text is returned only if the caller's function
//! trusts it. A change must keep this, because others write what stands in a workspace.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{BadFile, DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, Trusts};
use crate::tool::{Workspace, WorkspaceError};

/// The files below a folder whose names end so, by name. With `inside`, a link to a folder is not followed, and a link to a file
/// only if it stays inside; without it all links are followed, and each folder is entered once. Names that begin with a point are
/// passed over. A link that is not followed and a folder that cannot be read are added to `bad`.
pub(super) fn files(root: &Path, inside: Option<&Path>, endings: &[&str], bad: &mut Vec<BadFile>) -> Vec<PathBuf> {
    let inside = inside.and_then(|inside| inside.canonicalize().ok());
    let mut walk = Walk { inside, endings, found: Vec::new(), entered: BTreeSet::new(), bad };
    walk.folder(root, DEPTH_MAX);
    walk.found
}

struct Walk<'a> {
    inside: Option<PathBuf>,
    endings: &'a [&'a str],
    found: Vec<PathBuf>,
    /// The folders that were entered, by their real paths.
    entered: BTreeSet<PathBuf>,
    bad: &'a mut Vec<BadFile>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, depth: usize) {
        let entries = match self.entries(folder, depth) {
            Ok(entries) => entries,
            Err(why) => return self.bad.push(BadFile::whole(folder, why)),
        };
        for path in entries {
            if self.found.len() >= FILES_MAX {
                return;
            }
            if path.is_dir() {
                self.folder(&path, depth - 1);
                continue;
            }
            let ending = path.extension().and_then(|ending| ending.to_str());
            if ending.is_some_and(|ending| self.endings.contains(&ending)) {
                self.file(path);
            }
        }
    }

    /// What stands in a folder, by name; nothing where the folder was entered already.
    fn entries(&mut self, folder: &Path, depth: usize) -> Result<Vec<PathBuf>, String> {
        let real = folder.canonicalize().map_err(|error| error.to_string())?;
        self.stays_inside(&real)?;
        // What a person trusts in a workspace are the files below its folders, and not those behind a link.
        if self.inside.is_some() && folder.is_symlink() {
            return Err("a link to a folder is not followed in a workspace".to_owned());
        }
        if !self.entered.insert(real) {
            return Ok(Vec::new());
        }
        if depth == 0 {
            return Err(format!("more than {DEPTH_MAX} folders deep: it is not read"));
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            if !entry.file_name().as_encoded_bytes().starts_with(b".") {
                entries.push(entry.path());
            }
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn file(&mut self, path: PathBuf) {
        let real = path.canonicalize().map_err(|error| error.to_string());
        if let Err(why) = real.and_then(|real| self.stays_inside(&real)) {
            return self.bad.push(BadFile::whole(&path, why));
        }
        self.found.push(path);
        if self.found.len() == FILES_MAX {
            let folder = self.found[0].parent().unwrap_or(Path::new(""));
            let why = format!("{FILES_MAX} files are read of this folder and of those below, and no more");
            self.bad.push(BadFile::whole(folder, why));
        }
    }

    fn stays_inside(&self, real: &Path) -> Result<(), String> {
        match &self.inside {
            Some(inside) if !real.starts_with(inside) => {
                Err("a link leads out of the workspace: it is not read".to_owned())
            }
            _ => Ok(()),
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
    let (bytes, _) = opened.and_then(|(root, file)| root.read(&file, FILE_BYTES_MAX)).map_err(|error| match error {
        WorkspaceError::Outside { .. } => whole("it leads out of the workspace: it is not read".to_owned()),
        WorkspaceError::NotRegular { .. } | WorkspaceError::IsDirectory { .. } => whole("it is not a file".to_owned()),
        WorkspaceError::TooLarge { bytes, max_bytes, .. } => {
            whole(format!("it has {bytes} bytes: at most {max_bytes} are read"))
        }
        error => whole(error.to_string()),
    })?;
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
