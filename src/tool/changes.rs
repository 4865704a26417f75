//! [`ChangeLog`]: the log in which a running call reports its changes to files. The call's worker puts the changes into the result
//! that is recorded on the tape (`actor/worker.rs`), from where a restore reads them.
//!
//! The log outlives the call's code, so the changes of a call that was stopped or panicked are recorded too. If the process or the
//! session's actor dies, the log is lost (for that case there are the notes, `tool/files/notes.rs`). The contents of the files are
//! kept elsewhere, by their hash (see [`Files`](super::Files)).
//!
//! A call must report a change before it answers: what is reported after the worker has taken the log is lost. A change must keep
//! that a report touches no disk and cannot fail.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::Lock,
    words::ids::Seq,
    words::message::{Changes, FileChange},
};

/// The log in which a call reports the files that it changed. A clone is the same log.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The folder in which the session's contents are kept, if any, and the call's ticket. `None` outside of any session.
    place: Option<(Option<Arc<PathBuf>>, Seq)>,
    /// The changes that were reported so far; `None` for a call that reports nothing about files.
    said: Lock<Option<Changes>>,
}

impl ChangeLog {
    /// The log of a call outside of any session: its reports are recorded nowhere, and no content is kept.
    #[must_use]
    pub fn detached() -> ChangeLog {
        ChangeLog::default()
    }

    /// The log of a session's call. Contents are kept in `folder`, if there is one.
    pub(crate) fn new(folder: Option<Arc<PathBuf>>, ticket: Seq) -> ChangeLog {
        ChangeLog(Arc::new(Inner { place: Some((folder, ticket)), said: Lock::default() }))
    }

    /// The folder in which contents are kept, if any, and the call's ticket; `None` outside of any session.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn place(&self) -> Option<(Option<&Path>, Seq)> {
        self.0.place.as_ref().map(|(folder, ticket)| (folder.as_ref().map(|folder| folder.as_path()), *ticket))
    }

    /// Reports one changed file.
    pub fn add(&self, change: FileChange) {
        self.change(|changes| changes.files.push(change));
    }

    /// Reports that more may have been changed than will be listed, and why. It holds until [`ChangeLog::put`] replaces it.
    pub fn unlisted(&self, why: impl Into<String>) {
        self.change(|changes| changes.unlisted = Some(why.into()));
    }

    /// Reports all changes, replacing everything that was reported before.
    pub fn put(&self, all: Changes) {
        self.change(|changes| *changes = all);
    }

    /// Reports that the call tracks its changes, and has changed nothing so far.
    pub fn begin(&self) {
        self.change(|_| ());
    }

    /// Takes the changes that were reported out of the log. A second call returns `None`, unless more was reported in between.
    pub(crate) fn take(&self) -> Option<Changes> {
        self.0.said.lock().take()
    }

    fn change(&self, change: impl FnOnce(&mut Changes)) {
        let mut said = self.0.said.lock();
        change(said.get_or_insert_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that says nothing differs from one that changed nothing.
    #[test]
    fn a_log_gives_once_what_was_said() {
        let log = ChangeLog::detached();
        assert_eq!(log.take(), None);
        log.begin();
        assert_eq!((log.take(), log.take()), (Some(Changes::default()), None));
        log.unlisted("cut off");
        log.put(Changes::default());
        assert_eq!(log.clone().take(), Some(Changes::default()));
    }
}
