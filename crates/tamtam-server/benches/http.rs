//! What the front door costs: figures through HTTP and SSE with a model that answers at once, and the same of a bare axum service beside
//! them in the same run. Prints one line a figure.
//!
//! `cargo bench -p tamtam-server --bench http` runs all; a word after `--` picks those whose name contains it. `--short` runs each at a
//! fiftieth of its size, to see that it still works: its figures say nothing. Clients and server share the cores of the machine.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::post};
use futures_util::{StreamExt as _, future::join_all, stream};
use serde_json::{Value, json};
use tamtam::{
    ModelRef, Runtime, SessionOptions,
    model::{AnswerPart, BoxFuture, Delta, Deltas, Model, ModelAnswer, ModelError, Request},
    permission::Profile,
    session::Finish,
};
use tamtam_server::{Server, ServerOptions};

#[path = "http/client.rs"]
mod client;
#[path = "../../../benches/support/parts.rs"]
mod parts;

use client::{Connection, Events};
use parts::{distribution, resident, scaled};

/// A model that says one word at once.
struct AtOnce(ModelRef);

impl Model for AtOnce {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(
        &'a self,
        _: &'a Request,
        deltas: &'a mut dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        deltas.delta(Delta::Text("ok".into()));
        let text = AnswerPart::Text { text: "ok".into(), extra: None };
        Box::pin(async { Ok(ModelAnswer::new(vec![text], Finish::Stop)) })
    }
}

/// A server over a store in this folder, and where it listens.
async fn serve(folder: &Path) -> (Runtime, Server, String) {
    let model = Arc::new(AtOnce("bench/at_once".parse().unwrap()));
    let runtime = Runtime::builder().store(folder.join("store")).model(model).start().await.unwrap();
    let workspace = folder.to_owned();
    let options =
        ServerOptions::default().new_session(move |_, _| Ok(SessionOptions::new(&workspace).profile(Profile::Auto)));
    let server = Server::new(runtime.clone()).with(options);
    let at = listen(server.router()).await;
    (runtime, server, at)
}

/// Serves a router as a host does.
async fn listen(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    tokio::spawn(async {
        use axum::serve::ListenerExt as _;
        // As `tamtam serve`: what is small is sent now.
        let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
        axum::serve(listener, router).await
    });
    at
}

/// An axum service that gives back what it gets: what a request costs without us.
async fn echo() -> String {
    listen(Router::new().route("/echo", post(async |Json(body): Json<Value>| Json(body)))).await
}

async fn end(runtime: Runtime, server: Server) {
    server.end_streams();
    let left = runtime.shutdown().await;
    assert!(left.is_empty(), "{left:?}");
}

/// Makes sessions by the library: what is measured is not their making.
async fn make(runtime: &Runtime, folder: &Path, count: usize) -> Vec<String> {
    let one = |n: usize| async move {
        let options = SessionOptions::new(folder).profile(Profile::Auto).id(format!("s{n}").parse().unwrap());
        runtime.create(options).await.unwrap().id().to_string()
    };
    stream::iter(0..count).map(one).buffer_unordered(16).collect().await
}

fn words() -> Value {
    json!({ "text": "go" })
}

/// One turn after the other: from the post to its receipt and to each event, beside an echo.
async fn turns() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, server, at) = serve(folder.path()).await;
    let (mut poster, mut echoing) = (Connection::open(&at).await, Connection::open(&echo().await).await);
    let [mut receipts, mut started, mut visible, mut whole, mut echoes] = [(); 5].map(|()| Vec::new());
    // Sessions of 100 turns: what a long conversation costs is a figure of the library.
    for id in make(&runtime, folder.path(), scaled(20)).await {
        let mut events = Events::open(&at, &format!("/v1/sessions/{id}/events")).await;
        for _ in 0..scaled(100) {
            let began = Instant::now();
            let posted = async {
                assert_eq!(poster.post(&format!("/v1/sessions/{id}/messages"), &words()).await, 202);
                began.elapsed()
            };
            let heard = async {
                for (kind, took) in
                    [("turn_started", &mut started), ("text_delta", &mut visible), ("turn_finished", &mut whole)]
                {
                    events.until(kind).await;
                    took.push(began.elapsed());
                }
            };
            let (receipt, ()) = tokio::join!(posted, heard);
            receipts.push(receipt);
            // In turns, so that both meet the same machine.
            let began = Instant::now();
            assert_eq!(echoing.post("/echo", &words()).await, 200);
            echoes.push(began.elapsed());
        }
    }
    distribution("http: a bare axum echo", echoes);
    distribution("http: from the post to its receipt", receipts);
    distribution("http: from the post to `turn_started` (0.2 ms)", started);
    distribution("http: from the post to the first text (1.0, 2.0 ms)", visible);
    distribution("http: from the post to the end of the turn (2 ms)", whole);
    end(runtime, server).await;
}

/// Many sessions at once, each with a listener: turns a second.
async fn many() {
    let (sessions, rounds) = (scaled(256), scaled(50));
    let folder = tempfile::tempdir().unwrap();
    let (runtime, server, at) = serve(folder.path()).await;
    let ids = make(&runtime, folder.path(), sessions).await;
    let clients = join_all(ids.iter().map(async |id| {
        (Connection::open(&at).await, Events::open(&at, &format!("/v1/sessions/{id}/events?deltas=0")).await)
    }));
    let clients = clients.await;
    let began = Instant::now();
    let talks = ids.into_iter().zip(clients).map(|(id, (mut poster, mut events))| {
        tokio::spawn(async move {
            for _ in 0..rounds {
                assert_eq!(poster.post(&format!("/v1/sessions/{id}/messages"), &words()).await, 202);
                events.until("turn_finished").await;
            }
        })
    });
    join_all(talks).await.into_iter().for_each(Result::unwrap);
    let (turns, took) = (sessions * rounds, began.elapsed().as_secs_f64());
    println!("http: {sessions} sessions at once (2,500){:>30.0} turns/s   n {turns}", turns as f64 / took);
    let at = echo().await;
    let began = Instant::now();
    let echoing = (0..sessions).map(|_| {
        let at = at.clone();
        tokio::spawn(async move {
            let mut connection = Connection::open(&at).await;
            for _ in 0..rounds {
                assert_eq!(connection.post("/echo", &words()).await, 200);
            }
        })
    });
    join_all(echoing).await.into_iter().for_each(Result::unwrap);
    let took = began.elapsed().as_secs_f64();
    println!("http: {sessions} clients of a bare axum echo{:>28.0} posts/s   n {turns}", turns as f64 / took);
    end(runtime, server).await;
}

/// Posts at a fixed rate, whatever became of those before: from the moment that each was due to its receipt.
async fn rate() {
    const EVERY: Duration = Duration::from_millis(2);
    let posts = scaled(5_000_u32);
    let folder = tempfile::tempdir().unwrap();
    let (runtime, server, at) = serve(folder.path()).await;
    let ids = make(&runtime, folder.path(), 64).await;
    let echo = echo().await;
    for (name, at, status) in [("a bare axum echo", &echo, 200), ("from the post to its receipt (p99 5 ms)", &at, 202)]
    {
        let began = Instant::now() + Duration::from_millis(100);
        // A connection and a share of the posts for each session, so that none waits for its turn on a connection.
        let posting = ids.iter().enumerate().map(|(n, id)| {
            let (at, path) =
                (at.clone(), if status == 200 { "/echo".into() } else { format!("/v1/sessions/{id}/messages") });
            tokio::spawn(async move {
                let (mut connection, mut took) = (Connection::open(&at).await, Vec::new());
                for post in (n as u32..posts).step_by(64) {
                    let due = began + EVERY * post;
                    tokio::time::sleep_until(due.into()).await;
                    assert_eq!(connection.post(&path, &words()).await, status);
                    took.push(due.elapsed());
                }
                took
            })
        });
        let took = join_all(posting).await.into_iter().flat_map(Result::unwrap).collect();
        distribution(&format!("http: 500/s, {name}"), took);
    }
    end(runtime, server).await;
}

/// What the process of a server holds whose sessions all sleep. Runs in a process of its own, over a store that is there.
async fn asleep() {
    let sessions = scaled(10_000);
    let folder = tempfile::tempdir().unwrap();
    let (runtime, server, _) = serve(folder.path()).await;
    make(&runtime, folder.path(), sessions).await;
    end(runtime, server).await;
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("--asleep")
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    println!("http: {sessions} sleeping sessions (60 MB): {}", String::from_utf8_lossy(&child.stdout).trim());
}

async fn asleep_here(folder: &Path) {
    let (runtime, server, at) = serve(folder).await;
    let started = resident();
    let mut connection = Connection::open(&at).await;
    assert_eq!(connection.get("/v1/sessions?limit=200").await, 200);
    println!("{} MB after the start, {} MB after a list", started >> 20, resident() >> 20);
    end(runtime, server).await;
}

/// What the tree's stream takes of a core, for sessions that are awake and one of which works now and then.
async fn tree() {
    let (sessions, time) = (scaled(1_000), scaled(Duration::from_secs(20).as_millis() as u64));
    let folder = tempfile::tempdir().unwrap();
    let (runtime, server, at) = serve(folder.path()).await;
    let ids = make(&runtime, folder.path(), sessions).await;
    let mut poster = Connection::open(&at).await;
    let mut used = Vec::new();
    for is_watched in [false, true] {
        let watching = is_watched.then(|| {
            let at = at.clone();
            tokio::spawn(async move {
                let mut events = Events::open(&at, "/v1/tree/events").await;
                while events.line().await.is_some() {}
            })
        });
        let (before, began) = (cpu(), Instant::now());
        while began.elapsed() < Duration::from_millis(time) {
            assert_eq!(poster.post(&format!("/v1/sessions/{}/messages", ids[0]), &words()).await, 202);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        used.push((cpu() - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0);
        watching.into_iter().for_each(|watching| watching.abort());
    }
    let [alone, watched] = used[..] else { unreachable!("two rounds") };
    println!(
        "http: the tree's stream, {sessions} sessions (1 % of a core): {:.2} % more than {alone:.2} %",
        watched - alone
    );
    end(runtime, server).await;
}

/// What this process has used of processors so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    // In hundredths of a second.
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(10 * ticks)
}

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut given = std::env::args().skip(1);
    if given.next().as_deref() == Some("--asleep") {
        return tokio.block_on(asleep_here(Path::new(&given.next().unwrap())));
    }
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let is_wanted = |name: &str| name.contains(&wanted);
    tokio.block_on(async {
        if is_wanted("turns") {
            turns().await;
        }
        if is_wanted("many") {
            many().await;
        }
        if is_wanted("rate") {
            rate().await;
        }
        if is_wanted("asleep") {
            asleep().await;
        }
        if is_wanted("tree") {
            tree().await;
        }
    });
}
