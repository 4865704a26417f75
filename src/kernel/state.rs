//! The state of a session: the fold of its tape (the value that its entries give, applied in order), from which decisions are made.
//! A clone is cheap, because the large parts are shared.
//!
//! In a running session only [`State::apply`] (`apply.rs`) and `State::take_note` change a state. Two folds of the same entries
//! give equal states.
//!
//! A change must keep the serialised form: a state is the first entry of every anchor, and of every tape that is not a fork's
//! ([`Record::State`](crate::kernel::Record)). Do not change a field's stored name or type, here or in a type that a field holds,
//! and give each new field a serde default: existing tapes must still load. Nothing here reads a clock; `time` is the time of the
//! newest entry.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    kernel::{
        Account, AgentChoice, AnchorMark, CacheMiss, Charge, ContextState, Delivery, EnvSeen, Fallen, Granted, Limits,
        MergedLast, Open, OpenTable, Origin, Outcome, PreparedFor, Recorded, Refusal, SeenMessages, Settings, Spent,
        Steering, StopLevel, TaskEnd, WentBack,
    },
    model::{History, ToolResultItem},
    tool::Todo,
    words::{
        ids::{CommandId, MessageId, Millis, Seq, SessionId},
        is_default,
        message::{Finish, Message, ModelRef},
        trace::TraceContext,
        usage::Usage,
    },
};

/// How many ended turns a state remembers by their outcome.
pub(super) const TURNS_REMEMBERED: usize = 16;

/// How many message ids a state remembers, so that the same id sent again is not taken twice.
pub(super) const SEEN_MAX: usize = 4_096;

/// How many finished commands a state remembers, so that none is done twice.
pub(super) const DONE_MAX: usize = 64;

/// How many ended tasks a state remembers.
pub(super) const TASKS_REMEMBERED: usize = 32;

/// The state of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The id of the session.
    pub session: SessionId,
    /// The position of the newest entry that the state contains.
    pub seq: Seq,
    /// The time of that entry, in milliseconds since 1970.
    pub time: Millis,
    /// The settings of the session, with the rules of its host and of its ancestors.
    pub settings: Arc<Settings>,
    /// The conversation as the model sees it.
    pub history: History,
    /// How full the model's context is, and what was compacted or pruned out of it.
    pub context: Arc<ContextState>,
    /// Hash over the history, chained item by item: 32 hex digits, empty for an empty history.
    pub(crate) history_hash: String,
    /// The open table: every open ticket, see [`Open`].
    pub open: OpenTable,
    /// The running turn; `None` between turns.
    pub turn: Option<Arc<Turn>>,
    /// Steering messages that wait for the next step of the running turn, oldest first.
    pub steering: VecDeque<Waiting>,
    /// Queued messages, next first.
    pub queue: VecDeque<Waiting>,
    /// Whether the queue is on hold: after an aborted, rejected or failed turn, or one that a budget or a loop ended, and after a
    /// rollback, queued messages start no turn until the next send or go-on.
    #[serde(rename = "held")]
    pub on_hold: bool,
    /// Whether the session is paused: nothing new starts until it is resumed.
    pub paused: bool,
    /// How many times in a row the running turn was recovered from a crash, with no new answer or result in between.
    pub recoveries: u32,
    /// Whether the last incarnation was stopped in order in mid-turn, so that the next recovery follows no crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) stopped: bool,
    /// Whether an interrupted turn waits until a send or a go-on lets it continue.
    pub waits: bool,
    /// The newest accepted messages by id, at most 4,096, so that none is accepted twice. A message that still waits is not
    /// forgotten.
    pub(crate) seen: SeenMessages,
    /// The standing grants that people gave, for the running turn or for the session.
    pub grants: Arc<Vec<Granted>>,
    /// The newest ended turns, at most 16, oldest first.
    pub ended: VecDeque<Arc<TurnEnd>>,
    /// The number of all turns that have ended.
    pub turns: u64,
    /// Tokens that the session has used since it began: the providers' own figures.
    pub usage: Usage,
    /// What the session itself has used since it began, estimates included: tokens, money, calls, tasks, bytes and time.
    pub spent: Spent,
    /// Usage of ended tasks with their descendants, and of merged forks.
    pub spent_by_tasks: Spent,
    /// Budget bookkeeping beside `spent`: the parent's grant, grants that were written off, and the clock of the running turn.
    pub(crate) account: Account,
    /// The parent and the task of a child session; `None` for a session that a host made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Arc<Origin>>,
    /// The newest ended tasks, at most 32, oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub tasks_ended: VecDeque<TaskEnd>,
    /// The newest entry that merged a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merged: Option<Arc<MergedLast>>,
    /// The newest entry that took the conversation back to a point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) went_back: Option<WentBack>,
    /// The agent that was chosen and is in force from the next border of a step on; `None` where none waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next_agent: Option<AgentChoice>,
    /// The agent that is chosen again when the running turn is over; `None` where no message brought an agent for that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_after: Option<AgentChoice>,
    /// Why the session has ended for good; `None` while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Arc<str>>,
    /// The newest anchor, and the anchor before it; `None` before the first anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<Arc<AnchorMark>>,
    /// The newest values of `Env` that decisions have read, as the tape has them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) env: Arc<EnvSeen>,
    /// The newest finished commands that have an id, at most 64, oldest first, each with the entry that its sender was told.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) done: VecDeque<(CommandId, Seq)>,
}

impl State {
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
            open: OpenTable::default(),
            turn: None,
            steering: VecDeque::new(),
            queue: VecDeque::new(),
            on_hold: false,
            paused: false,
            recoveries: 0,
            stopped: false,
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
            next_agent: None,
            agent_after: None,
            closed: None,
            anchor: None,
            env: Arc::default(),
            done: VecDeque::new(),
        }
    }

    /// The to-do list that the model keeps with the tool `todo_write`; empty where it keeps none. An undo takes it back with the
    /// conversation, a fork has that of its parent, and a child has none.
    #[must_use]
    pub fn todos(&self) -> &[Todo] {
        &self.context.todos
    }

    /// Whether no turn is running, none is about to start, and no child that was told to stop is still up. A child that
    /// was not told to stop does not count.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let rests = (self.queue.is_empty() && self.steering.is_empty()) || self.on_hold || self.paused;
        self.turn.is_none() && rests && self.tasks().all(|(_, task)| task.stop_level == StopLevel::Run)
    }

    /// Whether a runtime that starts must wake the session: a turn is not over, or a child is not down.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        self.turn.is_some() || self.tasks().next().is_some()
    }

    /// Whether the session's actor may be put to sleep: no turn runs, no message waits, and nothing is open, children included.
    ///
    /// Everything else is on the tape and needs no actor until the next input.
    #[must_use]
    pub fn may_sleep(&self) -> bool {
        self.turn.is_none() && self.queue.is_empty() && self.steering.is_empty() && self.open.is_empty()
    }

    /// Whether the running turn is being ended.
    pub(super) fn is_ending(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.ending.is_some())
    }

    /// Whether the running turn may make no further step.
    pub(super) fn has_no_steps_left(&self) -> bool {
        let limit = self.settings.steps_max.map(|max| max.max(1));
        self.turn.as_ref().is_some_and(|turn| {
            let is_over = limit.is_some_and(|max| turn.step >= max);
            is_over || matches!(turn.next, Next::End(Outcome::StepLimit { .. }))
        })
    }

    /// Refuses what is meant for one turn while another runs, or none.
    pub(super) fn expects(&self, turn: Option<Seq>) -> Result<(), Refusal> {
        let actual = self.turn.as_ref().map(|turn| turn.id);
        match turn {
            Some(expected) if actual != Some(expected) => Err(Refusal::TurnMismatch { expected, actual }),
            _ => Ok(()),
        }
    }

    /// Whether the running turn can read no new message: it is being ended, or it makes no further request that could carry one.
    pub(super) fn reads_no_more(&self) -> bool {
        // While the last request waits for its retry, a new message can still join it.
        self.is_ending() || (self.has_no_steps_left() && self.wait().is_none())
    }

    /// The strongest wish among the steering messages that wait.
    pub(super) fn strongest_steering(&self) -> Option<Steering> {
        self.steering.iter().map(Waiting::steering).max()
    }

    /// Refuses a change of the conversation while a turn runs or after the session has ended.
    pub(super) fn is_at_rest(&self) -> Result<(), Refusal> {
        match &self.turn {
            _ if self.closed.is_some() => Err(Refusal::Ended),
            Some(turn) => Err(Refusal::Busy { turn: turn.id }),
            None => Ok(()),
        }
    }

    /// How deep the session is below the topmost session: 0 for the topmost.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.origin.as_ref().map_or(0, |origin| origin.depth)
    }

    /// The next moment at which the core needs a timer input; `None` if nothing open has a deadline.
    #[must_use]
    pub(crate) fn due(&self) -> Option<Millis> {
        let asks_for_more = self.budget_ask().is_some();
        let moments = self.open.values().filter_map(|open| match open {
            Open::Ask(ask) => Some(ask.expires),
            Open::BudgetAsk(ask) => Some(ask.expires),
            Open::Wait(wait) if !self.paused && !self.waits && !asks_for_more => Some(wait.until),
            Open::Task(task) => task.waits_until(),
            _ => None,
        });
        let limits =
            self.turn.iter().map(|turn| turn.limits).chain(self.account.grant).chain([self.settings.budget.session]);
        // This is asked after each piece of work, and most sessions have no limit of time.
        let is_limited = !self.is_ending() && limits.into_iter().any(|limits| limits.time_ms.is_some());
        let time = if is_limited { self.time_is_over_at() } else { None };
        let deadline = if self.is_ending() { None } else { self.task_deadline() };
        moments.chain(time).chain(deadline).min()
    }

    /// The usage of the session, of its ended tasks and of the forks merged into it.
    #[must_use]
    pub fn spent_in_all(&self) -> Spent {
        let mut all = self.spent;
        all += self.spent_by_tasks;
        all
    }

    /// The entry that the sender of a command was told, if a command with this id was done.
    #[must_use]
    pub(crate) fn done_under(&self, id: &CommandId) -> Option<Seq> {
        self.done.iter().find(|(known, _)| known == id).map(|(_, seq)| *seq)
    }

    /// Notes what an entry says of the input that wrote it: the values of `Env` that were read, and the id of a finished command.
    pub(super) fn take_note(&mut self, input: &Recorded, seq: Seq) {
        if !is_default(&input.env) {
            Arc::make_mut(&mut self.env).learn(&input.env);
        }
        if let Some(id) = &input.id {
            self.done.push_back((id.clone(), input.done.unwrap_or(seq)));
            if self.done.len() > DONE_MAX {
                self.done.pop_front();
            }
        }
    }
}

/// A message that waits for its delivery. Part of the stored form of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The entry that accepted the message.
    pub seq: Seq,
    /// The message, as it was accepted or last edited.
    pub message: Arc<Message>,
    /// The delivery that its sender chose.
    pub delivery: Delivery,
    /// The agent of the turn that reads the message; `None` for the one that is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// How far the message has come on its way into the answer that is being made; `None` for one that was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Ahead>,
}

/// How far a waiting message has come on its way into the answer that is being made. It waits all the same. Part of the stored form of
/// a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ahead {
    /// The provider has taken it for the running request.
    Sent,
    /// The provider has begun a further answer with it; the next request delivers it.
    Committed,
    /// It came back, and only waits.
    Returned,
}

impl Waiting {
    /// What the message wants done to the calls of the running step.
    #[must_use]
    pub fn steering(&self) -> Steering {
        match self.delivery {
            Delivery::Steer(steering) => steering,
            Delivery::Queue | Delivery::Reject => Steering::FinishBatch,
        }
    }
}

/// A running turn. Part of the stored form of a state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The entry that began the turn; it names the turn.
    pub id: Seq,
    /// The time of that entry.
    pub started: Millis,
    /// The messages that were delivered to the turn, in order.
    pub messages: Vec<MessageId>,
    /// Number of steps so far: model requests, retries not counted.
    pub step: u32,
    /// Number of retries of the present request.
    pub(crate) retries: u32,
    /// Whether the provider refused the present request as too large: no further request is made before there is room.
    pub(crate) overflowed: bool,
    /// How often the provider refused a request as too large in this step.
    pub(crate) overflows: u32,
    /// The hash of the request that was refused as too large: the same request is not made again. Empty if none was refused.
    pub(crate) refused: String,
    /// The model that the turn's messages asked for; `None` for the model of the settings.
    pub model: Option<ModelRef>,
    /// The model of the chain that has the turn, where the first one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallen: Option<Fallen>,
    /// The tries of the present request that went to models before this one, or had the key before this one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) tried: u32,
    /// The model whose key was renewed last in this step: once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) renewed_for: Option<ModelRef>,
    /// Tools, or patterns of tools, that the turn's messages switched on or off.
    pub tools: BTreeMap<String, bool>,
    /// The trace that the turn goes on in: that of its first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<TraceContext>>,
    /// The entry that holds the newest answer.
    pub(crate) answer: Option<Seq>,
    /// The loop keys of the newest calls in a row, oldest first: at most 12. A message ends the row, and so does a call without a
    /// key.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) newest_calls: VecDeque<Arc<str>>,
    /// Whether a call of the row was refused because it repeats, and the calls still repeat.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) loop_refused: bool,
    /// The calls of the newest answer, in call order, each with its result once it has one. Empty again when all have one.
    pub(crate) batch: Vec<BatchItem>,
    /// What the turn does when none of its tickets is open.
    pub(crate) next: Next,
    /// The outcome that the turn will have, while it is being ended; `None` otherwise.
    pub(crate) ending: Option<Outcome>,
    /// The agent that a delivered message brings along, until it is chosen at the next border of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// Whether a message or a go-on arrived while the turn was being ended. If so, the end of the turn does not set `on_hold`.
    pub(crate) released: bool,
    /// The newest text of the model in this turn.
    pub text: Arc<str>,
    /// Tokens that the turn has used: the providers' own figures.
    pub usage: Usage,
    /// What the turn has used, estimates included: tokens, money, calls, tasks, bytes and time.
    pub spent: Spent,
    /// What its tasks used that were over while the turn ran, with theirs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent_by_tasks: Spent,
    /// The most that the turn may use of each resource.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
    /// How many times the turn was recovered from a crash since a person last let it go on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recoveries: u32,
    /// Whether hooks have seen the start of the turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) opened: bool,
    /// What hooks added to the system prompt for the turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) system: Arc<str>,
    /// What hooks made of the newest request, until it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prepared: Option<PreparedFor>,
    /// Why the turn's final answer does not fit its schema, while it is asked for once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) misfit: Option<Arc<str>>,
    /// What of the newest answer's request did not come from the provider's cache, and could have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache_miss: Option<CacheMiss>,
    /// How the newest answer ended, and what its request used.
    pub(crate) answered: Option<(Finish, Charge)>,
}

/// What a turn does when none of its tickets is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Next {
    /// The turn makes another step.
    #[default]
    Step,
    /// The turn ends with this outcome.
    End(Outcome),
}

/// One call of the newest answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchItem {
    /// The call's ticket.
    pub(crate) ticket: Seq,
    /// The result of the call; `None` while the call is open.
    pub(crate) result: Option<Arc<ToolResultItem>>,
}

/// A turn that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnEnd {
    /// The id of the turn: the entry that began it.
    pub turn: Seq,
    /// How the turn ended.
    pub outcome: Outcome,
    /// The newest text of the model in the turn.
    pub text: Arc<str>,
    /// The messages that the turn answered.
    pub messages: Vec<MessageId>,
    /// The number of steps that the turn took.
    pub steps: u32,
    /// Tokens that the turn used: the provider's own figures.
    pub usage: Usage,
    /// What the turn itself used, estimates included, and the cost.
    pub spent: Spent,
    /// What the session's tasks used that were over while the turn ran, with their own tasks and with merged forks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent_by_tasks: Spent,
}

impl TurnEnd {
    /// The text as JSON; `None` if it is none, or JSON with words around it.
    #[must_use]
    pub fn json(&self) -> Option<serde_json::Value> {
        crate::model::json_of(&self.text)
    }
}

/// A hash as tapes have it: 32 hex digits.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}
