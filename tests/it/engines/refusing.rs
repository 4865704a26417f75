//! An engine that accepts nothing for a while, or cannot read: hosts get errors, open work is kept, and it continues
//! with the engine.

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use futures_util::poll;
use tamtam::{
    Outcome, SendError, SessionOptions,
    ops::SessionQuery,
    session::{DownReason, Link, Record},
    tape::{SessionStatus, TapeError},
};

use super::{Engine, Kept, Own, count, say, seen, until};

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
    let end = tokio::time::timeout(Duration::from_secs(60), turn.wait()).await;
    assert_eq!(end.expect("what was held is tried again").unwrap().outcome, Outcome::Done);
    let expected = ["before", "re before", "call gate", "", "through the gate", "that is all"];
    assert_eq!(seen(&session).await, expected, "once, and nothing of what was refused");
    // And it is all on the tape.
    runtime.operate().restart(session.id().as_str()).await.unwrap();
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
    let session = second.open(session.id()).await.unwrap();
    assert_eq!(seen(&session).await, ["before", "re before"]);
    assert!(second.shutdown().await.is_empty());
}

/// Who puts a session to sleep hears of it when the engine has the session back, and no earlier: else a list right behind that shows
/// it as live, a sweep spares it and another process is refused. Found by a list that did.
#[tokio::test]
async fn a_session_sleeps_when_its_engine_has_it_back_and_no_earlier() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, _) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    say(&session, "hello").await;
    own.give_back_late();
    let mut asleep = pin!(runtime.passivate(session.id()));
    // All is done but for the engine; whoever could be told of that has been, for all of it is on this one thread.
    while !own.is_leaving(session.id()) || !runtime.awake().is_empty() {
        assert!(poll!(asleep.as_mut()).is_pending(), "its engine has it still");
        tokio::task::yield_now().await;
    }
    assert!(poll!(asleep.as_mut()).is_pending(), "its engine has it still");
    let mut again = pin!(runtime.passivate(session.id()));
    assert!(poll!(again.as_mut()).is_pending(), "also for who asks again");
    assert!(runtime.tree().find("s").is_none());
    own.give_back();
    assert_eq!((asleep.await, again.await), (Ok(()), Ok(())));
    let listed = runtime.sessions(SessionQuery::default()).await.unwrap().sessions;
    assert_eq!(listed[0].status, SessionStatus::Passive);

    // What comes in meanwhile wakes it, and the one who put it to sleep does not wait for the next time.
    say(&session, "again").await;
    let mut asleep = pin!(runtime.passivate(session.id()));
    while !own.is_leaving(session.id()) || !runtime.awake().is_empty() {
        assert!(poll!(asleep.as_mut()).is_pending(), "its engine has it still");
        tokio::task::yield_now().await;
    }
    assert!(poll!(asleep.as_mut()).is_pending(), "its engine has it still");
    let said = tokio::spawn({
        let session = session.clone();
        async move { say(&session, "meanwhile").await }
    });
    while runtime.awake().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(poll!(asleep.as_mut()).is_pending(), "its engine has it still");
    own.give_back();
    assert_eq!(asleep.await, Ok(()));
    assert_eq!(said.await.unwrap(), "re meanwhile");
    assert_eq!(runtime.awake(), [session.id().clone()]);
    assert!(runtime.shutdown().await.is_empty());
}

/// A child that cannot be read for a while is looked at again: `lost` would be said for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_an_engine_cannot_read_just_now_is_not_lost() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (first, tools) = engine.start().await;
    let parent = first.create(engine.options()).await.unwrap();
    let options = SessionOptions::new(engine.work()).id("child".parse().unwrap());
    parent.spawn_child(options, "call gate", Link::default()).await.unwrap();
    tools.gate.is_running().await;
    assert!(first.shutdown().await.is_empty());
    drop((first, parent));

    own.keep_away(Some("child"));
    let (second, _) = engine.start().await;
    let parent = second.open(&"s".parse().unwrap()).await.unwrap();
    // The start looks once, and then the parent's watch.
    until("it was looked at", || own.reads.load(Ordering::SeqCst) > 3).await;
    let is_down = |record: &Record| matches!(record, Record::TaskFinished { .. });
    assert_eq!(count(&parent, is_down).await, 0);
    own.keep_away(None);
    let heard = async {
        loop {
            let ended = parent.state().await.unwrap().tasks_ended.clone();
            if let Some(down) = ended.iter().find_map(|end| end.down.clone()) {
                return down;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let down = tokio::time::timeout(Duration::from_secs(60), heard).await.expect("its parent hears of its end");
    assert!(matches!(down.reason, DownReason::Done), "{down:?}");
    assert!(second.shutdown().await.is_empty());
}

/// A session that crashes while its tape cannot be read waits for it. It is not parked: that would last, and its tape is back soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_crashes_while_its_tape_cannot_be_read_waits_for_it() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, _) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    say(&session, "before").await;
    own.keep_away(Some("s"));
    runtime.operate().crash("s", "on purpose").unwrap();
    until("it was looked at", || own.reads.load(Ordering::SeqCst) > 3).await;
    own.keep_away(None);
    assert_eq!(say(&session, "after").await, "re after");
    assert_eq!(seen(&session).await, ["before", "re before", "after", "re after"]);
    assert_eq!(runtime.crashes().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// Who waits for a session that crashed while its tape cannot be read is told so, as by one that slept: not after hours of an outage.
/// It goes on looking by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_session_that_cannot_be_read_after_a_crash_is_told_so() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, tools) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    let turn = session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    own.keep_away(Some("s"));
    runtime.operate().crash("s", "on purpose").unwrap();
    until("it was looked at", || own.reads.load(Ordering::SeqCst) > 0).await;
    // What is known is shown.
    assert!(session.state().await.unwrap().turn.is_some());
    let told = async { tokio::join!(session.prompt("lost"), turn.wait()) };
    let (sent, end) = tokio::time::timeout(Duration::from_secs(60), told).await.expect("both are told");
    for error in [sent.unwrap_err(), end.unwrap_err()] {
        assert!(matches!(error, SendError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains("the database is away"), "{error}");
    }
    let shown = format!("{:?}", runtime.inspect("s").unwrap());
    assert!(shown.contains("its tape cannot be read just now"), "{shown}");
    own.keep_away(None);
    // Nobody wakes it.
    let is_end = |record: &Record| matches!(record, Record::TurnFinished { .. });
    let ended = async {
        while count(&session, is_end).await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its turn goes on by itself");
    assert!(!seen(&session).await.contains(&"lost".to_owned()));
    assert!(runtime.shutdown().await.is_empty());
}

/// An engine that panics when its connection breaks loses no result: a call that runs once is not answered "outcome unknown" by the
/// next incarnation, because its result was in hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_panics_in_an_append_loses_no_report() {
    for (kind, prompt) in [("result", "call gate"), ("answer", "hello")] {
        let own = Own::new();
        let engine = Engine::of(Kept::Own(own.clone()));
        let (runtime, tools) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        tools.gate.open.add_permits(1);
        own.panic_at(kind);
        let end = session.prompt(prompt).await.unwrap().wait().await.unwrap();
        assert_eq!((end.outcome.clone(), runtime.crashes().len()), (Outcome::Done, 1), "{kind}");
        let requests = count(&session, |record| matches!(record, Record::Request { .. })).await;
        match kind {
            "result" => assert_eq!(seen(&session).await[2], "through the gate"),
            _ => assert_eq!((seen(&session).await, requests), (vec!["hello".to_owned(), "re hello".into()], 1)),
        }
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// What a worker reported and no disk took goes with the process. The host is told of which session, and how much: its call becomes
/// "outcome unknown" at the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_reports_were_not_taken_is_named_at_the_end() {
    let own = Own::new();
    let engine = Engine::of(Kept::Own(own.clone()));
    let (runtime, tools) = engine.start().await;
    let session = runtime.create(engine.options()).await.unwrap();
    session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    own.refuse(true);
    let before = own.refused.load(Ordering::SeqCst);
    tools.gate.open.add_permits(1);
    until("its report was refused", || own.refused.load(Ordering::SeqCst) > before).await;
    let leftover = runtime.shutdown().await;
    assert_eq!(leftover.unrecorded, [(session.id().clone(), 1)]);
    assert!(!leftover.is_empty());

    own.refuse(false);
    let (runtime, _) = engine.start().await;
    let session = runtime.open(session.id()).await.unwrap();
    session.wait().await.unwrap();
    let unknown = |record: &Record| matches!(record, Record::Result { result, .. } if result.error.is_some());
    assert_eq!(count(&session, unknown).await, 1);
    assert!(runtime.shutdown().await.is_empty());
}
