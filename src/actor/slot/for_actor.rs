//! The side of a slot that its session's actor, its activation and the thread that opens its tape use: refused appends, the
//! prepared tape, the start of an incarnation, and idleness. It also says who can answer a session's asks.
//!
//! A prepared tape goes to one incarnation or back to its engine. When an incarnation begins, each command that the previous one had
//! in hand is answered or waits again.
//!
//! A change must keep that answers are sent, and tapes are given back, after the slot's lock is released: giving a tape back may
//! wait for a disk, and every sender of the session waits for this lock.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        slot::{LeftInFlight, Phase, Prepared, Slot, Wake, slept::tell_sleepers, tell},
        tapes::Tapes,
        timekeeper::Uses,
        toolset::Toolset,
        trace_link::TurnSpan,
    },
    error::{PassivateError, SendError},
    kernel::{Input, Mailbox, RestartPolicy, State},
    supervisor::{NodeState, shell},
    tape::TapeError,
    words::ids::{Millis, Seq, SessionId},
};

/// The most sessions above a child that are asked whether somebody listens: far more than the tasks of tasks that hosts allow.
const LEVELS_MAX: usize = 64;

/// Who listens to a session.
pub(crate) struct Audience {
    /// Somebody listens to its events.
    pub(crate) hears_events: bool,
    /// Somebody could answer its asks: listens to its own events, or to those of a session above it.
    pub(crate) answers_asks: bool,
}

impl Slot {
    /// Handles an append that the tape refused: tells the senders of the commands that are given up, and keeps the rest to be tried
    /// again. Returns how many senders were told.
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

    /// The tape is another's by now: all who wait are told why, and nothing that waits is kept, because it belongs to a state that is
    /// not the tape's any more. Who sends from now on wakes the session, and hears who has it.
    pub(crate) fn lost(&self, why: TapeError) {
        let mut inner = self.inner();
        let inbox = inner.inbox();
        inbox.waker.is_gone();
        // Its turn is not cut off: it goes on with the other owner.
        inbox.rest.idle = true;
        let (waiters, sleepers) = (inbox.take_waiters(true), std::mem::take(&mut inbox.sleepers));
        // The append in flight was answered before, so nothing in hand is on the tape.
        (inbox.mailbox, inbox.settled, inbox.lost) = (Mailbox::default(), None, None);
        drop(inner);
        waiters.refuse(&SendError::Storage(why));
        tell_sleepers(sleepers, Ok(()));
    }

    /// The last entry that listeners were told of, by all incarnations since the session woke or since somebody listens.
    pub(crate) fn told(&self) -> Seq {
        self.inner().listeners.told
    }

    /// Whether anybody listens to the events of the session.
    pub(crate) fn is_heard(&self) -> bool {
        self.inner().listeners.ring.as_ref().is_some_and(|ring| ring.is_heard())
    }

    /// Whether the disk has refused an append, and an input or the recovery still waits for its record.
    pub(crate) fn is_refused(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.refusal().is_some()).unwrap_or_default()
    }

    /// Whether somebody waits for what the state is to show.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.in_inbox(|inbox| inbox.published.is_waited_for()).unwrap_or_default()
    }

    /// The node of the actor; `None` if the session is passive, or if no incarnation has begun since it woke.
    pub(crate) fn node(&self) -> Option<Arc<NodeState>> {
        self.in_inbox(|inbox| inbox.node.clone()).flatten()
    }

    /// What became of the append that the incarnation before had in flight, by its tape, which is claimed and has no actor. Blocks on
    /// the disk.
    pub(crate) fn left_in_flight(&self, tapes: &Tapes) -> Result<LeftInFlight, TapeError> {
        let entries = self.in_inbox(|inbox| inbox.mailbox.in_flight().cloned()).flatten();
        let is_there = entries.map(|entries| tapes.has(&self.id, &entries)).transpose()?;
        Ok(if is_there == Some(true) { LeftInFlight::OnTheTape } else { LeftInFlight::Nowhere })
    }

    /// Keeps an opened tape for the next incarnation. There is no earlier one: it would have the claim, and no second tape could be
    /// opened.
    pub(crate) fn prepare(&self, prepared: Prepared) {
        let mut prepared = Some(prepared);
        // After a load that was given up, there may be no inbox: then the tape is given back below, outside of the lock.
        if let Some(inbox) = &mut self.inner().inbox {
            inbox.prepared = prepared.take();
        }
        drop(prepared);
    }

    /// Whether an opened tape is kept.
    pub(crate) fn is_prepared(&self) -> bool {
        self.in_inbox(|inbox| inbox.prepared.is_some()).unwrap_or_default()
    }

    /// Keeps the tools of the newest request for its calls, also over a crash of the actor, until the session sleeps.
    pub(crate) fn keep_tools(&self, tools: Arc<Toolset>) {
        // The last one drops code of the host, so outside of the lock.
        drop(self.in_inbox(|inbox| inbox.kept.tools.replace(tools)));
    }

    /// The tools that are kept; `None` if no incarnation has begun since the session woke.
    pub(crate) fn kept_tools(&self) -> Option<Arc<Toolset>> {
        self.in_inbox(|inbox| inbox.kept.tools.clone()).flatten()
    }

    /// Keeps the span of the running turn, also over a crash of the actor, until the session sleeps; `None` ends it.
    pub(crate) fn keep_span(&self, span: Option<Arc<TurnSpan>>) {
        // The end of a span calls a host's subscriber, so outside of the lock.
        drop(self.in_inbox(|inbox| std::mem::replace(&mut inbox.kept.span, span)));
    }

    /// The span that is kept.
    pub(crate) fn kept_span(&self) -> Option<Arc<TurnSpan>> {
        self.in_inbox(|inbox| inbox.kept.span.clone()).flatten()
    }

    /// Notes the parent and the ticket of the task that the session is to be made for.
    pub(crate) fn make_for_task(&self, parent: SessionId, ticket: Seq) {
        self.inner().rare.get_or_insert_default().task = Some((parent, ticket));
    }

    /// Who listens to the session.
    pub(crate) fn audience(&self) -> Audience {
        let (is_heard, mut is_by_people, mut above) = self.heard_or_above();
        for _ in 0..LEVELS_MAX {
            let Some((parent, shared)) = above.filter(|_| !is_by_people).zip(self.shared.upgrade()) else { break };
            (_, is_by_people, above) = shared.slot(&parent).heard_or_above();
        }
        Audience { hears_events: is_heard, answers_asks: is_by_people }
    }

    fn heard_or_above(&self) -> (bool, bool, Option<SessionId>) {
        let inner = self.inner();
        let state = inner.inbox.as_ref().and_then(|inbox| inbox.published.state.as_ref());
        let above = state.and_then(|state| state.asks_through().cloned());
        let ring = inner.listeners.ring.as_ref();
        (ring.is_some_and(|ring| ring.is_heard()), ring.is_some_and(|ring| ring.is_heard_by_people()), above)
    }

    /// The task that the session is to be made for, as far as a handle of it has told.
    pub(crate) fn task(&self) -> Option<(SessionId, Seq)> {
        self.inner().rare.as_ref().and_then(|rare| rare.task.clone())
    }

    /// The restart policy of the session, from the state beside the opened tape; the default if no tape is kept.
    pub(crate) fn restart_policy(&self) -> RestartPolicy {
        let inner = self.inner();
        let prepared = inner.inbox.as_ref().and_then(|inbox| inbox.prepared.as_ref());
        prepared.map(|prepared| prepared.state.settings.restart).unwrap_or_default()
    }

    /// Takes out the opened tape.
    pub(crate) fn prepared(&self) -> Option<Prepared> {
        self.in_inbox(|inbox| inbox.prepared.take()).flatten()
    }

    /// Begins an incarnation over a tape that ends with `state`, and returns its number. Inputs that the previous incarnation had in
    /// hand are answered if the tape has them (`flight`), and wait again if not.
    pub(crate) fn begin_incarnation(
        &self,
        mailbox: shell::Mailbox<Wake>,
        node: &Arc<NodeState>,
        recover: Input,
        state: &Arc<State>,
        flight: LeftInFlight,
    ) -> u32 {
        let mut inner = self.inner();
        inner.standing.incarnation = inner.standing.incarnation.wrapping_add(1);
        // A session with a live incarnation is not parked, even if the parking is noted late.
        inner.standing.parked = false;
        let incarnation = inner.standing.incarnation;
        inner.standing.stopped = false;
        let ends = inner.inbox().begin_incarnation(incarnation, mailbox, node.clone(), recover, state, flight);
        let mut sleepers = Vec::new();
        if inner.standing.phase == Phase::Passivating {
            // The actor crashed after it had marked the session asleep, and was restarted.
            inner.standing.phase = Phase::Active;
            sleepers = std::mem::take(&mut inner.inbox().sleepers);
        }
        drop(inner);
        tell_sleepers(sleepers, Err(PassivateError::Busy { why: "it has just restarted" }));
        tell(ends);
        self.moved.notify_waiters();
        incarnation
    }

    /// The tracker of all tasks that the incarnations of the actor started since the session woke.
    pub(crate) fn tasks(&self) -> TaskTracker {
        // Without an inbox the actor is gone, and nobody waits for a task that it still starts.
        self.in_inbox(|inbox| inbox.tasks.clone()).unwrap_or_default()
    }

    /// Whether no command and no report waits for the actor, and none is in hand.
    #[cfg(test)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.is_empty()).unwrap_or(true)
    }

    /// Whether the slot holds nothing but the fields of a passive session.
    #[cfg(test)]
    pub(crate) fn is_bare(&self) -> bool {
        let inner = self.inner();
        inner.inbox.is_none() && inner.listeners.ring.is_none()
    }

    /// How many callers wait for what the state is to show.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.in_inbox(|inbox| inbox.published.waiters.len()).unwrap_or_default()
    }

    /// Begins an incarnation of an actor that a test works by hand.
    #[cfg(test)]
    pub(crate) fn next_incarnation(&self, incarnation: u32, flight: LeftInFlight) {
        let mut inner = self.inner();
        inner.standing.incarnation = incarnation;
        let inbox = inner.inbox();
        (inbox.settled, inbox.lost) = (None, None);
        inbox.workers.clear();
        let has = |_: &[_]| flight == LeftInFlight::OnTheTape;
        let ends = inbox.mailbox.begin(incarnation, Input::recover(), has);
        let ends = inbox.ends(ends);
        drop(inner);
        tell(ends);
    }

    /// How many commands have no answer yet.
    #[cfg(test)]
    pub(crate) fn depth(&self) -> usize {
        self.in_inbox(|inbox| inbox.mailbox.depth()).unwrap_or_default()
    }

    /// Notes whether anything keeps the actor awake; tells the timekeeper when a session becomes idle.
    pub(crate) fn set_idle(&self, idle: bool) {
        let mut inner = self.inner();
        let Some(inbox) = &mut inner.inbox else { return };
        if std::mem::replace(&mut inbox.rest.idle, idle) == idle || !idle {
            return;
        }
        let resting = Uses { last: Instant::now(), born: inbox.rest.born };
        inner.used = resting.last;
        drop(inner);
        if let Some(shared) = self.shared.upgrade() {
            shared.keeper.rests(resting);
        }
    }
}
