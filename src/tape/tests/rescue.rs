//! Promise 6: a bad line in the middle leaves a session that can be read up to the last append before it, and forked there.
//! The fork is a session like any other: it opens, continues, is exported and imported.

use std::{fs, io, path::PathBuf};

use super::support::*;
use crate::{
    tape::{Damage, Flaw, ImportOptions, Spills, Store, StoreOptions, TapeAccess, TapeEntry, TapeError},
    words::ids::{Millis, Seq},
};

const NOW: Millis = Millis(1_733_000_000_000);
const NEWEST: &str = "002_phase-1";

/// Appends of one to three entries, with an anchor at 6; 13 entries in all.
fn session(store: &Store, name: &str) -> Waiting {
    let mut tape = Waiting::create(store, &id(name));
    for append in [1..=1, 2..=4, 5..=5] {
        tape.append(&entries(append)).unwrap();
    }
    let begun = tape.tape.begin_anchor("phase-1", &entry(6));
    tape.wait(begun).unwrap();
    for append in [7..=9, 10..=10, 11..=12, 13..=13] {
        tape.append(&entries(append)).unwrap();
    }
    tape
}

const APPEND_ENDS: [u64; 9] = [1, 4, 5, 6, 9, 10, 12, 13, 0];

/// The last entry before this one that ends an append.
fn last_whole_before(seq: u64) -> Seq {
    Seq(APPEND_ENDS.into_iter().filter(|end| *end < seq).max().unwrap())
}

fn file(store: &Store, session: &str, anchor: &str) -> PathBuf {
    store.path().join("sessions").join(session).join("anchors").join(anchor).join("entries.jsonl")
}

/// Changes one letter of what that line of a file says.
fn damage(file: &std::path::Path, line: usize) {
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let changed = lines[line - 1].replacen("\"time\":1", "\"time\":2", 1);
    assert_ne!(changed, lines[line - 1]);
    lines[line - 1] = changed;
    fs::write(file, lines.join("\n") + "\n").unwrap();
}

fn fork(store: &Store, from: &str, at: Option<Seq>, name: &str) -> Result<Seq, TapeError> {
    store.fork(&id(from), at, &id(name), NOW).map(|forked| forked.seq)
}

/// It opens, shows what was said up to there, continues, and does so from another store as well.
fn lives(store: &Store, name: &str, up_to: Seq) {
    assert_eq!(store.verify(&id(name)).unwrap(), [], "{name}");
    let whole = store.read(&id(name), Seq(0)).unwrap();
    assert_eq!(whole[..up_to.0 as usize], entries(1..=up_to.0), "{name}");
    assert_eq!((whole.len() as u64, whole[up_to.0 as usize].kind.as_str()), (up_to.0 + 1, "forked"));
    let (notify, told) = listener();
    let loaded = store.load(&id(name), notify).unwrap();
    assert!(loaded.read_only.is_none() && loaded.repair.is_none(), "{name}: {:?}", loaded.read_only);
    let mut tape = Waiting { tape: loaded.tape, told };
    tape.append(&entries(up_to.0 + 2..=up_to.0 + 3)).unwrap();
    drop(tape);
    let gone_on = store.read(&id(name), Seq(0)).unwrap();
    assert_eq!(gone_on[up_to.0 as usize + 1..], entries(up_to.0 + 2..=up_to.0 + 3));
    let mut out = Vec::new();
    let exported = store.export(&id(name), Spills::Left, &mut out).unwrap();
    assert_eq!(exported.last, Seq(up_to.0 + 3), "{name}");
    let other = own_folder();
    let other = Store::open(other.path(), small()).unwrap();
    other.import(&mut io::Cursor::new(&out), &ImportOptions::as_it_was()).unwrap();
    assert_eq!(other.read(&id(name), Seq(0)).unwrap(), gone_on);
    assert_eq!(other.verify_all().unwrap(), []);
    assert!(other.load(&id(name), deaf()).unwrap().read_only.is_none());
}

/// BDD-TAPE-013: wherever the bad line is, also inside of an append, which counts whole or not at all.
#[test]
fn a_session_with_a_bad_line_is_read_and_forked_up_to_the_last_append_before_it() {
    for options in [small(), power()] {
        for bad in 6..=12_u64 {
            let folder = own_folder();
            let store = Store::open(folder.path(), options.clone()).unwrap();
            drop(session(&store, "s"));
            assert!(store.settle(LONG));
            damage(&file(&store, "s", NEWEST), bad as usize - 5);
            let (good, line) = (last_whole_before(bad), bad as usize - 5);
            let findings = store.verify(&id("s")).unwrap();
            assert_eq!((findings[0].line, findings[0].flaw, findings.len()), (line, Flaw::Bad, 1), "{bad}");
            let loaded = store.load(&id("s"), deaf()).unwrap();
            let Some(Damage { line: named, last_good, .. }) = loaded.read_only else { panic!("{bad} is not found") };
            assert_eq!((named, last_good), (line, good), "{bad}");
            assert_eq!(loaded.entries.last().map(|entry| entry.seq), Some(good), "{bad}");
            drop(loaded.tape);
            let Err(TapeError::Damaged(said)) = store.read(&id("s"), Seq(0)) else { panic!("{bad} is read") };
            assert_eq!((said.line, said.last_good), (line, if good < Seq(6) { Seq(0) } else { good }), "{bad}");
            for (at, name) in [(None, "rescued"), (Some(good), "there")] {
                assert_eq!(fork(&store, "s", at, name).unwrap(), good, "{bad}");
                lives(&store, name, good);
            }
            let end = store.sound_end(&id("s")).unwrap();
            assert_eq!((end.seq, end.damage.map(|damage| damage.line)), (good, Some(line)), "{bad}");
        }
    }
}

/// A session that is whole says so, also while the end of an append is being written; a torn tail is not damage.
#[test]
fn a_sound_session_ends_where_its_last_append_does() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let live = session(&store, "s");
    let end = store.sound_end(&id("s")).unwrap();
    assert_eq!((end.seq, end.damage), (Seq(13), None));
    drop(live);
    let path = file(&store, "s", NEWEST);
    let whole = fs::read_to_string(&path).unwrap();
    for (lines, torn, last) in
        [(7, "", 12), (6, "", 10), (6, "{\"v\":1,", 10), (8, "{\"v\":1,", 13), (0, "{\"v\":1,", 5)]
    {
        let kept: String = whole.split_inclusive('\n').take(lines).collect();
        fs::write(&path, kept + torn).unwrap();
        let end = store.sound_end(&id("s")).unwrap();
        assert_eq!((end.seq, end.damage), (Seq(last), None), "{lines} lines");
    }
    assert!(matches!(store.sound_end(&id("none")), Err(TapeError::Missing { .. })));
    drop(store.create(&id("empty"), deaf()).unwrap());
    assert_eq!(store.sound_end(&id("empty")).unwrap().seq, Seq(0));
}

/// What a fork has from its parent is part of it: where that is bad, the fork is rescued before it, from the parent.
#[test]
fn a_fork_whose_parent_is_damaged_before_its_place_is_rescued_from_the_parent() {
    for bad in [7, 8, 10, 11] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        drop(session(&store, "p"));
        fork(&store, "p", Some(Seq(13)), "f").unwrap();
        let (mut tape, _) = Waiting::load(&store, &id("f"));
        tape.append(&entries(15..=17)).unwrap();
        drop(tape);
        fork(&store, "f", None, "g").unwrap();
        damage(&file(&store, "p", NEWEST), bad as usize - 5);
        let good = last_whole_before(bad);
        for name in ["f", "g"] {
            assert!(store.load(&id(name), deaf()).unwrap().read_only.is_some());
            let rescued = format!("{name}-rescued");
            let forked = store.fork(&id(name), None, &id(&rescued), NOW).unwrap();
            assert_eq!((forked.parent, forked.seq), (id("p"), good), "{name} {bad}");
            lives(&store, &rescued, good);
            let end = store.sound_end(&id(name)).unwrap();
            assert_eq!(end.damage.map(|damage| damage.file), Some(file(&store, "p", NEWEST)));
        }
    }
}

/// The parent is whole, but another session under its name: nothing that it says was ever said in the fork.
#[test]
fn a_fork_whose_parent_was_made_anew_does_not_go_on_with_a_strangers_words() {
    for entries_of_stranger in [9, 13, 15] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        drop(session(&store, "p"));
        fork(&store, "p", Some(Seq(13)), "f").unwrap();
        store.settle(LONG);
        fs::remove_dir_all(folder.path().join("sessions/p")).unwrap();
        let mut stranger = Waiting::create(&store, &id("p"));
        for seq in 1..=entries_of_stranger {
            stranger.append(&[TapeEntry { time: Millis(99), ..entry(seq) }]).unwrap();
        }
        drop(stranger);
        let end = store.sound_end(&id("f")).unwrap();
        assert_eq!(end.seq, Seq(0), "{entries_of_stranger}");
        assert!(end.damage.is_some());
        assert!(fork(&store, "f", None, "r").is_err());
    }
}

#[test]
fn a_fork_with_a_bad_line_of_its_own_is_rescued_before_it() {
    for (line, good, parent) in [(1, 13, "p"), (2, 14, "f"), (3, 14, "f"), (5, 17, "f")] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        drop(session(&store, "p"));
        fork(&store, "p", Some(Seq(13)), "f").unwrap();
        let (mut tape, _) = Waiting::load(&store, &id("f"));
        for append in [15..=17, 18..=18, 19..=19] {
            tape.append(&entries(append)).unwrap();
        }
        drop(tape);
        damage(&file(&store, "f", "003_forked"), line);
        let forked = store.fork(&id("f"), None, &id("r"), NOW).unwrap();
        assert_eq!((forked.parent, forked.seq), (id(parent), Seq(good)), "line {line}");
        assert!(store.load(&id("r"), deaf()).unwrap().read_only.is_none());
        assert_eq!(store.verify(&id("r")).unwrap(), []);
        store.export(&id("r"), Spills::Left, &mut Vec::new()).unwrap();
    }
}

/// The first line of an anchor is the bad one, and says a number that is none of its: the anchor before it has what is asked for.
#[test]
fn an_anchor_that_begins_with_a_wrong_number_hides_nothing_of_the_one_before() {
    for wrong in [1, 3, 5, 9] {
        let folder = own_folder();
        let store = Store::open(folder.path(), small()).unwrap();
        drop(session(&store, "s"));
        let path = file(&store, "s", NEWEST);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replacen("\"seq\":6,", &format!("\"seq\":{wrong},"), 1)).unwrap();
        assert_eq!(store.sound_end(&id("s")).unwrap().seq, Seq(5));
        assert_eq!(fork(&store, "s", None, "f").unwrap(), Seq(5), "{wrong}");
        lives(&store, "f", Seq(5));
        assert_eq!(store.read_to(&id("s"), Seq(5)).unwrap().entries, entries(1..=5));
    }
}

/// Damage behind an older anchor is nothing to the newest one, which says all that is needed.
#[test]
fn damage_before_the_newest_anchor_does_not_move_the_end() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(session(&store, "s"));
    damage(&file(&store, "s", "001_session-start"), 2);
    let end = store.sound_end(&id("s")).unwrap();
    assert_eq!((end.seq, end.damage), (Seq(13), None));
    assert_eq!(fork(&store, "s", None, "f").unwrap(), Seq(13));
    assert!(store.load(&id("f"), deaf()).unwrap().read_only.is_none());
}

/// A fork was made, then its parent was killed in the middle of the very next append: what is torn is nothing to the fork.
#[test]
fn a_fork_is_exported_whatever_stands_right_behind_its_place() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(session(&store, "p"));
    fork(&store, "p", Some(Seq(13)), "f").unwrap();
    let exported = || {
        let mut out = Vec::new();
        store.export(&id("f"), Spills::Left, &mut out).map(|_| out)
    };
    let before = exported().unwrap();
    let path = file(&store, "p", NEWEST);
    let whole = fs::read_to_string(&path).unwrap();
    for behind in ["{\"v\":1,\"sess", "bad\n", "bad\nworse\n"] {
        fs::write(&path, whole.clone() + behind).unwrap();
        assert_eq!(exported().unwrap(), before, "{behind}");
        lives(&store, &fork(&store, "f", None, "g").map(|_| "f".to_owned()).unwrap(), Seq(13));
        store.delete(&id("g")).unwrap();
        let (mut tape, _) = Waiting::load(&store, &id("f"));
        drop(tape.append(&[]));
        drop(tape);
        fs::write(file(&store, "f", "003_forked"), first_line(&store)).unwrap();
    }
}

/// The fork as it was made.
fn first_line(store: &Store) -> String {
    let text = fs::read_to_string(file(store, "f", "003_forked")).unwrap();
    text.split_inclusive('\n').next().unwrap().to_owned()
}

/// Writes into a file, and does something when it is written to for the first time.
struct Meanwhile<'a> {
    out: Vec<u8>,
    act: Option<Box<dyn FnOnce() + 'a>>,
}

impl<'a> Meanwhile<'a> {
    fn new(act: impl FnOnce() + 'a) -> Meanwhile<'a> {
        Meanwhile { out: Vec::new(), act: Some(Box::new(act)) }
    }
}

impl io::Write for Meanwhile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.extend_from_slice(bytes);
        if let Some(act) = self.act.take() {
            act();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What comes in of an export.
fn come_in(out: &[u8], name: &str) -> Vec<TapeEntry> {
    let other = own_folder();
    let other = Store::open(other.path(), small()).unwrap();
    other.import(&mut io::Cursor::new(out), &ImportOptions::as_it_was()).unwrap();
    other.read(&id(name), Seq(0)).unwrap()
}

/// The writer continues in the same anchor, begins new ones, or is cut off in the middle of an append, while the file is written:
/// what was there when it began is in it.
#[test]
fn an_export_beside_a_writer_has_what_was_there_when_it_began() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let mut live = session(&store, "s");
    fork(&store, "s", Some(Seq(13)), "f").unwrap();
    let reader = Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..small() }).unwrap();
    let expected = store.read(&id("f"), Seq(0)).unwrap();
    let go_on = |live: &mut Waiting, seq: u64, name: &str| {
        live.append(&entries(seq..=seq + 1)).unwrap();
        let begun = live.tape.begin_anchor(name, &entry(seq + 2));
        live.wait(begun).unwrap();
        live.append(&entries(seq + 3..=seq + 3)).unwrap();
    };
    for (n, store) in [&store, &reader].into_iter().enumerate() {
        let seq = 14 + 8 * n as u64;
        for (session, seq) in [("s", seq), ("f", seq + 4)] {
            let before = store.read(&id(session), Seq(0)).unwrap();
            let mut out = Meanwhile::new(|| go_on(&mut live, seq, &format!("{session}-{n}")));
            let exported = store.export(&id(session), Spills::Left, &mut out).unwrap();
            assert_eq!(exported.last, before.last().unwrap().seq);
            assert_eq!(come_in(&out.out, session), before, "{session}");
        }
        assert_eq!(store.read(&id("f"), Seq(0)).unwrap(), expected);
    }
    drop(live);
    let newest = store.path().join("sessions/s/anchors");
    let newest = fs::read_dir(newest).unwrap().map(|item| item.unwrap().path()).max().unwrap().join("entries.jsonl");
    let before = store.read(&id("s"), Seq(0)).unwrap();
    for torn in ["{\"v\":1,\"se", "torn\n", "torn\nand torn\n"] {
        let whole = fs::read(&newest).unwrap();
        let mut out = Meanwhile::new(|| fs::write(&newest, [&whole, torn.as_bytes()].concat()).unwrap());
        store.export(&id("s"), Spills::Left, &mut out).unwrap();
        assert_eq!(come_in(&out.out, "s"), before, "{torn}");
        fs::write(&newest, &whole).unwrap();
    }
}

/// A call is writing its large output, another one's goes with its call: those of the beginning go out, as they were.
#[test]
fn an_export_takes_large_outputs_as_they_were_when_it_began() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(session(&store, "s"));
    let spills = store.spill_path(&id("s")).unwrap();
    fs::create_dir_all(&spills).unwrap();
    fs::write(spills.join("whole-1.log"), "whole").unwrap();
    fs::write(spills.join("growing-1.log"), "first").unwrap();
    fs::write(spills.join("going-1.log"), "cut off").unwrap();
    let mut out = Meanwhile::new(|| {
        fs::write(spills.join("growing-1.log"), "first and second").unwrap();
        fs::remove_file(spills.join("going-1.log")).unwrap();
        fs::write(spills.join("new-1.log"), "new").unwrap();
    });
    assert_eq!(store.export(&id("s"), Spills::Taken, &mut out).unwrap().spills, 3);
    let other = own_folder();
    let other = Store::open(other.path(), small()).unwrap();
    assert_eq!(other.import(&mut io::Cursor::new(&out.out), &ImportOptions::as_it_was()).unwrap().spills, 3);
    let read = |name: &str| fs::read_to_string(other.spill_path(&id("s")).unwrap().join(name)).unwrap();
    assert_eq!((read("whole-1.log"), read("growing-1.log")), ("whole".into(), "first".into()));
    assert_eq!(read("going-1.log"), "cut off");
    assert!(!other.spill_path(&id("s")).unwrap().join("new-1.log").exists());
}

/// There may be many, and the oldest are those that are tidied up.
#[test]
fn an_export_takes_many_large_outputs_that_are_tidied_up_meanwhile() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(session(&store, "s"));
    let spills = store.spill_path(&id("s")).unwrap();
    fs::create_dir_all(&spills).unwrap();
    (0..100).for_each(|n| fs::write(spills.join(format!("output-{n}.log")), format!("output {n}")).unwrap());
    let of_outputs = || {
        let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let open = links.filter_map(|link| fs::read_link(link.path()).ok());
        open.filter(|file| file.starts_with(&spills)).count()
    };
    let mut out = Meanwhile::new(|| {
        assert!(of_outputs() <= 64, "they are the process's: {}", of_outputs());
        fs::remove_dir_all(&spills).unwrap();
    });
    assert_eq!(store.export(&id("s"), Spills::Taken, &mut out).unwrap().spills, 100);
    let other = own_folder();
    let other = Store::open(other.path(), small()).unwrap();
    assert_eq!(other.import(&mut io::Cursor::new(&out.out), &ImportOptions::as_it_was()).unwrap().spills, 100);
    let read =
        |n: usize| fs::read_to_string(other.spill_path(&id("s")).unwrap().join(format!("output-{n}.log"))).unwrap();
    assert!((0..100).all(|n| read(n) == format!("output {n}")));
}

/// Deleted during its export: what was written is not an export, and an error says so. Else a backup would be one of nothing.
#[test]
fn an_export_of_a_session_that_is_deleted_meanwhile_fails() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(session(&store, "s"));
    let mut out = Meanwhile::new(|| assert!(store.delete(&id("s")).is_ok()));
    let failed = store.export(&id("s"), Spills::Left, &mut out).unwrap_err();
    assert!(matches!(failed, TapeError::Missing { .. }), "{failed}");
}

/// Fork and session of that name.
fn of_maker(store: &Store, fork: &str, owner: &str) {
    let folder = store.path().join("sessions").join(fork);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("claim"), format!("{{\"owner\":\"{owner}\",\"pid\":1,\"host\":\"h\"}}\n")).unwrap();
    fs::create_dir_all(store.path().join("sessions/p/forks")).unwrap();
    fs::write(store.path().join("sessions/p/forks").join(fork), "").unwrap();
}

/// A fork's maker was killed before the first line of it: no session continues from the parent then, so it goes when it is
/// deleted. One that lives is waited for.
#[test]
fn a_fork_whose_maker_was_killed_does_not_keep_its_parent() {
    let folder = own_folder();
    let (store, other) = (Store::open(folder.path(), small()).unwrap(), Store::open(folder.path(), small()).unwrap());
    let alive: Vec<String> = fs::read_dir(folder.path().join("owners"))
        .unwrap()
        .filter_map(|item| item.unwrap().file_name().into_string().unwrap().strip_suffix(".lock").map(str::to_owned))
        .collect();
    assert_eq!(alive.len(), 2);
    for (owners, deleted) in [
        (&["1-dead", "nobody"][..], crate::tape::Deleted::Gone),
        (&["1-dead", &alive[0]], crate::tape::Deleted::Hidden),
        (&[&alive[1]], crate::tape::Deleted::Hidden),
    ] {
        drop(session(&store, "p"));
        for (n, owner) in owners.iter().enumerate() {
            of_maker(&store, &format!("f{n}"), owner);
        }
        assert_eq!(store.delete(&id("p")).unwrap(), deleted, "{owners:?}");
        assert_eq!(store.path().join("sessions/p").exists(), deleted == crate::tape::Deleted::Hidden);
        for n in 0..owners.len() {
            fs::remove_dir_all(store.path().join("sessions").join(format!("f{n}"))).unwrap();
        }
        // The next one to open it finishes what waited.
        drop(Store::open(folder.path(), small()).unwrap());
        assert!(!store.path().join("sessions/p").exists());
    }
    drop(other);
}
