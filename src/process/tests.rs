#![allow(clippy::unwrap_used, clippy::panic)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::{
    sweep::{Target, look, sweep},
    *,
};

/// Ways of getting away that keep the environment, and one that does not.
const ESCAPES: [&str; 4] = [
    "sleep 999 &",
    "nohup sleep 999 >/dev/null 2>&1 &",
    "setsid sleep 999 >/dev/null 2>&1 &",
    "setsid sh -c '(setsid sleep 999 &) &' >/dev/null 2>&1 &",
];
const EMPTIED: &str = "env -i setsid sleep 999 >/dev/null 2>&1 &";

/// A shell command that says `ready` and runs until it is killed.
fn spec(processes: &Processes, command: &str) -> Spec {
    let tag = processes.tag();
    let limit = tag.file_size_limit().map(|limit| format!("ulimit -S -f {limit};")).unwrap_or_default();
    Spec {
        program: "/bin/sh".into(),
        arguments: ["-c".into(), format!("{limit} {command}\necho ready; sleep 999").into()].into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        folder: Folder { handle: OwnedFd::from(fs::File::open("/").unwrap()), path: "/".into() },
        tag,
        streams: Streams::Together,
        input: ProcessInput::Empty,
        confinement: None,
    }
}

async fn start(processes: &Processes, command: &str) -> Process {
    let mut process = processes.start(spec(processes, command)).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"ready\n") {
        match process.next().await {
            ProcessEvent::Output(_, bytes) => said.extend(bytes),
            event => panic!("{event:?} after {said:?}"),
        }
    }
    process
}

/// How many live processes carry a tag of that owner.
fn alive(owner: Owner) -> usize {
    look(&[&Target::new(Whose::Owner(owner))]).concat().len()
}

/// Waits until it is so; says whether it came to that within a second, as is promised of what must go. Counted in looks, with
/// 5 ms between them and as much for each: of these a machine that is held up makes fewer.
fn within_a_second(mut is_so: impl FnMut() -> bool) -> bool {
    (0..=100).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(5));
        }
        so
    })
}

fn within(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// What ends a test, also where it fails.
struct Cleaned(Owner);

impl Drop for Cleaned {
    fn drop(&mut self) {
        drop(sweep(&Whose::Owner(self.0)));
    }
}

/// Where the child of the next test finds its folder; unset in an ordinary run of the tests.
const CHILD_FOLDER: &str = "TEST_PROCESS_CHILD_FOLDER";

/// Not a separate test: the host that is killed.
#[tokio::test]
async fn child_that_is_killed_with_its_calls_running() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let watch = if folder.ends_with("unwatched") { WatchBy::Nobody } else { WatchBy::Shell };
    let processes = Processes::new(watch, Some(folder.into()));
    let mut running = Vec::new();
    for escape in ESCAPES {
        running.push(start(&processes, escape).await);
    }
    running.push(start(&processes, EMPTIED).await);
    println!("\nowner {}", processes.owner());
    std::future::pending::<()>().await;
}

/// Starts that host, kills it with SIGKILL once its calls run, and returns their owner.
fn killed_host(ledger: &Path) -> Owner {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "process::tests::child_that_is_killed_with_its_calls_running", "--nocapture"])
        .env(CHILD_FOLDER, ledger)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(host.stdout.take().unwrap()).lines();
    let owner = said.find_map(|line| Owner::parse(line.unwrap().strip_prefix("owner ")?)).unwrap();
    assert!(alive(owner) > ESCAPES.len(), "its calls run");
    host.kill().unwrap();
    host.wait().unwrap();
    owner
}

/// Promise 10, for a library host that names no watcher: after its `kill -9` nothing that keeps its environment is alive
/// within a second; the next start finds the rest.
#[test]
fn a_killed_host_is_survived_by_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let owner = killed_host(&folder.path().join("ledger"));
    let _cleaned = Cleaned(owner);
    // The script does not see what emptied its environment: `sleep` below `setsid` below `env`.
    assert!(within_a_second(|| alive(owner) <= 1), "{} are left", alive(owner));
    assert!(sweep_dead(&folder.path().join("ledger")).unwrap().killed <= 1);
    assert_eq!(alive(owner), 0);
}

/// Promise 10: what a killed host left without a watcher is ended by the next start, and no other process is.
#[tokio::test]
async fn the_next_start_ends_what_the_dead_left_and_spares_the_living() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("unwatched");
    let dead = killed_host(&ledger);
    let _cleaned = Cleaned(dead);
    assert!(alive(dead) > ESCAPES.len(), "nobody watches");
    let living = Processes::new(WatchBy::Nobody, Some(ledger.clone()));
    let mut running = start(&living, "setsid sleep 999 &").await;
    let mut stranger = tokio::process::Command::new("sleep");
    let mut stranger = stranger.arg("999").stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    fs::write(ledger.join("note"), "no owner's").unwrap();

    let swept = sweep_dead(&ledger).unwrap();
    assert!(swept.killed > ESCAPES.len() && swept.left.is_empty(), "{swept:?}");
    assert_eq!(alive(dead), 0);
    assert!(alive(living.owner()) >= 2, "its shell, and the sleep that it sent away");
    assert!(stranger.try_wait().unwrap().is_none());
    assert!(!ledger.join(dead.to_string()).exists() && ledger.join(living.owner().to_string()).exists());
    assert_eq!(sweep_dead(&ledger).unwrap(), Swept::default());

    stranger.kill().await.unwrap();
    assert!(running.end().await.left.is_empty());
    assert_eq!(living.close().await, Swept::default());
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), 1, "only the note");
    assert_eq!(sweep_dead(&folder.path().join("none")).unwrap(), Swept::default());
}

/// No watcher and no file before the first process; one of each after it; none after the close.
#[tokio::test]
async fn a_watcher_comes_with_the_first_process_and_goes_at_the_close() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let idle = Processes::new(WatchBy::Shell, Some(ledger.clone()));
    assert_eq!((idle.watcher(), idle.close().await), (None, Swept::default()));
    assert!(!ledger.exists());

    let processes = Processes::new(WatchBy::Shell, Some(ledger.clone()));
    let (first, second) = tokio::join!(start(&processes, ":"), start(&processes, "setsid sleep 999 &"));
    let watcher = processes.watcher().unwrap();
    assert!(exists(watcher));
    assert_eq!(fs::read_dir(&ledger).unwrap().count(), 1);
    // Two calls were left running: a host that shuts down leaves them no more than one that is killed.
    std::mem::forget((first, second));
    let swept = processes.close().await;
    assert!(swept.killed >= 4 && swept.left.is_empty(), "{swept:?}");
    assert!(!exists(watcher));
    assert_eq!((alive(processes.owner()), fs::read_dir(&ledger).unwrap().count()), (0, 0));
    let refused = processes.start(spec(&processes, ":")).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::NotConnected);
    assert_eq!(processes.close().await, Swept::default());
}

/// A runtime that is dropped without a shutdown is as good as dead to its watcher.
#[tokio::test]
async fn a_watcher_works_when_its_host_lets_go() {
    let processes = Processes::new(WatchBy::Shell, None);
    let owner = processes.owner();
    let _cleaned = Cleaned(owner);
    let running = start(&processes, "setsid sleep 999 &").await;
    std::mem::forget(running);
    drop(processes);
    assert!(within_a_second(|| alive(owner) == 0), "{} are left", alive(owner));
}

/// A killed watcher is replaced when the next process starts.
#[tokio::test]
async fn a_killed_watcher_is_replaced() {
    let processes = Processes::new(WatchBy::Shell, None);
    drop(start(&processes, ":").await);
    let first = processes.watcher().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(first).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let is_dead = || table::entry(i32::try_from(first).unwrap()).is_none_or(|entry| entry.is_dead);
    assert!(within_a_second(is_dead));
    drop(start(&processes, ":").await);
    let second = processes.watcher().unwrap();
    assert!(second != first && exists(second) && !exists(first), "the dead one was waited for");
    assert_eq!(processes.close().await, Swept::default());
}

/// A watcher that cannot be started holds up no call.
#[tokio::test]
async fn a_missing_watcher_program_holds_up_no_call() {
    let watch = WatchBy::Program { program: "/no/such/watcher".into(), arguments: vec![] };
    let processes = Processes::new(watch, Some("/proc/no/such/folder".into()));
    let mut running = start(&processes, ":").await;
    assert_eq!(processes.watcher(), None);
    assert!(running.end().await.left.is_empty());
    assert_eq!(processes.close().await, Swept::default());
}

/// The limit has room for a part of a tag only. Where two calls share it, their environments tell them apart.
#[tokio::test]
async fn calls_that_share_a_limit_do_not_end_each_other() {
    let processes = Processes::unwatched();
    let _cleaned = Cleaned(processes.owner());
    let one = spec(&processes, "setsid sleep 999 &");
    let twin = one.tag.twin();
    assert_eq!(one.tag.limit(), twin.limit());
    let mut running = processes.start(one).await.unwrap();
    while !matches!(running.next().await, ProcessEvent::Output(..)) {}
    // Between its `fork` and its `exec` a process has no environment to be recognized by.
    let is_sleep = |entry: &table::Entry| {
        fs::read(format!("/proc/{}/cmdline", entry.pid)).is_ok_and(|line| line.starts_with(b"sleep"))
    };
    let all = || look(&[&Target::new(Whose::Owner(processes.owner()))]).concat();
    assert!(within(Duration::from_secs(30), || all().iter().filter(|entry| is_sleep(entry)).count() == 2));
    assert_eq!(sweep(&Whose::Call(twin)), Swept::default());
    assert!(alive(processes.owner()) >= 3);
    assert!(running.end().await.left.is_empty());
    assert_eq!(alive(processes.owner()), 0);
}

/// A program that is given a pipe reads what is written to it, and sees the end of its input when that is dropped.
#[tokio::test]
async fn a_program_reads_what_is_written_to_its_input() {
    use tokio::io::AsyncWriteExt as _;
    let processes = Processes::unwatched();
    let with = |input| Spec { program: "/bin/cat".into(), arguments: Vec::new(), input, ..spec(&processes, "") };
    for (input, said) in [(ProcessInput::Pipe, b"hello".as_slice()), (ProcessInput::Empty, b"")] {
        let mut process = processes.start(with(input)).await.unwrap();
        let mut pipe = process.take_input();
        assert_eq!((pipe.is_some(), process.id().is_some()), (input == ProcessInput::Pipe, true));
        assert!(process.take_input().is_none(), "there is one");
        if let Some(pipe) = &mut pipe {
            pipe.write_all(b"hello").await.unwrap();
        }
        drop(pipe);
        let mut read = Vec::new();
        loop {
            match process.next().await {
                ProcessEvent::Output(_, bytes) => read.extend(bytes),
                ProcessEvent::Ended(status) => assert!(status.success()),
                ProcessEvent::Closed => break,
            }
        }
        assert_eq!(read, said);
    }
    assert_eq!(processes.close().await, Swept::default());
}
