//! 256 messages at once to a session whose turn is under way, with `Durability::Power`: `tests/beside.sh` copies this program into
//! `examples/` of the trees that it compares, and runs the binaries in turns.
//!
//! The model of the turn hangs, so all the messages wait in the queue, which they fill. Each is sent by a task of its
//! own. One burst is made first and not counted. Prints the microseconds from the first send to the last receipt.
#![allow(clippy::unwrap_used)]

use std::{
    fs::exists,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tamtam::{
    ModelRef, Runtime, SessionOptions,
    model::{BoxFuture, Deltas, Model, ModelAnswer, ModelError, Request},
    tape::Durability,
};
use tokio::{sync::Notify, task::JoinSet};

const SENDS: usize = 256;

/// A model that never answers, and says that it was asked.
struct Still(ModelRef, Arc<Notify>);

impl Model for Still {
    fn id(&self) -> &ModelRef {
        &self.0
    }

    fn stream<'a>(&'a self, _: &'a Request, _: &'a mut dyn Deltas) -> BoxFuture<'a, Result<ModelAnswer, ModelError>> {
        Box::pin(async {
            self.1.notify_one();
            std::future::pending().await
        })
    }
}

/// The one argument is a folder for the store.
fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    tokio.block_on(async {
        let asked = Arc::new(Notify::new());
        let model = Arc::new(Still("still/still".parse().unwrap(), asked.clone()));
        let runtime = Runtime::builder().store(&folder).model(model).durability(Durability::Power);
        let runtime = runtime.start().await.unwrap();
        burst(&runtime, Path::new(&folder), &asked).await;
        let took = burst(&runtime, Path::new(&folder), &asked).await;
        println!("{}", took.as_micros());
        // The turns stand still for ever, and nobody measures what ending them takes.
        std::process::exit(0);
    });
}

async fn burst(runtime: &Runtime, folder: &Path, asked: &Notify) -> Duration {
    let session = runtime.create(SessionOptions::new(folder)).await.unwrap();
    session.prompt("Stand still.").await.unwrap();
    asked.notified().await;
    // What began the request has its own work to finish.
    tokio::time::sleep(Duration::from_millis(200)).await;

    // A system call that a trace can be cut at.
    let _ = exists("burst begins");
    let began = Instant::now();
    let mut sends = JoinSet::new();
    for n in 0..SENDS {
        let session = session.clone();
        sends.spawn(async move { session.follow_up(format!("Message {n} of a burst.")).await.map(drop) });
    }
    while let Some(sent) = sends.join_next().await {
        sent.unwrap().unwrap();
    }
    let took = began.elapsed();
    let _ = exists("burst ends");
    took
}
