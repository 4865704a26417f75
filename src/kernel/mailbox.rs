//! A session's mailbox: the inputs that wait for its actor, in order, and the choice of the next one. A plain value, without a
//! lock, a clock or a disk; the actor and the simulator drive the same one.
//!
//! An input stays here until the tape has the decision about it. So a crash, a panic of an engine, a full disk and a slow one are
//! one case: the input is still here.
//!
//! ```text
//!   command, report ──► waiting ── next ──► in hand ── handed_over ──► in flight ── recorded ──► gone, its sender is answered
//!                          ▲                   │                          │
//!                          └─── refused, or the incarnation died ─────────┘
//! ```
//!
//! **What one append takes**: what waits, up to 64 inputs and 1 MiB. Commands come in the order of their arrival, then reports; reports
//! that came before a stop are taken before it, and where reports wait, half of the room is theirs. What begins an anchor stands
//! alone, and so does an input that was too large beside others, or that an incarnation died over.
//!
//! **Where the disk refuses**, commands are answered so and go; stops and reports stay and are tried again. What a stop stops is
//! stopped at once, whatever the disk does. What is too large by itself is made smaller where it is a report or a stop, and
//! answered so where it is any other command. A report never leaves but by its record.
//!
//! **No poison**: a command over which two incarnations died is answered [`CommandEnd::Crashed`], a report becomes a failure of its
//! ticket.

mod incarnations;
mod smaller;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    kernel::{Command, INBOX_QUEUED_MAX, INBOX_STEERING_MAX, Input, Reply, ReplyTo, Report, State},
    tape::TapeError,
    words::ids::{CommandId, MessageId, Millis, Seq},
};
pub(crate) use smaller::kept;
use smaller::{failure, smaller};

/// Inputs of one append, at most.
const BATCH_MAX: usize = 64;

/// Bytes of the inputs of one append, about, where it is more than one.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Commands that add work and may wait here.
const COMMANDS_MAX: usize = INBOX_STEERING_MAX + INBOX_QUEUED_MAX;

/// Commands of every kind that may wait here, those included that stop or answer: more than anybody means, and a bound for whoever
/// repeats an abort while a disk refuses.
const COMMANDS_OF_ALL_KINDS_MAX: usize = 4 * COMMANDS_MAX;

/// How long after a refusal of the disk what stays is tried again.
const REFUSED_WAIT: Duration = Duration::from_millis(500);

/// How many incarnations may die over an input before it is taken for the cause.
const DEATHS_MAX: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// By the number of their arrival.
    waiting: BTreeMap<u64, Waiting>,
    arrivals: u64,
    hand: Option<Hand>,
    incarnation: u32,
    /// What this incarnation is told first, until the tape has what follows from it.
    recover: Option<Input>,
    refused: Option<Refused>,
    /// The moment that the core was last told had passed, and over which state: it is told once of each.
    timed: Option<(Millis, Seq)>,
    /// The end of a limit of time whose stops were carried out while the record had to wait.
    stopped: Option<Millis>,
}

#[derive(Debug)]
struct Waiting {
    input: Input,
    marks: Marks,
}

#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// Whether the disk has refused it before.
    tried: bool,
    /// Whether what it stops was told to stop.
    stopped: bool,
    /// Whether it is decided about alone.
    alone: bool,
    /// How many incarnations died over it.
    deaths: u8,
}

/// What is being decided about, or written.
#[derive(Debug)]
struct Hand {
    /// The numbers of the arrival of those that waited. What follows from the state alone stands behind them.
    of: Vec<(u64, Marks)>,
    inputs: Arc<Vec<Input>>,
    /// From hand-over to pop: the newest entry, and the replies.
    flight: Option<(Seq, Vec<(ReplyTo, Reply)>)>,
}

#[derive(Debug)]
struct Refused {
    until: Millis,
    error: TapeError,
}

/// What an actor does next.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Decides about these, in one append.
    Decide(Arc<Vec<Input>>),
    /// Carries out what it stops, and no more: the record has to wait.
    Stop(Box<Input>),
    /// Nothing.
    Rest,
}

/// What became of a command.
#[derive(Clone, Debug)]
pub(crate) enum CommandEnd {
    /// It was decided so, and that is on the tape.
    Decided(Reply),
    /// The disk refused it. It never takes effect.
    NotRecorded(TapeError),
    /// Two incarnations died over it. It never takes effect.
    Crashed,
}

/// Why an input is not taken.
#[derive(Clone, Debug)]
pub(crate) enum NotTaken {
    /// So many wait already.
    Full(usize),
    /// The disk is full, and what is open comes first.
    Disk(TapeError),
}

/// A command that was in hand when its actor ended for good.
#[derive(Debug)]
pub(crate) struct Left {
    /// Whom to answer.
    pub reply: ReplyTo,
    /// Which message, where it sends one.
    pub message: Option<MessageId>,
    /// What was decided, and the entry through which the tape has that, if it has.
    pub decided: Option<(Seq, Reply)>,
}

impl Mailbox {
    // ---- what comes in -------------------------------------------------------------------------------------------------

    /// Puts in what somebody wants.
    ///
    /// # Errors
    /// [`NotTaken`]: nothing was taken.
    pub(crate) fn command(&mut self, reply: ReplyTo, command: Command, id: Option<CommandId>) -> Result<(), NotTaken> {
        if reply != ReplyTo::NOBODY && self.is_full(&command) {
            return Err(NotTaken::Full(self.depth()));
        }
        if let Some(refused) = self.refused.as_ref().filter(|refused| refused.error.is_full() && command.adds_work())
            && self.waiting.values().any(|waiting| waiting.marks.tried)
        {
            // The disk's reserve is for what stays: it closes what is open.
            return Err(NotTaken::Disk(refused.error.clone()));
        }
        self.put(Input::Command { reply, command, id });
        Ok(())
    }

    /// Whether so many wait that this one is not taken.
    #[must_use]
    pub(crate) fn is_full(&self, command: &Command) -> bool {
        self.depth() >= if command.adds_work() { COMMANDS_MAX } else { COMMANDS_OF_ALL_KINDS_MAX }
    }

    /// Puts in what a worker of that incarnation reports of its ticket. A report of an earlier incarnation, or a second one of the same
    /// ticket, is dropped: no ticket is worked on twice at a time.
    pub(crate) fn report(&mut self, incarnation: u32, ticket: Seq, report: Report) -> bool {
        let is_news = incarnation == self.incarnation && !self.has_report(ticket);
        if is_news {
            self.put(report.of(ticket));
        }
        is_news
    }

    fn put(&mut self, input: Input) {
        self.waiting.insert(self.arrivals, Waiting { input, marks: Marks::default() });
        self.arrivals += 1;
    }

    // ---- what is done ---------------------------------------------------------------------------------------------------

    /// What the actor does next, over the state that the tape has.
    pub(crate) fn next(&mut self, state: &State, now: Millis) -> Act {
        let must_wait = self.refused.as_ref().is_some_and(|refused| now < refused.until);
        if self.hand.is_some() || (must_wait && self.waiting.values().all(|waiting| waiting.marks.tried)) {
            return self.next_stop(state, now);
        }
        let reports = self.waiting.iter().filter(|(_, waiting)| waiting.input.reported().is_some());
        if let Some((suspect, _)) = reports.clone().find(|(_, waiting)| waiting.is_suspect()) {
            // First of all, so that commands that go on coming do not keep it waiting.
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
            true => Act::Rest,
            false => self.take(batch, timer.map(|_| Input::Timer)),
        }
    }

    /// What is to be stopped while the record of it has to wait.
    fn next_stop(&mut self, state: &State, now: Millis) -> Act {
        let stop = self.waiting.values_mut().find(|waiting| waiting.input.is_stop() && !waiting.marks.stopped);
        if let Some(stop) = stop {
            stop.marks.stopped = true;
            return Act::Stop(Box::new(stop.input.clone()));
        }
        let Some(over) = self.time_is_over_at(state).filter(|over| *over <= now) else { return Act::Rest };
        self.stopped = Some(over);
        Act::Stop(Box::new(Input::Timer))
    }

    /// When what runs is to be stopped, though the record of it has to wait: a limit of time is over. Once.
    fn time_is_over_at(&self, state: &State) -> Option<Millis> {
        state.time_is_over_at().filter(|over| self.recover.is_none() && self.stopped != Some(*over))
    }

    fn take(&mut self, batch: Vec<u64>, last: Option<Input>) -> Act {
        let (mut of, mut inputs) = (Vec::new(), Vec::new());
        for at in batch {
            let Some(Waiting { input, marks }) = self.waiting.remove(&at) else { continue };
            of.push((at, marks));
            inputs.push(input);
        }
        inputs.extend(last);
        let inputs = Arc::new(inputs);
        self.hand = Some(Hand { of, inputs: inputs.clone(), flight: None });
        Act::Decide(inputs)
    }

    // ---- what became of it -----------------------------------------------------------------------------------------------

    /// What was decided is handed to the tape, through that entry, and will be answered so.
    pub(crate) fn handed_over(&mut self, upto: Seq, replies: Vec<(ReplyTo, Reply)>) {
        if let Some(hand) = &mut self.hand {
            hand.flight = Some((upto, replies));
        }
    }

    /// The tape has what was decided, or there was nothing to record: the inputs leave, and their senders are answered.
    pub(crate) fn recorded(&mut self) -> Vec<(ReplyTo, Reply)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        if hand.inputs.iter().any(|input| matches!(input, Input::Recover { .. })) {
            self.recover = None;
        }
        let (_, replies) = hand.flight.unwrap_or_default();
        self.refused = None;
        replies
    }

    /// The tape does not take what was decided: nothing of it is there, and the state is what it was. Commands are answered so; stops
    /// and reports stay.
    pub(crate) fn refused(&mut self, error: &TapeError, now: Millis) -> Vec<(ReplyTo, CommandEnd)> {
        let Some(hand) = self.hand.take() else { return Vec::new() };
        let of: Vec<_> = hand.of.iter().map(|(at, _)| *at).collect();
        let is_known_alone = matches!(hand.of[..], [(_, marks)] if marks.alone || hand.inputs.len() == 1);
        self.timed = None;
        self.put_back(hand);
        let is_the_inputs = matches!(error, TapeError::TooLarge { .. } | TapeError::AnchorExists { .. });
        if is_the_inputs && !of.is_empty() && !is_known_alone {
            // Each by itself: the others fit, as far as anybody knows.
            for (at, waiting) in &mut self.waiting {
                waiting.marks.alone |= of.contains(at);
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
        // What comes behind what the disk refuses is refused as well: tried, it would be recorded out of its order, and at once.
        self.waiting.values_mut().for_each(|waiting| waiting.marks.tried = true);
        let gone = self.take_out(|waiting| !waiting.input.is_stop());
        gone.into_iter().map(|reply| (reply, CommandEnd::NotRecorded(error.clone()))).collect()
    }

    /// Takes out the commands that are such: whom to answer.
    fn take_out(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<ReplyTo> {
        let is_such = |waiting: &Waiting| matches!(waiting.input, Input::Command { .. }) && which(waiting);
        let gone = self.waiting.extract_if(.., |_, waiting| is_such(waiting));
        gone.filter_map(|(_, waiting)| waiting.input.reply()).collect()
    }

    fn put_back(&mut self, hand: Hand) {
        let inputs = Arc::try_unwrap(hand.inputs).unwrap_or_else(|inputs| (*inputs).clone());
        for ((at, marks), input) in hand.of.into_iter().zip(inputs) {
            self.waiting.insert(at, Waiting { input, marks });
        }
    }

    // ---- what is shown ---------------------------------------------------------------------------------------------------

    /// What waits, and what is in hand.
    fn all(&self) -> impl Iterator<Item = &Input> {
        let in_hand = self.hand.iter().flat_map(|hand| hand.inputs.iter());
        self.waiting.values().map(|waiting| &waiting.input).chain(in_hand)
    }

    /// How many commands have no answer yet.
    #[must_use]
    pub(crate) fn depth(&self) -> usize {
        self.all().filter(|input| matches!(input, Input::Command { .. })).count()
    }

    /// Whether nothing waits and nothing is in hand.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.hand.is_none()
    }

    /// Whether a report of that ticket waits, or is in hand.
    #[must_use]
    pub(crate) fn has_report(&self, ticket: Seq) -> bool {
        self.all().any(|input| input.reported() == Some(ticket))
    }

    /// Whether work may begin: not while a stop waits for its record, nor before the record of the recovery.
    #[must_use]
    pub(crate) fn may_begin(&self) -> bool {
        self.recover.is_none() && !self.waiting.values().any(|waiting| waiting.input.is_stop())
    }

    /// Through which entry an append is in flight.
    #[must_use]
    pub(crate) fn in_flight(&self) -> Option<Seq> {
        self.hand.as_ref()?.flight.as_ref().map(|(upto, _)| *upto)
    }

    /// Why the disk refused last, where something waits for it still.
    #[must_use]
    pub(crate) fn refusal(&self) -> Option<&TapeError> {
        let waits = !self.is_empty() || self.recover.is_some();
        self.refused.as_ref().filter(|_| waits).map(|refused| &refused.error)
    }

    /// When it is to be asked again by itself: a moment of the state, or what the disk refused. Never a moment that has passed and of
    /// which it makes nothing.
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
    /// Whether it was too large beside others, or an incarnation died over it.
    fn is_suspect(&self) -> bool {
        self.marks.alone || self.marks.deaths > 0
    }

    /// Whether it is decided about alone.
    fn is_alone(&self) -> bool {
        self.is_suspect() || self.input.stands_alone()
    }
}

/// What the next append takes, in its order.
fn next_batch(waiting: &BTreeMap<u64, Waiting>) -> Vec<u64> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    for at in in_order(waiting) {
        let next = &waiting[&at];
        let size = next.input.bytes();
        let fits = batch.len() < BATCH_MAX && bytes + size <= BATCH_BYTES_MAX && !next.is_alone();
        if !batch.is_empty() && !fits {
            break;
        }
        batch.push(at);
        bytes += size;
        if next.is_alone() {
            break;
        }
    }
    batch
}

/// Commands as they came, then reports; those that came before a stop are before it. Where reports wait, commands that go on
/// coming do not keep them waiting.
fn in_order(waiting: &BTreeMap<u64, Waiting>) -> Vec<u64> {
    let (mut order, mut reports) = (Vec::with_capacity(waiting.len()), Vec::new());
    let has_reports = waiting.values().any(|waiting| waiting.input.reported().is_some());
    let commands_max = if has_reports { BATCH_MAX / 2 } else { usize::MAX };
    let mut commands = 0;
    for (at, Waiting { input, .. }) in waiting {
        match input {
            Input::Report { .. } => reports.push(*at),
            _ if commands == commands_max => {}
            input => {
                if input.is_stop() {
                    order.append(&mut reports);
                }
                order.push(*at);
                commands += 1;
            }
        }
    }
    order.append(&mut reports);
    order
}
