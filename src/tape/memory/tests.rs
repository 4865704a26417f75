#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use super::*;
use crate::{
    tape::{
        Deleted, TapeStoreExt as _,
        tests::support::{entry, id},
    },
    words::ids::Millis,
};

fn limited(bytes_max: u64, sessions_max: usize) -> MemoryStore {
    MemoryStore::with_limits(MemoryLimits { bytes_max, sessions_max })
}

fn create(store: &MemoryStore, name: &str) -> Result<Box<dyn TapeWriter>, TapeError> {
    store.create(&id(name), Arc::new(|_| {}))
}

fn append(tape: &mut dyn TapeWriter, seq: u64) -> Result<Seq, TapeError> {
    match tape.append(&[entry(seq)]) {
        Appended::Now(done) => done,
        Appended::Later => panic!("memory is never later"),
    }
}

/// What all tapes say of their size.
fn listed(store: &MemoryStore) -> u64 {
    store.list().unwrap().iter().map(|session| session.bytes).sum()
}

/// Promise 11: beyond its bytes it takes no entry, keeps what it has, and continues when there is room: after a deletion, or if
/// the host allows more.
#[test]
fn a_memory_that_is_full_refuses_and_goes_on_when_there_is_room() {
    let store = limited(2_000, 10);
    let (mut old, mut new) = (create(&store, "old").unwrap(), create(&store, "new").unwrap());
    for seq in 1..=4 {
        append(&mut *old, seq).unwrap();
    }
    let last = (1..100).find(|seq| append(&mut *new, *seq).is_err()).unwrap() - 1;
    assert!(last > 1 && store.bytes() <= 2_000 && store.bytes() == listed(&store), "{last} {}", store.bytes());
    let refused = append(&mut *new, last + 1).unwrap_err();
    assert!(refused.is_full());
    let said = "the tapes in memory are full: 2000 bytes are the most; remove sessions that are over (Runtime::sweep), or \
                allow more (MemoryStore::set_limits)";
    assert_eq!(refused.to_string(), said);
    assert!(matches!(
        store.fork(&id("old"), None, &id("f"), Millis(1)),
        Err(TapeError::MemoryFull { of: "bytes", .. })
    ));
    assert!(!store.exists(&id("f")) && store.forks_of(&id("old")).unwrap().is_empty(), "and nothing half-made");
    assert_eq!(new.last(), Seq(last));

    drop(old);
    assert!(store.delete_unused(&id("old"), Seq(4)).unwrap());
    assert_eq!(store.bytes(), listed(&store));
    assert_eq!(append(&mut *new, last + 1).unwrap(), Seq(last + 1), "the same again");
    let full = (last + 2..100).find(|seq| append(&mut *new, *seq).is_err()).unwrap();
    store.clone().set_limits(MemoryLimits { bytes_max: 4_000, sessions_max: 10 });
    assert!(append(&mut *new, full).is_ok(), "allowed for all clones");
    assert_eq!(store.bytes(), listed(&store));
}

/// What a fork takes is counted once, and as long as a fork depends on a session, that counts too.
#[test]
fn what_is_hidden_counts_until_it_goes() {
    let store = limited(100_000, 3);
    let mut p = create(&store, "p").unwrap();
    append(&mut *p, 1).unwrap();
    drop(p);
    store.fork(&id("p"), None, &id("f"), Millis(1)).unwrap();
    store.fork(&id("p"), None, &id("g"), Millis(1)).unwrap();
    assert_eq!(store.bytes(), listed(&store));
    let full = |made: Result<(), TapeError>| match made {
        Err(error @ TapeError::MemoryFull { of: "sessions", max: 3 }) => assert!(error.is_full()),
        other => panic!("{other:?}"),
    };
    full(create(&store, "more").map(drop));
    full(store.fork(&id("p"), None, &id("h"), Millis(1)).map(drop));
    assert_eq!(store.delete(&id("p")).unwrap(), Deleted::Hidden);
    full(create(&store, "more").map(drop));
    assert_eq!(store.delete(&id("f")).unwrap(), Deleted::Gone);
    drop(create(&store, "more").unwrap());
    // Its existence was never reported, so its place is not taken twice.
    drop(create(&store, "more").unwrap());
    assert_eq!(store.delete(&id("more")).unwrap(), Deleted::Gone);
    assert_eq!(store.delete(&id("g")).unwrap(), Deleted::Gone);
    assert_eq!((store.bytes(), store.sessions().unwrap()), (0, vec![]), "the parent went with it");
}

/// Sessions that are not there can be parked; so many at most.
#[test]
fn marks_have_a_bound_too() {
    let store = limited(1_000, 2);
    for name in ["a", "b", "a"] {
        store.mark(&id(name), Mark::Parked, "boom").unwrap();
    }
    assert!(matches!(
        store.mark(&id("c"), Mark::Parked, "boom"),
        Err(TapeError::MemoryFull { of: "sessions", max: 2 })
    ));
    store.unmark(&id("a"), Mark::Parked, "").unwrap();
    store.mark(&id("c"), Mark::Parked, "boom").unwrap();
}

/// What opens a turn is refused. What comes behind that is taken beyond the limit, so that it ends.
#[test]
fn a_turn_that_is_open_ends_in_a_memory_that_is_full() {
    let store = limited(2_000, 10);
    let (mut open, mut idle) = (create(&store, "open").unwrap(), create(&store, "idle").unwrap());
    store.mark(&id("open"), Mark::Open, "").unwrap();
    append(&mut *open, 1).unwrap();
    let full = (1..100).find(|seq| append(&mut *idle, *seq).is_err()).unwrap();
    store.mark(&id("idle"), Mark::Open, "").unwrap();
    append(&mut *idle, full).unwrap_err();
    let long = |seq| {
        let data = serde_json::value::RawValue::from_string(format!("\"{}\"", "x".repeat(400 * 1024))).unwrap();
        TapeEntry { data, ..entry(seq) }
    };
    assert!(matches!(open.append(&[long(2)]), Appended::Now(Ok(Seq(2)))));
    assert!(matches!(open.append(&[long(3)]), Appended::Now(Ok(Seq(3)))));
    assert!(matches!(open.append(&[long(4)]), Appended::Now(Err(TapeError::MemoryFull { .. }))), "it has a bound");
    append(&mut *open, 4).unwrap();
    let last = (5..20_000).find(|seq| append(&mut *open, *seq).is_err()).unwrap();
    assert!(last > 1_000 && store.bytes() <= 2_000 + 1024 * 1024, "so has that: {last} {}", store.bytes());
    store.unmark(&id("open"), Mark::Open, "").unwrap();
    store.unmark(&id("idle"), Mark::Open, "").unwrap();
    drop(open);
    assert_eq!(store.delete(&id("open")).unwrap(), Deleted::Gone);
    assert_eq!(store.bytes(), listed(&store));
    append(&mut *idle, full).unwrap();
}
