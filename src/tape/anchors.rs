//! Points of a tape to read from.
//!
//! An anchor is a point that can be read from without what came before it. So a tape as it was at some entry costs what lies
//! between that entry and the newest anchor at or before it, however long the tape is.

use super::Entry;
use crate::words::ids::{Millis, Seq};

/// A point of a tape to read from: a part of its own, which says first all that is needed from before. Of a fork, the anchors
/// before the point that it goes on from are those of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Which of the tape's parts, from 1.
    pub number: u64,
    /// What it is called; the first one of a tape is `session-start`.
    pub name: String,
    /// Its first entry.
    pub first: Seq,
    /// The time of that entry.
    pub time: Millis,
}

/// A tape as it was at one of its entries.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadTo {
    /// The anchor that was read from: the newest that begins at or before the entry.
    pub anchor: Anchor,
    /// From the anchor's first entry through the one that was asked for.
    pub entries: Vec<Entry>,
    /// The last of them ends an append. Where it does not, the session never stood there: an append is decided, and read back
    /// after a crash, whole or not at all.
    pub ends_append: bool,
}
