#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, path::Path, sync::Arc, time::Instant};

use proptest::prelude::*;
use serde_json::{json, value::to_raw_value};

use super::*;
use crate::tape::{Appended, StoreOptions, TapeAccess, TapeStore as _, TapeStoreExt as _, TapeWriter};

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn tape(store: &Store, name: &str) -> Box<dyn TapeWriter> {
    match store.exists(&id(name)) {
        true => store.load(&id(name), Arc::new(|_| {})).unwrap().tape,
        false => store.create(&id(name), Arc::new(|_| {})).unwrap(),
    }
}

fn entry(seq: Seq, time: u64, kind: &str, data: serde_json::Value) -> TapeEntry {
    let data = to_raw_value(&data).unwrap();
    TapeEntry {
        seq,
        time: Millis(time),
        cause: None,
        turn: None,
        step: None,
        ticket: None,
        input: None,
        kind: kind.into(),
        data,
    }
}

/// One entry with this text, at this time.
fn say(store: &Store, tape: &mut Box<dyn TapeWriter>, kind: &str, time: u64, text: &str) {
    let _ = tape.append(&[entry(tape.last().next(), time, kind, json!({ "text": text }))]);
    assert!(store.settle(Duration::from_secs(30)));
}

fn begin(store: &Store, tape: &mut Box<dyn TapeWriter>, name: &str, text: &str) {
    let _: Appended = tape.begin_anchor(name, &entry(tape.last().next(), 1, "note", json!({ "text": text })));
    assert!(store.settle(Duration::from_secs(30)));
}

fn found(store: &Store, query: &Query) -> Vec<(String, u64)> {
    // The index may take its time on a busy machine.
    let page = store.search(&Query { wait: Duration::from_secs(60), ..query.clone() }).unwrap();
    assert_eq!(page.behind, Behind::No);
    page.hits.into_iter().map(|hit| (hit.session.to_string(), hit.seq.0)).collect()
}

fn seqs(store: &Store, words: &str) -> Vec<u64> {
    found(store, &Query::new(words)).into_iter().map(|(_, seq)| seq).collect()
}

/// BDD-TAPE-011, 012, 020, S-03, S-08: words, phrases, prefixes, one and two characters; and nothing where there is nothing.
#[test]
fn what_was_said_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    let texts = [
        "The disk is full: error 28",
        "full of disks, no error",
        "发生了错误信息",
        "读取文件 src/main.rs 🎉 École",
        "call_started(42) of the tool",
        "カタカナとひらがな, 한국어 검색",
    ];
    for (n, text) in texts.iter().enumerate() {
        say(&store, &mut a, "note", n as u64, text);
    }
    for (words, expected) in [
        ("disk", vec![1]),
        ("disk*", vec![2, 1]),
        ("ERROR full", vec![2, 1]),
        ("\"disk is full\"", vec![1]),
        ("\"full disk\"", vec![]),
        ("错误", vec![3]),
        ("错", vec![3]),
        ("误信息", vec![3]),
        ("错信", vec![]),
        ("发生 信息", vec![3]),
        ("文", vec![4]),
        ("ecole", vec![4]),
        ("🎉", vec![4]),
        ("main.rs", vec![4]),
        ("call_started", vec![5]),
        ("call_sta*", vec![5]),
        ("started", vec![5]),
        ("カナ", vec![6]),
        ("검색", vec![6]),
        ("absent", vec![]),
        ("不存在", vec![]),
    ] {
        assert_eq!(seqs(&store, words), expected, "{words}");
    }
    let hit = store.search(&Query::new("错误")).unwrap().hits.remove(0);
    assert_eq!((hit.snippet.marked("[", "]").as_str(), hit.entry), ("发生了[错误]信息", None));
}

/// BDD-TAPE-022, 033, 034, S-12: in every anchor; and the entry comes whole, with all that its data says.
#[test]
fn hits_come_from_every_anchor_with_their_whole_entry() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    say(&store, &mut a, "note", 1, "搜索目标 one");
    begin(&store, &mut a, "phase-1", "搜索目标 two");
    let data = json!({"text": "with metadata", "metadata": {"source": "test", "priority": 1}});
    let _ = a.append(&[entry(Seq(3), 1, "note", data)]);
    assert!(store.settle(Duration::from_secs(30)));
    let _ = a.append(&[entry(Seq(4), 1, "note", json!({"text": "without metadata", "metadata": {}}))]);
    assert!(store.settle(Duration::from_secs(30)));
    assert_eq!(seqs(&store, "搜索目标"), [2, 1]);
    let whole = Query { whole: true, ..Query::new("metadata") };
    let entries: Vec<TapeEntry> =
        store.search(&whole).unwrap().hits.into_iter().map(|hit| hit.entry.unwrap()).collect();
    let read = store.read(&id("a"), Seq(2)).unwrap();
    assert_eq!(entries, [read[1].clone(), read[0].clone()]);
    let data: serde_json::Value = serde_json::from_str(entries[1].data.get()).unwrap();
    assert_eq!(data["metadata"]["source"], "test");
    for anchor in ["phase-1", "002_phase-1"] {
        let query = Query { anchor: Some(anchor.into()), ..Query::new("搜索目标") };
        assert_eq!(found(&store, &query), [("a".into(), 2)]);
    }
}

#[test]
fn a_search_is_narrowed_by_session_kind_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for name in ["a", "b"] {
        let mut tape = tape(&store, name);
        for (kind, time) in [("accepted", 1000), ("answer", 2000), ("result", 2000), ("answer", 3000)] {
            say(&store, &mut tape, kind, time, "word");
        }
    }
    let by = |change: &dyn Fn(&mut Query)| {
        let mut query = Query::new("word");
        change(&mut query);
        found(&store, &query)
    };
    let of = |session: &str, seqs: &[u64]| seqs.iter().map(|seq| (session.to_owned(), *seq)).collect::<Vec<_>>();
    assert_eq!(by(&|_| {}).len(), 8);
    assert_eq!(by(&|query| query.session = Some(id("b"))), of("b", &[4, 3, 2, 1]));
    assert_eq!(by(&|query| query.session = Some(id("c"))), []);
    let kinds = |query: &mut Query| {
        query.session = Some(id("a"));
        query.kinds = vec!["accepted".into(), "result".into()];
    };
    assert_eq!(by(&kinds), of("a", &[3, 1]));
    let times = |query: &mut Query| {
        query.session = Some(id("a"));
        (query.since, query.until) = (Some(Millis(2000)), Some(Millis(2000)));
    };
    assert_eq!(by(&times), of("a", &[3, 2]));
    assert_eq!(by(&|query| query.until = Some(Millis(999))), []);
    // Without a word, what else is asked for is enough.
    let all = |query: &mut Query| (query.words, query.session) = (String::new(), Some(id("a")));
    assert_eq!(by(&all), of("a", &[4, 3, 2, 1]));
    let nothing = store.search(&Query::new("!")).unwrap_err();
    assert!(matches!(nothing, TapeError::Query { .. }), "{nothing}");
}

/// Pages continue where the one before ended, also when something was said meanwhile; each hit is there once.
#[test]
fn pages_follow_each_other_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    for n in 0..450 {
        // Three of each millisecond.
        say(&store, &mut a, "note", n as u64 / 3, &"word ".repeat(1 + n % 3));
    }
    for order in [Order::Newest, Order::Best] {
        let before = a.last().0;
        let mut query = Query { order, limit: 64, ..Query::new("word") };
        let mut all = Vec::new();
        loop {
            let page = store.search(&query).unwrap();
            assert!(page.hits.len() <= 64);
            all.extend(page.hits.iter().map(|hit| hit.seq.0));
            let later = 1_000_000 + a.last().0;
            say(&store, &mut a, "note", later, "one more word");
            let Some(next) = page.next else { break };
            query.after = Some(next.to_string().parse().unwrap());
        }
        if order == Order::Newest {
            assert!(all.is_sorted_by(|one, next| one > next));
        } else {
            let texts = |seq: &u64| store.read(&id("a"), Seq(seq - 1)).unwrap()[0].data.get().len();
            assert!(texts(&all[0]) >= texts(&all[100]), "what says it more often is first");
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, (1..=before).collect::<Vec<_>>());
    }
    let all = Query { limit: usize::MAX, ..Query::new("word") };
    assert_eq!(store.search(&all).unwrap().hits.len(), PAGE_HITS_MAX, "a page has a bound");
    assert_eq!(store.search(&Query { limit: 0, ..all }).unwrap().hits.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// No input is an error of the database, and none finds what does not hold its words.
    #[test]
    fn whatever_is_typed_is_a_search_or_is_refused(words in "(\\PC|[\"'*():^{}+ -]|AND|OR|NOT|NEAR|词){0,40}") {
        thread_local! {
            static SHARED: (tempfile::TempDir, std::cell::RefCell<Index>) = {
                let folder = tempfile::tempdir().unwrap();
                let store = store(folder.path());
                say(&store, &mut tape(&store, "a"), "note", 1, "some words, 词 and more");
                (folder, std::cell::RefCell::new(store.index().unwrap()))
            };
        }
        SHARED.with(|(_, index)| {
            match index.borrow_mut().search(&Query::new(words.clone())) {
                Ok(page) => {
                    let terms = terms(&words).unwrap();
                    for hit in page.hits {
                        prop_assert!(weight("some words, 词 and more", &terms) > 0, "{words:?} {hit:?}");
                    }
                }
                Err(TapeError::Query { .. }) => {}
                Err(other) => prop_assert!(false, "{words:?}: {other}"),
            }
            Ok(())
        })?;
    }
}

/// Must show 4 (the index), D06: deleted, garbled, emptied, cut: a search finds the same, or says that it is behind.
#[test]
fn a_lost_or_broken_index_heals_in_a_search() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    for n in 0..50 {
        say(&store, &mut a, "note", n, &format!("words and {n}"));
    }
    let query = Query { limit: 200, wait: Duration::from_secs(60), ..Query::new("words") };
    let expected = store.search(&query).unwrap();
    assert_eq!(expected.hits.len(), 50);
    let db = folder.path().join("index.db");
    let whole = fs::read(&db).unwrap();
    let mut garbled = whole.clone();
    garbled[4096..].iter_mut().for_each(|b| *b ^= 0x5a);
    let some_of_it = [None, Some(vec![]), Some(b"no database".to_vec()), Some(whole[..5000].to_vec()), Some(garbled)];
    for (n, broken) in some_of_it.into_iter().enumerate() {
        super::super::delete(&db).unwrap();
        if let Some(bytes) = broken {
            fs::write(&db, bytes).unwrap();
        }
        let page = store.search(&query).unwrap();
        assert_eq!((page.hits, page.behind), (expected.hits.clone(), Behind::No), "broken in way {n}");
    }
}

#[test]
fn what_cannot_be_searched_is_said_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    say(&store, &mut tape(&store, "a"), "note", 1, "words");
    let reader =
        Store::open(folder.path(), StoreOptions { access: TapeAccess::Read, ..StoreOptions::default() }).unwrap();
    let missing = reader.search(&Query::new("words")).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "failed to read the index: there is none yet, or an older one; opening the store to write makes it"
    );
    assert_eq!(seqs(&store, "words"), [1]);
    assert_eq!(seqs(&reader, "words"), [1]);
    say(&store, &mut tape(&store, "b"), "note", 1, "more words");
    let page = reader.search(&Query::new("words")).unwrap();
    assert_eq!((page.hits.len(), page.behind), (1, Behind::Sessions(1)));
    let index = store.index().unwrap();
    index.database.execute_batch("pragma user_version = 99").unwrap();
    for store in [&store, &reader] {
        assert!(matches!(store.search(&Query::new("words")), Err(TapeError::Newer { found: 99, .. })));
    }
    assert!(folder.path().join("index.db").exists());
}

/// While another process writes the index, a search does not wait for it; nor for a time that is over.
#[test]
fn a_search_that_may_not_wait_says_what_is_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    say(&store, &mut tape(&store, "a"), "note", 1, "words");
    assert_eq!(seqs(&store, "words"), [1]);
    say(&store, &mut tape(&store, "b"), "note", 1, "words");
    let soon = Query { wait: Duration::ZERO, ..Query::new("words") };
    let page = store.search(&soon).unwrap();
    assert_eq!((page.hits.len(), page.behind), (1, Behind::Sessions(1)));
    let lock = super::super::lock_index(store.layout(), Duration::ZERO).unwrap();
    let page = store.search(&Query { wait: Duration::from_millis(20), ..Query::new("words") }).unwrap();
    assert_eq!((page.hits.len(), page.behind), (1, Behind::Unknown));
    drop(lock);
    assert_eq!(found(&store, &Query::new("words")).len(), 2);
}

/// Promise 6: what the index says and the tape does not is not given, and is put right.
#[test]
fn a_hit_that_is_not_on_the_tape_is_not_given() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    for text in ["words one", "words two"] {
        say(&store, &mut a, "note", 1, text);
    }
    assert_eq!(seqs(&store, "words"), [2, 1]);
    let index = store.index().unwrap();
    // It names another place, another session, and a folder that is none.
    for change in ["offset = offset + 1", "seq = 7", "anchor = '001_../../../b'", "session = '../a'"] {
        index.database.execute_batch(&format!("update entries set {change} where seq = 2")).unwrap();
        assert_eq!(seqs(&store, "words"), [2, 1], "{change}");
    }
    // Another past, as long as the one that was read: the file's length does not tell.
    let file = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, vec![b'x'; bytes.len()]).unwrap();
    assert!(seqs(&store, "words").is_empty());
    fs::remove_dir_all(folder.path().join("sessions/a")).unwrap();
    assert!(seqs(&store, "words").is_empty());
}

/// A million entries of one moment would be many; some thousand of one moment each have their own place.
#[test]
fn entries_of_one_moment_and_of_absurd_times_are_all_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for (name, time) in [("a", 0), ("b", 5), ("c", u64::MAX)] {
        let mut tape = tape(&store, name);
        let all: Vec<TapeEntry> = (1..=300).map(|n| entry(Seq(n), time, "note", json!({"text": "word"}))).collect();
        let _ = tape.append(&all);
        assert!(store.settle(Duration::from_secs(30)));
    }
    let mut query = Query { limit: 200, ..Query::new("word") };
    let mut all = 0;
    loop {
        let page = store.search(&query).unwrap();
        all += page.hits.len();
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(all, 900);
}

/// A file that is larger than what is read at a time is read on from where it stopped; a bad line in it ends it, for good.
#[test]
fn a_large_file_is_read_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    let long = "padding ".repeat(40_000);
    for n in 0..80 {
        let _ = a.append(&[entry(a.last().next(), n, "note", json!({"text": "word", "data": long}))]);
        assert!(store.settle(Duration::from_secs(30)));
    }
    let mut index = store.index().unwrap();
    let mut steps = Vec::new();
    index.catch_up_telling(&mut |done| steps.push(done.added)).unwrap();
    assert!(steps.len() >= 3 && steps.last() == Some(&80), "{steps:?}");
    // With no time at all it still comes a piece further each time.
    index.heal().unwrap();
    let mut behind = 0;
    while index.bring_up_to_date(Duration::from_millis(1)).unwrap() != Behind::No {
        behind += 1;
        assert!(behind < 100);
    }
    assert_eq!(index.rows().unwrap().entries, 80);
    // Bad in the third piece.
    let file = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    drop(a);
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.len() * 7 / 8;
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    index.heal().unwrap();
    let began = Instant::now();
    let added = index.catch_up().unwrap().added;
    assert!((60..80).contains(&added), "{added}");
    assert_eq!(index.catch_up().unwrap().added, 0);
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// A cursor comes back from outside, so it may say anything: the page after it is empty then, and nothing breaks.
#[test]
fn a_cursor_that_was_made_up_gives_an_empty_page() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut a = tape(&store, "a");
    for n in 0..5 {
        say(&store, &mut a, "note", 1_000 + n, "a word");
    }
    for made_up in
        ["9223372036854775807-18446744073709551615", "9223372036854775807-6", "0", "0-0", "1-18446744073709551614"]
    {
        for order in [Order::Best, Order::Newest] {
            let query = Query { order, after: Some(made_up.parse().unwrap()), limit: 2, ..Query::new("word") };
            let page = store.search(&query).unwrap();
            let is_behind = order == Order::Best || made_up.starts_with('0') || made_up.starts_with('1');
            assert_eq!((page.hits.is_empty(), page.next.is_none()), (is_behind, is_behind), "{made_up} {order:?}");
        }
    }
}
