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
//!          Idle ──► Starting ──► Running ──► Backoff ──► Parked ─ unpark, Due ─► Idle
//!            ▲          └─────┬──────┘
//!            └── Exited ── Stopping ──► Stuck (did not end although killed; its slot stays taken)
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::supervisor::{
    admin::{AdminError, Done},
    backoff::Chance,
    exit::ExitReason,
    intensity::Window,
    planner::child::{ByHand, Child, Park, Wait},
    report::{Context, Decision},
    spec::{ChildId, Kind, Policy, Rules, Strategy},
};

pub(crate) use crate::supervisor::planner::{
    child::{ChildView, State},
    talk::{Action, Event},
};

mod asked;
mod child;
mod happened;
mod talk;

/// A number that no two starts, stops or timers of one planner share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Generation(pub(crate) u64);

/// Names an administrative call until it is answered.
pub(crate) type Call = u64;

/// A child's place in the order of starting.
type Key = u64;

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
            Event::Started { id, generation, info } => self.started(&id, generation, info, now, &mut out),
            Event::Ignored { id, generation } => self.ignored(&id, generation, now, &mut out),
            Event::StartFailed { id, generation, reason } => self.start_failed(&id, generation, reason, now, &mut out),
            Event::Exited { id, generation, reason } => self.exited(&id, generation, reason, now, &mut out),
            Event::Unkillable { id, generation } => self.unkillable(&id, generation, &mut out),
            Event::Due { id, generation } => self.due(&id, generation),
            Event::Change { call, rules, children } => {
                let answer = self.change(rules, children).map(|()| Done::Ok).map_err(AdminError::BadSpec);
                out.push(Action::Reply { call, answer });
            }
            Event::Shutdown { reason } => self.go_down(ExitReason::Shutdown(reason), &mut out),
            Event::Start { call, id, policy } => {
                if let Err(refused) = self.add_by_hand(call, id, policy) {
                    out.push(Action::Reply { call, answer: Err(refused) });
                }
            }
            Event::Terminate { call, id } => self.by_hand(call, &id, Self::terminate, now, &mut out),
            Event::Restart { call, id } => self.by_hand(call, &id, Self::restart, now, &mut out),
            Event::Recycle { call, id } => self.by_hand(call, &id, Self::recycle, now, &mut out),
            Event::Delete { call, id } => self.by_hand(call, &id, Self::delete, now, &mut out),
            Event::Park { call, id } => self.by_hand(call, &id, Self::park, now, &mut out),
            Event::Unpark { call, id } => self.by_hand(call, &id, Self::unpark, now, &mut out),
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
    fn rest(&mut self, key: Key, now: Duration, out: &mut Vec<Action>) {
        let down = self.is_going_down();
        let forget = self.edit(key, |child| {
            child.recycle = false;
            child.state = State::Idle;
            child.answer(Wait::Down, Ok(Done::Ok), out);
            if child.want && !down {
                child.park = None;
                return false;
            }
            child.answer(Wait::Up, Err(AdminError::Stopped), out);
            child.forget
        });
        if forget {
            self.remove(key, out);
        } else if let Some(park) = self.children.get(&key).and_then(|child| child.park).filter(|_| !down) {
            self.keep_parked(key, park, now, out);
        }
    }

    /// Parks a child that is idle, and says when it may try again where it may.
    fn keep_parked(&mut self, key: Key, park: Park, now: Duration, out: &mut Vec<Action>) {
        let park_for = self.rules.park_for.filter(|_| park == Park::Exhausted);
        let generation = self.next_generation();
        let id = self.edit(key, |child| {
            child.state = State::Parked { until: park_for.map(|park_for| now.saturating_add(park_for)) };
            child.generation = generation;
            child.id.clone()
        });
        out.push(Action::Parked { id: id.clone() });
        if let Some(after) = park_for {
            out.push(Action::Arm { id, generation, after });
        }
    }

    /// Takes back the timer of a child that waits for its restart, or to be unparked.
    fn cancel_timer(&mut self, key: Key, out: &mut Vec<Action>) {
        let child = &self.children[&key];
        if matches!(child.state, State::Backoff { .. } | State::Parked { until: Some(_) }) {
            out.push(Action::Cancel { id: child.id.clone() });
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

fn report(child: &Child, reason: ExitReason, crash: Option<Context>, decision: Decision, in_window: u32) -> Action {
    Action::Report { id: child.id.clone(), reason, crash, decision, in_window }
}

/// After its exit a planner only says no.
fn refuse_the_dead(event: &Event, out: &mut Vec<Action>) {
    if let Event::Start { call, .. }
    | Event::Terminate { call, .. }
    | Event::Restart { call, .. }
    | Event::Recycle { call, .. }
    | Event::Delete { call, .. }
    | Event::Park { call, .. }
    | Event::Unpark { call, .. }
    | Event::Change { call, .. } = event
    {
        out.push(Action::Reply { call: *call, answer: Err(AdminError::ShuttingDown) });
    }
}

#[cfg(test)]
mod tests;
