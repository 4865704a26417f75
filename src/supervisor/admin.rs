//! The results and errors of administrative calls to a supervisor, such as to start, stop or park a child. Values only.
//!
//! After `StartFailed`, `Stopped`, `Unkillable`, `ShuttingDown` or `Gone` the call may have changed something: the child did not
//! reach the requested state, or that is unknown. After any other error nothing was changed.
//!
//! Hosts match on these variants. So a change must keep those two sentences true, and must not give a variant a second meaning.

use std::sync::Arc;

use crate::supervisor::{exit::ExitReason, spec::BadSpec};

/// The result of an administrative call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Done {
    /// The child runs.
    Started,
    /// The child runs, and its start had this text.
    StartedWith(Arc<str>),
    /// The child has nothing to do, and did not start ([`Start::ignore`](crate::supervisor::Start::ignore)).
    Ignored,
    /// The child is in the state that was asked for.
    Ok,
}

/// Why an administrative call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No such child.
    #[error("no such child")]
    NotFound,
    /// A child with this id runs, or is on its way up or down.
    #[error("a child with this id runs already")]
    AlreadyStarted,
    /// A child with this id is known and stopped.
    #[error("a child with this id already exists (stopped): restart or delete it")]
    AlreadyPresent,
    /// The child runs, or is on its way up or down.
    #[error("the child runs")]
    Running,
    /// The child waits for its restart after a crash, or is just restarting.
    #[error("the child waits for its restart")]
    Restarting,
    /// The child is parked.
    #[error("the child is parked")]
    Parked,
    /// The child is not parked.
    #[error("the child is not parked")]
    NotParked,
    /// A dynamic supervisor has reached its limit of children.
    #[error("the limit of {max} children is reached")]
    MaxChildren {
        /// The most there may be.
        max: usize,
    },
    /// The child could not start.
    #[error("the child did not start: {reason}")]
    StartFailed {
        /// Why not.
        reason: ExitReason,
    },
    /// The child was stopped before it had started.
    #[error("the child was stopped before it had started")]
    Stopped,
    /// The child did not end although it was killed: it is in code that never awaits.
    #[error("the child did not end although it was killed")]
    Unkillable,
    /// The child is temporary, and a temporary child is started once.
    #[error("the child is temporary, and is started once")]
    Temporary,
    /// The supervisor goes down.
    #[error("the supervisor is shutting down")]
    ShuttingDown,
    /// The supervisor has ended, or is between two incarnations. The call may have reached it before.
    #[error("the supervisor is not running")]
    Gone,
    /// The spec cannot be run.
    #[error(transparent)]
    BadSpec(#[from] BadSpec),
}

/// The answer to an administrative call.
pub(crate) type Answer = Result<Done, AdminError>;
