//! Sessions that were brought in from another store.

use super::*;
use crate::tape::{Forked, Store, StoreOptions};

fn put(store: &Store, session: &SessionId, entries: &[Entry]) {
    let mut tape = store.create(session, Arc::new(|_| {})).unwrap();
    let lines: Vec<_> = entries.iter().map(|entry| entry.to_tape().unwrap()).collect();
    // Now or later: the store is settled before any read.
    let _ = tape.append(&lines);
    drop(tape);
    assert!(store.settle(std::time::Duration::from_secs(60)));
}

/// The tape of a fork that was brought in names what it went on from there; who has that name here is another.
#[test]
fn a_fork_that_was_brought_in_puts_nothing_back_that_others_did() {
    let mut scene = Scene::new();
    scene.crash_in("write", json!({"path": "made", "content": "made"}));
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let [parent, fork, brought]: [SessionId; 3] = ["parent", "fork", "brought"].map(|name| name.parse().unwrap());
    // Its result says nothing of what it did: that is in the notes alone.
    put(&store, &parent, &scene.entries);
    std::fs::rename(scene.kept(), store.files_path(&parent).unwrap()).unwrap();
    store.fork(&parent, None, &fork, Millis(1)).unwrap();
    let forked = Forked {
        session: brought.clone(),
        parent: parent.clone(),
        seq: Seq(5),
        sum: "0".repeat(16),
        depth: 0,
        spill: None,
    };
    let record = Record::Forked(forked.into());
    let first = scene.entries[0].clone();
    let forked = Entry { seq: Seq(2), record, ..first.clone() };
    put(&store, &brought, &[first, forked]);
    let named = |session: &SessionId| -> Vec<String> {
        changes(&store, session, Seq::ZERO).unwrap().files.into_iter().map(|file| file.path).collect()
    };
    assert_eq!((named(&parent), named(&fork), named(&brought)), (vec!["made".into()], vec!["made".into()], vec![]));
}
