//! The tape's writer and the index, struck in the middle of a batch: nothing that was acknowledged is lost or doubled,
//! and the index has the same rows as a rebuilt one.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, mpsc},
    time::Duration,
};

use tamtam::{
    Millis, Seq, SessionId,
    tape::{Appended, Durability, Notify, Store, StoreOptions, TapeEntry, TapeError, TapeStoreExt as _, TapeWriter},
};

use super::{
    picture::copy,
    strike::{STRUCK, Strike},
};

use crate::support::taped::{self, LeftOut};

const SESSIONS: usize = 6;
const APPENDS: u64 = 25;

fn id(n: usize) -> SessionId {
    format!("s{n}").parse().unwrap()
}

fn entry(seq: u64) -> TapeEntry {
    TapeEntry::new(
        Seq(seq),
        Millis(1_700_000_000_000 + seq),
        "note",
        serde_json::value::to_raw_value(&serde_json::json!({"text": format!("gong {seq}").repeat(40)})).unwrap(),
    )
}

fn options(durability: Durability, strike: &Strike) -> StoreOptions {
    // A log of this size is begun again several times in a round.
    let commit_log_bytes = 64 * 1024;
    StoreOptions::default().durability(durability).commit_log_bytes(commit_log_bytes).faults(strike.faults())
}

/// A tape and what it was told.
struct Writer {
    tape: Box<dyn TapeWriter>,
    told: mpsc::Receiver<Result<Seq, TapeError>>,
}

fn notify() -> (Notify, mpsc::Receiver<Result<Seq, TapeError>>) {
    let (send, told) = mpsc::channel();
    // Whoever does not listen any more was struck.
    (Arc::new(move |result| drop(send.send(result))), told)
}

impl Writer {
    /// Appends, and waits until it is acknowledged.
    fn append(&mut self, entries: &[TapeEntry]) -> Result<Seq, TapeError> {
        match self.tape.append(entries) {
            Appended::Now(result) => result,
            Appended::Later => self.told.recv_timeout(Duration::from_secs(60)).expect("an append is told about"),
        }
    }
}

/// Makes a session of so many entries and gives it back.
pub(crate) fn written(store: &Store, id: &SessionId, entries: u64) {
    let (notify, told) = notify();
    let mut writer = Writer { tape: store.create(id, notify).unwrap(), told };
    for seq in 1..=entries {
        assert_eq!(writer.append(&[entry(seq)]).unwrap(), Seq(seq));
    }
}

/// Writes one session to its end. What panics on its own thread costs the handle, as it would an actor; the next one loads.
fn write(store: &Store, n: usize) -> u64 {
    let mut acknowledged = 0;
    let mut writer: Option<Writer> = None;
    let mut lives = 0;
    while acknowledged < APPENDS * 2 {
        lives += 1;
        assert!(lives < 200, "session {n} does not get on");
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if writer.is_none() {
                let (notify, told) = notify();
                let tape = match store.create(&id(n), notify.clone()) {
                    Err(TapeError::Exists { .. }) => store.load(&id(n), notify).unwrap().tape,
                    made => made.unwrap(),
                };
                writer = Some(Writer { tape, told });
            }
            let writer = writer.as_mut().unwrap();
            let last = writer.tape.last().0;
            // What was being acknowledged when it was struck may be there; what was acknowledged must be.
            assert!(last >= acknowledged, "session {n}: {last} of {acknowledged}");
            if last >= APPENDS * 2 {
                return last;
            }
            let next = last + 1;
            let seq = writer.append(&[entry(next), entry(next + 1)]).unwrap();
            seq.0
        }));
        match step {
            Ok(seq) => acknowledged = acknowledged.max(seq),
            Err(panic) => {
                let struck = panic.downcast_ref::<&str>() == Some(&STRUCK);
                if !struck {
                    std::panic::resume_unwind(panic);
                }
                writer = None;
            }
        }
    }
    acknowledged
}

/// A folder whose tapes hold entries of the test's own, and not the life of a session.
fn folder_of_entries() -> taped::Folder {
    let folder = taped::folder();
    folder.may_leave_out(LeftOut::NoSession);
    folder.may_leave_out(LeftOut::NeverBegun);
    folder
}

/// Everything that was written is there once, in order, and the index says the same before and after it is made anew.
fn judge(folder: &Path, least: &BTreeMap<usize, u64>) {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    for (n, least) in least {
        let (notify, told) = notify();
        let loaded = match store.load(&id(*n), notify) {
            Err(TapeError::Missing { .. }) if *least == 0 => continue,
            loaded => loaded.unwrap(),
        };
        assert_eq!(loaded.read_only, None);
        let there = loaded.entries.len() as u64;
        assert!(there >= *least, "session {n}: {there} of {least} acknowledged");
        assert_eq!(loaded.entries, (1..=there).map(entry).collect::<Vec<_>>());
        let appended = Writer { tape: loaded.tape, told }.append(&[entry(there + 1)]).unwrap();
        assert_eq!(appended, Seq(there + 1));
    }
    assert_eq!(store.verify_all().unwrap(), []);
    let mut index = store.index().unwrap();
    let rebuilt = index.rebuild().unwrap();
    assert_eq!(rebuilt.before.as_ref(), Some(&rebuilt.after));
    store.close(Duration::from_secs(10)).unwrap();
}

/// One round; how often each point was passed.
fn round(durability: Durability, strike: &Strike) -> BTreeMap<String, u64> {
    let folder = folder_of_entries();
    let path = folder.path().join("store");
    let store = Store::open(&path, options(durability, strike)).unwrap();
    let written: BTreeMap<_, _> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..SESSIONS)
            .map(|n| {
                (
                    n,
                    scope.spawn({
                        let store = &store;
                        move || write(store, n)
                    }),
                )
            })
            .collect();
        all.into_iter().map(|(n, thread)| (n, thread.join().unwrap())).collect()
    });
    assert!(written.values().all(|last| *last == APPENDS * 2), "{written:?}");
    let _ = store.close(Duration::from_secs(10));
    drop(store);
    judge(&path, &written);
    strike.passed()
}

/// The points of the writer, and which passings of each are struck.
fn passings(passed: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let writers = passed.iter().filter(|(point, _)| !point.contains(".open.") && *point != "tape.end");
    writers.flat_map(|(point, times)| [1, times / 3 + 1, times / 2 + 1].map(|nth| (point.clone(), nth))).collect()
}

fn panics(durability: Durability) {
    let passed = round(durability, &Strike::default());
    if durability == Durability::Power {
        assert!(passed.contains_key("tape.commit.cut"), "the log never began again: {passed:?}");
    }
    let mut struck = 0;
    for (point, nth) in passings(&passed) {
        if durability == Durability::Process && point.starts_with("tape.release") {
            // Here the handle is given back where it is dropped, and a panic in a drop is nobody's to catch.
            continue;
        }
        let strike = Strike::default();
        strike.panic_at(&point, nth);
        round(durability, &strike);
        struck += strike.struck();
    }
    assert!(struck * 2 >= passed.len(), "{struck} were struck");
}

/// Must show 5, SUPV invariant 30: a panic of the tape's writer at any point of a batch loses and doubles nothing.
#[test]
fn recovery_of_the_tape_writer_in_mid_batch() {
    panics(Durability::Process);
}

/// The same where a batch shares a sync, and the log begins again.
#[test]
fn recovery_of_the_tape_writer_in_mid_batch_with_power() {
    panics(Durability::Power);
}

/// Where it was taken, the store as it was then, and what was acknowledged.
type Picture = (String, taped::Folder, BTreeMap<usize, u64>);

/// Must show 5, D01: the same for a process that is killed there: what it had acknowledged is there, once.
#[test]
fn recovery_of_the_tape_writer_killed_in_mid_batch() {
    for durability in [Durability::Process, Durability::Power] {
        let counted = round(durability, &Strike::default());
        let (folder, strike) = (folder_of_entries(), Strike::default());
        let path = folder.path().join("store");
        let acknowledged: Arc<[std::sync::atomic::AtomicU64; SESSIONS]> = Arc::default();
        let pictures: Arc<std::sync::Mutex<Vec<Picture>>> = Arc::default();
        for (point, nth) in passings(&counted) {
            let (pictures, path, acknowledged) = (pictures.clone(), path.clone(), acknowledged.clone());
            strike.at(&point.clone(), nth, move || {
                // What is acknowledged now is on the disk already; the disk is looked at after.
                let known = acknowledged
                    .iter()
                    .map(|last| last.load(std::sync::atomic::Ordering::SeqCst))
                    .enumerate()
                    .collect();
                let home = folder_of_entries();
                copy(&path, &home.path().join("store"));
                pictures.lock().unwrap().push((point.clone(), home, known));
            });
        }
        let store = Store::open(&path, options(durability, &strike)).unwrap();
        std::thread::scope(|scope| {
            for n in 0..SESSIONS {
                let (store, acknowledged) = (&store, &acknowledged);
                scope.spawn(move || {
                    let (notify, told) = notify();
                    let mut writer = Writer { tape: store.create(&id(n), notify).unwrap(), told };
                    for append in 0..APPENDS {
                        let next = append * 2 + 1;
                        let seq = writer.append(&[entry(next), entry(next + 1)]).unwrap();
                        acknowledged[n].store(seq.0, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        store.close(Duration::from_secs(10)).unwrap();
        drop(store);
        let pictures = std::mem::take(&mut *pictures.lock().unwrap());
        assert!(pictures.len() >= counted.len(), "{} pictures", pictures.len());
        for (point, home, known) in pictures {
            let judged = std::panic::catch_unwind(|| judge(&home.path().join("store"), &known));
            assert!(judged.is_ok(), "killed at {point} of {durability:?}, with {known:?} acknowledged");
        }
    }
}

/// Must show 5, SUPV invariant 31, D06: the index struck at any point, by a panic and by a kill, catches up to what one that is
/// made anew has.
#[test]
fn recovery_of_the_index() {
    let folder = folder_of_entries();
    let path = folder.path().join("store");
    let store = Store::open(&path, options(Durability::Process, &Strike::default())).unwrap();
    (0..SESSIONS).for_each(|n| assert_eq!(write(&store, n), APPENDS * 2));
    store.close(Duration::from_secs(10)).unwrap();
    drop(store);
    let points = ["index.opened", "index.session", "index.pulled", "index.committed", "index.deleted"];
    for point in points {
        for nth in [1, 4] {
            let home = folder_of_entries();
            let (panicked, killed) = (home.path().join("panicked"), home.path().join("killed"));
            copy(&path, &panicked);
            let strike = Strike::default();
            let (from, to) = (panicked.clone(), killed.clone());
            strike.at(point, nth, move || {
                copy(&from, &to);
                std::panic::resume_unwind(Box::new(STRUCK));
            });
            let store = Store::open(&panicked, options(Durability::Process, &strike)).unwrap();
            let rebuild = || {
                let mut index = store.index().unwrap();
                index.catch_up().unwrap();
                index.rebuild().unwrap()
            };
            let mut tries = 0;
            let rebuilt = loop {
                // The strike panics once; a part of the points is passed once only, and then it does not panic at all.
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(rebuild)) {
                    Ok(rebuilt) => break rebuilt,
                    Err(_) => tries += 1,
                }
                assert!(tries < 2, "{point} {nth}");
            };
            assert_eq!(rebuilt.before.as_ref(), Some(&rebuilt.after), "{point} {nth}");
            assert_eq!(rebuilt.after.entries, SESSIONS as u64 * APPENDS * 2);
            assert_eq!(strike.struck(), usize::from(nth == 1 || tries > 0), "{point} {nth}");
            store.close(Duration::from_secs(10)).unwrap();
            if killed.exists() {
                let store = Store::open(&killed, StoreOptions::default()).unwrap();
                let mut index = store.index().unwrap();
                index.catch_up().unwrap();
                assert_eq!(index.rows().unwrap(), rebuilt.after, "{point} {nth}, killed");
            }
        }
    }
}
