//! Several nodes behind HTTP: what is posted to any of them is taken, and each shows all of them.

#[path = "../../../tamtam-server/tests/server/client.rs"]
#[allow(dead_code, unreachable_pub, reason = "the server's own tests use all of it")]
mod client;

use serde_json::{Value, json};
use tamtam::{Outcome, session::Labels};
use tamtam_server::{Bound, Scope, Server, ServerOptions, serve_beside};

use crate::{
    cluster::{Node, join},
    server::{self, shared},
};
use client::Client;

/// A server for as long as the tests' runtime lives. `x-tenant: NAME` is a tenant, and anybody else an operator.
async fn serve(node: &Node) -> Client {
    let mut options = ServerOptions::new(std::env::temp_dir()).authorize(|request| {
        let tenant = request.headers.get("x-tenant").and_then(|name| name.to_str().ok());
        Ok(tenant.map_or(Scope::All, |name| Scope::Labels(Labels::new([("tenant", name)]).unwrap())))
    });
    options.drills = true;
    let server = Server::new(node.runtime.clone()).with(options).nodes(node.cluster.clone());
    let bound = Bound::tcp(([127, 0, 0, 1], 0).into(), &server).await.unwrap();
    let at = bound.address().unwrap().into();
    tokio::spawn(serve_beside(server, bound, std::future::pending()));
    Client { at }
}

/// How far a message came, once it is at that stage.
async fn comes_to(client: &Client, message: &str, stage: &str) -> Value {
    loop {
        let now = client.get(&format!("/v1/sessions/s/messages/{message}")).await;
        if now["stage"] == stage {
            return now;
        }
        assert!(["accepted", "waiting", "running"].contains(&now["stage"].as_str().unwrap()), "{now}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// Two nodes, each with a server; the first has the session `s`.
async fn two() -> (Node, Client, Node, Client) {
    let options = shared().database();
    let (one, two) = (join(&options, "one").await, join(&options, "http://two:7878").await);
    one.runtime.create(one.engine.options()).await.unwrap();
    let (first, second) = (serve(&one).await, serve(&two).await);
    (one, first, two, second)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_posted_to_another_node_is_taken_and_its_progress_is_told_there() {
    let (_one, first, two, second) = two().await;
    let message = json!({ "id": "m", "text": "hello" });
    let sent = second.ask("POST", "/v1/sessions/s/messages", message.clone()).await;
    assert_eq!((sent.status, sent.json()), (202, json!({ "message": "m", "stage": "accepted" })));
    let over = comes_to(&second, "m", "over").await;
    assert_eq!((&over["outcome"], &over["text"]), (&json!("done"), &json!("re hello")));
    assert_eq!(first.get("/v1/sessions/s/messages/m").await, over, "the node that has it tells the same");
    // The same again is the same message, at either node.
    second.ask("POST", "/v1/sessions/s/messages", message.clone()).await.ok();
    let again = first.post("/v1/sessions/s/messages", message).await;
    assert_eq!(again["known_before"], json!(true), "{again}");
    assert!(!two.runtime.session(&"s".parse().unwrap()).is_awake());
    for unknown in ["/v1/sessions/s/messages/nobody", "/v1/sessions/none/messages/m"] {
        assert_eq!(second.ask("GET", unknown, Value::Null).await.refused().0, 404, "{unknown}");
    }
    let missing = second.ask("POST", "/v1/sessions/none/messages", json!({ "text": "x" })).await;
    assert_eq!(missing.refused(), (404, "not_found".to_owned()));
    // What only the node of the session knows is refused with its name.
    let of_turn = second.ask("POST", "/v1/sessions/s/messages", json!({ "text": "x", "expect_turn": 3 })).await;
    assert_eq!(of_turn.refused(), (409, "busy".to_owned()));
    let levers = ["restart", "stop", "park", "unpark", "passivate", "crash"].map(|lever| format!("/actors/s/{lever}"));
    let of_session = [("POST", "/pause"), ("POST", "/asks/3"), ("DELETE", "")]
        .map(|(method, path)| (method, format!("/sessions/s{path}")));
    for (method, path) in levers.into_iter().map(|path| ("POST", path)).chain(of_session) {
        let body = if path.ends_with("/asks/3") { json!({ "grant": "once" }) } else { Value::Null };
        let problem = second.ask(method, &format!("/v1{path}"), body).await;
        let (detail, next) = (problem.json()["detail"].to_string(), problem.json()["next"].to_string());
        assert_eq!(problem.refused(), (409, "busy".to_owned()), "{method} {path}");
        assert!(detail.contains(" on one ") && next.contains("/v1/cluster"), "{method} {path}: {detail} {next}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_refused_is_known_at_the_node_of_its_session() {
    let (one, first, _two, second) = two().await;
    first.post("/v1/sessions/s/messages", json!({ "id": "m", "text": "call gate" })).await;
    one.tools.gate.is_running().await;
    let only_idle = json!({ "id": "r", "text": "now", "delivery": "reject" });
    second.ask("POST", "/v1/sessions/s/messages", only_idle).await.ok();
    let refused = comes_to(&second, "r", "refused").await;
    assert_eq!(first.get("/v1/sessions/s/messages/r").await, refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_aborted_at_another_node() {
    let (one, first, _two, second) = two().await;
    first.post("/v1/sessions/s/messages", json!({ "id": "m", "text": "call gate" })).await;
    one.tools.gate.is_running().await;
    let stale = second.ask("POST", "/v1/sessions/s/abort", json!({ "turn": 1 })).await;
    assert_eq!(stale.refused(), (409, "stale".to_owned()), "another turn runs");
    let told = second.ask("POST", "/v1/sessions/s/abort", json!({ "reason": "enough" })).await;
    assert_eq!((told.status, told.json()), (202, json!({ "stage": "accepted" })));
    let over = comes_to(&second, "m", "over").await;
    let outcome = json!(Outcome::Aborted { reason: "enough".to_owned() });
    assert_eq!((&over["outcome"], &over["reason"]), (&outcome["outcome"], &outcome["reason"]));
    let late = second.ask("POST", "/v1/sessions/s/abort", json!({ "reason": "again" })).await;
    assert_eq!((late.status, late.json()), (202, json!({ "stage": "nothing_runs" })));
}

/// A session is its tenant's on every node: at one that has not got it, another tenant is told that there is none, on every route, and
/// changes nothing; and what its own tenant sends there is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_sees_its_own_sessions_on_every_node_and_no_others() {
    let (one, first, two, second) = two().await;
    let (ann, bob) = ("x-tenant: ann\r\n", "x-tenant: bob\r\n");
    first.ask_with("POST", "/v1/sessions", ann, json!({ "id": "a", "title": "secret title" })).await.ok();
    first.ask_with("POST", "/v1/sessions/a/messages", ann, json!({ "id": "m", "text": "secret" })).await.ok();
    for (method, path, body) in [
        ("GET", "", Value::Null),
        ("PATCH", "", json!({ "title": "mine" })),
        ("DELETE", "", Value::Null),
        ("POST", "/messages", json!({ "text": "hello" })),
        ("GET", "/messages", Value::Null),
        ("GET", "/messages/m", Value::Null),
        ("GET", "/queue", Value::Null),
        ("POST", "/abort", Value::Null),
        ("POST", "/pause", Value::Null),
        ("GET", "/events?after=0", Value::Null),
        ("GET", "/export", Value::Null),
    ] {
        let answer = second.ask_with(method, &format!("/v1/sessions/a{path}"), bob, body).await;
        assert_eq!(answer.refused(), (404, "not_found".to_owned()), "{method} {path}");
    }
    let taken = second.ask_with("POST", "/v1/sessions", bob, json!({ "id": "a", "prompt": { "text": "hello" } })).await;
    assert_eq!(taken.refused().0, 409, "the name is taken, and nothing more is said");
    assert_eq!(second.ask_with("GET", "/v1/cluster", bob, Value::Null).await.refused().0, 403);
    assert_eq!(second.ask_with("GET", "/v1", bob, Value::Null).await.ok()["several_nodes"], false);
    let listed = second.ask_with("GET", "/v1/sessions", bob, Value::Null).await.ok();
    assert_eq!(listed["sessions"], json!([]));
    let hello = json!({ "id": "n", "text": "hello" });
    let sent = second.ask_with("POST", "/v1/sessions/a/messages", ann, hello).await;
    assert_eq!((sent.status, sent.json()), (202, json!({ "message": "n", "stage": "accepted" })));
    let mut events = second.events("/v1/sessions/a/events?after=0", ann).await;
    for said in ["re secret", "re hello"] {
        assert_eq!(events.until("turn_finished").await["text"], said);
    }
    let session = "a".parse().unwrap();
    assert!(one.runtime.session(&session).is_awake() && !two.runtime.session(&session).is_awake());
}

/// The durable events of a session come at a node that has not got it, in order and once, also over its move to that node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_session_are_followed_at_another_node_and_when_it_comes_there() {
    let (one, first, two, second) = two().await;
    let mut from_now = second.events("/v1/sessions/s/events", "").await;
    let mut all = second.events("/v1/sessions/s/events?after=0", "").await;
    first.post("/v1/sessions/s/messages", json!({ "text": "first" })).await;
    for stream in [&mut from_now, &mut all] {
        assert_eq!(stream.until("turn_finished").await["text"], "re first");
    }
    // What it writes just before it gives the session up comes before what happens at the next one.
    first.post("/v1/sessions/s/messages", json!({ "id": "m", "text": "last" })).await;
    comes_to(&first, "m", "over").await;
    one.runtime.passivate(&"s".parse().unwrap()).await.unwrap();
    two.runtime.open(&"s".parse().unwrap()).await.unwrap();
    second.post("/v1/sessions/s/messages", json!({ "text": "second" })).await;
    let mut told = Vec::new();
    for stream in [&mut from_now, &mut all] {
        assert_eq!(stream.until("turn_finished").await["text"], "re last");
        assert_eq!(stream.until("turn_finished").await["text"], "re second");
        told.push(stream.last.clone());
    }
    assert_eq!(told[0], told[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_events_of_a_session_that_is_deleted_end_at_another_node() {
    let (_one, first, _two, second) = two().await;
    let mut events = second.events("/v1/sessions/s/events?after=0", "").await;
    first.post("/v1/sessions/s/messages", json!({ "text": "first" })).await;
    events.until("turn_finished").await;
    first.ask("DELETE", "/v1/sessions/s", Value::Null).await.ok();
    let ended = tokio::time::timeout(client::LONG, events.until("ended")).await.expect("the stream ends");
    assert!(ended["why"].to_string().contains("deleted"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_node_shows_all_nodes() {
    let (_one, first, two, second) = two().await;
    assert_eq!(first.get("/v1").await["several_nodes"], true, "by this the page knows to ask for them");
    let tree = loop {
        let tree = second.get("/v1/cluster").await;
        if tree["nodes"].as_array().unwrap().len() == 2 && tree["nodes"][1]["sessions"]["count"] == 1 {
            break tree;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let (other, owner) = (&tree["nodes"][0], &tree["nodes"][1]);
    assert_eq!((&other["name"], &owner["name"]), (&json!("http://two:7878"), &json!("one")));
    assert_eq!(
        (&owner["is_live"], &owner["gone_ms"], &owner["pid"]),
        (&json!(true), &Value::Null, &json!(std::process::id()))
    );
    assert_eq!(owner["sessions"]["shown"], json!([{ "session": "s", "in_turn": false, "messages": 0 }]));
    assert_eq!(tree["waiting"], json!({ "count": 0, "shown": [] }));
    let text = first.ask("GET", "/v1/cluster?format=text", Value::Null).await;
    assert!(text.body.contains("2 of 2 nodes live, 1 session"), "{}", text.body);
    two.cluster.leave().await;
    let left = first.get("/v1/cluster").await;
    assert_eq!(left["nodes"].as_array().unwrap().len(), 1, "{left}");
}

/// While PostgreSQL is away, who reads, makes, says or starts something is told to ask again, and not that a disk is full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_asked_again_and_no_matter_of_the_disk() {
    let server = server::Server::start();
    let node = join(&server.database(), "one").await;
    let client = serve(&node).await;
    client.session("s").await;
    client.say("s", "before").await;
    node.runtime.passivate(&"s".parse().unwrap()).await.unwrap();
    server.kill();
    let (away, unknown) = ("check that the server runs", "send it again under the same id");
    for (method, path, body, (kind, why)) in [
        ("GET", "/v1/sessions", Value::Null, ("retry", away)),
        ("GET", "/v1/sessions/s", Value::Null, ("retry", away)),
        ("POST", "/v1/sessions", json!({ "id": "t" }), ("retry", away)),
        ("POST", "/v1/actors/s/restart", Value::Null, ("retry", away)),
        // The message may have come to the inbox.
        ("POST", "/v1/sessions/s/messages", json!({ "text": "lost?", "id": "m-1" }), ("unsettled", unknown)),
    ] {
        let answer = client.ask(method, path, body).await;
        assert_eq!(answer.refused(), (503, kind.to_owned()), "{method} {path}: {}", answer.body);
        assert!(answer.head.to_ascii_lowercase().contains("retry-after:"), "{method} {path}: {}", answer.head);
        assert!(answer.json()["detail"].as_str().unwrap().contains(why), "{}", answer.body);
    }
    server.start_again();
    client.say("s", "after").await;
    assert!(node.runtime.shutdown().await.is_empty());
}
