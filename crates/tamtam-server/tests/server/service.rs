//! `examples/service.rs`, driven over HTTP as its clients would: 200 conversations at once, and a restart in the middle of their lives.

use std::{path::Path, sync::Arc};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tamtam::{
    model::{Reply, Request, Scripted, transcript},
    runtime::Leftover,
};
use tamtam_server::{Bound, serve};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{client::Client, taped};

#[path = "../../examples/service.rs"]
#[allow(dead_code, clippy::module_inception, reason = "an example is a program")]
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
    client: Client,
    model: Arc<Scripted>,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Leftover>,
}

impl Served {
    async fn start(folder: &Path) -> Served {
        let model = Arc::new(Scripted::from_fn(reply));
        std::fs::create_dir_all(folder.join("notes")).unwrap();
        let server = service::service(folder, model.clone()).await.unwrap();
        let bound = Bound::tcp("127.0.0.1:0".parse().unwrap(), &server).await.unwrap();
        let client = Client { at: bound.address().unwrap().into() };
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(server, bound, async { drop(stopped.await) }));
        Served { client, model, stop, server }
    }

    /// Ends the service as a signal would.
    async fn end(self) {
        self.stop.send(()).unwrap();
        let left = self.server.await.unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// One client: a tool, a steering message, a question, and for some a child. Gives the id of the newest durable event.
async fn talk(served: &Served, n: usize) -> (String, String) {
    let (client, id) = (served.client, format!("s{n}"));
    client.post("/v1/sessions", json!({ "id": id })).await;
    let mut events = client.events(&format!("/v1/sessions/{id}/events?after=0"), "").await;
    let messages = format!("/v1/sessions/{id}/messages");

    client.post(&messages, json!({ "text": "primes 20" })).await;
    let first = events.until("turn_finished").await;
    assert!(first["text"].as_str().unwrap().contains("[2,3,5,7,11,13,17,19]"), "{first}");

    client.post(&messages, json!({ "text": format!("hold {id}") })).await;
    events.until("step_started").await;
    let steering = ["skip_remaining", "finish_batch", "abort_running"][n % 3];
    let steer = json!({ "text": format!("go on, {n}"), "delivery": "steer", "steering": steering });
    assert_eq!(client.post(&messages, steer).await["disposition"], "steering");
    events.until("steered").await;
    served.model.barrier(&id).release();
    let second = events.until("turn_finished").await;
    assert!(second["text"].as_str().unwrap().ends_with(&format!("go on, {n}")), "{second}");

    client.post(&messages, json!({ "text": format!("note number {n}") })).await;
    let asked = events.until("ask").await;
    assert_eq!((&asked["waits"], &asked["name"]), (&json!(true), &json!("note")));
    let open = client.get(&format!("/v1/sessions/{id}/asks")).await["asks"].clone();
    assert_eq!(open[0]["ask"], asked["ask"], "{open}");
    let grant = if n.is_multiple_of(2) { "once" } else { "reject" };
    client.post(&format!("/v1/sessions/{id}/asks/{}", asked["ask"]), json!({ "grant": grant })).await;
    events.until("turn_finished").await;

    if n.is_multiple_of(10) {
        let task = client.post(&format!("/v1/sessions/{id}/tasks"), json!({ "prompt": "primes 10" })).await;
        let down = events.until("task_finished").await;
        assert_eq!((&down["child"], &down["reason"]), (&task["session"], &json!("done")));
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

/// Must show 7 of the server: the service does on the router what it did by routes of its own, in at most a third of the 359 lines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_of_the_example_carries_200_conversations_over_a_restart() {
    assert!(include_str!("../../examples/service.rs").lines().count() <= 359 / 3);
    let folder = taped::folder();
    let served = Served::start(folder.path()).await;
    let client = served.client;
    let talks = stream::iter(0..SESSIONS).map(|n| talk(&served, n)).buffer_unordered(SESSIONS);
    let talked: Vec<_> = talks.collect().await;
    for n in 0..SESSIONS {
        let notes = std::fs::read_to_string(folder.path().join(format!("notes/s{n}.notes"))).unwrap_or_default();
        assert_eq!(notes, if n.is_multiple_of(2) { format!("number {n}\n") } else { String::new() });
    }

    // A hook refuses a call that a person allowed, and takes keys out before anything is recorded.
    client.post("/v1/sessions", json!({ "id": "guarded", "prompt": { "text": "note my password" } })).await;
    let mut events = client.events("/v1/sessions/guarded/events?after=0", "").await;
    let asked = events.until("ask").await;
    client.post(&format!("/v1/sessions/guarded/asks/{}", asked["ask"]), json!({ "grant": "once" })).await;
    let blocked = events.until("call_finished").await;
    assert!(blocked["content"].as_str().unwrap().contains("no passwords in notes"), "{blocked}");
    events.until("turn_finished").await;
    let with_key = json!({ "text": "it is sk-canary-1", "id": "once" });
    client.post("/v1/sessions/guarded/messages", with_key.clone()).await;
    let answered = events.until("turn_finished").await;
    assert_eq!(answered["text"], "I was told: user: it is [key]");

    // A budget that does not allow the request is a question too; an abort ends the turn.
    let poor = json!({ "id": "poor", "budget": { "session": { "tokens": 10 } }, "prompt": { "text": "hello" } });
    client.post("/v1/sessions", poor).await;
    let mut poor = client.events("/v1/sessions/poor/events?after=0", "").await;
    assert_eq!(poor.until("budget").await["then"], "ask");
    client.post("/v1/sessions/poor/abort", json!({})).await;
    assert_eq!(poor.until("turn_finished").await["outcome"], "aborted");

    // A client asks on while there is a next page: an index that is behind has more than one.
    let (mut listed, mut found) = (client.get("/v1/sessions?text=guarded").await, 0);
    loop {
        found += listed["sessions"].as_array().unwrap().len();
        let Some(next) = listed["next"].as_str() else { break };
        // The only signs of a cursor that an address gives another meaning.
        let next = next.replace('+', "%2B").replace('!', "%21");
        listed = client.get(&format!("/v1/sessions?text=guarded&after={next}")).await;
    }
    assert_eq!((found, &listed["complete"]), (1, &json!(true)), "{listed}");
    let tree = client.ask("GET", "/v1/tree?format=text", Value::Null).await.body;
    assert!(tree.contains("guarded"), "{tree}");
    let (id, last) = talked[0].clone();
    let before = client.get(&format!("/v1/sessions/{id}/messages?limit=200")).await;

    // The end of the service ends the streams of events first, so that it does not wait for its own listeners.
    served.end().await;
    poor.until("draining").await;
    assert_eq!(poor.next().await, None);

    let served = Served::start(folder.path()).await;
    let client = served.client;
    assert_eq!(client.get(&format!("/v1/sessions/{id}/messages?limit=200")).await, before);
    let again = client.post("/v1/sessions/guarded/messages", with_key).await;
    assert_eq!((&again["message"], &again["known_before"]), (&json!("once"), &json!(true)));
    let resume = format!("last-event-id: {last}\r\n");
    let mut resumed = client.events(&format!("/v1/sessions/{id}/events"), &resume).await;
    client.post(&format!("/v1/sessions/{id}/messages"), json!({ "text": "primes 3" })).await;
    let heard = resumed.next().await.unwrap();
    let seq = |id: &str| id.split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(seq(&heard.id) > seq(&last), "{heard:?} after {last}");
    assert!(resumed.until("turn_finished").await["text"].as_str().unwrap().contains("[2]"));
    let said = client.get("/v1/sessions/guarded/messages").await.to_string();
    assert_eq!(said.matches("it is [key]").count(), 2, "the message and its answer, once: {said}");

    client.ask("DELETE", "/v1/sessions/s1", Value::Null).await.ok();
    let gone = client.ask("POST", "/v1/sessions/s1/messages", json!({ "text": "hello" })).await;
    assert_eq!(gone.refused(), (404, "not_found".into()));
    served.end().await;
    assert!(!has(&folder.path().join("tapes"), "sk-canary-1"), "a key is nowhere on disk");
    assert!(!has(&folder.path().join("tapes"), "go on, 1\""), "what was deleted is nowhere on disk");
}
