//! Going back to any point, from any other: what a rollback records, and what it leaves.

use std::{collections::BTreeSet, sync::Arc};

use tamtam::{
    MessageId, Seq,
    kernel::{Entry, NoPoint, Point, Record, RollBack, RollbackTarget, RolledBack, State, Trail, look_back},
};

use super::{Broken, hold, host::Wish, world::World};

/// The messages that are no part of the conversation any more.
pub(super) fn gone(entries: &[Entry]) -> BTreeSet<MessageId> {
    let mut gone = BTreeSet::new();
    for entry in entries {
        if let Record::RolledBack(back) = &entry.record {
            gone.extend(back.gone.iter().cloned());
            gone.retain(|id| !back.again.contains(id));
        }
    }
    gone
}

/// Whether the model was told of that, and the conversation went back to before it.
pub(super) fn taken_back(entries: &[Entry], id: &MessageId) -> bool {
    let jumps = entries.iter().filter_map(|entry| match &entry.record {
        Record::RolledBack(back) => Some((entry.seq, back.to)),
        _ => None,
    });
    let trail = Trail::new(&jumps.collect(), entries.last().map_or(Seq::ZERO, |entry| entry.seq));
    let told = entries.iter().find(|entry| matches!(&entry.record, Record::Delivered { ids } if ids.contains(id)));
    told.is_some_and(|entry| !trail.has(entry.seq))
}

impl World {
    fn wanted(&mut self) -> RollbackTarget {
        let seq = Seq(self.rng.below(self.state.seq.0 as usize + 2) as u64);
        let ids = self.host.ids();
        match self.rng.below(6) {
            0 | 1 => RollbackTarget::Undo,
            2 => RollbackTarget::Redo,
            3 => RollbackTarget::Point(Point::BeforeTurn(seq)),
            4 if !ids.is_empty() => RollbackTarget::Point(Point::BeforeMessage(self.rng.pick(&ids))),
            _ => RollbackTarget::Point(Point::At(seq)),
        }
    }

    /// A host goes back; now and then with what it worked out from an older state.
    pub(super) fn go_back(&mut self) -> Result<(), Broken> {
        self.catch_up()?;
        if self.state.turn.is_some() && self.rng.percent(80) {
            return Ok(());
        }
        let (entries, wanted) = (self.entries(), self.wanted());
        let found = look_back(&entries, &self.state, &wanted, true);
        self.tell(|_| format!("\n{wanted:?} finds {found:?}"));
        hold!(found != Err(NoPoint::Unreadable) && found != Ok(None), "the tape cannot be read back: {found:?}");
        self.read_less_of_it(&entries, &wanted, &found)?;
        let Ok(Some(mut back)) = found else { return Ok(()) };
        let stale = self.rng.percent(10);
        if stale {
            back.from = Seq(back.from.0 - 1);
        }
        let before = self.state.clone();
        let reply = self.host.wish(Wish::Other);
        let back = Arc::new(back);
        if before.turn.is_none() && before.closed.is_none() && !stale {
            self.host.gone.extend(back.gone.iter().cloned());
            self.host.gone.retain(|id| !back.again.contains(id));
            self.counts.backs += 1;
        }
        self.at_once(&RollBack { back: back.clone(), files: None, summary: None }.to(reply))?;
        if before.turn.is_some() || before.closed.is_some() || stale {
            hold!(self.state == before, "a rollback was taken that was to be refused");
            return Ok(());
        }
        let upto = entries.iter().filter(|entry| entry.seq <= back.to);
        let then = self.fold(upto);
        self.stands_as(&then, &before)
    }

    /// Whoever reads less of the tape finds the same, or asks for more.
    fn read_less_of_it(
        &self,
        entries: &[Entry],
        wanted: &RollbackTarget,
        found: &Result<Option<RolledBack>, NoPoint>,
    ) -> Result<(), Broken> {
        let anchor = entries.iter().rposition(|entry| matches!(entry.record, Record::State(_))).unwrap_or(0);
        let near = look_back(&entries[anchor..], &self.state, wanted, anchor == 0);
        hold!(near == Ok(None) || near == *found, "from its newest anchor {wanted:?} is {near:?}, and is {found:?}");
        Ok(())
    }

    fn stands_as(&self, then: &State, before: &State) -> Result<(), Broken> {
        let now = &self.state;
        hold!(now.history == then.history, "the conversation is not what it was");
        hold!(now.history_hash == then.history_hash, "the hash of the conversation is not what it was");
        let (is, was) = (&now.context, &then.context);
        let same = (&is.summary, is.front, is.estimated) == (&was.summary, was.front, was.estimated);
        hold!(same, "the context is not what it was");
        let kept = |state: &State| {
            let State { usage, turns, grants, seen, settings, queue, .. } = state.clone();
            (usage, turns, grants, seen, settings, queue)
        };
        hold!(kept(now) == kept(before), "going back changed what never goes back");
        let mut spent = before.spent;
        if let (Some((_, given_up)), None) = (before.compaction(), now.compaction()) {
            // Nobody will say what it took.
            spent += given_up.reserved.lost(given_up.price.as_ref());
        }
        hold!(now.spent == spent, "going back costs what a summary that is given up may have taken, and nothing else");
        hold!(now.ended == before.ended, "turns forgot how they ended");
        hold!(now.tasks().eq(before.tasks()), "going back touched a task");
        hold!(now.on_hold || now.queue.is_empty(), "messages that wait are not on hold");
        Ok(())
    }
}
