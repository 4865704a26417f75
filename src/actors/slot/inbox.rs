//! What a session has beside its actor while it is awake: its mailbox made bounded, ordered and visible, and those who wait.
//!
//! A plain value without a lock of its own; the slot has one.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use crate::{
    actors::{shell::Mailbox, slot::Slept, tapes::OpenTape},
    error::{PassivateError, SendError},
    ids::{MessageId, Seq, SessionId},
    session::{Command, Down, Held, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Input, ReplyTo, State, TurnEnd},
    supervisor::ActorCard,
    tape::TapeError,
};

/// Inputs that may wait in a slot for its actor.
pub(super) const INPUTS_MAX: usize = INBOX_STEERING_MAX + INBOX_QUEUED_MAX;

/// Inputs of every kind, those included that stop or answer: more than anybody means, and a bound for whoever repeats an abort
/// while a disk refuses.
const INPUTS_OF_ALL_KINDS_MAX: usize = 4 * INPUTS_MAX;

/// Questions that may wait for an answer, and as many may wait for the end of a turn.
pub(crate) const QUESTIONS_MAX: usize = 1_024;

/// Who is told how a turn ended.
pub(crate) type OutcomeReply = oneshot::Sender<Result<Arc<TurnEnd>, SendError>>;

/// Who is told that something is so, or why it will not be.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, SendError>>;

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
    Report(Input),
    /// A host wants something.
    Input(Input),
}

/// A question that the actor answers from its state.
pub(crate) enum Question {
    /// How the turn of this message ends.
    Outcome(MessageId, OutcomeReply),
    /// When nothing runs and nothing waits.
    Idle(Reply<()>),
    /// A picture of the state.
    State(Reply<State>),
    /// How the task of that parent and ticket ended; nothing where it is not this session's.
    Down(SessionId, Seq, Reply<Option<Arc<Down>>>),
    /// How a task of this session ended; nothing where no DOWN comes for it.
    Task(Seq, Reply<Option<Arc<Down>>>),
    /// Whether it is there: it is, when it can answer.
    Up(Reply<()>),
    /// Whether it may go to sleep; then it does.
    Sleep(Slept),
    /// A drill: it crashes with these words.
    Crash(String),
}

impl Question {
    /// Says that there will be no answer.
    pub(super) fn refuse(self, error: SendError) {
        // Whoever stopped waiting does not want to know.
        match self {
            Question::Outcome(_, reply) => drop(reply.send(Err(error))),
            Question::Idle(reply) | Question::Up(reply) => drop(reply.send(Err(error))),
            Question::State(reply) => drop(reply.send(Err(error))),
            Question::Down(_, _, reply) | Question::Task(_, reply) => drop(reply.send(Err(error))),
            // A session that is not there sleeps as soundly as one can.
            Question::Sleep(slept) => slept.tell(Ok(())),
            Question::Crash(_) => {}
        }
    }

    /// Whether somebody waits for the answer still.
    fn is_waited_for(&self) -> bool {
        match self {
            Question::Outcome(_, reply) => !reply.is_closed(),
            Question::Idle(reply) | Question::Up(reply) => !reply.is_closed(),
            Question::State(reply) => !reply.is_closed(),
            Question::Down(_, _, reply) | Question::Task(_, reply) => !reply.is_closed(),
            Question::Sleep(_) | Question::Crash(_) => true,
        }
    }
}

struct Waiting {
    signal: Input,
    reply: Reply<Held>,
    /// What was decided about it, and the entry through which that is on the tape, if it came there.
    decided: Option<(Seq, Result<Held, SendError>)>,
}

/// See the module.
pub(super) struct Inbox {
    pub(super) mailbox: Option<Mailbox<Wake>>,
    woken: bool,
    /// Where it is shown how much waits here, also while the actor is stuck.
    pub(super) card: Option<Arc<ActorCard>>,
    /// Everything that a life of the actor started.
    pub(super) tasks: TaskTracker,
    /// Inputs without an answer, by the number of their reply: in the order they came.
    inputs: BTreeMap<ReplyTo, Waiting>,
    /// Those of them that the actor has not seen yet.
    unseen: VecDeque<ReplyTo>,
    /// Bounded by the open tickets: each worker reports once, or somebody in its place.
    pub(super) reports: VecDeque<Input>,
    /// Bounded by the store's queue.
    pub(super) settled: VecDeque<Result<Seq, TapeError>>,
    questions: VecDeque<Question>,
    pub(super) waiting: Vec<(MessageId, OutcomeReply)>,
    /// A tape with its state, ready for the first life.
    pub(super) prepared: Option<(OpenTape, State)>,
    /// Who is told when it sleeps.
    pub(super) sleepers: Vec<Slept>,
    /// Whether its actor says that nothing keeps it awake.
    pub(super) idle: bool,
    /// Its place under the supervisor was given up before its start was over.
    pub(super) vacated: bool,
    /// An operator stops it: nothing is taken until it is down.
    pub(super) stopped: bool,
    /// When it woke up.
    pub(super) born: Instant,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            mailbox: None,
            woken: false,
            card: None,
            tasks: TaskTracker::new(),
            inputs: BTreeMap::new(),
            unseen: VecDeque::new(),
            reports: VecDeque::new(),
            settled: VecDeque::new(),
            questions: VecDeque::new(),
            waiting: Vec::new(),
            prepared: None,
            sleepers: Vec::new(),
            idle: false,
            vacated: false,
            stopped: false,
            born: Instant::now(),
        }
    }

    /// Puts in what a host wants.
    pub(super) fn input(
        &mut self,
        to: ReplyTo,
        signal: Input,
    ) -> Result<oneshot::Receiver<Result<Held, SendError>>, SendError> {
        let depth = self.inputs.len();
        // What stops or answers gets in where what adds work does not.
        let adds = matches!(&signal, Input::Command { command, .. } if command.adds_work());
        if depth >= if adds { INPUTS_MAX } else { INPUTS_OF_ALL_KINDS_MAX } {
            if let Some(card) = &self.card {
                card.rejected();
            }
            return Err(SendError::InboxFull { depth });
        }
        let (reply, answer) = oneshot::channel();
        self.inputs.insert(to, Waiting { signal, reply, decided: None });
        self.unseen.push_back(to);
        self.show_depth();
        Ok(answer)
    }

    pub(super) fn question(&mut self, question: Question) -> Result<(), SendError> {
        if self.is_full() {
            // Whoever stopped waiting makes room, also where the actor is stuck and takes none of them.
            self.questions.retain(Question::is_waited_for);
        }
        let depth = self.questions.len();
        if depth >= QUESTIONS_MAX {
            return Err(SendError::InboxFull { depth });
        }
        self.questions.push_back(question);
        Ok(())
    }

    /// Takes the next thing to do. What hosts say comes before what workers report, so that steering is acted on before a
    /// report starts the next call, and in its order: an abort is about what was said before it, and a pause undoes a resume.
    pub(super) fn take(&mut self) -> Option<Work> {
        if let Some(settled) = self.settled.pop_front() {
            return Some(Work::Settled(settled));
        }
        // Inputs are bounded, so no report starves.
        if let Some(to) = self.unseen.pop_front() {
            return self.inputs.get(&to).map(|input| Work::Input(input.signal.clone()));
        }
        if let Some(report) = self.reports.pop_front() {
            return Some(Work::Report(report));
        }
        if let Some(question) = self.questions.pop_front() {
            return Some(Work::Question(question));
        }
        self.woken = false;
        None
    }

    /// Answers an input; it leaves the slot.
    pub(super) fn answered(&mut self, to: ReplyTo) -> Option<Reply<Held>> {
        let reply = self.inputs.remove(&to).map(|input| input.reply);
        self.show_depth();
        reply
    }

    /// It was decided so about an input; its entries are on their way, or it turned out (`None`) that they will not come.
    pub(super) fn decided(&mut self, to: ReplyTo, how: Option<(Seq, Result<Held, SendError>)>) {
        if let Some(input) = self.inputs.get_mut(&to) {
            input.decided = how;
        }
    }

    /// Whether no further question fits.
    pub(super) fn is_full(&self) -> bool {
        self.questions.len() >= QUESTIONS_MAX
    }

    fn show_depth(&self) {
        if let Some(card) = &self.card {
            card.inbox(self.inputs.len());
        }
    }

    /// How many questions wait.
    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.questions.len()
    }

    /// How many inputs have no answer yet.
    pub(super) fn depth(&self) -> usize {
        self.inputs.len()
    }

    /// Whether there is nothing in it that an actor would be needed for.
    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
            && self.reports.is_empty()
            && self.settled.is_empty()
            && self.questions.is_empty()
            && self.waiting.is_empty()
    }

    /// A life begins, over a tape that ends there: what its predecessor took and did not answer is there again, but what it
    /// decided and the tape has is answered so. Gives the reports that were left.
    pub(super) fn begin_life(&mut self, mailbox: Mailbox<Wake>, card: Arc<ActorCard>, last: Seq) -> Vec<Input> {
        self.mailbox = Some(mailbox);
        self.card = Some(card);
        self.take_over(last);
        self.settled.clear();
        self.woken = false;
        self.idle = false;
        self.stopped = false;
        self.wake();
        self.reports.drain(..).collect()
    }

    /// The inputs that have no answer are there again, but those that were decided as the tape says.
    fn take_over(&mut self, last: Seq) {
        let on_tape = |input: &Waiting| input.decided.as_ref().is_some_and(|(upto, _)| *upto <= last);
        for (_, input) in self.inputs.extract_if(.., |_, input| on_tape(input)) {
            if let Some((_, answer)) = input.decided {
                // A host that stopped waiting can ask again with the same message id.
                drop(input.reply.send(answer));
            }
        }
        self.inputs.values_mut().for_each(|input| input.decided = None);
        self.show_depth();
        self.unseen = self.inputs.keys().copied().collect();
    }

    /// Wakes the actor, once until it has looked.
    pub(super) fn wake(&mut self) {
        if self.woken {
            return;
        }
        if let Some(mailbox) = &self.mailbox {
            // An actor that is gone is followed by one that looks by itself.
            self.woken = mailbox.send(Wake).is_ok();
        }
    }

    pub(super) fn wake_again(&mut self) {
        self.woken = false;
        self.wake();
    }

    /// Takes out all who wait for an answer, but for those whose input was taken up: it may be on its way to the tape, and keeps
    /// its place until that is settled.
    pub(super) fn take_waiters(&mut self) -> Waiters {
        let inputs = self.unseen.drain(..).filter_map(|to| self.inputs.remove(&to)).map(|input| input.reply).collect();
        self.show_depth();
        Waiters { inputs, questions: self.questions.drain(..).collect(), outcomes: std::mem::take(&mut self.waiting) }
    }

    /// Takes out the inputs that were taken up and have no answer.
    pub(super) fn take_unsettled(&mut self) -> Vec<Unsettled> {
        let unseen = &self.unseen;
        let taken_up = self.inputs.extract_if(.., |to, _| !unseen.contains(to));
        let unsettled = taken_up.map(|(_, Waiting { signal, reply, decided })| {
            let message = match signal {
                Input::Command { command: Command::SendMessage(send), .. } => Some(send.message.id),
                _ => None,
            };
            Unsettled { message, decided, reply }
        });
        let unsettled = unsettled.collect();
        self.show_depth();
        unsettled
    }
}

/// An input that was taken up, by an actor that will not answer it.
pub(super) struct Unsettled {
    message: Option<MessageId>,
    decided: Option<(Seq, Result<Held, SendError>)>,
    reply: Reply<Held>,
}

impl Unsettled {
    /// Says what became of it: what was decided, where the tape ends there or behind it; else that nothing was recorded. Where
    /// nobody knows how far the tape is, it says that.
    pub(super) fn tell(self, last: Option<Seq>, refusal: &SendError) {
        let Unsettled { message, decided, reply } = self;
        let answer = match (last, decided) {
            (None, _) => Err(SendError::Unsettled { message }),
            (Some(last), Some((upto, answer))) if upto <= last => answer,
            (Some(_), _) => Err(refusal.clone()),
        };
        // A host that stopped waiting can ask again with the same message id.
        drop(reply.send(answer));
    }
}

/// Those who waited for an answer that will not come. To be told outside of every lock.
#[must_use]
pub(super) struct Waiters {
    inputs: Vec<Reply<Held>>,
    questions: Vec<Question>,
    outcomes: Vec<(MessageId, OutcomeReply)>,
}

impl Waiters {
    /// Nobody.
    pub(super) fn none() -> Waiters {
        Waiters { inputs: Vec::new(), questions: Vec::new(), outcomes: Vec::new() }
    }

    /// Of a session that does not sleep, and has a tape or is about to have it.
    pub(super) fn refuse_awake(mut self, error: &SendError, why: &'static str) {
        for question in std::mem::take(&mut self.questions) {
            match question {
                Question::Sleep(slept) => slept.tell(Err(PassivateError::Busy { why })),
                other => other.refuse(error.clone()),
            }
        }
        self.refuse(error);
    }

    pub(super) fn refuse(self, error: &SendError) {
        // A receiver that is gone does not want to know.
        self.inputs.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
        self.outcomes.into_iter().for_each(|(_, reply)| drop(reply.send(Err(error.clone()))));
        self.questions.into_iter().for_each(|question| question.refuse(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use crate::session::{Abort, Pause, Resume};

    /// Whoever repeats an abort while the disk refuses is stopped by a bound, far above that of what adds work.
    #[test]
    fn even_aborts_have_a_bound() {
        let mut inbox = Inbox::new();
        let taken = (0..10_000)
            .take_while(|n| inbox.input(ReplyTo(*n), Abort { reason: String::new() }.to(ReplyTo(*n))).is_ok())
            .count();
        assert!((1_000..2_000).contains(&taken), "{taken}");
    }

    /// A stuck actor takes no questions, and those who ask it again and again stop waiting.
    #[test]
    fn questions_that_nobody_waits_for_take_no_place() {
        let mut inbox = Inbox::new();
        let ask = |inbox: &mut Inbox| {
            let (reply, answer) = oneshot::channel();
            inbox.question(Question::Up(reply)).map(|()| answer)
        };
        let mut waits = ask(&mut inbox).unwrap();
        (0..3 * QUESTIONS_MAX).for_each(|_| drop(ask(&mut inbox).unwrap()));
        assert_eq!(waits.try_recv().unwrap_err(), oneshot::error::TryRecvError::Empty, "it was not thrown out");
        assert!(inbox.asked() <= QUESTIONS_MAX);
        let all: Vec<_> = std::iter::from_fn(|| ask(&mut inbox).ok()).take(3 * QUESTIONS_MAX).collect();
        assert_eq!(all.len(), QUESTIONS_MAX - 1, "those who wait have a bound");
    }

    fn abort(reply: ReplyTo) -> Input {
        Abort { reason: String::new() }.to(reply)
    }

    /// An abort is about what was said before it, and a pause undoes a resume: none of them goes first.
    #[test]
    fn inputs_are_taken_in_their_order() {
        let mut inbox = Inbox::new();
        let (resume, pause) = (Resume.to(ReplyTo(1)), Pause.to(ReplyTo(2)));
        for (to, signal) in
            [resume.clone(), pause.clone(), abort(ReplyTo(3))].into_iter().zip(1..).map(|(s, to)| (to, s))
        {
            drop(inbox.input(ReplyTo(to), signal).unwrap());
        }
        for expected in [resume, pause, abort(ReplyTo(3))] {
            assert!(matches!(inbox.take(), Some(Work::Input(signal)) if signal == expected));
        }
    }

    /// What nobody took up is refused at once, and what was taken up keeps its place; what became of that is for the tape to say.
    #[test]
    fn what_was_taken_up_is_answered_as_the_tape_says() {
        let mut inbox = Inbox::new();
        let mut answers: Vec<_> = (1..=4).map(|to| inbox.input(ReplyTo(to), abort(ReplyTo(to))).unwrap()).collect();
        (1..=3).for_each(|_| drop(inbox.take()));
        for (to, upto) in [(1, 5), (2, 7)] {
            inbox.decided(ReplyTo(to), Some((Seq(upto), Ok(Held::Done(Seq(upto))))));
        }
        inbox.take_waiters().refuse(&SendError::Closed);
        assert!(matches!(answers[3].try_recv(), Ok(Err(SendError::Closed))));
        assert!(answers[..3].iter_mut().all(|answer| answer.try_recv().is_err()));
        assert_eq!(inbox.depth(), 3);
        inbox.take_unsettled().into_iter().for_each(|left| left.tell(Some(Seq(6)), &SendError::Closed));
        assert!(matches!(answers[0].try_recv(), Ok(Ok(Held::Done(Seq(5))))));
        assert!(answers[1..3].iter_mut().all(|answer| matches!(answer.try_recv(), Ok(Err(SendError::Closed)))));
        assert!(inbox.is_empty());
    }

    /// What was decided and is on the tape is answered by the next life, and not decided again: an abort would end the turn
    /// of a message that was sent after it.
    #[test]
    fn what_the_tape_has_is_answered_and_not_decided_again() {
        let mut inbox = Inbox::new();
        let mut answers: Vec<_> = (1..=3).map(|to| inbox.input(ReplyTo(to), abort(ReplyTo(to))).unwrap()).collect();
        for (to, upto) in [(1, 5), (2, 7)] {
            inbox.decided(ReplyTo(to), Some((Seq(upto), Ok(Held::Done(Seq(upto))))));
        }
        inbox.take_over(Seq(6));
        assert!(matches!(answers[0].try_recv(), Ok(Ok(Held::Done(Seq(5))))));
        assert!(answers[1].try_recv().is_err() && answers[2].try_recv().is_err());
        assert_eq!(inbox.unseen, [ReplyTo(2), ReplyTo(3)]);
        // Had it come to the tape later, it would be somebody else's entry.
        inbox.take_over(Seq(7));
        assert!(answers[1].try_recv().is_err());
    }
}
