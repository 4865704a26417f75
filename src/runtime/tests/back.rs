//! Going back while the disk is behind.

use std::sync::Arc;

use super::*;
use crate::{
    SendError,
    session::BranchError,
    session::Rollback,
    tape::tests::support::{FakeDisk, own_folder, small, store_on},
    tape::{Appended, MemoryStore, TapeEntry},
};

type Undone = Result<Rollback, BranchError>;

/// Begins a change of the title, whose entry waits at a stalled disk, and an undo after it; then `goes_on`. Returns the answer of
/// each, and that of an undo after that.
async fn undo_behind_a_slow_entry(goes_on: impl FnOnce(&FakeDisk)) -> (Result<(), SendError>, Undone, Undone) {
    let (folder, disk) = (own_folder(), FakeDisk::new());
    let store = store_on(&folder.path().join("store"), small(), &disk);
    let runtime = Runtime::builder().tapes(Arc::new(store)).model(counts()).start().await.unwrap();
    let session = create(&runtime, folder.path()).await;
    assert_eq!(ask(&session, "one").await, "1");
    // The first slow write makes the store leave the next ones to its thread.
    disk.be_slow();
    session.set_title(Some("slow".to_owned())).await.unwrap();
    disk.shut();
    let (titles, undoes) = (session.clone(), session.clone());
    let titled = tokio::spawn(async move { titles.set_title(Some("later".to_owned())).await });
    let waiting = disk.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_one_waits()).await.unwrap();
    let undone = tokio::spawn(async move { undoes.undo().await });
    until("the undo waits behind the entry, to be told", || session.slot.depth() == 2).await;
    assert!(!undone.is_finished());
    goes_on(&disk);
    let titled = timeout(SOON, titled).await.expect("the title is told").unwrap();
    let undone = timeout(SOON, undone).await.expect("the undo is told").unwrap();
    disk.heal();
    let again = session.undo().await;
    assert!(runtime.shutdown().await.is_empty());
    (titled, undone, again)
}

/// What was decided and is on its way to the disk is waited for as long as that takes: the tape is read once it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_undo_waits_for_what_is_on_its_way_to_the_tape() {
    let (titled, undone, again) = undo_behind_a_slow_entry(FakeDisk::open_up).await;
    titled.unwrap();
    assert_eq!(undone.unwrap().gone.len(), 1);
    assert!(matches!(again, Err(BranchError::NoPoint(_))), "it was done once: {again:?}");
}

/// Where it never comes there, nothing was worked out, and the same again works.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_undo_behind_what_the_disk_refused_is_told_so() {
    let refuse = |disk: &FakeDisk| {
        disk.fail_from(0, 1);
        disk.open_up();
    };
    let (titled, undone, again) = undo_behind_a_slow_entry(refuse).await;
    assert!(matches!(titled, Err(SendError::Storage(_))), "{titled:?}");
    assert!(matches!(undone, Err(BranchError::Session(SendError::Storage(_)))), "{undone:?}");
    assert_eq!(again.unwrap().gone.len(), 1);
}

/// Of a branch whose tape has an entry of a later version, only the part before the entry was summarized, and the answer was a
/// success.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_branch_with_an_entry_that_cannot_be_understood_is_an_error() {
    let (folder, engine) = (own_folder(), MemoryStore::new());
    let runtime = Runtime::builder().tapes(Arc::new(engine.clone())).model(counts()).start().await.unwrap();
    let (main, branch) = (create(&runtime, folder.path()).await, create(&runtime, folder.path()).await);
    let State { seq: after, time, .. } = branch.state().await.unwrap();
    assert_eq!(ask(&branch, "one").await, "1");
    branch.wait().await.unwrap();
    runtime.passivate(branch.id()).await.unwrap();
    let mut tape = engine.load(branch.id(), Arc::new(|_| {})).unwrap().tape;
    let (seq, kind) = (tape.last().next(), "of_a_later_version".to_owned());
    let data = serde_json::value::to_raw_value(&()).unwrap();
    let entry = TapeEntry { seq, time, cause: None, turn: None, step: None, ticket: None, input: None, kind, data };
    assert!(matches!(tape.append(&[entry]), Appended::Now(Ok(_))));
    drop(tape);

    let left = main.leave_branch(&branch, after).await.unwrap_err();
    assert_eq!(left.kind(), Kind::Damaged, "{left}");
    assert!(left.to_string().contains("of_a_later_version"), "{left}");
    let state = main.state().await.unwrap();
    assert!(state.history.is_empty() && state.open.is_empty(), "nothing was begun");
    assert!(runtime.shutdown().await.is_empty());
}
