//! The result of a restore ([`Restored`]), or the reason why there was none ([`RestoreError`]).
//!
//! The doc of each error says what was done to files. Three of them may leave changed files behind: `Partly`, `NotRecorded` and
//! `CutOff`; after the others nothing was done. A change must keep that true, because a host decides by it whether to look at the
//! workspace.

use std::sync::Arc;

use crate::{
    error::{Kind, OpenError, SendError},
    kernel::{RefusedFile, RestoredFiles},
    ops::restore::FilePlan,
    tape::TapeError,
    tool::workspace::WorkspaceError,
    words::ids::Seq,
};

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The entry that records it. To undo the restore, restore to the entry before this one.
    pub entry: Seq,
    /// What was done, and what was refused.
    pub files: Arc<RestoredFiles>,
}

/// Why files were not put back, or why no plan could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A turn is running, and may change files. Nothing was done.
    #[error("turn {turn} is running: wait for its end, or abort it")]
    Busy {
        /// The id of the running turn.
        turn: Seq,
    },
    /// Some files must be refused, and the restore was all or nothing. Nothing was done; the plan names the files.
    #[error("{} of {} files cannot be restored, so none was: {}", .plan.refused().count(), .plan.files.len(), refused(.plan))]
    Refused {
        /// What would have been done.
        plan: Box<FilePlan>,
    },
    /// Some files could not be put back, or the conversation did not go back. So the restore was undone.
    #[error("{}", partly(.files, *.left))]
    Partly {
        /// What had been done before the undo, and what could not be.
        files: Arc<RestoredFiles>,
        /// How many files could not be undone, and still have their old content.
        left: usize,
    },
    /// The tools of this runtime do not work on files, or not here. Nothing was done.
    #[error("the tools of this runtime change no files here, so there is nothing to restore")]
    NoFiles,
    /// The tape cannot be read. Nothing was done.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The workspace cannot be opened. Nothing was done.
    #[error("the workspace cannot be opened: {0}")]
    Workspace(#[from] WorkspaceError),
    /// The session cannot be asked. Nothing was done.
    #[error(transparent)]
    Session(#[from] SendError),
    /// The files were put back, but the tape could not record it. The same restore again finds what was done, and records it.
    #[error("files were restored ({}), but the tape could not record it: {source}", .files.files.len())]
    NotRecorded {
        /// What was done.
        files: Arc<RestoredFiles>,
        /// Why it could not be recorded.
        source: SendError,
    },
    /// The work was cut off by a panic or by the end of the runtime. The changes until then are in the notes.
    #[error("the restore was cut off; make it again")]
    CutOff,
}

/// What could not be put back, and what became of the rest.
fn partly(files: &RestoredFiles, left: usize) -> String {
    const SHOWN_MAX: usize = 3;
    let shown = |file: &RefusedFile| format!("{}: {}", file.path, file.why);
    let refused: Vec<String> = files.refused.iter().take(SHOWN_MAX).map(shown).collect();
    let why = match refused.is_empty() {
        true => "the conversation was not rolled back".to_owned(),
        false => format!("not all files could be restored ({})", refused.join("; ")),
    };
    match left {
        0 => format!("{why}, so the restore was undone"),
        left => format!("{why}, and the restore of {left} files could not be undone"),
    }
}

/// The first of the files that are refused, with the reasons.
fn refused(plan: &FilePlan) -> String {
    const SHOWN_MAX: usize = 3;
    let shown: Vec<String> = plan.refused().take(SHOWN_MAX).map(|file| file.in_a_line()).collect();
    let more = plan.refused().count().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

impl From<TapeError> for RestoreError {
    fn from(error: TapeError) -> RestoreError {
        OpenError::from(error).into()
    }
}

impl RestoreError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RestoreError::Busy { .. } => Kind::Busy,
            RestoreError::Refused { .. } => Kind::Stale,
            RestoreError::NoFiles | RestoreError::Workspace(_) => Kind::Invalid,
            RestoreError::Open(error) => error.kind(),
            RestoreError::Session(error) => error.kind(),
            RestoreError::NotRecorded { .. } | RestoreError::CutOff => Kind::Retry,
            RestoreError::Partly { .. } => Kind::Storage,
        }
    }
}
