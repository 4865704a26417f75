//! Decides which sessions a sweep removes, as a function of values.
//!
//! A limit of the policy *takes* a session if it wants the session removed; a reason may still keep the session. The plan orders
//! the removals: a fork before its parent, and otherwise the least recently used first. Its cost grows with the number of
//! sessions and of forks only.
//!
//! A change must keep this: no I/O here except through `ask`; and a session goes only when all its forks have gone.

use std::{
    collections::{BTreeMap, BinaryHeap},
    ops::ControlFlow,
};

use crate::{
    ops::sweep::{KeptReason, KeptSession, Sweep, SweepPolicy, SweepReason, SweptSession},
    words::ids::{Millis, Seq, SessionId},
};

/// The facts about a session that the plan needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) session: SessionId,
    /// When it was used last; never later than now, even if the clock that stamped it was ahead.
    pub(super) last: Millis,
    /// Its last entry; 0 for a session without an entry.
    pub(super) seq: Seq,
    pub(super) bytes: u64,
    /// The sessions that go on from it.
    pub(super) forks: Vec<SessionId>,
    /// Why it stays in any case; `None` where it may go.
    pub(super) protected: Option<KeptReason>,
}

/// The question about each session before it goes. The answer is a reason why it stays, `None` if it goes, or that no more go.
pub(super) type Ask<'a> = dyn FnMut(&Candidate) -> ControlFlow<(), Option<KeptReason>> + 'a;

/// Makes the plan. `candidates` are sorted by their last use, newest first.
pub(super) fn plan(policy: SweepPolicy, candidates: &[Candidate], now: Millis, ask: &mut Ask<'_>) -> Sweep {
    let place: BTreeMap<&SessionId, usize> = candidates.iter().enumerate().map(|(n, one)| (&one.session, n)).collect();
    let mut rank = 0;
    let one = |candidate| One {
        candidate,
        taken: taken(policy, candidate, now, &mut rank),
        stays: candidate.protected.clone(),
        forks_left: candidate.forks.len(),
        origins: Vec::new(),
        is_gone: false,
    };
    let mut all: Vec<One<'_>> = candidates.iter().map(one).collect();
    for (n, one) in candidates.iter().enumerate() {
        one.forks.iter().filter_map(|fork| place.get(fork)).for_each(|fork| all[*fork].origins.push(n));
    }
    let mut order = Vec::new();
    let mut bytes_left = candidates.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    // First round (`max` is `None`): the sessions that the other limits take. Second round (`max` is the limit of bytes): any
    // session that may go, until the rest is within the limit. A `Break` of `ask` ends the round only; the next one asks again.
    for max in [None].into_iter().chain(policy.bytes_max.map(Some)) {
        let may_go = |one: &One<'_>| one.is_free() && (max.is_some() || one.taken.is_some());
        // A larger index means a longer time since the last use.
        let mut next: BinaryHeap<usize> = (0..all.len()).filter(|n| may_go(&all[*n])).collect();
        while let Some(n) = next.pop().filter(|_| max.is_none_or(|max| bytes_left > max)) {
            match ask(all[n].candidate) {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(Some(why)) => {
                    all[n].stays = Some(why);
                    continue;
                }
                ControlFlow::Continue(None) => {}
            }
            all[n].is_gone = true;
            order.push(n);
            bytes_left = bytes_left.saturating_sub(all[n].candidate.bytes);
            for origin in std::mem::take(&mut all[n].origins) {
                all[origin].forks_left -= 1;
                if may_go(&all[origin]) {
                    next.push(origin);
                }
            }
        }
    }
    if let Some(max) = policy.bytes_max {
        // A session that no other limit takes is named as over the limit of bytes: each that went, and, where the limit is still
        // exceeded, each that stays.
        let is_within = bytes_left <= max;
        for one in all.iter_mut().filter(|one| one.is_gone || !is_within) {
            one.taken.get_or_insert(SweepReason::TooManyBytes { max });
        }
    }
    let swept = |n: usize| {
        let Candidate { session, last, seq, bytes, .. } = all[n].candidate.clone();
        all[n].taken.map(|why| SweptSession { session, last, seq, bytes, why })
    };
    let kept = |one: &One<'_>| {
        let stays = |fork: &&SessionId| place.get(*fork).is_none_or(|n| !all[*n].is_gone);
        let needed_by = || one.candidate.forks.iter().find(stays).cloned().map(KeptReason::ForkStays);
        let why = one.stays.clone().or_else(needed_by)?;
        Some(KeptSession { session: one.candidate.session.clone(), why })
    };
    let staying = all.iter().rev().filter(|one| one.taken.is_some() && !one.is_gone);
    Sweep { gone: order.into_iter().filter_map(swept).collect(), kept: staying.filter_map(kept).collect() }
}

/// Which limit takes a session. The limit of bytes is not looked at, except that any limit takes a session without an entry. `rank`
/// counts the sessions with an entry so far, newest first.
fn taken(policy: SweepPolicy, one: &Candidate, now: Millis, rank: &mut usize) -> Option<SweepReason> {
    if one.seq == Seq::ZERO {
        return (policy != SweepPolicy::default()).then_some(SweepReason::Empty);
    }
    *rank += 1;
    let ms = now.0.saturating_sub(one.last.0);
    match policy.older_than {
        Some(limit) if u128::from(ms) > limit.as_millis() => Some(SweepReason::Unused { ms }),
        _ => policy.keep_newest.filter(|keep| *rank > *keep).map(|keep| SweepReason::NotAmongNewest { keep }),
    }
}

/// A candidate while the plan is made.
struct One<'c> {
    candidate: &'c Candidate,
    /// The limit that takes it.
    taken: Option<SweepReason>,
    /// Why it stays, whatever limit takes it; `None` where it may go.
    stays: Option<KeptReason>,
    /// How many of its forks are not gone. A fork that is no candidate (made since, or not readable) is never counted as gone, so its
    /// parent stays.
    forks_left: usize,
    /// The candidates that it is a fork of, by index.
    origins: Vec<usize>,
    is_gone: bool,
}

impl One<'_> {
    fn is_free(&self) -> bool {
        self.stays.is_none() && self.forks_left == 0 && !self.is_gone
    }
}

#[cfg(test)]
mod tests;
