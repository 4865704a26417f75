//! What the library does over a host's engine that keeps an index of words and answers for many sessions at once: how it fills the
//! index, how it makes pages of small answers, and what a list shows of sessions that change meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    Millis, Runtime, Seq, SessionId,
    model::{Reply, Scripted},
    ops::SessionQuery,
    session::Labels,
    tape::{
        Anchor, Behind, Damage, EntryWords, FoundEntry, LoadedTape, Mark, Notify, Order, Page, Position, Query,
        SessionStatus, SessionSummary, TapeEntry, TapeError, TapeStore, TapeStoreExt as _, TapeWriter, UnreadTape,
        WantedWords,
    },
};

use super::plain::Plain;

/// The plain engine with an index of words.
#[derive(Debug, Default)]
struct Indexed {
    plain: Plain,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    index: BTreeMap<SessionId, Read>,
    /// What was put in, in order: of which entries, how many words, and the labels.
    puts: Vec<(Seq, Seq, usize, Option<Labels>)>,
    /// How often it was asked what is unread.
    asked: usize,
    /// The most entries of one answer; 0 for no such bound.
    answer_max: usize,
    /// All entries of a millisecond have one place.
    ties: bool,
    /// It cannot say what is unread.
    refuses_unread: bool,
    /// It cannot say for all sessions at once which are open.
    refuses_claimed: bool,
    damaged: Option<SessionId>,
    /// The text of a mark of `s`.
    imported: Option<String>,
    /// Hidden or not any more, as soon as the summaries are read, once.
    turns: Option<(SessionId, bool)>,
}

#[derive(Debug, Default)]
struct Read {
    through: Seq,
    labels: Labels,
    words: Vec<(i64, Seq, BTreeSet<String>)>,
}

impl Indexed {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// A session of these entries.
    fn write(&self, session: &str, entries: &[(&str, Value)]) -> SessionId {
        let session: SessionId = session.parse().unwrap();
        let mut tape = self.plain.create(&session, Arc::new(|_| {})).unwrap();
        let entry = |(n, (kind, data)): (usize, &(&str, Value))| {
            let data = serde_json::value::to_raw_value(data).unwrap();
            TapeEntry::new(Seq(n as u64 + 1), Millis(1_000), (*kind).to_owned(), data)
        };
        for entry in entries.iter().enumerate().map(entry) {
            let _ = tape.append(&[entry]);
        }
        session
    }

    async fn start(self: &Arc<Indexed>) -> Runtime {
        let model = Arc::new(Scripted::from_fn(|_| Reply::text("Fine.")));
        Runtime::builder().tapes(self.clone()).model(model).start().await.unwrap()
    }
}

fn said(text: impl Into<String>) -> (&'static str, Value) {
    ("said", json!({ "text": text.into() }))
}

fn labelled(tenant: &str) -> (&'static str, Value) {
    ("settings", json!({ "labels": { "tenant": tenant } }))
}

fn labels(tenant: &str) -> Labels {
    Labels::new([("tenant", tenant)]).unwrap()
}

/// A text of 13,000 different words.
fn many_words(n: usize) -> (&'static str, Value) {
    said((0..13_000).map(|word| format!("{:04x}", n * 10_000 + word)).collect::<Vec<_>>().join(" "))
}

async fn search(runtime: &Runtime, query: Query) -> Page {
    runtime.search(query).await.unwrap()
}

fn query(words: &str) -> Query {
    Query::new(words).wait(Duration::from_secs(60))
}

/// The hits of each page.
async fn pages(runtime: &Runtime, query: Query) -> Vec<Vec<(String, u64)>> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = search(runtime, after.into_iter().fold(query.clone(), Query::after)).await;
        pages.push(page.hits.iter().map(|hit| (hit.session.to_string(), hit.seq.0)).collect());
        assert!(pages.len() < 1_000, "it has an end");
        let Some(next) = page.next else { return pages };
        after = Some(next);
    }
}

impl TapeStore for Indexed {
    fn begin(
        &self,
        session: &SessionId,
        after: Option<&Position>,
        notify: Notify,
    ) -> Result<Box<dyn TapeWriter>, TapeError> {
        self.plain.begin(session, after, notify)
    }

    fn claim(&self, session: &SessionId, notify: Notify) -> Result<LoadedTape, TapeError> {
        self.plain.claim(session, notify)
    }

    fn range(&self, session: &SessionId, from: Seq, through: Seq) -> Result<Vec<TapeEntry>, TapeError> {
        match &self.inner().damaged {
            Some(damaged) if damaged == session => Err(TapeError::Damaged(Damage::new("t", 1, "bad", Seq::ZERO))),
            _ => self.plain.range(session, from, through),
        }
    }

    fn position(&self, session: &SessionId, seq: Seq) -> Result<Option<Position>, TapeError> {
        self.plain.position(session, seq)
    }

    fn parts(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.plain.parts(session)
    }

    fn names(&self) -> Result<Vec<SessionId>, TapeError> {
        self.plain.names()
    }

    fn summary(&self, session: &SessionId) -> Result<SessionSummary, TapeError> {
        self.plain.summary(session)
    }

    fn summaries(&self) -> Result<Vec<SessionSummary>, TapeError> {
        let all = self.plain.summaries()?;
        match self.inner().turns.take() {
            Some((session, true)) => self.plain.mark(&session, Mark::Hidden, "")?,
            Some((session, false)) => drop(self.plain.erase(&session, None, &[])?),
            None => {}
        }
        Ok(all)
    }

    fn erase(&self, session: &SessionId, last: Option<Seq>, unless: &[Mark]) -> Result<Option<Mark>, TapeError> {
        self.plain.erase(session, last, unless)
    }

    fn mark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.plain.mark(session, mark, about)
    }

    fn unmark(&self, session: &SessionId, mark: Mark, about: &str) -> Result<(), TapeError> {
        self.plain.unmark(session, mark, about)
    }

    fn marks(&self, mark: Mark, of: Option<&SessionId>) -> Result<Vec<(SessionId, String)>, TapeError> {
        let inner = self.inner();
        match (mark, of, &inner.imported) {
            (Mark::Claimed, None, _) if inner.refuses_claimed => Err(TapeError::engine("too many leases")),
            (Mark::Imported, Some(session), Some(about)) if session.as_str() == "s" => {
                Ok(vec![(session.clone(), about.clone())])
            }
            _ => self.plain.marks(mark, of),
        }
    }

    fn unread_words(&self, after: Option<&SessionId>, most: usize) -> Result<Vec<UnreadTape>, TapeError> {
        let mut inner = self.inner();
        inner.asked += 1;
        if inner.refuses_unread {
            return Err(TapeError::engine("canceling statement due to statement timeout"));
        }
        let mut unread = Vec::new();
        for summary in self.plain.summaries()? {
            let read = inner.index.get(&summary.id).map_or(Seq::ZERO, |read| read.through);
            if read < summary.seq && after.is_none_or(|after| *after < summary.id) {
                let first = self.plain.parts(&summary.id)?[0].first;
                unread.push(UnreadTape::new(summary.id, first.max(read.next()), summary.seq, 1));
            }
        }
        unread.truncate(most);
        Ok(unread)
    }

    fn put_words(&self, tape: &UnreadTape, words: &[EntryWords], labels: Option<&Labels>) -> Result<(), TapeError> {
        let mut inner = self.inner();
        let (first, last) = (words[0].seq, words.last().unwrap().seq);
        let count = words.iter().map(|words| words.words.len()).sum();
        inner.puts.push((first, last, count, labels.cloned()));
        let ties = inner.ties;
        let read = inner.index.entry(tape.session.clone()).or_default();
        read.through = last;
        read.labels = labels.cloned().unwrap_or_else(|| read.labels.clone());
        let place = |place: i64| if ties { place >> 20 } else { place };
        read.words.extend(words.iter().map(|of| (place(of.place), of.seq, of.words.iter().cloned().collect())));
        Ok(())
    }

    fn find_words(&self, wanted: &WantedWords) -> Result<Vec<FoundEntry>, TapeError> {
        let inner = self.inner();
        let mut found = Vec::new();
        for (session, read) in &inner.index {
            let has_all = wanted.labels.iter().all(|(key, value)| read.labels.get(key) == Some(value));
            for (place, seq, words) in read.words.iter().filter(|_| has_all) {
                let has = |group: &Vec<String>| group.iter().any(|word| words.contains(word));
                if (wanted.from..=wanted.through).contains(place) && wanted.groups.iter().all(has) {
                    found.push((*place, session, *seq));
                }
            }
        }
        found.sort_by_key(|(place, ..)| std::cmp::Reverse(*place));
        let most = if inner.answer_max == 0 { wanted.most } else { wanted.most.min(inner.answer_max) };
        let entry = |(place, session, seq): (i64, &SessionId, Seq)| {
            let entry = self.plain.range(session, seq, seq)?.remove(0);
            Ok(FoundEntry::new(place, session.clone(), "001_session-start", entry))
        };
        found.into_iter().take(most).map(entry).collect()
    }

    fn settle(&self, limit: Duration) -> bool {
        self.plain.settle(limit)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_put_in_at_once_is_bounded_and_has_its_own_labels() {
    let engine = Arc::new(Indexed::default());
    let mut entries = vec![labelled("one")];
    entries.extend((0..4).map(many_words));
    entries.push(labelled("two"));
    entries.extend((0..4).map(many_words));
    engine.write("s", &entries);
    let runtime = engine.start().await;
    assert_eq!(search(&runtime, query("0000")).await.behind, Behind::No);
    let puts = std::mem::take(&mut engine.inner().puts);
    let mut next = Seq(1);
    for (first, last, words, _) in &puts {
        assert!(*first == next && *words <= 50_000, "{first} {words}");
        next = last.next();
    }
    let of_each: Vec<_> = puts.into_iter().map(|(first, .., labels)| (first.0, labels)).collect();
    assert_eq!(of_each, [(1, Some(labels("one"))), (5, Some(labels("two"))), (9, None)]);
    drop(runtime.shutdown().await);
}

/// The labels of a file are no labels, also not while a search has read a part of the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_labels_of_a_file_are_never_in_the_index() {
    let engine = Arc::new(Indexed::default());
    let mut entries = vec![labelled("of the file")];
    entries.extend((0..4).map(many_words));
    entries.extend([("imported", json!({})), labelled("own")]);
    engine.write("s", &entries);
    let from = json!({ "session": "s", "from": "t", "last": 5, "workspace": "/w" });
    engine.inner().imported = Some(json!({ "seq": 6, "imported": from }).to_string());
    let runtime = engine.start().await;
    assert_eq!(search(&runtime, query("0000")).await.behind, Behind::No);
    let of_each: Vec<_> = engine.inner().puts.drain(..).map(|(first, .., labels)| (first.0, labels)).collect();
    assert_eq!(of_each, [(1, Some(Labels::default())), (5, Some(labels("own")))]);
    drop(runtime.shutdown().await);
}

/// A page looks at a bounded number of entries. The pages of a phrase showed some hits twice and others never, where most entries had
/// the words without the phrase.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_a_phrase_have_each_hit_once() {
    let engine = Arc::new(Indexed::default());
    let is_hit = |n: u64| n <= 340 && n.is_multiple_of(3);
    let text = |n: u64| {
        if is_hit(n) { format!("disk full{}", " more".repeat(n as usize * 7 % 11)) } else { "full disk".into() }
    };
    engine.write("s", &(1..=400).map(|n| said(text(n))).collect::<Vec<_>>());
    engine.inner().answer_max = 4;
    let runtime = engine.start().await;
    for order in [Order::Best, Order::Newest] {
        for limit in [1, 7, 200] {
            let mut hits = pages(&runtime, query("\"disk full\"").order(order).limit(limit)).await.concat();
            hits.sort();
            let mut expected: Vec<_> = (1..=400).filter(|n| is_hit(*n)).map(|n| ("s".to_owned(), n)).collect();
            expected.sort();
            assert_eq!(hits, expected, "{order:?} {limit}");
        }
    }
    drop(runtime.shutdown().await);
}

/// Entries of different sessions may have one place. They are on one page, however small it is, and however small the answers are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_one_place_are_found_once_each() {
    let engine = Arc::new(Indexed::default());
    engine.inner().ties = true;
    for name in ["a", "b", "c", "d", "e"] {
        engine.write(name, &[said("a word")]);
    }
    let runtime = engine.start().await;
    let expected: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), 1)).into();
    for answer_max in [0, 5, 6, 7] {
        engine.inner().answer_max = answer_max;
        for (words, order) in [("word", Order::Newest), ("\"a word\"", Order::Newest), ("word", Order::Best)] {
            for limit in [1, 2, 5, 9] {
                let mut hits = pages(&runtime, query(words).order(order).limit(limit)).await.concat();
                hits.sort();
                assert_eq!(hits, expected, "{words} {order:?} {limit}, answers of {answer_max}");
            }
        }
    }
    drop(runtime.shutdown().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_is_found_while_nothing_can_be_read_on() {
    let engine = Arc::new(Indexed::default());
    for n in 0..501 {
        engine.write(&format!("s{n:03}"), &[said("a word")]);
    }
    let runtime = engine.start().await;
    // Without time, it is not asked for more than it asked for at first.
    let late = search(&runtime, query("word").wait(Duration::ZERO)).await;
    assert_eq!((late.hits.len(), late.behind, engine.inner().asked), (0, Behind::Sessions(500), 1));
    assert_eq!(search(&runtime, query("word")).await.behind, Behind::No);
    engine.inner().refuses_unread = true;
    let page = search(&runtime, query("word").limit(9)).await;
    assert_eq!((page.hits.len(), page.behind), (9, Behind::Sessions(1)));
    drop(runtime.shutdown().await);
}

/// As over files: the fork cannot be opened either, and its own words are found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_of_a_damaged_session_is_read_without_labels() {
    let engine = Arc::new(Indexed::default());
    let parent = engine.write("parent", &[labelled("one"), said("a word")]);
    let runtime = engine.start().await;
    assert_eq!(search(&runtime, query("word").labels(labels("one"))).await.hits.len(), 1);
    engine.plain.fork(&parent, None, &"fork".parse().unwrap(), Millis(2_000)).unwrap();
    engine.inner().damaged = Some(parent);
    let page = search(&runtime, query("").session("fork".parse().unwrap())).await;
    assert_eq!((page.hits.len(), page.behind), (1, Behind::No));
    assert_eq!(engine.inner().puts.last().unwrap().3, Some(Labels::default()));
    drop(runtime.shutdown().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_shows_no_session_that_is_deleted_meanwhile() {
    let engine = Arc::new(Indexed::default());
    let [hidden, erased] = ["hidden", "erased"].map(|name| engine.write(name, &[said("a word")]));
    engine.write("stays", &[said("a word")]);
    engine.mark(&erased, Mark::Hidden, "").unwrap();
    for turn in [(hidden, true), (erased, false)] {
        engine.inner().turns = Some(turn);
        let listed: Vec<_> = engine.list().unwrap().into_iter().map(|one| one.id.to_string()).collect();
        assert_eq!(listed, ["stays"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_needs_no_answer_for_all_claims_at_once() {
    let engine = Arc::new(Indexed::default());
    for name in ["a", "b"] {
        engine.write(name, &[said("a word")]);
    }
    let runtime = engine.start().await;
    let held = engine.plain.claim(&"b".parse().unwrap(), Arc::new(|_| {})).unwrap();
    engine.inner().refuses_claimed = true;
    let page = runtime.sessions(SessionQuery::default()).await.unwrap();
    let status: Vec<_> = page.sessions.iter().map(|one| (one.session.as_str(), one.status)).collect();
    assert_eq!(status, [("b", SessionStatus::Live), ("a", SessionStatus::Passive)]);
    drop(held);
    drop(runtime.shutdown().await);
}
