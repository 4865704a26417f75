//! What a session does when its tape cannot be written: a write error is data, never a crash.
//!
//! Hosts are told; nothing of what they sent was taken. What workers report cannot be sent again by anyone, so it is held,
//! and decided anew when the disk takes entries again; the store's reserve is given up for it first. A life that ends before that
//! leaves it to the next one.

use std::time::Duration;

use crate::{
    actors::session::{Live, Pending},
    error::SendError,
    event::EventKind,
    ids::Seq,
    session::{Command, Directive, Input, ReplyTo},
    tape::{Store, TapeError},
};

/// How long to wait before what is held is tried again.
const STORAGE_RETRY: Duration = Duration::from_millis(500);

impl Live {
    /// The disk has answered an append that was answered "later".
    pub(super) fn settled(&mut self, result: Result<Seq, TapeError>) {
        fault!(self.host.store.faults(), "session.settled", self.slot.id.as_str());
        if self.stale_settlements > 0 {
            self.stale_settlements -= 1;
            return;
        }
        match result {
            Ok(upto) => self.release_upto(upto),
            Err(error) => self.undo_pending(&error),
        }
        // Where nothing is open by now, a mark that was made meanwhile, or before this life, is one too many.
        self.unmark_if_finished();
    }

    /// What was on its way up to that entry is on the tape.
    pub(super) fn release_upto(&mut self, upto: Seq) {
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.upto <= upto) {
            let Pending { before, entries, directives, behind, .. } = pending;
            self.release(before, &entries, directives);
            behind.into_iter().for_each(|directive| self.carry_out(directive));
        }
    }

    /// Nothing of what was on its way came to the tape. The error is that of the first; the others failed because they follow it.
    fn undo_pending(&mut self, error: &TapeError) {
        let failed = std::mem::take(&mut self.pending);
        self.stale_settlements = failed.len().saturating_sub(1);
        if let Some(first) = failed.front() {
            self.state = first.before.clone();
        }
        // It was decided after all of these, and stays behind them.
        let held = std::mem::take(&mut self.held);
        let (mut moot, mut is_own) = (Vec::new(), true);
        let of_others = match is_the_callers(error) {
            true => TapeError::Busy { waiting: failed.len() },
            false => error.clone(),
        };
        for Pending { signal, directives, behind, moot: reports, .. } in failed {
            let own = signal.reply();
            let (replies, others): (Vec<_>, Vec<_>) =
                behind.into_iter().partition(|directive| matches!(directive, Directive::Reply(..)));
            // Answers that only waited with this append speak of a state that never was; nobody would give them again.
            for directive in directives.into_iter().chain(replies) {
                if let Directive::Reply(to, _) = directive
                    && Some(to) != own
                {
                    self.slot.answer(to, Err(SendError::Storage(of_others.clone())));
                }
            }
            // What only waited with it is about what is open still, or finds nothing.
            others.into_iter().for_each(|directive| self.carry_out(directive));
            match is_own || !is_the_callers(error) {
                true => self.failed(signal, error.clone()),
                // It fits, as far as anybody knows.
                false => self.decide_again(signal),
            }
            moot.extend(reports);
            is_own = false;
        }
        moot.into_iter().for_each(|report| self.on(report));
        held.into_iter().for_each(|signal| self.put_by(signal));
    }

    fn decide_again(&mut self, signal: Input) {
        if let Some(to) = signal.reply() {
            self.slot.decided(to, None);
        }
        self.on(signal);
    }

    /// A decision could not be recorded; the state is what it was before.
    pub(super) fn failed(&mut self, signal: Input, error: TapeError) {
        self.unmark_if_finished();
        if let Some(to) = signal.reply() {
            self.slot.decided(to, None);
        }
        let is_told = is_told(&signal);
        if !(is_told && is_the_callers(&error)) {
            tracing::warn!(session = %self.slot.id, %error, "failed to write the tape");
            self.post(self.state.seq).show(0, EventKind::StorageFailed { error: error.to_string() });
        }
        if is_told {
            if let Some(to) = signal.reply() {
                self.slot.answer(to, Err(SendError::Storage(error)));
            }
            return;
        }
        if is_anchor(&signal) {
            // Nothing is lost without it: the session opens from the anchor before.
            return;
        }
        let Some(signal) = self.shrink_or_give_up(signal, &error) else { return };
        if error.is_full() {
            // What is open can still be closed: for that the room was kept.
            let released = self.host.store.files().is_some_and(Store::release_reserve);
            tracing::warn!(session = %self.slot.id, released, "the disk is full");
        }
        self.refused = Some(error);
        self.put_by(signal);
        self.storage_retry = Some(self.now().plus(STORAGE_RETRY));
    }

    /// Tells whoever wants something that the disk refuses, as it did just now.
    pub(super) fn refuse(&self, signal: &Input) {
        if let (Some(to), Some(error)) = (signal.reply(), &self.refused) {
            self.slot.answer(to, Err(SendError::Storage(error.clone())));
        }
    }

    /// What comes while something else waits for the disk waits too. What it stops is stopped at once: no process runs on
    /// because a disk is full.
    pub(super) fn hold(&mut self, signal: Input) {
        if stops(&signal) {
            let stop = self.decide(&signal).directives.into_iter().filter(Directive::is_stop);
            stop.for_each(|directive| self.carry_out(directive));
        }
        self.put_by(signal);
    }

    /// In order; but what ends a turn is recorded before what workers reported, so that none of these starts anything first.
    pub(super) fn put_by(&mut self, signal: Input) {
        let at = match stops(&signal) {
            true => self.held.iter().take_while(|held| stops(held)).count(),
            false => self.held.len(),
        };
        self.held.insert(at, signal);
    }

    /// Decides anew about what is held, in order, until one cannot be recorded again.
    pub(super) fn try_held_again(&mut self) {
        self.storage_retry = None;
        self.untried = std::mem::take(&mut self.held);
        while self.held.is_empty()
            && let Some(signal) = self.untried.pop_front()
        {
            self.on(signal);
        }
        // What is behind one that failed again stays there. What it stops was stopped when it was put by.
        self.held.append(&mut self.untried);
        if self.held.is_empty() && self.pending.is_empty() {
            // That may wait for the disk, so the store's child does it.
            self.host.tape_chores.notify_one();
        }
    }

    /// Records a report that an earlier life did not get to, and starts nothing: recovery will. Where the disk refuses, it is held
    /// in front of recovery.
    pub(super) fn record_only(&mut self, report: Input) {
        let before = self.state.seq;
        self.on(report);
        if self.state.seq > before {
            fault!(self.host.store.faults(), "session.late_report", self.slot.id.as_str());
        }
    }

    /// Whether what a worker of that ticket reported, or was said in its place, waits to be decided about.
    pub(super) fn is_reported(&self, ticket: Seq) -> bool {
        let is_of_it = |signal: &Input| signal.reported() == Some(ticket);
        self.held.iter().chain(&self.untried).any(is_of_it) || self.slot.has_report(is_of_it)
    }
}

/// Whether an input comes from somebody who is told that it was not recorded, and can say it again. An abort and an end do not
/// belong here: what they stop is stopped already, so they are held.
pub(super) fn is_told(input: &Input) -> bool {
    matches!(input, Input::Command { reply, command, .. } if *reply != ReplyTo::NOBODY && !command.ends_the_turn()
        && !matches!(command, Command::GiveUpBranch(_)))
}

/// Whether it only wants a new anchor.
fn is_anchor(input: &Input) -> bool {
    matches!(input, Input::Command { command: Command::BeginAnchor(_), .. })
}

/// Whether the disk has nothing to do with it.
fn is_the_callers(error: &TapeError) -> bool {
    matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. })
}

/// Whether an input ends what runs.
fn stops(input: &Input) -> bool {
    matches!(input, Input::Command { command, .. } if command.ends_the_turn())
}
