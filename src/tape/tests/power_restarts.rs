//! `Durability::Power`: sessions that are released, deleted, made again and written by others, and what the commit log says of
//! their earlier lives. A copy of the store's folder is what a `kill -9` leaves.

use std::{fs, path::Path, sync::atomic::Ordering};

use serde_json::value::to_raw_value;

use super::{power::copy, support::*};
use crate::{
    tape::{Store, StoreOptions, TapeEntry},
    words::ids::Seq,
};

/// A log that is full after a few appends.
fn tight() -> StoreOptions {
    StoreOptions { commit_log_bytes: 4096, ..power() }
}

/// An entry with so many bytes in it.
fn sized(seq: u64, bytes: usize) -> TapeEntry {
    TapeEntry { data: to_raw_value(&"x".repeat(bytes)).unwrap(), ..entry(seq) }
}

/// A tape of five entries in two anchors.
fn write_two_anchors(store: &Store, name: &str) -> Waiting {
    let mut tape = Waiting::create(store, &id(name));
    tape.append(&entries(1..=3)).unwrap();
    let appended = tape.tape.begin_anchor("later", &entry(4));
    tape.wait(appended).unwrap();
    tape.append(&[entry(5)]).unwrap();
    tape
}

fn give_back(store: &Store, tape: Waiting) {
    drop(tape);
    assert!(store.settle(LONG));
}

/// Appends until the log has begun again from its start a few times.
fn fill_the_log(tape: &mut Waiting) -> Vec<String> {
    let mut failed = Vec::new();
    for _ in 0..40 {
        let next = entry(tape.tape.last().0 + 1);
        failed.extend(tape.append(&[next]).err().map(|error| error.to_string()));
    }
    failed
}

/// What is there after the power was cut, or after a `kill -9` without a disk.
fn after_the_end(store: &Store, disk: Option<&FakeDisk>, holds: impl FnOnce(&Store)) {
    let folder = own_folder();
    let after = folder.path().join("after");
    copy(store.path(), &after);
    if let Some(disk) = disk {
        disk.pull_the_plug(store.path(), &after, false);
    }
    let again = Store::open(&after, small()).unwrap();
    holds(&again);
    assert_eq!(again.verify_all().unwrap(), []);
    again.close(LONG).unwrap();
}

/// Replay leaves it alone, so none of its files may need one: not those of earlier anchors either.
#[test]
fn a_session_that_was_given_back_is_on_the_disk_with_all_its_anchors() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), power(), &disk);
    give_back(&store, write_two_anchors(&store, "s"));
    after_the_end(&store, Some(&disk), |again| {
        assert_eq!(again.report().replayed, []);
        assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), entries(1..=5));
    });
    store.close(LONG).unwrap();
}

/// A sync that failed is not repeated as if nothing had been: not by the next release of the session either.
#[test]
fn a_session_that_could_not_be_synced_is_on_the_disk_when_it_is_given_back_again() {
    for nth in 0..6 {
        let folder = own_folder();
        let disk = FakeDisk::new();
        let store = store_on(folder.path(), power(), &disk);
        let tape = write_two_anchors(&store, "s");
        disk.fault_in(nth, Fault::Fail);
        give_back(&store, tape);
        disk.heal();
        let (tape, _) = Waiting::load(&store, &id("s"));
        give_back(&store, tape);
        assert!(!folder.path().join("sessions/s/claim").exists());
        after_the_end(&store, Some(&disk), |again| {
            assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), entries(1..=5), "operation {nth}");
        });
        store.close(LONG).unwrap();
    }
}

/// A deleted session is forgotten: no append fails over it, and it does not come back.
#[test]
fn a_deleted_session_fails_no_append_of_others_and_stays_deleted() {
    let folder = own_folder();
    let store = Store::open(folder.path(), tight()).unwrap();
    give_back(&store, write_two_anchors(&store, "gone"));
    store.delete(&id("gone")).unwrap();
    let mut other = Waiting::create(&store, &id("other"));
    assert_eq!(fill_the_log(&mut other), Vec::<String>::new());
    let names = fs::read_dir(folder.path().join("sessions")).unwrap();
    assert_eq!(names.map(|name| name.unwrap().file_name()).collect::<Vec<_>>(), ["other"]);
    drop(other);
    store.close(LONG).unwrap();
}

/// The same if it was deleted by hand, while the session was open: it fails alone.
#[test]
fn a_session_whose_folder_is_gone_fails_no_append_of_others_and_is_not_made_again() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(folder.path(), tight(), &disk);
    let gone = write_two_anchors(&store, "gone");
    let mut other = Waiting::create(&store, &id("other"));
    fs::remove_dir_all(folder.path().join("sessions/gone")).unwrap();
    assert_eq!(fill_the_log(&mut other), Vec::<String>::new());
    give_back(&store, gone);
    assert_eq!(fill_the_log(&mut other), Vec::<String>::new());
    assert!(!folder.path().join("sessions/gone").exists());
    drop(other);
    store.close(LONG).unwrap();
}

/// A large append is synced separately and is not in the log: when files are written again from the log, it stays.
#[test]
fn what_is_written_again_after_a_failed_sync_is_not_cut_before_a_large_append() {
    for nth in 0..6 {
        let folder = own_folder();
        let disk = FakeDisk::new();
        let store = store_on(folder.path(), tight(), &disk);
        let mut kept = Waiting::create(&store, &id("kept"));
        kept.append(&[entry(1)]).unwrap();
        kept.append(&[sized(2, 3000)]).unwrap();
        let mut other = Waiting::create(&store, &id("other"));
        other.append(&[entry(1)]).unwrap();
        disk.fault_in(nth, Fault::Fail);
        give_back(&store, other);
        disk.heal();
        let (mut other, _) = Waiting::load(&store, &id("other"));
        assert_eq!(fill_the_log(&mut other), Vec::<String>::new(), "operation {nth}");
        assert_eq!(store.read(&id("kept"), Seq(0)).unwrap(), [entry(1), sized(2, 3000)], "operation {nth}");
        kept.append(&[entry(3)]).unwrap();
        drop((kept, other));
        store.close(LONG).unwrap();
    }
}

/// What the log says of a session is about the one that had the name then, and not about the next one.
#[test]
fn a_session_made_anew_does_not_get_what_the_deleted_one_said() {
    let folder = own_folder();
    let store = Store::open(folder.path(), power()).unwrap();
    give_back(&store, write_two_anchors(&store, "s"));
    store.delete(&id("s")).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    after_the_end(&store, None, |again| {
        assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), []);
        let anchors = fs::read_dir(again.path().join("sessions/s/anchors")).unwrap();
        assert_eq!(anchors.map(|name| name.unwrap().file_name()).collect::<Vec<_>>(), ["001_session-start"]);
    });
    tape.append(&[sized(1, 10)]).unwrap();
    after_the_end(&store, None, |again| assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), [sized(1, 10)]));
    drop(tape);
    store.close(LONG).unwrap();
}

/// The same if another owner deleted it, made it again and wrote it in between.
#[test]
fn a_log_does_not_write_over_what_others_wrote_since() {
    for powers in [[true, true], [true, false]] {
        let folder = own_folder();
        let [one, two] = powers.map(|has_power| {
            let options = if has_power { power() } else { small() };
            Store::open(folder.path(), options).unwrap()
        });
        give_back(&one, write_two_anchors(&one, "s"));
        two.delete(&id("s")).unwrap();
        let mut tape = Waiting::create(&two, &id("s"));
        let others: Vec<TapeEntry> = (1..=9).map(|seq| sized(seq, 7)).collect();
        tape.append(&others).unwrap();
        give_back(&two, tape);
        let (tape, said) = Waiting::load(&one, &id("s"));
        assert_eq!(said, others);
        after_the_end(&one, None, |again| assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), others));
        drop(tape);
    }
}

/// Promise 5: a replay marks only those that the log has.
#[test]
fn an_open_turn_is_known_after_a_loss_of_power_whatever_the_log_has_of_it() {
    for (is_in_the_log, then_given_back) in [(true, false), (false, false), (true, true)] {
        let folder = own_folder();
        let disk = FakeDisk::new();
        let store = store_on(folder.path(), tight(), &disk);
        let mut tape = Waiting::create(&store, &id("s"));
        if is_in_the_log {
            tape.append(&[entry(1)]).unwrap();
        }
        store.mark_open(&id("s")).unwrap();
        let next = tape.tape.last().0 + 1;
        if then_given_back {
            tape.append(&[entry(next)]).unwrap();
            give_back(&store, tape);
        } else {
            // Too large for the log.
            tape.append(&[sized(next, 3000)]).unwrap();
        }
        after_the_end(&store, Some(&disk), |again| {
            assert_eq!(again.report().replayed, []);
            assert_eq!(again.open_sessions().unwrap(), [id("s")], "{is_in_the_log} {then_given_back}");
        });
        store.close(LONG).unwrap();
    }
}

/// An append that failed is in the log, and the one that came in its place is too large to be: it is not written over.
#[test]
fn an_append_that_failed_does_not_come_back_over_a_large_one() {
    let mut failed = 0;
    for before in 1..=9 {
        for nth in 0..8 {
            let folder = own_folder();
            let disk = FakeDisk::new();
            let store = store_on(folder.path(), tight(), &disk);
            let mut tape = Waiting::create(&store, &id("s"));
            for seq in 1..=before {
                tape.append(&[entry(seq)]).unwrap();
            }
            disk.fault_in(nth, Fault::Fail);
            let in_its_place = match tape.append(&[sized(before + 1, 300)]) {
                Ok(_) => sized(before + 1, 300),
                Err(_) => {
                    failed += 1;
                    disk.heal();
                    tape.append(&[sized(before + 1, 3000)]).unwrap();
                    sized(before + 1, 3000)
                }
            };
            let said: Vec<TapeEntry> = (1..=before).map(entry).chain([in_its_place]).collect();
            for cut in [None, Some(&*disk)] {
                after_the_end(&store, cut, |again| {
                    assert_eq!(again.read(&id("s"), Seq(0)).unwrap(), said, "{before} before, operation {nth}");
                });
            }
            drop(tape);
            store.close(LONG).unwrap();
        }
    }
    assert!(failed > 9, "{failed} appends failed");
}

/// An append that failed is not there after a `kill -9`: only a loss of power may bring it back.
#[test]
fn an_append_that_failed_is_not_there_after_a_kill() {
    for before in 1..=9 {
        for nth in 0..10 {
            let folder = own_folder();
            let disk = FakeDisk::new();
            let store = store_on(folder.path(), tight(), &disk);
            let mut tape = Waiting::create(&store, &id("s"));
            for seq in 1..=before {
                tape.append(&[entry(seq)]).unwrap();
            }
            disk.fault_in(nth, Fault::Fail);
            let last = sized(before + 1, 300);
            let appended = match nth % 2 {
                0 => tape.tape.append(&[last]),
                _ => tape.tape.begin_anchor("later", &last),
            };
            let written = tape.wait(appended).is_ok();
            after_the_end(&store, None, |again| {
                let said = again.read(&id("s"), Seq(0)).unwrap();
                assert_eq!(said.len() as u64, before + u64::from(written), "{before} before, operation {nth}");
                let anchors = again.anchors(&id("s")).unwrap().len();
                let folders = fs::read_dir(again.path().join("sessions/s/anchors")).unwrap().count();
                assert_eq!(folders, anchors, "{before} before, operation {nth}: an anchor without an entry");
            });
            disk.heal();
            drop(tape);
            store.close(LONG).unwrap();
        }
    }
}

/// D02, D03: appends small and large, anchors, sessions that are released, loaded, deleted and made again, on a disk of which one
/// operation fails, or all from one on. What was acknowledged is there after the end, whatever the end was.
#[test]
fn whatever_sessions_go_through_what_was_acknowledged_is_there_after_the_end() {
    for count in [1, 10_000] {
        let operations = (0..).find(|nth| !live_through(*nth, count)).unwrap();
        assert!(operations > 60, "the disk was used {operations} times only");
    }
}

/// A session as its host knows it.
struct Known {
    name: &'static str,
    tape: Option<Waiting>,
    said: Vec<TapeEntry>,
    /// It was deleted, or that was tried: it is there whole, or gone.
    may_be_gone: bool,
}

impl Known {
    fn create(store: &Store, name: &'static str) -> Known {
        Known { name, tape: Some(Waiting::create(store, &id(name))), said: Vec::new(), may_be_gone: false }
    }

    fn append(&mut self, bytes: usize, anchor: Option<&str>) {
        let Some(tape) = &mut self.tape else { return };
        let entry = sized(self.said.len() as u64 + 1, bytes);
        let appended = match anchor {
            Some(name) => tape.tape.begin_anchor(name, &entry),
            None => tape.tape.append(std::slice::from_ref(&entry)),
        };
        if tape.wait(appended).is_ok() {
            self.said.push(entry);
        }
    }

    fn give_back(&mut self, store: &Store) {
        self.tape = None;
        assert!(store.settle(LONG));
    }

    fn load(&mut self, store: &Store) {
        let (notify, told) = listener();
        self.tape = store.load(&id(self.name), notify).ok().map(|loaded| Waiting { tape: loaded.tape, told });
    }

    fn make_anew(&mut self, store: &Store) {
        self.give_back(store);
        self.may_be_gone = true;
        if store.delete(&id(self.name)).is_ok() {
            self.said.clear();
        }
        let (notify, told) = listener();
        if let Ok(tape) = store.create(&id(self.name), notify) {
            (self.tape, self.may_be_gone) = (Some(Waiting { tape, told }), false);
            self.said.clear();
        }
    }
}

/// Says whether the operation was ever reached.
fn live_through(nth: usize, count: usize) -> bool {
    let folder = own_folder();
    let disk = FakeDisk::new();
    let store = store_on(&folder.path().join("store"), tight(), &disk);
    let mut sessions = ["a", "b"].map(|name| Known::create(&store, name));
    let from = disk.operations.load(Ordering::SeqCst);
    disk.fail_from(nth, count);
    for round in 0..3 {
        for session in &mut sessions {
            session.append(20, None);
            session.append(if session.name == "a" { 2000 } else { 300 }, None);
            session.append(30, Some(&format!("later-{round}")));
            session.append(200, None);
        }
        sessions[0].give_back(&store);
        sessions[0].load(&store);
        if round == 1 {
            sessions[1].make_anew(&store);
        }
    }
    let reached = disk.operations.load(Ordering::SeqCst) - from > nth;
    for with_unsynced in [None, Some(false), Some(true)] {
        let after = folder.path().join("after");
        copy(store.path(), &after);
        if let Some(with_unsynced) = with_unsynced {
            disk.pull_the_plug(store.path(), &after, with_unsynced);
        }
        check_after(&after, &sessions, &format!("operation {nth}, {count} fail, unsynced {with_unsynced:?}"));
        fs::remove_dir_all(&after).unwrap();
    }
    disk.heal();
    drop(sessions);
    store.close(LONG).unwrap();
    reached
}

fn check_after(after: &Path, sessions: &[Known], place: &str) {
    let again = Store::open(after, small()).unwrap();
    for Known { name, said, may_be_gone, .. } in sessions {
        if *may_be_gone && !again.exists(&id(name)) {
            continue;
        }
        assert_eq!(again.load(&id(name), deaf()).unwrap().read_only, None, "{place}");
        let found = again.read(&id(name), Seq(0)).unwrap();
        assert!(found.starts_with(said), "{name}: {} of {}, {place}", found.len(), said.len());
        // At most the one append that was answered with an error last.
        assert!(found.len() <= said.len() + 1, "{name}: {} of {}, {place}", found.len(), said.len());
    }
    assert_eq!(again.verify_all().unwrap(), [], "{place}");
    again.close(LONG).unwrap();
}
