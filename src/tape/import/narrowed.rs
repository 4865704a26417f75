//! The `imported` entry: it takes the powers of a session that was brought in from a file, and leaves its words. Its powers are
//! what it could do without asking again: its rules and grants, its folders, its open work, its place under a parent.
//!
//! The entry follows everything that came in. A fork from before the entry would not have it, so it is kept next to the tape as
//! well, as a mark (over files `sessions/<id>/imported`), and such a fork gets one like it as its second entry.
//!
//! Security rests on this. Entry and mark must be durable before the session can be opened (both go through
//! [`TapeStore::take_in`](crate::tape::TapeStore::take_in), which makes all or nothing); the mark must stay as long as the session;
//! and a mark that cannot be read must be an error, never "no mark".
//! [`ImportedFrom`] and the mark are stored formats. `kernel/apply/fork.rs` decides the effect of the entry on the session's state.

use serde::{Deserialize, Serialize};

use crate::{
    tape::{Forked, TapeEntry, TapeError, TapePiece},
    words::ids::{Millis, Seq, SessionId},
};

/// The kind of the entry.
const IMPORTED: &str = "imported";

/// The data of an `imported` entry: where a session came from, and where it works since.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ImportedFrom {
    /// The session itself, under any name in its entries.
    pub session: SessionId,
    /// The session's id in the file.
    pub from: SessionId,
    /// The last entry of the file.
    pub last: Seq,
    /// The folder that it works in from here on.
    pub workspace: String,
    /// Its folder for large outputs: the only one outside of the workspace that it may read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

impl ImportedFrom {
    pub(super) fn entry(&self, seq: Seq, time: Millis) -> TapeEntry {
        TapeEntry::plain(seq, time, IMPORTED, self)
    }
}

/// The mark next to the tape. Stored format.
#[derive(Serialize, Deserialize)]
struct Mark {
    /// The number of the entry on the tape. A fork from before it needs its own entry.
    seq: Seq,
    imported: ImportedFrom,
}

/// The data of an `imported` entry; `None` of any other kind.
pub(super) fn of(entry: &TapeEntry) -> Option<Result<ImportedFrom, serde_json::Error>> {
    (entry.kind == IMPORTED).then(|| serde_json::from_str(entry.data.get()))
}

/// The mark next to a tape whose entry `seq` is the `imported` one.
pub(super) fn mark(seq: Seq, imported: ImportedFrom) -> TapePiece {
    let about = serde_json::to_string(&Mark { seq, imported }).expect("ids, numbers and texts can be written as JSON");
    TapePiece::Mark { mark: crate::tape::Mark::Imported, about }
}

/// The second entry of a fork that continues from before its parent's `imported` entry; `said` is the parent's mark. `None` if
/// the fork has that entry already.
///
/// # Errors
/// The mark cannot be read: without its entry, the fork would have the powers that were taken.
pub(in crate::tape) fn of_fork(said: &str, forked: &Forked, first: &TapeEntry) -> Result<Option<TapeEntry>, TapeError> {
    let mark = read(&forked.parent, said)?;
    let (session, spill) = (forked.session.clone(), forked.spill.clone());
    let imported = ImportedFrom { session, spill, ..mark.imported };
    Ok((first.seq <= mark.seq).then(|| imported.entry(first.seq.next(), first.time)))
}

/// The number of the `imported` entry on a session's tape; `said` is the session's mark.
///
/// # Errors
/// The mark cannot be read.
#[cfg(feature = "sqlite")]
pub(in crate::tape) fn seq(session: &SessionId, said: &str) -> Result<Seq, TapeError> {
    Ok(read(session, said)?.seq)
}

fn read(session: &SessionId, said: &str) -> Result<Mark, TapeError> {
    serde_json::from_str(said)
        .map_err(|error| TapeError::engine(format!("what session {session} came in with: {error}")))
}
