//! Forks: sessions that continue from another one's tape, and what deleting does to either.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::support::*;
use crate::{
    tape::{Deleted, FORK_DEPTH_MAX, Flaw, Forked, Store, StoreOptions, TapeAccess, TapeEntry, TapeError},
    words::ids::{Millis, Seq, SessionId},
};

const NOW: Millis = Millis(1_733_000_000_000);

/// Appends of one to three entries, with anchors at 6 and 11; 14 entries in all.
fn parent(store: &Store) -> Waiting {
    let mut tape = Waiting::create(store, &id("p"));
    for append in [entries(1..=1), entries(2..=4), entries(5..=5)] {
        tape.append(&append).unwrap();
    }
    anchor(&mut tape, "phase-1", 6);
    tape.append(&entries(7..=8)).unwrap();
    tape.append(&entries(9..=10)).unwrap();
    anchor(&mut tape, "phase-2", 11);
    tape.append(&entries(12..=14)).unwrap();
    tape
}

const APPEND_ENDS: [u64; 8] = [1, 4, 5, 6, 8, 10, 11, 14];

fn anchor(tape: &mut Waiting, name: &str, seq: u64) {
    let appended = tape.tape.begin_anchor(name, &entry(seq));
    tape.wait(appended).unwrap();
}

fn fork(store: &Store, parent: &str, at: u64, session: &str) -> Forked {
    store.fork(&id(parent), Some(Seq(at)), &id(session), NOW).unwrap()
}

/// What a fork at that entry of `p` has: all up to it, its own first entry, and `own` more.
fn expected(store: &Store, forks: &[(u64, &str)], last: u64) -> Vec<TapeEntry> {
    let mut all: Vec<TapeEntry> = entries(1..=last);
    for (at, session) in forks {
        let own = store.read(&id(session), Seq(*at)).unwrap().remove(0);
        assert_eq!((own.seq, own.kind.as_str()), (Seq(at + 1), "forked"));
        all[*at as usize] = own;
    }
    all
}

fn file(store: &Store, session: &str, anchor: &str) -> PathBuf {
    store.path().join("sessions").join(session).join("anchors").join(anchor).join("entries.jsonl")
}

/// C-28, S-09, BDD-TAPE-013, 014, 030, SESSION-ERR-002, SESSION-ERR-008: a fork has what its parent had, continues alone, and the
/// parent does not notice.
/// SESSION-ERR-001: after each fork has three entries more, the parent's tape is read again and is what it was.
#[test]
fn a_fork_at_the_end_of_any_append_is_the_tape_of_then_and_goes_on_alone() {
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        let mut live = parent(&store);
        let reader = Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..small() }).unwrap();
        for at in APPEND_ENDS {
            let name = format!("f{at}");
            let forked = fork(&store, "p", at, &name);
            assert_eq!((&forked.parent, forked.seq, forked.depth), (&id("p"), Seq(at), 1));
            let begins = store.read_to(&id("p"), Seq(at)).unwrap();
            let (mut tape, said) = Waiting::load(&store, &id(&name));
            assert_eq!(said[..said.len() - 1], begins.entries, "at {at}");
            tape.append(&entries(at + 2..=at + 4)).unwrap();
            let whole = expected(&store, &[(at, &name)], at + 4);
            for store in [&store, &reader] {
                assert_eq!(store.read(&id(&name), Seq(0)).unwrap(), whole);
                for after in 0..at + 4 {
                    assert_eq!(store.read(&id(&name), Seq(after)).unwrap(), whole[after as usize..], "{at} {after}");
                }
                for seq in 1..=at + 4 {
                    let read = store.read_to(&id(&name), Seq(seq)).unwrap();
                    assert_eq!(read.entries, whole[read.anchor.first.0 as usize - 1..seq as usize], "{at} {seq}");
                    assert_eq!(read.anchor, store.read_to(&id("p"), Seq(seq.min(at))).unwrap().anchor);
                }
                let anchors = store.anchors(&id("p")).unwrap();
                let shared: Vec<_> = anchors.into_iter().filter(|anchor| anchor.first <= Seq(at)).collect();
                assert_eq!(store.anchors(&id(&name)).unwrap(), shared);
                assert_eq!(store.verify(&id(&name)).unwrap(), []);
            }
            drop(tape);
            assert_eq!(load_entries(&store, &id(&name)), whole[begins.anchor.first.0 as usize - 1..]);
        }
        live.append(&entries(15..=16)).unwrap();
        assert_eq!(store.read(&id("p"), Seq(0)).unwrap(), entries(1..=16));
        assert_eq!(store.verify_all().unwrap(), []);
        let listed = store.list().unwrap();
        let of = |name: &str| listed.iter().find(|one| one.id == id(name)).unwrap().clone();
        assert_eq!((of("f8").seq, of("f8").created), (Seq(12), Some(NOW)));
        assert_eq!((of("p").seq, listed.len()), (Seq(16), 9));
    }
}

#[test]
fn a_fork_of_the_newest_entry_leaves_out_what_is_being_written() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    let newest = file(&store, "p", "003_phase-2");
    let whole = fs::read_to_string(&newest).unwrap();
    for torn in ["{\"v\":1,\"session\":\"p\",\"seq\":15", ""] {
        // An append of three of which the last is not there yet.
        let lines: Vec<&str> = whole.split_inclusive('\n').collect();
        fs::write(&newest, [&lines[..3].concat(), torn].concat()).unwrap();
        let name = format!("f{}", torn.len());
        let forked = store.fork(&id("p"), None, &id(&name), NOW).unwrap();
        assert_eq!(forked.seq, Seq(11));
        assert_eq!(load_entries(&store, &id(&name))[..1], entries(11..=11));
    }
}

#[test]
fn a_fork_in_the_middle_of_an_append_or_of_nothing_is_refused_and_leaves_nothing() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let _live = parent(&store);
    drop(store.create(&id("empty"), deaf()).unwrap());
    let before = walk(folder.path());
    let refused = |parent: &str, at: Option<u64>, session: &str| {
        store.fork(&id(parent), at.map(Seq), &id(session), NOW).unwrap_err().to_string()
    };
    for (at, end, left) in [(2, 4, 1), (3, 4, 1), (7, 8, 6), (9, 10, 8), (13, 14, 11)] {
        let named = format!("entry {at} of session p is in the middle of an append: take {end}, or {left} before it");
        assert_eq!(refused("p", Some(at), "f"), named);
    }
    assert_eq!(refused("p", Some(15), "f"), "session p has no entry 15: its last is 14");
    assert_eq!(refused("p", Some(0), "f"), "session p has no entry 0: its last is 0");
    assert_eq!(refused("empty", None, "f"), "session empty has no entry 0: its last is 0");
    assert_eq!(refused("none", None, "f"), "there is no session none");
    assert_eq!(refused("p", Some(5), "p"), "session p already exists");
    assert_eq!(walk(folder.path()), before);
    let reader = Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..small() }).unwrap();
    assert!(matches!(reader.fork(&id("p"), None, &id("f"), NOW), Err(TapeError::ReadingOnly)));
}

/// A fork of a fork; from before the first fork it is one of the first parent. Once it has its own anchor, no other tape is read
/// to open it.
#[test]
fn a_fork_of_a_fork_reads_on_and_an_anchor_of_its_own_ends_that() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    fork(&store, "p", 8, "f");
    let (mut f, _) = Waiting::load(&store, &id("f"));
    f.append(&entries(10..=12)).unwrap();
    let g = fork(&store, "f", 12, "g");
    assert_eq!((g.parent, g.depth), (id("f"), 2));
    let (mut tape, said) = Waiting::load(&store, &id("g"));
    let all = expected(&store, &[(8, "f"), (12, "g")], 13);
    assert_eq!(said, all[5..]);
    let early = fork(&store, "g", 4, "early");
    assert_eq!((early.parent, early.seq, early.depth), (id("p"), Seq(4), 1));
    assert_eq!(load_entries(&store, &id("early")), expected(&store, &[(4, "early")], 5));
    tape.append(&entries(14..=14)).unwrap();
    anchor(&mut tape, "phase-1", 15);
    tape.append(&entries(16..=16)).unwrap();
    let whole = expected(&store, &[(8, "f"), (12, "g")], 16);
    assert_eq!(store.read(&id("g"), Seq(0)).unwrap(), whole);
    assert_eq!(store.between_anchors(&id("g"), "002_phase-1", "phase-1").unwrap(), whole[5..]);
    assert_eq!(store.between_anchors(&id("g"), "session-start", "session-start").unwrap(), whole[..5]);
    assert_eq!(store.between_anchors(&id("f"), "phase-1", "phase-1").unwrap(), whole[5..12]);
    assert_eq!(store.anchors(&id("g")).unwrap().iter().map(|a| a.first.0).collect::<Vec<_>>(), [1, 6, 15]);
    assert_eq!(fork(&store, "g", 16, "h").depth, 1);
    drop((f, tape));
    fs::rename(folder.path().join("sessions/f"), folder.path().join("elsewhere")).unwrap();
    assert_eq!(load_entries(&store, &id("g")), whole[14..]);
    assert_eq!(store.read(&id("g"), Seq(14)).unwrap(), whole[14..]);
    assert!(matches!(store.read(&id("g"), Seq(0)), Err(TapeError::Damaged(_))));
}

#[test]
fn forks_of_forks_are_refused_beyond_their_bound_with_what_to_do() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut tape = Waiting::create(&store, &id("f0"));
    tape.append(&entries(1..=1)).unwrap();
    for n in 1..=FORK_DEPTH_MAX {
        let made = store.fork(&id(&format!("f{}", n - 1)), None, &id(&format!("f{n}")), NOW).unwrap();
        assert_eq!(made.depth, n);
    }
    let last = format!("f{FORK_DEPTH_MAX}");
    assert_eq!(load_entries(&store, &id(&last)).len() as u32, 1 + FORK_DEPTH_MAX);
    assert_eq!(store.read(&id(&last), Seq(0)).unwrap().len() as u32, 1 + FORK_DEPTH_MAX);
    assert_eq!(store.verify_all().unwrap(), []);
    let refused = store.fork(&id(&last), None, &id("one-more"), NOW).unwrap_err().to_string();
    let named = "session f64 is a fork of forks, 64 deep: compact it or begin an anchor in it, then fork";
    assert_eq!(refused, named);
    let (mut tape, _) = Waiting::load(&store, &id(&last));
    anchor(&mut tape, "whole", 66);
    assert_eq!(store.fork(&id(&last), None, &id("one-more"), NOW).unwrap().depth, 1);
    assert_eq!(load_entries(&store, &id("one-more")).len(), 2);
}

/// Issue 5, must show 5, in a scaled form: what a fork writes does not depend on what it continues from.
#[test]
fn a_fork_writes_the_same_few_bytes_and_files_however_long_its_parent_is() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut long = Waiting::create(&store, &id("long"));
    for n in 0..200 {
        long.append(&entries(100 * n + 1..=100 * n + 100)).unwrap();
    }
    let mut short = Waiting::create(&store, &id("long2"));
    short.append(&entries(1..=100)).unwrap();
    let cost = |parent: &str, at: u64, name: &str| {
        let before = walk(folder.path());
        store.fork(&id(parent), Some(Seq(at)), &id(name), NOW).unwrap();
        let made: Vec<PathBuf> = walk(folder.path()).into_iter().filter(|path| !before.contains(path)).collect();
        let bytes: u64 = made.iter().filter(|path| path.is_file()).map(|path| path.metadata().unwrap().len()).sum();
        (made.iter().filter(|path| path.is_file()).count(), bytes)
    };
    let (files, bytes) = cost("long", 10_000, "f00000");
    assert!(files == 3 && bytes <= 1_024, "{files} files, {bytes} bytes: its line, who wrote it, the mark");
    let (files, fewer) = cost("long2", 100, "f00001");
    assert!(files == 3 && bytes - fewer < 32, "{bytes} and {fewer}");
    let untouched = file(&store, "long", "001_session-start").metadata().unwrap();
    for n in 1..=100 {
        fork(&store, "long", 100 * n, &format!("n{n}"));
    }
    let after = file(&store, "long", "001_session-start").metadata().unwrap();
    assert_eq!((after.len(), after.mtime_nsec()), (untouched.len(), untouched.mtime_nsec()));
    for n in [1, 50, 100] {
        let (mut tape, said) = Waiting::load(&store, &id(&format!("n{n}")));
        assert_eq!((said.len() as u64, tape.tape.last()), (100 * n + 1, Seq(100 * n + 1)));
        tape.append(&entries(100 * n + 2..=100 * n + 2)).unwrap();
    }
}

#[test]
fn verify_of_a_fork_checks_that_its_parent_has_what_it_goes_on_from() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    fork(&store, "p", 8, "f");
    let (of_parent, own) = (file(&store, "p", "002_phase-1"), file(&store, "f", "003_forked"));
    let whole = fs::read_to_string(&of_parent).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    // The same tape, made again with another word in it: sound in itself.
    let elsewhere = own_folder();
    let other = Store::open(elsewhere.path(), small()).unwrap();
    let mut tape = Waiting::create(&other, &id("p"));
    let mut changed = entries(1..=5);
    changed[2].kind = "other".into();
    tape.append(&changed).unwrap();
    anchor(&mut tape, "phase-1", 6);
    tape.append(&entries(7..=8)).unwrap();
    let rewritten = fs::read_to_string(file(&other, "p", "002_phase-1")).unwrap();
    for (now, what) in [
        (whole.replace("entry 7", "entry x"), "line 2: the checksum does not fit"),
        (lines[..1].concat(), "session p does not have entry 8, where this fork begins"),
        (rewritten, "session p does not have entry 8, where this fork begins"),
        (String::new(), "session p does not have entry 8"),
    ] {
        fs::write(&of_parent, now).unwrap();
        let found = store.verify(&id("f")).unwrap();
        assert_eq!(found.iter().map(|f| (&f.file, f.line, f.flaw)).collect::<Vec<_>>(), [(&own, 1, Flaw::Break)]);
        assert!(found[0].what.contains(what), "{}", found[0].what);
        let loaded = store.load(&id("f"), deaf()).unwrap();
        assert!(loaded.read_only.is_some() && loaded.entries.is_empty(), "nothing folds past it");
        assert_eq!(fs::read_to_string(&own).unwrap().lines().count(), 1, "and nothing is changed");
    }
    fs::write(&of_parent, &whole).unwrap();
    assert_eq!(store.verify_all().unwrap(), []);
    assert_eq!(load_entries(&store, &id("f")).len(), 4);
}

/// A tape that is missing further up is a finding of each fork that needs it, and none opens: no error ends the look at all tapes.
#[test]
fn a_missing_tape_further_up_is_a_finding() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    fork(&store, "p", 8, "f");
    fork(&store, "f", 9, "g");
    fs::rename(store.path().join("sessions/p"), folder.path().join("elsewhere")).unwrap();
    let found = store.verify_all().unwrap();
    assert_eq!(
        found.iter().map(|f| (f.session.as_str(), f.flaw)).collect::<Vec<_>>(),
        [("f", Flaw::Break), ("g", Flaw::Break)]
    );
    assert!(found.iter().all(|f| f.what.contains("session p")), "{found:?}");
    for session in ["f", "g"] {
        let loaded = store.load(&id(session), deaf()).unwrap();
        assert!(loaded.read_only.is_some() && loaded.entries.is_empty(), "{session}");
    }
}

/// What is after the fork point is the parent's matter: it may be torn, damaged or continued.
#[test]
fn damage_behind_the_fork_point_is_none_of_the_forks() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    fork(&store, "p", 8, "f");
    let of_parent = file(&store, "p", "002_phase-1");
    let whole = fs::read_to_string(&of_parent).unwrap();
    fs::write(&of_parent, whole.replace("entry 9", "entry x")).unwrap();
    assert_eq!(store.verify(&id("f")).unwrap(), []);
    assert_eq!(load_entries(&store, &id("f")).len(), 4);
    assert_eq!(store.read(&id("f"), Seq(0)).unwrap().len(), 9);
    // Promise 6: a tape with a bad line is read only, and can be forked before it.
    let Err(TapeError::Damaged(damage)) = store.fork(&id("p"), Some(Seq(9)), &id("h"), NOW) else {
        panic!("the bad line was taken")
    };
    assert_eq!((damage.file, damage.line, damage.last_good), (of_parent, 4, Seq(8)));
}

#[test]
fn a_session_without_forks_is_deleted_with_all_that_is_its_own() {
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        let before = walk(folder.path());
        let tape = parent(&store);
        assert!(matches!(store.delete(&id("p")), Err(TapeError::Claimed { .. })));
        drop(tape);
        assert!(store.settle(LONG));
        store.mark_open(&id("p")).unwrap();
        let refused = store.delete(&id("p")).unwrap_err();
        assert_eq!(refused.to_string(), "session p is in a turn: let it finish, or abort it");
        store.mark_closed(&id("p")).unwrap();
        fs::create_dir(store.spill_path(&id("p")).unwrap()).unwrap();
        fs::write(store.spill_path(&id("p")).unwrap().join("big"), "output").unwrap();
        let other = Store::open(folder.path(), small()).unwrap();
        let theirs = Waiting::load(&other, &id("p"));
        assert!(matches!(store.delete(&id("p")), Err(TapeError::Claimed { .. })));
        drop(theirs);
        other.close(LONG).unwrap();
        assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Gone);
        assert!(matches!(store.delete(&id("p")), Err(TapeError::Missing { .. })));
        let left: Vec<_> = walk(folder.path()).into_iter().filter(|path| !before.contains(path)).collect();
        assert!(
            left.iter().all(|path| path.ends_with("deleted") || path.starts_with(folder.path().join("commit"))),
            "{left:?}"
        );
        drop(parent(&store));
    }
}

/// Hidden until the last fork is gone; then it goes too, and so does what it went on from.
#[test]
fn a_deleted_parent_is_there_for_its_forks_and_for_nobody_else() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    fork(&store, "p", 8, "f1");
    fork(&store, "p", 14, "f2");
    fork(&store, "f2", 15, "g");
    assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Hidden);
    assert_eq!(store.delete(&id("f2")).unwrap(), Deleted::Hidden);
    let gone = |session: &str| {
        let session = id(session);
        assert!(!store.exists(&session));
        assert!(matches!(store.load(&session, deaf()), Err(TapeError::Missing { .. })));
        assert!(matches!(store.read(&session, Seq(0)), Err(TapeError::Missing { .. })));
        assert!(matches!(store.read_to(&session, Seq(1)), Err(TapeError::Missing { .. })));
        assert!(matches!(store.verify(&session), Err(TapeError::Missing { .. })));
        assert!(matches!(store.fork(&session, None, &id("late"), NOW), Err(TapeError::Missing { .. })));
        assert!(matches!(store.delete(&session), Err(TapeError::Missing { .. })));
        assert!(store.list().unwrap().iter().all(|one| one.id != session));
    };
    for hidden in ["p", "f2"] {
        gone(hidden);
        assert!(matches!(store.create(&id(hidden), deaf()), Err(TapeError::Exists { .. })), "its name is taken");
    }
    assert_eq!(load_entries(&store, &id("g")), expected_of_g(&store));
    assert_eq!(store.verify_all().unwrap(), []);
    fork(&store, "g", 8, "f3");
    assert_eq!(store.delete(&id("f1")).unwrap(), Deleted::Gone);
    assert_eq!(store.delete(&id("g")).unwrap(), Deleted::Gone);
    assert!(!folder.path().join("sessions/f2").exists(), "it waited for g");
    assert!(folder.path().join("sessions/p").exists(), "f3 goes on from it");
    assert_eq!(load_entries(&store, &id("f3")).len(), 4);
    assert_eq!(store.delete(&id("f3")).unwrap(), Deleted::Gone);
    for folder in ["sessions", "hidden", "deleted"].map(|name| folder.path().join(name)) {
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{}", folder.display());
    }
    drop(store.create(&id("p"), deaf()).unwrap());
}

fn expected_of_g(store: &Store) -> Vec<TapeEntry> {
    let mut all = entries(11..=14);
    all.extend(store.read(&id("g"), Seq(14)).unwrap());
    assert_eq!(all.len(), 6);
    all
}

/// From any remains of making and deleting forks after a crash, the next store that is opened continues.
#[test]
fn forks_and_deletions_that_were_cut_off_are_finished_or_undone_at_the_next_start() {
    let places = |folder: &Path| {
        let names = |name: &str| -> Vec<String> {
            let read = fs::read_dir(folder.join(name)).into_iter().flatten();
            let mut names: Vec<_> = read.map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        (names("sessions"), names("hidden"), names("deleted"))
    };
    type Scene = fn(&Path);
    let scenes: [(&str, Scene, &[&str], &[&str]); 6] = [
        ("moved away, and no more", |root| move_away(root, "f"), &["p"], &[]),
        (
            "moved away, and the mark is gone",
            |root| {
                move_away(root, "f");
                fs::remove_file(root.join("sessions/p/forks/f")).unwrap();
            },
            &["p"],
            &[],
        ),
        (
            "the last fork of a hidden one was moved away",
            |root| {
                hide(root, "p");
                move_away(root, "f");
            },
            &[],
            &[],
        ),
        (
            "the last fork of a hidden one is gone",
            |root| {
                hide(root, "p");
                fs::remove_dir_all(root.join("sessions/f")).unwrap();
            },
            &[],
            &[],
        ),
        (
            "hidden, and moved away",
            |root| {
                hide(root, "p");
                fs::remove_dir_all(root.join("sessions/f")).unwrap();
                move_away(root, "p");
            },
            &[],
            &[],
        ),
        (
            "a fork's maker died before its first line, and then its parent was deleted",
            |root| {
                fs::remove_dir_all(root.join("sessions/f/anchors")).unwrap();
                hide(root, "p");
            },
            &["f"],
            &[],
        ),
    ];
    for (scene, make, sessions, hidden) in scenes {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        drop(parent(&store));
        fork(&store, "p", 8, "f");
        store.close(LONG).unwrap();
        make(folder.path());
        for again in 0..2 {
            let store = Store::open(folder.path(), small()).unwrap();
            let found = places(folder.path());
            let wanted = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(found, (wanted(sessions), wanted(hidden), Vec::new()), "{scene}, start {again}");
            if sessions.contains(&"f") && hidden.contains(&"p") {
                assert_eq!(load_entries(&store, &id("f")).len(), 4, "{scene}");
            }
            store.close(LONG).unwrap();
        }
    }
}

fn move_away(root: &Path, session: &str) {
    fs::create_dir_all(root.join("deleted")).unwrap();
    fs::rename(root.join("sessions").join(session), root.join("deleted").join(format!("{session}.0af1"))).unwrap();
}

fn hide(root: &Path, session: &str) {
    fs::create_dir_all(root.join("hidden")).unwrap();
    fs::write(root.join("hidden").join(session), "").unwrap();
    fs::write(root.join("sessions").join(session).join("hidden"), "").unwrap();
}

/// A name that was abandoned half-way can be used again, for a fork or a session.
#[test]
fn a_fork_whose_maker_died_is_made_again_under_its_name() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(parent(&store));
    for left in ["sessions/f", "sessions/f/anchors"] {
        fs::create_dir_all(folder.path().join(left)).unwrap();
        fork(&store, "p", 8, "f");
        assert_eq!(load_entries(&store, &id("f")).len(), 4);
        assert_eq!(store.delete(&id("f")).unwrap(), Deleted::Gone);
    }
}

/// Many fork while others delete: each fork can be read, and what is not needed is gone in the end.
#[test]
fn forks_and_deletions_side_by_side_leave_no_fork_without_its_parent() {
    let folder = own_folder();
    let stores: Vec<Store> = (0..3).map(|_| Store::open(folder.path(), small()).unwrap()).collect();
    for round in 0..20 {
        drop(parent(&stores[0]));
        let made: Vec<SessionId> = std::thread::scope(|scope| {
            let forks: Vec<_> = (1..3)
                .map(|n| {
                    let store = &stores[n];
                    scope.spawn(move || {
                        let names = (0..4).map(|k| id(&format!("r{round}-{n}-{k}")));
                        names.filter(|name| store.fork(&id("p"), Some(Seq(8)), name, NOW).is_ok()).collect::<Vec<_>>()
                    })
                })
                .collect();
            while matches!(stores[0].delete(&id("p")), Err(TapeError::Claimed { .. })) {}
            forks.into_iter().flat_map(|fork| fork.join().unwrap()).collect()
        });
        for name in &made {
            assert_eq!(load_entries(&stores[0], name).len(), 4, "round {round}");
        }
        assert_eq!(stores[0].verify_all().unwrap(), []);
        for name in &made {
            assert_eq!(stores[1].delete(name).unwrap(), Deleted::Gone);
        }
        for name in ["sessions", "hidden", "deleted"] {
            let left = fs::read_dir(folder.path().join(name)).into_iter().flatten().count();
            assert_eq!(left, 0, "round {round}: {name}");
        }
    }
}
