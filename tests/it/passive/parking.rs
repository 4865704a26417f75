//! A parked session stays parked through every restart.

use tamtam::{
    OpenError, SendError,
    model::{Reply, Scripted},
    runtime::OperateError,
};

use crate::support::{bomb::Bomb, taped};

use super::{Arc, Runtime, Session, ask, builder, counts, create, start, until};

/// A runtime with a session that has just been parked.
async fn with_a_parked_session(folder: &std::path::Path) -> (Runtime, Session) {
    let calls_bomb = Arc::new(Scripted::from_fn(|_| Reply::call("bomb", serde_json::json!({}))));
    let bomb = Bomb::default();
    let runtime = builder(folder, calls_bomb).tool(bomb.clone()).start().await.unwrap();
    bomb.arm(&runtime);
    let poisoned = create(&runtime, folder).await;
    poisoned.prompt("go").await.unwrap();
    while !poisoned.state().await.unwrap().waits {
        tokio::task::yield_now().await;
    }
    poisoned.go_on().await.unwrap();
    until("it is parked", || runtime.parked().len() == 1).await;
    (runtime, poisoned)
}

/// Parking is written down: the next runtime leaves the session alone, does not even read its tape (which is made unreadable
/// here), says that it is parked and why, and unparks it when told to. And the mark is gone for the runtime after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_session_is_parked_in_the_next_runtime_too() {
    let folder = taped::folder();
    let (first, poisoned) = with_a_parked_session(folder.path()).await;
    let id = poisoned.id().clone();
    assert!(first.parked()[0].why.contains("the bomb goes off"), "{:?}", first.parked());
    until("it is written down", || folder.path().join("store/parked").join(id.as_str()).exists()).await;
    assert!(first.shutdown().await.is_empty());
    drop((first, poisoned));

    let tape = folder.path().join(format!("store/sessions/{id}/anchors/001_session-start/entries.jsonl"));
    let good = std::fs::read(&tape).unwrap();
    std::fs::write(&tape, "no tape at all\nand no second line\nnor a third\n").unwrap();
    let second = start(folder.path(), counts()).await;
    assert_eq!(second.parked()[0].session, id);
    assert!(second.parked()[0].why.contains("the bomb goes off"));
    assert!(second.recovered()[0].error.as_deref().is_some_and(|error| error.contains("parked")));
    let session = second.session(&id);
    assert!(matches!(session.prompt("hello").await, Err(SendError::Parked)));
    assert!(matches!(second.open(&id).await, Err(OpenError::Parked { .. })));
    assert_eq!(second.awake(), []);

    std::fs::write(&tape, good).unwrap();
    second.operate().unpark(id.as_str()).await.unwrap();
    session.abort("give it up").await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(ask(&session, "hello").await, "2");
    assert_eq!(second.parked(), []);
    assert!(second.shutdown().await.is_empty());

    let third = start(folder.path(), counts()).await;
    assert_eq!(third.parked(), []);
    assert_eq!(ask(&third.session(&id), "still here").await, "3");
    assert!(third.shutdown().await.is_empty());
}

/// A session that is not parked cannot be unparked, and a restart by hand unparks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unparking_and_restarting_by_hand() {
    let folder = taped::folder();
    let (runtime, poisoned) = with_a_parked_session(folder.path()).await;
    let other = create(&runtime, folder.path()).await;
    assert!(matches!(runtime.operate().unpark(other.id().as_str()).await, Err(OperateError::NotParked { .. })));
    assert!(matches!(runtime.passivate(poisoned.id()).await, Err(tamtam::session::PassivateError::Parked)));

    runtime.operate().restart(poisoned.id().as_str()).await.unwrap();
    assert_eq!(runtime.parked(), []);
    // What the restarted actor decides is on its tape a moment later.
    let waits = async {
        while !poisoned.state().await.unwrap().waits {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), waits).await.expect("it waits for a person");
    poisoned.abort("give it up").await.unwrap();
    poisoned.wait().await.unwrap();
    // Restarting one that sleeps wakes it.
    runtime.passivate(poisoned.id()).await.unwrap();
    runtime.operate().restart(poisoned.id().as_str()).await.unwrap();
    assert!(runtime.awake().contains(poisoned.id()));
    assert!(runtime.shutdown().await.is_empty());
}
