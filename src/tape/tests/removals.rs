//! A removal beside a protection, a fork and another removal: what the races over every engine
//! (`engines/races.rs`) cannot show.

use std::fs;

use super::{
    engines::{
        each_engine,
        races::{ROUNDS, at_once, make_one},
    },
    support::*,
};
use crate::{
    tape::{Deleted, Mark, Store, TapeError, finish_deletions},
    words::ids::{Millis, Seq},
};

const NOW: Millis = Millis(1_733_000_000_000);

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
