//! Writers that are killed. The writer is this test binary, started once more.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::support::*;
use crate::{
    tape::{Durability, Store, StoreOptions, TapeError},
    words::ids::Seq,
};

/// Where the child writes; unset in an ordinary run of the tests.
const FOLDER: &str = "TAMTAM_TEST_TAPE_FOLDER";

/// Not a separate test: the child that is killed. Appends to two tapes and says what was acknowledged.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let durability = if folder.ends_with("power") { Durability::Power } else { Durability::Process };
    let store = Store::open(folder, StoreOptions { durability, ..small() }).unwrap();
    let mut tapes: Vec<Waiting> = ["a", "b"]
        .iter()
        .map(|name| match store.exists(&id(name)) {
            true => Waiting::load(&store, &id(name)).0,
            false => Waiting::create(&store, &id(name)),
        })
        .collect();
    println!("\nready");
    loop {
        for (tape, name) in tapes.iter_mut().zip(["a", "b"]) {
            let next = tape.tape.last().0 + 1;
            let size = 1 + next % 4;
            match tape.append(&entries(next..=next + size - 1)) {
                Ok(seq) => println!("{name} {seq}"),
                // A small disk, and a parent that is slow to kill: what is open stays so.
                Err(error) if error.is_full() => loop {
                    std::thread::park();
                },
                Err(error) => panic!("{error}"),
            }
        }
    }
}

pub(super) struct Writer {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Writer {
    pub(super) fn start(folder: &std::path::Path) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tape::tests::crash::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        said.find(|line| line.as_ref().is_ok_and(|line| line == "ready")).unwrap().unwrap();
        Writer { child, said }
    }

    /// Kills it after so many acknowledgements; the last of each tape, of all that it could say.
    pub(super) fn kill_after(mut self, acknowledged: usize) -> [u64; 2] {
        let mut last = [0, 0];
        let mut note = |line: String| {
            if let Some((name, seq)) = line.split_once(' ')
                && let Ok(seq) = seq.parse()
            {
                last[usize::from(name == "b")] = seq;
            }
        };
        for _ in 0..acknowledged {
            note(self.said.next().unwrap().unwrap());
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // The last line may be cut.
        let rest: Vec<String> = self.said.by_ref().map_while(Result::ok).collect();
        rest.into_iter().rev().skip(1).rev().for_each(note);
        last
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Promise 1, D01: 15 kills per durability here; the long run belongs to the soak tests.
#[test]
fn a_killed_writer_loses_and_doubles_nothing_that_it_acknowledged() {
    for durability in ["process", "power"] {
        let folder = own_folder();
        let path = folder.path().join(durability);
        for round in 0..15 {
            let last = Writer::start(&path).kill_after(1 + round * 7 % 50);
            let store = Store::open(&path, small()).unwrap();
            assert_eq!(store.report().dead_owners, 1);
            for (name, last) in ["a", "b"].into_iter().zip(last) {
                let loaded = store.load(&id(name), deaf()).unwrap();
                assert_eq!(loaded.read_only, None);
                assert!(!loaded.rebooted);
                let found = loaded.entries.len() as u64;
                assert!(found >= last, "{name}: {found} of {last} acknowledged, round {round}");
                assert_eq!(loaded.entries, entries(1..=found));
                assert_eq!(store.read(&id(name), Seq(0)).unwrap(), loaded.entries);
            }
            assert_eq!(store.verify_all().unwrap(), []);
        }
    }
}

/// Promise 7, across processes.
#[test]
fn another_process_is_refused_while_the_writer_lives_and_not_when_it_is_dead() {
    let folder = own_folder();
    let writer = Writer::start(folder.path());
    let store = Store::open(folder.path(), small()).unwrap();
    match store.load(&id("a"), deaf()) {
        Err(TapeError::Claimed { by, .. }) => assert_eq!(by.pid, writer.child.id()),
        other => panic!("{other:?}"),
    }
    // Readers run beside it, and see only whole appends.
    for _ in 0..50 {
        let said = store.read(&id("a"), Seq(0)).unwrap();
        assert_eq!(said, entries(1..=said.len() as u64));
        let mut whole = 0;
        while whole < said.len() as u64 {
            whole += 1 + (whole + 1) % 4;
        }
        assert_eq!(whole, said.len() as u64);
    }
    let last = writer.kill_after(10);
    let (mut tape, said) = Waiting::load(&store, &id("a"));
    assert!(said.len() as u64 >= last[0]);
    tape.append(&[entry(said.len() as u64 + 1)]).unwrap();
}
