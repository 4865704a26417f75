//! `examples/cluster.rs`, played to its end: three nodes, one is killed, each message is read once, and the pages of the others show
//! what went on there.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    process::Command,
};

use tamtam_postgres::PostgresOptions;

use crate::{
    processes::CHILD,
    server::{comes_true, shared},
};

#[path = "../../examples/cluster.rs"]
mod cluster;

/// A node of the test below. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let [address, schema, name] = at.split('\n').collect::<Vec<_>>()[..] else { panic!("{at}") };
    cluster::node(&PostgresOptions::new(address).schema(schema).node(name)).await;
}

/// What a page answers.
fn ask(page: &str, path: &str) -> String {
    let host = page.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    write!(socket, "GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 OK\r\n"), "{path}: {answer}");
    answer
}

/// The pages of those that are left: each session of the node that was killed, with all that was said, and the tree of all nodes.
fn look(told: &cluster::Told) {
    for (session, name) in &told.went_on {
        let said = ask(&told.pages[name.as_str()], &format!("/v1/sessions/{session}/messages"));
        for round in 1..=4 {
            assert!(said.contains(&format!("job {round}")), "{session} at {name}: {said}");
        }
        // It may go on to the third one, where this node stands still for as long as its lease.
        let survivors = || told.pages.iter().filter(|(name, _)| told.went_on.values().any(|at| at == *name));
        let is_shown = || survivors().any(|(_, page)| ask(page, "/v1/tree").contains(session.as_str()));
        assert!(comes_true(is_shown), "{session} is in no tree");
    }
    let survivor = told.went_on.values().next().unwrap();
    let tree = ask(&told.pages[survivor.as_str()], "/v1/cluster?format=text");
    assert!(tree.contains("gone") && tree.contains(survivor.as_str()), "{tree}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_of_which_one_is_killed_read_each_message_once() {
    let (options, folder) = (shared().database(), tempfile::tempdir().unwrap());
    let start = |name: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["example::child", "--exact", "--nocapture"]);
        command.env(CHILD, format!("{}\n{}\n{name}", shared().address(), options.schema));
        command
    };
    let told = cluster::play(&options, folder.path(), start, look).await;
    // One more for each session of the node that was killed.
    assert_eq!(told.read.len(), 48 + told.went_on.len());
    assert!(told.read.values().all(|times| *times == 1), "{:?}", told.read);
    assert!(!told.went_on.is_empty(), "the node that was killed had sessions");
}
