//! What could not be cleaned up at the start is reported to the host and shown to its operator.

use std::fs;

use super::*;
use crate::session::ForkOptions;
use crate::tape::{Deleted, MemoryStore, TapeStore as _};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_cleaned_up_is_told_and_shown_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    assert!(start(folder.path(), counts()).await.shutdown().await.is_empty());
    // A process died during a deletion, and its remains cannot be removed as one.
    let left = folder.path().join("store/deleted/a.1");
    fs::create_dir(left.parent().unwrap()).unwrap();
    fs::write(&left, "no folder").unwrap();

    let runtime = start(folder.path(), counts()).await;
    let undone = runtime.left_undone();
    assert_eq!(undone.len(), 1, "{undone:?}");
    assert!(undone[0].what.contains("deleted/a.1") && undone[0].next.contains("start the runtime again"), "{undone:?}");
    let line = |runtime: &Runtime| {
        let tree = runtime.tree().to_string();
        tree.lines().find(|line| line.contains("tape store")).unwrap().to_owned()
    };
    until("the tree shows it", || line(&runtime).contains("left undone at the start: failed to")).await;
    let shown = runtime.inspect("tape store").unwrap().to_string();
    assert!(shown.contains("next        look at that path"), "{shown}");
    // All else works.
    assert_eq!(ask(&create(&runtime, folder.path()).await, "one").await, "1");
    assert!(runtime.shutdown().await.is_empty());

    fs::remove_file(&left).unwrap();
    let runtime = start(folder.path(), counts()).await;
    assert_eq!(runtime.left_undone(), []);
    until("the store's child is at rest", || runtime.tree().find("tape store").unwrap().doing.is_none()).await;
    assert!(!line(&runtime).contains("undone"));
    assert!(runtime.shutdown().await.is_empty());
}

/// The deletion of the last fork was killed before the hidden session: over an engine of the host's, the next runtime finishes
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_that_was_cut_off_is_finished_over_an_engine_of_the_hosts() {
    let engine = MemoryStore::new();
    let over = |engine: &MemoryStore| Runtime::builder().tapes(Arc::new(engine.clone())).model(counts()).start();
    let folder = tempfile::tempdir().unwrap();
    let runtime = over(&engine).await.unwrap();
    let origin = create(&runtime, folder.path()).await;
    assert_eq!(ask(&origin, "one").await, "1");
    origin.wait().await.unwrap();
    let fork = origin.fork(ForkOptions::newest()).await.unwrap();
    assert!(runtime.shutdown().await.is_empty());
    assert_eq!(engine.delete(origin.id()).unwrap(), Deleted::Hidden);
    assert_eq!(engine.erase(fork.id(), None, &[]).unwrap(), None);
    assert_eq!(engine.names().unwrap(), [origin.id().clone()]);

    let runtime = over(&engine).await.unwrap();
    assert_eq!((engine.names().unwrap(), runtime.left_undone()), (vec![], vec![]));
    assert!(runtime.shutdown().await.is_empty());
}
