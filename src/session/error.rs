//! Why a conversation did not go back, was not forked, and was not merged.

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

/// Why a conversation did not go back. Nothing was recorded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RollbackError {
    /// The session did not take it: [`SendError::Busy`], [`Refusal::Moved`](crate::kernel::Refusal::Moved) in [`SendError::Refused`], and others.
    #[error(transparent)]
    Session(#[from] SendError),
    /// There is no such point, or nothing to take back.
    #[error(transparent)]
    NoPoint(#[from] NoPoint),
    /// The tape could not be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files could not be put back, so the conversation did not go back either.
    #[cfg(all(unix, feature = "tools"))]
    #[error("{0}")]
    Files(#[source] Arc<RestoreError>),
}

impl From<TapeError> for RollbackError {
    fn from(error: TapeError) -> RollbackError {
        OpenError::from(error).into()
    }
}

/// Why a conversation was not forked at a point. No session was made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// There is no such point.
    #[error(transparent)]
    NoPoint(#[from] NoPoint),
    /// The tape could not be read, the fork not be made, or not be woken.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<TapeError> for ForkError {
    fn from(error: TapeError) -> ForkError {
        OpenError::from(error).into()
    }
}

impl From<RollbackError> for ForkError {
    fn from(error: RollbackError) -> ForkError {
        match error {
            RollbackError::NoPoint(error) => error.into(),
            RollbackError::Open(error) => error.into(),
            _ => OpenError::Closed.into(),
        }
    }
}

/// Why a fork was not merged. Both sides are what they were, but for [`MergeError::Kept`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The session that it is merged into did not take it.
    #[error(transparent)]
    Session(#[from] SendError),
    /// One of the two is in a turn.
    #[error("session {session} is busy with turn {turn}: wait for its end, or abort it")]
    Busy {
        /// Which of them.
        session: SessionId,
        /// The running turn.
        turn: Seq,
    },
    /// It is no fork of that session.
    #[error("session {fork} is not a fork of session {session} or of one of its origins")]
    NotAFork {
        /// The session.
        session: SessionId,
        /// What was to be merged.
        fork: SessionId,
    },
    /// It was to be deleted, and not all of it can be merged.
    #[error(
        "{waiting} messages or children of fork {fork} are not done, and would be lost with it: wait, or withdraw them"
    )]
    Waiting {
        /// Which fork.
        fork: SessionId,
        /// How many messages wait and children work.
        waiting: usize,
    },
    /// It is merged, and could not be deleted. The same again deletes it.
    #[error("fork {fork} is merged, and could not be deleted: {why}")]
    Kept {
        /// Which fork.
        fork: SessionId,
        /// The entry that records the merge; `None` where nothing was left to merge.
        entry: Option<Seq>,
        /// Why.
        why: String,
    },
    /// A tape could not be read.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl From<TapeError> for MergeError {
    fn from(error: TapeError) -> MergeError {
        OpenError::from(error).into()
    }
}

impl From<RollbackError> for MergeError {
    fn from(error: RollbackError) -> MergeError {
        match error {
            RollbackError::Session(error) => error.into(),
            RollbackError::Open(error) => error.into(),
            _ => OpenError::Closed.into(),
        }
    }
}

impl RollbackError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            RollbackError::Session(error) => error.kind(),
            RollbackError::NoPoint(error) => error.kind(),
            RollbackError::Open(error) => error.kind(),
            #[cfg(all(unix, feature = "tools"))]
            RollbackError::Files(error) => error.kind(),
        }
    }
}

impl ForkError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            ForkError::NoPoint(error) => error.kind(),
            ForkError::Open(error) => error.kind(),
        }
    }
}

impl MergeError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            MergeError::Session(error) => error.kind(),
            MergeError::Busy { .. } | MergeError::Waiting { .. } => Kind::Busy,
            MergeError::NotAFork { .. } => Kind::Invalid,
            MergeError::Kept { .. } => Kind::Retry,
            MergeError::Open(error) => error.kind(),
        }
    }
}
