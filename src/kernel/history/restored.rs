//! The record that files were put back, on the tape of the session whose changes were taken back. It changes nothing of the state:
//! the conversation goes on as before.
//!
//! The files are restored before this is recorded (`ops/restore`); nothing here touches a file. A change must never let the core
//! refuse [`RecordRestored`], not even while a turn runs or after the session has ended, because the files have been changed
//! already. (Files that are put back with a rollback are recorded with it, see `back.rs`; if the core refuses the rollback, the
//! caller undoes the restore.) [`RestoredFiles`] is on tapes: what older versions wrote must still be read.

use std::sync::Arc;

use crate::kernel::{
    CarriedOut, Record, Refusal, RestoredFiles,
    draft::{Decide, Draft},
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

    fn in_words(&self) -> String {
        "files were put back".to_owned()
    }
}
