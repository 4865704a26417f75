#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, io::Cursor, path::Path, sync::Arc};

use serde_json::{Value, json, value::to_raw_value};

use super::*;
use crate::{
    tape::{
        Appended, Spills, Store, StoreOptions, TapeAccess, TapeWriter,
        layout::{make_folder, names_in},
    },
    words::ids::Millis,
};

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

fn entry(seq: u64, kind: &str, data: &Value) -> TapeEntry {
    TapeEntry {
        seq: Seq(seq),
        time: Millis(1_732_000_000_000 + seq),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        kind: kind.into(),
        data: to_raw_value(data).unwrap(),
    }
}

/// An append that is waited for.
fn settled(store: &Store, appended: Appended) {
    assert!(!matches!(appended, Appended::Now(Err(_))), "{appended:?}");
    assert!(store.settle(std::time::Duration::from_secs(30)));
}

/// Two anchors, appends of several lines, two large outputs.
fn original(store: &Store) -> Box<dyn TapeWriter> {
    let mut tape = store.create(&id("s"), Arc::new(|_| {})).unwrap();
    let note = |seq: u64| entry(seq, "note", &json!({"text": format!("entry {seq} 错误")}));
    settled(store, tape.append(&[entry(1, "state", &json!({"session": "s", "other": 1}))]));
    settled(store, tape.append(&[note(2), note(3), note(4)]));
    settled(store, tape.begin_anchor("phase-1", &entry(5, "state", &json!({"session": "s", "other": 2}))));
    settled(store, tape.append(&[note(6), note(7)]));
    assert!(store.settle(std::time::Duration::from_secs(30)));
    let spill = store.spill_path(&id("s")).unwrap();
    make_folder(&spill).unwrap();
    fs::write(spill.join("small-1.log"), "small").unwrap();
    let large: Vec<u8> = (0..700_000_u32).map(|n| n as u8).collect();
    fs::write(spill.join("large-1.log"), large).unwrap();
    tape
}

fn exported(store: &Store, spills: Spills) -> Vec<u8> {
    let mut file = Vec::new();
    store.export(&id("s"), spills, &mut file).unwrap();
    file
}

fn bring_in(store: &Store, file: &[u8]) -> Result<Imported, TapeError> {
    store.import(&mut Cursor::new(file), &ImportOptions::as_it_was())
}

/// Nothing of an import that failed is there: no session, no file.
fn nothing_is_left(store: &Store) {
    assert_eq!(store.list().unwrap(), []);
    assert_eq!(names_in(&store.layout().sessions()).unwrap(), Vec::<String>::new());
    let left = names_in(&store.path().join("importing")).unwrap();
    assert!(left.iter().all(|name| name == "lock"), "{left:?}");
}

#[test]
fn a_session_comes_in_as_it_went_out_beside_its_writer() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(one.path()), store(other.path()));
    let tape = original(&from);
    let reader = Store::open(one.path(), StoreOptions { access: TapeAccess::Read, ..StoreOptions::default() }).unwrap();
    let file = exported(&reader, Spills::Taken);
    let imported = bring_in(&to, &file).unwrap();
    assert_eq!(imported, Imported { session: id("s"), last: Seq(7), anchors: 2, spills: 2 });
    let files = [
        "anchors/001_session-start/entries.jsonl",
        "anchors/002_phase-1/entries.jsonl",
        "spill/small-1.log",
        "spill/large-1.log",
    ];
    for name in files {
        let read = |store: &Store| fs::read(store.layout().session(&id("s")).join(name)).unwrap();
        assert!(read(&from) == read(&to), "{name}");
    }
    assert_eq!(to.verify_all().unwrap(), []);
    // The files of an import are younger, and may have any order in time.
    for (name, age) in [("small-1.log", 100), ("large-1.log", 200)] {
        for (store, older) in [(&from, age), (&to, 300 - age)] {
            let file = fs::File::options().write(true).open(store.spill_path(&id("s")).unwrap().join(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(older)).unwrap();
        }
    }
    assert!(exported(&reader, Spills::Taken) == file, "the order in time does not count");
    assert!(exported(&to, Spills::Taken) == file, "and goes out again the same");
    // It continues like any other.
    let mut loaded = to.load(&id("s"), Arc::new(|_| {})).unwrap();
    settled(&to, loaded.tape.append(&[entry(8, "note", &json!({}))]));
    drop((tape, loaded));
    let twice = bring_in(&to, &file).unwrap_err();
    assert!(matches!(twice, TapeError::Exists { .. }), "{twice}");
    assert!(matches!(bring_in(&reader, &file), Err(TapeError::ReadingOnly)));
}

#[test]
fn under_another_id_the_entries_are_the_same_and_the_sums_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    drop(original(&store));
    let file = exported(&store, Spills::Left);
    let imported = store.import(&mut Cursor::new(&file), &ImportOptions::as_it_was().under(id("t"))).unwrap();
    assert_eq!((imported.session, imported.spills), (id("t"), 0));
    assert_eq!(store.verify_all().unwrap(), []);
    let (old, new) = (store.read(&id("s"), Seq(0)).unwrap(), store.read(&id("t"), Seq(0)).unwrap());
    assert_eq!(new.len(), 7);
    for (old, new) in old.iter().zip(&new) {
        if old.kind == "state" {
            let said: Value = serde_json::from_str(new.data.get()).unwrap();
            assert_eq!(said["session"], "t");
        } else {
            assert_eq!(old, new);
        }
    }
    assert_eq!(store.load(&id("t"), Arc::new(|_| {})).unwrap().entries.len(), 3);
}

/// Wherever the file is cut, and whichever byte is changed: refused, and nothing is left.
#[test]
fn a_cut_or_changed_file_is_refused_and_leaves_nothing() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(one.path()), store(other.path()));
    drop(original(&from));
    let file = exported(&from, Spills::Left);
    for cut in (0..file.len()).step_by(7).chain([file.len() - 1]) {
        let refused = bring_in(&to, &file[..cut]).unwrap_err();
        assert!(matches!(refused, TapeError::Import { .. }), "cut at {cut}: {refused}");
    }
    let with_spills = exported(&from, Spills::Taken);
    assert!(bring_in(&to, &with_spills[..with_spills.len() - 400_000]).is_err());
    for at in (0..file.len()).step_by(11) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        assert!(bring_in(&to, &changed).is_err(), "byte {at}");
    }
    for (n, extra) in [&b"x"[..], b"{}\n", b"\n"].iter().enumerate() {
        assert!(bring_in(&to, &[&file[..], extra].concat()).is_err(), "extra {n}");
    }
    nothing_is_left(&to);
    bring_in(&to, &file).unwrap();
}

#[test]
fn hostile_files_are_refused_with_a_clear_word() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(one.path()), store(other.path()));
    drop(original(&from));
    let file = exported(&from, Spills::Taken);
    let (header, rest) = file.split_at(memchr::memchr(b'\n', &file).unwrap());
    let header: Value = serde_json::from_slice(header).unwrap();
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut changed = header.clone();
        change(&mut changed);
        let refused = bring_in(&to, &[changed.to_string().as_bytes(), rest].concat()).unwrap_err();
        nothing_is_left(&to);
        refused.to_string()
    };
    for name in ["../../evil", "/etc", "001_../x", "x", "", "001_", "001_a/b", "001_.."] {
        let what = refused(&|header| header["anchors"][0]["name"] = name.into());
        assert!(what.contains("an anchor with an invalid name"), "{name}: {what}");
    }
    // Numbers that none has here: they do not count on, are written otherwise, or have others before them.
    for name in [
        "18446744073709551615_x",
        "18446744073709551616_x",
        "1000000_x",
        "0001_x",
        "01_x",
        "1_x",
        "000_x",
        "002_session-start",
        &format!("{}1_x", "0".repeat(200)),
    ] {
        let what = refused(&|header| header["anchors"][0]["name"] = name.into());
        assert!(what.contains("an anchor with an invalid name"), "{name}: {what}");
    }
    for name in ["18446744073709551615_x", "1000000_x", "0002_x", "001_x"] {
        let what = refused(&|header| header["anchors"][1]["name"] = name.into());
        assert!(what.contains("an anchor with an invalid name"), "{name}: {what}");
    }
    let empty = refused(&|header| {
        let piece = json!({"name": "003_empty", "bytes": 0, "hash": blake3::hash(b"").to_hex().to_string()});
        header["anchors"].as_array_mut().unwrap().push(piece);
    });
    assert!(empty.contains("without a line"), "{empty}");
    for name in ["../evil.log", "/tmp/evil.log", ".log", "a", "a\0.log"] {
        let what = refused(&|header| header["spills"][0]["name"] = name.into());
        assert!(what.contains("have invalid names"), "{name}: {what}");
    }
    let twice = refused(&|header| header["spills"][1]["name"] = header["spills"][0]["name"].clone());
    assert!(twice.contains("two large outputs of one name"), "{twice}");
    let backwards = refused(&|header| header["anchors"].as_array_mut().unwrap().reverse());
    assert!(backwards.contains("an anchor with an invalid name"), "{backwards}");
    let id = refused(&|header| header["session"] = "../s".into());
    assert!(id.contains("not a session export"), "{id}");
    assert!(refused(&|header| header["session"] = "t".into()).contains("line 2: the line is of session s"));
    assert!(refused(&|header| header["v"] = 2.into()).contains("format version 2, this library knows up to 1"));
    assert!(refused(&|header| header["spills"][0]["bytes"] = json!(1_u64 << 60)).contains("too large"));
    assert!(refused(&|header| header["last"] = 9.into()).contains("ends with entry 7 and not with 9"));
    assert!(refused(&|header| header["unknown"] = 9.into()).contains("not a session export"));
    for (hostile, what) in [
        (vec![b'x'; HEADER_BYTES_MAX + 10], "too long"),
        (Vec::new(), "it is empty"),
        (b"\0\0\0\n".to_vec(), "not a session export"),
        (b"[]\n".to_vec(), "not a session export"),
    ] {
        let refused = bring_in(&to, &hostile).unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
    }
    nothing_is_left(&to);
}

/// A tape with a bad line does not go out; what is being written at its end just now is left out.
#[test]
fn what_is_damaged_is_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    drop(original(&store));
    let file = store.layout().entries(&id("s"), "002_phase-1");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 3]).unwrap();
    let mut out = Vec::new();
    assert_eq!(store.export(&id("s"), Spills::Left, &mut out).unwrap().last, Seq(5));
    let first = store.layout().entries(&id("s"), "001_session-start");
    let mut bytes = fs::read(&first).unwrap();
    bytes[40] ^= 1;
    fs::write(&first, bytes).unwrap();
    let damaged = store.export(&id("s"), Spills::Left, &mut Vec::new()).unwrap_err();
    assert!(damaged.to_string().contains("entries.jsonl line 1"), "{damaged}");
    assert!(matches!(store.export(&id("none"), Spills::Left, &mut Vec::new()), Err(TapeError::Missing { .. })));
}

/// What a killed import left is gone with the next one.
#[test]
fn what_a_killed_import_left_goes_with_the_next() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(one.path()), store(other.path()));
    drop(original(&from));
    let left = to.path().join("importing/left/anchors");
    make_folder(&left).unwrap();
    bring_in(&to, &exported(&from, Spills::Left)).unwrap();
    assert_eq!(names_in(&to.path().join("importing")).unwrap(), ["lock"]);
}

/// Continues from entry 4, then 7, of the original: a fork, and a fork of it that has its own anchor.
fn forked(store: &Store) {
    drop(original(store));
    let note = |seq: u64| entry(seq, "note", &json!({"text": format!("fork {seq}")}));
    let at = |seq: u64| Millis(1_732_000_001_000 + seq);
    store.fork(&id("s"), Some(Seq(4)), &id("early"), at(5)).unwrap();
    store.fork(&id("s"), Some(Seq(7)), &id("f"), at(8)).unwrap();
    let later = |n: u64, e: TapeEntry| TapeEntry { time: at(n), ..e };
    let mut f = store.load(&id("f"), Arc::new(|_| {})).unwrap().tape;
    settled(store, f.append(&[later(9, note(9)), later(9, note(10))]));
    assert!(store.settle(std::time::Duration::from_secs(30)));
    drop(f);
    store.fork(&id("f"), Some(Seq(10)), &id("g"), at(11)).unwrap();
    let mut g = store.load(&id("g"), Arc::new(|_| {})).unwrap().tape;
    settled(store, g.append(&[later(12, note(12))]));
    settled(store, g.begin_anchor("own", &later(13, entry(13, "state", &json!({"session": "g", "other": 3})))));
    settled(store, g.append(&[later(14, note(14))]));
    assert!(store.settle(std::time::Duration::from_secs(30)));
}

/// BDD-TAPE-030: what comes in of a fork is the whole of it, needs no other session, opens as the fork did, and is continued.
#[test]
fn a_fork_goes_out_with_all_that_it_has_from_its_parents() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(here.path()), store(there.path()));
    forked(&from);
    for (name, last, anchors) in [("early", 5, 1), ("f", 10, 2), ("g", 14, 3)] {
        let mut file = Vec::new();
        let out = from.export(&id(name), Spills::Left, &mut file).unwrap();
        assert_eq!((out.last, out.anchors), (Seq(last), anchors), "{name}");
        let opened = from.load(&id(name), Arc::new(|_| {})).unwrap();
        for (brought, as_id) in [(name.to_owned(), None), (format!("{name}-2"), Some(id(&format!("{name}-2"))))] {
            let options = as_id.into_iter().fold(ImportOptions::as_it_was(), ImportOptions::under);
            let imported = to.import(&mut Cursor::new(&file), &options).unwrap();
            assert_eq!((imported.session.as_str(), imported.last), (brought.as_str(), Seq(last)));
            let words = |entries: &[TapeEntry]| -> Vec<String> {
                let data = |entry: &TapeEntry| serde_json::from_str::<Value>(entry.data.get()).unwrap();
                let words = |entry: &TapeEntry| format!("{} {} {}", entry.seq, entry.kind, data(entry));
                // Under another name the few that say their own name say that one.
                entries.iter().map(words).map(|line| line.replace(&format!("{name}-2"), name)).collect()
            };
            let all = to.read(&id(&brought), Seq::ZERO).unwrap();
            assert_eq!(words(&all), words(&from.read(&id(name), Seq::ZERO).unwrap()));
            assert!(to.verify(&id(&brought)).unwrap().is_empty());
            let mut loaded = to.load(&id(&brought), Arc::new(|_| {})).unwrap();
            assert_eq!(words(&loaded.entries), words(&opened.entries));
            assert!(loaded.read_only.is_none() && loaded.repair.is_none());
            settled(&to, loaded.tape.append(&[entry(last + 1, "note", &json!({"text": "on"}))]));
            assert!(to.settle(std::time::Duration::from_secs(30)));
            assert_eq!(to.read(&id(&brought), Seq(last)).unwrap().len(), 1);
            assert!(to.verify(&id(&brought)).unwrap().is_empty());
            // It is not a fork of any session here, and can still be forked.
            let again = to.fork(&id(&brought), Some(Seq(last)), &id(&format!("of-{brought}")), Millis(1)).unwrap();
            assert_eq!((again.parent.as_str(), again.depth), (brought.as_str(), 1));
        }
    }
    assert!(to.verify_all().unwrap().is_empty());
}

/// Next to a parent that continues, is damaged after that place, or was deleted; and not where what it has is damaged.
#[test]
fn what_is_behind_the_place_of_a_fork_does_not_concern_its_export() {
    let here = tempfile::tempdir().unwrap();
    let from = store(here.path());
    forked(&from);
    let exported = |name: &str| {
        let mut file = Vec::new();
        from.export(&id(name), Spills::Left, &mut file).map(|_| file)
    };
    let (early, f) = (exported("early").unwrap(), exported("f").unwrap());
    from.delete(&id("s")).unwrap();
    assert_eq!((exported("early").unwrap(), exported("f").unwrap()), (early.clone(), f));
    let second = here.path().join("sessions/s/anchors/002_phase-1/entries.jsonl");
    fs::write(&second, "bad\nbad\n").unwrap();
    assert_eq!(exported("early").unwrap(), early);
    assert!(matches!(exported("f"), Err(TapeError::Damaged(_))), "its parent's lines are its own");
    assert!(matches!(exported("g"), Err(TapeError::Damaged(_))));
}

/// What is said to be the number of an anchor is never counted beyond what a folder's name can say.
#[test]
fn the_highest_number_of_an_anchor_that_comes_in_can_be_gone_on_from() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (from, to) = (store(one.path()), store(other.path()));
    drop(original(&from));
    let mut file = exported(&from, Spills::Left);
    // The line names its anchor, so both are changed, and sealed again.
    file = renumbered(&file, "002_phase-1", "999999_phase-1");
    bring_in(&to, &file).unwrap();
    let mut loaded = to.load(&id("s"), Arc::new(|_| {})).unwrap();
    assert_eq!(loaded.entries.len(), 3);
    settled(&to, loaded.tape.begin_anchor("next", &entry(8, "state", &json!({}))));
    settled(&to, loaded.tape.append(&[entry(9, "note", &json!({}))]));
    assert!(to.settle(std::time::Duration::from_secs(30)));
    drop(loaded);
    let names = to.layout().anchor_names(&id("s")).unwrap();
    assert_eq!(names, ["001_session-start", "999999_phase-1", "1000000_next"]);
    to.fork(&id("s"), None, &id("f"), Millis(1)).unwrap();
    for (name, len) in [("s", 2), ("f", 3)] {
        assert_eq!(to.load(&id(name), Arc::new(|_| {})).unwrap().entries.len(), len, "{name}");
        assert_eq!(to.verify(&id(name)).unwrap(), []);
    }
}

/// An export in which an anchor has another name, with all sums as they must be.
fn renumbered(file: &[u8], anchor: &str, name: &str) -> Vec<u8> {
    let mut lines = file.split_inclusive(|b| *b == b'\n');
    let mut header: Header = serde_json::from_slice(lines.next().unwrap()).unwrap();
    let mut old: Option<Chain> = None;
    let mut new: Option<Chain> = None;
    let mut out = Vec::new();
    for piece in &mut header.anchors {
        let bytes: Vec<u8> = lines.by_ref().take(piece.lines as usize).flatten().copied().collect();
        let renamed = if piece.name == anchor { name } else { &piece.name };
        let of = |chain: Option<Chain>, name: &str| {
            chain.map_or_else(|| Chain::start(&header.session, name), |chain| chain.in_file(name))
        };
        let read = decode_lines(&of(old, &piece.name), &bytes).unwrap();
        let mut chain = of(new, renamed);
        let (mut written, mut from) = (Vec::new(), 0);
        for (at, _) in read.more.iter().enumerate().filter(|(_, more)| **more == 0) {
            written.extend(encode_lines(&mut chain, &read.entries[from..=at]).unwrap());
            from = at + 1;
        }
        *piece = Piece::of(renamed, piece.lines, &written);
        (old, new) = (Some(read.chain), Some(chain));
        out.extend(written);
    }
    let mut whole = serde_json::to_vec(&header).unwrap();
    whole.push(b'\n');
    whole.extend(out);
    whole
}

/// The search for an entry in a file knows one form of its line: another one is sound, and would never be found.
#[test]
fn lines_in_another_form_do_not_come_in() {
    let folder = tempfile::tempdir().unwrap();
    let from = store(folder.path());
    let _ = from.create(&id("s"), Arc::new(|_| {})).unwrap().append(&[entry(1, "note", &json!({"text": "said"}))]);
    assert!(from.settle(std::time::Duration::from_secs(30)));
    let file = String::from_utf8(exported(&from, Spills::Left)).unwrap();
    let (header, line) = file.trim_end().split_once('\n').unwrap();
    let body = line.rsplit_once(",\"sum\"").unwrap().0;
    for (ours, theirs) in [
        ("", ""),
        ("\"kind\":", "\"kind\": "),
        ("\"note\"", "\"n\\u006fte\""),
        ("\"session\":\"s\",\"seq\":1,", "\"seq\":1,\"session\":\"s\","),
    ] {
        let body = body.replacen(ours, theirs, 1);
        let line = format!("{body},\"sum\":\"{}\"}}\n", crate::tape::line::Sum::zero().next(body.as_bytes()).as_str());
        let mut header: Value = serde_json::from_str(header).unwrap();
        header["anchors"][0]["bytes"] = json!(line.len());
        header["anchors"][0]["hash"] = json!(blake3::hash(line.as_bytes()).to_hex().as_str());
        let folder = tempfile::tempdir().unwrap();
        let to = store(folder.path());
        let came_in = bring_in(&to, format!("{header}\n{line}").as_bytes());
        assert_eq!(came_in.is_ok(), ours == theirs, "{theirs}: {came_in:?}");
        if ours != theirs {
            assert!(matches!(came_in, Err(TapeError::Import { line: 2, .. })));
            nothing_is_left(&to);
        }
    }
}
