//! The engines of tapes, and what each of them promises (`claims.rs`, `races.rs`): the files, the memory, and an engine that is made
//! of what a [`TapeStore`] owes and nothing else.

pub(crate) mod claims;
#[path = "../../../tests/it/engines/plain.rs"]
mod plain;
pub(super) mod races;

use std::sync::Arc;

use super::support::*;
use crate::{
    tape::{MemoryStore, Store, TapeError, TapeStore, TapeStoreExt as _},
    words::ids::{Millis, Seq},
};
use claims::talked;
use plain::Plain;

const NOW: Millis = Millis(1_733_000_000_000);

/// Tells a claim about each engine; the folder of the files lives as long.
pub(super) fn each_engine(claim: impl Fn(&str, &dyn TapeStore)) {
    for (name, options) in [("files", small()), ("files, Power", power())] {
        let folder = own_folder();
        claim(name, &Store::open(folder.path(), options).unwrap());
    }
    claim("memory", &MemoryStore::new());
    claim("an engine of a host's own", &Plain::default());
}

#[test]
fn a_closed_store_takes_nothing_more() {
    let claim = |engine: &str, store: &dyn TapeStore, close: &dyn Fn()| {
        let mut tape = talked(store, "s");
        assert!(store.settle(LONG), "{engine}");
        close();
        assert!(matches!(tape.append(&entries(15..=15)), Err(TapeError::Closed)), "{engine}");
        assert!(matches!(store.load(&id("s"), deaf()), Err(TapeError::Closed)), "{engine}");
        assert!(matches!(store.park(&id("s"), NOW, "x"), Err(TapeError::Closed)), "{engine}");
        assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=14), "{engine}");
    };
    for options in [small(), power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        claim("files", &store, &|| store.close(LONG).unwrap());
    }
    let store = MemoryStore::new();
    claim("memory", &store, &|| store.close());
}

/// An engine is a value behind one pointer.
#[test]
fn an_engine_can_be_shared() {
    let store: Arc<dyn TapeStore> = Arc::new(MemoryStore::new());
    let other = store.clone();
    std::thread::spawn(move || drop(talked(&*other, "s"))).join().unwrap();
    assert!(store.exists(&id("s")));
}
