//! The record that files were put back, on the tape of the session whose changes were taken back. It changes nothing of the state:
//! the conversation goes on as before.
//!
//! The files are restored before this is recorded (`ops/restore`); nothing here touches a file. A change must never let the core
//! refuse [`RecordRestored`], not even while a turn runs or after the session has ended, because the files have been changed
//! already. (Files that are put back with a rollback are recorded with it, see `back.rs`; if the core refuses the rollback, the
//! caller undoes the restore.) [`RestoredFiles`] stands on tapes: what older versions wrote must still be read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{CarriedOut, Record, Refusal, decide::Draft, input::Decide},
    tool::FileChange,
    words::ids::Seq,
};

/// A host has put files back, and has that recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordRestored {
    /// The restore.
    pub files: Arc<RestoredFiles>,
}

impl Decide for RecordRestored {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<CarriedOut, Refusal> {
        draft.write(None, Record::Restored(self.files.clone()));
        Ok(CarriedOut::Done(draft.state.seq))
    }
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RestoredFiles {
    /// Changes after this entry were taken back.
    pub since: Seq,
    /// The name of the restore in the notes beside the tape.
    pub key: String,
    /// The files that the restore changed, in the order of the changes.
    pub files: Vec<FileChange>,
    /// The files that the restore left as they are, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFile>,
}

/// A file that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RefusedFile {
    /// The path of the file, as it stands on the tape.
    pub path: String,
    /// Why.
    pub why: String,
}
