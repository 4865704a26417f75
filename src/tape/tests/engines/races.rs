//! A removal beside a protection, a fork and another removal: they agree on what came first. Over every engine, as `claims.rs`.

use std::sync::Barrier;

use tamtam::{
    Millis, Seq,
    tape::{Deleted, Mark, TapeStore, TapeStoreExt as _},
};

use super::{
    claims::{LONG, entry, id, listener},
    each_engine,
};

const NOW: Millis = Millis(1_733_000_000_000);
pub(crate) const ROUNDS: usize = 60;

/// Makes the session `p`, of one entry.
pub(crate) fn make_one(store: &dyn TapeStore) {
    let (notify, _told) = listener();
    let mut tape = store.create(&id("p"), notify).unwrap();
    // Now or later: it is on the tape once the store has settled.
    let _ = tape.append(&[entry(1)]);
    drop(tape);
    assert!(store.settle(LONG));
}

/// Does two things at one moment, each a little earlier than the other in some of the rounds.
pub(crate) fn at_once<A: Send, B: Send>(
    round: usize,
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    let all = Barrier::new(2);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| {
            all.wait();
            (0..round / 8).for_each(|_| std::thread::yield_now());
            one()
        });
        all.wait();
        (0..round % 8).for_each(|_| std::thread::yield_now());
        let other = other();
        (one.join().unwrap(), other)
    })
}

/// Finding: a protection in the moment of the removal went with the session, and its caller was told that it stays. Of the two,
/// the protection holds, or is refused and nothing is left of it.
#[test]
fn of_a_pin_and_a_sweep_at_once_one_has_its_way() {
    each_engine(|engine, store| {
        for round in 0..ROUNDS {
            make_one(store);
            let (protected, gone) =
                at_once(round, || store.protect(&id("p")), || store.delete_unused(&id("p"), Seq(1)).unwrap());
            assert_eq!(protected.is_err(), gone, "{engine}, round {round}: {protected:?}");
            assert_eq!(store.protected_sessions().unwrap().is_empty(), gone, "{engine}, round {round}");
            assert_eq!(store.exists(&id("p")), !gone, "{engine}, round {round}");
            if !gone {
                store.delete(&id("p")).unwrap();
            }
        }
    });
}

/// A fork that is made in the moment of a removal keeps its parent, or is not made: none ever exists without it. A sweep does not
/// hide it either.
#[test]
fn a_session_that_is_forked_in_the_moment_of_its_removal_is_there_for_the_fork() {
    each_engine(|engine, store| {
        for round in 0..ROUNDS {
            make_one(store);
            let deletes = round % 2 == 0;
            let fork = || store.fork(&id("p"), None, &id("f"), NOW).map(drop);
            let remove = || match deletes {
                true => store.delete(&id("p")).unwrap() == Deleted::Gone,
                false => store.delete_unused(&id("p"), Seq(1)).unwrap(),
            };
            let (forked, gone) = at_once(round, fork, remove);
            assert_eq!(forked.is_err(), !store.exists(&id("f")), "{engine}, round {round}: {forked:?}");
            if forked.is_ok() {
                assert!(!gone, "{engine}, round {round}");
                assert_eq!(store.read(&id("f"), Seq::ZERO).unwrap().len(), 2, "{engine}, round {round}");
                assert_eq!(store.exists(&id("p")), !deletes, "{engine}, round {round}");
                store.delete(&id("f")).unwrap();
            }
            if store.exists(&id("p")) {
                store.delete(&id("p")).unwrap();
            }
            assert_eq!((store.names().unwrap(), store.marks(Mark::Fork, None).unwrap()), (vec![], vec![]), "{engine}");
        }
    });
}

/// Each takes one fork of a deleted session away, and with the last one it goes too, whichever that is.
#[test]
fn two_that_delete_the_last_forks_at_once_leave_nothing() {
    each_engine(|engine, store| {
        for round in 0..ROUNDS {
            make_one(store);
            for fork in ["f", "g"] {
                store.fork(&id("p"), None, &id(fork), NOW).unwrap();
            }
            assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Hidden, "{engine}");
            let (one, other) = at_once(round, || store.delete(&id("f")), || store.delete(&id("g")));
            assert_eq!((one.unwrap(), other.unwrap()), (Deleted::Gone, Deleted::Gone), "{engine}, round {round}");
            assert_eq!(store.names().unwrap(), [], "{engine}, round {round}");
        }
    });
}
