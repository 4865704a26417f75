//! [`Anchor`] and [`ReadTo`]: a part of a tape, and a tape as it was at one of its entries. Plain values, no I/O.
//!
//! An anchor is a point of a tape from which the tape can be read without the entries before it. So to read a tape as it was at an
//! entry, only the entries from the newest anchor at or before it are read, however long the tape is; in a fork, that anchor may be
//! on the tape of a parent. A change in the kernel must keep that the first entry of every anchor says everything that is needed
//! from before: the tape cannot check it. The first part of a fork is the exception, and no anchor in this sense.

use super::TapeEntry;
use crate::words::ids::{Millis, Seq};

/// A part of a tape. It can be read without the parts before it, because its first entry says all that is needed from before; the
/// exception is a fork's first part (`forked`), which needs the parent's tape. The anchors of a fork before the point where it was
/// forked are those of its parent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Anchor {
    /// The number of the part in its tape, from 1; a fork counts on from its parent's parts.
    pub number: u64,
    /// Its name; the first part of a tape is `session-start`, that of a fork `forked`.
    pub name: String,
    /// Its first entry.
    pub first: Seq,
    /// The time of its first entry.
    pub time: Millis,
}

impl Anchor {
    /// The part of that number and name, from that entry on.
    #[must_use]
    pub fn new(number: u64, name: impl Into<String>, first: Seq, time: Millis) -> Anchor {
        Anchor { number, name: name.into(), first, time }
    }
}

/// A tape as it was at one of its entries.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadTo {
    /// The anchor that was read from: the newest that begins at or before the entry.
    pub anchor: Anchor,
    /// From the anchor's first entry through the requested one.
    pub entries: Vec<TapeEntry>,
    /// Whether the last of these entries ends an append. If not, the session never had this state: an append is decided, and read
    /// back after a crash, whole or not at all.
    pub ends_append: bool,
}
