//! Files whose content is known without reading them: the system says that they have not changed since a call read or wrote them.
//!
//! So the content of before is known also of a file that a command of the shell has changed. Bounded; what is forgotten is
//! "not restorable", and nothing worse.

use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::Lock,
    tool::{FileImage, workspace::Version},
    words::ids::SessionId,
};

/// How many files are remembered, of all sessions together. The oldest is forgotten first.
const ENTRIES_MAX: usize = 16_384;

/// A file whose content is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The state in which it was seen.
    pub(crate) version: Version,
    /// What it was, with its hash.
    pub(crate) image: FileImage,
}

/// What is known of which file. A clone shares it.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<Lock<Table>>);

type Key = (SessionId, PathBuf);

#[derive(Default)]
struct Table {
    files: HashMap<Key, (u64, Remembered)>,
    /// By age; one that was remembered anew stands here twice, and the older mention means nothing.
    order: VecDeque<(u64, Key)>,
    count: u64,
}

impl Known {
    /// Remembers a file by its absolute path without links.
    pub(crate) fn remember(&self, session: &SessionId, path: PathBuf, remembered: Remembered) {
        let mut table = self.0.lock();
        table.count += 1;
        let (count, key) = (table.count, (session.clone(), path));
        table.files.insert(key.clone(), (count, remembered));
        table.order.push_back((count, key));
        while table.files.len() > ENTRIES_MAX || table.order.len() > 2 * ENTRIES_MAX {
            let Some((age, key)) = table.order.pop_front() else { break };
            if table.files.get(&key).is_some_and(|(newest, _)| *newest == age) {
                table.files.remove(&key);
            }
        }
    }

    /// What is known of a file that is in this state; `None` where it was touched since, or nobody remembers.
    pub(crate) fn recall(&self, session: &SessionId, path: &Path, version: &Version) -> Option<FileImage> {
        let table = self.0.lock();
        let (_, remembered) = table.files.get(&(session.clone(), path.to_owned()))?;
        (remembered.version == *version).then(|| remembered.image.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::tool::workspace::Workspace;

    /// The memory is bounded, each session has its own, and a file that was touched is not known any more.
    #[test]
    fn a_file_is_known_in_one_state_by_one_session() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "one").unwrap();
        let workspace = Workspace::open(folder.path()).unwrap();
        let version = || workspace.info(&workspace.resolve("f").unwrap()).unwrap().version;
        let image = FileImage { hash: Some("h".into()), mode: 0o644, bytes: 3, not_kept: None, stamp: None };
        let (known, session) = (Known::default(), SessionId::new());
        let remembered = || Remembered { version: version(), image: image.clone() };
        known.remember(&session, "f".into(), remembered());
        assert_eq!(known.recall(&session, Path::new("f"), &version()), Some(image.clone()));
        assert_eq!(known.recall(&SessionId::new(), Path::new("f"), &version()), None);
        for n in 0..3 * ENTRIES_MAX {
            known.remember(&session, format!("g{}", n % (ENTRIES_MAX - 1)).into(), remembered());
        }
        assert!(known.0.lock().order.len() <= 2 * ENTRIES_MAX);
        known.remember(&session, "f".into(), remembered());
        assert!(known.0.lock().files.len() <= ENTRIES_MAX);
        std::fs::write(folder.path().join("f"), "other").unwrap();
        assert_eq!(known.recall(&session, Path::new("f"), &version()), None);
    }
}
