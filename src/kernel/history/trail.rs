//! The entries of a tape that make up the present conversation, and the points that it can be rolled back to or forked from.
//!
//! A tape only grows. An entry that rolls back says to which point the conversation went; the entries between that point and the
//! entry stay on the tape, and are no longer part of the conversation. So the conversation is a *trail* over the tape:
//!
//! ```text
//! 1 2 3 4 5 6 7(back to 3) 8 9 10(back to 6) 11       the trail from 11:  11, then 6 5 4 3 2 1
//! ```
//!
//! Everything here is a function of values: the caller reads the tape and passes the entries. A search that answers `None` asks for
//! more entries, because the point may lie before the first one given; with `whole` there are none, and it answers with an error.
//!
//! A change must keep two things. A rollback to a point at which a call has no result is refused, because providers refuse a
//! conversation with such a call. No tape, not even a forged one, makes a loop run for ever: each jump is bent to lead back.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    kernel::{BranchSummary, Entry, Record, RolledBack, State, Way},
    model::Item,
    words::ids::{MessageId, Seq},
};

/// A point of a conversation to go back to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Point {
    /// As it was when this entry was the newest.
    At(Seq),
    /// Before the model was told this message, and the messages that were delivered together with it.
    BeforeMessage(MessageId),
    /// Before this turn; a turn is named by the entry that began it.
    BeforeTurn(Seq),
}

impl From<Seq> for Point {
    fn from(seq: Seq) -> Point {
        Point::At(seq)
    }
}

impl From<MessageId> for Point {
    fn from(id: MessageId) -> Point {
        Point::BeforeMessage(id)
    }
}

impl<P: Into<Point>> From<P> for RollbackTarget {
    fn from(point: P) -> RollbackTarget {
        RollbackTarget::Point(point.into())
    }
}

/// Where to go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RollbackTarget {
    /// To a point that a host names.
    Point(Point),
    /// To before the newest message of the host.
    Undo,
    /// To where the newest undo, or rollback, came from.
    Redo,
}

/// Why there is no such point. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPoint {
    /// The tape does not have the entry.
    #[error("there is no entry {seq} yet: the newest is {newest}")]
    NoEntry {
        /// The entry.
        seq: Seq,
        /// The newest.
        newest: Seq,
    },
    /// The present conversation has no such message: it was never read, or it was taken back.
    #[error("the conversation has no message {id}: it is still waiting, was undone, or was never sent")]
    NoMessage {
        /// The message.
        id: MessageId,
    },
    /// The entry began no turn.
    #[error("entry {seq} began no turn")]
    NoTurn {
        /// The entry.
        seq: Seq,
    },
    /// A call of the model had no result there, and pairs are never parted.
    #[error("at entry {seq} a call had no result yet: go back to before its turn, or to after its results")]
    Unfinished {
        /// The entry.
        seq: Seq,
    },
    /// The conversation stands there already.
    #[error("the conversation is already at that point")]
    Nothing,
    /// The host has said nothing that could be taken back.
    #[error("there is nothing to undo")]
    NothingToUndo,
    /// Nothing was taken back, or something was said since.
    #[error("there is nothing to redo: nothing was undone since the newest message")]
    NothingToRedo,
    /// The entries given are not a run of a tape's entries that begins with a state.
    #[error("the tape cannot be read back to there")]
    Unreadable,
}

/// The entries that a conversation is made of, as ranges of their numbers, newest first. A range excludes its first number and
/// includes its second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail(Vec<(Seq, Seq)>);

impl Trail {
    /// The trail that ends at an entry. A jump leads from an entry that rolls back to the point that it goes back to.
    #[must_use]
    pub fn new(jumps: &BTreeMap<Seq, Seq>, end: Seq) -> Trail {
        let mut ranges = Vec::new();
        let mut upto = end;
        while let Some((from, to)) = jumps.range(..=upto).next_back() {
            ranges.push((*from, upto));
            // A jump leads back. One that does not was forged, and would be jumped for ever.
            upto = (*to).min(before(*from));
        }
        ranges.push((Seq::ZERO, upto));
        Trail(ranges)
    }

    /// Whether an entry is part of it.
    #[must_use]
    pub fn has(&self, seq: Seq) -> bool {
        self.0.iter().any(|(after, upto)| *after < seq && seq <= *upto)
    }
}

/// The jumps of a tape: from each entry that rolls back to the point that it goes back to.
pub(in crate::kernel) fn jumps(entries: &[Entry]) -> BTreeMap<Seq, Seq> {
    let jump = |entry: &Entry| match &entry.record {
        Record::RolledBack(back) => Some((entry.seq, back.to)),
        _ => None,
    };
    entries.iter().filter_map(jump).collect()
}

/// The entry of a rollback to the wanted point. `entries` begin with the state of an anchor and end with the newest entry of `now`;
/// `whole` says that nothing comes before them. `None` asks for more of the tape, from an earlier anchor on.
///
/// # Errors
/// See [`NoPoint`].
pub(crate) fn look_back(
    entries: &[Entry],
    now: &State,
    wanted: &RollbackTarget,
    whole: bool,
) -> Result<Option<RolledBack>, NoPoint> {
    let tape = Tape::new(entries, now.seq)?;
    let to = match wanted {
        RollbackTarget::Point(point) => tape.point(point)?,
        RollbackTarget::Undo => tape.spoken(|entry| is_said_by_host(&entry.record)).map(before),
        RollbackTarget::Redo => tape.undone()?,
    };
    let unfound = || match wanted {
        RollbackTarget::Point(point) => unfound(point, now.seq),
        RollbackTarget::Undo => NoPoint::NothingToUndo,
        RollbackTarget::Redo => NoPoint::NothingToRedo,
    };
    let further = || if whole { Err(unfound()) } else { Ok(None) };
    let Some(to) = to else { return further() };
    if to == now.seq {
        return Err(NoPoint::Nothing);
    }
    let low = parting(&tape.jumps, to);
    let Some(then) = tape.state_at(to).filter(|_| low >= tape.first) else { return further() };
    if !is_whole(&then) {
        return Err(NoPoint::Unfinished { seq: to });
    }
    let (here, there) = (Trail::new(&tape.jumps, now.seq), Trail::new(&tape.jumps, to));
    let keep = now.history.common(&then.history);
    let mut items = crate::model::History::default();
    then.history.iter().skip(keep).for_each(|item| items.push_shared(item.clone()));
    Ok(Some(RolledBack {
        from: now.seq,
        to,
        way: match wanted {
            RollbackTarget::Point(_) => Way::Rollback,
            RollbackTarget::Undo => Way::Undo,
            RollbackTarget::Redo => Way::Redo,
        },
        gone: tape.told(low, &here, &there),
        again: tape.told(low, &there, &here),
        keep,
        items,
        hash: then.history_hash.clone(),
        context: then.context.clone(),
    }))
}

/// The entry that a point means. `entries`, `whole` and `None` mean the same as for [`look_back`].
///
/// # Errors
/// See [`NoPoint`].
pub(crate) fn find_point(entries: &[Entry], newest: Seq, point: &Point, whole: bool) -> Result<Option<Seq>, NoPoint> {
    match Tape::new(entries, newest)?.point(point)? {
        None if whole => Err(unfound(point, newest)),
        found => Ok(found),
    }
}

fn unfound(point: &Point, newest: Seq) -> NoPoint {
    match point {
        Point::BeforeMessage(id) => NoPoint::NoMessage { id: id.clone() },
        Point::At(seq) | Point::BeforeTurn(seq) => NoPoint::NoEntry { seq: *seq, newest },
    }
}

fn before(seq: Seq) -> Seq {
    Seq(seq.0.saturating_sub(1))
}

/// Whether the entry tells the model something other than news of a child.
fn is_said_by_host(record: &Record) -> bool {
    match record {
        Record::Delivered { ids } => ids.iter().any(|id| !id.is_of_task()),
        Record::Merged(merged) => !merged.items.is_empty(),
        _ => false,
    }
}

/// Whether every call in the conversation has its result.
pub(crate) fn is_whole(state: &State) -> bool {
    let asks = |item: &Arc<Item>| matches!(&**item, Item::Assistant(answer) if answer.calls().next().is_some());
    // The results of an answer enter the history all together, so a call without a result is in the newest item.
    !state.history.last().is_some_and(asks)
}

/// Entries of a tape, from an anchor on.
struct Tape<'a> {
    entries: &'a [Entry],
    first: Seq,
    now: Seq,
    jumps: BTreeMap<Seq, Seq>,
}

impl<'a> Tape<'a> {
    fn new(entries: &'a [Entry], now: Seq) -> Result<Tape<'a>, NoPoint> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Err(NoPoint::Unreadable) };
        let is_whole = last.seq.0.checked_sub(first.seq.0) == Some(entries.len() as u64 - 1);
        if !is_whole || last.seq != now || !matches!(first.record, Record::State(_)) {
            return Err(NoPoint::Unreadable);
        }
        Ok(Tape { entries, first: first.seq, now, jumps: jumps(entries) })
    }

    fn at(&self, seq: Seq) -> Option<&'a Entry> {
        let at = seq.0.checked_sub(self.first.0)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// The entry to go back to; `None` where it may lie further back.
    fn point(&self, point: &Point) -> Result<Option<Seq>, NoPoint> {
        let seq = match point {
            Point::At(seq) | Point::BeforeTurn(seq) => *seq,
            Point::BeforeMessage(wanted) => {
                let tells = |entry: &Entry| match &entry.record {
                    Record::Delivered { ids } => ids.contains(wanted),
                    Record::Merged(merged) => merged.messages().contains(wanted),
                    _ => false,
                };
                return Ok(self.spoken(tells).map(before));
            }
        };
        if seq == Seq::ZERO || seq > self.now {
            return Err(NoPoint::NoEntry { seq, newest: self.now });
        }
        let Some(entry) = self.at(seq) else { return Ok(None) };
        let begins = matches!(&entry.record, Record::Delivered { .. }) && entry.turn == Some(seq);
        match point {
            Point::BeforeTurn(_) if !begins => Err(NoPoint::NoTurn { seq }),
            Point::BeforeTurn(_) => Ok(Some(before(seq))),
            _ => Ok(Some(seq)),
        }
    }

    /// The newest entry on the trail for which `holds` is true.
    fn spoken(&self, holds: impl Fn(&Entry) -> bool) -> Option<Seq> {
        let trail = Trail::new(&self.jumps, self.now);
        let mut newest = self.entries.iter().rev().filter(|entry| trail.has(entry.seq));
        newest.find(|entry| holds(entry)).map(|entry| entry.seq)
    }

    /// The point that the newest undo came from, if nothing was said since; `None` if it may lie further back.
    fn undone(&self) -> Result<Option<Seq>, NoPoint> {
        let mut at = self.now;
        while let Some(entry) = self.at(at) {
            at = match &entry.record {
                Record::BranchSummary(left) if self.is_of_a_rollback(at, left) => before(at),
                Record::Merged(merged) if merged.items.is_empty() => before(at),
                Record::Delivered { .. } | Record::BranchSummary(_) | Record::Merged(_) => {
                    return Err(NoPoint::NothingToRedo);
                }
                // After a redo the conversation stands at the point that the redo went to.
                Record::RolledBack(back) if back.way == Way::Redo => back.to.min(before(at)),
                Record::RolledBack(back) => return Ok(Some(back.from)),
                _ => before(at),
            };
        }
        Ok(None)
    }

    /// Whether the summary at this entry is of the branch that a rollback left, and was recorded with that rollback.
    fn is_of_a_rollback(&self, at: Seq, left: &BranchSummary) -> bool {
        let earlier = [before(at), before(before(at))].into_iter().filter_map(|seq| self.at(seq));
        earlier.into_iter().any(|entry| match &entry.record {
            Record::RolledBack(back) => (back.to, back.from) == (left.from, left.to),
            _ => false,
        })
    }

    /// The state at an entry; `None` if the anchor before it is not among the entries.
    fn state_at(&self, seq: Seq) -> Option<State> {
        let upto = self.entries.get(..=usize::try_from(seq.0.checked_sub(self.first.0)?).ok()?)?;
        let anchor = upto.iter().rposition(|entry| matches!(entry.record, Record::State(_)))?;
        State::fold(&upto[anchor..])
    }

    /// The hosts' messages that the model was told after `low` on the trail `on` and not on the trail `off`, oldest first.
    fn told(&self, low: Seq, on: &Trail, off: &Trail) -> Vec<MessageId> {
        let entries = self.entries.iter().filter(|entry| entry.seq > low && on.has(entry.seq) && !off.has(entry.seq));
        let mut known = BTreeSet::new();
        let told = entries.flat_map(|entry| match &entry.record {
            Record::Delivered { ids } => ids.clone(),
            Record::Merged(merged) => merged.messages(),
            _ => Vec::new(),
        });
        told.filter(|id| !id.is_of_task() && known.insert(id.clone())).collect()
    }
}

/// The entry at which the trail that ends at `to` parts from the newest trail: up to it both are the same.
fn parting(jumps: &BTreeMap<Seq, Seq>, to: Seq) -> Seq {
    let mut low = to;
    // Until no jump leads from above it to below it.
    while let Some(lower) = jumps.range(low.next()..).map(|(_, to)| *to).filter(|to| *to < low).min() {
        low = lower;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BRANCHSUM-003: of two branches that go on from entry 3, the deepest common ancestor is that entry and none before it; a
    /// branch that begins further down moves it there; and what nobody went back from has it in itself.
    #[test]
    fn branchsum_003_two_branches_part_at_their_deepest_common_ancestor() {
        let second = BTreeMap::from([(Seq(7), Seq(3))]);
        assert_eq!(parting(&second, Seq(6)), Seq(3));
        assert_eq!(parting(&second, Seq(2)), Seq(2));
        assert_eq!(parting(&second, Seq(9)), Seq(9));
        let third = BTreeMap::from([(Seq(7), Seq(3)), (Seq(10), Seq(1))]);
        assert_eq!(parting(&third, Seq(6)), Seq(1));
        assert_eq!(parting(&BTreeMap::from([(Seq(10), Seq(5)), (Seq(12), Seq(9))]), Seq(8)), Seq(5));
    }

    /// The picture of the module, and jumps into what was gone back from.
    #[test]
    fn a_trail_jumps_over_what_was_taken_back() {
        let jumps = BTreeMap::from([(Seq(7), Seq(3)), (Seq(10), Seq(6)), (Seq(12), Seq(9))]);
        let on = |end| {
            let trail = Trail::new(&jumps, Seq(end));
            (1..=13).filter(|seq| trail.has(Seq(*seq))).collect::<Vec<u64>>()
        };
        assert_eq!(on(6), [1, 2, 3, 4, 5, 6]);
        assert_eq!(on(7), [1, 2, 3]);
        assert_eq!(on(9), [1, 2, 3, 8, 9]);
        assert_eq!(on(11), [1, 2, 3, 4, 5, 6, 11]);
        assert_eq!(on(13), [1, 2, 3, 8, 9, 13]);
    }
}
