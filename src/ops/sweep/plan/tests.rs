#![allow(clippy::unwrap_used, clippy::panic)]
use std::time::Duration;

use super::*;

const NOW: Millis = Millis(1_000_000);

/// `name`, used so many milliseconds ago, of 10 bytes.
fn one(name: &str, ago: u64) -> Candidate {
    Candidate {
        session: name.parse().unwrap(),
        last: Millis(NOW.0 - ago),
        seq: Seq(7),
        bytes: 10,
        forks: BTreeSet::new(),
        protected: None,
    }
}

fn with_forks(forks: &[&str], one: Candidate) -> Candidate {
    Candidate { forks: forks.iter().map(|fork| fork.parse().unwrap()).collect(), ..one }
}

fn plan(policy: SweepPolicy, candidates: &[Candidate], now: Millis) -> Sweep {
    super::plan(policy, candidates.to_vec(), now, &mut |_| ControlFlow::Continue(None))
}

fn swept(policy: SweepPolicy, candidates: &[Candidate]) -> (String, String) {
    let sweep = plan(policy, candidates, NOW);
    let gone: Vec<String> = sweep.gone.iter().map(|gone| gone.session.to_string()).collect();
    let kept: Vec<String> = sweep.kept.iter().map(|kept| format!("{}: {}", kept.session, kept.why)).collect();
    (gone.join(" "), kept.join("; "))
}

fn older(ms: u64) -> SweepPolicy {
    SweepPolicy { older_than: Some(Duration::from_millis(ms)), ..SweepPolicy::default() }
}

fn keep(keep_newest: usize) -> SweepPolicy {
    SweepPolicy { keep_newest: Some(keep_newest), ..SweepPolicy::default() }
}

fn bytes(bytes_max: u64) -> SweepPolicy {
    SweepPolicy { bytes_max: Some(bytes_max), ..SweepPolicy::default() }
}

#[test]
fn each_limit_takes_what_it_says_and_no_limit_takes_nothing() {
    let all = [one("d", 0), one("c", 10), one("b", 20), one("a", 30)];
    for (policy, gone) in [
        (SweepPolicy::default(), ""),
        (older(20), "a"),
        (older(19), "a b"),
        (older(30), ""),
        (keep(4), ""),
        (keep(3), "a"),
        (keep(0), "a b c d"),
        (bytes(40), ""),
        (bytes(39), "a"),
        (bytes(15), "a b c"),
        (bytes(0), "a b c d"),
        (SweepPolicy { older_than: Some(Duration::from_millis(25)), keep_newest: Some(3), bytes_max: Some(20) }, "a b"),
    ] {
        assert_eq!(swept(policy, &all), (gone.to_owned(), String::new()), "{policy:?}");
    }
    let why: Vec<String> = plan(
        SweepPolicy { older_than: Some(Duration::from_millis(25)), keep_newest: Some(3), bytes_max: Some(20) },
        &all,
        NOW,
    )
    .gone
    .iter()
    .map(|gone| gone.why.to_string())
    .collect();
    assert_eq!(why, ["not used for 0 s", "all together take more than 20 bytes"]);
}

#[test]
fn what_is_protected_stays_and_is_said_where_a_limit_takes_it() {
    let mut all = [one("d", 0), one("c", 10), one("b", 20), one("a", 30)];
    all[3].protected = Some(KeptReason::Protected);
    all[0].protected = Some(KeptReason::Live);
    assert_eq!(swept(keep(1), &all), ("b c".into(), "a: it is protected".into()));
    assert_eq!(swept(older(100), &all), (String::new(), String::new()));
    // The limit cannot be held with what must stay: the rest goes, and it is said of what does not.
    assert_eq!(swept(bytes(15), &all), ("b c".into(), "a: it is protected; d: it is open".into()));
    assert_eq!(swept(bytes(30), &all), ("b".into(), String::new()));
}

#[test]
fn a_session_stays_as_long_as_a_fork_of_it_does_and_goes_behind_the_last() {
    let all = [one("d", 0), with_forks(&["d"], one("c", 10)), one("b", 20), with_forks(&["b", "c"], one("a", 30))];
    assert_eq!(swept(keep(2), &all), ("b".into(), "a: session c is a fork of it".into()));
    assert_eq!(swept(keep(1), &all), ("b".into(), "a: session c is a fork of it; c: session d is a fork of it".into()));
    assert_eq!(swept(keep(0), &all), ("b d c a".into(), String::new()));
    assert_eq!(swept(bytes(20), &all).0, "b d");
    assert_eq!(swept(bytes(0), &all).0, "b d c a");
    // A fork that was made since, or that cannot be read, stays.
    let unseen = [with_forks(&["unseen"], one("a", 30))];
    assert_eq!(swept(keep(0), &unseen), (String::new(), "a: session unseen is a fork of it".into()));
}

/// What stays because of something that is looked up only of those that would go.
#[test]
fn what_stays_when_it_is_asked_keeps_what_it_goes_on_from_and_counts_for_the_limit_of_bytes() {
    let all = [one("d", 0), one("c", 10), one("b", 20), with_forks(&["b"], one("a", 30))];
    let mut asked = Vec::new();
    let sweep = super::plan(bytes(30), all.to_vec(), NOW, &mut |one| {
        asked.push(one.session.to_string());
        ControlFlow::Continue((one.session.as_str() == "b").then_some(KeptReason::Used))
    });
    let gone: Vec<&str> = sweep.gone.iter().map(|gone| gone.session.as_str()).collect();
    // In its place another one goes, and who was not to go is not asked.
    assert_eq!((gone, asked.join(" ")), (vec!["c"], "b c".to_owned()));
    let stays = super::plan(keep(0), all.to_vec(), NOW, &mut |one| {
        ControlFlow::Continue((one.session.as_str() == "b").then_some(KeptReason::Used))
    });
    let kept: Vec<String> = stays.kept.iter().map(|kept| format!("{}: {}", kept.session, kept.why)).collect();
    assert_eq!(kept, ["a: session b is a fork of it", "b: it was used meanwhile"]);
    // What was not come to is in no list.
    let mut room = 1;
    let some = super::plan(keep(0), all.to_vec(), NOW, &mut |_| match room {
        0 => ControlFlow::Break(()),
        _ => {
            room -= 1;
            ControlFlow::Continue(None)
        }
    });
    assert_eq!((some.gone.len(), some.gone[0].session.as_str()), (1, "b"));
    assert!(some.kept.iter().all(|kept| kept.session.as_str() != "c" && kept.session.as_str() != "d"), "{some:?}");
}

/// A session without an entry goes with any limit, and takes no place among the newest.
#[test]
fn one_without_an_entry_goes_with_any_limit_and_counts_for_none() {
    let empty = Candidate { seq: Seq::ZERO, bytes: 0, ..one("empty", 0) };
    let all = [empty, one("b", 10), one("a", 20)];
    assert_eq!(swept(SweepPolicy::default(), &all).0, "");
    assert_eq!((swept(keep(2), &all).0, swept(keep(1), &all).0), ("empty".into(), "a empty".into()));
    assert_eq!((swept(bytes(100), &all).0, swept(older(15), &all).0), ("empty".into(), "a empty".into()));
}

/// For any store and any policy: what goes is unprotected, taken by a limit and needed by no session that stays; forks go before
/// their parents; what was taken and stays has its reason; and a limit of bytes is held or nothing more can go.
#[test]
fn no_plan_takes_what_should_stay() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    for _ in 0..3_000 {
        let count = next(12) as usize;
        let mut all: Vec<Candidate> = (0..count)
            .map(|n| Candidate { bytes: next(50), ..one(&format!("s{n:02}"), n as u64 * 10 + next(10)) })
            .collect();
        for n in 0..count {
            // A fork is a separate session, and continues from one other: so the marks make a forest.
            if n > 0 && next(3) == 0 {
                let parent = next(n as u64) as usize;
                let fork = all[n].session.clone();
                all[parent].forks.insert(fork);
            }
            if next(4) == 0 {
                all[n].protected = Some(KeptReason::Protected);
            }
        }
        let policy = SweepPolicy {
            older_than: (next(2) == 0).then(|| Duration::from_millis(next(150))),
            keep_newest: (next(2) == 0).then(|| next(13) as usize),
            bytes_max: (next(2) == 0).then(|| next(300)),
        };
        let sweep = plan(policy, &all, NOW);
        let of = |session: &SessionId| all.iter().find(|one| one.session == *session).unwrap();
        let mut gone: Vec<&SessionId> = Vec::new();
        for going in &sweep.gone {
            let one = of(&going.session);
            assert_eq!(one.protected, None);
            assert!(one.forks.iter().all(|fork| gone.contains(&fork)), "{policy:?} {all:?}");
            gone.push(&going.session);
        }
        let place = |session: &SessionId| all.iter().position(|one| one.session == *session).unwrap();
        for one in &all {
            let old = policy.older_than.is_some_and(|limit| u128::from(NOW.0 - one.last.0) > limit.as_millis());
            let beyond = policy.keep_newest.is_some_and(|keep| place(&one.session) >= keep);
            let went = gone.contains(&&one.session);
            let kept = sweep.kept.iter().any(|kept| kept.session == one.session);
            assert!(!(went && kept));
            if old || beyond {
                assert!(went || kept, "{policy:?} {all:?}");
            } else if policy.bytes_max.is_none() {
                assert!(!went && !kept);
            }
        }
        if let Some(max) = policy.bytes_max {
            let stays = all.iter().filter(|one| !gone.contains(&&one.session));
            let left: u64 = stays.clone().map(|one| one.bytes).sum();
            let free = |one: &Candidate| one.protected.is_none() && one.forks.iter().all(|fork| gone.contains(&fork));
            assert!(left <= max || stays.clone().all(|one| !free(one)), "{policy:?} {all:?}");
        }
    }
}

/// A store of years is planned in one pass: no session is checked again for each other one. (It took hours.)
#[test]
fn a_plan_over_a_hundred_thousand_sessions_is_made_in_one_pass() {
    const COUNT: usize = 100_000;
    // Each continues from the one before it, so that they can go only in this order; a third of them is needed by a session that
    // stays.
    let mut all: Vec<Candidate> = (0..COUNT).map(|n| one(&format!("s{n:06}"), n as u64)).collect();
    for (n, one) in all.iter_mut().enumerate().skip(1) {
        one.forks = [format!("s{:06}", n - 1).parse().unwrap()].into();
    }
    let everything = plan(bytes(0), &all, NOW);
    assert_eq!((everything.gone.len(), everything.kept.len()), (COUNT, 0));
    assert_eq!(everything.gone[0].session.as_str(), "s000000", "the fork before what it goes on from");
    let half = plan(bytes(10 * COUNT as u64 / 2), &all, NOW);
    assert_eq!(half.gone.len(), COUNT / 2);
    all[COUNT / 3].protected = Some(KeptReason::Live);
    let needed = plan(keep(0), &all, NOW);
    assert_eq!(needed.gone.len(), COUNT / 3);
    assert_eq!(needed.kept.len(), COUNT - COUNT / 3);
}
