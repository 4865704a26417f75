//! What a session is beside its actor: the mailbox made bounded, ordered and visible, and those who wait and listen.
//!
//! A slot outlives every crash of its actor. An input stays in it until it is answered, so that a crash loses none: the next
//! incarnation takes it again, and what was on the tape already is known by the message's id. The actor's own mailbox carries
//! only a wake.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::{
    actors::shell::Mailbox,
    error::SendError,
    event::Ring,
    ids::{MessageId, Seq, SessionId},
    session::{Down, Held, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Refusal, ReplyTo, Signal, State, TurnEnd},
    supervisor::ActorCard,
    tape::{Tape, TapeError},
};

/// Inputs that may wait in a slot for its actor.
const INPUTS_MAX: usize = INBOX_STEERING_MAX + INBOX_QUEUED_MAX;

/// Who is told how a turn ended.
pub(crate) type OutcomeReply = oneshot::Sender<Result<Arc<TurnEnd>, SendError>>;

/// What wakes a session's actor: there is something in the slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake;

/// What the actor takes out of its slot.
pub(crate) enum Work {
    /// Somebody wants to know something, or to be told of something.
    Question(Question),
    /// An append that was answered "later" is on the tape, or is not.
    Settled(Result<Seq, TapeError>),
    /// A worker reports.
    Report(Signal),
    /// A host wants something.
    Input(Signal),
}

/// A question that the actor answers from its state.
pub(crate) enum Question {
    /// How the turn of this message ends.
    Outcome(MessageId, OutcomeReply),
    /// When nothing runs and nothing waits.
    Idle(oneshot::Sender<()>),
    /// A picture of the state.
    State(oneshot::Sender<State>),
    /// How the task of that parent and ticket ended; nothing where it is not this session's.
    Down(SessionId, Seq, oneshot::Sender<Option<Arc<Down>>>),
    /// How a task of this session ended; nothing where no DOWN comes for it.
    Task(Seq, oneshot::Sender<Option<Arc<Down>>>),
}

/// A session beside its actor.
pub(crate) struct Slot {
    pub(crate) id: SessionId,
    pub(crate) ring: Arc<Ring>,
    /// Everything that a life of the actor started.
    pub(crate) tasks: TaskTracker,
    next_reply: AtomicU64,
    /// Held while the tape is read for a life.
    pub(crate) loading: Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    door: Door,
    mailbox: Option<Mailbox<Wake>>,
    /// Where it is shown how much waits here, also while the actor is stuck.
    card: Option<Arc<ActorCard>>,
    woken: bool,
    life: u32,
    /// Inputs without an answer, by the number of their reply: in the order they came.
    inputs: BTreeMap<ReplyTo, Input>,
    /// Those of them that the actor has not seen yet.
    unseen: VecDeque<ReplyTo>,
    reports: VecDeque<Signal>,
    settled: VecDeque<Result<Seq, TapeError>>,
    questions: VecDeque<Question>,
    waiting: Vec<(MessageId, OutcomeReply)>,
    /// A tape with its state, ready for the first life.
    prepared: Option<(Tape, State)>,
}

struct Input {
    signal: Signal,
    reply: oneshot::Sender<Result<Held, SendError>>,
}

/// Whether inputs are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Door {
    #[default]
    Open,
    Draining,
    Parked,
    Closed,
}

impl Slot {
    pub(crate) fn new(id: SessionId) -> Slot {
        Slot {
            id,
            ring: Arc::default(),
            tasks: TaskTracker::new(),
            next_reply: AtomicU64::new(1),
            loading: Mutex::default(),
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change under this lock is whole before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether inputs are taken. A closed or parked slot refuses what waits in it.
    pub(crate) fn set_door(&self, door: Door) {
        let mut inner = self.inner();
        inner.door = door;
        let refused = match door {
            Door::Open | Door::Draining => return,
            Door::Parked => SendError::Parked,
            Door::Closed => SendError::Closed,
        };
        let inputs = std::mem::take(&mut inner.inputs);
        inner.unseen.clear();
        inner.show_depth();
        let waiting = std::mem::take(&mut inner.waiting);
        inner.questions.clear();
        if door == Door::Closed {
            inner.mailbox = None;
        }
        drop(inner);
        // A receiver that is gone does not want to know.
        inputs.into_values().for_each(|input| drop(input.reply.send(Err(refused.clone()))));
        waiting.into_iter().for_each(|(_, reply)| drop(reply.send(Err(refused.clone()))));
    }

    /// Whether its actor crashed again and again and is kept stopped.
    pub(crate) fn is_parked(&self) -> bool {
        self.inner().door == Door::Parked
    }

    /// Hands in what a host wants. Answers when the decision about it is on the tape.
    pub(crate) fn input(
        &self,
        signal: impl FnOnce(ReplyTo) -> Signal,
    ) -> Result<oneshot::Receiver<Result<Held, SendError>>, SendError> {
        let mut inner = self.inner();
        let to = ReplyTo(self.next_reply.fetch_add(1, Ordering::Relaxed));
        let signal = signal(to);
        match inner.door {
            Door::Open => {}
            // A person's answer, an abort and the like still reach a session that finishes its turn.
            Door::Draining if !matches!(signal, Signal::Send { .. } | Signal::Spawn { .. } | Signal::Adopt { .. }) => {}
            Door::Draining => return Err(SendError::Draining),
            Door::Parked => return Err(SendError::Parked),
            Door::Closed => return Err(SendError::Closed),
        }
        let depth = inner.inputs.len();
        // What stops or answers always gets in; what adds work is bounded.
        let adds =
            matches!(signal, Signal::Send { .. } | Signal::Edit { .. } | Signal::Spawn { .. } | Signal::Adopt { .. });
        if depth >= INPUTS_MAX && adds {
            if let Some(card) = &inner.card {
                card.rejected();
            }
            return Err(SendError::InboxFull { depth });
        }
        let (reply, answer) = oneshot::channel();
        inner.inputs.insert(to, Input { signal, reply });
        inner.unseen.push_back(to);
        inner.show_depth();
        wake(&mut inner);
        Ok(answer)
    }

    /// Asks the actor something.
    pub(crate) fn question(&self, question: Question) -> Result<(), SendError> {
        let mut inner = self.inner();
        match inner.door {
            Door::Open | Door::Draining => {}
            Door::Parked => return Err(SendError::Parked),
            Door::Closed => return Err(SendError::Closed),
        }
        inner.questions.push_back(question);
        wake(&mut inner);
        Ok(())
    }

    /// A worker of that life reports. Reports of an earlier life are late and say nothing that the next life relies on.
    pub(crate) fn report(&self, life: u32, report: Signal) {
        let mut inner = self.inner();
        if inner.life == life {
            inner.reports.push_back(report);
            wake(&mut inner);
        }
    }

    /// The tape says that an append is settled.
    pub(crate) fn settled(&self, result: Result<Seq, TapeError>) {
        let mut inner = self.inner();
        inner.settled.push_back(result);
        wake(&mut inner);
    }

    /// Wakes the actor: a moment came that it waits for.
    pub(crate) fn wake(&self) {
        wake(&mut self.inner());
    }

    /// Wakes the actor once more, though it was woken for what is there: it lets others have their turn.
    pub(crate) fn wake_again(&self) {
        let mut inner = self.inner();
        inner.woken = false;
        wake(&mut inner);
    }

    /// Takes the next thing to do. What stops comes before what reports, and what reports before what asks for more.
    pub(crate) fn take(&self) -> Option<Work> {
        let mut inner = self.inner();
        if let Some(settled) = inner.settled.pop_front() {
            return Some(Work::Settled(settled));
        }
        let urgent = inner.unseen.iter().position(|to| {
            inner.inputs.get(to).is_some_and(|input| {
                matches!(input.signal, Signal::Abort { .. } | Signal::Pause { .. } | Signal::End { .. })
            })
        });
        if let Some(to) = urgent.and_then(|at| inner.unseen.remove(at)) {
            return inner.inputs.get(&to).map(|input| Work::Input(input.signal.clone()));
        }
        // Steering is acted on before a report starts the next call; inputs are bounded, so no report starves.
        if let Some(to) = inner.unseen.pop_front() {
            return inner.inputs.get(&to).map(|input| Work::Input(input.signal.clone()));
        }
        if let Some(report) = inner.reports.pop_front() {
            return Some(Work::Report(report));
        }
        if let Some(question) = inner.questions.pop_front() {
            return Some(Work::Question(question));
        }
        inner.woken = false;
        None
    }

    /// Answers an input; it leaves the slot.
    pub(crate) fn answer(&self, to: ReplyTo, answer: Result<Held, SendError>) {
        let input = {
            let mut inner = self.inner();
            let input = inner.inputs.remove(&to);
            inner.show_depth();
            input
        };
        if let Some(input) = input {
            // A host that stopped waiting can ask again with the same message id.
            drop(input.reply.send(answer));
        }
    }

    /// Registers those who wait for the end of a turn.
    pub(crate) fn wait_for(&self, message: MessageId, reply: OutcomeReply) {
        self.inner().waiting.push((message, reply));
    }

    /// A turn ended: answers those who wait for it.
    pub(crate) fn turn_ended(&self, end: &Arc<TurnEnd>) {
        let mut inner = self.inner();
        let (told, waiting) =
            std::mem::take(&mut inner.waiting).into_iter().partition(|(message, _)| end.messages.contains(message));
        inner.waiting = waiting;
        drop(inner);
        told.into_iter().for_each(|(_, reply): (_, oneshot::Sender<_>)| drop(reply.send(Ok(end.clone()))));
    }

    /// A message was taken back: those who wait for its turn wait for nothing.
    pub(crate) fn withdrawn(&self, id: &MessageId) {
        let mut inner = self.inner();
        let (told, waiting) = std::mem::take(&mut inner.waiting).into_iter().partition(|(message, _)| message == id);
        inner.waiting = waiting;
        drop(inner);
        let refused = SendError::Refused(Refusal::NotWaiting { id: id.clone() });
        told.into_iter().for_each(|(_, reply): (_, oneshot::Sender<_>)| drop(reply.send(Err(refused.clone()))));
    }

    /// The card of its actor, once it has had one.
    pub(crate) fn card(&self) -> Option<Arc<ActorCard>> {
        self.inner().card.clone()
    }

    /// Puts a tape and its state by for the first life.
    pub(crate) fn prepare(&self, tape: Tape, state: State) {
        self.inner().prepared = Some((tape, state));
    }

    /// The tape and its state for a first life.
    pub(crate) fn prepared(&self) -> Option<(Tape, State)> {
        self.inner().prepared.take()
    }

    /// A life begins: what its predecessor took and did not answer is there again. Gives the reports that were left.
    pub(crate) fn begin_life(&self, life: u32, mailbox: Mailbox<Wake>, card: &Arc<ActorCard>) -> Vec<Signal> {
        let mut inner = self.inner();
        inner.life = life;
        inner.mailbox = Some(mailbox);
        inner.card = Some(card.clone());
        inner.show_depth();
        inner.unseen = inner.inputs.keys().copied().collect();
        inner.settled.clear();
        inner.woken = false;
        wake(&mut inner);
        inner.reports.drain(..).collect()
    }

    /// How many inputs have no answer yet.
    pub(crate) fn depth(&self) -> usize {
        self.inner().inputs.len()
    }
}

impl Inner {
    fn show_depth(&self) {
        if let Some(card) = &self.card {
            card.inbox(self.inputs.len());
        }
    }
}

fn wake(inner: &mut Inner) {
    if inner.woken {
        return;
    }
    if let Some(mailbox) = &inner.mailbox {
        // An actor that is gone is followed by one that looks by itself.
        inner.woken = mailbox.send(Wake).is_ok();
    }
}
