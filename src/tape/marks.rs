//! What is noted of a session beside its tape, so that it is known without reading the tape: the tape may be what makes a
//! session crash.
//!
//! An engine keeps a mark as a name and a text that it does not read. What the text says is this module's business, so that it
//! says the same over every engine.

use serde::{Deserialize, Serialize};

use super::{TapeError, TapeStore};
use crate::ids::{Millis, SessionId};

/// What may be noted of a session. A session has each of them once or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mark {
    /// A turn of it is open. Said of a session that has a tape; of any other it may be forgotten.
    Open,
    /// It is kept stopped. Said also of a session that is not there.
    Parked,
    /// It is never swept. [`TapeError::Missing`] where it is not there, also in the moment of a sweep.
    Pinned,
}

/// What is written of a parked session: one JSON object. Fields that are not known are passed over.
#[derive(Serialize, Deserialize)]
pub(super) struct Parked {
    /// When it was parked.
    #[serde(default)]
    time: Millis,
    /// What ended it the last time.
    #[serde(default)]
    why: String,
}

impl Parked {
    /// The text of the mark.
    pub(super) fn text(time: Millis, why: &str) -> Result<String, TapeError> {
        serde_json::to_string(&Parked { time, why: why.to_owned() })
            .map_err(|error| TapeError::engine(error.to_string()))
    }

    /// Why, as the text of a mark says. That there is a mark is what counts; an empty one, after a power cut, says no more.
    pub(super) fn why(text: &str) -> String {
        serde_json::from_str(text).map_or_else(|_| "unknown".to_owned(), |parked: Parked| parked.why)
    }
}

/// The marks by their names, over any engine. Each fails as the engine does.
#[allow(clippy::missing_errors_doc, reason = "said once, above")]
impl dyn TapeStore + '_ {
    /// Notes that a turn of this session is open.
    pub fn mark_open(&self, session: &SessionId) -> Result<(), TapeError> {
        self.mark(session, Mark::Open, "")
    }

    /// Notes that no turn of this session is open.
    pub fn mark_closed(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Open)
    }

    /// The sessions with an open turn, sorted.
    pub fn open_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        Ok(names(self.marks(Mark::Open)?))
    }

    /// Notes that a session is kept stopped, and why. One that is noted already is noted anew.
    pub fn park(&self, session: &SessionId, time: Millis, why: &str) -> Result<(), TapeError> {
        self.mark(session, Mark::Parked, &Parked::text(time, why)?)
    }

    /// Notes that a session may run again.
    pub fn unpark(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Parked)
    }

    /// The sessions that are kept stopped, sorted, and why.
    pub fn parked_sessions(&self) -> Result<Vec<(SessionId, String)>, TapeError> {
        let parked = self.marks(Mark::Parked)?.into_iter();
        Ok(parked.map(|(session, text)| (session, Parked::why(&text))).collect())
    }

    /// Keeps a session from being swept.
    pub fn pin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.mark(session, Mark::Pinned, "")
    }

    /// Lets a session be swept again.
    pub fn unpin(&self, session: &SessionId) -> Result<(), TapeError> {
        self.unmark(session, Mark::Pinned)
    }

    /// The sessions that are never swept, sorted.
    pub fn pinned_sessions(&self) -> Result<Vec<SessionId>, TapeError> {
        Ok(names(self.marks(Mark::Pinned)?))
    }
}

fn names(marks: Vec<(SessionId, String)>) -> Vec<SessionId> {
    marks.into_iter().map(|(session, _)| session).collect()
}
