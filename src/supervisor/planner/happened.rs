//! What the planner makes of starts, ends and timers.

use std::time::Duration;

use crate::supervisor::{
    admin::{AdminError, Done},
    exit::ExitReason,
    planner::{
        Action, Generation, Key, Phase, Planner,
        child::{ByHand, State, Wait},
        report,
    },
    report::Decision,
    spec::{AutoShutdown, ChildId, Kind, OnExhausted, Policy, Restart, Rules, Shutdown, Strategy},
};

impl Planner {
    pub(super) fn boot(&mut self, children: Vec<(ChildId, Policy)>) {
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

    pub(super) fn started(&mut self, id: &ChildId, generation: Generation, now: Duration, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| state == State::Starting) else { return };
        self.unbooted.remove(&key);
        self.edit(key, |child| {
            child.state = State::Running;
            child.started_at = now;
            child.by_hand = None;
            child.answer(Wait::Up, Ok(Done::Started), out);
        });
    }

    pub(super) fn ignored(&mut self, id: &ChildId, generation: Generation, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| matches!(state, State::Starting | State::Stopping)) else {
            return;
        };
        self.unbooted.remove(&key);
        let forget = self.is_dynamic();
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget || child.policy.restart == Restart::Temporary;
            child.answer(Wait::Up, Ok(Done::Ignored), out);
        });
        self.rest(key, out);
    }

    pub(super) fn start_failed(
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

    pub(super) fn exited(
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
    pub(super) fn fall(&mut self, key: Key, reason: ExitReason, now: Duration, out: &mut Vec<Action>) {
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
    pub(super) fn pull_in_siblings(&mut self, fallen: Key, out: &mut Vec<Action>) {
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

    pub(super) fn unkillable(&mut self, id: &ChildId, generation: Generation, out: &mut Vec<Action>) {
        let Some(key) = self.current(id, generation, |state| state == State::Stopping) else { return };
        self.edit(key, |child| {
            child.state = State::Stuck;
            child.answer(Wait::Up, Err(AdminError::Unkillable), out);
            child.answer(Wait::Down, Err(AdminError::Unkillable), out);
        });
    }

    pub(super) fn due(&mut self, id: &ChildId, generation: Generation) {
        let waits = |state| matches!(state, State::Backoff { .. });
        if let Some(key) = self.current(id, generation, waits) {
            self.edit(key, |child| child.state = State::Idle);
        }
    }

    pub(super) fn change(&mut self, rules: Rules, children: Vec<(ChildId, Policy)>) {
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

    pub(super) fn go_down(&mut self, reason: ExitReason, out: &mut Vec<Action>) {
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
}
