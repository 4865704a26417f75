//! The status of sessions, for lists and sweeps: live, passive, parked or hidden, and whether a session is protected or in a turn.
//! Also two values that lists give: [`Behind`] says whether a list or search may miss something, [`ListCost`] what the list cost.
//!
//! A status comes from the marks of a session (small files or rows next to its tape). Four kinds of marks are read once for any
//! number of sessions, or for one; [`Mark::Claimed`] is looked up for each session,
//! or once for all where most are shown. A status may be out of date when it is used, so code
//! that acts on it (such as a sweep that deletes) must look at the marks again under the session's claim.
//!
//! A change must read no tape here: a list must work for sessions whose tapes are damaged. May block on the disk.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    tape::{Mark, TapeError, TapeStore},
    words::ids::SessionId,
};

/// Whether the index has read everything that is on the tapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Behind {
    /// The index has read everything.
    No,
    /// This many sessions have entries that the index has not read: the time was over, or their files cannot be read. The next look
    /// reads on.
    Sessions(u64),
    /// Not known: another process is writing the index, or the disk is full, so nothing could be read into it.
    Unknown,
}

#[cfg(feature = "sqlite")]
impl Behind {
    /// From the number of sessions that were not read completely; `None` if that is not known.
    pub(in crate::tape) fn of(count: Option<u64>) -> Behind {
        match count {
            None => Behind::Unknown,
            Some(0) => Behind::No,
            Some(count) => Behind::Sessions(count),
        }
    }
}

/// The work that a list took: counts of things that were read, not time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ListCost {
    /// Sessions whose folder was listed and whose files' lengths were asked for.
    pub folders: u64,
    /// Sessions whose tapes were read, because entries were appended since the last list.
    pub tapes: u64,
    /// Bytes of tapes that were read.
    pub bytes: u64,
    /// Rows of the index that were read; without an index, sessions whose ends of files were read.
    pub rows: u64,
}

/// The status of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SessionStatus {
    /// The session is open, in this process or another one.
    Live,
    /// The session sleeps; the next message to it wakes it.
    Passive,
    /// The session is kept stopped, after too many crashes or by an operator's order.
    Parked,
    /// The session was deleted, and is kept out of sight for the forks that depend on it.
    Hidden,
}

/// The marks of all sessions of a store: `Parked`, `Hidden`, `Protected` and `Open`, each kind as it was when it was read.
#[derive(Debug)]
pub(crate) struct SessionStatuses<'s> {
    store: &'s dyn TapeStore,
    marked: BTreeSet<(Mark, SessionId)>,
    /// The open sessions, where they were read for all at once.
    claimed: Option<BTreeSet<SessionId>>,
}

impl<'s> SessionStatuses<'s> {
    /// Reads these four kinds of marks.
    pub(crate) fn of_all(store: &'s dyn TapeStore) -> Result<SessionStatuses<'s>, TapeError> {
        let mut marked = BTreeSet::new();
        for mark in [Mark::Parked, Mark::Hidden, Mark::Protected, Mark::Open] {
            marked.extend(store.marks(mark, None)?.into_iter().map(|(session, _)| (mark, session)));
        }
        Ok(SessionStatuses { store, marked, claimed: None })
    }

    /// Reads which sessions are open too, for a list that shows most of them. If that fails, it is looked up for each session.
    pub(crate) fn with_claimed(mut self) -> SessionStatuses<'s> {
        let claimed = self.store.marks(Mark::Claimed, None).ok();
        self.claimed = claimed.map(|claimed| claimed.into_iter().map(|(session, _)| session).collect());
        self
    }

    /// Reads these marks of one session alone.
    pub(crate) fn of_one(store: &'s dyn TapeStore, session: &SessionId) -> Result<SessionStatuses<'s>, TapeError> {
        let mut marked = BTreeSet::new();
        for mark in [Mark::Parked, Mark::Hidden, Mark::Protected, Mark::Open] {
            marked.extend(store.marks(mark, Some(session))?.into_iter().map(|(session, _)| (mark, session)));
        }
        Ok(SessionStatuses { store, marked, claimed: None })
    }

    /// The status of a session. `Hidden` comes before `Parked`, and both before the check whether the session is open.
    pub(crate) fn of(&self, session: &SessionId) -> SessionStatus {
        match () {
            () if self.has(Mark::Hidden, session) => SessionStatus::Hidden,
            () if self.has(Mark::Parked, session) => SessionStatus::Parked,
            () if self.is_claimed(session) => SessionStatus::Live,
            () => SessionStatus::Passive,
        }
    }

    fn is_claimed(&self, session: &SessionId) -> bool {
        match &self.claimed {
            Some(claimed) => claimed.contains(session),
            // If that cannot be read, the session counts as open.
            None => !self.store.marks(Mark::Claimed, Some(session)).is_ok_and(|claimed| claimed.is_empty()),
        }
    }

    /// Whether the session has this mark: `Parked`, `Hidden`, `Protected` or `Open`.
    pub(crate) fn has(&self, mark: Mark, session: &SessionId) -> bool {
        self.marked.contains(&(mark, session.clone()))
    }
}
