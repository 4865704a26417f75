//! A folder whose tapes are replayed when a test lets go of it: so every tape that the suite makes is a test of replay.
//!
//! A tape that does not replay byte for byte is a decision that depends on something that is not written down.

use std::path::{Path, PathBuf};

use tamtam::{
    replay::{Replay, ReplayError},
    tape::{Access, Store, StoreOptions, TapeError},
};

/// Entries of one folder that are replayed, at most: a long tape shows no more than its beginning does.
const ENTRIES_MAX: usize = 2_000;

/// A temporary folder. Dropped at the end of a test that has passed, it replays the tapes below it.
pub(crate) struct Folder(tempfile::TempDir);

/// A new one.
pub(crate) fn folder() -> Folder {
    Folder(tempfile::tempdir().unwrap())
}

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails has said why.
        if !std::thread::panicking() {
            replay_below(self.0.path());
        }
    }
}

/// Replays every tape of every store at or below a folder, as far as it can be read.
pub(crate) fn replay_below(folder: &Path) {
    let mut left = ENTRIES_MAX;
    for path in stores(folder, 5) {
        let options = StoreOptions { access: Access::Read, ..StoreOptions::default() };
        let Ok(store) = Store::open(&path, options) else { continue };
        // What was damaged on purpose is not listed, or not read.
        for session in store.list().unwrap_or_default() {
            let replay = match Replay::open(&store, &session.id) {
                Ok(replay) => replay,
                Err(ReplayError::Tape(TapeError::Missing { .. } | TapeError::Damaged(_) | TapeError::Newer { .. })) => {
                    continue;
                }
                // A tape of a test that is not a session's.
                Err(ReplayError::Entry(bad)) if bad.seq == tamtam::Seq(1) => continue,
                // Whoever made it died before its first entry.
                Err(ReplayError::NoBeginning) => continue,
                Err(error) => panic!("the tape of session {} cannot be replayed: {error}", session.id),
            };
            // What a budget looked at (a price, the size of the tools) is written down with a request, and here there may be none.
            let by_budget = |line: &tamtam::tape::Entry| {
                let data = line.data.get();
                line.kind == "budget_ask" || data.contains("\"instead\":") || data.contains("\"outcome\":\"budget\"")
            };
            if store.read(&session.id, tamtam::Seq::ZERO).is_ok_and(|lines| lines.iter().any(by_budget)) {
                continue;
            }
            for step in replay {
                if let Some(difference) = step.difference {
                    let (id, signal, n) = (&session.id, &step.signal, step.number);
                    panic!("the tape of session {id} does not replay: decision {n} ({signal}): {difference}");
                }
                left = left.saturating_sub(step.recorded.len());
                if left == 0 {
                    return;
                }
            }
        }
    }
}

/// The stores in a folder, so deep at most.
fn stores(folder: &Path, depth: usize) -> Vec<PathBuf> {
    if folder.join("sessions").is_dir() && folder.join("version").is_file() {
        return vec![folder.to_owned()];
    }
    let Ok(inside) = std::fs::read_dir(folder) else { return Vec::new() };
    let folders = inside.filter_map(Result::ok).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    match depth {
        0 => Vec::new(),
        depth => folders.flat_map(|entry| stores(&entry.path(), depth - 1)).collect(),
    }
}
