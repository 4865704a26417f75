//! The [`Slot`]: the part of a session that outlives its actor. It holds the mailbox, the callers who wait for an answer, and the
//! ring of events. The slot of a passive session is little more than an id, and the first input wakes the session. An input stays
//! in the slot until the tape has its decision, or until it is given up and its sender hears of that (`kernel/mailbox.rs`), so a
//! crash of the actor loses none. The actor's own mailbox carries only a wake.
//!
//! ```text
//!            something comes in                 the actor is up
//!   Passive ───────────────────► Activating ─────────────────────► Active
//!      ▲   ◄─── it did not start ────┘                               │ idle, and the slot is empty: locked, checked, marked
//!      └── it stopped and its queue is empty ── Passivating
//!          (else: Activating again)
//! ```
//!
//! Not in the picture: an `Active` session whose place is given up (a stop, or a crash of its supervisor) continues like a
//! `Passivating` one; a crash after the session was marked asleep makes `Passivating` `Active` again.
//!
//! A change must not wait under the slot's lock. Nor may it answer a caller, cancel a token, return a tape or drop an `Activation`
//! there (the drop takes this lock): take the value out, unlock, then act. This lock comes before that of `slots.rs`, never after it.

mod admission;
mod at_work;
mod for_actor;
mod inbox;
mod published;
mod sleep;
mod slept;
mod standing;
mod waiter;
mod workers;

use std::{
    sync::{Arc, MutexGuard, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::{
    actor::shared::Shared,
    error::SendError,
    event::{Event, EventStream, Ring},
    kernel::{BeginAnchor, CarriedOut, Command, CommandEnd, Entry, NoteSent, Reply, ReplyTo, Report, State},
    lock::Lock,
    tape::{self, TapeError},
    words::ids::{Millis, Seq, SessionId},
};
use inbox::{Ends, Inbox};
use standing::Standing;

pub(crate) use inbox::{LeftInFlight, Prepared, Wake, Work};
pub(crate) use sleep::{ask_to_sleep, put_to_sleep};
pub(crate) use slept::Slept;
pub(crate) use standing::{Admission, Phase};
pub(crate) use waiter::Now;
#[cfg(test)]
pub(crate) use waiter::WAITERS_MAX;
pub(crate) use workers::Arrived;

/// How long a command that is not a stop waits for its answer, at most: the disk may be slow, or the session may not wake up.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Waits for an answer, at most `wait`; `None` when the time is up. A paused tokio clock says nothing about a real disk: under one,
/// this waits for as long as the answer takes.
pub(crate) async fn within<T>(
    wait: Duration,
    answer: &mut oneshot::Receiver<T>,
) -> Option<Result<T, oneshot::error::RecvError>> {
    let began = std::time::Instant::now();
    match tokio::time::timeout(wait, &mut *answer).await {
        Ok(answered) => Some(answered),
        Err(_) if began.elapsed() < wait / 2 => Some(answer.await),
        Err(_) => None,
    }
}

/// Tells each sender what became of its command. Never under a lock.
fn tell(ends: Ends) {
    // A caller that has dropped its receiver can send the message again with the same message id.
    ends.into_iter().for_each(|(reply, how)| drop(reply.send(how)));
}

/// The part of a session that outlives its actor. See the module.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    shared: Weak<Shared>,
    inner: Lock<Inner>,
    /// Notified when a worker has reported or is down, when an incarnation begins, and when the session is parked or passive.
    moved: Notify,
    /// How often the lock was taken.
    #[cfg(test)]
    pub(crate) locked: std::sync::atomic::AtomicUsize,
}

/// The locked part of a slot. Small, because every session with a handle has one; fields that only an awake session needs are in
/// the inbox.
struct Inner {
    standing: Standing,
    /// The moment of the last use; the timekeeper counts idleness from it.
    used: Instant,
    listeners: Listeners,
    next_reply: u64,
    inbox: Option<Box<Inbox>>,
    /// What few slots have; created when the first of them is asked for.
    rare: Option<Box<Rare>>,
}

/// Those who listen to the events of a session.
#[derive(Default)]
struct Listeners {
    /// The ring of events. Created for the first listener, and kept while the session is awake or has a listener.
    ring: Option<Arc<Ring>>,
    /// The last entry that was shown to listeners; 0 before the first incarnation. While there is a listener, it is kept through a
    /// sleep, for entries that reached the tape after a stop.
    told: Seq,
}

/// The part of a slot that few sessions have, such as children and those whose inbox is full.
#[derive(Default)]
struct Rare {
    /// Serialises the callers who bring the session up as a child, open or make it under an id of the host, or delete it.
    bringing_up: Arc<tokio::sync::Mutex<()>>,
    /// Serialises the senders who wait for room in a full inbox.
    waits_for_room: Arc<tokio::sync::Mutex<()>>,
    /// The parent and the ticket of the task that the session is to be made for, where a host has a handle of a child that is not
    /// made yet. It says whom to ask why there is no tape, and nothing else.
    task: Option<(SessionId, Seq)>,
}

impl Inner {
    fn inbox(&mut self) -> &mut Inbox {
        self.inbox.get_or_insert_default()
    }
}

impl Slot {
    pub(crate) fn new(id: SessionId, shared: Weak<Shared>, admission: Admission, parked: bool) -> Slot {
        let (standing, used) = (Standing::passive(admission, parked), Instant::now());
        let inner = Inner { standing, used, listeners: Listeners::default(), next_reply: 1, inbox: None, rare: None };
        Slot {
            id,
            shared,
            inner: Lock::new(inner),
            moved: Notify::new(),
            #[cfg(test)]
            locked: Default::default(),
        }
    }

    /// The mutex of those who bring the session up as a child, open or make it under an id of the host (`open_or_create`, a named
    /// fork), or delete it: one at a time. Hold it until that is done.
    pub(crate) fn bringing_up(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.inner().rare.get_or_insert_default().bringing_up.clone()
    }

    /// The mutex of those who wait for room: one at a time tries again, in the order in which they came.
    pub(crate) fn waits_for_room(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.inner().rare.get_or_insert_default().waits_for_room.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        #[cfg(test)]
        self.locked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Every change under this lock is whole before anything can panic.
        self.inner.lock()
    }

    /// Runs `look` on the inbox under the slot's lock; `None` if there is no inbox, because the session is passive.
    fn in_inbox<T>(&self, look: impl FnOnce(&mut Inbox) -> T) -> Option<T> {
        self.inner().inbox.as_mut().map(|inbox| look(inbox))
    }

    /// Puts a command into the mailbox, and wakes the session. The receiver hears of the decision, or why there is none.
    pub(crate) fn command(
        self: &Arc<Self>,
        command: impl Into<Command>,
    ) -> Result<(ReplyTo, oneshot::Receiver<Result<CarriedOut, SendError>>), SendError> {
        let command = Command::bounded(command.into())?;
        let mut inner = self.inner();
        if let Some(refusal) = inner.standing.refusal() {
            return Err(refusal);
        }
        // A person's answer, an abort and the like still reach a session that finishes its turn.
        if inner.standing.admission == Admission::Draining && command.begins_work() {
            return Err(SendError::Draining);
        }
        // Of a turn that is over, nothing is left to stop: whichever runs by now was not meant.
        let is_meant = command.is_for(inner.now().as_ref().map(|now| &*now.state))?;
        let stops_now = command.ends_the_turn() && is_meant;
        let to = ReplyTo(inner.next_reply);
        inner.next_reply += 1;
        let answer = inner.inbox().command(to, command)?;
        let stop = stops_now.then(|| inner.inbox().workers.take_stop());
        inner.used = Instant::now();
        self.rouse_locked(inner);
        if let Some(stop) = stop {
            // The workers of the turn are cancelled here, in the thread of the sender.
            stop.cancel();
        }
        Ok((to, answer))
    }

    /// Puts a command in and waits for its answer: without a limit for a stop, at most [`ANSWER_WAIT`] for any other command.
    pub(crate) async fn ask(self: &Arc<Self>, command: impl Into<Command>) -> Result<CarriedOut, SendError> {
        let command = command.into();
        let stops = command.stops();
        let (to, mut answer) = self.command(command)?;
        // The sender of the answer is gone only when the tokio runtime of the tree is gone.
        let gone = SendError::Unsettled { message: None };
        if stops {
            return answer.await.map_err(|_| gone)?;
        }
        if let Some(answer) = within(ANSWER_WAIT, &mut answer).await {
            return answer.map_err(|_| gone)?;
        }
        let error = self.overdue(to).unwrap_or(gone);
        // The answer may have arrived just now.
        answer.try_recv().unwrap_or(Err(error))
    }

    /// Called when a sender has waited long enough: withdraws the command unless it is in hand or a stop. Returns the error for
    /// the sender; `None` if the session is passive by now.
    pub(crate) fn overdue(&self, to: ReplyTo) -> Option<SendError> {
        self.in_inbox(|inbox| inbox.withdraw(to))
    }

    /// Takes the report of a worker of `incarnation`. One of an earlier incarnation, and a second one about a ticket, is ignored.
    pub(crate) fn report(&self, incarnation: u32, ticket: Seq, report: Report) {
        let mut inner = self.inner();
        if let Some(inbox) = &mut inner.inbox {
            if inbox.mailbox.report(incarnation, ticket, report) {
                inbox.workers.left(ticket);
                inbox.waker.wake();
            }
            drop(inner);
            self.moved.notify_waiters();
        }
    }

    /// Whether a worker of the ticket has reported, and the report is not recorded yet.
    pub(crate) fn has_report(&self, ticket: Seq) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.has_report(ticket)).unwrap_or_default()
    }

    /// Takes the word of a worker that the provider has a message. One of an earlier incarnation is ignored: the message waits all the
    /// same.
    pub(crate) fn note_sent(&self, incarnation: u32, note: NoteSent) {
        self.in_inbox(|inbox| {
            inbox.mailbox.note_sent(incarnation, note);
            inbox.waker.wake();
        });
    }

    /// When the actor must look again without a wake.
    pub(crate) fn due(&self, state: &State) -> Option<Millis> {
        self.in_inbox(|inbox| inbox.mailbox.due(state)).flatten()
    }

    /// Queues the command that writes a new anchor.
    pub(crate) fn want_anchor(&self) {
        self.in_inbox(|inbox| {
            // If the mailbox refuses it, nothing is lost: the session opens from the previous anchor.
            drop(inbox.mailbox.command(ReplyTo::NOBODY, BeginAnchor.into(), None));
            inbox.waker.wake();
        });
    }

    /// Takes the tape's answer to an append. A seq that is not that of the append in flight is late or doubled, and is ignored;
    /// an error names no append: it is the answer to the one in flight if that has none yet, and else a claim that was lost.
    pub(crate) fn settled(&self, result: Result<Seq, TapeError>) {
        let mut inner = self.inner();
        let Some(inbox) = &mut inner.inbox else { return };
        match result {
            Err(error) if inbox.settled.is_some() && error.is_lost() => inbox.lost = Some(error),
            Ok(seq)
                if inbox.mailbox.in_flight().and_then(|entries| entries.last()).map(|last| last.seq) != Some(seq) =>
            {
                return;
            }
            result => inbox.settled = Some(result),
        }
        inbox.waker.wake();
    }

    /// The callback by which the tape reports a settled append. It holds the slot weakly, because the tape belongs to the slot's
    /// own actor.
    pub(crate) fn notify(self: &Arc<Self>) -> tape::Notify {
        let slot = Arc::downgrade(self);
        Arc::new(move |result| {
            if let Some(slot) = slot.upgrade() {
                slot.settled(result);
            }
        })
    }

    /// Wakes the actor: its timer has fired.
    pub(crate) fn wake(&self) {
        self.in_inbox(|inbox| inbox.waker.wake());
    }

    /// Wakes the actor again although it has been woken for the waiting inputs: it yielded to other actors.
    pub(crate) fn wake_again(&self) {
        self.in_inbox(|inbox| inbox.waker.wake_again());
    }

    /// Wakes a passive session without an input: its turn was cut off.
    pub(crate) fn rouse(self: &Arc<Self>) {
        let inner = self.inner();
        if inner.standing.refusal().is_none() && inner.standing.phase == Phase::Passive {
            self.rouse_locked(inner);
        }
    }

    /// Wakes the actor, or starts an activation if there is none. Launches it after the unlock.
    fn rouse_locked(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>) {
        match inner.standing.phase {
            Phase::Passive => {
                if let Some(flight) = self.take_off(&mut inner) {
                    drop(inner);
                    flight.launch();
                }
            }
            Phase::Activating | Phase::Active => inner.inbox().waker.wake(),
            // The input is found when the session has fallen asleep.
            Phase::Passivating => {}
        }
    }

    // ---- the actor's side, on the way of each input; the rest is in `for_actor` -----------------------------------------

    /// Takes the next piece of work out of the inbox. `state` is the state that the tape has.
    pub(crate) fn take(&self, state: &State, now: Millis) -> Option<Work> {
        self.in_inbox(|inbox| inbox.take(state, now)).flatten()
    }

    /// Notes that the entries of a decision are handed to the tape, and the replies that follow once they are recorded.
    pub(crate) fn handed_over(&self, entries: Arc<Vec<Entry>>, replies: Vec<(ReplyTo, Reply)>) {
        self.in_inbox(|inbox| inbox.mailbox.handed_over(entries, replies));
    }

    /// The append is on the tape: forgets its inputs and answers their senders. Returns whether the disk had refused it before.
    pub(crate) fn recorded(&self) -> bool {
        let done = self.in_inbox(|inbox| {
            let was_refused = inbox.mailbox.refusal().is_some();
            let replies = inbox.mailbox.recorded();
            let ends = replies.into_iter().map(|(to, reply)| (to, CommandEnd::Decided(reply))).collect();
            (was_refused, inbox.ends(ends))
        });
        let (was_refused, ends) = done.unwrap_or_default();
        tell(ends);
        was_refused
    }

    /// The runtime; `None` once it is gone. A slot does not own its runtime.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        self.shared.upgrade()
    }

    // ---- listeners -----------------------------------------------------------------------------------------------------

    /// Whether the session was never awake in this runtime and is not just waking: it may not exist.
    pub(crate) fn is_unknown(&self) -> bool {
        let inner = self.inner();
        inner.standing.phase == Phase::Passive && inner.standing.incarnation == 0
    }

    /// Shows events to all listeners.
    pub(crate) fn show(&self, events: impl IntoIterator<Item = Arc<Event>>) {
        let ring = self.inner().listeners.ring.clone();
        if let Some(ring) = ring {
            ring.push(events);
        }
    }

    /// Subscribes to the events from now on, also through sleeps of the session.
    pub(crate) fn listen(self: &Arc<Self>) -> EventStream {
        self.stream(Ring::listen)
    }

    /// As [`Slot::listen`], for the runtime itself: the stream has no person behind it who could answer a question.
    pub(crate) fn follow(self: &Arc<Self>) -> EventStream {
        self.stream(Ring::follow)
    }

    fn stream(self: &Arc<Self>, listen: fn(&Arc<Ring>) -> EventStream) -> EventStream {
        let mut inner = self.inner();
        let ring = inner.listeners.ring.get_or_insert_with(Arc::default).clone();
        // Under the lock: otherwise a session that falls asleep could drop the ring before this listener counts.
        let stream = listen(&ring);
        if inner.standing.admission == Admission::Closed {
            ring.close();
        }
        drop(inner);
        stream.keeping(self.clone())
    }

    /// Ends all event streams: no event follows.
    pub(crate) fn close_ring(&self) {
        let ring = self.inner().listeners.ring.clone();
        if let Some(ring) = ring {
            ring.close();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(shared) = self.shared() {
            shared.slots.forget(&self.id);
        }
    }
}
