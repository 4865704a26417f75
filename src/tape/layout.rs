//! The layout of a store's folder: the paths in it, and helpers that make, list, sync and lock files and folders. `docs/TAPE.md`,
//! "Layout", shows the tree; paths without a method here are made by the module that uses them.
//!
//! Nothing here decides what is in a file. A change must keep: every name but `index.*` is a stored format (`docs/TAPE.md`), so
//! a changed name needs a new layout version; folders are made with mode 0700 and files with 0600, because conversations are
//! private; the name of an anchor or a session from a host or a file passes [`plain_anchor_name`] or the parser of [`SessionId`]
//! before it becomes part of a path, or it could leave the store.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{tape::TapeError, words::ids::SessionId};

/// The name of the first anchor's folder.
pub(super) const FIRST_ANCHOR: &str = "001_session-start";

/// The longest name of an anchor, in bytes, without its number.
const ANCHOR_NAME_BYTES_MAX: usize = 64;

/// The paths of one store.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) root: PathBuf,
    /// What happens at the crash points of the store.
    #[cfg(feature = "fault-injection")]
    pub(super) faults: crate::fault::Faults,
}

impl Layout {
    pub(super) fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    pub(super) fn session(&self, id: &SessionId) -> PathBuf {
        self.sessions().join(id.as_str())
    }

    pub(super) fn anchors(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("anchors")
    }

    pub(super) fn entries(&self, id: &SessionId, anchor: &str) -> PathBuf {
        self.anchors(id).join(anchor).join("entries.jsonl")
    }

    pub(super) fn claim(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("claim")
    }

    pub(super) fn writer(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("writer")
    }

    /// The marks of the sessions that continue from this one.
    pub(super) fn forks(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("forks")
    }

    pub(super) fn fork_mark(&self, parent: &SessionId, fork: &SessionId) -> PathBuf {
        self.forks(parent).join(fork.as_str())
    }

    pub(super) fn hidden(&self) -> PathBuf {
        self.root.join("hidden")
    }

    pub(super) fn hidden_mark(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("hidden")
    }

    /// The mark of a session that was brought in from a file that is not trusted.
    pub(super) fn imported(&self, id: &SessionId) -> PathBuf {
        self.session(id).join("imported")
    }

    pub(super) fn deleted(&self) -> PathBuf {
        self.root.join("deleted")
    }

    pub(super) fn open(&self) -> PathBuf {
        self.root.join("open")
    }

    pub(super) fn parked(&self) -> PathBuf {
        self.root.join("parked")
    }

    pub(super) fn protected(&self) -> PathBuf {
        self.root.join("protected")
    }

    pub(super) fn owners(&self) -> PathBuf {
        self.root.join("owners")
    }

    pub(super) fn lock(&self, owner: &str) -> PathBuf {
        self.owners().join(format!("{owner}.lock"))
    }

    pub(super) fn reserve(&self, owner: &str) -> PathBuf {
        self.owners().join(format!("{owner}.reserve"))
    }

    pub(super) fn spare(&self, owner: &str) -> PathBuf {
        self.owners().join(format!("{owner}.spare"))
    }

    pub(super) fn commit(&self) -> PathBuf {
        self.root.join("commit")
    }

    pub(super) fn commit_log(&self, owner: &str) -> PathBuf {
        self.commit().join(format!("{owner}.log"))
    }

    /// Which owner opened the store last.
    pub(super) fn opened(&self) -> PathBuf {
        self.root.join("index.opened")
    }

    /// The anchors of a session, oldest first.
    pub(super) fn anchor_names(&self, id: &SessionId) -> Result<Vec<String>, TapeError> {
        anchor_names_in(&self.anchors(id))
    }

    /// The sessions of the store, by id, without those that were deleted and wait for their forks.
    #[cfg(feature = "sqlite")]
    pub(super) fn session_ids(&self) -> Result<Vec<SessionId>, TapeError> {
        let mut sessions = self.all_session_ids()?;
        let hidden = ids_in(&self.hidden())?;
        sessions.retain(|id| hidden.binary_search(id).is_err() || !self.hidden_mark(id).exists());
        Ok(sessions)
    }

    /// The sessions of the store that have a folder, sorted; with those that were deleted and wait for their forks.
    pub(super) fn all_session_ids(&self) -> Result<Vec<SessionId>, TapeError> {
        Ok(self.session_folders()?.0)
    }

    /// The folders of the sessions, and other files among them under the name of a session; each sorted.
    pub(super) fn session_folders(&self) -> Result<(Vec<SessionId>, Vec<SessionId>), TapeError> {
        let sessions = self.sessions();
        let is_folder = |item: &std::fs::DirEntry| match item.file_type() {
            Ok(kind) if kind.is_symlink() => item.path().is_dir(),
            kind => kind.is_ok_and(|kind| kind.is_dir()),
        };
        let read = || -> io::Result<Vec<(SessionId, bool)>> {
            let mut found = Vec::new();
            for item in std::fs::read_dir(&sessions)? {
                let item = item?;
                let id = item.file_name().to_str().and_then(|name| name.parse().ok());
                found.extend(id.map(|id| (id, is_folder(&item))));
            }
            Ok(found)
        };
        let mut found = match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(TapeError::io("list", &sessions))?,
        };
        found.sort();
        let (folders, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, is_folder)| *is_folder);
        let ids = |found: Vec<(SessionId, bool)>| found.into_iter().map(|(id, _)| id).collect();
        Ok((ids(folders), ids(others)))
    }
}

/// The anchors in a folder of them, oldest first. A folder that is not named `NNN_name` is none.
pub(super) fn anchor_names_in(anchors: &Path) -> Result<Vec<String>, TapeError> {
    let mut anchors: Vec<(u64, String)> =
        names_in(anchors)?.into_iter().filter_map(|name| Some((anchor_number(&name)?, name))).collect();
    anchors.sort();
    Ok(anchors.into_iter().map(|(_, name)| name).collect())
}

/// The names in a folder that are session ids, sorted.
pub(super) fn ids_in(folder: &Path) -> Result<Vec<SessionId>, TapeError> {
    let mut ids: Vec<SessionId> = names_in(folder)?.iter().filter_map(|name| name.parse().ok()).collect();
    ids.sort();
    Ok(ids)
}

/// The names in a folder; none where the folder is missing.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>, TapeError> {
    let read = || -> io::Result<Vec<String>> {
        std::fs::read_dir(folder)?
            .filter_map(|item| item.map(|i| i.file_name().into_string().ok()).transpose())
            .collect()
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(TapeError::io("list", folder)),
    }
}

/// The number in `NNN_name`, in the one form that this library writes: at least three digits, and at most nine, so that there is
/// always a next number.
pub(super) fn anchor_number(folder: &str) -> Option<u64> {
    let (digits, name) = folder.split_once('_')?;
    let plain = !name.is_empty() && digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| plain)?;
    (number > 0 && format!("{number:03}") == digits).then_some(number)
}

/// The name in `NNN_name`.
pub(super) fn anchor_name(folder: &str) -> &str {
    folder.split_once('_').map_or(folder, |(_, name)| name)
}

/// A name that can be part of a folder's name: letters, digits, `.`, `_` and `-`, at most 64 bytes. Other characters become `-`;
/// `-` and `.` at both ends go.
pub(crate) fn plain_anchor_name(given: &str) -> String {
    let mut name = String::new();
    for c in given.chars() {
        let c = if c.is_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
        if name.len() + c.len_utf8() > ANCHOR_NAME_BYTES_MAX {
            break;
        }
        name.push(c);
    }
    let trimmed = name.trim_matches(['-', '.']);
    if trimmed.is_empty() { "anchor".to_owned() } else { trimmed.to_owned() }
}

/// Makes a folder and what is missing above it.
pub(super) fn make_folder(path: &Path) -> Result<(), TapeError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(TapeError::io("make", path))
}

/// The folder that a path is in, also if it has one name alone.
pub(super) fn folder_above(path: &Path) -> Option<&Path> {
    path.parent().map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above })
}

/// The folders that get a new name in them when `path` is made together with the missing folders above it, nearest first. These
/// must be synced for `path` to survive a power cut.
pub(super) fn folders_above(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut next = folder_above(path);
    while let Some(above) = next {
        found.push(above.to_owned());
        next = if above.exists() { None } else { folder_above(above) };
    }
    found
}

/// Makes a folder that must not be there yet.
pub(super) fn make_new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes a file that must not be there yet; only the user who makes it can read it.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file to read. Anything but a regular file is an error at once: a FIFO would wait for a writer, and a device has no
/// end.
pub(super) fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// The bytes of a regular file.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes).map(|_| bytes)
}

/// The text of a regular file.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_to_read(path)?.read_to_string(&mut text).map(|_| text)
}

/// Opens a file to read and write, and makes it where it is missing.
pub(super) fn open_or_make(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Syncs a folder: the names in it survive a power cut then.
pub(super) fn sync_folder(path: &Path) -> Result<(), TapeError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(TapeError::io("sync", path))
}

/// Locks a file or a folder exclusively (`flock`), and waits for it at most `wait`; `false` if it is still locked then. Blocks
/// the thread. The system releases the lock with the file, on any end of the process.
pub(super) fn lock_within(file: &File, wait: Duration) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if started.elapsed() < wait => sleep(Duration::from_millis(1)),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Deletes a file; a missing one is fine.
pub(super) fn remove_file(path: &Path) -> Result<(), TapeError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TapeError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_anchors_name_cannot_leave_its_folder() {
        for (given, plain) in [
            ("phase-1", "phase-1"),
            ("../../etc/passwd", "etc-passwd"),
            ("", "anchor"),
            ("...", "anchor"),
            ("a\0b\nc", "a-b-c"),
            ("阶段 一", "阶段-一"),
        ] {
            assert_eq!(plain_anchor_name(given), plain);
        }
        assert!(plain_anchor_name(&"é".repeat(200)).len() <= ANCHOR_NAME_BYTES_MAX);
    }

    /// A new file survives a loss of power only if each folder on the way to it is synced. Finding: only the nearest was, and a
    /// path of one name had none at all.
    #[test]
    fn the_folders_that_get_a_new_name_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(folders_above(&at("a/b/c")), [at("a/b"), at("a"), dir.path().to_owned()]);
        make_folder(&at("a/b")).unwrap();
        assert_eq!(folders_above(&at("a/b/c")), [at("a/b")]);
        assert_eq!(folders_above(Path::new("store")), [Path::new(".")]);
        assert_eq!(folders_above(Path::new("none/store")), [Path::new("none"), Path::new(".")]);
        assert!(folders_above(Path::new("/")).is_empty());
        folders_above(Path::new("store")).iter().for_each(|folder| sync_folder(folder).unwrap());
    }

    #[test]
    fn anchors_sort_by_number_and_not_by_text() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout {
            root: dir.path().into(),
            #[cfg(feature = "fault-injection")]
            faults: crate::fault::Faults::default(),
        };
        let id = "s".parse().unwrap();
        for name in ["1000_late", "002_b", "001_session-start", "notes", ".new-003_c", "x_y"] {
            make_folder(&layout.anchors(&id).join(name)).unwrap();
        }
        assert_eq!(layout.anchor_names(&id).unwrap(), ["001_session-start", "002_b", "1000_late"]);
    }
}
