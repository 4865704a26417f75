//! Random worlds: children that crash, hang, fail to start and end late, operators who ask for anything at any time, live
//! changes, and old news that comes again. What must hold is checked after every event, by invariant.
//!
//! Each test takes its own worlds and looks for breaches of one invariant. `TAMTAM_PLANNER_TRACES` sets how many worlds each of
//! them takes; a failure names the seed.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::*;

mod oracle;

use oracle::{Before, Oracle};

/// How many worlds each invariant is looked for in.
const WORLDS: u64 = 1_000;

const RESTARTS: [Restart; 3] = [Restart::Permanent, Restart::Transient, Restart::Temporary];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Starting,
    Up,
    Stopping,
    Stuck,
}

struct World {
    dice: Chance,
    planner: Planner,
    oracle: Oracle,
    policies: HashMap<ChildId, Policy>,
    /// Of forty starts, so many fail.
    failing: usize,
    now: Duration,
    live: HashMap<ChildId, (Generation, Stage)>,
    timers: HashMap<ChildId, (Generation, Duration)>,
    news: Vec<Event>,
    spawned: HashMap<ChildId, u32>,
    boot_order: Vec<ChildId>,
    stops_since_down: Vec<Key>,
    exited: Option<ExitReason>,
    calls: u64,
    open: HashSet<Call>,
    events: u64,
    /// What did not hold: the invariant, and how.
    breaches: Vec<(u8, String)>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Chance::new(seed);
        let spec = match pick(&mut dice, 5) {
            0 => SupervisorSpec::new("s", Strategy::OneForOne),
            1 => SupervisorSpec::new("s", Strategy::OneForAll),
            2 => SupervisorSpec::new("s", Strategy::RestForOne),
            _ => SupervisorSpec::dynamic("s").max_children(7),
        };
        let dynamic = matches!(spec.rules.kind, Kind::Dynamic { .. });
        let spec = spec.intensity(Intensity::new(pick(&mut dice, 12) as u32, Duration::from_secs(5)));
        let spec = match pick(&mut dice, 4) {
            0 if dynamic => spec.on_exhausted(OnExhausted::Park),
            1 if dynamic => spec
                .on_exhausted(OnExhausted::Park)
                .group_intensity(Intensity::new(pick(&mut dice, 4) as u32, Duration::from_secs(5))),
            2 if dynamic => spec.on_exhausted(OnExhausted::Park).park_for(Duration::from_secs(7)),
            2 => spec.auto_shutdown(AutoShutdown::AllSignificant),
            3 if !dynamic => spec.auto_shutdown(AutoShutdown::AnySignificant),
            _ => spec,
        };
        let spec = if pick(&mut dice, 4) == 0 { spec.backoff(Backoff::default()) } else { spec };
        World {
            planner: Planner::new(spec.rules, seed),
            oracle: Oracle::default(),
            policies: HashMap::new(),
            failing: pick(&mut dice, 9),
            now: Duration::ZERO,
            live: HashMap::new(),
            timers: HashMap::new(),
            news: Vec::new(),
            spawned: HashMap::new(),
            boot_order: Vec::new(),
            stops_since_down: Vec::new(),
            exited: None,
            calls: 0,
            open: HashSet::new(),
            events: 0,
            breaches: Vec::new(),
            dice,
        }
    }

    fn must(&mut self, invariant: u8, holds: bool, else_say: impl FnOnce() -> String) {
        if !holds {
            self.breaches.push((invariant, else_say()));
        }
    }

    fn policy(&mut self) -> Policy {
        let restart = RESTARTS[pick(&mut self.dice, 3)];
        let auto = self.planner.rules.auto_shutdown != AutoShutdown::Never;
        let backoff = (pick(&mut self.dice, 3) == 0).then(Backoff::default);
        let significant = auto && restart != Restart::Permanent && pick(&mut self.dice, 2) == 0;
        Policy { restart, backoff, significant, ..Policy::default() }
    }

    fn run(&mut self) {
        let count = 1 + pick(&mut self.dice, 6);
        let children: Vec<(ChildId, Policy)> =
            (0..count).map(|n| (ChildId::from(n.to_string()), self.policy())).collect();
        self.policies = children.iter().cloned().collect();
        self.boot_order = children.iter().map(|(id, _)| id.clone()).collect();
        self.feed(Event::Boot { children });
        let steps = 20 + pick(&mut self.dice, 60);
        for _ in 0..steps {
            if self.exited.is_some() {
                return;
            }
            self.step(true);
        }
        self.feed(Event::Shutdown { reason: "shutdown".into() });
        for _ in 0..1000 {
            if self.exited.is_some() {
                let open = std::mem::take(&mut self.open);
                self.must(8, open.is_empty(), || format!("calls {open:?} were never answered"));
                return;
            }
            self.step(false);
        }
        let live = format!("it never exits: {:?}", self.live);
        self.must(6, false, || live);
    }

    fn step(&mut self, alive: bool) {
        let mut ids: Vec<ChildId> = self.live.keys().cloned().collect();
        ids.sort();
        match pick(&mut self.dice, if alive { 13 } else { 6 }) {
            0..=5 if !ids.is_empty() => {
                let id = ids[pick(&mut self.dice, ids.len())].clone();
                self.answer(id, alive);
            }
            6 => {
                let mut due: Vec<_> = self.timers.iter().map(|(id, (g, at))| (*at, id.clone(), *g)).collect();
                due.sort();
                if let Some((at, id, generation)) = due.into_iter().next() {
                    self.now = self.now.max(at);
                    self.timers.remove(&id);
                    self.feed(Event::Child(id, generation, ChildEvent::Due));
                }
            }
            7 => self.now += Duration::from_millis([1, 500, 3_000, 5_000, 70_000][pick(&mut self.dice, 5)]),
            8 if !self.news.is_empty() => self.old_news(),
            9 | 10 => self.operator(),
            11 if pick(&mut self.dice, 4) == 0 => self.live_change(),
            _ => {}
        }
    }

    /// The world's answer to one child's order, or a crash.
    fn answer(&mut self, id: ChildId, alive: bool) {
        let (generation, stage) = self.live[&id];
        let reason = match pick(&mut self.dice, 4) {
            0 => ExitReason::Normal,
            1 => ExitReason::Shutdown("x".into()),
            2 => ExitReason::Killed,
            _ => boom(),
        };
        let what = match stage {
            Stage::Starting => match pick(&mut self.dice, 40) {
                0 => ChildEvent::Ignored,
                n if n <= self.failing => ChildEvent::StartFailed(reason),
                _ => ChildEvent::Started(None),
            },
            Stage::Up if !alive => return,
            Stage::Up | Stage::Stopping if pick(&mut self.dice, 20) == 0 => ChildEvent::Unkillable,
            Stage::Up | Stage::Stopping | Stage::Stuck => ChildEvent::Exited(reason),
        };
        match what {
            ChildEvent::Started(_) => drop(self.live.insert(id.clone(), (generation, Stage::Up))),
            ChildEvent::Unkillable => drop(self.live.insert(id.clone(), (generation, Stage::Stuck))),
            _ => drop(self.live.remove(&id)),
        }
        self.feed(Event::Child(id, generation, what));
    }

    /// An event that was sent before, or belongs to a stage long gone, must change nothing.
    fn old_news(&mut self) {
        let event = self.news[pick(&mut self.dice, self.news.len())].clone();
        let Event::Child(id, generation, _) = &event else { return };
        if self.live.get(id).is_some_and(|(current, _)| current == generation)
            || self.timers.get(id).is_some_and(|(current, _)| current == generation)
        {
            return;
        }
        let before: Vec<_> = self.planner.views().map(|(id, view)| (id.clone(), view)).collect();
        let actions = self.planner.on(event.clone(), self.now);
        let after: Vec<_> = self.planner.views().map(|(id, view)| (id.clone(), view)).collect();
        self.must(5, actions.is_empty() && before == after, || format!("old news {event:?} led to {actions:?}"));
    }

    fn operator(&mut self) {
        self.calls += 1;
        let call = self.calls;
        self.open.insert(call);
        let id = ChildId::from(pick(&mut self.dice, 9).to_string());
        let event = match pick(&mut self.dice, 9) {
            0 | 1 => {
                let policy = self.policy();
                if self.planner.view(&id).is_none() {
                    self.policies.insert(id.clone(), policy);
                    self.spawned.remove(&id);
                }
                Event::Start { call, id, policy }
            }
            2 => Event::Admin(call, id, Admin::Terminate),
            3 => Event::Admin(call, id, Admin::Restart),
            4 => Event::Admin(call, id, Admin::Recycle),
            5 => Event::Admin(call, id, Admin::Delete),
            6 => Event::Admin(call, id, Admin::Park),
            _ => Event::Admin(call, id, Admin::Unpark),
        };
        self.feed(event);
    }

    /// Another strategy or mode, and other policies for some; the budget stays, which the oracle counts by.
    fn live_change(&mut self) {
        self.calls += 1;
        let call = self.calls;
        self.open.insert(call);
        let mut rules = self.planner.rules;
        if let Kind::Ordered(strategy) = &mut rules.kind {
            *strategy = [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne][pick(&mut self.dice, 3)];
            let modes = [AutoShutdown::Never, AutoShutdown::AnySignificant, AutoShutdown::AllSignificant];
            rules.auto_shutdown = modes[pick(&mut self.dice, 3)];
        }
        let mut children = Vec::new();
        for child in self.planner.children.values() {
            // One that is temporary stays so: whether it has been started before is checked by that.
            if child.policy.restart != Restart::Temporary && child.policy.backoff.is_none() {
                let restart = RESTARTS[pick(&mut self.dice, 2)];
                children.push((child.id.clone(), Policy { restart, significant: false, ..child.policy }));
            }
        }
        let marks = |planner: &Planner| -> Vec<_> {
            planner.children.values().map(|child| (child.id.clone(), child.want, child.recycle)).collect()
        };
        let before = marks(&self.planner);
        self.feed(Event::Change { call, rules, children: children.clone() });
        // A child that waits for others may be let go by another strategy, but no child gets a start or a stop.
        let after = marks(&self.planner);
        self.must(10, before == after, || "a live change told somebody to start or stop".to_owned());
        for (id, _) in children {
            if let Some(key) = self.planner.keys.get(&id) {
                self.policies.insert(id, self.planner.children[key].policy);
            }
        }
    }

    fn feed(&mut self, event: Event) {
        self.events += 1;
        if matches!(event, Event::Child(..)) {
            self.news.push(event.clone());
        }
        let before = Before::of(&self.planner);
        let actions = self.planner.on(event.clone(), self.now);
        for action in &actions {
            self.obey(action.clone());
        }
        let breaches = self.oracle.judge(&before, &event, &actions, &self.planner, self.now);
        self.breaches.extend(breaches);
        self.check();
    }

    fn obey(&mut self, action: Action) {
        let exited = self.exited.is_some();
        self.must(6, !exited, || format!("after the exit comes nothing, but came {action:?}"));
        let ordered = matches!(self.planner.rules.kind, Kind::Ordered(_));
        match action {
            Action::Spawn { id, generation, .. } => {
                let down = self.planner.is_going_down();
                self.must(6, !down, || format!("{id} was started while all go down"));
                if ordered {
                    let busy = self.live.values().any(|(_, stage)| matches!(stage, Stage::Starting | Stage::Stopping));
                    self.must(2, !busy, || format!("{id} was started while something moved"));
                }
                if ordered && !self.spawned.contains_key(&id) && self.boot_order.contains(&id) {
                    let earlier = self.boot_order.iter().take_while(|other| **other != id);
                    let missing = earlier.filter(|other| {
                        !self.spawned.contains_key(*other)
                            && self.planner.keys.get(*other).is_some_and(|key| self.planner.children[key].want)
                    });
                    let missing = missing.count();
                    self.must(2, missing == 0, || format!("{id} was started before those before it"));
                }
                let times = self.spawned.entry(id.clone()).or_default();
                *times += 1;
                let again = *times > 1 && self.policies[&id].restart == Restart::Temporary;
                self.must(3, !again, || format!("temporary {id} was started again"));
                let copy = self.live.insert(id.clone(), (generation, Stage::Starting));
                self.must(1, copy.is_none(), || format!("{id} is alive twice"));
                let timed = self.timers.contains_key(&id);
                self.must(14, !timed, || format!("{id} was started while its timer runs"));
            }
            Action::Stop { id, generation, .. } => {
                let known = self.live.get_mut(&id).filter(|(current, _)| *current == generation);
                let fits = known.is_some_and(|(_, stage)| {
                    let fits = matches!(stage, Stage::Starting | Stage::Up);
                    *stage = Stage::Stopping;
                    fits
                });
                self.must(6, fits, || format!("{id} was stopped, which is not there to be stopped"));
                if ordered && self.planner.is_going_down() {
                    let key = self.planner.keys[&id];
                    let reverse = self.stops_since_down.iter().all(|before| *before > key);
                    self.must(2, reverse, || format!("{id} was not stopped in reverse"));
                    self.stops_since_down.push(key);
                }
            }
            Action::Arm { id, generation, after } => {
                let before = self.timers.insert(id.clone(), (generation, self.now + after));
                self.must(14, before.is_none(), || format!("{id} has two timers"));
            }
            Action::Cancel { id } => {
                let had = self.timers.remove(&id).is_some();
                self.must(14, had, || format!("{id} has no timer to cancel"));
            }
            Action::Forget { id } => {
                let alive = self.live.contains_key(&id) || self.timers.contains_key(&id);
                self.must(12, !alive, || format!("{id} was forgotten alive"));
                self.boot_order.retain(|other| *other != id);
            }
            Action::Reply { call, .. } => {
                let was_open = self.open.remove(&call);
                self.must(8, was_open, || format!("call {call} was answered twice"));
            }
            Action::Exit { reason, leftover } => {
                self.exited = Some(reason);
                let alive: BTreeMap<&ChildId, Stage> = self.live.iter().map(|(id, (_, stage))| (id, *stage)).collect();
                let only_stuck = alive.values().all(|stage| *stage == Stage::Stuck);
                let named = alive.len() == leftover.len() && leftover.iter().all(|id| alive.contains_key(id));
                let text = format!("it left {alive:?} behind and named {leftover:?}");
                let no_timers = self.timers.is_empty();
                self.must(7, only_stuck && named && no_timers, || text);
            }
            Action::Parked { id } => {
                let alive = self.live.contains_key(&id);
                self.must(13, !alive, || format!("{id} was parked alive"));
            }
            Action::Report { .. } | Action::Booted => {}
        }
    }

    /// When nothing moves, everything is as it should be; and the books are in order at any time.
    fn check(&mut self) {
        let wrong = self.planner_books();
        self.must(12, wrong.is_none(), || wrong.unwrap_or_default());
        let stuck = self.live.values().any(|(_, stage)| *stage == Stage::Stuck);
        let moving = self.live.values().any(|(_, stage)| matches!(stage, Stage::Starting | Stage::Stopping));
        if self.exited.is_some() || moving {
            return;
        }
        let planner = &self.planner;
        let mut wrong = Vec::new();
        let idle = stuck || !self.timers.is_empty();
        if !planner.to_stop.is_empty() {
            wrong.push("something should be stopping".to_owned());
        }
        if planner.phase == Phase::Booting && !idle {
            wrong.push("boot stands still".to_owned());
        }
        if !planner.to_start.is_empty() && !idle {
            wrong.push("something should be starting".to_owned());
        }
        if planner.is_going_down() {
            wrong.push("it should have exited".to_owned());
        }
        for text in wrong {
            self.must(6, false, || text);
        }
        let wrong = self.planner.children.values().find_map(|child| {
            let stage = self.live.get(&child.id).map(|(_, stage)| *stage);
            let fits = match child.status {
                Status::Running => stage == Some(Stage::Up) && child.want,
                Status::Unkillable => stage == Some(Stage::Stuck),
                _ => stage.is_none(),
            };
            (!fits).then(|| format!("{} is {:?} for the planner and {stage:?} in the world", child.id, child.status))
        });
        self.must(7, wrong.is_none(), || wrong.unwrap_or_default());
    }

    /// What is wrong with the planner's tables: entries of children that are not there, or missing ones.
    fn planner_books(&self) -> Option<String> {
        let planner = &self.planner;
        let named = |sets: &[&BTreeSet<Key>]| {
            sets.iter().flat_map(|set| set.iter()).all(|key| planner.children.contains_key(key))
        };
        let sets = [
            &planner.unbooted,
            &planner.starting,
            &planner.stopping,
            &planner.held_back,
            &planner.to_stop,
            &planner.to_start,
        ];
        let waiting: usize = planner.children.values().map(|child| child.waiting.len()).sum();
        let in_order = named(&sets)
            && planner.keys.len() == planner.children.len()
            && planner.keys.iter().all(|(id, key)| planner.children.get(key).is_some_and(|child| child.id == *id))
            && waiting <= self.open.len()
            && planner.children.values().all(|child| child.window.len() <= planner.rules.intensity.max + 1);
        (!in_order).then(|| "the planner's tables do not agree".to_owned())
    }
}

fn pick(dice: &mut Chance, sides: usize) -> usize {
    ((dice.next() * sides as f64) as usize).min(sides - 1)
}

/// Looks for breaches of one invariant in its own worlds, and for panics in any.
fn holds(invariant: u8) {
    let worlds = std::env::var("TAMTAM_PLANNER_TRACES").ok().and_then(|text| text.parse().ok()).unwrap_or(WORLDS);
    let first = u64::from(invariant) << 32;
    let (mut events, mut judged) = (0, 0);
    for seed in first..first + worlds {
        let ran = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run();
            world
        });
        match ran {
            Ok(world) => {
                let breach = world.breaches.iter().find(|(number, _)| *number == invariant);
                assert_eq!(breach, None, "seed {seed}");
                events += world.events;
                judged += world.oracle.judged.get(&invariant).copied().unwrap_or(0);
            }
            Err(payload) => panic!("seed {seed}: {}", crate::words::panic_text(payload.as_ref())),
        }
    }
    println!("invariant {invariant}: {worlds} worlds, {events} events, {judged} of them judged by the oracle");
}

/// At most one live incarnation of each child.
#[test]
fn invariant_01_no_child_is_ever_alive_twice() {
    holds(1);
}

#[test]
fn invariant_02_children_start_in_order_and_stop_in_its_reverse() {
    holds(2);
}

#[test]
fn invariant_03_a_temporary_child_never_comes_back_and_a_transient_one_only_after_an_abnormal_end() {
    holds(3);
}

#[test]
fn invariant_04_more_restarts_than_the_most_escalate_once_and_exactly_as_many_do_not() {
    holds(4);
}

#[test]
fn invariant_05_events_of_an_old_generation_change_nothing() {
    holds(5);
}

#[test]
fn invariant_06_a_shutdown_always_ends_and_starts_nothing() {
    holds(6);
}

#[test]
fn invariant_07_a_child_that_does_not_end_keeps_its_place_and_is_named_at_the_exit() {
    holds(7);
}

#[test]
fn invariant_08_every_call_is_answered_exactly_once() {
    holds(8);
}

#[test]
fn invariant_09_a_failed_boot_goes_down_with_the_cause() {
    holds(9);
}

#[test]
fn invariant_10_a_restart_leaves_the_children_it_does_not_concern_alone() {
    holds(10);
}

#[test]
fn invariant_11_temporary_bystanders_are_let_go_for_good() {
    holds(11);
}

#[test]
fn invariant_12_children_that_are_gone_leave_no_entry() {
    holds(12);
}

#[test]
fn invariant_13_a_child_over_its_own_budget_parks_and_a_common_cause_escalates() {
    holds(13);
}

#[test]
fn invariant_14_waits_lie_within_their_bounds_and_there_is_never_more_than_one() {
    holds(14);
}

#[test]
fn invariant_15_a_supervisor_ends_with_its_significant_children_and_only_then() {
    holds(15);
}
