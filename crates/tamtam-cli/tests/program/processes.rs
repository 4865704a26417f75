//! Promise 10, seen from outside: the end of the processes of calls when the host is killed, and when calls are
//! aborted.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tamtam::{
    tool::{Tool, ToolContext},
    tools::{
        Bash, BashOptions,
        process::{Processes, Whose, sweep},
    },
};

use crate::support::{
    marked::Mark,
    tamtam::{Tamtam, event, once},
    taped,
};

/// Looks, with 5 ms between them and as much for each, after which nothing may be left of a host that was killed: a second, on a
/// machine that is not held up itself.
const GONE_LOOKS: usize = 100;

/// Ways of getting away. Each writes the id of what stays behind to a file of its own.
const ESCAPES: [&str; 6] = [
    "bash -c 'echo $$ > background.pid; exec sleep 999' &",
    "nohup bash -c 'echo $$ > nohup.pid; exec sleep 999' >/dev/null 2>&1 &",
    "setsid bash -c 'echo $$ > setsid.pid; exec sleep 999' >/dev/null 2>&1 &",
    "setsid bash -c '(setsid bash -c \"echo \\$\\$ > double.pid; exec sleep 999\" &) &' >/dev/null 2>&1 &",
    "env -i setsid bash -c 'echo $$ > emptied.pid; exec sleep 999' >/dev/null 2>&1 &",
    "setsid bash -c 'trap \"\" TERM HUP INT; echo $$ > stubborn.pid; while :; do sleep 1; done' >/dev/null 2>&1 &",
];

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

/// Whether nothing was left at one of these looks.
fn is_gone<T>(mut left: impl FnMut() -> Vec<T>) -> bool {
    (0..=GONE_LOOKS).any(|_| {
        let gone = left().is_empty();
        if !gone {
            std::thread::sleep(Duration::from_millis(5));
        }
        gone
    })
}

/// The ids in the files of a folder whose names end in `.pid`.
fn pids(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "pid"));
    files.map(|file| fs::read_to_string(file).unwrap().trim().to_owned()).filter(|pid| !pid.is_empty()).collect()
}

/// Whether a process is there and is more than its entry in the table.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_some_and(|end| !stat[end..].starts_with(") Z"))
}

/// A `tamtam run` with a call that has tried everything to get away and still runs.
struct Host {
    folder: taped::Folder,
    mark: Mark,
    host: Tamtam,
    pids: Vec<String>,
}

const SESSION: &str = "s";

impl Host {
    fn start() -> Host {
        let folder = taped::folder();
        let home = folder.path();
        fs::create_dir(home.join("work")).unwrap();
        let command = format!("{}\nsleep 999", ESCAPES.join("\n"));
        let script = json!({"replies": [
            {"calls": [{"name": "bash", "input": {"command": command}}]},
            {"expect": ["outcome is unknown"], "text": "I know."},
        ]});
        fs::write(home.join("script.json"), script.to_string()).unwrap();
        let mark = Mark::new();
        // Such commands are not understood, so a person would be asked.
        let rule = json!({"permission": "unclear_bash", "pattern": "*", "action": "allow"});
        fs::write(home.join("rules"), rule.to_string()).unwrap();
        let run = ["run", "--json", "--session", SESSION, "--permission", "auto", "--rules", "rules"];
        let run = [&run[..], &["--workspace", "work"]].concat();
        let run = [&run[..], &["--store", "store", "--model", "scripted:script.json", "go"]].concat();
        let mut host = Tamtam::start(&run, home, &mark, &[]);
        host.until("the call", |line| event(line) == "call_started");
        let all_there = within(Duration::from_secs(30), || pids(&home.join("work")).len() == ESCAPES.len());
        assert!(all_there, "{:?}", pids(&home.join("work")));
        let pids = pids(&home.join("work"));
        assert!(pids.iter().all(|pid| lives(pid)));
        Host { folder, mark, host, pids }
    }

    /// The children of the host that are watchers.
    fn watchers(&self) -> Vec<i32> {
        let is_watcher = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("__watch")
        };
        let children = fs::read_dir(format!("/proc/{}/task", self.host.pid())).unwrap();
        let children =
            children.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default());
        children
            .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
            .filter(is_watcher)
            .collect()
    }

    /// Those of the processes that got away which are alive.
    fn alive(&self) -> Vec<&String> {
        self.pids.iter().filter(|pid| lives(pid)).collect()
    }

    /// Another `tamtam` goes on with the session, to its end.
    fn resume(&self) {
        let resume = ["resume", SESSION, "--json", "--store", "store", "--model", "scripted:script.json"];
        let (code, said) = once(&resume, self.folder.path(), &self.mark);
        assert_eq!(code, Some(0), "{said}");
    }
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// Promise 10, design §6, R5, nasty case 7: after `kill -9` of the binary nothing of its calls is alive within a second,
/// and neither is the watcher.
#[test]
fn a_killed_tamtam_is_survived_by_nothing() {
    let host = Host::start();
    assert_eq!(host.watchers().len(), 1);
    kill(i32::try_from(host.host.pid()).unwrap());
    assert!(is_gone(|| host.alive()), "{:?}", host.alive());
    let left = || host.mark.processes(host.host.pid());
    assert!(is_gone(left), "{:?}", left());
    // The ledger still names it, for nobody could strike it out; the next start does.
    let ledger = || fs::read_dir(host.folder.path().join("store/processes")).unwrap().count();
    assert_eq!(ledger(), 1);
    host.resume();
    assert_eq!(ledger(), 0);
}

/// Promise 10: where the watcher was killed first, the next start ends what is left, before the session goes on.
#[test]
fn the_next_start_of_tamtam_ends_what_nobody_watched() {
    let mut host = Host::start();
    host.watchers().into_iter().for_each(kill);
    kill(i32::try_from(host.host.pid()).unwrap());
    // While its threads are still ending, its lock says that it lives.
    assert!(within(Duration::from_secs(30), || !host.host.runs()));
    assert_eq!(host.alive().len(), ESCAPES.len(), "nobody is there to end them");
    host.resume();
    assert_eq!(host.alive(), Vec::<&String>::new());
    assert_eq!(host.mark.processes(host.host.pid()), Vec::<u32>::new());
}

/// How many calls are aborted; the whole number is that of issue 3, must show 7.
fn calls() -> usize {
    std::env::var("TAMTAM_ABORTS").ok().map_or(60, |text| text.parse().unwrap())
}

/// Issue 3 "must show" 7: many calls at once, each of which backgrounds, `setsid`s, `nohup`s and double-forks, are aborted:
/// no process is left after a second. 1,000 with `TAMTAM_ABORTS=1000` (docs/OPERATIONS.md).
#[test]
fn aborted_calls_leave_no_process() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let folder = taped::folder();
        let processes = Processes::unwatched();
        let owner = processes.owner();
        let path = std::env::var_os("PATH").unwrap();
        let bash = Arc::new(Bash::new(BashOptions::new([("PATH".into(), path)])));
        // So many at a time as a machine has room for.
        let (calls, at_once) = (calls(), 100);
        let (mut longest, mut all) = (Duration::ZERO, 0);
        for first in (0..calls).step_by(at_once) {
            let running: Vec<_> = (first..calls.min(first + at_once))
                .map(|nth| {
                    let workspace: PathBuf = folder.path().join(nth.to_string());
                    fs::create_dir(&workspace).unwrap();
                    let mut context = ToolContext::detached(workspace, folder.path().join("spill"));
                    context.processes = processes.clone();
                    let (bash, cancel) = (bash.clone(), context.clone());
                    let escape = format!("{}\n{}", ESCAPES[nth % 4], ESCAPES[(nth + 1) % 4]);
                    let call = json!({"command": format!("{escape}\nwhile [ $(ls *.pid | wc -l) -lt 2 ]; do sleep 0.02; done; touch ready; sleep 999")});
                    (cancel, tokio::spawn(async move { bash.run(call, &context).await }))
                })
                .collect();
            let is_ready = |nth: usize| folder.path().join(nth.to_string()).join("ready").exists();
            assert!(within(Duration::from_secs(60), || (first..calls.min(first + at_once)).all(is_ready)));
            for (cancel, _) in &running {
                cancel.cancel();
            }
            let aborted = Instant::now();
            for (_, call) in running {
                let result = call.await.unwrap();
                assert_eq!(result.details["aborted"], true, "{}", result.content);
                assert_eq!(result.details["left"], json!([]));
                all += result.details["killed"].as_u64().unwrap();
            }
            longest = longest.max(aborted.elapsed());
        }
        for nth in 0..calls {
            for pid in pids(&folder.path().join(nth.to_string())) {
                assert!(!lives(&pid), "{pid} of call {nth}");
            }
        }
        assert_eq!(sweep(&Whose::Owner(owner)).killed, 0);
        println!("{calls} aborted calls, {all} processes killed; {at_once} at once were gone {longest:?} after their abort");
    });
}
