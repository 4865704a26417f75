//! Stopping while the disk does not answer.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::{
    Outcome,
    model::BoxFuture,
    tape::tests::support::{FakeDisk, own_folder, small, store_on},
    tool::{Tool, ToolContext, ToolResult},
};

/// Runs until it is stopped, and counts how often it began and how often it was down.
#[derive(Clone, Default)]
struct Runs {
    begun: Arc<AtomicUsize>,
    down: Arc<AtomicUsize>,
}

impl Tool for Runs {
    fn name(&self) -> &str {
        "runs"
    }

    fn description(&self) -> &str {
        "Runs."
    }

    fn schema(&self) -> serde_json::Value {
        serde_json::json!({ "type": "object" })
    }

    fn run<'a>(&'a self, _: serde_json::Value, context: &'a ToolContext) -> BoxFuture<'a, ToolResult> {
        Box::pin(async {
            self.begun.fetch_add(1, Ordering::SeqCst);
            context.cancelled().await;
            self.down.fetch_add(1, Ordering::SeqCst);
            ToolResult::ok("stopped")
        })
    }
}

/// An abort while the disk hangs, with an append in flight: what runs is down, the answer says that the tape does not have the wish, and
/// no call begins after it. The wish stays: when the disk answers again it is recorded, and the turn has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_abort_on_a_hung_disk_brings_down_what_runs_and_says_that_it_is_not_recorded() {
    let (folder, disk, tool) = (own_folder(), FakeDisk::new(), Runs::default());
    let store = store_on(&folder.path().join("store"), small(), &disk);
    let calls = Reply::call("runs", serde_json::json!({})).with_call("runs", serde_json::json!({}));
    let model = Arc::new(Scripted::new([calls]));
    let runtime = Runtime::builder().tapes(Arc::new(store)).model(model).tool(tool.clone()).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    let turn = session.prompt("go").await.unwrap();
    until("the first call runs", || tool.begun.load(Ordering::SeqCst) == 1).await;
    // The first slow write makes the store leave the next ones to its thread.
    disk.be_slow();
    session.set_title(Some("slow".to_owned())).await.unwrap();
    disk.shut();
    let in_flight = tokio::spawn({
        let session = session.clone();
        async move { session.set_title(Some("later".to_owned())).await }
    });
    let waiting = disk.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_one_waits()).await.unwrap();

    let aborted = timeout(SOON, session.abort("enough")).await.expect("it is answered").unwrap();
    assert!(!aborted.recorded);
    assert_eq!((tool.begun.load(Ordering::SeqCst), tool.down.load(Ordering::SeqCst)), (1, 1));

    disk.heal();
    disk.open_up();
    timeout(SOON, in_flight).await.expect("it is told").unwrap().unwrap();
    let end = timeout(SOON, turn.wait()).await.expect("the turn ends").unwrap();
    assert_eq!(end.outcome, Outcome::Aborted { reason: "enough".to_owned() });
    assert_eq!(tool.begun.load(Ordering::SeqCst), 1, "no call began after it");
    assert!(session.abort("again").await.unwrap().recorded);
    assert!(runtime.shutdown().await.is_empty());
}
