//! A store of files: one folder with the tapes of many sessions; how it is opened and closed.
//!
//! **Opening for writing** makes the store an *owner*: it may claim sessions, which is the right to write them. It also finishes
//! what dead owners left: commit logs, and deletions that were cut off. What could not be finished is listed in
//! [`StoreReport::undone`]. What another store is just finishing, or has claimed, is waited for (10 s at a time) and then left to
//! it. A store that was opened with [`TapeAccess::Read`] changes nothing and keeps no lock.
//!
//! **[`Store::close`]** waits for its I/O thread, at most for its limit. When it returns without an error, every accepted append
//! is written or has failed, each was reported, and every session is released, with two exceptions: a session that is being
//! opened meanwhile is released as soon as it is open, and its opener gets [`TapeError::Closed`]; and one that could not be
//! synced keeps its claim, so that the next owner replays the commit log.
//!
//! A change must keep:
//!
//! - The layout of the folder is a stored format (`layout.rs`, `docs/TAPE.md`). The folder of a later version is refused, also for
//!   reading.
//! - `close` stops the queue before it lists the tapes, or a tape that is opened in between would be written after the close.
//! - Opening, closing and loading block on the disk, and must not run on an async thread.

mod beside;
mod claims;
mod erase;
mod marks;
mod options;
mod primitives;
mod sound;
mod status;
mod take_in;
mod upkeep;

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    sync::{Arc, Weak},
    time::Duration,
};

use super::{
    TapeError, commit,
    disk::{Disk, LogFile, RealDisk},
    handle::{Log, make_first_anchor},
    layout::{FIRST_ANCHOR, Layout, names_in, sync_folder},
    owner::Identity,
    queue::Queue,
    read::{Opened, open_to_write},
    remove::finish,
    whole::must_be_shown,
    write::Writer,
};
use crate::words::ids::SessionId;

#[cfg(feature = "sqlite")]
pub(super) use erase::notes as notes_of_erased;
pub use options::{Durability, SessionSummary, StoreOptions, StoreReport, TapeAccess};
#[cfg(feature = "sqlite")]
pub(super) use primitives::position;
pub use sound::SoundEnd;
pub(crate) use status::SessionStatuses;
pub use status::{Behind, ListCost, SessionStatus};
pub(super) use upkeep::remove_reserves;
use upkeep::{become_owner, check_version};

/// A store of tapes: a folder. Cheap to clone; all clones are one owner (one process may have several).
///
/// The operations on its tapes are in [`TapeStoreExt`](super::TapeStoreExt).
///
/// The last clone (and the last writer of it) that is dropped lets the I/O thread finish in the background;
/// [`Store::close`] waits for it.
///
/// ```
/// use std::sync::Arc;
/// use tamtam::tape::{Appended, TapeEntry, Store, StoreOptions, TapeStoreExt};
/// use tamtam::{Millis, Seq, SessionId};
///
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), StoreOptions::default())?;
/// let id: SessionId = "ticket-4711".parse()?;
/// let mut tape = store.create(&id, Arc::new(|_later| {}))?;
/// let entry = TapeEntry::new(Seq(1), Millis::now(), "note", serde_json::value::to_raw_value("hello")?);
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

/// The part of a store that its clones and its tapes share. Dropping it closes the queue.
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
    /// Opens the store in this folder. To write, it makes the folder where it is missing.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`], and [`TapeError::Newer`] if a later version of this library made the folder.
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
            TapeAccess::Read => {
                std::fs::read_dir(&layout.root).map_err(TapeError::io("open", &layout.root))?;
                check_version(&layout, false)?;
                None
            }
            TapeAccess::Write => Some(become_owner(&*disk, &layout, &options, &mut report)?),
        };
        let writer = Arc::new(Writer::new(layout, options, disk, owner));
        let queue = Arc::new(Queue::new(Arc::clone(&writer)));
        let mut store = Store { inner: Arc::new(Inner { writer, queue, report }) };
        if store.access() == TapeAccess::Write {
            let undone = finish(&store);
            if let Some(inner) = Arc::get_mut(&mut store.inner) {
                inner.report.undone.extend(undone);
            }
        }
        Ok(store)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.inner.writer.layout
    }

    /// What happens at the crash points.
    #[cfg(feature = "fault-injection")]
    pub(crate) fn faults(&self) -> &crate::fault::Faults {
        &self.layout().faults
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.layout().root
    }

    /// Whether it may write.
    #[must_use]
    pub fn access(&self) -> TapeAccess {
        self.inner.writer.options.access
    }

    /// The report of opening this store: what it found and did.
    #[must_use]
    pub fn report(&self) -> &StoreReport {
        &self.inner.report
    }

    /// Reads a session that this store has claimed, repairs its end, and leaves its newest file ready for appends.
    fn open_claimed(&self, session: &SessionId) -> Result<(Opened, LogFile), TapeError> {
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

    /// [`TapeError::Missing`] if the session has no folder, or was deleted and is hidden.
    pub(super) fn must_exist(&self, session: &SessionId) -> Result<(), TapeError> {
        self.must_be_there(session)?;
        must_be_shown(self, session)
    }

    /// Closes the store for all its clones and tapes: writes what waits, releases every session, ends the thread. From then on
    /// appends fail with [`TapeError::Closed`]. Doing it twice is fine.
    ///
    /// # Errors
    ///
    /// [`TapeError::Busy`] if the disk did not keep up within `limit`; the thread continues and ends when it can.
    pub fn close(&self, limit: Duration) -> Result<(), TapeError> {
        // First stop the queue: a tape that is not in the list below can then write nothing more.
        self.inner.queue.stop_appends();
        let mut logs: Vec<Arc<Log>> = self.inner.writer.live.lock().values().filter_map(Weak::upgrade).collect();
        // Last come the tapes that are writing in place now: the thread waits for them, and the others should not have to.
        logs.sort_by_cached_key(|log| log.state.try_lock().is_none());
        for log in logs {
            self.inner.give_back(&log);
        }
        self.inner.queue.close();
        self.inner.queue.wait_until_ended(limit).map_err(|waiting| TapeError::Busy { waiting })
    }

    /// `Power`: syncs the claim, and the lines that an earlier writer may have left in the system's memory. Both must be on the
    /// disk before the first acknowledgement.
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

    /// Whether acknowledged lines may be lost: the last writer used `Process`, and the machine was restarted since.
    fn was_rebooted(&self, before: Option<Identity>) -> bool {
        let now = self.inner.writer.owner.lock().as_ref().and_then(|owner| owner.identity.boot.clone());
        before.is_some_and(|before| {
            before.durability == Durability::Process && before.boot.is_some() && now.is_some() && before.boot != now
        })
    }
}

impl Inner {
    pub(super) fn must_write(&self) -> Result<(), TapeError> {
        if self.writer.options.access == TapeAccess::Read {
            return Err(TapeError::ReadingOnly);
        }
        if self.queue.stopped.load(Ordering::SeqCst) { Err(TapeError::Closed) } else { Ok(()) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}
