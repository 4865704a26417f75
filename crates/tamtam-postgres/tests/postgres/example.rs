//! `examples/cluster.rs`, played to its end: three nodes, one is killed, each message is read once.

use std::process::Command;

use tamtam_postgres::PostgresOptions;

use crate::{processes::CHILD, server::shared};

#[path = "../../examples/cluster.rs"]
mod cluster;

/// A node of the test below. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let [address, schema, name] = at.split('\n').collect::<Vec<_>>()[..] else { panic!("{at}") };
    cluster::node(&PostgresOptions::new(address).schema(schema).node(name)).await;
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
    let told = cluster::play(&options, folder.path(), start).await;
    assert_eq!(told.read.len(), 48);
    assert!(told.read.values().all(|times| *times == 1), "{:?}", told.read);
    assert!(!told.went_on.is_empty(), "the node that was killed had sessions");
}
