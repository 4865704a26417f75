//! The planner alone: tables in an obedient world, and a random world that is not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod random;

use super::*;
use crate::supervisor::{
    backoff::Backoff,
    intensity::Intensity,
    spec::{AutoShutdown, BadSpec, OnExhausted, Restart, Shutdown, SupervisorSpec},
};

fn boom() -> ExitReason {
    ExitReason::Error("boom".into())
}

fn policy(restart: Restart) -> Policy {
    Policy { restart, ..Policy::default() }
}

fn significant(restart: Restart) -> Policy {
    Policy { significant: true, ..policy(restart) }
}

/// A planner whose starts succeed and whose stops are obeyed, at once, unless set otherwise.
struct Sim {
    planner: Planner,
    now: Duration,
    /// Children that run, in the order of their starts.
    live: Vec<(String, Generation)>,
    timers: Vec<(ChildId, Generation, Duration)>,
    /// How many of the next starts of this child fail.
    failing: HashMap<String, u32>,
    log: Vec<String>,
    replies: Vec<Result<Done, AdminError>>,
    exit: Option<ExitReason>,
}

impl Sim {
    fn new(spec: SupervisorSpec, children: &[(&str, Policy)]) -> Sim {
        let mut sim = Sim {
            planner: Planner::new(spec.rules, 1),
            now: Duration::ZERO,
            live: Vec::new(),
            timers: Vec::new(),
            failing: HashMap::new(),
            log: Vec::new(),
            replies: Vec::new(),
            exit: None,
        };
        let children = children.iter().map(|(id, policy)| (ChildId::from(*id), *policy)).collect();
        sim.on(Event::Boot { children });
        sim.log.clear();
        sim
    }

    fn on(&mut self, event: Event) {
        let mut actions: std::collections::VecDeque<Action> = self.planner.on(event, self.now).into();
        while let Some(action) = actions.pop_front() {
            let then = match action {
                Action::Spawn { id, generation, .. } => {
                    self.log.push(format!("+{id}"));
                    match self.failing.get_mut(id.as_str()).filter(|left| **left > 0) {
                        Some(left) => {
                            *left -= 1;
                            Event::Child(id, generation, ChildEvent::StartFailed(boom()))
                        }
                        None => {
                            self.live.push((id.to_string(), generation));
                            Event::Child(id, generation, ChildEvent::Started(None))
                        }
                    }
                }
                Action::Stop { id, generation, .. } => {
                    self.log.push(format!("-{id}"));
                    self.live.retain(|(live, _)| live != id.as_str());
                    Event::Child(id, generation, ChildEvent::Exited(ExitReason::Shutdown("shutdown".into())))
                }
                Action::Arm { id, generation, after } => {
                    self.timers.push((id, generation, self.now + after));
                    continue;
                }
                Action::Cancel { id } => {
                    self.timers.retain(|(timer, ..)| *timer != id);
                    continue;
                }
                Action::Reply { answer, .. } => {
                    self.replies.push(answer);
                    continue;
                }
                Action::Exit { reason, .. } => {
                    assert_eq!(self.live, vec![]);
                    assert_eq!(self.exit.replace(reason), None, "it exits once");
                    continue;
                }
                Action::Forget { .. } | Action::Report { .. } | Action::Parked { .. } | Action::Booted => continue,
            };
            actions.extend(self.planner.on(then, self.now));
        }
    }

    fn dies(&mut self, id: &str, reason: ExitReason) {
        let at = self.live.iter().position(|(live, _)| live == id).unwrap();
        let (_, generation) = self.live.remove(at);
        self.on(Event::Child(id.into(), generation, ChildEvent::Exited(reason)));
    }

    fn fails(&mut self, id: &str, times: u32) {
        self.failing.insert(id.to_owned(), times);
    }

    fn log(&mut self) -> String {
        std::mem::take(&mut self.log).join(" ")
    }

    fn live(&self) -> String {
        let mut live: Vec<&str> = self.live.iter().map(|(id, _)| id.as_str()).collect();
        live.sort_unstable();
        live.join(" ")
    }

    fn state(&self, id: &str) -> Option<Status> {
        self.planner.view(&id.into()).map(|view| view.status)
    }
}

fn ordered(strategy: Strategy) -> SupervisorSpec {
    SupervisorSpec::new("s", strategy).intensity(Intensity::new(2, Duration::from_secs(10)))
}

const PERMANENT: Policy = Policy {
    restart: Restart::Permanent,
    shutdown: Shutdown::Infinity,
    significant: false,
    backoff: None,
    intensity: None,
};

#[test]
fn exactly_max_restarts_in_the_period_are_fine_and_one_more_escalates_once() {
    let mut sim = Sim::new(ordered(Strategy::OneForOne), &[("a", PERMANENT), ("b", PERMANENT)]);
    sim.dies("a", boom());
    sim.dies("a", boom());
    assert_eq!(sim.live(), "a b");
    assert_eq!(sim.log(), "+a +a");
    sim.dies("a", boom());
    assert_eq!(sim.log(), "-b");
    assert!(matches!(sim.exit, Some(ExitReason::Shutdown(_))));
}

#[test]
fn crashes_that_are_far_apart_never_escalate() {
    let mut sim = Sim::new(ordered(Strategy::OneForOne), &[("a", PERMANENT)]);
    for second in 0..100 {
        sim.now = Duration::from_millis(second * 5_100);
        sim.dies("a", boom());
    }
    assert_eq!(sim.live(), "a");
}

#[test]
fn a_restart_that_always_fails_escalates() {
    let mut sim = Sim::new(ordered(Strategy::OneForOne), &[("a", PERMANENT), ("b", PERMANENT)]);
    sim.fails("a", 99);
    sim.dies("a", boom());
    assert_eq!(sim.log(), "+a +a -b");
    assert!(sim.exit.is_some());
}

#[test]
fn one_for_all_stops_the_others_in_reverse_and_starts_all_in_order() {
    let mut sim = Sim::new(ordered(Strategy::OneForAll), &[("a", PERMANENT), ("b", PERMANENT), ("c", PERMANENT)]);
    sim.dies("b", boom());
    assert_eq!(sim.log(), "-c -a +a +b +c");
    assert_eq!(sim.live(), "a b c");
}

#[test]
fn one_for_all_starts_over_when_a_later_child_cannot_start() {
    let mut sim = Sim::new(ordered(Strategy::OneForAll), &[("a", PERMANENT), ("b", PERMANENT)]);
    sim.fails("b", 1);
    sim.dies("a", boom());
    assert_eq!(sim.log(), "-b +a +b -a +a +b");
    assert_eq!(sim.live(), "a b");
}

#[test]
fn escalation_of_the_group_strategies() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut sim = Sim::new(ordered(strategy), &[("a", PERMANENT), ("b", PERMANENT)]);
        sim.fails("b", 99);
        sim.dies("b", boom());
        assert!(sim.exit.is_some(), "{strategy:?}");
        assert_eq!(sim.live(), "");
    }
}

#[test]
fn rest_for_one_leaves_the_earlier_children_alone() {
    let mut sim = Sim::new(ordered(Strategy::RestForOne), &[("a", PERMANENT), ("b", PERMANENT), ("c", PERMANENT)]);
    sim.dies("b", boom());
    assert_eq!(sim.log(), "-c +b +c");
}

#[test]
fn rest_for_one_retries_only_the_later_child_that_cannot_start() {
    let mut sim = Sim::new(ordered(Strategy::RestForOne), &[("a", PERMANENT), ("b", PERMANENT), ("c", PERMANENT)]);
    sim.fails("c", 1);
    sim.dies("b", boom());
    assert_eq!(sim.log(), "-c +b +c +c");
}

#[test]
fn temporary_bystanders_are_not_started_again_and_not_kept() {
    for strategy in [Strategy::OneForAll, Strategy::RestForOne] {
        let mut sim = Sim::new(ordered(strategy), &[("p", PERMANENT), ("t", policy(Restart::Temporary))]);
        sim.dies("p", ExitReason::Normal);
        assert_eq!(sim.log(), "-t +p", "{strategy:?}");
        assert_eq!(sim.state("t"), None);
    }
}

#[test]
fn what_each_restart_type_does_after_each_end() {
    let shutdown = || ExitReason::Shutdown("x".into());
    let table = [
        (Restart::Permanent, ExitReason::Normal, "restarted"),
        (Restart::Permanent, shutdown(), "restarted"),
        (Restart::Permanent, boom(), "restarted"),
        (Restart::Transient, ExitReason::Normal, "kept"),
        (Restart::Transient, shutdown(), "kept"),
        (Restart::Transient, boom(), "restarted"),
        (Restart::Transient, ExitReason::Killed, "restarted"),
        (Restart::Transient, ExitReason::Cancelled, "restarted"),
        (Restart::Temporary, ExitReason::Normal, "removed"),
        (Restart::Temporary, shutdown(), "removed"),
        (Restart::Temporary, boom(), "removed"),
    ];
    for (restart, reason, expected) in table {
        let mut sim = Sim::new(ordered(Strategy::OneForOne), &[("a", policy(restart))]);
        sim.dies("a", reason.clone());
        let found = match sim.state("a") {
            Some(Status::Running) => "restarted",
            Some(Status::Stopped) => "kept",
            None => "removed",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{restart:?} after {reason}");
    }
}

#[test]
fn a_child_that_waits_for_its_restart_is_shown_refused_and_can_be_stopped() {
    let slow = Policy { backoff: Some(Backoff { jitter: 0.0, ..Backoff::default() }), ..PERMANENT };
    let mut sim = Sim::new(ordered(Strategy::RestForOne), &[("a", PERMANENT), ("b", slow), ("c", PERMANENT)]);
    sim.dies("b", boom());
    assert_eq!(sim.log(), "-c");
    assert!(sim.planner.view(&"b".into()).unwrap().restarting);
    assert_eq!(sim.state("c"), Some(Status::Stopped));
    sim.on(Event::Admin(1, "b".into(), Admin::Restart));
    sim.on(Event::Admin(2, "b".into(), Admin::Delete));
    sim.on(Event::Admin(3, "b".into(), Admin::Terminate));
    assert_eq!(sim.replies, [Err(AdminError::Restarting), Err(AdminError::Restarting), Ok(Done::Ok)]);
    // Nothing holds the later child back any more.
    assert_eq!(sim.live(), "a c");
    assert_eq!(sim.timers, vec![]);
    sim.on(Event::Shutdown { reason: "shutdown".into() });
    assert!(sim.exit.is_some());
}

#[test]
fn back_off_grows_and_a_quiet_run_resets_it() {
    let backoff = Backoff { jitter: 0.0, ..Backoff::default() };
    let spec = SupervisorSpec::new("s", Strategy::OneForOne)
        .intensity(Intensity::new(100, Duration::from_secs(10)))
        .backoff(backoff);
    let mut sim = Sim::new(spec, &[("a", PERMANENT)]);
    let mut waits = Vec::new();
    for run in [0, 0, 0, 60, 0] {
        sim.now += Duration::from_secs(run);
        sim.dies("a", boom());
        let (id, generation, due) = sim.timers.pop().unwrap();
        waits.push((due - sim.now).as_millis());
        sim.now = due;
        sim.on(Event::Child(id, generation, ChildEvent::Due));
    }
    assert_eq!(waits, [200, 400, 800, 200, 400]);
}

#[test]
fn which_ends_of_significant_children_end_the_supervisor() {
    use AutoShutdown::{AllSignificant, AnySignificant, Never};
    let table = [
        (AnySignificant, policy(Restart::Temporary), boom(), false),
        (AnySignificant, policy(Restart::Transient), ExitReason::Normal, false),
        (Never, policy(Restart::Transient), ExitReason::Normal, false),
        (AnySignificant, significant(Restart::Temporary), boom(), true),
        (AnySignificant, significant(Restart::Temporary), ExitReason::Killed, true),
        (AnySignificant, significant(Restart::Temporary), ExitReason::Normal, true),
        (AnySignificant, significant(Restart::Transient), ExitReason::Normal, true),
        (AnySignificant, significant(Restart::Transient), ExitReason::Killed, false),
        (AnySignificant, significant(Restart::Transient), boom(), false),
        (AllSignificant, significant(Restart::Transient), ExitReason::Normal, false),
    ];
    for (mode, policy, reason, ends) in table {
        let spec = ordered(Strategy::OneForOne).auto_shutdown(mode);
        let mut sim = Sim::new(spec, &[("a", policy), ("b", significant(Restart::Temporary))]);
        sim.dies("a", reason.clone());
        assert_eq!(sim.exit.is_some(), ends, "{mode:?} {policy:?} {reason}");
    }
    let spec = ordered(Strategy::OneForOne).auto_shutdown(AllSignificant);
    let children = [("a", significant(Restart::Temporary)), ("b", significant(Restart::Temporary)), ("c", PERMANENT)];
    let mut sim = Sim::new(spec, &children);
    sim.dies("a", boom());
    assert_eq!(sim.exit, None);
    sim.dies("b", boom());
    assert!(sim.exit.is_some());
}

#[test]
fn a_significant_child_that_is_stopped_by_hand_or_as_a_bystander_ends_nothing() {
    for strategy in [Strategy::OneForOne, Strategy::OneForAll, Strategy::RestForOne] {
        let spec = ordered(strategy).auto_shutdown(AutoShutdown::AnySignificant);
        let children = [("p", PERMANENT), ("s", significant(Restart::Transient))];
        let mut sim = Sim::new(spec, &children);
        sim.dies("p", boom());
        sim.on(Event::Admin(1, "s".into(), Admin::Terminate));
        assert_eq!(sim.exit, None, "{strategy:?}");
    }
}

#[test]
fn otp_62_changed_rules_and_specs_hold_from_then_on_start_or_delete_nothing_and_bad_ones_are_refused() {
    let mut sim = Sim::new(ordered(Strategy::OneForOne), &[("a", PERMANENT), ("b", PERMANENT)]);
    let new = |rules: SupervisorSpec, children: &[(&str, Policy)]| Event::Change {
        call: 1,
        rules: rules.rules,
        children: children.iter().map(|(id, policy)| (ChildId::from(*id), *policy)).collect(),
    };
    // Refused whole: nothing of it holds.
    let zero = ordered(Strategy::OneForAll).intensity(Intensity::new(1, Duration::ZERO));
    let twice = [("a", policy(Restart::Temporary)), ("a", PERMANENT)];
    let refused = [
        (new(zero, &[]), BadSpec::ZeroPeriod),
        (new(ordered(Strategy::OneForAll), &twice), BadSpec::DuplicateId { id: "a".into() }),
        (
            new(ordered(Strategy::OneForAll), &[("a", significant(Restart::Transient))]),
            BadSpec::SignificantWithoutAutoShutdown { id: "a".into() },
        ),
        (new(SupervisorSpec::dynamic("s"), &[]), BadSpec::KindChanged),
    ];
    for (event, bad) in refused {
        sim.on(event);
        assert_eq!(sim.replies.pop(), Some(Err(AdminError::BadSpec(bad))));
    }
    sim.dies("a", boom());
    assert_eq!(sim.log(), "+a");
    // A new strategy, a new child, and a child that is left out.
    sim.on(new(ordered(Strategy::OneForAll), &[("a", policy(Restart::Transient)), ("c", PERMANENT)]));
    assert_eq!(sim.replies.pop(), Some(Ok(Done::Ok)));
    assert_eq!((sim.log().as_str(), sim.live().as_str()), ("", "a b"));
    assert_eq!(sim.state("c"), Some(Status::Stopped));
    sim.dies("b", boom());
    assert_eq!(sim.log(), "-a +a +b");
    sim.dies("a", ExitReason::Normal);
    assert_eq!(sim.state("a"), Some(Status::Stopped), "it is transient now");
    sim.on(Event::Admin(2, "c".into(), Admin::Restart));
    assert_eq!(sim.log(), "+c");
    // A smaller budget holds at the next crash.
    sim.on(new(ordered(Strategy::OneForOne).intensity(Intensity::new(0, Duration::from_secs(1))), &[]));
    sim.dies("b", boom());
    assert!(sim.exit.is_some());
}

/// The six cases of the row: from each mode to each other one.
#[test]
fn otp_72_a_changed_mode_of_automatic_shutdown_holds_from_then_on() {
    use AutoShutdown::{AllSignificant, AnySignificant, Never};
    let ends = |mode| match mode {
        Never => 0,
        AnySignificant => 1,
        AllSignificant => 2,
    };
    let modes = [Never, AnySignificant, AllSignificant];
    let changes =
        modes.iter().flat_map(|from| modes.iter().map(move |to| (*from, *to))).filter(|(from, to)| from != to);
    for (from, to) in changes {
        let policy_in = |mode| match mode {
            Never => policy(Restart::Temporary),
            AnySignificant | AllSignificant => significant(Restart::Temporary),
        };
        let children = ["a", "b"].map(|id| (id, policy_in(from)));
        let mut sim = Sim::new(ordered(Strategy::OneForOne).auto_shutdown(from), &children);
        let rules = ordered(Strategy::OneForOne).auto_shutdown(to).rules;
        let children = ["a", "b"].map(|id| (ChildId::from(id), policy_in(to))).into();
        sim.on(Event::Change { call: 1, rules, children });
        assert_eq!(sim.replies.pop(), Some(Ok(Done::Ok)));
        assert_eq!((sim.exit.clone(), sim.live().as_str()), (None, "a b"), "{from:?} to {to:?}");
        for (died, id) in ["a", "b"].into_iter().enumerate() {
            if sim.exit.is_none() {
                sim.dies(id, boom());
                assert_eq!(sim.exit.is_some(), ends(to) == died + 1, "{from:?} to {to:?}, {id}");
            }
        }
    }
    // A mode that pays no attention is refused while a child is significant.
    let mut sim =
        Sim::new(ordered(Strategy::OneForOne).auto_shutdown(AnySignificant), &[("a", significant(Restart::Temporary))]);
    sim.on(Event::Change { call: 1, rules: ordered(Strategy::OneForOne).rules, children: Vec::new() });
    let refused = BadSpec::SignificantWithoutAutoShutdown { id: "a".into() };
    assert_eq!(sim.replies.pop(), Some(Err(AdminError::BadSpec(refused))));
}

#[test]
fn order_is_that_of_the_specs_and_stopping_is_its_reverse() {
    let children = ["c", "a", "e", "b", "d"].map(|id| (id, PERMANENT));
    let mut sim = Sim::new(ordered(Strategy::RestForOne), &children);
    assert_eq!(sim.live.iter().map(|(id, _)| id.as_str()).collect::<String>(), "caebd");
    sim.dies("c", boom());
    assert_eq!(sim.log(), "-d -b -e -a +c +a +e +b +d");
    sim.on(Event::Shutdown { reason: "shutdown".into() });
    assert_eq!(sim.log(), "-d -b -e -a -c");
}

#[test]
fn a_start_that_fails_during_boot_unwinds_what_was_started_in_reverse() {
    let mut sim = Sim::new(ordered(Strategy::OneForOne), &[]);
    sim.planner = Planner::new(ordered(Strategy::OneForOne).rules, 1);
    sim.fails("c", 1);
    let children = ["a", "b", "c", "d"].map(|id| (ChildId::from(id), PERMANENT)).into();
    sim.on(Event::Boot { children });
    assert_eq!(sim.log(), "+a +b +c -b -a");
    let reason = ExitReason::StartFailed("child c: error: boom".into());
    assert_eq!(sim.exit, Some(reason));
}

#[test]
fn many_different_children_that_restart_are_a_common_cause_but_one_poison_child_is_not() {
    let spec = || {
        SupervisorSpec::dynamic("s")
            .on_exhausted(OnExhausted::Park)
            .intensity(Intensity::new(2, Duration::from_secs(60)))
            .group_intensity(Intensity::new(3, Duration::from_secs(60)))
    };
    let ids = ["a", "b", "c", "d", "e"];
    let children = ids.map(|id| (id, policy(Restart::Transient)));
    let mut sim = Sim::new(spec(), &children);
    for _ in 0..3 {
        sim.dies("a", boom());
    }
    assert_eq!(sim.state("a"), Some(Status::Parked));
    assert_eq!(sim.exit, None);
    for id in ["b", "c"] {
        sim.dies(id, boom());
    }
    assert_eq!(sim.exit, None);
    sim.dies("d", boom());
    assert!(sim.exit.is_some());
}

#[test]
fn a_thousand_or_ten_thousand_children_cost_the_same_each() {
    // Counted in actions, not in time: one start and one stop for each.
    for count in [1_000_u32, 10_000] {
        let names: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let children: Vec<(&str, Policy)> = names.iter().map(|id| (id.as_str(), PERMANENT)).collect();
        let mut sim = Sim::new(ordered(Strategy::OneForAll), &children);
        sim.live.clear();
        let mut stops = 0;
        let mut queue: Vec<Action> = sim.planner.on(Event::Shutdown { reason: "s".into() }, Duration::ZERO);
        while let Some(action) = queue.pop() {
            if let Action::Stop { id, generation, .. } = action {
                stops += 1;
                let reason = ExitReason::Shutdown("s".into());
                queue.extend(sim.planner.on(Event::Child(id, generation, ChildEvent::Exited(reason)), Duration::ZERO));
            }
        }
        assert_eq!(stops, count);
    }
}
