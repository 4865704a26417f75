//! The part of a supervisor that decides: a pure state machine, without a clock, a task or chance of its own.
//!
//! It is level-triggered. An event only edits what each child should be (`want`, `recycle`) and what it is (`state`);
//! one [`Planner::reconcile`] then compares the two and gives the next actions:
//!
//! 1. something is stopping: wait (ordered kinds only);
//! 2. else stop the last child that runs and should not, or should run afresh;
//! 3. else, when going down and nothing runs: exit, once;
//! 4. else, when nothing is starting: start the first child that should run and does not.
//!
//! The strategies differ only in which siblings get `recycle`. Every start, stop and timer carries a generation that is
//! never used twice; an event with another generation than its child's is old news and changes nothing.
//!
//! ```text
//!            ┌───────────── Due ─────────────┐
//!          Idle ──► Starting ──► Running ──► Backoff ──► Parked ─ unpark ─► Idle
//!            ▲          └─────┬──────┘
//!            └── Exited ── Stopping ──► Stuck (did not end although killed; its slot stays taken)
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::supervisor::{
    backoff::Chance,
    exit::ExitReason,
    intensity::Window,
    report::Decision,
    spec::{AutoShutdown, BadSpec, ChildId, Kind, OnExhausted, Policy, Restart, Rules, Shutdown, Strategy},
};

/// A number that no two starts, stops or timers of one planner share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// Names an administrative call until it is answered.
pub(crate) type Call = u64;

/// A child's place in the order of starting.
type Key = u64;

/// What a planner is told.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Boot {
        children: Vec<(ChildId, Policy)>,
    },
    Started {
        id: ChildId,
        generation: Generation,
    },
    Ignored {
        id: ChildId,
        generation: Generation,
    },
    StartFailed {
        id: ChildId,
        generation: Generation,
        reason: ExitReason,
    },
    Exited {
        id: ChildId,
        generation: Generation,
        reason: ExitReason,
    },
    Unkillable {
        id: ChildId,
        generation: Generation,
    },
    Due {
        id: ChildId,
        generation: Generation,
    },
    Start {
        call: Call,
        id: ChildId,
        policy: Policy,
    },
    Terminate {
        call: Call,
        id: ChildId,
    },
    Restart {
        call: Call,
        id: ChildId,
    },
    Recycle {
        call: Call,
        id: ChildId,
    },
    Delete {
        call: Call,
        id: ChildId,
    },
    Park {
        call: Call,
        id: ChildId,
    },
    Unpark {
        call: Call,
        id: ChildId,
    },
    /// New rules and policies, applied to what happens from now on.
    #[allow(dead_code, reason = "the planner knows live changes; no host has asked for them yet")]
    Change {
        rules: Rules,
        children: Vec<(ChildId, Policy)>,
    },
    Shutdown {
        reason: String,
    },
}

impl Event {
    /// The child that it is about.
    pub(crate) fn about(&self) -> Option<&ChildId> {
        match self {
            Event::Boot { .. } | Event::Change { .. } | Event::Shutdown { .. } => None,
            Event::Started { id, .. }
            | Event::Ignored { id, .. }
            | Event::StartFailed { id, .. }
            | Event::Exited { id, .. }
            | Event::Unkillable { id, .. }
            | Event::Due { id, .. }
            | Event::Start { id, .. }
            | Event::Terminate { id, .. }
            | Event::Restart { id, .. }
            | Event::Recycle { id, .. }
            | Event::Delete { id, .. }
            | Event::Park { id, .. }
            | Event::Unpark { id, .. } => Some(id),
        }
    }
}

/// What a planner wants done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Spawn {
        id: ChildId,
        generation: Generation,
        incarnation: u64,
    },
    Stop {
        id: ChildId,
        generation: Generation,
        shutdown: Shutdown,
    },
    Arm {
        id: ChildId,
        generation: Generation,
        after: Duration,
    },
    Cancel {
        id: ChildId,
    },
    /// The child is gone for good: its spec can be forgotten.
    Forget {
        id: ChildId,
    },
    Reply {
        call: Call,
        answer: Result<Done, AdminError>,
    },
    /// A child ended, and this is what follows.
    Report {
        id: ChildId,
        reason: ExitReason,
        expected: bool,
        decision: Decision,
        in_window: u32,
    },
    Parked {
        id: ChildId,
    },
    Booted,
    /// All children are down, but for those left over that did not end although they were killed.
    Exit {
        reason: ExitReason,
        leftover: Vec<ChildId>,
    },
}

/// What an administrative call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The child runs.
    Started,
    /// The child said at its start that there is nothing for it to do.
    Ignored,
    /// It is as it was asked to be.
    Ok,
}

/// Why an administrative call did nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No such child.
    #[error("no such child")]
    NotFound,
    /// A child with this id runs.
    #[error("a child with this id runs already")]
    AlreadyStarted,
    /// A child with this id is known and stopped.
    #[error("a child with this id is present, and stopped")]
    AlreadyPresent,
    /// The child runs.
    #[error("the child runs")]
    Running,
    /// The child waits for its restart.
    #[error("the child waits for its restart")]
    Restarting,
    /// The child is parked.
    #[error("the child is parked")]
    Parked,
    /// The child is not parked.
    #[error("the child is not parked")]
    NotParked,
    /// A dynamic supervisor has all the children it may have.
    #[error("there are {max} children already, which is the most")]
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
    /// The supervisor has ended, or is between two incarnations.
    #[error("the supervisor is not there")]
    Gone,
    /// The spec cannot be run.
    #[error(transparent)]
    BadSpec(#[from] BadSpec),
}

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Starting,
    Running,
    Stopping,
    Stuck,
    Backoff { until: Duration },
    Parked,
}

/// Who waits for what of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Up,
    Down,
}

/// The first start of a child by hand is not a crash when it fails: the caller is told, and that is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByHand {
    Add,
    Restart,
}

struct Child {
    id: ChildId,
    policy: Policy,
    want: bool,
    recycle: bool,
    park: bool,
    /// Forget it as soon as it is idle.
    forget: bool,
    state: State,
    generation: Generation,
    incarnation: u64,
    by_hand: Option<ByHand>,
    waiting: Vec<(Call, Wait)>,
    window: Window,
    restarts: u64,
    attempt: u32,
    started_at: Duration,
}

/// A child as others may see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChildView {
    pub(crate) state: State,
    pub(crate) restarting: bool,
    pub(crate) incarnation: u64,
    pub(crate) restarts: u64,
    pub(crate) in_window: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    New,
    Booting,
    Up,
    Down(ExitReason),
    Gone,
}

/// The state of one supervisor, see the module.
pub(crate) struct Planner {
    rules: Rules,
    phase: Phase,
    children: BTreeMap<Key, Child>,
    keys: HashMap<ChildId, Key>,
    next_key: Key,
    last_generation: Generation,
    /// Restarts, where exhaustion escalates; restarts of different children, where it parks.
    window: Window,
    chance: Chance,
    // What `reconcile` looks at, kept beside `children` by `sort_in` so that each event costs O(log n).
    unbooted: BTreeSet<Key>,
    starting: BTreeSet<Key>,
    stopping: BTreeSet<Key>,
    held_back: BTreeSet<Key>,
    to_stop: BTreeSet<Key>,
    to_start: BTreeSet<Key>,
}

impl Planner {
    /// A supervisor that has not begun. `seed` decides the jitter of its back-off.
    pub(crate) fn new(rules: Rules, seed: u64) -> Planner {
        Planner {
            rules,
            phase: Phase::New,
            children: BTreeMap::new(),
            keys: HashMap::new(),
            next_key: 0,
            last_generation: Generation(0),
            window: Window::default(),
            chance: Chance::new(seed),
            unbooted: BTreeSet::new(),
            starting: BTreeSet::new(),
            stopping: BTreeSet::new(),
            held_back: BTreeSet::new(),
            to_stop: BTreeSet::new(),
            to_start: BTreeSet::new(),
        }
    }

    /// Takes one event and gives what to do now. `now` is measured from any fixed beginning and never goes back.
    pub(crate) fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut out = Vec::new();
        if self.phase == Phase::Gone {
            refuse_the_dead(&event, &mut out);
            return out;
        }
        match event {
            Event::Boot { children } => self.boot(children),
            Event::Started { id, generation } => self.started(&id, generation, now, &mut out),
            Event::Ignored { id, generation } => self.ignored(&id, generation, &mut out),
            Event::StartFailed { id, generation, reason } => self.start_failed(&id, generation, reason, now, &mut out),
            Event::Exited { id, generation, reason } => self.exited(&id, generation, reason, now, &mut out),
            Event::Unkillable { id, generation } => self.unkillable(&id, generation, &mut out),
            Event::Due { id, generation } => self.due(&id, generation),
            Event::Change { rules, children } => self.change(rules, children),
            Event::Shutdown { reason } => self.go_down(ExitReason::Shutdown(reason), &mut out),
            Event::Start { call, id, policy } => {
                if let Err(refused) = self.add_by_hand(call, id, policy) {
                    out.push(Action::Reply { call, answer: Err(refused) });
                }
            }
            Event::Terminate { call, id } => self.by_hand(call, &id, Self::terminate, &mut out),
            Event::Restart { call, id } => self.by_hand(call, &id, Self::restart, &mut out),
            Event::Recycle { call, id } => self.by_hand(call, &id, Self::recycle, &mut out),
            Event::Delete { call, id } => self.by_hand(call, &id, Self::delete, &mut out),
            Event::Park { call, id } => self.by_hand(call, &id, Self::park, &mut out),
            Event::Unpark { call, id } => self.by_hand(call, &id, Self::unpark, &mut out),
        }
        self.reconcile(&mut out);
        out
    }

    /// One child.
    pub(crate) fn view(&self, id: &ChildId) -> Option<ChildView> {
        self.keys.get(id).map(|key| self.children[key].view())
    }

    /// All children, in the order of their start.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&ChildId, ChildView)> {
        self.children.values().map(|child| (&child.id, child.view()))
    }

    /// Whether new children are refused.
    pub(crate) fn is_going_down(&self) -> bool {
        matches!(self.phase, Phase::Down(_) | Phase::Gone)
    }

    // ---- what happened -------------------------------------------------------------------------------------------

    fn boot(&mut self, children: Vec<(ChildId, Policy)>) {
        if self.phase != Phase::New {
            return;
        }
        self.phase = Phase::Booting;
        for (id, policy) in children {
            if !self.keys.contains_key(&id) {
                let key = self.add(id, policy, None);
                self.unbooted.insert(key);
            }
        }
    }

    fn started(&mut self, id: &ChildId, generation: Generation, now: Duration, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| state == State::Starting) else { return };
        self.unbooted.remove(&key);
        self.edit(key, |child| {
            child.state = State::Running;
            child.started_at = now;
            child.by_hand = None;
            child.answer(Wait::Up, Ok(Done::Started), out);
        });
    }

    fn ignored(&mut self, id: &ChildId, generation: Generation, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| matches!(state, State::Starting | State::Stopping)) else {
            return;
        };
        let forget = self.is_dynamic();
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget || child.policy.restart == Restart::Temporary;
            child.answer(Wait::Up, Ok(Done::Ignored), out);
        });
        self.rest(key, out);
    }

    fn start_failed(
        &mut self,
        id: &ChildId,
        generation: Generation,
        reason: ExitReason,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let Some(key) = self.current(id, generation, |s| matches!(s, State::Starting | State::Stopping | State::Stuck))
        else {
            return;
        };
        let child = &self.children[&key];
        if child.is_let_go() {
            return self.rest(key, out);
        }
        let failed = AdminError::StartFailed { reason: reason.clone() };
        if let Some(by_hand) = child.by_hand {
            out.push(report(child, reason, false, Decision::Refused, 0));
            self.edit(key, |child| {
                child.want = false;
                child.forget |= by_hand == ByHand::Add;
                child.answer(Wait::Up, Err(failed), out);
            });
            return self.rest(key, out);
        }
        if self.phase == Phase::Booting {
            out.push(report(child, reason.clone(), false, Decision::Escalate, 0));
            let text = format!("failed to start child {id}: {reason}");
            self.edit(key, |child| {
                child.state = State::Idle;
                child.want = false;
            });
            return self.go_down(ExitReason::StartFailed(text), out);
        }
        self.edit(key, |child| child.answer(Wait::Up, Err(failed), out));
        self.fall(key, reason, now, out);
    }

    fn exited(
        &mut self,
        id: &ChildId,
        generation: Generation,
        reason: ExitReason,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let Some(key) = self.current(id, generation, |state| {
            matches!(state, State::Starting | State::Running | State::Stopping | State::Stuck)
        }) else {
            return;
        };
        let dynamic = self.is_dynamic();
        let child = &self.children[&key];
        if child.is_let_go() {
            let expected = !matches!((&reason, child.policy.shutdown), (ExitReason::Killed, Shutdown::After(_)))
                && !matches!(reason, ExitReason::Panic(_) | ExitReason::Error(_));
            let decision = if child.want { Decision::Restart { after_ms: 0 } } else { Decision::Stopped };
            out.push(report(child, reason, expected, decision, 0));
            return self.rest(key, out);
        }
        let again = match child.policy.restart {
            Restart::Permanent => true,
            Restart::Transient => reason.is_abnormal(),
            Restart::Temporary => false,
        };
        if again {
            return self.fall(key, reason, now, out);
        }
        let significant = child.policy.significant;
        let forget = dynamic || child.policy.restart == Restart::Temporary;
        let expected = !reason.is_abnormal();
        out.push(report(child, reason, expected, Decision::Ended, 0));
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget;
        });
        self.rest(key, out);
        let others = || self.children.values().any(|other| other.policy.significant && other.is_alive());
        let down = significant
            && match self.rules.auto_shutdown {
                AutoShutdown::Never => false,
                AutoShutdown::AnySignificant => true,
                AutoShutdown::AllSignificant => !others(),
            };
        if down {
            self.go_down(ExitReason::Shutdown("significant children ended".to_owned()), out);
        }
    }

    /// A child ended, or could not start, and has to run again.
    fn fall(&mut self, key: Key, reason: ExitReason, now: Duration, out: &mut Vec<Action>) {
        let own = self.children[&key].policy.intensity.unwrap_or(self.rules.intensity);
        let backoff = self.children[&key].policy.backoff.or(self.rules.backoff);
        let (in_window, parked, escalated) = match self.rules.on_exhausted {
            OnExhausted::Escalate => {
                let count = self.window.add(self.rules.intensity, now);
                self.edit(key, |child| {
                    child.window.add(own, now);
                });
                (count, false, count > self.rules.intensity.max)
            }
            OnExhausted::Park => {
                let count = self.edit(key, |child| child.window.add(own, now));
                let common =
                    self.rules.group.is_some_and(|group| self.window.add_distinct(group, now, key) > group.max);
                (count, count > own.max, common)
            }
        };
        if escalated {
            out.push(report(&self.children[&key], reason.clone(), false, Decision::Escalate, in_window));
            self.edit(key, |child| {
                child.state = State::Idle;
                child.want = false;
            });
            let text = format!("too many restarts, the last of {}: {reason}", self.children[&key].id);
            return self.go_down(ExitReason::Shutdown(text), out);
        }
        if parked {
            out.push(report(&self.children[&key], reason, false, Decision::Park, in_window));
            self.edit(key, |child| {
                child.want = false;
                child.park = true;
            });
            return self.rest(key, out);
        }
        let attempt = self.edit(key, |child| {
            child.restarts += 1;
            let ran =
                if child.state == State::Starting { Duration::ZERO } else { now.saturating_sub(child.started_at) };
            if backoff.is_some_and(|backoff| ran >= backoff.reset_after) {
                child.attempt = 0;
            }
            child.attempt = child.attempt.saturating_add(1);
            child.recycle = false;
            child.attempt - 1
        });
        let after = backoff.map_or(Duration::ZERO, |backoff| backoff.delay(attempt, self.chance.next()));
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        out.push(report(&self.children[&key], reason, false, Decision::Restart { after_ms }, in_window));
        if after.is_zero() {
            self.edit(key, |child| child.state = State::Idle);
        } else {
            let generation = self.next_generation();
            self.edit(key, |child| {
                child.state = State::Backoff { until: now.saturating_add(after) };
                child.generation = generation;
            });
            out.push(Action::Arm { id: self.children[&key].id.clone(), generation, after });
        }
        self.pull_in_siblings(key, out);
    }

    /// Marks what else has to be started afresh because `fallen` has.
    fn pull_in_siblings(&mut self, fallen: Key, out: &mut Vec<Action>) {
        let from = match self.rules.kind {
            Kind::Ordered(Strategy::OneForAll) => 0,
            Kind::Ordered(Strategy::RestForOne) => fallen + 1,
            Kind::Ordered(Strategy::OneForOne) | Kind::Dynamic { .. } => return,
        };
        let siblings: Vec<Key> =
            self.children.range(from..).map(|(key, _)| *key).filter(|key| *key != fallen).collect();
        for key in siblings {
            let cancelled = self.edit(key, |child| {
                let temporary = child.policy.restart == Restart::Temporary;
                match child.state {
                    State::Running | State::Starting if temporary => {
                        child.want = false;
                        child.forget = true;
                    }
                    State::Running | State::Starting => child.recycle = true,
                    State::Backoff { .. } => {
                        child.state = State::Idle;
                        return true;
                    }
                    State::Idle | State::Stopping | State::Stuck | State::Parked => {}
                }
                false
            });
            if cancelled {
                out.push(Action::Cancel { id: self.children[&key].id.clone() });
            }
        }
    }

    fn unkillable(&mut self, id: &ChildId, generation: Generation, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| state == State::Stopping) else { return };
        self.edit(key, |child| {
            child.state = State::Stuck;
            child.answer(Wait::Up, Err(AdminError::Unkillable), out);
            child.answer(Wait::Down, Err(AdminError::Unkillable), out);
        });
    }

    fn due(&mut self, id: &ChildId, generation: Generation) {
        let waits = |state| matches!(state, State::Backoff { .. });
        if let Some(key) = self.current(id, generation, waits) {
            self.edit(key, |child| child.state = State::Idle);
        }
    }

    fn change(&mut self, rules: Rules, children: Vec<(ChildId, Policy)>) {
        self.rules = rules;
        for (id, policy) in children {
            if let Some(key) = self.keys.get(&id).copied() {
                self.edit(key, |child| child.policy = policy);
            } else if !self.is_dynamic() {
                let key = self.add(id, policy, None);
                self.edit(key, |child| child.want = false);
            }
        }
    }

    fn go_down(&mut self, reason: ExitReason, out: &mut Vec<Action>) {
        if self.is_going_down() {
            return;
        }
        self.phase = Phase::Down(reason);
        let keys: Vec<Key> = self.children.keys().copied().collect();
        for key in keys {
            let cancelled = self.edit(key, |child| {
                child.want = false;
                child.recycle = false;
                let waited = matches!(child.state, State::Backoff { .. });
                if waited || child.state == State::Parked {
                    child.state = State::Idle;
                }
                if child.state == State::Idle {
                    child.answer(Wait::Up, Err(AdminError::ShuttingDown), out);
                }
                waited
            });
            if cancelled {
                out.push(Action::Cancel { id: self.children[&key].id.clone() });
            }
        }
    }

    // ---- what was asked for --------------------------------------------------------------------------------------

    fn add_by_hand(&mut self, call: Call, id: ChildId, policy: Policy) -> Result<(), AdminError> {
        if self.is_going_down() {
            return Err(AdminError::ShuttingDown);
        }
        self.rules.check_child(&id, &policy)?;
        if let Some(key) = self.keys.get(&id) {
            return Err(match self.children[key].state {
                State::Idle if !self.children[key].want => AdminError::AlreadyPresent,
                State::Parked => AdminError::Parked,
                _ => AdminError::AlreadyStarted,
            });
        }
        if let Kind::Dynamic { max_children: Some(max) } = self.rules.kind
            && self.children.len() >= max
        {
            return Err(AdminError::MaxChildren { max });
        }
        let key = self.add(id, policy, Some(ByHand::Add));
        self.edit(key, |child| child.waiting.push((call, Wait::Up)));
        Ok(())
    }

    fn by_hand(
        &mut self,
        call: Call,
        id: &ChildId,
        act: fn(&mut Planner, Call, Key, &mut Vec<Action>) -> Option<Result<Done, AdminError>>,
        out: &mut Vec<Action>,
    ) {
        let answer = match self.keys.get(id).copied() {
            Some(key) => act(self, call, key, out),
            None => Some(Err(AdminError::NotFound)),
        };
        if let Some(answer) = answer {
            out.push(Action::Reply { call, answer });
        }
    }

    fn terminate(&mut self, call: Call, key: Key, out: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        self.stop_by_hand(call, key, false, out)
    }

    fn park(&mut self, call: Call, key: Key, out: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if self.children[&key].policy.restart == Restart::Temporary {
            return Some(Err(AdminError::Temporary));
        }
        if self.children[&key].state == State::Parked {
            return Some(Ok(Done::Ok));
        }
        self.stop_by_hand(call, key, true, out)
    }

    fn stop_by_hand(
        &mut self,
        call: Call,
        key: Key,
        park: bool,
        out: &mut Vec<Action>,
    ) -> Option<Result<Done, AdminError>> {
        self.unbooted.remove(&key);
        let forget = !park && (self.is_dynamic() || self.children[&key].policy.restart == Restart::Temporary);
        let state = self.edit(key, |child| {
            child.want = false;
            child.recycle = false;
            child.by_hand = None;
            child.park = park;
            child.forget |= forget;
            child.state
        });
        match state {
            State::Running | State::Starting | State::Stopping => {
                self.edit(key, |child| child.waiting.push((call, Wait::Down)));
                None
            }
            State::Stuck => Some(Err(AdminError::Unkillable)),
            State::Idle | State::Backoff { .. } | State::Parked => {
                if matches!(state, State::Backoff { .. }) {
                    out.push(Action::Cancel { id: self.children[&key].id.clone() });
                }
                self.rest(key, out);
                Some(Ok(Done::Ok))
            }
        }
    }

    fn restart(&mut self, call: Call, key: Key, _: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        let child = &self.children[&key];
        let refused = match child.state {
            _ if self.is_going_down() => AdminError::ShuttingDown,
            State::Idle if !child.want => {
                self.start_by_hand(call, key, Some(ByHand::Restart));
                return None;
            }
            State::Parked => AdminError::Parked,
            State::Running | State::Stopping => AdminError::Running,
            State::Stuck => AdminError::Unkillable,
            State::Idle | State::Starting | State::Backoff { .. } => child.busy(),
        };
        Some(Err(refused))
    }

    /// Stops the child if it runs, and starts it afresh; this is no crash and counts for nothing.
    fn recycle(&mut self, call: Call, key: Key, out: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if self.children[&key].policy.restart == Restart::Temporary {
            return Some(Err(AdminError::Temporary));
        }
        match self.children[&key].state {
            State::Stuck => return Some(Err(AdminError::Unkillable)),
            State::Running | State::Starting => self.edit(key, |child| {
                child.recycle = true;
                child.waiting.push((call, Wait::Up));
            }),
            State::Stopping => self.edit(key, |child| {
                child.want = true;
                child.park = false;
                child.forget = false;
                child.waiting.push((call, Wait::Up));
            }),
            State::Backoff { .. } => {
                out.push(Action::Cancel { id: self.children[&key].id.clone() });
                self.start_by_hand(call, key, None);
            }
            State::Idle | State::Parked => self.start_by_hand(call, key, None),
        }
        None
    }

    fn delete(&mut self, _: Call, key: Key, out: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        let child = &self.children[&key];
        let refused = match child.state {
            State::Parked => None,
            State::Idle if !child.want => None,
            State::Running | State::Stopping => Some(AdminError::Running),
            State::Stuck => Some(AdminError::Unkillable),
            State::Idle | State::Starting | State::Backoff { .. } => Some(child.busy()),
        };
        if let Some(refused) = refused {
            return Some(Err(refused));
        }
        self.edit(key, |child| child.forget = true);
        self.rest(key, out);
        Some(Ok(Done::Ok))
    }

    fn unpark(&mut self, call: Call, key: Key, _: &mut Vec<Action>) -> Option<Result<Done, AdminError>> {
        if self.is_going_down() {
            return Some(Err(AdminError::ShuttingDown));
        }
        if self.children[&key].state != State::Parked {
            return Some(Err(AdminError::NotParked));
        }
        self.start_by_hand(call, key, None);
        None
    }

    fn start_by_hand(&mut self, call: Call, key: Key, by_hand: Option<ByHand>) {
        self.edit(key, |child| {
            child.state = State::Idle;
            child.want = true;
            child.park = false;
            child.by_hand = by_hand;
            child.attempt = 0;
            child.window.clear();
            child.waiting.push((call, Wait::Up));
        });
    }

    // ---- what follows --------------------------------------------------------------------------------------------

    /// The next actions, from what is and what should be.
    fn reconcile(&mut self, out: &mut Vec<Action>) {
        if self.phase == Phase::Booting && self.unbooted.is_empty() {
            self.phase = Phase::Up;
            out.push(Action::Booted);
        }
        if self.is_dynamic() {
            while let Some(key) = self.to_stop.last().copied() {
                self.stop(key, out);
            }
            while let Some(key) = self.to_start.first().copied() {
                self.spawn(key, out);
            }
        } else if self.stopping.is_empty() {
            if let Some(key) = self.to_stop.last().copied() {
                self.stop(key, out);
            } else if self.starting.is_empty()
                && let Some(key) = self.to_start.first().copied()
                && self.may_pass(key)
            {
                self.spawn(key, out);
            }
        }
        self.exit_when_down(out);
    }

    /// Whether the children before `key` are as far as they must be.
    fn may_pass(&self, key: Key) -> bool {
        let alone = self.rules.kind == Kind::Ordered(Strategy::OneForOne);
        alone || self.held_back.first().is_none_or(|first| *first > key)
    }

    fn exit_when_down(&mut self, out: &mut Vec<Action>) {
        let quiet = self.starting.is_empty() && self.stopping.is_empty() && self.to_stop.is_empty();
        if !quiet || !matches!(self.phase, Phase::Down(_)) {
            return;
        }
        if let Phase::Down(reason) = std::mem::replace(&mut self.phase, Phase::Gone) {
            let stuck = self.children.values().filter(|child| child.state == State::Stuck);
            let leftover = stuck.map(|child| child.id.clone()).collect();
            out.push(Action::Exit { reason, leftover });
        }
    }

    fn spawn(&mut self, key: Key, out: &mut Vec<Action>) {
        let generation = self.next_generation();
        let action = self.edit(key, |child| {
            child.state = State::Starting;
            child.generation = generation;
            child.incarnation += 1;
            Action::Spawn { id: child.id.clone(), generation, incarnation: child.incarnation }
        });
        out.push(action);
    }

    fn stop(&mut self, key: Key, out: &mut Vec<Action>) {
        let action = self.edit(key, |child| {
            child.state = State::Stopping;
            Action::Stop { id: child.id.clone(), generation: child.generation, shutdown: child.policy.shutdown }
        });
        out.push(action);
    }

    /// The child does not run any more: it is forgotten, parked, or left idle for `reconcile` to start again.
    fn rest(&mut self, key: Key, out: &mut Vec<Action>) {
        let down = self.is_going_down();
        let forget = self.edit(key, |child| {
            child.recycle = false;
            child.state = State::Idle;
            child.answer(Wait::Down, Ok(Done::Ok), out);
            if child.want && !down {
                return false;
            }
            child.answer(Wait::Up, Err(AdminError::Stopped), out);
            if child.park && !down && !child.forget {
                child.state = State::Parked;
                out.push(Action::Parked { id: child.id.clone() });
            }
            child.forget
        });
        if forget {
            self.remove(key, out);
        }
    }

    fn remove(&mut self, key: Key, out: &mut Vec<Action>) {
        if let Some(child) = self.children.remove(&key) {
            self.keys.remove(&child.id);
            for set in [
                &mut self.unbooted,
                &mut self.starting,
                &mut self.stopping,
                &mut self.held_back,
                &mut self.to_stop,
                &mut self.to_start,
            ] {
                set.remove(&key);
            }
            out.push(Action::Forget { id: child.id });
        }
    }

    // ---- bookkeeping ---------------------------------------------------------------------------------------------

    fn is_dynamic(&self) -> bool {
        matches!(self.rules.kind, Kind::Dynamic { .. })
    }

    fn next_generation(&mut self) -> Generation {
        self.last_generation.0 += 1;
        self.last_generation
    }

    fn add(&mut self, id: ChildId, policy: Policy, by_hand: Option<ByHand>) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        self.keys.insert(id.clone(), key);
        self.children.insert(key, Child::new(id, policy, by_hand));
        self.edit(key, |_| ());
        key
    }

    /// The child that an event is about, if the event is not old news.
    fn current(&self, id: &ChildId, generation: Generation, fits: impl Fn(State) -> bool) -> Option<Key> {
        let key = *self.keys.get(id)?;
        let child = &self.children[&key];
        (child.generation == generation && fits(child.state)).then_some(key)
    }

    /// Changes a child and sorts it in anew. The key must be there.
    fn edit<T>(&mut self, key: Key, change: impl FnOnce(&mut Child) -> T) -> T {
        let child = self.children.get_mut(&key).expect("a key is handed round only while its child is there");
        let result = change(child);
        let runs = matches!(child.state, State::Starting | State::Running);
        let is_idle = child.state == State::Idle;
        let held_back = matches!(child.state, State::Backoff { .. } | State::Stuck) && child.want;
        let member = |set: &mut BTreeSet<Key>, yes: bool| if yes { set.insert(key) } else { set.remove(&key) };
        member(&mut self.starting, child.state == State::Starting);
        member(&mut self.stopping, child.state == State::Stopping);
        member(&mut self.held_back, held_back);
        member(&mut self.to_stop, runs && (child.recycle || !child.want));
        member(&mut self.to_start, is_idle && child.want);
        result
    }
}

impl Child {
    fn new(id: ChildId, policy: Policy, by_hand: Option<ByHand>) -> Child {
        Child {
            id,
            policy,
            want: true,
            recycle: false,
            park: false,
            forget: false,
            state: State::Idle,
            generation: Generation(0),
            incarnation: 0,
            by_hand,
            waiting: Vec::new(),
            window: Window::default(),
            restarts: 0,
            attempt: 0,
            started_at: Duration::ZERO,
        }
    }

    /// Its end was asked for, so it is no crash.
    fn is_let_go(&self) -> bool {
        !self.want || self.recycle || matches!(self.state, State::Stopping | State::Stuck)
    }

    fn is_alive(&self) -> bool {
        self.want || !matches!(self.state, State::Idle | State::Parked)
    }

    fn is_restarting(&self) -> bool {
        let again = self.attempt > 0 && self.state != State::Running;
        self.want && (matches!(self.state, State::Backoff { .. }) || again)
    }

    fn busy(&self) -> AdminError {
        if self.is_restarting() { AdminError::Restarting } else { AdminError::Running }
    }

    fn view(&self) -> ChildView {
        ChildView {
            state: self.state,
            restarting: self.is_restarting(),
            incarnation: self.incarnation,
            restarts: self.restarts,
            in_window: self.window.len(),
        }
    }

    /// Answers those who wait for this.
    fn answer(&mut self, what: Wait, answer: Result<Done, AdminError>, out: &mut Vec<Action>) {
        self.waiting.retain(|(call, wait)| {
            if *wait == what {
                out.push(Action::Reply { call: *call, answer: answer.clone() });
            }
            *wait != what
        });
    }
}

fn report(child: &Child, reason: ExitReason, expected: bool, decision: Decision, in_window: u32) -> Action {
    Action::Report { id: child.id.clone(), reason, expected, decision, in_window }
}

/// After its exit a planner only says no.
fn refuse_the_dead(event: &Event, out: &mut Vec<Action>) {
    if let Event::Start { call, .. }
    | Event::Terminate { call, .. }
    | Event::Restart { call, .. }
    | Event::Recycle { call, .. }
    | Event::Delete { call, .. }
    | Event::Park { call, .. }
    | Event::Unpark { call, .. } = event
    {
        out.push(Action::Reply { call: *call, answer: Err(AdminError::ShuttingDown) });
    }
}

#[cfg(test)]
mod tests;
