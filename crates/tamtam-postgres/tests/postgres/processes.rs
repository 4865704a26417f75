//! A node in a process of its own: it is killed, or stands still, and another node takes its session over.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use tamtam::{
    Seq,
    tape::{Appended, TapeError, TapeStore as _},
};
use tamtam_postgres::{Postgres, PostgresOptions};

use crate::{
    engines::claims::{LONG, Tape, deaf, entries, entry, id, listener},
    ownership::{rows, take_over},
    server::shared,
};

pub(crate) const CHILD: &str = "TAMTAM_POSTGRES_CHILD";

/// The process: appends until it is refused or killed, and prints what it is told. Does nothing unless a test below starts it.
#[test]
fn child() {
    let Ok(at) = std::env::var(CHILD) else { return };
    let (address, schema) = at.split_once('\n').unwrap();
    let options = PostgresOptions::new(address).schema(schema).node("child").lease(Duration::from_secs(4));
    let store = Postgres::open(&options).unwrap();
    let mut tape = Tape::create(&store, "s");
    for seq in 1.. {
        match tape.append(&[entry(seq)]) {
            Ok(seq) => println!("told acknowledged {}", seq.0),
            Err(error) => return println!("told refused {error}"),
        }
    }
}

/// Killed at the end, also where a test fails.
pub(crate) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    acknowledged: u64,
}

impl Process {
    fn start(options: &PostgresOptions) -> Process {
        Process::of("processes::child", options)
    }

    /// A process that runs this test alone.
    pub(crate) fn of(test: &str, options: &PostgresOptions) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(CHILD, format!("{}\n{}", shared().address(), options.schema))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Process { child, out, acknowledged: 0 }
    }

    /// What it is told, until it acknowledges that many or says something else; `None` at its end.
    pub(crate) fn hear(&mut self, until: u64) -> Option<String> {
        let mut line = String::new();
        while self.acknowledged < until {
            line.clear();
            if self.out.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let Some((_, told)) = line.split_once("told ") else { continue };
            match told.trim().strip_prefix("acknowledged ") {
                Some(number) => self.acknowledged = number.parse().unwrap(),
                None => return Some(told.trim().to_owned()),
            }
        }
        Some(String::new())
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// After `kill -9` of its owner a session has every acknowledged entry, and another node goes on with it once the lease is over.
#[test]
fn a_process_that_is_killed_is_taken_over_with_all_that_it_was_told() {
    let options = shared().database();
    let mut process = Process::start(&options);
    assert_eq!(process.hear(50).as_deref(), Some(""));
    let two = Postgres::open(&options).unwrap();
    let claimed = two.claim(&id("s"), deaf());
    assert!(matches!(claimed, Err(TapeError::Claimed { by, .. }) if by.pid == process.child.id()));
    process.signal("-KILL");
    assert_eq!(process.hear(u64::MAX), None);
    let (notify, told) = listener();
    let (mut tape, read) = take_over(&two, &notify, None);
    // One more may be there: the one that it was killed in.
    let (last, acknowledged) = (tape.last().0, process.acknowledged);
    assert!(last == acknowledged || last == acknowledged + 1, "{last} after {acknowledged}");
    assert_eq!(read, entries(1..=last));
    assert!(matches!(tape.append(&[entry(last + 1)]), Appended::Later));
    assert_eq!(told.recv_timeout(LONG).unwrap().unwrap(), Seq(last + 1));
}

/// A process stands still in the middle of its work (`SIGSTOP`), loses its session, and goes on (`SIGCONT`): it is refused, and what
/// the tape has is what the new owner wrote.
#[test]
fn a_process_that_stood_still_is_refused_when_it_goes_on() {
    let options = shared().database();
    let mut process = Process::start(&options);
    assert_eq!(process.hear(50).as_deref(), Some(""));
    process.signal("-STOP");
    let two = Postgres::open(&options).unwrap();
    let (notify, told) = listener();
    let (mut tape, read) = take_over(&two, &notify, Some(&options.schema));
    let last = tape.last().0;
    assert_eq!(read, entries(1..=last));
    for seq in last + 1..=last + 3 {
        assert!(matches!(tape.append(&[entry(seq)]), Appended::Later));
        assert_eq!(told.recv_timeout(LONG).unwrap().unwrap(), Seq(seq));
    }
    process.signal("-CONT");
    let refused = process.hear(u64::MAX).unwrap();
    assert!(refused.starts_with("refused session s is in use by process"), "{refused}");
    assert!(process.acknowledged <= last, "{} after {last}", process.acknowledged);
    assert_eq!(rows(&options.schema, "s"), (1..=last + 3).collect::<Vec<_>>());
}
