//! Opening a store where something is in the way: a full disk, what cannot be replayed or removed, another process at work.

use std::{fs, path::Path, time::Duration};

use super::{crash::Writer, faults::SmallDisk, support::*};
use crate::tape::{Store, TapeError};
#[cfg(feature = "fault-injection")]
use crate::{tape::StoreOptions, words::ids::Seq};

/// What a killed writer left, and how much of its two tapes it had said was there.
fn left_by_a_killed_writer(folder: &Path) -> [u64; 2] {
    Writer::start(folder).kill_after(11)
}

fn owners(store: &Path, ending: &str) -> usize {
    let names = fs::read_dir(store.join("owners")).unwrap().map(|name| name.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|found| found == ending)).count()
}

/// D04: what was kept to close what is open is there for it after a kill, too.
#[test]
fn a_full_disk_is_opened_with_the_room_that_the_dead_one_kept() {
    for durability in ["process", "power"] {
        let Some(disk) = SmallDisk::mount() else {
            eprintln!("skipped: cannot mount a tmpfs here");
            return;
        };
        let path = disk.0.path().join(durability);
        let last = left_by_a_killed_writer(&path);
        assert_eq!(owners(&path, "reserve"), 1);
        let ballast = fs::File::create(disk.0.path().join("ballast")).unwrap();
        while std::io::Write::write(&mut &ballast, &[1; 512]).is_ok() {}
        let store = Store::open(&path, small()).unwrap();
        let report = store.report();
        assert_eq!((report.dead_owners, report.undone.len()), (1, 0), "{:?}", report.undone);
        for (name, last) in ["a", "b"].into_iter().zip(last) {
            let (mut tape, said) = Waiting::load(&store, &id(name));
            assert!(said.len() as u64 >= last);
            let next = said.len() as u64 + 1;
            tape.append(&[entry(next)]).unwrap();
            drop(tape);
            assert_eq!(load_entries(&store, &id(name)), entries(1..=next));
        }
        store.close(LONG).unwrap();
    }
}

/// D04: also if it was freed before the end came: what opening takes is kept apart.
#[test]
fn a_full_disk_is_opened_when_the_dead_one_had_given_up_its_room() {
    for durability in ["process", "power"] {
        let Some(disk) = SmallDisk::mount() else {
            eprintln!("skipped: cannot mount a tmpfs here");
            return;
        };
        let path = disk.0.path().join(durability);
        let last = left_by_a_killed_writer(&path);
        let names = fs::read_dir(path.join("owners")).unwrap().map(|name| name.unwrap().path());
        let reserve = names.filter(|path| path.extension().is_some_and(|ending| ending == "reserve")).last().unwrap();
        fs::remove_file(reserve).unwrap();
        let mut ballast = fs::File::create(disk.0.path().join("ballast")).unwrap();
        while std::io::Write::write(&mut ballast, &[1; 512]).is_ok() {}
        for _ in 0..3 {
            let store = Store::open(&path, small()).unwrap();
            assert_eq!(store.report().undone.len(), 0, "{:?}", store.report().undone);
            assert_eq!((owners(&path, "lock"), owners(&path, "spare")), (1, 1), "and the next one can, too");
            for (name, last) in ["a", "b"].into_iter().zip(last) {
                assert!(load_entries(&store, &id(name)).len() as u64 >= last);
            }
            store.close(LONG).unwrap();
        }
    }
}

/// Puts a folder where a file was, which no disk can write; returns how to undo that.
fn spoil(path: &Path) -> impl FnOnce() + use<> {
    let (path, moved) = (path.to_owned(), path.with_extension("moved"));
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    move || {
        fs::remove_dir(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
    }
}

#[test]
fn one_session_that_cannot_be_replayed_keeps_nobody_from_the_others() {
    let folder = own_folder();
    let path = folder.path().join("power");
    let last = left_by_a_killed_writer(&path);
    let mend = spoil(&path.join("sessions/b/anchors/001_session-start/entries.jsonl"));
    for _ in 0..2 {
        let store = Store::open(&path, small()).unwrap();
        let report = store.report();
        assert_eq!((report.dead_owners, report.undone.len()), (0, 1), "{:?}", report.undone);
        assert!(matches!(store.load(&id("b"), deaf()), Err(TapeError::Io { .. })), "it is not read without its log");
        assert!(load_entries(&store, &id("a")).len() as u64 >= last[0]);
        store.close(LONG).unwrap();
        let mut left = fs::read_dir(path.join("owners")).unwrap().map(|name| fs::read(name.unwrap().path()).unwrap());
        assert!(
            left.next().is_some_and(|says| !says.is_empty()),
            "who it was is known for as long as there is its log"
        );
    }
    let store = Store::open(&path, small()).unwrap();
    mend();
    let said = load_entries(&store, &id("b"));
    assert!(said.len() as u64 >= last[1], "{} of {}", said.len(), last[1]);
    assert_eq!(said, entries(1..=said.len() as u64));
    assert_eq!(fs::read_dir(path.join("commit")).unwrap().count(), 0, "nothing is left of the dead");
    store.close(LONG).unwrap();
}

#[test]
fn a_log_that_cannot_be_read_keeps_nobody_from_the_sessions_of_others() {
    let folder = own_folder();
    let path = folder.path().join("power");
    let store = Store::open(&path, small()).unwrap();
    let mut tape = Waiting::create(&store, &id("other"));
    tape.append(&[entry(1)]).unwrap();
    drop(tape);
    store.close(LONG).unwrap();
    left_by_a_killed_writer(&path);
    let log = fs::read_dir(path.join("commit")).unwrap().next().unwrap().unwrap().path();
    let mend = spoil(&log);
    let store = Store::open(&path, small()).unwrap();
    assert_eq!(store.report().undone.len(), 1, "{:?}", store.report().undone);
    assert_eq!(load_entries(&store, &id("other")), entries(1..=1));
    assert!(store.load(&id("a"), deaf()).is_err());
    mend();
    assert!(!load_entries(&store, &id("a")).is_empty());
    store.close(LONG).unwrap();
}

/// The others are still finished, in any order of the folder.
#[test]
fn a_deletion_that_cannot_be_finished_keeps_nobody_out() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("s"), deaf()).unwrap());
    store.close(LONG).unwrap();
    let deleted = folder.path().join("deleted");
    fs::create_dir(&deleted).unwrap();
    for n in 0..8 {
        fs::write(deleted.join(format!("file-{n}.1")), "no folder").unwrap();
        fs::create_dir(deleted.join(format!("folder-{n}.1"))).unwrap();
    }
    let store = Store::open(folder.path(), small()).unwrap();
    assert_eq!(store.report().undone.len(), 8, "{:?}", store.report().undone);
    let left = || fs::read_dir(&deleted).unwrap().map(|name| name.unwrap().path());
    assert!(left().all(|path| path.is_file()), "what can be removed is: {:?}", left().collect::<Vec<_>>());
    assert_eq!(load_entries(&store, &id("s")), []);
    store.close(LONG).unwrap();
}

#[test]
fn what_somebody_died_over_goes_with_the_next_one_to_open() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let draft = folder.path().join("owners/1-dead");
    fs::write(&draft, "half").unwrap();
    Store::open(folder.path(), small()).unwrap().close(LONG).unwrap();
    assert!(!draft.exists());
    assert_eq!(fs::read_to_string(folder.path().join("version")).unwrap(), "1\n");
    assert_eq!(owners(folder.path(), "lock"), 1, "who is there keeps its own");
    store.close(LONG).unwrap();
}

/// Stops a store in the middle of its replay of a dead owner's log, and lets another one do something meanwhile.
fn beside_a_replay<T: Send>(path: &Path, meanwhile: impl FnOnce() -> T + Send) -> T {
    let disk = FakeDisk::new();
    disk.shut();
    std::thread::scope(|scope| {
        let replaying = scope.spawn(|| store_on(path, small(), &disk));
        disk.wait_until_one_waits();
        let (tell, told) = std::sync::mpsc::channel();
        scope.spawn(move || drop(tell.send(meanwhile())));
        // It waits for the other one, or was answered something at once.
        let early = told.recv_timeout(Duration::from_millis(200));
        disk.open_up();
        replaying.join().unwrap().close(LONG).unwrap();
        early.unwrap_or_else(|_| told.recv_timeout(LONG).unwrap())
    })
}

/// Promise 7: the owner that is named is one that has it.
#[test]
fn nobody_is_told_that_a_dead_process_has_a_session() {
    let folder = own_folder();
    let path = folder.path().join("power");
    let two = Store::open(&path, small()).unwrap();
    let last = left_by_a_killed_writer(&path);
    let said = beside_a_replay(&path, || two.load(&id("a"), deaf()).map(|loaded| loaded.entries.len() as u64));
    assert!(said.unwrap() >= last[0]);
}

/// One dead neighbour with a full log delays no caller who only wants room, or a mark.
#[test]
fn who_replays_a_log_to_load_a_session_holds_up_no_other() {
    let folder = own_folder();
    let path = folder.path().join("power");
    let disk = FakeDisk::new();
    let store = store_on(&path, small(), &disk);
    let other = Waiting::create(&store, &id("other"));
    left_by_a_killed_writer(&path);
    disk.shut();
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| store.load(&id("a"), deaf()).map(drop));
        disk.wait_until_one_waits();
        let (tell, told) = std::sync::mpsc::channel();
        let store = &store;
        scope.spawn(move || {
            let released = store.release_reserve();
            drop(store.create(&id("third"), deaf()).unwrap());
            let claimed = store.delete(&id("other"));
            tell.send((released, matches!(claimed, Err(TapeError::Claimed { .. })))).unwrap();
        });
        let said = told.recv_timeout(LONG / 4);
        disk.open_up();
        assert_eq!(said, Ok((true, true)));
        loading.join().unwrap().unwrap();
    });
    drop(other);
    store.close(LONG).unwrap();
}

/// Of two that are started together on what a dead one left, each sees its open turns.
#[test]
fn a_store_that_opens_while_another_replays_sees_what_was_open() {
    let folder = own_folder();
    let path = folder.path().join("power");
    left_by_a_killed_writer(&path);
    let open = beside_a_replay(&path, || Store::open(&path, small()).unwrap().open_sessions().unwrap());
    assert_eq!(open, [id("a"), id("b")]);
}

/// A session of the same name was made while the deletion of the old one failed half-way: it stays claimed.
#[cfg(feature = "fault-injection")]
#[test]
fn a_deletion_that_fails_half_way_leaves_the_claim_of_who_came_after() {
    use std::sync::{Arc, Mutex};
    let folder = own_folder();
    let path = folder.path().to_owned();
    let made = Arc::new(Mutex::new(None));
    let two = Store::open(&path, small()).unwrap();
    let (slot, other, at) = (made.clone(), two.clone(), path.clone());
    let faults = crate::runtime::Faults::new(move |point, _| {
        if point == "tape.delete.unmarked" {
            *slot.lock().unwrap() = Some(other.create(&id("s"), deaf()).unwrap());
            let moved = fs::read_dir(at.join("deleted")).unwrap().next().unwrap().unwrap().path();
            fs::rename(&moved, at.join("moved")).unwrap();
            fs::write(&moved, "no folder").unwrap();
        }
    });
    let one = Store::open(&path, StoreOptions { faults, ..small() }).unwrap();
    let mut tape = Waiting::create(&one, &id("s"));
    tape.append(&[entry(1)]).unwrap();
    drop(tape);
    assert!(matches!(one.delete(&id("s")), Err(TapeError::Io { .. })));
    assert!(path.join("sessions/s/claim").exists());
    assert!(matches!(one.load(&id("s"), deaf()), Err(TapeError::Claimed { .. })));
    let made = made.lock().unwrap().take().unwrap();
    assert_eq!(made.last(), Seq(0));
    drop(made);
    drop(one.load(&id("s"), deaf()).unwrap());
}
