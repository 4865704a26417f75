//! Sending as a host wants it: a send that waits for room, a prompt whose stream ends with its turn, an ask that waits for a listener.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tamtam::{
    Delivery, EventKind, EventStream, Message, OpenError, Outcome, Runtime, SendError, Session, SessionOptions,
    model::{BoxFuture, Reply, Scripted},
    session::{Grant, Link, NAME_BYTES_MAX, Next, Refusal, SpawnError, TITLE_BYTES_MAX, TaskRequest, TurnStream},
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::taped;

struct Echo;

impl Tool for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn description(&self) -> &str {
        "Says what it is told."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { ToolResult::ok(arguments.to_string()) })
    }
}

/// A session in a store of its own, whose model has these replies.
async fn session(
    folder: &taped::Folder,
    replies: impl IntoIterator<Item = Reply>,
    change: impl FnOnce(&mut SessionOptions),
) -> (Runtime, Session, Arc<Scripted>) {
    let model = Arc::new(Scripted::new(replies));
    let store = folder.path().join("store");
    let runtime = Runtime::builder().store(store).model(model.clone()).tool(Echo).start().await.unwrap();
    let mut options = SessionOptions::new(folder.path());
    change(&mut options);
    let session = runtime.create(options).await.unwrap();
    (runtime, session, model)
}

/// Waits until the session says that this many of its callers wait.
async fn until_waiting(session: &Session, messages: usize) {
    while session.queue().await.unwrap().len() < messages {
        tokio::task::yield_now().await;
    }
}

/// Seen with a host's program: 2,000 messages, one after the other, cost 63,003 refusals. Now none is refused, all are read, in order,
/// and no more than the queue holds wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_waits_for_room_is_never_refused_and_keeps_the_order() {
    let folder = taped::folder();
    let replies =
        [Reply::text("first").at_barrier("go")].into_iter().chain((0..600).map(|n| Reply::text(format!("{n}"))));
    let (runtime, session, model) = session(&folder, replies, |_| {}).await;
    let sender = session.clone();
    let sent = tokio::spawn(async move {
        for n in 0..600 {
            sender.send_when_room(format!("line {n}"), Delivery::Queue).await.unwrap();
        }
    });
    until_waiting(&session, 256).await;
    let refused = session.send("no room", Delivery::Queue).await;
    assert!(matches!(refused, Err(SendError::Refused(Refusal::InboxFull { depth: 256 }))), "{refused:?}");
    assert!(!sent.is_finished(), "the others wait");
    model.barrier("go").release();
    sent.await.unwrap();
    session.wait().await.unwrap();
    let said = session.messages().await.unwrap();
    let lines: Vec<_> = said.iter().map(tamtam::Message::text).filter(|text| text.starts_with("line ")).collect();
    assert_eq!(lines, (0..600).map(|n| format!("line {n}")).collect::<Vec<_>>());
    assert!(runtime.shutdown().await.is_empty());
}

/// One who waits for room and goes away leaves nothing behind; a queue on hold says that no room comes by itself; the end of the
/// runtime is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_room_can_go_away_and_is_told_where_none_comes() {
    let folder = taped::folder();
    let (runtime, session, _) = session(&folder, [Reply::hang()], |_| {}).await;
    for n in 0..257 {
        session.send(format!("line {n}"), Delivery::Queue).await.unwrap();
    }
    let mut gone = Box::pin(session.send_when_room("gone", Delivery::Queue));
    for _ in 0..1_000 {
        assert!(gone.as_mut().now_or_never().is_none(), "there is no room");
        tokio::task::yield_now().await;
    }
    drop(gone);
    let waits = session.clone();
    let told = tokio::spawn(async move { waits.send_when_room("more", Delivery::Queue).await });
    session.abort("enough").await.unwrap();
    let on_hold = told.await.unwrap();
    assert!(matches!(on_hold, Err(SendError::Refused(Refusal::InboxFull { depth: 256 }))), "{on_hold:?}");
    let left = session.clear_queue().await.unwrap();
    assert_eq!((left.len(), left.last().unwrap().text()), (256, "line 256".to_owned()));
    let _ = runtime.shutdown().await;
    let closed = session.send_when_room("late", Delivery::Queue).await;
    assert!(matches!(closed, Err(SendError::Closed)), "{closed:?}");
}

/// All that a stream gives until it ends.
async fn all(turn: &mut TurnStream) -> Vec<EventKind> {
    let mut events = Vec::new();
    while let Some(next) = turn.next().await {
        let Next::Event(event) = next else { panic!("nothing is missing") };
        events.push(event.kind.clone());
    }
    events
}

fn said(events: &[EventKind]) -> String {
    let text = |kind: &EventKind| match kind {
        EventKind::TextDelta { text } => Some(text.clone()),
        _ => None,
    };
    events.iter().filter_map(text).collect()
}

/// The stream of a prompt has the events of its turn, from the first to the last, and no others, whatever runs before and after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_prompt_has_its_turn_and_ends_with_it() {
    let folder = taped::folder();
    let replies = [
        Reply::text("one").at_barrier("go"),
        Reply::call("echo", json!({})).with_text("two "),
        Reply::text("and two"),
        Reply::text("three"),
    ];
    let (runtime, session, model) =
        session(&folder, replies, |options| *options = options.clone().profile(tamtam::permission::Profile::Auto))
            .await;
    let mut one = session.prompt_streaming("1").await.unwrap();
    let mut two = session.prompt_streaming("2").await.unwrap();
    let three = session.prompt("3").await.unwrap();
    model.barrier("go").release();
    let (first, second) = (all(&mut one).await, all(&mut two).await);
    assert_eq!((said(&first), said(&second)), ("one".to_owned(), "two and two".to_owned()));
    for events in [&first, &second] {
        assert!(matches!(events.first(), Some(EventKind::TurnStarted { .. })), "{events:?}");
        assert!(matches!(events.last(), Some(EventKind::TurnFinished { .. })), "{events:?}");
    }
    assert_eq!(two.next().await, None);
    let answers = (one.answer().await.unwrap().text, two.answer().await.unwrap().text);
    assert_eq!(answers, ("one".to_owned(), "and two".to_owned()));
    assert_eq!(three.wait().await.unwrap().text, "three");
    assert!(runtime.shutdown().await.is_empty());
}

/// A stream ends also where its message is never read, and says why; a dropped stream stops nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_where_its_message_is_withdrawn_or_held() {
    let folder = taped::folder();
    let (runtime, session, model) = session(&folder, [Reply::hang(), Reply::text("read")], |_| {}).await;
    drop(session.prompt_streaming("first").await.unwrap());
    // The first reply is for the first message: an abort before its request would leave it to a later one.
    while model.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    let mut withdrawn = session.prompt_streaming("second").await.unwrap();
    let mut held = session.prompt_streaming("third").await.unwrap();
    session.withdraw(withdrawn.receipt().message.clone()).await.unwrap();
    assert!(all(&mut withdrawn).await.is_empty());
    let error = withdrawn.answer().await.unwrap_err();
    assert!(matches!(error, SendError::Refused(Refusal::NotWaiting { .. })), "{error:?}");
    session.abort("enough").await.unwrap();
    assert!(all(&mut held).await.is_empty());
    let error = held.answer().await.unwrap_err();
    assert!(matches!(error, SendError::Refused(Refusal::OnHold { .. })), "{error:?}");
    session.go_on().await.unwrap();
    assert_eq!(held.receipt().wait().await.unwrap().text, "read");
    assert!(runtime.shutdown().await.is_empty());
}

/// A reader who takes nothing until the turn is over has the answer all the same, and what the ring still holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_comes_late_has_the_answer_and_the_end() {
    let folder = taped::folder();
    let pieces = (0..6_000).fold(Reply::empty(), |reply, n| reply.with_text(format!("{n} ")));
    let (runtime, session, _) = session(&folder, [pieces], |_| {}).await;
    let mut turn = session.prompt_streaming("go").await.unwrap();
    let answer = turn.answer().await.unwrap();
    assert!(answer.text.ends_with("5999 "), "{}", answer.text.len());
    let mut rest = Vec::new();
    while let Some(next) = turn.next().await {
        rest.push(next);
    }
    assert!(matches!(rest.first(), Some(Next::Lagged(missing)) if *missing > 1_000), "{:?}", rest.first());
    let last = rest.last().unwrap();
    assert!(matches!(last, Next::Event(event) if matches!(event.kind, EventKind::TurnFinished { .. })), "{last:?}");
    assert!(rest.len() > 4_000, "what was not lost is shown: {}", rest.len());
    assert!(runtime.shutdown().await.is_empty());
}

/// A message that is sent again under its id, while its turn runs: the stream has the rest of the turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_sent_again_has_the_rest_of_its_turn_as_a_stream() {
    let folder = taped::folder();
    let (runtime, session, model) = session(&folder, [Reply::text("hello").at_barrier("model")], |_| {}).await;
    let message = Message::user("go");
    let first = session.prompt(message.clone()).await.unwrap();
    model.barrier("model").reached().await;
    let mut again = session.prompt_streaming(message).await.unwrap();
    model.barrier("model").release();
    let mut rest = Vec::new();
    while let Some(next) = again.next().await {
        rest.push(next);
    }
    let last = rest.last().unwrap();
    assert!(matches!(last, Next::Event(event) if matches!(event.kind, EventKind::TurnFinished { .. })), "{last:?}");
    assert_eq!(again.answer().await.unwrap(), first.wait().await.unwrap());
    assert!(runtime.shutdown().await.is_empty());
}

/// A stream does not wake the session that an operator stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_of_a_stopped_session_ends_and_wakes_nothing() {
    let folder = taped::folder();
    let (runtime, session, model) = session(&folder, [Reply::text("hello").at_barrier("model")], |_| {}).await;
    let mut turn = session.prompt_streaming("go").await.unwrap();
    model.barrier("model").reached().await;
    // It waits before the stop: who begins to wait after it wakes the session.
    {
        let mut answer = std::pin::pin!(turn.answer());
        assert!(futures_util::poll!(&mut answer).is_pending());
        runtime.operate().stop(session.id().as_str()).await.unwrap();
        assert!(matches!(answer.await, Err(SendError::Stopped)));
    }
    while turn.next().await.is_some() {}
    assert!(runtime.tree().find(session.id().as_str()).is_none(), "{}", runtime.tree());
    assert!(runtime.shutdown().await.is_empty());
}

/// A stream of events is a `futures::Stream`: the same events as by `next`, and the end with the runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_a_stream_that_ends_with_the_runtime() {
    let folder = taped::folder();
    let (runtime, session, _) = session(&folder, [Reply::text("hello")], |_| {}).await;
    let (streamed, mut awaited): (EventStream, EventStream) = (session.events(), session.events());
    let collecting = tokio::spawn(streamed.collect::<Vec<Next>>());
    session.prompt("go").await.unwrap().wait().await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    let mut one_by_one = Vec::new();
    while let Some(next) = EventStream::next(&mut awaited).await {
        one_by_one.push(next);
    }
    let streamed = collecting.await.unwrap();
    assert!(streamed.len() > 4);
    assert_eq!(streamed, one_by_one);
}

/// Promise 8: a host may set that asks wait for a listener. The event says so, and whoever comes later finds the ask and answers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_may_wait_for_a_listener_who_comes_later() {
    let folder = taped::folder();
    let replies = [Reply::call("echo", json!({ "a": 1 })), Reply::text("done")];
    let (runtime, session, model) = session(&folder, replies, |options| options.asks_wait = true).await;
    let receipt = session.prompt("nobody listens yet").await.unwrap();
    let ask = loop {
        if let Some((ask, _)) = session.state().await.unwrap().asks().next() {
            break ask;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let mut events = session.events_after(tamtam::Seq::ZERO).await.unwrap();
    let shown = loop {
        let Some(Next::Event(event)) = EventStream::next(&mut events).await else { panic!("the ask is shown") };
        if let EventKind::Ask { ask, waits, .. } = event.kind {
            break (ask, waits);
        }
    };
    assert_eq!(shown, (ask, true));
    session.answer(ask, Grant::Once).await.unwrap();
    let answer = receipt.wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "done"));
    assert_eq!(model.requests().len(), 2);
    assert!(runtime.shutdown().await.is_empty());
}

/// Ids of 1 MB made a tape of 755 MB of 150 messages of one byte, and the empty one swallowed every message but the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_a_host_chooses_have_a_length() {
    let folder = taped::folder();
    let replies = (0..9).map(|n| Reply::text(n.to_string()));
    let (runtime, session, _) = session(&folder, replies, |_| {}).await;
    let (most, long) = ("x".repeat(NAME_BYTES_MAX), "x".repeat(NAME_BYTES_MAX + 1));
    let bounded = |refusal: &Refusal, is: &str| {
        assert!(matches!(refusal, Refusal::Length { least: 1, max: NAME_BYTES_MAX, .. }), "{refusal}");
        let bound = format!(" has {} bytes, and may have 1 to 256", is.len());
        assert!(refusal.to_string().contains(&bound), "{refusal}");
    };
    for id in ["", long.as_str()] {
        let named = || Message::user("hello").with_id(id.into());
        for refused in [
            session.send(named(), Delivery::Queue).await.map(drop),
            session.send_when_room(named(), Delivery::Queue).await.map(drop),
            session.prompt_streaming(named()).await.map(drop),
            session.edit(named()).await,
        ] {
            let Err(SendError::Refused(refusal)) = refused else { panic!("{refused:?}") };
            bounded(&refusal, id);
        }
        let spawned = session.spawn_child(SessionOptions::new(folder.path()), named(), Link::default()).await;
        let Err(SpawnError::Parent(SendError::Refused(refusal))) = spawned else { panic!("it was taken") };
        bounded(&refusal, id);
        let mut task = TaskRequest::new("explore", "look", "Look.");
        task.idempotency_key = Some(id.to_owned());
        let given = session.delegate(task, Default::default()).await;
        let Err(SpawnError::Parent(SendError::Refused(refusal))) = given else { panic!("it was taken") };
        bounded(&refusal, id);
    }
    let mut task = TaskRequest::new("explore", "look", "Look.");
    task.trace_id.clone_from(&long);
    let Err(SpawnError::Parent(SendError::Refused(refusal))) = session.delegate(task, Default::default()).await else {
        panic!("it was taken")
    };
    bounded(&refusal, &long);
    let mut message = Message::user("hello").with_id(most.as_str().into());
    message.agent = Some(long.clone());
    let Err(SendError::Refused(refusal)) = session.send(message.clone(), Delivery::Queue).await else { panic!() };
    bounded(&refusal, &long);
    message.agent = None;
    session.send(message, Delivery::Queue).await.unwrap().wait().await.unwrap();

    let title = "t".repeat(TITLE_BYTES_MAX);
    session.set_title(Some(title.clone())).await.unwrap();
    let error = session.set_title(Some(title.clone() + "t")).await.unwrap_err();
    assert_eq!(error.to_string(), "the title has 1025 bytes, and may have 0 to 1024");
    let mut options = SessionOptions::new(folder.path());
    options.title = Some(title + "t");
    let error = runtime.create(options).await.err().unwrap();
    assert!(matches!(error, OpenError::Options(Refusal::Length { max: TITLE_BYTES_MAX, .. })), "{error}");
    assert!(runtime.shutdown().await.is_empty());
}
