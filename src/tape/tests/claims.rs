//! Who may write a session.

use std::{fs, sync::Arc};

use super::support::*;
use crate::{
    tape::{Appended, Store, StoreOptions, TapeError},
    words::ids::Seq,
};

fn claimed<T: std::fmt::Debug>(result: Result<T, TapeError>) -> u32 {
    match result {
        Err(TapeError::Claimed { by, .. }) => by.pid,
        other => panic!("{other:?}"),
    }
}

/// Puts a separate file in the place: claims and `writer` files are further names of their owner's lock file.
fn put(path: &std::path::Path, text: &str) {
    let _ = fs::remove_file(path);
    fs::write(path, text).unwrap();
}

/// Promise 7
#[test]
fn a_session_has_one_writer_and_the_second_is_told_who() {
    let folder = own_folder();
    let (one, two) = (Store::open(folder.path(), small()).unwrap(), Store::open(folder.path(), small()).unwrap());
    let mut tape = Waiting::create(&one, &id("s"));
    tape.append(&entries(1..=1)).unwrap();
    for store in [&one, &two] {
        assert_eq!(claimed(store.load(&id("s"), deaf())), std::process::id());
        assert_eq!(store.read(&id("s"), Seq(0)).unwrap(), entries(1..=1), "readers need no claim");
    }
    drop(tape);
    let (mut tape, said) = Waiting::load(&two, &id("s"));
    assert_eq!(said, entries(1..=1));
    assert_eq!(claimed(one.load(&id("s"), deaf())), std::process::id());
    tape.append(&entries(2..=2)).unwrap();
}

/// Promise 7
#[test]
fn of_many_that_load_at_once_one_gets_it() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("s"), deaf()).unwrap());
    let stores: Vec<Store> = (0..4).map(|_| Store::open(folder.path(), small()).unwrap()).collect();
    for round in 0..20 {
        let all = std::sync::Barrier::new(8);
        let got: Vec<_> = std::thread::scope(|scope| {
            let load = |store: Store| {
                let all = &all;
                scope.spawn(move || {
                    all.wait();
                    let loaded = store.load(&id("s"), deaf());
                    all.wait();
                    loaded.is_ok()
                })
            };
            let threads: Vec<_> = stores.iter().chain(&stores).cloned().map(load).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(got.iter().filter(|got| **got).count(), 1, "round {round}");
    }
}

/// Promise 7: stores that open at the same moment do not take each other for dead.
#[test]
fn many_stores_open_at_once_and_each_keeps_its_lock() {
    let folder = own_folder();
    drop(Store::open(folder.path(), small()).unwrap());
    let locks = || {
        let owners = fs::read_dir(folder.path().join("owners")).unwrap().flatten();
        owners.filter(|file| file.path().extension().is_some_and(|ending| ending == "lock")).count()
    };
    for round in 0..40 {
        let all = std::sync::Barrier::new(6);
        let stores: Vec<Store> = std::thread::scope(|scope| {
            let open = || {
                all.wait();
                Store::open(folder.path(), small())
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap().unwrap_or_else(|e| panic!("round {round}: {e}")))
                .collect()
        });
        assert_eq!(locks(), stores.len(), "round {round}");
    }
}

#[test]
fn a_claim_of_a_dead_owner_or_of_nobody_is_taken_over() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("s"), deaf()).unwrap());
    let claim = folder.path().join("sessions/s/claim");
    let dead = r#"{"owner":"1-dead","pid":1,"host":"h","boot":"another","durability":"process"}"#;
    let path_like = dead.replace("1-dead", "../../1-dead");
    for text in [dead, &path_like, "", "\0\0\0", "{}", "{\"owner\":\"../../x\"}"] {
        put(&claim, text);
        drop(store.load(&id("s"), deaf()).unwrap());
        assert!(!claim.exists(), "{text}");
    }
    let names: Vec<_> = fs::read_dir(folder.path().join("owners")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "our lock and what we keep room with, nothing of the dead: {names:?}");
}

/// Promise 7: old reader, new data. Of a claim in a later form the owner's name is read, and it is alive.
#[test]
fn a_live_owner_is_respected_whatever_else_its_claim_says() {
    let folder = own_folder();
    let (one, two) = (Store::open(folder.path(), small()).unwrap(), Store::open(folder.path(), small()).unwrap());
    let _tape = one.create(&id("s"), deaf()).unwrap();
    let claim = folder.path().join("sessions/s/claim");
    let text = fs::read_to_string(&claim).unwrap();
    for later in [
        text.replace("\"process\"", "\"mirrored\""),
        text.replace("\"pid\":", "\"pid\":\"x\",\"process\":"),
        text.replace("\"boot\":", "\"boot\":[],\"start\":"),
    ] {
        assert_ne!(later, text);
        put(&claim, &later);
        claimed(two.load(&id("s"), deaf()));
    }
}

/// A claim makes no new file; where the lock file can have no further name, it does, with the same words.
#[test]
fn a_claim_is_a_name_of_its_owners_lock_file_or_says_the_same() {
    use std::os::unix::fs::MetadataExt;
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    let [claim, writer] = ["claim", "writer"].map(|name| folder.path().join("sessions/s").join(name));
    let inode = |path: &std::path::Path| fs::metadata(path).unwrap().ino();
    let owner = store.inner.writer.owner.lock().as_ref().unwrap().identity.owner.clone();
    let lock = folder.path().join(format!("owners/{owner}.lock"));
    let tape = store.create(&id("s"), deaf()).unwrap();
    assert_eq!([inode(&claim), inode(&writer)], [inode(&lock); 2]);
    let said = fs::read_to_string(&claim).unwrap();
    drop(tape);

    fs::rename(&lock, folder.path().join("moved")).unwrap();
    fs::remove_file(&writer).unwrap();
    let _tape = store.load(&id("s"), deaf()).unwrap();
    assert_eq!([&claim, &writer].map(|path| fs::read_to_string(path).unwrap()), [said.clone(), said]);
    let mut names: Vec<_> =
        fs::read_dir(folder.path().join("sessions/s")).unwrap().map(|f| f.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["anchors", "claim", "writer"], "nothing half-made is left");
}

#[test]
fn a_reboot_is_told_to_who_writes_next() {
    let folder = own_folder();
    let store = Store::open(folder.path(), small()).unwrap();
    drop(store.create(&id("s"), deaf()).unwrap());
    assert!(!store.load(&id("s"), deaf()).unwrap().rebooted);
    let writer = folder.path().join("sessions/s/writer");
    let text = fs::read_to_string(&writer).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    put(&writer, &text.replace(boot.trim(), "another"));
    assert!(store.load(&id("s"), deaf()).unwrap().rebooted);
    assert!(!store.load(&id("s"), deaf()).unwrap().rebooted, "told once");
    put(&writer, &text.replace(boot.trim(), "another").replace("process", "power"));
    assert!(!store.load(&id("s"), deaf()).unwrap().rebooted, "nothing can be lost");
}

#[test]
fn a_handle_that_is_dropped_is_written_out_before_the_session_is_given_back() {
    for options in [small(), power()] {
        let folder = own_folder();
        let disk = FakeDisk::new();
        disk.be_slow();
        let store = store_on(folder.path(), options, &disk);
        let mut tape = Waiting::create(&store, &id("s"));
        for seq in 1..=9 {
            tape.append(&[entry(seq)]).unwrap();
        }
        disk.shut();
        assert!(matches!(tape.tape.append(&entries(10..=20)), Appended::Later));
        disk.wait_until_one_waits();
        drop(tape.tape);
        let other = Store::open(folder.path(), StoreOptions::default()).unwrap();
        claimed(other.load(&id("s"), deaf()));
        std::thread::scope(|scope| {
            let loading = scope.spawn(|| load_entries(&store, &id("s")));
            disk.open_up();
            assert_eq!(loading.join().unwrap(), entries(1..=20));
        });
        assert_eq!(tape.told.iter().map(Result::unwrap).last(), Some(Seq(20)));
    }
}

/// Finding: the next owner of the session took it for an answer to its own append.
#[test]
fn an_append_is_told_before_its_session_is_given_back() {
    for options in [small(), power()] {
        let folder = own_folder();
        let disk = FakeDisk::new();
        disk.be_slow();
        let store = store_on(folder.path(), options, &disk);
        let (says, said) = std::sync::mpsc::channel();
        let says_too = says.clone();
        let notify = Arc::new(move |told: Result<Seq, TapeError>| says_too.send(Some(told.unwrap())).unwrap());
        let [mut first, mut last] = ["first", "last"].map(|name| Waiting::create(&store, &id(name)));
        let mut tape = store.create(&id("s"), notify).unwrap();
        first.append(&[entry(1)]).unwrap();
        disk.shut();
        assert!(matches!(first.tape.append(&[entry(2)]), Appended::Later));
        disk.wait_until_one_waits();
        // What waits behind it is one group, as far as it may be one.
        assert!(matches!(tape.append(&[entry(1)]), Appended::Later));
        tape.give_back(Box::new(move || says.send(None).unwrap()));
        assert!(matches!(last.tape.append(&[entry(1)]), Appended::Later));
        disk.open_up();
        assert!(store.settle(LONG));
        assert_eq!(said.iter().collect::<Vec<_>>(), [Some(Seq(1)), None]);
        assert_eq!(last.told.recv_timeout(LONG).unwrap().unwrap(), Seq(1));
    }
}

/// The store itself is dropped while something waits: it is written, and the lock is free then.
#[test]
fn a_store_that_is_dropped_finishes_in_the_background() {
    let folder = own_folder();
    let disk = FakeDisk::new();
    disk.be_slow();
    let store = store_on(folder.path(), small(), &disk);
    let mut tape = Waiting::create(&store, &id("s"));
    tape.append(&[entry(1)]).unwrap();
    assert!(matches!(tape.tape.append(&entries(2..=40)), Appended::Later));
    let Waiting { tape, told } = tape;
    drop((store, tape));
    // The sender is dropped with the log, which the thread holds until it is done.
    assert_eq!(told.iter().map(Result::unwrap).last(), Some(Seq(40)));
    let other = Store::open(folder.path(), small()).unwrap();
    let mut tries = 0;
    let said = loop {
        match other.load(&id("s"), deaf()) {
            Err(TapeError::Claimed { .. }) if tries < 1000 => tries += 1,
            loaded => break loaded.unwrap().entries,
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    assert_eq!(said, entries(1..=40));
}

/// Finding: the file of a process killed between making a claim and naming it stayed for ever.
#[test]
fn what_a_dead_one_had_begun_goes_with_the_next_to_open_and_what_a_live_one_has_stays() {
    let folder = own_folder();
    let one = Store::open(folder.path(), small()).unwrap();
    let owner = one.inner.writer.owner.lock().as_ref().unwrap().identity.owner.clone();
    let draft = |owner: &str| folder.path().join(format!("owners/{owner}.0193"));
    let drafts = [draft("1-dead"), draft(&owner)];
    drafts.iter().for_each(|path| fs::write(path, "half").unwrap());
    drop(Store::open(folder.path(), small()).unwrap());
    assert_eq!(drafts.map(|path| path.exists()), [false, true]);
}

/// A claim counts only with the note of who wrote last. Finding: if that could not be put, the claim stayed, and all others saw
/// the session as in use.
#[test]
fn a_claim_that_cannot_be_completed_is_nobodys() {
    let folder = own_folder();
    let one = Store::open(folder.path(), small()).unwrap();
    drop(one.create(&id("s"), deaf()).unwrap());
    let two = Store::open(folder.path(), small()).unwrap();
    // A folder is in place of its file.
    let writer = folder.path().join("sessions/s/writer");
    fs::remove_file(&writer).unwrap();
    fs::create_dir(&writer).unwrap();
    assert!(matches!(two.load(&id("s"), deaf()), Err(TapeError::Io { .. })));
    assert!(!folder.path().join("sessions/s/claim").exists());
    fs::remove_dir(&writer).unwrap();
    drop(one.load(&id("s"), deaf()).unwrap());
}
