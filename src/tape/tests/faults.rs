//! Disks that are slow, full or broken.

use std::{
    fs,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::support::*;
use crate::{
    tape::{Appended, Store, StoreOptions, TapeError},
    words::ids::Seq,
};

/// So many tapes on a slow disk, each with an entry: the second one of the first waits at the gate, and those of the others are
/// queued.
fn queued(folder: &std::path::Path, options: StoreOptions, many: usize) -> (Store, Arc<FakeDisk>, Vec<Waiting>) {
    let disk = FakeDisk::new();
    disk.be_slow();
    let store = store_on(folder, options, &disk);
    let mut tapes: Vec<Waiting> = (0..many).map(|n| Waiting::create(&store, &id(&format!("s{n}")))).collect();
    for tape in &mut tapes {
        tape.append(&[entry(1)]).unwrap();
    }
    // A reported append is taken out of the queue a moment later.
    assert!(store.settle(LONG));
    disk.shut();
    for tape in &mut tapes {
        assert!(matches!(tape.tape.append(&[entry(2)]), Appended::Later));
    }
    disk.wait_until_one_waits();
    (store, disk, tapes)
}

#[test]
fn what_waits_for_a_slow_disk_is_told_when_it_is_there() {
    for options in [small(), power()] {
        let folder = own_folder();
        let (store, disk, tapes) = queued(folder.path(), options, 50);
        assert!(tapes.iter().all(|tape| tape.tape.last() == Seq(1)));
        assert!(!store.settle(std::time::Duration::ZERO));
        disk.open_up();
        for tape in &tapes {
            assert_eq!(tape.told.recv_timeout(LONG).unwrap().unwrap(), Seq(2));
            assert_eq!(tape.tape.last(), Seq(2));
        }
        assert!(store.settle(LONG));
        for n in 0..50 {
            assert_eq!(store.read(&id(&format!("s{n}")), Seq(0)).unwrap(), entries(1..=2));
        }
    }
}

#[test]
fn in_place_is_written_only_while_the_disk_is_calm() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    disk.be_slow();
    let store = store_on(folder.path(), small(), &disk);
    let mut tape = Waiting::create(&store, &id("s"));
    assert!(matches!(tape.tape.append(&[entry(1)]), Appended::Now(Ok(Seq(1)))), "nothing slow was seen yet");
    assert!(matches!(tape.tape.append(&[entry(2)]), Appended::Later));
    tape.told.recv_timeout(LONG).unwrap().unwrap();
    disk.delay_us.store(0, Ordering::SeqCst);
    let mut seq = 2;
    loop {
        seq += 1;
        match tape.tape.append(&[entry(seq)]) {
            Appended::Now(result) => break assert_eq!(result.unwrap(), Seq(seq)),
            Appended::Later => drop(tape.told.recv_timeout(LONG).unwrap().unwrap()),
        }
        assert!(seq < 100_000, "the disk is calm again, and nobody noticed");
    }
    assert!(seq > 9, "after eight quick writes");
}

/// Promise 11
#[test]
fn a_full_queue_says_busy_and_takes_nothing() {
    let folder = own_folder();
    let options = StoreOptions { queue_appends_max: 5, ..small() };
    let (store, disk, tapes) = queued(folder.path(), options, 5);
    let mut more = Waiting::create(&store, &id("more"));
    for _ in 0..3 {
        assert!(matches!(more.tape.append(&[entry(1)]), Appended::Now(Err(TapeError::Busy { waiting: 5 }))));
    }
    disk.open_up();
    assert!(store.settle(LONG));
    assert!(tapes.iter().all(|tape| tape.told.try_iter().all(|told| told.is_ok())));
    more.append(&[entry(1)]).unwrap();
    assert_eq!(store.read(&id("more"), Seq(0)).unwrap(), entries(1..=1));
    drop(tapes);
    let options = StoreOptions { queue_bytes_max: 1000, ..small() };
    let folder = own_folder();
    let (store, disk, _tapes) = queued(folder.path(), options, 2);
    let mut more = Waiting::create(&store, &id("more"));
    assert!(matches!(more.tape.append(&entries(1..=17)), Appended::Now(Err(TapeError::Busy { waiting: 2 }))));
    disk.open_up();
}

#[test]
fn what_waits_when_the_disk_fails_is_told_and_can_be_appended_again() {
    for options in [small(), power()] {
        let folder = own_folder();
        let (store, disk, mut tapes) = queued(folder.path(), options, 3);
        // In `Power` they may go as one group; then all of it fails.
        disk.fail_from(0, 1000);
        disk.open_up();
        for tape in &mut tapes {
            assert!(tape.told.recv_timeout(LONG).unwrap().unwrap_err().is_full());
            assert_eq!(tape.tape.last(), Seq(1));
        }
        assert!(store.settle(LONG));
        disk.heal();
        for tape in &mut tapes {
            assert!(matches!(tape.append(&[entry(3)]), Err(TapeError::Gap { expected: Seq(2), .. })));
            tape.append(&entries(2..=4)).unwrap();
            tape.append(&entries(5..=5)).unwrap();
        }
        drop(tapes);
        assert_eq!(load_entries(&store, &id("s1")), entries(1..=5));
    }
}

/// D03, D04: whichever operation of the disk fails, and for however long, nothing is lost, doubled or half there.
#[test]
fn whichever_operation_fails_the_tape_goes_on_when_the_disk_does() {
    for (options, slow) in [(small(), false), (small(), true), (power(), true)] {
        for length in [1, 3] {
            for nth in 0..60 {
                let folder = own_folder();
                let disk = FakeDisk::new();
                let store = store_on(folder.path(), options.clone(), &disk);
                let mut tapes: Vec<Waiting> =
                    ["a", "b"].iter().map(|name| Waiting::create(&store, &id(name))).collect();
                if slow {
                    // Without the delay, which would take its time here: all go to the thread after one slow write.
                    disk.be_slow();
                    assert!(tapes.iter_mut().all(|tape| tape.append(&[entry(1)]).is_ok()));
                    disk.delay_us.store(0, Ordering::SeqCst);
                } else {
                    assert!(tapes.iter_mut().all(|tape| tape.append(&[entry(1)]).is_ok()));
                }
                disk.fail_from(nth, length);
                for round in 0..6 {
                    let first = 2 + round * 3;
                    for tape in &mut tapes {
                        let mut tries = 0;
                        loop {
                            let written = if round == 3 {
                                tape.append(&[entry(first), entry(first + 1)]).and_then(|_| {
                                    let appended = tape.tape.begin_anchor("later", &entry(first + 2));
                                    tape.wait(appended)
                                })
                            } else {
                                tape.append(&entries(first..=first + 2))
                            };
                            tries += 1;
                            match written {
                                Ok(seq) => break assert_eq!(seq, Seq(first + 2)),
                                Err(error) if tries < 20 && error.is_full() => {
                                    // Of the two appends of round 3 the first may be there.
                                    if tape.tape.last() == Seq(first + 1) {
                                        loop {
                                            let appended = tape.tape.begin_anchor("later", &entry(first + 2));
                                            if tape.wait(appended).is_ok() {
                                                break;
                                            }
                                        }
                                        break;
                                    }
                                    assert_eq!(tape.tape.last(), Seq(first - 1));
                                }
                                Err(error) => panic!("operation {nth}: {error}"),
                            }
                        }
                    }
                }
                drop(tapes);
                assert!(store.settle(LONG));
                for name in ["a", "b"] {
                    assert_eq!(store.read(&id(name), Seq(0)).unwrap(), entries(1..=19), "operation {nth}");
                }
                assert_eq!(store.verify_all().unwrap(), []);
                disk.heal();
                store.close(LONG).unwrap();
            }
        }
    }
}

/// The I/O thread panics in the middle of its work: it is done again, at the same place.
#[test]
fn a_panic_of_the_thread_loses_and_doubles_nothing() {
    for options in [small(), power()] {
        for nth in 0..12 {
            let folder = own_folder();
            let (store, disk, tapes) = queued(folder.path(), options.clone(), 12);
            disk.fault_in(nth, Fault::Panic);
            disk.open_up();
            for tape in &tapes {
                assert_eq!(tape.told.recv_timeout(LONG).unwrap().unwrap(), Seq(2), "operation {nth}");
            }
            // A reported append is taken out of the queue a moment later, and the tape is given back then.
            assert!(store.settle(LONG));
            drop(tapes);
            for n in 0..12 {
                assert_eq!(load_entries(&store, &id(&format!("s{n}"))), entries(1..=2));
            }
            store.close(LONG).unwrap();
        }
    }
}

/// Promise 3, for the one function of the host that this layer calls.
#[test]
fn a_notify_that_panics_harms_nobody() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    disk.be_slow();
    let store = store_on(folder.path(), small(), &disk);
    let mut bad = store.create(&id("bad"), Arc::new(|_| panic!("on purpose"))).unwrap();
    let mut good = Waiting::create(&store, &id("good"));
    for seq in 1..=10 {
        assert!(!matches!(bad.append(&[entry(seq)]), Appended::Now(Err(_))));
        assert!(store.settle(LONG));
        good.append(&[entry(seq)]).unwrap();
    }
    assert!(store.settle(LONG));
    for name in ["bad", "good"] {
        assert_eq!(store.read(&id(name), Seq(0)).unwrap(), entries(1..=10));
    }
}

/// D09
#[test]
fn a_file_that_somebody_else_changed_is_not_written_to() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let path = folder.path().join("sessions/s/anchors/001_session-start/entries.jsonl");
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&entries(1..=2)).unwrap();
    let whole = fs::read(&path).unwrap();
    for changed in [&whole[..10], &[&whole[..], b"x"].concat()] {
        fs::write(&path, changed).unwrap();
        assert!(matches!(tape.append(&[entry(3)]), Err(TapeError::Changed { .. })));
        assert_eq!(fs::read(&path).unwrap(), changed);
        fs::write(&path, &whole).unwrap();
    }
    tape.append(&[entry(3)]).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(tape.append(&[entry(4)]), Err(TapeError::Io { .. })));
    assert!(!path.exists(), "and it is not made again with a part of the tape");
    fs::remove_dir_all(folder.path().join("sessions")).unwrap();
    for _ in 0..3 {
        assert!(matches!(tape.append(&[entry(4)]), Err(TapeError::Io { .. } | TapeError::Changed { .. })));
    }
}

/// Promise 11: more sessions than files.
#[test]
fn at_most_so_many_files_are_open() {
    let folder = own_folder();
    let store = Store::open(folder.path(), StoreOptions { open_files_max: 4, ..small() }).unwrap();
    let mut tapes: Vec<Waiting> = (0..12).map(|n| Waiting::create(&store, &id(&format!("s{n}")))).collect();
    for round in 1..=10 {
        for tape in &mut tapes {
            tape.append(&[entry(round)]).unwrap();
            assert!(store.inner.writer.files.count() <= 4);
        }
    }
    let entries_open = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
        open.filter(|path| path.starts_with(folder.path()) && path.ends_with("entries.jsonl")).count()
    };
    assert_eq!(entries_open(), 4);
    drop(tapes);
    // On a stalled disk, the I/O thread releases them; the file goes with the last who has the tape.
    let started = Instant::now();
    while entries_open() > 0 && started.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(entries_open(), 0);
    for n in 0..12 {
        assert_eq!(load_entries(&store, &id(&format!("s{n}"))), entries(1..=10));
    }
}

#[test]
fn eight_threads_write_their_tapes_at_once() {
    for options in [StoreOptions { open_files_max: 3, ..small() }, power()] {
        let folder = own_folder();
        let store = Store::open(folder.path(), options).unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let store = store.clone();
                scope.spawn(move || {
                    let mut tape = Waiting::create(&store, &id(&format!("s{n}")));
                    for round in 0..50 {
                        let batch = entries(round * 2 + 1..=round * 2 + 2);
                        assert_eq!(tape.append(&batch).unwrap(), batch[1].seq);
                    }
                });
            }
        });
        assert_eq!(store.verify_all().unwrap(), []);
        for n in 0..8 {
            assert_eq!(store.read(&id(&format!("s{n}")), Seq(0)).unwrap(), entries(1..=100));
        }
        store.close(LONG).unwrap();
    }
}

/// A disk of 256 KiB that is really full. Needs root to mount it; says so where it cannot.
pub(super) struct SmallDisk(pub(super) tempfile::TempDir);

impl SmallDisk {
    pub(super) fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        mount.is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// D04, R8: full, reported, closed with the reserve, freed, and on.
#[test]
fn a_full_disk_is_told_the_reserve_closes_what_is_open_and_it_goes_on() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: cannot mount a tmpfs here");
        return;
    };
    let store = Store::open(disk.0.path().join("store"), small()).unwrap();
    assert!(store.report().has_reserve);
    let mut tape = Waiting::create(&store, &id("s"));
    let ballast = disk.0.path().join("ballast");
    let mut last = 0;
    fs::write(&ballast, vec![1; 100 * 1024]).unwrap();
    let error = loop {
        match tape.append(&[entry(last + 1)]) {
            Ok(seq) => last = seq.0,
            Err(error) => break error,
        }
    };
    assert!(error.is_full(), "{error}");
    assert!(tape.append(&entries(last + 1..=last + 50)).unwrap_err().is_full());
    assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=last));
    assert_eq!(store.verify_all().unwrap(), []);
    assert!(store.release_reserve());
    assert!(!store.release_reserve());
    tape.append(&entries(last + 1..=last + 50)).unwrap();
    last += 50;
    while let Ok(seq) = tape.append(&[entry(last + 1)]) {
        last = seq.0;
    }
    assert!(store.remake_reserve().unwrap_err().is_full());
    fs::remove_file(&ballast).unwrap();
    store.remake_reserve().unwrap();
    tape.append(&[entry(last + 1)]).unwrap();
    drop(tape);
    assert_eq!(load_entries(&store, &id("s")), entries(1..=last + 1));
    store.close(LONG).unwrap();
}
