//! `kill -9` of a process whose grandchild has asked: another process answers, or carries on an answer that was given, and the
//! call runs once. The file of the runs and the tapes are all that the second process has.
//!
//! The process that is killed is this test binary, started once more.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    process::{Command, Stdio},
};

use rustix::process::{Signal, getpid, kill_process};
use tamtam::tape::{Store, StoreOptions};

use super::*;

/// Where the process that is killed keeps its store, and when it dies; unset in an ordinary run of the tests.
const FOLDER: &str = "TEST_ASKS_FOLDER";
const MOMENT: &str = "TEST_ASKS_MOMENT";

/// The longest that it may live.
const LIMIT: Duration = Duration::from_secs(60);

/// The sessions, from the topmost one down.
const SESSIONS: [&str; 3] = ["root", "child", "grandchild"];

fn named(folder: &Path, name: &str) -> SessionOptions {
    asking(folder).id(name.parse().unwrap())
}

fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
}

/// Not a test of its own: the process that is killed. A moment is `open` (the test kills it then), `running` (the tool does), or a crash
/// point and the session at whose next passing of it the process dies, once the answer was given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_asks_until_it_is_killed() {
    let (Ok(folder), Ok(moment)) = (std::env::var(FOLDER), std::env::var(MOMENT)) else { return };
    let folder = Path::new(&folder);
    let mut careful = Careful::new(folder);
    if moment == "running" {
        careful.then = die;
    }
    let builder = Runtime::builder().store(folder.join("store")).model(model()).tool(careful);
    #[cfg(feature = "fault-injection")]
    let (builder, answered) = {
        let (answered, moment) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), moment.clone());
        let faults = tamtam::runtime::Faults::new({
            let answered = answered.clone();
            move |point, of| {
                if answered.load(Ordering::SeqCst) && moment == format!("{point} {of}") {
                    die();
                }
            }
        });
        (builder.faults(faults), answered)
    };
    let runtime = builder.start().await.unwrap();
    let root = runtime.create(named(folder, "root")).await.unwrap();
    let mut events = root.events();
    let child = root.spawn_child(named(folder, "child"), "go on working", Link::default()).await.unwrap();
    child.session().spawn_child(named(folder, "grandchild"), "carefully", Link::default()).await.unwrap();
    let (ask, from) = question(&mut events).await;
    assert_eq!(from.iter().map(SessionId::as_str).collect::<Vec<_>>(), SESSIONS[1..]);
    if moment != "open" {
        #[cfg(feature = "fault-injection")]
        answered.store(true, Ordering::SeqCst);
        root.answer_as(ask, Grant::Once, "ada").await.unwrap();
    }
    println!("\nopen");
    let _ = tokio::time::timeout(LIMIT, std::future::pending::<()>()).await;
}

/// Starts that process, and returns when it was killed at that moment.
fn killed(folder: &Path, moment: &str) {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "links::asks::killed::child_that_asks_until_it_is_killed", "--nocapture"])
        .envs([(FOLDER, folder.as_os_str()), (MOMENT, moment.as_ref())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(host.stdout.take().unwrap()).lines().map_while(Result::ok);
    if moment == "open" {
        said.find(|line| line == "open").expect("the question is open");
        host.kill().unwrap();
    }
    assert_eq!(host.wait().unwrap().signal(), Some(Signal::KILL.as_raw()), "{moment}: {:?}", said.collect::<Vec<_>>());
}

/// Which tapes have the answer.
fn answered(folder: &Path) -> [bool; 3] {
    let store = Store::open(folder.join("store"), StoreOptions::default().access(tamtam::tape::TapeAccess::Read));
    let store = store.unwrap();
    SESSIONS.map(|session| {
        let appends = store.appends(&session.parse().unwrap()).unwrap();
        appends.iter().flat_map(|append| &append.entries).any(|entry| entry.kind == "granted")
    })
}

/// Must show 3 of Permission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ask_of_a_grandchild_survives_kill_nine_and_its_call_runs_once() {
    let mut moments = vec![("open", [false, false, false]), ("running", [true, true, true])];
    if cfg!(feature = "fault-injection") {
        moments.extend([
            ("tape.written root", [true, false, false]),
            ("session.took child", [true, false, false]),
            ("tape.written child", [true, true, false]),
            ("session.took grandchild", [true, true, false]),
        ]);
    }
    for (moment, has_the_answer) in moments {
        let folder = taped::folder();
        killed(folder.path(), moment);
        assert_eq!(answered(folder.path()), has_the_answer, "{moment}");
        let careful = Careful::new(folder.path());
        assert_eq!(careful.runs().len(), usize::from(moment == "running"), "{moment}");

        let second = runtime(folder.path(), &careful).await;
        let root = second.open(&"root".parse().unwrap()).await.unwrap();
        let events = root.events();
        if moment == "open" {
            let open: Vec<_> = root.state().await.unwrap().task_asks().map(|(ask, _)| ask).collect();
            assert_eq!(open.len(), 1);
            root.answer_as(open[0], Grant::Once, "ada").await.unwrap();
        }
        let grandchild = second.open(&"grandchild".parse().unwrap()).await.unwrap();
        until(async || grandchild.state().await.unwrap().ended.len() == 1).await;
        until(async || root.state().await.unwrap().task_asks().count() == 0).await;
        // The start of the call is in one append with the answer. A call that had started is not run again: nobody knows whether it ran.
        let had_started = has_the_answer[2];
        let times = u32::from(moment == "running" || !had_started);
        assert_eq!(careful.runs().values().sum::<u32>(), times, "{moment}");
        let text = grandchild.state().await.unwrap().ended[0].text.clone();
        assert_eq!(&*text, if had_started { "it was not allowed" } else { "it was allowed" }, "{moment}");
        for session in SESSIONS {
            let session = second.open(&session.parse().unwrap()).await.unwrap();
            assert_eq!(granted(&session).await, [(Grant::Once, Some("ada".to_owned()))], "{moment}: {}", session.id());
        }
        drop(events);
        assert!(second.shutdown().await.is_empty());
    }
}
