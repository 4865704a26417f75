#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, path::Path, sync::Arc};

use super::*;
use crate::{
    ids::{Millis, Seq},
    sweep::{SweepPolicy, sweep},
    tape::{
        Behind, Card, Deleted, Entry, Fold, Folded, Query, Store, StoreOptions,
        index::Index,
        tests::support::{entry, id, own_folder},
    },
};

const LONG: Duration = Duration::from_secs(60);

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

fn said(seq: u64, text: &str) -> Entry {
    let data = serde_json::value::to_raw_value(&serde_json::json!({ "text": text })).unwrap();
    Entry { data, ..entry(seq) }
}

fn session(store: &Store, name: &str, entries: &[Entry]) {
    let mut tape = store.create(&id(name), Arc::new(|_| {})).unwrap();
    for entry in entries {
        let _ = tape.append(std::slice::from_ref(entry));
        assert!(store.settle(LONG));
    }
}

/// The texts themselves, one behind the other, stand in for a title.
fn texts(before: Option<&str>, entries: &[Entry]) -> Folded {
    let mut digest = before.unwrap_or_default().to_owned();
    entries.iter().for_each(|entry| digest.push_str(entry.data.get()));
    Folded { digest, parent: None }
}

fn card(store: &Store, name: &str) -> Option<Card> {
    let mut index = store.index().unwrap();
    index.bring_cards(&Fold { form: 1, take: &texts }, LONG).unwrap();
    index.cards().unwrap().one(&id(name)).unwrap()
}

fn found(store: &Store, words: &str) -> Vec<(String, u64)> {
    let page = store.search(&Query::new(words)).unwrap();
    assert_eq!(page.behind, Behind::No);
    page.hits.into_iter().map(|hit| (hit.session.to_string(), hit.seq.0)).collect()
}

/// How often the end of a word stands in the files of the index: what words begin with is left out in the search table, where the
/// one before begins so too.
fn in_files(store: &Store, word: &str) -> usize {
    let word = &word[4..];
    let count = |name: &str| {
        let bytes = fs::read(store.path().join(name)).unwrap_or_default();
        memchr::memmem::find_iter(&bytes, word.as_bytes()).count()
    };
    ["index.db", "index.db-wal", "index.db-shm"].into_iter().map(count).sum()
}

/// A word of many parts, so that no part of it stands there by chance.
const SECRET: &str = "zanzibarsecret";

/// Sessions of which some have the secret word; all of it is in the index.
fn talked(store: &Store) {
    for n in 0..6_u64 {
        let mut entries: Vec<Entry> = (1..=30).map(|seq| said(seq, &format!("word{seq} of {n} and more"))).collect();
        if n < 3 {
            entries[12] = said(13, &format!("the {SECRET} of session {n}"));
        }
        session(store, &format!("s{n}"), &entries);
        // The search table has a part for each of these.
        assert_eq!(found(store, SECRET).len() as u64, (n + 1).min(3));
    }
    assert!(card(store, "s1").unwrap().digest.contains(SECRET));
    assert!(in_files(store, SECRET) > 0);
}

fn has(store: &Store, session: &str) -> (bool, bool) {
    let index = store.index().unwrap();
    let count = |sql: &str| index.database.query_row(sql, [session], |row| row.get::<_, i64>(0)).unwrap() > 0;
    (count("select count(*) from entries where session = ?1"), count("select count(*) from cards where session = ?1"))
}

/// A host that only deletes, and never searches or lists again.
#[test]
fn what_is_deleted_leaves_the_index_at_once() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    // Somebody has the index open all the time.
    let open: Index = store.index().unwrap();
    for n in 0..3 {
        assert_eq!(has(&store, &format!("s{n}")), (true, true));
        assert_eq!(store.delete(&id(&format!("s{n}"))).unwrap(), Deleted::Gone);
        assert_eq!(has(&store, &format!("s{n}")), (false, false));
    }
    assert_eq!(in_files(&store, SECRET), 0);
    assert!(!is_noted(&store.layout().clone()));
    drop(open);
    assert_eq!((found(&store, SECRET), found(&store, "word7").len()), (vec![], 3));
    assert_eq!(store.check_index(None).unwrap().wrong, []);
}

/// One entry among many that were read into one part of the search table: the database would leave its words there.
#[test]
fn the_words_of_one_small_session_among_many_leave_the_search_table() {
    let folder = own_folder();
    let store = store(folder.path());
    let others: Vec<Entry> = (1..=200).map(|seq| said(seq, &format!("word{seq} and more"))).collect();
    session(&store, "large", &others);
    session(&store, "small", &[said(1, SECRET)]);
    assert_eq!(found(&store, SECRET).len(), 1);
    store.delete(&id("small")).unwrap();
    assert_eq!(in_files(&store, SECRET), 0);
    assert_eq!((found(&store, SECRET).len(), found(&store, "more").len()), (0, 20));
    assert_eq!(store.check_index(None).unwrap().wrong, []);
}

#[test]
fn what_is_swept_leaves_the_index_with_the_sweep() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    let policy = SweepPolicy { keep_newest: Some(0), ..SweepPolicy::default() };
    assert_eq!(sweep(&store, policy, Millis::now(), || false).unwrap().gone.len(), 6);
    assert_eq!(in_files(&store, SECRET), 0);
    assert!(!is_noted(store.layout()));
}

/// One that forks go on from is not found any more, and goes with the last of them.
#[test]
fn what_is_hidden_leaves_the_search_and_the_list_with_its_last_fork() {
    let folder = own_folder();
    let store = store(folder.path());
    talked(&store);
    store.fork(&id("s0"), Some(Seq(20)), &id("f"), Millis(2_000_000_000_000)).unwrap();
    assert_eq!(store.delete(&id("s0")).unwrap(), Deleted::Hidden);
    assert_eq!((has(&store, "s0"), has(&store, "s1")), ((false, true), (true, true)));
    for name in ["s1", "s2", "f"] {
        assert_eq!(store.delete(&id(name)).unwrap(), Deleted::Gone);
    }
    assert_eq!(has(&store, "s0"), (false, false));
    assert_eq!(in_files(&store, SECRET), 0);
}

/// Where somebody writes the index just then, or the process dies, the next store to be opened does it.
#[test]
fn what_could_not_be_forgotten_at_once_is_at_the_next_start() {
    let folder = own_folder();
    let one = store(folder.path());
    talked(&one);
    let busy = try_lock_index(one.layout(), LONG).unwrap().unwrap();
    for n in 0..3 {
        assert_eq!(one.delete(&id(&format!("s{n}"))).unwrap(), Deleted::Gone);
    }
    drop(busy);
    assert!(is_noted(one.layout()));
    drop(one);
    let next = store(folder.path());
    assert!(!is_noted(next.layout()));
    assert_eq!(in_files(&next, SECRET), 0);
    assert_eq!(fs::read_dir(folder.path().join("deleted")).unwrap().count(), 0);
}

/// An index that is no database is of use to nobody, but for what can be read in it.
#[test]
fn an_index_that_is_broken_goes_with_what_is_deleted() {
    let folder = own_folder();
    let store = store(folder.path());
    session(&store, "s", &[said(1, SECRET)]);
    fs::write(folder.path().join("index.db"), format!("no database, and {SECRET}")).unwrap();
    store.delete(&id("s")).unwrap();
    assert!(!folder.path().join("index.db").exists());
    // And where there is none, none is made.
    session(&store, "t", &[said(1, "text")]);
    store.delete(&id("t")).unwrap();
    assert!(!folder.path().join("index.db").exists() && !is_noted(store.layout()));
}

/// Removed by hand, or by a version that told the index nothing, and made anew: what stands behind the old place is one part of a
/// line, or nothing at all.
#[test]
fn a_session_that_was_made_anew_under_its_id_has_nothing_of_the_old_one() {
    let old = said(1, &format!("old {SECRET} words"));
    let old_two = said(2, "old second");
    let mut later = entry(1);
    later.time = Millis(1_732_000_009_999);
    let with = |text: String| Entry { data: said(1, &text).data, ..later.clone() };
    let same_length = format!("new {} words", "x".repeat(SECRET.len()));
    let new: [Vec<Entry>; 4] = [
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
        let before = card(&store, "s").unwrap();
        fs::remove_dir_all(folder.path().join("sessions/s")).unwrap();
        session(&store, "s", &entries);
        assert_eq!(found(&store, SECRET), [], "{n}");
        if n != 2 {
            // As long as before, it is found by whoever searches, and by no list.
            let now = card(&store, "s").unwrap();
            assert_ne!(now.digest, before.digest, "{n}");
            assert!(!now.digest.contains(SECRET), "{n}");
        }
        assert_eq!(store.check_index(None).unwrap().wrong, [], "{n}");
    }
}
