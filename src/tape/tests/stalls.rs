//! A stalled disk: one caller at most waits for it, and all others continue.

use std::{fs, sync::Arc, time::Duration};

use super::support::*;
use crate::{
    tape::{Appended, Store, StoreOptions, TapeError},
    words::ids::Seq,
};

/// A store with tapes, of which the first is held up in place by the disk for as long as `meanwhile` takes.
fn while_the_first_is_held_up(
    names: &[&str],
    meanwhile: impl FnOnce(&Store, &FakeDisk, &mut [Waiting]),
) -> (tempfile::TempDir, Store) {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), small(), &disk);
    let mut tapes: Vec<Waiting> = names.iter().map(|name| Waiting::create(&store, &id(name))).collect();
    let (first, others) = tapes.split_first_mut().unwrap();
    std::thread::scope(|scope| {
        disk.shut();
        let held_up = scope.spawn(|| first.tape.append(&[entry(1)]));
        disk.wait_until_one_waits();
        meanwhile(&store, &disk, others);
        disk.open_up();
        assert!(matches!(held_up.join().unwrap(), Appended::Now(Ok(Seq(1)))));
    });
    assert!(store.settle(LONG));
    assert!(tapes.iter().flat_map(|tape| tape.told.try_iter()).all(|told| told.is_ok()));
    assert_eq!(store.verify_all().unwrap(), []);
    (folder, store)
}

#[test]
fn an_append_that_the_disk_holds_up_holds_up_no_other_session() {
    while_the_first_is_held_up(&["a", "b", "c", "d"], |_, _, others| {
        for tape in others {
            assert!(matches!(tape.tape.append(&entries(1..=2)), Appended::Later));
            // One of each is on its way at most.
            assert!(matches!(tape.tape.append(&[entry(3)]), Appended::Now(Err(TapeError::Busy { waiting: 1 }))));
        }
    });
}

/// The store's thread is not there to be waited for, either: while its write does not come back, no caller writes in place.
#[test]
fn a_write_of_the_thread_that_does_not_come_back_holds_up_nobody() {
    while_the_first_is_held_up(&["a", "b", "c"], |store, disk, others| {
        let folder = store.path().to_owned();
        assert!(matches!(others[0].tape.append(&[entry(1)]), Appended::Later));
        disk.wait_until_so_many_wait(2);
        // The first is through, and the thread still hangs there.
        disk.open_but_to(r#""session":"b""#);
        let written = folder.join("sessions/a/anchors/001_session-start/entries.jsonl");
        while fs::metadata(&written).unwrap().len() == 0 {
            std::thread::yield_now();
        }
        // It frees its place right after that.
        (0..1000).for_each(|_| std::thread::yield_now());
        assert!(matches!(others[1].tape.append(&[entry(1)]), Appended::Later));
    });
}

/// A release of a session does not wait for the disk, and is reported only when others can have it.
#[test]
fn a_session_is_given_back_behind_what_the_disk_holds_up() {
    let (tell, told) = std::sync::mpsc::channel();
    let (_folder, store) = while_the_first_is_held_up(&["a", "b"], |store, disk, others| {
        let leaves = store.create(&id("leaves"), deaf()).unwrap();
        assert!(matches!(others[0].tape.append(&[entry(1)]), Appended::Later));
        disk.wait_until_so_many_wait(2);
        leaves.give_back(Box::new(move || tell.send(()).unwrap()));
        assert_eq!(told.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        assert!(store.claimed_sessions().unwrap().contains(&id("leaves")));
    });
    told.recv_timeout(LONG).unwrap();
    assert_eq!(store.claimed_sessions().unwrap(), []);
}

/// Finding: it waited for the write, however long that took, and with it the end of a runtime.
#[test]
fn a_store_is_closed_within_its_limit_while_an_append_in_place_is_held_up() {
    let (folder, store) = while_the_first_is_held_up(&["a", "b"], |store, _, others| {
        assert!(matches!(store.load(&id("a"), deaf()), Err(TapeError::Claimed { .. })), "nor does a load wait for it");
        assert!(matches!(store.close(Duration::ZERO), Err(TapeError::Busy { .. })));
        assert!(matches!(others[0].tape.append(&[entry(1)]), Appended::Now(Err(TapeError::Closed))));
        // Until it comes back no one else writes there.
        let other = Store::open(store.path(), small()).unwrap();
        assert!(matches!(other.load(&id("a"), deaf()), Err(TapeError::Claimed { .. })));
    });
    store.close(LONG).unwrap();
    let other = Store::open(folder.path(), small()).unwrap();
    assert_eq!(load_entries(&other, &id("a")), [entry(1)]);
    assert_eq!(load_entries(&other, &id("b")), []);
}

/// The mark of an open turn is made before the append that opens it, and taken away after all that came before.
#[test]
fn marks_of_open_turns_are_left_to_the_thread_while_the_disk_stands_still() {
    let (_folder, store) = while_the_first_is_held_up(&["a", "b", "c"], |store, disk, others| {
        for _ in 0..3 {
            store.mark_open(&id("b")).unwrap();
        }
        assert!(matches!(others[0].tape.append(&[entry(1)]), Appended::Later));
        disk.wait_until_so_many_wait(2);
        // The thread is at the append of b, and what comes now is after it.
        store.mark_open(&id("c")).unwrap();
        assert!(matches!(others[1].tape.append(&[entry(1)]), Appended::Later));
        assert_eq!(store.open_sessions().unwrap(), [id("b")]);
        store.mark_closed(&id("c")).unwrap();
    });
    assert_eq!(store.open_sessions().unwrap(), [id("b")]);
    store.mark_closed(&id("b")).unwrap();
    assert_eq!(store.open_sessions().unwrap(), [], "in place, now that it is calm");
}

/// Also where the disk is calm again and the thread has only not come to a mark yet: the one that comes later stays.
#[test]
fn a_mark_does_not_pass_one_that_waits() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), small(), &disk);
    let (told, tells) = std::sync::mpsc::channel();
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let waits = std::sync::Mutex::new(waits);
    let holds_up = Arc::new(move |_| {
        told.send(()).unwrap();
        let _ = waits.lock().unwrap().recv_timeout(LONG);
    });
    let mut queued = store.create(&id("queued"), holds_up).unwrap();
    let mut first = Waiting::create(&store, &id("first"));
    let tape = Waiting::create(&store, &id("s"));
    std::thread::scope(|scope| {
        disk.shut();
        let held_up = scope.spawn(|| first.tape.append(&[entry(1)]));
        disk.wait_until_one_waits();
        assert!(matches!(queued.append(&[entry(1)]), Appended::Later));
        disk.wait_until_so_many_wait(2);
        store.mark_open(&id("s")).unwrap();
        disk.open_up();
        assert!(matches!(held_up.join().unwrap(), Appended::Now(Ok(Seq(1)))));
    });
    // The thread reports the append before the mark to a slow receiver.
    tells.recv_timeout(LONG).unwrap();
    store.mark_closed(&id("s")).unwrap();
    go_on.send(()).unwrap();
    assert!(store.settle(LONG));
    assert_eq!(store.open_sessions().unwrap(), [], "its turn is over");
    drop(tape);
}

/// Promise 11: a session is refused on each try, and that makes no work for later.
#[test]
fn a_turn_that_is_refused_again_and_again_leaves_one_mark_to_be_put() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    disk.be_slow();
    let store = store_on(folder.path(), StoreOptions { queue_appends_max: 3, ..small() }, &disk);
    let [mut a, mut b, mut c, mut d] = ["a", "b", "c", "d"].map(|name| Waiting::create(&store, &id(name)));
    a.append(&[entry(1)]).unwrap();
    disk.shut();
    for (tape, seq) in [(&mut a, 2), (&mut c, 1), (&mut d, 1)] {
        assert!(matches!(tape.tape.append(&[entry(seq)]), Appended::Later));
    }
    disk.wait_until_one_waits();
    for _ in 0..100 {
        store.mark_open(&id("b")).unwrap();
        assert!(matches!(b.tape.append(&[entry(1)]), Appended::Now(Err(TapeError::Busy { waiting: 4 }))));
        store.mark_closed(&id("b")).unwrap();
    }
    disk.open_up();
    assert!(store.settle(LONG));
    assert_eq!(store.open_sessions().unwrap(), []);
    // What was wanted last is what is put.
    disk.shut();
    for tape in [&mut a, &mut b] {
        let next = entry(tape.tape.last().0 + 1);
        assert!(matches!(tape.tape.append(&[next]), Appended::Later));
    }
    disk.wait_until_one_waits();
    store.mark_closed(&id("b")).unwrap();
    store.mark_open(&id("b")).unwrap();
    assert_eq!(store.open_sessions().unwrap(), []);
    disk.open_up();
    assert!(store.settle(LONG));
    assert_eq!(store.open_sessions().unwrap(), [id("b")]);
}

/// Promise 5: it would never be found again.
#[test]
fn a_turn_whose_mark_cannot_be_made_does_not_begin() {
    for options in [small(), power()] {
        let folder = own_folder();
        let disk = FakeDisk::new();
        disk.be_slow();
        let store = store_on(folder.path(), options, &disk);
        let [mut a, mut b] = ["a", "b"].map(|name| Waiting::create(&store, &id(name)));
        a.append(&[entry(1)]).unwrap();
        disk.shut();
        assert!(matches!(a.tape.append(&[entry(2)]), Appended::Later));
        disk.wait_until_one_waits();
        let (open, aside) = (folder.path().join("open"), folder.path().join("aside"));
        fs::rename(&open, &aside).unwrap();
        fs::write(&open, "no folder").unwrap();
        store.mark_open(&id("b")).unwrap();
        assert!(matches!(b.tape.append(&[entry(1)]), Appended::Later));
        disk.open_up();
        assert!(matches!(b.told.recv_timeout(LONG).unwrap(), Err(TapeError::Io { .. })));
        assert_eq!(a.told.recv_timeout(LONG).unwrap().unwrap(), Seq(2));
        fs::remove_file(&open).unwrap();
        fs::rename(&aside, &open).unwrap();
        assert!(store.settle(LONG));
        store.mark_open(&id("b")).unwrap();
        b.append(&entries(1..=2)).unwrap();
        assert_eq!(store.open_sessions().unwrap(), [id("b")]);
        assert_eq!(store.read(&id("b"), Seq(0)).unwrap(), entries(1..=2));
        store.close(LONG).unwrap();
    }
}

/// The same where the disk has refused the mark before the append is there: its entries are made into lines meanwhile.
#[test]
fn a_turn_whose_mark_could_not_be_made_by_then_does_not_begin() {
    for options in [small(), power()] {
        let folder = own_folder();
        let disk = FakeDisk::new();
        disk.be_slow();
        let store = store_on(folder.path(), options, &disk);
        let [mut a, mut b] = ["a", "b"].map(|name| Waiting::create(&store, &id(name)));
        b.append(&[entry(1)]).unwrap();
        disk.shut();
        assert!(matches!(a.tape.append(&[entry(1)]), Appended::Later));
        disk.wait_until_one_waits();
        let (open, aside) = (folder.path().join("open"), folder.path().join("aside"));
        fs::rename(&open, &aside).unwrap();
        fs::write(&open, "no folder").unwrap();
        store.mark_open(&id("b")).unwrap();
        disk.open_up();
        assert_eq!(a.told.recv_timeout(LONG).unwrap().unwrap(), Seq(1));
        assert!(store.settle(LONG));
        assert!(matches!(b.tape.append(&[entry(2)]), Appended::Now(Err(TapeError::Io { .. }))));
        fs::remove_file(&open).unwrap();
        fs::rename(&aside, &open).unwrap();
        store.mark_open(&id("b")).unwrap();
        b.append(&[entry(2)]).unwrap();
        assert!(store.settle(LONG));
        assert_eq!(store.open_sessions().unwrap(), [id("b")]);
        assert_eq!(store.read(&id("b"), Seq(0)).unwrap(), entries(1..=2));
        store.close(LONG).unwrap();
    }
}

/// So is the claim of a handle that is dropped meanwhile.
#[test]
fn a_handle_that_is_dropped_while_the_disk_stands_still_waits_for_nothing() {
    let (_folder, store) = while_the_first_is_held_up(&["a", "b", "c"], |store, disk, others| {
        // The thread is at the append of c, and what comes now is after it.
        assert!(matches!(others[1].tape.append(&[entry(1)]), Appended::Later));
        disk.wait_until_so_many_wait(2);
        let (notify, _) = listener();
        let gone = std::mem::replace(&mut others[0].tape, store.create(&id("other"), notify).unwrap());
        let claim = store.path().join("sessions/b/claim");
        drop(gone);
        assert!(claim.exists(), "it was left to the thread");
    });
    assert_eq!(load_entries(&store, &id("b")), []);
}

/// An append in place costs the disk what it did: a look at the length and a write.
#[test]
fn an_append_in_place_is_two_operations_of_the_disk() {
    use std::sync::atomic::Ordering;
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), small(), &disk);
    let mut tape = store.create(&id("s"), Arc::new(|_| {})).unwrap();
    assert!(matches!(tape.append(&[entry(1)]), Appended::Now(Ok(Seq(1)))));
    let before = disk.operations.load(Ordering::SeqCst);
    for seq in 2..=11 {
        assert!(matches!(tape.append(&[entry(seq)]), Appended::Now(Ok(_))));
    }
    assert_eq!(disk.operations.load(Ordering::SeqCst) - before, 20);
    assert_eq!(fs::read_dir(folder.path().join("commit")).unwrap().count(), 0);
}
