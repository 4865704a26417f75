//! The host is killed (`kill -9`) at each border of a steered answer, and started again: each message is read once.
//!
//! 29 rounds by default, one for each aim; `TAMTAM_KILLS=500 cargo test --test it ahead::killed` for as many as you like.

use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tamtam::{Delivery, Session, SessionId, Steering};
use tokio::process::Command;

use super::{judge, lines, message, options, runtime};
use crate::support::{
    socket_server::{Border, Does, Plan, SocketServer},
    taped,
};

const FOLDER: &str = "TAMTAM_AHEAD_FOLDER";
const SERVER: &str = "TAMTAM_AHEAD_SERVER";
const STEERS: [&str; 2] = ["steer one", "steer two"];

/// The process that is killed. It sends the same messages however often it is started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_steers_until_it_is_killed() {
    let (Ok(folder), Ok(server)) = (std::env::var(FOLDER), std::env::var(SERVER)) else { return };
    let runtime = runtime(Path::new(&folder), &server).await;
    let id: SessionId = "steered".parse().unwrap();
    let session = match runtime.open(&id).await {
        Ok(session) => session,
        Err(_) => runtime.create(options(Path::new(&folder)).id(id)).await.unwrap(),
    };
    let told = tokio::time::timeout(Duration::from_secs(40), steer_to_the_end(&session)).await;
    println!("\ntold {}", serde_json::to_string(&told.unwrap_or_default()).unwrap());
    drop(runtime.shutdown().await);
}

async fn steer_to_the_end(session: &Session) -> Vec<String> {
    let mut events = session.events();
    let first = session.send(message("go"), Delivery::Queue).await.unwrap();
    if !first.known_before {
        super::until(&mut events, super::is_text).await;
    }
    for text in STEERS {
        session.send(message(text), Delivery::Steer(Steering::FinishBatch)).await.unwrap();
    }
    session.wait().await.unwrap();
    lines(session).await
}

/// Starts that process, and returns the conversation that it ended with; `None` if it was killed.
async fn run(folder: &Path, url: &str, pid: &Mutex<Option<u32>>) -> Option<Vec<String>> {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ahead::killed::process_that_steers_until_it_is_killed", "--nocapture"])
        .envs([(FOLDER, folder.as_os_str()), (SERVER, url.as_ref())])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    *pid.lock().unwrap() = child.id();
    let ended = child.wait_with_output().await.unwrap();
    *pid.lock().unwrap() = None;
    let said = String::from_utf8_lossy(&ended.stdout);
    match said.lines().find_map(|line| line.strip_prefix("told ")) {
        Some(told) => Some(serde_json::from_str(told).unwrap()),
        None => {
            assert_eq!(ended.status.signal(), Some(9), "{said}{}", String::from_utf8_lossy(&ended.stderr));
            None
        }
    }
}

/// Where a host is killed: at a border, the n-th of its kind, of a server that does this with the first message.
fn aims() -> Vec<(Does, Border, usize)> {
    use Border::{Accepted, Begun, Ended, Steered, Successor, Whole, Word};
    let by =
        |does, borders: &[(Border, usize)]| borders.iter().map(move |(at, nth)| (does, *at, *nth)).collect::<Vec<_>>();
    let taken = [
        (Accepted, 1),
        (Ended, 1),
        (Successor, 1),
        (Steered, 1),
        (Word, 2),
        (Whole, 1),
        (Word, 1),
        (Begun, 1),
        (Word, 4),
    ];
    let back = [(Accepted, 1), (Ended, 1), (Begun, 2), (Steered, 1)];
    [
        by(Does::Takes, &taken),
        by(Does::TakesLate, &taken),
        by(Does::SendsBack, &back),
        by(Does::Calls, &back),
        by(Does::Refuses, &[(Steered, 1), (Begun, 2), (Whole, 1)]),
    ]
    .concat()
}

/// One round: what was wrong with it, and whether it met a kill.
async fn round(number: usize) -> (Vec<String>, bool) {
    let aims = aims();
    let (does, at, nth) = aims[number % aims.len()];
    let pause = Duration::from_millis([0, 1, 4][number / aims.len() % 3]);
    let (pid, kills) = (Arc::<Mutex<Option<u32>>>::default(), Arc::<AtomicUsize>::default());
    let (killed, count) = (pid.clone(), kills.clone());
    let mut plan = Plan::new(&[does, Does::Takes], 1);
    plan.cuts = Box::new(move |border, passed| {
        if border != at || passed != nth || count.load(Ordering::SeqCst) > 0 {
            return false;
        }
        // What was said until now reaches the process, or does not.
        std::thread::sleep(pause);
        let Some(pid) = killed.lock().unwrap().and_then(|pid| rustix::process::Pid::from_raw(pid.try_into().unwrap()))
        else {
            return false;
        };
        count.fetch_add(1, Ordering::SeqCst);
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        true
    });
    let (folder, server) = (taped::folder(), SocketServer::start(plan).await);
    for _ in 0..3 {
        if let Some(lines) = run(folder.path(), &server.url(), &pid).await {
            let mut wrong = judge(&server, &lines, &STEERS);
            if lines.is_empty() {
                wrong.push("it did not come to its end".to_owned());
            }
            if !wrong.is_empty() {
                wrong.insert(0, format!("round {number}: {at:?} {nth}, {does:?}"));
            }
            return (wrong, kills.load(Ordering::SeqCst) > 0);
        }
    }
    (vec![format!("round {number} was killed again and again")], true)
}

/// Promise 1: each message is delivered once, whether the provider had it or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_message_is_read_once_wherever_its_host_is_killed() {
    let rounds = std::env::var("TAMTAM_KILLS").ok().map_or(29, |rounds| rounds.parse().unwrap());
    let next = Arc::new(AtomicUsize::new(0));
    let workers = [(); 2].map(|()| {
        let next = next.clone();
        tokio::spawn(async move {
            let (mut wrong, mut kills) = (Vec::new(), 0);
            loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                if number >= rounds {
                    return (wrong, kills);
                }
                let (of, met) = round(number).await;
                wrong.extend(of);
                kills += usize::from(met);
            }
        })
    });
    let (mut wrong, mut kills) = (Vec::new(), 0);
    for worker in workers {
        let (of, met) = worker.await.unwrap();
        wrong.extend(of);
        kills += met;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{kills} kills in {rounds} rounds");
    // A few come too late: the process has ended, or the border was not met.
    assert!(kills * 4 >= rounds * 3, "{kills} kills in {rounds} rounds");
}
