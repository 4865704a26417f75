//! A second opinion: what must follow from an event, written down from OTP's documentation and not from the planner.

use super::*;

/// A child as it was before an event.
#[derive(Clone, Debug)]
struct Was {
    key: Key,
    policy: Policy,
    status: Status,
    /// It was not asked to stop.
    stays: bool,
    by_hand: bool,
    booting: bool,
    attempt: u32,
    started_at: Duration,
    marks: (bool, bool),
}

/// All children, as they were before an event.
pub(super) struct Before {
    children: BTreeMap<ChildId, Was>,
    rules: Rules,
    down: bool,
}

impl Before {
    pub(super) fn of(planner: &Planner) -> Before {
        let was = |(key, child): (&Key, &Child)| {
            let was = Was {
                key: *key,
                policy: child.policy,
                status: child.status,
                stays: child.want && !child.recycle,
                by_hand: child.by_hand.is_some(),
                booting: planner.unbooted.contains(key),
                attempt: child.attempt,
                started_at: child.started_at,
                marks: (child.want, child.recycle),
            };
            (child.id.clone(), was)
        };
        Before {
            children: planner.children.iter().map(was).collect(),
            rules: planner.rules,
            down: planner.is_going_down(),
        }
    }
}

/// What one child's end, or failed start, must lead to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Follows {
    /// It was asked for, or it is a failed call: not a crash.
    Nothing,
    /// It has to run again, and that counts.
    Restart,
    /// It is over and stays so.
    Over,
    /// The supervisor could not boot.
    NoBoot,
}

/// Counts restarts on its own.
#[derive(Default)]
pub(super) struct Oracle {
    restarts: Vec<(Duration, Key)>,
    /// Restarts of each child since it was last forgiven.
    own: HashMap<Key, Vec<Duration>>,
    /// How many events it had something to say about, by invariant.
    pub(super) judged: HashMap<u8, u64>,
}

impl Oracle {
    /// The breaches of what must follow from this event.
    pub(super) fn judge(
        &mut self,
        before: &Before,
        event: &Event,
        actions: &[Action],
        planner: &Planner,
        now: Duration,
    ) -> Vec<(u8, String)> {
        let mut breaches = Vec::new();
        self.forgive(before, event);
        let (id, follows) = match event {
            Event::Child(id, _, ChildEvent::Exited(reason)) => (id, after_end(before, id, reason)),
            Event::Child(id, _, ChildEvent::StartFailed(_)) => (id, after_failed_start(before, id)),
            _ => return breaches,
        };
        let Some(was) = before.children.get(id) else { return breaches };
        let down = planner.is_going_down();
        let now_is = planner.keys.get(id).and_then(|key| planner.children.get(key));
        let mut must = |oracle: &mut Oracle, invariant: u8, holds: bool, text: String| {
            *oracle.judged.entry(invariant).or_default() += 1;
            if !holds {
                breaches.push((invariant, format!("{text}, after {event:?} of {was:?}")));
            }
        };
        match follows {
            Follows::Nothing => {}
            Follows::NoBoot => {
                let told =
                    matches!(&planner.phase, Phase::Down(ExitReason::StartFailed(text)) if text.contains(id.as_str()));
                let gone = actions.iter().any(|action| {
                    matches!(action, Action::Exit { reason: ExitReason::StartFailed(text), .. } if text.contains(id.as_str()))
                });
                must(self, 9, told || gone || before.down, "a failed boot did not go down with its cause".to_owned());
            }
            Follows::Over => {
                let stays_down = now_is.is_none_or(|child| !child.want && child.status == Status::Stopped);
                must(self, 3, stays_down, "it is to stay down".to_owned());
                let should = !before.down && ends_supervisor(before, was);
                must(self, 15, down == (should || before.down), format!("it goes down: {down}, and should: {should}"));
            }
            Follows::Restart => {
                let (escalates, parks) = self.count(before, was.key, was.policy, now);
                let invariant = if before.rules.on_exhausted == OnExhausted::Park { 13 } else { 4 };
                must(
                    self,
                    invariant,
                    down == (escalates || before.down),
                    format!("it goes down: {down}, should: {escalates}"),
                );
                if down {
                    return breaches;
                }
                let is_parked = now_is.is_some_and(|child| matches!(child.status, Status::Parked));
                must(self, 13, is_parked == parks, format!("parked: {is_parked}, and should be: {parks}"));
                let wanted = parks || now_is.is_some_and(|child| child.want);
                must(self, 3, wanted, "it is to run again".to_owned());
                self.judge_siblings(before, was, planner, &mut must);
                if let Some(child) = now_is.filter(|_| !parks) {
                    let wait = actions.iter().find_map(|action| match action {
                        Action::Arm { id: armed, after, .. } if armed == id => Some(*after),
                        _ => None,
                    });
                    let fits = wait_fits(before, was, child.attempt, wait, now);
                    must(self, 14, fits, format!("it waits {wait:?} before try {}", child.attempt));
                }
            }
        }
        breaches
    }

    /// A child started by hand, or after its time in the park, begins with a clean record.
    fn forgive(&mut self, before: &Before, event: &Event) {
        let (Event::Admin(_, id, _) | Event::Child(id, _, ChildEvent::Due)) = event else { return };
        let Some(was) = before.children.get(id).filter(|_| !before.down) else { return };
        let rests = matches!(was.status, Status::Parked | Status::Backoff | Status::Stopped);
        let forgiven = match event {
            Event::Admin(_, _, Admin::Restart) => was.status == Status::Stopped && !was.marks.0,
            Event::Admin(_, _, Admin::Recycle) => rests && was.policy.restart != Restart::Temporary,
            // A due restart is not a pardon.
            Event::Admin(_, _, Admin::Unpark) | Event::Child(..) => was.status == Status::Parked,
            _ => false,
        };
        if forgiven {
            self.own.remove(&was.key);
        }
    }

    /// Whether one more restart is too many: for the supervisor, and for the child.
    fn count(&mut self, before: &Before, key: Key, policy: Policy, now: Duration) -> (bool, bool) {
        let recent = |at: Duration, limit: Intensity| now.saturating_sub(at) <= limit.period;
        if before.rules.on_exhausted == OnExhausted::Escalate {
            self.restarts.push((now, key));
            let limit = before.rules.intensity;
            let count = self.restarts.iter().filter(|(at, _)| recent(*at, limit)).count();
            return (count > limit.max as usize, false);
        }
        let limit = policy.intensity.unwrap_or(before.rules.intensity);
        let own = self.own.entry(key).or_default();
        own.push(now);
        let parks = own.iter().filter(|at| recent(**at, limit)).count() > limit.max as usize;
        self.restarts.push((now, key));
        let escalates = before.rules.group.is_some_and(|group| {
            let distinct: HashSet<Key> =
                self.restarts.iter().filter(|(at, _)| recent(*at, group)).map(|(_, key)| *key).collect();
            distinct.len() > group.max as usize
        });
        (escalates, parks)
    }

    /// Only siblings that the strategy names may be started afresh; of those the temporary ones are let go.
    fn judge_siblings(
        &mut self,
        before: &Before,
        fallen: &Was,
        planner: &Planner,
        must: &mut impl FnMut(&mut Oracle, u8, bool, String),
    ) {
        for (id, was) in before.children.iter().filter(|(_, was)| was.key != fallen.key) {
            let concerned = match before.rules.kind {
                Kind::Ordered(Strategy::OneForAll) => true,
                Kind::Ordered(Strategy::RestForOne) => was.key > fallen.key,
                Kind::Ordered(Strategy::OneForOne) | Kind::Dynamic { .. } => false,
            };
            let child = planner.children.get(&was.key);
            if !concerned {
                let untouched = child.is_some_and(|child| (child.want, child.recycle) == was.marks);
                must(self, 10, untouched, format!("{id} is not concerned"));
            } else if was.policy.restart == Restart::Temporary
                && matches!(was.status, Status::Running | Status::Starting)
            {
                let let_go = child.is_none_or(|child| !child.want && child.forget);
                must(self, 11, let_go, format!("temporary {id} is not let go"));
            } else if matches!(was.status, Status::Running | Status::Starting) && was.stays {
                // Where nothing else is stopping it may be on its way already.
                let afresh =
                    child.is_some_and(|child| child.want && (child.recycle || child.status != Status::Running));
                must(self, 10, afresh, format!("{id} is to be started afresh"));
            }
        }
    }
}

fn after_end(before: &Before, id: &ChildId, reason: &ExitReason) -> Follows {
    let Some(was) = before.children.get(id).filter(|was| was.stays) else { return Follows::Nothing };
    let abnormal = !matches!(reason, ExitReason::Normal | ExitReason::Shutdown(_));
    match was.policy.restart {
        Restart::Permanent => Follows::Restart,
        Restart::Transient if abnormal => Follows::Restart,
        Restart::Transient | Restart::Temporary => Follows::Over,
    }
}

fn after_failed_start(before: &Before, id: &ChildId) -> Follows {
    match before.children.get(id) {
        Some(was) if was.stays && was.by_hand => Follows::Nothing,
        Some(was) if was.stays && was.booting => Follows::NoBoot,
        Some(was) if was.stays => Follows::Restart,
        _ => Follows::Nothing,
    }
}

/// Whether the end of this child, which is not restarted, ends the supervisor.
fn ends_supervisor(before: &Before, ended: &Was) -> bool {
    let other_left = before.children.values().any(|other| {
        let up = other.marks.0 || !matches!(other.status, Status::Stopped | Status::Parked);
        other.key != ended.key && other.policy.significant && up
    });
    ended.policy.significant
        && match before.rules.auto_shutdown {
            AutoShutdown::Never => false,
            AutoShutdown::AnySignificant => true,
            AutoShutdown::AllSignificant => !other_left,
        }
}

/// Whether a wait is what this child's backoff allows for this try.
fn wait_fits(before: &Before, was: &Was, attempt: u32, wait: Option<Duration>, now: Duration) -> bool {
    let Some(backoff) = was.policy.backoff.or(before.rules.backoff) else { return wait.is_none() };
    let ran = if was.status == Status::Starting { Duration::ZERO } else { now - was.started_at };
    let expected = if ran >= backoff.reset_after { 1 } else { was.attempt + 1 };
    let longest = backoff.max.as_secs_f64().min(backoff.min.as_secs_f64() * backoff.factor.powi(attempt as i32 - 1));
    let wait = wait.unwrap_or_default().as_secs_f64();
    attempt == expected && (longest * (1.0 - backoff.jitter) - 1e-6..=longest + 1e-6).contains(&wait)
}
