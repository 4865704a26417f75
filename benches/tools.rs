//! The figures of the file tools in `docs/PERFORMANCE.md`. Prints one line a figure.
//!
//! `cargo bench --bench tools` runs all; a word after `--` picks those whose name contains it. It makes some GiB of
//! sparse and plain files in the temporary folder, and removes them. `--short` makes them a fiftieth of that, to see that each part
//! still works: its figures say nothing.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    fs,
    io::{BufWriter, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tamtam::{
    hook::Redact,
    tool::{ToolContext, ToolResult, Toolbox},
    tools,
};

#[path = "support/parts.rs"]
mod parts;
use parts::scaled;

const GIB: u64 = 1024 * 1024 * 1024;

/// Runs of each measurement; the quickest counts, because other work disturbs and never helps.
const RUNS: usize = 5;

struct Bench {
    folder: tempfile::TempDir,
    tools: Toolbox,
    tokio: tokio::runtime::Runtime,
}

impl Bench {
    fn new() -> Bench {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Bench { folder: tempfile::tempdir().unwrap(), tools: tools::full(), tokio }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        let context = ToolContext::detached(self.path().to_owned(), self.path().join(".spill"));
        let result = self.tokio.block_on(self.tools.find(tool).unwrap().run(arguments, &context));
        assert!(!result.is_error(), "{}", result.content);
        result
    }

    fn tool(&self, name: &str, tool: &str, arguments: &Value) -> Duration {
        let time = quickest(|| drop(self.call(tool, arguments.clone())));
        println!("{name}: {time:.1?}");
        time
    }

    /// Another program on the same tree, if the machine has it.
    fn other(&self, name: &str, program: &str, arguments: &[&str]) {
        let run = || {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(self.path()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status()
        };
        match run() {
            Ok(_) => println!("{name}: {:.1?}", quickest(|| drop(run()))),
            Err(_) => println!("{name}: not on this machine"),
        }
    }
}

fn quickest(mut work: impl FnMut()) -> Duration {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    times.min().unwrap()
}

/// The most memory that the process has had since `forget`, in MiB; 0 if the system does not say.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn forget_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let figures: [(&str, fn()); 6] = [
        ("small", small),
        ("tree", tree),
        ("gib", near_the_end),
        ("line", one_line),
        ("edit", edit),
        ("redact", redact),
    ];
    for (name, figure) in figures {
        if name.contains(&wanted) {
            figure();
        }
    }
}

/// Ten small files, read in turns by one session. What a call costs in system calls is the same on a busy machine: `strace -c -f` of
/// two runs with `--short` and without shows it, as the difference.
fn small() {
    let bench = Bench::new();
    fs::create_dir(bench.path().join("src")).unwrap();
    for n in 0..10 {
        fs::write(bench.path().join(format!("src/f{n}.txt")), "a line of a small file\n".repeat(20)).unwrap();
    }
    let read = bench.tools.find("read").unwrap();
    let context = ToolContext::detached(bench.path().to_owned(), bench.path().join(".spill"));
    let mut times = Vec::new();
    for n in 0..scaled(5_000) {
        let start = Instant::now();
        let result = bench.tokio.block_on(read.run(json!({ "path": format!("src/f{}.txt", n % 10) }), &context));
        times.push(start.elapsed());
        assert!(!result.is_error(), "{}", result.content);
    }
    parts::distribution("read, a small file", times);
}

/// 100,000 files in 1,000 folders, some 600 bytes each; a line in each hundredth is searched for.
fn tree() {
    let bench = Bench::new();
    for folder in 0..scaled(1_000) {
        let path = bench.path().join(format!("d{}/e{folder}", folder % 30));
        fs::create_dir_all(&path).unwrap();
        for file in 0..100 {
            let needle = if file == 50 { "the needle is here" } else { "nothing of the kind" };
            let text = format!("line of text number {file} in {folder}\n").repeat(15);
            fs::write(path.join(format!("f{file}.txt")), format!("{text}{needle}\n")).unwrap();
        }
    }
    // Once, so that every program finds the files in memory.
    bench.call("grep", json!({"pattern": "absent"}));
    forget_peak();
    let before = peak_mib();
    bench.tool("grep, 100,000 files, a word in 1,000 of them", "grep", &json!({"pattern": "needle is", "limit": 1000}));
    bench.tool("grep, the same, a word that is nowhere", "grep", &json!({"pattern": "absent"}));
    bench.tool("find, 100,000 files, 1,000 of them by name", "find", &json!({"pattern": "f50.txt", "limit": 1000}));
    bench.tool("find, the same, all of them", "find", &json!({"pattern": "*.txt", "limit": 1000}));
    println!("memory of these at most: {} MiB over {before} MiB", peak_mib().saturating_sub(before));
    bench.other("rg", "rg", &["-n", "needle is"]);
    bench.other("grep -rIn, a word in 1,000 files", "grep", &["-rIn", "needle is", "."]);
    bench.other("grep -rIn, a word that is nowhere", "grep", &["-rIn", "absent", "."]);
    bench.other("git grep --no-index -n, two threads", "git", &["grep", "--no-index", "-n", "needle is"]);
    bench.other("fd", "fd", &["f50.txt"]);
    bench.other("find -name, 1,000 of them", "find", &[".", "-name", "f50.txt"]);
    bench.other("find -name -printf %T@, all of them", "find", &[".", "-name", "*.txt", "-printf", "%T@ %p\\n"]);
}

/// A line near the end of 1 GiB of text.
fn near_the_end() {
    let bench = Bench::new();
    let line = format!("{}\n", "x".repeat(99));
    let block = line.repeat(10_000);
    let mut file = BufWriter::new(fs::File::create(bench.path().join("large.txt")).unwrap());
    let blocks = scaled(GIB) / block.len() as u64;
    for _ in 0..blocks {
        file.write_all(block.as_bytes()).unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let last = blocks * 10_000 - 5;
    forget_peak();
    let before = peak_mib();
    bench.tool(
        "read, 5 lines near the end of 1 GiB",
        "read",
        &json!({"path": "large.txt", "offset": last, "limit": 5}),
    );
    bench.tool("read, 5 lines at its beginning", "read", &json!({"path": "large.txt", "limit": 5}));
    println!("memory of these at most: {} MiB over {before} MiB", peak_mib().saturating_sub(before));
    bench.other("wc -l on the same", "wc", &["-l", "large.txt"]);
}

/// One line of 2 GiB.
fn one_line() {
    let bench = Bench::new();
    let mut file = fs::File::create(bench.path().join("line.txt")).unwrap();
    let block = "needle and hay ".repeat(70_000);
    while file.stream_position().unwrap() < scaled(2 * GIB) {
        file.write_all(block.as_bytes()).unwrap();
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    drop(file);
    forget_peak();
    let before = peak_mib();
    bench.tool("read, one line of 2 GiB", "read", &json!({"path": "line.txt"}));
    bench.tool("grep, one line of 2 GiB", "grep", &json!({"path": "line.txt", "pattern": "needle"}));
    println!("memory of these at most: {} MiB over {before} MiB", peak_mib().saturating_sub(before));
}

/// One line of a file of 10 MiB.
fn edit() {
    let bench = Bench::new();
    let text: String = (0..).map(|n| format!("line {n:08} of a large file\n")).take(10 * 1024 * 1024 / 30).collect();
    let path = bench.path().join("f.txt");
    let change = |old: &str| json!({"path": "f.txt", "old_string": old, "new_string": "changed"});
    for (name, old) in [
        ("edit, a line of 10 MiB, exact", "line 00200000 of a large file"),
        ("edit, a line of 10 MiB, folded", "line 00200000 of a large\u{a0}file"),
    ] {
        let times = (0..RUNS).map(|_| {
            fs::write(&path, &text).unwrap();
            let start = Instant::now();
            bench.call("edit", change(old));
            start.elapsed()
        });
        println!("{name}: {:.1?}", times.min().unwrap());
    }
}

/// 50 KiB of output through the redaction: source code without a key, and the same with a key on each tenth line.
fn redact() {
    let redact = Redact::new().value("a-value-of-the-host-0123456789");
    let plain = include_str!("tools.rs").repeat(16);
    let plain = &plain[..plain.floor_char_boundary(50 * 1024)];
    let key = "\nexport GITHUB_TOKEN=ghp_0123456789abcdefghijklmnopqrstuvwxyz\n";
    let keys: String = plain.lines().collect::<Vec<_>>().chunks(10).map(|lines| lines.join("\n") + key).collect();
    for (what, text) in [("without a key", plain), ("with many keys", keys.as_str())] {
        let time = quickest(|| drop(std::hint::black_box(redact.text(text))));
        println!("redact: {} KiB {what}: {time:.1?}", text.len() / 1024);
    }
}
