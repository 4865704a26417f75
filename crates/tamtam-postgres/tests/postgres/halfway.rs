//! An import that is under way: what it does to everybody else meanwhile, and they to it.

use std::{
    io::{self, BufRead, Read},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::value::RawValue;
use tamtam::{
    Millis, Seq,
    tape::{ImportOptions, TapeEntry, TapeError, TapeStore, TapeStoreExt as _},
};
use tamtam_postgres::Postgres;

use crate::{
    engines::claims::{LONG, Tape, entry, id, talked},
    moved::{exported, files},
    server::{Server, comes_true, shared, sql},
};

/// A file that does something when the import is in the middle of it.
struct Halfway<'a> {
    rest: &'a [u8],
    half: usize,
    act: Option<Box<dyn FnOnce() + 'a>>,
}

impl Read for Halfway<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.rest.read(into)
    }
}

impl BufRead for Halfway<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.rest.len() < self.half
            && let Some(act) = self.act.take()
        {
            act();
        }
        Ok(self.rest)
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
}

/// The server is killed while rows of the session are written: nobody saw any of it, and nothing of it is left.
#[test]
fn an_import_that_is_killed_half_way_leaves_nothing() {
    let (server, folder) = (Server::start(), tempfile::tempdir().unwrap());
    let options = server.database();
    let (from, to) = (files(folder.path()), Postgres::open(&options).unwrap());
    let mut tape = Tape::create(&from, "s");
    for seq in 1..=40 {
        let data = RawValue::from_string(format!("\"{}\"", "x".repeat(1024 * 1024))).unwrap();
        tape.append(&[TapeEntry::new(Seq(seq), Millis(seq), "note", data)]).unwrap();
    }
    drop(tape);
    let file = exported(&from, "s");
    let other = Postgres::open(&options).unwrap();
    let act = || {
        assert_eq!(other.names().unwrap(), [], "a part of it is seen");
        assert!(matches!(other.summary(&id("s")), Err(TapeError::Missing { .. })));
        server.kill();
        server.start_again();
    };
    let mut half = Halfway { rest: &file, half: file.len() / 2, act: Some(Box::new(act)) };
    assert!(to.import(&mut half, &ImportOptions::as_it_was()).is_err());
    assert!(half.act.is_none(), "it did not come half way");
    assert_eq!(sql(&server.address(), &format!("select count(*) from {}.entries", options.schema)), ["0"]);
    assert_eq!(to.names().unwrap(), []);
    to.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap();
    assert!(exported(&to, "s") == file);
}

/// A session of 14 entries as a file.
fn file() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let from = files(folder.path());
    drop(talked(&from, "s"));
    assert!(from.settle(LONG));
    exported(&from, "s")
}

/// A caller whose file does not come, such as an upload that stands still, keeps no connection from anybody.
#[test]
fn an_import_that_waits_for_its_file_holds_up_nobody() {
    let (file, options) = (file(), shared().database().connections(1));
    let store = Postgres::open(&options).unwrap();
    let act = || {
        let (store, (tell, told)) = (store.clone(), mpsc::channel());
        thread::spawn(move || tell.send(store.names().unwrap()));
        assert_eq!(told.recv_timeout(LONG).expect("the one connection is free"), []);
    };
    let mut half = Halfway { rest: &file, half: file.len() / 2, act: Some(Box::new(act)) };
    store.import(&mut half, &ImportOptions::as_it_was()).unwrap();
    assert!(half.act.is_none(), "it did not come half way");
    assert_eq!(store.read(&id("s"), Seq(0)).unwrap().len(), 14);
}

/// The second one waits for the row, and then sees what was committed meanwhile.
#[test]
fn of_two_imports_of_one_name_the_second_is_told_that_it_exists() {
    let (file, options) = (file(), shared().database());
    let empty = {
        let folder = tempfile::tempdir().unwrap();
        let from = files(folder.path());
        drop(Tape::create(&from, "s"));
        assert!(from.settle(LONG));
        exported(&from, "s")
    };
    let one = Postgres::open(&options).unwrap();
    for second_file in [&file, &empty] {
        let name = format!("second-{}-{}", options.schema, second_file.len());
        let second = Postgres::open(&options.clone().node(&name)).unwrap();
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            let act = || {
                let second = scope.spawn(|| second.import(&mut &second_file[..], &ImportOptions::as_it_was()));
                let waits = format!(
                    "select count(*) from pg_stat_activity where application_name = '{name}' and wait_event_type = 'Lock'"
                );
                assert!(comes_true(|| sql(&shared().address(), &waits) == ["1"]));
                tell.send(second).unwrap();
            };
            let mut half = Halfway { rest: &file, half: file.len() / 2, act: Some(Box::new(act)) };
            one.import(&mut half, &ImportOptions::as_it_was()).unwrap();
            let told = told.recv().unwrap().join().unwrap();
            assert!(matches!(told, Err(TapeError::Exists { .. })), "{told:?}");
        });
        assert_eq!(exported(&one, "s"), file);
        one.delete(&id("s")).unwrap();
    }
}

/// A node that had the name, without an entry and given back, asks for what it has when it connects again: the session
/// that came in is not its.
#[test]
fn an_import_over_an_empty_session_takes_it_from_its_owner() {
    let (file, options) = (file(), shared().database().lease(Duration::from_secs(3_600)));
    let name = format!("stale-{}", options.schema);
    let stale = Postgres::open(&options.clone().node(&name)).unwrap();
    let mut tape = Tape::create(&stale, "s");
    sql(&shared().address(), &format!("update {}.sessions set expires = '-infinity'", options.schema));
    let other = Postgres::open(&options).unwrap();
    other.import(&mut &file[..], &ImportOptions::as_it_was()).unwrap();
    let cut = format!("select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{name}'");
    sql(&shared().address(), &cut);
    // Not what came in: that is on the tape, whoever wrote it.
    let mut mine = entry(1);
    mine.time = entry(2).time;
    let refused = tape.append(&[mine]);
    assert!(matches!(refused, Err(TapeError::Claimed { .. })), "{refused:?}");
    let (mut tape, read) = Tape::load(&other, "s");
    assert_eq!(read.last().map(|entry| entry.seq), Some(Seq(14)));
    tape.append(&[entry(15)]).unwrap();
}
