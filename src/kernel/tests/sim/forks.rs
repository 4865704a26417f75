//! Forks at the end of any append: each goes on as a session of its own, under the same laws, and may be merged.

use std::sync::Arc;

use tamtam::{
    Seq,
    kernel::{Entry, Input, Merge, Record, Resource, State, plan_merge},
    tape::Forked,
};

use super::{Broken, hold, host::Wish, world::World};

/// Forks of forks, at most.
const GENERATIONS_MAX: u32 = 2;

/// Forks of one session that are played, at most: each is a schedule more.
const FORKS_MAX: usize = 2;

/// A fork that has come to rest.
pub(super) struct Fork {
    /// The entry that it was made at.
    at: Seq,
    /// What it began with.
    then: State,
    /// What it wrote since.
    there: Vec<Entry>,
}

impl World {
    /// Somebody forks the session, at the end of any of its appends, and the fork goes on. The session does not notice.
    pub(super) fn fork(&mut self) -> Result<(), Broken> {
        if self.generation >= GENERATIONS_MAX || self.forks.len() >= FORKS_MAX {
            return Ok(());
        }
        // On a disk an append is there whole or not at all; one that a crash of the simulator tore is no place to fork at.
        let whole: Vec<usize> = (1..=self.appended()).filter(|appends| self.ends_whole(*appends)).collect();
        let appends = self.rng.pick(&whole);
        let upto = self.through(appends);
        let parent = self.fold(upto.iter());
        let number = self.forks.len();
        let forked = Forked {
            // After who forks, and not after whose entry it is: a fork may be made at what it has from its own parent.
            session: format!("{}-fork-{number}", self.state.session).parse().unwrap(),
            parent: parent.session.clone(),
            seq: parent.seq,
            sum: "0".repeat(16),
            depth: self.generation + 1,
            spill: Some(format!("/store/fork-{number}/spill")),
        };
        let entry = Entry {
            seq: parent.seq.next(),
            time: self.now.max(parent.time),
            cause: None,
            turn: None,
            step: None,
            ticket: None,
            input: None,
            record: Record::Forked(Box::new(forked)),
        };
        let mut then = parent.clone();
        then.apply(&entry);
        inherits_what_was_left(&parent, &then)?;
        let mut fork = self.forked(appends, &entry, &then);
        self.tell(|_| format!("\nFORK after entry {} as {}", parent.seq, then.session));
        let happenings = 5 + fork.rng.below(20) as u32;
        let played = fork.play_fork(happenings);
        self.told.append(&mut fork.told);
        played?;
        self.tell(|_| format!("\nBACK in {}", parent.session));
        self.counts += fork.counts;
        self.counts.forks += 1;
        self.forks.push(Fork { at: parent.seq, then, there: fork.own_entries()[1..].to_vec() });
        Ok(())
    }

    fn play_fork(&mut self, happenings: u32) -> Result<(), Broken> {
        let before = self.state.clone();
        self.at_once(&Input::recover())?;
        hold!(self.state == before, "a fork is at rest, and something was left to recover");
        self.play(happenings)
    }

    /// A host merges a fork that was really made. Says whether there was one that could be.
    pub(super) fn merge_a_fork(&mut self) -> Result<bool, Broken> {
        if self.forks.is_empty() || self.state.turn.is_some() || self.state.closed.is_some() {
            return Ok(false);
        }
        let n = self.rng.below(self.forks.len());
        let entries = self.entries();
        let Fork { at, then, there } = &self.forks[n];
        let here: Vec<_> = entries.iter().filter(|entry| entry.seq > *at).cloned().collect();
        let merged = Arc::new(plan_merge(self.state.seq, &here, then, there));
        let (used, fork) = (there.iter().fold(then.clone(), after), merged.fork.clone());
        if merged.is_nothing() {
            return Ok(true);
        }
        let before = self.state.clone();
        let reply = self.host.wish(Wish::Other);
        self.at_once(&Merge { merged: merged.clone() }.to(reply))?;
        let said = before.history.iter().chain(merged.items.iter());
        hold!(self.state.history.iter().eq(said), "a merge is not what was said, behind all that was said before");
        // However often it is merged, and taken back, and merged: what it used counts here once.
        let counted = self.entries().into_iter().filter_map(|entry| match entry.record {
            Record::Merged(merged) if merged.fork == fork && entry.seq > self.forks[n].at => Some(merged.spent),
            _ => None,
        });
        let counted = counted.fold(Default::default(), |mut sum: tamtam::kernel::Spent, spent| {
            sum += spent;
            sum
        });
        hold!(counted == used.spent_in_all(), "a fork used {:?}, and {counted:?} count", used.spent_in_all());
        let mut expected = before.spent_in_all();
        expected += merged.spent;
        hold!(self.state.spent_in_all() == expected, "a merge counts other than what the fork used");
        self.counts.forks_merged += 1;
        Ok(true)
    }
}

fn after(mut state: State, entry: &Entry) -> State {
    state.apply(entry);
    state
}

/// Decision 0011: what is left at the point, with what was held there, is what the fork may use, and it counts from 0.
fn inherits_what_was_left(parent: &State, fork: &State) -> Result<(), Broken> {
    hold!(fork.open.is_empty() && fork.turn.is_none(), "what was open is the parent's");
    hold!(fork.spent_in_all() == Default::default(), "a fork begins with {:?}", fork.spent);
    for resource in Resource::ALL {
        let (was, is) = (parent.left().of(resource), fork.left().of(resource));
        let granted = parent.account.grant.and_then(|grant| grant.of(resource)).is_some();
        if resource == Resource::TimeMs {
            // The clock of a running turn is read where it stops.
            hold!(is <= was && is.is_some() == was.is_some(), "a fork has {is:?} of the time, and {was:?} was left");
            continue;
        }
        let expected = if granted { Some(0) } else { was };
        hold!(is == expected, "a fork may use {is:?} {resource}, and should {expected:?}: {was:?} were left");
    }
    Ok(())
}
