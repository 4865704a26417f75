//! The part of a supervisor that decides: a pure state machine. It must not read a clock, spawn a task or draw a random number:
//! the time and the seed of its jitter come from outside.
//!
//! An event edits what each child should be (`want`, `recycle`, `park`, `forget`) and what it is (`status`, counts); it may also
//! add replies, reports and timers. [`Planner::reconcile`] alone then starts and stops children, and exits. A supervisor of ordered
//! children does one thing at a time:
//!
//! 1. something is stopping: wait;
//! 2. else stop the last child that runs and should not, or should run afresh;
//! 3. else, if nothing is starting and no earlier child holds it back, start the first child that should run and does not;
//! 4. when going down and nothing is left but unkillable children: exit, once.
//!
//! A dynamic supervisor stops and starts all that is due, at once. The strategies differ in two ways: which siblings are restarted
//! together with a child (`pull_in_siblings`), and whether an earlier child that waits for its restart or is unkillable holds back
//! later starts (not in `OneForOne`).
//!
//! Every start and timer gets a generation that is never used twice, and a stop carries the generation of its start; an event
//! with another generation than its child's is late and changes nothing. Change what a child is or should be only through
//! [`Planner::edit`], which keeps the sets that `reconcile` reads in step.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::supervisor::{
    admin::{AdminError, Answer, Done},
    backoff::Chance,
    exit::ExitReason,
    intensity::Window,
    planner::child::{ByHand, Child, Park, Wait},
    report::{Context, Decision},
    spec::{ChildId, Kind, Policy, Rules, Strategy},
    status::Status,
};

pub(crate) use crate::supervisor::planner::{
    child::ChildView,
    talk::{Action, Admin, ChildEvent, Event},
};

mod asked;
mod child;
mod happened;
mod talk;

/// A number that no two starts or timers of one planner share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// Names an administrative call until it is answered.
pub(crate) type Call = u64;

/// A child's place in the order of starting.
type Key = u64;

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Before the boot.
    New,
    /// The children of the spec are being started for the first time.
    Booting,
    /// Each of them was up once, had nothing to do, or was stopped by hand.
    Up,
    /// The children are being stopped; the supervisor then exits for this reason.
    Down(ExitReason),
    /// It has exited: every call is refused.
    Gone,
}

/// The state of one supervisor, see the module. A child's status changes like this:
///
/// ```text
/// Stopped ─► Starting ─► Running                          reconcile starts it; it is up
/// Starting, Running ─► Stopping                           reconcile stops it
/// Starting, Running, Stopping, Unkillable ─► Stopped      it ended
/// Starting, Running, Unkillable ─► Backoff ─► Stopped     it crashed and waits for its restart; the wait is over, or cut short
/// Starting, Running, Stopping ─► Unkillable               it, or a child that it left, did not end; its place stays taken
/// Stopped ─► Parked ─► Stopped                            too many crashes, or parked by hand; by hand, or its time is over
/// ```
pub(crate) struct Planner {
    rules: Rules,
    phase: Phase,
    /// The children, in the order of starting.
    children: BTreeMap<Key, Child>,
    /// The key of each child, by id.
    keys: HashMap<ChildId, Key>,
    next_key: Key,
    last_generation: Generation,
    /// The time of the event in hand, since the planner's beginning; and the actions that follow from it so far.
    now: Duration,
    actions: Vec<Action>,
    /// Counts restarts if exhaustion escalates; if it parks, the different children that restarted, where the rules ask for that.
    window: Window,
    chance: Chance,
    /// The children of the spec whose first start is not over yet.
    unbooted: BTreeSet<Key>,
    // The sets that `reconcile` looks at, kept next to `children` by `edit` so that each event costs O(log n).
    starting: BTreeSet<Key>,
    stopping: BTreeSet<Key>,
    held_back: BTreeSet<Key>,
    to_stop: BTreeSet<Key>,
    to_start: BTreeSet<Key>,
}

impl Planner {
    /// A supervisor that has not begun. `seed` decides the jitter of its backoff.
    pub(crate) fn new(rules: Rules, seed: u64) -> Planner {
        Planner {
            rules,
            phase: Phase::New,
            children: BTreeMap::new(),
            keys: HashMap::new(),
            next_key: 0,
            last_generation: Generation(0),
            now: Duration::ZERO,
            actions: Vec::new(),
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

    /// Takes one event and returns the actions to carry out now. `now` is the time since any fixed beginning, and must never go
    /// back.
    pub(crate) fn on(&mut self, event: Event, now: Duration) -> Vec<Action> {
        self.now = now;
        if self.phase == Phase::Gone {
            self.refuse(&event);
        } else {
            self.take(event);
            self.reconcile();
        }
        std::mem::take(&mut self.actions)
    }

    fn take(&mut self, event: Event) {
        let (call, answer) = match event {
            Event::Boot { children } => return self.boot(children),
            Event::Child(id, generation, what) => return self.happened(&id, generation, what),
            Event::Shutdown { reason } => return self.go_down(ExitReason::Shutdown(reason)),
            Event::Start { call, id, policy } => (call, self.add_by_hand(call, id, policy)),
            Event::Admin(call, id, what) => (call, self.asked(call, &id, what)),
            Event::Change { call, rules, children } => {
                (call, self.change(rules, children).map(|()| Some(Done::Ok)).map_err(AdminError::BadSpec))
            }
        };
        if let Some(answer) = answer.transpose() {
            self.actions.push(Action::Reply { call, answer });
        }
    }

    /// Refuses every call after the exit.
    fn refuse(&mut self, event: &Event) {
        if let Event::Start { call, .. } | Event::Admin(call, ..) | Event::Change { call, .. } = event {
            self.actions.push(Action::Reply { call: *call, answer: Err(AdminError::ShuttingDown) });
        }
    }

    /// One child.
    pub(crate) fn view(&self, id: &ChildId) -> Option<ChildView> {
        self.keys.get(id).map(|key| self.children[key].view())
    }

    /// All children, in the order of their start.
    pub(crate) fn views(&self) -> impl Iterator<Item = (&ChildId, ChildView)> {
        self.children.values().map(|child| (&child.id, child.view()))
    }

    /// How many entries all its tables hold together.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let sets = [&self.unbooted, &self.starting, &self.stopping, &self.held_back, &self.to_stop, &self.to_start];
        let waiting: usize = self.children.values().map(|child| child.waiting.len()).sum();
        sets.iter().map(|set| set.len()).sum::<usize>() + self.children.len() + self.keys.len() + waiting
    }

    /// Whether new children are refused.
    pub(crate) fn is_going_down(&self) -> bool {
        matches!(self.phase, Phase::Down(_) | Phase::Gone)
    }

    /// Compares what each child is with what it should be, and adds the next actions.
    fn reconcile(&mut self) {
        if self.phase == Phase::Booting && self.unbooted.is_empty() {
            self.phase = Phase::Up;
            self.actions.push(Action::Booted);
        }
        if self.is_dynamic() {
            while let Some(key) = self.to_stop.last().copied() {
                self.stop(key);
            }
            while let Some(key) = self.to_start.first().copied() {
                self.spawn(key);
            }
        } else if self.stopping.is_empty() {
            if let Some(key) = self.to_stop.last().copied() {
                self.stop(key);
            } else if self.starting.is_empty()
                && let Some(key) = self.to_start.first().copied()
                && self.may_pass(key)
            {
                self.spawn(key);
            }
        }
        self.exit_when_down();
    }

    /// Whether `key` may start: no earlier child waits for its restart or is unkillable, unless children are independent.
    fn may_pass(&self, key: Key) -> bool {
        let alone = self.rules.kind == Kind::Ordered(Strategy::OneForOne);
        alone || self.held_back.first().is_none_or(|first| *first > key)
    }

    fn exit_when_down(&mut self) {
        let quiet = self.starting.is_empty() && self.stopping.is_empty() && self.to_stop.is_empty();
        if !quiet || !matches!(self.phase, Phase::Down(_)) {
            return;
        }
        if let Phase::Down(reason) = std::mem::replace(&mut self.phase, Phase::Gone) {
            let stuck = self.children.values().filter(|child| child.status == Status::Unkillable);
            let leftover = stuck.map(|child| child.id.clone()).collect();
            self.actions.push(Action::Exit { reason, leftover });
        }
    }

    fn spawn(&mut self, key: Key) {
        let generation = self.next_generation();
        let action = self.edit(key, |child| {
            child.status = Status::Starting;
            child.generation = generation;
            child.incarnation += 1;
            Action::Spawn { id: child.id.clone(), generation, incarnation: child.incarnation }
        });
        self.actions.push(action);
    }

    fn stop(&mut self, key: Key) {
        let action = self.edit(key, |child| {
            child.status = Status::Stopping;
            Action::Stop { id: child.id.clone(), generation: child.generation, shutdown: child.policy.shutdown }
        });
        self.actions.push(action);
    }

    /// Handles a child that no longer runs: it is forgotten, parked, or left stopped; `reconcile` starts it again if it should run.
    fn rest(&mut self, key: Key) {
        self.cancel_timer(key);
        let (want, forget, park) = self.edit(key, |child| {
            child.recycle = false;
            child.status = Status::Stopped;
            (child.want, child.forget, child.park)
        });
        self.answer(key, Wait::Down, &Ok(Done::Ok));
        if want {
            return;
        }
        self.answer(key, Wait::Up, &Err(AdminError::Stopped));
        if forget {
            self.remove(key);
        } else if let Some(park) = park.filter(|_| !self.is_going_down()) {
            self.keep_parked(key, park);
        }
    }

    /// Parks a stopped child. If the rules allow it, a timer lets a child that was parked after crashes try again.
    fn keep_parked(&mut self, key: Key, park: Park) {
        let id = self.edit(key, |child| {
            child.status = Status::Parked;
            child.id.clone()
        });
        self.actions.push(Action::Parked { id });
        if let Some(park_for) = self.rules.park_for.filter(|_| park == Park::Exhausted) {
            self.arm(key, Status::Parked, park_for);
        }
    }

    /// Lets a child wait in a status, and arms the timer that ends the wait.
    fn arm(&mut self, key: Key, status: Status, after: Duration) {
        let generation = self.next_generation();
        let id = self.edit(key, |child| {
            child.status = status;
            child.generation = generation;
            child.timed = true;
            child.id.clone()
        });
        self.actions.push(Action::Arm { id, generation, after });
    }

    /// Cancels the timer of a child that waits for its restart, or to be unparked.
    fn cancel_timer(&mut self, key: Key) {
        if let Some(child) = self.children.get_mut(&key).filter(|child| child.timed) {
            child.timed = false;
            self.actions.push(Action::Cancel { id: child.id.clone() });
        }
    }

    /// Answers the calls that wait for a child to be up, or to be down.
    fn answer(&mut self, key: Key, what: Wait, answer: &Answer) {
        let Some(child) = self.children.get_mut(&key) else { return };
        for (call, _) in child.waiting.extract_if(.., |(_, wait)| *wait == what) {
            self.actions.push(Action::Reply { call, answer: answer.clone() });
        }
    }

    fn report(&mut self, key: Key, reason: ExitReason, crash: Option<Context>, decision: Decision, in_window: u32) {
        let id = self.children[&key].id.clone();
        self.actions.push(Action::Report { id, reason, crash, decision, in_window });
    }

    /// Forgets a child that is stopped and should not run.
    fn remove(&mut self, key: Key) {
        if let Some(child) = self.children.remove(&key) {
            self.keys.remove(&child.id);
            self.unbooted.remove(&key);
            self.actions.push(Action::Forget { id: child.id });
        }
    }

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

    /// Changes a child, and updates the sets that it belongs to. The child must exist.
    fn edit<T>(&mut self, key: Key, change: impl FnOnce(&mut Child) -> T) -> T {
        let child = self.children.get_mut(&key).expect("a key is handed round only while its child is there");
        let result = change(child);
        let runs = matches!(child.status, Status::Starting | Status::Running);
        let held_back = matches!(child.status, Status::Backoff | Status::Unkillable) && child.want;
        let member = |set: &mut BTreeSet<Key>, yes: bool| if yes { set.insert(key) } else { set.remove(&key) };
        member(&mut self.starting, child.status == Status::Starting);
        member(&mut self.stopping, child.status == Status::Stopping);
        member(&mut self.held_back, held_back);
        member(&mut self.to_stop, runs && (child.recycle || !child.want));
        member(&mut self.to_start, child.status == Status::Stopped && child.want);
        result
    }
}

#[cfg(test)]
mod tests;
