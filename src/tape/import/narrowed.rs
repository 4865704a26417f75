//! What takes the powers of a session that was brought in from a file, and leaves its words.
//!
//! It is the last entry of what came in. Whoever goes on from before it, by a fork, would go on without it; so it is kept beside
//! the tape too, and a fork from before begins with it. Both are written before the session has its place.

use std::{fs, io::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    tape::{
        Entry, Forked, TapeError,
        layout::new_file,
        line::{Chain, encode_lines},
    },
    words::ids::{Millis, Seq, SessionId},
};

/// The kind of that entry, and the name of what is beside the tape.
const IMPORTED: &str = "imported";

/// Where a session was brought in from, and where it works since: the data of an `imported` entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFrom {
    /// The session itself, whatever its entries called it.
    pub session: SessionId,
    /// What the session was called in the file.
    pub from: SessionId,
    /// Its last entry there.
    pub last: Seq,
    /// The folder that it works in from here on.
    pub workspace: String,
    /// Its folder for large outputs: the only one outside of the workspace that it may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

impl ImportedFrom {
    fn entry(&self, seq: Seq, time: Millis) -> Entry {
        Entry::plain(seq, time, IMPORTED, self)
    }
}

/// What is kept beside the tape.
#[derive(Serialize, Deserialize)]
struct Mark {
    /// The entry on the tape. What goes on from before it needs one of its own.
    seq: Seq,
    imported: ImportedFrom,
}

/// Writes it behind the last line of a tape that is being brought in, and beside it. Gives its number.
pub(super) fn write(
    session: &Path,
    entries: &Path,
    chain: &mut Chain,
    imported: &ImportedFrom,
    time: Millis,
) -> Result<Seq, TapeError> {
    let lines = encode_lines(chain, &[imported.entry(chain.seq.next(), time)])?;
    let file = fs::OpenOptions::new().append(true).open(entries);
    let written = file.and_then(|mut file| file.write_all(&lines).and_then(|()| file.sync_all()));
    written.map_err(TapeError::io("write", entries))?;
    mark(session, chain.seq, imported.clone())?;
    Ok(chain.seq)
}

/// What such an entry on a tape says.
pub(super) fn of(entry: &Entry) -> Option<Result<ImportedFrom, serde_json::Error>> {
    (entry.kind == IMPORTED).then(|| serde_json::from_str(entry.data.get()))
}

/// Writes it beside the tape alone: the tape has it already.
pub(super) fn mark(session: &Path, seq: Seq, imported: ImportedFrom) -> Result<(), TapeError> {
    let path = session.join(IMPORTED);
    let mark = Mark { seq, imported };
    let text = serde_json::to_vec(&mark).expect("ids, numbers and texts can be written as JSON");
    let mut file = new_file(&path).map_err(TapeError::io("make", &path))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(TapeError::io("write", &path))
}

/// The entry that stands behind the first one of a fork, where it goes on from before its parent was brought in: as what is kept
/// beside that one says.
///
/// # Errors
/// Where that cannot be read: the fork would have the powers that were taken.
pub(in crate::tape) fn of_fork(said: &str, forked: &Forked, first: &Entry) -> Result<Option<Entry>, TapeError> {
    let mark: Mark = serde_json::from_str(said)
        .map_err(|error| TapeError::engine(format!("what session {} came in with: {error}", forked.parent)))?;
    let (session, spill) = (forked.session.clone(), forked.spill.clone());
    let imported = ImportedFrom { session, spill, ..mark.imported };
    Ok((first.seq <= mark.seq).then(|| imported.entry(first.seq.next(), first.time)))
}
