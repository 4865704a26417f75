//! What becomes of messages while something goes wrong: PostgreSQL is killed, its connections are ended or used up, nodes are killed;
//! and while it is under pressure: a transaction that stays open, readers, more load than before, a burst. The nine cells are those
//! of a public harness for job queues (`hardbyte/postgresql-job-queue-benchmarking`).
//!
//! ```sh
//! cargo bench -p tamtam-postgres --bench chaos
//! ```
//!
//! Two nodes in processes of their own work on what this process sends, at one rate, before, during and after. Each message is a
//! turn. It ends with 1 if a message was lost, or read twice. `--short` runs each cell for some seconds, to see that nothing is
//! lost: its figures say nothing. A word runs only the cells whose names have it.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/postgres/server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod server;

use std::{
    collections::BTreeMap,
    io::{self, BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tamtam::{
    Delivery, Message, MessageId, Millis, Outcome, Runtime, Seq, SessionId, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    session::Record,
};
use tamtam_postgres::{Cluster, Postgres, PostgresOptions};
use tokio::task::{JoinSet, block_in_place};

/// Where the process of a node finds the database.
const NODE: &str = "TAMTAM_BENCH_NODE";

const SESSIONS: usize = 16;
/// How long a message is tried to be sent, and then what was accepted to be done; the rest counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many messages at most are being sent at the same time.
const SENDS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    PostgresRestart,
    BackendKill,
    PoolExhaustion,
    CrashRecovery,
    RepeatedKills,
    IdleInTransaction,
    SustainedHighLoad,
    ActiveReaders,
    EventBurst,
}

const CELLS: [(Cell, &str); 9] = [
    (Cell::PostgresRestart, "postgres_restart"),
    (Cell::BackendKill, "pg_backend_kill"),
    (Cell::PoolExhaustion, "pool_exhaustion"),
    (Cell::CrashRecovery, "crash_recovery"),
    (Cell::RepeatedKills, "repeated_kills"),
    (Cell::IdleInTransaction, "idle_in_tx"),
    (Cell::SustainedHighLoad, "sustained_high_load"),
    (Cell::ActiveReaders, "active_readers"),
    (Cell::EventBurst, "event_burst"),
];

async fn start(options: &PostgresOptions, sessions_max: usize) -> (Runtime, Cluster) {
    let tapes = Postgres::open(options).unwrap();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("yes")));
    let runtime = Runtime::builder().tapes(Arc::new(tapes.clone())).model(model).start().await.unwrap();
    let cluster = Cluster::join(&tapes, &runtime, sessions_max);
    (runtime, cluster)
}

/// The process of a node, until it is killed or who started it is.
async fn node(at: &str) {
    let (address, schema) = at.split_once('\n').unwrap();
    let _node = start(&PostgresOptions::new(address).schema(schema), SESSIONS).await;
    println!("works");
    block_in_place(|| io::copy(&mut io::stdin(), &mut io::sink())).unwrap();
}

/// Killed at the end.
struct Process(Child);

impl Process {
    fn start(server: &server::Server, options: &PostgresOptions) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(NODE, format!("{}\n{}", server.address(), options.schema));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert_eq!(told.trim(), "works");
        Process(child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is sent, at a rate that the cell may change.
struct Load {
    cluster: Cluster,
    sessions: Vec<SessionId>,
    a_second: AtomicU64,
    burst: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Sends until it is over; each message under one id until it is accepted, or given up. Returns how many there were.
    async fn send(self: Arc<Load>) -> u64 {
        let (mut sends, mut sent, mut due) = (JoinSet::new(), 0_u64, 0.0);
        let mut last = Instant::now();
        while !self.is_over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            due += last.elapsed().as_secs_f64() * self.a_second.load(Ordering::Relaxed) as f64;
            due += self.burst.swap(0, Ordering::Relaxed) as f64;
            last = Instant::now();
            while due >= 1.0 {
                due -= 1.0;
                sent += 1;
                while sends.len() >= SENDS_MAX {
                    sends.join_next().await.unwrap().unwrap();
                }
                sends.spawn(Arc::clone(&self).send_one(sent));
            }
        }
        while let Some(sent) = sends.join_next().await {
            sent.unwrap();
        }
        sent
    }

    async fn send_one(self: Arc<Load>, number: u64) {
        let session = &self.sessions[number as usize % SESSIONS];
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let message = Message::user("go on").with_id(format!("m{number}").into());
            if self.cluster.send(session, message, Delivery::Queue).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// What goes wrong, for so long.
fn go_wrong(
    cell: Cell,
    took: Duration,
    server: &server::Server,
    options: &PostgresOptions,
    nodes: &mut [Process; 2],
    load: &Load,
) {
    let until = Instant::now() + took;
    let left = || until.saturating_duration_since(Instant::now());
    let restart = |process: &mut Process| {
        process.0.kill().unwrap();
        *process = Process::start(server, options);
    };
    match cell {
        Cell::PostgresRestart => {
            server.kill();
            server.start_again();
        }
        Cell::BackendKill => {
            while !left().is_zero() {
                server::sql(
                    &server.address(),
                    "select pg_terminate_backend(pid) from pg_stat_activity
                     where pid <> pg_backend_pid() and backend_type = 'client backend'",
                );
                std::thread::sleep(Duration::from_millis(250));
            }
        }
        Cell::CrashRecovery => restart(&mut nodes[0]),
        Cell::RepeatedKills => {
            for n in 0..5 {
                restart(&mut nodes[n % 2]);
                std::thread::sleep(took / 6);
            }
        }
        Cell::PoolExhaustion => {
            held(server, 500, left(), "select 1");
        }
        Cell::IdleInTransaction => {
            held(server, 1, left(), "begin isolation level repeatable read; select count(*) from pg_class");
        }
        Cell::ActiveReaders => {
            let read = format!(
                "begin isolation level repeatable read; select count(*), max(length(line)) from {}.entries",
                options.schema
            );
            held(server, 4, left(), &read);
        }
        Cell::SustainedHighLoad => load.a_second.store(load.a_second.load(Ordering::Relaxed) * 3, Ordering::Relaxed),
        Cell::EventBurst => load.burst.store(load.a_second.load(Ordering::Relaxed) * 5, Ordering::Relaxed),
    }
    std::thread::sleep(left());
    if cell == Cell::SustainedHighLoad {
        load.a_second.store(load.a_second.load(Ordering::Relaxed) / 3, Ordering::Relaxed);
    }
}

/// Holds connections for a while that did this, as many as there are to be had.
fn held(server: &server::Server, connections: usize, took: Duration, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        while clients.len() < connections {
            let Ok((client, connection)) = tokio_postgres::connect(&server.address(), tokio_postgres::NoTls).await
            else {
                break;
            };
            tokio::spawn(connection);
            client.batch_execute(sql).await.unwrap();
            clients.push(client);
        }
        tokio::time::sleep(took).await;
    });
}

/// When each message was done, and how many were lost or read twice.
async fn judged(load: &Load, runtime: &Runtime, sent: u64) -> (Vec<Millis>, u64, u64) {
    let mut times: BTreeMap<MessageId, (u64, Option<Millis>)> =
        (1..=sent).map(|n| (MessageId::from(format!("m{n}")), (0, None))).collect();
    for session in &load.sessions {
        let mut turns: BTreeMap<Seq, Vec<MessageId>> = BTreeMap::new();
        for entry in runtime.session(session).entries().await.unwrap() {
            match (entry.record, entry.turn) {
                (Record::Delivered { ids }, Some(turn)) => {
                    ids.iter().for_each(|id| times.entry(id.clone()).or_default().0 += 1);
                    turns.entry(turn).or_default().extend(ids);
                }
                (Record::TurnFinished { outcome: Outcome::Done }, Some(turn)) => {
                    let ids = turns.remove(&turn).unwrap_or_default();
                    ids.into_iter().for_each(|id| times.entry(id).or_default().1 = Some(entry.time));
                }
                _ => {}
            }
        }
    }
    let mut done: Vec<Millis> = times.values().filter_map(|(_, time)| *time).collect();
    done.sort();
    let lost = times.values().filter(|(_, time)| time.is_none()).count() as u64;
    let doubled = times.values().filter(|(read, _)| *read > 1).count() as u64;
    (done, lost, doubled)
}

/// Runs a cell, prints its row, and returns whether each message was read once and answered.
async fn run(server: &server::Server, (cell, name): (Cell, &str), phase: Duration, a_second: u64) -> bool {
    let options = server.database();
    let (runtime, cluster) = start(&options, 0).await;
    let sessions: Vec<SessionId> = (0..SESSIONS).map(|n| format!("s{n}").parse().unwrap()).collect();
    for session in &sessions {
        let made = SessionOptions::new(std::env::temp_dir()).id(session.clone()).profile(Profile::Auto);
        runtime.create(made).await.unwrap();
        runtime.passivate(session).await.unwrap();
    }
    let mut nodes = block_in_place(|| [0, 1].map(|_| Process::start(server, &options)));
    let (a_second, burst, is_over) = (AtomicU64::new(a_second), AtomicU64::new(0), AtomicBool::new(false));
    let load = Arc::new(Load { cluster, sessions, a_second, burst, is_over });
    let sends = tokio::spawn(Arc::clone(&load).send());
    // The sessions wake.
    tokio::time::sleep(phase / 2).await;
    let begun = Millis::now();
    tokio::time::sleep(phase).await;
    let wrong = Millis::now();
    block_in_place(|| go_wrong(cell, phase, server, &options, &mut nodes, &load));
    let right = Millis::now();
    tokio::time::sleep(phase).await;
    let ended = Millis::now();
    load.is_over.store(true, Ordering::Relaxed);
    let sent = sends.await.unwrap();
    // What was accepted is worked on to its end.
    let patience = Instant::now() + PATIENCE;
    let judged = loop {
        let judged = judged(&load, &runtime, sent).await;
        if judged.1 == 0 || Instant::now() > patience {
            break judged;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let (done, lost, doubled) = judged;
    let rate = |from: Millis, to: Millis| {
        let count = done.iter().filter(|time| (from..to).contains(time)).count();
        count as f64 / (to.0 - from.0).max(1) as f64 * 1_000.0
    };
    let (before, during, after) = (rate(begun, wrong), rate(wrong, right), rate(right, ended));
    // From what was done last before it.
    let before_it = done.partition_point(|time| *time < wrong).saturating_sub(1);
    let later = done.get(before_it..).unwrap_or_default();
    let pause = later.windows(2).map(|pair| pair[1].0 - pair[0].0).max().unwrap_or(0);
    println!(
        "{name:<20} {sent:>7} {:>7} {lost:>5} {doubled:>8} {before:>9.0} {during:>9.0} {after:>9.0} {:>8.0} % {pause:>9} ms",
        done.len(),
        100.0 * after / before
    );
    if lost > 0 {
        println!("{}", load.cluster.tree().await.unwrap());
    }
    drop(nodes);
    runtime.shutdown().await;
    lost == 0 && doubled == 0
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    if let Ok(at) = std::env::var(NODE) {
        return node(&at).await;
    }
    let short = std::env::args().any(|argument| argument == "--short");
    let words: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let (phase, a_second) = if short { (Duration::from_secs(1), 50) } else { (Duration::from_secs(20), 200) };
    let server = server::Server::start_with("on");
    println!(
        "{:<20} {:>7} {:>7} {:>5} {:>8} {:>9} {:>9} {:>9} {:>10} {:>12}",
        "cell", "sent", "done", "lost", "doubled", "before/s", "during/s", "after/s", "recovered", "longest pause"
    );
    let mut is_well = true;
    for cell in CELLS.into_iter().filter(|(_, name)| words.is_empty() || words.iter().any(|word| name.contains(word))) {
        is_well &= run(&server, cell, phase, a_second).await;
    }
    if !is_well {
        println!("messages were lost or read twice");
        drop(server);
        std::process::exit(1);
    }
}
