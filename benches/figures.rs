//! The figures of `docs/PERFORMANCE.md`: distributions, memory, recovery. Prints one line a figure.
//!
//! `cargo bench --bench figures` runs all; a word after `--` picks those whose name contains it. `--short` runs each at a fiftieth
//! of its size, to see that it still works: its figures say nothing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tamtam::{
    Delivery, Millis, Runtime, Seq, SessionId, SessionOptions, Steering,
    model::{Reply, Scripted},
    permission::Profile,
    tape::{Appended, Durability, Store, StoreOptions, TapeEntry, TapeStore as _, TapeStoreExt as _},
    tool::{Held, Tool, ToolContext},
    tools::{Bash, BashOptions, LookLimits},
};

#[path = "support/asleep.rs"]
mod asleep;
#[path = "support/fair.rs"]
mod fair;
#[path = "support/parts.rs"]
mod parts;
#[path = "support/replayed.rs"]
mod replayed;
#[path = "support/search.rs"]
mod search;
#[path = "support/swap.rs"]
mod swap;
#[path = "support/team.rs"]
mod team;
use parts::{Calls, Forever, Nothing, OneCall, distribution, micros, options, resident, runtime, scaled};

type Figure = fn(&tokio::runtime::Runtime);

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let figures: &[(&str, Figure)] = &[
        ("step", |tokio| tokio.block_on(step_overhead())),
        ("long", |tokio| tokio.block_on(long_turn())),
        ("steering", |tokio| tokio.block_on(steering())),
        ("swap", |tokio| tokio.block_on(swap::swap())),
        ("memory", |tokio| tokio.block_on(memory())),
        ("recover", |tokio| tokio.block_on(recovery())),
        ("append", |_| appends()),
        ("tape", |_| long_tape()),
        ("replay", |tokio| replayed::replay(tokio)),
        ("search", |_| search::search()),
        ("wake", |tokio| tokio.block_on(asleep::wake())),
        ("passive", |tokio| tokio.block_on(asleep::passive())),
        ("crash", |tokio| tokio.block_on(asleep::crash())),
        ("bash", |tokio| tokio.block_on(bash())),
        ("look", |tokio| tokio.block_on(look())),
        ("tree", |tokio| tokio.block_on(tree())),
        ("cold", |tokio| cold_start(tokio)),
        ("prompt", |tokio| tokio.block_on(team::prompt())),
        #[cfg(feature = "agent-files")]
        ("agents", |_| team::agents()),
        ("task", |tokio| tokio.block_on(team::task())),
        ("children", |tokio| tokio.block_on(team::children())),
        ("fair", |tokio| tokio.block_on(fair::fair())),
        ("deadline", |tokio| tokio.block_on(team::deadline())),
    ];
    for (name, figure) in figures {
        if name.contains(&wanted) {
            figure(&tokio);
        }
    }
}

/// (g) What a call of bash costs over the bare command.
async fn bash() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let tool = Bash::new(BashOptions::new([("PATH".into(), path)]));
    let context = ToolContext::detached(folder.path().to_path_buf(), folder.path().join("spill"));
    // An unasked call runs confined by the kernel, if this system can do that.
    let mut unasked = context.clone();
    unasked.held = tool.permissions().iter().any(|name| name == "confined_bash").then(|| Arc::new(Held::default()));
    // Most of what a call takes is the start of bash itself, which takes longer than that of a small `sh`.
    for _ in 0..3 {
        let (mut sh, mut bare, mut called, mut held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        // In turns, so that all meet the same machine.
        for _ in 0..scaled(200) {
            for (shell, took) in [("sh", &mut sh), ("bash", &mut bare)] {
                let started = Instant::now();
                let output = tokio::process::Command::new(shell)
                    .args(["-c", "true"])
                    .stdin(std::process::Stdio::null())
                    .output();
                assert!(output.await.unwrap().status.success());
                took.push(started.elapsed());
            }
            for (context, took) in [(&context, &mut called), (&unasked, &mut held)] {
                let started = Instant::now();
                let result = tool.run(serde_json::json!({"command": "true"}), context).await;
                assert_eq!(result.details["exit_code"], 0);
                took.push(started.elapsed());
            }
        }
        distribution("g: `sh -c true` alone", sh);
        distribution("g: `bash -c true` alone", bare);
        distribution("g: bash tool, `true`", called);
        distribution("g: bash tool, `true`, confined", held);
    }
}

/// What looking at the workspace before and after a command costs: `sh -c true` as calls of one session.
async fn look() {
    for files in [100, scaled(10_000)] {
        for (what, look) in [("not looked at", None), ("looked at", Some(LookLimits::default()))] {
            let folder = tempfile::tempdir().unwrap();
            let work = folder.path().join("work");
            for n in 0..files {
                let path = work.join(format!("d{}/f{n}", n % 100));
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "text").unwrap();
            }
            let mut bash = BashOptions::new([("PATH".into(), std::env::var_os("PATH").unwrap())]);
            bash.look = look;
            // Equal calls in a row would be a loop.
            let call = |n| Reply::call("bash", serde_json::json!({"command": format!("true {n}")}));
            let model = Scripted::new((0..40).map(call).chain([Reply::text("done")]));
            let tools = tamtam::tools::Setup::new().bash(bash).full();
            let builder = Runtime::builder().store(folder.path().join("store")).model(Arc::new(model)).tools(tools);
            let runtime = builder.start().await.unwrap();
            let session = runtime.create(SessionOptions::new(&work).profile(Profile::Auto)).await.unwrap();
            let started = Instant::now();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            let per_second = 40.0 / started.elapsed().as_secs_f64();
            println!("look: bash `true`, {files} files, {what}: {per_second:.0} calls/s");
            drop(runtime.shutdown().await);
        }
    }
}

/// (a) From one model request to the next, with one call of a tool that does nothing between them.
async fn step_overhead() {
    let folder = tempfile::tempdir().unwrap();
    let model = Calls::new(100);
    let asked = model.asked.clone();
    let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    let mut events = session.events();
    let listener = tokio::spawn(async move { while events.next().await.is_some() {} });
    let mut between = Vec::new();
    for _ in 0..scaled(30) {
        session.prompt("go").await.unwrap().wait().await.unwrap();
        let asked = std::mem::take(&mut *asked.lock().unwrap());
        between.extend(asked.windows(2).map(|pair| pair[1] - pair[0]));
    }
    distribution("a: overhead per step, Process, one listener", between);
    drop(runtime.shutdown().await);
    listener.abort();
}

/// (b) Step 10, 100 and 1,000 of one turn.
async fn long_turn() {
    let folder = tempfile::tempdir().unwrap();
    let model = Calls::new(scaled(1_100));
    let asked = model.asked.clone();
    let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
    let session = runtime.create(options(folder.path())).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let between: Vec<_> = asked.lock().unwrap().windows(2).map(|pair| pair[1] - pair[0]).collect();
    for at in [10_usize, 100, 1_000].into_iter().filter(|at| *at < between.len()) {
        let near = between[at.saturating_sub(5)..(at + 50).min(between.len())].to_vec();
        distribution(&format!("b: steps around {at} of one turn"), near);
    }
    drop(runtime.shutdown().await);
}

/// (c) A steering message: accepted on the tape, and the running call stopped.
async fn steering() {
    for live in [1_usize, scaled(1_000)] {
        let folder = tempfile::tempdir().unwrap();
        let tool = Forever::default();
        let (began, told) = (tool.began.clone(), tool.told.clone());
        let mut expected = u32::try_from(live).unwrap();
        let model = OneCall("bench/one".parse().unwrap());
        let runtime = runtime(folder.path(), Arc::new(model), tool).await;
        let mut sessions = Vec::new();
        for _ in 0..live {
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap();
            sessions.push(session);
        }
        let (mut accepted, mut stopped) = (Vec::new(), Vec::new());
        for _ in 0..(scaled(1_000) / live).max(1) {
            for session in &sessions {
                // All calls run: a call stopped before it began could not report that.
                while began.load(Ordering::SeqCst) < expected {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let sent = Instant::now();
                session.send("stop", Delivery::Steer(Steering::AbortRunning)).await.unwrap();
                accepted.push(sent.elapsed());
                loop {
                    if let Some(at) = told.lock().unwrap().pop() {
                        stopped.push(at - sent);
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                session.wait().await.unwrap();
                if live == 1 {
                    session.prompt("go").await.unwrap();
                    expected += 1;
                }
            }
        }
        distribution(&format!("c: steering accepted on the tape, {live} live"), accepted);
        distribution(&format!("c: running call told to stop, {live} live"), stopped);
        drop(runtime.shutdown().await);
    }
}

/// (d) Memory of a live idle session that has answered one prompt.
async fn memory() {
    for count in [scaled(1_000_u64), scaled(10_000)] {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(folder.path(), Arc::new(Calls::new(1)), Nothing).await;
        let warm = runtime.create(options(folder.path())).await.unwrap();
        warm.prompt("go").await.unwrap().wait().await.unwrap();
        let before = resident();
        let start = Instant::now();
        let mut sessions = Vec::new();
        for _ in 0..count {
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            sessions.push(session);
        }
        let each = (resident().saturating_sub(before)) / count;
        let took = start.elapsed() / u32::try_from(count).unwrap();
        println!(
            "d: memory per live idle session, {count} live: {each} bytes; created, prompted and answered in {} each",
            micros(took)
        );
        drop(runtime.shutdown().await);
    }
}

/// (e) Opening a session of about 1,000 entries until its handle is returned.
async fn recovery() {
    let folder = tempfile::tempdir().unwrap();
    let id: SessionId = "long".parse().unwrap();
    let rt = runtime(folder.path(), Arc::new(Calls::new(200)), Nothing).await;
    let session = rt.create(options(folder.path()).id(id.clone())).await.unwrap();
    session.prompt("go").await.unwrap().wait().await.unwrap();
    let entries = session.state().await.unwrap().seq;
    drop(rt.shutdown().await);
    drop((session, rt));
    let mut took = Vec::new();
    for _ in 0..scaled(50) {
        let rt = runtime(folder.path(), Arc::new(Calls::new(200)), Nothing).await;
        let start = Instant::now();
        let session = rt.open(&id).await.unwrap();
        took.push(start.elapsed());
        drop(rt.shutdown().await);
        drop((session, rt));
    }
    distribution(&format!("e: open and rebuild a session of {entries} entries"), took);

    let rt = runtime(folder.path(), Arc::new(Calls::new(200)), Nothing).await;
    rt.open(&id).await.unwrap();
    let mut took = Vec::new();
    for _ in 0..scaled(50) {
        let start = Instant::now();
        rt.operate().restart(id.as_str()).await.unwrap();
        rt.session(&id).state().await.unwrap();
        took.push(start.elapsed());
    }
    distribution(&format!("e: restart its actor, {entries} entries"), took);
    drop(rt.shutdown().await);
}

/// (t) What an operator sees of 10,000 live sessions.
async fn tree() {
    let live = scaled(10_000);
    let folder = tempfile::tempdir().unwrap();
    let rt = runtime(folder.path(), Arc::new(Calls::new(1)), Nothing).await;
    for _ in 0..live {
        rt.create(options(folder.path())).await.unwrap();
    }
    let (mut taken, mut written, mut counted) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..scaled(30) {
        let start = Instant::now();
        let tree = rt.tree();
        taken.push(start.elapsed());
        assert_eq!(tree.find("sessions").unwrap().children.len(), live);
        let start = Instant::now();
        assert!(tree.to_string().lines().count() > live);
        written.push(start.elapsed());
        let start = Instant::now();
        assert_eq!(rt.count().sessions, live);
        counted.push(start.elapsed());
    }
    distribution(&format!("t: tree, {live} sessions"), taken);
    distribution("t: the same as text", written);
    distribution(&format!("t: count, {live} sessions"), counted);
    drop(rt.shutdown().await);
}

/// (f) Appends a second over 100 sessions, one entry of about 300 bytes an append.
fn appends() {
    for (durability, each) in [(Durability::Process, scaled(200_u64)), (Durability::Power, scaled(20))] {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions::default().durability(durability);
        let store = Store::open(folder.path(), options).unwrap();
        let (tx, settled) = std::sync::mpsc::channel();
        let mut tapes: Vec<_> = (0..100)
            .map(|_| {
                let tx = tx.clone();
                store.create(&SessionId::new(), Arc::new(move |result| drop(tx.send(result)))).unwrap()
            })
            .collect();
        let start = Instant::now();
        let mut later = 0;
        for seq in 1..=each {
            for tape in &mut tapes {
                match tape.append(&[entry(seq)]) {
                    Appended::Now(result) => drop(result.unwrap()),
                    Appended::Later => later += 1,
                }
            }
            // Each session waits for its own entry before it writes the next, as sessions do.
            for _ in 0..std::mem::take(&mut later) {
                settled.recv().unwrap().unwrap();
            }
        }
        let total = each * 100;
        let rate = total as f64 / start.elapsed().as_secs_f64();
        println!("f: appends over 100 sessions, {durability:?}: {rate:.0} entries/s ({total} entries)");
        drop(tapes);
        store.close(Duration::from_secs(10)).unwrap();
    }
}

/// (u) A session of 100,000 entries of about 300 bytes (`TAMTAM_ENTRIES`): how fast all of it is read, how long opening it takes
/// from an anchor 1,000 entries back, and what forks of it take in time and on the disk.
fn long_tape() {
    let entries: u64 = std::env::var("TAMTAM_ENTRIES").ok().and_then(|n| n.parse().ok()).unwrap_or(scaled(100_000));
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let deaf = || -> tamtam::tape::Notify { Arc::new(|_| {}) };
    let id = SessionId::new();
    let mut tape = store.create(&id, deaf()).unwrap();
    let anchor = entries.saturating_sub(1_000).max(2);
    for seq in 1..=entries {
        let appended = match seq == anchor {
            true => tape.begin_anchor("newest", &entry(seq)),
            false => tape.append(&[entry(seq)]),
        };
        if let Appended::Later = appended {
            assert!(store.settle(Duration::from_secs(10)));
        }
    }
    drop(tape);
    let start = Instant::now();
    assert_eq!(store.read(&id, Seq::ZERO).unwrap().len() as u64, entries);
    let rate = entries as f64 / start.elapsed().as_secs_f64();
    println!("u: entries read and checked: {rate:.0} entries/s ({entries} entries)");
    let opened = (0..20).map(|_| {
        let start = Instant::now();
        drop(store.load(&id, deaf()).unwrap());
        start.elapsed()
    });
    distribution("u: open, from the newest anchor", opened.collect());
    let forks = scaled(1_000);
    let places: Vec<u64> = (0..forks).map(|n| 1 + n * (entries - 1) / forks).collect();
    let forked = places.iter().map(|at| {
        let start = Instant::now();
        store.fork(&id, Some(Seq(*at)), &SessionId::new(), Millis(1_700_000_000_000)).unwrap();
        start.elapsed()
    });
    distribution("u: fork, at any of its entries", forked.collect());
    let bytes: u64 = store.list().unwrap().iter().filter(|one| one.id != id).map(|one| one.bytes).sum();
    println!("u: tape of a fork: {} bytes ({forks} forks)", bytes / forks);
    store.close(Duration::from_secs(10)).unwrap();
}

fn entry(seq: u64) -> TapeEntry {
    let data = serde_json::json!({ "text": "x".repeat(150), "n": seq });
    let data = serde_json::value::to_raw_value(&data).unwrap();
    let mut entry = TapeEntry::new(Seq(seq), Millis(1_700_000_000_000), "note", data);
    (entry.turn, entry.step) = (Some(Seq(1)), Some(1));
    entry
}

/// (g) From nothing to the first request: a runtime on a new store. For the program, see the bench `start` of its crate.
fn cold_start(tokio: &tokio::runtime::Runtime) {
    let library = tokio.block_on(async {
        let mut starts = Vec::new();
        for _ in 0..scaled(50) {
            let folder = tempfile::tempdir().unwrap();
            let model = Calls::new(1);
            let asked = model.asked.clone();
            let began = Instant::now();
            let runtime = runtime(folder.path(), Arc::new(model), Nothing).await;
            let session = runtime.create(options(folder.path())).await.unwrap();
            session.prompt("go").await.unwrap().wait().await.unwrap();
            starts.push(asked.lock().unwrap()[0] - began);
            drop(runtime.shutdown().await);
        }
        starts
    });
    distribution("g: from Runtime::builder() on a new store to the first request", library);
}
