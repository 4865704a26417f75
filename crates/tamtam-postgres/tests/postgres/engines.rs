//! What every engine of tapes promises, held over PostgreSQL: the claims are those of the library's own engines.

#[path = "../../../../src/tape/tests/engines/claims.rs"]
pub(crate) mod claims;
#[path = "../../../../src/tape/tests/engines/races.rs"]
mod races;

use tamtam::tape::{Store, StoreOptions, TapeStore};
use tamtam_postgres::Postgres;

use crate::server::{shared, sql, store};
use claims::{LONG, talked};

fn each_engine(claim: impl Fn(&str, &dyn TapeStore)) {
    claim("PostgreSQL", &store());
}

/// A tape can move between engines: its rows are the lines that its files would have, byte for byte.
#[test]
fn rows_are_the_lines_of_files() {
    let (options, folder) = (shared().database(), tempfile::tempdir().unwrap());
    let (here, files) =
        (Postgres::open(&options).unwrap(), Store::open(folder.path(), StoreOptions::default()).unwrap());
    for store in [&here as &dyn TapeStore, &files] {
        drop(talked(store, "s"));
        assert!(store.settle(LONG));
    }
    let mut lines = Vec::new();
    for anchor in ["001_session-start", "002_phase-1", "003_phase-2"] {
        let file = folder.path().join("sessions/s/anchors").join(anchor).join("entries.jsonl");
        lines.extend(std::fs::read_to_string(file).unwrap().lines().map(str::to_owned));
    }
    let rows = format!("select line from {}.entries where session = 's' order by seq", options.schema);
    assert_eq!(sql(&shared().address(), &rows), lines);
}
