//! The handle of a conversation, and the host's commands through it.
//!
//! A [`Session`] is cheap to clone, outlives every crash of the actor behind it, and wakes a sleeping conversation with the first
//! call that needs it awake. Once a command is handed over, dropping its future does not take the command back: the session still
//! decides about it, and the answer is lost. ([`Session::send`] has an exception, where the inbox is full.) A message that is
//! sent again under an id that the session remembers (the newest 4,096) is the same message. `docs/CANCELLATION.md` says of each
//! method what a dropped future takes back.
//!
//! A change must keep this: the handle holds no state of the conversation and decides nothing about a turn. A command goes to the
//! slot (the part of a session that outlives its actor) and becomes an input of the kernel. Input hooks and tape reads run outside
//! of the session's actor, so that they delay no other caller. The id and the size of a host's message are checked before they
//! reach the kernel (`RuntimeLimits::of_host`) and not in it, so that old tapes replay as they were.

mod back;
mod configure;
mod context;
mod error;
#[cfg(all(unix, feature = "tools"))]
mod files;
mod fork;
mod grants;
mod inputs;
mod inside;
mod messages;
mod past;
mod plan_check;
pub(crate) mod receipt;
mod room;
mod turn_stream;

use std::{sync::Arc, time::Duration};

pub use crate::kernel::context::{FileOperations, Fullness, SUMMARY_SYSTEM, estimated_tokens};
pub use crate::kernel::{
    AgentChoice, AgentParts, Ahead, AnchorMark, AskAnswer, AskClosedWhy, AskFrom, BadRecord, Bill, BillKind, BillLine,
    Branch, BranchRequest, BranchSummary, Breach, Budget, CacheMiss, CacheMissed, CallOpened, CallState, CallVerdict,
    Charge, Compacted, CompactionReason, CompactionSettings, ContextState, Disposition, Down, DownReason, Entry,
    Extent, Fallback, FellBack, ForkMade, Gated, Grant, Granted, Learned, Limits, Link, Merged, Mode, NextTask,
    NoPoint, OnBreach, Open, OpenAsk, OpenBranch, OpenBudgetAsk, OpenCall, OpenCompaction, OpenRequest, OpenTable,
    OpenTask, OpenTaskAsk, OpenWait, Origin, Pin, Point, Prepared, PromptSection, Record, Refusal, RefusedFile,
    Repeats, RequestOpened, Resource, RestartPolicy, RestoredFiles, RollbackTarget, RolledBack, Scope, Settings,
    ShownLimits, ShownSpent, ShownTasks, Spent, State, Switched, TITLE_BYTES_MAX, TaskAsk, TaskEnd, TaskOrder, Terms,
    Tie, Trail, Transcript, Turn, TurnEnd, Undone, Waiting, Way,
};
#[cfg(all(unix, feature = "tools"))]
pub use back::RollbackPlan;
pub use back::{Rollback, RollbackOptions};
pub use error::BranchError;
#[cfg(test)]
pub(crate) use fork::make_fork;
pub use fork::{ForkOptions, ForkedAt, Merge, fork_at};
pub use messages::{MESSAGES_MAX, MessageCursor, MessagePage, MessageStream};
pub use plan_check::PlanCheck;
pub use turn_stream::TurnStream;

pub use crate::task::{
    ContextRef, ContextRefKind, TASK_VERSION, TaskConstraints, TaskError, TaskEvent, TaskInput, TaskMetrics,
    TaskOutput, TaskProgress, TaskProvenance, TaskRequest, TaskResult, TaskStatus, TaskToolCalls,
};

pub use crate::{
    actor::limits::MESSAGE_BYTES_MAX,
    error::{PassivateError, SpawnError},
    event::{BadEventId, BranchEvent, BudgetThen, EVENT_VERSION, EventId, Next, TurnEvent, TurnId, Turns},
    words::{
        depth::VALUE_DEPTH_MAX,
        ids::{BadSessionId, CallId, NAME_BYTES_MAX, SESSION_ID_BYTES_MAX},
        labels::{BadLabel, Labels},
        message::{
            AgentPart, BadModelRef, CompactionPart, ErrorReason, Extra, FilePart, Finish, MessageTime, PatchPart,
            ReasoningPart, RetryPart, Role, SnapshotPart, Span, StepFinishPart, StepStartPart, SubtaskPart, TextPart,
            ToolPart, ToolState,
        },
        trace::{BadTraceContext, TraceContext},
    },
};

use crate::{
    actor::{
        shared::Shared,
        slot::{Phase, Slot, within},
    },
    error::SendError,
    event::EventStream,
    hook::Operation,
    kernel::{
        self, Abort, AnswerAsk, CarriedOut, ClearQueue, Command, Delivery, EditMessage, GoOn, HandOff, Pause,
        ResetLoops, Resume, SendMessage, Steering, WithdrawMessage,
    },
    session::receipt::Receipt,
    tape::TapeStoreExt as _,
    words::{
        ids::{MessageId, Seq, SessionId},
        message::Message,
    },
};

/// The handle of a conversation. Dropping it changes nothing about the conversation.
#[derive(Clone)]
pub struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Arc<Slot>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.slot.id).finish()
    }
}

impl Session {
    /// The id of the conversation.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.slot.id
    }

    /// Sends a message. The receipt means that the message is on the tape: from then on no crash loses it.
    ///
    /// If the message names an agent ([`Message::agent`]), that agent is in force from the delivery of the message to the end of its
    /// turn.
    ///
    /// Once the input hooks have passed the message, and its agent is found, dropping the future does not take it back, with one exception: while the inbox
    /// is full, a message that still waits in it and whose sender is gone makes room for newer ones. So after a drop it is
    /// unknown whether the message was accepted. Sent again under the same id, it is accepted once, and gets its receipt.
    ///
    /// # Errors
    /// See [`SendError`]. The message was not accepted, with one exception: after [`SendError::Unsettled`] it is unknown whether
    /// it was. Sent again under the id that the error names, the message is accepted once.
    pub async fn send(&self, message: impl Into<Message>, delivery: Delivery) -> Result<Receipt, SendError> {
        self.send_to_turn(message, delivery, None).await
    }

    /// Sends a message that is meant for one turn only; `None` means any turn.
    ///
    /// An accepted message is never dropped in silence. If the turn ends before it reads the message (an abort, a failure), the
    /// message waits like any other, and [`Session::withdraw`] takes it back.
    ///
    /// # Errors
    /// [`Refusal::TurnMismatch`] if another turn runs, or none; and, for a steering message, if the turn is being ended or makes no
    /// further step, and so would not read it. Others as [`Session::send`].
    pub async fn send_to_turn(
        &self,
        message: impl Into<Message>,
        delivery: Delivery,
        expect_turn: Option<Seq>,
    ) -> Result<Receipt, SendError> {
        let send = SendMessage { expect_turn, ..self.passed_on(message.into(), delivery).await? };
        self.hand_over(send).await
    }

    /// The command that sends what the input hooks made of a message.
    async fn passed_on(&self, message: Message, delivery: Delivery) -> Result<SendMessage, SendError> {
        let said = message.parts.len();
        let message = self.passed(message).await?;
        let added = message.parts.len().saturating_sub(said);
        let agent = self.agent_of(&message).await?;
        Ok(SendMessage { message, delivery, expect_turn: None, agent, added })
    }

    /// Hands over a message that the input hooks have passed.
    async fn hand_over(&self, send: SendMessage) -> Result<Receipt, SendError> {
        let id = send.message.id.clone();
        match self.ask(send).await {
            Ok(CarriedOut::Receipt(kernel::Receipt { message, seq, disposition, known_before })) => {
                Ok(Receipt { message, seq, disposition, known_before, session: self.clone() })
            }
            Ok(_) => Err(SendError::Closed),
            Err(SendError::Unsettled { .. }) => Err(SendError::Unsettled { message: Some(id) }),
            Err(error) => Err(error),
        }
    }

    /// Sends a message that gets its own turn: now, or after the running turn and the waiting messages.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn prompt(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.send(message, Delivery::Queue).await
    }

    /// Sends a message into the running turn. The calls that have not started are answered as skipped.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn steer(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.send(message, Delivery::Steer(Steering::default())).await
    }

    /// Sends a message that is read when the running turn is over. The same as [`Session::prompt`].
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn follow_up(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.prompt(message).await
    }

    /// Ends the running turn: every open call gets a result, none of its processes is left, and queued messages are on hold until
    /// the next send or [`Session::go_on`]. Returns when the turn's workers are down and the tape has the abort, or has not
    /// taken it for a second; [`Session::wait`] waits for the end of the turn.
    ///
    /// The workers get the stop before this function first waits, so a full, slow or stuck disk does not delay them. In that case
    /// [`Aborted::recorded`] is `false`: the tape does not have the abort yet. The abort stays in the inbox, is recorded when the
    /// disk takes it, and nothing starts before that. An abort that is not recorded dies with the process: the turn then
    /// continues when the session wakes again. Dropping the future takes nothing back. The first 64 KiB of the reason are kept.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`]; [`Refusal::InboxFull`] if more than a thousand inputs wait for the disk;
    /// [`SendError::Unsettled`] if the tokio runtime of the tree ended first.
    pub async fn abort(&self, reason: impl Into<String>) -> Result<Aborted, SendError> {
        self.stop(Abort { reason: reason.into(), turn: None }).await
    }

    /// As [`Session::abort`], for that turn alone: where it is over, nothing is stopped, also if another turn runs by now. For a wish
    /// that was made about one turn and may arrive late.
    ///
    /// # Errors
    /// [`Refusal::TurnMismatch`] if another turn runs, or none; others as [`Session::abort`].
    pub async fn abort_turn(&self, turn: Seq, reason: impl Into<String>) -> Result<Aborted, SendError> {
        self.stop(Abort { reason: reason.into(), turn: Some(turn) }).await
    }

    async fn stop(&self, abort: Abort) -> Result<Aborted, SendError> {
        let (_, mut answer) = self.slot.command(abort)?;
        self.slot.stopped_workers_down().await;
        loop {
            match within(ABORT_RECORD_WAIT, &mut answer).await {
                Some(answer) => {
                    answer.map_err(|_| SendError::Unsettled { message: None })??;
                    return Ok(Aborted { recorded: true });
                }
                // A session that is just waking takes the abort as its actor starts, so the answer still comes.
                None if self.slot.phase() == Phase::Activating => {}
                None => return Ok(Aborted { recorded: false }),
            }
        }
    }

    /// Answers an ask, also one of a child. Returns when the answer is on the tape; it is sent to a child until the child has it.
    ///
    /// An answer that covers more than the call ([`Grant::Always`], [`Grant::Offered`]) is listed by [`Session::grants`].
    ///
    /// # Errors
    /// [`Refusal::AskClosed`] if the ask was answered, expired or withdrawn before; [`Refusal::NoSuchOffer`] and
    /// [`Refusal::TooManyGrants`] for an answer that was to last. [`SendError::HookFailed`] and [`SendError::Handled`] as for a
    /// send, of the words of a [`Grant::Reject`]: the ask stays open.
    pub async fn answer(&self, ask: Seq, grant: Grant) -> Result<(), SendError> {
        let grant = self.passed_grant(grant).await?;
        self.ask(AnswerAsk { ask, grant, who: None, rules: None, digest: None }).await.map(drop)
    }

    /// As [`Session::answer`], and says who answered. The name (at most 256 bytes are kept) is on the tape, and in the event
    /// [`AskClosed`](crate::EventKind::AskClosed).
    ///
    /// # Errors
    /// As [`Session::answer`].
    pub async fn answer_as(&self, ask: Seq, grant: Grant, who: impl Into<String>) -> Result<(), SendError> {
        let grant = self.passed_grant(grant).await?;
        self.ask(AnswerAsk { ask, grant, who: Some(who.into()), rules: None, digest: None }).await.map(drop)
    }

    /// As [`Session::answer_as`], for what was shown and nothing else: `digest` is that of the event
    /// ([`EventKind::Ask`](crate::EventKind::Ask)).
    ///
    /// # Errors
    /// As [`Session::answer`]; [`Refusal::NotShown`] if the ask is about something else, and then it stays open.
    pub async fn answer_shown(
        &self,
        ask: Seq,
        grant: Grant,
        digest: impl Into<String>,
        who: Option<String>,
    ) -> Result<(), SendError> {
        let grant = self.passed_grant(grant).await?;
        self.ask(AnswerAsk { ask, grant, who, rules: None, digest: Some(digest.into()) }).await.map(drop)
    }

    /// Replaces the waiting message that has the same id. Input hooks see it like a sent message.
    ///
    /// # Errors
    /// [`Refusal::NotWaiting`] if no message of that id waits; [`SendError::HookFailed`] and [`SendError::Handled`] as for a send:
    /// the old message waits on.
    pub async fn edit(&self, message: Message) -> Result<(), SendError> {
        let message = self.passed(message).await?;
        self.ask(EditMessage { message }).await.map(drop)
    }

    /// Takes back a message that still waits.
    ///
    /// # Errors
    /// [`Refusal::NotWaiting`] if no message of that id waits.
    pub async fn withdraw(&self, id: MessageId) -> Result<(), SendError> {
        self.ask(WithdrawMessage { id }).await.map(drop)
    }

    /// Takes back all waiting messages and returns them, steering messages first. An editor can so put the text back where it was
    /// typed, for example after an [abort](Session::abort). Messages that a turn has read by then are not among them.
    ///
    /// # Errors
    /// As [`Session::send`]. Nothing was taken back, except perhaps after [`SendError::Unsettled`]: [`Session::queue`] shows what
    /// still waits.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tamtam::{Delivery, Runtime, SessionOptions, model::{Reply, Scripted}};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let model = Arc::new(Scripted::new([Reply::text("Hello.")]));
    /// let runtime = Runtime::builder().store(folder.path()).model(model).start().await?;
    /// let session = runtime.create(SessionOptions::new(folder.path())).await?;
    /// session.pause().await?;
    /// session.send("Say hello.", Delivery::Queue).await?;
    /// session.send("And goodbye.", Delivery::Queue).await?;
    /// let taken_back: Vec<_> = session.clear_queue().await?.iter().map(|message| message.text()).collect();
    /// assert_eq!(taken_back, ["Say hello.", "And goodbye."]);
    /// assert!(session.queue().await?.is_empty());
    /// runtime.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub async fn clear_queue(&self) -> Result<Vec<Message>, SendError> {
        let CarriedOut::TakenBack(messages) = self.ask(ClearQueue).await? else { return Ok(Vec::new()) };
        Ok(messages.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Resumes an interrupted turn and messages on hold.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn go_on(&self) -> Result<(), SendError> {
        self.ask(GoOn).await.map(drop)
    }

    /// Pauses the session: it starts nothing new, and finishes what runs.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn pause(&self) -> Result<(), SendError> {
        self.ask(Pause).await.map(drop)
    }

    /// Lifts a pause.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn resume(&self) -> Result<(), SendError> {
        self.ask(Resume).await.map(drop)
    }

    /// Resets the loop guard's count of the running turn: earlier calls count for no loop. Between turns there is nothing to
    /// reset, because each message starts a new count.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn reset_loops(&self) -> Result<(), SendError> {
        self.ask(ResetLoops).await.map(drop)
    }

    /// Begins an anchor of that name: a new part of the tape (in a folder: a new file), linked to the part before it. From now on
    /// the session is opened from the new part alone. A summary, if given, replaces the conversation so far; the host's own words
    /// and the names of touched files are kept with it. Nothing leaves the tape. Returns the anchor's first entry.
    ///
    /// The summary is words of the host in the conversation: the input hooks see it as a message.
    ///
    /// The name keeps its letters, digits, `.`, `_` and `-`, and at most 64 bytes; every other character becomes `-`.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs; [`SendError::Refused`] while a summary is being written;
    /// [`SendError::Storage`] with [`TapeError::AnchorExists`](crate::tape::TapeError::AnchorExists) if the tape has an anchor of
    /// that name.
    pub async fn handoff(&self, name: impl Into<String>, summary: Option<String>) -> Result<Seq, SendError> {
        self.allowed(Operation::Handoff).await?;
        let name = name.into();
        let summary = match summary {
            Some(summary) => Some(self.passed_words(summary).await?.into()),
            None => None,
        };
        self.record(HandOff { name, summary }).await
    }

    /// The messages that wait, in the order in which they will be read: steering messages first.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn queue(&self) -> Result<Vec<Waiting>, SendError> {
        let state = self.state().await?;
        Ok(state.steering.into_iter().chain(state.queue).collect())
    }

    /// Waits until nothing runs and nothing waits to run.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn wait(&self) -> Result<(), SendError> {
        self.slot.until(|now| (now.is_quiet && now.state.is_idle()).then_some(Ok(()))).await
    }

    /// The state as it is on the tape: everything that was acknowledged before the call is in it. Answered at once while the session
    /// is awake, also where its actor is stuck or is just restarting; a session that sleeps is woken for it. What has come in and is
    /// not on the tape yet is not in it: [`Session::wait`] waits for that.
    ///
    /// # Errors
    /// Among others [`SendError::Closed`] and [`SendError::Parked`].
    pub async fn state(&self) -> Result<State, SendError> {
        self.slot.now().await.map(Arc::unwrap_or_clone)
    }

    /// The events of the session from now on. As long as a stream is held, the session may ask its listener: see
    /// [`Session::answer`]. If the store has no such session, the stream ends.
    #[must_use]
    pub fn events(&self) -> EventStream {
        let events = self.slot.listen();
        if !self.slot.is_unknown() {
            return events;
        }
        // The session is new to this runtime: whether it exists is looked up concurrently with the stream.
        let (shared, id) = (self.shared.clone(), self.slot.id.clone());
        let is_missing =
            self.shared.tokio.spawn_blocking(move || !shared.store.exists(&id) && shared.slot(&id).is_unknown());
        events.unless_missing(is_missing)
    }

    pub(crate) async fn ask(&self, command: impl Into<Command>) -> Result<CarriedOut, SendError> {
        self.slot.ask(command).await
    }

    /// Hands over a command that is recorded as one entry, and returns that entry.
    pub(crate) async fn record(&self, command: impl Into<Command>) -> Result<Seq, SendError> {
        match self.ask(command).await? {
            CarriedOut::Done(entry) => Ok(entry),
            _ => Err(SendError::Closed),
        }
    }
}

/// The result of [`Session::abort`]: the workers of the turn are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Aborted {
    /// Whether the tape has the abort. If not, the disk did not answer within a second: the abort stays in the inbox, and is
    /// recorded when the disk answers.
    pub recorded: bool,
}

/// How long an abort waits for the tape once the workers are down.
const ABORT_RECORD_WAIT: Duration = Duration::from_secs(1);
