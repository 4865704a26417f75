//! The record of a restore of files on the tape. It changes nothing of the state: the conversation does not notice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{Held, Record, Refusal, command::Decide, decide::Draft},
    tool::FileChange,
    words::ids::Seq,
};

/// A host had files put back. It is done; this is to be recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordRestored {
    /// What was done.
    pub files: Arc<RestoredFiles>,
}

impl Decide for RecordRestored {
    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        draft.write(None, Record::Restored(self.files.clone()));
        Ok(Held::Done(draft.state.seq))
    }
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredFiles {
    /// Changes after this entry were taken back.
    pub since: Seq,
    /// Names the restore in the notes beside the tape.
    pub key: String,
    /// The files that it changed, in the order in which it did.
    pub files: Vec<FileChange>,
    /// The files that it left as they are, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedFile>,
}

/// A file that was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedFile {
    /// Which, as it stands on the tape.
    pub path: String,
    /// Why.
    pub why: String,
}
