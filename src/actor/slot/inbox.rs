//! The inbox of an awake session: its mailbox, the callers who wait for an answer, the published state, and the handle of the actor.
//!
//! A plain value without a lock of its own: the slot locks it. It outlives every crash of the actor, and is dropped when the
//! session becomes passive; callers who are left are answered then (`sleep.rs`). Commands and waiters have a bound. In a full
//! queue, entries of callers who stopped waiting make room, except a command in hand or a stop; if that is not enough, the new
//! one is refused.
//!
//! A change must keep that no method of [`Inbox`] waits or answers a caller, because the slot's lock is held. The methods return
//! the answers ([`Ends`], [`Waiters`], [`Unsettled`]) and tokens, and the slot sends and cancels them after the unlock.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::oneshot, time::Instant};
use tokio_util::task::TaskTracker;

use crate::{
    actor::{
        slot::{
            slept::Slept,
            waiter::{Published, Waiter},
            workers::Workers,
        },
        toolset::Toolset,
        trace_link::TurnSpan,
    },
    error::SendError,
    kernel::{Act, CarriedOut, Command, CommandEnd, Entry, Input, Left, Mailbox, NotTaken, Refusal, ReplyTo, State},
    supervisor::{NodeState, shell},
    tape::{OpenTape, TapeError},
    words::ids::{CommandId, Millis, Seq},
};

/// The sender of an answer, or of the reason why there will be none.
pub(crate) type ReplySender<T> = oneshot::Sender<Result<T, SendError>>;

/// The answers to commands that are over. Send them outside of every lock.
pub(super) type Ends = Vec<(ReplySender<CarriedOut>, Result<CarriedOut, SendError>)>;

/// The message that wakes a session's actor: its slot has work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wake;

/// The handle of the actor, woken with one wake until it has emptied the inbox.
#[derive(Default)]
pub(super) struct Waker {
    actor: Option<shell::Mailbox<Wake>>,
    /// A wake is on its way, and the actor has not emptied the inbox since.
    woken: bool,
}

impl Waker {
    fn of(actor: shell::Mailbox<Wake>) -> Waker {
        Waker { actor: Some(actor), woken: false }
    }

    pub(super) fn wake(&mut self) {
        if let Some(actor) = self.actor.as_ref().filter(|_| !self.woken) {
            // If the actor is gone, the next incarnation looks without a wake.
            self.woken = actor.send(Wake).is_ok();
        }
    }

    pub(super) fn wake_again(&mut self) {
        self.woken = false;
        self.wake();
    }

    fn is_emptied(&mut self) {
        self.woken = false;
    }

    /// The actor takes no more wakes.
    pub(super) fn is_gone(&mut self) {
        self.actor = None;
    }
}

/// Whether an awake session may be put to sleep.
#[derive(Default)]
pub(super) struct Rest {
    /// Whether the actor says that nothing keeps the session awake.
    pub(super) idle: bool,
    /// When the session woke up.
    pub(super) born: Option<Instant>,
}

/// One piece of work that the actor takes out of its slot.
pub(crate) enum Work {
    /// An append that the tape answered with "later" is on the tape, or has failed; and why nothing may follow it, where the tape is
    /// another's by now.
    Settled(Result<Seq, TapeError>, Option<TapeError>),
    /// Decide these inputs in one append.
    Decide(Arc<Vec<Input>>),
    /// Stop at once what this input stops; its record has to wait.
    Stop(Box<Input>),
    /// Go to sleep, or tell those who ask for it why not.
    Sleep,
}

impl Work {
    /// The kind of a piece of work, and the number of the ticket or message that it is about. Never any content.
    pub(crate) fn about(&self) -> (&'static str, Option<u64>) {
        let input = match self {
            Work::Sleep => return ("sleep", None),
            Work::Settled(Ok(seq), _) => return ("settled", Some(seq.0)),
            Work::Settled(Err(_), _) => return ("not settled", None),
            Work::Stop(input) => input,
            Work::Decide(inputs) => match inputs.first() {
                Some(input) => input,
                None => return ("nothing", None),
            },
        };
        (input.name(), input.about().map(|Seq(seq)| seq))
    }
}

/// What the next incarnation needs of the one before, until the session sleeps.
#[derive(Default)]
pub(super) struct Kept {
    /// The tools of the newest request.
    pub(super) tools: Option<Arc<Toolset>>,
    /// The span of the running turn.
    pub(super) span: Option<Arc<TurnSpan>>,
}

/// What became of the append that an incarnation had in flight when it died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftInFlight {
    OnTheTape,
    /// The tape does not have it; or there was none.
    Nowhere,
}

/// An opened tape, for the next incarnation.
pub(crate) struct Prepared {
    pub(crate) tape: OpenTape,
    pub(crate) state: State,
    pub(crate) flight: LeftInFlight,
}

/// See the module.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) waker: Waker,
    /// The node that shows the depth of the mailbox, also while the actor is stuck.
    pub(super) node: Option<Arc<NodeState>>,
    /// The tracker of all tasks that the incarnations of the actor started since the session woke.
    pub(super) tasks: TaskTracker,
    /// The commands and reports that wait for the actor, in order.
    pub(super) mailbox: Mailbox,
    /// The senders of commands that have no answer yet.
    replies: BTreeMap<ReplyTo, ReplySender<CarriedOut>>,
    /// The tape's answer to the append in flight, until the actor takes it.
    pub(super) settled: Option<Result<Seq, TapeError>>,
    /// Why the tape is not this actor's any more, until the actor takes it: told unasked, or behind an append that was written.
    pub(super) lost: Option<TapeError>,
    pub(super) published: Published,
    pub(super) kept: Kept,
    pub(super) workers: Workers,
    pub(super) prepared: Option<Prepared>,
    /// All who ask the session to sleep and have no answer yet. One of these takes them out and tells them: the
    /// actor that stays awake, the end of its place, the next incarnation, a parking, an unreadable tape, the end of the runtime.
    pub(super) sleepers: Vec<Slept>,
    pub(super) rest: Rest,
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

    /// Takes the next piece of work: a settled append first, then inputs, then sleep. `state` is the state that the tape has.
    pub(super) fn take(&mut self, state: &State, now: Millis) -> Option<Work> {
        match (self.settled.take(), self.lost.take()) {
            (Some(settled), lost) => return Some(Work::Settled(settled, lost)),
            (None, Some(lost)) => return Some(Work::Settled(Err(lost), None)),
            (None, None) => {}
        }
        match self.mailbox.next(state, now) {
            Act::Decide(inputs) => return Some(Work::Decide(inputs)),
            Act::Stop(input) => return Some(Work::Stop(input)),
            Act::Rest => {}
        }
        let rest = (!self.sleepers.is_empty()).then_some(Work::Sleep);
        if rest.is_none() {
            self.waker.is_emptied();
        }
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

    /// Whether nothing in the inbox needs an actor: no input, and no waiter for whom the session stays awake. Who asks the session to
    /// sleep needs none.
    pub(super) fn is_empty(&self) -> bool {
        self.mailbox.is_empty() && self.settled.is_none() && !self.published.is_waited_for()
    }

    /// Begins an incarnation over a tape that ends with `state`. Returns the answers to commands that its predecessor had in hand.
    pub(super) fn begin_incarnation(
        &mut self,
        incarnation: u32,
        actor: shell::Mailbox<Wake>,
        node: Arc<NodeState>,
        recover: Input,
        state: &Arc<State>,
        flight: LeftInFlight,
    ) -> Ends {
        self.waker = Waker::of(actor);
        // Before the answers: who hears that a command is on the tape reads the state next.
        self.published.state = Some(state.clone());
        self.node = Some(node);
        (self.settled, self.lost) = (None, None);
        self.workers.clear();
        self.rest.idle = false;
        let ends = self.mailbox.begin(incarnation, recover, |_| flight == LeftInFlight::OnTheTape);
        let ends = self.ends(ends);
        self.waker.wake();
        ends
    }

    /// Takes out all waiting callers, except those whose command is in hand: it may be on its way to the tape, and keeps its place
    /// until that is settled. `stops_too`: stops leave as well; otherwise they stay for the next incarnation.
    pub(super) fn take_waiters(&mut self, stops_too: bool) -> Waiters {
        let commands =
            self.mailbox.take_waiting(stops_too).into_iter().filter_map(|to| self.replies.remove(&to)).collect();
        self.show_depth();
        Waiters { commands, readers: std::mem::take(&mut self.published.waiters) }
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
pub(super) struct Unsettled(Left, ReplySender<CarriedOut>);

impl Unsettled {
    /// The entries of the append in flight, if the command was decided.
    pub(super) fn flight(&self) -> Option<Arc<Vec<Entry>>> {
        self.0.decided.as_ref().map(|(entries, _)| entries.clone())
    }

    /// Answers the sender: if the append in flight is on the tape, with what was decided, otherwise with `refusal`. If that is unknown
    /// (`None`), the sender gets `Unsettled`.
    pub(super) fn tell(self, flight: Option<LeftInFlight>, refusal: &SendError) {
        let Unsettled(Left { message, decided, .. }, reply) = self;
        let answer = match (flight, decided) {
            (None, _) => Err(SendError::Unsettled { message }),
            (Some(LeftInFlight::OnTheTape), Some((_, answer))) => answer.map_err(SendError::from),
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
    commands: Vec<ReplySender<CarriedOut>>,
    readers: Vec<Waiter>,
}

impl Waiters {
    pub(super) fn refuse(self, error: &SendError) {
        // A caller may have dropped its receiver.
        self.commands.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
        self.readers.into_iter().for_each(|waiter| waiter.refuse(error.clone()));
    }
}

#[cfg(test)]
mod tests;
