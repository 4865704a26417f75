//! Reading a tape by its anchors: as it was at an entry, or from one anchor to another.
//!
//! An anchor is a point that can be read from without what came before it. So a tape as it was at some entry costs what lies
//! between that entry and the newest anchor at or before it, however long the tape is.
//! All of this takes no lock, changes nothing, and may run beside the tape's writer.

use super::{
    Entry, Store, TapeError,
    layout::{Layout, anchor_name, anchor_number},
    line::glance,
    lineage::{all_parts, from_anchor},
    read::{Part, again_if_damaged, first_line, read_parts},
};
use crate::ids::{Millis, Seq, SessionId};

/// A point of a tape to read from: a file of its own, which says first all that is needed from before. Of a fork, the anchors
/// before the point that it goes on from are those of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Which of the tape's anchors, from 1.
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

impl Store {
    /// The tape as it was at the entry `seq`: what loading the session would have read then. Reads one anchor's file up to
    /// that entry, and the first lines of a few other anchors to find it.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::NoEntry`] where the tape does not reach `seq`, and for 0; [`TapeError::Damaged`]
    /// where a line at or before it is bad; [`TapeError::Newer`]; [`TapeError::Io`].
    pub fn read_to(&self, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
        self.must_exist(session)?;
        again_if_damaged(|| read_to(self.layout(), session, seq))
    }

    /// The anchors of a tape, oldest first. Reads the first line of each.
    ///
    /// An anchor whose first entry is not on the tape yet is left out, and so is all of a session without an entry.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::Io`].
    pub fn anchors(&self, session: &SessionId) -> Result<Vec<Anchor>, TapeError> {
        self.must_exist(session)?;
        let layout = self.layout();
        let parts = all_parts(layout, session)?;
        parts.iter().filter(|part| !part.goes_on).filter_map(|part| anchor_in(layout, part).transpose()).collect()
    }

    /// The entries from the first of the anchor `from` to the last of the anchor `to`, both anchors included: of one anchor
    /// where both are the same, none where `to` is the older one. Reads the files of these anchors and no others.
    ///
    /// An anchor is named as it was made or as its folder: `phase-1` or `002_phase-1`.
    ///
    /// # Errors
    ///
    /// [`TapeError::Missing`]; [`TapeError::NoAnchor`]; [`TapeError::Damaged`]; [`TapeError::Newer`]; [`TapeError::Io`].
    pub fn between_anchors(&self, session: &SessionId, from: &str, to: &str) -> Result<Vec<Entry>, TapeError> {
        self.must_exist(session)?;
        let layout = self.layout();
        again_if_damaged(|| {
            let parts = all_parts(layout, session)?;
            let (from, to) = (position(&parts, from)?, position(&parts, to)?);
            // What a fork goes on with belongs to the anchor that it was forked in.
            let to = to + parts[to + 1..].iter().take_while(|part| part.goes_on).count();
            let parts = parts.get(from..=to).unwrap_or_default();
            Ok(read_parts(layout, parts, Seq::ZERO)?.entries)
        })
    }
}

fn read_to(layout: &Layout, session: &SessionId, seq: Seq) -> Result<ReadTo, TapeError> {
    let no_entry = |last| TapeError::NoEntry { session: session.clone(), seq, last };
    let parts = from_anchor(layout, session, seq)?;
    let anchor = parts.first().map_or(Ok(None), |part| anchor_in(layout, part))?;
    let anchor = anchor.ok_or_else(|| no_entry(Seq::ZERO))?;
    let read = read_parts(layout, &parts, Seq::ZERO)?;
    let last = read.entries.last().map_or(Seq::ZERO, |entry| entry.seq);
    if last != seq {
        return Err(no_entry(last));
    }
    let ends_append = read.chain.is_some_and(|chain| chain.seq == seq);
    Ok(ReadTo { anchor, entries: read.entries, ends_append })
}

/// The anchor that this is; none where its first entry is not there.
fn anchor_in(layout: &Layout, part: &Part) -> Result<Option<Anchor>, TapeError> {
    let first = first_line(&layout.entries(&part.session, &part.anchor))?.and_then(|line| glance(&line));
    Ok(first.map(|first| Anchor {
        number: anchor_number(&part.anchor).unwrap_or_default(),
        name: anchor_name(&part.anchor).to_owned(),
        first: first.seq,
        time: first.time,
    }))
}

/// Which part is the anchor of this name; the newest, where a fork has given the name again.
fn position(parts: &[Part], name: &str) -> Result<usize, TapeError> {
    let is_named = |part: &Part| !part.goes_on && (part.anchor == name || anchor_name(&part.anchor) == name);
    parts.iter().rposition(is_named).ok_or_else(|| TapeError::NoAnchor { name: name.to_owned() })
}
