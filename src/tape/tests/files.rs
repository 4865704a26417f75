//! What is in the folder, and what reading it returns.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::support::*;
use crate::{
    tape::{Appended, Flaw, Store, StoreOptions, TapeAccess, TapeError},
    words::ids::Seq,
};

fn file(store: &Store, session: &str, anchor: &str) -> std::path::PathBuf {
    store.path().join("sessions").join(session).join("anchors").join(anchor).join("entries.jsonl")
}

/// S-01, S-04, BDD-TAPE-001, BDD-TAPE-003
#[test]
fn a_tape_is_a_folder_that_a_person_can_read() {
    let folder = own_folder();
    let store = Store::open(folder.path().join("store"), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    assert_eq!(tape.append(&entries(1..=3)).unwrap(), Seq(3));
    let text = fs::read_to_string(file(&store, "s", "001_session-start")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.contains(r#""kind":"note""#) && text.contains("entry 2"));
    assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=3));
    assert_eq!(store.read(&id("s"), Seq(2)).unwrap(), entries(3..=3));
    assert_eq!(store.read(&id("s"), Seq(9)).unwrap(), []);
}

#[test]
fn folders_are_private_and_so_are_files() {
    fn look(path: &Path) {
        let mode = fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        if path.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            fs::read_dir(path).unwrap().for_each(|item| look(&item.unwrap().path()));
        } else {
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
    let folder = own_folder();
    let store = Store::open(folder.path().join("store"), power()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&entries(1..=1)).unwrap();
    let appended = tape.tape.begin_anchor("later", &entry(2));
    tape.wait(appended).unwrap();
    store.mark_open(&id("s")).unwrap();
    drop(crate::tool::truncate::Spill::create(&store.spill_path(&id("s")).unwrap(), "call_1", 10).unwrap());
    look(store.path());
}

/// BDD-TAPE-002: a session that is there is not made again.
#[test]
fn a_session_is_created_once_and_loaded_as_often_as_wanted() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    assert!(matches!(store.load(&id("s"), deaf()), Err(TapeError::Missing { .. })));
    assert!(matches!(store.read(&id("s"), Seq(0)), Err(TapeError::Missing { .. })));
    drop(store.create(&id("s"), deaf()).unwrap());
    // Its maker left before its first entry: nothing could be lost yet.
    let made_anew = store.create(&id("s"), deaf()).unwrap();
    assert!(matches!(store.create(&id("s"), deaf()), Err(TapeError::Exists { .. })));
    drop(made_anew);
    let (mut tape, _) = Waiting::load(&store, &id("s"));
    tape.append(&[entry(1)]).unwrap();
    drop(tape);
    assert!(matches!(store.create(&id("s"), deaf()), Err(TapeError::Exists { .. })));
    for seq in 2..=20 {
        let (mut tape, said) = Waiting::load(&store, &id("s"));
        assert_eq!(said, entries(1..=20)[..seq as usize - 1]);
        assert_eq!(tape.tape.last(), Seq(seq - 1));
        tape.append(&[entry(seq)]).unwrap();
    }
    assert_eq!(store.verify_all().unwrap(), []);
}

#[test]
fn entries_that_do_not_follow_are_refused() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    assert!(matches!(tape.append(&[entry(2)]), Err(TapeError::Gap { expected: Seq(1), got: Seq(2), .. })));
    assert_eq!(tape.append(&[]).unwrap(), Seq(0));
    tape.append(&entries(1..=2)).unwrap();
    assert!(matches!(tape.append(&[entry(2)]), Err(TapeError::Gap { expected: Seq(3), .. })));
    tape.append(&[entry(3)]).unwrap();
    assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=3));
}

/// S-06, BDD-TAPE-007, 008, 009, 010, 023
#[test]
fn a_tape_is_opened_from_its_newest_anchor_and_read_across_all() {
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        let mut tape = Waiting::create(&store, &id("s"));
        tape.append(&entries(1..=3)).unwrap();
        let appended = tape.tape.begin_anchor("phase 1", &entry(4));
        assert_eq!(tape.wait(appended).unwrap(), Seq(4));
        tape.append(&entries(5..=6)).unwrap();
        assert!(matches!(
            tape.tape.begin_anchor("phase-1", &entry(7)),
            Appended::Now(Err(TapeError::AnchorExists { name })) if name == "phase-1"
        ));
        let appended = tape.tape.begin_anchor("../two", &entry(7));
        tape.wait(appended).unwrap();
        tape.append(&entries(8..=9)).unwrap();
        drop(tape);
        let (mut tape, said) = Waiting::load(&store, &id("s"));
        assert_eq!(said, entries(7..=9));
        tape.append(&entries(10..=10)).unwrap();
        assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=10));
        for after in 0..10 {
            assert_eq!(store.read(&id("s"), Seq(after)).unwrap(), entries(after + 1..=10));
        }
        assert_eq!(fs::read_to_string(file(&store, "s", "002_phase-1")).unwrap().lines().count(), 3);
        assert!(file(&store, "s", "003_two").exists());
        assert_eq!(store.verify(&id("s")).unwrap(), []);
        let listed = store.list().unwrap();
        assert_eq!(
            (listed[0].seq, listed[0].created, listed[0].last),
            (Seq(10), Some(entry(1).time), Some(entry(10).time))
        );
    }
}

#[test]
fn the_list_comes_from_the_files() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("empty"), deaf()).unwrap());
    Waiting::create(&store, &id("full")).append(&entries(1..=5)).unwrap();
    store.mark_open(&id("full")).unwrap();
    let torn = file(&store, "full", "001_session-start");
    let whole = fs::read(&torn).unwrap();
    fs::write(&torn, [&whole[..], b"{\"v\":1,\"seq\":6"].concat()).unwrap();
    let listed = store.list().unwrap();
    assert_eq!(
        listed.iter().map(|s| (s.id.as_str(), s.seq)).collect::<Vec<_>>(),
        [("empty", Seq(0)), ("full", Seq(5))]
    );
    assert_eq!((listed[0].created, listed[0].last, listed[0].bytes), (None, None, 0));
    assert_eq!(listed[1].last, Some(entry(5).time));
    assert_eq!(store.open_sessions().unwrap(), [id("full")]);
    store.mark_closed(&id("full")).unwrap();
    store.mark_closed(&id("full")).unwrap();
    assert_eq!(store.open_sessions().unwrap(), []);
}

/// Promise 6, D05: cut at every byte, loaded, written on, loaded again.
#[test]
fn a_torn_tail_is_set_aside_reported_and_written_over() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    let path = file(&store, "s", "001_session-start");
    let mut ends = vec![0];
    for append in [entries(1..=1), entries(2..=4), entries(5..=5)] {
        tape.append(&append).unwrap();
        ends.push(fs::metadata(&path).unwrap().len() as usize);
    }
    drop(tape);
    let whole = fs::read(&path).unwrap();
    let seqs = [0, 1, 4, 5];
    for cut in 0..=whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let loaded = store.load(&id("s"), deaf()).unwrap();
        let n = ends.iter().rposition(|end| *end <= cut).unwrap();
        let last = seqs[n];
        assert_eq!(loaded.entries, entries(1..=5)[..last as usize], "cut at {cut}");
        assert_eq!(loaded.read_only, None);
        assert_eq!(loaded.repair.is_some(), cut != ends[n], "cut at {cut}");
        if let Some(repair) = &loaded.repair {
            assert_eq!(fs::read(&repair.set_aside).unwrap(), whole[ends[n]..cut]);
            assert_eq!((repair.bytes, repair.line), ((cut - ends[n]) as u64, last as usize + 1));
            fs::remove_file(&repair.set_aside).unwrap();
        }
        drop(loaded);
        let (mut tape, _) = Waiting::load(&store, &id("s"));
        tape.append(&[entry(last + 1)]).unwrap();
        drop(tape);
        assert_eq!(load_entries(&store, &id("s")), entries(1..=last + 1));
        assert_eq!(store.verify(&id("s")).unwrap(), []);
    }
}

/// Promise 6, D05, BDD-TAPE-017 and BDD-TAPE-031, where the ruling is: nothing folds past a bad line.
#[test]
fn a_bad_line_in_the_middle_makes_the_tape_read_only_and_is_named() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    (1..=4).for_each(|seq| assert!(tape.append(&[entry(seq)]).is_ok()));
    drop(tape);
    let path = file(&store, "s", "001_session-start");
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    for bad in 0..3 {
        let zeros = vec![0; lines[bad].len() - 1];
        let flipped: Vec<u8> = lines[bad].iter().enumerate().map(|(n, b)| if n == 40 { b ^ 1 } else { *b }).collect();
        for replaced in [&b"this is not json{{\n"[..], &[&zeros[..], b"\n"].concat(), &flipped, b"\n", b"null\n"] {
            let mut damaged = lines.clone();
            damaged[bad] = replaced;
            let damaged = damaged.concat();
            fs::write(&path, &damaged).unwrap();
            let loaded = store.load(&id("s"), deaf()).unwrap();
            assert_eq!(loaded.entries, entries(1..=4)[..bad]);
            let damage = loaded.read_only.clone().unwrap();
            assert_eq!((&damage.file, damage.line, damage.last_good), (&path, bad + 1, Seq(bad as u64)));
            let mut tape = loaded.tape;
            assert!(matches!(
                tape.append(&[entry(bad as u64 + 1)]),
                Appended::Now(Err(TapeError::Damaged(named))) if named == damage
            ));
            drop(tape);
            assert_eq!(fs::read(&path).unwrap(), damaged, "nothing is changed");
            assert!(matches!(store.read(&id("s"), Seq(0)), Err(TapeError::Damaged(_))));
            let found = store.verify_all().unwrap();
            assert_eq!((found.len(), found[0].line, found[0].flaw, &found[0].file), (1, bad + 1, Flaw::Bad, &path));
        }
    }
}

/// An anchor that a crash or a power cut left without one whole line was never begun.
#[test]
fn an_anchor_without_a_sound_line_is_set_aside_and_the_one_before_goes_on() {
    for left in [&b""[..], b"{\"v\":1,\"sess", b"\0\0\0\0\0\0\0\0"] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        let mut tape = Waiting::create(&store, &id("s"));
        tape.append(&entries(1..=3)).unwrap();
        let appended = tape.tape.begin_anchor("later", &entry(4));
        tape.wait(appended).unwrap();
        drop(tape);
        fs::write(file(&store, "s", "002_later"), left).unwrap();
        let draft = store.path().join("sessions/s/anchors/.new-003_x");
        fs::create_dir(&draft).unwrap();
        let (mut tape, said) = Waiting::load(&store, &id("s"));
        assert_eq!(said, entries(1..=3));
        assert!(!draft.exists());
        let appended = tape.tape.begin_anchor("later", &entry(4));
        tape.wait(appended).unwrap();
        drop(tape);
        assert_eq!(load_entries(&store, &id("s")), entries(4..=4));
        assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=4));
        assert_eq!(store.verify(&id("s")).unwrap(), []);
    }
}

#[test]
fn verify_finds_what_is_missing_between_two_anchors() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&entries(1..=3)).unwrap();
    let appended = tape.tape.begin_anchor("later", &entry(4));
    tape.wait(appended).unwrap();
    drop(tape);
    let first = file(&store, "s", "001_session-start");
    let whole = fs::read(&first).unwrap();
    let mut appended_whole = memchr::memchr_iter(b'\n', &whole);
    let one_line = appended_whole.next().unwrap() + 1;
    fs::write(&first, &whole[..one_line]).unwrap();
    // The three lines were one append, so the one that is left is not whole.
    let flaws: Vec<Flaw> = store.verify(&id("s")).unwrap().into_iter().map(|found| found.flaw).collect();
    assert_eq!(flaws, [Flaw::Bad, Flaw::Break]);
    assert!(matches!(store.read(&id("s"), Seq(0)), Err(TapeError::Damaged(_))));
    assert_eq!(load_entries(&store, &id("s")), entries(4..=4), "the newest anchor needs no other");
    fs::remove_dir_all(first.parent().unwrap()).unwrap();
    let found = store.verify(&id("s")).unwrap();
    assert_eq!(found.iter().map(|f| f.flaw).collect::<Vec<_>>(), [Flaw::Break]);
}

/// D08
#[test]
fn a_newer_store_or_line_is_refused_and_left_as_it_is() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("s"), deaf()).unwrap());
    fs::write(folder.path().join("version"), "2\n").unwrap();
    for access in [TapeAccess::Write, TapeAccess::Read] {
        let options = StoreOptions { access, ..small() };
        assert!(matches!(Store::open(folder.path(), options), Err(TapeError::Newer { found: 2, known: 1, .. })));
    }
    let only = own_folder();
    fs::write(only.path().join("version"), "2\n").unwrap();
    assert!(Store::open(only.path(), small()).is_err());
    assert_eq!(fs::read_dir(only.path()).unwrap().count(), 1, "nothing is made beside the version");
}

#[test]
fn a_store_opened_for_reading_changes_nothing() {
    let folder = own_folder();
    let read = StoreOptions { access: TapeAccess::Read, ..small() };
    assert!(matches!(Store::open(folder.path().join("none"), read.clone()), Err(TapeError::Io { .. })));
    assert!(!folder.path().join("none").exists());
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&entries(1..=2)).unwrap();
    let before = walk(folder.path());
    let reader = Store::open(folder.path(), read).unwrap();
    assert_eq!(reader.read(&id("s"), Seq(0)).unwrap(), entries(1..=2));
    assert_eq!(reader.list().unwrap().len(), 1);
    assert!(matches!(reader.load(&id("s"), deaf()), Err(TapeError::ReadingOnly)));
    assert!(matches!(reader.create(&id("t"), deaf()), Err(TapeError::ReadingOnly)));
    assert!(matches!(reader.mark_open(&id("s")), Err(TapeError::ReadingOnly)));
    reader.close(LONG).unwrap();
    drop(reader);
    assert_eq!(walk(folder.path()), before);
}

/// Promise 10
#[test]
fn a_closed_store_leaves_only_tapes() {
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        let mut tape = Waiting::create(&store, &id("s"));
        tape.append(&entries(1..=2)).unwrap();
        store.close(LONG).unwrap();
        store.close(LONG).unwrap();
        assert!(matches!(tape.append(&[entry(3)]), Err(TapeError::Closed)));
        assert!(matches!(store.load(&id("s"), deaf()), Err(TapeError::Closed)));
        for folder in ["owners", "commit", "open"] {
            assert_eq!(fs::read_dir(store.path().join(folder)).unwrap().count(), 0, "{folder}");
        }
        assert!(!store.path().join("sessions/s/claim").exists());
        drop(tape);
        let again = Store::open(folder.path(), small()).unwrap();
        assert_eq!(again.report().dead_owners, 0);
        assert_eq!(load_entries(&again, &id("s")), entries(1..=2));
    }
}
