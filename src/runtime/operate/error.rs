//! Why a lever did nothing. Each error names what the operator can do next.

use std::time::Duration;

use crate::{
    error::{Kind, SendError},
    supervisor::{AdminError, ExitReason, Status},
    tape::TapeError,
};

/// Why a lever did nothing, and what to do instead.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// Nothing in the tree has that id or path.
    #[error(
        "there is no {id} in the tree: `tree` lists what there is; a session of the store is in it once a message, or `Runtime::open`, wakes it"
    )]
    Unknown {
        /// The id or path that was named.
        id: String,
    },
    /// It is the root.
    #[error("{id} is the root: `drain` and then `shutdown` the runtime, or name a node below it")]
    IsRoot {
        /// The id of the node.
        id: String,
    },
    /// The node is a task of an actor, not a child of a supervisor.
    #[error("{id} is a task of {owner} and ends with it: abort the turn of {owner}, or stop it")]
    IsTask {
        /// The id of the node.
        id: String,
        /// The actor that it is a task of.
        owner: String,
    },
    /// The lever works on sessions only.
    #[error("{id} is a {kind}, not a session: `stop` and `restart` work on it")]
    NotASession {
        /// The id of the node.
        id: String,
        /// The kind of the node.
        kind: &'static str,
    },
    /// The node is kept stopped.
    #[error("{id} is parked: `inspect` shows why, `unpark` starts it again")]
    Parked {
        /// The id of the node.
        id: String,
    },
    /// The node is not kept stopped, so there is nothing to unpark.
    #[error("{id} is not parked, it is {status}: `restart` starts it afresh")]
    NotParked {
        /// The id of the node.
        id: String,
        /// The status that it has instead.
        status: Status,
    },
    /// The session has something to do.
    #[error("{id} is busy ({why}): wait for it, or `stop` it")]
    Busy {
        /// The id of the node.
        id: String,
        /// What keeps it awake.
        why: &'static str,
    },
    /// The session did not answer in two seconds. The request stays noted, and takes effect as soon as the session answers.
    #[error(
        "{id} has not answered for 2 s: it has been handling {with} for {} s; the request takes effect as soon as it answers, `inspect` \
         shows its state, `stop` ends it",
        since.as_secs()
    )]
    NoAnswer {
        /// The id of the node.
        id: String,
        /// The work that the session is doing.
        with: &'static str,
        /// How long it has been doing that work.
        since: Duration,
    },
    /// The node did not come up.
    #[error("{id} did not come up: {reason}: `inspect` shows its crash reports")]
    NotStarted {
        /// The id of the node.
        id: String,
        /// The reason.
        reason: ExitReason,
    },
    /// The node was killed, and is still there.
    #[error(
        "{id} was killed and is still there: it is in code that never awaits; `inspect` shows in what, and only the end of that \
         code, or of the process, ends it"
    )]
    Unkillable {
        /// The id of the node.
        id: String,
    },
    /// It is done in this runtime, and the store could not note it: the next runtime does not know it.
    #[error(
        "{id}: done, but only until the runtime ends, because the store could not note it ({error}): pull the lever again once the disk works"
    )]
    NotNoted {
        /// The id of the node.
        id: String,
        /// What the store said.
        #[source]
        error: TapeError,
    },
    /// The session refused.
    #[error("{id} refused: {error}")]
    Refused {
        /// The id of the node.
        id: String,
        /// The reason.
        #[source]
        error: SendError,
    },
    /// The node's supervisor refused.
    #[error("the supervisor of {id} refused: {error}: `inspect` shows its state")]
    Supervisor {
        /// The id of the node.
        id: String,
        /// The reason.
        #[source]
        error: AdminError,
    },
    /// The runtime, or this part of its tree, is going down.
    #[error("the runtime is shutting down: nothing can be started or changed")]
    Closing,
}

impl OperateError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            OperateError::Unknown { .. } => Kind::NotFound,
            OperateError::IsRoot { .. } | OperateError::IsTask { .. } | OperateError::NotASession { .. } => {
                Kind::Invalid
            }
            OperateError::Parked { .. } => Kind::Parked,
            OperateError::NotParked { .. } => Kind::Stale,
            OperateError::Busy { .. } => Kind::Busy,
            OperateError::NoAnswer { .. } => Kind::Retry,
            OperateError::NotStarted { .. } | OperateError::Unkillable { .. } | OperateError::NotNoted { .. } => {
                Kind::Failed
            }
            OperateError::Closing => Kind::Closed,
            OperateError::Refused { error, .. } => error.kind(),
            OperateError::Supervisor { error, .. } => error.kind(),
        }
    }
}
