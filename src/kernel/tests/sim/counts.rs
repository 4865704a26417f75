//! What happened in a schedule, and in all of them: a simulator in which little happens shows little.

use std::ops::AddAssign;

use tamtam::kernel::{Entry, Outcome, Record};

/// What happened in how many schedules, to see that they are not tame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) signals: u64,
    pub(super) entries: u64,
    pub(super) crashes: u64,
    pub(super) torn: u64,
    pub(super) recoveries: u64,
    pub(super) stops_in_order: u64,
    pub(super) turns: u64,
    pub(super) calls: u64,
    pub(super) stops: u64,
    pub(super) compactions: u64,
    pub(super) downs: u64,
    pub(super) undone: u64,
    pub(super) backs: u64,
    pub(super) merges: u64,
    pub(super) forks: u64,
    pub(super) forks_merged: u64,
    pub(super) handoffs: u64,
    pub(super) pinned: u64,
    pub(super) asked_for_more: u64,
    pub(super) stopped_by_budget: u64,
    pub(super) second_model: u64,
    pub(super) fallen: u64,
    pub(super) grants: u64,
    pub(super) queued: u64,
    pub(super) branches: u64,
    pub(super) crashes_in_flight: u64,
    pub(super) crashes_before_pop: u64,
    pub(super) stops_in_flight: u64,
    pub(super) refused: u64,
    pub(super) too_large: u64,
    pub(super) late_reports: u64,
    pub(super) takeovers: u64,
    pub(super) late_acknowledged: u64,
    pub(super) refused_owners: u64,
    pub(super) came_back: u64,
    pub(super) overwritten: u64,
    pub(super) begun_late: u64,
    pub(super) sent_ahead: u64,
    pub(super) poison: u64,
    pub(super) poisoned: u64,
}

impl Counts {
    /// Whether everything happened that a schedule is made for.
    pub(super) fn is_varied(&self) -> bool {
        let all = [
            self.crashes,
            self.torn,
            self.recoveries,
            self.stops_in_order,
            self.turns,
            self.calls,
            self.stops,
            self.compactions,
            self.downs,
            self.backs,
            self.merges,
            self.forks,
            self.forks_merged,
            self.handoffs,
            self.pinned,
            self.asked_for_more,
            self.stopped_by_budget,
            self.second_model,
            self.fallen,
            self.grants,
            self.queued,
            self.branches,
            self.crashes_in_flight,
            self.crashes_before_pop,
            self.stops_in_flight,
            self.refused,
            self.too_large,
            self.late_reports,
            self.takeovers,
            self.late_acknowledged,
            self.refused_owners,
            self.came_back,
            self.overwritten,
            self.begun_late,
            self.sent_ahead,
            self.poison,
        ];
        all.iter().all(|count| *count > 0)
    }

    /// Counts what entries say.
    pub(super) fn count(&mut self, entries: &[Entry]) {
        for entry in entries {
            let counted = match &entry.record {
                Record::State(_) => &mut self.handoffs,
                Record::Pinned { .. } => &mut self.pinned,
                Record::BudgetAsk { .. } => &mut self.asked_for_more,
                Record::Ending { outcome: Outcome::Budget { .. }, .. } => &mut self.stopped_by_budget,
                Record::Request(request) if request.instead.is_some() => &mut self.second_model,
                Record::Request(request) if request.fallback.is_some() => &mut self.fallen,
                Record::TaskStarted { grant, .. } if !grant.is_none() => &mut self.grants,
                Record::BranchOpened(_) => &mut self.branches,
                Record::Sent { .. } => &mut self.sent_ahead,
                _ => continue,
            };
            *counted += 1;
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.signals += other.signals;
        self.entries += other.entries;
        self.crashes += other.crashes;
        self.torn += other.torn;
        self.recoveries += other.recoveries;
        self.stops_in_order += other.stops_in_order;
        self.turns += other.turns;
        self.calls += other.calls;
        self.stops += other.stops;
        self.compactions += other.compactions;
        self.downs += other.downs;
        self.undone += other.undone;
        self.backs += other.backs;
        self.merges += other.merges;
        self.forks += other.forks;
        self.forks_merged += other.forks_merged;
        self.handoffs += other.handoffs;
        self.pinned += other.pinned;
        self.asked_for_more += other.asked_for_more;
        self.stopped_by_budget += other.stopped_by_budget;
        self.second_model += other.second_model;
        self.fallen += other.fallen;
        self.grants += other.grants;
        self.queued += other.queued;
        self.branches += other.branches;
        self.crashes_in_flight += other.crashes_in_flight;
        self.crashes_before_pop += other.crashes_before_pop;
        self.stops_in_flight += other.stops_in_flight;
        self.refused += other.refused;
        self.too_large += other.too_large;
        self.late_reports += other.late_reports;
        self.takeovers += other.takeovers;
        self.late_acknowledged += other.late_acknowledged;
        self.refused_owners += other.refused_owners;
        self.came_back += other.came_back;
        self.overwritten += other.overwritten;
        self.begun_late += other.begun_late;
        self.sent_ahead += other.sent_ahead;
        self.poison += other.poison;
        self.poisoned += other.poisoned;
    }
}
