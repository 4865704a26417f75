//! Where the entries of a tape are: in its own files, and, of a fork, in those of the tapes that it goes on from.
//!
//! ```text
//! p   001_session-start  002_phase-1 ──────────────┐ entry 40
//! f                                  003_forked {parent p, seq 40}  004_phase-2
//! ```
//!
//! A fork's first file is no anchor: it begins with a `forked` entry, and says nothing of what came before. So what is read
//! for `f` before its `004` is `002_phase-1` of `p` up to entry 40, and `003_forked`. A fork of a fork is read likewise.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Entry, TapeError,
    layout::{Layout, anchor_names_in, anchor_number},
    read::{Part, first_line, newest_at},
};
use crate::ids::{Millis, Seq, SessionId};

/// The kind of the entry that a fork's tape begins with.
pub(super) const FORKED: &str = "forked";

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
    /// The entry that the fork's own tape begins with, for an engine that makes one: it stands at the place after
    /// [`Forked::seq`]. Not earlier than the entry that it goes on from.
    #[must_use]
    pub fn entry(&self, time: Millis) -> Entry {
        let data = serde_json::value::to_raw_value(self).expect("ids, numbers and texts can be written as JSON");
        Entry {
            seq: self.seq.next(),
            time,
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            kind: FORKED.to_owned(),
            data,
        }
    }
}

/// Where a session goes on from, where it is a fork. Looks at one line, and only where the first file's number says that it
/// may be one.
pub(super) fn origin(layout: &Layout, session: &SessionId, folders: &[String]) -> Result<Option<Forked>, TapeError> {
    let first = folders.first().filter(|first| anchor_number(first) != Some(1));
    first.map_or(Ok(None), |first| Ok(first_line(&layout.entries(session, first))?.and_then(|line| forked_of(&line))))
}

/// [`origin`], of a session's folder of anchors that is somewhere else.
pub(super) fn origin_in(anchors: &Path) -> Result<Option<Forked>, TapeError> {
    let first = anchor_names_in(anchors)?.into_iter().next().filter(|first| anchor_number(first) != Some(1));
    let Some(first) = first else { return Ok(None) };
    Ok(first_line(&anchors.join(first).join("entries.jsonl"))?.and_then(|line| forked_of(&line)))
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

/// What is read to have a session as it was at `seq`: the newest anchor at or before it, and what goes on from there, oldest
/// first. Empty where nothing begins at or before it.
pub(super) fn from_anchor(layout: &Layout, session: &SessionId, seq: Seq) -> Result<Vec<Part>, TapeError> {
    let mut parts = Vec::new();
    let (mut session, mut through) = (session.clone(), seq);
    for _ in 0..=FORK_DEPTH_MAX {
        let folders = layout.anchor_names(&session)?;
        let newest = newest_at(layout, &session, &folders, through)?;
        let part = newest.map(|n| Part { through: Some(through), ..Part::whole(&session, &folders[n]) });
        let forked = if newest.unwrap_or(0) == 0 { origin(layout, &session, &folders)? } else { None };
        let Some(forked) = forked else {
            parts.extend(part);
            parts.reverse();
            return Ok(parts);
        };
        parts.extend(part.map(|part| Part { goes_on: true, ..part }));
        (session, through) = (forked.parent, through.min(forked.seq));
    }
    Err(TapeError::TooDeep { session, max: FORK_DEPTH_MAX })
}

/// All files of a tape, its parents' included, oldest first.
pub(super) fn all_parts(layout: &Layout, session: &SessionId) -> Result<Vec<Part>, TapeError> {
    let mut parts = Vec::new();
    let (mut session, mut through) = (session.clone(), None::<Seq>);
    for _ in 0..=FORKS_OF_FORKS_MAX {
        let folders = layout.anchor_names(&session)?;
        let newest = match through {
            Some(through) => newest_at(layout, &session, &folders, through)?,
            None => folders.len().checked_sub(1),
        };
        let forked = origin(layout, &session, &folders)?;
        for (n, folder) in folders.iter().enumerate().take(newest.map_or(0, |n| n + 1)).rev() {
            let through = through.filter(|_| Some(n) == newest);
            let goes_on = n == 0 && forked.is_some();
            parts.push(Part { through, goes_on, ..Part::whole(&session, folder) });
        }
        let Some(forked) = forked else {
            parts.reverse();
            return Ok(parts);
        };
        let until = through.map_or(forked.seq, |through| through.min(forked.seq));
        (session, through) = (forked.parent, Some(until));
    }
    Err(TapeError::TooDeep { session, max: FORKS_OF_FORKS_MAX })
}

/// The most tapes that all of a tape may be spread over, anchors or not. More are a circle.
pub(super) const FORKS_OF_FORKS_MAX: u32 = 10_000;
