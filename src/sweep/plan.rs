//! What a policy takes, as a function of what is there.

use std::collections::{BTreeMap, BTreeSet};

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
    let mut taken: BTreeMap<&SessionId, SweepReason> = BTreeMap::new();
    for (n, one) in candidates.iter().enumerate() {
        let ms = now.0.saturating_sub(one.last.0);
        let unused = policy.older_than.filter(|limit| u128::from(ms) > limit.as_millis());
        let beyond = policy.keep_newest.filter(|keep| n >= *keep);
        let why = match (unused, beyond) {
            (Some(_), _) => Some(SweepReason::Unused { ms }),
            (None, Some(keep)) => Some(SweepReason::NotAmongNewest { keep }),
            (None, None) => None,
        };
        taken.extend(why.map(|why| (&one.session, why)));
    }
    let there: BTreeSet<&SessionId> = candidates.iter().map(|one| &one.session).collect();
    let mut going = without_needed(&taken, candidates, &there);
    if let Some(max) = policy.bytes_max {
        let total = |going: &BTreeSet<&SessionId>| {
            let staying = candidates.iter().filter(|one| !going.contains(&one.session));
            staying.fold(0_u64, |sum, one| sum.saturating_add(one.bytes))
        };
        // Those that were used longest ago first. One that a fork needs may go once the fork does, so from the beginning again.
        let mut left = total(&going);
        loop {
            let next = candidates.iter().rev().find(|one| {
                one.protected.is_none() && !going.contains(&one.session) && needed_by(one, &going, &there).is_none()
            });
            let Some(next) = next.filter(|_| left > max) else { break };
            going.insert(&next.session);
            taken.insert(&next.session, SweepReason::TooManyBytes { max });
            left = left.saturating_sub(next.bytes);
        }
        if left > max {
            // All that is left is protected, and over the limit: it is said of each.
            let staying = candidates.iter().filter(|one| !going.contains(&one.session));
            for one in staying {
                taken.entry(&one.session).or_insert(SweepReason::TooManyBytes { max });
            }
        }
    }
    in_order(&taken, &going, candidates, &there)
}

/// The fork that stays and goes on from this session.
fn needed_by<'c>(
    one: &'c Candidate,
    going: &BTreeSet<&SessionId>,
    there: &BTreeSet<&SessionId>,
) -> Option<&'c SessionId> {
    // A fork that was not looked at, because it was made since or cannot be read, stays.
    one.forks.iter().find(|fork| !there.contains(fork) || !going.contains(fork))
}

/// What is taken, without what is protected, and without what those need that stay.
fn without_needed<'c>(
    taken: &BTreeMap<&'c SessionId, SweepReason>,
    candidates: &'c [Candidate],
    there: &BTreeSet<&SessionId>,
) -> BTreeSet<&'c SessionId> {
    let free = candidates.iter().filter(|one| one.protected.is_none());
    let mut going: BTreeSet<&SessionId> =
        free.map(|one| &one.session).filter(|session| taken.contains_key(session)).collect();
    loop {
        let needed: Vec<&SessionId> = candidates
            .iter()
            .filter(|one| going.contains(&one.session) && needed_by(one, &going, there).is_some())
            .map(|one| &one.session)
            .collect();
        if needed.is_empty() {
            return going;
        }
        going.retain(|session| !needed.contains(session));
    }
}

/// Forks before what they go on from; else those that were used longest ago first.
fn in_order(
    taken: &BTreeMap<&SessionId, SweepReason>,
    going: &BTreeSet<&SessionId>,
    candidates: &[Candidate],
    there: &BTreeSet<&SessionId>,
) -> Sweep {
    let mut sweep = Sweep::default();
    for one in candidates.iter().rev().filter(|one| !going.contains(&one.session) && taken.contains_key(&one.session)) {
        let fork = || needed_by(one, going, there).map(|fork| KeptReason::ForkStays(fork.clone()));
        let why = one.protected.clone().or_else(fork);
        sweep.kept.extend(why.map(|why| KeptSession { session: one.session.clone(), why }));
    }
    let mut done: BTreeSet<&SessionId> = BTreeSet::new();
    while done.len() < going.len() {
        let before = done.len();
        for one in candidates.iter().rev() {
            let waits = one.forks.iter().any(|fork| going.contains(fork) && !done.contains(fork));
            let Some(why) = taken.get(&one.session).filter(|_| going.contains(&one.session) && !waits) else {
                continue;
            };
            if done.insert(&one.session) {
                let Candidate { last, seq, bytes, .. } = *one;
                sweep.gone.push(SweptSession { session: one.session.clone(), last, seq, bytes, why: *why });
            }
        }
        if done.len() == before {
            // A circle of marks, which no store makes: none of them is removed.
            break;
        }
    }
    sweep
}

#[cfg(test)]
mod tests;
