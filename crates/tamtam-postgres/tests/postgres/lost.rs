//! A node learns that a session is another's by now: a running call ends, who waits is told who has it, and nothing more is written.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tamtam::{
    OpenError, Runtime, SendError,
    model::BoxFuture,
    session::Record,
    tape::TapeError,
    tool::{Tool, ToolContext, ToolResult},
};
use tamtam_postgres::PostgresOptions;

use crate::{
    ownership::rows,
    processes::{CHILD, Process},
    server::{Proxy, shared, sql},
    sessions::{
        harness::{count, seen, until},
        node,
    },
};

/// A call that works until it is ended: each tick is an effect.
#[derive(Clone, Default)]
struct Ticks {
    ticks: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    prints: bool,
}

struct Ended(Ticks);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        if self.0.prints {
            println!("told ended");
        }
    }
}

impl Tool for Ticks {
    fn name(&self) -> &str {
        "ticks"
    }

    fn description(&self) -> &str {
        "Works without an end."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let _ended = Ended(self.clone());
            loop {
                self.ticks.fetch_add(1, Ordering::SeqCst);
                if self.prints {
                    println!("told tick");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }
}

async fn on_tape(options: &PostgresOptions) -> Vec<u64> {
    let schema = options.schema.clone();
    tokio::task::spawn_blocking(move || rows(&schema, "s")).await.unwrap()
}

/// The heartbeat finds another owner while nothing is appended: the call ends without a result, the waiting sender is told, and the
/// next one too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_lost_in_mid_call_comes_to_rest() {
    let options = shared().database().lease(Duration::from_millis(400));
    let (one, ticks) = (node(&options, "one"), Ticks::default());
    let runtime = one.builder().tool(ticks.clone()).start().await.unwrap();
    let session = runtime.create(one.options()).await.unwrap();
    let receipt = session.prompt("call ticks").await.unwrap();
    until("the call runs", || ticks.ticks.load(Ordering::SeqCst) > 0).await;
    let before = on_tape(&options).await;
    let waits = tokio::spawn(async move { receipt.wait().await });

    let stolen = crate::ownership::stolen(&options.schema);
    tokio::task::spawn_blocking(move || sql(&shared().address(), &stolen)).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(60), waits).await.expect("who waits is told");
    let SendError::Storage(TapeError::Claimed { by, .. }) = told.unwrap().unwrap_err() else {
        panic!("it is another's")
    };
    assert_eq!(by.owner, "thief");
    until("the session is at rest", || !session.is_awake()).await;
    until("the call is ended", || ticks.ended.load(Ordering::SeqCst) == 1).await;
    let SendError::Unavailable(error) = session.prompt("here").await.unwrap_err() else { panic!("it is another's") };
    assert!(matches!(*error, OpenError::Tape(TapeError::Claimed { .. })), "{error}");
    assert_eq!(on_tape(&options).await, before);
    assert!(runtime.shutdown().await.is_empty());
}

/// The network between the owner and the server is cut for longer than its lease, in the middle of a call: another node closes the
/// call and goes on. When the network is mended the owner hears who has the session, its call ends, and nothing of it is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_cut_off_from_the_server_ends_its_work_when_it_hears() {
    let options = shared().database().lease(Duration::from_millis(400));
    let proxy = Proxy::start(shared());
    let cut_off = PostgresOptions::new(proxy.address()).schema(&options.schema).lease(options.lease);
    let (one, ticks) = (node(&cut_off, "one"), Ticks::default());
    let runtime = one.builder().tool(ticks.clone()).start().await.unwrap();
    let session = runtime.create(one.options()).await.unwrap();
    let receipt = session.prompt("call ticks").await.unwrap();
    until("the call runs", || ticks.ticks.load(Ordering::SeqCst) > 0).await;
    let waits = tokio::spawn(async move { receipt.wait().await });

    proxy.part();
    let two = node(&options, "two");
    let (second, _) = two.start().await;
    let there = taken_over(&second).await;
    there.wait().await.unwrap();
    assert_eq!(count(&there, |record| matches!(record, Record::TurnFinished { .. })).await, 1);
    let before = on_tape(&options).await;
    assert_eq!(ticks.ended.load(Ordering::SeqCst), 0, "nobody told it yet");

    proxy.mend();
    let told = tokio::time::timeout(Duration::from_secs(60), waits).await.expect("who waits is told");
    let SendError::Storage(TapeError::Claimed { by, .. }) = told.unwrap().unwrap_err() else {
        panic!("it is another's")
    };
    assert_eq!(by.host, "two");
    until("the session is at rest", || !session.is_awake()).await;
    until("the call is ended", || ticks.ended.load(Ordering::SeqCst) == 1).await;
    assert_eq!(on_tape(&options).await, before);
    assert!(runtime.shutdown().await.is_empty());
    assert!(second.shutdown().await.is_empty());
}

/// The process of the test below: one call that works, until the session is lost. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let (address, schema) = at.split_once('\n').unwrap();
    let options = PostgresOptions::new(address).schema(schema).lease(Duration::from_secs(1));
    let (engine, ticks) = (node(&options, "child"), Ticks { prints: true, ..Ticks::default() });
    let runtime = engine.builder().tool(ticks.clone()).start().await.unwrap();
    let session = runtime.create(engine.options()).await.unwrap();
    let error = session.prompt("call ticks").await.unwrap().wait().await.unwrap_err();
    println!("told {error}");
    until("the session is at rest", || !session.is_awake() && ticks.ended.load(Ordering::SeqCst) == 1).await;
    println!("told at rest");
    let error = session.prompt("here").await.unwrap_err();
    println!("told {error}");
    assert!(runtime.shutdown().await.is_empty());
}

/// `SIGSTOP` of the owner in the middle of a call, for longer than its lease: another node closes the call as of unknown outcome and
/// goes on. After `SIGCONT` the call ends, nothing of the first owner is written, and its sender gets no answer of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stood_still_in_mid_call_begins_and_writes_nothing_more() {
    let options = shared().database();
    let mut process = Process::of("lost::child", &options);
    let mut process = tokio::task::spawn_blocking(move || {
        assert_eq!(process.hear(u64::MAX).as_deref(), Some("tick"));
        process.signal("-STOP");
        process
    })
    .await
    .unwrap();
    let two = node(&options, "two");
    let (second, _) = two.start().await;
    let session = taken_over(&second).await;
    session.go_on().await.unwrap();
    session.wait().await.unwrap();
    assert_eq!(count(&session, |record| matches!(record, Record::TurnFinished { .. })).await, 1);
    let (before, said) = (on_tape(&options).await, seen(&session).await);

    let told = tokio::task::spawn_blocking(move || {
        process.signal("-CONT");
        std::iter::from_fn(|| process.hear(u64::MAX)).collect::<Vec<_>>()
    });
    let told = told.await.unwrap();
    let told: Vec<_> = told.iter().skip_while(|line| *line == "tick").collect();
    let rest = told.iter().position(|line| *line == "at rest").expect("it came to rest");
    assert!(told[..rest].iter().any(|line| *line == "ended"), "{told:?}");
    assert!(told[..rest].iter().any(|line| line.contains("session s is in use by")), "{told:?}");
    assert!(told[rest + 1].contains("session s is in use by"), "{told:?}");
    assert_eq!(told.len(), rest + 2, "no tick after it: {told:?}");
    assert_eq!((on_tape(&options).await, seen(&session).await), (before, said));
    assert!(second.shutdown().await.is_empty());
}

/// The session, once its lease is over.
pub(crate) async fn taken_over(runtime: &Runtime) -> tamtam::Session {
    loop {
        match runtime.open(&"s".parse().unwrap()).await {
            Ok(session) => return session,
            Err(OpenError::Tape(TapeError::Claimed { .. } | TapeError::Busy { .. })) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
}
