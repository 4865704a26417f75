//! Erasing a session of a store of files, and the notes of erased and hidden sessions that the index may still have words of.
//!
//! ```text
//! deleted/<id>.<n>   the folder of an erased session, renamed and then emptied, or an empty one for a session that is being hidden;
//!                    gone when the index has nothing of the session. <n> is a random UUID
//! ```
//!
//! One rename decides: after a crash the session has its tape, or is gone, and the next store that opens to write removes the
//! rest. (Its marks `parked`, `protected` and `open` go just before the rename.) The renamed folder is also the note for the
//! index (the search database), so a session is never gone without its note, and the note takes no room. The note stays, empty,
//! until `Store::scrub` has taken the words out; without an index, it goes at once.
//!
//! A change must keep: the marks are checked under [`Store::decide`], with the claim (the exclusive right to write the tape, a
//! file in the session's folder); a moved folder's claim is never released by name, for the name may be another session's by
//! then; `<n>` is never used twice, so that a scrub forgets only the notes that it began with. Everything here may block.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use super::{Store, primitives::summary};
use crate::{
    tape::{
        Mark, TapeError,
        layout::{Layout, lock_within, make_folder, names_in, remove_file},
    },
    words::ids::{Seq, SessionId},
};

/// How long to wait for another owner that is deciding whether a session stays.
const DECISION_WAIT: Duration = Duration::from_secs(10);

impl Store {
    /// As [`TapeStore::erase`](crate::tape::TapeStore::erase).
    pub(super) fn erase_folder(
        &self,
        session: &SessionId,
        last: Option<Seq>,
        unless: &[Mark],
    ) -> Result<Option<Mark>, TapeError> {
        self.inner.must_write()?;
        self.must_be_there(session)?;
        let layout = self.layout();
        let mut claiming = self.claim_session(session)?;
        // With the claim, no other process can begin a turn: look again.
        self.must_be_there(session)?;
        // With this lock, no caller can protect or fork the session without an error that it is gone.
        let decided = self.decide(session)?;
        fault!(self.faults(), "tape.delete.claimed", session.as_str());
        for mark in unless {
            if !self.marked(*mark, Some(session))?.is_empty() {
                return Ok(Some(*mark));
            }
        }
        if let Some(expected) = last {
            let last = summary(layout, session.clone())?.seq;
            if last != expected {
                return Err(TapeError::GoneOn { session: session.clone(), expected, last });
            }
        }
        for marks in [layout.parked(), layout.protected(), layout.open()] {
            remove_file(&marks.join(session.as_str()))?;
        }
        let (from, moved) = (layout.session(session), new_note(layout, session)?);
        fs::rename(&from, &moved).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TapeError::Missing { session: session.clone() },
            _ => TapeError::io("remove", &from)(error),
        })?;
        fault!(self.faults(), "tape.delete.moved", session.as_str());
        drop(decided);
        self.inner.writer.has_erased.store(true, Ordering::SeqCst);
        // The claim went with the folder, also if the removal below fails. Its name may belong to a new session of this id by now.
        claiming.claim = None;
        empty(layout, session, &moved)?;
        Ok(None)
    }

    /// Locks the folder `sessions/`: until the file is dropped, no other store decides whether a session stays. Waits 10 s at
    /// most. [`TapeError::Missing`] if the session is gone by then. A removal holds this lock while it looks and acts, and so
    /// does the setting of `Protected`, `Hidden` or `Fork`: the removal sees the mark, or setting it fails because the session is
    /// gone.
    pub(super) fn decide(&self, session: &SessionId) -> Result<File, TapeError> {
        let path = self.layout().sessions();
        let folder = File::open(&path).map_err(TapeError::io("open", &path))?;
        match lock_within(&folder, DECISION_WAIT) {
            Ok(true) => self.must_be_there(session).map(|()| folder),
            Ok(false) => Err(TapeError::io("lock", &path)(io::ErrorKind::TimedOut.into())),
            Err(error) => Err(TapeError::io("lock", &path)(error)),
        }
    }
}

/// Empties the folders that removals left in `deleted/`. Returns what failed; the others are still emptied.
pub(super) fn finish_erasures(layout: &Layout) -> Vec<TapeError> {
    match notes(layout) {
        Ok(notes) => notes.iter().filter_map(|(note, session)| empty(layout, session, note).err()).collect(),
        Err(error) => vec![error],
    }
}

/// Removes what is in the folder of an erased session, and without an index also the folder.
fn empty(layout: &Layout, session: &SessionId, moved: &Path) -> Result<(), TapeError> {
    // Remove the name in `hidden/`, unless a session that was made under this name since is hidden too.
    if !layout.hidden_mark(session).exists() {
        remove_file(&layout.hidden().join(session.as_str()))?;
    }
    fault!(layout.faults, "tape.delete.unmarked", session.as_str());
    let remove = || -> io::Result<()> {
        for item in fs::read_dir(moved)? {
            let path = item?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        if has_index(layout) { Ok(()) } else { fs::remove_dir(moved) }
    };
    match remove() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TapeError::io("remove", moved)(error)),
        _ => Ok(()),
    }
}

fn has_index(layout: &Layout) -> bool {
    layout.root.join("index.db").exists()
}

fn new_note(layout: &Layout, session: &SessionId) -> Result<PathBuf, TapeError> {
    make_folder(&layout.deleted())?;
    Ok(layout.deleted().join(format!("{session}.{}", crate::words::ids::new_uuid().simple())))
}

/// Notes that the index may have words of a session that is being hidden. Does nothing without an index.
pub(super) fn note(layout: &Layout, session: &SessionId) {
    let made = if has_index(layout) { new_note(layout, session).and_then(|note| make_folder(&note)) } else { Ok(()) };
    // A full disk has no room for the note. A search that catches up still finds nothing of the session; its words stay in the
    // file until another note.
    if let Err(error) = made {
        tracing::warn!(%session, %error, "what was deleted stays in the index for now");
    }
}

/// The notes, each with its session.
pub(in crate::tape) fn notes(layout: &Layout) -> Result<Vec<(PathBuf, SessionId)>, TapeError> {
    let session = |name: &str| name.rsplit_once('.')?.0.parse().ok();
    let names = names_in(&layout.deleted())?;
    Ok(names.iter().filter_map(|name| Some((layout.deleted().join(name), session(name)?))).collect())
}
