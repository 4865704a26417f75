//! A host's own children under the tree of the runtime: they reach no session, and no session's end reaches them.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tamtam::{
    Outcome, Runtime, SessionOptions,
    model::{Reply, Scripted},
    supervisor::{ChildSpec, Status},
};

use crate::support::taped;

async fn runtime(folder: &std::path::Path, children: Vec<ChildSpec>) -> Runtime {
    let model = Scripted::new((0..10).map(|_| Reply::text("Yes.")));
    let builder = Runtime::builder().store(folder).model(Arc::new(model));
    children.into_iter().fold(builder, |builder, child| builder.child(child)).start().await.unwrap()
}

/// A child that says when it lives and when it has ended.
fn diarist(id: &'static str, diary: &Arc<Mutex<Vec<String>>>) -> ChildSpec {
    let diary = diary.clone();
    ChildSpec::new(id, move |cx| {
        let diary = diary.clone();
        async move {
            diary.lock().unwrap().push(format!("+{id}"));
            cx.stopping().await;
            diary.lock().unwrap().push(format!("-{id}"));
            Ok(())
        }
    })
}

#[tokio::test]
async fn a_hosts_children_stand_in_the_tree_and_end_with_the_runtime() {
    let folder = taped::folder();
    let diary = Arc::default();
    let runtime = runtime(folder.path(), vec![diarist("built in", &diary)]).await;
    runtime.host().start_child(diarist("added", &diary)).await.unwrap();
    let tree = runtime.tree();
    assert_eq!(tree.find("built in").unwrap().path, "runtime/host/built in");
    assert_eq!(tree.find("added").unwrap().path, "runtime/host/added");
    assert_eq!(runtime.host().count_children().await.unwrap().active, 2);
    while diary.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(runtime.shutdown().await.is_empty());
    let mut ended: Vec<String> = diary.lock().unwrap().split_off(2);
    ended.sort();
    assert_eq!(ended, ["-added", "-built in"]);
}

/// What tools share ends after the host's own children, and so after the sessions: their calls may use it to the end.
#[tokio::test]
async fn what_tools_share_ends_after_the_hosts_own() {
    let folder = taped::folder();
    let diary = Arc::default();
    let runtime = runtime(folder.path(), vec![]).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    runtime.host().start_child(diarist("of the host", &diary)).await.unwrap();
    runtime.tool_servers().start_child(diarist("shared", &diary)).await.unwrap();
    assert_eq!(runtime.tree().find("shared").unwrap().path, "runtime/tools/shared");
    assert!(runtime.tree().find(session.id().as_str()).is_some(), "the session is awake");
    while diary.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(diary.lock().unwrap().split_off(2), ["-of the host", "-shared"], "the sessions stop in between");
}

/// Twenty crashes as fast as may be: without a wall between them the root would have given up, and the session with it.
#[tokio::test]
async fn a_hosts_child_that_crashes_for_ever_is_parked_and_reaches_no_session() {
    let folder = taped::folder();
    let runtime = runtime(folder.path(), vec![]).await;
    let session = runtime.create(SessionOptions::new(folder.path())).await.unwrap();
    let poison = ChildSpec::new("poison", |_| async { panic!("out of order") });
    let at_once = tamtam::supervisor::Backoff::default().min(Duration::ZERO).max(Duration::ZERO);
    runtime.host().start_child(poison.backoff(at_once)).await.unwrap();
    let status = || runtime.tree().find("poison").unwrap().status;
    while status() != Status::Parked {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(runtime.crashes().len(), 6, "five restarts, and the sixth crash parks it");
    let answer = session.prompt("Are you there?").await.unwrap().wait().await.unwrap();
    assert_eq!((answer.outcome, answer.text.as_str()), (Outcome::Done, "Yes."));
    assert_eq!(runtime.tree().find(session.id().as_str()).unwrap().restarts, 0);
    assert!(runtime.shutdown().await.is_empty());
}

/// A start that fails at boot is the runtime's: it says which child, and why, and nothing stays behind.
#[tokio::test]
async fn a_hosts_child_that_cannot_start_at_boot_fails_the_runtime_with_its_cause() {
    let folder = taped::folder();
    let broken = ChildSpec::with_start("connector", |_| async { Err("no such host".into()) });
    let model = Scripted::new([Reply::text("Yes.")]);
    let builder = Runtime::builder().store(folder.path()).model(Arc::new(model)).child(broken);
    let error = builder.start().await.unwrap_err().to_string();
    assert!(error.ends_with("failed to start: child host: child connector: no such host"), "{error}");
}
