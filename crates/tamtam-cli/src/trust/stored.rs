//! The trust file (`trust.json`): its format, its bounds, and how it is read and written.
//!
//! [`read`] refuses a file that others may write, that is not understood, that a newer version wrote, or in which a grant is a rule
//! that does not allow. [`change`] reads and writes under a lock, and replaces the file by another, so that a reader sees the old
//! one or the new one.
//!
//! A change must keep the format readable: it is stored (`docs/FORMATS.md`), and an older file holds what people granted.

use std::{
    fs::{File, TryLockError},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tamtam::{Millis, permission::Action, session::Granted};

use super::project::{self, Files};
use crate::{failure::Failure, named_file};

/// The version of the format that is written.
const VERSION: u32 = 1;
/// The most projects, and the most grants for one.
const PROJECTS_MAX: usize = 1_000;
const GRANTS_MAX: usize = 200;
/// Largest file.
const BYTES_MAX: u64 = 8 << 20;
/// How often a lock is tried that another process has.
const LOCK_TRIES_MAX: u32 = 100;
/// The pause between two tries.
const LOCK_TRY_AGAIN: Duration = Duration::from_millis(50);

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    version: u32,
    pub(super) projects: Vec<Entry>,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored { version: VERSION, projects: Vec::new() }
    }
}

/// What is known of one folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Its real path.
    pub(super) path: String,
    /// Which folder that was, so that another folder of the same path is not trusted: what [`project::made`] says of it.
    pub(super) made: String,
    /// The hashes of its files, as they were trusted.
    pub(super) files: Files,
    /// What people granted for it, in the order in which they did. A new grant gets an id above those in the list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) granted: Vec<Granted>,
    /// When it was trusted.
    pub(super) time: Millis,
}

impl Stored {
    /// What is known of a folder; `None` where nothing is, or where it was made anew since.
    pub(super) fn of(&self, workspace: &Path) -> Option<&Entry> {
        let entry = self.projects.iter().find(|entry| Path::new(&entry.path) == workspace)?;
        let made = project::made(workspace);
        Some(entry).filter(|entry| Some(&entry.made) == made.as_ref())
    }

    /// The entry of a folder: that of this folder, else a new one in the place of what an earlier folder had at this path.
    pub(super) fn entry(&mut self, workspace: &Path) -> Result<&mut Entry, Failure> {
        let named = workspace.to_str();
        let path = named.ok_or_else(|| Failure::usage("a folder whose path is not UTF-8 cannot be trusted"))?;
        let made = project::made(workspace);
        let made = made.ok_or_else(|| Failure::usage(format!("there is no folder {}", workspace.display())))?;
        self.projects.retain(|entry| entry.path != path || entry.made == made);
        let at = self.projects.iter().position(|entry| entry.path == path).unwrap_or_else(|| {
            let (path, files, granted) = (path.to_owned(), Files::new(), Vec::new());
            self.projects.push(Entry { path, made, files, granted, time: Millis::now() });
            self.projects.len() - 1
        });
        Ok(&mut self.projects[at])
    }

    fn check(&self) -> Result<(), Failure> {
        let full =
            |what: String| Err(Failure::usage(format!("{what}: take some back with `tamtam trust DIR --revoke`")));
        if self.projects.len() > PROJECTS_MAX {
            return full(format!("more than {PROJECTS_MAX} projects cannot be trusted"));
        }
        match self.projects.iter().find(|entry| entry.granted.len() > GRANTS_MAX) {
            Some(entry) => full(format!("{} cannot have more than {GRANTS_MAX} grants", entry.path)),
            None => Ok(()),
        }
    }
}

/// Reads the file. Where there is none, nothing is trusted.
pub(super) fn read(path: &Path) -> Result<Stored, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("bad trust file {}: {why}: mend it, or move it away and trust anew", path.display()))
    };
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Stored::default()),
        Err(error) => return Err(refused(&error)),
    };
    if metadata.permissions().mode() & 0o022 != 0 {
        return Err(refused(&"others may write it (`chmod 600` it if its content is yours)"));
    }
    let text = named_file::text(path, BYTES_MAX).map_err(|why| refused(&why))?;
    let stored: Stored = serde_json::from_str(&text).map_err(|error| refused(&error))?;
    if stored.version > VERSION {
        return Err(refused(&"a newer tamtam wrote it"));
    }
    let mut rules = stored.projects.iter().flat_map(|entry| &entry.granted).flat_map(|granted| &granted.rules);
    if let Some(rule) = rules.find(|rule| rule.action != Action::Allow) {
        return Err(refused(&format_args!("a grant allows, and `{rule}` does not")));
    }
    Ok(stored)
}

/// Reads the file, lets it be changed, and writes it, all under its lock. Where the change fails, nothing is written.
pub(super) fn change<T>(path: &Path, change: impl FnOnce(&mut Stored) -> Result<T, Failure>) -> Result<T, Failure> {
    let failed = |what: &str, why: &dyn std::fmt::Display| {
        Failure::failed(format!("failed to {what} the trust file {}: {why}", path.display()))
    };
    if let Some(folder) = path.parent() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| failed("make the folder of", &error))?;
    }
    // Held until the end: the file itself is replaced, so it cannot be the lock.
    let _lock = lock(&path.with_extension("lock")).map_err(|why| failed("lock", &why))?;
    let mut stored = read(path)?;
    let done = change(&mut stored)?;
    stored.check()?;
    let text = serde_json::to_vec_pretty(&stored).map_err(|error| failed("write", &error))?;
    if text.len() as u64 >= BYTES_MAX {
        return Err(failed("write", &format_args!("it would have more than {BYTES_MAX} bytes")));
    }
    write(path, &text).map_err(|error| failed("write", &error))?;
    Ok(done)
}

fn lock(path: &Path) -> Result<File, String> {
    let opened = File::options().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = opened.map_err(|error| error.to_string())?;
    for _ in 0..LOCK_TRIES_MAX {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_TRY_AGAIN),
            Err(TryLockError::Error(error)) => return Err(error.to_string()),
        }
    }
    Err("another process has it".to_owned())
}

/// Writes a file beside the old one and gives it the old one's name, so that a reader sees one or the other.
fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let draft = path.with_extension("new");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(&draft)?;
    file.write_all(text)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
