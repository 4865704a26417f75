//! How many appends a second a node writes, each under the epoch of its claim, beside bare SQL of the same rows with a connection for
//! each session; the same while somebody holds a transaction open, which keeps the server from removing old rows; and how long a turn
//! takes, beside the same over files. A real server with fsync on; in turns, so that all meet the same machine.
//!
//! ```sh
//! cargo bench -p tamtam-postgres --bench fenced
//! ```
//!
//! `--short` runs each at a fiftieth of its size, to see that it still works: its figures say nothing. `--held 600` runs something else:
//! two servers, on one of which a transaction is open for that many seconds before anything is measured.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "../tests/postgres/server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod server;

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use tamtam::{
    Millis, Runtime, Seq, SessionOptions,
    model::{Reply, Scripted},
    permission::Profile,
    runtime::Builder,
    tape::{Appended, Durability, TapeEntry, TapeError, TapeStore, TapeStoreExt as _},
};
use tamtam_postgres::Postgres;

/// The bytes of a line.
const LINE_BYTES: usize = 600;

fn entry(seq: u64) -> TapeEntry {
    let data = RawValue::from_string(format!("\"{}\"", "x".repeat(LINE_BYTES - 180))).unwrap();
    TapeEntry::new(Seq(seq), Millis(seq), "note", data)
}

type Append = dyn FnMut(&[TapeEntry]) -> Appended + Send;

/// A session's tape, and what is told of its appends.
struct Open {
    tape: Box<Append>,
    told: mpsc::Receiver<Result<Seq, TapeError>>,
    last: u64,
}

impl Open {
    fn new(store: &Postgres, name: &str) -> Open {
        let (tell, told) = mpsc::channel();
        let mut tape = store.create(&name.parse().unwrap(), Arc::new(move |result| drop(tell.send(result)))).unwrap();
        Open { tape: Box::new(move |entries| tape.append(entries)), told, last: 0 }
    }

    /// One append after the other, `each` entries in one. Returns how long each took.
    fn append(&mut self, appends: u64, each: u64) -> Vec<Duration> {
        let mut took = Vec::new();
        for _ in 0..appends {
            let entries: Vec<_> = (1..=each).map(|n| entry(self.last + n)).collect();
            let began = Instant::now();
            assert!(matches!((self.tape)(&entries), Appended::Later));
            self.told.recv().unwrap().unwrap();
            took.push(began.elapsed());
            self.last += each;
        }
        took
    }
}

fn ours(server: &server::Server, sessions: usize, appends: u64, each: u64) -> (Duration, Vec<Duration>) {
    appended(&Postgres::open(&server.database()).unwrap(), sessions, appends, each)
}

/// Beside `others` that the same node has, and that do nothing: their leases are renewed four times in two seconds.
fn beside(server: &server::Server, others: usize, sessions: usize, appends: u64) -> (Duration, Vec<Duration>) {
    let store = Postgres::open(&server.database()).unwrap();
    let made: Vec<_> = std::thread::scope(|scope| {
        let makes = |nth: usize| {
            let store = &store;
            let names = (nth..others).step_by(4).map(|n| format!("other{n}").parse().unwrap());
            scope.spawn(move || names.map(|name| store.create(&name, Arc::new(|_| ())).unwrap()).collect::<Vec<_>>())
        };
        (0..4).map(makes).collect::<Vec<_>>().into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let took = appended(&store, sessions, appends, 1);
    drop(made);
    assert!(store.settle(Duration::from_secs(60)));
    took
}

fn appended(store: &Postgres, sessions: usize, appends: u64, each: u64) -> (Duration, Vec<Duration>) {
    let began = Instant::now();
    let took = std::thread::scope(|scope| {
        let all: Vec<_> = (0..sessions)
            .map(|n| scope.spawn(move || Open::new(store, &format!("s{n}")).append(appends, each)))
            .collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    let elapsed = began.elapsed();
    assert!(store.settle(Duration::from_secs(60)));
    (elapsed, took)
}

/// A connection for each session, and one statement for each row: the lease for share, and the insert.
fn bare(server: &server::Server, sessions: usize, appends: u64) -> (Duration, Vec<Duration>) {
    let schema = server.database().schema;
    let leases = format!(
        "insert into {schema}.sessions (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
         select 's' || n, 1, 0, '', n, '', 0, '', 'infinity' from generate_series(0, {sessions}) n"
    );
    server::sql(&server.address(), &leases);
    let sql = format!(
        "with held as (select session from {schema}.sessions where session = $1 and epoch = $2 for share)
         insert into {schema}.entries select session, $3, 0, 0, '001_session-start', false, '', 0, $4 from held"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..sessions {
            let (client, connection) = tokio_postgres::connect(&server.address(), tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            clients.push((client.prepare(&sql).await.unwrap(), client));
        }
        let began = Instant::now();
        let sessions = clients.into_iter().enumerate().map(|(n, (statement, client))| {
            tokio::spawn(async move {
                let (name, line, mut took) = (format!("s{n}"), "x".repeat(LINE_BYTES), Vec::new());
                for seq in 1..=appends as i64 {
                    let began = Instant::now();
                    assert_eq!(client.execute(&statement, &[&name, &(n as i64), &seq, &line]).await.unwrap(), 1);
                    took.push(began.elapsed());
                }
                took
            })
        });
        let mut took = Vec::new();
        for session in sessions.collect::<Vec<_>>() {
            took.extend(session.await.unwrap());
        }
        (began.elapsed(), took)
    })
}

/// A connection that, if it is to, holds a transaction open which has seen the tables before.
struct Holder {
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Holder {
    fn begin(address: String, holds: bool) -> Holder {
        let (begun, is_begun) = mpsc::channel();
        let (end, ends) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&address, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                if holds {
                    client
                        .batch_execute("begin isolation level repeatable read; select count(*) from pg_class")
                        .await
                        .unwrap();
                }
                begun.send(()).unwrap();
                // Until the other end is dropped.
                let _ = ends.await;
            });
        });
        is_begun.recv().unwrap();
        Holder { end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.end.take());
        drop(self.thread.take().map(std::thread::JoinHandle::join));
    }
}

/// A session each, with leases that are renewed 20 times a second, so that rows which change are many; with `held`, under a
/// transaction that has seen the tables before.
fn under_a_snapshot(server: &server::Server, held: bool, sessions: usize, appends: u64) -> (Duration, Vec<Duration>) {
    let options = server.database().lease(Duration::from_millis(200));
    let _holder = Holder::begin(server.address(), held);
    appended(&Postgres::open(&options).unwrap(), sessions, appends, 1)
}

/// On two servers, 32 sessions hold their leases (of 2 s, as is usual) for so long; on one of them a transaction is open all that
/// time. Then both are measured in turns.
fn held_for(time: Duration) {
    let both = [("nobody holds a transaction", false), ("one is held open", true)].map(|(what, held)| {
        let server = server::Server::start_with("on");
        let store = Postgres::open(&server.database()).unwrap();
        let holder = Holder::begin(server.address(), held);
        let open: Vec<_> = (0..32).map(|n| Open::new(&store, &format!("s{n}"))).collect();
        (what, open, holder, store, server)
    });
    std::thread::sleep(time);
    let mut both = both;
    for round in 1..=10 {
        println!("round {round}");
        both.reverse();
        for (what, open, ..) in &mut both {
            let began = Instant::now();
            let took = std::thread::scope(|scope| {
                let all: Vec<_> = open.iter_mut().map(|one| scope.spawn(|| one.append(1_000, 1))).collect();
                all.into_iter().flat_map(|one| one.join().unwrap()).collect()
            });
            print(&format!("32 sessions, {what}"), 1, (began.elapsed(), took));
        }
    }
}

/// Turns of one step, one after the other in each session: from the prompt to its outcome. The model answers at once.
fn turns(builder: Builder, sessions: usize, turns: u64) -> (Duration, Vec<Duration>) {
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    threads.block_on(async {
        let model = Arc::new(Scripted::from_fn(|_| Reply::text("yes")));
        let runtime = builder.model(model).start().await.unwrap();
        let mut all = Vec::new();
        for _ in 0..sessions {
            let options = SessionOptions::new(std::env::temp_dir()).profile(Profile::Auto);
            all.push(runtime.create(options).await.unwrap());
        }
        let began = Instant::now();
        let all = all.into_iter().map(|session| {
            tokio::spawn(async move {
                let mut took = Vec::new();
                for _ in 0..turns {
                    let began = Instant::now();
                    session.prompt("go on").await.unwrap().wait().await.unwrap();
                    took.push(began.elapsed());
                }
                took
            })
        });
        let mut took = Vec::new();
        for session in all.collect::<Vec<_>>() {
            took.extend(session.await.unwrap());
        }
        let elapsed = began.elapsed();
        runtime.shutdown().await;
        (elapsed, took)
    })
}

fn print(what: &str, each: u64, (elapsed, mut took): (Duration, Vec<Duration>)) {
    took.sort();
    let (entries, p50, p99) = (took.len() as u64 * each, took[took.len() / 2], took[took.len() * 99 / 100]);
    let (a_second, max) = (entries as f64 / elapsed.as_secs_f64(), took.last().copied().unwrap_or_default());
    println!("{what:<44} {a_second:>9.0} a second   p50 {p50:>9.1?}   p99 {p99:>9.1?}   max {max:>9.1?}");
}

fn main() {
    let short = std::env::args().any(|argument| argument == "--short");
    if let Some(at) = std::env::args().position(|argument| argument == "--held") {
        let seconds = std::env::args().nth(at + 1).and_then(|seconds| seconds.parse().ok());
        return held_for(Duration::from_secs(seconds.expect("--held SECONDS")));
    }
    let size = |appends: u64| if short { appends.div_ceil(50) } else { appends };
    let server = server::Server::start_with("on");
    for round in 1..=if short { 1 } else { 3 } {
        println!("round {round}");
        for (sessions, appends) in [(1, 500), (8, 2_000), (32, 1_000)] {
            print(&format!("{sessions} sessions, one entry an append"), 1, ours(&server, sessions, size(appends), 1));
            print(&format!("{sessions} connections of bare SQL"), 1, bare(&server, sessions, size(appends)));
        }
        print("8 sessions, 32 entries an append", 32, ours(&server, 8, size(500), 32));
        for others in [0, 10_000, 30_000] {
            let others = if short { others / 500 } else { others };
            print(&format!("32 sessions beside {others} others"), 1, beside(&server, others, 32, size(4_000)));
        }
        for (what, held) in [("nobody holds a transaction", false), ("one is held open", true)] {
            print(&format!("32 sessions, {what}"), 1, under_a_snapshot(&server, held, 32, size(2_000)));
        }
        for sessions in [1, 8] {
            let postgres = Arc::new(Postgres::open(&server.database()).unwrap());
            print(
                &format!("turns, {sessions} sessions, PostgreSQL"),
                1,
                turns(Runtime::builder().tapes(postgres), sessions, size(500)),
            );
            for (what, durability) in [("files, Process", Durability::Process), ("files, Power", Durability::Power)] {
                let folder = tempfile::tempdir().unwrap();
                let builder = Runtime::builder().store(folder.path()).durability(durability);
                print(&format!("turns, {sessions} sessions, {what}"), 1, turns(builder, sessions, size(500)));
            }
        }
    }
}
