//! How sessions stand: who has them, which are parked, deleted, protected or in a turn.
//!
//! All of it is known from a handful of marks, each read once for any number of sessions; only who has a session is looked up for
//! each. No tape is read.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    tape::{Mark, TapeError, TapeStore},
    words::ids::SessionId,
};

/// Whether the index has read everything that is on the tapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// It has.
    No,
    /// So many sessions have something that it has not read: the time was over, or their files cannot be read. The next look
    /// reads on.
    Sessions(u64),
    /// Another process writes it just now.
    Unknown,
}

#[cfg(feature = "sqlite")]
impl Behind {
    /// Of so many sessions something was not read; `None` where that is not known.
    pub(in crate::tape) fn of(count: Option<u64>) -> Behind {
        match count {
            None => Behind::Unknown,
            Some(0) => Behind::No,
            Some(count) => Behind::Sessions(count),
        }
    }
}

/// How a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// Somebody has it open: this process or another one.
    Live,
    /// It sleeps; the next message to it wakes it.
    Passive,
    /// It is kept stopped, because it crashed again and again.
    Parked,
    /// It was deleted, and is kept out of sight for the forks that go on from it.
    Hidden,
}

/// How the sessions of a store stand, as they were looked at.
#[derive(Debug)]
pub(crate) struct SessionStatuses<'s> {
    store: &'s dyn TapeStore,
    marked: BTreeSet<(Mark, SessionId)>,
}

impl<'s> SessionStatuses<'s> {
    /// Reads four kinds of marks.
    pub(crate) fn of_all(store: &'s dyn TapeStore) -> Result<SessionStatuses<'s>, TapeError> {
        let mut marked = BTreeSet::new();
        for mark in [Mark::Parked, Mark::Hidden, Mark::Protected, Mark::Open] {
            marked.extend(store.marks(mark, None)?.into_iter().map(|(session, _)| (mark, session)));
        }
        Ok(SessionStatuses { store, marked })
    }

    /// How a session stands. Looks up who has it.
    pub(crate) fn of(&self, session: &SessionId) -> SessionStatus {
        match () {
            () if self.has(Mark::Hidden, session) => SessionStatus::Hidden,
            () if self.has(Mark::Parked, session) => SessionStatus::Parked,
            () if self.is_held(session) => SessionStatus::Live,
            () => SessionStatus::Passive,
        }
    }

    /// Whether that is noted of it: that it is parked, deleted, never swept, or in a turn.
    pub(crate) fn has(&self, mark: Mark, session: &SessionId) -> bool {
        self.marked.contains(&(mark, session.clone()))
    }

    /// Of what cannot be told somebody has it, for all that is known.
    fn is_held(&self, session: &SessionId) -> bool {
        self.store.marks(Mark::Held, Some(session)).map_or(true, |held| !held.is_empty())
    }
}
