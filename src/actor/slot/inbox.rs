//! The inbox of an awake session: its mailbox, the callers who wait for an answer, their questions to the actor, and the handle
//! of the actor.
//!
//! A plain value without a lock of its own: the slot locks it. It outlives every crash of the actor, and is dropped when the
//! session becomes passive; callers who are left are answered then (`sleep.rs`). Commands and questions have a bound. In a full
//! queue, entries of callers who stopped waiting make room, except a command in hand or a stop; if that is not enough, the new
//! one is refused.
//!
//! A change must keep that no method of [`Inbox`] waits or answers a caller, because the slot's lock is held. The methods return
//! the answers ([`Ends`], [`Waiters`], [`Unsettled`]) and tokens, and the slot sends and cancels them after the unlock.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    actor::slot::{Arrived, Slept},
    error::SendError,
    kernel::{
        Act, CarriedOut, Command, CommandEnd, Delivery, Down, Input, Left, Mailbox, NotTaken, Refusal, ReplyTo, State,
        TaskAsk, TurnEnd,
    },
    lock::Lock,
    supervisor::{NodeState, shell},
    tape::{OpenTape, TapeError},
    tool::QuestionAnswer,
    words::ids::{CommandId, MessageId, Millis, Seq, SessionId},
};

/// The most questions that wait for the actor; also, counted apart, the most kept questions that the state cannot answer yet.
pub(crate) const QUESTIONS_MAX: usize = 1_024;

/// The sender of an answer, or of the reason why there will be none.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, SendError>>;

/// The answers to commands that are over. Send them outside of every lock.
pub(super) type Ends = Vec<(Reply<CarriedOut>, Result<CarriedOut, SendError>)>;

/// The message that wakes a session's actor: its slot has work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake;

/// One piece of work that the actor takes out of its slot.
pub(crate) enum Work {
    /// An append that the tape answered with "later" is on the tape, or has failed.
    Settled(Result<Seq, TapeError>),
    /// Decide these inputs in one append.
    Decide(Arc<Vec<Input>>),
    /// Stop at once what this input stops; its record has to wait.
    Stop(Box<Input>),
    /// Answer a question from the state.
    Question(Question),
    /// Go to sleep, or tell those who ask for it why not.
    Sleep,
}

impl Work {
    /// The kind of a piece of work, and the number of the ticket or message that it is about. Never any content.
    pub(crate) fn about(&self) -> (&'static str, Option<u64>) {
        let input = match self {
            Work::Question(Question::Outcome(..)) => return ("question: outcome", None),
            Work::Question(Question::Idle(_)) => return ("question: idle", None),
            Work::Question(Question::State(_)) => return ("question: state", None),
            Work::Question(Question::Down(..)) => return ("question: own task", None),
            Work::Question(Question::Asks(..)) => return ("question: asks", None),
            Work::Question(Question::Task(ticket, _)) => return ("question: task", Some(ticket.0)),
            Work::Question(Question::Room(..)) => return ("question: room", None),
            Work::Question(Question::Answer(call, ..)) => return ("question: answer", Some(call.0)),
            Work::Question(Question::Begun(ticket, _)) => return ("question: task begun", Some(ticket.0)),
            Work::Question(Question::Up(_)) => return ("question: up", None),
            Work::Question(Question::Crash(_)) => return ("drill", None),
            Work::Sleep => return ("question: sleep", None),
            Work::Settled(Ok(seq)) => return ("settled", Some(seq.0)),
            Work::Settled(Err(_)) => return ("not settled", None),
            Work::Stop(input) => input,
            Work::Decide(inputs) => match inputs.first() {
                Some(input) => input,
                None => return ("nothing", None),
            },
        };
        (input.name(), input.about().map(|Seq(seq)| seq))
    }
}

/// A question that the actor answers from its state.
pub(crate) enum Question {
    /// How the turn of this message ends.
    Outcome(MessageId, Reply<Arc<TurnEnd>>),
    /// Answered when nothing runs and nothing waits.
    Idle(Reply<()>),
    /// A copy of the state.
    State(Reply<State>),
    /// How the task of that parent and ticket ended; `None` if this session is not the child of that task.
    Down(SessionId, Seq, Reply<Option<Arc<Down>>>),
    /// The session's questions to people, as its parent is told of them; answered when their tickets are others than these, and at
    /// once where none are named.
    Asks(Option<Vec<Seq>>, Reply<Vec<Arc<TaskAsk>>>),
    /// How a task of this session ended; `None` if no DOWN comes for it.
    Task(Seq, Reply<Option<Arc<Down>>>),
    /// Answered when a message of that delivery would find room, and refused as full where no room comes by itself.
    Room(Delivery, Reply<()>),
    /// Answered when a task of this session does not wait for room any more.
    Begun(Seq, Reply<()>),
    /// The answer to the question (the second ticket) of a running call (the first).
    Answer(Seq, Seq, Reply<QuestionAnswer>),
    /// Whether the session is up: any answer says that it is.
    Up(Reply<()>),
    /// A drill: the actor crashes with these words.
    Crash(String),
}

impl Question {
    /// Tells the caller that there will be no answer.
    pub(crate) fn refuse(self, error: SendError) {
        // A caller may have dropped its receiver.
        match self {
            Question::Outcome(_, reply) => drop(reply.send(Err(error))),
            Question::Idle(reply) | Question::Up(reply) | Question::Room(_, reply) | Question::Begun(_, reply) => {
                drop(reply.send(Err(error)))
            }
            Question::State(reply) => drop(reply.send(Err(error))),
            Question::Asks(_, reply) => drop(reply.send(Err(error))),
            Question::Answer(_, _, reply) => drop(reply.send(Err(error))),
            Question::Down(_, _, reply) | Question::Task(_, reply) => drop(reply.send(Err(error))),
            Question::Crash(_) => {}
        }
    }

    /// Whether the caller still waits for the answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        match self {
            Question::Outcome(_, reply) => !reply.is_closed(),
            Question::Idle(reply) | Question::Up(reply) | Question::Room(_, reply) | Question::Begun(_, reply) => {
                !reply.is_closed()
            }
            Question::State(reply) => !reply.is_closed(),
            Question::Asks(_, reply) => !reply.is_closed(),
            Question::Answer(_, _, reply) => !reply.is_closed(),
            Question::Down(_, _, reply) | Question::Task(_, reply) => !reply.is_closed(),
            Question::Crash(_) => true,
        }
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) actor: Option<shell::Mailbox<Wake>>,
    /// A wake is on its way, and the actor has not emptied the inbox since.
    woken: bool,
    /// The node that shows the depth of the mailbox, also while the actor is stuck.
    pub(super) node: Option<Arc<NodeState>>,
    /// The tracker of all tasks that the incarnations of the actor started since the session woke.
    pub(super) tasks: TaskTracker,
    /// The commands and reports that wait for the actor, in order.
    pub(super) mailbox: Mailbox,
    /// The senders of commands that have no answer yet.
    replies: BTreeMap<ReplyTo, Reply<CarriedOut>>,
    /// The tape's answer to the append in flight, until the actor takes it.
    pub(super) settled: Option<Result<Seq, TapeError>>,
    /// Questions that the actor has not looked at yet; at most [`QUESTIONS_MAX`].
    questions: VecDeque<Question>,
    /// Questions that the state cannot answer yet; at most [`QUESTIONS_MAX`].
    pub(super) waiting: Vec<Question>,
    /// The parent of the tokens of all running requests and calls. A command that ends their turn takes it out and leaves a new
    /// one.
    stop: CancellationToken,
    /// The tickets whose request or call has a worker that has not reported, each with what stops the worker.
    pub(super) at_work: Vec<(Seq, CancellationToken)>,
    /// What has arrived of the answer that is being made.
    pub(super) arrived: Weak<Lock<Arrived>>,
    /// An opened tape with its state, for the next incarnation.
    pub(super) prepared: Option<(OpenTape, State)>,
    /// All who ask the session to sleep and have no answer yet. Whoever settles the matter takes them out and tells them: the
    /// actor that stays awake, the end of its place, the next incarnation, a parking, an unreadable tape, the end of the runtime.
    pub(super) sleepers: Vec<Slept>,
    /// Whether the actor says that nothing keeps the session awake.
    pub(super) idle: bool,
    /// The supervisor dropped the place before the activation was over.
    pub(super) vacated: bool,
    /// An operator stops the session: no input is taken until the actor is down.
    pub(super) stopped: bool,
    /// When the session woke up.
    pub(super) born: Option<Instant>,
}

impl Inbox {
    /// Puts a command into the mailbox. Refuses it if the mailbox is full; or, for a command that adds work, if the disk is full
    /// and what it refused still waits.
    pub(super) fn command(
        &mut self,
        to: ReplyTo,
        command: Command,
    ) -> Result<oneshot::Receiver<Result<CarriedOut, SendError>>, SendError> {
        if self.mailbox.is_full(&command) {
            // Commands of senders who stopped waiting make room, unless they are in hand. They are not carried out. `Session::send`
            // and `docs/CANCELLATION.md` say so. The alternative was rejected: where the disk hangs, senders who come again and
            // again with a short time limit would keep everybody out, and nobody waits for what is thrown out.
            let gone: Vec<_> = self.replies.iter().filter(|(_, reply)| reply.is_closed()).map(|(to, _)| *to).collect();
            gone.into_iter().filter(|to| self.mailbox.withdraw(*to)).for_each(|to| drop(self.replies.remove(&to)));
        }
        if let Err(not_taken) = self.mailbox.command(to, command, Some(CommandId::new())) {
            if let Some(node) = &self.node {
                node.rejected();
            }
            return Err(match not_taken {
                NotTaken::Full(depth) => SendError::Refused(Refusal::InboxFull { depth }),
                NotTaken::Disk(error) => SendError::Storage(error),
            });
        }
        let (reply, answer) = oneshot::channel();
        self.replies.insert(to, reply);
        self.show_depth();
        Ok(answer)
    }

    /// Takes out the token of the running workers. Cancel it outside of every lock; workers that start from here on have another
    /// token, however late the cancel comes.
    pub(super) fn take_stop(&mut self) -> CancellationToken {
        std::mem::take(&mut self.stop)
    }

    /// The token that stops a worker that is about to start.
    pub(super) fn stop_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    pub(super) fn question(&mut self, question: Question) -> Result<(), SendError> {
        if self.questions.len() >= QUESTIONS_MAX {
            // Questions of callers who stopped waiting make room, also while the actor is stuck and takes none.
            self.questions.retain(Question::is_waited_for);
        }
        let depth = self.questions.len();
        if depth >= QUESTIONS_MAX {
            return Err(SendError::Refused(Refusal::InboxFull { depth }));
        }
        self.questions.push_back(question);
        Ok(())
    }

    /// Takes the next piece of work: a settled append first, then inputs, then questions, then sleep. `state` is the state that the tape has.
    pub(super) fn take(&mut self, state: &State, now: Millis) -> Option<Work> {
        if let Some(settled) = self.settled.take() {
            return Some(Work::Settled(settled));
        }
        match self.mailbox.next(state, now) {
            Act::Decide(inputs) => return Some(Work::Decide(inputs)),
            Act::Stop(input) => return Some(Work::Stop(input)),
            Act::Rest => {}
        }
        let asked_to_sleep = || (!self.sleepers.is_empty()).then_some(Work::Sleep);
        let rest = self.questions.pop_front().map(Work::Question).or_else(asked_to_sleep);
        self.woken &= rest.is_some();
        rest
    }

    /// Removes the commands that are over, and returns the answers for their senders.
    pub(super) fn ends(&mut self, ends: Vec<(ReplyTo, CommandEnd)>) -> Ends {
        let ends = ends.into_iter().filter_map(|(to, end)| {
            let how = match end {
                CommandEnd::Decided(reply) => reply.map_err(SendError::from),
                CommandEnd::NotRecorded(error) => Err(SendError::Storage(error)),
                CommandEnd::Crashed => Err(SendError::Crashed),
            };
            Some((self.replies.remove(&to)?, how))
        });
        let ends = ends.collect();
        self.show_depth();
        ends
    }

    /// Withdraws a command whose sender has waited long enough, unless it is in hand or a stop. Returns the error for the sender.
    pub(super) fn withdraw(&mut self, to: ReplyTo) -> SendError {
        let is_out = self.mailbox.withdraw(to);
        self.replies.remove(&to);
        self.show_depth();
        match is_out {
            true => SendError::Storage(TapeError::Busy { waiting: self.mailbox.depth() }),
            false => SendError::Unsettled { message: None },
        }
    }

    pub(super) fn show_depth(&self) {
        if let Some(node) = &self.node {
            node.inbox(self.mailbox.depth());
        }
    }

    /// How many questions wait.
    #[cfg(test)]
    pub(super) fn asked(&self) -> usize {
        self.questions.len()
    }

    /// Whether nothing in the inbox needs an actor: no input, no question, and no kept question that somebody waits for. Who asks
    /// the session to sleep needs none.
    pub(super) fn is_empty(&self) -> bool {
        self.mailbox.is_empty() && self.settled.is_none() && self.questions.is_empty() && !self.is_waited_for()
    }

    /// Whether a kept question needs the actor: somebody waits for its answer. A parent's question about asks does not count: a
    /// session with an open ask does not sleep, and without one there is nothing to tell.
    pub(super) fn is_waited_for(&self) -> bool {
        self.waiting.iter().any(|question| !matches!(question, Question::Asks(..)) && question.is_waited_for())
    }

    /// Begins an incarnation over a tape that ends at `last`. Returns the answers to commands that its predecessor had in hand.
    pub(super) fn begin_incarnation(
        &mut self,
        incarnation: u32,
        actor: shell::Mailbox<Wake>,
        node: Arc<NodeState>,
        recover: Input,
        last: Seq,
    ) -> Ends {
        self.actor = Some(actor);
        self.node = Some(node);
        self.settled = None;
        self.at_work.clear();
        self.woken = false;
        self.idle = false;
        self.stopped = false;
        let ends = self.mailbox.begin(incarnation, recover, last);
        let ends = self.ends(ends);
        self.wake();
        ends
    }

    /// Wakes the actor, with one wake until it has emptied the inbox.
    pub(super) fn wake(&mut self) {
        if self.woken {
            return;
        }
        if let Some(actor) = &self.actor {
            // If the actor is gone, the next incarnation looks by itself.
            self.woken = actor.send(Wake).is_ok();
        }
    }

    pub(super) fn wake_again(&mut self) {
        self.woken = false;
        self.wake();
    }

    /// Takes out all waiting callers, except those whose command is in hand: it may be on its way to the tape, and keeps its place
    /// until that is settled. `stops_too`: stops leave as well; otherwise they stay for the next incarnation.
    pub(super) fn take_waiters(&mut self, stops_too: bool) -> Waiters {
        let commands =
            self.mailbox.take_waiting(stops_too).into_iter().filter_map(|to| self.replies.remove(&to)).collect();
        self.show_depth();
        let waiting = std::mem::take(&mut self.waiting);
        Waiters { commands, questions: self.questions.drain(..).chain(waiting).collect() }
    }

    /// Drops the inputs in hand, because the actor does not come back. Returns the senders who wait for an answer.
    pub(super) fn take_hand(&mut self) -> Vec<Unsettled> {
        let unsettled = self.take_unsettled();
        self.mailbox.drop_hand();
        unsettled
    }

    /// Takes out the senders of commands in hand; the commands stay.
    pub(super) fn take_unsettled(&mut self) -> Vec<Unsettled> {
        let left = self.mailbox.in_hand();
        let unsettled = left.into_iter().filter_map(|left| {
            let reply = self.replies.remove(&left.reply)?;
            Some(Unsettled(left, reply))
        });
        let unsettled = unsettled.collect();
        self.show_depth();
        unsettled
    }
}

/// A command in hand whose actor will not answer it, with its sender.
pub(super) struct Unsettled(Left, Reply<CarriedOut>);

impl Unsettled {
    /// Answers the sender. `last` is the last entry of the tape: if the decision is on the tape, the sender gets its answer,
    /// otherwise `refusal`. If `last` is unknown (`None`), the sender gets `Unsettled`.
    pub(super) fn tell(self, last: Option<Seq>, refusal: &SendError) {
        let Unsettled(Left { message, decided, .. }, reply) = self;
        let answer = match (last, decided) {
            (None, _) => Err(SendError::Unsettled { message }),
            (Some(last), Some((upto, answer))) if upto <= last => answer.map_err(SendError::from),
            (Some(_), _) => Err(refusal.clone()),
        };
        // A caller that has dropped its receiver can send the message again with the same message id.
        drop(reply.send(answer));
    }
}

/// Callers whose answer will not come. Refuse them outside of every lock.
#[derive(Default)]
#[must_use]
pub(super) struct Waiters {
    commands: Vec<Reply<CarriedOut>>,
    questions: Vec<Question>,
}

impl Waiters {
    pub(super) fn refuse(self, error: &SendError) {
        // A caller may have dropped its receiver.
        self.commands.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
        self.questions.into_iter().for_each(|question| question.refuse(error.clone()));
    }
}

#[cfg(test)]
mod tests;
