//! The shared commit log of a store in [`Durability::Power`](crate::tape::Durability): the appends of many sessions made
//! durable with one sync.
//!
//! A record says which bytes are at which place of which file; or that an append did not get into its file (`withdrawn`); or that
//! all earlier records of a session are void (`past`): its files are synced, and others may have written them since. The digits
//! chain from the epoch over every record, so the remains of an earlier use of the file are not taken for records of this one. The
//! file is made full of zeros, so that a sync has no new blocks to note down and cannot run out of room.
//!
//! After a power cut, a replay restores every acknowledged append of the log; replaying twice changes nothing. (An append that is
//! too large for the log is synced in its session file instead.) An append that was answered with an error may still be replayed:
//! its `withdrawn` record is synced with the next group only. A change must keep this order: records synced → session files written
//! → acknowledged; session files synced → log begun again; `past` synced → bytes written that the log does not have (a large
//! append, lines of another owner), else a replay would overwrite them. After a failed sync, never trust the next sync of the same
//! bytes: replace the log, and write a session file again from the log first. The records are a stored format. The log is used on
//! threads that may wait for the disk, never on async ones.

mod replay;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    TapeError,
    disk::Disk,
    layout::{Layout, new_file, sync_folder},
    line::Sum,
};
use crate::words::ids::SessionId;

pub(super) use replay::{Replayed, replay};
use replay::{by_session, replay_file};

/// One record: some bytes are at one place of one file; or earlier records are void (see the fields). Stored format. A log:
///
/// ```text
/// {"tamtam_commit_log":1,"epoch":"0193…"}
/// {"session":"a","anchor":"001_session-start","at":4711,"bytes":312}
/// <312 bytes of lines><16 hex digits>
/// {"session":"b","anchor":"001_session-start","at":0,"bytes":0,"withdrawn":true}
/// <16 hex digits>
/// {"session":"a","anchor":"","at":0,"bytes":0,"withdrawn":true,"past":true}
/// <16 hex digits>
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Record {
    session: SessionId,
    anchor: String,
    at: u64,
    bytes: usize,
    /// The bytes from `at` on were not acknowledged and are not on the tape.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    withdrawn: bool,
    /// All records of the session up to here are void. A version that does not know this field withdraws nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    past: bool,
}

/// A record and its bytes.
type Placed<'a> = (Record, &'a [u8]);

#[derive(Serialize)]
struct Header {
    tamtam_commit_log: u64,
    epoch: String,
}

/// The version of the format. Stored.
const VERSION: u64 = 1;
const RECORD_OVERHEAD_MAX: usize = 512;
const SUM_BYTES: usize = 17;

/// The commit log of this owner, open for writing.
pub(super) struct CommitLog {
    path: PathBuf,
    file: File,
    capacity: u64,
    /// The offset of the next record, in bytes; 0 if the header is not written yet. `sum`: the digits before that offset.
    at: u64,
    sum: Sum,
    /// The session files with bytes that only the log has durably.
    dirty: BTreeMap<PathBuf, Dirty>,
    /// The sessions of which a replay would find records.
    known: BTreeSet<SessionId>,
    /// A write or sync of the log failed: the log must be replaced before it takes more records.
    broken: bool,
}

/// A session file that was written and not synced.
#[derive(Default)]
struct Dirty {
    length: u64,
    /// A sync of the file failed. The system may have dropped the bytes, and would report success for the next sync: write them
    /// again from the log first.
    unsure: bool,
}

/// Records that are written to the log together, with one sync.
pub(super) struct Group {
    bytes: Vec<u8>,
    sum: Sum,
    sessions: BTreeSet<SessionId>,
}

impl CommitLog {
    /// Makes the log of an owner, filled with zeros to its full size, and syncs it.
    pub(super) fn make(disk: &dyn Disk, path: PathBuf, capacity: u64) -> Result<CommitLog, TapeError> {
        let draft = path.with_extension("new");
        let make = || -> io::Result<File> {
            let _ = std::fs::remove_file(&draft);
            let file = new_file(&draft)?;
            disk.write_at(&file, &vec![0; usize::try_from(capacity).unwrap_or(usize::MAX)], 0)?;
            disk.sync(&file)?;
            std::fs::rename(&draft, &path)?;
            Ok(file)
        };
        let made = make();
        if made.is_err() {
            let _ = std::fs::remove_file(&draft);
        }
        let file = made.map_err(TapeError::io("make", &path))?;
        path.parent().map_or(Ok(()), sync_folder)?;
        Ok(CommitLog {
            path,
            file,
            capacity,
            at: 0,
            sum: Sum::zero(),
            dirty: BTreeMap::new(),
            known: BTreeSet::new(),
            broken: false,
        })
    }

    /// Makes room for that many records and bytes: begins a full log again, and replaces a broken one.
    pub(super) fn make_room(
        &mut self,
        disk: &dyn Disk,
        layout: &Layout,
        bytes: usize,
        records: usize,
    ) -> Result<(), TapeError> {
        if self.broken || !self.has_room(bytes, records) {
            fault!(layout.faults, "tape.commit.cut", "store");
            self.cut(disk, layout)?;
        }
        if self.broken {
            *self = CommitLog::make(disk, self.path.clone(), self.capacity)?;
        }
        Ok(())
    }

    /// Whether records of so many bytes fit after the existing ones.
    fn has_room(&self, bytes: usize, records: usize) -> bool {
        self.at + (bytes + (records + 1) * RECORD_OVERHEAD_MAX) as u64 <= self.capacity
    }

    /// An empty group that continues from the last record; with the header if the log begins.
    pub(super) fn group(&mut self) -> Group {
        let sessions = BTreeSet::new();
        if self.at > 0 {
            return Group { bytes: Vec::new(), sum: self.sum, sessions };
        }
        let header = Header { tamtam_commit_log: VERSION, epoch: crate::words::ids::new_uuid().to_string() };
        let mut bytes = serde_json::to_vec(&header).expect("plain fields are JSON");
        bytes.push(b'\n');
        Group { sum: Sum::zero().next(&bytes), bytes, sessions }
    }

    /// Writes a group and returns when it survives a power cut.
    pub(super) fn commit(&mut self, disk: &dyn Disk, group: Group) -> Result<(), TapeError> {
        let before = (self.at, self.sum);
        let sessions = group.sessions.clone();
        let written = self.write(disk, group).and_then(|()| disk.sync(&self.file));
        if written.is_err() {
            (self.at, self.sum) = before;
            // After a failed sync the system may have dropped the bytes and call the next sync a success.
            self.broken = true;
            // The group is answered with an error, so the part of it that got into the log must not count as a record.
            let _ = disk.write_at(&self.file, b"\0", self.at);
        } else if before.0 == 0 {
            // Only a synced new header voids the records of the earlier use.
            self.known = sessions;
        }
        written.map_err(TapeError::io("write", &self.path))
    }

    /// Writes a record that an append did not get into its file. Not synced: it becomes durable with the next group.
    ///
    /// Call it only when every append of the last group is in its session file or has failed: the log may begin again here.
    pub(super) fn withdraw(&mut self, disk: &dyn Disk, layout: &Layout, session: &SessionId, anchor: &str, at: u64) {
        // A log that is broken, or full and not to be cut now, needs no record: `make_room` clears it before the next append.
        if self.broken || (!self.has_room(0, 1) && self.cut(disk, layout).is_err()) {
            return;
        }
        let mut group = self.group();
        let withdrawn = Record { withdrawn: true, ..Record::new(session, anchor, at) };
        group.push_record(&withdrawn, b"");
        self.broken |= self.write(disk, group).is_err();
    }

    fn write(&mut self, disk: &dyn Disk, group: Group) -> io::Result<()> {
        self.known.extend(group.sessions);
        disk.write_at(&self.file, &group.bytes, self.at)?;
        self.at += group.bytes.len() as u64;
        self.sum = group.sum;
        Ok(())
    }

    /// Notes that a session file was written up to `length` bytes and not synced.
    pub(super) fn written(&mut self, path: &Path, length: u64) {
        self.dirty.entry(path.into()).or_default().length = length;
    }

    /// Syncs the dirty files of a session, of all its anchors, and the mark of its open turn.
    pub(super) fn settle(&mut self, disk: &dyn Disk, layout: &Layout, session: &SessionId) -> Result<(), TapeError> {
        let folder = layout.session(session);
        let paths = self.dirty.range(folder.clone()..).map(|(path, _)| path);
        let paths = paths.take_while(|path| path.starts_with(&folder)).cloned().collect();
        self.settle_files(disk, layout, paths)?;
        sync_mark(disk, layout, session)
    }

    /// Settles a session and makes the log's records of it void (`past`), durably. From then on others may write its files.
    pub(super) fn finish_with(
        &mut self,
        disk: &dyn Disk,
        layout: &Layout,
        session: &SessionId,
    ) -> Result<(), TapeError> {
        self.settle(disk, layout, session)?;
        if self.known.contains(session) {
            self.make_room(disk, layout, 0, 1)?;
            let mut group = self.group();
            let past = Record { withdrawn: true, past: true, ..Record::new(session, "", 0) };
            group.push_record(&past, b"");
            self.commit(disk, group)?;
            self.known.remove(session);
        }
        Ok(())
    }

    /// Syncs all dirty session files and then begins the log again from its start.
    pub(super) fn cut(&mut self, disk: &dyn Disk, layout: &Layout) -> Result<(), TapeError> {
        self.settle_files(disk, layout, self.dirty.keys().cloned().collect())?;
        disk.sync_folder(&layout.open())?;
        self.at = 0;
        Ok(())
    }

    /// Replaces this log by a new one, so that no bytes of earlier appends are left in it.
    pub(super) fn make_anew(&mut self, disk: &dyn Disk, layout: &Layout) -> Result<(), TapeError> {
        self.cut(disk, layout)?;
        *self = CommitLog::make(disk, self.path.clone(), self.capacity)?;
        Ok(())
    }

    /// Syncs these files. A file whose sync fails stays dirty, and the others are still synced. If bytes must be written again
    /// first and that fails, no file is synced. A deleted file needs no sync.
    fn settle_files(&mut self, disk: &dyn Disk, layout: &Layout, paths: Vec<PathBuf>) -> Result<(), TapeError> {
        if paths.iter().any(|path| self.dirty.get(path).is_some_and(|dirty| dirty.unsure)) {
            self.write_again(disk, layout, &paths)?;
        }
        let mut settled = Ok(());
        for path in paths {
            match sync_file(disk, &path) {
                Err(error) if !matches!(path.try_exists(), Ok(false)) => {
                    self.dirty.entry(path).and_modify(|dirty| dirty.unsure = true);
                    settled = settled.and(Err(error));
                }
                _ => drop(self.dirty.remove(&path)),
            }
        }
        settled
    }

    /// Writes the bytes of these files again from the log, where a sync of the file failed.
    fn write_again(&self, disk: &dyn Disk, layout: &Layout, paths: &[PathBuf]) -> Result<(), TapeError> {
        let bytes = std::fs::read(&self.path).map_err(TapeError::io("read", &self.path))?;
        let known = bytes.get(..usize::try_from(self.at).unwrap_or(usize::MAX)).unwrap_or(&bytes);
        for (session, files) in by_session(known) {
            for (anchor, records) in files {
                let path = layout.entries(&session, &anchor);
                let Some(Dirty { length, unsure: true }) = self.dirty.get(&path) else { continue };
                if !paths.contains(&path) || matches!(path.try_exists(), Ok(false)) {
                    continue;
                }
                replay_file(disk, &path, &records, || disk.open(&path).map_err(TapeError::io("open", &path)))?;
                // The log may have a failed append that could not be withdrawn: cut it off.
                let cut = disk.open(&path).and_then(|file| disk.cut(&file, *length));
                cut.map_err(TapeError::io("cut", &path))?;
            }
        }
        Ok(())
    }
}

impl Record {
    fn new(session: &SessionId, anchor: &str, at: u64) -> Record {
        Record { session: session.clone(), anchor: anchor.to_owned(), at, bytes: 0, withdrawn: false, past: false }
    }
}

impl Group {
    /// Adds a record: `bytes` are at the offset `at` of this anchor's file.
    pub(super) fn push(&mut self, session: &SessionId, anchor: &str, at: u64, bytes: &[u8]) {
        self.push_record(&Record { bytes: bytes.len(), ..Record::new(session, anchor, at) }, bytes);
        self.sessions.insert(session.clone());
    }

    fn push_record(&mut self, record: &Record, bytes: &[u8]) {
        let from = self.bytes.len();
        serde_json::to_writer(&mut self.bytes, record).expect("plain fields are JSON, and a Vec takes every byte");
        self.bytes.push(b'\n');
        self.bytes.extend_from_slice(bytes);
        self.sum = self.sum.next(&self.bytes[from..]);
        self.bytes.extend_from_slice(self.sum.as_str().as_bytes());
        self.bytes.push(b'\n');
    }
}

/// Syncs a session's file, its folder and the folder above that.
pub(super) fn sync_file(disk: &dyn Disk, path: &Path) -> Result<(), TapeError> {
    let file = disk.open(path).map_err(TapeError::io("open", path))?;
    disk.sync(&file).map_err(TapeError::io("sync", path))?;
    path.ancestors().skip(1).take(2).try_for_each(sync_folder)
}

/// Syncs the mark that a turn of a session is open, if there is one. A replay marks only the sessions that are in the log.
pub(super) fn sync_mark(disk: &dyn Disk, layout: &Layout, session: &SessionId) -> Result<(), TapeError> {
    let open = layout.open();
    if open.join(session.as_str()).exists() { disk.sync_folder(&open) } else { Ok(()) }
}
