//! How the planner handles starts, exits and timers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::supervisor::{
    admin::{AdminError, Done},
    exit::ExitReason,
    planner::{
        Action, Generation, Key, Phase, Planner,
        child::{ByHand, Park, State, Wait},
        report,
    },
    report::{Context, Decision},
    spec::{AutoShutdown, BadSpec, ChildId, Kind, OnExhausted, Policy, Restart, Rules, Shutdown, Strategy},
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

    pub(super) fn started(
        &mut self,
        id: &ChildId,
        generation: Generation,
        info: Option<Arc<str>>,
        now: Duration,
        out: &mut Vec<Action>,
    ) {
        let Some(key) = self.current(id, generation, |state| state == State::Starting) else { return };
        self.unbooted.remove(&key);
        self.edit(key, |child| {
            child.state = State::Running;
            child.started_at = now;
            child.by_hand = None;
            child.answer(Wait::Up, Ok(info.map_or(Done::Started, Done::StartedWith)), out);
        });
    }

    pub(super) fn ignored(&mut self, id: &ChildId, generation: Generation, now: Duration, out: &mut Vec<Action>) {
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
        self.rest(key, now, out);
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
            return self.rest(key, now, out);
        }
        let failed = AdminError::StartFailed { reason: reason.clone() };
        if let Some(by_hand) = child.by_hand {
            out.push(report(child, reason, Some(Context::StartError), Decision::Refused, 0));
            self.edit(key, |child| {
                child.want = false;
                child.forget |= by_hand == ByHand::Add;
                child.answer(Wait::Up, Err(failed), out);
            });
            return self.rest(key, now, out);
        }
        // A child that was up once is restarted, also while later ones are still on their way.
        if self.unbooted.contains(&key) {
            let text = format!("child {id}: {}", reason.cause());
            out.push(report(child, reason, Some(Context::StartError), Decision::Escalate, 0));
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
            let asked_for = reason == ExitReason::Killed && child.policy.shutdown == Shutdown::Kill;
            let crash = (reason.is_abnormal() && !asked_for).then_some(Context::ShutdownError);
            let decision = if child.want { Decision::Restart { after_ms: 0 } } else { Decision::Stopped };
            out.push(report(child, reason, crash, decision, 0));
            return self.rest(key, now, out);
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
        let crash = reason.is_abnormal().then_some(Context::ChildTerminated);
        out.push(report(child, reason, crash, Decision::Ended, 0));
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget;
        });
        self.rest(key, now, out);
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
        let during = match self.children[&key].state {
            State::Starting => Some(Context::StartError),
            _ => Some(Context::ChildTerminated),
        };
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
            out.push(report(&self.children[&key], reason.clone(), during, Decision::Escalate, in_window));
            self.edit(key, |child| {
                child.state = State::Idle;
                child.want = false;
            });
            let text = format!("too many restarts, the last of {}: {reason}", self.children[&key].id);
            return self.go_down(ExitReason::Shutdown(text), out);
        }
        if parked {
            out.push(report(&self.children[&key], reason, during, Decision::Park, in_window));
            self.edit(key, |child| {
                child.want = false;
                child.park = Some(Park::Exhausted);
            });
            return self.rest(key, now, out);
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
        out.push(report(&self.children[&key], reason, during, Decision::Restart { after_ms }, in_window));
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
                    State::Idle | State::Stopping | State::Stuck | State::Parked { .. } => {}
                }
                false
            });
            if cancelled {
                out.push(Action::Cancel { id: self.children[&key].id.clone() });
            }
        }
    }

    pub(super) fn unkillable(&mut self, id: &ChildId, generation: Generation, out: &mut Vec<Action>) {
        // A supervisor may also end by itself and leave something behind; then it was not asked to stop.
        let Some(key) =
            self.current(id, generation, |state| matches!(state, State::Stopping | State::Running | State::Starting))
        else {
            return;
        };
        self.edit(key, |child| {
            child.state = State::Stuck;
            child.answer(Wait::Up, Err(AdminError::Unkillable), out);
            child.answer(Wait::Down, Err(AdminError::Unkillable), out);
        });
        if self.unbooted.contains(&key) {
            let text = format!("child {id}: {}", AdminError::Unkillable);
            self.go_down(ExitReason::StartFailed(text), out);
        }
    }

    pub(super) fn due(&mut self, id: &ChildId, generation: Generation) {
        let waits = |state| matches!(state, State::Backoff { .. } | State::Parked { until: Some(_) });
        let Some(key) = self.current(id, generation, waits) else { return };
        match self.children[&key].state {
            State::Parked { .. } => self.start_anew(key),
            _ => self.edit(key, |child| child.state = State::Idle),
        }
    }

    /// Takes new rules and policies, or none of them where one cannot be.
    pub(super) fn change(&mut self, rules: Rules, children: Vec<(ChildId, Policy)>) -> Result<(), BadSpec> {
        rules.check()?;
        if matches!(rules.kind, Kind::Dynamic { .. }) != self.is_dynamic() {
            return Err(BadSpec::KindChanged);
        }
        let mut new = HashMap::new();
        for (id, policy) in &children {
            if new.insert(id, policy).is_some() {
                return Err(BadSpec::DuplicateId { id: id.clone() });
            }
        }
        for child in self.children.values() {
            new.entry(&child.id).or_insert(&child.policy);
        }
        for (id, policy) in new {
            rules.check_child(id, policy)?;
        }
        self.rules = rules;
        for (id, policy) in children {
            if let Some(key) = self.keys.get(&id).copied() {
                self.edit(key, |child| child.policy = policy);
            } else if !self.is_dynamic() {
                let key = self.add(id, policy, None);
                self.edit(key, |child| child.want = false);
            }
        }
        Ok(())
    }

    pub(super) fn go_down(&mut self, reason: ExitReason, out: &mut Vec<Action>) {
        if self.is_going_down() {
            return;
        }
        self.phase = Phase::Down(reason);
        let keys: Vec<Key> = self.children.keys().copied().collect();
        for key in keys {
            self.cancel_timer(key, out);
            self.edit(key, |child| {
                child.want = false;
                child.recycle = false;
                if matches!(child.state, State::Backoff { .. } | State::Parked { .. }) {
                    child.state = State::Idle;
                }
                if child.state == State::Idle {
                    child.answer(Wait::Up, Err(AdminError::ShuttingDown), out);
                }
            });
        }
    }
}
