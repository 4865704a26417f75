//! Marks: notes about a session next to its tape, readable without the tape, because the tape may be the reason for a crash.
//!
//! An engine (the code that keeps tapes: files, memory, a host's database) keeps a mark under a name, some with a text. The text of
//! `Fork` is the fork's name. The other texts mean nothing to an engine: that of `Parked` is made and read here, that of `Imported`
//! in `import/narrowed.rs`.
//!
//! A change must keep: the text of `Parked` is a stored format, in which unknown fields are ignored and missing ones have
//! defaults; an engine sets [`Mark::Protected`], [`Mark::Hidden`] and [`Mark::Fork`] either before an erasure looks at them or
//! not at all, so that no session is erased that was just protected or forked.

use serde::{Deserialize, Serialize};

use super::TapeError;
use crate::words::ids::Millis;

/// The marks of a session. A session has each mark once or not at all, except [`Mark::Fork`], of which it has one for each fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Mark {
    /// A turn or a task of the session is open. Set for sessions that have a tape; an engine may forget it for any other.
    Open,
    /// The session is kept stopped. May be set for a session that does not exist.
    Parked,
    /// The session is never swept. [`TapeError::Missing`] if the session does not exist, also at the moment of an erasure.
    Protected,
    /// The session was deleted, and is kept for the forks that depend on it. [`TapeError::Claimed`] while it is open;
    /// [`TapeError::Missing`] as for `Protected`.
    Hidden,
    /// A fork of this name may continue from the session: one mark for each fork. [`TapeError::Missing`] as for `Protected`.
    Fork,
    /// The session came from a file that is not trusted. Set only by an import.
    Imported,
    /// Some process has the claim, through this value or from elsewhere, or the engine does not know. This mark is never set: the
    /// engine computes it.
    Claimed,
}

/// The text of [`Mark::Parked`]: one JSON object. Stored format; unknown fields are passed over.
#[derive(Serialize, Deserialize)]
pub(super) struct Parked {
    /// When it was parked.
    #[serde(default)]
    time: Millis,
    /// How it ended the last time.
    #[serde(default)]
    why: String,
}

impl Parked {
    /// The text of the mark.
    pub(super) fn text(time: Millis, why: &str) -> Result<String, TapeError> {
        serde_json::to_string(&Parked { time, why: why.to_owned() })
            .map_err(|error| TapeError::engine(error.to_string()))
    }

    /// The reason in the text of a mark; `unknown` where the text is empty (after a power cut) or cannot be read.
    pub(super) fn why(text: &str) -> String {
        serde_json::from_str(text).map_or_else(|_| "unknown".to_owned(), |parked: Parked| parked.why)
    }
}
