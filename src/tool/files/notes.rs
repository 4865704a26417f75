//! The notes of a session: a file next to its tape with one line for each change that a file tool or a restore is about to make to
//! a file, and a line that takes a note back if the change was not made. Commands of `bash` write no notes.
//!
//! A call reports its changes with its result, and a restore with its entry on the tape. If the process dies before, the notes
//! name the files about to be changed. The reader (`ops/restore/history.rs`) ignores a note if the result of its call lists the
//! path, and the notes of a restore that has its entry.
//!
//! The callers must write the note first and change the file then; a note that cannot be written does not stop the change.
//! `notes.jsonl` is a stored format, so a change must read old lines; of a long file only the last 64 MiB are read. A note is
//! handed to the operating system and not synced, like the files that it is about: after a power cut it may be missing. What
//! reads and writes notes blocks on the disk.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{tool::FileChange, words::ids::Seq};

/// How much of the end of the notes is read at most, in bytes.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// One line of the notes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The call's ticket; for a restore the newest entry of the tape when the restore began.
    pub(crate) seq: Seq,
    /// The key of a restore; `None` for a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restore: Option<String>,
    /// The planned change, or with `not_made` the one that was not made.
    #[serde(flatten)]
    pub(crate) change: FileChange,
    /// Whether this note takes an earlier one back: the change was not made after all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) not_made: bool,
}

/// The file that holds the notes of a session.
pub(super) fn file_of(folder: &Path) -> PathBuf {
    folder.join("notes.jsonl")
}

/// Appends a line. The operating system has it when this returns.
pub(super) fn append(folder: &Path, note: &Note) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(file_of(folder))?;
    let mut line = serde_json::to_vec(note)?;
    line.push(b'\n');
    if ends_in_mid_line(&mut file)? {
        line.insert(0, b'\n');
    }
    file.write_all(&line)
}

/// Whether a crash left an incomplete line at the end of the file.
fn ends_in_mid_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The changes that were noted and not taken back, oldest first. A line that cannot be read is skipped.
pub(super) fn read(folder: &Path) -> io::Result<Vec<Note>> {
    let mut file = match File::open(file_of(folder)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(READ_BYTES_MAX)))?;
    let mut text = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut text)?;
    let mut notes: Vec<Note> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Ok(note) = serde_json::from_slice::<Note>(line) else { continue };
        if !note.not_made {
            notes.push(note);
            continue;
        }
        let same = |other: &Note| {
            (other.seq, &other.restore, &other.change.path) == (note.seq, &note.restore, &note.change.path)
        };
        if let Some(taken_back) = notes.iter().rposition(same) {
            notes.remove(taken_back);
        }
    }
    Ok(notes)
}
