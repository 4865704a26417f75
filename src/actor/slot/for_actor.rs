//! What a slot does for its session's actor: the work that waits, and what the tape said of it.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        slot::{Phase, QUESTIONS_MAX, Question, Resting, Slot, Wake, tell},
        tapes::OpenTape,
    },
    error::{PassivateError, SendError},
    kernel::{Input, Refusal, State},
    supervisor::{NodeState, shell::Mailbox},
    tape::TapeError,
    words::ids::{Millis, Seq},
};

impl Slot {
    /// The tape does not take it. Those who asked for it are told; what stays is tried again. Says how many were told.
    pub(crate) fn refused(&self, error: &TapeError, now: Millis) -> usize {
        let ends = self.in_inbox(|inbox| {
            let ends = inbox.mailbox.refused(error, now);
            inbox.ends(ends)
        });
        let ends = ends.unwrap_or_default();
        let told = ends.len();
        tell(ends);
        told
    }

    /// Through which entry those who listen and wait have been told, by all incarnations since it woke, or since somebody listens.
    pub(crate) fn told(&self) -> Seq {
        self.inner().told
    }

    /// Keeps a question for which the state has no answer yet, also over a crash of the actor.
    pub(crate) fn wait(&self, question: Question) {
        let mut inner = self.inner();
        let waiting = &mut inner.inbox().waiting;
        // Whoever stopped waiting makes room.
        if waiting.len() >= QUESTIONS_MAX {
            waiting.retain(Question::is_waited_for);
        }
        let depth = waiting.len();
        if depth < QUESTIONS_MAX {
            waiting.push(question);
        } else {
            drop(inner);
            question.refuse(SendError::Refused(Refusal::InboxFull { depth }));
        }
    }

    /// Takes out the questions for which the state had no answer yet.
    pub(crate) fn take_waiting(&self) -> Vec<Question> {
        self.in_inbox(|inbox| std::mem::take(&mut inbox.waiting)).unwrap_or_default()
    }

    /// Whether somebody waits for an answer that the state does not have yet.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.in_inbox(|inbox| !inbox.waiting.is_empty()).unwrap_or_default()
    }

    /// The node of its actor, once it has had one.
    pub(crate) fn node(&self) -> Option<Arc<NodeState>> {
        self.in_inbox(|inbox| inbox.node.clone()).flatten()
    }

    /// Puts a tape and its state by for the first incarnation.
    pub(crate) fn prepare(&self, tape: OpenTape, state: State) {
        let mut prepared = Some((tape, state));
        // A load that was given up may come too late: then the tape is given back, for nobody is awake to want it.
        if let Some(inbox) = &mut self.inner().inbox {
            inbox.prepared = prepared.take();
        }
        drop(prepared);
    }

    /// Whether a tape was put by.
    pub(crate) fn is_prepared(&self) -> bool {
        self.in_inbox(|inbox| inbox.prepared.is_some()).unwrap_or_default()
    }

    /// The tape and its state for a first incarnation.
    pub(crate) fn prepared(&self) -> Option<(OpenTape, State)> {
        self.in_inbox(|inbox| inbox.prepared.take()).flatten()
    }

    /// An incarnation begins, over a tape that ends there: what its predecessor took and did not answer is there again, or answered as the tape has it. Gives its
    /// number.
    pub(crate) fn begin_incarnation(
        &self,
        mailbox: Mailbox<Wake>,
        node: &Arc<NodeState>,
        recover: Input,
        last: Seq,
    ) -> u32 {
        let mut inner = self.inner();
        inner.incarnation = inner.incarnation.wrapping_add(1);
        // Whoever lives is not parked, however late that is noted.
        inner.parked = false;
        let incarnation = inner.incarnation;
        let ends = inner.inbox().begin_incarnation(incarnation, mailbox, node.clone(), recover, last);
        let mut sleepers = Vec::new();
        if inner.phase == Phase::Passivating {
            // It crashed on its way to bed, and is up again.
            inner.phase = Phase::Active;
            sleepers = std::mem::take(&mut inner.inbox().sleepers);
        }
        drop(inner);
        sleepers.into_iter().for_each(|slept| slept.tell(Err(PassivateError::Busy { why: "it has just restarted" })));
        tell(ends);
        self.moved.notify_waiters();
        incarnation
    }

    /// Everything that an incarnation of the actor started.
    pub(crate) fn tasks(&self) -> TaskTracker {
        // What an actor that is gone starts is waited for by nobody.
        self.in_inbox(|inbox| inbox.tasks.clone()).unwrap_or_default()
    }

    /// Whether it holds nothing but what a passive session needs.
    #[cfg(test)]
    pub(crate) fn is_bare(&self) -> bool {
        let inner = self.inner();
        inner.inbox.is_none() && inner.ring.is_none()
    }

    /// How many questions wait for its actor.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> usize {
        self.in_inbox(|inbox| inbox.asked()).unwrap_or_default()
    }

    /// An incarnation begins, of an actor that a test works by hand.
    #[cfg(test)]
    pub(crate) fn next_incarnation(&self, incarnation: u32, last: Seq) {
        let mut inner = self.inner();
        inner.incarnation = incarnation;
        let inbox = inner.inbox();
        inbox.settled = None;
        inbox.at_work.clear();
        let ends = inbox.mailbox.begin(incarnation, Input::recover(), last);
        let ends = inbox.ends(ends);
        drop(inner);
        tell(ends);
    }

    /// How many commands have no answer yet.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.in_inbox(|inbox| inbox.mailbox.depth()).unwrap_or_default()
    }

    /// The actor says whether anything keeps it awake.
    pub(crate) fn set_idle(&self, idle: bool) {
        let mut inner = self.inner();
        let Some(inbox) = &mut inner.inbox else { return };
        if std::mem::replace(&mut inbox.idle, idle) == idle || !idle {
            return;
        }
        let born = inbox.born;
        inner.used = Instant::now();
        let resting = Resting { since: inner.used, born };
        drop(inner);
        if let Some(host) = self.host.upgrade() {
            host.keeper.rests(resting);
        }
    }
}
