//! The configuration files of a project: found, read once, and known by their hashes.
//!
//! The files are a stranger's. They are opened beneath the folder's handle, so no link leads out of the workspace; a special file
//! is refused and never waited for; what is read is bounded.

use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use tamtam::tool::{Workspace, WorkspacePath};

/// The folder of a project's configuration, in its workspace.
pub(super) const FOLDER: &str = ".tamtam";

/// The files in that folder that are configuration. What else is there says nothing.
const FILES: [&str; 1] = ["config.toml"];

/// Largest of them.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a project's configuration is worth.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::cli) enum Project {
    /// It has none.
    Nothing,
    /// The files, whose text is the one that was trusted.
    Trusted(Vec<(PathBuf, String)>),
    /// It is not read; the line says why, and what to do.
    Untrusted(String),
}

/// Whether there is a file that would be read. Nothing is opened.
pub(super) fn has_files(workspace: &Path) -> bool {
    let there = |name: &&str| std::fs::symlink_metadata(workspace.join(FOLDER).join(name)).is_ok();
    FILES.iter().any(|name| there(&name))
}

/// Reads the files that are there, by name.
pub(super) fn read(workspace: &Path) -> Result<Vec<(String, String)>, String> {
    let opened = Workspace::open(workspace).map_err(|error| error.to_string())?;
    let mut files = Vec::new();
    for name in FILES {
        let named = format!("{FOLDER}/{name}");
        let path: WorkspacePath = opened.resolve(&named).map_err(|error| error.to_string())?;
        if std::fs::symlink_metadata(workspace.join(&named)).is_err() {
            continue;
        }
        let (bytes, _) = opened.read(&path, FILE_BYTES_MAX).map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{named} is not UTF-8 text"))?;
        files.push((name.to_owned(), text));
    }
    Ok(files)
}

/// The files by their hashes: what trust is bound to.
pub(super) fn hashes(files: &[(String, String)]) -> BTreeMap<String, String> {
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    files.iter().map(|(name, text)| (name.clone(), hash(text))).collect()
}

/// What tells a folder from another one that was made at the same path later: its number in the file system, and when it was made,
/// where the file system says that. `None` where there is no folder.
pub(super) fn made(workspace: &Path) -> Option<String> {
    let metadata = std::fs::metadata(workspace).ok().filter(std::fs::Metadata::is_dir)?;
    let born = metadata.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("{}:{}", metadata.ino(), born.map_or(0, |at| at.as_nanos())))
}
