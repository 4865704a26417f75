//! What is noted of a session beside its tape, so that it is known without reading the tape: the tape may be what makes a
//! session crash.
//!
//! An engine keeps a mark as a name and a text that it does not read. What the text says is this module's business, so that it
//! says the same over every engine.

use serde::{Deserialize, Serialize};

use super::TapeError;
use crate::words::ids::Millis;

/// What may be noted of a session. A session has each of them once or not at all, but for [`Mark::Fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mark {
    /// A turn of it is open. Said of a session that has a tape; of any other it may be forgotten.
    Open,
    /// It is kept stopped. Said also of a session that is not there.
    Parked,
    /// It is never swept. [`TapeError::Missing`] where it is not there, also in the moment of an erasure.
    Protected,
    /// It was deleted, and is kept for the forks that go on from it. [`TapeError::Claimed`] while somebody has it open;
    /// [`TapeError::Missing`] as above.
    Hidden,
    /// A fork of that name may go on from it: one mark for each. [`TapeError::Missing`] as above.
    Fork,
    /// It came from a file that is not believed. Said by [`Store::import`](super::Store::import), of its own sessions.
    Imported,
    /// Somebody has it open, through this value or from elsewhere; of a session that an engine cannot tell of, too. Nobody sets
    /// it: the engine knows.
    Held,
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
