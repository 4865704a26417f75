//! The changes that a call made to files: reported by the call, kept on the tape with its result, never shown to the model.
//!
//! A [`ChangeLog`] is the place where a running call says it. It outlives the call: what a call that was cut off had said
//! by then is recorded all the same. The contents themselves are kept elsewhere, by their hash (see [`Files`](super::Files)).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{lock::Lock, words::ids::Seq};

/// What a call did to files.
///
/// A result without one is that of a call that says nothing about files: one that only reads, or one whose effects nobody
/// tracks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The files, in the order in which they were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    /// Why more may have been changed than is listed; `None` where the list is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted: Option<String>,
}

/// One file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where it is, without links: relative to the workspace where it is inside, else absolute. A name that is no plain text
    /// is in quotes, with escapes.
    pub path: String,
    /// What was there before.
    pub before: FileState,
    /// What is there since.
    pub after: FileState,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// Nothing.
    Absent,
    /// A file.
    File(FileImage),
    /// Nobody knows, or it is no file that can be put back. Says why.
    Unknown(String),
}

/// A regular file, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileImage {
    /// BLAKE3 of its content, in hex; `None` where it was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Its permission bits.
    pub mode: u32,
    /// How large it is.
    pub bytes: u64,
    /// Why its content was not kept; `None` where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_kept: Option<String>,
    /// Which file in which state, as the system tells it: where there is no hash to know it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
}

impl Changes {
    /// That more may have been changed than is known, and why.
    #[must_use]
    pub fn unlisted(why: impl Into<String>) -> Changes {
        Changes { files: Vec::new(), unlisted: Some(why.into()) }
    }
}

impl FileState {
    /// The hash of the content, where it is a file that was read.
    #[must_use]
    pub fn hash(&self) -> Option<&str> {
        match self {
            FileState::File(image) => image.hash.as_deref(),
            FileState::Absent | FileState::Unknown(_) => None,
        }
    }
}

/// Where a call says which files it changed. A clone is the same place.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Where the session's contents are kept, if they are, and the call's ticket.
    place: Option<(Option<PathBuf>, Seq)>,
    said: Lock<Option<Changes>>,
}

impl ChangeLog {
    /// A log of a call outside of any session: what is said there is lost, and no content is kept.
    #[must_use]
    pub fn detached() -> ChangeLog {
        ChangeLog::default()
    }

    /// The log of a session's call: contents are kept in that folder, where there is one.
    pub(crate) fn new(folder: Option<PathBuf>, ticket: Seq) -> ChangeLog {
        ChangeLog(Arc::new(Inner { place: Some((folder, ticket)), said: Lock::default() }))
    }

    /// Where contents are kept, if they are, and the call's ticket; `None` outside of any session.
    #[cfg_attr(not(all(unix, feature = "tools")), allow(dead_code, reason = "only the tools use it"))]
    pub(crate) fn place(&self) -> Option<(Option<&Path>, Seq)> {
        self.0.place.as_ref().map(|(folder, ticket)| (folder.as_deref(), *ticket))
    }

    /// Says that a file was changed.
    pub fn add(&self, change: FileChange) {
        self.change(|changes| changes.files.push(change));
    }

    /// Says that more may have been changed than will be listed, and why. It stands until [`ChangeLog::put`] replaces it.
    pub fn unlisted(&self, why: impl Into<String>) {
        self.change(|changes| changes.unlisted = Some(why.into()));
    }

    /// Says all that was changed, in place of what was said before.
    pub fn put(&self, all: Changes) {
        self.change(|changes| *changes = all);
    }

    /// Says that the call tracks what it changes, and has changed nothing so far.
    pub fn begin(&self) {
        self.change(|_| ());
    }

    /// What was said, once.
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
    #![allow(clippy::unwrap_used, clippy::panic)]

    use serde_json::json;

    use super::*;

    /// What stands on the tape, for readers of tapes to come.
    #[test]
    fn changes_are_written_as_they_are_read() {
        let image = FileImage { hash: Some("ab".into()), mode: 0o644, bytes: 2, not_kept: None, stamp: None };
        let all = Changes {
            files: vec![
                FileChange { path: "new".into(), before: FileState::Absent, after: FileState::File(image.clone()) },
                FileChange {
                    path: "big".into(),
                    before: FileState::File(FileImage {
                        hash: None,
                        not_kept: Some("too large".into()),
                        stamp: Some("1:2".into()),
                        ..image
                    }),
                    after: FileState::Unknown("changed by bash".into()),
                },
            ],
            unlisted: Some("too many".into()),
        };
        let written = json!({
            "files": [
                {"path": "new", "before": "absent", "after": {"file": {"hash": "ab", "mode": 420, "bytes": 2}}},
                {
                    "path": "big",
                    "before": {"file": {"mode": 420, "bytes": 2, "not_kept": "too large", "stamp": "1:2"}},
                    "after": {"unknown": "changed by bash"},
                },
            ],
            "unlisted": "too many",
        });
        assert_eq!(serde_json::to_value(&all).unwrap(), written);
        assert_eq!(serde_json::from_value::<Changes>(written).unwrap(), all);
        assert_eq!(serde_json::to_value(Changes::default()).unwrap(), json!({}));
    }

    /// A call that says nothing is told from one that changed nothing.
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
