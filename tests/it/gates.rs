//! Gates before operations on a session: what a host's hook refuses is not done, and everything else is.

use std::sync::{Arc, Mutex};

use tamtam::{
    Runtime, SendError, Session, SessionOptions,
    hook::{Hook, HookContext, Operation, Verdict},
    model::{BoxFuture, Reply, Scripted},
    runtime::DeleteError,
    session::RollbackTarget,
    session::{BranchError, ForkOptions, Labels, Refusal, RollbackOptions},
};

use crate::support::taped;

/// Refuses some operations, and notes all that it is asked about.
#[derive(Default)]
struct House {
    refuses: Mutex<Vec<Operation>>,
    asked: Mutex<Vec<Operation>>,
    panics: bool,
}

impl Hook for House {
    fn name(&self) -> &str {
        "house"
    }

    fn before_operation<'a>(&'a self, _: &'a HookContext, operation: Operation) -> BoxFuture<'a, Verdict> {
        assert!(!self.panics, "the house is broken");
        self.asked.lock().unwrap().push(operation);
        let verdict = match self.refuses.lock().unwrap().contains(&operation) {
            true => Verdict::Block("the case is closed".to_owned()),
            false => Verdict::Pass,
        };
        Box::pin(async { verdict })
    }
}

async fn start(house: &Arc<House>) -> (Runtime, taped::Folder) {
    let folder = taped::folder();
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("fine")));
    let runtime = Runtime::builder().store(folder.path().join("store")).model(model).hook(house.clone());
    (runtime.start().await.unwrap(), folder)
}

async fn talked(runtime: &Runtime, folder: &taped::Folder) -> Session {
    let labels = Labels::new([("tenant", "acme")]).unwrap();
    let session = runtime.create(SessionOptions::new(folder.path()).labels(labels)).await.unwrap();
    session.prompt("hello").await.unwrap().wait().await.unwrap();
    session.wait().await.unwrap();
    session
}

fn is_blocked(error: &SendError, operation: &str) -> bool {
    matches!(error, SendError::Refused(Refusal::Blocked { operation: named, reason }) if *named == operation && reason == "the case is closed")
}

/// What became of each operation, in a session with something to take back.
async fn outcomes(runtime: &Runtime, session: &Session) -> Vec<(Operation, Result<(), String>)> {
    let of = |error: SendError, operation: Operation| match is_blocked(&error, operation.name()) {
        true => "blocked".to_owned(),
        false => error.to_string(),
    };
    let branch = |error: BranchError, operation| match error {
        BranchError::Session(error) => of(error, operation),
        other => other.to_string(),
    };
    let mut outcomes = Vec::new();
    let forked = session.fork(ForkOptions::newest()).await;
    let fork = forked.as_ref().ok().map(|fork| fork.id().clone());
    outcomes.push((Operation::Fork, forked.map(drop).map_err(|error| branch(error, Operation::Fork))));
    if let Some(fork) = fork {
        let merged = session.merge(&fork).await.map(drop).map_err(|error| branch(error, Operation::Merge));
        outcomes.push((Operation::Merge, merged));
    }
    let undone = session.undo().await.map(drop).map_err(|error| branch(error, Operation::Rollback));
    outcomes.push((Operation::Rollback, undone));
    let redo = session.rollback_with(RollbackTarget::Redo, RollbackOptions::new()).await;
    outcomes.push((Operation::Rollback, redo.map(drop).map_err(|error| branch(error, Operation::Rollback))));
    let compacted = session.compact().await.map_err(|error| of(error, Operation::Compaction));
    outcomes.push((Operation::Compaction, compacted));
    let handed = session.handoff("named", None).await.map(drop).map_err(|error| of(error, Operation::Handoff));
    outcomes.push((Operation::Handoff, handed));
    let deleted = runtime.delete(session.id()).await.map(drop).map_err(|error| match &error {
        DeleteError::Blocked { session: named, refusal } => {
            assert_eq!(named, session.id());
            of(SendError::Refused(refusal.clone()), Operation::Deletion)
        }
        other => other.to_string(),
    });
    outcomes.push((Operation::Deletion, deleted));
    outcomes
}

/// R-01, BDD-HOOK-007: a gate is asked before a fork, a merge, a rollback, a compaction, a handoff and a deletion; what it refuses is the
/// caller's typed error with its reason and leaves the tape as it was, and what it passes is done.
/// BDD-HOOK-007: a compaction that somebody asks for and the gate refuses fails with the gate's reason, and no summary is begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_refuses_an_operation_and_no_other() {
    use Operation::{Compaction, Deletion, Fork, Handoff, Merge, Rollback};
    let house = Arc::new(House::default());
    let (runtime, folder) = start(&house).await;
    let session = talked(&runtime, &folder).await;
    let before = session.entries().await.unwrap().len();

    *house.refuses.lock().unwrap() = vec![Compaction, Deletion, Fork, Handoff, Merge, Rollback];
    let all = outcomes(&runtime, &session).await;
    for (operation, outcome) in &all {
        assert_eq!(outcome.as_ref().unwrap_err(), "blocked", "{operation:?}");
    }
    assert_eq!(session.entries().await.unwrap().len(), before, "nothing was written");
    let labelled = runtime.labelled(Labels::new([("tenant", "acme")]).unwrap()).unwrap();
    let kept = labelled.delete().await.unwrap().kept;
    assert!(matches!(&kept[..], [(id, DeleteError::Blocked { .. })] if id == session.id()), "{kept:?}");
    assert_eq!(*house.asked.lock().unwrap(), [Fork, Rollback, Rollback, Compaction, Handoff, Deletion, Deletion]);

    house.refuses.lock().unwrap().clear();
    for (operation, outcome) in outcomes(&runtime, &session).await {
        // There is nothing to sum up in two messages: the session says so, and no hook.
        let done = outcome.is_ok()
            || (operation == Compaction && outcome.as_ref().is_err_and(|why| why.contains("nothing to summarize")));
        assert!(done, "{operation:?}: {outcome:?}");
    }
    assert!(runtime.shutdown().await.is_empty());
}

/// R-06, C-27: a gate that panics refuses the operation, and names itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_panics_refuses_the_operation() {
    let house = Arc::new(House { panics: true, ..House::default() });
    let (runtime, folder) = start(&house).await;
    let session = talked(&runtime, &folder).await;
    let Err(BranchError::Session(error)) = session.undo().await else { panic!("it was undone") };
    assert!(
        error.to_string().contains("a hook refused the rollback: house failed (panicked: the house is broken"),
        "{error}"
    );
    assert_eq!(session.messages().await.unwrap().len(), 2);
    assert!(runtime.shutdown().await.is_empty());
}
