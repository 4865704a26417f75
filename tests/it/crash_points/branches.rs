//! Forking, deleting and importing a session, each struck at each of its points. The next start finds the state before,
//! or the intended one; the same call again completes it; and the parent is whole in each case.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tamtam::{
    Millis, Seq, SessionId,
    ops::{self, SweepPolicy},
    tape::{Deleted, ImportOptions, Spills, Store, StoreOptions, TapeError, TapeStoreExt as _},
};

use super::{
    strike::{STRUCK, Strike},
    tape::written,
};

const ENTRIES: usize = 10;

fn open(folder: &std::path::Path, strike: &Strike) -> Store {
    Store::open(folder, StoreOptions::default().faults(strike.faults())).unwrap()
}

/// What is done with a store that has a parent of ten entries, and a fork of it unless that is what is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Fork,
    DeleteFork,
    DeleteParent,
    Import,
    /// Of both, the fork first.
    Sweep,
}

fn named(id: &str) -> SessionId {
    id.parse().unwrap()
}

impl Deed {
    fn does(self, store: &Store, export: &[u8]) -> Result<(), TapeError> {
        let (parent, fork) = (named("parent"), named("fork"));
        match self {
            Deed::Fork => store.fork(&parent, None, &fork, Millis(1)).map(drop),
            Deed::DeleteFork => store.delete(&fork).map(|deleted| assert_eq!(deleted, Deleted::Gone)),
            Deed::DeleteParent => store.delete(&parent).map(|deleted| assert_eq!(deleted, Deleted::Hidden)),
            Deed::Import => {
                let options = ImportOptions::into_workspace("/w", Millis(1)).under(named("import"));
                store.import(&mut &export[..], &options).map(drop)
            }
            Deed::Sweep => {
                let mut policy = SweepPolicy::default();
                // The protected one is the newest of the three, and does not count against them.
                policy.keep_newest = Some(0);
                ops::sweep_planned(store, ops::sweep_plan(store, policy, Millis::now(), || false).unwrap(), || false)
                    .map(drop)
            }
        }
    }

    /// Whether that is how it looks when it is done; where it is not, as it was before.
    fn is_done(self, store: &Store) -> bool {
        let length = |id: &str| store.read(&named(id), Seq::ZERO).map(|entries| entries.len()).unwrap_or(0);
        match self {
            Deed::Fork => length("fork") == ENTRIES + 1,
            Deed::DeleteFork => length("fork") == 0,
            Deed::DeleteParent => length("parent") == 0 && length("fork") == ENTRIES + 1,
            Deed::Import => length("import") == ENTRIES + 1,
            Deed::Sweep => length("parent") == 0 && length("fork") == 0,
        }
    }
}

fn strikes(deed: Deed, point: &str) {
    strikes_at(deed, point, 1);
}

fn strikes_at(deed: Deed, point: &str, nth: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut export = Vec::new();
    {
        let store = open(folder.path(), &Strike::default());
        written(&store, &named("parent"), ENTRIES as u64);
        store.export(&named("parent"), Spills::Left, &mut export).unwrap();
        if deed != Deed::Fork {
            Deed::Fork.does(&store, &[]).unwrap();
        }
        if deed == Deed::Sweep {
            written(&store, &named("protected"), ENTRIES as u64);
            store.protect(&named("protected")).unwrap();
        }
        assert!(!deed.is_done(&store), "{deed:?}");
    }
    let strike = Strike::default();
    {
        let store = open(folder.path(), &strike);
        strike.panic_at(point, nth);
        let done = catch_unwind(AssertUnwindSafe(|| deed.does(&store, &export)));
        let panic = done.expect_err(&format!("{deed:?} passes {point}"));
        assert_eq!(panic.downcast_ref::<&str>(), Some(&STRUCK), "{deed:?} at {point}");
    }
    assert_eq!(strike.struck(), 1, "{deed:?} passes {point}");
    let store = open(folder.path(), &Strike::default());
    if !deed.is_done(&store) {
        deed.does(&store, &export).unwrap_or_else(|error| panic!("{deed:?} after a strike at {point}: {error}"));
    }
    assert!(deed.is_done(&store), "{deed:?} at {point}");
    if deed == Deed::Sweep {
        // What was to stay is whole, and no part of what went is left.
        assert_eq!(store.read(&named("protected"), Seq::ZERO).unwrap().len(), ENTRIES);
        assert!(store.verify_all().unwrap().is_empty());
        let left = std::fs::read_dir(folder.path().join("sessions")).unwrap().count();
        let removing = std::fs::read_dir(folder.path().join("deleted")).unwrap().count();
        let hidden = std::fs::read_dir(folder.path().join("hidden")).map_or(0, Iterator::count);
        assert_eq!((left, removing, hidden), (1, 0, 0), "{point} {nth}");
    } else if deed != Deed::DeleteParent {
        assert_eq!(store.read(&named("parent"), Seq::ZERO).unwrap().len(), ENTRIES);
        assert!(store.verify(&named("parent")).unwrap().is_empty());
    }
}

/// A sweep that is cut off at any point of any of its removals loses nothing that should stay; the next one goes on.
#[test]
fn a_sweep_that_is_cut_off_keeps_what_should_stay_and_is_gone_on_with() {
    for point in ["tape.delete.claimed", "tape.delete.moved", "tape.delete.unmarked"] {
        for nth in 1..=2 {
            strikes_at(Deed::Sweep, point, nth);
        }
    }
}

/// F01: each point of a fork, of a deletion and of an import.
#[test]
fn a_fork_a_deletion_and_an_import_are_whole_or_not_there_wherever_they_are_cut_off() {
    for point in ["tape.create.folder", "tape.create.claimed", "tape.fork.marked"] {
        strikes(Deed::Fork, point);
    }
    for point in ["tape.delete.claimed", "tape.delete.moved", "tape.delete.unmarked"] {
        strikes(Deed::DeleteFork, point);
    }
    for point in ["tape.delete.claimed", "tape.delete.hidden"] {
        strikes(Deed::DeleteParent, point);
    }
    for point in ["tape.import.begun", "tape.import.written", "tape.import.done"] {
        strikes(Deed::Import, point);
    }
}
