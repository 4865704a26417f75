//! The vault of a session: contents of files, kept by their hash next to the session's tape, so that a restore can bring them back.
//! They are the contents before and after the changes of calls and restores, and those of files that the session had read before a
//! command of `bash`.
//!
//! ```text
//! sessions/<id>/files/
//!   <64 hex digits>     a content, under its BLAKE3 hash (mode 0600, in a folder of 0700)
//!   .new-<random>       a content that is being written
//!   notes.jsonl         changes that are about to be made
//! ```
//!
//! If the process dies, a content is either whole or missing. After a power cut it may be damaged, because contents are not
//! synced, as the files that they come from are not. [`Vault::read`] checks the hash and reports damage. [`KeepLimits`] bounds the
//! size of one content and the total size of a session's contents. A content beyond them is not kept; the [`FileImage`] says why
//! in `not_kept`, and the caller continues. A content stays as long as its session.
//!
//! A change must keep this layout, because tapes name contents by hash. A hash that is read comes from a tape and must be checked
//! before it becomes a path. All functions block on the disk. [`Vault::keep`] holds, while it writes, a lock that all sessions of
//! the toolbox share, and [`Vault::note`] takes that lock too: never call them on an async thread.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::Lock,
    tool::{
        FileImage,
        files::notes::{self, Note},
        truncate::{format_bytes, private_folder},
    },
};

/// How many sums of folders are remembered. When there would be more, all are forgotten, and counted again when they are needed.
const SUMS_MAX: usize = 1_024;

/// Why nothing is kept without a folder for it.
const NO_FOLDER: &str = "this runtime keeps its tapes without a folder for such contents";

/// How much of the old and new contents of changed files is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeepLimits {
    /// The largest content that is kept, in bytes. 10 MiB by default, as much as `edit` edits.
    pub file_bytes_max: u64,
    /// How much the contents of one session may take together, in bytes. 256 MiB by default; 0 keeps nothing.
    pub session_bytes_max: u64,
}

impl KeepLimits {
    crate::words::setters::setters! {
        /// Limits the [size of a content](#structfield.file_bytes_max).
        file_bytes_max: u64;
        /// Limits the [contents of a session](#structfield.session_bytes_max).
        session_bytes_max: u64;
    }
}

impl Default for KeepLimits {
    fn default() -> KeepLimits {
        KeepLimits { file_bytes_max: 10 * 1024 * 1024, session_bytes_max: 256 * 1024 * 1024 }
    }
}

/// The vaults of all sessions that share a toolbox.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vaults {
    limits: KeepLimits,
    sums: Sums,
}

/// How many bytes the contents of each folder take, for the folders that were counted.
type Sums = Arc<Lock<HashMap<PathBuf, u64>>>;

impl Vaults {
    pub(crate) fn new(limits: KeepLimits) -> Vaults {
        Vaults { limits, sums: Sums::default() }
    }

    /// The vault in this folder, which need not exist yet. Without a folder nothing is kept.
    pub(crate) fn at(&self, folder: Option<&Path>) -> Vault {
        Vault { folder: folder.map(Path::to_owned), of: self.clone() }
    }
}

/// The contents of one session.
#[derive(Clone, Debug)]
pub(crate) struct Vault {
    folder: Option<PathBuf>,
    of: Vaults,
}

/// Why a content cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It was never kept, or was removed.
    #[error("its content was not kept")]
    Missing,
    /// The kept bytes do not have the hash that they are kept under.
    #[error("the kept copy of its content is damaged")]
    Damaged,
    /// The system cannot read it.
    #[error("its content cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Vault {
    /// The largest content that is kept, in bytes.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.of.limits.file_bytes_max
    }

    /// Keeps a content. Never an error: where the content could not be kept, the image says why.
    pub(crate) fn keep(&self, content: &[u8], mode: u32) -> FileImage {
        let hash = blake3::hash(content).to_hex().to_string();
        let not_kept = self.store(&hash, content).err();
        FileImage { hash: Some(hash), mode, bytes: content.len() as u64, not_kept, stamp: None }
    }

    /// The image of a file that is too large to be kept, and so is not read.
    pub(crate) fn too_large(&self, mode: u32, bytes: u64) -> FileImage {
        FileImage { hash: None, mode, bytes, not_kept: Some(self.beyond_one()), stamp: None }
    }

    fn beyond_one(&self) -> String {
        format!("it is larger than {}", shown(self.of.limits.file_bytes_max))
    }

    fn store(&self, hash: &str, content: &[u8]) -> Result<(), String> {
        let bytes = content.len() as u64;
        if bytes > self.of.limits.file_bytes_max {
            return Err(self.beyond_one());
        }
        let folder = self.folder.as_deref().ok_or_else(|| NO_FOLDER.to_owned())?;
        let path = folder.join(hash);
        // An existing copy may be damaged, and is then replaced. Its bytes are read only if its length is right.
        let there =
            std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file).map_or(0, |there| there.len());
        if there == bytes && std::fs::read(&path).is_ok_and(|there| there == content) {
            return Ok(());
        }
        let failed = |error: io::Error| format!("it could not be kept: {error}");
        // Held while the content is written, so that two calls do not both take the last of the room.
        let mut sums = self.of.sums.lock();
        forget_gone(&mut sums, folder);
        let sum = match sums.get(folder) {
            Some(sum) => *sum,
            None => count(folder).map_err(failed)?,
        };
        // An existing copy is replaced.
        let sum = sum.saturating_sub(there);
        if sum.saturating_add(bytes) > self.of.limits.session_bytes_max {
            return Err(format!("the session keeps as much as it may, {}", shown(self.of.limits.session_bytes_max)));
        }
        write(folder, &path, content).map_err(failed)?;
        if sums.len() >= SUMS_MAX {
            sums.clear();
        }
        sums.insert(folder.to_owned(), sum + bytes);
        Ok(())
    }

    /// A content that was kept.
    pub(crate) fn read(&self, hash: &str) -> Result<Vec<u8>, Unreadable> {
        // A hash comes from a tape, which may have come from anywhere.
        if !is_hash(hash) {
            return Err(Unreadable::Missing);
        }
        let folder = self.folder.as_ref().ok_or(Unreadable::Missing)?;
        // The limits are not checked: a content that was kept under higher limits can still be read.
        let content = match std::fs::read(folder.join(hash)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Unreadable::Missing),
            read => read?,
        };
        match blake3::hash(&content).to_hex().as_str() == hash {
            true => Ok(content),
            false => Err(Unreadable::Damaged),
        }
    }

    /// Whether a content exists. Its bytes are not read.
    pub(crate) fn has(&self, hash: &str) -> bool {
        is_hash(hash) && self.folder.as_ref().is_some_and(|folder| folder.join(hash).is_file())
    }

    /// Notes a change that is about to be made, or that was not made after all. Without a folder nothing is noted.
    pub(crate) fn note(&self, note: &Note) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        forget_gone(&mut self.of.sums.lock(), folder);
        private_folder(folder)?;
        notes::append(folder, note)
    }

    /// The changes that were noted and not taken back, oldest first.
    pub(crate) fn notes(&self) -> io::Result<Vec<Note>> {
        self.folder.as_ref().map_or_else(|| Ok(Vec::new()), |folder| notes::read(folder))
    }
}

/// Forgets the sum of a folder that is gone: its session was deleted, and may be made again under its id.
fn forget_gone(sums: &mut HashMap<PathBuf, u64>, folder: &Path) {
    if sums.contains_key(folder) && !folder.is_dir() {
        sums.remove(folder);
    }
}

fn write(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    private_folder(folder)?;
    let draft = folder.join(format!(".new-{}", crate::words::ids::new_uuid().simple()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(content)?;
        std::fs::rename(&draft, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&draft)))
}

/// How many bytes the contents of a folder take. Drafts that a dead process left are removed.
fn count(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_encoded_bytes().starts_with(b".new-") {
            drop(std::fs::remove_file(entry.path()));
        } else if is_hash(&entry.file_name().to_string_lossy()) {
            sum += entry.metadata().map_or(0, |there| there.len());
        }
    }
    Ok(sum)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn shown(bytes: u64) -> String {
    format_bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
