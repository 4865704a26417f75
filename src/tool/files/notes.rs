//! Notes about changes to files, one line each, written before the change.
//!
//! A call says what it changed with its result. One that a crash cuts off has no result; what it was about to change is known
//! from here. A note whose path stands in the result of its call says nothing more than that.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{tool::FileChange, words::ids::Seq};

/// How much of the notes is read, in bytes: the newest.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The call's ticket; of a restore the newest entry when it began.
    pub(crate) seq: Seq,
    /// Names a restore; `None` for a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) restore: Option<String>,
    /// What is to be done.
    #[serde(flatten)]
    pub(crate) change: FileChange,
    /// The change that was noted before was not made after all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) not_made: bool,
}

/// Where the notes of a session are.
pub(super) fn file_of(folder: &Path) -> PathBuf {
    folder.join("notes.jsonl")
}

/// Writes a line. It is with the kernel when this returns.
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

/// Whether a crash left a part of a line.
fn ends_in_mid_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

/// The changes that were noted and not taken back, oldest first. A line that cannot be read is passed over.
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
