//! How a store of files is opened ([`StoreOptions`]), and what it reports about its opening and about one session. Plain values,
//! no I/O.
//!
//! A change must keep: [`Durability`] is written into lock files and claims, so its names are a stored format; a new option has a
//! default under which a store behaves as before.

use serde::{Deserialize, Serialize};

use crate::{
    tape::{Forked, TapeError},
    words::ids::{Millis, Seq, SessionId},
};

/// What an acknowledged entry survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// Any end of the process. A loss of power may lose all that the operating system had not written to the disk yet; in the
    /// worst case, that is every entry since the last sync. [`LoadedTape::rebooted`](crate::tape::LoadedTape::rebooted) says that
    /// the machine was restarted.
    #[default]
    Process,
    /// The loss of power as well: acknowledged after a sync, which many sessions share.
    Power,
}

/// Whether a store is opened to write or to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TapeAccess {
    /// To write: makes what is missing, holds an owner's lock, replays what dead owners left.
    #[default]
    Write,
    /// To read: changes nothing and keeps no lock. Runs alongside any number of writers.
    Read,
}

/// How a store is opened. The defaults are right for a host with some thousand sessions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreOptions {
    /// What an acknowledged entry survives.
    pub durability: Durability,
    /// Whether to write or to read.
    pub access: TapeAccess,
    /// The most session files that are kept open; the file written longest ago is closed for the next one.
    pub open_files_max: usize,
    /// The most jobs that wait for the disk; beyond it, appends are refused as [`TapeError::Busy`]. Marks and releases are always
    /// taken.
    pub queue_appends_max: usize,
    /// The most bytes of appends that wait for the disk; an append that waits alone may be larger.
    pub queue_bytes_max: usize,
    /// The room that is reserved to end open work when the disk is full, in bytes; 0 for none.
    pub reserve_bytes: u64,
    /// The size of the shared commit log of [`Durability::Power`], in bytes. An append of more than a quarter is synced
    /// separately.
    pub commit_log_bytes: u64,
    /// What happens at the crash points of the store and its index.
    #[cfg(feature = "fault-injection")]
    pub faults: crate::fault::Faults,
}

impl StoreOptions {
    crate::words::setters::setters! {
        /// Sets [what an acknowledged entry survives](#structfield.durability).
        durability: Durability;
        /// Sets whether the store is opened [to write or to read](#structfield.access).
        access: TapeAccess;
        /// Sets how many [session files](#structfield.open_files_max) are kept open.
        open_files_max: usize;
        /// Sets how many [jobs](#structfield.queue_appends_max) may wait for the disk.
        queue_appends_max: usize;
        /// Sets how many [bytes](#structfield.queue_bytes_max) may wait for the disk.
        queue_bytes_max: usize;
        /// Sets the [room](#structfield.reserve_bytes) to end open work on a full disk.
        reserve_bytes: u64;
        /// Sets the size of the [shared commit log](#structfield.commit_log_bytes).
        commit_log_bytes: u64;
    }

    /// Sets what happens at the [crash points](#structfield.faults).
    #[cfg(feature = "fault-injection")]
    #[must_use]
    pub fn faults(mut self, faults: crate::fault::Faults) -> StoreOptions {
        self.faults = faults;
        self
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            durability: Durability::Process,
            access: TapeAccess::Write,
            open_files_max: 256,
            queue_appends_max: 4096,
            queue_bytes_max: 64 * 1024 * 1024,
            reserve_bytes: 64 * 1024,
            commit_log_bytes: 4 * 1024 * 1024,
            #[cfg(feature = "fault-injection")]
            faults: crate::fault::Faults::default(),
        }
    }
}

/// What opening a store found and did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoreReport {
    /// How many owners had died without closing, and are cleared away completely now.
    pub dead_owners: usize,
    /// Sessions into which a dead owner's commit log was replayed. They are marked as open.
    pub replayed: Vec<SessionId>,
    /// Whether the reserve could be made.
    pub has_reserve: bool,
    /// Why leftovers of dead owners and of deletions could not be finished. They are tried again when the store is opened the next
    /// time, and when a session of theirs is loaded. All other sessions can be used.
    pub undone: Vec<TapeError>,
}

/// A session as its first and its last entry show it. Over files the checksums are not checked here, but by
/// [`Store::verify`](crate::tape::Store::verify).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Which.
    pub id: SessionId,
    /// The place that it continues from, if it is a fork.
    pub from: Option<Forked>,
    /// The time of its first entry; absent if it has none.
    pub created: Option<Millis>,
    /// The time of its last entry; absent if it has none.
    pub last: Option<Millis>,
    /// The number of its last entry; 0 if it has none.
    pub seq: Seq,
    /// The size of its entries, in bytes.
    pub bytes: u64,
}

impl SessionSummary {
    /// The summary of a session that cannot be read. Its size is not 0: an empty session may be swept, and this one must not.
    #[must_use]
    pub fn unread(id: SessionId) -> SessionSummary {
        SessionSummary { bytes: 1, ..SessionSummary::new(id) }
    }

    /// The summary of a session without entries. An engine sets the fields.
    #[must_use]
    pub fn new(id: SessionId) -> SessionSummary {
        SessionSummary { id, from: None, created: None, last: None, seq: Seq::ZERO, bytes: 0 }
    }
}
