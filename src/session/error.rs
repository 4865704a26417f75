//! The error of rollbacks, forks and merges: why a conversation did not go back, was not forked, or was not merged.
//!
//! After such an error the conversation is as it was, and no session was made. The exceptions: after [`BranchError::Kept`] the
//! merge is recorded; after [`SendError::Unsettled`] it is unknown; a fork under a host's id may have been made and not woken
//! (the same call finds it); `RestoreError::Partly` says how many files could not be undone; and after `RestoreError::CutOff` the
//! files may have changed. A change must keep this list complete, because hosts decide by it what to do again, and must give each
//! new variant a [`Kind`].

#[cfg(all(unix, feature = "tools"))]
use std::sync::Arc;

#[cfg(all(unix, feature = "tools"))]
use crate::ops::restore::RestoreError;
use crate::{
    error::{Kind, OpenError, SendError},
    kernel::NoPoint,
    tape::TapeError,
    words::ids::{Seq, SessionId},
};

/// Why a conversation did not go back, was not forked at a point, or a fork of it was not merged. The conversation is as it was,
/// and no session was made, except after [`BranchError::Kept`] and [`SendError::Unsettled`], and except that
/// [`Session::fork`](crate::Session::fork) under a host's id may have made a fork that did not wake.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BranchError {
    /// The session did not take the command: [`Refusal::Busy`](crate::kernel::Refusal::Busy),
    /// [`Refusal::Moved`](crate::kernel::Refusal::Moved), and others.
    #[error(transparent)]
    Session(#[from] SendError),
    /// The point does not exist, or there is nothing to take back.
    #[error(transparent)]
    NoPoint(#[from] NoPoint),
    /// A tape could not be read, or the fork could not be made or woken.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files could not be put back, or the conversation could not go back with them. So neither did; the error says what became
    /// of the files.
    #[cfg(all(unix, feature = "tools"))]
    #[error("{0}")]
    Files(#[source] Arc<RestoreError>),
    /// One of the two sessions of a merge is in a turn.
    #[error("session {session} is busy with turn {turn}: wait for its end, or abort it")]
    Busy {
        /// The session that is in the turn.
        session: SessionId,
        /// The running turn.
        turn: Seq,
    },
    /// The session to merge is not a fork of the session it would be merged into.
    #[error("session {fork} is not a fork of session {session} or of one of its origins")]
    NotAFork {
        /// The session.
        session: SessionId,
        /// The session to merge.
        fork: SessionId,
    },
    /// A fork should be merged and deleted, but not all of it can be merged.
    #[error(
        "{waiting} messages or children of fork {fork} are not done, and would be lost with it: wait, or withdraw them"
    )]
    Waiting {
        /// The id of the fork.
        fork: SessionId,
        /// How many messages of the fork wait, and children work.
        waiting: usize,
    },
    /// The fork is merged, but could not be deleted. The same call again deletes it.
    #[error("fork {fork} is merged, and could not be deleted: {why}")]
    Kept {
        /// The id of the fork.
        fork: SessionId,
        /// The entry that records the merge; `None` if nothing was left to merge.
        entry: Option<Seq>,
        /// The reason, in words.
        why: String,
    },
}

impl From<TapeError> for BranchError {
    fn from(error: TapeError) -> BranchError {
        OpenError::from(error).into()
    }
}

#[cfg(all(unix, feature = "tools"))]
impl From<RestoreError> for BranchError {
    fn from(error: RestoreError) -> BranchError {
        match error {
            RestoreError::Session(error) => error.into(),
            other => BranchError::Files(Arc::new(other)),
        }
    }
}

impl BranchError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            BranchError::Session(error) => error.kind(),
            BranchError::NoPoint(error) => error.kind(),
            BranchError::Open(error) => error.kind(),
            #[cfg(all(unix, feature = "tools"))]
            BranchError::Files(error) => error.kind(),
            BranchError::Busy { .. } | BranchError::Waiting { .. } => Kind::Busy,
            BranchError::NotAFork { .. } => Kind::Invalid,
            BranchError::Kept { .. } => Kind::Retry,
        }
    }
}
