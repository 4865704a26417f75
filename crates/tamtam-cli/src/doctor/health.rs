//! The health of a store and of the machine that it lies on: whether a write works, free space, the index, the clock.
//!
//! A change must keep this: each function gives words and never fails, and leaves nothing behind.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    time::{Duration, SystemTime},
};

use tamtam::{
    Millis, SessionId,
    ops::{self, SessionQuery},
    tape::{Behind, Store},
    tool::truncate::format_bytes,
};

use crate::sessions::count;

/// The bytes of the write that is tried: more than the first entries of a session.
const TRIED_BYTES: usize = 64 << 10;

/// Less free space than this is said to be little.
const LITTLE_BYTES: u64 = 64 << 20;

/// How far the clock may be from the times of files and tapes before it is said.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// Writes a file in the folder and removes it. Gives the time that the file system noted for the write, if it notes one.
pub(super) fn write(folder: &Path) -> std::io::Result<Option<SystemTime>> {
    let path = folder.join(format!(".tamtam-doctor-{}", SessionId::new()));
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
        file.write_all(&[0; TRIED_BYTES])?;
        file.sync_all()?;
        Ok(file.metadata().and_then(|metadata| metadata.modified()).ok())
    });
    let removed = std::fs::remove_file(&path);
    written.and_then(|at| removed.map(|()| at))
}

/// A failed write, and what to do about it.
pub(super) fn way_out(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            format!("{error}: free some space there, or choose another folder with --store")
        }
        _ => format!("{error}: choose another folder with --store"),
    }
}

/// The free space of the file system that the folder is on.
pub(super) fn space(folder: &Path) -> String {
    match rustix::fs::statvfs(folder) {
        Err(error) => format!("not known: {error}"),
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let shown = format_bytes(usize::try_from(free).unwrap_or(usize::MAX));
            let little = if free < LITTLE_BYTES { ": little, so free some soon" } else { "" };
            format!("{shown} free{little}")
        }
    }
}

/// What holds of the index, and when the newest entry was written.
pub(super) fn index(store: &Store) -> (String, Option<Millis>) {
    let mut query = SessionQuery::default();
    (query.limit, query.wait) = (1, Duration::ZERO);
    let page = match ops::sessions(store, &query) {
        Ok(page) => page,
        Err(error) => return (format!("no: {error}: `tamtam tape rebuild` makes it again from the tapes"), None),
    };
    let newest = page.sessions.first().and_then(|listed| listed.last);
    let is_there = store.path().join("index.db").exists();
    let said = match page.behind {
        _ if !page.indexed && is_there => "damaged: `tamtam tape rebuild` makes it again from the tapes".to_owned(),
        _ if !page.indexed => "none: the next `tamtam sessions` makes it".to_owned(),
        Behind::No => "up to date".to_owned(),
        Behind::Sessions(behind) => {
            format!("behind with {}: the next `tamtam sessions` catches up", count(behind, "session"))
        }
        Behind::Unknown => "another process is writing it".to_owned(),
        _ => "behind: the next `tamtam sessions` catches up".to_owned(),
    };
    (said, newest)
}

/// What holds of the clock, beside the time of a write that was just made and the newest entry of the store.
pub(super) fn clock(now: SystemTime, written: Option<SystemTime>, newest: Option<Millis>) -> String {
    let advice = "correct the clock, or sessions are listed in the wrong order and prompts name the wrong day";
    let Ok(since) = now.duration_since(SystemTime::UNIX_EPOCH) else {
        return format!("no: it is before 1970: {advice}");
    };
    let newest = newest.map(|newest| Duration::from_millis(newest.0)).filter(|newest| *newest > since + CLOCK_SLACK);
    if let Some(newest) = newest {
        let behind = count((newest - since).as_secs(), "second");
        return format!("no: it is {behind} behind the newest entry of the store: {advice}");
    }
    let apart = written.map(|written| written.duration_since(now).unwrap_or_else(|error| error.duration()));
    match apart.filter(|apart| *apart > CLOCK_SLACK) {
        Some(apart) => {
            format!("no: it is {} from the time of the files in the store: {advice}", count(apart.as_secs(), "second"))
        }
        None => jiff::Timestamp::try_from(now).map_or_else(
            |_| "no: it is out of range".to_owned(),
            |now| format!("{}", now.round(jiff::Unit::Second).unwrap_or(now)),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_is_told_by_what_is_later() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let day = 86_400;
        assert_eq!(clock(at(20_000 * day), Some(at(20_000 * day + 1)), Some(Millis(1))), "2024-10-04T00:00:00Z");
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert!(clock(before, None, None).starts_with("no: it is before 1970"));
        let behind = clock(at(day), None, Some(Millis(2 * day * 1_000)));
        assert!(behind.contains("86400 seconds behind the newest entry"), "{behind}");
        for other in [at(3 * day), at(5 * day)] {
            let apart = clock(at(4 * day), Some(other), None);
            assert!(apart.contains("86400 seconds from the time of the files"), "{apart}");
        }
    }

    #[test]
    fn a_write_that_is_tried_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path()).unwrap().is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(write(&folder.path().join("none")).is_err());
        assert!(way_out(&std::io::ErrorKind::StorageFull.into()).contains("free some space"));
    }
}
