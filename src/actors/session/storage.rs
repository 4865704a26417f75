//! What a session does when its tape cannot be written: a write error is data, never a crash.
//!
//! Hosts are told; nothing of what they sent was taken. What workers report cannot be sent again by anyone, so it is held,
//! and decided anew when the disk takes entries again; the store's reserve is given up for it first.

use std::time::Duration;

use crate::{
    actors::session::{Live, Pending},
    error::SendError,
    event::EventKind,
    ids::Seq,
    session::{Directive, ReplyTo, Signal},
    tape::{Appended, Store, TapeError},
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
            Ok(upto) => {
                while let Some(pending) = self.pending.pop_front_if(|pending| pending.upto <= upto) {
                    let Pending { before, entries, directives, behind, .. } = pending;
                    self.release(before, &entries, directives);
                    behind.into_iter().for_each(|directive| self.carry_out(directive));
                }
            }
            Err(error) => {
                let failed = std::mem::take(&mut self.pending);
                self.stale_settlements = failed.len().saturating_sub(1);
                if let Some(first) = failed.front() {
                    self.state = first.before.clone();
                }
                for Pending { signal, directives, behind, .. } in failed {
                    let own = reply_of(&signal);
                    let (replies, others): (Vec<_>, Vec<_>) =
                        behind.into_iter().partition(|directive| matches!(directive, Directive::Reply(..)));
                    // Answers that only waited with this append speak of a state that never was; nobody would give them again.
                    for directive in directives.into_iter().chain(replies) {
                        if let Directive::Reply(to, _) = directive
                            && Some(to) != own
                        {
                            self.slot.answer(to, Err(SendError::Storage(error.clone())));
                        }
                    }
                    // What only waited with it is about what is open still, or finds nothing.
                    others.into_iter().for_each(|directive| self.carry_out(directive));
                    self.failed(signal, error.clone());
                }
            }
        }
    }

    /// A decision could not be recorded; the state is what it was before.
    pub(super) fn failed(&mut self, signal: Signal, error: TapeError) {
        self.unmark_if_finished();
        if let Some(to) = reply_of(&signal) {
            self.slot.decided(to, None);
        }
        let is_told = is_told(&signal);
        if !(is_told && is_the_callers(&error)) {
            tracing::warn!(session = %self.slot.id, %error, "failed to write the tape");
            self.post(self.state.seq).show(0, EventKind::StorageFailed { error: error.to_string() });
        }
        if is_told {
            if let Some(to) = reply_of(&signal) {
                self.slot.answer(to, Err(SendError::Storage(error)));
            }
            return;
        }
        if signal == Signal::Anchor {
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
    pub(super) fn refuse(&self, signal: &Signal) {
        if let (Some(to), Some(error)) = (reply_of(signal), &self.refused) {
            self.slot.answer(to, Err(SendError::Storage(error.clone())));
        }
    }

    /// What comes while something else waits for the disk waits too. What it stops is stopped at once: no process runs on
    /// because a disk is full.
    pub(super) fn hold(&mut self, signal: Signal) {
        if stops(&signal) {
            let stop = self.decide(&signal).directives.into_iter().filter(Directive::is_stop);
            stop.for_each(|directive| self.carry_out(directive));
        }
        self.put_by(signal);
    }

    /// In order; but what ends a turn is recorded before what workers reported, so that none of these starts anything first.
    fn put_by(&mut self, signal: Signal) {
        let at = match stops(&signal) {
            true => self.held.iter().take_while(|held| stops(held)).count(),
            false => self.held.len(),
        };
        self.held.insert(at, signal);
    }

    /// Decides anew about what is held, in order, until one cannot be recorded again.
    pub(super) fn try_held_again(&mut self) {
        self.storage_retry = None;
        let held = std::mem::take(&mut self.held);
        for signal in held {
            // `on` puts it back to the end where another one before it failed again.
            self.on(signal);
        }
        if self.held.is_empty() && self.pending.is_empty() {
            // That may wait for the disk, so the store's child does it.
            self.host.tape_chores.notify_one();
        }
    }

    /// Records a report that an earlier life did not get to, and starts nothing: recovery will.
    pub(super) fn record_only(&mut self, report: Signal) {
        let report = Signal::Left(Box::new(report));
        let decision = self.decide(&report);
        if decision.entries.is_empty() {
            return;
        }
        let before = std::mem::replace(&mut self.state, decision.after);
        let appended = self.append(&decision.entries);
        fault!(self.host.store.faults(), "session.late_report", self.slot.id.as_str());
        match appended {
            Appended::Now(Ok(_)) => self.publish(before, &decision.entries),
            Appended::Now(Err(error)) => {
                self.state = before;
                tracing::warn!(session = %self.slot.id, %error, "a report of an earlier life could not be recorded");
            }
            Appended::Later => {
                let upto = self.state.seq;
                let entries = decision.entries;
                self.pending.push_back(Pending {
                    upto,
                    signal: report,
                    before,
                    entries,
                    directives: Vec::new(),
                    behind: Vec::new(),
                });
            }
        }
    }
}

/// Whether a signal comes from somebody who is told that it was not recorded, and can say it again. An abort and an end do not
/// belong here: what they stop is stopped already, so they are held.
pub(super) fn is_told(signal: &Signal) -> bool {
    matches!(
        signal,
        Signal::Send { .. }
            | Signal::Edit { .. }
            | Signal::Withdraw { .. }
            | Signal::Answer { .. }
            | Signal::GoOn { .. }
            | Signal::Pause { .. }
            | Signal::Resume { .. }
            | Signal::Configure { .. }
            | Signal::Compact { .. }
            | Signal::Restored { .. }
            | Signal::UndoCompaction { .. }
            | Signal::Written { .. }
            | Signal::SumUpBranch { .. }
            | Signal::LeaveBranch { .. }
            | Signal::Pin { .. }
            | Signal::Unpin { .. }
            | Signal::RollBack { .. }
            | Signal::Merge { .. }
            | Signal::Handoff { .. }
            | Signal::Spawn { .. }
            | Signal::Adopt { .. }
            | Signal::StopTask { .. }
            | Signal::Orphan { .. }
            | Signal::Adopted { .. }
    )
}

/// Whether the disk has nothing to do with it.
fn is_the_callers(error: &TapeError) -> bool {
    matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. })
}

/// Whether a signal ends what runs.
fn stops(signal: &Signal) -> bool {
    matches!(signal, Signal::Abort { .. } | Signal::End { .. })
}

/// Whom the decision about a signal answers.
fn reply_of(signal: &Signal) -> Option<ReplyTo> {
    match signal {
        Signal::Send { reply, .. }
        | Signal::Edit { reply, .. }
        | Signal::Withdraw { reply, .. }
        | Signal::Answer { reply, .. }
        | Signal::Abort { reply, .. }
        | Signal::GoOn { reply }
        | Signal::Pause { reply }
        | Signal::Resume { reply }
        | Signal::Compact { reply }
        | Signal::Restored { reply, .. }
        | Signal::UndoCompaction { reply, .. }
        | Signal::Written { reply }
        | Signal::SumUpBranch { reply, .. }
        | Signal::BranchFailed { reply, .. }
        | Signal::LeaveBranch { reply, .. }
        | Signal::Pin { reply, .. }
        | Signal::Unpin { reply, .. }
        | Signal::RollBack { reply, .. }
        | Signal::Merge { reply, .. }
        | Signal::Handoff { reply, .. }
        | Signal::Configure { reply, .. }
        | Signal::Spawn { reply, .. }
        | Signal::Adopt { reply, .. }
        | Signal::End { reply, .. }
        | Signal::StopTask { reply, .. }
        | Signal::Orphan { reply, .. }
        | Signal::Adopted { reply, .. } => Some(*reply),
        Signal::Recover
        | Signal::Left(_)
        | Signal::Answered { .. }
        | Signal::Failed { .. }
        | Signal::CutOff { .. }
        | Signal::Returned { .. }
        | Signal::Summarised { .. }
        | Signal::Anchor
        | Signal::TaskDown { .. }
        | Signal::TaskLeft { .. }
        | Signal::Tick => None,
    }
}
