//! What a caller can do about an error: one short list of kinds, and the kind of the errors of `error.rs`, of the tape, of
//! refusals, of missing points of a tape ([`NoPoint`]) and of the supervisor. Other errors define their `kind()` next to them
//! (`session/error.rs`, `runtime/command.rs`, `runtime/operate.rs`, `ops/`).
//!
//! A host decides by the kind and shows the text, so that a new variant does not break the host. An error of this file that holds
//! another error with a `kind()` has the kind of that error, however deep.
//!
//! A change must keep that, and name every variant in each `match` here, so that a new variant cannot be forgotten.

use serde::Serialize;

use crate::{
    error::{DeleteError, OpenError, PassivateError, SendError, SpawnError, StartError},
    kernel::{NoPoint, Refusal},
    supervisor::{AdminError, TreeError},
    tape::TapeError,
};

/// What a caller can do about an error. The errors of a runtime and of its sessions have a kind (`kind()`): a host decides by this
/// short list, and shows the error's text to people.
///
/// ```
/// use tamtam::{SendError, runtime::Kind};
///
/// let again = |error: &SendError| matches!(error.kind(), Kind::Retry | Kind::Unsettled);
/// assert!(again(&SendError::Stopped));
/// assert!(!again(&SendError::Parked));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// The named thing does not exist: name something else.
    NotFound,
    /// The name is taken.
    Exists,
    /// Other work must end first, or another caller has the session: wait for that, or abort it.
    Busy,
    /// The obstacle is temporary: ask again in a moment.
    Retry,
    /// A limit is reached: make room, or raise it.
    Limit,
    /// The session has changed since the caller looked: look again, then ask again.
    Stale,
    /// The request can never succeed as it is: ask for something else.
    Invalid,
    /// The session or node is kept stopped: an operator has to unpark it.
    Parked,
    /// The session has ended, or the runtime drains or is shut down.
    Closed,
    /// The disk, or an engine of the host, refused.
    Storage,
    /// The stored data cannot be understood: it is damaged, or of a later version.
    Damaged,
    /// It is unknown whether it was done: ask again under the same id.
    Unsettled,
    /// Something crashed, or did not start. `inspect` shows what.
    Failed,
}

impl SendError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            SendError::Stopped => Kind::Retry,
            SendError::Handled | SendError::NoAgent { .. } => Kind::Invalid,
            SendError::HookFailed { .. } => Kind::Failed,
            SendError::Parked => Kind::Parked,
            SendError::Draining | SendError::Closed => Kind::Closed,
            SendError::Unsettled { .. } => Kind::Unsettled,
            SendError::Crashed => Kind::Failed,
            SendError::Unavailable(error) => error.kind(),
            SendError::Storage(error) => error.kind(),
            SendError::Refused(refusal) => refusal.kind(),
        }
    }
}

impl Refusal {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Refusal::OnHold { .. } | Refusal::Busy { .. } | Refusal::Compacting { .. } | Refusal::Leaving { .. } => {
                Kind::Busy
            }
            Refusal::InboxFull { .. } => Kind::Retry,
            Refusal::TurnMismatch { .. }
            | Refusal::NotWaiting { .. }
            | Refusal::AskClosed { .. }
            | Refusal::Moved { .. }
            | Refusal::Reconfigured
            | Refusal::NothingToUndo => Kind::Stale,
            Refusal::NotInContext { .. }
            | Refusal::NotPinned { .. }
            | Refusal::NoSuchOffer { .. }
            | Refusal::NoSuchGrant { .. } => Kind::NotFound,
            Refusal::SummaryOverBudget
            | Refusal::WouldNotFit { .. }
            | Refusal::PinsFull { .. }
            | Refusal::TooManyGrants { .. }
            | Refusal::OverBudget { .. }
            | Refusal::TooDeep { .. }
            | Refusal::TooManyTasks { .. } => Kind::Limit,
            Refusal::Empty
            | Refusal::ReservedId { .. }
            | Refusal::Length { .. }
            | Refusal::Nested { .. }
            | Refusal::Params { .. }
            | Refusal::Withdrawn { .. }
            | Refusal::OtherWords { .. }
            | Refusal::OtherTask { .. }
            | Refusal::Blocked { .. }
            | Refusal::TooLarge { .. }
            | Refusal::NothingToCompact
            | Refusal::NotABudget { .. }
            | Refusal::NotShown { .. }
            | Refusal::RaisesNothing { .. }
            | Refusal::NotAnOrphan { .. }
            | Refusal::StandsAbove { .. } => Kind::Invalid,
            Refusal::Ended => Kind::Closed,
        }
    }
}

impl OpenError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            OpenError::Tape(error) => error.kind(),
            OpenError::Damaged { .. } => Kind::Damaged,
            OpenError::Workspace { .. }
            | OpenError::UnknownTools { .. }
            | OpenError::Options(_)
            | OpenError::Labels(_) => Kind::Invalid,
            OpenError::Closed | OpenError::Drained => Kind::Closed,
            OpenError::Parked { .. } => Kind::Parked,
            OpenError::Stopped { .. } | OpenError::Unavailable | OpenError::NoAnswer { .. } => Kind::Retry,
            OpenError::Queued { .. } => Kind::Busy,
            OpenError::TooMany { .. } => Kind::Limit,
            OpenError::NotStarted { .. } => Kind::Failed,
        }
    }
}

impl TapeError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            TapeError::Exists { .. } | TapeError::AnchorExists { .. } => Kind::Exists,
            TapeError::Missing { .. } | TapeError::NoEntry { .. } | TapeError::NoAnchor { .. } => Kind::NotFound,
            TapeError::Unfinished { .. } | TapeError::Claimed { .. } => Kind::Busy,
            TapeError::Busy { .. } | TapeError::Unreachable(_) => Kind::Retry,
            TapeError::GoneOn { .. } => Kind::Stale,
            TapeError::TooDeep { .. } | TapeError::MemoryFull { .. } | TapeError::TooLarge { .. } => Kind::Limit,
            TapeError::InsideAppend { .. }
            | TapeError::Gap { .. }
            | TapeError::ReadingOnly
            | TapeError::Import { .. }
            | TapeError::Query { .. }
            | TapeError::NoIndex => Kind::Invalid,
            TapeError::Closed => Kind::Closed,
            TapeError::Io { .. } | TapeError::Changed { .. } | TapeError::Lost { .. } | TapeError::Engine(_) => {
                Kind::Storage
            }
            TapeError::Index { is_damaged: false, .. } => Kind::Storage,
            TapeError::Damaged(_) | TapeError::Newer { .. } | TapeError::Index { is_damaged: true, .. } => {
                Kind::Damaged
            }
        }
    }
}

impl NoPoint {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            NoPoint::NoEntry { .. } | NoPoint::NoMessage { .. } | NoPoint::NoTurn { .. } => Kind::NotFound,
            NoPoint::Unreadable => Kind::Damaged,
            NoPoint::Unfinished { .. } | NoPoint::Nothing | NoPoint::NothingToUndo | NoPoint::NothingToRedo => {
                Kind::Invalid
            }
        }
    }
}

impl StartError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            StartError::NoStore
            | StartError::NoModel
            | StartError::Fallback(_)
            | StartError::NoTokio
            | StartError::NoTimer => Kind::Invalid,
            StartError::Tools(_) | StartError::Limit { .. } => Kind::Invalid,
            StartError::Store(error) => error.kind(),
            StartError::Tree(TreeError::Failed { .. }) => Kind::Failed,
            StartError::Tree(TreeError::BadSpec(_) | TreeError::PanicAbort(_)) => Kind::Invalid,
        }
    }
}

impl SpawnError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            SpawnError::Parent(error) => error.kind(),
            SpawnError::OutsideWorkspace { .. } | SpawnError::Request { .. } => Kind::Invalid,
            SpawnError::Unwritten { .. } => Kind::Failed,
            SpawnError::Open(error) => error.kind(),
        }
    }
}

impl DeleteError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            DeleteError::Busy { .. } | DeleteError::Children { .. } | DeleteError::Task { .. } => Kind::Busy,
            DeleteError::Blocked { refusal, .. } => refusal.kind(),
            DeleteError::Open(error) => error.kind(),
        }
    }
}

impl PassivateError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            PassivateError::Busy { why } if *why == PassivateError::PASSING => Kind::Retry,
            PassivateError::Busy { .. } => Kind::Busy,
            PassivateError::Parked => Kind::Parked,
        }
    }
}

impl AdminError {
    /// What a caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            AdminError::NotFound => Kind::NotFound,
            AdminError::AlreadyStarted | AdminError::AlreadyPresent => Kind::Exists,
            AdminError::Running | AdminError::Restarting => Kind::Busy,
            AdminError::Parked => Kind::Parked,
            AdminError::NotParked | AdminError::Stopped => Kind::Stale,
            AdminError::MaxChildren { .. } => Kind::Limit,
            AdminError::StartFailed { .. } | AdminError::Unkillable => Kind::Failed,
            AdminError::Temporary | AdminError::BadSpec(_) => Kind::Invalid,
            AdminError::ShuttingDown => Kind::Closed,
            AdminError::Gone => Kind::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{session::BranchError, supervisor::ExitReason, words::ids::Seq};

    /// An error that wraps another has the kind of the inner one: a host asks only the outermost.
    #[test]
    fn a_kind_is_that_of_the_cause_however_deep_it_is_wrapped() {
        let session: crate::SessionId = "s".parse().unwrap();
        let missing = || OpenError::from(TapeError::Missing { session: session.clone() });
        let kinds = [
            SendError::from(missing()).kind(),
            BranchError::from(SendError::from(missing())).kind(),
            BranchError::from(missing()).kind(),
            SpawnError::from(missing()).kind(),
            SpawnError::Parent(SendError::from(missing())).kind(),
            DeleteError::from(missing()).kind(),
            StartError::Store(TapeError::Missing { session: session.clone() }).kind(),
        ];
        assert_eq!(kinds, [Kind::NotFound; 7]);
        let refused = SendError::from(Refusal::Moved { expected: Seq(1), actual: Seq(2) });
        assert_eq!(BranchError::from(refused).kind(), Kind::Stale);
        let tree = TreeError::Failed { reason: ExitReason::Normal };
        assert_eq!(StartError::from(tree).kind(), Kind::Failed);
    }

    /// A refusal has one kind, whether it is passed on as it is or has its own variant.
    #[test]
    fn a_refusal_keeps_its_kind_as_an_error_of_a_send() {
        let refusals = [
            Refusal::Busy { turn: Seq(7) },
            Refusal::TurnMismatch { expected: Seq(4), actual: None },
            Refusal::InboxFull { depth: 256 },
            Refusal::Empty,
            Refusal::NotWaiting { id: "m-1".into() },
            Refusal::Withdrawn { id: "m-1".into() },
            Refusal::OtherWords { id: "m-1".into(), first: Seq(7) },
            Refusal::OtherTask { first: Seq(7) },
            Refusal::AskClosed { ask: Seq(3) },
            Refusal::Ended,
        ];
        for refusal in refusals {
            assert_eq!(SendError::from(refusal.clone()).kind(), refusal.kind(), "{refusal:?}");
        }
    }

    /// A temporary obstacle says so, and says when it ends.
    #[test]
    fn what_is_to_be_asked_again_says_so() {
        let session: crate::SessionId = "s".parse().unwrap();
        let errors: [SendError; 5] = [
            SendError::Refused(Refusal::InboxFull { depth: 256 }),
            SendError::Stopped,
            SendError::Storage(TapeError::unreachable("the database is away")),
            OpenError::Unavailable.into(),
            OpenError::NoAnswer { session, why: "it was waited for 30 s".to_owned() }.into(),
        ];
        for error in errors {
            assert_eq!(error.kind(), Kind::Retry, "{error}");
            assert!(error.to_string().contains("again"), "{error}");
        }
        assert_eq!(SendError::Unsettled { message: None }.kind(), Kind::Unsettled);
    }
}
