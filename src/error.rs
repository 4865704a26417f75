//! The errors of starting a runtime, of opening, spawning, passivating and deleting a session, and of the commands that a session
//! takes; and what a caller can do about each ([`Kind`]). The other operations have their errors in their own files:
//! `runtime::OperateError`, `session::BranchError`, `ops::RestoreError` and others.
//!
//! An error means that nothing was recorded, unless its variant says otherwise. Each text says what happened; the texts of errors
//! that a sender can act upon also say what to do next.
//!
//! A change must keep this: a refusal has the same text in every error that passes it on; a cause that is an error type is kept
//! as the source, and a cause that is known only as text is kept as text; and no variant names a type of ractor, reqwest or
//! rusqlite.

mod kind;

pub use kind::Kind;

use tokio::task::JoinError;

use crate::{
    kernel::Refusal,
    supervisor::TreeError,
    tape::TapeError,
    words::ids::{MessageId, SessionId},
    words::labels::BadLabel,
};

/// Why a session did not carry out a command or answer a question. Nothing was recorded unless the variant says otherwise.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A hook of the host has dealt with the message.
    #[error("a hook handled the message, so it was not sent")]
    Handled,
    /// An input hook that guards crashed or took too long, so the message was not sent.
    #[error(
        "the hook {hook} failed ({error}), so the message was not sent: fix it, or return false from its `guards()` if messages may pass without it"
    )]
    HookFailed {
        /// Its name.
        hook: String,
        /// What happened.
        error: String,
    },
    /// The session crashed again and again, or an operator parked it, and it is kept stopped. An operator can unpark it.
    #[error(
        "the session is parked: it crashed too often, or an operator parked it; `inspect` shows why, `unpark` starts it again"
    )]
    Parked,
    /// The runtime finishes its turns and takes no new messages.
    #[error(
        "the runtime is draining and takes no new messages: send the message to the next runtime on the same tapes"
    )]
    Draining,
    /// The runtime is shut down.
    #[error("the runtime is shut down: start another one on the same tapes to continue the session")]
    Closed,
    /// An operator stops the session, and its actor is not down yet. Once the actor is down, the next message wakes the session.
    /// If the stop says [`OperateError::Unkillable`](crate::runtime::OperateError::Unkillable), the actor goes down when the
    /// code that it runs ends, or never.
    #[error("an operator is stopping the session: send again when it has stopped, and it wakes")]
    Stopped,
    /// The runtime ended, or the session was stopped or crashed, while the command was on its way to the tape. For some seconds
    /// it was unknown whether the tape has it: the disk did not answer, or the session was woken again.
    ///
    /// Send a message again under the same id: if the tape has it, the answer is its receipt, and it is never taken twice.
    #[error(
        "whether {} is not known: {}",
        match message { Some(id) => format!("message {id} is on the tape"), None => "it was recorded".to_owned() },
        match message { Some(_) => "send it again under the same id", None => "look at the session's state when it is awake" }
    )]
    Unsettled {
        /// The id of the message; `None` if the command was not a message.
        message: Option<MessageId>,
    },
    /// The session crashed twice while it decided about this input, so the input was dropped. It has no effect.
    #[error("the session crashed twice on this input, so it was dropped: `inspect` shows why")]
    Crashed,
    /// The message names an agent that a session of this runtime, or this session by its rules, may not work as. It was not accepted.
    #[error("{why}")]
    NoAgent {
        /// Which one, and those that there are.
        why: String,
    },
    /// The session was asleep and could not be woken, or it crashed and its tape cannot be read at the moment.
    #[error("failed to wake the session: {0}")]
    Unavailable(#[source] Box<OpenError>),
    /// The tape could not be written. The message was not accepted; it is safe to send it again under the same id.
    #[error("failed to write the tape: {0}")]
    Storage(#[source] TapeError),
    /// The session refused the command: it is busy with a turn, too many messages wait, it has ended permanently, and others.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl From<OpenError> for SendError {
    fn from(error: OpenError) -> SendError {
        match error {
            OpenError::Closed => SendError::Closed,
            OpenError::Stopped { .. } => SendError::Stopped,
            OpenError::Parked { .. } => SendError::Parked,
            other => SendError::Unavailable(Box::new(other)),
        }
    }
}

/// Why a runtime did not start, or did not take a set of tools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The builder has no setting for where tapes are kept.
    #[error("no store was given: call Builder::store with a folder, or Builder::in_memory")]
    NoStore,
    /// The builder was given no model.
    #[error("no model was given: call Builder::model or Builder::models")]
    NoModel,
    /// The chain behind the default model.
    #[error("the fallback of the runtime {0}")]
    Fallback(String),
    /// A tool has a name that providers reject, or two tools have one name.
    #[error("{0}")]
    Tools(String),
    /// A limit of [`RuntimeLimits`](crate::runtime::RuntimeLimits) is out of range.
    #[error("the limit {limit} is {is}: it may be {range}")]
    Limit {
        /// Its name.
        limit: &'static str,
        /// What it was set to.
        is: String,
        /// What it may be.
        range: String,
    },
    /// The start was not awaited in a tokio runtime.
    #[error("a runtime starts in a tokio runtime: await Builder::start inside of one, such as that of #[tokio::main]")]
    NoTokio,
    /// The tokio runtime has no time driver.
    #[error("the tokio runtime has no timer: build it with enable_all, or with enable_time")]
    NoTimer,
    /// The store could not be opened.
    #[error("failed to open the store: {0}")]
    Store(#[from] TapeError),
    /// The supervision tree did not come up.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

/// Why a child was not made, or an orphan not adopted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The parent did not take the task: [`Refusal::TooDeep`], [`Refusal::TooManyTasks`] and others in
    /// [`SendError::Refused`], or another error.
    #[error(transparent)]
    Parent(#[from] SendError),
    /// The child's workspace is outside of its parent's.
    #[error("the workspace {workspace} is outside of its parent's, {parent}")]
    OutsideWorkspace {
        /// The child's workspace.
        workspace: String,
        /// The parent's workspace.
        parent: String,
    },
    /// A task cannot be given so: it names an agent, a file or a session that cannot be taken.
    #[error("{why}")]
    Request {
        /// What is wrong, and what could be taken.
        why: String,
    },
    /// An agent asked for a text wrote none. If it ran, its session and what it cost are recorded.
    #[error("nothing was written: {why}")]
    Unwritten {
        /// Why not.
        why: String,
    },
    /// The child did not come up. If the parent's tape has the task, the parent keeps trying, and the DOWN still comes.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a session could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The tape could not be made, claimed or read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// The tape is damaged in the middle: it can be read up to the damage, but the session cannot continue.
    #[error("session {session} is damaged: {damage}")]
    Damaged {
        /// The id of the session.
        session: SessionId,
        /// Where, and what is wrong.
        damage: String,
    },
    /// The workspace is not a folder that can be opened.
    #[error("failed to open the workspace {path}: {source}")]
    Workspace {
        /// Which folder.
        path: String,
        /// What the system said.
        #[source]
        source: std::sync::Arc<std::io::Error>,
    },
    /// The options name tools that the runtime does not have. A pattern, such as `mcp_*`, may match nothing.
    #[error("the runtime has no tool called {unknown}: it has {known}")]
    UnknownTools {
        /// The names that no tool has.
        unknown: String,
        /// The names of the tools that there are.
        known: String,
    },
    /// A name, a title or the options of requests are out of their bounds.
    #[error(transparent)]
    Options(#[from] Refusal),
    /// A child has too many labels, together with those of its parent.
    #[error(transparent)]
    Labels(#[from] BadLabel),
    /// Sessions with these labels are drained ([`Labelled::drain`](crate::runtime::Labelled::drain)).
    #[error("sessions with these labels are drained: make it in the next runtime")]
    Drained,
    /// The runtime is draining or shut down.
    #[error("the runtime is shutting down and opens no sessions")]
    Closed,
    /// The session crashed again and again, or an operator parked it, and it is kept stopped until it is unparked.
    #[error("session {session} is parked: unpark it first")]
    Parked {
        /// The id of the session.
        session: SessionId,
    },
    /// An operator stops the session, and its actor is not down yet. Once the actor is down, the next message or
    /// [`Runtime::open`](crate::Runtime::open) wakes the session; see [`SendError::Stopped`].
    #[error("an operator is stopping session {session}: try again when it has stopped, and it wakes")]
    Stopped {
        /// The id of the session.
        session: SessionId,
    },
    /// The runtime's tape store crashed too often and is kept stopped. It restarts automatically within half a minute. Sessions
    /// that are awake keep working.
    #[error(
        "the tape store crashed too often and is kept stopped for half a minute: try again then, `inspect` shows why"
    )]
    Unavailable,
    /// The session, or its parent, has not answered for a while. The session may still come up.
    #[error("session {session} has not answered, try again later: {why}")]
    NoAnswer {
        /// The id of the session.
        session: SessionId,
        /// For how long, or why not.
        why: String,
    },
    /// The session is the child of a task that waits for room behind its parent's `task_width_max`, so it is not made yet.
    /// [`Child::started`](crate::runtime::Child::started) waits until it is.
    #[error("session {session} is not made yet, its task waits for room: try again when it has begun")]
    Queued {
        /// The id of the session.
        session: SessionId,
    },
    /// As many sessions are awake as there may be.
    #[error("the limit of {max} awake sessions is reached: put some to sleep, or raise the limit")]
    TooMany {
        /// The most there may be.
        max: usize,
    },
    /// The session's actor did not start.
    #[error("failed to start session {session}: {why}")]
    NotStarted {
        /// The id of the session.
        session: SessionId,
        /// The reason, in words.
        why: String,
    },
}

impl OpenError {
    /// The tape of the session cannot be understood.
    pub(crate) fn damaged(session: &SessionId, damage: impl std::fmt::Display) -> OpenError {
        OpenError::Damaged { session: session.clone(), damage: damage.to_string() }
    }

    /// A task of the runtime gave no answer: it panicked, or its tokio runtime ended.
    pub(crate) fn lost(lost: JoinError) -> OpenError {
        match TapeError::lost(lost) {
            TapeError::Closed => OpenError::Closed,
            panicked => panicked.into(),
        }
    }

    /// The session's actor did not start.
    pub(crate) fn not_started(session: &SessionId, why: impl std::fmt::Display) -> OpenError {
        OpenError::NotStarted { session: session.clone(), why: why.to_string() }
    }

    /// Whether the same call may succeed a moment later, without help.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            OpenError::Unavailable => true,
            OpenError::Tape(TapeError::Missing { .. }) => false,
            OpenError::Tape(error) => !error.is_for_good(),
            _ => false,
        }
    }

    /// Whether the cause never goes away without help.
    pub(crate) fn is_for_good(&self) -> bool {
        match self {
            OpenError::Tape(error) => error.is_for_good(),
            OpenError::Damaged { .. } => true,
            _ => false,
        }
    }
}

/// Why a session was not deleted. Nothing of it was removed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeleteError {
    /// The session has a turn that is not over, or something else to do.
    #[error("session {session} is busy ({why}): abort its turn or wait for it, then delete it")]
    Busy {
        /// The id of the session.
        session: SessionId,
        /// What it has to do.
        why: String,
    },
    /// Children of the session are at work.
    #[error("session {session} has {children} open tasks: stop them or end the session, then delete it")]
    Children {
        /// The id of the session.
        session: SessionId,
        /// How many of its tasks are open.
        children: usize,
    },
    /// The session does a task of another one, which waits for it.
    #[error(
        "session {session} does a task for session {parent}, which is still running: stop the task, then delete it"
    )]
    Task {
        /// The id of the session.
        session: SessionId,
        /// The session whose task it does.
        parent: SessionId,
    },
    /// A hook of the host refused the deletion ([`Hook::before_operation`](crate::hook::Hook::before_operation)).
    #[error("session {session} is kept: {refusal}")]
    Blocked {
        /// The id of the session.
        session: SessionId,
        /// What the hook says.
        refusal: Refusal,
    },
    /// The session does not exist, another process has it, or the store refused.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a session was not put to sleep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassivateError {
    /// The session has something to do. Wait for it, or abort its turn.
    #[error("the session is busy ({why}): wait for it, or abort its turn")]
    Busy {
        /// What keeps it awake.
        why: &'static str,
    },
    /// The session is parked, and has no actor.
    #[error("the session is parked: it has no actor that could sleep")]
    Parked,
}

impl PassivateError {
    /// The reason that passes within moments.
    pub(crate) const PASSING: &'static str = "it is just waking up, or a task of it is just ending";
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::words::ids::Seq;

    /// One cause has one text everywhere: the core's refusal, the library's error, a reply of the JSON lines.
    #[test]
    fn a_refusal_is_said_in_the_same_words_by_whoever_passes_it_on() {
        let refusals = [
            Refusal::Busy { turn: Seq(7) },
            Refusal::TurnMismatch { expected: Seq(4), actual: None },
            Refusal::TurnMismatch { expected: Seq(4), actual: Some(Seq(9)) },
            Refusal::InboxFull { depth: 256 },
            Refusal::Empty,
            Refusal::NotWaiting { id: "m-1".into() },
            Refusal::Withdrawn { id: "m-1".into() },
            Refusal::OtherWords { id: "m-1".into(), first: Seq(7) },
            Refusal::OtherTask { first: Seq(7) },
            Refusal::AskClosed { ask: Seq(3) },
            Refusal::Ended,
            Refusal::NothingToCompact,
            Refusal::Moved { expected: Seq(1), actual: Seq(2) },
        ];
        for refusal in refusals {
            assert_eq!(SendError::from(refusal.clone()).to_string(), refusal.to_string());
        }
        let mismatch = SendError::Refused(Refusal::TurnMismatch { expected: Seq(4), actual: Some(Seq(9)) });
        assert_eq!(mismatch.to_string(), "turn 4 is not running, turn 9 is");
        let full = SendError::Refused(Refusal::InboxFull { depth: 64 });
        assert_eq!(full.to_string(), "the inbox is full: 64 wait already; send or ask again when some were answered");
    }

    /// Each refusal says what to do next: after the first colon or semicolon, and that part is not the cause.
    #[test]
    fn what_a_session_refuses_says_what_to_do_next() {
        let next = [
            (SendError::Refused(Refusal::Busy { turn: Seq(7) }), "wait for its end"),
            (SendError::Refused(Refusal::TurnMismatch { expected: Seq(4), actual: None }), "name no turn"),
            (SendError::Refused(Refusal::InboxFull { depth: 64 }), "again when some"),
            (SendError::Refused(Refusal::AskClosed { ask: Seq(3) }), "look at the asks that are open"),
            (SendError::Parked, "`unpark` starts it again"),
            (SendError::Draining, "send the message to the next runtime"),
            (SendError::Closed, "start another one"),
            (SendError::Stopped, "send again"),
            (SendError::Unsettled { message: Some("m-1".into()) }, "send it again under the same id"),
            (SendError::Refused(Refusal::Withdrawn { id: "m-1".into() }), "under another id"),
            (SendError::Refused(Refusal::OtherWords { id: "m-1".into(), first: Seq(7) }), "an id of their own"),
            (SendError::Refused(Refusal::OtherTask { first: Seq(7) }), "a key and an id of its own"),
            (OpenError::Stopped { session: "s".parse().unwrap() }.into(), "send again"),
        ];
        for (error, words) in next {
            assert!(error.to_string().contains(words), "{error}");
        }
        let unsettled = SendError::Unsettled { message: Some("m-1".into()) }.to_string();
        assert_eq!(unsettled, "whether message m-1 is on the tape is not known: send it again under the same id");
    }
}
