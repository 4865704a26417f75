//! The record of a restore of files on the tape. It changes nothing of the state: the conversation does not notice.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        Entry, Held, Record, Recorded, Refusal,
        command::{Decide, first},
        decide::Draft,
    },
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
    fn is() -> &'static str {
        "restored"
    }

    fn read_back(_: &Recorded, wrote: &[Entry]) -> Option<RecordRestored> {
        match first(wrote)? {
            Record::Restored(files) => Some(RecordRestored { files: files.clone() }),
            _ => None,
        }
    }

    fn name(&self) -> &'static str {
        "restored"
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<Held, Refusal> {
        draft.write(None, Record::Restored(self.files.clone()));
        Ok(Held::Done(draft.state.seq))
    }

    fn in_words(&self) -> String {
        "files were put back".to_owned()
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
