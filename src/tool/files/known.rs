//! [`Known`]: a bounded table in memory of what each session last knew of a file, by session and path. There are two such tables:
//! one of [`Remembered`], for what a file held before a shell command changed it (`tools/bash/look.rs`), and one for whether the
//! session has seen the file that it is about to write (`tools/seen.rs`).
//!
//! A table holds the newest [`ENTRIES_MAX`] entries of all sessions, and after a restart none. So "not known" may be the answer at
//! any time, and a caller must stay correct then. A path must be absolute and go through no link, or one file would have two
//! entries. A change must touch no disk here, because the lock is shared by all sessions of the tools.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    lock::Lock,
    tool::{FileImage, workspace::Version},
    words::ids::SessionId,
};

/// The most entries of one table.
pub(crate) const ENTRIES_MAX: usize = 16_384;

/// A file that a call read or wrote, in the state `version`. It supplies the old content of a file that a shell command changes
/// later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) version: Version,
    /// The content, for as long as the system says that the file is in this state. `None`: the session saw the file, and its
    /// content is not kept yet; `bash` keeps it before the session's next command, as far as there is time and room.
    pub(crate) image: Option<FileImage>,
}

/// The table of what is known of files. A clone shares it. A path is absolute and goes through no link.
#[derive(Clone)]
pub(crate) struct Known<V>(Arc<Lock<Table<V>>>);

type Key = (SessionId, PathBuf);

struct Table<V> {
    /// What is known, each with the number of its entry.
    entries: HashMap<Key, (u64, V)>,
    /// The keys by the number of their entry, oldest first.
    by_age: BTreeMap<u64, Key>,
    /// How many entries were ever made: the number of the newest.
    count: u64,
}

impl<V> Default for Known<V> {
    fn default() -> Known<V> {
        Known(Arc::new(Lock::new(Table { entries: HashMap::new(), by_age: BTreeMap::new(), count: 0 })))
    }
}

impl<V: Clone> Known<V> {
    /// Remembers `what` in place of the entry that was there. In a full table the oldest entry is dropped.
    pub(crate) fn remember(&self, session: &SessionId, path: PathBuf, what: V) {
        let (mut table, key) = (self.0.lock(), (session.clone(), path));
        table.count += 1;
        let age = table.count;
        if let Some((before, _)) = table.entries.insert(key.clone(), (age, what)) {
            table.by_age.remove(&before);
        }
        table.by_age.insert(age, key);
        if table.entries.len() > ENTRIES_MAX
            && let Some((_, oldest)) = table.by_age.pop_first()
        {
            table.entries.remove(&oldest);
        }
    }

    /// What was last remembered of a file; `None` if nothing is known.
    pub(crate) fn recall(&self, session: &SessionId, path: PathBuf) -> Option<V> {
        self.0.lock().entries.get(&(session.clone(), path)).map(|(_, what)| what.clone())
    }
}

impl Known<Remembered> {
    /// The content of a file in the state `version`; `None` if the content or the file is not known in this state.
    pub(crate) fn content(&self, session: &SessionId, path: PathBuf, version: &Version) -> Option<FileImage> {
        self.recall(session, path).filter(|known| known.version == *version)?.image
    }

    /// The files that a session saw and whose content is not kept, each with the state that it was seen in.
    pub(crate) fn not_kept(&self, session: &SessionId) -> Vec<(PathBuf, Version)> {
        let table = self.0.lock();
        let of_session = table.entries.iter().filter(|((of, _), (_, known))| of == session && known.image.is_none());
        of_session.map(|((_, path), (_, known))| (path.clone(), known.version)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::tool::workspace::Workspace;

    /// The memory is bounded, each session has its own, and a touched file is not known any more.
    #[test]
    fn a_file_is_known_in_one_state_by_one_session() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "one").unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let version = || workspace.info(&workspace.resolve("f").unwrap()).unwrap().version;
        let image = FileImage { hash: Some("h".into()), mode: 0o644, bytes: 3, not_kept: None, stamp: None };
        let (known, session) = (Known::default(), SessionId::new());
        let remembered = || Remembered { version: version(), image: Some(image.clone()) };
        known.remember(&session, "f".into(), remembered());
        assert_eq!(known.content(&session, "f".into(), &version()), Some(image.clone()));
        assert_eq!(known.content(&SessionId::new(), "f".into(), &version()), None);
        for n in 0..3 * ENTRIES_MAX {
            known.remember(&session, format!("g{}", n % (ENTRIES_MAX - 1)).into(), remembered());
        }
        known.remember(&session, "f".into(), remembered());
        let table = known.0.lock();
        assert_eq!((table.entries.len(), table.by_age.len()), (ENTRIES_MAX, ENTRIES_MAX));
        drop(table);
        std::fs::write(folder.path().join("f"), "other").unwrap();
        assert_eq!(known.content(&session, "f".into(), &version()), None);
    }
}
