//! A store: the folder that the tapes of many sessions are in.

mod beside;
mod claims;
mod delete;
mod fork;
mod marks;
mod notes;
mod options;
mod sound;
mod standing;
mod stay;
mod summary;
mod upkeep;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    Entry, Notify, Tape, TapeError, commit,
    disk::{Disk, LogFile, RealDisk, lock},
    layout::{FIRST_ANCHOR, Layout, make_new_folder, names_in, sync_folder},
    line::Chain,
    log::{Log, make_first_anchor},
    owner::Identity,
    queue::Queue,
    read::{open_to_write, read_after},
    write::Writer,
};
use crate::ids::{Seq, SessionId};

use claims::Claiming;
pub use delete::Deleted;
#[cfg(feature = "sqlite")]
pub(super) use notes::{Forgotten, Patience, Which};
pub use options::{Access, Durability, Loaded, SessionSummary, StoreOptions, StoreReport};
pub use sound::SoundEnd;
pub(crate) use standing::Standings;
pub use standing::{Behind, Standing};
pub(super) use upkeep::remove_reserves;
use upkeep::{become_owner, check_version};

/// A store of tapes: a folder. Cheap to clone; all clones are one owner.
///
/// The last clone (and the last [`Tape`] of it) that is dropped lets the I/O thread finish in the background;
/// [`Store::close`] waits for it.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::tape::{Appended, Entry, Store, StoreOptions};
/// use tamtam::{Millis, Seq, SessionId};
///
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), StoreOptions::default())?;
/// let id: SessionId = "ticket-4711".parse()?;
/// let mut tape = store.create(&id, Arc::new(|_later| {}))?;
/// let entry = Entry {
///     seq: Seq(1),
///     time: Millis::now(),
///     cause: None,
///     turn: None,
///     step: None,
///     ticket: None,
///     input: None,
///     kind: "note".into(),
///     data: serde_json::value::to_raw_value("hello")?,
/// };
/// if let Appended::Now(written) = tape.append(&[entry]) {
///     assert_eq!(written?, Seq(1));
/// }
/// # store.close(std::time::Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

/// What the clones and the tapes of a store share.
pub(super) struct Inner {
    pub(super) writer: Arc<Writer>,
    pub(super) queue: Arc<Queue>,
    report: StoreReport,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.layout().root).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in this folder, and makes it where it is missing.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`], and [`TapeError::Newer`] where a later version of this library made the folder.
    pub fn open(path: impl Into<PathBuf>, options: StoreOptions) -> Result<Store, TapeError> {
        Store::open_on(path.into(), options, Arc::new(RealDisk))
    }

    pub(super) fn open_on(root: PathBuf, options: StoreOptions, disk: Arc<dyn Disk>) -> Result<Store, TapeError> {
        let layout = Layout {
            root,
            #[cfg(feature = "fault-injection")]
            faults: options.faults.clone(),
        };
        let mut report = StoreReport::default();
        let owner = match options.access {
            Access::Read => {
                std::fs::read_dir(&layout.root).map_err(TapeError::io("open", &layout.root))?;
                check_version(&layout, false)?;
                None
            }
            Access::Write => Some(become_owner(&*disk, &layout, &options, &mut report)?),
        };
        let queue = Arc::new(Queue::new(options.queue_appends_max, options.queue_bytes_max));
        let writer = Arc::new(Writer::new(layout, options, disk, owner));
        Ok(Store { inner: Arc::new(Inner { writer, queue, report }) })
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.inner.writer.layout
    }

    /// What happens at the crash points.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn faults(&self) -> &crate::Faults {
        &self.layout().faults
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.layout().root
    }

    /// Whether it may write.
    #[must_use]
    pub fn access(&self) -> Access {
        self.inner.writer.options.access
    }

    /// What opening it found and did.
    #[must_use]
    pub fn report(&self) -> &StoreReport {
        &self.inner.report
    }

    /// Makes a session with an empty tape, and claims it. `notify` is told of the appends that are answered `Later`.
    ///
    /// # Errors
    ///
    /// [`TapeError::Exists`]; [`TapeError::ReadingOnly`]; [`TapeError::Io`].
    pub fn create(&self, session: &SessionId, notify: Notify) -> Result<Tape, TapeError> {
        let layout = self.layout();
        let folder = layout.session(session);
        self.inner.must_write()?;
        match make_new_folder(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return self.create_over(session, notify),
            made => made.map_err(TapeError::io("make", &folder))?,
        }
        fault!(self.faults(), "tape.create.folder", session.as_str());
        let claim = match self.claim(session) {
            Ok(claim) => claim,
            Err(error) => {
                // Not where somebody else has put something into it.
                let _ = std::fs::remove_dir(&folder);
                return Err(error);
            }
        };
        let mut claiming = Claiming::new(self, session, claim);
        fault!(self.faults(), "tape.create.claimed", session.as_str());
        let file = make_first_anchor(layout, session, FIRST_ANCHOR)
            .and_then(|path| self.sync_session(session, &path).map(|()| LogFile::new(path, 0)));
        match file {
            Ok(file) => {
                let chain = Chain::start(session, FIRST_ANCHOR);
                Ok(self.hand_out(session, notify, chain, vec![FIRST_ANCHOR.into()], file, claiming.keep(), None))
            }
            Err(error) => {
                // The claim goes with the folder. Given back by its name, it might be that of another who came meanwhile.
                if std::fs::remove_dir_all(&folder).is_ok() {
                    claiming.claim = None;
                }
                Err(error)
            }
        }
    }

    /// Goes on where somebody died between making a session and its first entry: nobody was told that it exists.
    fn create_over(&self, session: &SessionId, notify: Notify) -> Result<Tape, TapeError> {
        let exists = || TapeError::Exists { session: session.clone() };
        if summary::summary(self.layout(), session.clone(), &[])?.seq > Seq::ZERO {
            return Err(exists());
        }
        match self.load(session, notify) {
            Ok(loaded) if loaded.tape.last() == Seq::ZERO && loaded.read_only.is_none() => Ok(loaded.tape),
            Ok(_) | Err(TapeError::Claimed { .. }) => Err(exists()),
            Err(error) => Err(error),
        }
    }

    /// Claims a session and reads its tape from the newest anchor on. A torn tail is cut off and set aside.
    ///
    /// Waits up to 10 s where a handle of this store was just dropped and is still being written out.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Claimed`]; [`TapeError::Newer`]; [`TapeError::ReadingOnly`];
    /// [`TapeError::Io`]. A damaged tape is not an error, see [`Loaded::read_only`].
    pub fn load(&self, session: &SessionId, notify: Notify) -> Result<Loaded, TapeError> {
        self.inner.must_write()?;
        self.must_exist(session)?;
        let claim = self.claim(session)?;
        let before = claim.before.clone();
        let claiming = Claiming::new(self, session, claim);
        // It may have been deleted before the claim was ours.
        self.must_exist(session)?;
        fault!(self.faults(), "tape.load.claimed", session.as_str());
        let (opened, file) = self.open_claimed(session)?;
        let (chain, anchors, claim) = (opened.chain, opened.anchors, claiming.keep());
        let tape = self.hand_out(session, notify, chain, anchors, file, claim, opened.damage.clone());
        let (entries, repair, read_only) = (opened.entries, opened.repair, opened.damage);
        Ok(Loaded { tape, entries, repair, read_only, rebooted: self.was_rebooted(before) })
    }

    fn open_claimed(&self, session: &SessionId) -> Result<(super::read::Opened, LogFile), TapeError> {
        let layout = self.layout();
        for name in names_in(&layout.anchors(session))?.iter().filter(|name| name.starts_with(".new-")) {
            let draft = layout.anchors(session).join(name);
            std::fs::remove_dir_all(&draft).map_err(TapeError::io("remove", draft))?;
        }
        let mut opened = open_to_write(layout, session)?;
        if opened.anchors.is_empty() {
            opened.anchors.push(FIRST_ANCHOR.into());
        }
        fault!(self.faults(), "tape.load.read", session.as_str());
        let path = make_first_anchor(layout, session, &opened.chain.anchor)?;
        self.sync_session(session, &path)?;
        let length = opened.length;
        Ok((opened, LogFile::new(path, length)))
    }

    /// The entries after `after`, of all anchors. Takes no lock; may run beside a writer, whose last append is there whole
    /// or not at all.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Damaged`] where a line in between is bad; [`TapeError::Newer`];
    /// [`TapeError::Io`].
    pub fn read(&self, session: &SessionId, after: Seq) -> Result<Vec<Entry>, TapeError> {
        self.must_exist(session)?;
        read_after(self.layout(), session, after)
    }

    /// Whether there is a session of this name. One that was deleted is not, also while forks go on from it; its name is taken
    /// until then.
    #[must_use]
    pub fn exists(&self, session: &SessionId) -> bool {
        let layout = self.layout();
        layout.session(session).is_dir() && !layout.hidden_mark(session).exists()
    }

    pub(super) fn must_exist(&self, session: &SessionId) -> Result<(), TapeError> {
        if self.exists(session) { Ok(()) } else { Err(TapeError::Missing { session: session.clone() }) }
    }

    /// All sessions, by id. Reads the ends of their files. One whose files cannot be read is there without an entry;
    /// [`Store::verify`] says why.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`], where the store itself cannot be read.
    pub fn list(&self) -> Result<Vec<SessionSummary>, TapeError> {
        let open = self.open_sessions()?;
        let layout = self.layout();
        let unread = |id: SessionId| {
            let open = open.binary_search(&id).is_ok();
            // What is empty may be swept; of this one nobody knows.
            SessionSummary { id, created: None, last: None, seq: Seq::ZERO, bytes: 1, open }
        };
        let sessions = layout.session_ids()?.into_iter();
        Ok(sessions.map(|id| summary::summary(layout, id.clone(), &open).unwrap_or_else(|_| unread(id))).collect())
    }

    /// Waits until nothing waits for the disk. Says whether it came to that within `limit`.
    #[must_use]
    pub fn settle(&self, limit: Duration) -> bool {
        self.inner.queue.wait_until_empty(limit)
    }

    /// Closes the store for all its clones and tapes: writes what waits, gives every session back, ends the thread.
    /// From then on appends fail with [`TapeError::Closed`]. Doing it twice is fine.
    ///
    /// # Errors
    ///
    /// [`TapeError::Busy`] where the disk did not keep up within `limit`; the thread goes on and ends when it can.
    pub fn close(&self, limit: Duration) -> Result<(), TapeError> {
        // First: of what is not listed then, nothing is written any more.
        self.inner.queue.stop_appends();
        let mut logs: Vec<Arc<Log>> = lock(&self.inner.writer.live).values().filter_map(Weak::upgrade).collect();
        // The thread waits for the one that is at the disk in place just now; nobody else shall have to.
        logs.sort_by_cached_key(|log| log.state.try_lock().is_err());
        for log in logs {
            self.inner.give_back(&log);
        }
        self.inner.queue.close(&*self.inner.writer);
        self.inner.queue.wait_until_ended(limit).map_err(|waiting| TapeError::Busy { waiting })
    }

    /// `Power`: what an earlier writer may have left in the system's memory, and the claim, must be on the disk before the
    /// first acknowledgement.
    fn sync_session(&self, session: &SessionId, entries: &Path) -> Result<(), TapeError> {
        let layout = self.layout();
        if self.inner.writer.options.durability == Durability::Process {
            return Ok(());
        }
        let claim = layout.claim(session);
        File::open(&claim).and_then(|file| file.sync_all()).map_err(TapeError::io("sync", &claim))?;
        commit::sync_file(&*self.inner.writer.disk, entries)?;
        sync_folder(&layout.session(session))?;
        sync_folder(&layout.sessions())
    }

    fn was_rebooted(&self, before: Option<Identity>) -> bool {
        let now = lock(&self.inner.writer.owner).as_ref().and_then(|owner| owner.identity.boot.clone());
        before.is_some_and(|before| {
            before.durability == Durability::Process && before.boot.is_some() && now.is_some() && before.boot != now
        })
    }
}

impl Inner {
    pub(super) fn must_write(&self) -> Result<(), TapeError> {
        if self.writer.options.access == Access::Read {
            return Err(TapeError::ReadingOnly);
        }
        if self.queue.is_closed() { Err(TapeError::Closed) } else { Ok(()) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close(&*self.writer);
    }
}
