//! A removal beside a protection, a fork and another removal: they agree on what came first, over every engine.

use std::{fs, sync::Barrier};

use super::{engines::each_engine, support::*};
use crate::{
    tape::{Deleted, Mark, Store, TapeError, TapeStore, finish_deletions},
    words::ids::{Millis, Seq},
};

const NOW: Millis = Millis(1_733_000_000_000);
const ROUNDS: usize = 60;

/// Makes the session `p`, of one entry.
fn make_one(store: &dyn TapeStore) {
    let (notify, _told) = listener();
    let mut tape = store.create(&id("p"), notify).unwrap();
    // Now or later: it is on the tape once the store has settled.
    let _ = tape.append(&[entry(1)]);
    drop(tape);
    assert!(store.settle(LONG));
}

/// Does two things at one moment, each a little earlier than the other in some of the rounds.
fn at_once<A: Send, B: Send>(round: usize, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
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

/// The same, step by step: what another store protects while it has the decision is seen by a removal that waits for it.
#[test]
fn a_removal_looks_at_the_marks_when_it_has_the_decision() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), small()).unwrap();
    make_one(&store);
    let decision = fs::File::open(store.layout().sessions()).unwrap();
    decision.lock().unwrap();
    let kept = std::thread::scope(|scope| {
        let removing = scope.spawn(|| store.erase(&id("p"), None, &[Mark::Protected]));
        // It waits for the decision by then. If it is not that far, it checks later, and still sees the mark.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let protected = store.layout().protected();
        fs::create_dir_all(&protected).and_then(|()| fs::write(protected.join("p"), "")).unwrap();
        decision.unlock().unwrap();
        removing.join().unwrap()
    });
    assert_eq!(kept.unwrap(), Some(Mark::Protected));
    assert!(store.exists(&id("p")));
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

/// The deletion of the last fork was killed before the hidden one: the next start erases that, and leaves what has forks.
#[test]
fn what_was_hidden_and_has_no_fork_is_erased_at_the_next_start() {
    each_engine(|engine, store| {
        make_one(store);
        for fork in ["f", "g"] {
            store.fork(&id("p"), None, &id(fork), NOW).unwrap();
        }
        store.fork(&id("f"), None, &id("h"), NOW).unwrap();
        for hidden in ["p", "f"] {
            assert_eq!(store.delete(&id(hidden)).unwrap(), Deleted::Hidden, "{engine}");
        }
        // The marks say that there are forks, as after a kill.
        assert_eq!(store.erase(&id("h"), None, &[]).unwrap(), None);
        assert_eq!(finish_deletions(store).len(), 0, "{engine}");
        assert_eq!(store.names().unwrap(), [id("g"), id("p")], "{engine}");
        assert_eq!(store.read(&id("g"), Seq::ZERO).unwrap().len(), 2, "{engine}");
        assert_eq!(store.erase(&id("g"), None, &[]).unwrap(), None);
        assert_eq!(finish_deletions(store).len(), 0, "{engine}");
        assert_eq!(store.names().unwrap(), [], "{engine}");
    });
}

/// Files may say that two sessions continue from each other. Each is still removed.
#[test]
fn sessions_that_name_each_other_as_what_they_go_on_from_can_be_removed() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    make_one(&store);
    for (parent, fork) in [("p", "f"), ("f", "g")] {
        store.fork(&id(parent), None, &id(fork), NOW).unwrap();
    }
    // The session that continues from f takes the place of f's parent.
    let sessions = folder.path().join("sessions");
    fs::rename(sessions.join("p/forks"), sessions.join("g/forks")).unwrap();
    fs::rename(sessions.join("f/forks/g"), sessions.join("f/forks/p")).unwrap();
    fs::rename(sessions.join("p"), folder.path().join("away")).unwrap();
    fs::rename(sessions.join("g"), sessions.join("p")).unwrap();
    let origin = |name| store.forked_from(&id(name)).unwrap().unwrap().parent;
    assert_eq!((origin("p"), origin("f")), (id("f"), id("p")));
    assert_eq!((store.forks_of(&id("p")).unwrap(), store.forks_of(&id("f")).unwrap()), (vec![], vec![id("p")]));
    assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Gone);
    assert_eq!(store.delete(&id("f")).unwrap(), Deleted::Gone);
    assert!(store.list().unwrap().is_empty());
}

/// Two stores on one folder, as two processes have them.
#[test]
fn a_pin_of_one_store_is_seen_by_the_removal_of_another() {
    let folder = own_folder();
    let (one, two) = (Store::open(folder.path(), small()).unwrap(), Store::open(folder.path(), small()).unwrap());
    make_one(&one);
    one.protect(&id("p")).unwrap();
    assert!(!two.delete_unused(&id("p"), Seq(1)).unwrap());
    assert_eq!(one.protected_sessions().unwrap(), [id("p")]);
    for round in 0..ROUNDS {
        one.unprotect(&id("p")).unwrap();
        let (protected, gone) =
            at_once(round, || one.protect(&id("p")), || two.delete_unused(&id("p"), Seq(1)).unwrap());
        assert_eq!(protected.is_err(), gone, "round {round}: {protected:?}");
        if gone {
            assert!(matches!(protected, Err(TapeError::Missing { .. })), "{protected:?}");
            make_one(&one);
        }
    }
}
