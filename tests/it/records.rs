//! Conversations as records of a host: existing or not, opened or made, forked under the host's id; and the limits of a
//! runtime.

mod deleting;
mod labels;

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::json;
use tamtam::{
    Message, OpenError, Outcome, Runtime, SendError, Session, SessionId, SessionOptions,
    model::{Model, Reply, Scripted},
    runtime::{Kind, RuntimeLimits, StartError},
    session::{BranchError, ForkOptions, Point, Refusal},
    tape::{MemoryStore, Store, StoreOptions, TapeError, TapeStore, TapeStoreExt as _},
};

use crate::{engines::plain::Plain, support::taped};

pub(crate) fn id(name: &str) -> SessionId {
    name.parse().unwrap()
}

pub(crate) fn talker() -> Arc<dyn Model> {
    Arc::new(Scripted::from_fn(|_| Reply::text("Hello.")))
}

async fn start(folder: &Path) -> Runtime {
    Runtime::builder().store(folder.join("store")).model(talker()).start().await.unwrap()
}

pub(crate) async fn say(session: &Session, text: &str) {
    let answer = session.prompt(text).await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    session.wait().await.unwrap();
}

async fn said(session: &Session) -> Vec<String> {
    session.messages().await.unwrap().iter().map(Message::text).collect()
}

fn claimed(error: &OpenError) -> bool {
    matches!(error, OpenError::Tape(TapeError::Claimed { .. }))
}

fn taken(error: &BranchError) -> bool {
    matches!(error, BranchError::Open(OpenError::Tape(TapeError::Exists { .. })))
}

/// A hundred at the same moment, over each engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_callers_of_one_id_get_one_session() {
    let folder = taped::folder();
    let engines: [Option<Arc<dyn TapeStore>>; 3] =
        [None, Some(Arc::new(MemoryStore::new())), Some(Arc::new(Plain::default()))];
    for engine in engines {
        let runtime = match engine {
            None => start(folder.path()).await,
            Some(engine) => Runtime::builder().tapes(engine).model(talker()).start().await.unwrap(),
        };
        let options = SessionOptions::new(folder.path()).id(id("one"));
        let callers: Vec<_> = (0..100)
            .map(|_| {
                let (runtime, options) = (runtime.clone(), options.clone());
                tokio::spawn(async move { runtime.open_or_create(options).await })
            })
            .collect();
        for caller in callers {
            assert_eq!(caller.await.unwrap().unwrap().id(), &id("one"));
        }
        assert_eq!(runtime.list().await.unwrap().len(), 1);
        assert!(runtime.exists(&id("one")).await.unwrap() && !runtime.exists(&id("other")).await.unwrap());
        // Without an id there is nothing to open.
        let new = runtime.open_or_create(SessionOptions::new(folder.path())).await.unwrap();
        assert_ne!(new.id(), &id("one"));
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Callers beside others who send to the session that is not there yet, and so look for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_made_beside_senders_who_find_it_missing() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let options = SessionOptions::new(folder.path()).id(id("one"));
    let handle = runtime.session(&id("one"));
    let send = |handle: Session| tokio::spawn(async move { handle.prompt("hi").await });
    let senders: Vec<_> = (0..20).map(|_| send(handle.clone())).collect();
    let callers = (0..20).map(|_| runtime.open_or_create(options.clone()));
    for caller in futures_util::future::join_all(callers).await {
        caller.unwrap();
    }
    for sender in senders {
        match sender.await.unwrap() {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), Kind::NotFound, "{error}"),
        }
    }
    handle.wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_runtimes_one_makes_the_session_and_the_other_hears_that_it_is_claimed() {
    let folder = taped::folder();
    let runtimes = [start(folder.path()).await, start(folder.path()).await];
    for round in 0..10 {
        let options = SessionOptions::new(folder.path()).id(id(&format!("s-{round}")));
        let calls = runtimes.iter().flat_map(|runtime| {
            (0..5).map(|_| {
                let (runtime, options) = (runtime.clone(), options.clone());
                tokio::spawn(async move { runtime.open_or_create(options).await })
            })
        });
        let calls: Vec<_> = calls.collect();
        let mut opened = Vec::new();
        for call in calls {
            let called = call.await.unwrap();
            assert!(called.as_ref().err().is_none_or(claimed), "{called:?}");
            opened.push(called.is_ok());
        }
        // All callers of the one, and none of the other.
        assert!(opened == [[true; 5], [false; 5]].concat() || opened == [[false; 5], [true; 5]].concat(), "{opened:?}");
    }
    for runtime in runtimes {
        assert!(runtime.shutdown().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_maker_died_before_its_first_entry_is_made_anew() {
    let folder = taped::folder();
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    drop(store.create(&id("half"), Arc::new(|_| {})).unwrap());
    store.close(Duration::from_secs(5)).unwrap();
    let runtime = start(folder.path()).await;
    assert!(!runtime.exists(&id("half")).await.unwrap());
    let session = runtime.open_or_create(SessionOptions::new(folder.path()).id(id("half"))).await.unwrap();
    assert!(runtime.exists(&id("half")).await.unwrap());
    say(&session, "are you whole?").await;
    assert!(runtime.shutdown().await.is_empty());
}

/// Nothing of the options is looked at, not even a workspace that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_change_nothing_about_a_session_that_is_there() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let mut options = SessionOptions::new(folder.path()).id(id("one"));
    options.title = Some("first".into());
    runtime.open_or_create(options.clone()).await.unwrap();
    runtime.passivate(&id("one")).await.unwrap();
    (options.title, options.workspace) = (Some("second".into()), "/no/such/folder".into());
    let session = runtime.open_or_create(options.clone()).await.unwrap();
    assert_eq!(session.state().await.unwrap().settings.title.as_deref(), Some("first"));
    let made = runtime.open_or_create(options.id(id("two"))).await.unwrap_err();
    assert!(matches!(made, OpenError::Workspace { .. }), "{made}");
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_under_an_id_is_one_fork_however_often_it_is_asked_for() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let parent = runtime.create(SessionOptions::new(folder.path()).id(id("parent"))).await.unwrap();
    say(&parent, "a").await;
    let then = parent.state().await.unwrap().seq;
    let named = id("fork");
    let calls = (0..20).map(|_| parent.fork(ForkOptions::at(then).id(named.clone())));
    for call in futures_util::future::join_all(calls).await {
        assert_eq!(call.unwrap().id(), &id("fork"));
    }
    let fork = parent.fork(ForkOptions::newest().id(id("fork"))).await.unwrap();
    say(&fork, "b").await;
    say(&parent, "c").await;
    // It has gone on, sleeps, and its parent has gone on.
    runtime.passivate(fork.id()).await.unwrap();
    for at in [ForkOptions::at(then), ForkOptions::newest()] {
        let again = parent.fork(at.id(id("fork"))).await.unwrap();
        assert_eq!(said(&again).await, ["a", "Hello.", "b", "Hello."]);
    }
    let again = parent.fork(ForkOptions::at(then).id(id("fork"))).await.unwrap();
    assert_eq!(said(&again).await, ["a", "Hello.", "b", "Hello."]);
    // Another entry, another parent, no fork at all, itself.
    let now = parent.state().await.unwrap().seq;
    let other = runtime.create(SessionOptions::new(folder.path()).id(id("other"))).await.unwrap();
    for (parent, at, named) in [
        (parent.id(), ForkOptions::at(now), "fork"),
        (other.id(), ForkOptions::newest(), "fork"),
        (parent.id(), ForkOptions::newest(), "other"),
        (parent.id(), ForkOptions::newest(), "parent"),
        (&id("fork"), ForkOptions::newest(), "fork"),
    ] {
        let error = runtime.session(parent).fork(at.id(id(named))).await.unwrap_err();
        assert!(taken(&error), "{named}: {error}");
    }
    assert_eq!(runtime.list().await.unwrap().len(), 3);
    assert!(runtime.shutdown().await.is_empty());
}

/// A maker that died at any step left something that the same call makes whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_whose_maker_died_is_made_whole_by_the_same_call() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("re a").at_barrier("gate"), Reply::text("re b")]));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model.clone()).start().await.unwrap();
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let first = parent.prompt(Message::user("a").with_id("a".into())).await.unwrap();
    let second = parent.prompt(Message::user("b").with_id("b".into())).await.unwrap();
    model.barrier("gate").reached().await;
    model.barrier("gate").release();
    first.wait().await.unwrap();
    second.wait().await.unwrap();
    // The point lies inside an append: the fork is made behind it, and goes back.
    let before_b = Point::BeforeMessage("b".into());
    let whole = parent.fork(ForkOptions::at(before_b.clone()).id(id("whole"))).await.unwrap();
    assert_eq!(said(&whole).await, ["a", "re a"]);
    let store = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let entry = store.forked_from(&id("whole")).unwrap().unwrap().seq;
    // Without an entry; made, and not taken back.
    drop(store.create(&id("empty"), Arc::new(|_| {})).unwrap());
    store.fork(parent.id(), Some(entry), &id("half"), tamtam::Millis::now()).unwrap();
    store.close(Duration::from_secs(5)).unwrap();
    for named in ["empty", "half", "whole"] {
        for _ in 0..2 {
            let fork = parent.fork(ForkOptions::at(before_b.clone()).id(id(named))).await.unwrap();
            assert_eq!(said(&fork).await, ["a", "re a"], "{named}");
            runtime.passivate(fork.id()).await.unwrap();
        }
        let other = parent.fork(ForkOptions::at(Point::BeforeMessage("a".into())).id(id(named))).await.unwrap_err();
        assert_eq!(other.kind(), Kind::Exists, "{named}: {other}");
        assert!(runtime.exists(&id(named)).await.unwrap());
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// Of a fork with an id of its own nobody was told, so it is deleted where it does not wake. One that the host named may have been
/// there for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_fork_that_does_not_wake_is_not_deleted() {
    let folder = taped::folder();
    let runtime = start(folder.path()).await;
    let parent = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    say(&parent, "a").await;
    let then = parent.state().await.unwrap().seq;
    let fork = parent.fork(ForkOptions::at(then).id(id("fork"))).await.unwrap();
    say(&fork, "b").await;
    runtime.passivate(fork.id()).await.unwrap();
    let other = start(folder.path()).await;
    other.open(&id("fork")).await.unwrap();
    let error = parent.fork(ForkOptions::at(then).id(id("fork"))).await.unwrap_err();
    assert!(matches!(&error, BranchError::Open(error) if claimed(error)), "{error}");
    let error = parent.fork(ForkOptions::newest().id(id("fork"))).await.unwrap_err();
    assert!(matches!(&error, BranchError::Open(error) if claimed(error)), "{error}");
    assert!(other.shutdown().await.is_empty());
    let fork = parent.fork(ForkOptions::at(then).id(id("fork"))).await.unwrap();
    assert_eq!(said(&fork).await, ["a", "Hello.", "b", "Hello."]);
    assert!(runtime.shutdown().await.is_empty());
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn a_runtime_holds_messages_and_models_to_the_limits_of_its_host() {
    let folder = taped::folder();
    let mut limits = RuntimeLimits::default();
    (limits.message_bytes_max, limits.answer_calls_max) = (100, 2);
    limits.request_time_max = Duration::from_secs(7);
    let model = Scripted::from_fn(|request| match format!("{:?}", request.history).contains("calls") {
        true => Reply::hang(),
        false => (0..2).fold(Reply::call("echo", json!({})), |reply, _| reply.with_call("echo", json!({}))),
    });
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).limits(limits);
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let error = session.prompt("x".repeat(101)).await.unwrap_err();
    assert!(matches!(error, SendError::Refused(Refusal::TooLarge { bytes: 101, max: 100 })), "{error}");
    for (prompt, words) in [
        ("y".repeat(100), "asked for 3 calls in one answer: the limit is 2"),
        ("without calls".to_owned(), "did not finish within 7 s"),
    ] {
        let answer = session.prompt(prompt).await.unwrap().wait().await.unwrap();
        let Outcome::Failed { error } = &answer.outcome else { panic!("{answer:?}") };
        assert!(error.contains(words), "{error}");
    }
    assert!(runtime.shutdown().await.is_empty());
    limits.answer_calls_max = 5_000;
    let builder = Runtime::builder().store(folder.path().join("store")).model(talker()).limits(limits);
    let error = builder.start().await.unwrap_err();
    assert!(matches!(error, StartError::Limit { .. }), "{error}");
    assert_eq!(error.to_string(), "the limit answer_calls_max is 5000: it may be 1 to 1024");
}
