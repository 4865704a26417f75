//! `examples/service`, driven over HTTP as its clients would: 200 conversations at once, and a restart in the middle of their lives.

use std::{path::Path, sync::Arc, time::Duration};

use eventsource_stream::Eventsource as _;
use futures_util::{StreamExt as _, stream};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tamtam::model::{Reply, Request, Scripted, transcript};

use crate::support::taped;

#[path = "../../examples/service/main.rs"]
#[allow(dead_code, unreachable_pub, clippy::module_inception, reason = "an example is a program")]
mod service;

const SESSIONS: usize = 200;

/// The example's model, and one word more: `hold` waits until the test lets it go.
fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    match said.lines().next_back().and_then(|last| last.strip_prefix("user: hold ")) {
        Some(name) => Reply::text("held").at_barrier(name),
        None => service::reply(request),
    }
}

/// A running service, and a client of it.
struct Served {
    base: String,
    client: Client,
    model: Arc<Scripted>,
    stop: tokio::sync::oneshot::Sender<()>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Served {
    async fn start(folder: &Path) -> Served {
        let model = Arc::new(Scripted::from_fn(reply));
        let notes = folder.join("notes");
        std::fs::create_dir_all(&notes).unwrap();
        let runtime = service::start(folder, model.clone()).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let stopped = async { drop(stopped.await) };
        let server = tokio::spawn(service::serve(listener, runtime, notes, stopped));
        Served { base, client: Client::builder().no_proxy().build().unwrap(), model, stop, server }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        if !body.is_null() {
            request = request.json(&body);
        }
        let answered = request.send().await.unwrap();
        let (status, body) = (answered.status(), answered.text().await.unwrap());
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(Method::POST, path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, Value::Null).await.1
    }

    /// The events of a session behind that one.
    async fn events(&self, session: &str, after: Option<&str>) -> Events {
        let mut request = self.client.get(format!("{}/sessions/{session}/events", self.base));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let stream = request.send().await.unwrap().bytes_stream().eventsource();
        let stream = stream.map(|event| event.map(|event| (event.id, event.data)).ok());
        Events { stream: stream.boxed(), last: String::new() }
    }

    /// Ends the service as a signal would.
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.server.await.unwrap().unwrap();
    }
}

/// What a client hears.
struct Events {
    stream: stream::BoxStream<'static, Option<(String, String)>>,
    /// The id of the newest durable event.
    last: String,
}

impl Events {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let (id, data) = tokio::time::timeout(Duration::from_secs(120), self.stream.next()).await.unwrap()??;
        if !id.is_empty() {
            self.last = id;
        }
        Some(serde_json::from_str(&data).unwrap_or_else(|_| panic!("{data}")))
    }

    async fn until(&mut self, event: &str) -> Value {
        loop {
            let next = self.next().await.unwrap_or_else(|| panic!("the events end before {event}"));
            if next["event"] == event {
                return next;
            }
        }
    }
}

/// One client: a tool, a steering message, a question, and for some a child.
async fn talk(served: &Served, n: usize) -> (String, String) {
    let id = format!("s{n}");
    served.post("/sessions", json!({ "id": id })).await;
    let mut events = served.events(&id, None).await;
    let messages = format!("/sessions/{id}/messages");

    served.post(&messages, json!({ "text": "primes 20" })).await;
    let first = events.until("turn_finished").await;
    assert!(first["text"].as_str().unwrap().contains("[2,3,5,7,11,13,17,19]"), "{first}");

    served.post(&messages, json!({ "text": format!("hold {id}") })).await;
    events.until("step_started").await;
    let steering = ["skip", "finish", "abort"][n % 3];
    let steered = served.post(&messages, json!({ "text": format!("go on, {n}"), "delivery": steering })).await;
    assert_eq!(steered["disposition"], "steering");
    events.until("steered").await;
    served.model.barrier(&id).release();
    let second = events.until("turn_finished").await;
    assert!(second["text"].as_str().unwrap().ends_with(&format!("go on, {n}")), "{second}");

    served.post(&messages, json!({ "text": format!("note number {n}") })).await;
    let asked = events.until("ask").await;
    assert_eq!((&asked["waits"], &asked["name"]), (&json!(true), &json!("note")));
    let open = served.get(&format!("/sessions/{id}/asks")).await;
    assert_eq!(open[0]["ask"], asked["ask"], "{open}");
    served.post(&format!("/sessions/{id}/asks/{}", asked["ask"]), json!({ "allow": n.is_multiple_of(2) })).await;
    events.until("turn_finished").await;

    if n.is_multiple_of(10) {
        let task = served.post(&format!("/sessions/{id}/tasks"), json!({ "text": "primes 10" })).await;
        let down = events.until("task_finished").await;
        assert_eq!((&down["child"], &down["reason"]), (&task["child"], &json!("done")));
        events.until("turn_finished").await;
    }
    (id, events.last)
}

fn bytes_below(folder: &Path, found: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => bytes_below(&entry.path(), found),
            false => found.extend(std::fs::read(entry.path()).unwrap_or_default()),
        }
    }
}

fn has(folder: &Path, words: &str) -> bool {
    let mut bytes = Vec::new();
    bytes_below(folder, &mut bytes);
    bytes.windows(words.len()).any(|window| window == words.as_bytes())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_of_the_example_carries_200_conversations_over_a_restart() {
    let folder = taped::folder();
    let served = Served::start(folder.path()).await;
    let talks = stream::iter(0..SESSIONS).map(|n| talk(&served, n)).buffer_unordered(SESSIONS);
    let talked: Vec<_> = talks.collect().await;
    for n in 0..SESSIONS {
        let notes = std::fs::read_to_string(folder.path().join(format!("notes/s{n}.notes"))).unwrap_or_default();
        assert_eq!(notes, if n.is_multiple_of(2) { format!("number {n}\n") } else { String::new() });
    }

    // A hook refuses a call that a person allowed; another one takes keys out before anything is recorded.
    served.post("/sessions", json!({ "id": "guarded" })).await;
    let mut events = served.events("guarded", None).await;
    served.post("/sessions/guarded/messages", json!({ "text": "note my password" })).await;
    let asked = events.until("ask").await;
    served.post(&format!("/sessions/guarded/asks/{}", asked["ask"]), json!({ "allow": true })).await;
    let blocked = events.until("call_finished").await;
    assert!(blocked["content"].as_str().unwrap().contains("no passwords in notes"), "{blocked}");
    events.until("turn_finished").await;
    served.post("/sessions/guarded/messages", json!({ "text": "it is sk-canary-1", "id": "once" })).await;
    let answered = events.until("turn_finished").await;
    assert_eq!(answered["text"], "I was told: user: it is [key]");

    // A budget that does not allow the request is a question too; an abort ends the turn.
    served.post("/sessions", json!({ "id": "poor", "budget_tokens": 10 })).await;
    let mut poor = served.events("poor", None).await;
    served.post("/sessions/poor/messages", json!({ "text": "hello" })).await;
    assert_eq!(poor.until("budget").await["then"], "ask");
    served.post("/sessions/poor/abort", json!({})).await;
    assert_eq!(poor.until("turn_finished").await["outcome"], "aborted");

    // A client asks on while there is a next page: an index that is behind has more than one.
    let (mut listed, mut found) = (served.get("/sessions?text=guarded").await, 0);
    loop {
        found += listed["sessions"].as_array().unwrap().len();
        let Some(next) = listed["next"].as_str() else { break };
        // The only signs of a cursor that an address gives another meaning.
        let next = next.replace('+', "%2B").replace('!', "%21");
        listed = served.get(&format!("/sessions?text=guarded&after={next}")).await;
    }
    assert_eq!((found, &listed["complete"]), (1, &json!(true)), "{listed}");
    let tree = served.get("/tree").await;
    assert!(tree.as_str().unwrap().contains("guarded"), "{tree}");
    let (id, last) = talked[0].clone();
    let before = served.get(&format!("/sessions/{id}")).await;

    // The end of the service ends the streams of events first, so that it does not wait for its own listeners.
    served.end().await;
    while poor.next().await.is_some() {}

    let served = Served::start(folder.path()).await;
    assert_eq!(served.get(&format!("/sessions/{id}")).await, before);
    let again = served.post("/sessions/guarded/messages", json!({ "text": "it is sk-canary-1", "id": "once" })).await;
    assert_eq!(again["message"], "once");
    let mut resumed = served.events(&id, Some(&last)).await;
    served.post(&format!("/sessions/{id}/messages"), json!({ "text": "primes 3" })).await;
    let heard = resumed.next().await.unwrap();
    let seq = |id: &str| id.split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(seq(heard["id"].as_str().unwrap()) > seq(&last), "{heard} after {last}");
    assert!(resumed.until("turn_finished").await["text"].as_str().unwrap().contains("[2]"));
    let said = served.get("/sessions/guarded").await.to_string();
    assert_eq!(said.matches("it is [key]").count(), 2, "the message and its answer, once: {said}");

    let (status, _) = served.ask(Method::DELETE, "/sessions/s1", Value::Null).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, gone) = served.ask(Method::POST, "/sessions/s1/messages", json!({ "text": "hello" })).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{gone}");
    served.end().await;
    assert!(!has(&folder.path().join("tapes"), "sk-canary-1"), "a key is nowhere on disk");
    assert!(!has(&folder.path().join("tapes"), "go on, 1\""), "what was deleted is nowhere on disk");
}
