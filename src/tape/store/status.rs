//! How sessions stand: who has them, which are parked, deleted, protected or in a turn.
//!
//! All of it is known from a handful of marks, each read once for any number of sessions; only who has a session is looked up for
//! each. No tape is read.

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
    parked: Vec<SessionId>,
    hidden: Vec<SessionId>,
    protected: Vec<SessionId>,
    open: Vec<SessionId>,
}

impl<'s> SessionStatuses<'s> {
    /// Reads four kinds of marks.
    pub(crate) fn of_all(store: &'s dyn TapeStore) -> Result<SessionStatuses<'s>, TapeError> {
        let marked = |mark| -> Result<Vec<SessionId>, TapeError> {
            Ok(store.marks(mark, None)?.into_iter().map(|(session, _)| session).collect())
        };
        let (parked, hidden) = (marked(Mark::Parked)?, marked(Mark::Hidden)?);
        Ok(SessionStatuses { store, parked, hidden, protected: marked(Mark::Protected)?, open: marked(Mark::Open)? })
    }

    /// How a session stands. Looks up who has it.
    pub(crate) fn of(&self, session: &SessionId) -> SessionStatus {
        match () {
            () if self.is_hidden(session) => SessionStatus::Hidden,
            () if has(&self.parked, session) => SessionStatus::Parked,
            () if self.is_held(session) => SessionStatus::Live,
            () => SessionStatus::Passive,
        }
    }

    /// Whether a turn of it is open.
    pub(crate) fn is_open(&self, session: &SessionId) -> bool {
        has(&self.open, session)
    }

    /// Whether it is never swept.
    pub(crate) fn is_protected(&self, session: &SessionId) -> bool {
        has(&self.protected, session)
    }

    /// Whether it was deleted.
    pub(crate) fn is_hidden(&self, session: &SessionId) -> bool {
        has(&self.hidden, session)
    }

    /// Of what cannot be told somebody has it, for all that is known.
    fn is_held(&self, session: &SessionId) -> bool {
        self.store.marks(Mark::Held, Some(session)).map_or(true, |held| !held.is_empty())
    }
}

fn has(sorted: &[SessionId], session: &SessionId) -> bool {
    sorted.binary_search(session).is_ok()
}
