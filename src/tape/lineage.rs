//! The origin of a fork (a session that continues from an entry of another one): the entry `forked` that its tape begins with,
//! and the data of that entry, which names the parent and the parent's entry.
//!
//! A change must keep: [`Forked`] is a stored format, so a field can only be added with a default, and none may go. [`origin`]
//! reads one line and checks nothing: before an entry of the parent counts as one of the fork, the caller must check that the
//! parent has the named entry with the named checksum (as `whole::founded` does), because another session may have the parent's
//! name by now.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    TapeEntry, TapeError,
    layout::{Layout, anchor_number},
    read::first_line,
};
use crate::words::ids::{Millis, Seq, SessionId};

/// The kind of the entry that a fork's tape begins with.
const FORKED: &str = "forked";

/// The most tapes that are read before a fork's own to open it: those that it continues from, back to the nearest anchor.
pub const FORK_DEPTH_MAX: u32 = 64;

/// The origin of a fork: the data of its first entry. Stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Forked {
    /// The fork itself.
    pub session: SessionId,
    /// The session whose tape has what came before.
    pub parent: SessionId,
    /// The last entry of the parent that belongs to the fork too.
    pub seq: Seq,
    /// The checksum of that entry.
    pub sum: String,
    /// How many tapes must be read before this one to open it, at most [`FORK_DEPTH_MAX`].
    #[serde(default)]
    pub depth: u32,
    /// The fork's own folder for large outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill: Option<String>,
}

impl Forked {
    /// The origin of a fork, from the first entry of its tape; `None` if the tape is not a fork's.
    #[must_use]
    pub fn of(first: &TapeEntry) -> Option<Forked> {
        if first.kind == FORKED { serde_json::from_str(first.data.get()).ok() } else { None }
    }

    /// The first entry of the fork's own tape; its number is [`Forked::seq`] plus 1.
    pub(super) fn entry(&self, time: Millis) -> TapeEntry {
        TapeEntry::plain(self.seq.next(), time, FORKED, self)
    }
}

/// The origin of a session that is a fork. Reads one line, and only if the number of the first file is not 1.
pub(super) fn origin(layout: &Layout, session: &SessionId, folders: &[String]) -> Result<Option<Forked>, TapeError> {
    let first = folders.first().filter(|first| anchor_number(first) != Some(1));
    first.map_or(Ok(None), |first| Ok(first_line(&layout.entries(session, first))?.and_then(|line| forked_of(&line))))
}

fn forked_of(line: &[u8]) -> Option<Forked> {
    #[derive(Deserialize)]
    struct First {
        kind: String,
        data: Box<RawValue>,
    }
    let first: First = serde_json::from_slice(line).ok()?;
    if first.kind == FORKED { serde_json::from_str(first.data.get()).ok() } else { None }
}

/// The most tapes that a fork may continue from, one after the other, with or without anchors between. More of them are taken for
/// a circle: [`TapeError::TooDeep`].
pub(super) const FORKS_OF_FORKS_MAX: u32 = 10_000;
