//! `Durability::Power`: what is left when the machine stops.

use std::{fs, path::Path, sync::atomic::Ordering};

use super::support::*;
use crate::{
    tape::{Deleted, Store, StoreOptions, TapeError},
    words::ids::{Millis, Seq},
};

pub(super) fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for item in fs::read_dir(from).unwrap() {
            let item = item.unwrap();
            copy(&item.path(), &to.join(item.file_name()));
        }
    } else if from.extension().is_none_or(|e| e != "reserve") {
        fs::copy(from, to).unwrap();
    }
}

/// The commit log has everything, the session files have any part of it: cut anywhere, zeros from anywhere.
#[test]
fn the_commit_log_brings_back_what_the_session_files_lost() {
    let folder = own_folder();
    let store = Store::open(folder.path().join("store"), power()).unwrap();
    let mut a = Waiting::create(&store, &id("a"));
    let mut b = Waiting::create(&store, &id("b"));
    for round in 0..3 {
        a.append(&entries(round * 2 + 1..=round * 2 + 2)).unwrap();
        b.append(&entries(round + 1..=round + 1)).unwrap();
    }
    let appended = b.tape.begin_anchor("later", &entry(4));
    b.wait(appended).unwrap();
    let path = Path::new("sessions/a/anchors/001_session-start/entries.jsonl");
    let whole = fs::read(store.path().join(path)).unwrap();
    for keep in (0..=whole.len()).step_by(7).chain([whole.len()]) {
        for zeros in [false, true] {
            let after = folder.path().join("after");
            copy(store.path(), &after);
            let mut left = whole[..keep].to_vec();
            if zeros {
                left.resize(whole.len(), 0);
            }
            fs::write(after.join(path), left).unwrap();
            fs::remove_dir_all(after.join("sessions/b/anchors/002_later")).unwrap();
            let again = Store::open(&after, small()).unwrap();
            assert_eq!(again.report().replayed, [id("a"), id("b")]);
            assert_eq!(again.open_sessions().unwrap(), [id("a"), id("b")]);
            assert_eq!(load_entries(&again, &id("a")), entries(1..=6), "{keep} bytes left");
            assert_eq!(load_entries(&again, &id("b")), entries(4..=4));
            assert_eq!(again.read(&id("b"), Seq(0)).unwrap(), entries(1..=4));
            assert_eq!(again.verify_all().unwrap(), []);
            drop(again);
            fs::remove_dir_all(&after).unwrap();
        }
    }
}

/// A protection or a deletion that was acknowledged must not be taken back: the next sweep would remove the session, or a list
/// would show it again.
#[test]
fn a_mark_that_was_set_survives_a_power_cut() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(&folder.path().join("store"), power(), &disk);
    for name in ["a", "b", "c"] {
        Waiting::create(&store, &id(name)).append(&entries(1..=2)).unwrap();
        assert!(store.settle(LONG));
    }
    store.park(&id("a"), Millis(7), "it crashed").unwrap();
    store.protect(&id("b")).unwrap();
    store.fork(&id("c"), Some(Seq(2)), &id("fork"), Millis(7)).unwrap();
    assert_eq!(store.delete(&id("c")).unwrap(), Deleted::Hidden);
    let after = folder.path().join("after");
    copy(store.path(), &after);
    disk.pull_the_plug(store.path(), &after, false);
    let again = Store::open(&after, small()).unwrap();
    assert_eq!(again.parked_sessions().unwrap(), [(id("a"), "it crashed".to_owned())]);
    assert_eq!(again.protected_sessions().unwrap(), [id("b")]);
    assert_eq!(again.forks_of(&id("c")).unwrap(), [id("fork")]);
    assert!(!again.exists(&id("c")), "it is hidden");
    store.close(LONG).unwrap();
}

/// Others may have written a session since its owner gave it back: what that owner's log says of it is past.
#[test]
fn a_session_that_was_given_back_is_not_replayed() {
    let folder = own_folder();
    let one = Store::open(folder.path().join("store"), power()).unwrap();
    let mut tape = Waiting::create(&one, &id("s"));
    tape.append(&entries(1..=2)).unwrap();
    drop(tape);
    let kept = Waiting::create(&one, &id("kept"));
    assert!(one.settle(LONG));
    let two = Store::open(folder.path().join("store"), power()).unwrap();
    let (mut tape, _) = Waiting::load(&two, &id("s"));
    tape.append(&entries(3..=4)).unwrap();
    let after = folder.path().join("after");
    copy(one.path(), &after);
    let again = Store::open(&after, small()).unwrap();
    assert_eq!(again.report().replayed, [id("s")], "by the log of the second owner");
    assert_eq!(load_entries(&again, &id("s")), entries(1..=4));
    drop((kept, tape));
}

/// Replay leaves it alone, so it must not need one.
#[test]
fn a_session_that_was_given_back_is_on_the_disk() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(&folder.path().join("store"), power(), &disk);
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&entries(1..=3)).unwrap();
    drop(tape);
    assert!(store.settle(LONG));
    let after = folder.path().join("after");
    copy(store.path(), &after);
    disk.pull_the_plug(store.path(), &after, false);
    let again = Store::open(&after, small()).unwrap();
    assert_eq!(again.report().replayed, []);
    assert_eq!(load_entries(&again, &id("s")), entries(1..=3));
    store.close(LONG).unwrap();
}

/// Acknowledged appends may be in it alone, so it must stay until a version that reads it comes.
#[test]
fn the_log_of_a_later_version_is_kept_and_its_sessions_are_not_opened() {
    let folder = own_folder();
    let writer = Store::open(folder.path().join("store"), power()).unwrap();
    Waiting::create(&writer, &id("other")).append(&entries(1..=1)).unwrap();
    assert!(writer.settle(LONG));
    let mut tape = Waiting::create(&writer, &id("s"));
    tape.append(&entries(1..=3)).unwrap();
    let after = folder.path().join("after");
    copy(writer.path(), &after);
    let log = fs::read_dir(after.join("commit")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&log).unwrap();
    let header = br#"{"tamtam_commit_log":1,"#;
    assert!(bytes.starts_with(header));
    let newer = [br#"{"tamtam_commit_log":2,"#, &bytes[header.len()..]].concat();
    fs::write(&log, &newer).unwrap();
    let again = Store::open(&after, small()).unwrap();
    assert!(matches!(again.report().undone[..], [TapeError::Newer { found: 2, known: 1, .. }]));
    assert!(matches!(again.load(&id("s"), deaf()), Err(TapeError::Newer { found: 2, known: 1, .. })));
    assert_eq!(load_entries(&again, &id("other")), entries(1..=1));
    assert_eq!(fs::read(&log).unwrap(), newer);
    again.close(LONG).unwrap();
    // A version that knows it finds everything.
    fs::write(&log, &bytes).unwrap();
    let again = Store::open(&after, small()).unwrap();
    assert_eq!(load_entries(&again, &id("s")), entries(1..=3));
}

/// A dead owner is found when its session is wanted, not only when a store is opened.
#[test]
fn taking_over_a_claim_replays_the_dead_owners_log_first() {
    let folder = own_folder();
    let writer = Store::open(folder.path().join("store"), power()).unwrap();
    let mut tape = Waiting::create(&writer, &id("s"));
    tape.append(&entries(1..=3)).unwrap();
    let after = folder.path().join("after");
    let store = Store::open(&after, small()).unwrap();
    copy(&writer.path().join("sessions"), &after.join("sessions"));
    copy(&writer.path().join("commit"), &after.join("commit"));
    fs::write(after.join("sessions/s/anchors/001_session-start/entries.jsonl"), b"").unwrap();
    assert_eq!(load_entries(&store, &id("s")), entries(1..=3));
    assert_eq!(fs::read_dir(after.join("commit")).unwrap().count(), 0);
}

#[test]
fn many_appends_share_a_sync_and_the_log_begins_again_when_it_is_full() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), power(), &disk);
    let mut tapes: Vec<Waiting> = (0..20).map(|n| Waiting::create(&store, &id(&format!("s{n}")))).collect();
    let big =
        crate::tape::TapeEntry { data: serde_json::value::to_raw_value(&"x".repeat(30_000)).unwrap(), ..entry(41) };
    for next in (1..=40).map(entry).chain([big]) {
        tapes.iter_mut().for_each(|tape| drop(tape.tape.append(std::slice::from_ref(&next))));
        for tape in &tapes {
            assert_eq!(tape.told.recv_timeout(LONG).unwrap().unwrap(), next.seq);
        }
    }
    let log = fs::read_dir(folder.path().join("commit")).unwrap().next().unwrap().unwrap();
    assert_eq!(log.metadata().unwrap().len(), 64 * 1024, "the log does not grow");
    store.close(LONG).unwrap();
    for n in 0..20 {
        assert_eq!(store.read(&id(&format!("s{n}")), Seq(0)).unwrap().len(), 41);
    }
}

/// D02, D03: the plug is pulled after each single operation of the disk, or long after that one operation failed.
/// What was acknowledged is there, whether the bytes that were not synced got to the disk or not; what is there is what
/// was appended.
#[test]
fn whenever_the_plug_is_pulled_what_was_acknowledged_is_there() {
    let options = StoreOptions { commit_log_bytes: 4096, ..power() };
    for count in [1, 10_000] {
        let operations = (0..).find(|nth| !pull_the_plug_after(&options, *nth, count)).unwrap();
        assert!(operations > 50, "the disk was used {operations} times only");
    }
}

/// Says whether the operation was ever reached.
fn pull_the_plug_after(options: &StoreOptions, nth: usize, count: usize) -> bool {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(&folder.path().join("store"), options.clone(), &disk);
    let mut tapes: Vec<Waiting> = ["a", "b"].iter().map(|name| Waiting::create(&store, &id(name))).collect();
    disk.fail_from(nth, count);
    let from = disk.operations.load(Ordering::SeqCst);
    let mut acknowledged = [0, 0];
    for round in 0..8 {
        for (tape, last) in tapes.iter_mut().zip(&mut acknowledged) {
            let next = *last + 1;
            let written = if round == 4 {
                let appended = tape.tape.begin_anchor("later", &entry(next));
                tape.wait(appended)
            } else {
                tape.append(&entries(next..=next + 1))
            };
            if let Ok(seq) = written {
                *last = seq.0;
            }
        }
    }
    assert!(store.settle(LONG));
    let reached = disk.operations.load(Ordering::SeqCst) - from > nth;
    for with_unsynced in [false, true] {
        let after = folder.path().join("after");
        copy(store.path(), &after);
        disk.pull_the_plug(store.path(), &after, with_unsynced);
        let again = Store::open(&after, small()).unwrap();
        for (name, last) in ["a", "b"].into_iter().zip(acknowledged) {
            let loaded = again.load(&id(name), deaf()).unwrap();
            assert_eq!(loaded.read_only, None, "operation {nth}");
            drop(loaded);
            let found = again.read(&id(name), Seq(0)).unwrap();
            assert!(found.len() as u64 >= last, "{name}: {} of {last}, operation {nth}", found.len());
            assert_eq!(found, entries(1..=found.len() as u64), "operation {nth}");
        }
        assert_eq!(again.verify_all().unwrap(), []);
        again.close(LONG).unwrap();
        fs::remove_dir_all(&after).unwrap();
    }
    disk.heal();
    store.close(LONG).unwrap();
    reached
}
