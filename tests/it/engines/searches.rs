//! Searches, over each engine that keeps an index of words. One that keeps none says so.

use tamtam::{
    Millis, OpenError, Runtime, SessionOptions,
    permission::Profile,
    runtime::Kind,
    session::{ForkOptions, Labels},
    tape::{Order, Page, Query, TapeError},
};

use super::{
    each_engine,
    harness::{Engine, Keeps},
    say,
};

fn query(words: &str) -> Query {
    Query::new(words).wait(std::time::Duration::from_secs(60)).kinds(["accepted"])
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    Labels::new(pairs).unwrap()
}

async fn page(runtime: &Runtime, query: Query) -> Page {
    runtime.search(query).await.unwrap()
}

/// The sessions of the hits, newest first.
async fn found(runtime: &Runtime, query: Query) -> Vec<String> {
    page(runtime, query).await.hits.iter().map(|hit| hit.session.to_string()).collect()
}

async fn make<const N: usize>(
    engine: &Engine<impl Keeps>,
    runtime: &Runtime,
    name: &str,
    labels_of: [(&str, &str); N],
    says: &str,
) -> tamtam::Session {
    let mut options = SessionOptions::new(engine.work()).id(name.parse().unwrap()).profile(Profile::Auto);
    options.labels = labels(labels_of);
    let session = runtime.create(options).await.unwrap();
    say(&session, says).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_without_an_index_says_so() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        make(engine, &runtime, "s", [], "needle").await;
        match engine.searches() {
            true => assert_eq!(found(&runtime, query("needle")).await, ["s"]),
            false => {
                let refused = runtime.search(query("needle")).await;
                assert!(matches!(refused, Err(OpenError::Tape(TapeError::NoIndex))), "{refused:?}");
            }
        }
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// The words are the same ones over each engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_phrases_prefixes_and_runs_are_found() {
    each_engine(async |engine| {
        if !engine.searches() {
            return;
        }
        let (runtime, _) = engine.start().await;
        make(engine, &runtime, "a", [], "The disk is full: ÉCOLE call_started(42)").await;
        make(engine, &runtime, "b", [], "Full is the other Disk; 发生了错误信息").await;
        make(engine, &runtime, "c", [], "错 and 误, apart. It's a back\\slash").await;
        for (words, expected) in [
            ("disk", &["b", "a"][..]),
            ("DISK full", &["b", "a"]),
            ("\"disk is full\"", &["a"]),
            ("\"is the\" disk", &["b"]),
            ("ecole", &["a"]),
            ("call_sta*", &["a"]),
            ("call_sta", &[]),
            ("dis*", &["b", "a"]),
            ("错误", &["b"]),
            ("错", &["c", "b"]),
            ("误错", &[]),
            ("it's", &["c"]),
            ("back\\slash", &["c"]),
            ("nothing", &[]),
        ] {
            assert_eq!(found(&runtime, query(words)).await, expected, "{words}");
        }
        let hit = page(&runtime, query("\"disk is\" fu*").whole(true)).await.hits.remove(0);
        assert_eq!(hit.snippet.marked("[", "]"), "The [disk is] [full]: ÉCOLE call_started(42)");
        assert_eq!((hit.kind.as_str(), hit.anchor.as_str()), ("accepted", "001_session-start"));
        let session = runtime.session(&"a".parse().unwrap());
        assert_eq!(hit.entry.unwrap().seq, hit.seq);
        assert_eq!(session.entries().await.unwrap().iter().filter(|entry| entry.seq == hit.seq).count(), 1);
        // Narrowed by session, kind, anchor and time.
        assert_eq!(found(&runtime, query("disk").session("b".parse().unwrap())).await, ["b"]);
        assert_eq!(found(&runtime, query("disk").anchor("session-start")).await, ["b", "a"]);
        assert_eq!(found(&runtime, query("disk").anchor("another")).await, [""; 0]);
        assert_eq!(found(&runtime, query("disk").since(hit.time)).await, ["b", "a"]);
        assert_eq!(found(&runtime, query("disk").until(Millis(hit.time.0 - 1))).await, [""; 0]);
        assert_eq!(found(&runtime, query("disk").kinds(["nothing"])).await, [""; 0]);
        assert_eq!(found(&runtime, query("").session("c".parse().unwrap())).await, ["c"]);
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// Whatever is typed is a search or a refusal, and the same one over each engine; none is an error of a database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_is_an_error_of_the_database() {
    each_engine(async |engine| {
        if !engine.searches() {
            return;
        }
        let (runtime, _) = engine.start().await;
        make(engine, &runtime, "s", [], "and or not a needle").await;
        for words in [
            "a'b \\ \" '",
            "a & b | !c",
            "ab:* <-> b",
            "needle') or 1=1 --",
            "needle\0needle",
            "NOT (needle)",
            "'; drop table entries",
        ] {
            page(&runtime, query(words)).await;
        }
        assert_eq!(found(&runtime, query("needle AND not")).await, ["s"]);
        assert_eq!(found(&runtime, query("needle\0needle")).await, [""; 0]);
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        for words in ["", "  ", "'", "* - ( ) ; --", "a*", &"x".repeat(10_240), &many.join(" ")] {
            let refused = runtime.search(Query::new(words)).await.unwrap_err();
            assert!(matches!(refused, OpenError::Tape(TapeError::Query { .. })), "{words}: {refused:?}");
        }
        let refused = runtime.search(Query::new("").labels(labels([("tenant", "acme")]))).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid, "labels alone are no search");
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// Pages are full, in either order, however many sessions of others lie in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_a_search_have_the_hits_of_the_label_alone() {
    each_engine(async |engine| {
        if !engine.searches() {
            return;
        }
        let (runtime, _) = engine.start().await;
        for n in 0..12 {
            let tenant = if n % 4 == 0 { "acme" } else { "other" };
            make(engine, &runtime, &format!("s{n:02}"), [("tenant", tenant)], "a word").await;
        }
        for order in [Order::Newest, Order::Best] {
            for (words, of, expected) in [
                ("word", "acme", &[&["s08", "s04"][..], &["s00"]][..]),
                ("\"a word\"", "acme", &[&["s08", "s04"], &["s00"]]),
                ("word", "nobody", &[&[]]),
            ] {
                let (mut pages, mut after) = (Vec::new(), None);
                loop {
                    let query = query(words).labels(labels([("tenant", of)])).order(order).limit(2);
                    let page = page(&runtime, after.into_iter().fold(query, Query::after)).await;
                    pages.push(page.hits.iter().map(|hit| hit.session.to_string()).collect::<Vec<_>>());
                    let Some(next) = page.next else { break };
                    after = Some(next);
                }
                assert_eq!(pages, expected, "{words} of {of}, {order:?}");
            }
        }
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_follows_what_is_said_labelled_forked_and_deleted() {
    each_engine(async |engine| {
        if !engine.searches() {
            return;
        }
        let (runtime, _) = engine.start().await;
        let sorted = async |query: Query| {
            let mut found = found(&runtime, query).await;
            found.sort();
            found
        };
        let of = |label| query("word").labels(labels([label]));
        let one = make(engine, &runtime, "one", [("tenant", "acme"), ("user", "ann")], "a word").await;
        make(engine, &runtime, "none", [], "a word").await;
        assert_eq!(sorted(query("word")).await, ["none", "one"]);
        // What the fork has from its parent is found there.
        let fork = one.fork(ForkOptions::newest().id("fork".parse().unwrap())).await.unwrap();
        assert_eq!(sorted(query("word")).await, ["none", "one"]);
        say(&fork, "its own word").await;
        assert_eq!(sorted(query("word")).await, ["fork", "none", "one"]);
        assert_eq!(sorted(of(("user", "ann"))).await, ["fork", "one"]);
        one.set_labels(labels([("tenant", "moved")])).await.unwrap();
        assert_eq!(
            (sorted(of(("tenant", "moved"))).await, sorted(of(("user", "ann"))).await),
            (vec!["one".to_owned()], vec!["fork".to_owned()])
        );
        // Hidden while the fork needs it.
        runtime.delete(one.id()).await.unwrap();
        assert_eq!(sorted(query("word")).await, ["fork", "none"]);
        runtime.delete(fork.id()).await.unwrap();
        assert_eq!(sorted(query("word")).await, ["none"]);
        // Another session under the id has nothing of the one before.
        make(engine, &runtime, "one", [], "another").await;
        assert_eq!(
            (sorted(query("word")).await, sorted(query("another")).await),
            (vec!["none".to_owned()], vec!["one".to_owned()])
        );
        // What is said behind a search, before a sleep and after it, and in a later runtime.
        let none = runtime.session(&"none".parse().unwrap());
        say(&none, "one more word").await;
        runtime.passivate(none.id()).await.unwrap();
        assert_eq!(sorted(query("word")).await, ["none"; 2]);
        say(&none, "and a word").await;
        assert_eq!(sorted(query("word")).await, ["none"; 3]);
        drop(none);
        assert!(runtime.shutdown().await.is_empty());
        let (runtime, _) = engine.start().await;
        assert_eq!(found(&runtime, query("word")).await, ["none"; 3]);
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}
