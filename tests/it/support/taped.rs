//! Folders whose tapes are replayed when a test lets go of them: so every tape that the suites make is a test of replay.
//!
//! A tape that does not replay byte for byte is a decision that depends on something unrecorded. A tape is left out
//! only for one of the reasons of [`LeftOut`], and only if the test allows it.

use std::{
    path::{Path, PathBuf},
    sync::Mutex,
};

use tamtam::{
    Seq, SessionId,
    ops::replay::{Replay, ReplayError},
    session::{Entry, Record},
    tape::{Append, Store, StoreOptions, TapeAccess, TapeError, TapeStoreExt as _},
};

/// Entries of one folder that are replayed, at most: a long tape shows no more than its beginning does.
const ENTRIES_MAX: usize = 2_000;

/// Why a tape is not replayed. There is no other reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LeftOut {
    /// A line of it was damaged on purpose, or a file of it was taken away.
    Damaged,
    /// It says that a later version wrote it.
    Newer,
    /// It is the tape of a test of tapes: its first entry is not one of a session.
    NoSession,
    /// Whoever made it died before its first entry.
    NeverBegun,
}

/// What was replayed of the tapes in a folder.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) tapes: usize,
    pub(crate) entries: usize,
    /// Those that a changed prompt was tried on: all that have a request.
    pub(crate) prompts: usize,
    pub(crate) left_out: Vec<(SessionId, LeftOut)>,
}

impl Replayed {
    pub(crate) const NOTHING: Replayed = Replayed { tapes: 0, entries: 0, prompts: 0, left_out: Vec::new() };
}

/// A temporary folder. Dropped at the end of a test that has passed, it replays the tapes below it.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    may_be_left_out: Mutex<Vec<LeftOut>>,
}

/// A new one, each of whose tapes replays.
pub(crate) fn folder() -> Folder {
    Folder { folder: tempfile::tempdir().unwrap(), may_be_left_out: Mutex::default() }
}

impl Folder {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// From now on its tapes may be left out for this reason too.
    pub(crate) fn may_leave_out(&self, why: LeftOut) {
        self.may_be_left_out.lock().unwrap().push(why);
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that fails has said why.
        if std::thread::panicking() {
            return;
        }
        let replayed = replay_below(self.path(), ENTRIES_MAX);
        for (session, why) in &replayed.left_out {
            let may = self.may_be_left_out.lock().unwrap().contains(why);
            assert!(
                may,
                "the tape of session {session} is not replayed: {why:?}, and the test does not say that it may be"
            );
        }
    }
}

/// Replays every tape of every store at or below a folder, so many entries at most.
pub(crate) fn replay_below(folder: &Path, entries_max: usize) -> Replayed {
    let mut all = Replayed::NOTHING;
    for path in stores(folder, 5) {
        let options = StoreOptions::default().access(TapeAccess::Read);
        let Ok(store) = Store::open(&path, options) else { continue };
        for session in store.list().unwrap_or_default() {
            if all.entries >= entries_max {
                return all;
            }
            match read(&store, &session.id) {
                Ok(appends) => replay(&session.id, &appends, entries_max, &mut all),
                Err(why) => all.left_out.push((session.id, why)),
            }
        }
    }
    all
}

fn read(store: &Store, session: &SessionId) -> Result<Vec<Append>, LeftOut> {
    let appends = store.appends(session).map_err(|error| match error {
        TapeError::Missing { .. } | TapeError::Damaged(_) => LeftOut::Damaged,
        TapeError::Newer { .. } => LeftOut::Newer,
        other => panic!("the tape of session {session} cannot be read: {other}"),
    })?;
    match Replay::of(appends.clone()) {
        Ok(_) => Ok(appends),
        Err(ReplayError::Entry(bad)) if bad.seq == Seq(1) => Err(LeftOut::NoSession),
        Err(ReplayError::NoBeginning) if appends.is_empty() => Err(LeftOut::NeverBegun),
        Err(error) => panic!("the tape of session {session} cannot be replayed: {error}"),
    }
}

fn replay(session: &SessionId, appends: &[Append], entries_max: usize, all: &mut Replayed) {
    all.tapes += 1;
    for step in Replay::of(appends.to_vec()).unwrap() {
        if let Some(difference) = step.difference {
            let (signal, n) = (&step.signal, step.number);
            panic!("the tape of session {session} does not replay: decision {n} ({signal}): {difference}");
        }
        all.entries += step.recorded.len();
        if all.entries >= entries_max {
            return;
        }
    }
    all.prompts += usize::from(finds_another_prompt(session, appends));
}

/// With another prompt the first request differs, and nothing before it. Says whether there is one.
fn finds_another_prompt(session: &SessionId, appends: &[Append]) -> bool {
    let entries = appends.iter().flat_map(|append| &append.entries);
    let entries: Vec<Entry> = entries.map(|entry| Entry::from_tape(entry).unwrap()).collect();
    let system = entries.iter().find_map(|entry| match &entry.record {
        Record::State(state) => Some(state.settings.system.clone()),
        _ => None,
    });
    // As long as the one that it was: that takes as much room, so nothing else follows from it.
    let Some(mut other) = system.map(|system| system.to_string()).filter(|system| !system.is_empty()) else {
        return false;
    };
    let last = other.pop().unwrap();
    other.push(if last == '!' { '?' } else { '!' });
    // An anchor has the prompt in it too, and a whole state tells no field.
    let says_so = |entry: &&Entry| matches!(entry.record, Record::Request(_) | Record::State(_)) && entry.seq > Seq(1);
    let Some(first) = entries.iter().find(says_so) else { return false };
    // Under another agent the prompt of the session is not the one that is sent.
    let is_switched = |entry: &Entry| matches!(entry.record, Record::AgentSwitched { .. }) && entry.seq < first.seq;
    if entries.iter().any(is_switched) {
        return false;
    }
    let found = Replay::of(appends.to_vec()).unwrap().prompt(other).first_difference();
    let found = found.unwrap_or_else(|| panic!("another prompt changes nothing in session {session}"));
    assert_eq!(found.seq, first.seq, "another prompt is found too late or too early in session {session}: {found}");
    let is_request = matches!(first.record, Record::Request(_));
    assert!(!is_request || found.path == "data.system", "in session {session}: {found}");
    true
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
