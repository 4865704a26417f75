//! Messages, calls, crashes and recovery, over each engine.

use tamtam::{
    Delivery, Message, Outcome, SendError, SessionOptions,
    session::{DownReason, Link, Record},
    tape::TapeError,
};

use super::{count, each_engine, say, seen, until};

/// A message is on the tape when its receipt says so; the same id again is the same message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_answered_and_known_by_its_id() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        let message = || Message::user("hello").with_id("m".into());
        let receipt = session.prompt(message()).await.unwrap();
        let on_tape = session.entries().await.unwrap();
        assert!(on_tape.iter().any(|entry| entry.seq == receipt.seq), "the receipt means that it is on the tape");
        assert_eq!(receipt.wait().await.unwrap().text, "re hello");
        let again = session.prompt(message()).await.unwrap();
        assert_eq!((again.seq, again.wait().await.unwrap().text.as_str()), (receipt.seq, "re hello"));
        assert_eq!(seen(&session).await, ["hello", "re hello"]);
        assert!(matches!(
            runtime.create(engine.options()).await,
            Err(tamtam::OpenError::Tape(TapeError::Exists { .. }))
        ));
        assert!(runtime.shutdown().await.is_empty());
        assert!(matches!(session.prompt("late").await, Err(SendError::Closed)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steering_skips_what_has_not_begun_and_a_queue_can_be_changed() {
    each_engine(async |engine| {
        let (runtime, tools) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        let turn = session.prompt("calls gate").await.unwrap();
        tools.gate.is_running().await;
        for text in ["one", "two", "three"] {
            session.send(Message::user(text).with_id(text.into()), Delivery::Queue).await.unwrap();
        }
        session.edit(Message::user("two, better").with_id("two".into())).await.unwrap();
        session.withdraw("three".into()).await.unwrap();
        let waiting: Vec<_> = session.queue().await.unwrap().iter().map(|one| one.message.text()).collect();
        assert_eq!(waiting, ["one", "two, better"]);
        session.steer("rather this").await.unwrap();
        tools.gate.open.add_permits(1);
        assert_eq!(turn.wait().await.unwrap().text, "re rather this");
        session.wait().await.unwrap();
        let seen = seen(&session).await;
        assert_eq!(seen[2], "through the gate");
        assert!(seen[3].to_lowercase().contains("skip"), "{seen:?}");
        let rest = ["rather this", "re rather this", "one", "re one", "two, better", "re two, better"];
        assert_eq!(seen[4..], rest);
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_what_runs_and_keeps_the_rest() {
    each_engine(async |engine| {
        let (runtime, tools) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        let hangs = session.prompt("hang").await.unwrap();
        session.abort("too slow").await.unwrap();
        assert_eq!(hangs.wait().await.unwrap().outcome, Outcome::Aborted { reason: "too slow".to_owned() });
        let calls = session.prompt("call gate").await.unwrap();
        tools.gate.is_running().await;
        session.abort("enough").await.unwrap();
        assert!(matches!(calls.wait().await.unwrap().outcome, Outcome::Aborted { .. }));
        assert_eq!(say(&session, "and now").await, "re and now");
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// Promise 5: the actor crashes in the middle of a call, and goes on from the tape by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_actor_that_crashes_in_mid_call_goes_on_from_its_tape() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let session = runtime.create(engine.options()).await.unwrap();
        say(&session, "before").await;
        assert_eq!(say(&session, "call bomb").await, "that is all");
        assert_eq!(count(&session, |record| matches!(record, Record::Recovered { .. })).await, 1);
        let expected = ["before", "re before", "call bomb", "", "nothing happened", "that is all"];
        assert_eq!(seen(&session).await, expected);
        // A restart by hand is one more incarnation of the same.
        runtime.operate().restart(session.id().as_str()).await.unwrap();
        assert_eq!(seen(&session).await, expected);
        assert_eq!(say(&session, "after").await, "re after");
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}

/// A turn that its runtime's end cut off goes on in the next runtime over the same tapes, once, and loses nothing that waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_runtime_over_the_same_tapes_goes_on() {
    each_engine(async |engine| {
        let (first, tools) = engine.start().await;
        let session = first.create(engine.options()).await.unwrap();
        say(&session, "before").await;
        session.prompt("call gate").await.unwrap();
        tools.gate.is_running().await;
        session.prompt("later").await.unwrap();
        assert_eq!(first.drain(std::time::Duration::ZERO).await, [session.id().clone()]);
        assert!(first.shutdown().await.is_empty());
        drop((first, session));

        let (second, _) = engine.start().await;
        let found: Vec<_> = second.recovered().iter().map(|one| (one.session.as_str(), one.error.clone())).collect();
        assert_eq!(found, [("s", None)]);
        let session = second.session(&"s".parse().unwrap());
        session.wait().await.unwrap();
        let seen = seen(&session).await;
        assert_eq!((seen[0].as_str(), seen[2].as_str(), seen.len()), ("before", "call gate", 8), "{seen:?}");
        assert_eq!(seen[5..], ["that is all", "later", "re later"], "{seen:?}");
        assert!(second.shutdown().await.is_empty());

        // Nothing is open any more, so the third has nothing to do.
        let (third, _) = engine.start().await;
        assert_eq!(third.recovered(), []);
        assert_eq!(third.list().await.unwrap().len(), 1);
        assert!(third.shutdown().await.is_empty());
    })
    .await;
}

/// Promise 7: side by side, each session has one writer; what the one gives back the other can have at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runtimes_over_the_same_tapes_share_them_session_by_session() {
    each_engine(async |engine| {
        let ((one, _), (other, _)) = (engine.start().await, engine.start().await);
        let session = one.create(engine.options()).await.unwrap();
        say(&session, "a").await;
        let refused = other.open(session.id()).await;
        assert!(
            matches!(refused, Err(tamtam::OpenError::Tape(TapeError::Claimed { .. }))),
            "{}: {refused:?}",
            engine.name()
        );
        // It can be read all the same.
        assert_eq!(other.session(session.id()).messages().await.unwrap().len(), 2);
        one.passivate(session.id()).await.unwrap();
        let there = other.open(session.id()).await.unwrap();
        assert_eq!(say(&there, "b").await, "re b");
        // The end of one takes nothing from the other.
        assert!(one.shutdown().await.is_empty());
        assert_eq!(say(&there, "c").await, "re c");
        assert_eq!(seen(&there).await, ["a", "re a", "b", "re b", "c", "re c"]);
        assert!(other.shutdown().await.is_empty());
        let (third, _) = engine.start().await;
        assert_eq!(seen(&third.open(session.id()).await.unwrap()).await.len(), 6);
        assert!(third.shutdown().await.is_empty());
    })
    .await;
}

/// A child does its task, and its parent hears of the end once, also where both crash in between; then both may sleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_does_its_task_and_its_parent_hears_of_it() {
    each_engine(async |engine| {
        let (runtime, _) = engine.start().await;
        let parent = runtime.create(engine.options()).await.unwrap();
        let options = SessionOptions::new(engine.work()).id("child".parse().unwrap());
        let child = parent.spawn_child(options, "call bomb", Link::default()).await.unwrap();
        runtime.operate().crash(parent.id().as_str(), "on purpose").unwrap();
        let down = child.down().await.unwrap();
        assert!(matches!(down.reason, DownReason::Done), "{down:?}");
        assert_eq!(count(&parent, |record| matches!(record, Record::TaskFinished { .. })).await, 1);
        let taken = SessionOptions::new(engine.work()).id(parent.id().clone());
        assert!(parent.spawn_child(taken, "again", Link::default()).await.is_err());
        until("both sleep", || {
            runtime.shed(0);
            runtime.tree().find("child").is_none() && runtime.tree().find(parent.id().as_str()).is_none()
        })
        .await;
        assert!(runtime.shutdown().await.is_empty());
    })
    .await;
}
