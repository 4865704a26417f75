//! Steering messages that go into the answer that is being made, over the WebSocket of the Responses API (`docs/decisions/0057`).
//!
//! One judgement holds for all: the tape's conversation has each message once, and each answer in it is one that the server made to
//! exactly the conversation before it.

mod killed;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use tamtam::{
    Delivery, Event, EventKind, EventStream, Message, Outcome, Runtime, Session, SessionOptions, Steering,
    model::{
        Api, Delta, Deltas, Endpoint, ErrorKind, HttpModel, HttpOptions, Item, Model, Provider, Request, Router, Usage,
        UserItem,
    },
    permission::{Action, Rule, Ruleset},
    session::{Ahead, BillKind, Finish, Next},
    tool::{Effect, Tool, ToolContext, ToolResult},
};

use tokio::sync::Notify;

use crate::support::{
    fault_server::{Act, FaultServer},
    socket_server::{Border, Does, Plan, SocketServer},
    streams::answer,
    taped,
};

/// The tool that the server calls.
struct Look;

impl Tool for Look {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({"type": "object", "properties": {}})
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    fn run<'a>(&'a self, _: serde_json::Value, _: &'a ToolContext) -> tamtam::model::BoxFuture<'a, ToolResult> {
        Box::pin(async { ToolResult::ok("seen") })
    }
}

async fn runtime(folder: &Path, url: &str) -> Runtime {
    let mut provider = Provider::custom("p", Api::OpenAiResponses, url);
    provider.quirks.websocket = true;
    let mut options = HttpOptions::default();
    options.end_timeout = Duration::from_millis(300);
    let router = Router::new(options).with(provider);
    let builder = Runtime::builder().store(folder.join("store")).models(Arc::new(router), "p/m".parse().unwrap());
    builder.tool(Look).start().await.unwrap()
}

/// A session that asks nobody about its calls.
fn options(folder: &Path) -> SessionOptions {
    let mut options = SessionOptions::new(folder);
    options.rules = Some(Ruleset::new("host", vec![Rule::new("*", "*", Action::Allow)]));
    options
}

fn message(text: &str) -> Message {
    Message::user(text).with_id(text.replace(' ', "-").as_str().into())
}

async fn steer(session: &Session, text: &str) {
    session.send(message(text), Delivery::Steer(Steering::default())).await.unwrap();
}

async fn until(events: &mut EventStream, is_it: impl Fn(&EventKind) -> bool) -> Arc<Event> {
    let next = async {
        loop {
            if let Next::Event(event) = events.next().await.unwrap()
                && is_it(&event.kind)
            {
                return event;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), next).await.expect("the event does not come")
}

fn is_text(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TextDelta { .. })
}

fn moved(to: Ahead) -> impl Fn(&EventKind) -> bool {
    move |kind| matches!(kind, EventKind::SteeringMoved { to: is, .. } if *is == to)
}

/// The conversation as the server writes it down: one line for each item.
async fn lines(session: &Session) -> Vec<String> {
    let history = session.state().await.unwrap().history;
    let line = |item: &Arc<Item>| match &**item {
        Item::User(user) => vec![format!("user: {}", user.text())],
        Item::Assistant(answer) => {
            let text = Some(answer.text()).filter(|text| !text.is_empty()).map(|text| format!("assistant: {text}"));
            text.into_iter().chain(answer.calls().map(|_| "function_call".to_owned())).collect()
        }
        _ => vec!["function_call_output".to_owned()],
    };
    history.iter().flat_map(line).collect()
}

/// What is wrong with a conversation.
fn judge(server: &SocketServer, lines: &[String], steers: &[&str]) -> Vec<String> {
    let mut wrong = server.unfit();
    let mut counts = BTreeMap::<&str, usize>::new();
    lines.iter().for_each(|line| *counts.entry(line).or_default() += 1);
    for steer in steers {
        let count = counts.get(format!("user: {steer}").as_str()).copied().unwrap_or_default();
        if count != 1 {
            wrong.push(format!("{steer} stands {count} times"));
        }
    }
    let made = server.made();
    for (at, line) in lines.iter().enumerate() {
        let Some(text) = line.strip_prefix("assistant: ") else { continue };
        if !made.iter().any(|made| made.text == text && made.asked == lines[..at]) {
            wrong.push(format!("the answer {text:?} was made to another conversation"));
        }
    }
    if !wrong.is_empty() {
        wrong.push(format!("{lines:#?} {made:#?}"));
    }
    wrong
}

/// A session whose model is asked once, and steered while it answers; the end of it, with what the server was asked.
async fn steered(plan: Plan, texts: &[&str]) -> (Vec<String>, SocketServer, Vec<Arc<Event>>) {
    let folder = taped::folder();
    let server = SocketServer::start(plan).await;
    let runtime = runtime(folder.path(), &server.url()).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let mut events = session.events();
    let receipt = session.send(message("go"), Delivery::Queue).await.unwrap();
    until(&mut events, is_text).await;
    for text in texts {
        steer(&session, text).await;
    }
    let end = tokio::time::timeout(Duration::from_secs(60), receipt.wait()).await.expect("the turn does not end");
    assert_eq!(end.unwrap().outcome, Outcome::Done);
    session.wait().await.unwrap();
    let lines = lines(&session).await;
    let wrong = judge(&server, &lines, texts);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(runtime.shutdown().await.is_empty());
    let mut seen = Vec::new();
    while let Some(next) = events.next().await {
        if let Next::Event(event) = next {
            seen.push(event);
        }
    }
    (lines, server, seen)
}

/// The places of a message on its way, as the events say.
fn places(events: &[Arc<Event>], text: &str) -> Vec<String> {
    let id = message(text).id;
    let place = |event: &Arc<Event>| match &event.kind {
        EventKind::SteeringMoved { message, to, .. } if *message == id => Some(format!("{to:?}")),
        EventKind::Delivered { messages } if messages.contains(&id) => Some("Delivered".to_owned()),
        EventKind::Steered { message, .. } if message.id == id => Some("Accepted".to_owned()),
        _ => None,
    };
    events.iter().filter_map(place).collect()
}

/// One request for two answers: the message went into the first, and the second is the one that the server began with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_goes_into_the_answer_that_is_being_made() {
    let (lines, server, events) = steered(Plan::new(&[Does::Takes], 1), &["steer one"]).await;
    let made = server.made();
    assert_eq!(server.counts(), (1, 1), "{lines:?}");
    // The message may come before the second word.
    assert!(lines[1].starts_with("assistant: 1-1 "), "{lines:?}");
    assert_eq!([&*lines[0], &*lines[2]], ["user: go", "user: steer one"]);
    assert_eq!(lines[3], format!("assistant: {}", made[1].text));
    assert!(made[1].is_successor && made.len() == 2);
    assert_eq!(places(&events, "steer one"), ["Accepted", "Sent", "Committed", "Delivered"]);
}

/// Each thing that a server can do with a message, once with one and once with two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_it_there_it_is_read_once() {
    let all = [
        (Does::Takes, "Committed"),
        (Does::TakesLate, "Committed"),
        (Does::Refuses, "Returned"),
        (Does::SendsBack, "Returned"),
        (Does::KnowsNone, "Returned"),
        (Does::Calls, "Returned"),
        (Does::FallsSilent, "Returned"),
    ];
    for (does, place) in all {
        for texts in [&["steer one"][..], &["steer one", "steer two"]] {
            let (lines, _, events) = steered(Plan::new(&[does], 1), texts).await;
            let places = places(&events, "steer one");
            // One that comes after the first was taken makes the answer to the first alone worth nothing: both go with the next request.
            let is_late = texts.len() == 2 && place == "Committed" && places.contains(&"Returned".to_owned());
            assert!(is_late || places.contains(&place.to_owned()), "{does:?}: {places:?} {lines:?}");
            assert_eq!(places.last().unwrap(), "Delivered", "{does:?}");
        }
    }
}

/// A connection that ends at any border: the request is made again with the message, and the message is in it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_may_end_anywhere() {
    use Border::{Accepted, Asked, Begun, Ended, Steered, Successor, Whole, Word};
    let borders = [Asked, Begun, Word, Steered, Accepted, Ended, Successor, Whole];
    let cut = borders.into_iter().map(|at| async move {
        let mut plan = Plan::new(&[Does::Takes], 1);
        // The first word must come, or nobody steers.
        let nth = if at == Word { 2 } else { 1 };
        plan.cuts = Box::new(move |border, count| border == at && count == nth);
        let (lines, server, events) = steered(plan, &["steer one"]).await;
        assert!(lines.len() >= 3, "{at:?}: {lines:?}");
        assert_eq!(server.counts().0, if at == Whole { 1 } else { 2 }, "{at:?}");
        // What the server began ahead, and broke off, was no request of ours. (What failed before the first word is not in these.)
        let failed = events.iter().filter(|event| matches!(event.kind, EventKind::RequestFailed { .. })).count();
        assert_eq!(failed, usize::from(matches!(at, Word | Steered | Accepted)), "{at:?}");
    });
    futures_util::future::join_all(cut).await;
}

/// A message that was sent is its sender's still: taken back or edited, the successor that has read it counts for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_sent_can_be_taken_back_and_edited() {
    for edits in [false, true] {
        let folder = taped::folder();
        let server = SocketServer::start(Plan::new(&[Does::TakesLate], 1)).await;
        let runtime = runtime(folder.path(), &server.url()).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let mut events = session.events();
        let receipt = session.send(message("go"), Delivery::Queue).await.unwrap();
        until(&mut events, is_text).await;
        steer(&session, "steer one").await;
        until(&mut events, moved(Ahead::Sent)).await;
        let now = match edits {
            true => session.edit(Message::user("steer two").with_id(message("steer one").id)).await.is_ok(),
            false => session.withdraw(message("steer one").id).await.is_ok(),
        };
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
        let lines = lines(&session).await;
        // Where the answer was over before the word came, the message had been read.
        let steers = match (now, edits) {
            (false, _) => vec!["steer one"],
            (true, true) => vec!["steer two"],
            (true, false) => vec![],
        };
        assert_eq!(judge(&server, &lines, &steers), Vec::<String>::new());
        assert_eq!(lines.iter().filter(|line| line.starts_with("user: steer")).count(), steers.len(), "{lines:?}");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A message that aborts closes the stream as over HTTP, and is never sent into it; nor is one that brings its own model.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_would_change_the_request_is_not_sent_ahead() {
    for aborts in [true, false] {
        let folder = taped::folder();
        let server = SocketServer::start(Plan::new(&[Does::Takes], usize::from(aborts))).await;
        let runtime = runtime(folder.path(), &server.url()).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let mut events = session.events();
        let receipt = session.send(message("go"), Delivery::Queue).await.unwrap();
        until(&mut events, is_text).await;
        let mut said = message("steer one");
        let steering = if aborts { Steering::AbortRunning } else { Steering::FinishBatch };
        said.model = (!aborts).then(|| "p/other".parse().unwrap());
        session.send(said, Delivery::Steer(steering)).await.unwrap();
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
        // Where the answer was over before the message came, it has a turn of its own.
        session.wait().await.unwrap();
        let made = server.made();
        assert!(made.iter().all(|made| !made.is_successor), "{made:?}");
        assert_eq!(made.last().unwrap().asked.last().unwrap(), "user: steer one");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// Where a server has no WebSocket, requests go over HTTP, and it is asked for one once. Where something on the way lets none through,
/// it is asked for again the next time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_websockets_is_asked_over_http() {
    for (status, asked) in [(404, &["GET ", "POST", "POST"][..]), (403, &["GET ", "POST", "GET ", "POST"])] {
        let folder = taped::folder();
        let server = FaultServer::answering(move |seen, _| match seen.head.starts_with("GET ") {
            true => vec![Act::Send(format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n\r\n").into_bytes())],
            false => answer(Api::OpenAiResponses, "said", &[]),
        })
        .await;
        let runtime = runtime(folder.path(), &server.url()).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        for _ in 0..2 {
            assert_eq!(session.prompt("go").await.unwrap().wait().await.unwrap().text, "said");
        }
        let heads: Vec<_> = server.seen().iter().map(|seen| seen.head[..4].to_owned()).collect();
        assert_eq!(heads, asked, "{status}");
        assert!(runtime.shutdown().await.is_empty());
    }
}

/// A key that is refused, and a limit, are errors of the request as over HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_handshake_is_the_answer() {
    let folder = taped::folder();
    let server = FaultServer::answering(|_, _| {
        let body = r#"{"error":{"message":"this key is not known"}}"#;
        let head = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        vec![Act::Send(head.into_bytes())]
    })
    .await;
    let runtime = runtime(folder.path(), &server.url()).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let end = session.prompt("go").await.unwrap().wait().await.unwrap();
    let Outcome::Failed { error } = &end.outcome else { panic!("{end:?}") };
    assert!(error.contains("this key is not known"), "{error}");
    assert!(runtime.shutdown().await.is_empty());
}

/// What an answer cost that the server began with a message, and that nobody reads because the message is another one by then: as the
/// server says where it was whole, else by our estimate. It is no part of the context.
///
/// Nobody waits for what is dropped. So of a whole one, the end may not be read yet when it is; it is played until it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_that_is_dropped_is_paid_for() {
    let mut was_read = false;
    for is_whole in [true; 100].into_iter().chain([false]) {
        if is_whole && was_read {
            continue;
        }
        let folder = taped::folder();
        let (accepted, successor) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut plan = Plan::new(&[Does::TakesLate], 1);
        plan.holds = vec![(Border::Accepted, accepted.clone()), (Border::Successor, successor.clone())];
        let server = SocketServer::start(plan).await;
        let runtime = runtime(folder.path(), &server.url()).await;
        let session = runtime.create(options(folder.path())).await.unwrap();
        let mut events = session.events();
        let receipt = session.send(message("go"), Delivery::Queue).await.unwrap();
        until(&mut events, is_text).await;
        steer(&session, "steer one").await;
        until(&mut events, moved(Ahead::Sent)).await;
        // The next request waits until the test has seen what the server makes of the message.
        session.pause().await.unwrap();
        session.edit(Message::user("steer two").with_id(message("steer one").id)).await.unwrap();
        accepted.notify_one();
        until(&mut events, |kind| matches!(kind, EventKind::StepFinished { .. })).await;
        if is_whole {
            successor.notify_one();
            passed(&server, Border::Whole, 1).await;
            reactor_has_heard().await;
        }
        session.resume().await.unwrap();
        assert_eq!(receipt.wait().await.unwrap().outcome, Outcome::Done);
        assert_eq!(judge(&server, &lines(&session).await, &["steer two"]), Vec::<String>::new());
        let bill = session.bill().await.unwrap();
        let charged: Vec<_> =
            bill.lines.iter().map(|line| (line.kind, line.charge.usage, line.charge.estimated)).collect();
        let said = Usage::new(20, 5);
        // The conversation with its answer has 25 tokens, and the message seven: three of its words, four as each has.
        let is_exact = is_whole && charged.get(1).is_some_and(|(.., estimated)| !estimated);
        was_read |= is_exact;
        let written = charged.get(1).map_or(0, |(_, usage, _)| if is_whole { usage.output.min(5) } else { 0 });
        let dropped =
            if is_exact { (BillKind::Failed, said, false) } else { (BillKind::Failed, Usage::new(32, written), true) };
        assert_eq!(charged, [(BillKind::Answer, said, false), dropped, (BillKind::Answer, said, false)], "{is_whole}");
        let state = session.state().await.unwrap();
        assert_eq!(state.usage, Usage::new(if is_exact { 60 } else { 40 }, if is_exact { 15 } else { 10 }));
        let (store, id) = (folder.path().join("store"), session.id().clone());
        assert!(runtime.shutdown().await.is_empty());
        let store = tamtam::tape::Store::open(store, Default::default()).unwrap();
        assert_eq!(tamtam::ops::replay::Replay::open(&store, &id).unwrap().first_difference(), None);
    }
    assert!(was_read, "what the server says is read where it is there");
}

/// What is begun ahead is dropped also where the next request goes to a model without a WebSocket; its own model's next answer is charged
/// with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_is_paid_for_also_where_another_model_goes_on() {
    let folder = taped::folder();
    let (successor, other) =
        (Arc::new(Notify::new()), FaultServer::answering(|_, _| answer(Api::OpenAiResponses, "said", &[])).await);
    let mut plan = Plan::new(&[Does::TakesLate], 1);
    plan.holds = vec![(Border::Successor, successor)];
    let server = SocketServer::start(plan).await;
    let mut provider = Provider::custom("p", Api::OpenAiResponses, server.url());
    provider.quirks.websocket = true;
    let other = Provider::custom("q", Api::OpenAiResponses, other.url());
    let router = Router::new(HttpOptions::default()).with(provider).with(other);
    let builder =
        Runtime::builder().store(folder.path().join("store")).models(Arc::new(router), "p/m".parse().unwrap());
    let runtime = builder.start().await.unwrap();
    let session = runtime.create(options(folder.path())).await.unwrap();
    let mut events = session.events();
    let receipt = session.send(message("go"), Delivery::Queue).await.unwrap();
    until(&mut events, is_text).await;
    steer(&session, "steer one").await;
    // A pause would hold it back.
    until(&mut events, moved(Ahead::Sent)).await;
    // The next request waits until its model is another one.
    session.pause().await.unwrap();
    until(&mut events, |kind| matches!(kind, EventKind::StepFinished { .. })).await;
    session.configure(|settings| settings.model = "q/m".parse().unwrap()).await.unwrap();
    session.resume().await.unwrap();
    assert_eq!(receipt.wait().await.unwrap().text, "said");
    session.configure(|settings| settings.model = "p/m".parse().unwrap()).await.unwrap();
    assert_eq!(session.prompt("more").await.unwrap().wait().await.unwrap().outcome, Outcome::Done);
    let bill = session.bill().await.unwrap();
    let charged: Vec<_> = bill.lines.iter().map(|line| (line.model.to_string(), line.kind)).collect();
    let line = |model: &str, kind| (model.to_owned(), kind);
    let answered = |model| line(model, BillKind::Answer);
    assert_eq!(charged, [answered("p/m"), answered("q/m"), line("p/m", BillKind::Failed), answered("p/m")]);
    assert_eq!((bill.lines[2].charge.usage, bill.lines[2].charge.estimated), (Usage::new(32, 0), true));
    assert!(runtime.shutdown().await.is_empty());
}

/// Returns when this runtime knows of what was sent to its sockets before: it hears of them in the order in which they became readable,
/// and this one is the last.
async fn reactor_has_heard() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    far.writable().await.unwrap();
    assert_eq!(far.try_write(b"x").unwrap(), 1);
    near.readable().await.unwrap();
}

async fn passed(server: &SocketServer, border: Border, times: usize) {
    let passed = async {
        while server.passed(border) < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), passed).await.expect("the border is not passed");
}

/// A turn has one connection, which is closed with it: a server that goes on with something writes for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_connection_of_a_turn_is_closed_with_it() {
    let folder = taped::folder();
    let server = SocketServer::start(Plan::new(&[Does::Takes], 0)).await;
    let runtime = runtime(folder.path(), &server.url()).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    for turn in 1..=3 {
        session.prompt("go").await.unwrap().wait().await.unwrap();
        let over = async {
            while server.ended() < turn {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        // Less than the 30 s after which a connection is closed anyway.
        tokio::time::timeout(Duration::from_secs(20), over).await.expect("the connection stays");
    }
    assert_eq!(server.counts(), (3, 3));
    let lines = lines(&session).await;
    assert_eq!(judge(&server, &lines, &[]), Vec::<String>::new());
    assert!(runtime.shutdown().await.is_empty());
}

/// An error that names no message may be about the answer: where nothing more comes, it is, with its status and its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_beside_a_message_is_not_swallowed() {
    let (lines, _, events) = steered(Plan::new(&[Does::Breaks, Does::Takes], 1), &["steer one"]).await;
    let failed = events.iter().find_map(|event| match &event.kind {
        EventKind::RequestFailed { kind, .. } => Some(*kind),
        _ => None,
    });
    assert_eq!(failed, Some(ErrorKind::RateLimited), "{lines:?}");
}

/// A server that knows no steering goes on, and nothing else is asked on a connection that was misunderstood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_in_doubt_is_not_used_again() {
    let (_, server, events) = steered(Plan::new(&[Does::KnowsNone], 1), &["steer one"]).await;
    assert_eq!(server.counts(), (2, 2));
    assert!(!events.iter().any(|event| matches!(event.kind, EventKind::RequestFailed { .. })));
}

/// What a governor reads from the head of an answer is said for each answer, over a new connection and over a kept one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_has_a_head() {
    struct Heads(Vec<u16>);
    impl Deltas for Heads {
        fn head(&mut self, status: u16, _: &dyn Fn(&str) -> Option<String>) {
            self.0.push(status);
        }

        fn delta(&mut self, _: Delta) {}
    }
    let server = SocketServer::start(Plan::new(&[Does::Takes], 0)).await;
    let mut endpoint = Endpoint::new(Api::OpenAiResponses, "p", server.url(), "m");
    endpoint.quirks.websocket = true;
    let model = HttpModel::new(endpoint, HttpOptions::default()).unwrap();
    let mut request = Request::new([Item::User(UserItem::new("go".into(), message("go").parts))].into_iter().collect());
    request.session = Some("one".parse().unwrap());
    let mut heads = Heads(Vec::new());
    for _ in 0..2 {
        assert_eq!(model.stream(&request, &mut heads).await.unwrap().finish, Finish::Stop);
    }
    assert_eq!(heads.0, [200, 200]);
    assert_eq!(server.counts(), (1, 2));
}
