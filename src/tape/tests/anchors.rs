//! Reading a tape as it was at an entry, and from one anchor to another.

use std::{fs, path::PathBuf};

use super::support::*;
use crate::{
    tape::{Anchor, Appended, ReadTo, Store, StoreOptions, TapeAccess, TapeEntry, TapeError},
    words::ids::Seq,
};

/// Appends of one to three entries, with anchors at 6 (`phase-1`) and 11 (`phase 2`); 14 entries in all.
fn three_anchors(store: &Store, name: &str) -> Waiting {
    let mut tape = Waiting::create(store, &id(name));
    tape.append(&entries(1..=1)).unwrap();
    tape.append(&entries(2..=4)).unwrap();
    tape.append(&entries(5..=5)).unwrap();
    begin(&mut tape, "phase-1", 6);
    tape.append(&entries(7..=8)).unwrap();
    tape.append(&entries(9..=10)).unwrap();
    begin(&mut tape, "phase 2", 11);
    tape.append(&entries(12..=14)).unwrap();
    tape
}

fn begin(tape: &mut Waiting, name: &str, seq: u64) {
    let appended: Appended = tape.tape.begin_anchor(name, &entry(seq));
    tape.wait(appended).unwrap();
}

fn anchor(number: u64, name: &str, first: u64) -> Anchor {
    Anchor { number, name: name.into(), first: Seq(first), time: entry(first).time }
}

fn file(store: &Store, anchor: &str) -> PathBuf {
    store.path().join("sessions/s/anchors").join(anchor).join("entries.jsonl")
}

#[test]
fn a_tape_is_read_as_it_was_at_each_of_its_entries_beside_its_writer() {
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        let tape = three_anchors(&store, "s");
        let reader = Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..small() }).unwrap();
        for seq in 1..=14 {
            let from = match seq {
                ..=5 => anchor(1, "session-start", 1),
                6..=10 => anchor(2, "phase-1", 6),
                _ => anchor(3, "phase-2", 11),
            };
            let entries = entries(from.first.0..=seq);
            let ends_append = [1, 4, 5, 6, 8, 10, 11, 14].contains(&seq);
            let expected = ReadTo { anchor: from, entries, ends_append };
            assert_eq!(reader.read_to(&id("s"), Seq(seq)).unwrap(), expected);
            assert_eq!(store.read_to(&id("s"), Seq(seq)).unwrap(), expected);
        }
        let expected = [anchor(1, "session-start", 1), anchor(2, "phase-1", 6), anchor(3, "phase-2", 11)];
        assert_eq!(reader.anchors(&id("s")).unwrap(), expected);
        drop(tape);
    }
}

#[test]
fn an_entry_that_is_not_there_is_named_with_the_last_one_that_is() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(three_anchors(&store, "s"));
    drop(store.create(&id("empty"), deaf()).unwrap());
    let refused = |session: &str, seq: u64| store.read_to(&id(session), Seq(seq)).unwrap_err().to_string();
    assert_eq!(refused("s", 15), "session s has no entry 15: its last is 14");
    assert_eq!(refused("s", 0), "session s has no entry 0: its last is 0");
    assert_eq!(refused("empty", 1), "session empty has no entry 1: its last is 0");
    assert_eq!(refused("none", 1), "there is no session none");
    assert_eq!(store.anchors(&id("empty")).unwrap(), []);
    assert!(matches!(store.anchors(&id("none")), Err(TapeError::Missing { .. })));
}

/// What is after the entry, and what is before its anchor, is not checked; a bad line in between is named.
#[test]
fn nothing_outside_of_what_was_asked_for_needs_to_be_sound() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(three_anchors(&store, "s"));
    let middle = file(&store, "002_phase-1");
    let whole = fs::read_to_string(&middle).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&middle, [&lines[..3].concat(), "no line\n", "nor this\n"].concat()).unwrap();
    fs::write(file(&store, "001_session-start"), lines[0].replace("\"seq\":6", "\"seq\":1")).unwrap();
    for seq in 6..=8 {
        assert_eq!(store.read_to(&id("s"), Seq(seq)).unwrap().entries, entries(6..=seq));
    }
    let Err(TapeError::Damaged(damage)) = store.read_to(&id("s"), Seq(9)) else { panic!("not found") };
    assert_eq!((damage.file, damage.line, damage.last_good), (middle, 4, Seq(8)));
    assert!(matches!(store.read_to(&id("s"), Seq(3)), Err(TapeError::Damaged(_) | TapeError::NoEntry { .. })));
    assert_eq!(store.read_to(&id("s"), Seq(13)).unwrap().entries, entries(11..=13));
}

/// S-07, BDD-TAPE-006, 010, 021
#[test]
fn between_two_anchors_is_all_that_they_and_those_between_them_hold() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let tape = three_anchors(&store, "s");
    let between = |from, to| -> Vec<TapeEntry> { store.between_anchors(&id("s"), from, to).unwrap() };
    assert_eq!(between("session-start", "session-start"), entries(1..=5));
    assert_eq!(between("session-start", "phase-1"), entries(1..=10));
    assert_eq!(between("phase-1", "phase-2"), entries(6..=14));
    assert_eq!(between("002_phase-1", "phase-1"), entries(6..=10));
    assert_eq!(between("phase-2", "session-start"), []);
    let unknown = store.between_anchors(&id("s"), "session-start", "nonexistent").unwrap_err();
    assert_eq!(unknown.to_string(), "anchor not found: nonexistent");
    drop(tape);
    // Of a file that is not between them it does not matter what is in it; of one that is, it does.
    fs::write(file(&store, "001_session-start"), "no line\nnor this\n").unwrap();
    assert_eq!(between("phase-1", "phase-2"), entries(6..=14));
    assert!(matches!(store.between_anchors(&id("s"), "session-start", "phase-1"), Err(TapeError::Damaged(_))));
}

/// Many readers' looks while appends and anchors come: each is the tape at that entry, and never a part of a line.
#[test]
fn reading_at_an_entry_beside_a_writer_gives_what_was_acknowledged() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let reader = Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..small() }).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    let acknowledged = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            loop {
                let seq = acknowledged.load(std::sync::atomic::Ordering::SeqCst);
                for seq in [seq, seq.div_ceil(2)].into_iter().filter(|seq| *seq > 0) {
                    let read = reader.read_to(&id("s"), Seq(seq)).unwrap();
                    assert_eq!(read.entries, entries(read.anchor.first.0..=seq));
                    reads += 1;
                }
                if seq == 400 {
                    return reads;
                }
            }
        });
        for n in 0..200 {
            let seq = 2 * n + 1;
            if n % 40 == 20 {
                begin(&mut tape, &format!("phase-{n}"), seq);
                tape.append(&entries(seq + 1..=seq + 1)).unwrap();
            } else {
                tape.append(&entries(seq..=seq + 1)).unwrap();
            }
            acknowledged.store(seq + 1, std::sync::atomic::Ordering::SeqCst);
        }
        assert!(reader.join().unwrap() > 0);
    });
    assert_eq!(reader.anchors(&id("s")).unwrap().len(), 6);
}
