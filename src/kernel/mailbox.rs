//! A session's mailbox: the inputs that wait for its actor, in order, and the choice of the next ones. A plain value, without a
//! lock, a clock or a disk; the actor and the simulator drive the same one. `docs/ARCHITECTURE.md` ("The mailbox") has the order
//! of the inputs, and the rules for a disk that refuses an append and for an input that kills the actor.
//!
//! ```text
//!   command, report ──► waiting ── next ──► in hand ── handed_over ──► in flight ── recorded ──► gone, sender answered
//!                          ▲                   │                          │
//!                          └─── refused, or the incarnation died ─────────┘
//! ```
//!
//! A change must keep that an input leaves only where
//!
//! - it was decided, and what the decision wrote (if anything) is on the tape;
//! - it is a command that is given up, and its sender learns why;
//! - it is a command whose sender no longer waits, and takes it back;
//! - the actor will never come back.
//!
//! A report may be replaced, by a smaller one or by a failure of its ticket, and does not leave. The slot (`actor/slot.rs`) calls
//! every method under its lock, so no method may block.

mod batch;
mod incarnations;
mod smaller;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    kernel::{Command, Entry, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Input, NoteSent, Reply, ReplyTo, Report, State},
    tape::TapeError,
    words::ids::{CommandId, MessageId, Millis, Seq},
};
use batch::next_batch;
pub(crate) use smaller::kept;
use smaller::{failure, smaller};

/// The most inputs of one append.
const BATCH_MAX: usize = 64;

/// The most bytes of the inputs of one append, about. One input alone may be larger.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// The most commands that may be here before a command that adds work is refused.
const COMMANDS_MAX: usize = INBOX_STEERING_MAX + INBOX_QUEUED_MAX;

/// The most commands of every kind that may be here, stops and answers included: a bound for a host that repeats an abort while the
/// disk refuses.
const COMMANDS_OF_ALL_KINDS_MAX: usize = 4 * COMMANDS_MAX;

/// How long after a refusal of the disk the remaining inputs are tried again.
const REFUSED_WAIT: Duration = Duration::from_millis(500);

/// How many incarnations die over an input before the input counts as the cause and is given up.
const DEATHS_MAX: u8 = 2;

/// The inputs of one session that are not on the tape yet. See the module.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// The waiting inputs, by the number of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    /// The number that the next input gets.
    arrivals: u64,
    /// The inputs that are being decided about, or whose append is in flight.
    hand: Option<Hand>,
    /// The present incarnation: reports of earlier ones are dropped.
    incarnation: u32,
    /// The recovery that this incarnation is told first; `None` once the tape has what follows from it.
    recover: Option<Input>,
    /// The newest refusal of the disk; `None` after the next append that it takes.
    refused: Option<Refused>,
    /// The moment that the core was last told had passed, and the seq of the state it was told over: each pair is told once.
    timed: Option<(Millis, Seq)>,
    /// The end of the limit of time whose stops were carried out while the record had to wait.
    stopped: Option<Millis>,
}

#[derive(Debug)]
struct Waiting {
    input: Input,
    flags: Flags,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    /// Whether the disk has refused the input, or refused another while it waited.
    tried: bool,
    /// Whether the workers that the input stops were told to stop.
    stopped: bool,
    /// Whether the input is decided about alone, because an append with others was refused for what was in it.
    alone: bool,
    /// How many incarnations died over the input.
    deaths: u8,
}

/// The inputs that are being decided about, or written.
#[derive(Debug)]
struct Hand {
    /// The arrival number and the flags of each input that waited, in the order of `inputs`. An input that follows from the state
    /// alone (a timer, a recovery, a hold) stands behind them in `inputs` and has no number.
    of: Vec<(u64, Flags)>,
    inputs: Arc<Vec<Input>>,
    /// From the hand-over to the answer of the tape. `None` before.
    flight: Option<Flight>,
}

/// An append on its way to the tape.
#[derive(Debug)]
struct Flight {
    entries: Arc<Vec<Entry>>,
    /// Given once the tape has the entries.
    replies: Vec<(ReplyTo, Reply)>,
}

#[derive(Debug)]
struct Refused {
    until: Millis,
    error: TapeError,
}

/// What an actor does next.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Decide about these inputs, in one append.
    Decide(Arc<Vec<Input>>),
    /// Stop the workers that this input stops, and no more: its record has to wait.
    Stop(Box<Input>),
    /// Do nothing until the next input or the next due moment.
    Rest,
}

/// What became of a command.
#[derive(Clone, Debug)]
pub(crate) enum CommandEnd {
    /// The command was decided with this reply, and the decision is on the tape.
    Decided(Reply),
    /// The disk refused the record of the command. The command never takes effect.
    NotRecorded(TapeError),
    /// Two incarnations died over the command. The command never takes effect.
    Crashed,
}

/// Why an input is not taken.
#[derive(Clone, Debug)]
pub(crate) enum NotTaken {
    /// The mailbox is full: it holds this many commands.
    Full(usize),
    /// The disk is full, and its reserve is kept for closing open tickets.
    Disk(TapeError),
}

/// A command that was in hand when its actor ended for good.
#[derive(Debug)]
pub(crate) struct Left {
    /// The sender to answer.
    pub reply: ReplyTo,
    /// The id of the message that the command sends; `None` for any other command.
    pub message: Option<MessageId>,
    /// The entries of the append, and the reply that was decided: it holds if the tape has them.
    pub decided: Option<(Arc<Vec<Entry>>, Reply)>,
}

impl Mailbox {
    // ---- what comes in -------------------------------------------------------------------------------------------------

    /// Takes in a command. `ReplyTo::NOBODY` is a command of the session itself and is taken even when the mailbox is full.
    ///
    /// # Errors
    /// [`NotTaken`]: the mailbox is unchanged, and the command never takes effect.
    pub(crate) fn command(&mut self, reply: ReplyTo, command: Command, id: Option<CommandId>) -> Result<(), NotTaken> {
        if reply != ReplyTo::NOBODY && self.is_full(&command) {
            return Err(NotTaken::Full(self.depth()));
        }
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.error.is_full() && command.adds_work())
            && self.waiting.values().any(|waiting| waiting.flags.tried)
        {
            // The disk's reserve is for the stops and reports that stay here: they close open tickets.
            return Err(NotTaken::Disk(refused.error.clone()));
        }
        self.put(Input::Command { reply, command, id });
        Ok(())
    }

    /// Whether the mailbox is too full to take this command.
    #[must_use]
    pub(crate) fn is_full(&self, command: &Command) -> bool {
        self.depth() >= if command.adds_work() { COMMANDS_MAX } else { COMMANDS_OF_ALL_KINDS_MAX }
    }

    /// Takes in the report of a worker about its ticket, and says whether it was taken. A report of an earlier incarnation, or a
    /// second report about the same ticket while the first is here, is dropped.
    pub(crate) fn report(&mut self, incarnation: u32, ticket: Seq, report: Report) -> bool {
        let is_news = incarnation == self.incarnation && !self.has_report(ticket);
        if is_news {
            self.put(report.of(ticket));
        }
        is_news
    }

    /// Takes in the word of a worker that a provider has a message for its answer. That of an earlier incarnation is dropped.
    pub(crate) fn note_sent(&mut self, incarnation: u32, note: NoteSent) {
        if incarnation == self.incarnation {
            self.put(Input::Command { reply: ReplyTo::NOBODY, command: note.into(), id: None });
        }
    }

    fn put(&mut self, input: Input) {
        self.waiting.insert(self.arrivals, Waiting { input, flags: Flags::default() });
        self.arrivals += 1;
    }

    // ---- what is done ---------------------------------------------------------------------------------------------------

    /// Chooses what the actor does next. `state` is the state that the tape has.
    pub(crate) fn next(&mut self, state: &State, now: Millis) -> Act {
        let must_wait = self.refused.as_ref().is_some_and(|refused| now < refused.until);
        if self.hand.is_some() || (must_wait && self.waiting.values().all(|waiting| waiting.flags.tried)) {
            return self.next_stop(state, now);
        }
        let reports = self.waiting.iter().filter(|(_, waiting)| waiting.input.reported().is_some());
        if let Some((suspect, _)) = reports.clone().find(|(_, waiting)| waiting.is_suspect()) {
            // A suspect report goes first, so that a stream of commands cannot keep it waiting.
            let (suspect, hold) = (*suspect, self.recover.is_some().then_some(Input::Hold));
            return self.take(vec![suspect], hold);
        }
        if let Some(recover) = self.recover.clone() {
            return self.take(reports.map(|(at, _)| *at).collect(), Some(recover));
        }
        let batch = next_batch(&self.waiting);
        let is_alone = batch.first().is_some_and(|at| self.waiting[at].is_alone());
        let due = state.due().filter(|due| *due <= now).map(|due| (due, state.seq));
        let timer = due.filter(|due| !is_alone && self.timed != Some(*due));
        self.timed = timer.or(self.timed);
        match batch.is_empty() && timer.is_none() {
            true => {
                // What the disk refused has left, so nothing is due because of it.
                self.refused = None;
                Act::Rest
            }
            false => self.take(batch, timer.map(|_| Input::Timer)),
        }
    }

    /// Chooses what to stop while its record has to wait.
    fn next_stop(&mut self, state: &State, now: Millis) -> Act {
        let stop = self.waiting.values_mut().find(|waiting| waiting.input.is_stop() && !waiting.flags.stopped);
        if let Some(stop) = stop {
            stop.flags.stopped = true;
            return Act::Stop(Box::new(stop.input.clone()));
        }
        let Some(over) = self.time_is_over_at(state).filter(|over| *over <= now) else { return Act::Rest };
        self.stopped = Some(over);
        Act::Stop(Box::new(Input::Timer))
    }

    /// The moment at which a limit of time ends and running work must be stopped, even if the record has to wait. `None` once those
    /// stops were carried out.
    fn time_is_over_at(&self, state: &State) -> Option<Millis> {
        state.time_is_over_at().filter(|over| self.recover.is_none() && self.stopped != Some(*over))
    }

    fn take(&mut self, batch: Vec<u64>, last: Option<Input>) -> Act {
        let (mut of, mut inputs) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len() + 1));
        for at in batch {
            let Some(Waiting { input, flags }) = self.waiting.remove(&at) else { continue };
            of.push((at, flags));
            inputs.push(input);
        }
        inputs.extend(last);
        let inputs = Arc::new(inputs);
        self.hand = Some(Hand { of, inputs: inputs.clone(), flight: None });
        Act::Decide(inputs)
    }

    // ---- what became of it -----------------------------------------------------------------------------------------------

    /// Notes that an append was handed to the tape, with the replies to give once the tape has it.
    pub(crate) fn handed_over(&mut self, entries: Arc<Vec<Entry>>, replies: Vec<(ReplyTo, Reply)>) {
        if let Some(hand) = &mut self.hand {
            hand.flight = Some(Flight { entries, replies });
        }
    }

    /// The tape has the decision, or there was nothing to record: the inputs in hand leave. Gives the replies to their senders.
    pub(crate) fn recorded(&mut self) -> Vec<(ReplyTo, Reply)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        if hand.inputs.iter().any(|input| matches!(input, Input::Recover { .. })) {
            self.recover = None;
        }
        self.refused = None;
        hand.flight.map(|flight| flight.replies).unwrap_or_default()
    }

    /// The tape refused the append: nothing of it is there, and the state is unchanged. Gives the commands that leave, each with
    /// the answer to its sender; stops and reports stay.
    pub(crate) fn refused(&mut self, error: &TapeError, now: Millis) -> Vec<(ReplyTo, CommandEnd)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        let of: Vec<_> = hand.of.iter().map(|(at, _)| *at).collect();
        let is_known_alone = matches!(hand.of[..], [(_, flags)] if flags.alone || hand.inputs.len() == 1);
        self.timed = None;
        self.put_back(hand);
        let is_the_inputs = matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. });
        if is_the_inputs && !of.is_empty() && !is_known_alone {
            // Each input is tried by itself: nobody knows yet which of them does not fit.
            for (at, waiting) in &mut self.waiting {
                waiting.flags.alone |= of.contains(at);
            }
            return Vec::new();
        }
        if let (true, [alone]) = (is_the_inputs, &of[..])
            && let Some(waiting) = self.waiting.get_mut(alone)
        {
            if let Some(smaller) = smaller(&waiting.input, error) {
                waiting.input = smaller;
                return Vec::new();
            }
            if waiting.input.reported().is_none() {
                let gone = self.waiting.remove(alone).and_then(|gone| gone.input.reply());
                return gone.map(|reply| (reply, CommandEnd::NotRecorded(error.clone()))).into_iter().collect();
            }
        }
        self.refused = Some(Refused { until: now.plus(REFUSED_WAIT), error: error.clone() });
        // Inputs behind a refused one count as refused too: tried now, they would be recorded out of order.
        self.waiting.values_mut().for_each(|waiting| waiting.flags.tried = true);
        let gone = self.take_out(|waiting| !waiting.input.is_stop());
        gone.into_iter().map(|reply| (reply, CommandEnd::NotRecorded(error.clone()))).collect()
    }

    /// Takes out the commands that `which` selects, and gives the senders to answer.
    fn take_out(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<ReplyTo> {
        let is_such = |waiting: &Waiting| matches!(waiting.input, Input::Command { .. }) && which(waiting);
        let gone = self.waiting.extract_if(.., |_, waiting| is_such(waiting));
        gone.filter_map(|(_, waiting)| waiting.input.reply()).collect()
    }

    fn put_back(&mut self, hand: Hand) {
        let inputs = Arc::try_unwrap(hand.inputs).unwrap_or_else(|inputs| (*inputs).clone());
        for ((at, flags), input) in hand.of.into_iter().zip(inputs) {
            self.waiting.insert(at, Waiting { input, flags });
        }
    }

    // ---- what is shown ---------------------------------------------------------------------------------------------------

    /// All inputs: those that wait and those in hand.
    fn all(&self) -> impl Iterator<Item = &Input> {
        let in_hand = self.hand.iter().flat_map(|hand| hand.inputs.iter());
        self.waiting.values().map(|waiting| &waiting.input).chain(in_hand)
    }

    /// How many commands have no answer yet.
    #[must_use]
    pub(crate) fn depth(&self) -> usize {
        self.all().filter(|input| matches!(input, Input::Command { .. })).count()
    }

    /// How many reports the disk has refused, and has not taken since: they are lost if the mailbox goes.
    #[must_use]
    pub(crate) fn unrecorded(&self) -> usize {
        let is_refused = self.refusal().is_some();
        self.all().filter(|input| is_refused && input.reported().is_some()).count()
    }

    /// Whether nothing waits and nothing is in hand.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.hand.is_none()
    }

    /// Whether a report about the ticket waits or is in hand.
    #[must_use]
    pub(crate) fn has_report(&self, ticket: Seq) -> bool {
        self.all().any(|input| input.reported() == Some(ticket))
    }

    /// Whether the tape has the recovery of this incarnation.
    #[must_use]
    pub(crate) fn is_recovered(&self) -> bool {
        self.recover.is_none()
    }

    /// Whether work may begin: not while a stop waits for its record, nor before the record of the recovery.
    #[must_use]
    pub(crate) fn may_begin(&self) -> bool {
        self.recover.is_none() && !self.waiting.values().any(|waiting| waiting.input.is_stop())
    }

    /// The entries of the append that is in flight; `None` if none is.
    #[must_use]
    pub(crate) fn in_flight(&self) -> Option<&Arc<Vec<Entry>>> {
        self.hand.as_ref()?.flight.as_ref().map(|flight| &flight.entries)
    }

    /// The newest refusal of the disk, while an input or a recovery still waits for its record.
    #[must_use]
    pub(crate) fn refusal(&self) -> Option<&TapeError> {
        let waits = !self.is_empty() || self.recover.is_some();
        self.refused.as_ref().filter(|_| waits).map(|refused| &refused.error)
    }

    /// The moment at which the actor must call `next` again without a new input: a deadline of the state, or the retry after a
    /// refusal of the disk. Never a past moment at which `next` would do nothing.
    #[must_use]
    pub(crate) fn due(&self, state: &State) -> Option<Millis> {
        if self.hand.is_some() {
            return self.time_is_over_at(state);
        }
        let timer = state.due().filter(|due| self.timed != Some((*due, state.seq)));
        let Some(refused) = &self.refused else { return timer };
        let waits = !self.waiting.is_empty() || self.recover.is_some();
        let again = if waits { Some(refused.until) } else { timer.map(|due| due.max(refused.until)) };
        again.into_iter().chain(self.time_is_over_at(state)).min()
    }
}

impl Waiting {
    /// Whether an append with others was refused for what was in it, or an incarnation died over the input.
    fn is_suspect(&self) -> bool {
        self.flags.alone || self.flags.deaths > 0
    }

    /// Whether the input is decided about alone.
    fn is_alone(&self) -> bool {
        self.is_suspect() || self.input.stands_alone()
    }
}
