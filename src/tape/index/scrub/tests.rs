#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use super::*;
use crate::{
    ops::sweep::{SweepPolicy, sweep_plan, sweep_planned},
    tape::{
        Behind, Deleted, Fold, Query, SessionRow, Store, StoreOptions, TapeEntry, TapeStore as _, TapeStoreExt as _,
        index::Index,
        tests::support::{entry, id, own_folder},
    },
    words::ids::{Millis, Seq},
};

const LONG: Duration = Duration::from_secs(60);

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

fn said(seq: u64, text: &str) -> TapeEntry {
    let data = serde_json::value::to_raw_value(&serde_json::json!({ "text": text })).unwrap();
    TapeEntry { data, ..entry(seq) }
}

fn session(store: &Store, name: &str, entries: &[TapeEntry]) {
    let mut tape = store.create(&id(name), Arc::new(|_| {})).unwrap();
    for entry in entries {
        let _ = tape.append(std::slice::from_ref(entry));
        assert!(store.settle(LONG));
    }
}

/// The texts themselves, one after the other, replace a title.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Texts(String);

impl Fold for Texts {
    const FORM: u32 = 1;

    fn add(&mut self, entries: &[TapeEntry]) {
        entries.iter().for_each(|entry| self.0.push_str(entry.data.get()));
    }

    fn parent(&self) -> Option<(SessionId, bool)> {
        None
    }
}

fn row(store: &Store, name: &str) -> Option<SessionRow<Texts>> {
    let mut index = store.index().unwrap();
    index.bring_all_rows::<Texts>(LONG).unwrap();
    index.session_rows().unwrap().one(&id(name)).unwrap()
}

/// Whether a new index of the same tapes has the same rows.
fn is_right(store: &Store) -> bool {
    let rebuilt = store.index().unwrap().rebuild().unwrap();
    rebuilt.before == Some(rebuilt.after)
}

fn found(store: &Store, words: &str) -> Vec<(String, u64)> {
    let page = store.search(&Query { wait: LONG, ..Query::new(words) }).unwrap();
    assert_eq!(page.behind, Behind::No);
    page.hits.into_iter().map(|hit| (hit.session.to_string(), hit.seq.0)).collect()
}

/// How often the end of a word is in the files of the index: what words begin with is left out in the search table, where the one
/// before begins so too.
fn in_files(store: &Store, word: &str) -> usize {
    let word = &word[4..];
    let count = |name: &str| {
        let bytes = fs::read(store.path().join(name)).unwrap_or_default();
        memchr::memmem::find_iter(&bytes, word.as_bytes()).count()
    };
    ["index.db", "index.db-wal", "index.db-shm"].into_iter().map(count).sum()
}

/// Whether there is a note that the index still has something.
fn is_noted(store: &Store) -> bool {
    fs::read_dir(store.path().join("deleted")).is_ok_and(|mut notes| notes.next().is_some())
}

/// A word of many parts, so that no part of it is there by chance.
const SECRET: &str = "zanzibarsecret";

/// Sessions of which some have the secret word; all of it is in the index.
fn talked(store: &Store) {
    for n in 0..6_u64 {
        let mut entries: Vec<TapeEntry> =
            (1..=30).map(|seq| said(seq, &format!("word{seq} of {n} and more"))).collect();
        if n < 3 {
            entries[12] = said(13, &format!("the {SECRET} of session {n}"));
        }
        session(store, &format!("s{n}"), &entries);
        // The search table has a part for each of these.
        assert_eq!(found(store, SECRET).len() as u64, (n + 1).min(3));
    }
    assert!(row(store, "s1").unwrap().digest.0.contains(SECRET));
    assert!(in_files(store, SECRET) > 0);
}

fn has(store: &Store, session: &str) -> (bool, bool) {
    let index = store.index().unwrap();
    let count = |sql: &str| index.database.query_row(sql, [session], |row| row.get::<_, i64>(0)).unwrap() > 0;
    (
        count("select count(*) from entries where session = ?1"),
        count("select count(*) from session_rows where session = ?1"),
    )
}

/// All of it, in one go.
fn scrub(store: &Store) {
    assert!(store.scrub(&|| false).unwrap());
}

/// A host that only deletes, and never searches or lists again.
#[test]
fn what_is_deleted_leaves_the_index_with_a_scrub() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    // Another connection has the index open all the time.
    let open: Index = store.index().unwrap();
    for n in 0..3 {
        assert_eq!(has(&store, &format!("s{n}")), (true, true));
        assert_eq!(store.delete(&id(&format!("s{n}"))).unwrap(), Deleted::Gone);
        assert!(is_noted(&store));
        scrub(&store);
        assert_eq!(has(&store, &format!("s{n}")), (false, false));
    }
    assert_eq!(in_files(&store, SECRET), 0);
    assert!(!is_noted(&store));
    drop(open);
    assert_eq!((found(&store, SECRET), found(&store, "word7").len()), (vec![], 3));
    assert!(is_right(&store));
}

/// One entry among many that were read into one part of the search table: the database would leave its words there.
#[test]
fn the_words_of_one_small_session_among_many_leave_the_search_table() {
    let folder = own_folder();
    let store = store(folder.path());
    let others: Vec<TapeEntry> = (1..=200).map(|seq| said(seq, &format!("word{seq} and more"))).collect();
    session(&store, "large", &others);
    session(&store, "small", &[said(1, SECRET)]);
    assert_eq!(found(&store, SECRET).len(), 1);
    store.delete(&id("small")).unwrap();
    scrub(&store);
    assert_eq!(in_files(&store, SECRET), 0);
    assert_eq!((found(&store, SECRET).len(), found(&store, "more").len()), (0, 20));
    assert!(is_right(&store));
}

#[test]
fn what_is_swept_leaves_the_index_with_one_scrub() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    let policy = SweepPolicy { keep_newest: Some(0), ..SweepPolicy::default() };
    assert_eq!(
        sweep_planned(&store, sweep_plan(&store, policy, Millis::now(), || false).unwrap(), || false)
            .unwrap()
            .gone
            .len(),
        6
    );
    scrub(&store);
    assert_eq!(in_files(&store, SECRET), 0);
    assert!(!is_noted(&store));
}

/// A session that forks depend on is not found any more, and goes with the last of them.
#[test]
fn what_is_hidden_leaves_the_search_and_the_list_with_its_last_fork() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    store.fork(&id("s0"), Some(Seq(20)), &id("f"), Millis(2_000_000_000_000)).unwrap();
    assert_eq!(store.delete(&id("s0")).unwrap(), Deleted::Hidden);
    scrub(&store);
    assert_eq!((has(&store, "s0"), has(&store, "s1")), ((false, true), (true, true)));
    for name in ["s1", "s2", "f"] {
        assert_eq!(store.delete(&id(name)).unwrap(), Deleted::Gone);
    }
    scrub(&store);
    assert_eq!(has(&store, "s0"), (false, false));
    assert_eq!(in_files(&store, SECRET), 0);
}

/// If another process writes or reads the index just then, or this one dies, the next scrub does it.
#[test]
fn what_could_not_be_forgotten_at_once_is_the_next_time() {
    let folder = own_folder();
    let one = store(folder.path());
    talked(&one);
    let busy = try_lock_index(one.layout(), LONG).unwrap().unwrap();
    for n in 0..3 {
        assert_eq!(one.delete(&id(&format!("s{n}"))).unwrap(), Deleted::Gone);
    }
    assert!(!one.scrub(&|| false).unwrap());
    let found = one.search(&Query { wait: LONG, ..Query::new(SECRET) }).unwrap();
    assert!(found.hits.is_empty(), "a search finds nothing of it all the same");
    drop(busy);
    let reads = one.index().unwrap();
    let reads = reads.session_rows().unwrap();
    reads.one::<Texts>(&id("s4")).unwrap().unwrap();
    assert!(!one.scrub(&|| false).unwrap(), "the write-ahead log is still read");
    drop(reads);
    assert!(is_noted(&one));
    drop(one);
    let next = store(folder.path());
    scrub(&next);
    assert!(!is_noted(&next));
    assert_eq!(in_files(&next, SECRET), 0);
    assert_eq!(fs::read_dir(folder.path().join("deleted")).unwrap().count(), 0);
}

/// The session is out of sight by then, so no one would ask for it again.
#[cfg(feature = "fault-injection")]
#[test]
fn what_was_deleted_half_way_leaves_the_index_too() {
    let folder = own_folder();
    let path = folder.path().to_owned();
    talked(&store(folder.path()));
    let at = path.clone();
    let faults = crate::runtime::Faults::new(move |point, session| {
        if point == "tape.delete.unmarked" {
            let moved = fs::read_dir(at.join("deleted")).unwrap().map(|name| name.unwrap().path());
            let moved = moved.filter(|path| path.is_dir()).last().unwrap();
            fs::rename(&moved, at.join(format!("moved-{session}"))).unwrap();
            fs::write(&moved, "no folder").unwrap();
        }
    });
    let one = Store::open(&path, StoreOptions { faults, ..StoreOptions::default() }).unwrap();
    for n in 0..3 {
        assert!(matches!(one.delete(&id(&format!("s{n}"))), Err(TapeError::Io { .. })));
    }
    assert!(in_files(&one, SECRET) > 0);
    drop(one);
    let next = store(&path);
    scrub(&next);
    assert_eq!(has(&next, "s1"), (false, false));
    assert_eq!(in_files(&next, SECRET), 0);
}

/// The rename that takes a session away is the note for the index: a removal that dies right after it is still scrubbed.
#[cfg(feature = "fault-injection")]
#[test]
fn a_deletion_that_dies_behind_its_rename_has_its_note() {
    let folder = own_folder();
    talked(&store(folder.path()));
    let faults = crate::runtime::Faults::new(|point, _| assert_ne!(point, "tape.delete.moved", "it dies here"));
    let one = Store::open(folder.path(), StoreOptions { faults, ..StoreOptions::default() }).unwrap();
    for n in 0..3 {
        let deletion = std::panic::AssertUnwindSafe(|| one.delete(&id(&format!("s{n}"))));
        assert!(std::panic::catch_unwind(deletion).is_err());
    }
    drop(one);
    let next = store(folder.path());
    assert!(is_noted(&next) && in_files(&next, SECRET) > 0);
    scrub(&next);
    assert_eq!(in_files(&next, SECRET), 0);
    assert!(!is_noted(&next));
}

/// A deletion during a scrub has its own note, and is not forgotten; nor is the work of a scrub that died.
#[test]
fn what_is_deleted_in_the_middle_of_a_scrub_is_scrubbed_too() {
    let folder = own_folder();
    let store = store(folder.path());
    let many: Vec<TapeEntry> = (1..=2_500).map(|seq| said(seq, &format!("large {seq}"))).collect();
    session(&store, "large", &many);
    talked(&store);
    store.delete(&id("large")).unwrap();
    store.delete(&id("s1")).unwrap();
    assert!(!store.scrub(&|| true).unwrap(), "it was told to stop");
    assert!(is_noted(&store));
    let others = std::cell::Cell::new(vec!["s0", "s2"]);
    let delete_more = || {
        others.take().into_iter().for_each(|other| assert!(store.delete_unused(&id(other), Seq(30)).unwrap()));
        false
    };
    assert!(store.scrub(&delete_more).unwrap());
    assert_eq!(["s0", "s1", "s2"].map(|name| has(&store, name)), [(false, false); 3]);
    assert!(!is_noted(&store));
    assert_eq!(in_files(&store, SECRET), 0);
}

/// Its rows are those of the old one until it is read again, and no one may see them.
#[test]
fn what_was_deleted_and_made_anew_leaves_the_index() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    for n in 0..3 {
        store.delete(&id(&format!("s{n}"))).unwrap();
        session(&store, &format!("s{n}"), &[said(1, "new")]);
    }
    scrub(&store);
    assert_eq!(in_files(&store, SECRET), 0);
    assert_eq!((found(&store, SECRET), found(&store, "new").len()), (vec![], 3));
}

/// However long it takes: it can be stopped after each piece, and the next one continues.
#[test]
fn what_takes_long_to_forget_goes_piece_by_piece() {
    let folder = own_folder();
    let store = store(folder.path());
    let many: Vec<TapeEntry> = (1..=2_500).map(|seq| said(seq, &format!("word{seq} {SECRET}"))).collect();
    let mut tape = store.create(&id("large"), Arc::new(|_| {})).unwrap();
    let _ = tape.append(&many);
    drop(tape);
    assert!(store.settle(LONG));
    session(&store, "small", &[said(1, SECRET)]);
    assert_eq!(found(&store, SECRET).len(), 20);
    for name in ["large", "small"] {
        store.delete(&id(name)).unwrap();
    }
    let pieces = (0..).find(|_| store.scrub(&|| true).unwrap()).unwrap();
    assert!((2..5).contains(&pieces), "{pieces}");
    assert_eq!((has(&store, "large"), has(&store, "small")), ((false, false), (false, false)));
    assert_eq!(in_files(&store, SECRET), 0);
}

/// An index that is not a database is useless, except for what can be read in it.
#[test]
fn an_index_that_is_broken_goes_with_what_is_deleted() {
    let folder = own_folder();
    let store = store(folder.path());
    session(&store, "s", &[said(1, SECRET)]);
    fs::write(folder.path().join("index.db"), format!("no database, and {SECRET}")).unwrap();
    store.delete(&id("s")).unwrap();
    scrub(&store);
    assert!(!folder.path().join("index.db").exists());
    // And where there is none, none is made.
    session(&store, "t", &[said(1, "text")]);
    store.delete(&id("t")).unwrap();
    scrub(&store);
    assert!(!folder.path().join("index.db").exists() && !is_noted(&store));
}

/// Removed by hand, or by a version that left the index no note, and made again: what is after the old place is one part of a
/// line, or nothing at all.
#[test]
fn a_session_that_was_made_anew_under_its_id_has_nothing_of_the_old_one() {
    let old = said(1, &format!("old {SECRET} words"));
    let old_two = said(2, "old second");
    let mut later = entry(1);
    later.time = Millis(1_732_000_009_999);
    let with = |text: String| TapeEntry { data: said(1, &text).data, ..later.clone() };
    let same_length = format!("new {} words", "x".repeat(SECRET.len()));
    let new: [Vec<TapeEntry>; 4] = [
        vec![with("n".repeat(4_000))],
        vec![with(format!("{same_length}n")), said(2, &"n".repeat(4_000))],
        vec![with(same_length.clone()), said(2, "new second")],
        vec![with(same_length)],
    ];
    for (n, entries) in new.into_iter().enumerate() {
        let folder = own_folder();
        let store = store(folder.path());
        session(&store, "s", &[old.clone(), old_two.clone()]);
        assert_eq!(found(&store, SECRET).len(), 1);
        let before = row(&store, "s").unwrap();
        fs::remove_dir_all(folder.path().join("sessions/s")).unwrap();
        session(&store, "s", &entries);
        assert_eq!(found(&store, SECRET), [], "{n}");
        if n != 2 {
            // As long as before, searches find it, and no list does.
            let now = row(&store, "s").unwrap();
            assert_ne!(now.digest, before.digest, "{n}");
            assert!(!now.digest.0.contains(SECRET), "{n}");
        }
        assert!(is_right(&store), "{n}");
    }
}
