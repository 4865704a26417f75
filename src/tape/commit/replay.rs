//! Copies the commit log of a dead owner into the session files, and reads the records of a log. The log (`tape/commit.rs`) is
//! where appends of many sessions are synced together; this is not the replay of decisions. The functions block on the disk.
//!
//! A log is one file that is begun again at its start whenever it is full, so that after its records there may be some of an
//! earlier use. A record therefore counts only if the checksum after it continues the chain that starts at the log's header, and
//! reading stops at the first record that does not.
//!
//! [`replay`] writes a session only if its claim still names the dead owner, because another owner may have written the session
//! since. If a session cannot be written, the log stays for the next try; so does the log of a later version of this library.
//!
//! A change must keep that copying the same log a second time changes nothing: the process may die before the log is deleted.

use std::{collections::BTreeMap, fs::File, io, path::Path};

use serde::Deserialize;

use super::{Placed, RECORD_OVERHEAD_MAX, Record, SUM_BYTES, VERSION, sync_file};
use crate::{
    tape::{
        TapeError,
        disk::Disk,
        layout::{Layout, make_folder, open_or_make, read_bytes, remove_file, sync_folder},
        line::Sum,
        owner::Claim,
    },
    words::ids::SessionId,
};

/// The outcome of a replay of a dead owner's log.
#[derive(Debug, Default)]
pub(in crate::tape) struct Replayed {
    /// The sessions that were replayed.
    pub(in crate::tape) sessions: Vec<SessionId>,
    /// The sessions that could not be replayed: a claim could not be read, or a file or mark not written. The log is kept for them.
    pub(in crate::tape) failed: Vec<(SessionId, TapeError)>,
}

/// Writes the records of a dead owner's log into the session files, marks these sessions as open, and deletes the log. A session
/// that fails keeps the log; all other sessions are replayed. The caller holds the lock on `owners/`. Only a session whose claim
/// still names the dead owner is written: a released session was synced then, and may be another owner's now.
pub(in crate::tape) fn replay(disk: &dyn Disk, layout: &Layout, owner: &str) -> Result<Replayed, TapeError> {
    let path = layout.commit_log(owner);
    let mut replayed = Replayed::default();
    let bytes = match read_bytes(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(replayed),
        read => read.map_err(TapeError::io("read", &path))?,
    };
    if let Some(found) = version(&bytes).filter(|version| *version > VERSION) {
        return Err(TapeError::Newer { file: path, found, known: VERSION });
    }
    for (session, files) in by_session(&bytes) {
        let replay = || -> Result<bool, TapeError> {
            if Claim::owner_of(layout, &session)?.as_deref() != Some(owner) {
                return Ok(false);
            }
            for (anchor, records) in &files {
                let path = layout.entries(&session, anchor);
                replay_file(disk, &path, records, || {
                    path.parent().map_or(Ok(()), make_folder)?;
                    disk.make(&path).map_err(TapeError::io("open", &path))
                })?;
            }
            let mark = layout.open().join(session.as_str());
            open_or_make(&mark).map_err(TapeError::io("make", &mark))?;
            Ok(true)
        };
        match replay() {
            Ok(true) => replayed.sessions.push(session),
            Ok(false) => {}
            Err(error) => replayed.failed.push((session, error)),
        }
    }
    if replayed.failed.is_empty() {
        if !replayed.sessions.is_empty() {
            // The marks that were made must not be lost with the log gone.
            sync_folder(&layout.open())?;
        }
        remove_file(&path)?;
    }
    Ok(replayed)
}

/// The records by session and anchor, without those that a later record of the session makes void (`past`).
pub(super) fn by_session(bytes: &[u8]) -> BTreeMap<SessionId, BTreeMap<String, Vec<Placed<'_>>>> {
    let mut sessions: BTreeMap<SessionId, BTreeMap<_, Vec<_>>> = BTreeMap::new();
    for (record, bytes) in records(bytes) {
        if record.past {
            sessions.remove(&record.session);
            continue;
        }
        let files = sessions.entry(record.session.clone()).or_default();
        files.entry(record.anchor.clone()).or_default().push((record, bytes));
    }
    sessions
}

/// Writes the records of one file into it and syncs it. Bytes that the file already has are still written: after a failed sync
/// the system may have them and the disk not.
pub(super) fn replay_file(
    disk: &dyn Disk,
    path: &Path,
    records: &[Placed<'_>],
    open: impl FnOnce() -> Result<File, TapeError>,
) -> Result<(), TapeError> {
    // A later record at the same or a smaller offset replaces the records after that offset: those appends had failed.
    let mut live: Vec<&Placed<'_>> = Vec::new();
    let mut end_of_failed = 0;
    for item in records {
        while let Some(last) = live.pop_if(|last| last.0.at >= item.0.at) {
            end_of_failed = end_of_failed.max(last.0.at + last.0.bytes as u64);
        }
        if !item.0.withdrawn {
            live.push(item);
        }
    }
    if live.is_empty() && !path.exists() {
        return Ok(());
    }
    let failed = |op| TapeError::io(op, path);
    let file = open()?;
    let mut end = 0;
    for (record, bytes) in &live {
        end = record.at + record.bytes as u64;
        disk.write_at(&file, bytes, record.at).map_err(failed("write"))?;
    }
    let length = disk.length(&file).map_err(failed("look at"))?;
    let start = records.iter().map(|(record, _)| record.at).min().unwrap_or(0);
    let end = end.max(start);
    if end_of_failed > end && (end..=end_of_failed).contains(&length) {
        disk.cut(&file, end).map_err(failed("cut"))?;
    }
    sync_file(disk, path)
}

/// The version that the header of a log names; `None` without a whole header, as in an unused log.
fn version(bytes: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Version {
        tamtam_commit_log: u64,
    }
    let end = memchr::memchr(b'\n', bytes)?;
    serde_json::from_slice(&bytes[..end]).ok().map(|Version { tamtam_commit_log }| tamtam_commit_log)
}

/// The records of a log, up to the first bytes that are not a sound record.
fn records(bytes: &[u8]) -> Vec<Placed<'_>> {
    let mut found = Vec::new();
    let Some(header) = memchr::memchr(b'\n', bytes).map(|end| &bytes[..=end]) else { return found };
    if version(header) == Some(VERSION) {
        let mut sum = Sum::zero().next(header);
        let mut rest = &bytes[header.len()..];
        while let Some((record, content, next, size)) = record(rest, sum) {
            found.push((record, content));
            sum = next;
            rest = &rest[size..];
        }
    }
    found
}

fn record(rest: &[u8], sum: Sum) -> Option<(Record, &[u8], Sum, usize)> {
    let line = memchr::memchr(b'\n', rest.get(..RECORD_OVERHEAD_MAX.min(rest.len()))?)? + 1;
    let record: Record = serde_json::from_slice(&rest[..line]).ok()?;
    let end = line.checked_add(record.bytes)?;
    let body = rest.get(..end)?;
    let next = sum.next(body);
    let written = rest.get(end..end + SUM_BYTES)?;
    (written == format!("{}\n", next.as_str()).as_bytes()).then_some((record, &body[line..], next, end + SUM_BYTES))
}
