//! Which sessions a policy takes, as a function of what is there. Takes as long as there are sessions, and no longer.

use std::collections::{BTreeMap, BinaryHeap};

use crate::{
    ids::{Millis, Seq, SessionId},
    sweep::{KeptReason, KeptSession, Sweep, SweepPolicy, SweepReason, SweptSession},
};

/// What is known of a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) session: SessionId,
    /// When it was used last; never later than now, whatever its clock was.
    pub(super) last: Millis,
    pub(super) seq: Seq,
    pub(super) bytes: u64,
    /// The sessions that go on from it.
    pub(super) forks: Vec<SessionId>,
    /// Why it stays in any case.
    pub(super) protected: Option<KeptReason>,
}

/// What goes, of sessions that are sorted by their last use, newest first.
pub(super) fn plan(policy: SweepPolicy, candidates: &[Candidate], now: Millis) -> Sweep {
    let mut taken: Vec<Option<SweepReason>> = candidates
        .iter()
        .enumerate()
        .map(|(n, one)| {
            let ms = now.0.saturating_sub(one.last.0);
            if policy.older_than.is_some_and(|limit| u128::from(ms) > limit.as_millis()) {
                return Some(SweepReason::Unused { ms });
            }
            policy.keep_newest.filter(|keep| n >= *keep).map(|keep| SweepReason::NotAmongNewest { keep })
        })
        .collect();
    let mut leaving = Leaving::new(candidates);
    leaving.let_go(|n| taken[n].is_some(), |_| true);
    if let Some(max) = policy.bytes_max {
        let staying = candidates.iter().enumerate().filter(|(n, _)| !leaving.is_gone[*n]);
        let mut left = staying.fold(0_u64, |sum, (_, one)| sum.saturating_add(one.bytes));
        leaving.let_go(
            |_| true,
            |n| {
                let is_too_much = left > max;
                if is_too_much {
                    left = left.saturating_sub(candidates[n].bytes);
                    taken[n].get_or_insert(SweepReason::TooManyBytes { max });
                }
                is_too_much
            },
        );
        if left > max {
            // All that is left is protected, and over the limit: it is said of each.
            for (why, _) in taken.iter_mut().zip(&leaving.is_gone).filter(|(_, is_gone)| !**is_gone) {
                why.get_or_insert(SweepReason::TooManyBytes { max });
            }
        }
    }
    let mut sweep = Sweep::default();
    for (n, one) in candidates.iter().enumerate().rev().filter(|(n, _)| taken[*n].is_some() && !leaving.is_gone[*n]) {
        let why =
            one.protected.clone().or_else(|| leaving.needed_by(n).map(|fork| KeptReason::ForkStays(fork.clone())));
        sweep.kept.extend(why.map(|why| KeptSession { session: one.session.clone(), why }));
    }
    // Once more, now that it is known which: in one order, whichever limit took them.
    let mut in_order = Leaving::new(candidates);
    in_order.let_go(|n| leaving.is_gone[n], |_| true);
    for n in in_order.order {
        let Candidate { last, seq, bytes, .. } = candidates[n];
        let session = candidates[n].session.clone();
        sweep.gone.extend(taken[n].map(|why| SweptSession { session, last, seq, bytes, why }));
    }
    sweep
}

/// Sessions on their way out: one that others go on from only when all of those are gone.
struct Leaving<'c> {
    candidates: &'c [Candidate],
    /// Where each session stands among them.
    place: BTreeMap<&'c SessionId, usize>,
    /// How many forks of each are not gone. One that was not looked at, because it was made since or cannot be read, never goes.
    forks_left: Vec<usize>,
    /// What each goes on from.
    origins: Vec<Vec<usize>>,
    is_gone: Vec<bool>,
    /// Those that are gone, in the order in which they went.
    order: Vec<usize>,
}

impl<'c> Leaving<'c> {
    fn new(candidates: &'c [Candidate]) -> Leaving<'c> {
        let place: BTreeMap<_, _> = candidates.iter().enumerate().map(|(n, one)| (&one.session, n)).collect();
        let mut origins = vec![Vec::new(); candidates.len()];
        for (n, one) in candidates.iter().enumerate() {
            one.forks.iter().filter_map(|fork| place.get(fork)).for_each(|fork| origins[*fork].push(n));
        }
        Leaving {
            candidates,
            place,
            forks_left: candidates.iter().map(|one| one.forks.len()).collect(),
            origins,
            is_gone: vec![false; candidates.len()],
            order: Vec::new(),
        }
    }

    /// Lets those go that may, the one first that was used longest ago, until one is not to go.
    fn let_go(&mut self, may_go: impl Fn(usize) -> bool, mut goes: impl FnMut(usize) -> bool) {
        let is_free = |leaving: &Leaving<'_>, n: usize| {
            leaving.candidates[n].protected.is_none() && leaving.forks_left[n] == 0 && !leaving.is_gone[n]
        };
        // The later one stands in the list, the longer ago it was used.
        let mut next: BinaryHeap<usize> =
            (0..self.candidates.len()).filter(|n| is_free(self, *n) && may_go(*n)).collect();
        while let Some(n) = next.pop().filter(|n| goes(*n)) {
            self.is_gone[n] = true;
            self.order.push(n);
            for origin in self.origins[n].clone() {
                self.forks_left[origin] -= 1;
                if is_free(self, origin) && may_go(origin) {
                    next.push(origin);
                }
            }
        }
    }

    /// The fork that stays and goes on from this one.
    fn needed_by(&self, n: usize) -> Option<&'c SessionId> {
        let stays = |fork: &&SessionId| self.place.get(*fork).is_none_or(|fork| !self.is_gone[*fork]);
        self.candidates[n].forks.iter().find(stays)
    }
}

#[cfg(test)]
mod tests;
