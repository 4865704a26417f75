//! What every engine of tapes promises, held over PostgreSQL: the claims are those of the library's own engines.

#[path = "../../../../src/tape/tests/engines/claims.rs"]
pub(crate) mod claims;
#[path = "../../../../src/tape/tests/engines/races.rs"]
mod races;

use tamtam::tape::{Store, StoreOptions, TapeStore};
use tamtam_postgres::Postgres;

use crate::server::{comes_true, shared, sql, store};
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

/// What an append costs does not grow with the tapes that are there: it finds the line that it continues by its key, and reads no table.
#[test]
fn no_append_reads_the_tapes_that_are_there() {
    let options = shared().database();
    let store = Postgres::open(&options).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            scope.spawn(|| {
                let mut tape = claims::Tape::create(&store, name);
                for seq in 1..=100 {
                    tape.append(&[claims::entry(seq)]).unwrap();
                }
            });
        }
    });
    assert!(store.settle(LONG));
    drop(store);
    // A connection leaves its counts when it ends.
    let counts = format!(
        "select n_tup_ins, seq_tup_read from pg_stat_user_tables where schemaname = '{}' and relname = 'entries'",
        options.schema
    );
    let mut read = 0_u64;
    let have_come = || {
        let counts = sql(&shared().address(), &counts).remove(0);
        let (written, rows) = counts.split_once(' ').unwrap();
        read = rows.parse().unwrap();
        written == "400"
    };
    assert!(comes_true(have_come), "the rows were not counted");
    assert!(read < 400, "400 appends read {read} rows of whole tables");
}
