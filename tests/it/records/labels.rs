//! Labels: lists and searches find the conversations of a tenant, and no others, from the index and from the tapes.

use std::{path::Path, sync::Arc, time::Duration};

use tamtam::{
    OpenError, Runtime, Session, SessionOptions,
    ops::{SessionPage, SessionQuery},
    runtime::Kind,
    session::{BadLabel, ForkOptions, Labels, Link, SpawnError},
    tape::{Deleted, MemoryStore, TapeStore},
};

use super::{deleting::files_with, id, say, talker};
use crate::{engines::plain::Plain, support::taped};

const LONG: Duration = Duration::from_secs(60);

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    Labels::new(pairs).unwrap()
}

async fn start(folder: &Path, engine: Option<Arc<dyn TapeStore>>) -> Runtime {
    let builder = Runtime::builder().model(talker());
    let builder = match engine {
        None => builder.store(folder.join("store")),
        Some(engine) => builder.tapes(engine),
    };
    builder.start().await.unwrap()
}

async fn make<const N: usize>(runtime: &Runtime, folder: &Path, name: &str, pairs: [(&str, &str); N]) -> Session {
    let mut options = SessionOptions::new(folder).id(id(name));
    options.labels = labels(pairs);
    let session = runtime.create(options).await.unwrap();
    say(&session, "a word").await;
    session
}

async fn page(runtime: &Runtime, change: impl FnOnce(&mut SessionQuery)) -> SessionPage {
    let mut query = SessionQuery::default();
    query.wait = LONG;
    change(&mut query);
    runtime.sessions(query).await.unwrap()
}

/// The sessions of a list, sorted.
async fn listed<const N: usize>(runtime: &Runtime, pairs: [(&str, &str); N]) -> Vec<String> {
    let page = page(runtime, |query| query.labels = labels(pairs)).await;
    let mut ids: Vec<_> = page.sessions.iter().map(|listed| listed.session.to_string()).collect();
    ids.sort();
    ids
}

/// The list says of each session what the session says of itself.
async fn list_agrees(runtime: &Runtime) {
    for listed in page(runtime, |_| {}).await.sessions {
        let session = runtime.open(&listed.session).await.unwrap();
        assert_eq!(listed.labels, session.state().await.unwrap().settings.labels, "{}", listed.session);
    }
}

/// Over each engine: sessions, a fork, a fork of it, a child; each at the moment when it was made, and from there on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_finds_the_sessions_that_have_all_of_the_labels() {
    let folder = taped::folder();
    let engines: [Option<Arc<dyn TapeStore>>; 3] =
        [None, Some(Arc::new(MemoryStore::new())), Some(Arc::new(Plain::default()))];
    for engine in engines {
        let is_indexed = engine.is_none() && cfg!(feature = "sqlite");
        let runtime = start(folder.path(), engine).await;
        let one = make(&runtime, folder.path(), "one", [("tenant", "acme"), ("user", "ann")]).await;
        make(&runtime, folder.path(), "two", [("tenant", "acme"), ("user", "bob")]).await;
        make(&runtime, folder.path(), "three", [("tenant", "other")]).await;
        make(&runtime, folder.path(), "none", []).await;
        assert_eq!(listed(&runtime, []).await.len(), 4);
        assert_eq!(listed(&runtime, [("tenant", "acme")]).await, ["one", "two"]);
        assert_eq!(listed(&runtime, [("tenant", "acme"), ("user", "ann")]).await, ["one"]);
        assert_eq!(listed(&runtime, [("tenant", "other"), ("user", "ann")]).await, [""; 0]);
        assert_eq!(listed(&runtime, [("user", "acme")]).await, [""; 0]);
        let fork = one.fork(ForkOptions::newest().id(id("fork"))).await.unwrap();
        fork.fork(ForkOptions::newest().id(id("fork-2"))).await.unwrap();
        let mut options = SessionOptions::new(folder.path()).id(id("child"));
        options.labels = labels([("user", "robot")]);
        let child = one.spawn_child(options, "a task", Link::default()).await.unwrap();
        child.down().await.unwrap();
        one.wait().await.unwrap();
        assert_eq!(listed(&runtime, [("user", "ann")]).await, ["fork", "fork-2", "one"]);
        assert_eq!(listed(&runtime, [("user", "robot"), ("tenant", "acme")]).await, ["child"]);
        // All are replaced, in the one session alone.
        let value = "'; drop table \"labels\" -- %_\\ ü";
        one.set_labels(labels([("tenant", "moved"), ("note", value)])).await.unwrap();
        assert_eq!(listed(&runtime, [("tenant", "moved"), ("note", value)]).await, ["one"]);
        assert_eq!(listed(&runtime, [("user", "ann")]).await, ["fork", "fork-2"]);
        assert_eq!(listed(&runtime, [("user", "robot"), ("tenant", "acme")]).await, ["child"]);
        fork.set_labels(Labels::default()).await.unwrap();
        assert_eq!(listed(&runtime, [("user", "ann")]).await, ["fork-2"]);
        // An anchor says them again, and a fork behind it has them.
        one.handoff("phase-1", None).await.unwrap();
        one.fork(ForkOptions::newest().id(id("later"))).await.unwrap();
        assert_eq!(listed(&runtime, [("tenant", "moved")]).await, ["later", "one"]);
        assert_eq!(page(&runtime, |_| {}).await.indexed, is_indexed);
        list_agrees(&runtime).await;
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// The pages of a list are full, however many sessions of others lie in between, and each session is on one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_a_list_have_the_sessions_of_the_label_alone() {
    let folder = taped::folder();
    for engine in [None, Some(Arc::new(MemoryStore::new()) as Arc<dyn TapeStore>)] {
        let runtime = start(folder.path(), engine).await;
        for n in 0..12 {
            let tenant = if n % 4 == 0 { "acme" } else { "other" };
            let session = make(&runtime, folder.path(), &format!("s{n:02}"), [("tenant", tenant)]).await;
            runtime.passivate(session.id()).await.unwrap();
        }
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = page(&runtime, |query| {
                (query.labels, query.limit, query.after) = (labels([("tenant", "acme")]), 2, after.take());
            })
            .await;
            found.push(page.sessions.iter().map(|listed| listed.session.to_string()).collect::<Vec<_>>());
            // The database passes over the others: of those, no row is read.
            assert!(!page.indexed || page.cost.rows <= 3, "{:?}", page.cost);
            let Some(next) = page.next else { break };
            after = Some(next);
        }
        assert_eq!(found, [vec!["s08", "s04"], vec!["s00"]]);
        assert!(runtime.shutdown().await.is_empty());
    }
}

#[cfg(feature = "sqlite")]
mod searches {
    use tamtam::tape::{Order, Query};

    use super::*;

    /// The sessions of the hits, page by page of two hits, in either order.
    async fn pages(runtime: &Runtime, wanted: &Labels, order: Order) -> Vec<Vec<String>> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let query = Query::new("word").wait(LONG).labels(wanted.clone()).order(order).kinds(["accepted"]).limit(2);
            let query = after.into_iter().fold(query, Query::after);
            let page = runtime.search(query).await.unwrap();
            found.push(page.hits.iter().map(|hit| hit.session.to_string()).collect());
            let Some(next) = page.next else { return found };
            after = Some(next);
        }
    }

    /// The sessions of the hits, sorted.
    async fn found<const N: usize>(runtime: &Runtime, pairs: [(&str, &str); N]) -> Vec<String> {
        let mut found: Vec<_> = pages(runtime, &labels(pairs), Order::Newest).await.concat();
        found.sort();
        found.dedup();
        found
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_pages_of_a_search_have_the_hits_of_the_label_alone() {
        let folder = taped::folder();
        let runtime = start(folder.path(), None).await;
        for n in 0..12 {
            let tenant = if n % 4 == 0 { "acme" } else { "other" };
            make(&runtime, folder.path(), &format!("s{n:02}"), [("tenant", tenant)]).await;
        }
        for order in [Order::Newest, Order::Best] {
            let pages = pages(&runtime, &labels([("tenant", "acme")]), order).await;
            assert_eq!(pages, [vec!["s08", "s04"], vec!["s00"]], "{order:?}");
        }
        let nobody = pages(&runtime, &labels([("tenant", "nobody")]), Order::Newest).await;
        assert_eq!(nobody, [vec![""; 0]]);
        let query = Query::new("").labels(labels([("tenant", "acme")]));
        assert_eq!(runtime.search(query).await.unwrap_err().kind(), Kind::Invalid, "labels alone are no search");
        assert!(runtime.shutdown().await.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_search_follows_the_labels_of_sessions_forks_and_of_what_is_made_anew() {
        let folder = taped::folder();
        let runtime = start(folder.path(), None).await;
        let one = make(&runtime, folder.path(), "one", [("tenant", "acme"), ("user", "ann")]).await;
        make(&runtime, folder.path(), "two", [("tenant", "acme")]).await;
        make(&runtime, folder.path(), "none", []).await;
        let fork = one.fork(ForkOptions::newest().id(id("fork"))).await.unwrap();
        say(&fork, "a word").await;
        assert_eq!(found(&runtime, []).await, ["fork", "none", "one", "two"]);
        assert_eq!(found(&runtime, [("tenant", "acme")]).await, ["fork", "one", "two"]);
        assert_eq!(found(&runtime, [("tenant", "acme"), ("user", "ann")]).await, ["fork", "one"]);
        one.set_labels(labels([("tenant", "moved")])).await.unwrap();
        assert_eq!(found(&runtime, [("tenant", "moved")]).await, ["one"]);
        assert_eq!(found(&runtime, [("user", "ann")]).await, ["fork"]);
        // Another session under the id has nothing of the one before.
        runtime.delete(fork.id()).await.unwrap();
        runtime.delete(one.id()).await.unwrap();
        make(&runtime, folder.path(), "one", []).await;
        assert_eq!(found(&runtime, [("tenant", "moved")]).await, [""; 0]);
        assert_eq!(listed(&runtime, [("tenant", "moved")]).await, [""; 0]);
        assert_eq!(found(&runtime, []).await, ["none", "one", "two"]);
        assert!(runtime.shutdown().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_are_recorded_once_and_survive_a_restart() {
    let folder = taped::folder();
    let runtime = start(folder.path(), None).await;
    let session = make(&runtime, folder.path(), "one", [("tenant", "acme"), ("user", "ann")]).await;
    let new = labels([("tenant", "moved")]);
    let before = session.entries().await.unwrap().len();
    for _ in 0..3 {
        session.set_labels(new.clone()).await.unwrap();
    }
    assert_eq!(session.entries().await.unwrap().len(), before + 1);
    assert!(runtime.shutdown().await.is_empty());
    let runtime = start(folder.path(), None).await;
    let session = runtime.open(&id("one")).await.unwrap();
    assert_eq!(session.state().await.unwrap().settings.labels, new);
    assert_eq!(listed(&runtime, [("tenant", "moved")]).await, ["one"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A tape without labels does not have the word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tape_that_knows_no_labels_is_read_and_gets_some() {
    let folder = taped::folder();
    let runtime = start(folder.path(), None).await;
    let session = make(&runtime, folder.path(), "old", []).await;
    session.set_title(Some("a title".into())).await.unwrap();
    session.handoff("phase-1", None).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    for anchor in ["001_session-start", "002_phase-1"] {
        let file = folder.path().join("store/sessions/old/anchors").join(anchor).join("entries.jsonl");
        assert!(!std::fs::read_to_string(file).unwrap().contains("\"labels\""), "{anchor}");
    }
    let runtime = start(folder.path(), None).await;
    let session = runtime.open(&id("old")).await.unwrap();
    assert!(session.state().await.unwrap().settings.labels.is_empty());
    list_agrees(&runtime).await;
    session.set_labels(labels([("tenant", "acme")])).await.unwrap();
    assert_eq!(listed(&runtime, [("tenant", "acme")]).await, ["old"]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Neither the labels that it had at last, nor those before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_session_leaves_no_word_of_a_label_in_any_file() {
    let folder = taped::folder();
    let runtime = start(folder.path(), None).await;
    let words = ["zanzibartenant", "xylophoneuser"];
    let session = make(&runtime, folder.path(), "goes", [("tenant", words[0])]).await;
    make(&runtime, folder.path(), "stays", [("tenant", "acme")]).await;
    for word in words {
        session.set_labels(labels([(&*word.replace('z', "k"), word)])).await.unwrap();
        assert_eq!(listed(&runtime, [(&*word.replace('z', "k"), word)]).await, ["goes"]);
        #[cfg(feature = "sqlite")]
        {
            let query = tamtam::tape::Query::new("word").wait(LONG);
            assert!(!runtime.search(query).await.unwrap().hits.is_empty());
        }
    }
    assert!(!files_with(folder.path(), &words).is_empty());
    let deletion = runtime.delete(session.id()).await.unwrap();
    assert_eq!((deletion.session, deletion.left), (Deleted::Gone, None));
    assert_eq!(files_with(folder.path(), &words), [""; 0]);
    assert_eq!(listed(&runtime, [("tenant", "acme")]).await, ["stays"]);
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_would_have_too_many_labels_is_refused() {
    let folder = taped::folder();
    let runtime = start(folder.path(), None).await;
    let session = make(&runtime, folder.path(), "one", [("tenant", "acme")]).await;
    let mut options = SessionOptions::new(folder.path()).id(id("child"));
    options.labels = Labels::new((0..16).map(|n| (format!("k{n}"), "x"))).unwrap();
    let error = session.spawn_child(options, "a task", Link::default()).await.unwrap_err();
    let SpawnError::Open(error @ OpenError::Labels(BadLabel::TooMany { .. })) = &error else { panic!("{error}") };
    assert_eq!(error.to_string(), "there is no room for the label tenant: the limit is 16 labels");
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(!runtime.exists(&id("child")).await.unwrap());
    assert!(runtime.shutdown().await.is_empty());
}

/// A file does not choose in whose lists its session stands, and neither does a fork from before the import.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_brought_in_has_no_labels() {
    use tamtam::tape::{ImportOptions, Spills, Store, StoreOptions, TapeStoreExt as _};
    let folder = taped::folder();
    let runtime = start(folder.path(), None).await;
    let session = make(&runtime, folder.path(), "one", [("tenant", "acme")]).await;
    let last = session.state().await.unwrap().seq;
    assert!(runtime.shutdown().await.is_empty());
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let mut file = Vec::new();
    store.export(&id("one"), Spills::Left, &mut file).unwrap();
    let workspace = folder.path().display().to_string();
    let options = ImportOptions::into_workspace(workspace, tamtam::Millis::now()).under(id("copy"));
    store.import(&mut &file[..], &options).unwrap();
    store.close(LONG).unwrap();
    let runtime = start(folder.path(), None).await;
    runtime.session(&id("copy")).fork(ForkOptions::at(last).id(id("before"))).await.unwrap();
    assert_eq!(listed(&runtime, [("tenant", "acme")]).await, ["one"]);
    list_agrees(&runtime).await;
    assert!(runtime.shutdown().await.is_empty());
}
