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

mod inbox;
mod sleep;
mod workers;

use std::{
    sync::{Arc, MutexGuard, Weak, atomic::AtomicU64},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    actor::{host::Host, tapes::OpenTape},
    error::{OpenError, PassivateError, SendError},
    event::{Event, EventStream, Ring},
    kernel::{
        BeginAnchor, Command, CommandEnd, Held, Input, Refusal, Reply as CoreReply, ReplyTo, Report, State, TurnEnd,
    },
    lock::Lock,
    supervisor::{NodeState, shell::Mailbox},
    tape::{self, TapeError},
    words::ids::{MessageId, Millis, Seq, SessionId},
};
use inbox::{Ends, Inbox, Unsettled, Waiters};

pub(crate) use inbox::{OutcomeReply, QUESTIONS_MAX, Question, Reply, Wake, Work};
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
    told: Option<Arc<AtomicU64>>,
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
    pub(crate) born: Instant,
}

impl Inner {
    fn inbox(&mut self) -> &mut Inbox {
        self.inbox.get_or_insert_with(|| Box::new(Inbox::new()))
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
        let phase = Phase::Passive;
        let (used, ring, told, inbox, bringing_up) = (Instant::now(), None, None, None, None);
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

    // ---- what comes in -------------------------------------------------------------------------------------------------

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
        self.inner().inbox.as_mut().map(|inbox| inbox.withdraw(to))
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
        self.inner().inbox.as_ref().is_some_and(|inbox| inbox.mailbox.has_report(ticket))
    }

    /// Whether nothing waits for the actor and it has nothing in hand.
    pub(crate) fn is_quiet(&self) -> bool {
        self.inner().inbox.as_ref().is_none_or(|inbox| inbox.mailbox.is_empty())
    }

    /// Whether the disk has refused what waits.
    pub(crate) fn is_refused(&self) -> bool {
        self.inner().inbox.as_ref().is_some_and(|inbox| inbox.mailbox.refusal().is_some())
    }

    /// When the actor is to look again by itself.
    pub(crate) fn due(&self, state: &State) -> Option<Millis> {
        self.inner().inbox.as_ref().and_then(|inbox| inbox.mailbox.due(state))
    }

    /// The session wants a new anchor of itself.
    pub(crate) fn want_anchor(&self) {
        if let Some(inbox) = &mut self.inner().inbox {
            // Nothing is lost without it: the session opens from the anchor before.
            drop(inbox.mailbox.command(ReplyTo::NOBODY, BeginAnchor.into(), None));
            inbox.wake();
        }
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
        if let Some(inbox) = &mut self.inner().inbox {
            inbox.wake();
        }
    }

    /// Wakes the actor once more, though it was woken for what is there: it lets others have their turn.
    pub(crate) fn wake_again(&self) {
        if let Some(inbox) = &mut self.inner().inbox {
            inbox.wake_again();
        }
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

    // ---- the actor's side ----------------------------------------------------------------------------------------------

    /// Takes the next thing to do, over the state that the tape has.
    pub(crate) fn take(&self, state: &State, now: Millis) -> Option<Work> {
        self.inner().inbox.as_mut().and_then(|inbox| inbox.take(state, now))
    }

    /// What was decided is handed to the tape, through that entry, and will be answered so.
    pub(crate) fn handed_over(&self, upto: Seq, replies: Vec<(ReplyTo, CoreReply)>) {
        if let Some(inbox) = &mut self.inner().inbox {
            inbox.mailbox.handed_over(upto, replies);
        }
    }

    /// The tape has it. Those who asked for it are answered.
    pub(crate) fn recorded(&self) {
        let ends = self.inner().inbox.as_mut().map(|inbox| {
            let replies = inbox.mailbox.recorded();
            inbox.ends(replies.into_iter().map(|(to, reply)| (to, CommandEnd::Decided(reply))).collect())
        });
        tell(ends.unwrap_or_default());
    }

    /// The tape does not take it. Those who asked for it are told; what stays is tried again. Says how many were told.
    pub(crate) fn refused(&self, error: &TapeError, now: Millis) -> usize {
        let ends = self.inner().inbox.as_mut().map(|inbox| {
            let ends = inbox.mailbox.refused(error, now);
            inbox.ends(ends)
        });
        let ends = ends.unwrap_or_default();
        let told = ends.len();
        tell(ends);
        told
    }

    /// Through which entry those who listen and wait have been told, by all incarnations since it woke, or since somebody listens.
    pub(crate) fn told(&self) -> Arc<AtomicU64> {
        self.inner().told.get_or_insert_default().clone()
    }

    /// Registers those who wait for the end of a turn.
    pub(crate) fn wait_for(&self, message: MessageId, reply: OutcomeReply) {
        let mut inner = self.inner();
        let waiting = &mut inner.inbox().waiting;
        // Whoever stopped waiting makes room.
        if waiting.len() >= QUESTIONS_MAX {
            waiting.retain(|(_, reply)| !reply.is_closed());
        }
        let depth = waiting.len();
        if depth < QUESTIONS_MAX {
            waiting.push((message, reply));
        } else {
            drop(inner);
            drop(reply.send(Err(SendError::Refused(Refusal::InboxFull { depth }))));
        }
    }

    /// A turn ended: answers those who wait for it.
    pub(crate) fn turn_ended(&self, end: &Arc<TurnEnd>) {
        let told = self.take_waiting(|message| end.messages.contains(message));
        told.into_iter().for_each(|(_, reply)| drop(reply.send(Ok(end.clone()))));
    }

    /// A message was taken back: those who wait for its turn wait for nothing.
    pub(crate) fn withdrawn(&self, id: &MessageId) {
        let told = self.take_waiting(|message| message == id);
        let refused = SendError::Refused(Refusal::NotWaiting { id: id.clone() });
        told.into_iter().for_each(|(_, reply)| drop(reply.send(Err(refused.clone()))));
    }

    fn take_waiting(&self, which: impl Fn(&MessageId) -> bool) -> Vec<(MessageId, OutcomeReply)> {
        let mut inner = self.inner();
        let Some(inbox) = &mut inner.inbox else { return Vec::new() };
        inbox.waiting.extract_if(.., |(message, _)| which(message)).collect()
    }

    /// The node of its actor, once it has had one.
    pub(crate) fn node(&self) -> Option<Arc<NodeState>> {
        self.inner().inbox.as_ref().and_then(|inbox| inbox.node.clone())
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
        self.inner().inbox.as_ref().is_some_and(|inbox| inbox.prepared.is_some())
    }

    /// The tape and its state for a first incarnation.
    pub(crate) fn prepared(&self) -> Option<(OpenTape, State)> {
        self.inner().inbox.as_mut().and_then(|inbox| inbox.prepared.take())
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
        self.inner().inbox.as_ref().map_or_else(TaskTracker::new, |inbox| inbox.tasks.clone())
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
        self.inner().inbox.as_ref().map_or(0, |inbox| inbox.asked())
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
        self.inner().inbox.as_ref().map_or(0, |inbox| inbox.mailbox.depth())
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

    // ---- admission -----------------------------------------------------------------------------------------------------

    /// Sets whether inputs are taken. A closed slot refuses what waits in it; what its actor has taken up is answered when that is
    /// settled, at the latest when its actor is gone.
    pub(crate) fn set_admission(&self, admission: Admission) {
        let mut inner = self.inner();
        inner.admission = inner.admission.max(admission);
        let waiters = match (admission, &mut inner.inbox) {
            (Admission::Closed, Some(inbox)) => {
                inbox.actor = None;
                inbox.take_waiters(true)
            }
            _ => Waiters::none(),
        };
        drop(inner);
        waiters.refuse(&SendError::Closed);
    }

    /// The number of its newest incarnation; 0 before the first.
    pub(crate) fn newest_incarnation(&self) -> u32 {
        self.inner().incarnation
    }

    /// It crashed too often, or an operator said so: it takes nothing until it is unparked, and refuses what waits in it. Its actor
    /// is down, so what that had taken up is for the tape to say. Where an incarnation has begun after that one, it was unparked meanwhile,
    /// and nothing changes.
    pub(crate) fn park(&self, after: u32) {
        let mut inner = self.inner();
        if inner.incarnation != after {
            return;
        }
        inner.parked = true;
        let (waiters, unsettled) = match &mut inner.inbox {
            Some(inbox) => {
                inbox.at_work.clear();
                (inbox.take_waiters(true), inbox.take_hand())
            }
            None => (Waiters::none(), Vec::new()),
        };
        drop(inner);
        self.moved.notify_waiters();
        waiters.refuse(&SendError::Parked);
        self.settle(unsettled, SendError::Parked);
    }

    /// An operator stops it: what waits is refused, and what it was at is not taken up again by itself. What its actor has taken up
    /// is answered when that is down. The next message is taken.
    pub(crate) fn stop(&self) {
        let waiters = match &mut self.inner().inbox {
            Some(inbox) => {
                inbox.idle = true;
                inbox.stopped = true;
                inbox.take_waiters(true)
            }
            None => Waiters::none(),
        };
        waiters.refuse(&SendError::Stopped);
    }

    /// Its tape cannot be read just now, and its actor goes on looking: whoever waits is told, as by a session that cannot be woken.
    /// What was in hand, reports and stops stay for the incarnation that can read it.
    pub(crate) fn cannot_be_read(&self, error: OpenError) {
        let (waiters, unsettled) = match &mut self.inner().inbox {
            Some(inbox) => (inbox.take_waiters(false), inbox.take_unsettled()),
            None => return,
        };
        let refusal = SendError::from(error);
        waiters.refuse_awake(&refusal, "its tape cannot be read just now");
        unsettled.into_iter().for_each(|left| left.tell(None, &refusal));
    }

    /// Its actor does not end, or the runtime does: whoever waits for what it had taken up is told that nobody knows.
    pub(crate) fn give_up(&self) {
        let unsettled = self.inner().inbox.as_mut().map_or_else(Vec::new, |inbox| inbox.take_hand());
        unsettled.into_iter().for_each(|left| left.tell(None, &SendError::Closed));
    }

    /// It takes inputs again. Whether it was parked.
    pub(crate) fn unpark(&self) -> bool {
        std::mem::replace(&mut self.inner().parked, false)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(host) = self.host.upgrade() {
            host.slots.forget(&self.id);
        }
    }
}
