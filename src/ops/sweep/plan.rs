//! Decides which sessions a sweep removes, as a function of values.
//!
//! A limit of the policy *takes* a session if it wants the session removed; a reason may still keep the session. The plan has two
//! rounds: first the sessions that the limits of age and number take; then, where the policy limits the bytes of all sessions, as
//! many more as it takes to come below that limit. In each round the least recently used session goes first, but a fork before its
//! parent. The cost grows only with the number of sessions and of forks.
//!
//! A change must keep this: no I/O here except through `ask`, so that tests give values; and a session goes only when all its forks
//! have gone, because a fork needs its parent's entries.

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap},
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
    /// Its forks that are not gone. A fork that is not a candidate (made since, or not readable) is never removed, so the session
    /// stays.
    pub(super) forks: BTreeSet<SessionId>,
    /// Why it stays in any case; `None` if it may go.
    pub(super) protected: Option<KeptReason>,
}

/// The question about each session before it goes. The answer is a reason why it stays, `None` if it goes, or that no more go.
pub(super) type Ask<'a> = dyn FnMut(&Candidate) -> ControlFlow<(), Option<KeptReason>> + 'a;

/// Makes the plan. The caller has sorted the candidates by their last use, newest first.
pub(super) fn plan(policy: SweepPolicy, mut all: Vec<Candidate>, now: Millis, ask: &mut Ask<'_>) -> Sweep {
    let mut rank = 0;
    let mut reasons: Vec<_> = all.iter().map(|one| taken(policy, one, now, &mut rank)).collect();
    let mut is_gone = vec![false; all.len()];
    let mut origins: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
    for (n, one) in all.iter().enumerate() {
        one.forks.iter().for_each(|fork| origins.entry(fork.clone()).or_default().push(n));
    }
    let mut order = Vec::new();
    let mut bytes_left = all.iter().fold(0_u64, |sum, one| sum.saturating_add(one.bytes));
    // First round (`max` is `None`): the sessions that the other limits take. Second round (`max` is the limit of bytes): any
    // session that may go, until the rest is within the limit. A `Break` of `ask` ends the round only; the next one asks again.
    for max in [None].into_iter().chain(policy.bytes_max.map(Some)) {
        let may_go = |one: &Candidate, n: usize| {
            one.protected.is_none() && one.forks.is_empty() && (max.is_some() || reasons[n].is_some())
        };
        // A larger index means a longer time since the last use.
        let mut next: BinaryHeap<usize> = (0..all.len()).filter(|n| !is_gone[*n] && may_go(&all[*n], *n)).collect();
        while let Some(n) = next.pop().filter(|_| max.is_none_or(|max| bytes_left > max)) {
            match ask(&all[n]) {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(Some(why)) => {
                    all[n].protected = Some(why);
                    continue;
                }
                ControlFlow::Continue(None) => {}
            }
            is_gone[n] = true;
            order.push(n);
            bytes_left = bytes_left.saturating_sub(all[n].bytes);
            let gone = all[n].session.clone();
            for origin in origins.remove(&gone).unwrap_or_default() {
                all[origin].forks.remove(&gone);
                if may_go(&all[origin], origin) {
                    next.push(origin);
                }
            }
        }
    }
    if let Some(max) = policy.bytes_max {
        // A session that no other limit takes is named as over the limit of bytes: each that went, and, where the limit is still
        // exceeded, each that stays.
        let is_within = bytes_left <= max;
        for n in (0..all.len()).filter(|n| is_gone[*n] || !is_within) {
            reasons[n].get_or_insert(SweepReason::TooManyBytes { max });
        }
    }
    let swept = |n: usize| {
        let Candidate { session, last, seq, bytes, .. } = all[n].clone();
        reasons[n].map(|why| SweptSession { session, last, seq, bytes, why })
    };
    let kept = |n: usize| {
        let Candidate { session, forks, protected, .. } = all[n].clone();
        let why = protected.or_else(|| forks.into_iter().next().map(KeptReason::ForkStays))?;
        Some(KeptSession { session, why })
    };
    let staying = (0..all.len()).rev().filter(|n| reasons[*n].is_some() && !is_gone[*n]);
    Sweep { gone: order.into_iter().filter_map(swept).collect(), kept: staying.filter_map(kept).collect() }
}

/// Which limit takes a session. The limit of bytes is ignored, except that any limit takes a session without an entry. `rank`
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

#[cfg(test)]
mod tests;
