//! The rows of the bench `growth`: what is grown, what is asked then, and how much more that may cost.
#![allow(unreachable_pub, reason = "a part of one bench")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tamtam::{
    Runtime, Seq, Session, SessionOptions,
    model::{Reply, Scripted},
    ops::SessionQuery,
};

use crate::{
    counted,
    parts::{Calls, Nothing, options, runtime},
    stepped,
};

/// The work of one look-up.
#[derive(Clone, Copy, Default)]
struct Cost {
    bytes: u64,
    reads: u64,
    allocations: u64,
    took: Duration,
}

/// How many times the cost of its reference size a row may cost at most at any larger size. The reference is the smallest size of 1,000
/// or more for rows about entries, and the smallest of all for the others.
fn bound(row: &str, size: u64) -> f64 {
    match row {
        // Before the conversation is long, an anchor lies a thousand entries back.
        "wake" | "fork" | "events_after(last - 10)" | "messages_before(20)" | "messages_before(20), asleep"
            if size <= 3_000 =>
        {
            2.0
        }
        // Reads from the newest anchor on, and in the anchor the conversation that the model has: as much as fits its window, however
        // long the tape is. This model's window takes some 30,000 entries of such small steps.
        "wake" | "fork" | "events_after(last - 10)" | "messages_before(20)" | "messages_before(20), asleep" => 12.0,
        // The answer has a line for each request. Those of the reference size are a hundredth of the largest.
        "bill, again" => 110.0,
        // Two binary searches in the parent's tape: they grow with the logarithm of its length.
        "down of an old child" => 3.0,
        // Its answer has all sessions.
        "list()" => 110.0,
        "a call of one answer" | "a step beside labels" | "a step beside listeners" | "a step beside hooks" => 1.3,
        _ => 1.5,
    }
}

/// The group of a row, and its name.
type Row = (usize, &'static str);

#[derive(Default)]
pub struct Table {
    /// By row, and by size.
    rows: Mutex<BTreeMap<Row, BTreeMap<u64, Cost>>>,
}

fn read_so_far() -> (u64, u64) {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (field("rchar:"), field("syscr:"))
}

impl Table {
    /// Does the look-up five times, and keeps its smallest counts: what else the process does only adds to them.
    pub async fn look<T>(&self, group: usize, row: &'static str, size: u64, work: impl AsyncFnMut() -> T) {
        self.look_at_each(group, row, size, 1, work).await;
    }

    /// The same for work that does something so many times: counts what each costs.
    pub async fn look_at_each<T>(
        &self,
        group: usize,
        row: &'static str,
        size: u64,
        times: u64,
        mut work: impl AsyncFnMut() -> T,
    ) {
        let mut least: Option<Cost> = None;
        for _ in 0..5 {
            let (before, reading, start) = (counted::so_far().0, read_so_far(), Instant::now());
            let answer = work().await;
            let took = start.elapsed();
            let (after, read) = (counted::so_far().0, read_so_far());
            drop(answer);
            let cost = Cost {
                bytes: (read.0 - reading.0) / times,
                reads: (read.1 - reading.1) / times,
                allocations: (after - before) / times,
                took: took / u32::try_from(times).unwrap(),
            };
            least = Some(least.map_or(cost, |least| Cost {
                bytes: least.bytes.min(cost.bytes),
                reads: least.reads.min(cost.reads),
                allocations: least.allocations.min(cost.allocations),
                took: least.took.min(cost.took),
            }));
        }
        self.rows.lock().unwrap().entry((group, row)).or_default().insert(size, least.unwrap_or_default());
    }

    /// Prints the table, and returns how many rows grow faster than their bound.
    fn judge(&self) -> usize {
        let mut failed = 0;
        println!("{:34} {:>8} {:>12} {:>7} {:>11} {:>12}", "", "size", "bytes read", "reads", "allocations", "time");
        for ((group, row), sizes) in &*self.rows.lock().unwrap() {
            for (size, Cost { bytes, reads, allocations, took }) in sizes {
                let took = took.as_secs_f64() * 1e3;
                println!("{row:34} {size:>8} {bytes:>12} {reads:>7} {allocations:>11} {took:>9.2} ms");
            }
            let from = if *group == 1 { 1_000 } else { 0 };
            let Some((size, small)) = sizes.range(from..).next() else { continue };
            for (larger, large) in sizes.range(size + 1..) {
                let bound = bound(row, *larger);
                // A step or a call has few of them.
                let grain = match (*group, *row) {
                    (5 | 6, _) => 1,
                    // The index may or may not get to look at its database before the runtime ends: about 940 allocations.
                    (_, "start and shutdown") => 2_048,
                    _ => 256,
                };
                let counts = [
                    ("bytes", small.bytes, large.bytes, 64 * 1024),
                    ("reads", small.reads, large.reads, 16),
                    ("allocations", small.allocations, large.allocations, grain),
                ];
                for (what, small, large, grain) in counts {
                    // Below the grain a count says nothing about growth. A search in a longer file reads at a few more places.
                    let bound = if what == "reads" { 2.0 * bound } else { bound };
                    if large as f64 > bound * small.max(grain) as f64 {
                        eprintln!(
                            "{row}: {large} {what} at {larger}, and {small} at {size}: the bound is {bound} times"
                        );
                        failed += 1;
                    }
                }
            }
        }
        failed
    }
}

pub async fn run(wanted: &str) -> usize {
    let short = std::env::args().any(|arg| arg == "--short");
    let table = Table::default();
    let is_wanted = |group: &str| group.contains(wanted);
    if is_wanted("entries") {
        for size in if short { vec![100, 1_000, 3_000] } else { vec![100, 1_000, 10_000, 30_000, 100_000] } {
            entries(&table, size).await;
        }
    }
    if is_wanted("children") {
        for size in if short { vec![40, 100] } else { vec![40, 300, 1_000] } {
            children(&table, size).await;
        }
    }
    if is_wanted("sessions") {
        for size in if short { vec![100, 300] } else { vec![100, 1_000, 10_000] } {
            sessions(&table, size).await;
        }
    }
    if is_wanted("beside") {
        stepped::beside(&table, short).await;
    }
    if is_wanted("calls") {
        stepped::calls(&table, short).await;
    }
    if is_wanted("tasks") {
        stepped::tasks(&table, short).await;
    }
    table.judge()
}

/// A session whose tape has at least that many entries, in turns of ten steps.
async fn grown(folder: &Path, entries: u64) -> (Runtime, Session) {
    let runtime = runtime(folder, Arc::new(Calls::new(10)), Nothing).await;
    let session = runtime.create(options(folder)).await.unwrap();
    while session.state().await.unwrap().seq < Seq(entries) {
        session.prompt("go").await.unwrap().wait().await.unwrap();
    }
    (runtime, session)
}

async fn entries(table: &Table, size: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, session) = grown(folder.path(), size).await;
    let last = session.state().await.unwrap().seq;
    table.look(1, "messages_before(20)", size, async || session.messages_before(None, 20).await.unwrap()).await;
    table
        .look(1, "events_after(last - 10)", size, async || session.events_after(Seq(last.0 - 10)).await.unwrap())
        .await;
    table.look(1, "bill, again", size, async || session.bill().await.unwrap()).await;
    table.look(1, "fork", size, async || session.fork(last).await.unwrap()).await;
    let asleep = async || {
        while runtime.passivate(session.id()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    table
        .look(1, "wake", size, async || {
            asleep().await;
            session.state().await.unwrap()
        })
        .await;
    asleep().await;
    table.look(1, "messages_before(20), asleep", size, async || session.messages_before(None, 20).await.unwrap()).await;
    drop(runtime.shutdown().await);
}

async fn children(table: &Table, size: u64) {
    let folder = tempfile::tempdir().unwrap();
    let model = Scripted::from_fn(|_| Reply::text("done"));
    let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).with_tasks();
    let runtime = builder.start().await.unwrap();
    let mut wide = options(folder.path());
    wide.task_width_max = Some(usize::try_from(size).unwrap() + 1);
    let parent = runtime.create(wide).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..size {
        let mut child = SessionOptions::new(folder.path());
        child.title = Some("child".into());
        held.push(parent.spawn_child(child, "go", tamtam::session::Link::ATTACHED).await.unwrap());
    }
    while parent.state().await.unwrap().tasks().next().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut next = held.iter();
    // The first one reads the tape.
    next.next().unwrap().down().await.unwrap();
    table.look(2, "down of an old child", size, async || next.next().unwrap().down().await.unwrap()).await;
    drop(runtime.shutdown().await);
}

async fn sessions(table: &Table, size: u64) {
    let folder = tempfile::tempdir().unwrap();
    let rt = runtime(folder.path(), Arc::new(Calls::new(1)), Nothing).await;
    let mut held = Vec::new();
    for _ in 0..size {
        let session = rt.create(options(folder.path())).await.unwrap();
        session.prompt("go").await.unwrap().wait().await.unwrap();
        held.push(session);
    }
    let mut all = SessionQuery::default();
    all.wait = Duration::from_secs(600);
    rt.sessions(all).await.unwrap();
    table.look(3, "sessions(page)", size, async || rt.sessions(SessionQuery::default()).await.unwrap()).await;
    table.look(3, "list()", size, async || rt.list().await.unwrap()).await;
    table.look(3, "inspect of one", size, async || rt.inspect(held[0].id().as_str()).unwrap()).await;
    for session in &held {
        while rt.passivate(session.id()).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
    table.look(4, "create beside passive ones", size, async || rt.create(options(folder.path())).await.unwrap()).await;
    drop(rt.shutdown().await);
    table
        .look(4, "start and shutdown", size, async || {
            let rt = runtime(folder.path(), Arc::new(Calls::new(1)), Nothing).await;
            drop(rt.shutdown().await);
        })
        .await;
}
