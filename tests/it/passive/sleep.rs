//! Waking and sleeping, one session at a time.

use tamtam::{
    Delivery, EventKind, OpenError, SendError, SessionId,
    model::{Reply, Scripted},
    permission::Profile,
    session::{Grant, PassivateError},
    tape::{Store, StoreOptions, TapeError, TapeStoreExt as _},
};

use super::{Arc, Duration, SessionOptions, ask, counts, create, event, options, said, start};

use crate::support::taped;

/// Design §4: a handle is an id. A session that was put to sleep has no actor and no claim, and the next message wakes it with
/// all that was said before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_message_wakes_a_session_that_sleeps() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    assert_eq!(runtime.awake(), [session.id().clone()]);

    runtime.passivate(session.id()).await.unwrap();
    assert_eq!(runtime.awake(), []);
    assert!(runtime.tree().find(session.id().as_str()).is_none());
    assert!(!folder.path().join("store/sessions").join(session.id().as_str()).join("claim").exists());
    // Again is fine, and wakes nobody.
    runtime.passivate(session.id()).await.unwrap();
    assert_eq!(runtime.awake(), []);

    assert_eq!(ask(&session, "two").await, "2");
    assert_eq!(runtime.awake(), [session.id().clone()]);
    // A handle made from the id alone is as good.
    runtime.passivate(session.id()).await.unwrap();
    assert_eq!(ask(&runtime.session(session.id()), "three").await, "3");
    assert_eq!(runtime.crashes(), []);
    assert!(runtime.shutdown().await.is_empty());
}

/// Orleans' rule: what is asked, not only what is said, wakes; what is on the tape can be read without waking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_wake_and_readers_of_the_tape_do_not() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    let receipt = session.prompt("one").await.unwrap();
    receipt.wait().await.unwrap();
    runtime.passivate(session.id()).await.unwrap();

    assert_eq!(session.messages().await.unwrap().len(), 2);
    assert_eq!(runtime.awake(), []);
    // An outcome from before is remembered on the tape.
    assert_eq!(receipt.wait().await.unwrap().text, "1");
    assert_eq!(runtime.awake(), [session.id().clone()]);
    runtime.passivate(session.id()).await.unwrap();
    assert_eq!(session.state().await.unwrap().turns, 1);
    assert!(runtime.shutdown().await.is_empty());
}

/// Single flight: many that send and two that resume at once start one actor with one claim, and none is told "in use".
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_senders_and_resumers_at_once_start_one_actor() {
    let folder = taped::folder();
    let model = counts();
    let first = start(folder.path(), model.clone()).await;
    let id = create(&first, folder.path()).await.id().clone();
    assert!(first.shutdown().await.is_empty());

    let runtime = start(folder.path(), model.clone()).await;
    for round in 0..20 {
        let resumed = (0..2).map(|_| {
            let (runtime, id) = (runtime.clone(), id.clone());
            tokio::spawn(async move { runtime.open(&id).await.map(drop) })
        });
        let sent = (0..20).map(|n| {
            let session = runtime.session(&id);
            tokio::spawn(async move { session.prompt(format!("{round}.{n}")).await.map(drop) })
        });
        let (resumed, sent): (Vec<_>, Vec<_>) = (resumed.collect(), sent.collect());
        for task in resumed {
            task.await.unwrap().unwrap();
        }
        for task in sent {
            task.await.unwrap().unwrap();
        }
        let session = runtime.session(&id);
        session.wait().await.unwrap();
        let node = runtime.tree().find(id.as_str()).cloned().unwrap();
        assert_eq!((node.incarnation, node.restarts), (1, 0));
        runtime.passivate(&id).await.unwrap();
    }
    let mut all = said(model.requests().last().unwrap());
    assert_eq!(all.len(), 400);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 400);
    assert_eq!(runtime.crashes(), []);
    assert!(runtime.shutdown().await.is_empty());
}

/// A session that cannot be woken is an answer to who wanted it, and no crash: missing, claimed by another, damaged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_cannot_be_woken_says_why() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    let nobody = runtime.session(&"nobody".parse().unwrap());
    let refused = nobody.prompt("hello").await.unwrap_err();
    assert!(
        matches!(&refused, SendError::Unavailable(why) if matches!(**why, OpenError::Tape(TapeError::Missing { .. }))),
        "{refused}"
    );
    assert!(matches!(nobody.wait().await.unwrap_err(), SendError::Unavailable(_)));
    assert!(matches!(runtime.open(nobody.id()).await.unwrap_err(), OpenError::Tape(TapeError::Missing { .. })));
    // The name is free for whoever makes it, and the handle from before is the same session's.
    runtime.create(options(folder.path()).id(nobody.id().clone())).await.unwrap();
    assert_eq!(ask(&nobody, "and now").await, "1");

    runtime.passivate(nobody.id()).await.unwrap();
    let other = Store::open(folder.path().join("store"), StoreOptions::default()).unwrap();
    let claimed = other.load(nobody.id(), Arc::new(|_| {})).unwrap();
    let refused = nobody.prompt("hello").await.unwrap_err();
    assert!(refused.to_string().contains("in use"), "{refused}");
    drop(claimed);
    other.close(Duration::from_secs(10)).unwrap();
    assert_eq!(ask(&nobody, "free again").await, "2");
    assert_eq!(runtime.crashes(), []);
    assert_eq!(runtime.awake(), [nobody.id().clone()]);
    assert!(runtime.shutdown().await.is_empty());
}

/// Never a busy one: an open turn, an open ask, and a message that waits keep a session awake.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_session_is_not_put_to_sleep() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::text("thought").at_barrier("think"), Reply::text("next")]));
    let runtime = start(folder.path(), model.clone()).await;
    let session = create(&runtime, folder.path()).await;
    let prompt = session.prompt("go").await.unwrap();
    model.barrier("think").reached().await;
    let busy = runtime.passivate(session.id()).await.unwrap_err();
    assert!(matches!(busy, PassivateError::Busy { .. }), "{busy}");
    model.barrier("think").release();
    assert_eq!(prompt.wait().await.unwrap().text, "thought");
    session.pause().await.unwrap();
    session.prompt("later").await.unwrap();
    // Nothing runs, and one message waits for the pause to be lifted.
    assert!(matches!(runtime.passivate(session.id()).await, Err(PassivateError::Busy { .. })));
    session.resume().await.unwrap();
    session.wait().await.unwrap();
    runtime.passivate(session.id()).await.unwrap();
    // A pause is remembered by the tape.
    session.pause().await.unwrap();
    runtime.passivate(session.id()).await.unwrap();
    assert!(session.state().await.unwrap().paused);
    assert!(runtime.shutdown().await.is_empty());
}

/// An open ask keeps a session awake; its answer lets it sleep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_ask_keeps_a_session_awake() {
    let folder = taped::folder();
    let model = Arc::new(Scripted::new([Reply::call("ls", serde_json::json!({ "path": "." })), Reply::text("done")]));
    let builder = super::builder(folder.path(), model);
    let runtime = builder.tools(tamtam::tools::full()).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Strict)).await.unwrap();
    let mut events = session.events();
    let prompt = session.prompt("look").await.unwrap();
    let open = event(&mut events, |kind| match kind {
        EventKind::Ask { ask, .. } => Some(*ask),
        _ => None,
    })
    .await;
    assert!(matches!(runtime.passivate(session.id()).await, Err(PassivateError::Busy { .. })));
    session.answer(open, Grant::Once).await.unwrap();
    prompt.wait().await.unwrap();
    runtime.passivate(session.id()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
}

/// A listener keeps listening while the session sleeps and when it wakes, also where nobody holds a handle; and it misses
/// nothing that is on the tape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_streams_outlive_the_sleep_of_their_session() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    let session = create(&runtime, folder.path()).await;
    let id: SessionId = session.id().clone();
    let mut events = session.events();
    ask(&session, "one").await;
    drop(session);
    let finished = |kind: &EventKind| matches!(kind, EventKind::TurnFinished { .. }).then_some(());
    event(&mut events, finished).await;
    for round in 2..5 {
        runtime.passivate(&id).await.unwrap();
        assert_eq!(ask(&runtime.session(&id), "more").await, round.to_string());
        event(&mut events, finished).await;
    }
    // By id: all from an entry on, across three sleeps, with none missing.
    runtime.passivate(&id).await.unwrap();
    let mut again = runtime.session(&id).events_after(tamtam::Seq::ZERO).await.unwrap();
    assert_eq!(runtime.awake(), []);
    for _ in 1..5 {
        event(&mut again, finished).await;
    }
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(events.next().await, None);
}

/// A message with an id that was sent before the sleep is known after it: the same receipt, and not said twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_message_id_is_known_after_a_sleep() {
    let folder = taped::folder();
    let model = counts();
    let runtime = start(folder.path(), model.clone()).await;
    let session = create(&runtime, folder.path()).await;
    let message = tamtam::Message::user("once");
    let first = session.send(message.clone(), Delivery::Queue).await.unwrap();
    first.wait().await.unwrap();
    runtime.passivate(session.id()).await.unwrap();
    let second = session.send(message, Delivery::Queue).await.unwrap();
    assert_eq!((first.seq, first.message), (second.seq, second.message));
    session.wait().await.unwrap();
    assert_eq!(model.requests().len(), 1);
    assert!(runtime.shutdown().await.is_empty());
}
