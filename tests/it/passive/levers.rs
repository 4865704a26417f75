//! Levers against each other: a call for sleep, a park or a deletion is answered, through anything else that happens to
//! the session.

use std::time::Duration;

use tamtam::{Runtime, SessionId};

use crate::support::taped;

use super::{Session, counts, create, start};

/// Far more than a busy machine needs. What is not answered by then hangs.
const HANGS: Duration = Duration::from_secs(120);

async fn answered<T>(what: &str, asked: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANGS, asked).await.unwrap_or_else(|_| panic!("{what} was never answered"))
}

/// Found when a service was tried: seven of sixty calls of `passivate` beside a `park` never returned, and one beside the crash that
/// parks a session.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_lever_returns_whichever_comes_beside_it() {
    let folder = taped::folder();
    let runtime = start(folder.path(), counts()).await;
    for round in 0..120 {
        let session = create(&runtime, folder.path()).await;
        let id = session.id().clone();
        if round % 2 == 0 {
            session.prompt("hello").await.unwrap().wait().await.unwrap();
        }
        let pulled: Vec<_> = (0..4).map(|n| pull(round + n * (1 + round / 6), &runtime, &id)).collect();
        for (lever, task) in pulled {
            answered(lever, task).await.unwrap();
        }
        answered("a message", sent(session)).await;
        answered("the last deletion", deleted(&runtime, &id)).await;
    }
    assert!(runtime.shutdown().await.is_empty());
}

fn pull(n: usize, runtime: &Runtime, id: &SessionId) -> (&'static str, tokio::task::JoinHandle<()>) {
    let (runtime, id) = (runtime.clone(), id.clone());
    let lever = ["passivate", "park", "passivate by an operator", "three crashes", "delete", "restart"][n % 6];
    let task = tokio::spawn(async move {
        let operator = runtime.operate();
        match lever {
            "passivate" => drop(runtime.passivate(&id).await),
            "park" => drop(operator.park(id.as_str()).await),
            "passivate by an operator" => drop(operator.passivate(id.as_str()).await),
            "three crashes" => {
                for _ in 0..3 {
                    drop(operator.crash(id.as_str(), "drill"));
                    drop(runtime.passivate(&id).await);
                }
            }
            "delete" => drop(runtime.delete(&id).await),
            _ => drop(operator.restart(id.as_str()).await),
        }
    });
    (lever, task)
}

/// Refused or answered: that it comes to an end is all that is asked.
async fn sent(session: Session) {
    if let Ok(receipt) = session.prompt("still there?").await {
        drop(receipt.wait().await);
    }
    drop(session.state().await);
}

async fn deleted(runtime: &Runtime, id: &SessionId) {
    if let Err(error) = runtime.delete(id).await {
        // Gone already, or in a turn that a crash has cut off.
        drop(runtime.passivate(id).await);
        drop(error);
    }
}
