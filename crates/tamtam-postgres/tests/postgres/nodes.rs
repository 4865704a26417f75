//! The tree of all nodes: who lives, who is gone, what each has, and what waits for one.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tamtam::{Delivery, Millis, SessionId, SessionOptions, tape::TapeStoreExt as _};
use tamtam_postgres::{ClusterNode, ClusterTree};

use crate::{
    cluster::{Node, join_with},
    processes::Process,
    server::{shared, sql},
};

const LONG: Duration = Duration::from_secs(60);

/// What is shown when the node `child` is gone.
const GONE: &str = "\
cluster                      2 of 3 nodes live, 2 sessions
├─ child      node     gone  for 4 s, pid 1, 1 session
│  └─ s       session  turn
├─ one        node     live  up 31 s, pid 2, 1 session
│  └─ a       session  idle
├─ two        node     live  up 31 s, pid 3, 0 sessions
├─ no node    waiting        1 session
│  └─ free    session  idle  2 messages wait
└─ no node    parked         1 session
   └─ parked  session  idle
";

/// The tree once it is so. What is not at one moment, on a machine with much else to do, is at a later one.
async fn comes(node: &Node, what: &str, holds: impl Fn(&ClusterTree) -> bool) -> ClusterTree {
    let until = Instant::now() + LONG;
    loop {
        let tree = node.cluster.tree().await.unwrap();
        if holds(&tree) {
            return tree;
        }
        assert!(Instant::now() < until, "it never came to be: {what}\n{tree}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn has(tree: &ClusterTree, name: &str, is_so: impl Fn(&ClusterNode) -> bool) -> bool {
    tree.nodes.iter().any(|node| node.name == name && is_so(node))
}

fn names(node: &ClusterNode) -> Vec<&str> {
    node.sessions.shown.iter().map(|one| one.session.as_str()).collect()
}

/// The text of a tree, without what differs from run to run.
fn text(tree: &ClusterTree) -> String {
    let mut tree = tree.clone();
    for (pid, node) in (1..).zip(&mut tree.nodes) {
        node.pid = pid;
        node.joined = node.joined.map(|_| Duration::from_secs(31));
        node.gone = node.gone.map(|_| Duration::from_secs(4));
    }
    tree.to_string()
}

/// Asked on any node: one lives in another process, with a turn; it is killed, and shown as gone with what it left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tree_shows_all_nodes_with_their_sessions_and_what_waits() {
    let options = shared().database().lease(Duration::from_secs(5));
    let mut child = Process::of("cluster::child", &options);
    let child = tokio::task::spawn_blocking(move || {
        assert_eq!(child.hear(u64::MAX).as_deref(), Some("running"));
        child
    });
    let child = child.await.unwrap();
    // They have no room: what is free stays free.
    let (one, two) = (join_with(&options, "one", 0).await, join_with(&options, "two", 0).await);
    for name in ["a", "free", "parked"] {
        let id: SessionId = name.parse().unwrap();
        one.runtime.create(SessionOptions::new(one.engine.work()).id(id.clone())).await.unwrap();
        if name != "a" {
            one.runtime.passivate(&id).await.unwrap();
        }
    }
    let kept = one.engine.kept.clone();
    let parked = tokio::task::spawn_blocking(move || kept.park(&"parked".parse().unwrap(), Millis(1), "it kills"));
    parked.await.unwrap().unwrap();
    let schema = options.schema.clone();
    let others = format!(
        "insert into {schema}.nodes values ('x', E'no\\x07t', 9, null, clock_timestamp() + interval '1 h'),
             ('y', 'old', 8, clock_timestamp() - interval '9 days', clock_timestamp() - interval '2 days');
         insert into {schema}.sessions (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
         select 'x' || n, 1, 0, '', 0, 'x', 9, '', 'infinity' from generate_series(10, 35) n;
         -- One that is not shown, what a node that died two days ago had, and one that a live node gave back.
         insert into {schema}.marks values ('hidden', 'x10', '', '');
         insert into {schema}.sessions (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
         values ('old', 1, 0, '', 0, 'y', 8, '', 'infinity');
         insert into {schema}.sessions (session, first_part, after_seq, after_sum, epoch, node, pid, host, expires)
         select 'back', 1, 0, '', 0, node, pid, '', '-infinity' from {schema}.nodes where host = 'one'"
    );
    let joined = |tree: &ClusterTree| has(tree, "one", |_| true) && has(tree, "two", |_| true);
    comes(&two, "both joined", joined).await;
    tokio::task::spawn_blocking(move || sql(&shared().address(), &others)).await.unwrap();

    let is_there = |tree: &ClusterTree| {
        let runs = |node: &ClusterNode| node.gone.is_none() && node.sessions.shown.iter().any(|one| one.in_turn);
        let is_all = tree.nodes.len() == 4 && tree.parked.count == 1 && has(tree, "child", runs);
        is_all && has(tree, "one", |one| names(one) == ["a"]) && has(tree, "two", |two| names(two).is_empty())
    };
    let first = text(&comes(&two, "four nodes", is_there).await);
    comes(&one, "every node is told the same", |tree| text(tree) == first).await;

    drop(child);
    for text in ["first", "second"] {
        two.cluster.send(&"free".parse().unwrap(), text, Delivery::Queue).await.unwrap();
    }
    let is_gone = |tree: &ClusterTree| {
        let mut shown = tree.clone();
        shown.nodes.retain(|node| node.name != "no\u{7}t");
        text(&shown) == GONE
    };
    let gone = comes(&one, "a dead node", is_gone).await;
    let foreign = gone.nodes.iter().find(|node| node.pid == 9).unwrap();
    assert_eq!((foreign.joined, foreign.sessions.count, foreign.sessions.shown.len()), (None, 25, 20));
    let text = text(&gone);
    assert!(text.contains("no\u{fffd}t") && text.contains("… 5 more") && !text.contains('\u{7}'), "{text}");

    // Who leaves in order is not shown as gone.
    Arc::into_inner(two.cluster).unwrap().leave().await;
    comes(&one, "the other node left", |tree| !has(tree, "two", |_| true)).await;
}
