//! What a session is beside its actor. A handle holds a slot, and a slot is little more than an id while its session is
//! passive: the first thing that is put in wakes it.
//!
//! A slot outlives every crash of its actor. An input stays in it until it is answered, so that a crash loses none: the next
//! incarnation takes it again, and what was on the tape already is known by the message's id. The actor's own mailbox carries
//! only a wake.
//!
//! ```text
//!            something comes in                 the actor is up
//!   Passive ───────────────────► Activating ─────────────────────► Active
//!      ▲   ◄─── it did not start ────┘                               │ idle, and the slot is empty: locked, looked at, marked
//!      └── its place was given up, nothing came in meanwhile ── Passivating
//!          (else: Activating again)
//! ```
//!
//! There is one activation at a time (single flight), because only the change from `Passive` starts one, under the lock.
//! What comes in while a session falls asleep stays in the slot and wakes it again; nothing is refused, nothing is lost.

mod admission;
mod for_actor;
mod inbox;
mod sleep;
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
    actor::host::Host,
    error::{PassivateError, SendError},
    event::{Event, EventStream, Ring},
    kernel::{BeginAnchor, Command, CommandEnd, Held, Reply as CoreReply, ReplyTo, Report, State},
    lock::Lock,
    tape::{self, TapeError},
    words::ids::{Millis, Seq, SessionId},
};
use inbox::{Ends, Inbox, Unsettled};

pub(crate) use inbox::{QUESTIONS_MAX, Question, Reply, Wake, Work};
pub(crate) use sleep::put_to_sleep;

/// How long a command waits for its answer, where it is no stop: for a disk that is slow, or for a session that does not wake up.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Waits so long for an answer. A clock that is set by hand (tokio's, where it is paused) says nothing of a disk: then it waits as long
/// as it takes.
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

/// Says to each what became of what it wanted.
fn tell(ends: Ends) {
    // A host that stopped waiting can ask again with the same message id.
    ends.into_iter().for_each(|(reply, how)| drop(reply.send(how)));
}

/// A session beside its actor.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    host: Weak<Host>,
    inner: Lock<Inner>,
    /// A worker has reported, or an incarnation begins.
    moved: Notify,
}

/// Small, because there is one for each session that somebody holds a handle of; what only a waking session needs is in the
/// inbox.
struct Inner {
    admission: Admission,
    parked: bool,
    phase: Phase,
    /// Incarnations of the actor so far. Of the slot and not of its place under the supervisor, which is a new one after each sleep.
    incarnation: u32,
    /// Places under the supervisor so far. One that is given up after the next was taken says nothing about that one.
    place: u32,
    next_reply: u64,
    /// When it was last used.
    used: Instant,
    /// There while it is awake or somebody listens, from the first listener on.
    ring: Option<Arc<Ring>>,
    /// Through which entry those who listen and wait have been told; 0 before the first incarnation. Kept while it sleeps where somebody
    /// listens, for what came to the tape behind a stop.
    told: Seq,
    inbox: Option<Box<Inbox>>,
    /// There from the first who brings it up as a child on.
    bringing_up: Option<Arc<tokio::sync::Mutex<()>>>,
}

/// Whether inputs are taken. It only ever moves down this list: what is closed does not open again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Admission {
    #[default]
    Open,
    Draining,
    Closed,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No actor, no tape, no state in memory.
    Passive,
    /// On its way up.
    Activating,
    /// It has a place under the supervisor; between two incarnations too.
    Active,
    /// Its actor has marked it asleep, and is on its way out.
    Passivating,
}

/// Who is told that a session sleeps, or why not.
#[derive(Default)]
pub(crate) struct Slept(Option<oneshot::Sender<Result<(), PassivateError>>>);

impl Slept {
    pub(crate) fn tell(self, how: Result<(), PassivateError>) {
        if let Some(reply) = self.0 {
            // Whoever stopped waiting does not want to know.
            drop(reply.send(how));
        }
    }
}

/// When an idle session may be put to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    /// Since when nobody has used it.
    pub(crate) since: Instant,
    /// Since when it is awake.
    pub(crate) born: Option<Instant>,
}

impl Inner {
    fn inbox(&mut self) -> &mut Inbox {
        self.inbox.get_or_insert_default()
    }

    /// Why nothing is taken, where nothing is.
    fn refusal(&self) -> Option<SendError> {
        match self.admission {
            Admission::Closed => Some(SendError::Closed),
            Admission::Open | Admission::Draining if self.parked => Some(SendError::Parked),
            // What comes in before it is down would wake it again.
            Admission::Open | Admission::Draining if self.inbox.as_ref().is_some_and(|inbox| inbox.stopped) => {
                Some(SendError::Stopped)
            }
            Admission::Open | Admission::Draining => None,
        }
    }
}

impl Slot {
    pub(crate) fn new(id: SessionId, host: Weak<Host>, admission: Admission, parked: bool) -> Slot {
        let (phase, used, ring) = (Phase::Passive, Instant::now(), None);
        let (told, inbox, bringing_up) = (Seq::ZERO, None, None);
        let (incarnation, place, next_reply) = (0, 0, 1);
        let inner =
            Inner { admission, parked, phase, incarnation, place, next_reply, used, ring, told, inbox, bringing_up };
        Slot { id, host, inner: Lock::new(inner), moved: Notify::new() }
    }

    /// Held by who brings it up as a child, or makes it: one after the other.
    pub(crate) fn bringing_up(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.inner().bringing_up.get_or_insert_default().clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change under this lock is whole before anything can panic.
        self.inner.lock()
    }

    /// Looks into its inbox, where it has one: while it is awake, or on its way.
    fn in_inbox<T>(&self, look: impl FnOnce(&mut Inbox) -> T) -> Option<T> {
        self.inner().inbox.as_mut().map(|inbox| look(inbox))
    }

    /// Hands in what somebody wants. Answers when the decision about it is on the tape.
    pub(crate) fn command(
        self: &Arc<Self>,
        command: impl Into<Command>,
    ) -> Result<(ReplyTo, oneshot::Receiver<Result<Held, SendError>>), SendError> {
        let command = command.into();
        let mut inner = self.inner();
        if let Some(refusal) = inner.refusal() {
            return Err(refusal);
        }
        // A person's answer, an abort and the like still reach a session that finishes its turn.
        if inner.admission == Admission::Draining && command.begins_work() {
            return Err(SendError::Draining);
        }
        let to = ReplyTo(inner.next_reply);
        inner.next_reply += 1;
        let ends_the_turn = command.ends_the_turn();
        let answer = inner.inbox().command(to, command)?;
        let stop = ends_the_turn.then(|| inner.inbox().take_stop());
        inner.used = Instant::now();
        self.rouse_locked(inner);
        if let Some(stop) = stop {
            // What it stops is told so here, in the thread of whoever says it.
            stop.cancel();
        }
        Ok((to, answer))
    }

    /// Hands in what somebody wants, and waits for the answer: as long as it takes for a stop, [`ANSWER_WAIT`] at most for all else.
    pub(crate) async fn ask(self: &Arc<Self>, command: impl Into<Command>) -> Result<Held, SendError> {
        let command = command.into();
        let stops = command.stops();
        let (to, mut answer) = self.command(command)?;
        // Nobody is left who could answer: the tokio runtime of the tree is gone.
        let gone = SendError::Unsettled { message: None };
        if stops {
            return answer.await.map_err(|_| gone)?;
        }
        if let Some(answer) = within(ANSWER_WAIT, &mut answer).await {
            return answer.map_err(|_| gone)?;
        }
        let error = self.overdue(to).unwrap_or(gone);
        // It may have come just now.
        answer.try_recv().unwrap_or(Err(error))
    }

    /// Its sender has waited long enough: takes the command out where nobody has it in hand. What its sender is told.
    pub(crate) fn overdue(&self, to: ReplyTo) -> Option<SendError> {
        self.in_inbox(|inbox| inbox.withdraw(to))
    }

    /// Asks the actor something.
    pub(crate) fn question(self: &Arc<Self>, question: Question) -> Result<(), SendError> {
        let mut inner = self.inner();
        if let Some(refusal) = inner.refusal() {
            return Err(refusal);
        }
        inner.inbox().question(question)?;
        inner.used = Instant::now();
        self.rouse_locked(inner);
        Ok(())
    }

    /// A worker of that incarnation reports. Reports of an earlier incarnation are late and say nothing that the next incarnation relies on.
    pub(crate) fn report(&self, incarnation: u32, ticket: Seq, report: Report) {
        let mut inner = self.inner();
        if let Some(inbox) = &mut inner.inbox {
            if inbox.mailbox.report(incarnation, ticket, report) {
                inbox.at_work.retain(|at_work| *at_work != ticket);
                inbox.wake();
            }
            drop(inner);
            self.moved.notify_waiters();
        }
    }

    /// Whether somebody works on a ticket's behalf no more: it has reported.
    pub(crate) fn has_report(&self, ticket: Seq) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.has_report(ticket)).unwrap_or_default()
    }

    /// Whether nothing waits for the actor and it has nothing in hand.
    pub(crate) fn is_quiet(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.is_empty()).unwrap_or(true)
    }

    /// Whether the disk has refused what waits.
    pub(crate) fn is_refused(&self) -> bool {
        self.in_inbox(|inbox| inbox.mailbox.refusal().is_some()).unwrap_or_default()
    }

    /// When the actor is to look again by itself.
    pub(crate) fn due(&self, state: &State) -> Option<Millis> {
        self.in_inbox(|inbox| inbox.mailbox.due(state)).flatten()
    }

    /// The session wants a new anchor of itself.
    pub(crate) fn want_anchor(&self) {
        self.in_inbox(|inbox| {
            // Nothing is lost without it: the session opens from the anchor before.
            drop(inbox.mailbox.command(ReplyTo::NOBODY, BeginAnchor.into(), None));
            inbox.wake();
        });
    }

    /// The tape says that an append is settled. An engine that says so too late, or twice, says nothing of the one that is in flight.
    pub(crate) fn settled(&self, result: Result<Seq, TapeError>) {
        if let Some(inbox) = &mut self.inner().inbox
            && result.as_ref().map_or(true, |seq| inbox.mailbox.in_flight() == Some(*seq))
        {
            inbox.settled = Some(result);
            inbox.wake();
        }
    }

    /// Tells it that an append is settled, for as long as it is there: the tape is kept by its own actor.
    pub(crate) fn notify(self: &Arc<Self>) -> tape::Notify {
        let slot = Arc::downgrade(self);
        Arc::new(move |result| {
            if let Some(slot) = slot.upgrade() {
                slot.settled(result);
            }
        })
    }

    /// Wakes the actor: a moment came that it waits for.
    pub(crate) fn wake(&self) {
        self.in_inbox(Inbox::wake);
    }

    /// Wakes the actor once more, though it was woken for what is there: it lets others have their turn.
    pub(crate) fn wake_again(&self) {
        self.in_inbox(Inbox::wake_again);
    }

    /// Wakes a passive session though nothing came in: its turn was cut off.
    pub(crate) fn rouse(self: &Arc<Self>) {
        let inner = self.inner();
        if inner.refusal().is_none() && inner.phase == Phase::Passive {
            self.rouse_locked(inner);
        }
    }

    /// Wakes the actor, or has one started where there is none.
    fn rouse_locked(self: &Arc<Self>, mut inner: MutexGuard<'_, Inner>) {
        match inner.phase {
            Phase::Passive => {
                if let Some(flight) = self.take_off(&mut inner) {
                    drop(inner);
                    flight.launch();
                }
            }
            Phase::Activating | Phase::Active => inner.inbox().wake(),
            // What came in is found when it has fallen asleep.
            Phase::Passivating => {}
        }
    }

    // ---- the actor's side, on the way of each input; the rest is in `for_actor` -----------------------------------------

    /// Takes the next thing to do, over the state that the tape has.
    pub(crate) fn take(&self, state: &State, now: Millis) -> Option<Work> {
        self.in_inbox(|inbox| inbox.take(state, now)).flatten()
    }

    /// What was decided is handed to the tape, through that entry, and will be answered so.
    pub(crate) fn handed_over(&self, upto: Seq, replies: Vec<(ReplyTo, CoreReply)>) {
        self.in_inbox(|inbox| inbox.mailbox.handed_over(upto, replies));
    }

    /// The tape has it. Those who asked for it are answered.
    pub(crate) fn recorded(&self) {
        let ends = self.in_inbox(|inbox| {
            let replies = inbox.mailbox.recorded();
            inbox.ends(replies.into_iter().map(|(to, reply)| (to, CommandEnd::Decided(reply))).collect())
        });
        tell(ends.unwrap_or_default());
    }

    /// Those who listen and wait are told now through that entry.
    pub(crate) fn tell_upto(&self, seq: Seq) {
        self.inner().told = seq;
    }

    // ---- listeners -----------------------------------------------------------------------------------------------------

    /// Whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.inner().ring.as_ref().is_some_and(|ring| ring.is_heard())
    }

    /// Shows an event to those who listen.
    pub(crate) fn show(&self, event: Arc<Event>) {
        let ring = self.inner().ring.clone();
        if let Some(ring) = ring {
            ring.push(event);
        }
    }

    /// Listens from now on, also while the session sleeps, and when it wakes again.
    pub(crate) fn listen(self: &Arc<Self>) -> EventStream {
        let mut inner = self.inner();
        let ring = inner.ring.get_or_insert_with(Arc::default).clone();
        // Under the lock, so that a session that falls asleep does not give up a ring that somebody has just begun to hear.
        let stream = ring.listen();
        if inner.admission == Admission::Closed {
            ring.close();
        }
        drop(inner);
        stream.keeping(self.clone())
    }

    /// No event follows any more.
    pub(crate) fn close_ring(&self) {
        let ring = self.inner().ring.clone();
        if let Some(ring) = ring {
            ring.close();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            host.slots.forget(&self.id);
        }
    }
}
