//! 1,000 sessions that sleep are woken at once: `tests/beside.sh` copies this program into `examples/` of the trees that it compares,
//! and runs the binaries in turns.
//!
//! Each session has a tape of one turn. All are made and put to sleep by one runtime and woken by the next, each in a task of its own;
//! then they are put to sleep and woken once more, and this is the time that counts, in microseconds until the last one is awake.
#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tamtam::{
    Runtime, Session, SessionOptions,
    model::{Reply, Scripted},
};
use tokio::task::JoinSet;

const SESSIONS: usize = 1_000;

async fn start(folder: &Path) -> Runtime {
    let model = Arc::new(Scripted::from_fn(|_| Reply::text("An answer of some words.")));
    Runtime::builder().store(folder).model(model).start().await.unwrap()
}

/// Wakes all sessions, or puts them to sleep. A question about its state wakes a session, in older trees too.
async fn all(runtime: &Runtime, made: &[Session], wake: bool) -> Duration {
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for session in made {
        let (runtime, session) = (runtime.clone(), runtime.session(session.id()));
        tasks.spawn(async move {
            if wake {
                drop(session.state().await.unwrap());
            } else {
                runtime.passivate(session.id()).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    began.elapsed()
}

/// The one argument is a folder for the store.
fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let folder = Path::new(&folder);
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = start(folder).await;
        let mut made = Vec::new();
        for _ in 0..SESSIONS {
            let session = runtime.create(SessionOptions::new(folder)).await.unwrap();
            session.prompt("Say something.").await.unwrap().wait().await.unwrap();
            made.push(session);
        }
        let _ = runtime.shutdown().await;
        let runtime = start(folder).await;
        all(&runtime, &made, true).await;
        all(&runtime, &made, false).await;
        println!("{}", all(&runtime, &made, true).await.as_micros());
        let _ = runtime.shutdown().await;
    });
}
