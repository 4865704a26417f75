//! The state of a session: the fold of its tape. Cheap to clone: large parts are shared.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        Account, AnchorMark, Charge, ContextState, Delivery, EnvSeen, Limits, MergedLast, Open, OpenBudgetAsk,
        OpenCall, OpenCompaction, OpenRequest, OpenTask, OpenWait, Origin, Outcome, Recorded, Refusal, SeenMessages,
        Settings, Spent, Steering, StopLevel, TaskEnd, WentBack,
    },
    model::{History, ToolResultItem},
    tool::Access,
    words::ids::{CommandId, MessageId, Millis, Seq, SessionId},
    words::is_default,
    words::message::{Finish, Message, ModelRef},
    words::usage::Usage,
};

/// How many ended turns a state remembers by their outcome.
pub(super) const TURNS_REMEMBERED: usize = 16;

/// How many message ids a state remembers, so that the same id sent again is not taken twice.
pub(super) const SEEN_MAX: usize = 4_096;

/// How many commands a state remembers that were done, so that none is done twice.
pub(super) const DONE_MAX: usize = 64;

/// How many tasks that are over a state remembers.
pub(super) const TASKS_REMEMBERED: usize = 32;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// Which session.
    pub session: SessionId,
    /// The newest entry that is in it.
    pub seq: Seq,
    /// When that was decided.
    pub time: Millis,
    /// What it is set to.
    pub settings: Arc<Settings>,
    /// The conversation as the model sees it.
    pub history: History,
    /// How full it is, and what was cut off of it.
    pub context: Arc<ContextState>,
    /// Hash over the history, chained item by item.
    pub history_hash: String,
    /// What is open, by ticket.
    pub open: BTreeMap<Seq, Open>,
    /// The running turn.
    pub turn: Option<Arc<Turn>>,
    /// Steering messages that were not delivered yet, oldest first.
    pub steering: VecDeque<Waiting>,
    /// Queued messages, next first.
    pub queue: VecDeque<Waiting>,
    /// Whether waiting messages start no turn until the next send or go-on: after an abort or a failed turn.
    pub held: bool,
    /// Whether nothing new starts.
    pub paused: bool,
    /// How many times in a row it was recovered with no new answer or result in between.
    pub recoveries: u32,
    /// Whether an interrupted turn waits to be told to go on.
    pub waits: bool,
    /// Messages that were taken, so that none is taken twice.
    pub seen: SeenMessages,
    /// What people granted.
    pub grants: Arc<Vec<Granted>>,
    /// The newest turns that ended, oldest first.
    pub ended: VecDeque<Arc<TurnEnd>>,
    /// Turns that ended, of all times.
    pub turns: u64,
    /// Tokens used, of all times: the providers' own figures.
    pub usage: Usage,
    /// What it has used itself, of all times.
    pub spent: Spent,
    /// What its tasks have used that are over, with those below them, and the forks that were merged into it.
    pub spent_by_tasks: Spent,
    /// Where it stands in its budget beside that.
    pub account: Account,
    /// Where the session comes from, where it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<Origin>>,
    /// The newest tasks that are over, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub tasks_ended: VecDeque<TaskEnd>,
    /// The newest entry that merged a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Arc<MergedLast>>,
    /// The newest entry that took the conversation back to a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub went_back: Option<WentBack>,
    /// Why the session has ended for good, where it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Arc<str>>,
    /// The anchor that it goes on from, and the one before that; absent before the first that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Arc<AnchorMark>>,
    /// What the tape says last of what decisions looked at.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: EnvSeen,
    /// The newest commands that were done, oldest first, each with the entry that its sender was told.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub done: VecDeque<(CommandId, Seq)>,
}

impl State {
    // ---- what is open -------------------------------------------------------------------------------------------------

    /// What is open of one kind, by ticket.
    pub(super) fn open_as<T: 'static>(
        &self,
        of: fn(&Open) -> Option<&T>,
    ) -> impl DoubleEndedIterator<Item = (Seq, &T)> {
        self.open.iter().filter_map(move |(ticket, open)| Some((*ticket, of(open)?)))
    }

    /// The tasks that are open, by ticket.
    pub fn tasks(&self) -> impl Iterator<Item = (Seq, &OpenTask)> {
        self.open_as(|open| if let Open::Task(task) = open { Some(task) } else { None })
    }

    /// The budget ask that is open.
    #[must_use]
    pub fn budget_ask(&self) -> Option<(Seq, &OpenBudgetAsk)> {
        self.open_as(|open| if let Open::BudgetAsk(ask) = open { Some(ask) } else { None }).next()
    }

    /// The wait before a retry that is open.
    pub(super) fn wait(&self) -> Option<(Seq, &OpenWait)> {
        self.open_as(|open| if let Open::Wait(wait) = open { Some(wait) } else { None }).next()
    }

    /// The calls that are open, by ticket: in call order.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = (Seq, &OpenCall)> {
        self.open_as(|open| if let Open::Call(call) = open { Some(call) } else { None })
    }

    /// The call of that ticket, where it is open.
    pub(crate) fn call(&self, ticket: Seq) -> Option<&OpenCall> {
        match self.open.get(&ticket) {
            Some(Open::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// The model request that is open.
    #[must_use]
    pub fn request(&self) -> Option<(Seq, &OpenRequest)> {
        self.open_as(|open| if let Open::Request(request) = open { Some(request) } else { None }).next()
    }

    /// The compaction that is open.
    #[must_use]
    pub fn compaction(&self) -> Option<(Seq, &OpenCompaction)> {
        self.open_as(|open| if let Open::Compaction(open) = open { Some(open) } else { None }).next()
    }

    // ---- the rest -----------------------------------------------------------------------------------------------------

    /// The state before anything was said.
    #[must_use]
    pub fn new(session: SessionId, settings: Settings, now: Millis) -> State {
        State {
            session,
            seq: Seq::ZERO,
            time: now,
            settings: Arc::new(settings),
            history: History::default(),
            context: Arc::default(),
            history_hash: String::new(),
            open: BTreeMap::new(),
            turn: None,
            steering: VecDeque::new(),
            queue: VecDeque::new(),
            held: false,
            paused: false,
            recoveries: 0,
            waits: false,
            seen: SeenMessages::default(),
            grants: Arc::default(),
            ended: VecDeque::new(),
            turns: 0,
            usage: Usage::default(),
            spent: Spent::default(),
            spent_by_tasks: Spent::default(),
            account: Account::default(),
            origin: None,
            tasks_ended: VecDeque::new(),
            merged: None,
            went_back: None,
            closed: None,
            anchor: None,
            env: EnvSeen::default(),
            done: VecDeque::new(),
        }
    }

    /// Whether no turn is running, none is about to start, and no child that was told to stop is still up. Children that
    /// work on do not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let rests = (self.queue.is_empty() && self.steering.is_empty()) || self.held || self.paused;
        self.turn.is_none() && rests && self.tasks().all(|(_, task)| task.told == StopLevel::Run)
    }

    /// Whether a start of the runtime must bring the session back: a turn is not over, or a child is not down.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.turn.is_some() || self.tasks().next().is_some()
    }

    /// Whether its actor may be put to sleep: no turn runs, nothing waits, and nothing is open, children included.
    ///
    /// The rest is on the tape, and nothing of it needs an actor until something comes in.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.turn.is_none() && self.queue.is_empty() && self.steering.is_empty() && self.open.is_empty()
    }

    /// Whether the running turn is being ended.
    pub(super) fn is_ending(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.ending.is_some())
    }

    /// Whether the conversation itself may be changed: no turn runs, and the session has not ended.
    pub(super) fn is_at_rest(&self) -> Result<(), Refusal> {
        match &self.turn {
            _ if self.closed.is_some() => Err(Refusal::Ended),
            Some(turn) => Err(Refusal::Busy { turn: turn.id }),
            None => Ok(()),
        }
    }

    /// How deep it is below the session at the top: 0 for that one.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.origin.as_ref().map_or(0, |origin| origin.depth)
    }

    /// The moment at which the core wants to hear a timer.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        let asks_for_more = self.budget_ask().is_some();
        let moments = self.open.values().filter_map(|open| match open {
            Open::Ask(ask) => Some(ask.expires),
            Open::BudgetAsk(ask) => Some(ask.expires),
            Open::Wait(wait) if !self.paused && !self.waits && !asks_for_more => Some(wait.until),
            _ => None,
        });
        let limits =
            self.turn.iter().map(|turn| turn.limits).chain(self.account.grant).chain([self.settings.budget.session]);
        // Asked all the time, and mostly nothing limits it.
        let is_limited = !self.is_ending() && limits.into_iter().any(|limits| limits.time_ms.is_some());
        let time = if is_limited { self.time_is_over_at() } else { None };
        moments.chain(time).min()
    }

    /// What was used by the session and by its tasks that are over.
    #[must_use]
    pub fn spent_in_all(&self) -> Spent {
        let mut all = self.spent;
        all += self.spent_by_tasks;
        all
    }

    /// The entry that the sender of a command was told, where it was done under that id.
    #[must_use]
    pub fn done_under(&self, id: &CommandId) -> Option<Seq> {
        self.done.iter().find(|(known, _)| known == id).map(|(_, seq)| *seq)
    }

    /// Takes note of the input that wrote an entry.
    pub(super) fn take_note(&mut self, input: &Recorded, seq: Seq) {
        self.env.learn(&input.env);
        if let Some(id) = &input.id {
            self.done.push_back((id.clone(), input.done.unwrap_or(seq)));
            if self.done.len() > DONE_MAX {
                self.done.pop_front();
            }
        }
    }
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// The entry that accepted it.
    pub seq: Seq,
    /// What it says.
    pub message: Arc<Message>,
    /// What its sender chose.
    pub delivery: Delivery,
}

impl Waiting {
    /// What it wants done to the calls of the running step.
    #[must_use]
    pub fn steering(&self) -> Steering {
        match self.delivery {
            Delivery::Steer(steering) => steering,
            Delivery::Queue | Delivery::Reject => Steering::FinishBatch,
        }
    }
}

/// A running turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Named by the entry that began it.
    pub id: Seq,
    /// When it began.
    pub started: Millis,
    /// The messages that it answers.
    pub messages: Vec<MessageId>,
    /// Model requests so far, retries not counted.
    pub step: u32,
    /// Retries of the present request.
    pub retries: u32,
    /// Whether the provider refused the present request as too large: no other is made before there is room.
    pub overflowed: bool,
    /// How often that happened in this step.
    pub overflows: u32,
    /// The hash of the request that was refused: the same one is not made again.
    pub refused: String,
    /// The model that its messages asked for, where they did.
    pub model: Option<ModelRef>,
    /// Tools that its messages switched on or off.
    pub tools: BTreeMap<String, bool>,
    /// The entry that holds the newest answer.
    pub answer: Option<Seq>,
    /// The calls of the newest answer, in call order, with the results that are there.
    pub batch: Vec<BatchItem>,
    /// What happens when nothing is open.
    pub next: Next,
    /// How it is being ended, where it is.
    pub ending: Option<Outcome>,
    /// Whether somebody sent a message, or said go on, while it was being ended: then its end holds nothing.
    pub released: bool,
    /// The newest text of the model.
    pub text: Arc<str>,
    /// Tokens so far.
    pub usage: Usage,
    /// What it has used.
    pub spent: Spent,
    /// What it may use.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// How the newest answer ended, and what it used.
    pub answered: Option<(Finish, Charge)>,
}

/// What a turn does when nothing of it is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Another step.
    #[default]
    Step,
    /// It ends.
    End(Outcome),
}

/// One call of the newest answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchItem {
    /// The call's ticket.
    pub ticket: Seq,
    /// Its result, once there is one.
    pub result: Option<ToolResultItem>,
}

/// A standing grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// What may be done.
    pub access: Access,
    /// Only in this turn, where it says so.
    pub turn: Option<Seq>,
}

/// A turn that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Which.
    pub turn: Seq,
    /// How.
    pub outcome: Outcome,
    /// The newest text of the model in it.
    pub text: Arc<str>,
    /// The messages that it answered.
    pub messages: Vec<MessageId>,
    /// How many steps it took.
    pub steps: u32,
    /// Tokens: the provider's own figures.
    pub usage: Usage,
    /// What it used, estimates included, and what that cost.
    pub spent: Spent,
}
