//! The reasons why a command of a host is refused: by the core, or by a layer above it that checks first (such as
//! `actor/limits.rs`). Every layer that passes a refusal on uses these words.
//!
//! A refused command has no effect on the conversation, now or later. The one entry that it may write itself closes the ticket of a
//! branch summary that is not wanted. One refusal is of another kind: [`Refusal::OnHold`] answers a caller who waits for a turn;
//! the message stays on the tape, and may be read later.
//!
//! People and models read the texts. A text says what happened and, where the sender can do something, what to do next; a new one
//! must too.

use crate::{
    kernel::{Breach, Resource},
    words::ids::{MessageId, Seq, SessionId},
};

/// Why a command was refused. It has no effect. With [`Refusal::OnHold`] the message was taken, and nobody reads it for now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A turn runs, and the command needs a session without one: a message that is only for an idle session, or a change of the
    /// conversation.
    #[error("the session is busy with turn {turn}: wait for its end, or abort it")]
    Busy {
        /// The running turn.
        turn: Seq,
    },
    /// The message was for another turn.
    #[error(
        "turn {expected} {}",
        actual.map_or("is not running, or reads no more messages: name no turn, and it begins one of its own".to_owned(), |turn| {
            format!("is not running, turn {turn} is")
        })
    )]
    TurnMismatch {
        /// The turn it was for.
        expected: Seq,
        /// The turn that runs; `None` if no turn runs, or if the running turn reads no more messages.
        actual: Option<Seq>,
    },
    /// Too many messages, commands or questions wait.
    #[error("the inbox is full: {depth} wait already; send or ask again when some were answered")]
    InboxFull {
        /// How many wait.
        depth: usize,
    },
    /// The message, the words to pin, or the summary of a branch has nothing in it.
    #[error("the message is empty")]
    Empty,
    /// The message has an id that only the runtime may give.
    #[error("message id {id} is one that the runtime gives: send the message under another id")]
    ReservedId {
        /// The message.
        id: MessageId,
    },
    /// A name is empty or too long, or a title is too long. A name stands on the tape each time that something is said about it.
    #[error("{what} has {bytes} bytes, and may have {least} to {max}")]
    Length {
        /// Whose name it is, such as `the id of a message`.
        what: &'static str,
        /// How many bytes it has.
        bytes: usize,
        /// The least that it may have.
        least: usize,
        /// The most that it may have.
        max: usize,
    },
    /// A JSON value is nested too deep ([`VALUE_DEPTH_MAX`](crate::session::VALUE_DEPTH_MAX)).
    #[error("{what} are nested deeper than {max} levels: flatten them, or put them into a text")]
    Nested {
        /// What the value is, such as `the options of an agent`.
        what: &'static str,
        /// The most levels that it may have.
        max: usize,
    },
    /// A parameter of the session's requests is none that a request may have.
    #[error("the parameter {what} of the session's requests {problem}")]
    Params {
        /// Which, such as `temperature`.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A hook of the host refused what somebody asked of the session ([`Hook::before_operation`](crate::hook::Hook::before_operation)).
    #[error("a hook refused the {operation}: {reason}")]
    Blocked {
        /// What was asked for, such as `rollback`.
        operation: &'static str,
        /// What the hook says.
        reason: String,
    },
    /// No such message waits: it was delivered, withdrawn, or never accepted.
    #[error("message {id} is no longer waiting")]
    NotWaiting {
        /// The message.
        id: MessageId,
    },
    /// The message is larger than the runtime allows, which is at most [`MESSAGE_BYTES_MAX`](crate::session::MESSAGE_BYTES_MAX)
    /// ([`RuntimeLimits`](crate::runtime::RuntimeLimits)). It was not sent, and cannot be.
    #[error("the message has {bytes} bytes: the limit is {max}; put what is large into a file that the tools can read")]
    TooLarge {
        /// The size of its parts, in bytes.
        bytes: usize,
        /// The most that is taken, in bytes.
        max: usize,
    },
    /// The message is on the tape and on hold, because a turn before it was aborted or failed: nothing reads it by itself. The next
    /// send or go-on releases it, and [`Session::withdraw`](crate::Session::withdraw) takes it back.
    #[error(
        "message {id} is on hold, because a turn before it was aborted or failed: go on, send another one, or withdraw it"
    )]
    OnHold {
        /// The message.
        id: MessageId,
    },
    /// A message of this id was accepted before, and says something else. Nothing was done; what was accepted stays as it is. A
    /// message that is sent again must say the same; how it is delivered may differ, and changes nothing.
    #[error(
        "message {id} was accepted before with other words, as entry {first}: send these words under an id of their own"
    )]
    OtherWords {
        /// The id of both messages.
        id: MessageId,
        /// The entry that accepted the first one.
        first: Seq,
    },
    /// A task was given before under this key, or to a child of this id, and asks for something else. Nothing was done; that task is
    /// as it is.
    #[error(
        "another task was given under this key, or to a child of this id, as entry {first}: give this one a key and an id of its own"
    )]
    OtherTask {
        /// The entry that opened the first task, on the tape of the session that gave both.
        first: Seq,
    },
    /// The message was accepted once, and withdrawn before it was read. Its id cannot be used again.
    #[error("message {id} was withdrawn: send it under another id")]
    Withdrawn {
        /// The message.
        id: MessageId,
    },
    /// A compaction is under way already.
    #[error("compaction {ticket} is in progress")]
    Compacting {
        /// The ticket.
        ticket: Seq,
    },
    /// A branch is being summed up already.
    #[error("the summary of a branch is being written already, ticket {ticket}: wait for it")]
    Leaving {
        /// The ticket.
        ticket: Seq,
    },
    /// The budget does not allow the summary of a branch.
    #[error("the budget does not allow a summary")]
    SummaryOverBudget,
    /// There is nothing that a summary could replace.
    #[error("there is nothing to summarize: the newest part of a conversation always stays as it is")]
    NothingToCompact,
    /// No compaction is in the context, or another one than the command names.
    #[error("there is no compaction to undo")]
    NothingToUndo,
    /// The items that would come back do not fit the window: they would be summed up again at once.
    #[error(
        "with what the compaction replaced the context would take {used} tokens, and may take {usable}: choose a model with a larger window first"
    )]
    WouldNotFit {
        /// Tokens that the context would take.
        used: u64,
        /// Tokens that the context may take.
        usable: u64,
    },
    /// The message does not stand in the context, so it cannot be pinned.
    #[error("message {message} is not in the context: pin it when it is sent, or send its words again")]
    NotInContext {
        /// The message.
        message: MessageId,
    },
    /// The message is not pinned.
    #[error("message {message} is not pinned")]
    NotPinned {
        /// The message.
        message: MessageId,
    },
    /// The pinned messages would take more of the context than they may.
    #[error(
        "the message takes {needs} tokens, and {used} of the {max} that may be pinned are taken: unpin another one, or say it in fewer words"
    )]
    PinsFull {
        /// Tokens of the messages that are pinned, or wait to be.
        used: u64,
        /// Tokens of this message.
        needs: u64,
        /// Tokens that may be pinned.
        max: u64,
    },
    /// The ask is closed: answered, expired, withdrawn, or never open.
    #[error("ask {ask} is closed: it was answered, withdrawn, or its time is over; look at the asks that are open")]
    AskClosed {
        /// The ask.
        ask: Seq,
    },
    /// The ask has no offer of this number. The ask stays open.
    #[error("ask {ask} has no offer {offer}: {}", match last {
        0 => "this call can only be allowed once".to_owned(),
        last => format!("choose one from 1 to {last}"),
    })]
    NoSuchOffer {
        /// Which ask.
        ask: Seq,
        /// The number that the answer named.
        offer: u32,
        /// The number of its last offer; 0 where it has none.
        last: usize,
    },
    /// The session has as many standing grants as it may. The ask stays open.
    #[error("the session has {max} standing grants, and may have no more: revoke one, or allow this call once")]
    TooManyGrants {
        /// How many it may have.
        max: usize,
    },
    /// No standing grant has this id: it was revoked, its turn is over, or there was none.
    #[error(
        "no standing grant has the id {grant}: it was revoked, its turn is over, or there was none; look at the grants"
    )]
    NoSuchGrant {
        /// The id.
        grant: Seq,
    },
    /// The answer is for something else than the ask is about: what was shown to the person has another digest. The ask stays open.
    #[error("ask {ask} is about something else than was shown: look at it again, and answer that")]
    NotShown {
        /// Which ask.
        ask: Seq,
    },
    /// The ask is about a call, and only a budget ask can be answered with higher limits.
    #[error("ask {ask} is about a call: answer once, always or reject")]
    NotABudget {
        /// Which ask.
        ask: Seq,
    },
    /// The answer does not raise the limit that the ask is about. The ask stays open.
    #[error("ask {ask} is about {resource}: say by how much that is raised")]
    RaisesNothing {
        /// Which ask.
        ask: Seq,
        /// The resource that the ask is about.
        resource: Resource,
    },
    /// The budget does not allow the task.
    #[error(
        "no room for the task: {breach}; raise the budget, give fewer tasks at once, or wait until a task gives back what it \
         does not use"
    )]
    OverBudget {
        /// Which limit.
        breach: Breach,
    },
    /// The session has moved on since the command was worked out: read the session again and repeat the command.
    #[error("the session has moved on from entry {expected} to {actual}: read it again")]
    Moved {
        /// The newest entry when the command was worked out.
        expected: Seq,
        /// The newest entry now.
        actual: Seq,
    },
    /// Somebody else changed the settings meanwhile.
    #[error("the settings have changed: read them again")]
    Reconfigured,
    /// The session has ended for good.
    #[error("the session has ended")]
    Ended,
    /// The child would stand deeper than children may.
    #[error("a child would be {depth} deep, and may be {max} at most: raise task_depth_max")]
    TooDeep {
        /// How deep it would be.
        depth: u32,
        /// How deep it may be.
        max: u32,
    },
    /// The session has as many open tasks as it may have, with those that wait for room.
    #[error(
        "{open} tasks are open, and {max} may be: wait for one, raise task_width_max, or let tasks wait by task_queue_max"
    )]
    TooManyTasks {
        /// How many are open.
        open: usize,
        /// How many may be.
        max: usize,
    },
    /// Only an orphan can be adopted: a session that was a child, and whose parent has ended.
    #[error("session {session} is not an orphan: end its parent first")]
    NotAnOrphan {
        /// The session.
        session: SessionId,
    },
    /// The orphan stands above the session that would adopt it: each of the two would wait for the other.
    #[error("session {session} stands above the session that would adopt it: end the task between the two first")]
    StandsAbove {
        /// The orphan.
        session: SessionId,
    },
}
