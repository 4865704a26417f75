//! Spill files: they keep outputs that are too large for the model.
//!
//! A spill file holds raw bytes up to a cap; bytes after the cap are counted and dropped. It is private: the file is made with mode
//! 0600, and a folder that is missing with 0700. It is created exclusively under a name that cannot be guessed, so that no planted
//! file or link in the folder is ever written to.
//!
//! [`Spill::create`] tidies its folder up first ([`tidy_spills`]): files that are too old are removed, and the oldest ones while
//! the folder has too many files or bytes. The tape store of a runtime does the same for all sessions, as one of its chores. The
//! file of a [`Spill`] that is dropped before it is finished is removed at once, because no result names it.
//!
//! A change must not make the folder above the spill folder (a deleted session would come back), must not follow links when it
//! removes, and must remove nothing but plain files that end in `.log`. Functions here that make, write, list or remove files
//! block on the disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::tool::{is_told, truncate::format_bytes};

#[cfg(test)]
mod tests;

/// How many bytes a spill file takes by default: 64 MiB.
pub const SPILL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long a spill file is kept by default: 7 days.
pub(crate) const SPILL_KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How much, and for how long, one folder keeps by default.
pub(crate) const RETENTION: Retention = Retention { keep: SPILL_KEEP, bytes_max: 512 * 1024 * 1024, files_max: 500 };

/// How long, and how much, a folder of spill files keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// A file that was last written longer ago than this is removed.
    pub(crate) keep: Duration,
    /// While all files together take more bytes than this, the oldest is removed.
    pub(crate) bytes_max: u64,
    /// While there are more files than this, the oldest is removed.
    pub(crate) files_max: usize,
}

/// Why an output cannot be kept without a folder for it.
pub(crate) const NO_FOLDER: &str = "this runtime keeps no large outputs";

/// How many characters of a call's id a file name keeps.
const ID_CHARS_MAX: usize = 64;

/// A spill file that is being written.
///
/// A drop without [`Spill::finish`] removes the file: its call was cut off, and no result says where the file is.
#[derive(Debug)]
pub struct Spill {
    file: File,
    path: PathBuf,
    /// How many bytes the file holds, without what a failed write may have left.
    written: u64,
    /// How many bytes came after the cap.
    dropped: u64,
    /// The cap, in bytes.
    max_bytes: u64,
    is_finished: bool,
}

/// A spill file that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpillFile {
    /// Where it is.
    pub path: PathBuf,
    /// How many bytes it holds.
    pub bytes: u64,
    /// How many bytes came after the cap and are lost.
    pub dropped: u64,
}

impl Spill {
    /// Creates a spill file `<id>-<random>.log` in `folder`. A missing folder is made, and no folder above it: nothing of a session
    /// that was deleted is made again.
    ///
    /// `id` names the call for people; characters that do not belong in a file name are replaced. The cap is `max_bytes`, or this
    /// process's own limit of the file size if that is smaller. Blocks on the disk.
    pub fn create(folder: &Path, id: &str, max_bytes: u64) -> io::Result<Spill> {
        private_folder(folder)?;
        // A folder that cannot be tidied up can still take a file.
        if let Err(error) = tidy_spills(folder, SystemTime::now(), RETENTION) {
            tracing::warn!(folder = %folder.display(), %error, "old outputs could not be removed");
        }
        let kept = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
        let id: String = id.chars().take(ID_CHARS_MAX).map(kept).collect();
        let random = crate::words::ids::new_uuid().simple().to_string();
        // The second half of a UUIDv7 is the random one.
        let path = folder.join(format!("{id}-{}.log", &random[16..]));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        #[cfg(unix)]
        let max_bytes = max_bytes.min(crate::tool::workspace::file_size_max());
        Ok(Spill { file, path, written: 0, dropped: 0, max_bytes, is_finished: false })
    }

    /// Appends bytes, up to the cap. Blocks on the disk.
    ///
    /// After an error the file holds the bytes that were written before, and maybe a part of these, which is not counted. The
    /// caller may continue without the file.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.max_bytes - self.written).unwrap_or(usize::MAX);
        let taken = &bytes[..bytes.len().min(room)];
        self.dropped += (bytes.len() - taken.len()) as u64;
        self.file.write_all(taken)?;
        self.written += taken.len() as u64;
        Ok(())
    }

    /// Closes the file and keeps it: a drop does not remove it any more.
    #[must_use]
    pub fn finish(mut self) -> SpillFile {
        self.is_finished = true;
        SpillFile { path: std::mem::take(&mut self.path), bytes: self.written, dropped: self.dropped }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl SpillFile {
    /// The words for the model: where the file is, and whether it stops before the end of the output.
    #[must_use]
    pub fn notice(&self) -> String {
        let path = self.path.display();
        let how = if is_told(&self.path) { " (for the tools read and grep)" } else { "" };
        match self.dropped {
            0 => format!("Full output: {path}{how}"),
            dropped => format!(
                "The first {} of the output: {path}{how} (the file is full; {dropped} bytes after that were not kept there)",
                format_bytes(usize::try_from(self.bytes).unwrap_or(usize::MAX)),
            ),
        }
    }
}

/// One spill file as the disk shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpillEntry {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// When it was last written.
    pub(crate) modified: SystemTime,
    /// Its size in bytes.
    pub(crate) bytes: u64,
}

/// The spill files in a folder, oldest first. A folder that is not there has none.
///
/// Only plain files whose names end in `.log` are spill files; links are left alone.
pub(crate) fn list_spills(folder: &Path) -> io::Result<Vec<SpillEntry>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut spills = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        // A file that vanishes meanwhile was removed by another process.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() && path.extension().is_some_and(|end| end == "log") {
            spills.push(SpillEntry { path, modified: metadata.modified()?, bytes: metadata.len() });
        }
    }
    spills.sort_by(|a, b| a.modified.cmp(&b.modified).then_with(|| a.path.cmp(&b.path)));
    Ok(spills)
}

/// Which of these files (oldest first) to remove. Pure.
#[must_use]
pub(crate) fn expired(spills: &[SpillEntry], now: SystemTime, retention: Retention) -> Vec<PathBuf> {
    let mut bytes: u64 = spills.iter().map(|spill| spill.bytes).sum();
    let mut files = spills.len();
    let mut gone = Vec::new();
    for spill in spills {
        // A file from the future is new, not old.
        let is_old = now.duration_since(spill.modified).is_ok_and(|age| age > retention.keep);
        if is_old || bytes > retention.bytes_max || files > retention.files_max {
            bytes -= spill.bytes;
            files -= 1;
            gone.push(spill.path.clone());
        }
    }
    gone
}

/// Removes the files that a folder has kept too long, or has too many of. Returns how many files were removed. Blocks on the disk.
///
/// A file that is gone already is not an error. A file that cannot be removed does not keep the others; its error is returned.
pub(crate) fn tidy_spills(folder: &Path, now: SystemTime, retention: Retention) -> io::Result<usize> {
    let (mut removed, mut first) = (0, None);
    for path in expired(&list_spills(folder)?, now, retention) {
        match std::fs::remove_file(path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(removed), Err)
}

pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
