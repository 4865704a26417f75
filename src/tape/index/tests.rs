#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, path::Path, sync::Arc};

use serde_json::value::to_raw_value;

use super::*;
use crate::{
    tape::{
        StoreOptions, TapeEntry, TapeStore as _, TapeStoreExt as _, TapeWriter, tests::support::make_last_line_newer,
    },
    words::ids::{Millis, Seq},
};

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

fn tape(store: &Store, name: &str) -> Box<dyn TapeWriter> {
    let id = name.parse().unwrap();
    match store.exists(&id) {
        true => store.load(&id, Arc::new(|_| {})).unwrap().tape,
        false => store.create(&id, Arc::new(|_| {})).unwrap(),
    }
}

/// Appends so many entries that say so.
fn append(store: &Store, tape: &mut Box<dyn TapeWriter>, count: u64, says: &str) {
    for _ in 0..count {
        let seq = tape.last().next();
        let data = to_raw_value(&serde_json::json!({ "text": format!("{says} {seq}") })).unwrap();
        let entry = TapeEntry {
            seq,
            time: Millis(seq.0),
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            kind: "message".into(),
            data,
        };
        let _ = tape.append(&[entry]);
        assert!(store.settle(BUSY_WAIT));
    }
}

/// The search tables are sound, and have a row for each entry and no other.
fn is_whole(index: &Index) {
    index.database.execute_batch("insert into entries_fts (entries_fts) values ('integrity-check')").unwrap();
    let count = |sql: &str| index.database.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let found = count("select count(*) from entries_fts join entries e on e.id = entries_fts.rowid");
    assert_eq!(
        (found, found),
        (count("select count(*) from entries_fts_docsize"), count("select count(*) from entries"))
    );
}

fn hits(index: &Index, words: &str) -> i64 {
    let words = tokens::Searchable::of(words).words;
    let sql = "select count(*) from entries_fts where entries_fts match ?1";
    index.database.query_row(sql, [format!("\"{words}\"")], |row| row.get(0)).unwrap()
}

/// S-03, S-05, C-28: the index follows the files from the stored offset.
#[test]
fn the_index_catches_up_with_what_was_appended() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (mut a, mut b) = (tape(&store, "a"), tape(&store, "b"));
    append(&store, &mut a, 3, "发生了错误信息");
    append(&store, &mut b, 2, "hello world");
    let mut index = store.index().unwrap();
    assert_eq!(index.catch_up().unwrap(), CaughtUp { added: 5, ..CaughtUp::default() });
    assert_eq!(index.catch_up().unwrap(), CaughtUp::default());
    append(&store, &mut a, 4, "more");
    assert_eq!(store.index().unwrap().catch_up().unwrap().added, 4);
    assert_eq!(index.rows().unwrap().entries, 9);
    assert_eq!((hits(&index, "错误信"), hits(&index, "hello world"), hits(&index, "absent")), (3, 2, 0));
    let sql = "select f.path, e.offset, e.length from entries e join files f on f.id = e.file where e.session = 'a'";
    let mut query = index.database.prepare(sql).unwrap();
    let found = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    for (n, row) in found.enumerate() {
        let (path, offset, length): (String, i64, i64) = row.unwrap();
        let bytes = fs::read(folder.path().join(path)).unwrap();
        let line = &bytes[offset as usize..(offset + length) as usize];
        assert_eq!(crate::tape::line::glance(line).unwrap().seq, Seq(n as u64 + 1), "the place is the entry's");
    }
}

/// S-02: each entry is a row of its own, with its session, seq and kind, the number and name of its anchor, its time, and the
/// file and place of its line; all that the line says is found at that place.
#[test]
fn each_entry_has_a_row_that_says_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    append(&store, &mut a, 2, "before");
    let entry = |seq: u64, kind: &str| TapeEntry {
        seq: Seq(seq),
        time: Millis(1_000 + seq),
        cause: None,
        turn: Some(Seq(2)),
        step: Some(1),
        ticket: Some(Seq(2)),
        input: None,
        kind: kind.into(),
        data: to_raw_value(&serde_json::json!({"text": "words", "metadata": {"source": "test"}})).unwrap(),
    };
    let _ = a.begin_anchor("phase 1", &entry(3, "state"));
    assert!(store.settle(BUSY_WAIT));
    let _ = a.append(&[entry(4, "result")]);
    assert!(store.settle(BUSY_WAIT));
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    let sql = "select e.session, e.seq, e.kind, e.anchor, e.time, f.path, e.offset, e.length from entries e
        join files f on f.id = e.file order by e.seq";
    let mut query = index.database.prepare(sql).unwrap();
    let row = |row: &rusqlite::Row<'_>| {
        let what: (String, i64, String, String, i64) =
            (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
        let place: (String, u32, u32) = (row.get(5)?, row.get(6)?, row.get(7)?);
        Ok((what, place))
    };
    let rows: Vec<_> = query.query_map([], row).unwrap().map(Result::unwrap).collect();
    let first = "001_session-start";
    let expected = [
        ("message", first, 1),
        ("message", first, 2),
        ("state", "002_phase-1", 1_003),
        ("result", "002_phase-1", 1_004),
    ];
    assert_eq!(rows.len(), expected.len());
    for (n, (((session, seq, kind, anchor, time), (path, offset, length)), (of_kind, in_anchor, at))) in
        rows.into_iter().zip(expected).enumerate()
    {
        assert_eq!((session.as_str(), seq, kind.as_str()), ("a", n as i64 + 1, of_kind));
        assert_eq!((anchor.as_str(), time), (in_anchor, at));
        assert_eq!(path, format!("sessions/a/anchors/{in_anchor}/entries.jsonl"));
        let line = &fs::read(folder.path().join(path)).unwrap()[offset as usize..(offset + length) as usize];
        let said: serde_json::Value = serde_json::from_slice(line).unwrap();
        assert_eq!((&said["seq"], &said["kind"]), (&seq.into(), &of_kind.into()));
        if n == 3 {
            assert_eq!((&said["turn"], &said["data"]["metadata"]["source"]), (&2.into(), &"test".into()), "{said}");
            assert!(said["sum"].is_string(), "{said}");
        }
    }
}

/// C-28, S-13, S-11, AB-08, D06, BDD-TAPE-005, 018, 019, 025: of the two writes the file is the truth: an index that is deleted,
/// garbled, emptied or behind comes back the same.
#[test]
fn a_lost_or_broken_index_comes_back_equal() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (mut a, mut b) = (tape(&store, "a"), tape(&store, "b"));
    append(&store, &mut a, 30, "words");
    append(&store, &mut b, 30, "words");
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    let rows = index.rows().unwrap();
    append(&store, &mut a, 5, "words");
    let rebuilt = index.rebuild().unwrap();
    assert_eq!(rebuilt.before.as_ref(), Some(&rebuilt.after));
    assert_eq!(rebuilt.after.entries, rows.entries + 5);
    drop(index);
    let db = folder.path().join("index.db");
    let whole = fs::read(&db).unwrap();
    let mut garbled = whole.clone();
    garbled[4096..].iter_mut().for_each(|b| *b ^= 0x5a);
    for broken in
        [None, Some(vec![]), Some(b"this is no database at all".to_vec()), Some(whole[..5000].to_vec()), Some(garbled)]
    {
        delete(&db).unwrap();
        if let Some(bytes) = broken {
            fs::write(&db, bytes).unwrap();
        }
        let mut index = store.index().unwrap();
        index.catch_up().unwrap();
        assert_eq!(index.rows().unwrap(), rebuilt.after);
        is_whole(&index);
    }
}

/// Each column of a row is compared with what a new index has.
#[test]
fn a_rebuild_says_that_the_index_was_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    append(&store, &mut tape(&store, "a"), 3, "words");
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    for wrong in ["kind = 'x'", "time = 0", "text = ''", "anchor = 'x'", "offset = 1", "length = 1", "seq = 99"] {
        index.database.execute_batch(&format!("update entries set {wrong} where seq = 2")).unwrap();
        let rebuilt = index.rebuild().unwrap();
        assert_ne!(rebuilt.before.as_ref(), Some(&rebuilt.after), "{wrong}");
        let again = index.rebuild().unwrap();
        assert_eq!(again.before, Some(again.after), "{wrong}");
        is_whole(&index);
    }
}

/// Promise 6: the index decides nothing. A file that was cut, replaced or removed is read again.
#[test]
fn the_index_follows_files_that_changed_behind_its_mark() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    append(&store, &mut a, 3, "old");
    append(&store, &mut tape(&store, "gone"), 2, "gone");
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    drop(a);
    fs::remove_dir_all(folder.path().join("sessions/gone")).unwrap();
    let path = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    let whole = fs::read(&path).unwrap();
    let one = memchr::memchr(b'\n', &whole).unwrap() + 1;
    fs::write(&path, &whole[..one]).unwrap();
    let done = index.catch_up().unwrap();
    assert_eq!((done.removed, done.read_anew, done.added), (1, 1, 1));
    fs::write(&path, &whole).unwrap();
    index.catch_up().unwrap();
    // Another past, as long and longer.
    fs::write(&path, &whole[..one]).unwrap();
    let mut a = tape(&store, "a");
    append(&store, &mut a, 5, "new");
    index.catch_up().unwrap();
    let rebuilt = index.rebuild().unwrap();
    assert_eq!((rebuilt.before.as_ref(), rebuilt.after.entries), (Some(&rebuilt.after), 6));
    assert_eq!((hits(&index, "old"), hits(&index, "new")), (1, 5));
}

#[test]
fn what_is_damaged_or_half_written_is_indexed_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    append(&store, &mut a, 3, "sound");
    drop(a);
    let path = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    let whole = fs::read(&path).unwrap();
    let mut index = store.index().unwrap();
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    assert_eq!(index.catch_up().unwrap().added, 2);
    fs::write(&path, &whole).unwrap();
    assert_eq!(index.catch_up().unwrap(), CaughtUp { added: 1, ..CaughtUp::default() });
    fs::write(&path, [&whole[..], b"bad\nbad\n"].concat()).unwrap();
    for _ in 0..3 {
        index.catch_up().unwrap();
        assert_eq!(index.rows().unwrap().entries, 3);
    }
}

#[test]
fn an_index_that_another_process_rebuilt_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    append(&store, &mut tape(&store, "a"), 3, "words");
    let (mut one, mut two) = (store.index().unwrap(), store.index().unwrap());
    one.catch_up().unwrap();
    two.rebuild().unwrap();
    append(&store, &mut tape(&store, "a"), 2, "words");
    one.catch_up().unwrap();
    assert_eq!((one.rows().unwrap().entries, two.rows().unwrap().entries), (5, 5));
}

/// D08
#[test]
fn an_index_of_a_later_version_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let index = store.index().unwrap();
    index.database.execute_batch("pragma user_version = 99").unwrap();
    drop(index);
    assert!(matches!(store.index(), Err(TapeError::Newer { found: 99, known: 8, .. })));
    assert!(folder.path().join("index.db").exists());
}

#[test]
fn an_index_of_an_earlier_version_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    append(&store, &mut tape(&store, "a"), 3, "words");
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    index.database.execute_batch("drop table session_rows; pragma user_version = 2").unwrap();
    drop(index);
    let mut index = store.index().unwrap();
    assert_eq!(index.rows().unwrap().entries, 0);
    index.catch_up().unwrap();
    assert_eq!(hits(&index, "words"), 3);
    is_whole(&index);
}

/// D07: several owners, readers and a rebuild at the same time; never a lock error.
#[test]
fn many_may_catch_up_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(folder.path());
    let mut a = tape(&first, "a");
    append(&first, &mut a, 20, "words");
    std::thread::scope(|scope| {
        for n in 0..6 {
            let first = &first;
            scope.spawn(move || {
                let own = store(first.path());
                append(&own, &mut tape(&own, &format!("s{n}")), 10, "words");
                let mut index = own.index().unwrap();
                for _ in 0..5 {
                    index.catch_up().unwrap();
                    index.rows().unwrap();
                }
            });
        }
    });
    let mut index = first.index().unwrap();
    index.catch_up().unwrap();
    assert_eq!(index.rows().unwrap().entries, 80);
    let rebuilt = index.rebuild().unwrap();
    assert_eq!(rebuilt.before, Some(rebuilt.after));
}

/// What two files of a damaged session both claim to be entry 4 is in the index once, and the search finds nothing else.
#[test]
fn an_entry_that_replaces_another_replaces_its_words_too() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, of_other) = (store(folder.path()), store(other.path()));
    append(&store, &mut tape(&store, "a"), 4, "words");
    let mut longer = tape(&of_other, "a");
    append(&of_other, &mut longer, 3, "words");
    let first = TapeEntry {
        seq: Seq(4),
        time: Millis(4),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        kind: "state".into(),
        data: to_raw_value(&serde_json::json!({ "text": "another" })).unwrap(),
    };
    let _ = longer.begin_anchor("next", &first);
    assert!(of_other.settle(BUSY_WAIT));
    let anchor = "sessions/a/anchors/002_next";
    fs::create_dir(folder.path().join(anchor)).unwrap();
    let file = format!("{anchor}/entries.jsonl");
    fs::copy(other.path().join(&file), folder.path().join(&file)).unwrap();
    let mut index = store.index().unwrap();
    index.catch_up().unwrap();
    assert_eq!((hits(&index, "words"), hits(&index, "another"), index.rows().unwrap().entries), (3, 1, 4));
    is_whole(&index);
}

/// A write that failed half-way is cut back, and what is written in its place may be just as long.
#[test]
fn an_append_as_long_as_a_torn_tail_that_was_seen_is_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    append(&store, &mut tape(&store, "a"), 3, "words");
    let file = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    let whole = fs::read(&file).unwrap();
    let third = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let mut torn = whole.clone();
    torn[third..].fill(b'x');
    fs::write(&file, torn).unwrap();
    let mut index = store.index().unwrap();
    assert_eq!(index.catch_up().unwrap().added, 2);
    fs::write(&file, whole).unwrap();
    assert_eq!(index.catch_up().unwrap(), CaughtUp { added: 1, ..CaughtUp::default() });
    assert_eq!(index.catch_up().unwrap(), CaughtUp::default());
}

/// Seen on the release binary: a torn tail of 1 GB took 1.06 GB of memory. The index holds no more of it than of an append, and
/// reads on once the tail is cut off; with a line after it, it is not a tail but a bad line.
#[test]
fn a_torn_tail_of_any_size_is_not_held_by_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let one = store(folder.path());
    let mut written = tape(&one, "s");
    append(&one, &mut written, 3, "word");
    drop(written);
    let file = folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    let opened = || fs::File::options().append(true).open(&file).unwrap();
    let length = opened().metadata().unwrap().len();
    opened().set_len(length + (1 << 28)).unwrap();
    tail::READ_BYTES.with(|read| read.set(0));
    let mut index = one.index().unwrap();
    index.catch_up().unwrap();
    assert_eq!(hits(&index, "word"), 3);
    let read = tail::READ_BYTES.with(std::cell::Cell::get);
    assert!(read < 4 * crate::tape::LINE_BYTES_MAX, "{read}");
    std::io::Write::write_all(&mut opened(), b"\nnot a line\n").unwrap();
    index.catch_up().unwrap();
    assert_eq!(hits(&index, "word"), 3);
    opened().set_len(length).unwrap();
    append(&one, &mut tape(&one, "s"), 2, "word");
    index.catch_up().unwrap();
    assert_eq!(hits(&index, "word"), 5);
}

/// A line that a later version wrote stops the index in that file and nowhere else: what is before it is found, and it is checked
/// again alone. Finding: 8 MiB of such a file were read again at each search, and nothing of them was found.
#[test]
fn before_a_newer_line_all_is_found_and_nothing_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let one = store(folder.path());
    let mut written = tape(&one, "s");
    append(&one, &mut written, 200, &"word ".repeat(400));
    drop(written);
    let file = folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    let newer = make_last_line_newer(&file);
    // And it has continued since.
    let lines = newer.repeat(2);
    fs::write(&file, &lines).unwrap();
    assert!(matches!(one.read(&"s".parse().unwrap(), Seq(0)), Err(TapeError::Newer { found: 9, .. })));

    let read = |index: &mut Index| {
        tail::READ_BYTES.with(|read| read.set(0));
        index.catch_up().unwrap();
        tail::READ_BYTES.with(std::cell::Cell::get)
    };
    let mut index = one.index().unwrap();
    assert!(read(&mut index) > lines.len() / 2);
    assert_eq!((hits(&index, "word 199"), hits(&index, "word 200")), (1, 0));
    for _ in 0..3 {
        let read = read(&mut index);
        assert!(read < 40_000, "{read} bytes of {} are read again", lines.len());
    }
    is_whole(&index);
    drop(index);
    let rebuilt = one.index().unwrap().rebuild().unwrap();
    assert_eq!((rebuilt.before.as_ref(), rebuilt.after.entries), (Some(&rebuilt.after), 199));
}
