//! The matrix of faults: each fault of a server, over each wire, under a whole session.
//!
//! Every cell ends as `docs/PROVIDERS.md` says, asks as often as it says, is charged for what was read, asks again with the same bytes,
//! and runs no tool on arguments of which a part came. The clock is real, because the sockets are; no cell asserts a duration, and all
//! cells of a wire go on at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    EventKind, Outcome, Runtime, SessionOptions,
    model::{Api, BoxFuture, Endpoint, ErrorKind, HttpModel, HttpOptions},
    permission::Profile,
    session::Next,
    tool::{Tool, ToolContext, ToolResult},
};

use crate::support::{
    fault_server::{Act, FaultServer, chunk, chunked_head, events_head, refusal, send},
    streams::{APIS, Called, answer, body, event},
    taped,
};

/// Counts how often it runs.
struct Counting(Arc<AtomicUsize>);

impl Tool for Counting {
    fn name(&self) -> &str {
        "look"
    }

    fn description(&self) -> &str {
        "Looks."
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { ToolResult::ok("seen") })
    }
}

/// How a request ends that meets a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// As if there had been none.
    Read,
    /// It fails, nothing of it was read by a model, and it is made again.
    Again(ErrorKind),
    /// It fails, and what was read of it is charged; it is made again.
    Charged(ErrorKind),
    /// It fails for good, and is charged.
    Over(ErrorKind),
}

/// Every fault, and how it ends.
fn faults(api: Api) -> Vec<(String, Vec<Act>, End)> {
    use ErrorKind::{AnswerTooLarge, Network, Overloaded, Protocol, RateLimited, Server, Timeout, Truncated};
    let words = body(api, "some words", &[]);
    let call = body(api, "", &[Called { id: "c".into(), tool: "look", input: json!({"path": "abcdef"}) }]);
    // Up to the end of the event with the words, and into the middle of the arguments.
    let begun = &words[..words.find("some words").map(|at| at + words[at..].find("\n\n").unwrap() + 2).unwrap()];
    let half = &call[..call.find("abc").unwrap() + 3];
    let mut all = Vec::new();
    let mut add = |name: &str, acts: Vec<Act>, end: End| all.push((name.to_owned(), acts, end));
    let soon = ["retry-after-ms: 1"];
    for header in
        ["retry-after-ms: 1", "retry-after: 0.001", "retry-after: 0", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT"]
    {
        add(header, refusal("429 x", &[header], "no"), End::Again(RateLimited));
    }
    let hint = r#"{"error":{"message":"Please try again in 1ms."}}"#;
    add("a wait in words", refusal("429 x", &[], hint), End::Again(RateLimited));
    for (status, kind) in [
        ("408 x", Timeout),
        ("409 x", Server),
        ("500 x", Server),
        ("502 x", Server),
        ("503 x", Overloaded),
        ("504 x", Server),
        ("529 x", Overloaded),
    ] {
        add(status, refusal(status, &soon, "no"), End::Again(kind));
    }
    add("a reset before the head", vec![Act::Reset], End::Again(Network));
    add("an end before the head", vec![], End::Again(Network));
    add("silence before the head", vec![Act::Stall], End::Charged(Timeout));
    add("silence behind the head", vec![events_head(), Act::Stall], End::Charged(Timeout));
    add("silence behind some words", vec![events_head(), send(begun), Act::Stall], End::Charged(Timeout));
    add("a reset behind some words", vec![chunked_head(), chunk(begun), Act::Reset], End::Charged(Truncated));
    add("a cut", vec![chunked_head(), chunk(begun)], End::Charged(Truncated));
    add("an early end", vec![chunked_head(), chunk(begun), chunk("")], End::Charged(Truncated));
    add("a cut in the arguments", vec![chunked_head(), chunk(half)], End::Charged(Truncated));
    add("an early end in the arguments", vec![events_head(), send(half)], End::Charged(Truncated));
    add("silence in the arguments", vec![events_head(), send(half), Act::Stall], End::Charged(Timeout));
    add(
        "half a character",
        vec![events_head(), send(begun), Act::Send(b"data: {\"\xf0\x9f".to_vec())],
        End::Charged(Truncated),
    );
    add("nonsense", vec![events_head(), send(begun), send("data: {x\n\n")], End::Charged(Protocol));
    add("a page", refusal("200 OK", &["content-type: text/html"], "<h1>busy</h1>"), End::Again(Protocol));
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}});
    add("an error in place of a stream", refusal("200 OK", &soon, &error.to_string()), End::Again(Overloaded));
    add("an error first", vec![events_head(), send(&event(&error))], End::Again(Overloaded));
    add("an error behind some words", vec![events_head(), send(begun), send(&event(&error))], End::Charged(Overloaded));
    let endless = vec![events_head(), send("data: "), Act::Repeat(vec![b'x'; 64 << 10], Duration::ZERO)];
    add("an endless line", endless, End::Over(AnswerTooLarge));
    let drip = words.bytes().map(|byte| Act::Send(vec![byte]));
    add("a byte at a time", std::iter::once(events_head()).chain(drip).collect(), End::Read);
    let wrong = refusal("200 OK", &["content-type: text/plain"], &words);
    add("a wrong content type", wrong, End::Read);
    all
}

/// One cell.
async fn meets(api: Api, name: String, acts: Vec<Act>, end: End) {
    let at = format!("{api:?}, {name}");
    let folder = taped::folder();
    let server = FaultServer::start([acts, answer(api, "ok", &[])]).await;
    let mut options = HttpOptions::default();
    options.event_bytes_max = 1 << 20;
    if name.starts_with("silence") {
        (options.first_timeout, options.idle_timeout) = (Duration::from_secs(3), Duration::from_secs(3));
    }
    let model = HttpModel::new(Endpoint::new(api, "p", server.url(), "m"), options).unwrap();
    let runs = Arc::<AtomicUsize>::default();
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model));
    let runtime = builder.tool(Counting(runs.clone())).start().await.unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).profile(Profile::Auto)).await.unwrap();
    let mut events = session.events();
    let answered = session.prompt("the prompt, in full").await.unwrap().wait().await.unwrap();
    let mut failed = Vec::new();
    loop {
        match events.next().await.unwrap() {
            Next::Event(event) => match event.kind {
                EventKind::RequestFailed { kind, .. } => failed.push(kind),
                EventKind::TurnFinished { .. } => break,
                _ => {}
            },
            _ => continue,
        }
    }
    let (asked, expected, charged) = match end {
        End::Read => (1, vec![], 1),
        End::Again(kind) => (2, vec![kind], 1),
        End::Charged(kind) => (2, vec![kind], 2),
        End::Over(kind) => (1, vec![kind], 1),
    };
    assert_eq!(failed, expected, "{at}");
    assert_eq!(matches!(answered.outcome, Outcome::Done), !matches!(end, End::Over(_)), "{at}: {answered:?}");
    assert_eq!(
        answered.text,
        match end {
            End::Read => "some words",
            End::Over(_) => "",
            _ => "ok",
        },
        "{at}"
    );
    // These servers give no figures, so each request that counts as read is estimated.
    assert_eq!(answered.spent.estimated, charged, "{at}: {:?}", answered.spent);
    let bodies: Vec<String> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies.len(), asked, "{at}");
    assert!(bodies.iter().all(|body| *body == bodies[0] && body.contains("the prompt, in full")), "{at}");
    assert_eq!(runs.load(Ordering::Relaxed), 0, "{at}: a tool ran on a part of its arguments");
    assert!(runtime.shutdown().await.is_empty(), "{at}");
}

/// PROVIDER-ERR-005, V01 to V14, as a session lives through them on each wire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_on_every_wire_ends_as_it_is_documented() {
    for api in APIS {
        let mut cells = tokio::task::JoinSet::new();
        for (name, acts, end) in faults(api) {
            cells.spawn(meets(api, name, acts, end));
        }
        // Every cell that fails has said why; all are looked at.
        let mut wrong = 0;
        while let Some(cell) = cells.join_next().await {
            wrong += usize::from(cell.is_err());
        }
        assert_eq!(wrong, 0, "{api:?}");
    }
}
