//! The service as its tenants see it: over HTTP, with a scripted model, in a folder of its own, and over a restart.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use service::{Service, cards::without_cards, config::Config};
use tamtam::{
    model::{MicroUsd, Model, Price, Reply, Request, Scripted, Usage, transcript},
    runtime::Leftover,
};
use tamtam_server::{Bound, serve};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(60);
const ACME: &str = "a-token";
const GLOBEX: &str = "g-token";
const OPERATOR: &str = "o-token";

/// What the model does follows from the last words that it was told.
fn reply(request: &Request) -> Reply {
    let said = transcript(request);
    let last = said.lines().next_back().unwrap_or_default();
    let task = |n: u32| json!({ "subagent_type": "acme/researcher", "description": "Read", "prompt": format!("read page-{n}") });
    match last.strip_prefix("user: ").unwrap_or_default() {
        words if words.contains("order") => Reply::call("order_status", json!({ "number": "7" })),
        words if words.contains("refund") => Reply::call("refund", json!({ "number": "7", "cents": 900 })),
        words if words.contains("research") => Reply::call("task", task(1)).with_call("task", task(2)),
        words if words.starts_with("read ") => Reply::call("crawl", json!({ "pages": [words[5..]] })),
        "" => Reply::text(format!("told: {last}")),
        words => Reply::text(format!("heard: {words}")),
    }
    .with_usage(usage())
}

fn usage() -> Usage {
    let mut usage = Usage::default();
    (usage.input, usage.output) = (1_000, 100);
    usage
}

fn config(denied: &[&str]) -> Value {
    let agents = json!({
        "support": { "description": "Answers customers.", "prompt": "Be brief.", "mode": "primary" },
        "researcher": { "description": "Reads pages.", "prompt": "Read.", "mode": "subagent" }
    });
    json!({ "operator": OPERATOR, "denied": denied, "tenants": {
        "acme": { "token": ACME, "micro_usd": 900_000, "agents": agents },
        "globex": { "token": GLOBEX, "micro_usd": 900_000, "agents": agents },
    }})
}

struct Lab {
    at: SocketAddr,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Leftover>,
    model: Arc<Scripted>,
}

impl Lab {
    async fn over(folder: &Path) -> Lab {
        let path = folder.join("config.json");
        let model = Arc::new(Scripted::from_fn(reply));
        let price = Price::new(MicroUsd(1_000_000), MicroUsd(10_000_000));
        let model = Arc::new(Arc::into_inner(model).unwrap().with_price("scripted/script".parse().unwrap(), price));
        let service = Service::start(Config::read(&path).unwrap(), &path, folder, model.clone() as Arc<dyn Model>);
        let service = service.await.unwrap();
        let bound = Bound::tcp("127.0.0.1:0".parse().unwrap(), &service.server).await.unwrap();
        let at = bound.address().unwrap().into();
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(service.server, bound, async { drop(stopped.await) }));
        Lab { at, stop, served, model }
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        assert!(timeout(LIMIT, self.served).await.unwrap().unwrap().is_empty());
    }

    async fn connect(&self, token: &str, method: &str, path: &str, body: &Value) -> TcpStream {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (at, length) = (self.at, body.len());
        let mut socket = TcpStream::connect(at).await.unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {at}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n");
        let head = format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
        socket.write_all(head.as_bytes()).await.unwrap();
        socket
    }

    /// The status and the body.
    async fn ask(&self, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (mut socket, mut answer) = (self.connect(token, method, path, &body).await, Vec::new());
        timeout(LIMIT, socket.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    async fn ok(&self, token: &str, method: &str, path: &str, body: Value) -> Value {
        let (status, body) = self.ask(token, method, path, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {body}");
        body
    }

    /// The events of a session from its beginning, up to one of this type that `is` picks.
    async fn until(&self, token: &str, session: &str, is: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/sessions/{session}/events?after=0");
        let mut lines = BufReader::new(self.connect(token, "GET", &path, &Value::Null).await).lines();
        let mut seen = Vec::new();
        let found = timeout(LIMIT, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let event = line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data.trim()).ok());
                match event {
                    Some(event) if is(&event) => return Some(event),
                    _ => seen.push(line),
                }
            }
            None
        });
        let found = found.await.ok().flatten();
        found.unwrap_or_else(|| panic!("the event does not come: {seen:?}"))
    }

    /// Says something, and waits for the end of its turn.
    async fn say(&self, token: &str, session: &str, text: &str) -> String {
        let receipt =
            self.ok(token, "POST", &format!("/v1/sessions/{session}/messages"), json!({ "text": text })).await;
        let seq = receipt["seq"].as_u64().unwrap();
        self.finished(token, session, seq).await
    }

    async fn finished(&self, token: &str, session: &str, after: u64) -> String {
        let is_end = |event: &Value| event["event"] == "turn_finished" && seq_of(event) > after;
        self.until(token, session, is_end).await;
        let page = self.ok(token, "GET", &format!("/v1/sessions/{session}/messages?limit=1"), Value::Null).await;
        page["messages"][0]["parts"].to_string()
    }

    /// The one open question of a session.
    async fn asked(&self, token: &str, session: &str) -> Value {
        self.until(token, session, |event| event["event"] == "ask").await;
        let asks = self.ok(token, "GET", &format!("/v1/sessions/{session}/asks"), Value::Null).await;
        asks["asks"][0].clone()
    }
}

fn seq_of(event: &Value) -> u64 {
    event["id"].as_str().and_then(|id| id.split('.').next()).and_then(|seq| seq.parse().ok()).unwrap_or(0)
}

/// Whether a word is in any file below a folder.
fn is_written(folder: &Path, word: &str) -> bool {
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| match entry.path() {
        path if path.is_dir() => is_written(&path, word),
        path => std::fs::read(path).is_ok_and(|bytes| bytes.windows(word.len()).any(|part| part == word.as_bytes())),
    })
}

#[test]
fn numbers_of_cards_are_taken_out_and_other_numbers_stay() {
    assert_eq!(without_cards("my 4111 1111-1111 1111 please"), "my [card] please");
    assert_eq!(without_cards("order 7, 12 345 678 of 2026-11-28"), "order 7, 12 345 678 of 2026-11-28");
    assert_eq!(without_cards("4111111111111111"), "[card]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_for_many_tenants_works_goes_on_after_a_restart_and_lets_a_tenant_go() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("config.json"), config(&[]).to_string()).unwrap();
    for (path, text) in [("orders/7", "sent"), ("pages/page-1", "one"), ("pages/page-2", "two")] {
        let path = folder.join("work/acme").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let lab = Lab::over(folder).await;

    // Who one is decides what one sees and may choose.
    assert_eq!(lab.ask("nobody", "GET", "/v1/sessions", Value::Null).await.0, 401);
    let new = |id: &str, agent: &str| json!({ "id": id, "agent": agent });
    lab.ok(ACME, "POST", "/v1/sessions", new("acme.1", "acme/support")).await;
    lab.ok(GLOBEX, "POST", "/v1/sessions", new("globex.1", "globex/support")).await;
    for (id, agent) in [("acme.2", "acme/support"), ("globex.2", "acme/support")] {
        assert_eq!(lab.ask(GLOBEX, "POST", "/v1/sessions", new(id, agent)).await.0, 422, "{id} {agent}");
    }
    assert_eq!(lab.ask(GLOBEX, "GET", "/v1/sessions/acme.1", Value::Null).await.0, 404);
    let borrowed = json!({ "text": "Hi.", "agent": "acme/support" });
    assert_eq!(lab.ask(GLOBEX, "POST", "/v1/sessions/globex.1/messages", borrowed).await.0, 422);
    let agents = lab.ok(ACME, "GET", "/v1/agents", Value::Null).await.to_string();
    assert!(agents.contains("acme/support") && !agents.contains("globex"), "{agents}");

    // A tool that may run runs, and the number of a card is written down nowhere.
    let answer = lab.say(ACME, "acme.1", "Where is my order? I paid with 4111 1111 1111 1111.").await;
    assert!(answer.contains("sent"), "{answer}");
    assert!(!is_written(folder, "4111 1111"), "the card is on the disk");
    assert!(lab.model.requests().iter().all(|request| !transcript(request).contains("4111")));

    // Tasks for the tenant's own agents work at once; the model is told of no other tenant's.
    let answer = lab.say(ACME, "acme.1", "Do some research about zeppelins.").await;
    assert!(answer.contains("told"), "{answer}");
    let told = lab.model.requests().iter().map(|request| format!("{:?}", request.tools)).collect::<String>();
    assert!(told.contains("acme/researcher"));
    let of_acme = lab.model.requests().into_iter().filter(|request| request.labels.get("tenant") == Some("acme"));
    assert!(of_acme.map(|request| format!("{:?}", request.tools)).all(|tools| !tools.contains("globex")));
    let listed = lab.ok(ACME, "GET", "/v1/sessions", Value::Null).await;
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 3, "{listed}");

    // A refund is a question, which outlives the process; only what was shown can be answered, and only by its tenant.
    let path = "/v1/sessions/acme.1/messages";
    let receipt = lab.ok(ACME, "POST", path, json!({ "text": "refund it" })).await;
    let ask = lab.asked(ACME, "acme.1").await;
    let open = lab.ok(ACME, "GET", "/tenant/asks", Value::Null).await;
    assert_eq!(
        (open["asks"][0]["digest"] == ask["digest"], open["asks"].as_array().unwrap().len()),
        (true, 1),
        "{open}"
    );
    assert_eq!(lab.ok(GLOBEX, "GET", "/tenant/asks", Value::Null).await["asks"], json!([]));
    lab.end().await;
    let lab = Lab::over(folder).await;
    let ask_again = lab.asked(ACME, "acme.1").await;
    assert_eq!(ask_again["digest"], ask["digest"]);
    let answer = format!("/v1/sessions/acme.1/asks/{}", ask_again["ask"]);
    let yes = |digest: &Value| json!({ "grant": "once", "who": "Ann", "digest": digest });
    assert_eq!(lab.ask(GLOBEX, "POST", &answer, yes(&ask["digest"])).await.0, 404);
    assert_eq!(lab.ask(ACME, "POST", &answer, yes(&json!("another"))).await.0, 422);
    lab.ok(ACME, "POST", &answer, yes(&ask["digest"])).await;
    lab.finished(ACME, "acme.1", receipt["seq"].as_u64().unwrap()).await;
    let refunds = std::fs::read_to_string(folder.join("work/acme/refunds")).unwrap();
    assert!(refunds.lines().count() == 1 && refunds.ends_with(" 7 900\n"), "{refunds}");

    // Each tenant's bill is its own.
    let bill = lab.ok(ACME, "GET", "/tenant/bill", Value::Null).await;
    assert_eq!((&bill["sessions"], &bill["spent"]["requests"]), (&json!(3), &json!(10)), "{bill}");
    let other = lab.ok(GLOBEX, "GET", "/tenant/bill", Value::Null).await;
    assert_eq!((&other["sessions"], &other["spent"]["requests"]), (&json!(1), &json!(0)), "{other}");

    // The operator forbids a tool while all goes on.
    std::fs::write(folder.join("config.json"), config(&["refund"]).to_string()).unwrap();
    assert_eq!(lab.ask(ACME, "POST", "/reload", Value::Null).await.0, 403);
    lab.ok(OPERATOR, "POST", "/reload", Value::Null).await;
    lab.say(ACME, "acme.1", "one more refund").await;
    assert_eq!(std::fs::read_to_string(folder.join("work/acme/refunds")).unwrap(), refunds);

    // A tenant that leaves leaves no word, and the others stay.
    lab.say(GLOBEX, "globex.1", "We sell umbrellas.").await;
    assert!(is_written(&folder.join("tapes"), "zeppelin"));
    assert_eq!(lab.ask(ACME, "DELETE", "/tenants/globex", Value::Null).await.0, 403);
    let gone = lab.ok(OPERATOR, "DELETE", "/tenants/acme", Value::Null).await;
    assert_eq!((&gone["deleted"], &gone["kept"]), (&json!(3), &json!([])), "{gone}");
    assert_eq!(lab.ask(ACME, "GET", "/v1/sessions/acme.1", Value::Null).await.0, 404);
    assert!(lab.say(GLOBEX, "globex.1", "Still there?").await.contains("Still there?"));
    lab.end().await;
    assert!(!is_written(&folder.join("tapes"), "zeppelin") && is_written(&folder.join("tapes"), "umbrellas"));
}
