//! An engine that takes nothing for a while: hosts are told, what is open is held, and it goes on when the engine does.

use std::{sync::atomic::Ordering, time::Duration};

use tamtam::{Outcome, SendError, tape::TapeError};

use super::{Engine, Kept, Own, say, seen, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_refuses_is_a_storage_error_and_what_is_open_is_held() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, tools) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    say(&session, "before").await;
    let turn = session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    own.refuse(true);
    let refused = session.prompt("lost").await.unwrap_err();
    let SendError::Storage(TapeError::Engine(why)) = &refused else { panic!("{refused:?}") };
    assert_eq!(why.to_string(), "the database is away");
    assert!(refused.to_string().contains("the database is away"), "{refused}");
    // The call's report cannot be sent again by anyone, so it is held and tried again.
    let before = own.refused.load(Ordering::SeqCst);
    tools.gate.open.add_permits(1);
    until("its report was refused", || own.refused.load(Ordering::SeqCst) > before).await;
    assert!(session.state().await.unwrap().turn.is_some(), "the turn is held open");
    own.refuse(false);
    let end = tokio::time::timeout(Duration::from_secs(30), turn.wait()).await;
    assert_eq!(end.expect("what was held is tried again").unwrap().outcome, Outcome::Done);
    let expected = ["before", "re before", "call gate", "", "through the gate", "that is all"];
    assert_eq!(seen(&session).await, expected, "once, and nothing of what was refused");
    // And it is all on the tape.
    runtime.restart(session.id()).await.unwrap();
    assert_eq!(seen(&session).await, expected);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session of which not even the first entry can be written is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_first_entry_is_refused_is_not_made() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, _) = engine.start().await;
    own.refuse(true);
    let refused = runtime.create(engine.options()).await;
    assert!(matches!(refused, Err(tamtam::OpenError::Tape(TapeError::Engine(_)))), "{refused:?}");
    own.refuse(false);
    let session = runtime.create(engine.options()).await.unwrap();
    assert_eq!(say(&session, "hello").await, "re hello");
    assert!(runtime.shutdown().await.is_empty());
}

/// What an engine does behind a handle that is gone is waited for at the end: from then on its sessions are everybody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_waits_until_the_engine_has_given_everything_back() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (first, _) = engine.start().await;
    let session = first.create(engine.options()).await.unwrap();
    say(&session, "before").await;
    own.give_back_late();
    assert!(first.shutdown().await.is_empty());
    let (second, _) = engine.start().await;
    let session = second.resume(session.id()).await.unwrap();
    assert_eq!(seen(&session).await, ["before", "re before"]);
    assert!(second.shutdown().await.is_empty());
}
