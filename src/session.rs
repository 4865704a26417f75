//! A conversation as its host holds it: the handle, and every command on it.
//!
//! A [`Session`] is cheap to clone and never dead. It outlives every crash of the actor behind it, and the first call that needs a
//! sleeping conversation wakes it. Calls are cancel-safe in this sense: dropping the future of `send` does not take the message
//! back, and a message that is sent again under the same id is the same message.

mod back;
mod context;
mod error;
#[cfg(all(unix, feature = "tools"))]
mod files;
mod fork;
mod messages;

use std::{sync::Arc, time::Duration};

pub use crate::kernel::context::{Carried, FileOperations, Fullness, Level, Replaced, SUMMARY_SYSTEM, Window};
pub use crate::kernel::{
    Account, AnchorMark, AskClosedWhy, BadRecord, Bill, BillKind, BillLine, Branch, BranchRequest, BranchSummary,
    Breach, Budget, CallOpened, CallState, CallVerdict, Charge, Compacted, CompactionReason, CompactionSettings,
    ContextState, Delivery, Disposition, Down, DownReason, Entry, EnvSeen, Extent, ForkMade, Grant, Granted, Limits,
    Link, Merged, MergedLast, Mode, ModelSeen, NoPoint, OnBreach, Open, OpenAsk, OpenBranch, OpenBudgetAsk, OpenCall,
    OpenCompaction, OpenRequest, OpenTask, OpenWait, Origin, Outcome, Pin, Point, Record, Recorded, Refusal,
    RefusedFile, RequestOpened, Reserve, Resource, RestoredFiles, RollbackTarget, RolledBack, Scope, Settings, Spent,
    State, Steering, TaskEnd, TaskOrder, Tie, ToolsSeen, Trail, Transcript, Turn, TurnEnd, Undone, Waiting, Way,
    WentBack,
};
#[cfg(all(unix, feature = "tools"))]
pub use back::RollbackPlan;
pub use back::{Rollback, RollbackOptions};
pub use error::BranchError;
pub use fork::{ForkedAt, Merge, fork_at};
pub(crate) use fork::{fork_now, wake_fork};
pub use messages::{MESSAGES_MAX, MessageCursor, MessagePage, MessageStream};

pub use crate::{
    error::{OpenError, PassivateError, SendError, SpawnError},
    event::{BudgetThen, EVENT_VERSION, Event, EventId, EventKind, EventStream, Next},
    words::{ids::*, message::*},
};

use crate::{
    actor::{
        host::Host,
        slot::{Phase, Question, Slot, within},
        worker::WorkerContext,
    },
    event::events_of,
    hook::HookFailure,
    kernel::{
        self, Abort, AnswerAsk, ClearQueue, Command, Configure, EditMessage, GoOn, HandOff, Held, Pause, Resume,
        SendMessage, WithdrawMessage, kept,
    },
    words::usage::Usage,
};

/// How often a change of settings is made anew where somebody else changed them in between.
const CONFIGURE_TRIES_MAX: u32 = 32;

/// A conversation.
#[derive(Clone)]
pub struct Session {
    pub(crate) host: Arc<Host>,
    pub(crate) slot: Arc<Slot>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&self.slot.id).finish()
    }
}

impl Session {
    /// Which conversation.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.slot.id
    }

    /// Sends a message. The receipt means that it is on the tape: no crash loses it any more.
    ///
    /// # Errors
    /// See [`SendError`]. Nothing was accepted then, but for [`SendError::Unsettled`], which nobody can know of: sent again under
    /// the id that it names, the message is accepted once.
    pub async fn send(&self, message: impl Into<Message>, delivery: Delivery) -> Result<Receipt, SendError> {
        self.send_to_turn(message, delivery, None).await
    }

    /// Sends a message that is meant for one turn only: [`Refusal::TurnMismatch`] where another runs, or none, and for a message
    /// that steers also where the turn is being ended or makes no further step, and so would not read it.
    ///
    /// What was accepted is never dropped in silence: where the turn ends before it reads the message (an abort, a failure), that
    /// waits like any other, and [`Session::withdraw`] takes it back.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn send_to_turn(
        &self,
        message: impl Into<Message>,
        delivery: Delivery,
        expect_turn: Option<Seq>,
    ) -> Result<Receipt, SendError> {
        let message = of_host(message.into())?;
        // Input hooks run here, in the sender's own task, so that a slow one holds up nobody else.
        let message = match self.host.hooks.0.is_empty() {
            true => message,
            false => self.through_hooks(message).await?,
        };
        let id = message.id.clone();
        match self.ask(SendMessage { message, delivery, expect_turn }).await {
            Ok(Held::Receipt(kernel::Receipt { message, seq, disposition })) => {
                Ok(Receipt { message, seq, disposition, session: self.clone() })
            }
            Ok(_) => Err(SendError::Closed),
            Err(SendError::Unsettled { .. }) => Err(SendError::Unsettled { message: Some(id) }),
            Err(error) => Err(error),
        }
    }

    async fn through_hooks(&self, message: Message) -> Result<Message, SendError> {
        let (host, slot) = (self.host.clone(), self.slot.clone());
        let (incarnation, ticket) = (slot.newest_incarnation().max(1), slot.told());
        let to = WorkerContext { host, slot, incarnation, ticket, turn: None, step: None };
        match self.host.hooks.on_input(message, &|failure| to.hook_failed(failure)).await {
            Ok(message) => message.ok_or(SendError::Handled),
            Err(HookFailure { hook, error, .. }) => Err(SendError::HookFailed { hook, error }),
        }
    }

    /// Sends a message that becomes a turn of its own, now or after what runs and waits.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn prompt(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.send(message, Delivery::Queue).await
    }

    /// Sends a message into the running turn; the calls that were not started are answered as skipped.
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn steer(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.send(message, Delivery::Steer(Steering::default())).await
    }

    /// Sends a message that is read when the running turn is over; another word for [`Session::prompt`].
    ///
    /// # Errors
    /// As [`Session::send`].
    pub async fn follow_up(&self, message: impl Into<Message>) -> Result<Receipt, SendError> {
        self.prompt(message).await
    }

    /// Ends the running turn: every open call gets a result, no process of it is left, queued messages stay and are held
    /// until the next send or [`Session::go_on`]. Returns when what ran is down; [`Session::wait`] waits for the end of the turn.
    ///
    /// What runs is told to stop before this function first waits: where the disk is full, slow, or does not answer, the workers are
    /// gone as quickly, and [`Aborted::recorded`] says that the tape does not have the wish yet. It stays, and is recorded when the
    /// disk takes it; nothing starts before that. A wish that is not recorded dies with the process: the turn then goes on when
    /// the session comes up again. Whoever stops waiting takes nothing back. Of the reason, the first 64 KiB are kept.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`]; [`Refusal::InboxFull`] where more than a thousand wait for the disk.
    pub async fn abort(&self, reason: impl Into<String>) -> Result<Aborted, SendError> {
        let reason = kept(reason.into());
        let (_, mut answer) = self.slot.command(Abort { reason })?;
        self.slot.workers_down().await;
        loop {
            match within(ABORT_RECORD_WAIT, &mut answer).await {
                Some(answer) => {
                    answer.map_err(|_| SendError::Unsettled { message: None })??;
                    return Ok(Aborted { recorded: true });
                }
                // One that is on its way up hears of it there.
                None if self.slot.phase() == Phase::Activating => {}
                None => return Ok(Aborted { recorded: false }),
            }
        }
    }

    /// Answers an ask.
    ///
    /// # Errors
    /// [`Refusal::AskClosed`] where it was answered, expired or withdrawn before.
    pub async fn answer(&self, ask: Seq, grant: Grant) -> Result<(), SendError> {
        self.ask(AnswerAsk { ask, grant }).await.map(drop)
    }

    /// Changes a message that still waits; its id says which.
    ///
    /// # Errors
    /// [`Refusal::NotWaiting`] where it does not wait any more.
    pub async fn edit(&self, message: Message) -> Result<(), SendError> {
        self.ask(EditMessage { message }).await.map(drop)
    }

    /// Takes back a message that still waits.
    ///
    /// # Errors
    /// [`Refusal::NotWaiting`] where it does not wait any more.
    pub async fn withdraw(&self, id: MessageId) -> Result<(), SendError> {
        self.ask(WithdrawMessage { id }).await.map(drop)
    }

    /// Takes back all messages that wait and gives them to the caller, steering first: an editor puts the text back where it was
    /// typed, for example after an [abort](Session::abort). A message that a turn has read by then is not among them.
    ///
    /// # Errors
    /// As [`Session::send`]. Nothing was taken back then, but for [`SendError::Unsettled`]: [`Session::queue`] says what still waits.
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
        let Held::TakenBack(messages) = self.ask(ClearQueue).await? else { return Ok(Vec::new()) };
        Ok(messages.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Lets held messages, and an interrupted turn, go on.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn go_on(&self) -> Result<(), SendError> {
        self.ask(GoOn).await.map(drop)
    }

    /// Starts nothing new from here on: what runs, finishes.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn pause(&self) -> Result<(), SendError> {
        self.ask(Pause).await.map(drop)
    }

    /// Lifts a pause.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn resume(&self) -> Result<(), SendError> {
        self.ask(Resume).await.map(drop)
    }

    /// Begins an anchor of that name: a new file of the tape, from which alone the session is opened from now on, linked to the
    /// one before it. With a summary, that takes the place of the conversation so far, and the host's own words and the files
    /// that were touched are carried on with it; nothing leaves the tape. Gives the anchor's first entry.
    ///
    /// Of the name, letters, digits, `.`, `_` and `-` are kept, and at most 64 bytes; the rest becomes `-`.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while a turn runs; [`SendError::Refused`] while a summary is being written;
    /// [`SendError::Storage`] with [`TapeError::AnchorExists`](crate::tape::TapeError::AnchorExists) where the tape has one of
    /// that name.
    pub async fn handoff(&self, name: impl Into<String>, summary: Option<String>) -> Result<Seq, SendError> {
        let (name, summary) = (name.into(), summary.map(Into::into));
        self.record(HandOff { name, summary }).await
    }

    /// Changes the settings; they hold from the next step on.
    ///
    /// Where somebody else changes them at the same time, `change` is asked again, with what they are then: nobody's change is
    /// lost. The rules of the host and those of a child's ancestors are out of its reach: what it does to
    /// [`Settings::host`] and [`Settings::above`] is passed over.
    ///
    /// # Errors
    /// [`SendError::Storage`] where they could not be written; [`Refusal::Reconfigured`] (as [`SendError::Refused`]) where they were changed at every try.
    pub async fn configure(&self, change: impl Fn(&mut Settings)) -> Result<(), SendError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let before = self.state().await?.settings;
            let mut settings = Box::new((*before).clone());
            change(&mut settings);
            let done = self.ask(Configure { before: Some(before), settings }).await;
            match done {
                Err(SendError::Refused(Refusal::Reconfigured)) if tries < CONFIGURE_TRIES_MAX => {}
                done => return done.map(drop),
            }
        }
    }

    /// Calls it something in lists; `None` for the words that its first message begins with.
    ///
    /// # Errors
    /// As [`Session::configure`].
    pub async fn set_title(&self, title: Option<String>) -> Result<(), SendError> {
        self.configure(|settings| settings.title.clone_from(&title)).await
    }

    /// The messages that wait, next first.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn queue(&self) -> Result<Vec<Waiting>, SendError> {
        let state = self.state().await?;
        Ok(state.steering.into_iter().chain(state.queue).collect())
    }

    /// Waits until nothing runs and nothing waits to run.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn wait(&self) -> Result<(), SendError> {
        self.slot.ask_state(Question::Idle).await
    }

    /// The state as it is now: a picture, taken between two decisions.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::Parked`].
    pub async fn state(&self) -> Result<State, SendError> {
        self.slot.ask_state(Question::State).await
    }

    /// The events of the session from now on. Whoever listens can be asked: see [`Session::answer`].
    #[must_use]
    pub fn events(&self) -> EventStream {
        self.slot.listen()
    }

    /// The durable events after that entry, and then all events as they come, with none missing between.
    ///
    /// # Errors
    /// Where the tape cannot be read.
    pub async fn events_after(&self, after: Seq) -> Result<EventStream, OpenError> {
        // Listen first, so that nothing is missed while the tape is read.
        let live = self.slot.listen();
        let entries = self.entries().await?;
        let known = entries.partition_point(|entry| entry.seq <= after).clamp(1, entries.len().max(1));
        let (before, behind) = entries.split_at_checked(known).unwrap_or_default();
        let mut events = Vec::new();
        if let Some(mut state) = State::fold(before) {
            for entry in behind {
                events.extend(events_of(&state, entry));
                state.apply(entry);
            }
        }
        Ok(live.with_replay(events))
    }

    pub(crate) async fn ask(&self, command: impl Into<Command>) -> Result<Held, SendError> {
        self.slot.ask(command).await
    }

    /// Asks for what is one entry, and gives that.
    pub(crate) async fn record(&self, command: impl Into<Command>) -> Result<Seq, SendError> {
        match self.ask(command).await? {
            Held::Done(entry) => Ok(entry),
            _ => Err(SendError::Closed),
        }
    }
}

/// What ran is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aborted {
    /// Whether the tape has the wish. Where it has not, the disk did not answer within a second; the wish stays, and is recorded when
    /// it does.
    pub recorded: bool,
}

/// How long an abort waits for the tape once what ran is down.
const ABORT_RECORD_WAIT: Duration = Duration::from_secs(1);

/// A message that a host may send: under an id that is not the runtime's own. Refused before it is decided, so that tapes on
/// which a host had such an id are still decided again as they were.
pub(crate) fn of_host(message: Message) -> Result<Message, SendError> {
    match message.id.is_reserved() {
        true => Err(Refusal::ReservedId { id: message.id }.into()),
        false => Ok(message),
    }
}

/// A message was accepted: it is on the tape, and this is what becomes of it.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Which message.
    pub message: MessageId,
    /// Where on the tape.
    pub seq: Seq,
    /// What becomes of it.
    pub disposition: Disposition,
    session: Session,
}

impl Receipt {
    /// Waits for the end of the turn that the message was delivered to.
    ///
    /// # Errors
    /// [`SendError::Refused`] where the message was withdrawn, or its turn is longer ago than the session remembers.
    pub async fn wait(&self) -> Result<Answer, SendError> {
        let end = self.session.slot.ask_state(|reply| Question::Outcome(self.message.clone(), reply)).await?;
        let TurnEnd { turn, outcome, text, steps, usage, spent, .. } = Arc::unwrap_or_clone(end);
        Ok(Answer { turn, outcome, text: text.to_string(), steps, usage, spent })
    }
}

/// How a turn ended, and what the model said last in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// Which turn.
    pub turn: Seq,
    /// How it ended.
    pub outcome: Outcome,
    /// The newest text of the model in it; empty where it said nothing.
    pub text: String,
    /// How many steps it took.
    pub steps: u32,
    /// Tokens: the provider's own figures.
    pub usage: Usage,
    /// What the turn used, estimates included, and what that cost.
    pub spent: Spent,
}
