//! How long a session is without an owner: its node is killed, or drained, or PostgreSQL is; and how long an abort takes from another
//! node to a running call. Over a real server with fsync on.
//!
//! ```sh
//! cargo bench -p tamtam-postgres --bench cluster
//! ```
//!
//! `--short` runs each a few times, to see that it still works: its figures say nothing.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/postgres/server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod server;

use std::{
    io::{self, BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    time::{Duration, Instant},
};

use serde_json::{Value, json, value::RawValue};
use tamtam::{
    Delivery, EventKind, EventStream, Millis, Runtime, Seq, Session, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    session::Next,
    tape::{Appended, TapeEntry, TapeStoreExt as _},
    tool::{Tool, ToolContext, ToolResult},
};
use tamtam_postgres::{Cluster, Postgres, PostgresOptions};

/// Where the process of an owner finds the database.
const OWNER: &str = "TAMTAM_BENCH_OWNER";

/// The most that a killed node may cost beyond its lease.
const LOOK: Duration = Duration::from_millis(250);

/// A call that runs until it is stopped, and tells when it begins and when it is over.
#[derive(Clone)]
struct Works {
    began: mpsc::Sender<Instant>,
    over: mpsc::Sender<Instant>,
}

struct Over(mpsc::Sender<Instant>);

impl Drop for Over {
    fn drop(&mut self) {
        // Nobody listens where the bench has ended.
        let _ = self.0.send(Instant::now());
    }
}

impl Tool for Works {
    fn name(&self) -> &str {
        "work"
    }

    fn description(&self) -> &str {
        "Works until it is stopped."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let _over = Over(self.over.clone());
            let _ = self.began.send(Instant::now());
            context.cancelled().await;
            ToolResult::ok("stopped")
        })
    }
}

/// To `hang` nothing, to `work` a call, to `long N` N KiB, and else a word.
fn reply(request: &Request) -> Reply {
    let newest = request.history.last().map(|item| match &**item {
        Item::User(user) => user.text(),
        _ => String::new(),
    });
    match newest.unwrap_or_default().split_once(' ') {
        Some(("please", "hang")) => Reply::hang(),
        Some(("please", "work")) => Reply::call("work", json!({})),
        Some(("long", kib)) => Reply::text("x".repeat(kib.parse::<usize>().unwrap() * 1024)),
        _ => Reply::text("yes"),
    }
}

struct Node {
    runtime: Runtime,
    cluster: Cluster,
    began: mpsc::Receiver<Instant>,
    over: mpsc::Receiver<Instant>,
}

async fn node(options: &PostgresOptions) -> Node {
    let tapes = Postgres::open(options).unwrap();
    let ((began, begun), (over, ended)) = (mpsc::channel(), mpsc::channel());
    let (model, works) = (Arc::new(Scripted::from_fn(reply)), Works { began, over });
    let runtime = Runtime::builder().tapes(Arc::new(tapes.clone())).model(model).tool(works).start().await.unwrap();
    let cluster = Cluster::join(&tapes, &runtime, 1_000);
    Node { runtime, cluster, began: begun, over: ended }
}

async fn make(runtime: &Runtime, name: &str) -> Session {
    let options = SessionOptions::new(std::env::temp_dir()).id(name.parse().unwrap()).profile(Profile::Auto);
    runtime.create(options).await.unwrap()
}

/// Returns when this node has appended to the session that these events are of: its recovery is on the tape.
async fn goes_on(mut events: EventStream) -> Instant {
    loop {
        if let Some(Next::Event(event)) = events.next().await
            && matches!(event.kind, EventKind::SessionRecovered { .. })
        {
            return Instant::now();
        }
    }
}

/// The process of an owner, until it is killed or who started it is.
async fn owner(at: &str) {
    let (address, schema) = at.split_once('\n').unwrap();
    let node = node(&PostgresOptions::new(address).schema(schema)).await;
    make(&node.runtime, "s").await.prompt("please hang").await.unwrap();
    println!("hangs");
    tokio::task::block_in_place(|| io::copy(&mut io::stdin(), &mut io::sink())).unwrap();
}

/// `kill -9` of the process that has the session, until another node has appended to it.
async fn killed(server: &server::Server) -> Duration {
    let options = server.database();
    let other = node(&options).await;
    let mut process = Command::new(std::env::current_exe().unwrap())
        .env(OWNER, format!("{}\n{}", server.address(), options.schema))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut told).unwrap();
    assert_eq!(told.trim(), "hangs");
    let events = other.runtime.session(&"s".parse().unwrap()).events();
    let killed = Instant::now();
    process.kill().unwrap();
    process.wait().unwrap();
    let took = goes_on(events).await.duration_since(killed);
    other.runtime.shutdown().await;
    took
}

/// A drain in the middle of a turn, over a tape of about so many KiB, until the other node has appended.
async fn drained(server: &server::Server, kib: usize) -> Duration {
    let options = server.database();
    let (one, two) = (node(&options).await, node(&options).await);
    let session = make(&one.runtime, "s").await;
    for _ in 0..kib.div_ceil(64) {
        session.prompt(format!("long {}", kib.min(64))).await.unwrap().wait().await.unwrap();
    }
    session.prompt("please hang").await.unwrap();
    let began = Instant::now();
    let events = two.runtime.session(session.id()).events();
    let ends = async {
        one.runtime.drain(Duration::ZERO).await;
        one.runtime.shutdown().await
    };
    let (_, at) = tokio::join!(ends, goes_on(events));
    let took = at.duration_since(began);
    two.runtime.shutdown().await;
    took
}

/// The postmaster is killed and started again, under sessions that append all the time: until each has appended again.
fn restarted(server: &server::Server, sessions: usize) -> Vec<Duration> {
    let store = Postgres::open(&server.database()).unwrap();
    let killed: Mutex<Option<Instant>> = Mutex::new(None);
    let (begun, all_began) = mpsc::channel();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..sessions)
            .map(|n| {
                let (store, killed, begun) = (&store, &killed, begun.clone());
                scope.spawn(move || {
                    let (tell, told) = mpsc::channel();
                    let notify = Arc::new(move |result| drop(tell.send(result)));
                    let mut tape = store.create(&format!("s{n}").parse().unwrap(), notify).unwrap();
                    for seq in 1.. {
                        let data = RawValue::from_string("\"x\"".to_owned()).unwrap();
                        let entry = TapeEntry::new(Seq(seq), Millis(seq), "note", data);
                        assert!(matches!(tape.append(&[entry]), Appended::Later));
                        told.recv().unwrap().unwrap();
                        if seq == 10 {
                            begun.send(()).unwrap();
                        }
                        if let Some(at) = *killed.lock().unwrap_or_else(PoisonError::into_inner) {
                            return at.elapsed();
                        }
                    }
                    unreachable!("it appends until then")
                })
            })
            .collect();
        (0..sessions).for_each(|_| all_began.recv().unwrap());
        let now = Instant::now();
        server.kill();
        server.start_again();
        // Only now: processes of the old server outlive the postmaster for a moment, and may still answer.
        *killed.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

/// An abort on one node, until the call that runs on another is told to stop.
async fn aborted(server: &server::Server, times: usize) -> Vec<Duration> {
    let options = server.database();
    let (one, two) = (node(&options).await, node(&options).await);
    let session = make(&one.runtime, "s").await;
    let mut took = Vec::new();
    for _ in 0..times {
        let sent = two.cluster.send(session.id(), "please work", Delivery::Queue).await.unwrap();
        tokio::task::block_in_place(|| one.began.recv().unwrap());
        let began = Instant::now();
        two.cluster.abort(session.id(), "enough").await.unwrap();
        took.push(tokio::task::block_in_place(|| one.over.recv().unwrap()).duration_since(began));
        two.cluster.wait(session.id(), &sent).await.unwrap();
    }
    one.runtime.shutdown().await;
    two.runtime.shutdown().await;
    took
}

fn print(what: &str, goal: Duration, mut took: Vec<Duration>) {
    took.sort();
    let (p50, p99, max) = (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]);
    println!(
        "{what:<58} {:>5} times   p50 {p50:>8.1?}   p99 {p99:>8.1?}   max {max:>8.1?}   goal {goal:?}",
        took.len()
    );
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    if let Ok(at) = std::env::var(OWNER) {
        return owner(&at).await;
    }
    let short = std::env::args().any(|argument| argument == "--short");
    let times = |full: usize| if short { 2 } else { full };
    let server = server::Server::start_with("on");

    let mut took = Vec::new();
    for _ in 0..times(20) {
        took.push(killed(&server).await);
    }
    print("the owner is killed: until another node has appended", Duration::from_secs(2) + LOOK, took);
    for kib in [1, 1024] {
        let mut took = Vec::new();
        for _ in 0..times(50) {
            took.push(drained(&server, kib).await);
        }
        print(&format!("a node drains, a tape of {kib} KiB: the same"), Duration::from_millis(50), took);
    }
    let mut took = Vec::new();
    for _ in 0..times(10) {
        took.extend(tokio::task::block_in_place(|| restarted(&server, 32)));
    }
    print("the postmaster is killed and started: each of 32 sessions", Duration::from_secs(2), took);
    print(
        "abort on one node: a call on another is stopped",
        Duration::from_millis(50),
        aborted(&server, times(200)).await,
    );
}
