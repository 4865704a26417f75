//! Where a fork goes on from. What is read of a tape is `whole`'s business.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Entry, TapeError,
    layout::{Layout, anchor_number},
    read::first_line,
};
use crate::words::ids::{Millis, Seq, SessionId};

/// The kind of the entry that a fork's tape begins with.
const FORKED: &str = "forked";

/// The most tapes that must be read to open one fork: itself, and those it goes on from up to the first anchor.
pub const FORK_DEPTH_MAX: u32 = 64;

/// Where a fork goes on from: the data of its first entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// The fork itself.
    pub session: SessionId,
    /// The session whose tape has what came before.
    pub parent: SessionId,
    /// Its last entry that belongs to the fork too.
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
    /// What the first entry of a tape says of where it goes on from; `None` of one that is no fork.
    #[must_use]
    pub fn of(first: &Entry) -> Option<Forked> {
        if first.kind == FORKED { serde_json::from_str(first.data.get()).ok() } else { None }
    }

    /// The entry that the fork's own tape begins with: it stands at the place after [`Forked::seq`].
    pub(super) fn entry(&self, time: Millis) -> Entry {
        Entry::plain(self.seq.next(), time, FORKED, self)
    }
}

/// Where a session goes on from, where it is a fork. Looks at one line, and only where the first file's number says that it
/// may be one.
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

/// The most tapes that all of a tape may be spread over, anchors or not. More are a circle.
pub(super) const FORKS_OF_FORKS_MAX: u32 = 10_000;
