//! Nothing stays behind: not after idleness, not after a shutdown, not after the host is killed.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::json;
use tamtam_mcp::Phase;

use crate::{
    lab::{Lab, hostile, runs, started, until},
    taped,
};

/// The variable that makes the test below a host.
const HOST: &str = "TAMTAM_TEST_MCP_HOST";

/// A server that nobody uses ends, and the next call starts it. In between a call is never lost.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_sleeps_and_wakes() {
    let folder = taped::folder();
    let starts = folder.path().join("starts");
    let config = hostile("idle", "good", &starts).idle(Duration::from_millis(1));
    let lab = Lab::with(folder, [config]).await;
    lab.list().await;
    for _ in 0..5 {
        until("it sleeps", || lab.figures("idle").phase == Phase::Asleep).await;
        assert!(started(&starts).iter().all(|pid| !runs(*pid)));
        assert_eq!(lab.call("mcp_idle_echo", json!({"a": 1})).await.content, "{\"a\":1}");
    }
    // A call every millisecond: often just when it goes to sleep.
    for n in 0..200 {
        let result = lab.call("mcp_idle_echo", json!({"n": n})).await;
        assert_eq!(result.content, format!("{{\"n\":{n}}}"));
        if n % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(lab.node("idle").restarts, 0, "sleeping is no crash");
    lab.end().await;
}

/// P4-17: a server that ends neither with its input nor when it is asked to is killed, with the processes that it started.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_leaves_no_process_of_a_stubborn_server() {
    let folder = taped::folder();
    let starts = folder.path().join("starts");
    let config = hostile("stubborn", "stubborn", &starts);
    let lab = Lab::with(folder, [config]).await;
    assert_eq!(lab.list().await.error, None);
    let pids = started(&starts);
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    assert!(lab.runtime.shutdown().await.is_empty());
    assert_eq!(pids.iter().filter(|pid| runs(**pid)).count(), 0);
}

/// P4-17: of a host that is killed no server is left, and nothing that a server started.
#[test]
fn a_killed_host_leaves_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "left::this_is_the_host_that_is_killed", "--nocapture"])
        .env(HOST, folder.path())
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(host.stdout.take().unwrap());
    assert!(out.lines().map_while(Result::ok).any(|line| line.ends_with("the server is up")));
    let pids = started(&folder.path().join("starts"));
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    host.kill().unwrap();
    host.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(until("all are gone", || pids.iter().all(|pid| !runs(*pid))));
}

/// Does nothing, unless the test above starts it.
#[tokio::test(flavor = "multi_thread")]
async fn this_is_the_host_that_is_killed() {
    let Some(folder) = std::env::var_os(HOST) else { return };
    let folder = std::path::PathBuf::from(folder);
    let lab = Lab::new([hostile("stubborn", "stubborn", &folder.join("starts"))]).await;
    assert_eq!(lab.list().await.error, None);
    println!("\nthe server is up");
    std::future::pending::<()>().await;
}
