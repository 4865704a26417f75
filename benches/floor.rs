//! What a step costs beside a floor, over HTTP: a plain loop that keeps its messages in memory and supervises nothing.
//!
//! ```sh
//! cargo build --release --example peer_driver && cargo bench --bench floor
//! ```
//!
//! Both are programs of their own against one scripted server, which is a third: CPU time is that of a program alone. They run in
//! turns, so that all meet the same machine, and the medians of the rounds are compared. Ours is `examples/peer_driver.rs`:
//! supervision, the tape on the disk, a listener for each session. `--short` runs each once and small: its figures say nothing.
//!
//! Rejected: floor and runtime in one process, since then neither's memory can be told from the other's.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

#[path = "support/floor.rs"]
mod floor;

/// The programs, and the setting of the driver that each one is.
const PEERS: [(&str, Option<&str>); 3] =
    [("floor", None), ("tamtam, the floor's tool", Some("plain")), ("tamtam, `read`", Some("read"))];
/// How many medium-sized results a session reads in turn.
const FILES: usize = 8;

/// How much each peer is given.
struct Load {
    sessions: usize,
    calls: usize,
    rounds: usize,
}

/// What a run of a peer came to.
#[derive(Clone, Copy, Default)]
struct Took {
    cpu_us_a_step: f64,
    steps_a_second: f64,
    idle_kb: f64,
    held_kb: f64,
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("mock") => return floor::serve(),
        Some("peer") => return floor::run(),
        _ => {}
    }
    let short = std::env::args().any(|arg| arg == "--short" || arg == "--test");
    let loads = match short {
        true => vec![Load { sessions: 2, calls: 2, rounds: 1 }],
        false => vec![Load { sessions: 1, calls: 100, rounds: 15 }, Load { sessions: 500, calls: 10, rounds: 7 }],
    };
    let folder = tempfile::tempdir().unwrap();
    for n in 0..FILES {
        std::fs::write(folder.path().join(format!("small{n}.txt")), "one line of text\n".repeat(12)).unwrap();
    }
    let Some(driver) = driver() else {
        println!("0 passed, 1 failed: build `--example peer_driver` in the same profile first");
        std::process::exit(1);
    };
    for load in loads {
        let mut took = PEERS.map(|_| Vec::new());
        for _ in 0..load.rounds {
            for (peer, took) in PEERS.iter().zip(&mut took) {
                took.push(measure(*peer, &driver, &load, folder.path()));
            }
        }
        let medians = took.map(|took| Took {
            cpu_us_a_step: median(&took, |took| took.cpu_us_a_step),
            steps_a_second: median(&took, |took| took.steps_a_second),
            idle_kb: median(&took, |took| took.idle_kb),
            held_kb: median(&took, |took| took.held_kb),
        });
        let floor = medians[0];
        println!("{} sessions of {} calls, {} rounds in turns, medians:", load.sessions, load.calls, load.rounds);
        for ((name, _), took) in PEERS.iter().zip(medians) {
            println!(
                "  {name:26} CPU {:7.1} us a step ({:.2} x floor), {:8.0} steps/s ({:.2} x floor), idle {:6.1} kB, held {:6.1} kB a session",
                took.cpu_us_a_step,
                took.cpu_us_a_step / floor.cpu_us_a_step,
                took.steps_a_second,
                took.steps_a_second / floor.steps_a_second,
                took.idle_kb,
                took.held_kb,
            );
        }
    }
}

fn median(took: &[Took], of: impl Fn(&Took) -> f64) -> f64 {
    let mut values: Vec<f64> = took.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The program of ours, built in the same profile: `target/…/deps/floor-…` is where this one is.
fn driver() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.parent()?.join("examples/peer_driver");
    path.is_file().then_some(path)
}

/// A program that ends with its measurement, whatever that comes to.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of a peer, with a server of its own.
fn measure((_, tool): (&str, Option<&str>), driver: &Path, load: &Load, folder: &Path) -> Took {
    let this = std::env::current_exe().unwrap();
    let home = tempfile::tempdir().unwrap();
    let spawn = |command: &mut Command| Ends(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut mock = spawn(Command::new(&this).arg("mock").env("K", load.calls.to_string()));
    let mut port = String::new();
    BufReader::new(mock.0.stdout.take().unwrap()).read_line(&mut port).unwrap();

    let mut command = tool.map_or_else(|| Command::new(&this), |_| Command::new(driver));
    command.args(tool.is_none().then_some("peer")).env("MOCK_PORT", port.trim()).env("TOOL", tool.unwrap_or_default());
    command
        .env("N", load.sessions.to_string())
        .env("K", load.calls.to_string())
        .env("HOME", home.path())
        .env("WORKDIR", folder);
    let mut peer = spawn(&mut command);
    let mut lines = BufReader::new(peer.0.stdout.take().unwrap());
    let mut stdin = peer.0.stdin.take().unwrap();
    let mut phase = |name: &str| -> (f64, f64, f64) {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{name}: {line:?}"));
        assert_eq!(said["phase"], name);
        let ok = if name == "ready" { 0 } else { load.sessions };
        assert_eq!(said["ok"], ok, "{said}");
        // What the program has just freed, its allocator may still give back.
        std::thread::sleep(Duration::from_millis(20));
        let reached = (said["cpu_us"].as_f64().unwrap(), said["t"].as_f64().unwrap() / 1e9, resident_kb(peer.0.id()));
        stdin.write_all(b"\n").unwrap();
        reached
    };
    let (_, _, ready_kb) = phase("ready");
    let (cpu, began, opened_kb) = phase("opened");
    let (cpu_end, ended, done_kb) = phase("done");
    let (steps, sessions) = ((load.sessions * (load.calls + 1)) as f64, load.sessions as f64);
    Took {
        cpu_us_a_step: (cpu_end - cpu) / steps,
        steps_a_second: steps / (ended - began),
        idle_kb: (opened_kb - ready_kb) / sessions,
        held_kb: (done_kb - ready_kb) / sessions,
    }
}

fn resident_kb(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0.0)
}
