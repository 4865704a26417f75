//! What the tests of the tape share.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::Receiver,
    },
    time::Duration,
};

pub(super) use super::engines::claims::{LONG, Told, deaf, entries, listener};
pub(crate) use super::engines::claims::{entry, id};
pub(super) use crate::tape::{TapeStore as _, TapeStoreExt as _};

use crate::{
    tape::{
        Appended, Durability, Store, StoreOptions, TapeEntry, TapeError, TapeWriter,
        disk::{Disk, RealDisk},
    },
    words::ids::SessionId,
};

/// A folder of the test's own; in memory where there is such a place, because some tests sync thousands of times.
pub(crate) fn own_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub(crate) fn small() -> StoreOptions {
    StoreOptions { commit_log_bytes: 64 * 1024, ..StoreOptions::default() }
}

pub(super) fn power() -> StoreOptions {
    StoreOptions { durability: Durability::Power, ..small() }
}

pub(crate) fn store_on(folder: &Path, options: StoreOptions, disk: &Arc<FakeDisk>) -> Store {
    Store::open_on(folder.into(), options, Arc::clone(disk) as Arc<dyn Disk>).unwrap()
}

/// A tape whose appends are waited for.
pub(super) struct Waiting {
    pub(super) tape: Box<dyn TapeWriter>,
    pub(super) told: Receiver<Told>,
}

impl Waiting {
    pub(super) fn create(store: &Store, session: &SessionId) -> Waiting {
        let (notify, told) = listener();
        Waiting { tape: store.create(session, notify).unwrap(), told }
    }

    pub(super) fn load(store: &Store, session: &SessionId) -> (Waiting, Vec<TapeEntry>) {
        let (notify, told) = listener();
        let loaded = store.load(session, notify).unwrap();
        (Waiting { tape: loaded.tape, told }, loaded.entries)
    }

    pub(super) fn append(&mut self, entries: &[TapeEntry]) -> Told {
        let appended = self.tape.append(entries);
        self.wait(appended)
    }

    pub(super) fn wait(&self, appended: Appended) -> Told {
        match appended {
            Appended::Now(result) => result,
            Appended::Later => self.told.recv_timeout(LONG).unwrap(),
        }
    }
}

pub(super) fn load_entries(store: &Store, session: &SessionId) -> Vec<TapeEntry> {
    store.load(session, deaf()).unwrap().entries
}

/// Makes the last line of a file one that a later version wrote, and returns the file's content then. It has another line before
/// it.
#[cfg(feature = "sqlite")]
pub(crate) fn make_last_line_newer(file: &Path) -> String {
    let lines = std::fs::read_to_string(file).unwrap();
    let (before, last) = lines.trim_end().rsplit_once('\n').unwrap();
    let previous = before.rsplit_once("\"sum\":\"").unwrap().1.strip_suffix("\"}").unwrap();
    let body = last.rsplit_once(",\"sum\"").unwrap().0.replacen("{\"v\":1,", "{\"v\":9,\"novelty\":true,", 1);
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.as_bytes()).update(body.as_bytes());
    let sum = &hasher.finalize().to_hex()[..16];
    let newer = format!("{before}\n{body},\"sum\":\"{sum}\"}}\n");
    std::fs::write(file, &newer).unwrap();
    newer
}

/// All that is in a folder, at any depth, sorted.
pub(super) fn walk(path: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![path.to_path_buf()];
    if path.is_dir() {
        let mut inside: Vec<_> = std::fs::read_dir(path).unwrap().map(|item| item.unwrap().path()).collect();
        inside.sort();
        found.extend(inside.iter().flat_map(|path| walk(path)));
    }
    found
}

/// What a [`FakeDisk`] does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Refuses, and a write leaves half of its bytes.
    Fail,
    /// Does its work and then panics.
    Panic,
}

/// The real disk, with a gate that writes wait at and faults at chosen operations.
#[derive(Default)]
pub(crate) struct FakeDisk {
    /// Operations so far.
    pub(crate) operations: AtomicUsize,
    plan: Mutex<Vec<(usize, Fault)>>,
    gate: Mutex<Gate>,
    moved: Condvar,
    /// Every write takes this long more.
    pub(super) delay_us: AtomicUsize,
    /// What of each file survives a power cut, by inode.
    synced: Mutex<HashMap<u64, Vec<u8>>>,
    /// The names in each folder that survive one.
    folders: Mutex<HashMap<PathBuf, Vec<OsString>>>,
    /// What was written to files of which a sync failed, since then: all that a later sync will bring to the disk.
    since_failed: Mutex<HashMap<u64, Written>>,
}

/// Places and bytes.
type Written = Vec<(u64, Vec<u8>)>;

#[derive(Default)]
struct Gate {
    closed: bool,
    /// Only to what has this in it.
    closed_to: Option<String>,
    waiting: usize,
}

impl FakeDisk {
    pub(crate) fn new() -> Arc<FakeDisk> {
        Arc::default()
    }

    /// The operation with this number from now (0 is the next) goes wrong.
    pub(super) fn fault_in(&self, operations: usize, fault: Fault) {
        let at = self.operations.load(Ordering::SeqCst) + operations;
        self.plan.lock().unwrap().push((at, fault));
    }

    /// Everything goes wrong from the operation with this number from now.
    pub(crate) fn fail_from(&self, operations: usize, count: usize) {
        (0..count).for_each(|n| self.fault_in(operations + n, Fault::Fail));
    }

    pub(crate) fn heal(&self) {
        self.plan.lock().unwrap().clear();
    }

    /// Writes wait until it is opened again.
    pub(crate) fn shut(&self) {
        self.gate.lock().unwrap().closed = true;
    }

    /// Lets all through but what has this in it.
    pub(crate) fn open_but_to(&self, word: &str) {
        self.gate.lock().unwrap().closed_to = Some(word.into());
        self.moved.notify_all();
    }

    pub(crate) fn open_up(&self) {
        self.gate.lock().unwrap().closed = false;
        self.moved.notify_all();
    }

    /// Waits until a write is at the gate.
    pub(crate) fn wait_until_one_waits(&self) {
        self.wait_until_so_many_wait(1);
    }

    pub(super) fn wait_until_so_many_wait(&self, many: usize) {
        let gate = self.gate.lock().unwrap();
        let (_gate, timeout) = self.moved.wait_timeout_while(gate, LONG, |gate| gate.waiting < many).unwrap();
        assert!(!timeout.timed_out());
    }

    /// Makes the store leave its appends to the I/O thread: the next writes count as slow.
    pub(crate) fn be_slow(&self) {
        self.delay_us.store(300, Ordering::SeqCst);
    }

    /// Gives the copy of a store the content that its files have after a power cut: what was synced, and of the rest
    /// nothing or all. So have the marks.
    pub(super) fn pull_the_plug(&self, store: &Path, copy: &Path, with_unsynced: bool) {
        let is_of_marks = ["open", "parked", "protected", "hidden", "forks"].iter().any(|name| store.ends_with(name));
        if !with_unsynced {
            let synced = self.folders.lock().unwrap().get(store).cloned().unwrap_or_default();
            for item in std::fs::read_dir(copy).unwrap().map(Result::unwrap) {
                let is_mark = is_of_marks || (item.file_name() == "hidden" && item.path().is_file());
                if is_mark && !synced.contains(&item.file_name()) {
                    std::fs::remove_file(item.path()).unwrap();
                }
            }
        }
        for item in std::fs::read_dir(store).unwrap() {
            let (from, to) = (item.as_ref().unwrap().path(), copy.join(item.unwrap().file_name()));
            if from.is_dir() {
                self.pull_the_plug(&from, &to, with_unsynced);
            } else if from.extension().is_some_and(|e| e == "jsonl" || e == "log") && !with_unsynced {
                let inode = from.metadata().unwrap().ino();
                let left = self.synced.lock().unwrap().get(&inode).cloned().unwrap_or_default();
                std::fs::write(to, left).unwrap();
            }
        }
    }

    fn before(&self) -> Option<Fault> {
        let at = self.operations.fetch_add(1, Ordering::SeqCst);
        self.plan.lock().unwrap().iter().find(|(planned, _)| *planned == at).map(|(_, fault)| *fault)
    }

    fn run<T>(&self, half: impl FnOnce(), work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self.before() {
            Some(Fault::Fail) => {
                half();
                Err(io::ErrorKind::StorageFull.into())
            }
            Some(Fault::Panic) => {
                work()?;
                panic!("the disk panics on purpose");
            }
            None => work(),
        }
    }
}

impl Disk for FakeDisk {
    fn open(&self, path: &Path) -> io::Result<File> {
        self.run(|| {}, || RealDisk.open(path))
    }

    fn make(&self, path: &Path) -> io::Result<File> {
        self.run(|| {}, || RealDisk.make(path))
    }

    fn length(&self, file: &File) -> io::Result<u64> {
        self.run(|| {}, || RealDisk.length(file))
    }

    /// Slow on demand, and never because of the machine that the tests run on.
    fn is_slow(&self, _: Duration) -> bool {
        self.delay_us.load(Ordering::SeqCst) > 0
    }

    /// While a write is at the gate; never because of the machine that the tests run on.
    fn is_stalled(&self, _: Duration) -> bool {
        self.gate.lock().unwrap().waiting > 0
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting += 1;
        self.moved.notify_all();
        let is_shut = |gate: &mut Gate| match &gate.closed_to {
            None => gate.closed,
            Some(word) => gate.closed && memchr::memmem::find(bytes, word.as_bytes()).is_some(),
        };
        let mut gate = self.moved.wait_timeout_while(gate, LONG, is_shut).unwrap().0;
        gate.waiting -= 1;
        drop(gate);
        self.moved.notify_all();
        let delay = self.delay_us.load(Ordering::SeqCst);
        if delay > 0 {
            std::thread::sleep(Duration::from_micros(delay as u64));
        }
        let half = || RealDisk.write_at(file, &bytes[..bytes.len() / 2], offset).unwrap();
        if let Some(written) = self.since_failed.lock().unwrap().get_mut(&file.metadata()?.ino()) {
            written.push((offset, bytes.to_vec()));
        }
        self.run(half, || RealDisk.write_at(file, bytes, offset))
    }

    fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        self.run(|| {}, || RealDisk.cut(file, length))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), TapeError> {
        let names =
            std::fs::read_dir(path).map_err(TapeError::io("list", path))?.flatten().map(|item| item.file_name());
        self.folders.lock().unwrap().insert(path.into(), names.collect());
        Ok(())
    }

    /// After a failed sync the system has dropped the bytes, and calls the next sync a success.
    fn sync(&self, file: &File) -> io::Result<()> {
        let inode = file.metadata()?.ino();
        let fail = || {
            self.since_failed.lock().unwrap().entry(inode).or_default();
        };
        self.run(fail, || {
            let mut content = vec![0; file.metadata()?.len() as usize];
            let mut synced = self.synced.lock().unwrap();
            match self.since_failed.lock().unwrap().get(&inode) {
                None => file.read_exact_at(&mut content, 0)?,
                Some(written) => {
                    let old = synced.get(&inode).cloned().unwrap_or_default();
                    for (at, bytes) in std::iter::once(&(0, old)).chain(written) {
                        for (n, byte) in bytes.iter().enumerate() {
                            if let Some(place) = content.get_mut(*at as usize + n) {
                                *place = *byte;
                            }
                        }
                    }
                }
            }
            synced.insert(inode, content);
            Ok(())
        })
    }
}
