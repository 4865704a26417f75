//! Three nodes over one database, each a process of its own. Twelve sessions are at work when one node is killed (`kill -9`); the
//! others go on with what it had, and each message is read once. Each node serves its page, with the tree of all nodes at `/v1/cluster`.
//!
//! ```sh
//! cargo run -p tamtam-postgres --features server --example cluster -- "host=/run/postgresql user=app dbname=app"
//! ```
//!
//! It makes the schema `tamtam_example` there, and leaves it for you to look at. The model is scripted, so it costs nothing.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, IsTerminal as _, Read as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    Delivery, MessageId, Runtime, SessionId, SessionOptions,
    model::{BoxFuture, Item, Reply, Request, Scripted},
    permission::Profile,
    session::Record,
    tool::{Tool, ToolContext, ToolResult},
};
use tamtam_postgres::{Cluster, MessageProgress, Postgres, PostgresOptions, migrate};
use tamtam_server::{Bound, Server, ServerOptions, serve_beside};

const NODES: [&str; 3] = ["anna", "bert", "cora"];
const SESSIONS: usize = 12;
const ROUNDS: usize = 4;
/// Two nodes have room for all of them.
const SESSIONS_MAX: usize = SESSIONS / 2;

/// What a host's tool would do: it takes a while.
struct Work;

impl Tool for Work {
    fn name(&self) -> &str {
        "work"
    }

    fn description(&self) -> &str {
        "Works a while."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            ToolResult::ok("done")
        })
    }
}

/// To each message one call, and then an answer.
fn reply(request: &Request) -> Reply {
    match request.history.last().map(|item| &**item) {
        Some(Item::User(_)) => Reply::call("work", json!({})),
        _ => Reply::text("It is done."),
    }
}

async fn start_on(tapes: &Postgres) -> Runtime {
    let model = Arc::new(Scripted::from_fn(reply));
    Runtime::builder().tapes(Arc::new(tapes.clone())).model(model).tool(Work).start().await.unwrap()
}

/// One node: a runtime that joins the others. It says on its standard output where its page is and which sessions it has, and ends in
/// order when its standard input is closed.
pub(crate) async fn node(options: &PostgresOptions) {
    let tapes = Postgres::open(options).unwrap();
    let runtime = start_on(&tapes).await;
    let cluster = Arc::new(Cluster::join(&tapes, &runtime, SESSIONS_MAX));
    let (stop, stops) = tokio::sync::oneshot::channel::<()>();
    let options = ServerOptions::new(std::env::temp_dir());
    let server = Server::new(runtime.clone()).with(options).nodes(cluster.clone());
    let bound = Bound::tcp(([127, 0, 0, 1], 0).into(), &server).await.unwrap();
    println!("node serves {}", bound.at());
    let serves = tokio::spawn(serve_beside(server, bound, async {
        let _ = stops.await;
    }));
    let input_ends = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let mut known = BTreeSet::new();
    while !input_ends.is_finished() {
        // One that is just waking has no place in the tree yet: another node may have it.
        let tree = runtime.tree();
        let awake = runtime.awake().into_iter().filter(|session| tree.find(session.as_str()).is_some());
        let here: BTreeSet<SessionId> = awake.collect();
        here.difference(&known).for_each(|session| println!("node has {session}"));
        known = here;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    runtime.drain(Duration::from_secs(5)).await;
    drop(stop);
    serves.await.unwrap();
    runtime.shutdown().await;
    cluster.leave().await;
}

/// A node in its process. Killed at the end, if it does not end by itself.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What happened.
pub(crate) struct Told {
    /// The messages that were sent, and how often each was read.
    pub(crate) read: BTreeMap<String, usize>,
    /// The sessions of the node that was killed, and which node each went on at.
    pub(crate) went_on: BTreeMap<String, String>,
    /// Where the page of each node is, or was.
    pub(crate) pages: BTreeMap<&'static str, String>,
}

/// Plays it. `start` makes the command of a node from its name; `look` is called before the other nodes end.
pub(crate) async fn play(
    options: &PostgresOptions,
    folder: &Path,
    start: impl Fn(&str) -> Command,
    look: impl FnOnce(&Told) + Send + 'static,
) -> Told {
    // This process only sends: it takes no session up.
    let tapes = Postgres::open(options).unwrap();
    let runtime = start_on(&tapes).await;
    let cluster = Cluster::join(&tapes, &runtime, 0);
    let sessions: Vec<SessionId> = (1..=SESSIONS).map(|n| format!("session-{n:02}").parse().unwrap()).collect();
    for session in &sessions {
        runtime.create(SessionOptions::new(folder).id(session.clone()).profile(Profile::Auto)).await.unwrap();
        runtime.passivate(session).await.unwrap();
    }
    let (tell, heard) = mpsc::channel();
    let mut nodes: BTreeMap<&str, Process> = NODES.map(|name| (name, listen(name, start(name), tell.clone()))).into();
    println!("{} nodes, {SESSIONS} sessions, {ROUNDS} messages to each.", nodes.len());

    let mut sent: Vec<(&SessionId, MessageId)> = Vec::new();
    for round in 1..=ROUNDS {
        for session in &sessions {
            sent.push((session, cluster.send(session, format!("job {round}"), Delivery::Queue).await.unwrap()));
        }
    }
    let (mut owners, mut pages) = (BTreeMap::new(), BTreeMap::new());
    while owners.len() < SESSIONS || pages.len() < NODES.len() {
        match heard.recv_timeout(Duration::from_secs(60)).expect("a node takes each session") {
            (name, Said::Has(session)) => drop(owners.insert(session, name)),
            (name, Said::Serves(page)) => drop(pages.insert(name, page)),
        }
    }
    for name in NODES {
        let sessions = owners.values().filter(|owner| **owner == name).count();
        println!("{name} has {sessions} sessions, and its page at {}.", pages[name]);
    }
    print!("{}", cluster.tree().await.unwrap());
    let victim = owners.values().next().copied().unwrap();
    drop(nodes.remove(victim));
    let killed = Instant::now();
    println!("{victim} is killed, in the middle of its work.");

    let theirs: BTreeSet<&String> = owners.iter().filter(|(_, owner)| **owner == victim).map(|(s, _)| s).collect();
    // Those that had done all of their work need a reason to go on.
    for session in sessions.iter().filter(|session| theirs.iter().any(|of| **of == session.as_str())) {
        sent.push((session, cluster.send(session, "one more", Delivery::Queue).await.unwrap()));
    }
    for (session, message) in &sent {
        match cluster.wait(session, message).await.unwrap() {
            MessageProgress::Over(_) => {}
            other => println!("{session}: {message} is {other:?}"),
        }
    }
    print!("{}", cluster.tree().await.unwrap());
    println!("All {} messages are answered, {:.1} s after that.", sent.len(), killed.elapsed().as_secs_f64());
    let mut went_on = BTreeMap::new();
    while went_on.len() < theirs.len() {
        match heard.recv_timeout(Duration::from_secs(60)).expect("each goes on") {
            (name, Said::Has(session)) if name != victim && theirs.contains(&session) => {
                println!("{session} went on at {name}.");
                went_on.insert(session, name.to_owned());
            }
            _ => {}
        }
    }
    let mut read = BTreeMap::new();
    for (session, message) in &sent {
        let entries = runtime.session(session).entries().await.unwrap();
        let told = |record: &Record| matches!(record, Record::Delivered { ids } if ids.contains(message));
        let times = entries.iter().filter(|entry| told(&entry.record)).count();
        read.insert(format!("{session} {message}"), times);
    }
    let told = Told { read, went_on, pages };
    let told = tokio::task::spawn_blocking(move || {
        look(&told);
        told
    });
    let told = told.await.unwrap();
    drop(nodes);
    runtime.shutdown().await;
    told
}

/// A line of a node.
enum Said {
    Has(String),
    Serves(String),
}

/// Starts a node, and passes on what it says.
fn listen(name: &'static str, mut command: Command, tell: mpsc::Sender<(&'static str, Said)>) -> Process {
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            let has = line.split_once("node has ").map(|(_, session)| Said::Has(session.to_owned()));
            let serves = || line.split_once("node serves ").map(|(_, page)| Said::Serves(page.to_owned()));
            if let Some(said) = has.or_else(serves) {
                // Nobody may listen any more.
                let _ = tell.send((name, said));
            }
        }
    });
    Process(process)
}

#[tokio::main]
#[allow(dead_code, reason = "the test that plays this has a main of its own")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let options = |connection: &str| PostgresOptions::new(connection).schema("tamtam_example");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["node", name, connection] => {
            let options = options(connection).node(name);
            node(&options).await;
        }
        [connection] => {
            let (options, folder) = (options(connection), tempfile::tempdir().unwrap());
            let made = options.clone();
            tokio::task::spawn_blocking(move || migrate(&made)).await.unwrap().unwrap();
            let start = |name: &str| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["node", name, connection]);
                command
            };
            let look = |told: &Told| {
                if std::io::stdin().is_terminal() {
                    println!(
                        "The pages are there until you press Enter; /v1/cluster has the tree of all nodes: {:?}",
                        told.pages
                    );
                    let _ = std::io::stdin().read_line(&mut String::new());
                }
            };
            let Told { read, went_on, .. } = play(&options, folder.path(), start, look).await;
            let once = read.values().filter(|times| **times == 1).count();
            println!("{} sessions went on elsewhere; {once} of {} messages were read once.", went_on.len(), read.len());
        }
        _ => println!("give it a connection: \"host=/run/postgresql user=app dbname=app\""),
    }
}
