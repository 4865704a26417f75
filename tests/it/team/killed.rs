//! `kill -9` of a process in which four tasks of one answer run side by side: another process continues them. Each call
//! has one result, no task runs twice, and the cost of the tree is right. The file of the runs and the tapes are all
//! that the second process has.
//!
//! The process that is killed is this test binary, started once more. It dies at a counted request or run of a tool, so
//! a round is set by a count and never by a time. Rounds go through all of [`MOMENTS`] by `TAMTAM_TASK_KILLS`
//! (docs/OPERATIONS.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Mutex,
};

use rustix::process::{Signal, getpid, kill_process};
use tamtam::{
    Seq, SessionId,
    model::{AnswerPart, MicroUsd, Price, Usage},
    session::{BillKind, ErrorReason, Spent},
    tape::{Store, StoreOptions, TapeAccess, TapeStoreExt as _},
};

use super::*;

/// Where the process that is killed keeps its store, and when it dies; unset in an ordinary run of the tests.
const FOLDER: &str = "TEST_TASKS_FOLDER";
const MOMENT: &str = "TEST_TASKS_MOMENT";

/// The longest that it may live.
const LIMIT: Duration = Duration::from_secs(60);

/// What the four tasks are about: each calls the tool once, with this name.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The requests of a story that nothing cuts off: the first and the last of the root, and two of each task.
const REQUESTS: u64 = 10;

/// When a process may die. At its first request no task is given yet, and at its tenth all are over. `blank`: as if it had died before
/// that, when the sessions of the tasks had folders and no entry yet.
const MOMENTS: [&str; 13] = [
    // These in an ordinary run.
    "request 2 blank",
    "request 3",
    "run 2",
    "request 6",
    "request 9",
    // These in a long one.
    "request 2",
    "request 4",
    "request 5",
    "request 7",
    "request 8",
    "run 1",
    "run 3",
    "run 4",
];

/// Is told of each request and each run before it is answered; where it kills the process it does not return.
type Passed = Arc<dyn Fn(&'static str) + Send + Sync>;

fn dies_at(moment: String) -> Passed {
    let counts = Mutex::new(BTreeMap::new());
    Arc::new(move |what| {
        // Under the lock, so that nothing passes between the count and the death.
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(what).or_insert(0);
        *count += 1;
        if moment == format!("{what} {count}") {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    })
}

/// A tool that must not run twice. Each run adds its name to a file, which no crash takes back.
struct Note {
    file: PathBuf,
    passed: Passed,
}

impl Tool for Note {
    fn name(&self) -> &str {
        "note"
    }

    fn description(&self) -> &str {
        "Notes a name."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn effect(&self) -> Effect {
        Effect::Once
    }

    fn access(&self, _: &Value) -> Vec<Access> {
        vec![Access::new("note", "*")]
    }

    fn run<'a>(&'a self, arguments: Value, _: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.file).unwrap();
        // One write a line: it is whole, whoever writes beside it.
        file.write_all(format!("{}\n", arguments["name"].as_str().unwrap()).as_bytes()).unwrap();
        (self.passed)("run");
        Box::pin(async { ToolResult::ok("it is noted") })
    }
}

/// The root gives the four tasks in one answer, and each of them notes its name.
fn model(passed: Passed) -> Scripted {
    let usage = Usage::new(100, 10);
    let script = Scripted::from_fn(move |request| {
        passed("request");
        let said = tamtam::model::transcript(request);
        let task = said.split("user: note ").nth(1).map(|rest| &rest[..1]);
        let reply = match task {
            Some(_) if said.contains("result note: it is noted") => Reply::text("noted"),
            Some(_) if said.contains("result note") => Reply::text("unclear"),
            Some(name) => Reply::call("note", json!({ "name": name })),
            None if said.contains("result task") => Reply::text("end"),
            None => NAMES.into_iter().fold(Reply::empty(), |reply, name| {
                reply.with_call("task", arguments(&format!("note {name}"), json!({})))
            }),
        };
        reply.with_usage(usage)
    });
    let price = Price::new(MicroUsd(2_000_000), MicroUsd(8_000_000));
    script.with_price("scripted/script".parse().unwrap(), price)
}

async fn runtime(folder: &Path, passed: Passed) -> Runtime {
    let note = Note { file: folder.join("runs"), passed: passed.clone() };
    let builder = Runtime::builder().store(folder.join("store")).model(Arc::new(model(passed)));
    builder.with_tasks().tool(note).start().await.unwrap()
}

/// Not a test of its own: the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_gives_tasks_until_it_is_killed() {
    let (Ok(folder), Ok(moment)) = (std::env::var(FOLDER), std::env::var(MOMENT)) else { return };
    let folder = Path::new(&folder);
    let runtime = runtime(folder, dies_at(moment)).await;
    let root = runtime.create(options(folder).id("root".parse().unwrap())).await.unwrap();
    let told = tokio::time::timeout(LIMIT, root.prompt("go").await.unwrap().wait()).await;
    println!("\nnothing killed it: {told:?}");
}

/// Starts that process, and returns when it was killed at that moment.
fn killed(folder: &Path, moment: &str) {
    let host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "team::killed::process_that_gives_tasks_until_it_is_killed", "--nocapture"])
        .envs([(FOLDER, folder.as_os_str()), (MOMENT, moment.as_ref())])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(host.status.signal(), Some(Signal::KILL.as_raw()), "{moment}: {host:?}");
}

/// Takes the entries of all sessions but the root. None of them has done anything yet.
fn forget_the_children(folder: &Path) {
    let sessions = fs::read_dir(folder.join("store/sessions")).unwrap().map(|entry| entry.unwrap().path());
    let children: Vec<_> = sessions.filter(|path| !path.ends_with("root")).collect();
    assert!(!children.is_empty());
    for child in children {
        match fs::remove_dir_all(child.join("anchors")) {
            // The kill came before the folder of this one was filled.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.unwrap(),
        }
    }
}

/// The requests that the tapes have no end of, by session: what was under way when the process died.
fn open_requests(folder: &Path) -> BTreeMap<SessionId, BTreeSet<Seq>> {
    let options = StoreOptions::default().access(TapeAccess::Read);
    let store = Store::open(folder.join("store"), options).unwrap();
    let mut open: BTreeMap<SessionId, BTreeSet<Seq>> = BTreeMap::new();
    for session in store.sessions().unwrap() {
        let open = open.entry(session.clone()).or_default();
        for entry in store.appends(&session).unwrap().into_iter().flat_map(|append| append.entries) {
            match &*entry.kind {
                "request" => drop(open.insert(entry.seq)),
                "answer" | "request_failed" => drop(open.remove(&entry.ticket.unwrap())),
                _ => {}
            }
        }
    }
    open
}

/// The results of a session's calls. Fails unless each call of its answers has one.
fn results(entries: &[Entry], moment: &str) -> Vec<Arc<ToolResult>> {
    let calls = entries.iter().filter_map(|entry| match &entry.record {
        Record::Answer { answer, .. } => Some(&answer.parts),
        _ => None,
    });
    let calls = calls.flatten().filter(|part| matches!(part, AnswerPart::Call { .. })).count();
    let results = entries.iter().filter_map(|entry| match &entry.record {
        Record::Result { result, .. } => Some((entry.ticket, result.clone())),
        _ => None,
    });
    let (tickets, results): (Vec<_>, Vec<_>) = results.unzip();
    assert_eq!(results.len(), calls, "{moment}: {results:?}");
    assert_eq!(BTreeSet::from_iter(&tickets).len(), calls, "{moment}: a call has two results: {tickets:?}");
    results
}

/// What of [`Spent`] a bill has.
fn billed(spent: &Spent) -> (u64, u64, Usage, tamtam::model::Cost) {
    (spent.requests, spent.estimated, spent.usage, spent.cost)
}

/// What a kill met.
#[derive(Default)]
struct Met {
    requests: usize,
    calls: usize,
}

/// Kills one process at that moment, lets another one go on to the end, and judges what came of it.
async fn round(moment: &str) -> Met {
    let folder = taped::folder();
    let blank = moment.strip_suffix(" blank");
    killed(folder.path(), blank.unwrap_or(moment));
    if blank.is_some() {
        forget_the_children(folder.path());
    }
    let open = open_requests(folder.path());

    let runtime = runtime(folder.path(), Arc::new(|_| {})).await;
    let root = runtime.open(&"root".parse().unwrap()).await.unwrap();
    until(async || !root.state().await.unwrap().is_unfinished()).await;
    soon(root.wait()).await.unwrap();
    let state = root.state().await.unwrap();
    assert_eq!((state.turns, &*state.ended.back().unwrap().text), (1, "end"), "{moment}");

    let entries = root.entries().await.unwrap();
    let given = results(&entries, moment);
    assert_eq!(given.iter().map(|result| envelope(result).status).collect::<Vec<_>>(), [TaskStatus::Completed; 4]);
    let started = entries.iter().filter_map(|entry| match &entry.record {
        Record::TaskStarted { child, .. } => Some(child.clone()),
        _ => None,
    });
    let started: Vec<_> = started.collect();
    let downs = entries.iter().filter(|entry| matches!(entry.record, Record::TaskFinished { .. })).count();
    let children = BTreeSet::from_iter(started.clone());
    assert_eq!((started.len(), children.len(), downs), (4, 4, 4), "{moment}");
    let in_store = fs::read_dir(folder.path().join("store/sessions")).unwrap().count();
    assert_eq!(in_store, 5, "{moment}: each task is one session, and there is no other");

    let runs = fs::read_to_string(folder.path().join("runs")).unwrap();
    let (mut met, mut tree, mut names) = (Met::default(), Spent::default(), BTreeSet::new());
    for id in children.iter().chain([root.id()]) {
        let session = runtime.session(id);
        let bill = session.bill().await.unwrap();
        let lost = bill.lines.iter().filter(|line| line.kind == BillKind::Lost).map(|line| line.ticket);
        let lost: Vec<_> = lost.collect();
        let open = open.get(id).into_iter().flatten().copied().collect::<Vec<_>>();
        assert_eq!(lost, open, "{moment}: what {id} lost is what was open at the kill");
        met.requests += lost.len();
        tree += bill.total();
        if id == root.id() {
            continue;
        }
        let state = session.state().await.unwrap();
        assert_eq!(state.turns, 1, "{moment}");
        let name =
            state.settings.title.as_deref().and_then(|title| title.strip_prefix("about note ")).unwrap().to_owned();
        let results = results(&session.entries().await.unwrap(), moment);
        let [result] = &results[..] else { panic!("{moment}: {name} made {} calls", results.len()) };
        let run = runs.lines().filter(|run| *run == name).count();
        let said = &*state.ended.back().unwrap().text;
        match result.error {
            None => assert_eq!((run, said), (1, "noted"), "{moment}: {name}"),
            // Nobody knows whether a call that was under way has run, and so it says: it does not run again.
            Some(ErrorReason::Unknown) => {
                assert!(run <= 1 && said == "unclear", "{moment}: {name} ran {run} times and said {said}");
                met.calls += 1;
            }
            Some(error) => panic!("{moment}: {name}: {error:?}"),
        }
        names.insert(name);
    }
    assert!(names.iter().eq(NAMES), "{moment}: {names:?}");
    let all = root.state().await.unwrap().spent_in_all();
    assert_eq!(billed(&all), billed(&tree), "{moment}: the cost of the tree is the sum of its bills");
    assert_eq!(all.requests, REQUESTS + met.requests as u64, "{moment}: only what was lost was asked again");
    assert!(all.cost.shown().cost.is_some(), "{moment}: {:?}", all.cost);
    assert!(runtime.shutdown().await.is_empty());
    met
}

/// Must show 2 of Tasks: `kill -9` among four tasks that run side by side. `TAMTAM_TASK_KILLS` sets how many: 100 in full
/// (docs/OPERATIONS.md).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_nine_among_four_tasks_leaves_each_call_one_result_and_runs_none_twice() {
    let kills: usize = std::env::var("TAMTAM_TASK_KILLS").ok().map_or(5, |kills| kills.parse().unwrap());
    let (mut requests, mut calls) = (0, 0);
    for moment in MOMENTS.into_iter().cycle().take(kills) {
        let met = round(moment).await;
        let (kind, at) = moment.split_once(' ').unwrap();
        let what = if kind == "run" { met.calls } else { met.requests };
        assert!(what > 0 || at.ends_with("blank"), "{moment}: the kill met nothing");
        (requests, calls) = (requests + met.requests, calls + met.calls);
    }
    println!("{kills} kills met {requests} open requests and {calls} running calls");
}
