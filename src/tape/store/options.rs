//! How a store is opened, and what it reports.

use serde::{Deserialize, Serialize};

use crate::{
    tape::{Forked, TapeError},
    words::ids::{Millis, Seq, SessionId},
};

/// What an acknowledged entry survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The end of the process, however it comes. When the machine loses its power, the last lines may be lost; that the
    /// machine was started anew is told by [`LoadedTape::rebooted`](crate::tape::LoadedTape::rebooted).
    #[default]
    Process,
    /// The loss of power as well: acknowledged after a sync, which many sessions share.
    Power,
}

/// Whether a store is opened to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// To write: makes what is missing, holds an owner's lock, replays what dead owners left.
    #[default]
    Write,
    /// To read: changes nothing and takes no lock. Runs beside any number of writers.
    Read,
}

/// How a store is opened. The defaults are right for a host with some thousand sessions.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What an acknowledged entry survives.
    pub durability: Durability,
    /// Whether to write.
    pub access: Access,
    /// The most session files that are open at once; the one written longest ago is closed for the next.
    pub open_files_max: usize,
    /// The most appends that wait for the disk. Beyond, they are refused as [`TapeError::Busy`].
    pub queue_appends_max: usize,
    /// The most bytes that wait for the disk; one append alone may be larger.
    pub queue_bytes_max: usize,
    /// The room that is kept to close what is open when the disk is full; 0 for none.
    pub reserve_bytes: u64,
    /// The size of the shared commit log of [`Durability::Power`].
    pub commit_log_bytes: u64,
    /// What happens at the crash points of the store and its index.
    #[cfg(feature = "fault-injection")]
    pub faults: crate::fault::Faults,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            durability: Durability::Process,
            access: Access::Write,
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
pub struct StoreReport {
    /// Owners that died without closing, of which nothing is left to do now.
    pub dead_owners: usize,
    /// Sessions into which a dead owner's commit log was replayed. They are marked as open.
    pub replayed: Vec<SessionId>,
    /// Whether the reserve could be made.
    pub has_reserve: bool,
    /// What of dead owners and of deletions could not be finished. It is tried again when the store is opened the next time, and
    /// when a session that it is about is loaded; all other sessions are there.
    pub undone: Vec<TapeError>,
}

/// A session as its first and its last entry show it. Over files the checksums are not looked at;
/// [`Store::verify`](crate::tape::Store::verify) does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Which.
    pub id: SessionId,
    /// Where it goes on from, where it is a fork.
    pub from: Option<Forked>,
    /// The time of its first entry; absent where it has none.
    pub created: Option<Millis>,
    /// The time of its last entry.
    pub last: Option<Millis>,
    /// Its last entry.
    pub seq: Seq,
    /// The size of its entries, in bytes.
    pub bytes: u64,
}

impl SessionSummary {
    /// Of a session that cannot be read. What is empty may be swept; of this one nobody knows.
    pub(crate) fn unread(id: SessionId) -> SessionSummary {
        SessionSummary { id, from: None, created: None, last: None, seq: Seq::ZERO, bytes: 1 }
    }
}
