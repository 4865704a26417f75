//! Random worlds: children that crash, hang, fail to start and end late, operators who ask for anything at any time, and
//! old news that comes again. What must hold is checked after every event.

use std::collections::{HashMap, HashSet};

use super::*;

const RESTARTS: [Restart; 3] = [Restart::Permanent, Restart::Transient, Restart::Temporary];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Starting,
    Up,
    Stopping,
    Stuck,
}

struct World {
    dice: Chance,
    planner: Planner,
    policies: HashMap<ChildId, Policy>,
    now: Duration,
    live: HashMap<ChildId, (Generation, Life)>,
    timers: HashMap<ChildId, (Generation, Duration)>,
    news: Vec<Event>,
    spawned: HashMap<ChildId, u32>,
    boot_order: Vec<ChildId>,
    down: bool,
    stops_since_down: Vec<Key>,
    exited: bool,
    calls: u64,
    open: HashSet<Call>,
    events: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Chance::new(seed);
        let spec = match pick(&mut dice, 4) {
            0 => SupervisorSpec::new("s", Strategy::OneForOne),
            1 => SupervisorSpec::new("s", Strategy::OneForAll),
            2 => SupervisorSpec::new("s", Strategy::RestForOne),
            _ => SupervisorSpec::dynamic("s").max_children(7),
        };
        let dynamic = matches!(spec.rules.kind, Kind::Dynamic { .. });
        let spec = spec.intensity(Intensity::new(pick(&mut dice, 6) as u32, Duration::from_secs(5)));
        let spec = if dynamic && pick(&mut dice, 2) == 0 { spec.on_exhausted(OnExhausted::Park) } else { spec };
        let spec =
            if !dynamic && pick(&mut dice, 4) == 0 { spec.auto_shutdown(AutoShutdown::AnySignificant) } else { spec };
        World {
            planner: Planner::new(spec.rules, seed),
            dice,
            policies: HashMap::new(),
            now: Duration::ZERO,
            live: HashMap::new(),
            timers: HashMap::new(),
            news: Vec::new(),
            spawned: HashMap::new(),
            boot_order: Vec::new(),
            down: false,
            stops_since_down: Vec::new(),
            exited: false,
            calls: 0,
            open: HashSet::new(),
            events: 0,
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
            if self.exited {
                return;
            }
            self.step(true);
        }
        self.feed(Event::Shutdown { reason: "shutdown".into() });
        for _ in 0..1000 {
            if self.exited {
                assert!(self.open.is_empty(), "calls {:?} were never answered", self.open);
                return;
            }
            self.step(false);
        }
        panic!("it never exits: {:?}", self.live);
    }

    fn step(&mut self, alive: bool) {
        let mut ids: Vec<ChildId> = self.live.keys().cloned().collect();
        ids.sort();
        match pick(&mut self.dice, if alive { 12 } else { 6 }) {
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
                    self.feed(Event::Due { id, generation });
                }
            }
            7 => self.now += Duration::from_millis(pick(&mut self.dice, 3000) as u64),
            8 if !self.news.is_empty() => self.old_news(),
            9 | 10 => self.operator(),
            _ => {}
        }
    }

    /// The world's answer to what one child was told, or a crash.
    fn answer(&mut self, id: ChildId, alive: bool) {
        let (generation, life) = self.live[&id];
        let reason = match pick(&mut self.dice, 4) {
            0 => ExitReason::Normal,
            1 => ExitReason::Shutdown("x".into()),
            2 => ExitReason::Killed,
            _ => boom(),
        };
        let event = match life {
            Life::Starting => match pick(&mut self.dice, 10) {
                0 => Event::Ignored { id: id.clone(), generation },
                1 | 2 => Event::StartFailed { id: id.clone(), generation, reason },
                _ => Event::Started { id: id.clone(), generation, info: None },
            },
            Life::Up if !alive => return,
            Life::Stopping if pick(&mut self.dice, 20) == 0 => Event::Unkillable { id: id.clone(), generation },
            Life::Up | Life::Stopping | Life::Stuck => Event::Exited { id: id.clone(), generation, reason },
        };
        match event {
            Event::Started { .. } => {
                self.live.insert(id, (generation, Life::Up));
            }
            Event::Unkillable { .. } => {
                self.live.insert(id, (generation, Life::Stuck));
            }
            _ => {
                self.live.remove(&id);
            }
        }
        self.feed(event);
    }

    /// An event that has been told before, or belongs to a life long gone, must change nothing.
    fn old_news(&mut self) {
        let event = self.news[pick(&mut self.dice, self.news.len())].clone();
        let before: Vec<_> = self.planner.views().map(|(id, view)| (id.clone(), view)).collect();
        let (Some(id), Some(generation)) = (event.about().cloned(), generation(&event)) else { return };
        if self.live.get(&id).is_some_and(|(current, _)| *current == generation)
            || self.timers.get(&id).is_some_and(|(current, _)| *current == generation)
        {
            return;
        }
        let actions = self.planner.on(event.clone(), self.now);
        assert_eq!(actions, vec![], "old news {event:?}");
        let after: Vec<_> = self.planner.views().map(|(id, view)| (id.clone(), view)).collect();
        assert_eq!(before, after, "old news {event:?}");
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
            2 => Event::Terminate { call, id },
            3 => Event::Restart { call, id },
            4 => Event::Recycle { call, id },
            5 => Event::Delete { call, id },
            6 => Event::Park { call, id },
            _ => Event::Unpark { call, id },
        };
        self.feed(event);
    }

    fn feed(&mut self, event: Event) {
        self.events += 1;
        if generation(&event).is_some() {
            self.news.push(event.clone());
        }
        for action in self.planner.on(event, self.now) {
            self.obey(action);
        }
        self.check();
    }

    fn obey(&mut self, action: Action) {
        assert!(!self.exited, "after the exit comes nothing, but came {action:?}");
        let ordered = matches!(self.planner.rules.kind, Kind::Ordered(_));
        match action {
            Action::Spawn { id, generation, .. } => {
                assert!(!self.planner.is_going_down());
                if ordered {
                    let busy = self.live.values().any(|(_, life)| matches!(life, Life::Starting | Life::Stopping));
                    assert!(!busy, "{id} was started while something moved");
                }
                if ordered && !self.spawned.contains_key(&id) && self.boot_order.contains(&id) {
                    let earlier = self.boot_order.iter().take_while(|other| **other != id);
                    let missing = earlier.filter(|other| {
                        !self.spawned.contains_key(*other)
                            && self.planner.keys.get(*other).is_some_and(|key| self.planner.children[key].want)
                    });
                    assert_eq!(missing.count(), 0, "{id} was started before those before it");
                }
                let times = self.spawned.entry(id.clone()).or_default();
                *times += 1;
                let temporary = self.policies[&id].restart == Restart::Temporary;
                assert!(!temporary || *times == 1, "temporary {id} was started again");
                let copy = self.live.insert(id.clone(), (generation, Life::Starting));
                assert_eq!(copy, None, "{id} is alive twice");
                assert!(!self.timers.contains_key(&id), "{id} was started while its timer runs");
            }
            Action::Stop { id, generation, .. } => {
                let (current, life) = self.live.get_mut(&id).unwrap();
                assert_eq!(*current, generation);
                assert!(matches!(life, Life::Starting | Life::Up), "{id} was stopped twice");
                *life = Life::Stopping;
                if ordered && self.planner.is_going_down() {
                    let key = self.planner.keys[&id];
                    assert!(self.stops_since_down.iter().all(|before| *before > key), "not in reverse");
                    self.stops_since_down.push(key);
                }
            }
            Action::Arm { id, generation, after } => {
                let before = self.timers.insert(id.clone(), (generation, self.now + after));
                assert_eq!(before, None, "{id} has two timers");
            }
            Action::Cancel { id } => assert!(self.timers.remove(&id).is_some(), "{id} has no timer"),
            Action::Forget { id } => {
                assert!(!self.live.contains_key(&id), "{id} was forgotten alive");
                self.boot_order.retain(|other| *other != id);
            }
            Action::Reply { call, .. } => assert!(self.open.remove(&call), "call {call} was answered twice"),
            Action::Exit { leftover, .. } => {
                self.exited = true;
                let mut alive: Vec<&ChildId> = self.live.keys().collect();
                alive.sort();
                let mut leftover: Vec<&ChildId> = leftover.iter().collect();
                leftover.sort();
                assert_eq!(alive, leftover, "it left children behind");
                assert!(self.timers.is_empty());
            }
            Action::Parked { id } => {
                assert!(!self.live.contains_key(&id));
            }
            Action::Report { .. } | Action::Booted => {}
        }
        self.down |= self.planner.is_going_down();
    }

    /// When nothing moves, everything is as it should be.
    fn check(&self) {
        let stuck = self.live.values().any(|(_, life)| *life == Life::Stuck);
        let moving = self.live.values().any(|(_, life)| matches!(life, Life::Starting | Life::Stopping));
        if self.exited || moving {
            return;
        }
        assert!(self.planner.to_stop.is_empty(), "something should be stopping");
        assert!(self.planner.phase != Phase::Booting || stuck || !self.timers.is_empty(), "boot stands still");
        if !stuck && self.timers.is_empty() {
            assert!(self.planner.to_start.is_empty(), "something should be starting");
        }
        assert!(!self.planner.is_going_down(), "it should have exited");
        for child in self.planner.children.values() {
            let up = self.live.get(&child.id).is_some_and(|(_, life)| *life == Life::Up);
            assert_eq!(up, child.state == State::Running, "{}", child.id);
            assert!(child.state != State::Running || child.want, "{} runs and should not", child.id);
        }
    }
}

fn pick(dice: &mut Chance, sides: usize) -> usize {
    ((dice.next() * sides as f64) as usize).min(sides - 1)
}

fn generation(event: &Event) -> Option<Generation> {
    match event {
        Event::Started { generation, .. }
        | Event::Ignored { generation, .. }
        | Event::StartFailed { generation, .. }
        | Event::Exited { generation, .. }
        | Event::Unkillable { generation, .. }
        | Event::Due { generation, .. } => Some(*generation),
        _ => None,
    }
}

/// Invariants 1 to 5 of supervision. `TAMTAM_PLANNER_TRACES` sets how many worlds; a failure names its seed.
#[test]
fn in_every_random_world_the_planner_keeps_its_promises() {
    let traces = std::env::var("TAMTAM_PLANNER_TRACES").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
    let mut events = 0;
    for seed in 0..traces {
        let ran = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.run();
            world.events
        });
        match ran {
            Ok(count) => events += count,
            Err(payload) => panic!("seed {seed}: {}", crate::supervisor::exit::panic_text(payload.as_ref())),
        }
    }
    println!("{traces} worlds, {events} events");
}
