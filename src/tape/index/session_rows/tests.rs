#![allow(clippy::unwrap_used, clippy::panic)]
use std::{fs, path::Path, sync::Arc};

use super::*;
use crate::{
    tape::{
        Store, StoreOptions, TapeStore as _, TapeStoreExt as _,
        layout::make_folder,
        line::{Chain, encode_lines},
        tests::support::{entry, id, make_last_line_newer, own_folder},
    },
    words::ids::Seq,
};

const LONG: Duration = Duration::from_secs(60);

/// Sums up how often it was asked and which entries it was given: `1-3 4-5`. Its form is a number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ranges<const FORM: u32>(String);

impl<const N: u32> Fold for Ranges<N> {
    const FORM: u32 = N;

    fn add(&mut self, entries: &[TapeEntry]) {
        let blank = if self.0.is_empty() { "" } else { " " };
        self.0 += &format!("{blank}{}-{}", entries[0].seq, entries[entries.len() - 1].seq);
    }

    fn parent(&self) -> Option<(SessionId, bool)> {
        None
    }
}

fn bring(index: &mut Index) -> ListCost {
    index.bring_rows::<Ranges<1>>(LONG).unwrap().0
}

fn digest(index: &Index, session: &str) -> Option<(String, Seq, u64)> {
    let row = index.session_rows().unwrap().one::<Ranges<1>>(&id(session)).unwrap()?;
    Some((row.digest.0, row.seq, row.entries))
}

fn append(store: &Store, session: &str, seqs: std::ops::RangeInclusive<u64>) {
    let session = id(session);
    let mut tape = match store.exists(&session) {
        true => store.load(&session, Arc::new(|_| {})).unwrap().tape,
        false => store.create(&session, Arc::new(|_| {})).unwrap(),
    };
    for seq in seqs {
        let _ = tape.append(&[entry(seq)]);
        assert!(store.settle(LONG));
    }
}

/// A session of one entry, written by hand: as its files would be, but that they are made faster.
fn by_hand(folder: &Path, name: &str, time: u64) {
    let anchor = "001_session-start";
    let mut chain = Chain::start(&id(name), anchor);
    let line = encode_lines(&mut chain, &[TapeEntry { time: Millis(time), ..entry(1) }]).unwrap();
    let at = folder.join("sessions").join(name).join("anchors").join(anchor);
    make_folder(&at).unwrap();
    fs::write(at.join("entries.jsonl"), line).unwrap();
}

/// Z-04: what was read once is not read again: a list after nothing happened reads no tape, and after one append that alone.
#[test]
fn only_what_was_appended_since_is_read() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    append(&store, "a", 1..=3);
    append(&store, "b", 1..=2);
    let mut index = store.index().unwrap();
    let first = bring(&mut index);
    assert_eq!((first.folders, first.tapes), (2, 2));
    assert_eq!(bring(&mut index), ListCost { folders: 2, ..ListCost::default() });
    let before = fs::metadata(folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl")).unwrap().len();
    append(&store, "a", 4..=4);
    let after = fs::metadata(folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl")).unwrap().len();
    let second = bring(&mut index);
    assert_eq!(second, ListCost { folders: 2, tapes: 1, bytes: after - before, rows: 0 });
    assert_eq!(digest(&index, "a"), Some(("1-3 4-4".to_owned(), Seq(4), 4)));
    assert_eq!(digest(&index, "b"), Some(("1-2".to_owned(), Seq(2), 2)));
}

#[test]
fn what_is_not_what_was_read_is_read_anew() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    append(&store, "a", 1..=3);
    append(&store, "gone", 1..=1);
    let mut index = store.index().unwrap();
    bring(&mut index);
    fs::remove_dir_all(folder.path().join("sessions/gone")).unwrap();
    let path = folder.path().join("sessions/a/anchors/001_session-start/entries.jsonl");
    let whole = fs::read(&path).unwrap();
    let one = memchr::memchr(b'\n', &whole).unwrap() + 1;
    fs::write(&path, &whole[..one]).unwrap();
    bring(&mut index);
    assert_eq!((digest(&index, "a"), digest(&index, "gone")), (Some(("1-1".to_owned(), Seq(1), 1)), None));
    // Half a line is read again, and a bad one in the middle is as far as it goes.
    fs::write(&path, &whole[..whole.len() - 7]).unwrap();
    bring(&mut index);
    assert_eq!(digest(&index, "a").unwrap().1, Seq(2));
    fs::write(&path, &whole).unwrap();
    bring(&mut index);
    assert_eq!(digest(&index, "a"), Some(("1-1 2-2 3-3".to_owned(), Seq(3), 3)));
    fs::write(&path, [&whole[..], b"bad\nbad\n"].concat()).unwrap();
    assert_eq!(bring(&mut index).tapes, 1);
    assert_eq!((digest(&index, "a").unwrap().1, bring(&mut index).tapes), (Seq(3), 0));
    // Another form is another sum.
    index.bring_rows::<Ranges<2>>(LONG).unwrap();
    assert_eq!(digest(&index, "a"), Some(("1-3".to_owned(), Seq(3), 3)));
}

#[test]
fn a_database_that_broke_is_made_anew_and_gone_on_with() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    append(&store, "a", 1..=3);
    bring(&mut store.index().unwrap());
    fs::write(folder.path().join("index.db"), "this is no database").unwrap();
    let mut index = store.index_to_search().unwrap();
    bring(&mut index);
    assert_eq!(digest(&index, "a").unwrap().1, Seq(3));
    // The words were not asked for, and are there when they are.
    assert_eq!(index.catch_up().unwrap().added, 3);
    assert_eq!(index.rebuild().unwrap().after.entries, 3);
    assert_eq!(digest(&index, "a"), None, "it goes with the database, and comes back with the next list");
}

/// Z-04: a page of 10,000 sessions costs its own rows; and so does the next one, wherever it is.
#[test]
fn a_page_of_ten_thousand_sessions_reads_its_own_rows() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    for n in 0..10_000_u64 {
        by_hand(folder.path(), &format!("s{n:05}"), 1_000 + n / 3);
    }
    let mut index = store.index().unwrap();
    let (first, _) = index.bring_rows::<Ranges<1>>(LONG * 10).unwrap();
    assert_eq!((first.folders, first.tapes), (10_000, 10_000));
    let (second, _) = index.bring_rows::<Ranges<1>>(LONG * 10).unwrap();
    assert_eq!(second, ListCost { folders: 10_000, ..ListCost::default() });
    assert_eq!(digest(&index, "s00007"), Some(("1-1".to_owned(), Seq(1), 1)), "each entry was folded once");
    let session_rows = index.session_rows().unwrap();
    let mut after: Option<(Millis, SessionId)> = None;
    let mut n = 10_000;
    for _ in 0..3 {
        let page = session_rows
            .newest_first::<Ranges<1>>(
                after.as_ref().map(|(last, id)| (*last, id.as_str())),
                50,
                &Labels::default(),
                (0, u64::MAX),
            )
            .unwrap();
        for (session, _) in &page {
            n -= 1;
            assert_eq!(session.as_str(), format!("s{n:05}"));
        }
        after = page.last().map(|(session, row)| (row.last, session.clone()));
    }
    assert_eq!(n, 9_850);
    // By the index of that order and no other way: no row is read that is not given, and nothing is sorted.
    let mut plan = session_rows.at_once.prepare(&format!("explain query plan {}", newest_first())).unwrap();
    let steps = plan
        .query_map(params![5_000, "x", 50, "{}", 0, 9_000_000_000_i64], |row| row.get::<_, String>("detail"))
        .unwrap();
    let steps: Vec<String> = steps.map(Result::unwrap).collect();
    assert!(steps[0].contains("SEARCH session_rows USING") && steps[0].contains("session_rows_by_last"), "{steps:?}");
    assert!(steps.iter().all(|step| !step.contains("TEMP") && !step.contains("SCAN session_rows")), "{steps:?}");
}

/// The time may be over before all is read; what was read stays, and the next look continues.
#[test]
fn what_there_was_no_time_for_is_said_and_read_the_next_time() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    (0..5).for_each(|n| by_hand(folder.path(), &format!("s{n}"), n));
    let mut index = store.index().unwrap();
    let (none, behind) = index.bring_rows::<Ranges<1>>(Duration::ZERO).unwrap();
    assert_eq!((none.tapes, behind), (0, Behind::Sessions(5)));
    assert_eq!(index.bring_rows::<Ranges<1>>(LONG).unwrap().1, Behind::No);
}

/// What precedes a line of a later version is counted, and the file is not read past it until it grows.
#[test]
fn before_a_newer_line_all_is_summed_up() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    append(&store, "s", 1..=4);
    let file = folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    make_last_line_newer(&file);
    let mut index = store.index().unwrap();
    bring(&mut index);
    assert_eq!(digest(&index, "s"), Some(("1-3".to_owned(), Seq(3), 3)));
    assert_eq!(bring(&mut index).tapes, 0);
    let more = fs::read(&file).unwrap().repeat(2);
    fs::write(&file, more).unwrap();
    assert_eq!((bring(&mut index).tapes, digest(&index, "s").unwrap().2), (1, 3));
}

/// A forged file may say any time.
#[test]
fn a_session_of_the_last_time_of_all_is_in_the_list() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let times = [("a", 7), ("b", i64::MAX.unsigned_abs()), ("c", u64::MAX), ("d", u64::MAX)];
    times.iter().for_each(|(name, time)| by_hand(folder.path(), name, *time));
    let mut index = store.index().unwrap();
    bring(&mut index);
    let session_rows = index.session_rows().unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    while let Some((session, row)) = session_rows
        .newest_first::<Ranges<1>>(
            after.as_ref().map(|(last, name): &(Millis, String)| (*last, name.as_str())),
            1,
            &Labels::default(),
            (0, u64::MAX),
        )
        .unwrap()
        .pop()
    {
        found.push(session.to_string());
        after = Some((row.last, session.to_string()));
    }
    assert_eq!(found, ["d", "c", "b", "a"]);
}

/// One that cannot be read counts as behind, in lists and in searches. All others are there.
#[test]
fn a_session_that_cannot_be_read_ends_no_list_and_no_search() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    for name in ["a", "lost", "z"] {
        append(&store, name, 1..=2);
    }
    let lost = folder.path().join("sessions/lost");
    fs::rename(lost.join("anchors"), lost.join("elsewhere")).unwrap();
    fs::write(lost.join("anchors"), "no folder").unwrap();
    let mut index = store.index().unwrap();
    for read in [2, 0] {
        let (cost, behind) = index.bring_rows::<Ranges<1>>(LONG).unwrap();
        assert_eq!((cost.tapes, behind), (read, Behind::Sessions(1)));
        let expected = Some(("1-2".to_owned(), Seq(2), 2));
        assert_eq!(
            [digest(&index, "a"), digest(&index, "lost"), digest(&index, "z")],
            [expected.clone(), None, expected]
        );
    }
    let page = store.search(&crate::tape::Query::new("entry")).unwrap();
    assert_eq!(page.behind, Behind::Sessions(1));
    let page = crate::ops::listing::sessions(&store, &crate::ops::listing::SessionQuery::default()).unwrap();
    let listed: Vec<&str> = page.sessions.iter().map(|listed| listed.session.as_str()).collect();
    assert_eq!((listed.len(), page.behind), (2, Behind::Sessions(1)), "{listed:?}");
    fs::remove_file(lost.join("anchors")).unwrap();
    fs::rename(lost.join("elsewhere"), lost.join("anchors")).unwrap();
    assert_eq!(index.bring_rows::<Ranges<1>>(LONG).unwrap().1, Behind::No);
    assert!(digest(&index, "lost").is_some());
}

/// A look at one session lists the files of that one, reads what was appended to it, and reads a row of another form anew.
#[test]
fn a_look_at_one_session_looks_at_no_other() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    for session in ["a", "b", "c"] {
        append(&store, session, 1..=2);
    }
    let mut index = store.index_to_search().unwrap();
    let one = |index: &mut Index, session: &str| index.bring_row::<Ranges<1>>(&id(session), LONG).unwrap();
    let (cost, behind) = one(&mut index, "a");
    assert_eq!((cost.folders, cost.tapes, behind), (1, 1, Behind::No));
    assert_eq!((digest(&index, "a"), digest(&index, "b")), (Some(("1-2".to_owned(), Seq(2), 2)), None));
    assert_eq!(one(&mut index, "a").0, ListCost { folders: 1, ..ListCost::default() });
    append(&store, "a", 3..=3);
    append(&store, "b", 3..=3);
    assert_eq!(one(&mut index, "a").0.tapes, 1);
    assert_eq!(digest(&index, "a"), Some(("1-2 3-3".to_owned(), Seq(3), 3)));
    assert_eq!(index.bring_row::<Ranges<2>>(&id("a"), LONG).unwrap().0.tapes, 1);
    let row = index.session_rows().unwrap().one::<Ranges<2>>(&id("a")).unwrap().unwrap();
    assert_eq!(row.digest.0, "1-3");
    // The look at all still finds the others.
    assert_eq!(index.bring_rows::<Ranges<2>>(LONG).unwrap().0.tapes, 2);
    assert_eq!(one(&mut index, "never").0, ListCost::default());
}
