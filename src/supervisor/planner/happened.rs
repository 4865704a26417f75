//! How the planner handles what happens to a child (starts, ends, timers), and to the supervisor itself: its boot, new rules, its
//! shutdown.
//!
//! The functions edit children and may add actions such as reports, replies and timers, but no start and no stop: these come from
//! `Planner::reconcile`, which runs after them.
//!
//! A change must keep two rules. A child's event with the number (generation) of another start or timer, or one that does not fit
//! the child's status, changes nothing: it is late, and would hit the next incarnation. An `Exited` that is taken adds exactly one
//! report, with the decision about it, and so does a failed start, unless the child was to stop anyway: crash reports and the
//! tree's `Exited` events are made from these reports.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::supervisor::{
    admin::{AdminError, Done},
    exit::ExitReason,
    node_state::millis,
    planner::{
        ChildEvent, Generation, Key, Phase, Planner,
        child::{ByHand, Park, Wait},
    },
    report::{Context, Decision},
    spec::{AutoShutdown, BadSpec, ChildId, Kind, OnExhausted, Policy, Restart, Rules, Shutdown, Strategy},
    status::Status,
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

    /// Takes an event of a child. An event of another generation, or one that does not fit the child's status, is late and is
    /// ignored.
    pub(super) fn happened(&mut self, id: &ChildId, generation: Generation, what: ChildEvent) {
        let Some(key) = self.keys.get(id).copied() else { return };
        let child = &self.children[&key];
        if child.generation != generation {
            return;
        }
        match (what, child.status) {
            (ChildEvent::Started(info), Status::Starting) => self.started(key, info),
            (ChildEvent::Ignored, Status::Starting | Status::Stopping) => self.ignored(key),
            (ChildEvent::StartFailed(reason), Status::Starting | Status::Stopping | Status::Unkillable) => {
                self.start_failed(key, reason);
            }
            (
                ChildEvent::Exited(reason),
                Status::Starting | Status::Running | Status::Stopping | Status::Unkillable,
            ) => self.exited(key, reason),
            // A supervisor may also end unasked and leave children behind.
            (ChildEvent::Unkillable, Status::Starting | Status::Running | Status::Stopping) => self.unkillable(key),
            (ChildEvent::Due, _) if child.timed => self.due(key),
            _ => {}
        }
    }

    fn started(&mut self, key: Key, info: Option<Arc<str>>) {
        self.unbooted.remove(&key);
        let now = self.now;
        self.edit(key, |child| {
            child.status = Status::Running;
            child.started_at = now;
            child.by_hand = None;
        });
        self.answer(key, Wait::Up, &Ok(info.map_or(Done::Started, Done::StartedWith)));
    }

    fn ignored(&mut self, key: Key) {
        self.unbooted.remove(&key);
        let forget = self.is_dynamic();
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget || child.policy.restart == Restart::Temporary;
        });
        self.answer(key, Wait::Up, &Ok(Done::Ignored));
        self.rest(key);
    }

    fn start_failed(&mut self, key: Key, reason: ExitReason) {
        let child = &self.children[&key];
        if child.is_let_go() {
            return self.rest(key);
        }
        let failed = Err(AdminError::StartFailed { reason: reason.clone() });
        if let Some(by_hand) = child.by_hand {
            self.report(key, reason, Some(Context::StartError), Decision::Refused, 0);
            self.edit(key, |child| {
                child.want = false;
                child.forget |= by_hand == ByHand::Add;
            });
            self.answer(key, Wait::Up, &failed);
            return self.rest(key);
        }
        // Only a child that was never up fails the boot. A child that was up is restarted, also while later children still start.
        if self.unbooted.contains(&key) {
            let text = format!("child {}: {}", child.id, reason.cause());
            self.report(key, reason, Some(Context::StartError), Decision::Escalate, 0);
            return self.give_up(key, ExitReason::StartFailed(text));
        }
        self.answer(key, Wait::Up, &failed);
        self.fall(key, reason);
    }

    fn exited(&mut self, key: Key, reason: ExitReason) {
        let child = &self.children[&key];
        let Policy { restart, shutdown, significant, .. } = child.policy;
        if child.is_let_go() {
            let asked_for = reason == ExitReason::Killed && shutdown == Shutdown::Kill;
            let crash = (reason.is_abnormal() && !asked_for).then_some(Context::ShutdownError);
            let decision = if child.want { Decision::Restart { after_ms: 0 } } else { Decision::Stopped };
            self.report(key, reason, crash, decision, 0);
            return self.rest(key);
        }
        let again = match restart {
            Restart::Permanent => true,
            Restart::Transient => reason.is_abnormal(),
            Restart::Temporary => false,
        };
        if again {
            return self.fall(key, reason);
        }
        let forget = self.is_dynamic() || restart == Restart::Temporary;
        let crash = reason.is_abnormal().then_some(Context::ChildTerminated);
        self.report(key, reason, crash, Decision::Ended, 0);
        self.edit(key, |child| {
            child.want = false;
            child.forget |= forget;
        });
        self.rest(key);
        let others = || self.children.values().any(|other| other.policy.significant && other.is_alive());
        let down = significant
            && match self.rules.auto_shutdown {
                AutoShutdown::Never => false,
                AutoShutdown::AnySignificant => true,
                AutoShutdown::AllSignificant => !others(),
            };
        if down {
            self.go_down(ExitReason::Shutdown("significant children ended".to_owned()));
        }
    }

    /// A child ended or could not start, and should run again: decides between restart, parking and escalation.
    fn fall(&mut self, key: Key, reason: ExitReason) {
        let (rules, now) = (self.rules, self.now);
        let child = &self.children[&key];
        let is_starting = child.status == Status::Starting;
        let during = if is_starting { Context::StartError } else { Context::ChildTerminated };
        let own = child.policy.intensity.unwrap_or(rules.intensity);
        let backoff = child.policy.backoff.or(rules.backoff);
        let own_crashes = self.edit(key, |child| child.window.add(own, now));
        let (in_window, escalates, parks) = match rules.on_exhausted {
            OnExhausted::Escalate => {
                let crashes = self.window.add(rules.intensity, now);
                (crashes, crashes > rules.intensity.max, false)
            }
            OnExhausted::Park => {
                let common = rules.group.is_some_and(|group| self.window.add_distinct(group, now, key) > group.max);
                (own_crashes, common, own_crashes > own.max)
            }
        };
        if escalates {
            let text = format!("too many restarts, the last of {}: {reason}", self.children[&key].id);
            self.report(key, reason, Some(during), Decision::Escalate, in_window);
            return self.give_up(key, ExitReason::Shutdown(text));
        }
        if parks {
            self.report(key, reason, Some(during), Decision::Park, in_window);
            self.edit(key, |child| {
                child.want = false;
                child.park = Some(Park::Exhausted);
            });
            return self.rest(key);
        }
        let attempt = self.edit(key, |child| {
            child.status = Status::Stopped;
            child.restarts += 1;
            let ran = if is_starting { Duration::ZERO } else { now.saturating_sub(child.started_at) };
            if backoff.is_some_and(|backoff| ran >= backoff.reset_after) {
                child.attempt = 0;
            }
            child.attempt = child.attempt.saturating_add(1);
            child.recycle = false;
            child.attempt - 1
        });
        let after = backoff.map_or(Duration::ZERO, |backoff| backoff.delay(attempt, self.chance.next()));
        let after_ms = millis(after);
        self.report(key, reason, Some(during), Decision::Restart { after_ms }, in_window);
        if !after.is_zero() {
            self.arm(key, Status::Backoff, after);
        }
        self.pull_in_siblings(key);
    }

    /// Ends the supervisor because of this child, which does not run.
    fn give_up(&mut self, key: Key, reason: ExitReason) {
        self.edit(key, |child| {
            child.status = Status::Stopped;
            child.want = false;
        });
        self.go_down(reason);
    }

    /// Marks the siblings that the strategy restarts together with `fallen`: those that run are stopped first (temporary ones
    /// permanently), and those in backoff wait no longer.
    fn pull_in_siblings(&mut self, fallen: Key) {
        let from = match self.rules.kind {
            Kind::Ordered(Strategy::OneForAll) => 0,
            Kind::Ordered(Strategy::RestForOne) => fallen + 1,
            Kind::Ordered(Strategy::OneForOne) | Kind::Dynamic { .. } => return,
        };
        let siblings = self.children.range(from..).filter(|(key, _)| **key != fallen);
        let siblings: Vec<_> = siblings.map(|(key, child)| (*key, child.status, child.policy.restart)).collect();
        for (key, status, restart) in siblings {
            match status {
                Status::Running | Status::Starting if restart == Restart::Temporary => self.edit(key, |child| {
                    child.want = false;
                    child.forget = true;
                }),
                Status::Running | Status::Starting => self.edit(key, |child| child.recycle = true),
                Status::Backoff => {
                    self.cancel_timer(key);
                    self.edit(key, |child| child.status = Status::Stopped);
                }
                Status::Stopped | Status::Stopping | Status::Unkillable | Status::Parked => {}
            }
        }
    }

    fn unkillable(&mut self, key: Key) {
        self.edit(key, |child| child.status = Status::Unkillable);
        self.answer(key, Wait::Up, &Err(AdminError::Unkillable));
        self.answer(key, Wait::Down, &Err(AdminError::Unkillable));
        if self.unbooted.contains(&key) {
            let text = format!("child {}: {}", self.children[&key].id, AdminError::Unkillable);
            self.go_down(ExitReason::StartFailed(text));
        }
    }

    fn due(&mut self, key: Key) {
        let status = self.edit(key, |child| {
            child.timed = false;
            std::mem::replace(&mut child.status, Status::Stopped)
        });
        if status == Status::Parked {
            self.start_anew(key);
        }
    }

    /// Takes new rules and policies, or none of them if one is not valid. The policy of an unknown child adds the child, stopped;
    /// under a dynamic supervisor it is passed over.
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

    pub(super) fn go_down(&mut self, reason: ExitReason) {
        if self.is_going_down() {
            return;
        }
        self.phase = Phase::Down(reason);
        let keys: Vec<Key> = self.children.keys().copied().collect();
        for key in keys {
            self.cancel_timer(key);
            let status = self.edit(key, |child| {
                child.want = false;
                child.recycle = false;
                if matches!(child.status, Status::Backoff | Status::Parked) {
                    child.status = Status::Stopped;
                }
                child.status
            });
            if status == Status::Stopped {
                self.answer(key, Wait::Up, &Err(AdminError::ShuttingDown));
            }
        }
    }
}
