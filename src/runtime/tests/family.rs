//! How children are brought up beside a stop of their parent, and beside a child that is stuck.

use super::*;
use crate::{
    actor::{
        activation::Activation,
        bring_up::{SpawnArgs, bring_up},
    },
    error::SpawnError,
    kernel::{Abort, DownReason, Limits, Link, Open, Spawn, TaskOrder, Tie},
    words::{ids::Seq, message::Message},
};

/// As if it were waking up, for as long as the test wants: callers wait.
fn stuck(runtime: &Runtime, id: &SessionId) -> Activation {
    runtime.session(id).slot.begin_activation().unwrap()
}

fn spawn_args(child: &SessionId, parent: &Session, ticket: Seq) -> SpawnArgs {
    let tie = Tie { parent: parent.id().clone(), ticket, link: Link::default(), depth: 1, grant: Limits::default() };
    SpawnArgs { child: child.clone(), tie, order: None, asks_first: true }
}

/// An abort right after the task stops the child before it is made, and its DOWN says so. The caller who gave the task, and then
/// would make the child, makes none.
#[tokio::test(flavor = "current_thread")]
async fn a_child_that_is_stopped_before_it_is_made_is_made_by_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let parent = create(&runtime, folder.path()).await;
    let child: SessionId = "child".parse().unwrap();
    let flight = stuck(&runtime, &child);
    let slot = runtime.session(&child).slot;
    let settings = (*parent.state().await.unwrap().settings).clone();
    let (id, order) = (child.clone(), Box::new(TaskOrder::new(settings, Message::user("work"))));
    // On one thread the actor finds both, and its watcher begins when it knows of the stop.
    let spawn = Spawn { child: id, order, link: Link::default() };
    let spawned = parent.slot.command(spawn).unwrap().1;
    let aborted = parent.slot.command(Abort { reason: "enough".to_owned(), turn: None }).unwrap().1;
    spawned.await.unwrap().unwrap();
    aborted.await.unwrap().unwrap();
    let state = parent.state().await.unwrap();
    let (ticket, order) = match state.open.iter().next() {
        Some((ticket, Open::Task(task))) => (*ticket, task.order.clone()),
        other => panic!("a task is open: {other:?}"),
    };
    until("its watcher looks for it", || slot.waiting() == 1).await;
    let (giver, id) = (parent.clone(), child.clone());
    let given = tokio::spawn(async move { giver.child(id, ticket).await });
    // It has checked the parent, and waits after the watcher.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::time::resume();
    flight.finish(Err(OpenError::Tape(TapeError::Missing { session: child.clone() })));
    let told = given.await.unwrap().map(drop);
    assert!(matches!(&told, Err(SpawnError::Open(OpenError::NotStarted { .. }))), "{told:?}");
    let exists = || runtime.inner.shared.store.exists(&child);
    assert!(!exists(), "it was made behind its DOWN");
    // It may still be on its way to the tape.
    let ended = async {
        loop {
            let ends = parent.state().await.unwrap().tasks_ended.clone();
            if let Some(end) = ends.iter().find(|end| end.ticket == ticket) {
                return end.clone();
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let end = timeout(SOON, ended).await.expect("its DOWN is there");
    assert!(matches!(end.down.as_ref().map(|down| &down.reason), Some(DownReason::Aborted { .. })), "{end:?}");

    // The same if the parent was checked before its stop.
    let late = SpawnArgs { order, ..spawn_args(&child, &parent, ticket) };
    let up = bring_up(runtime.inner.shared.clone(), late).await.map(drop);
    assert!(matches!(up, Err(OpenError::Tape(TapeError::Missing { .. }))), "{up:?}");
    assert!(!exists(), "its parent was not asked once more");
    assert!(runtime.shutdown().await.is_empty());
}

/// A caller never waits for another parent's child, and checks a stuck one again after a while.
#[tokio::test(flavor = "current_thread")]
async fn a_child_that_is_stuck_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = start(folder.path(), counts()).await;
    let parent = create(&runtime, folder.path()).await;
    // Two ids that had one of sixteen locks together.
    let [a, q] = ["a", "q"].map(|id| id.parse::<SessionId>().unwrap());
    let flight = stuck(&runtime, &a);
    let slot = runtime.session(&a).slot;
    let waits = tokio::spawn(bring_up(runtime.inner.shared.clone(), spawn_args(&a, &parent, Seq(1))));
    until("it is looked for", || slot.waiting() == 1).await;
    let options = SessionOptions::new(folder.path()).profile(Profile::Auto).id(q);
    let child = timeout(SOON, parent.spawn_child(options, "hello", Link::default())).await;
    child.expect("the other child does not wait for it").unwrap();
    // Virtual only where nothing but the clock is waited for.
    tokio::time::pause();
    let told = timeout(Duration::from_secs(60), waits).await.expect("it is looked at again").unwrap().map(drop);
    assert!(matches!(&told, Err(OpenError::NoAnswer { session, .. }) if *session == a), "{told:?}");
    drop(flight);
    tokio::time::resume();
    assert!(runtime.shutdown().await.is_empty());
}
