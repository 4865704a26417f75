//! The sound end of a tape: the last entry that a fork can continue from, so that a damaged session can be rescued.
//!
//! ```text
//! 10  11 12 13  14 15  16      four appends; the line of 15 is bad, and 16 follows it
//!            ^ the sound end: 14 and 15 are one append, which counts whole or not at all
//! ```
//!
//! The search begins with what opening the session would read: the file of the newest anchor, and for a fork without its own
//! anchor also the tape that the fork continues from. Only if nothing of the file is sound, the search continues with the anchor
//! before.
//!
//! The end, if there is one, is the end of an append. Of the files that are read, every line up to the end is checked; files of
//! older anchors are not read, because a session is opened without them.
//!
//! A change must take no lock and change no file here: the damaged session must stay as it is for its rescue. It must not trust a
//! bad line: if the first line of a fork is bad, its origin counts only if the parent has the entry that the line names, with
//! that checksum. And it must return no entry of another session: a new session may have the parent's name.

use crate::{
    tape::{
        Damage, TapeError,
        appends::begun_by,
        layout::Layout,
        line::{Decoded, Rest, Sum},
        lineage::{FORK_DEPTH_MAX, origin},
        read::read_file,
        whole::END,
    },
    words::ids::{Seq, SessionId},
};

/// The last entry up to which a session can be read, and from which a fork can continue.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SoundEnd {
    /// The session that has the entry on its own tape: this session, or one that it continues from.
    pub session: SessionId,
    /// The last sound entry; it ends an append. 0 if there is none.
    pub seq: Seq,
    /// The damage after it; `None` if the session can be opened to write. A tail that is being written, or that was torn when its
    /// writer died, is not damage.
    pub damage: Option<Damage>,
}

impl SoundEnd {
    /// The sound end of a tape without damage. An engine sets the damage.
    #[must_use]
    pub fn new(session: SessionId, seq: Seq) -> SoundEnd {
        SoundEnd { session, seq, damage: None }
    }
}

/// The end of a session's last whole append; of a damaged session, of the last one before the damage. Of a fork without its own
/// anchor, the entry may be on the tape that it continues from. Takes no lock and changes nothing.
pub(super) fn sound_end(layout: &Layout, session: &SessionId) -> Result<SoundEnd, TapeError> {
    let mut end = end_through(layout, session, END, 0)?;
    // As in `again_if_damaged`: a failed write that a live writer is cutting back looks like damage.
    for _ in 0..3 {
        if end.damage.is_some() {
            end = end_through(layout, session, END, 0)?;
        }
    }
    let End { last, damage } = end;
    let Last { owner, seq, .. } = last.unwrap_or_else(|| Last::none(session));
    Ok(SoundEnd { session: owner, seq, damage: damage.map(|damage| Damage { last_good: seq, ..damage }) })
}

/// An entry, and the session whose tape has it.
struct Last {
    owner: SessionId,
    seq: Seq,
    sum: Sum,
}

impl Last {
    fn none(session: &SessionId) -> Last {
        Last { owner: session.clone(), seq: Seq::ZERO, sum: Sum::zero() }
    }
}

struct End {
    last: Option<Last>,
    damage: Option<Damage>,
}

/// The sound end of a session's entries through `through`. Damage after `through` does not count.
fn end_through(layout: &Layout, session: &SessionId, through: Seq, deep: u32) -> Result<End, TapeError> {
    if deep > FORK_DEPTH_MAX {
        return Err(TapeError::TooDeep { session: session.clone(), max: FORK_DEPTH_MAX });
    }
    let folders = layout.anchor_names(session)?;
    let forked = origin(layout, session, &folders)?;
    let begun = begun_by(layout, session, &folders, through)?;
    let mut damage: Option<Damage> = None;
    for (anchor, folder) in folders[..begun].iter().enumerate().rev() {
        let (bytes, read) = read_file(layout, session, folder)?;
        let file = layout.entries(session, folder);
        let named = |line, what| Damage { file: file.clone(), line, what, last_good: Seq::ZERO };
        let is_short = through != END && read.chain.seq < through;
        match &read.rest {
            Rest::Bad { line, what } if through == END || is_short => {
                damage.get_or_insert_with(|| named(*line, what.clone()));
            }
            Rest::Torn { line, what } if is_short => {
                damage.get_or_insert_with(|| named(*line, what.clone()));
            }
            _ => {}
        }
        let last = last_of(&read, &bytes, through);
        let last = last.map(|(seq, sum)| Last { owner: session.clone(), seq, sum });
        let Some(forked) = forked.as_ref().filter(|_| anchor == 0) else {
            if last.is_some() {
                return Ok(End { last, damage });
            }
            // An anchor without one sound entry: the one before it may have some.
            continue;
        };
        let before = end_through(layout, &forked.parent, forked.seq, deep + 1)?;
        let stands_at = before.last.as_ref().map(|last| (last.seq, last.sum));
        if last.is_none() {
            // The first line of the fork is bad. Its origin counts only if the tape named there has that entry with that checksum.
            let is_it = stands_at.is_some_and(|(seq, sum)| seq == forked.seq && sum.as_str() == forked.sum);
            return Ok(End { last: before.last.filter(|_| is_it), damage });
        }
        if stands_at == Some(read.began) {
            return Ok(End { last, damage });
        }
        let lost =
            || named(1, format!("session {} does not have the entry that this fork continues from", forked.parent));
        // If the parent is damaged before that entry, the fork continues from the part before the damage. A whole parent with
        // another entry there, or that ends before it, is a new session under its name: its entries do not belong here.
        let last = before.last.filter(|last| before.damage.is_some() && last.seq < forked.seq);
        return Ok(End { last, damage: Some(before.damage.unwrap_or_else(lost)) });
    }
    Ok(End { last: None, damage })
}

/// The last sound entry of a file through `through` that ends an append, and its checksum.
fn last_of(read: &Decoded, bytes: &[u8], through: Seq) -> Option<(Seq, Sum)> {
    let kept = read.entries.iter().take_while(|entry| entry.seq <= through).count();
    let newest = read.more.iter().take(kept).rposition(|more| *more == 0)?;
    let end = read.offsets.get(newest + 1).copied().unwrap_or(read.good_bytes);
    let line = bytes.get(read.offsets[newest]..end)?.strip_suffix(b"\n")?;
    Some((read.entries[newest].seq, Sum::at_end_of(line)?))
}
