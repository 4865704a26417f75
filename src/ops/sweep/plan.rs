//! Which sessions a policy takes, as a function of values. Its cost grows with the number of sessions and with nothing else.

use std::{
    collections::{BTreeMap, BinaryHeap},
    ops::ControlFlow,
};

use crate::{
    ops::sweep::{KeptReason, KeptSession, Sweep, SweepPolicy, SweepReason, SweptSession},
    words::ids::{Millis, Seq, SessionId},
};

/// What is known of a session.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) session: SessionId,
    /// When it was used last; never later than now, whatever its clock was.
    pub(super) last: Millis,
    /// 0 of one without an entry.
    pub(super) seq: Seq,
    pub(super) bytes: u64,
    /// The sessions that go on from it.
    pub(super) forks: Vec<SessionId>,
    /// Why it stays in any case.
    pub(super) protected: Option<KeptReason>,
}

/// What is asked of a session before it goes: why it stays all the same, or that no more go.
pub(super) type Ask<'a> = dyn FnMut(&Candidate) -> ControlFlow<(), Option<KeptReason>> + 'a;

/// What goes, of sessions that are sorted by their last use, newest first.
pub(super) fn plan(policy: SweepPolicy, candidates: &[Candidate], now: Millis, ask: &mut Ask<'_>) -> Sweep {
    let mut rank = 0;
    let mut taken: Vec<Option<SweepReason>> = candidates.iter().map(|one| taken(policy, one, now, &mut rank)).collect();
    let mut leaving = Leaving::new(candidates, ask);
    leaving.let_go(|n| taken[n].is_some(), 0);
    if let Some(max) = policy.bytes_max {
        leaving.let_go(|_| true, max);
        // Of what is over the limit all the same, it is said of each.
        let is_held = leaving.bytes_left <= max;
        for (why, _) in taken.iter_mut().zip(&leaving.is_gone).filter(|(_, is_gone)| **is_gone || !is_held) {
            why.get_or_insert(SweepReason::TooManyBytes { max });
        }
    }
    let mut sweep = Sweep::default();
    for (n, one) in candidates.iter().enumerate().rev().filter(|(n, _)| taken[*n].is_some() && !leaving.is_gone[*n]) {
        let fork = || leaving.needed_by(n).map(|fork| KeptReason::ForkStays(fork.clone()));
        let why = leaving.stays[n].clone().or_else(fork);
        sweep.kept.extend(why.map(|why| KeptSession { session: one.session.clone(), why }));
    }
    for n in leaving.order {
        let Candidate { last, seq, bytes, .. } = candidates[n];
        let session = candidates[n].session.clone();
        sweep.gone.extend(taken[n].map(|why| SweptSession { session, last, seq, bytes, why }));
    }
    sweep
}

/// Why a limit takes it, but for that of bytes. `rank` counts those with an entry.
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

/// Sessions on their way out: one that others go on from only when all of those are gone.
struct Leaving<'c, 'a> {
    candidates: &'c [Candidate],
    ask: &'c mut Ask<'a>,
    /// Where each session stands among them.
    place: BTreeMap<&'c SessionId, usize>,
    /// How many forks of each are not gone. One that was not looked at, because it was made since or cannot be read, never goes.
    forks_left: Vec<usize>,
    /// What each goes on from.
    origins: Vec<Vec<usize>>,
    /// Why each stays in any case.
    stays: Vec<Option<KeptReason>>,
    is_gone: Vec<bool>,
    /// Those that are gone, in the order in which they went.
    order: Vec<usize>,
    /// The size of all that are not gone.
    bytes_left: u64,
}

impl<'c, 'a> Leaving<'c, 'a> {
    fn new(candidates: &'c [Candidate], ask: &'c mut Ask<'a>) -> Leaving<'c, 'a> {
        let place: BTreeMap<_, _> = candidates.iter().enumerate().map(|(n, one)| (&one.session, n)).collect();
        let mut origins = vec![Vec::new(); candidates.len()];
        for (n, one) in candidates.iter().enumerate() {
            one.forks.iter().filter_map(|fork| place.get(fork)).for_each(|fork| origins[*fork].push(n));
        }
        Leaving {
            candidates,
            ask,
            place,
            forks_left: candidates.iter().map(|one| one.forks.len()).collect(),
            origins,
            stays: candidates.iter().map(|one| one.protected.clone()).collect(),
            is_gone: vec![false; candidates.len()],
            order: Vec::new(),
            bytes_left: candidates.iter().fold(0, |sum, one| sum.saturating_add(one.bytes)),
        }
    }

    fn is_free(&self, n: usize) -> bool {
        self.stays[n].is_none() && self.forks_left[n] == 0 && !self.is_gone[n]
    }

    /// Lets those go that may, the one first that was used longest ago, until so many bytes are left; all of them where that is 0.
    fn let_go(&mut self, may_go: impl Fn(usize) -> bool, bytes: u64) {
        // The later one stands in the list, the longer ago it was used.
        let mut next: BinaryHeap<usize> =
            (0..self.candidates.len()).filter(|n| self.is_free(*n) && may_go(*n)).collect();
        while let Some(n) = next.pop().filter(|_| bytes == 0 || self.bytes_left > bytes) {
            match (self.ask)(&self.candidates[n]) {
                ControlFlow::Break(()) => return,
                ControlFlow::Continue(Some(why)) => {
                    self.stays[n] = Some(why);
                    continue;
                }
                ControlFlow::Continue(None) => {}
            }
            self.is_gone[n] = true;
            self.order.push(n);
            self.bytes_left = self.bytes_left.saturating_sub(self.candidates[n].bytes);
            for origin in self.origins[n].clone() {
                self.forks_left[origin] -= 1;
                if self.is_free(origin) && may_go(origin) {
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
