//! Any node takes messages for any session: they reach its owner, in order and once, also where the owner is killed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tamtam::{
    Delivery, Message, MessageId, OpenError, Outcome, Runtime, Seq, SessionId, Steering,
    runtime::OperateError,
    session::{Labels, Record},
    tape::{TapeError, TapeStore as _, TapeStoreExt as _},
};
use tamtam_postgres::{Cluster, MessageProgress, PostgresError, PostgresOptions, migrate};

use crate::{
    engines::claims::deaf,
    ownership::{all_are_free, all_died, rows, stolen},
    processes::{CHILD, Process},
    server::{comes_true, shared, sql},
    sessions::{
        harness::{Engine, Tools, seen},
        node,
    },
};

const LONG: Duration = Duration::from_secs(60);

pub(crate) fn id() -> SessionId {
    "s".parse().unwrap()
}

pub(crate) struct Node {
    pub(crate) engine: Engine<tamtam_postgres::Postgres>,
    pub(crate) runtime: Runtime,
    pub(crate) tools: Tools,
    pub(crate) cluster: Arc<Cluster>,
}

pub(crate) async fn join(options: &PostgresOptions, name: &str) -> Node {
    join_with(options, name, 100).await
}

pub(crate) async fn join_with(options: &PostgresOptions, name: &str, sessions_max: usize) -> Node {
    let engine = node(options, name);
    let (runtime, tools) = engine.start().await;
    let cluster = Arc::new(Cluster::join(&engine.kept, &runtime, sessions_max));
    Node { engine, runtime, tools, cluster }
}

/// What a turn ended with.
pub(crate) async fn over(cluster: &Cluster, message: &MessageId) -> (Outcome, String) {
    over_in(cluster, &id(), message).await
}

async fn over_in(cluster: &Cluster, session: &SessionId, message: &MessageId) -> (Outcome, String) {
    let settled = tokio::time::timeout(LONG, cluster.wait(session, message)).await.expect("it ends").unwrap();
    let MessageProgress::Over(end) = settled else { panic!("{settled:?}") };
    (end.outcome.clone(), end.text.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_to_any_node_is_read_once_where_its_session_is() {
    let options = shared().database();
    let (one, two) = (join(&options, "one").await, join(&options, "two").await);
    assert!(matches!(two.cluster.send(&id(), "early", Delivery::Queue).await, Err(TapeError::Missing { .. })));
    let maker = node(&options, "maker").kept.clone();
    let begun = tokio::task::spawn_blocking(move || {
        drop(maker.begin(&id(), None, deaf()).unwrap());
        assert!(maker.settle(LONG));
    });
    begun.await.unwrap();
    let nobody = two.cluster.send(&id(), "early", Delivery::Queue).await;
    assert!(matches!(nobody, Err(TapeError::Missing { .. })), "its maker died before its first entry");
    one.runtime.create(one.engine.options()).await.unwrap();
    let hello = || Message::user("hello").with_id("m".into());
    for cluster in [&two.cluster, &one.cluster, &two.cluster] {
        let sent = cluster.send(&id(), hello(), Delivery::Queue).await.unwrap();
        assert_eq!(over(&two.cluster, &sent).await, (Outcome::Done, "re hello".to_owned()));
    }
    let other = two.cluster.send(&id(), Message::user("other").with_id("m".into()), Delivery::Queue).await.unwrap();
    let progress = tokio::time::timeout(LONG, async {
        loop {
            match one.cluster.progress(&id(), &other).await.unwrap() {
                MessageProgress::Refused(why) => return why,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    });
    assert!(progress.await.unwrap().contains('m'), "other words under a known id are refused, and any node is told");
    let session = one.runtime.session(&id());
    assert!(session.is_awake() && !two.runtime.session(&id()).is_awake());
    assert_eq!(seen(&session).await, ["hello", "re hello"]);
    assert_eq!(one.cluster.progress(&id(), &"nobody".into()).await.unwrap(), MessageProgress::Unknown);
}

/// A message that aborts, and an abort, stop a call that runs on the other node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_is_stopped_from_another_node() {
    let options = shared().database();
    let (one, two) = (join(&options, "one").await, join(&options, "two").await);
    one.runtime.create(one.engine.options()).await.unwrap();
    let turn = two.cluster.send(&id(), "call gate", Delivery::Queue).await.unwrap();
    one.tools.gate.is_running().await;
    let steer = Delivery::Steer(Steering::AbortRunning);
    let rather = two.cluster.send(&id(), "rather this", steer).await.unwrap();
    assert_eq!(over(&two.cluster, &rather).await, (Outcome::Done, "re rather this".to_owned()));
    assert_eq!(over(&two.cluster, &turn).await.1, "re rather this", "it joined the turn");
    let again = two.cluster.send(&id(), "call gate", Delivery::Queue).await.unwrap();
    one.tools.gate.is_running().await;
    two.cluster.abort(&id(), "enough").await.unwrap();
    assert_eq!(over(&two.cluster, &again).await.0, Outcome::Aborted { reason: "enough".to_owned() });
}

/// The bound of a session's inbox, with no node that takes anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inbox_that_is_full_refuses_and_says_so() {
    let options = shared().database();
    let one = join(&options, "one").await;
    one.runtime.create(one.engine.options()).await.unwrap();
    let fill = format!(
        "{}; insert into {}.inbox (session, message, what, body)
         select 's', 'm' || n, 'send', '' from generate_series(1, 1024) n",
        stolen(&options.schema),
        options.schema
    );
    tokio::task::spawn_blocking(move || sql(&shared().address(), &fill)).await.unwrap();
    let TapeError::Engine(error) = one.cluster.send(&id(), "more", Delivery::Queue).await.unwrap_err() else {
        panic!("it is full")
    };
    assert_eq!(error.downcast_ref(), Some(&PostgresError::InboxFull { session: id() }));
    let known = Message::user("").with_id("m7".into());
    one.cluster.send(&id(), known, Delivery::Queue).await.expect("what is in the inbox is accepted again");
    assert_eq!(one.cluster.progress(&id(), &"m7".into()).await.unwrap(), MessageProgress::Accepted);
}

async fn ask_server(sql_text: String) -> Vec<String> {
    tokio::task::spawn_blocking(move || sql(&shared().address(), &sql_text)).await.unwrap()
}

/// Draining the sessions of one tenant ends nothing else of the node: others get their messages, and an abort reaches the drained
/// one, past a message that it takes no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_by_label_leaves_the_others_and_passes_aborts_on() {
    let options = shared().database();
    let (one, two) = (join(&options, "one").await, join(&options, "two").await);
    let labels = Labels::new([("tenant", "a")]).unwrap();
    one.runtime.create(one.engine.options().labels(labels.clone())).await.unwrap();
    let other: SessionId = "t".parse().unwrap();
    one.runtime.create(one.engine.options().id(other.clone())).await.unwrap();
    let turn = two.cluster.send(&id(), "call gate", Delivery::Queue).await.unwrap();
    one.tools.gate.is_running().await;
    assert_eq!(one.runtime.labelled(labels).unwrap().drain(Duration::ZERO).await.unwrap(), [id()]);
    let late = two.cluster.send(&id(), "late", Delivery::Queue).await.unwrap();
    two.cluster.abort(&id(), "enough").await.unwrap();
    assert_eq!(over(&two.cluster, &turn).await.0, Outcome::Aborted { reason: "enough".to_owned() });
    assert_eq!(two.cluster.progress(&id(), &late).await.unwrap(), MessageProgress::Accepted);
    let hello = two.cluster.send(&other, "hello", Delivery::Queue).await.unwrap();
    assert_eq!(over_in(&two.cluster, &other, &hello).await, (Outcome::Done, "re hello".to_owned()));
}

/// The row of an abort that was done outlives its node: the turn after it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_is_for_the_turn_that_ran_when_it_was_asked_for() {
    let options = shared().database();
    let one = join(&options, "one").await;
    one.runtime.create(one.engine.options()).await.unwrap();
    let before = one.cluster.send(&id(), "hello", Delivery::Queue).await.unwrap();
    let MessageProgress::Over(end) = one.cluster.wait(&id(), &before).await.unwrap() else { panic!("it ends") };
    one.cluster.abort(&id(), "none runs").await.unwrap();
    let turn = one.cluster.send(&id(), "call gate", Delivery::Queue).await.unwrap();
    one.tools.gate.is_running().await;
    let row =
        "insert into $schema.inbox (session, message, what, body) values ('s', 'late', 'abort', '[$turn, \"late\"]')";
    let row = row.replace("$schema", &options.schema).replace("$turn", &end.turn.to_string());
    ask_server(row).await;
    assert_eq!(one.cluster.wait(&id(), &"late".into()).await.unwrap(), MessageProgress::Unknown, "it is done");
    assert!(matches!(one.cluster.progress(&id(), &turn).await.unwrap(), MessageProgress::Running(_)));
}

/// In a schema with a name as long as the server takes, whose session another node has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_message_is_accepted_again_and_a_wait_ends_where_its_session_is_parked() {
    let options = shared().database();
    let options = PostgresOptions::new(shared().address()).schema(format!("{:_<63}", options.schema));
    migrate(&options).unwrap();
    let one = join(&options, "one").await;
    one.runtime.create(one.engine.options()).await.unwrap();
    let schema = &options.schema;
    ask_server(stolen(schema)).await;
    let hello = || Message::user("hello").with_id("m".into());
    let sent = one.cluster.send(&id(), hello(), Delivery::Queue).await.unwrap();
    ask_server(format!("update {schema}.inbox set refused = 'not now', body = ''")).await;
    assert_eq!(one.cluster.wait(&id(), &sent).await.unwrap(), MessageProgress::Refused("not now".to_owned()));
    one.cluster.send(&id(), hello(), Delivery::Queue).await.unwrap();
    assert_eq!(one.cluster.progress(&id(), &sent).await.unwrap(), MessageProgress::Accepted);
    let body = ask_server(format!("select number, body like '%hello%' from {schema}.inbox")).await;
    assert_eq!(body.len(), 1);
    assert!(body[0].ends_with(" t") && body[0] != "1 t", "it is a new row of the queue: {body:?}");
    ask_server(format!("insert into {schema}.marks (mark, session, fork, about) values ('parked', 's', '', '')")).await;
    let waited = tokio::time::timeout(LONG, one.cluster.wait(&id(), &sent)).await.expect("it ends");
    assert_eq!(waited.unwrap(), MessageProgress::Parked);
    ask_server(format!("update {schema}.marks set mark = 'hidden'")).await;
    let hidden = one.cluster.send(&id(), "more", Delivery::Queue).await;
    assert!(matches!(hidden, Err(TapeError::Missing { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_takes_up_no_more_free_sessions_than_it_may() {
    let options = shared().database();
    let one = join(&options, "one").await;
    let sessions: Vec<SessionId> = (0..4).map(|n| format!("s{n}").parse().unwrap()).collect();
    for session in &sessions {
        one.runtime.create(one.engine.options().id(session.clone())).await.unwrap();
    }
    assert!(one.runtime.shutdown().await.is_empty());
    let mut sent = Vec::new();
    for session in &sessions {
        sent.push(one.cluster.send(session, "hello", Delivery::Queue).await.unwrap());
    }
    let two = join_with(&options, "two", 1).await;
    over_in(&two.cluster, &sessions[0], &sent[0]).await;
    assert_eq!(two.runtime.awake(), [sessions[0].clone()]);
    assert_eq!(two.cluster.progress(&sessions[3], &sent[3]).await.unwrap(), MessageProgress::Accepted);
}

/// A drained node hands over what is open, and another goes on with it by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_hands_over_an_open_turn() {
    let options = shared().database();
    let (one, two) = (join(&options, "one").await, join(&options, "two").await);
    one.runtime.create(one.engine.options()).await.unwrap();
    let turn = two.cluster.send(&id(), "call gate", Delivery::Queue).await.unwrap();
    one.tools.gate.is_running().await;
    let next = two.cluster.send(&id(), "next", Delivery::Queue).await.unwrap();
    assert_eq!(one.runtime.drain(Duration::ZERO).await, [id()]);
    assert!(one.runtime.shutdown().await.is_empty());
    assert_eq!(over(&two.cluster, &turn).await.0, Outcome::Done);
    assert_eq!(over(&two.cluster, &next).await, (Outcome::Done, "re next".to_owned()));
    assert!(two.runtime.session(&id()).is_awake());
}

/// Nobody looks and no lease ends for an hour: what waits in a session that is given back, a message or an open turn, goes on at
/// another node because that one is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_in_a_session_that_is_given_back_is_taken_by_who_is_told() {
    let hour = Duration::from_secs(3600);
    let options = shared().database().lease(hour).look(hour);
    let (one, two) = (join(&options, "one").await, join(&options, "two").await);
    let with_turn: SessionId = "t".parse().unwrap();
    one.runtime.create(one.engine.options()).await.unwrap();
    let session = one.runtime.create(one.engine.options().id(with_turn.clone())).await.unwrap();
    // Its owner gives no messages any more.
    let Node { engine, runtime, tools, cluster } = one;
    drop(cluster);
    let waits = two.cluster.send(&id(), "hello", Delivery::Queue).await.unwrap();
    runtime.passivate(&id()).await.unwrap();
    assert_eq!(over(&two.cluster, &waits).await, (Outcome::Done, "re hello".to_owned()));
    let turn = session.prompt("call gate").await.unwrap();
    tools.gate.is_running().await;
    assert_eq!(runtime.drain(Duration::ZERO).await, std::slice::from_ref(&with_turn));
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(over_in(&two.cluster, &with_turn, &turn.message).await.0, Outcome::Done);
    drop((engine, session));
}

/// Nobody looks for an hour: what a session could not take is tried again at the end of its pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_left_alone_is_tried_again_without_a_look() {
    let options = shared().database().look(Duration::from_secs(3600));
    let one = join(&options, "one").await;
    one.runtime.create(one.engine.options()).await.unwrap();
    one.runtime.passivate(&id()).await.unwrap();
    let schema = &options.schema;
    ask_server(stolen(schema)).await;
    let sent = one.cluster.send(&id(), "hello", Delivery::Queue).await.unwrap();
    // As by a newer node.
    ask_server(format!("update {schema}.inbox set body = 'new' || body")).await;
    let free = all_are_free(schema);
    ask_server(format!("{free}; select pg_notify('tamtam_inbox_{schema}', '')")).await;
    let session = one.runtime.session(&id());
    assert!(tokio::task::spawn_blocking(move || comes_true(|| session.is_awake())).await.unwrap());
    ask_server(format!("update {schema}.inbox set body = substr(body, 4)")).await;
    assert_eq!(over(&one.cluster, &sent).await, (Outcome::Done, "re hello".to_owned()));
}

/// A lever on a node that was there before another node parked the session, and on one that started while it was parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_another_node_parked_is_unparked_on_any() {
    let options = shared().database();
    let (one, two) = (node(&options, "one"), node(&options, "two"));
    let ((first, _), (second, _)) = (one.start().await, two.start().await);
    first.create(one.options()).await.unwrap();
    first.passivate(&id()).await.unwrap();
    second.open(&id()).await.unwrap();
    second.operate().park("s").await.unwrap();
    // It gives the session up behind the lever.
    assert!(tokio::task::block_in_place(|| two.kept.settle(LONG)));
    let three = node(&options, "three");
    let (third, _) = three.start().await;
    assert!(matches!(third.open(&id()).await, Err(OpenError::Parked { .. })));
    first.operate().unpark("s").await.unwrap();
    assert!(first.session(&id()).is_awake() && one.kept.parked_sessions().unwrap().is_empty());
    assert!(matches!(third.open(&id()).await, Err(OpenError::Parked { .. })));
    // Another node has it, and it is unparked here all the same.
    assert!(matches!(third.operate().unpark("s").await, Err(OperateError::NotStarted { .. })));
    first.passivate(&id()).await.unwrap();
    third.open(&id()).await.unwrap();
    assert!(matches!(third.operate().unpark("nobody").await, Err(OperateError::Unknown { .. })));
}

/// Nobody looks for an hour: a node that finds work with another node looks again at the end of that one's lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_node_died_is_taken_when_its_lease_ends() {
    let hour = Duration::from_secs(3600);
    let options = shared().database().look(hour);
    let one = join(&options.clone().lease(hour), "one").await;
    let session = one.runtime.create(one.engine.options()).await.unwrap();
    session.prompt("hang").await.unwrap();
    drop(one.cluster);
    let dies = "insert into $schema.nodes values ('dead', '', 0, null, clock_timestamp() + interval '2 s');
        update $schema.sessions set epoch = nextval('$schema.epochs'), node = 'dead'";
    ask_server(dies.replace("$schema", &options.schema)).await;
    let two = join(&options, "two").await;
    let there = two.runtime.session(&id());
    let taken = async {
        while there.peek().await.unwrap().recoveries != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, taken).await.expect("it goes on");
}

/// The owner of the test below, in a process of its own. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let (address, schema) = at.split_once('\n').unwrap();
    let options = PostgresOptions::new(address).schema(schema).lease(Duration::from_secs(1));
    let owner = join(&options, "child").await;
    let session = owner.runtime.create(owner.engine.options()).await.unwrap();
    session.prompt("call gate").await.unwrap();
    owner.tools.gate.is_running().await;
    println!("told running");
    std::future::pending::<()>().await;
}

/// A node that waits for the session of the test below, and says when its turn goes on. Does nothing unless the test starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heir() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let (address, schema) = at.split_once('\n').unwrap();
    let options = PostgresOptions::new(address).schema(schema).lease(Duration::from_secs(1));
    let heir = join(&options, "heir").await;
    let session = heir.runtime.session(&id());
    loop {
        let state = session.peek().await.unwrap();
        if state.recoveries == 1 && session.is_awake() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("told resumed");
    std::future::pending::<()>().await;
}

/// A turn that ends the process of each node that has it, without a new answer or result: the tape counts the deaths, on whichever
/// node they were. The third node does not resume it, and the session takes messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_kills_two_nodes_waits_at_the_third() {
    let options = shared().database().lease(Duration::from_secs(1));
    let one = join(&options.clone().lease(Duration::from_secs(3600)), "one").await;
    let session = one.runtime.create(one.engine.options()).await.unwrap();
    let hangs = session.prompt("hang").await.unwrap();
    one.cluster.leave().await;
    let mut heir = Process::of("cluster::heir", &options);
    // Its death: the lease is over, and nothing of it is heard again.
    ask_server(all_died(&options.schema)).await;
    let heir = tokio::task::spawn_blocking(move || {
        assert_eq!(heir.hear(u64::MAX).as_deref(), Some("resumed"));
        heir.signal("-KILL");
        heir
    });
    drop(heir.await.unwrap());
    let three = join(&options, "three").await;
    let waits = || async { three.runtime.session(&id()).peek().await.unwrap() };
    let state = loop {
        let state = waits().await;
        if state.recoveries == 2 {
            break state;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(state.waits && state.request().is_some(), "it is not sent again");
    three.cluster.abort(&id(), "it kills").await.unwrap();
    assert_eq!(over(&three.cluster, &hangs.message).await.0, Outcome::Aborted { reason: "it kills".to_owned() });
    let hello = three.cluster.send(&id(), "hello", Delivery::Queue).await.unwrap();
    assert_eq!(over(&three.cluster, &hello).await, (Outcome::Done, "re hello".to_owned()));
}

/// `kill -9` of the owner in the middle of a turn, with 200 messages sent to two other nodes before and after: each is accepted once
/// on the tape, each number of the tape is there once, and one node goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_messages_survive_the_kill_of_the_owner_each_once() {
    const MESSAGES: usize = 200;
    let options = shared().database().lease(Duration::from_secs(1));
    let mut owner = Process::of("cluster::child", &options);
    let owner = tokio::task::spawn_blocking(move || {
        assert_eq!(owner.hear(u64::MAX).as_deref(), Some("running"));
        owner
    });
    let mut owner = Some(owner.await.unwrap());
    let nodes = [join(&options, "two").await, join(&options, "three").await];
    let mut last = None;
    for n in 0..MESSAGES {
        if n == MESSAGES / 2 {
            // Its drop kills it.
            drop(owner.take());
        }
        let message = Message::user(format!("say {n}")).with_id(format!("m{n}").into());
        // Neither in turn nor by chance, so that a failure can be run again.
        let cluster = &nodes[n * 7 / 3 % 2].cluster;
        last = Some(cluster.send(&id(), message, Delivery::Queue).await.unwrap());
    }
    let last = over(&nodes[0].cluster, &last.unwrap()).await;
    assert_eq!(last, (Outcome::Done, format!("re say {}", MESSAGES - 1)));
    let awake: Vec<_> = nodes.iter().filter(|node| node.runtime.session(&id()).is_awake()).collect();
    assert_eq!(awake.len(), 1, "one node has it");
    let mut accepted = BTreeMap::new();
    for entry in awake[0].runtime.session(&id()).entries().await.unwrap() {
        if let Record::Accepted { message, .. } = &entry.record {
            *accepted.entry(message.id.to_string()).or_insert(0) += 1;
        }
    }
    let once = |n| (format!("m{n}"), 1);
    accepted.retain(|id, _| id.starts_with('m') && id.len() <= 4);
    assert_eq!(accepted, (0..MESSAGES).map(once).collect());
    let (schema, store) = (options.schema.clone(), nodes[0].engine.kept.clone());
    let checked = tokio::task::spawn_blocking(move || {
        let all = rows(&schema, "s");
        assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
        // Each line follows the one before, by its checksum.
        assert_eq!(store.read(&id(), Seq::ZERO).unwrap().len(), all.len());
        sql(&shared().address(), &format!("select count(*) from {schema}.inbox"))
    });
    assert_eq!(checked.await.unwrap(), ["0"], "what is on the tape has left the inbox");
}
