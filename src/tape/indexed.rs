//! What an engine that keeps an index of words is told, and what it is asked for: the values of `TapeStore`'s `unread_words`,
//! `put_words` and `find_words`.
//!
//! The library cuts texts and queries into words, the same ones as for the index over files; the engine compares them byte for
//! byte, and knows nothing of texts, kinds or phrases. `index/elsewhere.rs` is the one caller.

use super::TapeEntry;
use crate::words::{
    ids::{Seq, SessionId},
    labels::Labels,
};

/// A tape with entries that an engine's index of words has not read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadTape {
    /// Whose tape it is.
    pub session: SessionId,
    /// The first of these entries.
    pub from: Seq,
    /// The last of them, as the tape was when it was looked at.
    pub last: Seq,
    /// The engine's own, for [`put_words`](super::TapeStore::put_words): by which it knows that it is the same tape.
    pub version: i64,
}

impl UnreadTape {
    /// The entries `from` to `last` of a session's tape.
    #[must_use]
    pub fn new(session: SessionId, from: Seq, last: Seq, version: i64) -> UnreadTape {
        UnreadTape { session, from, last, version }
    }
}

/// The words of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryWords {
    /// Which entry.
    pub seq: Seq,
    /// Where it stands among all entries of all sessions: later ones have larger numbers. Two entries of one session never have the
    /// same.
    pub place: i64,
    /// Different words, at most 600 bytes each, without spaces, quotes or control characters.
    pub words: Vec<String>,
}

/// The entries that are wanted of an index of words: those that meet every condition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WantedWords {
    /// Of each group, the entry has at least one word. There is at least one group.
    pub groups: Vec<Vec<String>>,
    /// Of each of these, the entry has a word that begins so.
    pub prefixes: Vec<String>,
    /// The session has all of these labels now.
    pub labels: Labels,
    /// From this place on.
    pub from: i64,
    /// Up to this place.
    pub through: i64,
    /// At most so many, those with the largest places.
    pub most: usize,
}

/// An entry that has the words.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FoundEntry {
    /// Its place among all entries.
    pub place: i64,
    /// Whose tape it is on.
    pub session: SessionId,
    /// The part of the tape, `NNN_name`.
    pub part: String,
    /// The entry, read from the tape.
    pub entry: TapeEntry,
}

impl FoundEntry {
    /// An entry that is in this part of a session's tape.
    #[must_use]
    pub fn new(place: i64, session: SessionId, part: impl Into<String>, entry: TapeEntry) -> FoundEntry {
        FoundEntry { place, session, part: part.into(), entry }
    }
}
