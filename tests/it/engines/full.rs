//! Memory that is full: what is refused, what waits, and how it continues.

use std::{sync::Arc, time::Duration};

use tamtam::{
    EventKind, OpenError, Outcome, Runtime, SendError, SessionOptions,
    model::{Reply, Scripted},
    ops::SweepPolicy,
    session::{Next, Record},
    tape::{Mark, MemoryLimits, MemoryStore, TapeError, TapeStore as _},
};

const LONG: Duration = Duration::from_secs(60);

/// Promise 11: memory that is full is like a full disk. What is new is refused and says why and what helps; nothing that is there is
/// lost; when sessions that are over were removed, or the host allows more, all goes on. A session that could not be begun is not
/// there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_memory_that_is_full_refuses_says_what_helps_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("Done.")));
    let runtime = Runtime::builder().tapes(Arc::new(store.clone())).model(model).start().await.unwrap();
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
        session.prompt("hello").await.unwrap().wait().await.unwrap();
        session.wait().await.unwrap();
        sessions.push(session);
    }
    let [old, new] = &sessions[..] else { panic!("two") };
    while runtime.passivate(old.id()).await.is_err() {
        tokio::task::yield_now().await;
    }
    let full = MemoryLimits::default().bytes_max(store.bytes());
    store.set_limits(full);
    let refused = new.prompt("more").await.unwrap_err();
    assert!(matches!(&refused, SendError::Storage(TapeError::MemoryFull { of: "bytes", .. })), "{refused}");
    assert!(refused.to_string().contains("Runtime::sweep") && refused.to_string().contains("MemoryStore::set_limits"));
    let refused = runtime.create(SessionOptions::new(folder.path())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Tape(TapeError::MemoryFull { .. })), "{refused}");
    assert_eq!(runtime.list().await.unwrap().len(), 2, "and it is not there");

    let mut policy = SweepPolicy::default();
    policy.keep_newest = Some(0);
    let swept = runtime.sweep(policy).await.unwrap();
    assert_eq!(swept.gone.iter().map(|gone| &gone.session).collect::<Vec<_>>(), [old.id()]);
    let answer = new.prompt("more").await.unwrap().wait().await.unwrap();
    assert_eq!(answer.outcome, Outcome::Done);
    store.set_limits(MemoryLimits::default().sessions_max(1));
    let refused = runtime.create(SessionOptions::new(folder.path())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Tape(TapeError::MemoryFull { of: "sessions", max: 1 })), "{refused}");
    assert!(runtime.shutdown().await.is_empty());
}

/// Memory runs full in the middle of a turn: what the model said is held and recorded when there is room, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_while_memory_is_full_is_recorded_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new();
    // More than the little that is kept for turns that are open.
    let scripted = Scripted::new([Reply::text("The answer. ".repeat(100_000)).at_barrier("hold")]);
    let hold = scripted.barrier("hold");
    let runtime = Runtime::builder().tapes(Arc::new(store.clone())).model(Arc::new(scripted)).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let receipt = session.prompt("hello").await.unwrap();
    let mut events = session.events();
    store.set_limits(MemoryLimits::default().bytes_max(0));
    hold.release();
    loop {
        let Next::Event(event) = events.next().await.unwrap() else { continue };
        if matches!(event.kind, EventKind::StorageFailed { .. }) {
            break;
        }
    }
    store.set_limits(MemoryLimits::default());
    assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
    let answers = session.entries().await.unwrap();
    let answers = answers.iter().filter(|entry| matches!(entry.record, Record::Answer { .. })).count();
    assert_eq!(answers, 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// A turn that is open when memory is full goes on to its end, and an abort ends it: the session sleeps then, and can be deleted.
/// What is new is refused all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_ends_although_memory_is_full() {
    for aborts in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = MemoryStore::new();
        let scripted = Scripted::new([Reply::text("The answer.").at_barrier("hold")]);
        let hold = scripted.barrier("hold");
        let runtime =
            Runtime::builder().tapes(Arc::new(store.clone())).model(Arc::new(scripted)).start().await.unwrap();
        let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
        let other = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
        let receipt = session.prompt("hello").await.unwrap();
        hold.reached().await;
        store.set_limits(MemoryLimits::default().bytes_max(store.bytes()));
        let refused = other.prompt("more").await.unwrap_err();
        assert!(matches!(&refused, SendError::Storage(TapeError::MemoryFull { .. })), "{refused}");
        match aborts {
            true => tokio::time::timeout(LONG, session.abort("enough")).await.unwrap().map(drop).unwrap(),
            false => hold.release(),
        }
        let answer = tokio::time::timeout(LONG, receipt.wait()).await.unwrap().unwrap();
        assert_eq!(answer.outcome == Outcome::Done, !aborts, "{answer:?}");
        session.wait().await.unwrap();
        while runtime.passivate(session.id()).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.marks(Mark::Open, None).unwrap(), []);
        assert!(runtime.shutdown().await.is_empty());
    }
}
